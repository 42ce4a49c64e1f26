//! Sets without cgroup rights (mode `affinity`): for a user inside a batch job, a container, or without root.
//!
//! Such a set is a record `set.N` in the user's own state directory. Its members are processes with a record `member.PID@START`,
//! and their descendants. Other processes are not moved away or notified. Members get the set's CPUs as their affinity mask, as
//! far as the user may use these CPUs. Records of ended processes are ignored.
//!
//! The sets of the machine, which an administrator made, are read from their cgroups as usual. They are shown with their CPUs and
//! members, and cannot be changed here. Their numbers are not used for new sets. If a machine set is later created with the
//! number of a record, the machine set keeps the number, and the recorded set is shown with the next free number as long as the
//! conflict lasts ([`shown`]).

use crate::knob::{LinuxKnob, TaskId};
use crate::sets::{former, give_back, returns};
use crate::view::{SetLabel, View};
use crate::{LinuxMachine, names};
use millpond_machine::facets::{CreateOptions, Rebinding};
use millpond_machine::{Change, Knob, KnobError, Processors, Reason, Refusal, Step, Subject};
use millpond_model::{CpuId, CpuSet, Move, Pid, Pset, PsetId, PsetMode, SetMemory};
use std::collections::{BTreeMap, BTreeSet};

/// Maps the number in a record to the number that is shown. `recorded` are the numbers of all records, `real` those of the
/// machine's sets, which take precedence.
fn shown(recorded: &BTreeSet<PsetId>, real: &BTreeSet<PsetId>) -> BTreeMap<PsetId, PsetId> {
    let mut taken: Vec<PsetId> = recorded.union(real).copied().collect();
    let mut free = || {
        let id = Pset::free_id(&taken);
        taken.push(id);
        id
    };
    recorded.iter().map(|id| (*id, if real.contains(id) { free() } else { *id })).collect()
}

/// The sets of one user, current or wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Own {
    /// By the number shown.
    sets: BTreeMap<PsetId, SetLabel>,
    /// The record number by the number shown.
    recorded: BTreeMap<PsetId, PsetId>,
}

impl Own {
    fn new(records: BTreeMap<PsetId, SetLabel>, real: &BTreeSet<PsetId>) -> Own {
        let numbers = shown(&records.keys().copied().collect(), real);
        let recorded = numbers.iter().map(|(record, shown)| (*shown, *record)).collect();
        Own { sets: records.into_iter().map(|(id, set)| (numbers[&id], set)).collect(), recorded }
    }

    /// The record number of a set.
    fn record(&self, shown: PsetId) -> PsetId {
        self.recorded.get(&shown).copied().unwrap_or(shown)
    }

    /// The number shown for a record number.
    fn shown(&self, record: PsetId) -> PsetId {
        self.recorded.iter().find(|(_, r)| **r == record).map_or(record, |(shown, _)| *shown)
    }

    fn set_knob(&self, shown: PsetId) -> Knob {
        LinuxKnob::Record(format!("set.{}", self.record(shown))).knob()
    }
}

fn member_knob(process: TaskId) -> Knob {
    LinuxKnob::Record(format!("member.{process}")).knob()
}

impl LinuxMachine {
    /// The CPUs that this user may use.
    fn usable(&self) -> Result<CpuSet, Refusal> {
        let online = self.os.online().map_err(|e| Refusal::operation(Reason::Machine(e.to_string())))?;
        let mine = self.os.fs.own_affinity(&self.os);
        let mine = mine.map_err(|e| Refusal::operation(Reason::Machine(e.to_string())))?;
        let Some(mine) = mine else { return Ok(online) };
        // This process's own mask can be that of one of the user's sets, if it was started in one.
        let own = self.own()?;
        let inside = own.sets.values().any(|s| !s.cpus().is_empty() && mine.is_subset(&s.cpus()));
        Ok(if inside { online } else { mine })
    }

    fn record_texts(&self, prefix: &str) -> Vec<(String, String)> {
        let names = self.os.record_names();
        let read = |name: &String| Some((name.strip_prefix(prefix)?.to_owned(), self.os.record(name)?));
        names.iter().filter_map(read).collect()
    }

