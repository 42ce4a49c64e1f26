//! The effects of a change or of a new process: the machine before and after it.

use super::bench::Bench;
use super::law::Law;
use super::observed::Observed;
use super::operation::{Operation, Situation};
use super::situation::reach_of;
use super::subject::Subject;
use crate::facets::LwpStatus;
use millpond_model::{CpuId, CpuSet, Lwp, Pid, PsetId, WallTime};
use std::collections::BTreeSet;

/// The machine before and after a change.
pub struct Passage<'p> {
    /// The operation.
    pub operation: &'p Operation,
    /// The machine before it.
    pub before: &'p Observed,
    /// The machine after it.
    pub after: &'p Observed,
    /// The processes of the script. Other processes may change by themselves.
    pub ours: &'p [Pid],
}

/// A process that was started by a process, and the machine before and after.
pub struct Newborn<'n> {
    /// Before.
    pub before: &'n Observed,
    /// After.
    pub after: &'n Observed,
    /// Its parent, which may also be new, or may have ended.
    pub parent: Pid,
    /// The process.
    pub child: Pid,
}

impl Bench {
    /// Checks all laws about a completed change.
    pub fn passage<S: Subject + ?Sized>(&mut self, subject: &S, p: &Passage<'_>) {
        let ours = |pid: Pid| p.ours.contains(&pid);
        let wanted = Situation::of(p.before, ours).after(p.operation);
        let is = Situation::of(p.after, ours);
        self.sets(p, &wanted, &is);
        self.memory(p, &wanted, &is);
        self.states(p, &wanted, &is);
        self.threads(p, &wanted, &is);
        self.classes(p, &wanted, &is);
        self.controls(p, &wanted, &is);
        self.allowed(subject, p);
    }

    fn sets(&mut self, p: &Passage<'_>, wanted: &Situation, is: &Situation) {
        let numbers = |s: &Situation| s.sets.iter().map(|(id, _)| *id).collect::<Vec<_>>();
        let (want, have) = (numbers(wanted), numbers(is));
        let how = || format!("sets in order of creation were to be {want:?}, and are {have:?}");
        match p.operation {
            Operation::Create { .. } => self.ask(Law::LowestFreeNumber, want == have, how),
            Operation::Destroy { .. } => self.ask(Law::DoesWhatItSays, want == have, how),
            _ => self.ask(Law::NothingElseChanges, want == have, how),
        }
        for (id, want) in &wanted.sets {
            let Some((_, have)) = is.sets.iter().find(|(other, _)| other == id) else { continue };
            let (want_cpus, have_cpus) = (as_set(want), as_set(have));
            let how = || format!("set {id} was to have {want_cpus}, and has {have_cpus}");
            self.ask(law_of_members(p, *id, &have_cpus, &want_cpus), want_cpus == have_cpus, how);
            // A CPU that returns gets its former position, which listings do not show.
            if want_cpus == have_cpus && !matches!(p.operation, Operation::Destroy { .. }) {
                self.ask(Law::OrderOfArrival, want == have, || {
                    format!(
                        "set {id} was to have its members in the order {want:?}, and has them as {have:?}"
                    )
                });
            }
        }
        if let Operation::Destroy { set } = p.operation {
            let kept = |s: &Situation| s.sets.iter().flat_map(|(_, m)| m.iter().copied()).collect::<CpuSet>();
            let lost = &p.before.members(*set) & &(&kept(is) - &kept(wanted));
            self.ask(Law::DestroyReturnsProcessors, lost.is_empty(), || {
                format!("CPUs {lost} of set {set} are not in the default set")
            });
        }
    }

    /// The memory settings of sets. A new set has no restriction.
    fn memory(&mut self, p: &Passage<'_>, wanted: &Situation, is: &Situation) {
        for (set, have) in &is.memory {
            let named = matches!(p.operation, Operation::Memory { set: of, .. } if of == set);
            let law = if named { Law::DoesWhatItSays } else { Law::NothingElseChanges };
            let want = wanted.memory.get(set).cloned().unwrap_or_default();
            self.ask(law, *have == want, || {
                format!("the memory of set {set} was to come from {want:?}, and comes from {have:?}")
            });
        }
    }

