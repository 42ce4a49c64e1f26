//! Results of programs, in their own units: the figure that each would print at its end.
//!
//! A workload counts operations. From these, and from the time since its start, follows the figure that the real program reports:
//! `iperf` bits in each direction, `cg` floating-point operations, a Java server and a database transactions, all per second.
//! `hackbench` reports its run time from the moment when all its processes exist.

use crate::state::SimState;
use crate::workloads::{Load, iperf};
use millpond_model::{Lwp, LwpId, Nanos, Pid};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Converts a workload's operations to the figure that its program reports.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// The unit's value of one operation per second.
    pub per_operation: f64,
    /// The unit, as the program prints it.
    pub unit: &'static str,
    /// Decimals, as the program prints them.
    pub digits: usize,
    /// Names of the first threads whose counts are reported separately, in order; empty if only the sum is reported.
    pub ways: &'static [&'static str],
}

/// Bits per operation of the stream.
#[expect(clippy::cast_precision_loss, reason = "two frames are 23,360 bits")]
const PAIR_BITS: f64 = (iperf::PAIR_BYTES * 8) as f64;

/// Programs that report a rate, by workload name.
const RATES: [(&str, Rate); 4] = [
    ("cg", Rate { per_operation: 1e-6, unit: "Mop/s", digits: 2, ways: &[] }),
    ("iperf", Rate { per_operation: PAIR_BITS / 1e6, unit: "Mbits/sec", digits: 1, ways: &["out", "in"] }),
    ("jbb", Rate { per_operation: 1.0, unit: "bops", digits: 0, ways: &[] }),
    ("tpce", Rate { per_operation: 1.0, unit: "transactions/s", digits: 2, ways: &[] }),
];

/// The workload that reports a time.
const TIMED: &str = "hackbench";

/// The rate of a workload's program, if it reports one.
#[must_use]
pub fn rate_of(workload: &str) -> Option<Rate> {
    RATES.into_iter().find(|(name, _)| *name == workload).map(|(_, rate)| rate)
}

impl Rate {
    /// The rate of this many operations in this time; 0 for no time.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts are far from the 53 bits that are exact")]
    pub fn of(self, operations: u64, time: Nanos) -> f64 {
        if time.0 == 0 { 0.0 } else { operations as f64 * self.per_operation / time.as_secs_f64() }
    }

    /// The figure as the program prints it: `1000.25 Mop/s`, or `out 584.1 Mbits/sec, in 519.0 Mbits/sec`.
    #[must_use]
    pub fn text(self, by_thread: &[u64], time: Nanos) -> String {
        let figure = |operations| format!("{:.*} {}", self.digits, self.of(operations, time), self.unit);
        if self.ways.is_empty() {
            return figure(by_thread.iter().sum());
        }
        // A one-way stream has no thread for the other direction. The last thread only polls the clock.
        let ways = self.ways.iter().zip(by_thread.iter().take(by_thread.len().saturating_sub(1)));
        ways.map(|(way, done)| format!("{way} {}", figure(*done))).collect::<Vec<_>>().join(", ")
    }
}

/// Counts of a program that reports results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counted {
    /// Its workload.
    pub workload: String,
    /// Its process's name.
    pub name: String,
    /// Start of counting, in nanoseconds since boot; `None` while it initializes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// Its end time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
    /// Whether it ended by itself.
    #[serde(default)]
    pub is_complete: bool,
    /// Operations of its threads that have ended.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub done: BTreeMap<LwpId, u64>,
}

/// Results of a program over a period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Achieved {
    /// Its process.
    pub pid: Pid,
    /// Its workload.
    pub workload: String,
    /// Its process's name.
    pub name: String,
    /// The period.
    pub time: Nanos,
    /// Operations by thread.
    pub done: BTreeMap<LwpId, u64>,
    /// Whether it ended by itself.
    pub is_complete: bool,
}

impl Achieved {
    /// The results since an earlier reading of the same program.
    #[must_use]
    pub fn since(&self, before: &Achieved) -> Achieved {
        let earlier = |lwp: &LwpId| before.done.get(lwp).copied().unwrap_or(0);
        let done = self.done.iter().map(|(lwp, done)| (*lwp, done.saturating_sub(earlier(lwp)))).collect();
        Achieved { time: Nanos(self.time.0.saturating_sub(before.time.0)), done, ..self.clone() }
    }

