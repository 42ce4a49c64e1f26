//! `poolstat --why`: what poold decided lately, and why.

use super::options::named_pools;
use crate::caps::used_up;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure};
use crate::pools;
use crate::values;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use millpond_cli::Parsed;
use millpond_machine::Clock;
use millpond_model::{Nanos, PsetId};
use millpond_planner::{Alternative, Decision, Log, Outlook, read_log};
use millpond_session::{RecordedLine, Session};

/// Who decides.
const WHO: &str = "poold";

/// How many decisions are shown when nobody says.
const COUNT: usize = 10;

/// In the place of the time of a decision that is none of this boot's.
const BEFORE: &str = "before this boot";

pub fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    if parsed.has('r') || parsed.has('o') || parsed.has('T') {
        return Err(Failure::Usage("--why goes with -p, and with none of the other letters".into()));
    }
    let count = count(&parsed.words())?;
    let named = named_pools(parsed)?;
    let session = ctx.reading(&parsed.common)?;
    let sets = sets_of(&session, &named)?;
    let broken = |why: String| {
        let (file, why) = why.rsplit_once(": ").unwrap_or(("the record of poold", &why));
        Complaint::new(format!("read {file}"), why)
    };
    let found = session.recorded(WHO).map_err(broken)?;
    let Some(lines) = found.lines else {
        let complaint =
            Complaint::new("show why", format!("{} has no record of what poold decided", found.place));
        let hint = match session.simulation() {
            Some(_) => {
                "in its shell, svcadm enable -r svc:/system/pools/dynamic:default starts a poold, and run 10s lets it decide"
            }
            None => "start poold (millpond help poold), which writes it",
        };
        return Err(complaint.hint(hint).into());
    };
    let mut exit = Exit::DONE;
    let mut decisions: Vec<Decision> = Vec::new();
    for line in lines {
        if decisions.len() == count {
            break;
        }
        match parse(&line) {
            Ok(None) => {}
            Ok(Some(decision)) => {
                if sets.as_ref().is_none_or(|sets| concerns(&decision, sets)) {
                    decisions.push(decision);
                }
            }
            Err(why) => {
                ctx.warn(why);
                exit = Exit::REFUSED;
            }
        }
    }
    decisions.reverse();
    if parsed.common.json {
        let mut log = Log::default();
        for line in decisions.iter().filter_map(|decision| log.line(decision).ok()) {
            ctx.out.text(&line);
        }
        return Ok(exit);
    }
    if decisions.is_empty() {
        ctx.out.line(if named.is_empty() { "no decisions" } else { "no decisions about these pools" });
    }
    for decision in &decisions {
        ctx.out.text(&told(decision, session.machine().clock(), session.zone()));
    }
    // poold sees threads that wait for a CPU, and those that wait for their cap do not.
    for sentence in used_up(session.machine()) {
        ctx.warn(format_args!("{sentence} since it has that cap: its cap limits it, not its pool"));
    }
    Ok(exit)
}

fn count(words: &[String]) -> Result<usize, Failure> {
    match words {
        [] => Ok(COUNT),
        [word] => {
            values::count(word).ok_or_else(|| Failure::Usage(format!("`{word}` is not a count of decisions")))
        }
        _ => Err(Failure::Usage("--why takes one count".into())),
    }
}

/// The sets of the pools that are named; `None` where none are.
fn sets_of(session: &Session, named: &[String]) -> Result<Option<Vec<PsetId>>, Failure> {
    if named.is_empty() {
        return Ok(None);
    }
    let state = pools::state(session.machine())?;
    let rows = super::rows::rows(&state, named, &super::rows::Measured::Nothing)?;
    let set = |id: i64| u32::try_from(id).map_or(PsetId::DEFAULT, PsetId);
    Ok(Some(rows.iter().map(|row| set(row.pset_id)).collect()))
}

/// A line of a record; `None` for an empty one.
fn parse(line: &RecordedLine) -> Result<Option<Decision>, String> {
    let (mut decisions, errors) = read_log(&line.text);
    match errors.first() {
        None => Ok(decisions.pop()),
        Some(error) => Err(format!(
            "{}: line {} from the end, column {}: {}; it is skipped",
            line.file, line.from_end, error.column, error.what
        )),
    }
}

/// Whether a processor of one of these sets was moved, or could have been.
fn concerns(decision: &Decision, sets: &[PsetId]) -> bool {
    let moves = decision.plan.moves.iter().chain(decision.alternatives.iter().flat_map(|a| &a.moves));
    moves.into_iter().any(|one| sets.contains(&one.from) || sets.contains(&one.to))
}

