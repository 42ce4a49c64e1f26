//! The accounting facet. The kernel counts all the time, so reading costs the machine nothing.

use crate::apply::part_of;
use crate::kernel::{PartitionId, Table};
use crate::machine::SimMachine;
use crate::state::SimState;
use millpond_machine::facets::{PRESSURE_INTERVAL, Usage, UsageWatch, Waited, WakeReason};
use millpond_machine::{Absent, Accounting, Clock, Refusal};
use millpond_model::{Nanos, PsetId};
use std::collections::BTreeMap;

impl Accounting for SimMachine {
    fn watch(&self) -> Result<Box<dyn UsageWatch + '_>, Absent> {
        Ok(Box::new(Watch { machine: self, began: self.view(usage) }))
    }

    fn load(&self) -> Result<BTreeMap<PsetId, u64>, Refusal> {
        Ok(self.view(|s| by_set(s, &s.kernel.runnable_by_part())))
    }
}

impl SimMachine {
    /// Accounting since boot, independent of when it is read.
    #[must_use]
    pub fn watch_since_boot(&self) -> Box<dyn UsageWatch + '_> {
        Box::new(Watch { machine: self, began: Usage::default() })
    }
}

struct Watch<'a> {
    machine: &'a SimMachine,
    began: Usage,
}

impl UsageWatch for Watch<'_> {
    fn sample(&mut self) -> Result<Usage, Refusal> {
        let mut now = self.machine.view(usage);
        for (cpu, busy) in &mut now.busy {
            *busy = Nanos(busy.0.saturating_sub(self.began.busy.get(cpu).map_or(0, |b| b.0)));
        }
        for (set, waited) in &mut now.waited {
            if let Waited::Threads(time) = waited {
                *time = Nanos(time.0.saturating_sub(self.began.waited_ns(*set)));
            }
        }
        Ok(now)
    }

    fn wait(&mut self, deadline: Nanos) -> WakeReason {
        let mut before = self.machine.view(usage);
        while before.at < deadline {
            self.machine.sleep_until(Nanos(deadline.0.min(before.at.0 + PRESSURE_INTERVAL.0)));
            let now = self.machine.view(usage);
            if now.at == before.at {
                return WakeReason::Deadline;
            }
            if now.is_pressed_since(&before) {
                return WakeReason::Pressure;
            }
            before = now;
        }
        WakeReason::Deadline
    }

    fn explain(&self) -> Vec<String> {
        vec!["use and waiting are counted by the simulated machine itself; watching costs it nothing".into()]
    }
}

/// The counters since boot.
fn usage(state: &SimState) -> Usage {
    let known = state.topology.processors().iter().zip(state.kernel.cpus());
    let runs = |cpu| state.tables.processors.get(&cpu).is_some_and(|p| p.state.runs_threads());
    let busy = known.filter(|(p, _)| runs(p.id)).map(|(p, cpu)| (p.id, Nanos(cpu.user + cpu.sys))).collect();
    let waited = by_set(state, &state.kernel.waited());
    let waited = waited.into_iter().map(|(set, time)| (set, Waited::Threads(Nanos(time)))).collect();
    Usage { at: state.now(), busy, waited }
}

/// Values of partitions, summed by set. The partition ASIDE belongs to the default set.
fn by_set(state: &SimState, parts: &Table<PartitionId, u64>) -> BTreeMap<PsetId, u64> {
    let of = |part: PartitionId| parts.row(part).copied().unwrap_or(0);
    let mut sets: BTreeMap<PsetId, u64> =
        state.tables.sets.keys().map(|set| (*set, of(part_of(*set)))).collect();
    sets.insert(PsetId::DEFAULT, of(crate::kernel::DEFAULT) + of(crate::kernel::ASIDE));
    sets
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::CpuId;

    fn load(line: &str) -> crate::workloads::Load {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        crate::workloads::Load::parse(&words).unwrap()
    }

    #[test]
    fn six_spinning_threads_on_four_processors_lack_two() {
        let machine = SimMachine::named("x4200").unwrap();
        let mut watch = Accounting::watch(&machine).unwrap();
        machine.start_load(&load("spin -t 6"));
        machine.sleep_until(Nanos(machine.now().0 + 10_000_000_000));
        let usage = watch.sample().unwrap();
        let busy: u64 = usage.busy.values().map(|b| b.0).sum();
        assert_eq!(busy, 40_000_000_000);
        let Waited::Threads(waited) = usage.waited[&PsetId::DEFAULT] else { panic!("{usage:?}") };
        assert_eq!(waited, Nanos(20_000_000_000));
        assert!(usage.busy.contains_key(&CpuId(3)));
    }

    #[test]
    fn the_load_of_a_set_is_who_runs_or_waits() {
        let machine = SimMachine::named("x4200").unwrap();
        let of = |set: u32| Accounting::load(&machine).unwrap().get(&PsetId(set)).copied();
        assert_eq!((of(0), of(1)), (Some(0), None));
        machine.start_load(&load("spin -t 6"));
        machine.sleep_until(Nanos(1_000_000_000));
        assert_eq!(of(0), Some(6));
    }

    #[test]
    fn who_waits_is_woken_by_pressure_and_not_before() {
        let machine = SimMachine::named("x4200").unwrap();
        let mut watch = Accounting::watch(&machine).unwrap();
        machine.start_load(&load("spin -t 4"));
        let second = |n: u64| Nanos(n * 1_000_000_000);
        assert_eq!(watch.wait(second(1)), WakeReason::Deadline);
        assert_eq!(machine.now(), second(1));
        machine.start_load(&load("spin -t 1"));
        assert_eq!(watch.wait(second(2)), WakeReason::Pressure);
        assert!(machine.now() <= Nanos(1_020_000_000), "{:?}", machine.now());
    }
}
