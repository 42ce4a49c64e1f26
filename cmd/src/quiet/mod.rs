//! Shows what disturbs the job of a processor set, each disturbance by its name, and proves that nothing does.
//!
//! A line for each cause: the interrupt of a device, a call from another processor with who sent it and for which function, the tick of the clock,
//! a soft interrupt, a timer, a function of a kernel worker, a kernel thread, a foreign thread, a page fault of the job, time that the hypervisor took. Each with
//! how often, the longest, all together, and what helps against it. The job is whatever is bound to the set: run it, and look on. With a
//! command the job is started in the set first.
//!
//! ```text
//! $ millpond quiet 1 --for 60s --max 50us
//! KIND     NAME              BY             COUNT  RATE/S  LONGEST    TOTAL  SHARE%  REMEDY
//! tick     tick_nohz_handler -              15000   250.0    6.2us   31.5ms   0.053  boot with nohz_full=2-3, and run one thread on each
//! ipi      do_flush_tlb_all  kcompactd0        12     0.2    8.0us   61.2us   0.000  kcompactd0 changes mappings: no munmap, mprotect or forks in the job
//! device   eth0-rx-1         -                  2     0.0    9.7us   18.1us   0.000  psradm -i 2-3
//! total                                     15014   250.2             31.6ms  0.053
//! worst stretch without the job: 17.3us on processor 3 after 12.041 s: tick tick_nohz_handler
//! watched processors 2-3 for 60.000 s by programs in the kernel; watching took 0 of it (0 times)
//! quiet: nothing took longer than 50us
//! ```
//!
//! # Operands
//!
//! A set, and a command to be started in it behind `--`. The command is told to end when the time is over, and the time is over when the command ends. In
//! the default set (0) nobody is a member: everything that runs there is shown. In place of a set, processors (`--cpu`) or processes (`--pid`) can be named.
//!
//! # Columns
//!
//! `BY` is who sent a call, whom a timer wakes, whose fault it was. `(job)` marks what the job does to itself, and `(watcher)` what this command does: neither
//! counts against the limit, and what the watcher does is not in the total. `TOTAL` is a cause's own time, without what interrupted it in turn: no
//! moment is in two lines. `SHARE%` is of the time of all watched processors. A dash stands for what cannot be told: how long a page fault took
//! (the kernel does not say when it ends), how often the hypervisor took the processor, and without programs in the kernel how long anything took.
//!
//! The sender of a call is the thread that ran where it was sent from; an interrupt there sends in the name of the thread that it interrupted.
//!
//! # At a terminal
//!
//! The verdict comes first, then at most 15 lines: causes with the same remedy in one line, those that took longest first. Threads of one program are one cause.
//! `--all`, a pipe, a file and `--json` have every cause.
//!
//! A remedy is checked against the machine: what is done already is not advised, and each command in one exists. Where no process is bound to
//! the set, the first line says so.
//!
//! # What watching does
//!
//! It ends what it began, also when it is killed. Programs are attached and detached once, for which the kernel calls every processor a few times: these calls
//! are shown as the watcher's. While it looks, nobody is called or woken; the command itself leaves the watched processors if it may run elsewhere. Each event
//! there takes some 100 ns longer. `--by-counts` avoids even that, and tells less.
//!
//! # JSON
//!
//! One object. What cannot be told is null.
//!
//! ```text
//! {"processors":"2-3","set":1,"has_job":true,"elapsed_s":60.0,"source":"programs in the kernel",
//!  "disturbances":[{"kind":"tick","name":"tick_nohz_handler","by":null,"doer":"others","pid":null,"processors":"2-3","count":15000,
//!                   "rate":250.0,"longest_ns":6200,"total_ns":31500000,"share":0.053,"remedy":"boot with …"}],
//!  "total":{"count":15014,"total_ns":31600000,"share":0.053},"watcher":{"count":0,"total_ns":0},
//!  "stretches":[{"cpu":3,"at_s":12.041,"length_ns":17300,"kind":"tick","name":"tick_nohz_handler","by":null,"doer":"others"}],
//!  "lost":[],"missing":[],"events":[],"limit":"50us","quiet":true,"broken":[]}
//! ```
//!
//! `stretches` are the hundred longest. `quiet` is null without a limit.

mod brief;
mod figures;
mod options;
mod page;
mod remedy;
mod show;
mod watch;

use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure};
use millpond_cli::{Example, Flag, Group, Operands, Parsed, Spec, ValueKind};
use millpond_observe::Verdict;
use millpond_session::{output_is_terminal, replace_text};
pub(crate) use options::time as time_operand;

