//! A report as JSON.

use super::options::Microstates;
use super::report::{Reports, Shown, figures};
use crate::caps::CapsReport;
use millpond_formats::print_iso;
use millpond_formats::prstat::{self as listing, GroupRow};
use millpond_model::{Class, CpuId, GroupId, LwpId, Nanos, Pid, PsetId};
use millpond_observe::Picture;
use millpond_observe::digits::to_thousandths;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;

/// One report: the rows of the tables, in their order.
#[derive(Serialize, JsonSchema)]
pub struct Document<'p> {
    /// When the interval ended, as ISO 8601.
    time: String,
    /// Null in a first report, which is about the time since each thread started.
    interval_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    processes: Option<Vec<Row<'p>>>,
    /// `-L`.
    #[serde(skip_serializing_if = "Option::is_none")]
    threads: Option<Vec<Row<'p>>>,
    /// Users, projects, tasks or zones (`-a`, `-t`, `-J`, `-T`, `-Z`).
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<Vec<Group>>,
    /// `--caps`.
    #[serde(skip_serializing_if = "Option::is_none")]
    caps: Option<CapsReport>,
    /// What used up its CPU cap in a tenth of the periods of the interval or more, a sentence each; without `--caps`.
    throttled: Vec<String>,
    /// Over 1, 5 and 15 minutes.
    load: Option<[f64; 3]>,
    /// Figures that are missing, and why.
    missing: &'p [String],
}

/// A process or a thread.
#[derive(Serialize, JsonSchema)]
struct Row<'p> {
    pid: Pid,
    /// Of a thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    lwp: Option<LwpId>,
    /// Its own name, of a thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<&'p str>,
    /// How many threads it has, of a process.
    #[serde(skip_serializing_if = "Option::is_none")]
    lwps: Option<u32>,
    /// Of the process.
    name: &'p str,
    user: String,
    size_kib: Option<u64>,
    rss_kib: Option<u64>,
    /// `cpuN` on CPU N, `run`, `wait`, `sleep`, `stop`, `idle` or `zombie`.
    state: String,
    class: Class,
    /// Global priority, a high number first.
    pri: i16,
    /// Null in classes without.
    nice: Option<i8>,
    /// Where it runs, or ran last.
    cpu: Option<CpuId>,
    /// Home lgroup.
    lgrp: Option<GroupId>,
    /// The set to which it is bound; 0 for none.
    set: PsetId,
    zone: &'p str,
    task: u32,
    project: &'p str,
    /// CPU time since the start.
    time_s: f64,
    /// Recent CPU time, in percent of all CPUs.
    cpu_pct: f64,
    #[serde(flatten)]
    microstates: Option<Figures>,
}

/// `-m`, `-v`: microstates in percent, then counts; null for what is not known.
#[derive(Serialize, JsonSchema)]
struct Figures {
    usr: Option<f64>,
    sys: Option<f64>,
    trp: Option<f64>,
    tfl: Option<f64>,
    dfl: Option<f64>,
    lck: Option<f64>,
    slp: Option<f64>,
    lat: Option<f64>,
    vcx: Option<u64>,
    icx: Option<u64>,
    scl: Option<u64>,
    sig: Option<u64>,
    /// Time in which it was stopped (`-m`).
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped_s: Option<f64>,
}

/// A user, a project, a task or a zone.
#[derive(Serialize, JsonSchema)]
struct Group {
    id: u64,
    name: String,
    processes: u32,
    size_kib: Option<u64>,
    rss_kib: Option<u64>,
    /// In percent of the machine's memory.
    memory_pct: Option<f64>,
    time_s: u64,
    /// Recent CPU time, in percent of all CPUs.
    cpu_pct: f64,
    #[serde(flatten)]
    controls: Option<Controls>,
}

/// `--shares`; null for what was never set.
#[derive(Serialize, JsonSchema)]
struct Controls {
    shares: Option<u32>,
    /// In percent of one CPU.
    cap_pct: Option<u32>,
}

impl Reports<'_> {
    /// A report: the same lines as the tables have, in the same order.
    pub fn document<'p>(
        &self,
        picture: &'p Picture,
        members: Option<&BTreeSet<Pid>>,
        caps: Option<CapsReport>,
        throttled: Vec<String>,
    ) -> Document<'p> {
        let lines = self.lines(picture, members);
        let rows = |wanted: bool| {
            let shown = lines.iter().take(self.options.lines.0);
            (self.options.processes && wanted).then(|| shown.map(|line| self.row(line)).collect())
        };
        let groups = self.options.grouping.map(|grouping| self.groups(&lines, grouping, picture));
        Document {
            time: print_iso(picture.roster.wall),
            interval_s: picture.elapsed.map(seconds),
            processes: rows(!self.options.threads),
            threads: rows(self.options.threads),
            groups: groups.map(|groups| groups.into_iter().map(Group::of).collect()),
            caps,
            throttled,
            load: picture.roster.load,
            missing: &picture.roster.missing,
        }
    }

    fn row<'p>(&self, shown: &Shown<'p>) -> Row<'p> {
        let (process, standing) = (shown.process, shown.standing());
        Row {
            pid: process.pid,
            lwp: shown.thread.map(|thread| thread.lwp.lwp),
            thread: shown.thread.map(|thread| thread.name.as_str()),
            lwps: shown.thread.is_none().then_some(process.threads),
            name: &process.name,
            user: self.user(process.euid),
            size_kib: process.size,
            rss_kib: process.rss,
            state: listing::state(standing.doing).trim_end().to_owned(),
            class: standing.class,
            pri: standing.priority,
            nice: standing.nice,
            cpu: standing.cpu,
            lgrp: self.home(shown),
            set: standing.set,
            zone: &process.zone.name,
            task: process.task,
            project: &process.project.name,
            time_s: seconds(shown.time()),
            cpu_pct: to_thousandths(shown.cpu),
            microstates: self.options.microstates.map(|depth| Figures::of(shown, depth)),
        }
    }
}

impl Figures {
    fn of(shown: &Shown<'_>, depth: Microstates) -> Figures {
        let (parts, [vcx, icx, scl, sig]) = figures(shown.spent, depth);
        let [usr, sys, trp, tfl, dfl, lck, slp, lat] = parts.map(|part| part.map(to_thousandths));
        let stopped_s = (depth == Microstates::All).then(|| seconds(shown.spent.stopped));
        Figures { usr, sys, trp, tfl, dfl, lck, slp, lat, vcx, icx, scl, sig, stopped_s }
    }
}

impl Group {
    fn of(row: GroupRow) -> Group {
        Group {
            id: row.id,
            name: row.name,
            processes: row.processes,
            size_kib: row.size,
            rss_kib: row.rss,
            memory_pct: row.memory.map(to_thousandths),
            time_s: row.seconds,
            cpu_pct: to_thousandths(row.cpu),
            controls: row.controls.map(|(shares, cap_pct)| Controls { shares, cap_pct }),
        }
    }
}

fn seconds(time: Nanos) -> f64 {
    to_thousandths(time.as_secs_f64())
}