    /// The sets of the machine.
    fn real_sets(&self) -> Result<BTreeMap<PsetId, SetLabel>, Refusal> {
        Ok(self.live_sets()?.1)
    }

    /// The sets of this user.
    fn own(&self) -> Result<Own, Refusal> {
        Ok(self.own_beside(&self.real_sets()?))
    }

    fn own_beside(&self, real: &BTreeMap<PsetId, SetLabel>) -> Own {
        let records = self
            .record_texts("set.")
            .into_iter()
            .filter_map(|(id, text)| Some((id.parse().ok()?, serde_json::from_str(&text).ok()?)))
            .collect();
        Own::new(records, &real.keys().copied().collect())
    }

    /// Whether a set is one of this user's, and not a set of the machine.
    pub(crate) fn is_cooperative(&self, set: PsetId) -> bool {
        !self.has_cgroups() && self.own().is_ok_and(|own| own.sets.contains_key(&set))
    }

    /// The set of a process, without rights: the machine set of its cgroup, else the user's own set.
    pub(crate) fn set_without_rights(&self, pid: u32, place: Option<&str>) -> PsetId {
        let real = place.and_then(names::owner).filter(|set| !set.is_default());
        real.unwrap_or_else(|| self.cooperative_set_of(pid))
    }

    /// The CPUs that a thread may use when it is not bound to a CPU, without rights.
    pub(crate) fn cpus_without_rights(&self, task: TaskId) -> Result<CpuSet, KnobError> {
        let own = self.own().map(|own| own.sets).unwrap_or_default();
        match own.get(&self.cooperative_set_of(task.pid)) {
            Some(set) => Ok(set.cpus()),
            None => self.cpuset_of(task),
        }
    }

    /// The refusal for a change to a machine set, or to a process in one.
    fn not_ours(&self, subject: Subject, set: PsetId) -> Refusal {
        match self.os.may_write_groups() {
            Err(KnobError::ReadOnly) => KnobError::ReadOnly.into_refusal(subject, &self.tree()),
            _ => Refusal::new(subject, Reason::NotPermitted)
                .hint(format!("set {set} is the machine's: only the superuser changes it")),
        }
    }

    /// The name of the cgroup tree.
    fn tree(&self) -> String {
        let mount = self.os.hierarchy.mount().map(|mount| mount.display().to_string());
        format!("the cgroup tree {}", mount.unwrap_or_default())
    }

    /// The note for a user who creates a set.
    fn why_by_masks(&self) -> String {
        let how = "members are confined, other processes are not pushed out";
        match self.os.may_write_groups() {
            Err(KnobError::ReadOnly) => {
                format!(
                    "{} is read-only: {how}; mount it for writing, for sets that keep others out",
                    self.tree()
                )
            }
            _ => format!("there are no rights to cgroups: {how}"),
        }
    }

    /// The bound processes, with the record numbers of their sets. Ended processes are left out.
    fn bound_processes(&self) -> BTreeMap<u32, (TaskId, PsetId)> {
        self.record_texts("member.")
            .into_iter()
            .filter_map(|(task, set)| {
                let task: TaskId = task.parse().ok()?;
                let alive = self.os.stat(task.pid, None).ok()??.start == task.start;
                alive.then_some((task.pid, (task, set.parse().ok()?)))
            })
            .collect()
    }

    /// The set of a process, by the number shown: from its own record, or from that of the nearest ancestor with one.
    pub(crate) fn cooperative_set_of(&self, pid: u32) -> PsetId {
        let record = self.record_of(pid, &self.bound_processes());
        if record.is_default() { record } else { self.own().map_or(record, |own| own.shown(record)) }
    }

    /// The set of a process, by the number of the record.
    fn record_of(&self, pid: u32, bound: &BTreeMap<u32, (TaskId, PsetId)>) -> PsetId {
        let mut at = pid;
        // A chain of parents ends at the first process. The bound guards against inconsistent reads.
        for _ in 0..1000 {
            if let Some((_, set)) = bound.get(&at) {
                return *set;
            }
            match self.os.parent_of(at) {
                Some(parent) if parent != 0 => at = parent,
                _ => break,
            }
        }
        PsetId::DEFAULT
    }

