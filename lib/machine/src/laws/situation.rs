//! Invariants of every situation.

use super::bench::Bench;
use super::law::Law;
use super::observed::Observed;
use super::subject::{Abilities, Subject};
use crate::facets::{Interrupt, InterruptKind, LwpStatus};
use millpond_model::{CpuSet, Nanos, Pid, Pset, PsetId, PsetMode, Sample, State};

impl Bench {
    /// Checks all laws about one situation. `ours` are the processes of the script.
    pub fn situation<S: Subject + ?Sized>(
        &mut self,
        subject: &S,
        seen: &Observed,
        abilities: &Abilities,
        ours: &[Pid],
    ) {
        self.membership(seen);
        let runs = !seen.active_in(PsetId::DEFAULT).is_empty();
        self.ask(Law::DefaultSetRuns, runs, || format!("active are {}", seen.active()));
        self.bindings(seen);
        if abilities.exclusive {
            self.exclusion(seen);
        }
        self.reach(subject, seen, ours);
        if abilities.prompt_interrupts {
            self.arrival(seen);
        }
        if abilities.lgroups {
            self.lgroups(subject, seen);
        }
        if abilities.can_shelter() {
            let takers = seen.where_state(State::takes_interrupts);
            let how = || "no CPU takes interrupts".to_owned();
            self.ask(Law::LastInterruptibleStays, !takers.is_empty(), how);
            self.shelter(seen);
        }
    }

    fn membership(&mut self, seen: &Observed) {
        let mut taken = CpuSet::new();
        for set in &seen.sets {
            for cpu in &set.members {
                let once = taken.insert(*cpu);
                self.ask(Law::OneSetEach, once, || format!("CPU {cpu} is in set {} and once more", set.id));
                let there = seen.processors.contains_key(cpu);
                self.ask(Law::OneSetEach, there, || format!("set {} has CPU {cpu}, which is none", set.id));
            }
        }
    }

    fn bindings(&mut self, seen: &Observed) {
        for thread in seen.threads.values() {
            let LwpStatus { lwp, set, cpus, allowed } = thread;
            if !set.is_default() {
                let members = seen.members(*set);
                let inside = !allowed.is_empty() && allowed.is_subset(&members);
                self.ask(Law::BoundStayInside, inside, || {
                    format!("thread {lwp} is bound to set {set} ({members}) and may run on {allowed}")
                });
            }
            if !cpus.is_empty() {
                let exact = allowed == cpus && cpus.iter().all(|cpu| seen.set_of(cpu) == *set);
                self.ask(Law::BoundStayInside, exact, || {
                    format!("thread {lwp} of set {set} is bound to CPUs {cpus} and may run on {allowed}")
                });
            }
        }
    }

    fn exclusion(&mut self, seen: &Observed) {
        // A set that reports breaches does not claim to be exclusive.
        let claims = |s: &&Pset| s.mode.is_exclusive() && s.breaches.is_empty();
        for set in seen.sets.iter().filter(claims) {
            let members = set.cpus();
            for thread in seen.threads.values().filter(|t| t.set != set.id) {
                let outside = thread.allowed.is_disjoint(&members);
                self.ask(Law::OthersStayOutside, outside, || {
                    let LwpStatus { lwp, set: of, allowed, .. } = thread;
                    format!("thread {lwp} of set {of} may run on {allowed}, set {} has {members}", set.id)
                });
            }
        }
    }

    fn reach<S: Subject + ?Sized>(&mut self, subject: &S, seen: &Observed, ours: &[Pid]) {
        let free = |t: &&LwpStatus| ours.contains(&t.lwp.pid) && t.cpus.is_empty();
        for thread in seen.threads.values().filter(free) {
            let (least, _) = reach_of(subject, seen, thread);
            self.ask(Law::ReachWholeSet, least.is_subset(&thread.allowed), || {
                let LwpStatus { lwp, set, allowed, .. } = thread;
                format!("thread {lwp} of set {set} may run on {allowed}; it should be {least} at least")
            });
        }
    }

    fn shelter(&mut self, seen: &Observed) {
        let sheltered = seen.where_state(|s| s == State::NoIntr);
        let steerable = |i: &&Interrupt| {
            i.fixed.is_none() && matches!(i.kind, InterruptKind::Device | InterruptKind::Default)
        };
        for interrupt in seen.interrupts.iter().filter(steerable) {
            let away = interrupt.allowed.is_disjoint(&sheltered);
            self.ask(Law::ShelteredFromInterrupts, away, || {
                let Interrupt { id, allowed, .. } = interrupt;
                format!("interrupt {id} may go to {allowed}, sheltered are {sheltered}")
            });
        }
    }

    /// Checks the effective CPUs of interrupts, not the allowed ones.
    fn arrival(&mut self, seen: &Observed) {
        let takers = seen.where_state(State::takes_interrupts);
        for interrupt in &seen.interrupts {
            let Some(effective) = &interrupt.effective else { continue };
            let taken = !effective.is_empty() && effective.is_subset(&takers);
            self.ask(Law::InterruptsArrive, taken, || {
                format!("interrupt {} goes to {effective}, interrupts are taken by {takers}", interrupt.id)
            });
        }
    }

    /// Two samples of counters, `elapsed` between the beginning of the first and the end of the second; `tick` is the resolution of the
    /// machine's time accounts.
    pub fn idle(&mut self, first: &Sample, second: &Sample, elapsed: Nanos, tick: Nanos) {
        for is in &second.cpus {
            let Some(was) = first.cpus.iter().find(|c| c.cpu == is.cpu) else { continue };
            let idle = is.ticks.idle - was.ticks.idle;
            self.ask(Law::IdleIsNoLongerThanElapsed, idle <= elapsed + tick, || {
                format!("CPU {} was idle for {idle} within {elapsed}", is.cpu)
            });
        }
    }
}

/// The CPUs that an unbound thread must, and may, be able to use.
pub fn reach_of<S: Subject + ?Sized>(subject: &S, seen: &Observed, thread: &LwpStatus) -> (CpuSet, CpuSet) {
    let active = seen.active();
    let mask = subject.own_mask(thread.lwp);
    // Kernels ignore a mask that leaves no CPU.
    let masked = |cpus: &CpuSet| match &mask {
        Some(mask) if !mask.is_disjoint(cpus) => cpus & mask,
        _ => cpus.clone(),
    };
    if !thread.set.is_default() {
        let all = seen.active_in(thread.set);
        return (masked(&all), all);
    }
    let outside = |closed: &dyn Fn(PsetMode) -> bool| {
        let sets = seen.sets.iter().filter(|s| closed(s.mode));
        &active - &sets.flat_map(|s| s.members.iter().copied()).collect()
    };
    // Threads are moved out of a steered set; one that could not be moved may still be there.
    let least = outside(&|m| !matches!(m, PsetMode::Shared | PsetMode::Affinity));
    let most = outside(&PsetMode::is_exclusive);
    (masked(&least), masked(&most))
}
