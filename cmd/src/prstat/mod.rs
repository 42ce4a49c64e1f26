//! Shows the busiest processes or threads, and where their time goes.
//!
//! The table is drawn again and again until you interrupt it, every 5 seconds unless you say otherwise: in place on a terminal, with -c and elsewhere
//! one below the other. An interval is in seconds and may have a fraction (`0.5`). On a simulated or a captured machine there is one
//! report unless you give an interval.
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
//! # Options
//!
//! Lists have commas or blanks between their words.
//!
//! # Columns
//!
//! ```text
//! SIZE, RSS   address space, and what of it is in memory
//! STATE       cpuN: on that processor; run: waits for one; wait: for its cap; sleep, stop, zombie
//! PRI         global priority, more is better: TS 0 to 59, SYS from 60, RT from 100. On Linux TS is 29 for what is
//!             not nice, and a point and a half more or less for each of nice
//! NICE        a dash in SYS and RT
//! TIME        processor time since it began
//! CPU         recent use in percent of all processors: it forgets a fifth every 5 seconds. What is seen for the
//!             first time is taken to have used its processor evenly since it began
//! ```
//!
//! # Microstates
//!
//! ```text
//! USR   in user mode                       LCK   asleep in a futex: waits for a lock of its program, or for others
//! SYS   in the kernel                      SLP   asleep for any other reason
//! TRP   not told on Linux: a dash          LAT   could run, and waits for a processor
//! TFL   asleep until a page of text comes  VCX, ICX   switches of its own will, and others
//! DFL   asleep until a page of data comes  SCL, SIG   system calls, with --calls; signals
//! ```
//!
//! Each moment of a thread is in one of them, so that USR to LAT add up to 100; time in which a thread was stopped is in none. A line for a
//! process is about all its threads together.
//!
//! On Linux programs in the kernel measure them while prstat -m runs, which costs each switch some tens of nanoseconds; it takes CAP_BPF and
//! CAP_PERFMON and kernel 6.0. USR and SYS together are exact, and divided as the clock ticks of the interval found the thread. --calls watches every
//! system call: then both are exact and SCL has a figure, but each call takes 100 to 200 ns more, a fifth of the time of a program that does little
//! else, and processor time in a page fault counts as what the thread did before it. The first report is about the time since each thread
//! began and has dashes for what the kernel does not keep. A thread that was there before counts from the moment when the watch began, and where it
//! was then is looked up. Without these rights USR, SYS, LAT, SLP, VCX and ICX come from /proc, SLP being what remains, and a message says so.
//!
//! A simulated machine is exact: LCK is sleep at a barrier, waiting under an interrupt or for a cap is LAT, and there are no faults or signals.
//!
//! # Tables below
//!
//! ```text
//! NPROC, SWAP, RSS, MEMORY   processes, the sum of their address spaces, what of it is in memory, and that in percent of
//!                            the machine's. Memory that processes share counts for each
//! ```
//!
//! On Linux a task is a session, a zone is a cgroup (as millpond zones lists them), and projects are those that Solaris has by itself: system
//! for the kernel, user.root for the superuser, default for others.
//!
//! # Shares and caps
//!
//! ```text
//! $ prstat -Jc --shares 5 2
//! …
//! PROJID    NPROC  SWAP   RSS MEMORY      TIME  CPU SHARES   CAP% PROJECT
//!    100        1     -     -     -%   0:00:07  19%      3      - web
//!    101        1     -     -     -%   0:00:02 5.3%      1     50 batch
//! ```
//!
//! A dash: never set, which is 1 share and no cap. CAP% is in percent of one CPU; CPU, as everywhere in prstat, of all CPUs. On Linux zones have shares and caps as prctl
//! shows them; projects of prstat are no slices there, and have dashes.
//!
//!
//! ```text
//! $ prstat -Zc --caps 5 2
//! …
//! CAPS, over 5.000 s               SHARES   CAP%   USED%   LOST%   PERIODS
//! zone nginx.service                   20    150   149.9    48.1     50/50
//! ```
//!
//! USED%, LOST%: CPU time used over the interval, and time in which the cap kept it from CPUs that it wanted, in percent of one CPU (on Linux the sum over CPUs, by
//! `cpu.stat`; on simulated machines over threads). PERIODS: in how many periods of the cap that happened, of those in which it wanted a CPU. Only what is capped can
//! lose; a dash stands for what the machine does not count, and in a first report.
//!
//! # In the real-time class
//!
//! -R takes the rights of the superuser (CAP_SYS_NICE); without them nothing is shown. With `--dry-run` the step is shown and nothing else. Simulated and
//! captured machines have no process of ours.
//!
//! # JSON
//!
//! An object per report, on a line of its own, with the lines of the tables. A figure is null where the table has a dash.
//!
//! ```text
//! {"groups":[{"cpu_pct":12.1,"id":0,"memory_pct":3.1,"name":"root","processes":2,…}],"interval_s":5.0,"load":[0.2,0.18,0.12],"missing":[],
//!  "processes":[{"class":"TS","cpu":2,"cpu_pct":12.1,"lwps":31,"name":"java","nice":0,"pid":1974,"pri":29,"set":0,"size_kib":4488,…}],
//!  "time":"2024-11-20T08:14:02Z"}
//! --caps: "caps":{"holders":[{"cap_pct":150,"holder":"zone web","lost_pct":48.1,"periods":50,"periods_lost":50,…}],"interval_s":5.0}
//! -L: "threads" in place of processes, with "lwp" and "thread", its own name. -m, -v: "usr" … "lat", "vcx" … "sig"
//! ```

