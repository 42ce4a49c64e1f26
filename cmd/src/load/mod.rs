//! Runs a load that shows what sharing and separating processors does to real programs.
//!
//! A load runs where it may run, and takes as many threads as it may use processors, so it shows what a set
//! is worth: `psrset -e 1 millpond load cg` beside `millpond load cg`. An interrupt ends it early, and it still
//! reports. Options stand behind the name of the load.
//!
//! The same words mean the same on a simulated machine (`millpond sim`, `psrset -e`). Short options and those of the published programs are
//! understood, too: `load cg.A.x -t 2`, `load hackbench 240`, `load hackbench -g 10 -T -l 50`. What a load has not is told, and has no effect.
//!
//! # Cg
//!
//! NPB CG: the smallest eigenvalue of a sparse matrix. Its threads wait for each other at a barrier every few
//! microseconds, so that it suffers more than anything else when its processors are not its own. The answer is
//! checked against the published one.
//!
//! ```text
//! $ millpond load cg --class S
//! CG class S: 1400 rows, 15 iterations, 2 threads, spinning barrier
//!  iter             residual                 zeta
//!     1 2.50000000000000E-13      9.9986441579000
//!   ...
//! zeta 8.5971775078648 (reference 8.5971775078648): verified
//! 15 iterations in 0.062 s: 1066.46 Mop/s total
//! ```
//!
//! # Hackbench
//!
//! Groups of tasks that pass small messages, for the cost of wake-ups and switches.
//!
//! # Stream
//!
//! A two-way TCP stream, as much as will go each way at once: its interrupts make work for the processors that take
//! them. Both ends are here, over the loopback, unless you say otherwise.
//!
//! # Service
//!
//! Requests arrive at random, however many wait, and want the same processor time each: how long each took, from when it was due.
//!
//! # Spin
//!
//! Threads that burn processor time: what each got of it.
//!
//! # Build
//!
//! Compilers that come and go: each job writes a source file in C, has it compiled, and begins again. Where there is no compiler a shell sorts the
//! source. Files are in a directory of its own below `TMPDIR`.
//!
//! # Stacks
//!
//! How many pages of a stack are in memory when nothing was touched, when its lowest byte was, and when every page was: of the main stack, of
//! the one that the C library makes for a thread (default), and of one that was written to before its thread began (own).
//!
//! ```text
//! $ millpond load stacks
//! stack    touched      in memory   pages
//! main     nothing              3      33
//! main     lowest byte          4    2048
//!   ...
//! ```
//!
//! # Options of every load
//!
//! With `--on-input` whoever starts several loads binds them first (each is one thread until the first line),
//! begins them together, and none outlives its starter.
//!
//! # JSON
//!
//! ```text
//! {"load":"cg","result":{"class":"S","threads":2,"barrier":"spinning","mops_total":1066.464,"zeta":8.5971775078648,
//!  "verification":"passed","stopped":false,...}}
//! --events: {"event":"started","load":"cg"}
//! ```

mod build;
mod cg;
mod hackbench;
mod options;
mod service;
mod spin;
mod stacks;
mod stream;
#[cfg(test)]
mod tests;

use crate::command::{Command, tell};
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure};
use millpond_cli::{Example, Flag, Group, MISUSED, Operands, Parsed, Spec, ValueKind, help};
use millpond_session::{reason, stop_on_signal};
use millpond_workloads::Error;
use millpond_workloads::options::Program;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "load",
        summary: "run a load: NPB CG, hackbench, a stream, a service, spinners, builds",
        group: Group::Experiments,
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

/// One load: its options, and what runs it.
struct Load {
    spec: Spec,
    run: fn(&Parsed, &Job, &mut Ctx<'_>) -> Result<Exit, Failure>,
}

impl Load {
    /// Its name behind `load`.
    fn name(&self) -> &'static str {
        self.spec.name.trim_start_matches("load ")
    }
}

const LOADS: &[Load] =
    &[cg::LOAD, hackbench::LOAD, stream::LOAD, service::LOAD, spin::LOAD, build::LOAD, stacks::LOAD];

