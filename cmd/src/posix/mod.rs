//! Lists the real-time options of POSIX, in the four bundles of the Single UNIX Specification, and whether the system
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
//! that the option is missing. `at run time` (0) means that the calls exist, and report at run time whether they work.
//! Bundles are those of version 3 (POSIX.1-2001). Since 2008 some of these options are mandatory.
//!
//! A list of kernel settings for real-time threads follows, as in `millpond doctor`. A simulated machine answers like
//! Solaris. A captured machine has no answer.
//!
//! # JSON
//!
//! The schema is docs/reference/json/posix.json.

use crate::command::Command;
use crate::ctx::Ctx;
use crate::dress::Dress;
use crate::failure::{Exit, Failure, facet};
use crate::json::{self, Describe};
use crate::readiness::{self, Readiness};
use millpond_cli::{Example, Flag, Group, MISUSED, Parsed, Spec};
use millpond_model::{PosixAnswer, PosixBundle, PosixOption};
use millpond_report::{Cell, Table};
use schemars::JsonSchema;
use serde::Serialize;

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] = &[json::of::<Options<'_>>()];

#[derive(Serialize, JsonSchema)]
struct Options<'m> {
    machine: &'m str,
    /// Null on a captured machine, which has no library to query.
    bundles: Option<Vec<Bundle>>,
    /// Null if the settings are unknown.
    real_time: Option<Readiness>,
}

/// A bundle of options of the Single UNIX Specification.
#[derive(Serialize, JsonSchema)]
struct Bundle {
    name: &'static str,
    /// The number of missing options.
    lacks: usize,
    options: Vec<Answer>,
}

/// The system's answer about an option.
#[derive(Serialize, JsonSchema)]
struct Answer {
    name: &'static str,
    #[serde(skip)]
    summary: &'static str,
    /// `supported`, `at run time` or `not supported`.
    answer: &'static str,
    /// The version of the standard; null unless supported.
    version: Option<u32>,
}

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "posix",
        summary: "list the real-time options of POSIX that the system has",
        group: Group::Machine,
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

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    if !parsed.operands.is_empty() {
        return Err(Failure::Usage("it takes no operands".into()));
    }
    let dress = Dress::of(parsed, parsed.common.json, &[Dress::Csv, Dress::Json])?;
    let session = ctx.reading(&parsed.common)?;
    let bundles = match facet("options of POSIX", session.posix_answers()) {
        Ok(answers) => Some(bundles(&answers)),
        // A captured machine has no C library to query. Its real-time readiness is known.
        Err(Failure::Refused(complaint)) if dress != Dress::Csv => {
            ctx.complain(&complaint);
            None
        }
        Err(failure) => return Err(failure),
    };
    let exit = if bundles.is_some() { Exit::DONE } else { Exit::REFUSED };
    let machine = session.machine();
    match (dress, bundles) {
        (Dress::Json, bundles) => {
            let real_time = Readiness::of(machine).ok();
            ctx.json(&Options { machine: machine.name(), bundles, real_time });
        }
        (Dress::Csv, bundles) => ctx.out.text(&table(&bundles.unwrap_or_default()).csv()),
        (_, bundles) => {
            for bundle in bundles.iter().flatten() {
                print(bundle, ctx);
            }
            readiness::print(&Readiness::of(machine), ctx);
        }
    }
    Ok(exit)
}

fn bundles(answers: &[(PosixOption, PosixAnswer)]) -> Vec<Bundle> {
    let one = |bundle: PosixBundle| {
        let of_it = answers.iter().filter(|(option, _)| option.bundle() == bundle);
        let options: Vec<Answer> = of_it.map(|(option, answer)| Answer::of(*option, *answer)).collect();
        let lacks = options.iter().filter(|option| option.answer == LACKING).count();
        Bundle { name: bundle.word(), lacks, options }
    };
    PosixBundle::ALL.into_iter().map(one).collect()
}

const LACKING: &str = "not supported";

impl Answer {
    fn of(option: PosixOption, answer: PosixAnswer) -> Answer {
        let (answer, version) = match answer {
            PosixAnswer::Supported(version) => ("supported", Some(version)),
            PosixAnswer::Undecided => ("at run time", None),
            PosixAnswer::Unsupported => (LACKING, None),
        };
        Answer { name: option.name(), summary: option.summary(), answer, version }
    }

    /// The version; without one, the answer.
    fn cell(&self) -> Cell {
        self.version.map_or(Cell::from(self.answer), Cell::from)
    }
}

/// Prints a bundle and an empty line.
fn print(bundle: &Bundle, ctx: &mut Ctx<'_>) {
    let Bundle { name, lacks, options } = bundle;
    ctx.out.line(format_args!("{name}: lacks {lacks} of {}", options.len()));
    for option in options {
        ctx.out.line(format_args!("  {:<33}  {:<13}  {}", option.name, option.cell(), option.summary));
    }
    ctx.out.line("");
}

fn table(bundles: &[Bundle]) -> Table {
    let mut table = Table::of(&["bundle", "option", "answer"], &[]);
    for bundle in bundles {
        for option in &bundle.options {
            table.row([bundle.name.into(), option.name.into(), option.cell()]);
        }
    }
    table
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
        let bundles = bundles(&answers);
        let bundle = serde_json::to_value(&bundles[3]).unwrap();
        assert_eq!(bundle["lacks"], 1);
        assert_eq!(bundle["options"][0]["answer"], "at run time");
        assert_eq!(bundle["options"][0]["version"], serde_json::Value::Null);
        assert_eq!(
            table(&bundles).csv(),
            "bundle,option,answer\nAdvanced Realtime Threads,_POSIX_BARRIERS,at run time\nAdvanced Realtime Threads,_POSIX_SPIN_LOCKS,not supported\n"
        );
    }
}
