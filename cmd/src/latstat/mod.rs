//! Measures timer wake-up latency: the time from a timer's expiry until the waiting thread runs, stage by stage.
//!
//! A thread in the real-time class waits for timers on a CPU of its own. Other threads, and interrupts that can be
//! moved, are kept off that CPU. Each interval is one of 24 primes near 1,000 us, at random. Each stage has a
//! timestamp:
//!
//! ```text
//! timer due ──irq──▶ its handler ──wake-up──▶ runnable ──on-cpu──▶ is on the CPU ──user──▶ is back in user mode
//!     └──────────────────────────────────────── total ────────────────────────────────────────▶┘
//!
//! $ latstat --samples 1000000 --above 13us,30us
//! us       samples   min  median   p99  p99.9  p99.99  p99.999  p99.9999   max
//! irq      1000000  0.61    0.83  1.27   1.95    4.02     7.81     11.30  11.3
//! wake-up  1000000  …
//! total    1000000  …
//! above 13 us: 3 of 1000000; above 30 us: 0 of 1000000
//! ```
//!
//! A dash is a quantile for which there are too few samples. Below the table are the longest latencies, each with the
//! interrupts, softirqs and threads that ran meanwhile. Then follows everything that ran on the CPU. A line `scheduler:
//! ext millpond, whole` means that a sched_ext scheduler was loaded.
//!
//! It ends when you interrupt it, or after `--samples` or `--duration`. Then it restores all settings, including the
//! scheduling class. After `kill -9` the next changing command restores them.
//!
//! # What is measured
//!
//! Times are from the monotonic clock, so that steps of the wall clock have no effect. Stage irq ends when the kernel's
//! handler reaches the timer, and wake-up when the thread is runnable. Stage on-cpu ends at the switch to the thread,
//! and user when it has read the clock itself. Where no BPF program can be loaded (rights, no BTF) only the total is
//! known, and the output says so. Taking the timestamp of a stage is part of the next one. Histograms have three
//! significant digits. Buffers of 5,000 samples are read while the next one is filled, without allocations. Samples
//! without room are counted and reported.
//!
//! # timerlat
//!
//! Some kernels have a tracer for the same measurement, timerlat: Debian's with `-rt`, those of Ubuntu, Fedora and RHEL,
//! from 6.5 on. With `--timerlat` the thread waits for timers of the tracer, at a constant interval. The tracer reports
//! the stages, in a trace instance of its own.
//!
//! ```text
//! $ latstat --timerlat --samples 1000000
//! us       samples   min  median   p99  p99.9  p99.99  p99.999  p99.9999   max
//! irq      1000000  …
//! thread   1000000  …
//! user     1000000  …
//! total    1000000  …
//! by timerlat, each 1 ms: thread is wake-up and on-cpu together; user ends when the thread asks for the next timer
//! ```
//!
//! It does not report what ran on the CPU. Its runs do not merge with others, because the stages differ. The kernel
//! runs only one of timerlat and osnoise at a time, so `--timerlat` is refused while rtla runs. The tracer's settings
//! are restored at the end, or after `kill -9` by the next command.
//!
//! # JSON
//!
//! One object at the end. The schema is docs/reference/json/latstat.json. Times without a unit in their name are in
//! nanoseconds.

mod compare;
mod files;
mod loads;
mod measure;
mod options;
mod place;
mod show;

