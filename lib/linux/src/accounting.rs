//! The accounting facet: CPU use by CPU, run-queue waiting by set.
//!
//! | Figure | Source | Fallback or limit |
//! |---|---|---|
//! | use of a CPU | `/proc/stat`: time not idle | `/proc/stat`: busy clock ticks, when these are more |
//! | waiting, of every set | `/proc/schedstat`: run-queue delay by CPU | |
//! | waiting, of a set, without `/proc/schedstat` | `/proc/TID/schedstat` of its tasks | |
//! | waiting, of the default set, without `/proc/schedstat` | `/proc/loadavg`: runnable threads of the machine minus CPUs in use | |
//! | running and waiting threads, by set | `/proc/PID/task/TID/stat`: state and last CPU | |
//! | a thread begins to wait | a pressure trigger, 10 ms in half a second | the deadline |
//! | the pool configuration is written | inotify on its record | the deadline |

use crate::clock::timespec;
use crate::counters::Uses;
use crate::procfs::{PROCESSOR, STATE, stat_field};
use crate::records::RecordWatch;
use crate::view::RootTasks;
use crate::{LinuxMachine, names};
use millpond_formats::proc_tables::{Field, SchedTable, parse_thread};
use millpond_machine::facets::{Usage, UsageWatch, Waited, WakeReason};
use millpond_machine::{Absent, Accounting, Machine, Reason, Refusal};
use millpond_model::{CpuId, Nanos, PsetId};
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;

/// The pressure trigger: stall time and window, in microseconds. A kernel checks ten times per window.
const TRIGGER: &str = "some 10000 500000";

impl Accounting for LinuxMachine {
    fn load(&self) -> Result<BTreeMap<PsetId, u64>, Refusal> {
        let sets = self.view(RootTasks::Unlisted)?.sets();
        let owners = LinuxMachine::owners(&sets);
        let known = sets.keys().copied().chain([PsetId::DEFAULT]);
        let mut load: BTreeMap<PsetId, u64> = known.map(|set| (set, 0)).collect();
        for cpu in self.runnable()? {
            *load.entry(owners.get(&cpu).copied().unwrap_or(PsetId::DEFAULT)).or_default() += 1;
        }
        Ok(load)
    }

    fn watch(&self) -> Result<Box<dyn UsageWatch + '_>, Absent> {
        let uses = Uses::open(&self.os.root).map_err(absent)?;
        let delays = delays(self).is_some();
        let mut watch = Watch {
            machine: self,
            uses,
            delays,
            trigger: trigger(self),
            record: self.os.root.is_live().then(|| RecordWatch::of_pools(&self.os)).flatten(),
            cpus: BTreeMap::new(),
            tasks: BTreeMap::new(),
            waited: BTreeMap::new(),
            busy: BTreeMap::new(),
            at: Nanos(0),
        };
        watch.sample().map_err(absent)?;
        (watch.waited, watch.busy) = (BTreeMap::new(), BTreeMap::new());
        Ok(Box::new(watch))
    }
}

impl LinuxMachine {
    /// The last CPU of each thread that runs or waits for a CPU.
    pub(crate) fn runnable(&self) -> Result<Vec<CpuId>, Refusal> {
        let broken = |error: std::io::Error| Refusal::operation(Reason::Machine(format!("/proc: {error}")));
        let own = self.os.root.own_pid();
        let mut runnable = Vec::new();
        for pid in self.os.pids().map_err(broken)? {
            for tid in self.os.tids(pid).map_err(broken)? {
                let stat = self.os.root.proc.join(format!("{pid}/task/{tid}/stat"));
                let runs = self.os.root.read_value(&stat).ok().flatten().and_then(|text| parse_runs(&text));
                // The reading thread itself is not counted.
                runnable.extend(runs.filter(|(runs, _)| *runs && own != Some(tid)).map(|(_, cpu)| cpu));
            }
        }
        Ok(runnable)
    }
}

/// Whether a thread runs or waits for a CPU, and its last CPU, from its `stat` file.
fn parse_runs(text: &str) -> Option<(bool, CpuId)> {
    let cpu = stat_field(text, PROCESSOR)?.parse().ok()?;
    Some((stat_field(text, STATE)? == "R", CpuId(cpu)))
}

fn absent(refusal: Refusal) -> Absent {
    Absent { why: refusal.reason.to_string(), what_would_help: refusal.hint }
}

/// A file that becomes readable when threads wait. `None` where the kernel has no pressure triggers.
fn trigger(machine: &LinuxMachine) -> Option<File> {
    if !machine.os.root.is_live() {
        return None;
    }
    let path = machine.os.root.proc.join("pressure/cpu");
    let mut file = OpenOptions::new().read(true).write(true).open(path).ok()?;
    file.write_all(TRIGGER.as_bytes()).ok()?;
    Some(file)
}

