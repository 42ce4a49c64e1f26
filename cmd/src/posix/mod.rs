//! Lists the real-time options of POSIX, by the four bundles of the Single UNIX Specification, and whether the system
//! has them.
//!
//! ```text
//! $ millpond posix
//! Realtime Threads: lacks 0 of 3
//!   _POSIX_THREAD_PRIO_INHERIT         200809         mutexes whose owner gets the priority of its waiters
//!   _POSIX_THREAD_PRIO_PROTECT         200809         mutexes whose owner has a priority of their own
//!   _POSIX_THREAD_PRIORITY_SCHEDULING  200809         classes and priorities of threads
//! ```
//!
//! The second column is the answer of `sysconf`: the version of the standard (200809 on Linux, 200112 on Solaris), or
//! that the option is lacking. `at run time` (0) means that the calls exist, and tell themselves whether they work.
//! Bundles are those of version 3 (POSIX.1-2001). Since 2008 some of these options are mandatory.
//!
//! A list of kernel settings for real-time threads follows, as in `millpond doctor`. A simulated machine answers as
//! Solaris. A captured machine has no answer.
//!
//! # JSON
//!
//! An answer is `supported`, `at run time` or `not supported`; `version` is null for the last two.
//!
//! ```text
//! {"bundles":[{"name":"Realtime Threads","lacks":0,
//!              "options":[{"name":"_POSIX_THREAD_PRIO_INHERIT","answer":"supported","version":200809}]}],
//!  "machine":"real","real_time":{"ready":false,"settings":[…]}}
//! ```

use crate::command::Command;
use crate::ctx::Ctx;
use crate::dress::Dress;
use crate::failure::{Exit, Failure, facet};
use crate::readiness::Readiness;
use millpond_cli::{Example, Flag, Group, MISUSED, Parsed, Spec};
use millpond_model::{PosixAnswer, PosixBundle, PosixOption};
use millpond_report::{Align, Cell, Table};
use serde_json::{Value, json};

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "posix",
        summary: "list the real-time options of POSIX that the system has",
        group: Group::RealTime,
        forms: &["[--csv]"],
        flags: &[Flag::long("csv", "print CSV, for spreadsheets")],
        examples: &[Example {
            words: "",
            what: "list the options, and the real-time settings of the kernel",
        }],
        status: &[
            ("0", "done, even if options are missing"),
            ("1", "the options are not known, as on a captured machine"),
            MISUSED,
        ],
        see_also: &["millpond-doctor(8)", "latstat(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

/// Options with their answers.
type Answers = [(PosixOption, PosixAnswer)];

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    if !parsed.operands.is_empty() {
        return Err(Failure::Usage("it takes no operands".into()));
    }
    let is_csv = Dress::of(parsed, parsed.common.json, &[Dress::Csv, Dress::Json])? == Dress::Csv;
    let session = ctx.reading(&parsed.common)?;
    let answers = match facet("options of POSIX", session.posix_answers()) {
        Ok(answers) => answers,
        Err(Failure::Refused(complaint)) if !is_csv => {
            // A captured machine has no library to ask, and is as ready as it was.
            ctx.complain(&complaint);
            let ready = Readiness::of(session.machine());
            if parsed.common.json {
                let name = session.machine().name();
                ctx.json(&json!({ "machine": name, "bundles": null, "real_time": ready.json() }));
            } else {
                ready.print(ctx);
            }
            return Ok(Exit::REFUSED);
        }
        Err(failure) => return Err(failure),
    };
    if parsed.common.json {
        ctx.json(&json!({ "machine": session.machine().name(), "bundles": bundles(&answers), "real_time": Readiness::of(session.machine()).json() }));
    } else if is_csv {
        ctx.out.text(&table(&answers).csv());
    } else {
        print(&answers, ctx);
        ctx.out.line("");
        Readiness::of(session.machine()).print(ctx);
    }
    Ok(Exit::DONE)
}

/// Those of one bundle.
fn of(bundle: PosixBundle, answers: &Answers) -> impl Iterator<Item = &(PosixOption, PosixAnswer)> {
    answers.iter().filter(move |(option, _)| option.bundle() == bundle)
}

fn lacks(bundle: PosixBundle, answers: &Answers) -> usize {
    of(bundle, answers).filter(|(_, answer)| *answer == PosixAnswer::Unsupported).count()
}

/// In words, but for the version.
fn word(answer: PosixAnswer) -> &'static str {
    match answer {
        PosixAnswer::Supported(_) => "supported",
        PosixAnswer::Undecided => "at run time",
        PosixAnswer::Unsupported => "not supported",
    }
}

fn cell(answer: PosixAnswer) -> Cell {
    match answer {
        PosixAnswer::Supported(version) => Cell::Count(version.into()),
        other => Cell::from(word(other)),
    }
}

fn print(answers: &Answers, ctx: &mut Ctx<'_>) {
    for (at, bundle) in PosixBundle::ALL.into_iter().enumerate() {
        if at > 0 {
            ctx.out.line("");
        }
        let count = of(bundle, answers).count();
        ctx.out.line(format_args!("{}: lacks {} of {count}", bundle, lacks(bundle, answers)));
        for (option, answer) in of(bundle, answers) {
            let answer = cell(*answer);
            ctx.out.line(format_args!("  {:<33}  {answer:<13}  {}", option.name(), option.summary()));
        }
    }
}

fn table(answers: &Answers) -> Table {
    let mut table = Table::new(&[("bundle", Align::Left), ("option", Align::Left), ("answer", Align::Left)]);
    for (option, answer) in answers {
        table.row([Cell::from(option.bundle().word()), Cell::from(option.name()), cell(*answer)]);
    }
    table
}

fn bundles(answers: &Answers) -> Vec<Value> {
    let one = |bundle: PosixBundle| {
        let option = |(option, answer): &(PosixOption, PosixAnswer)| {
            let version = match answer {
                PosixAnswer::Supported(version) => Some(*version),
                PosixAnswer::Undecided | PosixAnswer::Unsupported => None,
            };
            json!({ "name": option.name(), "answer": word(*answer), "version": version })
        };
        let options: Vec<Value> = of(bundle, answers).map(option).collect();
        json!({ "name": bundle.word(), "lacks": lacks(bundle, answers), "options": options })
    };
    PosixBundle::ALL.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_says_itself_is_not_lacking_and_has_no_version() {
        let answers = [
            (PosixOption::Barriers, PosixAnswer::Undecided),
            (PosixOption::SpinLocks, PosixAnswer::Unsupported),
        ];
        assert_eq!(lacks(PosixBundle::AdvancedRealtimeThreads, &answers), 1);
        let bundle = &bundles(&answers)[3];
        assert_eq!(bundle["options"][0]["answer"], "at run time");
        assert_eq!(bundle["options"][0]["version"], Value::Null);
        assert_eq!(
            table(&answers).csv(),
            "bundle,option,answer\nAdvanced Realtime Threads,_POSIX_BARRIERS,at run time\nAdvanced Realtime Threads,_POSIX_SPIN_LOCKS,not supported\n"
        );
    }
}