use options::Options;
use std::path::Path;

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "quiet",
        summary: "show what disturbs the job of a set, and prove that nothing does",
        group: Group::RealTime,
        forms: &[
        "[--for time] [--max time | n/s] [--strict] [--by-counts] [--all] [--report file] set [-- command ...]",
        "[--for time] [--max time | n/s] [--strict] [--by-counts] [--all] [--report file] --cpu list | --pid list",
    ],
        flags: &[Flag::long("for", "how long to look: 60s, 500ms, 2m; seconds without a unit. 10s if not given, or until the command ends").value("time", ValueKind::Time), Flag::long("max", "exit with 1 if one disturbance, or a stretch of several, is longer (50us, 1ms), or if a processor is disturbed more often (10/s)").value("limit", ValueKind::Text), Flag::long("strict", "what the job does to itself (its faults, its own timers and calls) counts against the limit, too"), Flag::long("cpu", "these processors, instead of a set's").value("list", ValueKind::Cpus), Flag::long("pid", "the job is these processes and what descends from them; alone, where they may run").value("list", ValueKind::Process), Flag::long("by-counts", "start nothing in the kernel: read the counts of /proc before and after"), Flag::long("report", "a page as well: a picture (.svg) or a page for a browser (.html), with a line of time of the worst stretches").value("file", ValueKind::File), Flag::long("all", "at a terminal: a line for each cause, as where the output is no terminal")],
        permutes: true,
        in_shell: true,
        operands: Operands { shown: "set [-- command ...]", kinds: &[ValueKind::Pset] },
        examples: &[Example { words: "1", what: "watch set 1 for 10 seconds" }, Example { words: "1 --for 60s --max 50us", what: "fail if something took its CPUs for longer than 50 us" }, Example { words: "--cpu 2-3 --report noise.html", what: "watch two CPUs, and write a page for a browser" }],
        status: &[("0", "done, and within the limit if there was one"), ("1", "the limit was exceeded or cannot be judged, the set ended meanwhile, or nothing can be watched"), ("2", "the command line is wrong; nothing was done")],
        see_also: &["psrset(8)", "psradm(8)", "latstat(1)", "intrstat(1)"],
        prose: include_str!("mod.rs"),
        ..Spec::NEW
    },
    run,
};

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let options = Options::of(parsed)?;
    if parsed.common.dry_run && !options.command.is_empty() {
        return Err(Failure::Usage("--dry-run starts nothing, so there is no command to look at".to_owned()));
    }
    let session = ctx.reading(&parsed.common)?;
    let run = watch::run(&session, &options, ctx)?;
    let verdict = options.limit.as_ref().map(|limit| run.quiet.judge(limit.value, options.strict));
    if parsed.common.json {
        ctx.json(&show::json(&run, &options, verdict.as_ref()));
    } else {
        let looked_at = ctx.given().is_none() && output_is_terminal() && !parsed.long("all");
        let text = if looked_at { brief::text } else { show::text };
        ctx.out.text(&text(&run, &options, verdict.as_ref()));
    }
    ctx.out.flush();
    for line in &run.seen.lost {
        ctx.warn(format_args!("not kept: {line}"));
    }
    for line in &run.seen.missing {
        ctx.warn(format_args!("not told: {line}"));
    }
    let mut exit = if run.failed { Exit::REFUSED } else { Exit::DONE };
    if let Some(file) = &options.report {
        exit = exit.and(report(file, &run, &options, verdict.as_ref(), ctx));
    }
    Ok(match verdict {
        None | Some(Verdict::Kept) => exit,
        Some(Verdict::Broken(_)) => exit.and(Exit::REFUSED),
        Some(verdict) => {
            let limit = options.limit.as_ref().map(|limit| limit.text.clone()).unwrap_or_default();
            ctx.complain(&not_judged(&verdict, &limit));
            exit.and(Exit::REFUSED)
        }
    })
}

/// Why there is no verdict.
fn not_judged(verdict: &Verdict, limit: &str) -> Complaint {
    let (why, hint) = match verdict {
        Verdict::Partial => (
            "nothing that was kept is beyond it, and not everything was kept",
            "look at fewer processors, or for a shorter time",
        ),
        _ => (
            "how long each disturbance took is not known here",
            "a limit on how often can be judged: --max 10/s",
        ),
    };
    Complaint::new(format!("judge by {limit}"), why).hint(hint)
}

/// Writes the page; where that fails it is told.
fn report(
    file: &str,
    run: &watch::Run,
    options: &Options,
    verdict: Option<&Verdict>,
    ctx: &mut Ctx<'_>,
) -> Exit {
    let sheet = page::sheet(run, options, verdict);
    let text = if options::is_picture(file) { sheet.svg() } else { sheet.html() };
    match replace_text(Path::new(file), &text) {
        Ok(()) => Exit::DONE,
        Err(why) => {
            ctx.complain(&Complaint::new(format!("write {file}"), why));
            Exit::REFUSED
        }
    }
}