/// A decision for people.
fn told(decision: &Decision, clock: &dyn Clock, zone: &TimeZone) -> String {
    let (frame, plan) = (&decision.frame, &decision.plan);
    let (now, second) = (clock.now(), |at: Nanos| at.0 / 1_000_000_000);
    let when = if frame.at > now {
        BEFORE.to_owned()
    } else {
        let ago = i64::try_from(second(now) - second(frame.at)).unwrap_or(i64::MAX);
        let at = Timestamp::from_second(clock.wall().0.saturating_sub(ago)).unwrap_or_default();
        at.to_zoned(zone.clone()).strftime("%b %e %H:%M:%S").to_string()
    };
    let over = frame.elapsed.as_secs_f64();
    let mut text = format!("{when}, over {over:.3} s: moved {}\n", frame.told(&plan.moves));
    let mut row = |label: &str, what: &str| text += &format!("    {label:<9}{what}\n");
    row("because", &plan.reason);
    if !plan.moves.is_empty() {
        row("worth", &format!("{:.4} {}", decision.score, unit(&decision.policy)));
    }
    for other in &decision.alternatives {
        let Alternative { moves, score, why_not } = other;
        row("or", &format!("{}, worth {score:.4}: {why_not}", frame.told(moves)));
    }
    let before = Outlook::unmet(&Outlook::after(frame, &[]));
    let expected = Outlook::unmet(&decision.expected);
    match &decision.outcome {
        None => {
            row("lacking", &format!("{before:.1} before, {expected:.1} expected"));
            if !plan.moves.is_empty() {
                row("done", "not known yet");
            }
        }
        Some(outcome) => {
            let (found, later) = (Outlook::unmet(&outcome.sets), (outcome.at - frame.at).as_secs_f64());
            row(
                "lacking",
                &format!("{before:.1} before, {expected:.1} expected, {found:.1} found {later:.3} s later"),
            );
            if !plan.moves.is_empty() {
                let took = outcome.cost.filter(|_| outcome.moved > 0);
                let took = took.map(|cost| format!(" in {:.1} ms", cost.as_secs_f64() * 1e3));
                row(
                    "done",
                    &format!("{} of {}{}", outcome.moved, plan.moves.len(), took.unwrap_or_default()),
                );
            }
        }
    }
    if let Some(advice) = &decision.advice {
        row("advice", advice);
    }
    text
}

