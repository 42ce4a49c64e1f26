//! Runs a benchmark workload: NPB CG, hackbench, a TCP stream, a service, spinning threads, builds, or a stack test.
//!
//! ```text
//! $ psrset -e 1 millpond load cg --class S
//! CG class S: 1400 rows, 15 iterations, 2 threads, spinning barrier
//!  iter             residual                 zeta
//!     1 2.50000000000000E-13      9.9986441579000
//!   ...
//! zeta 8.5971775078648 (reference 8.5971775078648): verified
//! 15 iterations in 0.062 s: 1066.46 Mop/s total
//! ```
//!
//! A load has one thread per CPU that it may use. So the same load inside and outside a set shows the set's effect. An
//! interrupt ends a load early, and it still reports. Options follow the name of the load.
//!
//! The same words start a workload on a simulated machine (`millpond sim`, `psrset -e`). The forms of the published
//! programs are accepted, too: `load cg.A.x -t 2`, `load hackbench -g 10 -T -l 50`. Their options without an equivalent
//! are listed on standard error.
//!
//! # Loads
//!
//! ```text
//! cg         NPB CG: the smallest eigenvalue of a sparse matrix, checked against the published value. Its threads meet at
//!            a barrier every few microseconds, so it suffers most from other threads on its CPUs
//! hackbench  groups of tasks pass small messages: wake-ups and context switches
//! stream     a TCP stream in both directions, as fast as possible, over the loopback unless told otherwise: interrupts
//! service    requests at random times, each with the same CPU time: latency from the moment when each was due
//! spin       threads that compute: the CPU time that each got
//! build      compilers: each job writes a C file in a directory below TMPDIR, compiles it, and begins again. Without a
//!            compiler, a shell sorts the file
//! stacks     resident pages of a stack when nothing, its lowest byte, or every page was touched: of the main stack, of
//!            one that the C library made (default), and of one that was written before its thread began (own)
//! ```
//!
//! With `--on-input` a caller can bind several loads before it starts them together. A load has one thread until the
//! first line, and ends with its caller.
//!
//! # JSON
//!
//! The schema is docs/reference/json/load.json. Without `--events` only results are printed.

mod build;
mod cg;
mod hackbench;
mod job;
mod service;
mod spin;
mod stacks;
mod stream;
#[cfg(test)]
mod tests;

use crate::command::{Command, tell};
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure};
use crate::json::{self, Describe};
use job::{Event, Finished, Job, Load, Phase, follow_input};
use millpond_cli::{Example, Flag, Group, MISUSED, Operands, Parsed, Spec, ValueKind, help};
use millpond_session::{reason, stop_on_signal};
use millpond_workloads::build::{BuildEvent, BuildResult};
use millpond_workloads::cg::{CgEvent, CgResult};
use millpond_workloads::hackbench::{HackbenchEvent, HackbenchResult};
use millpond_workloads::options::Program;
use millpond_workloads::service::ServiceResult;
use millpond_workloads::spin::{SpinEvent, SpinResult};
use millpond_workloads::stacks::StacksResult;
use millpond_workloads::stream::{StreamEvent, StreamResult};
use service::ServiceEvent;
use std::ffi::OsString;
use stream::StreamReady;

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] = &[
    json::of::<Finished<CgResult>>(),
    json::of::<Finished<HackbenchResult>>(),
    json::of::<Finished<StreamResult>>(),
    json::of::<Finished<ServiceResult>>(),
    json::of::<Finished<SpinResult>>(),
    json::of::<Finished<BuildResult>>(),
    json::of::<Finished<StacksResult>>(),
    json::of::<Event<Phase>>(),
    json::of::<Event<CgEvent>>(),
    json::of::<Event<HackbenchEvent<'_>>>(),
    json::of::<Event<StreamReady>>(),
    json::of::<Event<StreamEvent<'_>>>(),
    json::of::<Event<ServiceEvent>>(),
    json::of::<Event<SpinEvent>>(),
    json::of::<Event<BuildEvent>>(),
];

