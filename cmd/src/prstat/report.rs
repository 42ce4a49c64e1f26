//! A picture as tables: which processes are shown, in which order, summed up by what.

use super::options::{Key, Microstates, Options};
use millpond_formats::prstat::{self as listing, GroupRow, Grouping, MicrostateRow, ProcessRow};
use millpond_model::{
    ControlHolder, CpuCap, GroupId, LgroupTree, MICROSTATES, Microstate, Nanos, Pid, ProcessEntry, Shares,
    Spent, Standing, ThreadEntry,
};
use millpond_observe::{Picture, percents};
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};

/// A column of a name has so many letters.
const USER_LETTERS: usize = 8;

/// A line of the first table before it is drawn.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'p> {
    /// The process.
    pub process: &'p ProcessEntry,
    /// The thread, where these have lines.
    pub thread: Option<&'p ThreadEntry>,
    /// Recent use in percent of all processors.
    pub cpu: f64,
    /// Where time went.
    pub spent: &'p Spent,
}

impl Shown<'_> {
    /// How it, or one thread for all, is scheduled.
    pub fn standing(&self) -> &Standing {
        self.thread.map_or(&self.process.standing, |thread| &thread.standing)
    }

    /// Processor time since it began.
    pub fn time(&self) -> Nanos {
        self.thread.map_or(self.process.time, |thread| thread.time)
    }

    /// Which thread, or how many.
    fn number(&self) -> u32 {
        self.thread.map_or(self.process.threads, |thread| thread.lwp.lwp.0)
    }

    fn on_cpu(&self) -> f64 {
        let parts = percents(self.spent);
        [Microstate::User, Microstate::System].iter().filter_map(|state| parts[state.index()]).sum()
    }
}

/// Draws.
pub struct Reports<'a> {
    /// What was asked for.
    pub options: &'a Options,
    /// Names of users.
    pub users: BTreeMap<u32, String>,
    /// Shares and caps, where they are shown.
    pub controls: BTreeMap<ControlHolder, (Option<Shares>, Option<CpuCap>)>,
    /// The lgroups of the machine, where it tells them.
    pub lgroups: Option<LgroupTree>,
}

