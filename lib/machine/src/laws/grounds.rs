//! The reasons for which a change may, or must, be refused in a situation.

use super::observed::Observed;
use super::operation::Operation;
use super::subject::Abilities;
use crate::Reason;
use millpond_model::{
    ControlHolder, CpuId, CpuSet, Lwp, LwpId, Pid, PsetId, SetMemory, State, Transition, TransitionError,
};

/// All reasons by the rules.
#[derive(Debug, Default)]
pub struct Grounds {
    /// With any of these the change must be refused.
    pub must: Vec<Reason>,
    /// With any of these it may be refused.
    pub may: Vec<Reason>,
}

impl Grounds {
    /// The reasons to refuse `operation` in the situation `seen`.
    #[must_use]
    pub fn of(operation: &Operation, seen: &Observed, abilities: &Abilities) -> Self {
        let mut grounds = Grounds::default();
        match operation {
            Operation::Create { cpus, shared, forced } => {
                // The limit belongs to the machine and is in its refusal.
                grounds.may.push(Reason::TooManySets(seen.sets.len()));
                let kind_exists = if *shared { abilities.shared } else { abilities.exclusive };
                if !kind_exists {
                    grounds.may.push(Reason::Absent(crate::Absent::because("")));
                }
                grounds.moves(seen, None, cpus, *forced);
            }
            Operation::Assign { set, cpus, forced } => {
                if !set.is_default() && seen.set(*set).is_none() {
                    grounds.must.push(Reason::NoSuchPset);
                }
                grounds.moves(seen, Some(*set), cpus, *forced);
            }
            Operation::Destroy { set } => grounds.set(seen, *set),
            Operation::BindSet { pid, lwps, to } => {
                grounds.process(seen, *pid, lwps.as_deref());
                grounds.bind_set(seen, abilities, *pid, lwps.as_deref(), *to);
            }
            Operation::BindCpu { pid, lwps, to } => {
                grounds.process(seen, *pid, lwps.as_deref());
                for cpu in to.iter() {
                    grounds.bind_cpu(seen, *pid, lwps.as_deref(), cpu);
                }
            }
            Operation::State { cpus, to, forced } => grounds.states(seen, cpus, *to, *forced),
            Operation::Memory { set, to } => {
                grounds.set(seen, *set);
                if let SetMemory::Nodes(nodes) = to
                    && (nodes.is_empty() || !nodes.iter().all(|node| seen.nodes.contains(node)))
                {
                    grounds.must.push(Reason::Machine("one of the lgroups has no memory".to_owned()));
                }
            }
            Operation::Class { pid, request } => {
                grounds.process(seen, *pid, None);
                let applied = seen.classes.get(pid).zip(seen.tables.as_ref());
                if let Some(Err(error)) = applied.map(|(class, tables)| request.apply(*class, tables)) {
                    grounds.must.push(Reason::Machine(error.to_string()));
                }
            }
            Operation::Control { holder, .. } => match holder {
                ControlHolder::Process(pid) => grounds.process(seen, *pid, None),
                _ if seen.controls.contains_key(holder) => {}
                ControlHolder::Project(_) => grounds.must.push(Reason::NoSuchProject),
                ControlHolder::Zone(_) => grounds.must.push(Reason::NoSuchZone),
            },
            Operation::Table { .. } => {}
        }
        grounds
    }

    /// Whether the given reason is one of these.
    #[must_use]
    pub fn justify(&self, reason: &Reason) -> bool {
        self.must.iter().chain(&self.may).any(|ground| same(ground, reason))
    }

    fn moves(&mut self, seen: &Observed, to: Option<PsetId>, cpus: &[CpuId], forced: bool) {
        self.known(seen, cpus);
        if twice(cpus) {
            self.must.push(Reason::NamedTwice);
        }
        let moving: CpuSet = cpus
            .iter()
            .copied()
            .filter(|cpu| seen.processors.contains_key(cpu) && Some(seen.set_of(*cpu)) != to)
            .collect();
        for cpu in moving.iter() {
            let state = seen.processors[&cpu].state;
            if !state.runs_threads() {
                self.must.push(Reason::NotActive(state));
            }
            self.bound_threads(seen, cpu, forced);
        }
        let sources = seen.sets.iter().map(|s| s.id).chain([PsetId::DEFAULT]);
        for set in sources.filter(|s| Some(*s) != to) {
            let active = seen.active_in(set);
            if active.is_disjoint(&moving) || !active.is_subset(&moving) {
                continue;
            }
            if set.is_default() {
                self.must.push(Reason::LastOfDefault);
            } else if seen.bound_to_set(set).next().is_some() {
                self.must.push(Reason::LastOfBusy(set));
            }
        }
    }

