//! The laws themselves: what is compared with what.

use super::effect::{Operation, Situation};
use super::law::Law;
use super::observed::Observed;
use super::script::Tally;
use super::subject::{Abilities, Subject};
use crate::facets::{Interrupt, InterruptKind, LwpStatus};
use millpond_model::{CpuSet, Lwp, Nanos, Pset, PsetId, PsetMode, Sample, State, WallTime};

/// A law that was broken, and how.
pub type Broken = (Law, String);

/// Holds what was observed against the laws, and counts each question.
pub struct Bench<'t> {
    /// What was asked how often.
    pub tally: &'t mut Tally,
}

impl Bench<'_> {
    /// One question.
    fn ask(&mut self, law: Law, kept: bool, how: impl FnOnce() -> String) -> Result<(), Broken> {
        self.tally.count(law);
        if kept { Ok(()) } else { Err((law, how())) }
    }

    /// What must hold in every situation.
    pub fn situation(&mut self, seen: &Observed, abilities: &Abilities) -> Result<(), Broken> {
        self.membership(seen)?;
        let runs = !seen.active_in(PsetId::DEFAULT).is_empty();
        self.ask(Law::DefaultSetRuns, runs, || format!("active are {}", seen.active()))?;
        self.bindings(seen)?;
        if abilities.exclusive {
            self.exclusion(seen)?;
        }
        if abilities.can_shelter() {
            let takers = seen.where_state(State::takes_interrupts);
            let how = || "no processor takes interrupts".to_owned();
            self.ask(Law::LastInterruptibleStays, !takers.is_empty(), how)?;
            self.shelter(seen)?;
        }
        Ok(())
    }

    fn membership(&mut self, seen: &Observed) -> Result<(), Broken> {
        let mut taken = CpuSet::new();
        for set in &seen.sets {
            for cpu in &set.members {
                let once = taken.insert(*cpu);
                self.ask(Law::OneSetEach, once, || {
                    format!("processor {cpu} is in set {} and once more", set.id)
                })?;
                let there = seen.processors.contains_key(cpu);
                self.ask(Law::OneSetEach, there, || {
                    format!("set {} has processor {cpu}, which is none", set.id)
                })?;
            }
        }
        Ok(())
    }

    fn bindings(&mut self, seen: &Observed) -> Result<(), Broken> {
        let law = Law::BoundStayInside;
        for thread in seen.threads.values() {
            let LwpStatus { lwp, set, cpu, allowed } = thread;
            if !set.is_default() {
                let members = seen.members(*set);
                let inside = !allowed.is_empty() && allowed.is_subset(&members);
                let how =
                    || format!("thread {lwp} is bound to set {set} ({members}) and may run on {allowed}");
                self.ask(law, inside, how)?;
            }
            if let Some(cpu) = cpu {
                let exact = *allowed == CpuSet::from_iter([*cpu]) && seen.set_of(*cpu) == *set;
                let how = || {
                    let of = seen.set_of(*cpu);
                    format!(
                        "thread {lwp} of set {set} is bound to processor {cpu} of set {of} and may run on {allowed}"
                    )
                };
                self.ask(law, exact, how)?;
            }
        }
        Ok(())
    }

    fn exclusion(&mut self, seen: &Observed) -> Result<(), Broken> {
        // A set that admits to a breach does not claim to be exclusive now.
        let claims = |s: &&Pset| s.mode.is_exclusive() && s.breaches.is_empty();
        for set in seen.sets.iter().filter(claims) {
            let members = set.cpus();
            for thread in seen.threads.values().filter(|t| t.set != set.id) {
                let outside = thread.allowed.is_disjoint(&members);
                self.ask(Law::OthersStayOutside, outside, || {
                    let LwpStatus { lwp, set: of, allowed, .. } = thread;
                    format!("thread {lwp} of set {of} may run on {allowed}, set {} has {members}", set.id)
                })?;
            }
        }
        Ok(())
    }

    fn shelter(&mut self, seen: &Observed) -> Result<(), Broken> {
        let sheltered = seen.where_state(|s| s == State::NoIntr);
        let steerable = |i: &&Interrupt| {
            i.fixed.is_none() && matches!(i.kind, InterruptKind::Device | InterruptKind::Default)
        };
        for interrupt in seen.interrupts.iter().filter(steerable) {
            let away = interrupt.allowed.is_disjoint(&sheltered);
            let Interrupt { id, allowed, .. } = interrupt;
            self.ask(Law::ShelteredFromInterrupts, away, || {
                format!("interrupt {id} may go to {allowed}, sheltered are {sheltered}")
            })?;
        }
        Ok(())
    }

    /// What a change led to.
    pub fn effect<S: Subject + ?Sized>(
        &mut self,
        subject: &S,
        operation: &Operation,
        before: &Observed,
        after: &Observed,
        ours: &dyn Fn(millpond_model::Pid) -> bool,
    ) -> Result<(), Broken> {
        let wanted = Situation::of(before, ours).after(operation);
        let is = Situation::of(after, ours);
        self.sets(operation, before, &wanted, &is)?;
        self.states(operation, before, &wanted, &is)?;
        self.threads(operation, before, &wanted, &is)?;
        self.allowed(subject, operation, before, after, ours)
    }

    fn sets(
        &mut self,
        operation: &Operation,
        before: &Observed,
        wanted: &Situation,
        is: &Situation,
    ) -> Result<(), Broken> {
        let numbers = |s: &Situation| s.sets.iter().map(|(id, _)| *id).collect::<Vec<_>>();
        let (want, have) = (numbers(wanted), numbers(is));
        if let Operation::Create { .. } = operation {
            let how = || format!("sets were to be {want:?}, and are {have:?}");
            self.ask(Law::LowestFreeNumber, want.last() == have.last(), how)?;
        }
        self.ask(Law::DoesWhatItSays, want == have, || {
            format!("sets in order of creation were to be {want:?}, and are {have:?}")
        })?;
        for ((id, want), (_, have)) in wanted.sets.iter().zip(&is.sets) {
            let named = match operation {
                Operation::Create { .. } => before.set(*id).is_none(),
                Operation::Assign { set, .. } => set == id,
                _ => false,
            };
            let law = self.law_of_members(operation, named, want, have);
            let how = || format!("set {id} was to have {want:?}, and has {have:?}");
            self.ask(law, want == have, how)?;
            self.ask(Law::OrderOfArrival, want == have, || format!("set {id}: {want:?} became {have:?}"))?;
        }
        if let Operation::Destroy { set } = operation {
            let lost = &before.members(*set) - &default_of(is);
            let how = || format!("processors {lost} of set {set} are not in the default set");
            self.ask(Law::DestroyReturnsProcessors, lost.is_empty(), how)?;
        }
        Ok(())
    }

    /// Which law speaks about the members of a set after a change.
    fn law_of_members<T: Ord + Clone>(
        &self,
        operation: &Operation,
        named: bool,
        want: &[T],
        have: &[T],
    ) -> Law {
        let sorted = |list: &[T]| {
            let mut list = list.to_vec();
            list.sort();
            list
        };
        match operation {
            _ if want != have && sorted(want) == sorted(have) => Law::OrderOfArrival,
            Operation::Destroy { .. } if have.len() > want.len() => Law::DestroyReturnsProcessors,
            Operation::State { .. } => Law::StoppedKeepsItsSet,
            _ if named => Law::DoesWhatItSays,
            Operation::Assign { .. } | Operation::Create { .. } if have.len() > want.len() => {
                Law::DoesWhatItSays
            }
            _ => Law::NothingElseChanges,
        }
    }

    fn states(
        &mut self,
        operation: &Operation,
        before: &Observed,
        wanted: &Situation,
        is: &Situation,
    ) -> Result<(), Broken> {
        for (cpu, want) in &wanted.states {
            let have = is.states.get(cpu);
            let named = matches!(operation, Operation::State { cpus, .. } if cpus.contains(cpu));
            let law = if named { Law::DoesWhatItSays } else { Law::NothingElseChanges };
            self.ask(law, have == Some(want), || {
                format!("processor {cpu} was to be {want}, and is {have:?}")
            })?;
        }
        if let Operation::State { cpus, to, .. } = operation
            && !to.runs_threads()
        {
            for cpu in cpus.iter().filter(|c| before.active().contains(**c)) {
                let set = before.set_of(*cpu);
                let runs =
                    before.members(set).iter().any(|c| is.states.get(&c).is_some_and(|s| s.runs_threads()));
                self.ask(Law::LastOnlineStays, runs, || format!("nothing runs in set {set} any more"))?;
            }
        }
        Ok(())
    }

    fn threads(
        &mut self,
        operation: &Operation,
        before: &Observed,
        wanted: &Situation,
        is: &Situation,
    ) -> Result<(), Broken> {
        for (lwp, want) in &wanted.threads {
            let was_in = before.threads.get(lwp).map_or(PsetId::DEFAULT, |t| t.set);
            let unbinds = matches!(
                operation,
                Operation::BindSet { to: None, .. } | Operation::BindCpu { to: None, .. }
            );
            let law = match operation {
                Operation::Destroy { set } if was_in == *set => Law::DestroyReturnsThreads,
                _ if operation.names(*lwp) && unbinds => Law::UnbindingRestores,
                _ if operation.names(*lwp) => Law::DoesWhatItSays,
                _ => Law::NothingElseChanges,
            };
            let have = is.threads.get(lwp);
            self.ask(law, have == Some(want), || {
                format!("thread {lwp} was to have set and processor {want:?}, and has {have:?}")
            })?;
        }
        Ok(())
    }

    /// Threads that are bound to nothing any more may run where they would without us, as far as the sets of
    /// others leave it.
    fn allowed<S: Subject + ?Sized>(
        &mut self,
        subject: &S,
        operation: &Operation,
        before: &Observed,
        after: &Observed,
        ours: &dyn Fn(millpond_model::Pid) -> bool,
    ) -> Result<(), Broken> {
        for thread in after.threads.values().filter(|t| ours(t.lwp.pid) && t.cpu.is_none()) {
            let was = before.threads.get(&thread.lwp);
            let law = match operation {
                Operation::Destroy { set } if was.is_some_and(|w| w.set == *set) => {
                    Law::DestroyReturnsThreads
                }
                Operation::BindSet { to: None, .. } | Operation::BindCpu { to: None, .. }
                    if operation.names(thread.lwp) =>
                {
                    Law::UnbindingRestores
                }
                _ => continue,
            };
            let (least, most) = reach(after, thread.set, subject.own_mask(thread.lwp));
            let right = least.is_subset(&thread.allowed) && thread.allowed.is_subset(&most);
            self.ask(law, right, || {
                let LwpStatus { lwp, allowed, .. } = thread;
                format!("thread {lwp} may run on {allowed}; it should be {least} at least and {most} at most")
            })?;
        }
        Ok(())
    }

    /// Since-times. `from` and `to` are the wall clock before and after; `strictly` when time has passed before.
    pub fn since(
        &mut self,
        before: &Observed,
        after: &Observed,
        (from, to): (WallTime, WallTime),
        strictly: bool,
    ) -> Result<(), Broken> {
        for (cpu, was) in &before.processors {
            let Some(is) = after.processors.get(cpu) else { continue };
            let kept = if was.state == is.state {
                was.since == is.since
            } else {
                (from..=to).contains(&is.since) && !(strictly && was.since == is.since)
            };
            self.ask(Law::SinceChangesWithState, kept, || {
                let (a, b) = (was.since.0, is.since.0);
                format!("processor {cpu} was {} since {a}, and is {} since {b}", was.state, is.state)
            })?;
        }
        Ok(())
    }

    /// What a new thread or process has.
    pub fn child(&mut self, seen: &Observed, creator: Lwp, child: Lwp) -> Result<(), Broken> {
        let look = |lwp: Lwp| seen.threads.get(&lwp).map(|t| (t.set, t.cpu, t.allowed.clone()));
        let (of, has) = (look(creator), look(child));
        self.ask(Law::ChildrenInherit, of.is_some() && of == has, || {
            format!("thread {creator} has {of:?}, its child {child} has {has:?}")
        })
    }

    /// Two samples of counters, `tick` being the grain of the machine's account.
    pub fn idle(&mut self, first: &Sample, second: &Sample, tick: Nanos) -> Result<(), Broken> {
        let elapsed = second.at - first.at;
        for is in &second.cpus {
            let Some(was) = first.cpus.iter().find(|c| c.cpu == is.cpu) else { continue };
            let idle = is.ticks.idle - was.ticks.idle;
            let how = || format!("processor {} was idle for {idle} within {elapsed}", is.cpu);
            self.ask(Law::IdleIsNoLongerThanElapsed, idle <= elapsed + tick, how)?;
        }
        Ok(())
    }

    /// A law that is a plain equality of texts; `what` says what was compared.
    pub fn same(&mut self, law: Law, what: &str, wanted: &str, is: &str) -> Result<(), Broken> {
        self.ask(law, wanted == is, || format!("{what}: {}", first_difference(wanted, is)))
    }

    /// Any other question.
    pub fn that(&mut self, law: Law, kept: bool, how: impl FnOnce() -> String) -> Result<(), Broken> {
        self.ask(law, kept, how)
    }
}

