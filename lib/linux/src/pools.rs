//! The Pools facet.
//!
//! The members of a set are in the label of its cgroup, as without pools. The leaf of a process determines its pool. The rest of
//! the configuration (names, properties, bounds, the set of each pool) is a record of ours. It changes in the same journalled
//! operation as the cgroups. A process in no pool stays in its original cgroup.

use crate::LinuxMachine;
use crate::knob::LinuxKnob;
use crate::names;
use crate::plan::{Destination, Wanted};
use crate::records::{POOLS, recorded_pools};
use crate::sets::{in_partition, in_partition_of};
use crate::view::{RootTasks, SetLabel, View};
use millpond_formats::pools::properties::local_memory;
use millpond_formats::pools::record::Record;
use millpond_machine::facets::{Member, StartOption, fences_stay};
use millpond_machine::{Change, Pools, Reason, Refusal, Step, Subject};
use millpond_model::pools::PoolsState;
use millpond_model::{CpuId, CpuSet, Pid, PoolId, PsetId, PsetMode, SetMemory, State};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

impl LinuxMachine {
    /// The last committed configuration, or the one from the shared reading.
    pub(crate) fn recorded(&self) -> Result<Option<PoolsState>, Refusal> {
        self.shared_reads.of_view(|view| view.recorded.clone()).map_or_else(|| recorded_pools(&self.os), Ok)
    }

    /// Whether sets may be changed without pools.
    pub(crate) fn sets_are_free(&self) -> Result<(), Refusal> {
        match self.recorded()? {
            Some(_) => Err(Refusal::operation(Reason::PoolsEnabled)),
            None => Ok(()),
        }
    }

    /// The step that removes an invalid record of the configuration, which a full disk or another program may leave. Its sets
    /// stay, as sets without pools.
    pub(crate) fn damaged_record(&self) -> Option<Step> {
        let is = self.os.shared_record(POOLS)?;
        let is_damaged = self.os.parsed_pools(&is).is_none();
        is_damaged.then(|| Step::new(LinuxKnob::Record(POOLS.to_owned()).knob(), Some(is), None))
    }

    /// The step that replaces the record.
    pub(crate) fn record_step(&self, to: Option<&PoolsState>) -> Option<Step> {
        let before = self.os.record(POOLS);
        // Every key is a string or a number, so serialising cannot fail.
        let after = to.map(|state| serde_json::to_string(&Record::from(state)).unwrap_or_default());
        (before != after).then(|| Step::new(LinuxKnob::Record(POOLS.to_owned()).knob(), before, after))
    }

    fn may_have_pools(&self) -> Result<(), Refusal> {
        match self.os.may_write_groups() {
            Ok(()) => Ok(()),
            Err(error) => Err(error
                .into_refusal(Subject::Operation, "the cgroup tree")
                .hint("pools are made by an administrator")),
        }
    }

    /// The sets of a configuration, and the CPUs that move to another set.
    fn wanted_sets(
        &self,
        to: Option<&PoolsState>,
        live: &BTreeMap<PsetId, SetLabel>,
        states: &BTreeMap<CpuId, State>,
    ) -> Result<(BTreeMap<PsetId, SetLabel>, CpuSet), Refusal> {
        let mut sets = BTreeMap::new();
        let mut serial = live.values().map(|s| s.serial).max().unwrap_or(0);
        let mut seen = CpuSet::new();
        for (state, pset) in to.iter().flat_map(|state| state.conf.psets.iter().map(move |s| (state, s))) {
            for cpu in pset.cpus() {
                let refuse = |reason| Err(Refusal::new(Subject::Processor(cpu.id), reason));
                if !states.contains_key(&cpu.id) {
                    return refuse(Reason::NoSuchProcessor { present: states.keys().copied().collect() });
                }
                if !seen.insert(cpu.id) {
                    return refuse(Reason::NamedTwice);
                }
            }
            let Some(id) = pset.id.filter(|id| !id.is_default()) else { continue };
            let old = live.get(&id);
            let cpus = pset.cpu_set();
            // Keep the order of the old members.
            let mut members: Vec<CpuId> = old.iter().flat_map(|s| &s.members).copied().collect();
            members.retain(|cpu| cpus.contains(*cpu));
            let had: CpuSet = members.iter().copied().collect();
            members.extend((&cpus - &had).iter());
            let serial = old.map_or_else(
                || {
                    serial += 1;
                    serial
                },
                |s| s.serial,
            );
            let fence = old.and_then(|s| s.fence.clone());
            let mode = match old {
                Some(old) if fence.is_some() => old.mode,
                _ if state.keep_others => PsetMode::Shared,
                _ => PsetMode::Own,
            };
            let memory = match local_memory(pset) {
                Some(true) => SetMemory::Local,
                Some(false) => SetMemory::All,
                None => old.map(|s| s.memory.clone()).unwrap_or_default(),
            };
            let mut former = old.map(|s| s.former.clone()).unwrap_or_default();
            former.retain(|cpu, _| cpus.contains(*cpu));
            let zones = state.zones_of(id);
            sets.insert(id, SetLabel { members, mode, zones, memory, fence, former, serial });
        }
        let (old, new) = (Self::owners(live), Self::owners(&sets));
        let moves = |cpu: &CpuId| old.get(cpu) != new.get(cpu);
        let moving = states.keys().copied().filter(moves).collect();
        Ok((sets, moving))
    }