/// What a policy measures worth in.
fn unit(policy: &str) -> &'static str {
    match policy {
        "millpond" => "s of CPU time",
        _ => "by its objectives",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::{CpuId, Move};
    use millpond_planner::{Costs, Frame, Outcome, Plan, SetFrame, Waiting};
    use millpond_session::{MachineName, OpenOptions, Output};

    fn session() -> Session {
        let machine = MachineName::Simulated("x4200".into());
        Session::open(&OpenOptions { machine, ..OpenOptions::default() }).unwrap().in_zone(TimeZone::UTC)
    }

    fn set(id: u32, name: &str, cpus: &str, busy_ms: u64, waiting_ms: u64) -> SetFrame {
        SetFrame {
            id: PsetId(id),
            name: name.into(),
            cpus: cpus.parse().unwrap(),
            pinned: millpond_model::CpuSet::new(),
            idle: millpond_model::CpuSet::new(),
            min: 1,
            max: 4,
            importance: 1,
            objectives: Vec::new(),
            has_processes: true,
            busy: Nanos::from_millis(busy_ms),
            waiting: Waiting::Threads(Nanos::from_millis(waiting_ms)),
            is_reset: false,
        }
    }

    /// In a tenth of a second `web` used its processor and lacked two more; one is brought, and a second later one lacks.
    fn decision() -> Decision {
        let sets = vec![set(0, "pset_default", "0-2", 10, 0), set(1, "web", "3", 100, 200)];
        let frame = Frame {
            at: Nanos(0),
            elapsed: Nanos::from_millis(100),
            sets,
            costs: Costs::default(),
            ..Frame::default()
        };
        let moves = vec![Move { cpu: CpuId(2), from: PsetId(0), to: PsetId(1) }];
        let expected = Outlook::after(&frame, &moves);
        let outcome = Outcome {
            at: Nanos::from_millis(1000),
            moved: 1,
            cost: Some(Nanos(1_900_000)),
            sets: expected.clone(),
        };
        Decision {
            policy: "millpond".into(),
            state: None,
            plan: Plan { moves, reason: "web lacks 2".into() },
            score: 0.0495,
            alternatives: vec![Alternative {
                moves: Vec::new(),
                score: 0.0,
                why_not: "it wins nothing".into(),
            }],
            expected,
            frame,
            events: Vec::new(),
            advice: Some("share".into()),
            outcome: Some(outcome),
        }
    }

    fn shown(session: &Session, words: &[&str]) -> (Result<Exit, Failure>, String, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let words: Vec<_> = words.iter().map(Into::into).collect();
        let command = super::super::COMMAND;
        let parsed = millpond_cli::parse(&command.spec, &words).unwrap();
        let mut ctx = Ctx::new(Output::to(&mut out), Output::to(&mut err)).with_session(session);
        ctx.prog = "poolstat".into();
        let exit = run(&parsed, &mut ctx);
        drop(ctx);
        (exit, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    #[test]
    fn a_decision_says_what_was_moved_and_why_and_what_came_of_it() {
        let session = session();
        session.simulation().unwrap().record("poold", Log::default().line(&decision()).unwrap().trim_end());
        let (exit, out, err) = shown(&session, &["--why"]);
        assert_eq!((exit, err.as_str()), (Ok(Exit::DONE), ""));
        assert_eq!(
            out,
            "Nov 20 08:14:02, over 0.100 s: moved 2 from pset_default to web\n\
             \x20   because  web lacks 2\n\
             \x20   worth    0.0495 s of CPU time\n\
             \x20   or       nothing, worth 0.0000: it wins nothing\n\
             \x20   lacking  2.0 before, 1.0 expected, 1.0 found 1.000 s later\n\
             \x20   done     1 of 1 in 1.9 ms\n\
             \x20   advice   share\n"
        );
    }

    #[test]
    fn damaged_lines_are_told_and_skipped_and_what_is_shown_in_json_can_be_read_again() {
        let session = session();
        let (mut last, calm) =
            (decision(), Plan { moves: Vec::new(), reason: "no set lacks anything".into() });
        last.plan = calm;
        last.outcome = None;
        last.alternatives.clear();
        let line = |decision: &Decision| Log::default().line(decision).unwrap().trim_end().to_owned();
        for text in [&line(&decision()), "{\"policy\":", "", &line(&last)] {
            session.simulation().unwrap().record("poold", text);
        }
        let (exit, out, err) = shown(&session, &["--why", "--json"]);
        assert_eq!(exit, Ok(Exit::REFUSED));
        assert_eq!(
            err,
            "poolstat: /run/millpond/poold.decisions: line 3 from the end, column 10: EOF while parsing a value; it is skipped\n"
        );
        assert_eq!(read_log(&out), (vec![decision(), last], Vec::new()));
        // Only the last one is looked at.
        let (exit, out, err) = shown(&session, &["--why", "1"]);
        assert_eq!((exit, err.as_str()), (Ok(Exit::DONE), ""));
        assert!(out.starts_with(
            "Nov 20 08:14:02, over 0.100 s: moved nothing\n    because  no set lacks anything\n    lacking  "
        ));
        assert!(!out.contains("done"), "{out}");
    }

    #[test]
    fn a_decision_concerns_the_sets_that_it_moved_something_of_or_thought_of_it() {
        let mut decision = decision();
        assert!(concerns(&decision, &[PsetId(1)]) && concerns(&decision, &[PsetId(0), PsetId(5)]));
        assert!(!concerns(&decision, &[PsetId(2)]));
        let one = Move { cpu: CpuId(0), from: PsetId(0), to: PsetId(2) };
        decision.alternatives.push(Alternative { moves: vec![one], score: -1.0, why_not: "dear".into() });
        assert!(concerns(&decision, &[PsetId(2)]));
    }

    #[test]
    fn without_a_record_it_is_said_what_makes_one_and_words_that_make_no_sense_are_told() {
        let session = session();
        let (exit, out, _) = shown(&session, &["--why"]);
        let Err(Failure::Refused(complaint)) = exit else { panic!("{exit:?}") };
        assert_eq!(
            complaint.to_string(),
            "cannot show why: machine x4200 has no record of what poold decided"
        );
        assert!(complaint.hint.unwrap().contains("svcadm enable -r"));
        assert_eq!(out, "");
        for words in [&["--why", "0"][..], &["--why", "x"], &["--why", "1", "2"], &["--why", "-T", "u"]] {
            assert!(matches!(shown(&session, words).0, Err(Failure::Usage(_))), "{words:?}");
        }
    }
}