    fn states(&mut self, p: &Passage<'_>, wanted: &Situation, is: &Situation) {
        for (cpu, want) in &wanted.states {
            let have = is.states.get(cpu);
            let named = matches!(p.operation, Operation::State { cpus, .. } if cpus.contains(cpu));
            let law = if named { Law::DoesWhatItSays } else { Law::NothingElseChanges };
            self.ask(law, have == Some(want), || format!("CPU {cpu} was to be {want}, and is {have:?}"));
        }
        match p.operation {
            Operation::State { cpus, to, .. } if !to.runs_threads() => {
                for cpu in cpus.iter().filter(|c| p.before.active().contains(**c)) {
                    let set = p.before.set_of(*cpu);
                    let runs = |c: CpuId| is.states.get(&c).is_some_and(|s| s.runs_threads());
                    let one_runs = p.before.members(set).iter().any(runs);
                    self.ask(Law::LastOnlineStays, one_runs, || {
                        format!("nothing runs in set {set} any more")
                    });
                }
            }
            _ => {}
        }
    }

    fn threads(&mut self, p: &Passage<'_>, wanted: &Situation, is: &Situation) {
        for (lwp, want) in &wanted.threads {
            let have = is.threads.get(lwp);
            let law = restoring(p, *lwp).unwrap_or(if p.operation.names(*lwp) {
                Law::DoesWhatItSays
            } else {
                Law::NothingElseChanges
            });
            self.ask(law, have == Some(want), || {
                format!("thread {lwp} was to have set and CPU {want:?}, and has {have:?}")
            });
        }
    }

    /// Classes and their tables.
    fn classes(&mut self, p: &Passage<'_>, wanted: &Situation, is: &Situation) {
        let about = matches!(p.operation, Operation::Class { .. } | Operation::Table { .. });
        for (pid, want) in &wanted.classes {
            let have = is.classes.get(pid);
            let law = match p.operation {
                Operation::Class { pid: named, .. } if named == pid => Law::DoesWhatItSays,
                _ if about => Law::NothingElseChanges,
                _ => Law::ClassesSurvive,
            };
            self.ask(law, have == Some(want), || {
                format!("process {pid} was to be in {want}, and is in {have:?}")
            });
        }
        if wanted.tables.is_some() {
            let named = matches!(p.operation, Operation::Table { .. });
            let law = if named { Law::DoesWhatItSays } else { Law::NothingElseChanges };
            let how = || "a dispatch table has rows that it was not to have".to_owned();
            self.ask(law, wanted.tables == is.tables, how);
        }
    }

    /// Shares and caps.
    fn controls(&mut self, p: &Passage<'_>, wanted: &Situation, is: &Situation) {
        let holders: BTreeSet<_> = wanted.controls.keys().chain(is.controls.keys()).collect();
        for holder in holders {
            let of = |situation: &Situation| situation.controls.get(holder).copied().unwrap_or_default();
            let (want, have) = (of(wanted), of(is));
            let named = matches!(p.operation, Operation::Control { holder: named, .. } if named == holder);
            let law = if named { Law::DoesWhatItSays } else { Law::NothingElseChanges };
            self.ask(law, want == have, || {
                format!("{holder} was to have shares and a cap {want:?}, and has {have:?}")
            });
        }
    }

    /// Threads that a change unbinds may use exactly the CPUs that they could use without the binding.
    fn allowed<S: Subject + ?Sized>(&mut self, subject: &S, p: &Passage<'_>) {
        let free = |t: &&LwpStatus| p.ours.contains(&t.lwp.pid) && t.cpus.is_empty();
        for thread in p.after.threads.values().filter(free) {
            let Some(law) = restoring(p, thread.lwp) else { continue };
            let (least, most) = reach_of(subject, p.after, thread);
            let right = least.is_subset(&thread.allowed) && thread.allowed.is_subset(&most);
            self.ask(law, right, || {
                let LwpStatus { lwp, allowed, .. } = thread;
                format!("thread {lwp} may run on {allowed}; it should be {least} at least and {most} at most")
            });
        }
    }