    /// Checks the result: every set with tasks has a CPU.
    fn check_not_empty(view: &View, wanted: &Wanted, online: &CpuSet) -> Result<(), Refusal> {
        let taken = wanted.sets.values().fold(view.reserved(), |all, s| &all | &s.cpus());
        if (online - &taken).is_empty() {
            let last = online.lowest().unwrap_or(CpuId(0));
            return Err(Refusal::new(Subject::Processor(last), Reason::LastOfDefault));
        }
        let used: BTreeSet<PsetId> = view
            .tasks
            .iter()
            .filter_map(|t| wanted.pools.get(&names::pool(&t.at)?).copied())
            .filter(|set| !set.is_default())
            .collect();
        for (id, label) in &wanted.sets {
            let empty = (&label.cpus() & online).is_empty();
            if empty && (used.contains(id) || view.present(label).next().is_some()) {
                return Err(Refusal::new(Subject::Pset(*id), Reason::EmptyPset(*id))
                    .hint("leave it a CPU, or move its processes to another pool first (poolbind)"));
            }
        }
        Ok(())
    }
}

impl Pools for LinuxMachine {
    fn state(&self) -> Result<Option<PoolsState>, Refusal> {
        let Some(mut state) = self.recorded()? else { return Ok(None) };
        let view = self.view(RootTasks::Unlisted)?;
        let (owners, reserved) = (Self::owners(&view.sets()), view.reserved());
        let set_of = |cpu| owners.get(&cpu).copied().unwrap_or(PsetId::DEFAULT);
        let states = self.states_now()?.into_iter().filter(|(cpu, _)| !reserved.contains(*cpu));
        state.catch_up(&states.map(|(cpu, state)| (cpu, (set_of(cpu), state))).collect());
        Ok(Some(state))
    }

    fn may_change(&self) -> Result<(), Refusal> {
        self.may_have_pools()
    }

    fn members(&self) -> Result<BTreeMap<Pid, PoolId>, Refusal> {
        let view = self.view(RootTasks::Unlisted)?;
        let inside = view.tasks.iter().filter_map(|t| Some((Pid(t.id.pid), names::pool(&t.at)?)));
        Ok(inside.filter(|(_, pool)| view.pools.contains_key(pool)).collect())
    }

    fn prepare_commit(&self, to: Option<PoolsState>) -> Result<Change<Option<PoolsState>>, Refusal> {
        self.may_have_pools()?;
        let to = to.map(PoolsState::numbered);
        let exclusive = to.as_ref().is_some_and(|s| !s.keep_others && s.conf.psets.len() > 1);
        let root = if exclusive { RootTasks::Listed } else { RootTasks::ForLiveSets };
        let further: Vec<String> = to.iter().flat_map(|s| s.zones.keys().cloned()).collect();
        let view = if further.is_empty() {
            self.view(root)?
        } else {
            Rc::new(View::read_with(&self.os, self.journal.as_ref(), root, &further)?)
        };
        let live = view.sets();
        if view.recorded.is_none() && !live.is_empty() {
            return Err(Refusal::operation(Reason::PsetsExist(live.into_keys().collect())));
        }
        let fences = live.iter().filter_map(|(id, set)| Some((*id, &set.fence.as_ref()?.name, set.cpus())));
        fences_stay(fences, to.as_ref())?;
        let states = self.states_now()?;
        let (sets, moving) = self.wanted_sets(to.as_ref(), &live, &states)?;
        let pools = to.as_ref().map(PoolsState::sets).unwrap_or_default();
        let wanted = Wanted { sets, moves: Vec::new(), pools };
        let changes = wanted_states(to.as_ref(), &states);
        let mut online = view.online.clone();
        for (cpu, state) in &changes {
            if state.runs_threads() {
                online.insert(*cpu)
            } else {
                online.remove(*cpu)
            };
        }
        Self::check_not_empty(&view, &wanted, &online)?;
        let bound = if moving.is_empty() { Vec::new() } else { self.bound_to_processors()? };
        let mut steps = Vec::new();
        let (partitions, owners) = (view.foreign_partitions(), Self::owners(&live));
        for cpu in moving.iter() {
            if let Some(group) = in_partition(&partitions, cpu).filter(|_| !owners.contains_key(&cpu)) {
                return Err(Refusal::new(Subject::Processor(cpu), in_partition_of(group, view.v1)));
            }
            steps.extend(self.release_bound(&bound, cpu, true)?);
        }
        let lonely =
            Self::left_with_one(&view.reserved(), (&live, &view.online), (&wanted.sets, &view.online));
        steps.extend(self.adopted(&lonely, &bound, &moving));
        let states = self.state_changes(&changes, false, Some(Self::owners(&wanted.sets)))?;
        states.outcome.into_iter().collect::<Result<Vec<_>, Refusal>>()?;
        steps.extend(states.first);
        steps = self.with_plan(&view, steps, &wanted)?;
        steps.extend(states.last);
        steps.extend(self.record_step(to.as_ref()));
        let what = if to.is_some() { "commit a configuration of pools" } else { "disable pools" };
        Ok(Change::new(what, steps, to))
    }