    /// Every process of a set. Processes that were moved into a set of the machine are no longer members.
    fn cooperative_members(&self, own: &Own, set: PsetId) -> Vec<u32> {
        let bound = self.bound_processes();
        if bound.is_empty() {
            return Vec::new();
        }
        let record = own.record(set);
        let is_real = |pid: u32| {
            let place = self.os.place(pid, None).ok().flatten();
            place.as_deref().and_then(names::owner).is_some_and(|set| !set.is_default())
        };
        let pids = self.os.pids().unwrap_or_default();
        pids.into_iter().filter(|pid| self.record_of(*pid, &bound) == record && !is_real(*pid)).collect()
    }

    /// The steps that set the masks of all threads of a process; `None` restores the original masks.
    fn mask_steps(&self, pid: u32, mask: Option<&CpuSet>) -> Vec<Step> {
        let mut steps = Vec::new();
        for tid in self.os.tids(pid).unwrap_or_default() {
            let Ok((task, _)) = self.os.identify(Pid(pid), Some(tid)) else { continue };
            let knob = LinuxKnob::Affinity(task).knob();
            let Ok(before) = self.mask_value(task) else { continue };
            let step = match mask {
                Some(mask) => Step::new(knob, Some(before), Some(mask.to_string())).keeping(),
                None => {
                    let original = self.journal.baseline(&knob).flatten().unwrap_or_else(|| "all".to_owned());
                    Step::new(knob, Some(before), Some(original)).releasing()
                }
            };
            steps.push(step.tolerant());
        }
        steps
    }

    fn cooperative_checked(
        &self,
        real: &BTreeMap<PsetId, SetLabel>,
        own: &mut Own,
        to: PsetId,
        cpus: &[CpuId],
    ) -> Result<Vec<Move>, Refusal> {
        let usable = self.usable()?;
        let before = own.clone();
        let sets = &mut own.sets;
        let machines = real.values().fold(CpuSet::new(), |all, s| &all | &s.cpus());
        let mut seen = BTreeSet::new();
        let mut moves = Vec::new();
        for cpu in cpus.iter().copied() {
            let refuse = |reason| Err(Refusal::new(Subject::Processor(cpu), reason));
            if !seen.insert(cpu) {
                return refuse(Reason::NamedTwice);
            }
            if !self.states()?.iter().any(|s| s.cpu == cpu) {
                let present = self.states()?.iter().map(|s| s.cpu).collect();
                return refuse(Reason::NoSuchProcessor { present });
            }
            if let Some((set, _)) = real.iter().find(|(_, s)| s.members.contains(&cpu)) {
                return refuse(Reason::Machine(format!("it is in set {set}, which is the machine's")))
                    .map_err(|r: Refusal| {
                        r.hint("choose another one; only the superuser takes it out of there")
                    });
            }
            if !usable.contains(cpu) {
                let why = format!("it is not among those that you may use ({usable})");
                return refuse(Reason::Machine(why));
            }
            let from = sets.iter().find(|(_, s)| s.members.contains(&cpu)).map_or(PsetId::DEFAULT, |s| *s.0);
            if from != to {
                let place = |set: &SetLabel| set.members.iter().position(|member| *member == cpu);
                let place = sets.get(&from).and_then(place);
                let former = place.and_then(|place| former(sets, &Move { cpu, from, to }, place));
                if let Some(set) = sets.get_mut(&from) {
                    set.members.retain(|c| *c != cpu);
                    set.former.remove(&cpu);
                    if set.members.is_empty() && !self.cooperative_members(&before, from).is_empty() {
                        return refuse(Reason::LastOfBusy(from));
                    }
                }
                if let Some(set) = sets.get_mut(&to) {
                    set.members.push(cpu);
                    set.former.extend(former.map(|history| (cpu, history)));
                }
                let taken = sets.values().fold(machines.clone(), |all, s| &all | &s.cpus());
                if (&usable - &taken).is_empty() {
                    return refuse(Reason::LastOfDefault);
                }
            }
            moves.push(Move { cpu, from, to });
        }
        Ok(moves)
    }

