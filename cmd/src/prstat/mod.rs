//! Shows the busiest processes or threads, and where their time goes.
//!
//! ```text
//! $ prstat -c 5 1
//!    PID USERNAME  SIZE   RSS STATE  PRI NICE      TIME  CPU PROCESS/NLWP
//!   1974 user1    4488K 3640K cpu2    29    0   0:00:41  12% java/31
//!    102 root     3176K 1400K sleep   29    0   0:00:00 0.0% sshd/1
//! Total: 2 processes, 32 lwps, load averages: 0.20, 0.18, 0.12
//! $ prstat -mLc --calls 5 2
//! …
//!    PID USERNAME USR SYS TRP TFL DFL LCK SLP LAT VCX ICX SCL SIG PROCESS/LWP
//!   1974 user1     97 0.4   - 0.0 0.0 0.0 0.0 2.2   0  41  22   0 java/1980
//!   1974 user1    1.2 0.3   - 0.0 0.0  98 0.0 0.1  12   0  30   0 java/1981
//! ```
//!
//! A report is shown every 5 seconds until you interrupt it. On a terminal it replaces the last one, unless `-c` is
//! given. An interval is in seconds, with a fraction if needed (`0.5`). Without one, a simulated or captured machine
//! gives one report. Lists have commas or blanks between their items.
//!
//! # Columns
//!
//! ```text
//! SIZE, RSS   address space, and the part of it that is in memory
//! STATE       cpuN: runs on CPU N; run: runnable; wait: kept from a CPU by its cap; sleep, stop, zombie
//! PRI         global priority, a high number first: TS 0 to 59, SYS from 60, RT from 100. Under schedd
//!             these are the levels of its threads. Elsewhere on Linux TS is 29 at nice 0, and 1.5 points more or less
//!             for each step of nice
//! NICE        a dash in SYS and RT
//! TIME        CPU time since the start
//! CPU         recent CPU time in percent of all CPUs, decaying by a fifth every 5 seconds. At first sight it is the
//!             average since the start
//! ```
//!
//! # Microstates
//!
//! ```text
//! USR   in user mode                       LCK   asleep in a futex: waits for a lock, or for other threads
//! SYS   in the kernel                      SLP   asleep for any other reason
//! TRP   not known on Linux: a dash         LAT   runnable, waits for a CPU
//! TFL   waits for a page of text           VCX, ICX   voluntary and involuntary context switches
//! DFL   waits for a page of data           SCL, SIG   system calls (with --calls), signals
//! ```
//!
//! USR to LAT add up to 100 percent. Time in which a thread was stopped is in none. A line of a process is the sum of
//! its threads.
//!
//! On Linux, BPF programs measure microstates while `prstat -m` runs. That needs CAP_BPF, CAP_PERFMON and kernel 6.0,
//! and costs some tens of nanoseconds per context switch. USR and SYS together are exact; clock ticks divide them.
//!
//! `--calls` makes USR and SYS exact and counts system calls. It adds 100 to 200 ns to each call: a fifth of the run
//! time of a program that does little else. Time in a page fault then counts as what the thread did before it.
//!
//! The first report is about the time since each thread started, with dashes for what the kernel does not keep. Without
//! these rights USR, SYS, LAT, SLP, VCX and ICX come from /proc. SLP is then the rest, and a message says so.
//!
//! On a simulated machine all figures are exact. LCK is sleep at a barrier. LAT includes interrupts and waits under a
//! cap. There are no page faults and no signals.
//!
//! # Groups
//!
//! ```text
//! NPROC, SWAP, RSS, MEMORY   processes, the sum of their address spaces, the part in memory, and that in percent of
//!                            the machine's memory. Shared memory counts once for each process
//! ```
//!
//! On Linux a task is a session, and a zone is a cgroup of `millpond zones`. Projects are the predefined ones of
//! Solaris: `system` for kernel threads, `user.root` for the superuser, `default` for others.
//!
//! # Shares and caps
//!
//! ```text
//! $ prstat -Jc --shares 5 2
//! …
//! PROJID    NPROC  SWAP   RSS MEMORY      TIME  CPU SHARES   CAP% PROJECT
//!    100        1     -     -     -%   0:00:07  19%      3      - web
//!    101        1     -     -     -%   0:00:02 5.3%      1     50 batch
//! $ prstat -Zc --caps 5 2
//! …
//! CAPS, over 5.000 s               SHARES   CAP%   USED%   LOST%   PERIODS
//! zone nginx.service                   20    150   149.9    48.1     50/50
//! ```
//!
//! CAP%, USED% and LOST% are in percent of one CPU; CPU is in percent of all. LOST% is the time in which the cap kept
//! the group from CPUs that it wanted, summed over CPUs (`cpu.stat`; on simulated machines over threads). PERIODS is
//! the number of cap periods with such a loss, of those in which the group was active.
//!
//! Without `--caps`, a line `Throttled:` below the total names each group that used up its cap in a tenth of the periods
//! or more. `millpond diagnose` says what that costs a process.
//!
//! A dash under SHARES or CAP% was never set, which means 1 share and no cap. A dash elsewhere was not counted, as in a
//! first report. On Linux only zones have shares and caps here; `prctl` shows those of slices.
//!
//! # JSON
//!
//! One object per report, with the rows of the tables. A dash is null. The schema is `docs/reference/json/prstat.json`.