    /// Times of state changes. `from` and `to` are the wall clock before and after; `strictly` if time passed before.
    pub fn since(
        &mut self,
        before: &Observed,
        after: &Observed,
        (from, to): (WallTime, WallTime),
        strictly: bool,
    ) {
        for (cpu, was) in &before.processors {
            let Some(is) = after.processors.get(cpu) else { continue };
            let kept = if was.state == is.state {
                was.since == is.since
            } else {
                (from..=to).contains(&is.since) && !(strictly && was.since == is.since)
            };
            self.ask(Law::SinceChangesWithState, kept, || {
                let (a, b) = (was.since.0, is.since.0);
                format!("CPU {cpu} was {} since {a}, and is {} since {b}", was.state, is.state)
            });
        }
    }

    /// A new process has the class and bindings of one of its parent's threads.
    pub fn newborn(&mut self, n: &Newborn<'_>) {
        let has = |seen: &Observed, pid: Pid| {
            let class = seen.classes.get(&pid).copied();
            let threads = seen.threads.values().filter(move |t| t.lwp.pid == pid);
            threads.map(move |t| (t.set, t.cpus.clone(), class)).collect::<Vec<_>>()
        };
        let of = [has(n.before, n.parent), has(n.after, n.parent)].concat();
        if of.is_empty() {
            return;
        }
        let child = has(n.after, n.child);
        let inherited = child.iter().all(|one| of.contains(one));
        let Newborn { parent, child: pid, .. } = n;
        self.ask(Law::ChildrenInherit, inherited, || {
            format!("process {parent} has {of:?}, its child {pid} has {child:?}")
        });
    }

    /// The class and bindings of a new thread, or of the first thread of a new process.
    pub fn child(&mut self, seen: &Observed, creator: Lwp, child: Lwp) {
        let class = |lwp: Lwp| seen.classes.get(&lwp.pid).map(ToString::to_string);
        let look =
            |lwp: Lwp| seen.threads.get(&lwp).map(|t| (t.set, t.cpus.clone(), t.allowed.clone(), class(lwp)));
        let (of, has) = (look(creator), look(child));
        self.ask(Law::ChildrenInherit, of.is_some() && of == has, || {
            format!("thread {creator} has {of:?}, its child {child} has {has:?}")
        });
    }
}

/// The law about a thread that a change unbinds.
fn restoring(p: &Passage<'_>, lwp: Lwp) -> Option<Law> {
    let was_in = p.before.threads.get(&lwp).map_or(PsetId::DEFAULT, |t| t.set);
    match p.operation {
        Operation::Destroy { set } if was_in == *set => Some(Law::DestroyReturnsThreads),
        Operation::BindSet { to: None, .. } if p.operation.names(lwp) => Some(Law::UnbindingRestores),
        Operation::BindCpu { to, .. } if to.is_empty() && p.operation.names(lwp) => {
            Some(Law::UnbindingRestores)
        }
        _ => None,
    }
}

/// The law about the CPUs of a set after a change.
fn law_of_members(p: &Passage<'_>, set: PsetId, have: &CpuSet, want: &CpuSet) -> Law {
    match p.operation {
        Operation::Destroy { .. } if have != want => Law::DestroyReturnsProcessors,
        Operation::State { .. } => Law::StoppedKeepsItsSet,
        Operation::Create { .. } if p.before.set(set).is_none() => Law::DoesWhatItSays,
        Operation::Assign { set: to, .. } if *to == set => Law::DoesWhatItSays,
        // A donor that kept CPUs that it should give.
        Operation::Create { .. } | Operation::Assign { .. } if want.is_subset(have) => Law::DoesWhatItSays,
        _ => Law::NothingElseChanges,
    }
}

fn as_set(members: &[CpuId]) -> CpuSet {
    members.iter().copied().collect()
}