    /// The figure as the program prints it; `None` if it has none yet.
    #[must_use]
    pub fn figure(&self) -> Option<String> {
        if self.workload == TIMED {
            return self.is_complete.then(|| format!("Time: {:.3}", self.time.as_secs_f64()));
        }
        let rate = rate_of(&self.workload).filter(|_| self.time.0 > 0)?;
        Some(rate.text(&self.done.values().copied().collect::<Vec<_>>(), self.time))
    }

    /// The program's output at its end.
    #[must_use]
    pub fn report(&self) -> String {
        match self.figure() {
            Some(figure) if self.workload == TIMED => figure,
            Some(figure) => format!("{figure}, over {:.3} s", self.time.as_secs_f64()),
            None => "ended without a result".to_owned(),
        }
    }
}

impl SimState {
    /// Starts counting for a process that executes a workload.
    pub(crate) fn count_started(&mut self, pid: Pid, load: &Load) {
        let workload = load.workload.name;
        if workload != TIMED && rate_of(workload).is_none() {
            return;
        }
        let since = (workload != TIMED).then(|| self.now().0);
        let counted = Counted {
            workload: workload.to_owned(),
            name: self.tables.processes.get(&pid).map(|process| process.name.clone()).unwrap_or_default(),
            since,
            ended: None,
            is_complete: false,
            done: BTreeMap::new(),
        };
        self.results.insert(pid, counted);
    }

    /// A thread counted its first operation: the initialization is over.
    pub(crate) fn counts(&mut self, lwp: Lwp) {
        let now = self.now().0;
        if let Some(counted) = self.results.get_mut(&lwp.pid) {
            counted.since.get_or_insert(now);
        }
    }

    /// A thread ended; its process too, if that is gone.
    pub(crate) fn count_ended(&mut self, lwp: Lwp, done: u64, is_complete: bool) {
        let (now, lives) = (self.now().0, self.tables.processes.contains_key(&lwp.pid));
        let Some(counted) = self.results.get_mut(&lwp.pid) else { return };
        *counted.done.entry(lwp.lwp).or_default() += done;
        if !lives && counted.ended.is_none() {
            (counted.ended, counted.is_complete) = (Some(now), is_complete);
        }
    }

    fn achieved(&self, pid: Pid, counted: &Counted) -> Achieved {
        let mut done = counted.done.clone();
        for (thread, lwp) in self.threads.iter().filter(|(_, lwp)| lwp.pid == pid) {
            done.insert(lwp.lwp, self.kernel.thread(*thread).done);
        }
        let until = counted.ended.unwrap_or(self.now().0);
        Achieved {
            pid,
            workload: counted.workload.clone(),
            name: counted.name.clone(),
            time: Nanos(counted.since.map_or(0, |since| until.saturating_sub(since))),
            done,
            is_complete: counted.is_complete,
        }
    }

    /// Results of all running programs.
    #[must_use]
    pub fn achievements(&self) -> Vec<Achieved> {
        let living = self.results.iter().filter(|(_, counted)| counted.ended.is_none());
        living.map(|(pid, counted)| self.achieved(*pid, counted)).collect()
    }