mod choice;
mod json;
mod options;
mod real_time;
mod report;

use crate::caps::Caps;
use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure, facet, read, unless_absent};
use crate::interval::{Repetition, Rounds};
use crate::json::{Describe, of};
use crate::pools;
use crate::recordings;
use crate::stamp::Stamp;
use millpond_cli::{Example, Flag, Group, INTERRUPTED, MISUSED, Operands, Parsed, Spec, ValueKind};
use millpond_machine::Census;
use millpond_machine::facets::{CensusWatch, Depth};
use millpond_model::{Pid, Roster, printable};
use millpond_observe::{Follower, Picture};
use millpond_session::{Kind, Session, output_is_terminal, stop_on_signal};
use options::Options;
use report::Reports;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] = &[of::<json::Document<'_>>()];

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "prstat",
        applet: true,
        summary: "show the busiest processes or threads, and where their time goes",
        group: Group::Slow,
        forms: &[
            "[-acHJLmrRtTvWZ] [-n nproc[,nusers]] [-s key | -S key] [-d u | d] [-C psets] [-h lgroups] [-j projects] \
         [-k tasks] [-p pids] [-P cpus] [-u euids] [-U uids] [-z zones] [--pool pools] [--set sets] [--calls] [--caps] [--shares] [--explain] [--from recording [--at moment]] [interval [count]]",
        ],
        flags: &[
            Flag::letter('a', "list users below the processes").conflicts(&["t", "J", "T", "Z"]),
            Flag::letter('C', "only threads that are bound to one of these sets; 0 is the default set")
                .value("sets", ValueKind::Pset),
            Flag::letter('c', "print reports below one another"),
            Flag::letter(
                'd',
                "before each report, print the time: u as seconds since 1970, d as `date` does",
            )
            .value("u", ValueKind::Text),
            Flag::letter('H', "show home lgroups (column LGRP)"),
            Flag::letter('h', "only threads with one of these home lgroups")
                .value("lgroups", ValueKind::Lgroup),
            Flag::letter('J', "list projects below the processes").conflicts(&["T", "Z"]),
            Flag::letter('j', "only processes of these projects").value("projects", ValueKind::Text),
            Flag::letter('k', "only processes of these tasks").value("tasks", ValueKind::Text),
            Flag::letter('L', "one line per thread"),
            Flag::letter('m', "show microstates: where the time went in the interval, in percent"),
            Flag::letter('n', "at most N processes (15), and M groups below (5)")
                .value("n[,m]", ValueKind::Text),
            Flag::letter('P', "only threads that run, or ran last, on one of these CPUs")
                .value("cpus", ValueKind::Cpus),
            Flag::letter('p', "only these processes").value("pids", ValueKind::Text),
            Flag::letter(
                'R',
                "run prstat in class RT at level 0, so that it is scheduled beside busy threads; needs CAP_SYS_NICE",
            ),
            Flag::letter('r', "show numbers, not names"),
            Flag::letter('S', "sort by cpu, pri, rss, size or time, the smallest first")
                .value("key", ValueKind::Text),
            Flag::letter('s', "sort by cpu (the default), pri, rss, size or time, the largest first")
                .value("key", ValueKind::Text),
            Flag::letter('T', "list tasks below the processes").conflicts(&["Z"]),
            Flag::letter('t', "list users, not processes").conflicts(&["J", "T", "Z"]),
            Flag::letter('U', "only processes of these real users").value("users", ValueKind::Text),
            Flag::letter('u', "only processes of these effective users, by name or number")
                .value("users", ValueKind::Text),
            Flag::letter(
                'v',
                "as -m, but only USR, SYS, SLP and switches, which every kernel keeps at no cost",
            ),
            Flag::letter('W', "cut user names to the width of their column"),
            Flag::letter('Z', "list zones below the processes"),
            Flag::letter('z', "only processes of these zones").value("zones", ValueKind::Zone),
            Flag::long("pool", "only processes in these pools, by name or number")
                .value("pools", ValueKind::Pool),
            Flag::long("set", "the same as -C").value("sets", ValueKind::Pset),
            recordings::FROM.conflicts(&["H", "h", "J", "j", "k", "R", "T", "U", "Z", "caps", "shares"]),
            recordings::AT,
            Flag::long(
                "calls",
                "with -m: watch each system call, so that SCL is counted, and USR and SYS are exact",
            ),
            Flag::long("caps", "list groups with shares or a cap, and the time that the cap cost them"),
            Flag::long("shares", "with -J or -Z: show shares and caps"),
            Flag::long("explain", "say where the figures come from on this machine, and which are missing"),
        ],
        in_shell: true,
        operands: Operands { shown: "[interval [count]]", kinds: &[ValueKind::Time] },
        examples: &[
            Example { words: "-mL 1", what: "show where the time of each thread goes, every second" },
            Example { words: "-Z", what: "show processes, and one line per zone" },
            Example { words: "-p 204 5 2", what: "show process 204 twice, 5 seconds apart" },
        ],
        status: &[INTERRUPTED, ("1", "the machine cannot be read or watched, or -R is refused"), MISUSED],
        see_also: &["mpstat(1)", "millpond-diagnose(1)", "prctl(8)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let options = Options::of(parsed)?;
    let session = if options.real_time {
        ctx.changing_once(&parsed.common, real_time::can_be_had)?.0
    } else {
        recordings::reading(parsed, ctx)?
    };
    if options.real_time
        && let Some(end) = real_time::enter(&session, &parsed.common, ctx)?
    {
        return Ok(end);
    }
    let census = facet("processes", session.machine().census())?;
    let real = session.kind() == Kind::Real;
    // Whoever keeps a machine from line to line does not want to see it for ever.
    let endless = real.then(Options::endless);
    let paints = real && !options.scrolls && !options.json && ctx.given().is_none() && output_is_terminal();
    let users = census.users();
    for name in options.choice.strangers(&users) {
        ctx.warn(format_args!("no user is called `{name}`"));
    }
    let lgroups = session.machine().lgroups().ok().and_then(|lgroups| lgroups.tree().ok());
    let reports = Reports { options: &options, users, controls: BTreeMap::new(), lgroups };
    ctx.shows_progress &= !paints;
    let stop = stop_on_signal();
    let mut show = Show {
        session: &session,
        reports,
        follower: Follower::default(),
        caps: Caps::default(),
        paints,
        stop,
        told: Vec::new(),
    };
    show.run(census, options.repetition.or(endless).filter(|r| r.count != Some(1)), ctx)?;
    Ok(Exit::DONE)
}

/// Whether nobody expects a figure: the manual says so of traps, and of calls without `--calls`.
fn is_expected(missing: &str) -> bool {
    ["TRP: ", "SCL: "].iter().any(|column| missing.starts_with(column))
}

/// A row of reports.
struct Show<'a> {
    session: &'a Session,
    reports: Reports<'a>,
    follower: Follower,
    caps: Caps,
    /// Each report takes the place of the one before.
    paints: bool,
    stop: &'a AtomicBool,
    /// What was said of where figures come from.
    told: Vec<String>,
}