use crate::change::DryRun;
use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, facet};
use crate::json::{self, Describe};
use millpond_cli::{Example, Flag, Group, INTERRUPTED, MISUSED, Parsed, Spec, ValueKind};
use millpond_observe::latency::{Mixed, Saved, Source};
use millpond_session::{NO_FILE, Session, read_log};
use options::Options;
use show::Shown;
use std::path::Path;

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] = &[json::of::<show::Measured<'_>>(), json::of::<DryRun<'_>>()];

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "latstat",
        applet: true,
        summary: "measure timer wake-up latency, stage by stage",
        group: Group::Noise,
        forms: &[
            "[--samples N] [--duration TIME] [--cpu N] [--keep-others] [--level N] [--interval TIME] [--plain | --timerlat] \
         [--above LIST] [--max TIME] [--save FILE | --resume FILE] [--plot DIR] [--compare cyclictest] [--load LIST]",
            "--merge FILE ... [--above LIST] [--max TIME] [--save FILE] [--plot DIR]",
        ],
        flags: &[
            Flag::long("samples", "end after this many samples").value("n", ValueKind::Text),
            Flag::long("duration", "end after this time: 90s, 30m, 12h, 2d, or seconds")
                .value("time", ValueKind::Time),
            Flag::long("cpu", "the CPU; without it the last free one of the lgroup with the most free CPUs")
                .value("cpu", ValueKind::Cpus),
            Flag::long("keep-others", "push no other thread out, and leave interrupts where they are"),
            Flag::long("level", "its level in class RT, SCHED_FIFO: 0 to 59 (30)")
                .value("n", ValueKind::Text),
            Flag::long("interval", "the time near which the 24 intervals are, at least 50us (1000us)")
                .value("time", ValueKind::Time),
            Flag::long("plain", "load no program into the kernel: only the total is measured")
                .conflicts(&["timerlat"]),
            Flag::long(
                "timerlat",
                "use the kernel's tracer: its timers at one interval (100us to 1s), and its stages",
            ),
            Flag::long("above", "count samples whose total is above each of these: 13us,30us")
                .value("list", ValueKind::Text),
            Flag::long("max", "exit with 1 if the total of a sample is longer")
                .value("time", ValueKind::Time),
            Flag::long("save", "write the run to this file at the end, and after each 500,000 samples")
                .value("file", ValueKind::File)
                .conflicts(&["resume"]),
            Flag::long("resume", "continue the run of this file, and save it there")
                .value("file", ValueKind::File),
            Flag::long("merge", "measure nothing; show saved runs together (with --save: keep them)")
                .conflicts(options::MEASURES),
            Flag::long("plot", "write latstat.gp and latstat.dat for gnuplot, latstat.svg and latstat.html")
                .value("dir", ValueKind::Directory),
            Flag::long("compare", "measure interleaved with this program: cyclictest")
                .value("program", ValueKind::Word(&["cyclictest"])),
            Flag::long(
                "load",
                "keep the other CPUs busy meanwhile, at the lowest priority: hackbench, build, mpstat",
            )
            .value("list", ValueKind::Text),
        ],
        permutes: true,
        examples: &[
            Example {
                words: "--keep-others --samples 10000",
                what: "measure timer wake-up latency, stage by stage",
            },
            Example { words: "--duration 60s --max 50us", what: "fail if a sample takes longer than 50 us" },
        ],
        status: &[
            INTERRUPTED,
            ("1", "it could not be measured, a file could not be written, or a sample was over --max"),
            MISUSED,
        ],
        see_also: &["millpond-quiet(1)", "millpond-diagnose(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let options = Options::of(parsed)?;
    if options.merges() {
        return merge(&options, ctx);
    }
    let mut before = match &options.resume {
        Some(path) => resumed(path, &options)?,
        None => Saved::of(options.source()),
    };
    let chosen = |session: &Session| {
        facet("latency probes", session.machine().latency())?;
        place::choose(session.machine(), options.cpu)
    };
    let (session, cpu) = ctx.changing_once(&parsed.common, chosen)?;
    let machine = session.machine();
    let probe = facet("latency probes", machine.latency())?;
    if parsed.common.dry_run {
        return place::only_shown(machine, probe, cpu, &options, &parsed.common, ctx);
    }
    let measured = measure::measure(machine, probe, cpu, &options, &mut before, ctx)?;
    let kept = files::write(&options, &before, ctx);
    let exit = show(&options, &Shown { saved: &before, run: Some(&measured) }, ctx);
    let ended = measured.failed.map_or(Exit::DONE, |complaint| {
        ctx.complain(&complaint);
        Exit::REFUSED
    });
    Ok(exit.and(kept).and(ended))
}

/// Shows saved runs together.
fn merge(options: &Options, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let mut all = Saved::default();
    for path in &options.merge {
        let what = format!("merge saved run {}", path.display());
        let mixed = |why: Mixed| Complaint::new(what, why.to_string()).hint("merge those of each apart");
        all.merge(&saved(path)?).map_err(mixed)?;
    }
    let kept = files::write(options, &all, ctx);
    Ok(show(options, &Shown { saved: &all, run: None }, ctx).and(kept))
}

fn saved(path: &Path) -> Result<Saved, Failure> {
    let broken = |why: String| Complaint::new(format!("read saved run {}", path.display()), why);
    let text = read_log(path).map_err(broken)?;
    Ok(Saved::parse(&text).map_err(|error| broken(error.to_string()))?)
}

/// The run to continue. Empty if the file does not exist yet.
fn resumed(path: &Path, options: &Options) -> Result<Saved, Failure> {
    let source = options.source();
    let before = match read_log(path) {
        Err(why) if why == NO_FILE => Saved::of(source),
        _ => saved(path)?,
    };
    if before.takes(source).is_err() {
        let why = format!("it was measured by {}", before.source.name());
        let hint = match before.source {
            Source::Timerlat => "--timerlat goes on with it",
            Source::Latstat => "without --timerlat it is gone on with",
        };
        return Err(Complaint::new(format!("go on with saved run {}", path.display()), why)
            .hint(hint)
            .into());
    }
    Ok(Saved { source, ..before })
}

/// Prints the report. Returns the exit status, which depends on the limit.
fn show(options: &Options, shown: &Shown<'_>, ctx: &mut Ctx<'_>) -> Exit {
    if options.json {
        ctx.json(&shown.json(options));
    } else {
        ctx.out.text(&shown.text(&options.above));
    }
    let Some(over) = shown.over(options) else { return Exit::DONE };
    ctx.warn(over);
    Exit::REFUSED
}