/// Options of every load.
const SHARED: &[Flag] = &[
    Flag::long(
        "on-input",
        "get ready when a line comes on standard input, begin when another one comes, end when it ends",
    ),
    Flag::long("events", "with --json: tell what happens meanwhile, one object a line, before the result"),
];

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
        // The usage that helps is that of the load.
        tell(&failure, &load.spec, &words, ctx);
        Ok(failure.exit())
    })
}

/// Runs a load with the words behind its name, of which it has no use for the options `without`.
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

/// The words of a load's command line by long names, without what only the published program has, which is named.
fn canonical(
    program: &Program,
    inside: Vec<String>,
    rest: &[OsString],
    spec: &Spec,
) -> (Vec<OsString>, Vec<&'static str>) {
    let texts: Option<Vec<String>> = rest.iter().map(|word| word.to_str().map(str::to_owned)).collect();
    // What is no text is refused by those who read it.
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

/// How a load is run and reports.
struct Job {
    name: &'static str,
    json: bool,
    events: bool,
    stop: &'static AtomicBool,
    /// A message for each line of standard input after the first, where they say when to begin.
    lines: Option<Receiver<()>>,
}

/// Waits for the first line of standard input, then follows the others; none when it ended without one. Its end, later,
/// stops the load. No thread is started before the line came: whoever binds this process before binds all of it.
///
/// # Errors
/// The system's reason why no thread was started.
fn follow_input(stop: &'static AtomicBool) -> io::Result<Option<Receiver<()>>> {
    let mut line = String::new();
    let mut next = move || io::stdin().read_line(&mut line).is_ok_and(|bytes| bytes > 0);
    if !next() {
        return Ok(None);
    }
    let (sender, lines) = mpsc::channel();
    let follow = move || {
        while next() {
            // Nobody listens any more once the load has begun.
            let _ = sender.send(());
        }
        stop.store(true, Ordering::Relaxed);
    };
    thread::Builder::new().name("input".to_owned()).spawn(follow)?;
    Ok(Some(lines))
}

impl Job {
    /// Called by a load that is ready: waits for the word to begin, if there will be one.
    fn wait_to_begin(&self) {
        if let Some(lines) = &self.lines {
            // An end of input instead has stopped the load, or is about to.
            let _ = lines.recv();
        }
    }

    /// Stops the load when nobody reads any more what it tells.
    fn mind_reader(&self, ctx: &mut Ctx<'_>) {
        ctx.out.flush();
        if ctx.out.is_closed() {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Tells what happens, if that is wanted.
    fn event(&self, ctx: &mut Ctx<'_>, event: &str, mut value: Value) {
        if self.events {
            value["event"] = event.into();
            value["load"] = self.name.into();
            ctx.json(&value);
            self.mind_reader(ctx);
        }
    }

    /// Tells a line or more for people.
    fn text(&self, ctx: &mut Ctx<'_>, text: &str) {
        if !self.json {
            ctx.out.text(text);
            self.mind_reader(ctx);
        }
    }

    /// Tells what came of it.
    fn result(&self, ctx: &mut Ctx<'_>, text: &str, result: &impl serde::Serialize) {
        self.text(ctx, text);
        if self.json {
            ctx.json(&json!({ "load": self.name, "result": result }));
        }
    }

    /// What a load says when it cannot run.
    fn failed(&self, error: &Error) -> Failure {
        let mut causes = Vec::new();
        let mut cause = std::error::Error::source(error);
        while let Some(next) = cause {
            causes.push(next.to_string());
            cause = next.source();
        }
        // The error is a whole sentence of its own; without a cause its second half is the reason.
        let text = error.to_string();
        let text = text.strip_prefix("cannot ").unwrap_or(&text);
        let complaint = match (causes.is_empty(), text.split_once(": ")) {
            (false, _) => Complaint::new(text, causes.join(": ")),
            (true, Some((what, why))) => Complaint::new(what, why),
            (true, None) => Complaint::new(format!("run load {}", self.name), text),
        };
        Complaint { hint: error.hint(), ..complaint }.into()
    }
}
