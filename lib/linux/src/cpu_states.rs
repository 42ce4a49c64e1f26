//! CPU states during a change of many CPUs: counts the CPUs that remain in the machine and in each set.

use millpond_machine::{Reason, Refusal, Subject};
use millpond_model::{CpuId, CpuSet, PsetId, State};
use std::collections::BTreeMap;

/// States and sets of CPUs, with counts. A check takes the same time for any number of CPUs.
#[derive(Debug)]
pub(crate) struct CpuStates {
    states: BTreeMap<CpuId, State>,
    /// The CPUs of non-default sets; all others are in the default set.
    set_of: BTreeMap<CpuId, PsetId>,
    running: usize,
    running_of: BTreeMap<PsetId, usize>,
    interruptible: usize,
    /// CPUs that another program took off-line. They are not shielded from interrupts.
    unasked: CpuSet,
}

impl CpuStates {
    pub(crate) fn new(
        states: BTreeMap<CpuId, State>,
        set_of: BTreeMap<CpuId, PsetId>,
        unasked: CpuSet,
    ) -> Self {
        let mut planned = CpuStates {
            states: BTreeMap::new(),
            set_of,
            running: 0,
            running_of: BTreeMap::new(),
            interruptible: 0,
            unasked: CpuSet::new(),
        };
        states.into_iter().for_each(|(cpu, state)| planned.becomes(cpu, state));
        planned.unasked = unasked;
        planned
    }

    pub(crate) fn present(&self) -> CpuSet {
        self.states.keys().copied().collect()
    }

    pub(crate) fn state(&self, cpu: CpuId) -> Option<State> {
        self.states.get(&cpu).copied()
    }

    fn set_of(&self, cpu: CpuId) -> PsetId {
        self.set_of.get(&cpu).copied().unwrap_or(PsetId::DEFAULT)
    }

    /// Records a new state of a CPU.
    pub(crate) fn becomes(&mut self, cpu: CpuId, to: State) {
        self.unasked.remove(cpu);
        let from = self.states.insert(cpu, to);
        let of_set = self.running_of.entry(self.set_of(cpu)).or_default();
        if from.is_some_and(State::runs_threads) {
            self.running -= 1;
            *of_set -= 1;
        }
        if to.runs_threads() {
            self.running += 1;
            *of_set += 1;
        }
        self.interruptible -= usize::from(from.is_some_and(State::takes_interrupts));
        self.interruptible += usize::from(to.takes_interrupts());
    }

    /// The CPUs that are shielded from interrupts.
    pub(crate) fn shielded(&self) -> CpuSet {
        let shielded = self.states.iter().filter(|(_, state)| !state.takes_interrupts());
        &shielded.map(|(cpu, _)| *cpu).collect() - &self.unasked
    }

    /// Checks that another CPU takes interrupts.
    ///
    /// # Errors
    /// [`Reason::LastInterruptible`].
    pub(crate) fn check_shield(&self, cpu: CpuId) -> Result<(), Refusal> {
        let own = self.state(cpu).is_some_and(State::takes_interrupts);
        if self.interruptible == usize::from(own) {
            return Err(Refusal::new(Subject::Processor(cpu), Reason::LastInterruptible));
        }
        Ok(())
    }

    /// Checks that a running CPU may stop.
    ///
    /// # Errors
    /// The CPU is the last one of the machine, of its set, or of those that take interrupts.
    pub(crate) fn check_stop(&self, cpu: CpuId) -> Result<(), Refusal> {
        let refuse = |reason| Err(Refusal::new(Subject::Processor(cpu), reason));
        let set = self.set_of(cpu);
        if self.running == 1 {
            return refuse(Reason::LastOnline);
        }
        if self.running_of.get(&set) == Some(&1) {
            return refuse(if set.is_default() { Reason::LastOfDefault } else { Reason::LastOnlineOf(set) });
        }
        self.check_shield(cpu)
    }
}
