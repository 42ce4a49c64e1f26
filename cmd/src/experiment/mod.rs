//! Runs an experiment, and compares the results with published figures.
//!
//! ```text
//! e1            processor sets and interrupts: a two-way stream outside and inside a no-intr set
//! e2            space sharing: two spinning jobs on two CPUs, mixed and in sets
//! e3            dynamic pools: the same on 64 CPUs, and a job that grows when the other stops
//! e4            dispatch tables and placement: short and long slices, sets and memory, on machines of up to 32 chips
//! e5            cycles per instruction: loops, and an application with near and far memory
//! e6            timer wake-up latency of a real-time thread beside heavy load
//! e7            thread stacks: resident pages before and after they are touched
//! alternating   pools under demand that changes sides, compared with fixed splits and no pools
//! service       a service beside a batch job: pools compared with weights, caps and nothing
//! inversion     priority inversion: three threads with a plain lock, and with priority inheritance
//! ```
//!
//! The last three have no published figures. `millpond experiment NAME --help` shows the options of each. Without
//! options an experiment runs all published points; any other point is a prediction.
//!
//! # Machines
//!
//! e1, e7 and inversion run on this machine, the others on a simulated one in memory. `--machine t2000` runs e1 on a
//! simulated machine. `--machine real` runs e2, e3, e5, e6, alternating, service and twin on this machine.
//!
//! # Output
//!
//! Each row is a point: quantity, conditions, published value, result, and difference in percent. Points to which a
//! model parameter was fitted are marked, and do not count as predictions. With `--seeds 20` an experiment runs with 20
//! random seeds, and the median, the minimum and the maximum of each point are shown. Below the table are the errors of
//! the predictions, and those of straight lines through the other published points.
//!
//! # JSON
//!
//! The schema is docs/reference/json/experiment.json.

mod e1;
mod e7;
mod family;
mod inversion;
mod real;
mod simulated;

use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure};
use crate::json::{self, Describe};
use millpond_cli::{Common, Example, Group, MISUSED, Operands, Parsed, Spec, ValueKind};
use millpond_experiments::named;
use millpond_experiments::published::{self, Experiment};

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] = &[
    json::of::<published::Document<'_>>(),
    json::of::<millpond_experiments::e1::Judged<'_>>(),
    json::of::<millpond_experiments::e7::Document<'_>>(),
    json::of::<millpond_experiments::inversion::Document<'_>>(),
    json::of::<millpond_experiments::demo::Demo>(),
];

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "experiment",
        summary: "run an experiment, and compare with published figures",
        group: Group::Try,
        forms: &[
            "e1|e2|e3|e4|e5|e6 [--machine NAME|real] [option ...]",
            "e7|inversion [option ...]",
            "alternating|service|twin [--machine NAME|real] [option ...]",
            "NAME --help",
        ],
        operands: Operands { shown: "name", kinds: &[ValueKind::Word(&NAMES)] },
        examples: &[
            Example { words: "e3", what: "repeat a published experiment on a simulated machine" },
            Example { words: "e4 --help", what: "show what can be chosen, and what was published" },
        ],
        status: &[
            ("0", "done; a difference from published figures is no failure"),
            ("1", "it was refused or interrupted"),
            MISUSED,
        ],
        see_also: &["millpond-sim(1)", "millpond-load(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let Some((name, rest)) = parsed.operands.split_first() else {
        return Err(Failure::Usage(format!("which experiment? known are {}", known())));
    };
    let name = name.to_string_lossy();
    let simulated = named(&name);
    let machine = simulated.and_then(|experiment| machine_of(experiment, rest, &parsed.common));
    let is_real = machine.as_deref() == Some("real");
    if name == "e1" && machine.is_none_or(|machine| machine == "real" || machine == "vm") {
        return e1::run(rest, &parsed.common, ctx);
    }
    if name == "inversion" {
        return inversion::run(rest, &parsed.common, ctx);
    }
    if name == "e7" {
        return e7::run(rest, &parsed.common, ctx);
    }
    if is_real && REAL.contains(&&*name) {
        return real::run(&name, rest, &parsed.common, ctx);
    }
    match simulated {
        Some(experiment) => simulated::run(experiment, rest, &parsed.common, ctx),
        None => Err(Failure::Usage(format!("there is no experiment `{name}`: known are {}", known()))),
    }
}

/// The names of all experiments.
const NAMES: [&str; 11] =
    ["alternating", "e1", "e2", "e3", "e4", "e5", "e6", "e7", "inversion", "service", "twin"];

/// The names as a list: `e1, e2, e3`.
fn known() -> String {
    NAMES.join(", ")
}