/// Cursor to the first column of the first line; the rest of a line, and of the screen, gone.
const HOME: &str = "\x1b[H";
const REST_OF_LINE: &str = "\x1b[K";
const REST_OF_SCREEN: &str = "\x1b[J";
const WHOLE_SCREEN: &str = "\x1b[2J";

impl Show<'_> {
    fn run(
        &mut self,
        census: &dyn Census,
        repetition: Option<Repetition>,
        ctx: &mut Ctx<'_>,
    ) -> Result<(), Failure> {
        let options = self.reports.options.census();
        let Some(repetition) = repetition else {
            let roster = read("processes", census.list(options))?;
            return self.report(roster, ctx);
        };
        // Watching begins before the first report, which takes its time.
        let mut watch = unless_absent("watch processes", census.watch(options))?;
        let zero = read("processes", watch.sample())?;
        self.explain(&zero, watch.as_ref(), ctx);
        let clock = self.session.machine().clock();
        let rounds = Rounds::begin(repetition, clock, self.stop);
        let mut rounds = rounds.behind_first(clock.now());
        if self.paints {
            ctx.out.control(WHOLE_SCREEN);
        }
        if options.depth == Depth::Measured {
            let whole = read("processes", census.list(options))?;
            self.report(whole, ctx)?;
            self.follower.begin(&zero);
        } else {
            self.report(zero, ctx)?;
        }
        while rounds.wait(ctx) {
            let roster = read("processes", watch.sample())?;
            self.report(roster, ctx)?;
        }
        Ok(())
    }

    /// Says where figures come from, if that was asked for; and what of the microstates is lacking beyond what always is, or was not asked for.
    fn explain(&mut self, zero: &Roster, watch: &dyn CensusWatch, ctx: &mut Ctx<'_>) {
        let mut lines = Vec::new();
        if self.reports.options.explain {
            lines.extend(watch.explain());
            lines.extend(zero.missing.iter().cloned());
        } else {
            lines.extend(zero.missing.iter().filter(|line| !is_expected(line)).cloned());
        }
        lines.iter().for_each(|line| ctx.warn(line));
        self.told.extend(lines);
    }

    fn report(&mut self, roster: Roster, ctx: &mut Ctx<'_>) -> Result<(), Failure> {
        if self.reports.options.explain && self.told.is_empty() {
            roster.missing.iter().for_each(|line| ctx.warn(line));
            self.told.clone_from(&roster.missing);
        }
        let members = self.members()?;
        let picture = self.follower.next(roster);
        let machine = self.session.machine();
        if self.reports.options.shares {
            let controls = facet("shares and caps", machine.controls())?;
            let listed = read("shares and caps", controls.list())?;
            self.reports.controls =
                listed.into_iter().map(|one| (one.holder, (one.shares, one.cap))).collect();
        }
        let caps = self.reports.options.caps.then(|| self.caps.next(machine)).transpose()?;
        let throttled = if caps.is_none() { self.caps.throttled(machine) } else { Vec::new() };
        let throttled: Vec<String> = throttled.into_iter().map(|(_, sentence)| sentence).collect();
        if self.reports.options.json {
            ctx.json(&self.reports.document(&picture, members.as_ref(), caps, throttled));
        } else {
            let lines = throttled.iter().map(|line| format!("Throttled: {}\n", printable(line)));
            let below = caps.map_or_else(|| lines.collect(), |caps| caps.table());
            let text = self.stamp(&picture) + &self.reports.draw(&picture, members.as_ref()) + &below;
            if self.paints {
                ctx.out.control(HOME);
                for line in text.lines() {
                    ctx.out.text(line);
                    ctx.out.control(REST_OF_LINE);
                    ctx.out.text("\n");
                }
                ctx.out.control(REST_OF_SCREEN);
            } else {
                ctx.out.text(&text);
            }
        }
        ctx.out.flush();
        Ok(())
    }

    fn stamp(&self, picture: &Picture) -> String {
        let line = |stamp: Stamp| stamp.line(picture.roster.wall, self.session.zone()) + "\n";
        self.reports.options.stamp.map(line).unwrap_or_default()
    }

    /// The processes in the pools that were named; `None` when none was.
    fn members(&self) -> Result<Option<BTreeSet<Pid>>, Failure> {
        let named = &self.reports.options.choice.pools;
        if named.is_empty() {
            return Ok(None);
        }
        pools::pids_in(self.session.machine(), named, "show").map(Some)
    }
}