mod choice;
mod json;
mod options;
mod real_time;
mod report;

use crate::caps::{self, Caps};
use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, facet, read};
use crate::interval::{Cadence, Repetition, wait_until};
use crate::pools;
use crate::stamp::Stamp;
use millpond_cli::{Example, Flag, Group, INTERRUPTED, MISUSED, Operands, Parsed, Spec, ValueKind};
use millpond_machine::facets::{CensusWatch, Depth};
use millpond_machine::{Absent, Census, Clock};
use millpond_model::{Pid, Roster};
use millpond_observe::{Follower, Picture};
use millpond_session::{Kind, Session, output_is_terminal, stop_on_signal};
use options::Options;
use report::Reports;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "prstat",
        applet: true,
        summary: "show the busiest processes or threads, and where their time goes",
        group: Group::Watch,
        forms: &[
            "[-acHJLmrRtTvWZ] [-n nproc[,nusers]] [-s key | -S key] [-d u | d] [-C psets] [-h lgroups] [-j projects] \
         [-k tasks] [-p pids] [-P cpus] [-u euids] [-U uids] [-z zones] [--pool pools] [--set sets] [--calls] [--caps] [--shares] [--explain] [interval [count]]",
        ],
        flags: &[
            Flag::letter('a', "users below the processes; users only").conflicts(&["t", "J", "T", "Z"]),
            Flag::letter('C', "only what is bound to one of these sets; 0 is the default set")
                .value("sets", ValueKind::Pset),
            Flag::letter('c', "reports below one another"),
            Flag::letter('d', "before each report the time: in seconds since 1970, or as date shows it")
                .value("u", ValueKind::Text),
            Flag::letter('H', "the home of each (LGRP)"),
            Flag::letter('h', "only threads with one of these home lgroups")
                .value("lgroups", ValueKind::Lgroup),
            Flag::letter('J', "projects, tasks, zones below the processes").conflicts(&["T", "Z"]),
            Flag::letter('j', "only processes of these projects").value("value", ValueKind::Text),
            Flag::letter('k', "only processes of these tasks").value("value", ValueKind::Text),
            Flag::letter('L', "a line for each thread"),
            Flag::letter('m', "microstates: where the time of each went since the report before, in percent"),
            Flag::letter('n', "at most N lines (15), and M of the table below (5)")
                .value("n[,m", ValueKind::Text),
            Flag::letter('P', "only threads that run, or ran last, on one of these CPUs")
                .value("cpus", ValueKind::Cpus),
            Flag::letter('p', "only these processes; -k TASKS, -j PROJECTS, -z ZONES likewise")
                .value("pids", ValueKind::Text),
            Flag::letter(
                'R',
                "prstat itself in the real-time class, at its lowest level, so that it goes on \
                 where others leave TS no time",
            ),
            Flag::letter('r', "numbers in place of names"),
            Flag::letter(
                'S',
                "ordered by cpu (as it is without), pri, rss, size or time; -S: the least first",
            )
            .value("key", ValueKind::Text),
            Flag::letter(
                's',
                "ordered by cpu (as it is without), pri, rss, size or time; -S: the least first",
            )
            .value("key", ValueKind::Text),
            Flag::letter('T', "projects, tasks, zones below the processes").conflicts(&["Z"]),
            Flag::letter('t', "users below the processes; users only").conflicts(&["J", "T", "Z"]),
            Flag::letter('U', "only processes with these real user ids").value("value", ValueKind::Text),
            Flag::letter('u', "only processes of these effective users; -U: real users; by name or number")
                .value("users", ValueKind::Text),
            Flag::letter(
                'v',
                "of these USR, SYS, SLP and switches only: what every kernel keeps, at no cost",
            ),
            Flag::letter('W', "names of users no longer than their column"),
            Flag::letter('Z', "projects, tasks, zones below the processes"),
            Flag::letter('z', "only processes of these zones").value("zones", ValueKind::Zone),
            Flag::long("pool", "only processes in these pools, by name or number")
                .value("pools", ValueKind::Pool),
            Flag::long("set", "as -C").value("sets", ValueKind::Pset),
            Flag::long("calls", "with -m: system calls one by one, which makes SCL, and USR and SYS exact"),
            Flag::long("caps", "below: what has shares or a cap, and what the cap took away"),
            Flag::long("shares", "with -J or -Z: the shares and the cap of each"),
            Flag::long("explain", "where the figures come from here, and what is lacking"),
        ],
        in_shell: true,
        operands: Operands { shown: "[interval [count]]", kinds: &[ValueKind::Time] },
        examples: &[
            Example { words: "-mL 1", what: "where the time of each thread goes, every second" },
            Example { words: "-Z", what: "processes, and a row per zone" },
            Example { words: "-p 204 5 2", what: "one process, twice" },
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
        ctx.reading(&parsed.common)?
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
    let reports = Reports { options: &options, users: census.users(), controls: BTreeMap::new() };
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
        let mut watch = census.watch(options).map_err(|Absent { why, what_would_help }| Complaint {
            what: "watch processes".to_owned(),
            reason: why,
            hint: what_would_help,
        })?;
        let zero = read("processes", watch.sample())?;
        self.explain(&zero, watch.as_ref(), ctx);
        let clock = self.session.machine().clock();
        let cadence = Cadence::begin(repetition, clock.now());
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
        self.repeat(watch.as_mut(), clock, repetition, cadence, ctx)
    }

    fn repeat(
        &mut self,
        watch: &mut dyn CensusWatch,
        clock: &dyn Clock,
        repetition: Repetition,
        mut cadence: Cadence,
        ctx: &mut Ctx<'_>,
    ) -> Result<(), Failure> {
        let mut left = repetition.count.map(|count| count - 1);
        while left != Some(0) && !self.ends(ctx) {
            wait_until(clock, self.stop, cadence.next(clock.now()), ctx);
            if self.ends(ctx) {
                break;
            }
            let roster = read("processes", watch.sample())?;
            self.report(roster, ctx)?;
            left = left.map(|left| left - 1);
        }
        Ok(())
    }

    fn ends(&self, ctx: &Ctx<'_>) -> bool {
        self.stop.load(Ordering::Relaxed) || ctx.out.is_closed()
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
        if self.reports.options.json {
            let mut report = self.reports.json(&picture, members.as_ref());
            if let (Some((elapsed, rows)), Some(report)) = (caps, report.as_object_mut()) {
                report.insert("caps".into(), caps::to_json(elapsed, &rows));
            }
            ctx.json(&report);
        } else {
            let below = caps.map(|(elapsed, rows)| caps::table(elapsed, &rows)).unwrap_or_default();
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