/// Run-queue delay by CPU, since boot; `None` where the kernel does not report it.
fn delays(machine: &LinuxMachine) -> Option<BTreeMap<CpuId, u64>> {
    let text = machine.os.root.read(&machine.os.root.proc.join("schedstat")).ok()??;
    let delays: BTreeMap<CpuId, u64> = SchedTable::read(&text, Field::Waited).into_iter().collect();
    Some(delays).filter(|delays| !delays.is_empty())
}

/// Runnable threads of the whole machine, without the reading thread.
fn parse_runnable(text: &str) -> Option<u64> {
    let field = text.split_ascii_whitespace().nth(3)?;
    let running: u64 = field.split('/').next()?.parse().ok()?;
    Some(running.saturating_sub(1))
}

/// Time counters of a CPU, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Counted {
    used: u64,
    idle: u64,
    delay: u64,
}

impl Counted {
    /// CPU time used since the reading `was`, `passed` nanoseconds ago.
    fn busy_since(&self, was: &Counted, passed: u64) -> u64 {
        let by_ticks = self.used.saturating_sub(was.used);
        let not_idle = passed.saturating_sub(self.idle.saturating_sub(was.idle));
        by_ticks.max(not_idle).min(passed)
    }
}

struct Watch<'a> {
    machine: &'a LinuxMachine,
    uses: Uses,
    /// Whether the kernel reports run-queue delay by CPU.
    delays: bool,
    trigger: Option<File>,
    record: Option<RecordWatch>,
    /// Last reading, by CPU.
    cpus: BTreeMap<CpuId, Counted>,
    /// Run-queue delay at the last reading, by task.
    tasks: BTreeMap<u32, u64>,
    /// Cumulated since the watch began.
    waited: BTreeMap<PsetId, u64>,
    busy: BTreeMap<CpuId, u64>,
    at: Nanos,
}

impl Watch<'_> {
    /// Run-queue delay of a task since it began.
    fn delay_of(&self, tid: u32) -> Option<u64> {
        let os = &self.machine.os;
        let text = os.root.read(&os.root.proc.join(format!("{tid}/schedstat"))).ok()??;
        Some(parse_thread(&text)?.waited.0)
    }

    /// Adds the delay of tasks to that of their sets. The delay of a task that ended since the last reading is lost.
    fn take_tasks(&mut self, tasks: &[(PsetId, u32)]) {
        let mut seen = BTreeMap::new();
        for (set, tid) in tasks {
            let Some(delay) = self.delay_of(*tid) else { continue };
            let before = self.tasks.get(tid).copied().unwrap_or(delay);
            *self.waited.entry(*set).or_default() += delay.saturating_sub(before);
            seen.insert(*tid, delay);
        }
        self.tasks = seen;
    }

    /// Waiting of the default set: runnable threads of the machine, minus CPUs in use, minus waiting in other sets. One reading
    /// is taken as the value for the whole interval since the previous one.
    fn take_default(&mut self, passed: u64, others: u64) {
        let os = &self.machine.os;
        let text = os.root.read(&os.root.proc.join("loadavg")).ok().flatten();
        let Some(runnable) = text.as_deref().and_then(parse_runnable) else { return };
        let busy = self.cpus.len() as u64;
        let lacking = runnable.saturating_sub(busy).saturating_mul(passed);
        *self.waited.entry(PsetId::DEFAULT).or_default() += lacking.saturating_sub(others);
    }
}

