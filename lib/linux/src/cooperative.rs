//! Sets without cgroup rights (mode `affinity`): a user inside a batch job, a container, or without root.
//!
//! Such a set is a record in the user's own state directory, `set.N`, and its members are processes with a
//! record `member.PID@START` and their descendants. Nobody is pushed out and nobody else knows: members get
//! the set's processors as their affinity mask, within what the user may use at all. Records of processes
//! that ended count no more.

use crate::knob::{LinuxKnob, TaskId};
use crate::view::SetLabel;
use crate::{LinuxMachine, affinity};
use millpond_machine::facets::{CreateOptions, Move, Rebinding};
use millpond_machine::{Change, Knob, Processors, Reason, Refusal, Step, Subject};
use millpond_model::{CpuId, CpuSet, Pid, Pset, PsetId, PsetMode};
use std::collections::{BTreeMap, BTreeSet};

fn set_knob(id: PsetId) -> Knob {
    LinuxKnob::Record(format!("set.{id}")).knob()
}

fn member_knob(process: TaskId) -> Knob {
    LinuxKnob::Record(format!("member.{process}")).knob()
}

impl LinuxMachine {
    /// What this user may use.
    fn usable(&self) -> Result<CpuSet, Refusal> {
        let online = self.os.online().map_err(|e| Refusal::operation(Reason::Machine(e.to_string())))?;
        if !self.os.root.live {
            return Ok(online);
        }
        let mine = affinity::get(0, self.os.width());
        // Our own mask may have been narrowed by a set of ours that this program was started in.
        let mine = mine.map_err(|e| Refusal::operation(Reason::Machine(e.to_string())))?;
        let sets = self.cooperative_sets();
        let inside = sets.values().find(|s| !s.cpus().is_empty() && mine.is_subset(&s.cpus()));
        Ok(if inside.is_some() { online } else { mine })
    }

    fn record_texts(&self, prefix: &str) -> Vec<(String, String)> {
        let dir = self.os.root.state.join("records");
        let names = self.os.root.names(&dir).unwrap_or_default();
        let read =
            |n: &String| Some((n.strip_prefix(prefix)?.to_owned(), self.os.root.read(&dir.join(n)).ok()??));
        names.iter().filter_map(read).collect()
    }

    /// The sets of this user.
    pub(crate) fn cooperative_sets(&self) -> BTreeMap<PsetId, SetLabel> {
        self.record_texts("set.")
            .into_iter()
            .filter_map(|(id, text)| Some((id.parse().ok()?, serde_json::from_str(&text).ok()?)))
            .collect()
    }

    /// The processes that were bound, with their sets. Those that ended are left out.
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

