//! Measures OS noise: what takes the CPUs of a processor set from its job, by cause, and whether it stays within a
//! limit.
//!
//! Each cause has a line with its count, longest time, total and remedy. Causes are device interrupts, inter-processor
//! interrupts (IPIs), the timer tick, softirqs and timers. Others are functions of kernel workers, kernel threads,
//! other threads, page faults of the job, and time stolen by the hypervisor. The job consists of the processes that are
//! bound to the set. Start it first, or let this command start it in the set.
//!
//! ```text
//! $ millpond quiet 1 --for 60s --max 50us
//! KIND     NAME              BY             COUNT  RATE/S  LONGEST    TOTAL  SHARE%  REMEDY
//! tick     tick_nohz_handler -              15000   250.0    6.2us   31.5ms   0.053  boot with nohz_full=2-3, and run one thread on each
//! ipi      do_flush_tlb_all  kcompactd0        12     0.2    8.0us   61.2us   0.000  kcompactd0 changes mappings: no munmap, mprotect or forks in the job
//! device   eth0-rx-1         -                  2     0.0    9.7us   18.1us   0.000  psradm -i 2-3
//! total                                     15014   250.2             31.6ms  0.053
//! worst stretch without the job: 17.3us on CPU 3 after 12.041 s: tick tick_nohz_handler
//! watched CPUs 2-3 for 60.000 s by programs in the kernel; watching took 0 of it (0 times)
//! quiet: nothing took longer than 50us
//! ```
//!
//! # Operands
//!
//! The operand is a set. A command behind `--` is started in the set. It gets SIGTERM when the time is over, and the
//! measurement ends when it ends. The default set (0) has no members: everything that runs there is shown. CPUs
//! (`--cpu`) or processes (`--pid`) can take the place of a set.
//!
//! # Columns
//!
//! `BY` is the sender of an IPI, the thread that a timer wakes, or the thread that faulted. `(job)` marks what the job
//! does to itself. `(watcher)` marks what this command does. Neither counts against the limit, and the total excludes
//! the watcher. `TOTAL` is a cause's own time, without what interrupted it: no moment is in two lines. `SHARE%` is of
//! the time of all watched CPUs. A dash is an unknown figure: the length of a page fault, the number of hypervisor
//! steals, and without programs in the kernel all times.
//!
//! The sender of an IPI is the thread that ran on the sending CPU. An interrupt there sends in the name of the thread
//! that it interrupted.
//!
//! # At a terminal
//!
//! The verdict comes first, then at most 15 lines. Causes with the same remedy share a line, the longest first. Threads
//! of one program are one cause. `--all`, a pipe, a file and `--json` have every cause.
//!
//! A remedy is checked against the machine: measures that are already in effect are not advised. If no process is bound
//! to the set, the first line says so.
//!
//! # Cost
//!
//! Programs are attached to the kernel once and detached once, also when the command is killed. For that the kernel
//! sends a few IPIs to every CPU, before and after the time that is measured. In between the command wakes no thread on
//! the watched CPUs, and leaves them if it may run elsewhere. Each event there takes about 100 ns longer. `--by-counts`
//! avoids that, and shows counts without times.
//!
//! # Recordings
//!
//! `--from` reads a recording of `millpond record --noise` instead of the machine. It has counts and times of each
//! cause for the CPUs of sets, but no stretches. A limit on the rate is judged. A limit on time is broken by a longer
//! recorded disturbance, and cannot be judged otherwise.
//!
//! # JSON
//!
//! The schema is docs/reference/json/quiet.json.

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
use crate::json::{self, Describe};
use crate::recordings;
use millpond_cli::{Example, Flag, Group, MISUSED, Operands, Parsed, Spec, ValueKind};
use millpond_model::Nanos;
use millpond_observe::Verdict;
use millpond_session::{Session, output_is_terminal, replace_text};
pub(crate) use options::Options;
pub(crate) use show::Noise;
use std::path::Path;

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] = &[json::of::<show::Noise<'_>>()];

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "quiet",
        summary: "measure OS noise on the CPUs of a set, by cause, against a limit",
        group: Group::Noise,
        forms: &[
            "[--for time] [--max time | n/s] [--strict] [--by-counts] [--all] [--report \
                 file] [--from recording [--at moment]] set [-- command ...]",
            "[--for time] [--max time | n/s] [--strict] [--by-counts] [--all] [--report \
                 file] [--from recording [--at moment]] --cpu list | --pid list",
        ],
        flags: &[
            Flag::long(
                "for",
                "how long to measure: 60s, 500ms, 2m, or seconds; without it 10 s, or until the \
                 command ends",
            )
            .value("time", ValueKind::Time),
            Flag::long(
                "max",
                "exit with 1 if noise takes longer at one stretch (50us, 1ms), or interrupts a \
                 CPU more often (10/s)",
            )
            .value("limit", ValueKind::Text),
            Flag::long(
                "strict",
                "count what the job does to itself (faults, timers, system calls) against the \
                 limit as well",
            ),
            Flag::long("cpu", "these CPUs, instead of those of a set").value("list", ValueKind::Cpus),
            Flag::long(
                "pid",
                "the job is these processes and their children; without a set, on the CPUs \
                 where they may run",
            )
            .value("list", ValueKind::Process),
            Flag::long(
                "by-counts",
                "load no program into the kernel: read the counts of /proc before and after",
            ),
            Flag::long(
                "report",
                "write a picture (.svg) or a page (.html) as well, with a time line of the \
                 worst stretches",
            )
            .value("file", ValueKind::File),
            recordings::FROM.conflicts(&["by-counts", "pid"]),
            recordings::AT,
            Flag::long("all", "at a terminal: a line for each cause, as in a pipe"),
        ],
        permutes: true,
        in_shell: true,
        operands: Operands { shown: "set [-- command ...]", kinds: &[ValueKind::Pset] },
        examples: &[
            Example { words: "1", what: "watch set 1 for 10 seconds" },
            Example {
                words: "1 --for 60s --max 50us",
                what: "fail if something took its CPUs for longer than 50 us",
            },
            Example {
                words: "--cpu 2-3 --report noise.html",
                what: "watch two CPUs, and write a page for a browser",
            },
        ],
        status: &[
            ("0", "done, and within the limit if there was one"),
            (
                "1",
                "the limit was exceeded or cannot be judged, the set ended meanwhile, or \
                 nothing can be watched",
            ),
            MISUSED,
        ],
        see_also: &["psrset(8)", "psradm(8)", "latstat(1)", "intrstat(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let options = Options::of(parsed)?;
    if parsed.long("from") && !options.command.is_empty() {
        return Err(Failure::Usage("--from looks at what was recorded, so no command is started".to_owned()));
    }
    if parsed.common.dry_run && !options.command.is_empty() {
        return Err(Failure::Usage("--dry-run starts nothing, so there is no command to look at".to_owned()));
    }
    let session = recordings::reading(parsed, ctx)?;
    measure(&session, &options, parsed.common.json, parsed.long("all"), ctx).map(|measured| measured.exit)
}

/// The result of a measurement.
pub(crate) struct Measured {
    /// The exit status of the command.
    pub exit: Exit,
    /// Whether the limit was kept; `None` without a limit, or if it cannot be judged.
    pub is_kept: Option<bool>,
    /// Length of the measurement.
    pub length: Nanos,
}

/// Measures and prints.
///
/// # Errors
/// As for [`watch::run`].
pub(crate) fn measure(
    session: &Session,
    options: &Options,
    as_json: bool,
    tells_all: bool,
    ctx: &mut Ctx<'_>,
) -> Result<Measured, Failure> {
    let run = watch::run(session, options, ctx)?;
    let verdict = options.limit.as_ref().map(|limit| run.quiet.judge(limit.value, options.strict));
    if as_json {
        ctx.json(&show::Noise::of(&run, options, verdict.as_ref()));
    } else {
        let looked_at = ctx.given().is_none() && output_is_terminal() && !tells_all;
        let text = if looked_at { brief::text } else { show::text };
        ctx.out.text(&text(&run, options, verdict.as_ref()));
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
        exit = exit.and(report(file, &run, options, verdict.as_ref(), ctx));
    }
    let is_kept = match &verdict {
        Some(Verdict::Kept) => Some(!run.failed),
        Some(Verdict::Broken(_)) => Some(false),
        _ => None,
    };
    let exit = match verdict {
        None | Some(Verdict::Kept) => exit,
        Some(Verdict::Broken(_)) => exit.and(Exit::REFUSED),
        Some(verdict) => {
            let limit = options.limit.as_ref().map(|limit| limit.text.clone()).unwrap_or_default();
            ctx.complain(&not_judged(&verdict, &limit));
            exit.and(Exit::REFUSED)
        }
    };
    Ok(Measured { exit, is_kept, length: run.quiet.elapsed })
}

/// Why there is no verdict.
fn not_judged(verdict: &Verdict, limit: &str) -> Complaint {
    let (why, hint) = match verdict {
        Verdict::Partial => (
            "nothing that was kept is beyond it, and not everything was kept",
            "look at fewer CPUs, or for a shorter time",
        ),
        _ => (
            "how long each disturbance took is not known here",
            "a limit on how often can be judged: --max 10/s",
        ),
    };
    Complaint::new(format!("judge by {limit}"), why).hint(hint)
}

/// Writes the page, and reports a failure.
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