    fn zone_key(&self, zone: &str) -> Result<String, Refusal> {
        let (path, _) = self.zone_called(zone)?;
        self.may_be_steered(zone, &path)?;
        Ok(path)
    }

    fn prepare_join(&self, member: &Member, to: PoolId) -> Result<Change<()>, Refusal> {
        self.may_have_pools()?;
        let Some(mut state) = self.recorded()? else {
            return Err(Refusal::operation(Reason::PoolsDisabled));
        };
        let Some(set) = state.sets().get(&to).copied() else {
            return Err(Refusal::new(Subject::Pool(to), Reason::NoSuchPool));
        };
        let steps = match member {
            Member::Process(pid) => self.join_process(*pid, to, set)?,
            Member::Zone(name) => {
                let (path, _) = self.zone_called(name)?;
                if names::owner(&path).is_none_or(|stands_in| stands_in != set) {
                    self.may_be_steered(name, &path)?;
                    state.zones.remove(&path);
                    self.forget_ended_of(&mut state);
                    if !to.is_default() {
                        state.zones.insert(path.clone(), to);
                    }
                }
                self.join_zone(&path, name, (set, false), state)?
            }
        };
        Ok(Change::new(format!("bind {member} to pool {to}"), steps, ()))
    }

    fn prepare_persist(&self, zone: &str, to: PoolId) -> Result<Change<()>, Refusal> {
        self.persist_unit(zone, to)
    }

    fn start_options(&self, to: PoolId) -> Result<Vec<StartOption>, Refusal> {
        self.options_of(to)
    }
}

impl LinuxMachine {
    fn join_process(&self, pid: Pid, to: PoolId, set: PsetId) -> Result<Vec<Step>, Refusal> {
        let tasks = self.selected(pid, None)?;
        let (view, sets) = self.live_sets()?;
        if set.is_default() {
            let in_no_set = |cpu: &CpuId| sets.values().all(|label| !label.members.contains(cpu));
            self.stays_inside(pid, &tasks, &in_no_set, set)?;
        } else {
            let members = sets.get(&set).map(SetLabel::cpus).unwrap_or_default();
            if (&members & &view.online).is_empty() {
                return Err(Refusal::new(Subject::Process(pid), Reason::EmptyPset(set))
                    .hint("transfer a CPU to the set of the pool first (poolcfg -d)"));
            }
            self.stays_inside(pid, &tasks, &|cpu: &CpuId| members.contains(*cpu), set)?;
        }
        let to = if to.is_default() { Destination::Home } else { Destination::Pool(to, set) };
        let moves = self.whole_process(pid, &tasks, view.v1, to)?;
        self.with_plan(&view, Vec::new(), &Wanted::of(&view, sets, moves))
    }

    /// The cgroup of a zone does not move; it is narrowed to the CPUs of its pool's set.
    pub(crate) fn join_zone(
        &self,
        path: &str,
        name: &str,
        (set, keeps): (PsetId, bool),
        mut state: PoolsState,
    ) -> Result<Vec<Step>, Refusal> {
        if names::owner(path).is_some() {
            // Its former cgroup, before it was started in a set, is obsolete.
            let unit = names::unit(path);
            state.zones.retain(|zone, _| names::unit(zone) != unit);
        }
        // Cgroups inside our sets have no foreign siblings.
        let further: Vec<String> =
            names::owner(path).is_none().then(|| path.to_owned()).into_iter().collect();
        let journal = self.journal.as_ref();
        let mut view = View::read_with(&self.os, journal, RootTasks::ForLiveSets, &further)?;
        if keeps {
            view.kept.insert(set);
        }
        let mut sets = view.sets();
        let empty = sets.get(&set).is_some_and(|s| (&s.cpus() & &view.online).is_empty());
        if empty {
            return Err(Refusal::new(Subject::Zone(name.to_owned()), Reason::EmptyPset(set))
                .hint("transfer a CPU to the set of the pool first (poolcfg -d)"));
        }
        for (id, label) in &mut sets {
            label.zones = state.zones_of(*id);
        }
        let mut steps = self.with_plan(&view, Vec::new(), &Wanted::of(&view, sets, Vec::new()))?;
        steps.extend(self.record_step(Some(&state)));
        Ok(steps)
    }
}

/// The CPUs whose state differs from the configuration, with the configured state. CPUs that stop are last.
fn wanted_states(to: Option<&PoolsState>, states: &BTreeMap<CpuId, State>) -> Vec<(CpuId, State)> {
    let cpus = to.iter().flat_map(|s| s.conf.cpus());
    let wanted = cpus.filter_map(|cpu| Some((cpu.id, cpu.state()?)));
    let mut changes: Vec<_> = wanted.filter(|(cpu, state)| states.get(cpu) != Some(state)).collect();
    changes.sort_by_key(|(_, state)| !state.runs_threads());
    changes
}