    /// The steps from the sets `is` to the sets `own`: records, and the masks of members.
    fn cooperative_steps(&self, is: &Own, own: &Own) -> Vec<Step> {
        let mut steps = Vec::new();
        for id in is.sets.keys().chain(own.sets.keys()).collect::<BTreeSet<_>>() {
            let (before, after) = (is.sets.get(id), own.sets.get(id));
            if before == after {
                continue;
            }
            let knob = is.set_knob(*id);
            steps.push(Step::new(knob, before.map(SetLabel::text), after.map(SetLabel::text)));
            if before.map(SetLabel::cpus) == after.map(SetLabel::cpus) {
                continue;
            }
            for pid in self.cooperative_members(is, *id) {
                steps.extend(self.mask_steps(pid, after.map(SetLabel::cpus).as_ref()));
            }
            if after.is_none() {
                let record = is.record(*id);
                for (task, set) in self.bound_processes().into_values().filter(|(_, set)| *set == record) {
                    steps.push(Step::new(member_knob(task), Some(set.to_string()), None));
                }
            }
        }
        steps
    }

    pub(crate) fn cooperative_list(&self, view: &View) -> Vec<Pset> {
        let real = view.sets();
        let own = self.own_beside(&real);
        let mut sets: Vec<(u64, Pset)> = Vec::new();
        for (id, label) in own.sets.clone() {
            let mut breaches = Vec::new();
            let record = own.record(id);
            if record != id {
                breaches.push(format!("it was set {record}, until the machine got a set of that number"));
            }
            for (other, of) in &real {
                let both = &of.cpus() & &label.cpus();
                if !both.is_empty() {
                    breaches.push(format!("{} went to set {other} of the machine", both.named()));
                }
            }
            let returns = returns(&own.sets, &label);
            let set = Pset { id, members: label.members, mode: PsetMode::Affinity, breaches, returns };
            sets.push((label.serial, set));
        }
        sets.sort_by_key(|(serial, set)| (*serial, set.id));
        sets.into_iter().map(|(_, set)| set).collect()
    }

    pub(crate) fn cooperative_create(
        &self,
        cpus: &[CpuId],
        _options: CreateOptions,
    ) -> Result<Change<(PsetId, Vec<Move>)>, Refusal> {
        let real = self.real_sets()?;
        let is = self.own_beside(&real);
        let mut own = is.clone();
        let taken = own.sets.keys().chain(own.recorded.values()).chain(real.keys()).copied();
        let id = Pset::free_id(&taken.collect::<Vec<_>>());
        let serial = own.sets.values().map(|s| s.serial + 1).max().unwrap_or(1);
        let label = SetLabel {
            members: Vec::new(),
            mode: PsetMode::Affinity,
            zones: Vec::new(),
            memory: SetMemory::All,
            fence: None,
            former: BTreeMap::new(),
            serial,
        };
        own.sets.insert(id, label);
        let moves = self.cooperative_checked(&real, &mut own, id, cpus)?;
        let steps = self.cooperative_steps(&is, &own);
        let mut change = Change::new(format!("create processor set {id}"), steps, (id, moves));
        change.notes.push(self.why_by_masks());
        Ok(change)
    }

    pub(crate) fn cooperative_assign(
        &self,
        set: PsetId,
        cpus: &[CpuId],
    ) -> Result<Change<Vec<Move>>, Refusal> {
        let real = self.real_sets()?;
        let is = self.own_beside(&real);
        let mut own = is.clone();
        if real.contains_key(&set) {
            return Err(self.not_ours(Subject::Pset(set), set));
        }
        if !set.is_default() && !own.sets.contains_key(&set) {
            return Err(Refusal::new(Subject::Pset(set), Reason::NoSuchPset));
        }
        let moves = self.cooperative_checked(&real, &mut own, set, cpus)?;
        let steps = self.cooperative_steps(&is, &own);
        Ok(Change::new(format!("assign CPUs to set {set}"), steps, moves))
    }

