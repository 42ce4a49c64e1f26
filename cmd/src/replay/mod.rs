//! Shows what a policy of `poold` would have decided on recorded data, compared with the recorded decisions.
//!
//! ```text
//! # poold --record
//! # poolstat --why --json 100000 > day.log
//! $ millpond replay day.log --policy solaris
//! 3600 decisions in 3600.000 s, each asked for where it was made
//! POLICY               BATCHES  MOVES   FOUND EXPECTED
//! millpond, recorded        12     31   0.143    0.021
//! solaris                    2      2   0.143    0.122
//! 13 decisions differ: -v shows them
//! ```
//!
//! BATCHES is the number of decisions that moved CPUs, MOVES the number of CPUs moved. FOUND is how many more CPUs the
//! threads would have used than their sets had, a mean over time. EXPECTED is the same after each decision, at
//! unchanged load.
//!
//! Without `--followed` each decision is made in the recorded situation. Only `poold --record` records all decisions;
//! during gaps in the log a policy learns nothing.
//!
//! # Recordings
//!
//! A recording of [millpond record](record.md) can replace a log: the policy gets its loads and sets, and its decisions
//! are compared with the moves made on the machine, by poold or by hand. A recording has no pinned CPUs. On kernels
//! without BPF programs, a recording without a list of threads has no waits, so a policy moves less.
//!
//! # JSON
//!
//! The schema is docs/reference/json/replay.json.

pub(crate) mod recorded;

use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure};
use crate::interval;
use crate::json::{self, Describe};
use crate::recordings;
use millpond_cli::{Example, Flag, Group, MISUSED, Operands, Parsed, Spec, ValueKind};
use millpond_model::Nanos;
use millpond_planner::{
    Answer, Comparison, Decision, LogError, POLICIES, Pair, Replay, Sum, policy, read_log, replay,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] = &[json::of::<Compared<'_>>()];

/// Another policy's decisions, and the recorded ones.
#[derive(Serialize, JsonSchema)]
struct Compared<'d> {
    policy: &'d str,
    /// Whether its decisions were applied to the sets (`--followed`).
    followed: bool,
    /// The number of recorded decisions.
    decisions: usize,
    elapsed_s: f64,
    recorded: Recorded<'d>,
    asked: Sum,
    /// The number of differing decisions.
    differ: usize,
    /// The differing decisions (`-v`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pairs: Option<Vec<&'d Pair>>,
}

/// The sum over the recorded decisions, and their policies.
#[derive(Serialize, JsonSchema)]
struct Recorded<'d> {
    policies: Vec<&'d str>,
    #[serde(flatten)]
    sum: Sum,
}

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "replay",
        summary: "show what another policy of poold would have decided on recorded data",
        group: Group::Past,
        forms: &[
            "log [--policy name] [--followed] [-v]",
            "recording [--at moment] [--every time] [--policy name] [--followed] [-v]",
        ],
        flags: &[
            Flag::letter('v', "print the decisions that differ, with both reasons"),
            Flag::long("policy", "the policy: millpond (the default) or solaris")
                .value("name", ValueKind::Text),
            Flag::long(
                "at",
                "begin at this moment of a recording: 09:41, 2026-11-27 09:41 or, before its end, -10m",
            )
            .value("moment", ValueKind::Text),
            Flag::long("every", "decide so often in a recording (1s)").value("time", ValueKind::Time),
            Flag::long(
                "followed",
                "apply this policy's decisions to the sets, at the recorded load; use of CPUs that threads never had is estimated from their waits",
            ),
        ],
        permutes: true,
        operands: Operands { shown: "log|recording", kinds: &[ValueKind::File] },
        examples: &[
            Example {
                words: "poold.decisions --policy solaris",
                what: "show what the policy of Solaris would have decided",
            },
            Example {
                words: "day --every 15s --policy solaris",
                what: "show what poold would have done with the machine that millpond record watched",
            },
        ],
        status: &[
            ("0", "done"),
            ("1", "the log or recording is unusable, or a line of it is damaged (the others are used)"),
            MISUSED,
        ],
        see_also: &["millpond-whatif(1)", "poolstat(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

/// The default interval of the policy millpond.
pub(crate) const EVERY: Nanos = Nanos::from_secs(1);

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let name = parsed.long_value("policy").unwrap_or_else(|| POLICIES[0].to_owned());
    let mut asked = policy(&name).ok_or_else(|| {
        Failure::Operand(format!("there is no policy `{name}`; there are {}", POLICIES.join(" and ")))
    })?;
    let file = match parsed.words().as_slice() {
        [file] => file.clone(),
        [] => return Err(Failure::Usage("which log or recording?".into())),
        _ => return Err(Failure::Usage("one log at a time".into())),
    };
    let cannot = |why: &str| Complaint::new(format!("replay {file}"), why);
    let every = parsed.long_value("every");
    let (decisions, errors) = if recordings::is_one(Path::new(&file)) {
        recordings::alone(&parsed.common, "a recording")?;
        let every = every.map_or(Ok(EVERY), |text| interval::seconds(&text))?;
        (recorded::decisions(&file, parsed.long_value("at").as_deref(), every, ctx)?, Vec::new())
    } else if every.is_some() || parsed.long("at") {
        return Err(Failure::Usage("--every and --at go with a recording".into()));
    } else {
        read_log(&millpond_session::read_log(Path::new(&file)).map_err(|why| cannot(&why))?)
    };
    if decisions.is_empty() {
        let why = match errors.first() {
            Some(error) => format!("no line of it is a decision; {error}"),
            None => "it is empty".to_owned(),
        };
        return Err(cannot(&why).hint("poolstat --why --json shows decisions that can be replayed").into());
    }
    let exit = if errors.is_empty() { Exit::DONE } else { Exit::REFUSED };
    if let Some(damage) = damaged(&file, &errors) {
        ctx.warn(damage);
    }
    let how = if parsed.long("followed") { Replay::Followed } else { Replay::AsRecorded };
    let comparison = replay(&decisions, asked.as_mut(), how).map_err(|error| {
        cannot(&format!("its first decision cannot be gone on from: {error}"))
            .hint("another program wrote it; without \"state\" in that line it begins anew")
    })?;
    let differing: Vec<(&Decision, &Pair)> =
        decisions.iter().zip(&comparison.pairs).filter(|(_, pair)| differ(pair)).collect();
    let elapsed = comparison.pairs.iter().fold(Nanos(0), |sum, pair| sum + pair.elapsed);
    let of = Told { decisions: &decisions, comparison: &comparison, differing: &differing, elapsed, how };
    if parsed.common.json {
        ctx.json(&of.compared(parsed.has('v')));
    } else {
        ctx.out.text(&of.text(parsed.has('v')));
    }
    Ok(exit)
}