    /// Results of programs that ended since the last call.
    pub fn take_ended(&mut self) -> Vec<Achieved> {
        let is_over = |(_, counted): &(&Pid, &Counted)| counted.ended.is_some();
        let ended: Vec<Achieved> =
            self.results.iter().filter(is_over).map(|(pid, counted)| self.achieved(*pid, counted)).collect();
        ended.iter().for_each(|one| drop(self.results.remove(&one.pid)));
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimMachine;
    use crate::workloads::tests::plain;
    use millpond_machine::Clock;

    fn started(machine: &SimMachine, text: &str) -> Pid {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        machine.start_load(&Load::parse(&words).unwrap())
    }

    fn ended(machine: &SimMachine) -> Vec<(Pid, Nanos, Option<String>)> {
        machine.edit(SimState::take_ended).iter().map(|one| (one.pid, one.time, one.figure())).collect()
    }

    #[test]
    fn figures_are_in_the_units_of_their_programs() {
        let second = Nanos::from_secs(1);
        let text = |workload, done: &[u64]| rate_of(workload).unwrap().text(done, second);
        assert_eq!(text("cg", &[500_000_000, 500_250_000]), "1000.25 Mop/s");
        // A pair of frames has 2 x 1460 bytes: 23,360 bits.
        assert_eq!(text("iperf", &[25_000, 22_000, 0]), "out 584.0 Mbits/sec, in 513.9 Mbits/sec");
        assert_eq!(text("iperf", &[25_000, 0]), "out 584.0 Mbits/sec");
        assert_eq!(text("jbb", &[171_000, 250]), "171250 bops");
        assert_eq!(text("tpce", &[156]), "156.00 transactions/s");
        assert_eq!(rate_of("cg").unwrap().of(7, Nanos(0)), 0.0);
        assert!(rate_of("spin").is_none());
    }

    #[test]
    fn a_program_says_what_it_achieved_when_it_ends_or_is_killed() {
        let machine = plain();
        // An operation takes 1 ns: 1,000 Mop/s per thread. The unfinished step at the end is not counted.
        let cg = "cg --op-instructions 1 --op-reach 0 --barrier-instructions 0";
        let killed = started(&machine, &format!("{cg} -t 1"));
        let timed = started(&machine, &format!("{cg} -t 2 --seconds 2"));
        started(&machine, "spin --for 5");
        machine.sleep_until(Nanos::from_secs(1));
        assert_eq!(ended(&machine), []);
        assert!(machine.exit(killed));
        let [(pid, time, Some(figure))] = &ended(&machine)[..] else { panic!("one has ended") };
        assert_eq!((*pid, *time), (killed, Nanos::from_secs(1)));
        assert!(figure.starts_with("999.9") || figure.starts_with("1000.0"), "{figure}");
        machine.sleep_until(Nanos::from_secs(3));
        let [(pid, time, Some(figure))] = &ended(&machine)[..] else { panic!("one has ended") };
        assert_eq!((*pid, *time), (timed, Nanos::from_secs(2)));
        assert!(figure.starts_with("1999.9") || figure.starts_with("2000.0"), "{figure}");
        assert_eq!(ended(&machine), []);
    }

    #[test]
    fn hackbench_counts_from_the_moment_when_all_its_processes_are_there() {
        // Forty processes are started, 1 ms each; then 20 x 20 messages pass.
        let machine = plain();
        let words = "hackbench 1 -l 1 --instructions 1000";
        let pid = started(&machine, words);
        let killed = plain();
        let victim = started(&killed, words);
        killed.sleep_until(Nanos::from_millis(41));
        assert!(killed.exit(victim));
        assert_eq!(ended(&killed).iter().map(|one| one.2.clone()).collect::<Vec<_>>(), [None]);
        machine.sleep_until(Nanos::from_secs(1));
        let [(is, time, Some(figure))] = &ended(&machine)[..] else { panic!("one has ended") };
        assert_eq!(*is, pid);
        assert_eq!(*figure, format!("Time: {:.3}", time.as_secs_f64()));
        // 400 messages of two calls of 1 us by 40 processes on 32 CPUs.
        assert!((20_000..5_000_000).contains(&time.0), "{time}");
    }

    #[test]
    fn what_runs_can_be_asked_and_a_saved_machine_remembers() {
        let machine = plain();
        let pid = started(&machine, "jbb -t 2");
        machine.sleep_until(Nanos::from_secs(1));
        let before = machine.view(SimState::achievements);
        assert_eq!(before.iter().map(|one| one.pid).collect::<Vec<_>>(), [pid]);
        machine.sleep_until(Nanos::from_secs(3));
        let after = machine.view(SimState::achievements);
        let between = after[0].since(&before[0]);
        assert_eq!(between.time, Nanos::from_secs(2));
        let sum = |one: &Achieved| one.done.values().sum::<u64>();
        assert_eq!(sum(&between), sum(&after[0]) - sum(&before[0]));
        let again = SimMachine::load(&machine.save()).unwrap();
        assert_eq!(again.view(SimState::achievements), after);
        assert!(again.exit(pid));
        assert_eq!(again.edit(SimState::take_ended)[0].time, Nanos::from_secs(3));
    }

    #[test]
    fn cg_has_a_thread_for_each_cpu_that_it_may_use() {
        let machine = SimMachine::named("smartos-2").unwrap();
        let threads = |pid: Pid| machine.view(|s| s.tables.processes[&pid].lwps.len());
        assert_eq!(threads(started(&machine, "cg.S.x")), 2);
        assert_eq!(threads(started(&machine, "cg.S.x -t 3")), 3);
        assert_eq!(threads(started(&machine, "spin")), 1);
        machine.edit(|s| {
            s.tables.processors.values_mut().next().unwrap().state = millpond_model::State::OffLine
        });
        assert_eq!(threads(started(&machine, "cg.S.x")), 1);
    }
}