/// A load with options, for tests of the parser.
#[cfg(test)]
pub(crate) const SPIN: Spec = spin::LOAD.spec;

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "load",
        summary: "run a benchmark: NPB CG, hackbench, a stream, a service, spinning threads, builds",
        group: Group::Try,
        forms: &[
            "cg [option ...]",
            "hackbench [option ...]",
            "stream [option ...]",
            "service [option ...]",
            "spin [option ...]",
            "build [option ...]",
            "stacks",
            "NAME --help",
        ],
        operands: Operands {
            shown: "name",
            kinds: &[ValueKind::Word(&["cg", "hackbench", "stream", "service", "spin", "build", "stacks"])],
        },
        examples: &[
            Example { words: "cg --class S", what: "run NPB CG on the CPUs that this process may use" },
            Example { words: "hackbench --groups 10", what: "measure wake-ups and switches" },
        ],
        status: &[("0", "done"), ("1", "the load failed, or its answer was wrong"), MISUSED],
        see_also: &["millpond-experiment(1)", "psrset(8)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

const LOADS: &[Load] =
    &[cg::LOAD, hackbench::LOAD, stream::LOAD, service::LOAD, spin::LOAD, build::LOAD, stacks::LOAD];

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let names = || LOADS.iter().map(Load::name).collect::<Vec<_>>().join(", ");
    let Some((name, rest)) = parsed.operands.split_first() else {
        return Err(Failure::Usage(format!("which load? known are {}", names())));
    };
    let name = name.to_string_lossy();
    let program = Program::named(&name).filter(|(program, _)| program.name == program.load);
    let known = program.and_then(|(program, inside)| {
        LOADS.iter().find(|load| load.name() == program.load).map(|load| (load, program, inside))
    });
    let Some((load, program, inside)) = known else {
        return Err(Failure::Usage(format!("there is no load `{name}`: known are {}", names())));
    };
    let (words, without) = canonical(program, inside, rest, &load.spec);
    start(load, &words, &without, parsed, ctx).or_else(|failure| {
        // The usage to show is that of the load.
        tell(&failure, &load.spec, &words, ctx);
        Ok(failure.exit())
    })
}

/// Runs a load with the words after its name. It ignores the options `without`.
fn start(
    load: &Load,
    words: &[OsString],
    without: &[&str],
    parsed: &Parsed,
    ctx: &mut Ctx<'_>,
) -> Result<Exit, Failure> {
    let options = millpond_cli::parse(&load.spec, words)?;
    for name in without {
        ctx.warn(format_args!("{} --{name} has no effect: this load has no such thing", load.name()));
    }
    if options.common.help {
        ctx.out.text(&help::short(&load.spec));
        return Ok(Exit::DONE);
    }
    if let Some(extra) = options.words().first() {
        return Err(Failure::Usage(format!(
            "load {name} takes no operand, and was given `{extra}`",
            name = load.name()
        )));
    }
    for common in [&parsed.common, &options.common] {
        let named = common.machine.as_deref().filter(|name| *name != "real");
        if let Some(other) = named.or(common.root.as_ref().map(|_| "of a captured tree")) {
            let what = format!("run load {} on machine {other}", load.name());
            return Err(Complaint::new(what, "programs run on the real machine only").into());
        }
    }
    let json = parsed.common.json || options.common.json;
    let mut job = Job {
        name: load.name(),
        json,
        events: options.long("events") && json,
        stop: stop_on_signal(),
        lines: None,
    };
    if options.long("on-input") {
        job.lines = follow_input(job.stop).map_err(|error| {
            let why = format!("no thread can be started that reads standard input: {}", reason(&error));
            Complaint::new(format!("run load {}", load.name()), why)
                .hint("end other processes, or raise the limit with ulimit -u")
        })?;
        if job.lines.is_none() {
            return Ok(Exit::DONE);
        }
    }
    (load.run)(&options, &job, ctx)
}

/// The command line of a load with long option names, without options that only the published program has. Those are
/// returned.
fn canonical(
    program: &Program,
    inside: Vec<String>,
    rest: &[OsString],
    spec: &Spec,
) -> (Vec<OsString>, Vec<&'static str>) {
    let texts: Option<Vec<String>> = rest.iter().map(|word| word.to_str().map(str::to_owned)).collect();
    // Words that are not UTF-8 are refused by the parser.
    let Some(texts) = texts else { return (rest.to_vec(), Vec::new()) };
    let takes_value = |flag: &str| {
        let is = |common: &&Flag| common.long.is_some_and(|name| flag.strip_prefix("--") == Some(name));
        spec.common.iter().find(is).is_some_and(|flag| flag.value.is_some())
    };
    let own = |name: &str| spec.own_flags().any(|flag| flag.long == Some(name));
    let (mut words, mut without): (Vec<OsString>, _) = (Vec::new(), Vec::new());
    let mut all =
        inside.into_iter().chain(program.canonical(&texts, &takes_value).into_iter().map(|(word, _)| word));
    while let Some(word) = all.next() {
        let option = word.strip_prefix("--").and_then(|name| program.option(name));
        match option.filter(|option| !own(option.name)) {
            Some(option) => {
                without.push(option.name);
                if option.takes_value {
                    all.next();
                }
            }
            None => words.push(word.into()),
        }
    }
    (words, without)
}