fn default_of(is: &Situation) -> CpuSet {
    let taken: CpuSet = is.sets.iter().flat_map(|(_, m)| m.iter().copied()).collect();
    &is.states.keys().copied().collect::<CpuSet>() - &taken
}

/// Where a thread of a set, with a mask of its own, must and may be able to run.
fn reach(seen: &Observed, set: PsetId, mask: Option<CpuSet>) -> (CpuSet, CpuSet) {
    let active = seen.active();
    // A mask that leaves nothing is dropped by kernels.
    let masked = |cpus: &CpuSet| match &mask {
        Some(mask) if !mask.is_disjoint(cpus) => cpus & mask,
        _ => cpus.clone(),
    };
    if !set.is_default() {
        let all = seen.active_in(set);
        return (masked(&all), all);
    }
    let of_mode = |closed: &dyn Fn(PsetMode) -> bool| {
        let inside: CpuSet =
            seen.sets.iter().filter(|s| closed(s.mode)).flat_map(|s| s.members.iter().copied()).collect();
        &active - &inside
    };
    // Others are asked out of a steered set; one who was not reached may still be there.
    let closed = of_mode(&|m| !matches!(m, PsetMode::Shared | PsetMode::Affinity));
    let open = of_mode(&PsetMode::is_exclusive);
    (masked(&closed), masked(&open))
}

/// Two texts from shortly before their first difference.
fn first_difference(wanted: &str, is: &str) -> String {
    const BEFORE: usize = 60;
    const SHOWN: usize = 160;
    let at = wanted.chars().zip(is.chars()).take_while(|(a, b)| a == b).count();
    let part = |text: &str| text.chars().skip(at.saturating_sub(BEFORE)).take(SHOWN).collect::<String>();
    format!("it was `…{}…`, and is `…{}…`", part(wanted), part(is))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_shown_where_it_begins() {
        let long = "a".repeat(100);
        let text = first_difference(&format!("{long}b"), &format!("{long}c"));
        assert!(text.contains("ab…`, and is"), "{text}");
        assert!(text.len() < 200, "{text}");
    }
}