/// The first damaged line, and the number of others.
fn damaged(file: &str, errors: &[LogError]) -> Option<String> {
    let (first, more) = errors.split_first()?;
    let rest = match more.len() {
        0 => "it is skipped".to_owned(),
        more => format!("it and {more} more are skipped"),
    };
    Some(format!("{file}:{}:{}: {}; {rest}", first.line, first.column, first.what))
}

/// Whether the moves of the two decisions differ.
fn differ(pair: &Pair) -> bool {
    let moves = |answer: &Answer| {
        let mut moves = answer.moves.clone();
        moves.sort_unstable();
        moves
    };
    moves(&pair.recorded) != moves(&pair.asked)
}

struct Told<'d> {
    decisions: &'d [Decision],
    comparison: &'d Comparison,
    differing: &'d [(&'d Decision, &'d Pair)],
    elapsed: Nanos,
    how: Replay,
}

impl Told<'_> {
    /// The recorded policies, in order.
    fn recorded(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.decisions.iter().map(|d| d.policy.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn text(&self, all: bool) -> String {
        let count = |n: usize| if n == 1 { "1 decision".to_owned() } else { format!("{n} decisions") };
        let how = match self.how {
            Replay::AsRecorded => "each asked for where it was made",
            Replay::Followed => "loads as recorded, sizes as each policy leaves them",
        };
        let mut text =
            format!("{} in {:.3} s, {how}\n", count(self.decisions.len()), self.elapsed.as_secs_f64());
        let recorded = format!("{}, recorded", self.recorded().join(" and "));
        let Comparison { policy, recorded: was, asked, .. } = self.comparison;
        let width = recorded.len().max(policy.len()).max(20);
        text += &format!("{:width$} BATCHES  MOVES   FOUND EXPECTED\n", "POLICY");
        for (name, Sum { moves, batches, found, expected }) in [(&recorded, was), (policy, asked)] {
            text += &format!("{name:width$} {batches:>7} {moves:>6} {found:>7.3} {expected:>8.3}\n");
        }
        text += &match self.differing.len() {
            0 => "both move the same\n".to_owned(),
            n if all => format!("{} differ{}:\n", count(n), if n == 1 { "s" } else { "" }),
            n => format!("{} differ{}: -v shows them\n", count(n), if n == 1 { "s" } else { "" }),
        };
        for (decision, pair) in self.differing.iter().filter(|_| all) {
            text +=
                &format!("at {:.3} s, over {:.3} s:\n", pair.at.as_secs_f64(), pair.elapsed.as_secs_f64());
            for (name, answer) in [("recorded", &pair.recorded), (policy.as_str(), &pair.asked)] {
                let moves = decision.frame.told(&answer.moves);
                let Answer { found, expected, reason, .. } = answer;
                text += &format!(
                    "    {name}: moved {moves}; {found:.1} lacking, {expected:.1} expected\n        {reason}\n"
                );
            }
        }
        text
    }

    fn compared(&self, all: bool) -> Compared<'_> {
        let Comparison { policy, recorded, asked, .. } = self.comparison;
        Compared {
            policy,
            followed: self.how == Replay::Followed,
            decisions: self.decisions.len(),
            elapsed_s: self.elapsed.as_secs_f64(),
            recorded: Recorded { policies: self.recorded(), sum: *recorded },
            asked: *asked,
            differ: self.differing.len(),
            pairs: all.then(|| self.differing.iter().map(|(_, pair)| *pair).collect()),
        }
    }
}
