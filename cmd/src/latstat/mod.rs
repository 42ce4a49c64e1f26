//! Measures how long it takes from a timer to a program: stage by stage, on a processor of its own.
//!
//! A thread in the real-time class waits for timers, each a random one of 24 primes near 1,000 us away, on a processor from which
//! everybody else and all interrupts that can be moved were driven away. Where its time went is stamped on the way:
//!
//! ```text
//! timer due ──irq──▶ its handler ──wake-up──▶ runnable ──on-cpu──▶ has the processor ──user──▶ is back in user mode
//!     └──────────────────────────────────────── total ────────────────────────────────────────────▶┘
//!
//! $ latstat --samples 1000000 --above 13us,30us
//! us       samples   min  median   p99  p99.9  p99.99  p99.999  p99.9999   max
//! irq      1000000  0.61    0.83  1.27   1.95    4.02     7.81     11.30  11.3
//! wake-up  1000000  …
//! total    1000000  …
//! above 13 us: 3 of 1000000; above 30 us: 0 of 1000000
//! ```
//!
//! A dash stands for a quantile beyond which there are too few samples. Below stand the longest waits with what had the processor meanwhile,
//! by name (interrupts, soft interrupts, tasks), and what else ran on the processor at all.
//!
//! It goes on until you interrupt it, or for as long as you say. When it ends everything is as it was before, also the class; after `kill -9` the next
//! command that may change something puts it back.
//!
//! # What is measured
//!
//! Times are of the monotonic clock, which nobody sets: a step of the wall clock does no harm. irq ends when the kernel's handler reaches this
//! timer, wake-up when the thread is runnable, on-cpu when it was switched to; user ends behind its own reading of the clock. Where programs may
//! not be loaded into the kernel (rights, no types of the kernel) only the whole is known, and that is said. What stamps a stage is itself a part of the
//! next one. Histograms have three digits; buffers of 5,000 samples are read while the next one is filled, and nothing is
//! allocated where time counts. Samples that find no room are counted and told.
//!
//! # By timerlat
//!
//! Some kernels (Debian's with `-rt`, those of Ubuntu, Fedora and RHEL, from 6.5 on) have a tracer for the same question. With `--timerlat` the thread waits
//! for the timers of that one, which follow each other at one interval, and the tracer tells of the stages; it works in a trace instance of its own.
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
//! It does not tell who had the processor meanwhile, nor what else ran there. Runs of timerlat and other runs do not merge: their stages are not the same. Of
//! timerlat and osnoise one works at a time for the whole machine, so that it is refused beside rtla. Its settings are put back at the end; after
//! `kill -9` by the next command.
//!
//! # JSON
//!
//! An object at the end; times are in nanoseconds, null where the table has a dash.
//!
//! ```text
//! {"source":"latstat","cpu":1,"set":1,"keep_others":false,"elapsed_s":…,"samples":…,"unstaged":…,"lost":…,
//!  "rows":{"irq":{"samples":…,"min":…,"median":…,"p99":…,…,"max":…},…},"above":[{"limit":13000,"samples":3},…],
//!  "worst":[{"at_ns":…,"total_ns":…,"stages_ns":[…],"culprits":[{"what":"interrupt 24 (eth0)","ns":…},…]},…],
//!  "sharers":[{"what":"task kworker/1:0 (77)","times":…,"ns":…},…],
//!  "compare":{"with":"cyclictest","turns":…,"samples":{"ours":…,"theirs":…},"figures":{"min":{"ours":…,"theirs":…,"ratio":…},…}},
//!  "load":[{"name":"hackbench","percent":93.1},…],"over_max":false}
//! ```

mod compare;
mod files;
mod loads;
mod measure;
mod options;
mod place;
mod show;

use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, facet};
use millpond_cli::{Example, Flag, Group, Parsed, Spec, ValueKind};
use millpond_observe::latency::{Mixed, Saved, Source};
use millpond_session::{NO_FILE, Session, read_log};
use options::Options;
use show::Shown;
use std::path::Path;

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "latstat",
        applet: true,
        summary: "measure how long it takes from a timer to a program",
        group: Group::RealTime,
        forms: &[
        "[--samples N] [--duration TIME] [--cpu N] [--keep-others] [--level N] [--interval TIME] [--plain | --timerlat] \
         [--above LIST] [--max TIME] [--save FILE | --resume FILE] [--plot DIR] [--compare cyclictest] [--load LIST]",
        "--merge FILE ... [--above LIST] [--max TIME] [--save FILE] [--plot DIR]",
    ],
        flags: &[Flag::long("samples", "so many samples").value("n", ValueKind::Text), Flag::long("duration", "so long: 90s, 30m, 12h, 2d; without a unit seconds").value("time", ValueKind::Time), Flag::long("cpu", "the processor; otherwise the last one that is free in the locality group with the most").value("cpu", ValueKind::Cpus), Flag::long("keep-others", "push no thread out and leave interrupts where they are; what else ran on the CPU is reported all the same"), Flag::long("level", "its level in the class RT, first in, first out: 0 to 59 (30)").value("n", ValueKind::Text), Flag::long("interval", "what the 24 primes are near to, at least 50us (1000us)").value("time", ValueKind::Time), Flag::long("plain", "no programs in the kernel: only the whole is measured"), Flag::long("timerlat", "by the kernel's own tracer, where it has that: its timers, one interval (100us to 1s), and its stages"), Flag::long("above", "how many samples of the whole took longer than each of these: 13us,30us").value("list", ValueKind::Text), Flag::long("max", "status 1 if a sample of the whole took longer").value("time", ValueKind::Time), Flag::long("save", "write everything there at the end, and after each 500,000 samples").value("file", ValueKind::File), Flag::long("resume", "go on with what was saved there, and save it there; a file that is not there yet is made").value("file", ValueKind::File), Flag::long("merge", "measure nothing; show what these runs saved, together (with --save: keep it)"), Flag::long("plot", "latstat.gp and latstat.dat for gnuplot (a sheet for each row), latstat.svg, latstat.png and latstat.html, rewritten after each 500,000 samples").value("dir", ValueKind::Directory), Flag::long("compare", "measure interleaved with this program: cyclictest").value("program", ValueKind::Word(&["cyclictest"])), Flag::long("load", "keep the other CPUs busy meanwhile, at the lowest priority: hackbench, build, mpstat").value("list", ValueKind::Text)],
        permutes: true,
        examples: &[Example { words: "--keep-others --samples 10000", what: "measure timer wake-up latency, stage by stage" }, Example { words: "--duration 60s --max 50us", what: "fail if a sample takes longer than 50 us" }],
        status: &[("0", "done, also when interrupted"), ("1", "it could not be measured, a file could not be written, or a sample was over --max"), ("2", "the command line is wrong; nothing was done")],
        see_also: &["millpond-quiet(1)", "millpond-diagnose(1)"],
        prose: include_str!("mod.rs"),
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

/// Shows what runs saved, together.
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

/// What is gone on with; nothing where the file is not there yet.
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

/// Prints everything, and says whether a limit was kept.
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