impl Reports<'_> {
    /// The lines of the first table, ordered, all of them. `members`: only these processes, where pools were named.
    pub fn lines<'p>(&self, picture: &'p Picture, members: Option<&BTreeSet<Pid>>) -> Vec<Shown<'p>> {
        let roster = &picture.roster;
        let wanted = |process: &ProcessEntry| {
            members.is_none_or(|members| members.contains(&process.pid))
                && self.options.choice.takes(process, &self.users)
        };
        let mut lines: Vec<Shown<'p>> = if self.options.threads {
            let of: BTreeMap<Pid, &ProcessEntry> =
                roster.processes.iter().filter(|p| wanted(p)).map(|p| (p.pid, p)).collect();
            let threads = roster.threads.iter().zip(&picture.thread_use).zip(&picture.thread_spent);
            let threads = threads.filter_map(|((thread, cpu), spent)| {
                let process = of.get(&thread.lwp.pid)?;
                Some(Shown { process, thread: Some(thread), cpu: *cpu, spent })
            });
            threads.collect()
        } else {
            let processes = roster.processes.iter().zip(&picture.process_use).zip(&picture.process_spent);
            let processes = processes.filter(|((process, _), _)| wanted(process));
            processes
                .map(|((process, cpu), spent)| Shown { process, thread: None, cpu: *cpu, spent })
                .collect()
        };
        lines.retain(|line| self.options.choice.takes_place(line.standing(), self.home(line)));
        lines.sort_by(|a, b| self.compare(a, b));
        lines
    }

    /// The home lgroup of a line, by the number that `lgrpinfo` shows.
    pub fn home(&self, shown: &Shown<'_>) -> Option<GroupId> {
        self.lgroups.as_ref()?.leaf_of(shown.standing().home?)
    }

    /// The order; equals stand by their numbers.
    fn compare(&self, a: &Shown<'_>, b: &Shown<'_>) -> Ordering {
        let (key, descending) = self.options.order;
        let order = match key {
            Key::Cpu if self.options.microstates.is_some() => a.on_cpu().total_cmp(&b.on_cpu()),
            Key::Cpu => a.cpu.total_cmp(&b.cpu),
            Key::Pri => a.standing().priority.cmp(&b.standing().priority),
            Key::Rss => a.process.rss.cmp(&b.process.rss),
            Key::Size => a.process.size.cmp(&b.process.size),
            Key::Time => a.time().cmp(&b.time()),
        };
        let order = if descending { order.reverse() } else { order };
        order.then_with(|| a.process.pid.cmp(&b.process.pid)).then_with(|| a.number().cmp(&b.number()))
    }

    /// A report without its stamp.
    pub fn draw(&self, picture: &Picture, members: Option<&BTreeSet<Pid>>) -> String {
        let lines = self.lines(picture, members);
        let mut text = Vec::new();
        if self.options.processes {
            text.push(self.head());
            text.extend(lines.iter().take(self.options.lines.0).map(|line| self.line(line)));
        }
        if let Some(grouping) = self.options.grouping {
            let most = if self.options.processes { self.options.lines.1 } else { self.options.lines.0 };
            text.push(listing::group_head(grouping, self.options.shares));
            text.extend(self.groups(&lines, grouping, picture).iter().take(most).map(|g| g.line(grouping)));
        }
        let processes: BTreeSet<Pid> = lines.iter().map(|line| line.process.pid).collect();
        let lwps = if self.options.threads {
            lines.len()
        } else {
            lines.iter().map(|line| line.process.threads as usize).sum()
        };
        text.push(listing::total(processes.len(), lwps, picture.roster.load));
        text.join("\n") + "\n"
    }

    fn head(&self) -> String {
        match self.options.microstates {
            Some(_) => listing::microstate_head(self.options.threads),
            None => listing::process_head(self.options.threads, self.options.homes),
        }
    }

    fn line(&self, shown: &Shown<'_>) -> String {
        let (process, number) = (shown.process, shown.number());
        let (pid, user, name) = (process.pid.0, self.user(process.euid), process.name.clone());
        if let Some(depth) = self.options.microstates {
            let (parts, counts) = figures(shown.spent, depth);
            return MicrostateRow { pid, user, parts, counts, name, number }.line();
        }
        let standing = shown.standing();
        let row = ProcessRow {
            pid,
            user,
            size: process.size,
            rss: process.rss,
            doing: standing.doing,
            priority: standing.priority,
            nice: standing.nice,
            seconds: shown.time().0 / 1_000_000_000,
            cpu: shown.cpu,
            home: self.options.homes.then(|| self.home(shown)),
            name,
            number,
        };
        row.line()
    }

    /// The name of a user, or the number where nobody knows it.
    pub fn user(&self, uid: u32) -> String {
        let known = self.users.get(&uid).filter(|_| !self.options.numbers);
        let name = known.cloned().unwrap_or_else(|| uid.to_string());
        if self.options.cut { name.chars().take(USER_LETTERS).collect() } else { name }
    }

    /// The lines of the second table, the one with the most use first.
    pub fn groups(&self, lines: &[Shown<'_>], grouping: Grouping, picture: &Picture) -> Vec<GroupRow> {
        let mut sums: BTreeMap<(u64, String), (GroupRow, Nanos)> = BTreeMap::new();
        let mut counted = BTreeSet::new();
        for line in lines {
            let process = line.process;
            let (id, name) = self.group_of(process, grouping);
            let (row, time) = sums.entry((id, name.clone())).or_insert_with(|| {
                let controls = self.options.shares.then(|| self.controls_of(process, grouping));
                (GroupRow { id, name, controls, ..GroupRow::default() }, Nanos(0))
            });
            row.cpu += line.cpu;
            *time = *time + line.time();
            if counted.insert(process.pid) {
                row.processes += 1;
                row.size = sum(row.size, process.size);
                row.rss = sum(row.rss, process.rss);
            }
        }
        let all = picture.roster.memory;
        let mut rows: Vec<GroupRow> = sums
            .into_values()
            .map(|(row, time)| GroupRow {
                seconds: time.0 / 1_000_000_000,
                memory: row.rss.zip(all).map(|(rss, all)| part(rss, all)),
                ..row
            })
            .collect();
        rows.sort_by(|a, b| b.cpu.total_cmp(&a.cpu).then_with(|| (a.id, &a.name).cmp(&(b.id, &b.name))));
        if self.options.order.0 == Key::Time {
            rows.sort_by_key(|row| Reverse(row.seconds));
        }
        rows
    }

    /// The shares and the cap of the project or the zone of a process.
    fn controls_of(&self, process: &ProcessEntry, grouping: Grouping) -> (Option<u32>, Option<u32>) {
        let holder = match grouping {
            Grouping::Zones => ControlHolder::Zone(process.zone.name.clone()),
            _ => ControlHolder::Project(process.project.name.clone()),
        };
        let (shares, cap) = self.controls.get(&holder).copied().unwrap_or_default();
        (shares.map(Shares::get), cap.map(CpuCap::get))
    }

    fn group_of(&self, process: &ProcessEntry, grouping: Grouping) -> (u64, String) {
        let named = |it: &millpond_model::Named| {
            (it.id, if self.options.numbers { it.id.to_string() } else { it.name.clone() })
        };
        match grouping {
            Grouping::Users => (u64::from(process.euid), self.user(process.euid)),
            Grouping::Projects => named(&process.project),
            Grouping::Tasks => (u64::from(process.task), named(&process.project).1),
            Grouping::Zones => named(&process.zone),
        }
    }
}

/// The figures of a line of microstates: percents, and counts.
pub fn figures(spent: &Spent, depth: Microstates) -> ([Option<f64>; MICROSTATES.len()], [Option<u64>; 4]) {
    let mut parts = percents(spent);
    if depth == Microstates::Some {
        let shown = [Microstate::User, Microstate::System, Microstate::Sleep];
        for state in MICROSTATES.into_iter().filter(|state| !shown.contains(state)) {
            parts[state.index()] = None;
        }
    }
    (parts, [spent.voluntary, spent.involuntary, spent.calls, spent.signals])
}

fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (one, other) => one.or(other),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a percentage needs no 15 digits")]
fn part(rss: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { 100.0 * rss as f64 / all as f64 }
}