    /// The set of a process: its own record, or that of the nearest ancestor that has one.
    pub(crate) fn cooperative_set_of(&self, pid: u32) -> PsetId {
        let bound = self.bound_processes();
        let mut at = pid;
        // A chain of parents ends at the first process; the bound only guards against a torn reading.
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

    /// Every process of a set.
    fn cooperative_members(&self, set: PsetId) -> Vec<u32> {
        if self.bound_processes().is_empty() {
            return Vec::new();
        }
        let pids = self.os.pids().unwrap_or_default();
        pids.into_iter().filter(|pid| self.cooperative_set_of(*pid) == set).collect()
    }

    /// The steps that give all threads of a process a mask; `None` gives back the original one.
    fn mask_steps(&self, pid: u32, mask: Option<&CpuSet>) -> Vec<Step> {
        let mut steps = Vec::new();
        for tid in self.os.tids(pid).unwrap_or_default() {
            let Ok((task, _)) = self.os.identify(Pid(pid), Some(tid)) else { continue };
            let knob = LinuxKnob::Mask(task).knob();
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
        sets: &mut BTreeMap<PsetId, SetLabel>,
        to: PsetId,
        cpus: &[CpuId],
    ) -> Result<Vec<Move>, Refusal> {
        let usable = self.usable()?;
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
            if !usable.contains(cpu) {
                let why = format!("it is not among those that you may use ({usable})");
                return refuse(Reason::Machine(why));
            }
            let from = sets.iter().find(|(_, s)| s.members.contains(&cpu)).map_or(PsetId::DEFAULT, |s| *s.0);
            if from != to {
                if let Some(set) = sets.get_mut(&from) {
                    set.members.retain(|c| *c != cpu);
                    if set.members.is_empty() && !self.cooperative_members(from).is_empty() {
                        return refuse(Reason::LastOfBusy(from));
                    }
                }
                if let Some(set) = sets.get_mut(&to) {
                    set.members.push(cpu);
                }
                let taken = sets.values().fold(CpuSet::new(), |all, s| &all | &s.cpus());
                if (&usable - &taken).is_empty() {
                    return refuse(Reason::LastOfDefault);
                }
            }
            moves.push(Move { cpu, from, to });
        }
        Ok(moves)
    }

    /// The steps from the sets as they are to `sets`: records, and the masks of members.
    fn cooperative_steps(&self, sets: &BTreeMap<PsetId, SetLabel>) -> Vec<Step> {
        let is = self.cooperative_sets();
        let mut steps = Vec::new();
        for id in is.keys().chain(sets.keys()).collect::<BTreeSet<_>>() {
            let (before, after) = (is.get(id), sets.get(id));
            if before == after {
                continue;
            }
            steps.push(Step::new(set_knob(*id), before.map(SetLabel::text), after.map(SetLabel::text)));
            if before.map(SetLabel::cpus) == after.map(SetLabel::cpus) {
                continue;
            }
            for pid in self.cooperative_members(*id) {
                steps.extend(self.mask_steps(pid, after.map(SetLabel::cpus).as_ref()));
            }
            if after.is_none() {
                for (task, set) in self.bound_processes().into_values().filter(|(_, set)| set == id) {
                    steps.push(Step::new(member_knob(task), Some(set.to_string()), None));
                }
            }
        }
        steps
    }

    pub(crate) fn cooperative_list(&self) -> Vec<Pset> {
        let mut sets: Vec<(u64, Pset)> = self
            .cooperative_sets()
            .into_iter()
            .map(|(id, s)| {
                let set = Pset { id, members: s.members, mode: PsetMode::Affinity, breaches: Vec::new() };
                (s.serial, set)
            })
            .collect();
        sets.sort_by_key(|(serial, set)| (*serial, set.id));
        sets.into_iter().map(|(_, set)| set).collect()
    }

    pub(crate) fn cooperative_create(
        &self,
        cpus: &[CpuId],
        _options: CreateOptions,
    ) -> Result<Change<(PsetId, Vec<Move>)>, Refusal> {
        let mut sets = self.cooperative_sets();
        let id = Pset::free_id(&sets.keys().copied().collect::<Vec<_>>());
        let serial = sets.values().map(|s| s.serial + 1).max().unwrap_or(1);
        let label = SetLabel { members: Vec::new(), mode: PsetMode::Affinity, zones: Vec::new(), serial };
        sets.insert(id, label);
        let moves = self.cooperative_checked(&mut sets, id, cpus)?;
        let steps = self.cooperative_steps(&sets);
        let mut change = Change::new(format!("create processor set {id}"), steps, (id, moves));
        change
            .notes
            .push("there are no rights to cgroups: members are confined, nobody is pushed out".into());
        Ok(change)
    }

    pub(crate) fn cooperative_assign(
        &self,
        set: PsetId,
        cpus: &[CpuId],
    ) -> Result<Change<Vec<Move>>, Refusal> {
        let mut sets = self.cooperative_sets();
        if !set.is_default() && !sets.contains_key(&set) {
            return Err(Refusal::new(Subject::Pset(set), Reason::NoSuchPset));
        }
        let moves = self.cooperative_checked(&mut sets, set, cpus)?;
        Ok(Change::new(format!("assign processors to set {set}"), self.cooperative_steps(&sets), moves))
    }

    pub(crate) fn cooperative_destroy(&self, set: PsetId) -> Result<Change<()>, Refusal> {
        let mut sets = self.cooperative_sets();
        if sets.remove(&set).is_none() {
            let reason = if set.is_default() { Reason::DefaultPset } else { Reason::NoSuchPset };
            return Err(Refusal::new(Subject::Pset(set), reason));
        }
        Ok(Change::new(format!("remove processor set {set}"), self.cooperative_steps(&sets), ()))
    }

    /// Binds a whole process; single threads of one process share a set here.
    pub(crate) fn cooperative_bind(
        &self,
        pid: Pid,
        whole: bool,
        to: Option<PsetId>,
    ) -> Result<Change<Vec<Rebinding<PsetId>>>, Refusal> {
        let subject = Subject::Process(pid);
        let from = Some(self.cooperative_set_of(pid.0)).filter(|s| !s.is_default());
        if !whole {
            let reason = Reason::ProcessInPset(from.unwrap_or(PsetId::DEFAULT));
            return Err(Refusal::new(subject, reason).hint("bind the process"));
        }
        let to = to.filter(|s| !s.is_default());
        let sets = self.cooperative_sets();
        let mask = match to {
            None => None,
            Some(id) => {
                let Some(set) = sets.get(&id) else {
                    return Err(Refusal::new(subject, Reason::NoSuchPset).hint("psrset -i lists the sets"));
                };
                if set.members.is_empty() {
                    return Err(Refusal::new(subject, Reason::EmptyPset(id))
                        .hint(format!("assign a processor first (psrset -a {id} …)")));
                }
                Some(set.cpus())
            }
        };
        let (process, _) = self.os.identify(pid, None)?;
        let mut steps = Vec::new();
        let own = self.bound_processes().get(&pid.0).map(|(_, set)| set.to_string());
        if from != to {
            steps.extend(self.mask_steps(pid.0, mask.as_ref()));
            // Leaving an ancestor's set is a record too.
            let after = to.or(from.map(|_| PsetId::DEFAULT)).map(|id| id.to_string());
            let after = if to.is_none() && own.is_some() { None } else { after };
            steps.push(Step::new(member_knob(process), own, after));
        }
        let what = to
            .map_or_else(|| format!("unbind process {pid}"), |id| format!("bind process {pid} to set {id}"));
        Ok(Change::new(what, steps, vec![Rebinding { pid, lwp: None, from, to }]))
    }
}