    fn states(&mut self, seen: &Observed, cpus: &[CpuId], to: State, forced: bool) {
        self.known(seen, cpus);
        if twice(cpus) {
            self.may.push(Reason::NamedTwice);
        }
        let (mut stopping, mut sheltering) = (CpuSet::new(), CpuSet::new());
        for processor in cpus.iter().filter_map(|cpu| seen.processors.get(cpu)) {
            match processor.state.transition(to, forced) {
                Err(TransitionError::NeedsForce) => self.must.push(Reason::NeedsForce),
                Err(TransitionError::Impossible { from, to }) => {
                    self.must.push(Reason::Transition { from, to });
                }
                Ok(Transition::Stop) => {
                    stopping.insert(processor.cpu);
                    self.bound_threads(seen, processor.cpu, forced);
                }
                Ok(Transition::ShelterFromInterrupts | Transition::Start { then_shelter: true }) => {
                    sheltering.insert(processor.cpu);
                }
                Ok(_) => {}
            }
        }
        if !stopping.is_empty() && seen.active().is_subset(&stopping) {
            self.must.push(Reason::LastOnline);
        }
        for set in seen.sets.iter().map(|s| s.id).chain([PsetId::DEFAULT]) {
            let active = seen.active_in(set);
            if !active.is_disjoint(&stopping) && active.is_subset(&stopping) {
                self.must.push(Reason::LastOnlineOf(set));
            }
        }
        let leaving = &stopping | &sheltering;
        let takers = seen.where_state(State::takes_interrupts);
        if !leaving.is_empty() && takers.is_subset(&leaving) {
            self.must.push(Reason::LastInterruptible);
        }
    }

    fn bind_set(
        &mut self,
        seen: &Observed,
        abilities: &Abilities,
        pid: Pid,
        lwps: Option<&[LwpId]>,
        to: Option<PsetId>,
    ) {
        if let Some(set) = to {
            self.set(seen, set);
            if seen.active_in(set).is_empty() {
                self.must.push(Reason::EmptyPset(set));
            }
        }
        let set = to.unwrap_or(PsetId::DEFAULT);
        for thread in seen.threads.values().filter(|t| t.lwp.pid == pid) {
            let named = lwps.is_none_or(|l| l.contains(&thread.lwp.lwp));
            if let Some(cpu) = thread.cpus.iter().find(|cpu| named && seen.set_of(*cpu) != set) {
                self.must.push(Reason::BoundElsewhere { cpu, set });
            }
            if !abilities.thread_sets && lwps.is_some() && thread.set != set {
                self.may.push(Reason::ProcessInPset(thread.set));
            }
        }
    }

    fn bind_cpu(&mut self, seen: &Observed, pid: Pid, lwps: Option<&[LwpId]>, cpu: CpuId) {
        self.known(seen, &[cpu]);
        let Some(processor) = seen.processors.get(&cpu) else { return };
        if !processor.state.runs_threads() {
            self.must.push(Reason::NotActive(processor.state));
        }
        let of = seen.set_of(cpu);
        for lwp in lwps.map_or_else(|| seen.lwps(pid), <[LwpId]>::to_vec) {
            match seen.threads.get(&Lwp { pid, lwp }) {
                Some(thread) if thread.set != of => {
                    self.must.push(Reason::ProcessorInOtherPset { cpu, of, thread: thread.set });
                }
                _ => {}
            }
        }
    }

    fn process(&mut self, seen: &Observed, pid: Pid, lwps: Option<&[LwpId]>) {
        if seen.kernel.contains(&pid) {
            self.must.push(Reason::KernelThread);
            return;
        }
        let there = seen.lwps(pid);
        if there.is_empty() {
            self.must.push(Reason::NoSuchProcess);
        } else if lwps.is_some_and(|l| l.iter().any(|lwp| !there.contains(lwp))) {
            self.must.push(Reason::NoSuchLwp);
        }
    }

    /// A named set must be one created by users.
    fn set(&mut self, seen: &Observed, set: PsetId) {
        if set.is_default() {
            self.must.push(Reason::DefaultPset);
            self.may.push(Reason::NoSuchPset);
        } else if seen.set(set).is_none() {
            self.must.push(Reason::NoSuchPset);
        }
    }

    fn known(&mut self, seen: &Observed, cpus: &[CpuId]) {
        if cpus.iter().any(|cpu| !seen.processors.contains_key(cpu)) {
            self.must.push(Reason::NoSuchProcessor { present: seen.cpus() });
        }
    }

    fn bound_threads(&mut self, seen: &Observed, cpu: CpuId, forced: bool) {
        let bound: Vec<Lwp> = seen.bound_to_cpu(cpu).map(|t| t.lwp).collect();
        if !bound.is_empty() && !forced {
            self.must.push(Reason::BoundThreads(bound));
        }
    }
}

fn twice(cpus: &[CpuId]) -> bool {
    let mut seen = CpuSet::new();
    cpus.iter().any(|cpu| !seen.insert(*cpu))
}

/// Whether an expected and a given reason are equal. If several wordings are true, any is accepted.
fn same(ground: &Reason, reason: &Reason) -> bool {
    match (ground, reason) {
        (Reason::NoSuchProcessor { .. }, Reason::NoSuchProcessor { .. })
        | (Reason::Absent(_), Reason::Absent(_)) => true,
        (Reason::BoundThreads(all), Reason::BoundThreads(some)) => {
            !some.is_empty() && some.iter().all(|l| all.contains(l))
        }
        (Reason::LastOnlineOf(set), Reason::LastOfDefault) => set.is_default(),
        (Reason::TooManySets(there), Reason::TooManySets(possible)) => there >= possible,
        _ => ground == reason,
    }
}