impl UsageWatch for Watch<'_> {
    fn sample(&mut self) -> Result<Usage, Refusal> {
        let view = self.machine.view(RootTasks::Unlisted)?;
        let sets = view.sets();
        let owners = LinuxMachine::owners(&sets);
        let now = self.machine.clock().now();
        let delays = if self.delays { delays(self.machine).unwrap_or_default() } else { BTreeMap::new() };
        let passed = now.0.saturating_sub(self.at.0);
        let mut cpus = BTreeMap::new();
        for (cpu, used, idle) in self.uses.read()? {
            let is = Counted { used, idle, delay: delays.get(&cpu).copied().unwrap_or(0) };
            let busy = self.busy.entry(cpu).or_default();
            if let Some(was) = self.cpus.get(&cpu) {
                *busy += is.busy_since(was, passed);
                if self.delays {
                    *self.waited.entry(owners.get(&cpu).copied().unwrap_or(PsetId::DEFAULT)).or_default() +=
                        is.delay.saturating_sub(was.delay);
                }
            }
            cpus.insert(cpu, is);
        }
        self.cpus = cpus;
        if !self.delays {
            let before: u64 = self.waited.iter().filter(|(s, _)| !s.is_default()).map(|(_, w)| w).sum();
            let of = |at: &str| {
                let by_pool = names::pool(at).and_then(|pool| view.pools.get(&pool).copied());
                by_pool.or_else(|| names::owner(at)).filter(|set| !set.is_default())
            };
            let mut tasks: Vec<(PsetId, u32)> = Vec::new();
            for task in &view.tasks {
                let Some(set) = of(&task.at) else { continue };
                // The task list of version 2 contains processes only.
                let tids = match task.id.tid {
                    Some(tid) => vec![tid],
                    None => self.machine.os.tids(task.id.pid).unwrap_or_default(),
                };
                tasks.extend(tids.into_iter().map(|tid| (set, tid)));
            }
            self.take_tasks(&tasks);
            let after: u64 = self.waited.iter().filter(|(s, _)| !s.is_default()).map(|(_, w)| w).sum();
            self.take_default(passed, after.saturating_sub(before));
        }
        self.at = now;
        self.waited.retain(|set, _| set.is_default() || sets.contains_key(set));
        let known = sets.keys().copied().chain([PsetId::DEFAULT]);
        let waited = known.map(|set| {
            let time = self.waited.get(&set).copied().unwrap_or(0);
            (set, Waited::Threads(Nanos(time)))
        });
        let busy = self.cpus.keys().map(|cpu| (*cpu, Nanos(self.busy.get(cpu).copied().unwrap_or(0))));
        Ok(Usage { at: now, busy: busy.collect(), waited: waited.collect() })
    }

    fn wait(&mut self, deadline: Nanos) -> WakeReason {
        let clock = self.machine.clock();
        if let Some(record) = &self.record {
            record.renew();
        }
        let trigger = self.trigger.as_ref().map(|trigger| PollFd::new(trigger, PollFlags::PRI));
        let record = self.record.as_ref().map(|record| PollFd::new(record, PollFlags::IN));
        let mut fds: Vec<PollFd<'_>> = trigger.into_iter().chain(record).collect();
        loop {
            let left = deadline.0.saturating_sub(clock.now().0);
            if fds.is_empty() {
                clock.sleep_until(deadline);
                return WakeReason::Deadline;
            }
            let Ok(1..) = poll(&mut fds, Some(&timespec(Nanos(left)))) else { return WakeReason::Deadline };
            let has = |flag| fds.iter().any(|fd| fd.revents().contains(flag));
            if has(PollFlags::PRI) {
                return WakeReason::Pressure;
            }
            if self.record.as_ref().is_some_and(RecordWatch::was_written) {
                return WakeReason::Changed;
            }
            if !has(PollFlags::IN) {
                return WakeReason::Deadline;
            }
        }
    }

    fn explain(&self) -> Vec<String> {
        let waiting = if self.delays {
            "waiting: /proc/schedstat, by CPU"
        } else {
            "waiting: /proc/TID/schedstat of members, and /proc/loadavg for everybody else: this kernel has no /proc/schedstat"
        };
        let woken = match self.trigger {
            Some(_) => "woken by pressure: 10 ms of waiting in half a second",
            None => "not woken by pressure: this kernel does not offer it, or not to us",
        };
        vec!["use: /proc/stat, what is not idle".into(), waiting.into(), woken.into()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_that_were_missed_do_not_make_a_processor_idle() {
        let was = Counted { used: 100, idle: 100, delay: 0 };
        let is = |used: u64, idle: u64| Counted { used: 100 + used, idle: 100 + idle, delay: 0 };
        assert_eq!(is(37, 0).busy_since(&was, 100), 100, "no moment was idle");
        assert_eq!(is(30, 70).busy_since(&was, 100), 30);
        assert_eq!(is(60, 60).busy_since(&was, 100), 60, "idle time is sampled, too");
        assert_eq!(is(130, 0).busy_since(&was, 100), 100, "no more than there was");
    }

    #[test]
    fn who_runs_and_where_stands_in_the_first_and_the_thirty_seventh_field_behind_the_name() {
        let line = |state: &str| format!("7 (a) b) {state} {} 5 0 0\n", vec!["1"; 35].join(" "));
        assert_eq!(parse_runs(&line("R")), Some((true, CpuId(5))));
        assert_eq!(parse_runs(&line("S")), Some((false, CpuId(5))));
        for none in ["", "7 (a) R 1 2", "7 a R"] {
            assert_eq!(parse_runs(none), None, "{none}");
        }
    }

    #[test]
    fn whoever_asks_does_not_count_among_the_runnable() {
        assert_eq!(parse_runnable("2.85 2.68 2.19 4/99 29771\n"), Some(3));
        assert_eq!(parse_runnable("0.00 0.00 0.00 0/99 1\n"), Some(0));
        assert_eq!(parse_runnable("nonsense"), None);
    }

    #[test]
    fn fuzz_who_is_runnable() {
        millpond_fuzz::check_text("linux-runnable", &["2.85 2.68 2.19 4/99 29771\n"], |text| {
            let _ = (parse_runnable(text), parse_runs(text));
        });
    }
}