    pub(crate) fn cooperative_destroy(&self, set: PsetId) -> Result<Change<()>, Refusal> {
        let real = self.real_sets()?;
        let is = self.own_beside(&real);
        let mut own = is.clone();
        let Some(label) = own.sets.remove(&set) else {
            if real.contains_key(&set) {
                return Err(self.not_ours(Subject::Pset(set), set));
            }
            let reason = if set.is_default() { Reason::DefaultPset } else { Reason::NoSuchPset };
            return Err(Refusal::new(Subject::Pset(set), reason));
        };
        give_back(&mut own.sets, label, |_, _| true);
        Ok(Change::new(format!("remove processor set {set}"), self.cooperative_steps(&is, &own), ()))
    }

    /// Binds a whole process. Threads of one process cannot be in different sets here.
    pub(crate) fn cooperative_bind(
        &self,
        pid: Pid,
        whole: bool,
        to: Option<PsetId>,
    ) -> Result<Change<Vec<Rebinding<PsetId>>>, Refusal> {
        let subject = Subject::Process(pid);
        let real = self.real_sets()?;
        let own = self.own_beside(&real);
        let place = self.os.place(pid.0, None).ok().flatten();
        if let Some(set) = place.as_deref().and_then(names::owner).filter(|s| !s.is_default()) {
            return if to == Some(set) {
                Ok(Change::new("", Vec::new(), vec![Rebinding { pid, lwp: None, from: to, to }]))
            } else {
                Err(self.not_ours(subject, set))
            };
        }
        let from = Some(self.cooperative_set_of(pid.0)).filter(|s| !s.is_default());
        if !whole {
            let reason = Reason::ProcessInPset(from.unwrap_or(PsetId::DEFAULT));
            return Err(Refusal::new(subject, reason).hint("bind the process"));
        }
        let to = to.filter(|s| !s.is_default());
        if let Some(set) = to.filter(|set| real.contains_key(set)) {
            return Err(self.not_ours(subject, set));
        }
        let mask = match to {
            None => None,
            Some(id) => {
                let Some(set) = own.sets.get(&id) else {
                    return Err(Refusal::new(subject, Reason::NoSuchPset).hint("psrset -i lists the sets"));
                };
                if set.members.is_empty() {
                    return Err(Refusal::new(subject, Reason::EmptyPset(id))
                        .hint(format!("assign a CPU first (psrset -a {id} …)")));
                }
                Some(set.cpus())
            }
        };
        let (process, _) = self.os.identify(pid, None)?;
        let mut steps = Vec::new();
        let record = self.bound_processes().get(&pid.0).map(|(_, set)| set.to_string());
        if from != to {
            steps.extend(self.mask_steps(pid.0, mask.as_ref()));
            // Leaving the set of an ancestor needs a record, too.
            let after = to.or(from.map(|_| PsetId::DEFAULT)).map(|id| own.record(id).to_string());
            let after = if to.is_none() && record.is_some() { None } else { after };
            steps.push(Step::new(member_knob(process), record, after));
        }
        let what = to
            .map_or_else(|| format!("unbind process {pid}"), |id| format!("bind process {pid} to set {id}"));
        Ok(Change::new(what, steps, vec![Rebinding { pid, lwp: None, from, to }]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbers() -> impl Strategy<Value = BTreeSet<PsetId>> {
        proptest::collection::btree_set((1u32..9).prop_map(PsetId), 0..6)
    }

    proptest! {
        #[test]
        fn no_two_sets_are_shown_by_one_number_and_without_need_none_changes(recorded in numbers(), real in numbers()) {
            let shown = shown(&recorded, &real);
            prop_assert_eq!(shown.keys().copied().collect::<BTreeSet<_>>(), recorded.clone());
            let as_shown: BTreeSet<PsetId> = shown.values().copied().collect();
            prop_assert_eq!(as_shown.len(), recorded.len());
            prop_assert!(as_shown.is_disjoint(&real));
            prop_assert!(!as_shown.contains(&PsetId::DEFAULT));
            for (record, shown) in shown {
                prop_assert!(record == shown || real.contains(&record));
            }
        }
    }
}