/// Experiments that can run on a real machine.
const REAL: [&str; 2] = ["e2", "e3"];

/// The machine named before or after the name of the experiment.
fn machine_of(
    experiment: &'static Experiment,
    rest: &[std::ffi::OsString],
    outer: &Common,
) -> Option<String> {
    let specs = [simulated::spec(experiment), e1::E1, real::REAL];
    let given = specs.iter().find_map(|spec| millpond_cli::parse(spec, rest).ok()).unwrap_or_default();
    given.long_value("machine").or(given.common.machine).or_else(|| outer.machine.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run;
    use millpond_session::Output;
    use std::ffi::OsString;

    #[test]
    fn every_experiment_is_named() {
        use millpond_experiments::{EXPERIMENTS, OWN};
        let all = EXPERIMENTS.iter().chain(OWN).map(|experiment| experiment.name).chain(["e7", "inversion"]);
        let all: std::collections::BTreeSet<&str> = all.collect();
        assert!(all.iter().eq(&NAMES), "{all:?}");
    }

    fn refused(words: &str) -> (Exit, String) {
        let words = ["millpond", "experiment"].into_iter().chain(words.split_whitespace());
        let words: Vec<OsString> = words.map(OsString::from).collect();
        let mut err = Vec::new();
        let exit = run(&words, &mut Ctx::new(Output::to(std::io::sink()), Output::to(&mut err)));
        (exit, String::from_utf8(err).unwrap().lines().next().unwrap_or_default().to_owned())
    }

    #[test]
    fn what_makes_no_sense_is_refused_before_anything_runs() {
        for (words, why) in [
            (
                "",
                "which experiment? known are alternating, e1, e2, e3, e4, e5, e6, e7, inversion, service, twin",
            ),
            (
                "e9",
                "there is no experiment `e9`: known are alternating, e1, e2, e3, e4, e5, e6, e7, inversion, service, twin",
            ),
            ("e7 now", "experiment e7 takes no operand, and was given `now`"),
            ("e7 --csv --json", "options --csv and --json are mutually exclusive"),
            ("e7 --dry-run", "an experiment changes nothing that it does not put back: it has no --dry-run"),
            ("e1 now", "experiment e1 takes no operand, and was given `now`"),
            ("e1 --seconds 0", "cannot use --seconds 0: it is not within 1 and 3600"),
            ("e1 --nics eth0", "cannot use --nics eth0: it is not of the form eth0,eth1"),
            (
                "e2 --machine real --arm psets",
                "cannot use --arm psets: it is none of nothing, caps, pools, nothing-blocking, pools-blocking",
            ),
            ("e3 --machine real --arm pools", "experiment e3 has no arms on a real machine"),
            ("--machine real e2 --seconds 0", "cannot use --seconds 0: it is not within 1 and 3600"),
            (
                "inversion --machine t2000",
                "experiment inversion runs threads on the machine at hand, and on no other",
            ),
            ("inversion --csv --json", "options --csv and --json are mutually exclusive"),
            ("e1 --nics eth0,eth0", "cannot use --nics eth0,eth0: it is not of the form eth0,eth1"),
        ] {
            assert_eq!(refused(words), (Exit::USAGE, format!("millpond experiment: {why}")), "{words}");
        }
    }

    #[test]
    fn a_machine_without_programs_of_ours_is_refused() {
        let (exit, why) = refused("e1 --machine vm");
        assert_eq!(exit, Exit::REFUSED);
        assert_eq!(
            why,
            "millpond experiment: cannot run experiment e1 on machine vm: virtual machines are booted from the source tree"
        );
        let why = "millpond experiment: cannot run experiment e7 on machine t2000: programs run on the real machine only";
        assert_eq!(refused("e7 --machine t2000"), (Exit::REFUSED, why.to_owned()));
        assert_eq!(refused("--machine t2000 e7"), (Exit::REFUSED, why.to_owned()));
    }

    #[test]
    fn a_library_that_is_none_is_told_with_a_remedy() {
        let (exit, why) = refused("e7 --library /nonexistent/lib.so");
        assert_eq!(exit, Exit::REFUSED);
        let begin =
            "millpond experiment: cannot run experiment e7: library /nonexistent/lib.so cannot be opened: ";
        assert!(why.starts_with(begin), "{why}");
        let (exit, why) = refused("inversion --library /nonexistent/lib.so");
        assert_eq!(exit, Exit::REFUSED);
        let begin = "millpond experiment: cannot run experiment inversion: library /nonexistent/lib.so cannot be opened: ";
        assert!(why.starts_with(begin), "{why}");
    }
}
