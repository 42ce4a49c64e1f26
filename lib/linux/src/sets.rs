//! The Psets facet.

use crate::LinuxMachine;
use crate::messages;
use crate::names;
use crate::plan::{Wanted, plan};
use crate::view::{Group, RootTasks, SetLabel, View};
use millpond_machine::facets::CreateOptions;
use millpond_machine::facets::LwpStatus;
use millpond_machine::{Change, Knob, Psets, Reason, Refusal, Step, Subject, Threads, Value};
use millpond_model::{CpuId, CpuSet, FenceName, Former, Lwp, Move, Pset, PsetId, PsetMode, State};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A move of CPUs: the destination, and the data for its checks.
struct Moving<'a> {
    states: &'a BTreeMap<CpuId, State>,
    /// Sets with threads.
    busy: BTreeSet<PsetId>,
    /// Threads that are bound to a CPU.
    bound: Vec<LwpStatus>,
    to: PsetId,
    forced: bool,
    /// The set of each CPU that is in one; the others are in the default set.
    owners: BTreeMap<CpuId, PsetId>,
    /// How many CPUs of each set run threads.
    active: BTreeMap<PsetId, usize>,
    /// The sets that are fences.
    fences: BTreeMap<PsetId, FenceName>,
    /// The partitions of other programs.
    partitions: BTreeMap<&'a str, CpuSet>,
    /// With cgroup version 1 these are exclusive cpusets.
    is_v1: bool,
}

impl Moving<'_> {
    /// Counts the CPUs of each set.
    fn counted(mut self) -> Self {
        let runs = |(cpu, state): &(&CpuId, &State)| state.runs_threads() && !self.is_apart(**cpu);
        let from: Vec<PsetId> = self.states.iter().filter(runs).map(|(cpu, _)| self.from(*cpu)).collect();
        for set in from {
            *self.active.entry(set).or_default() += 1;
        }
        self
    }

    /// The set that a CPU is in.
    fn from(&self, cpu: CpuId) -> PsetId {
        self.owners.get(&cpu).copied().unwrap_or(PsetId::DEFAULT)
    }

    /// Whether a CPU is in a partition of another program: no thread of the default set runs there.
    fn is_apart(&self, cpu: CpuId) -> bool {
        self.from(cpu).is_default() && in_partition(&self.partitions, cpu).is_some()
    }

    /// Whether a set would have no CPU that runs threads without this one.
    fn is_last(&self, set: PsetId) -> bool {
        self.active.get(&set).is_none_or(|count| *count <= 1)
    }

    /// Moves a CPU that runs threads, and returns its former set.
    fn take(&mut self, cpu: CpuId) -> PsetId {
        let from = self.from(cpu);
        if from != self.to {
            if !self.is_apart(cpu) {
                self.active.entry(from).and_modify(|count| *count -= 1);
            }
            *self.active.entry(self.to).or_default() += 1;
            self.owners.insert(cpu, self.to);
        }
        from
    }
}

impl LinuxMachine {
    /// The current tree.
    pub(crate) fn view(&self, root: RootTasks) -> Result<Rc<View>, Refusal> {
        self.shared_reads.view(root, || View::read(&self.os, self.journal.as_ref(), root))
    }

    /// The original values in the journal.
    pub(crate) fn baselines(&self) -> Rc<BTreeMap<Knob, Option<Value>>> {
        self.shared_reads.baselines(|| self.journal.baselines())
    }

    /// The tree for a change, and the live sets.
    pub(crate) fn live_sets(&self) -> Result<(Rc<View>, BTreeMap<PsetId, SetLabel>), Refusal> {
        let view = self.view(RootTasks::ForLiveSets)?;
        let sets = view.sets();
        Ok((view, sets))
    }

    /// The set of each CPU that is in one; the others are in the default set.
    pub(crate) fn owners(sets: &BTreeMap<PsetId, SetLabel>) -> BTreeMap<CpuId, PsetId> {
        let mut owners = BTreeMap::new();
        for (id, set) in sets {
            for cpu in &set.members {
                owners.entry(*cpu).or_insert(*id);
            }
        }
        owners
    }

    /// The sets, including the default one, with one active CPU in `to` and more than one in `from`. The default set does not have the CPUs in
    /// `apart`.
    pub(crate) fn left_with_one(
        apart: &CpuSet,
        from: (&BTreeMap<PsetId, SetLabel>, &CpuSet),
        to: (&BTreeMap<PsetId, SetLabel>, &CpuSet),
    ) -> BTreeSet<PsetId> {
        let count = |(sets, online): (&BTreeMap<PsetId, SetLabel>, &CpuSet), id: PsetId| {
            if id.is_default() {
                let own = sets.values().fold(apart.clone(), |all, set| &all | &set.cpus());
                (online - &own).len()
            } else {
                sets.get(&id).map_or(0, |set| (&set.cpus() & online).len())
            }
        };
        let all = from.0.keys().copied().chain([PsetId::DEFAULT]);
        all.filter(|id| count(from, *id) > 1 && count(to, *id) == 1).collect()
    }

    /// Checks the move of one CPU. Returns the steps that must precede it.
    fn check_move(&self, moving: &Moving<'_>, cpu: CpuId) -> Result<Vec<Step>, Refusal> {
        let Moving { states, busy, bound, to, forced, .. } = moving;
        let refuse = |reason| Err(Refusal::new(Subject::Processor(cpu), reason));
        let from = moving.from(cpu);
        let Some(state) = states.get(&cpu) else {
            return refuse(Reason::NoSuchProcessor { present: states.keys().copied().collect() });
        };
        if from == *to {
            return Ok(Vec::new());
        }
        if let Some(name) = moving.fences.get(&from) {
            return refuse(Reason::IsFence(name.clone()));
        }
        if !state.runs_threads() {
            return refuse(Reason::NotActive(*state));
        }
        if let Some(group) = in_partition(&moving.partitions, cpu).filter(|_| from.is_default() && !forced) {
            let whole = if moving.is_v1 { "cpuset" } else { "partition" };
            let hint = format!("choose another CPU, or use -F: the {whole} is restored when the CPU returns");
            return Err(
                Refusal::new(Subject::Processor(cpu), in_partition_of(group, moving.is_v1)).hint(hint)
            );
        }
        if from.is_default() && !moving.is_apart(cpu) && moving.is_last(from) {
            return Err(Refusal::new(Subject::Processor(cpu), Reason::LastOfDefault)
                .hint("take a CPU out of another set first (psrset -r)"));
        }
        if !from.is_default() && busy.contains(&from) && moving.is_last(from) {
            return Err(Refusal::new(Subject::Processor(cpu), Reason::LastOfBusy(from))
                .hint(format!("unbind them first (psrset -U {from})")));
        }
        self.release_bound(bound, cpu, *forced)
    }

    /// The steps for threads that are bound to a CPU that leaves its set: they are unbound if `forced`, else the move is refused. This
    /// applies to bindings by any program: the kernel does not record their origin.
    pub(crate) fn release_bound(
        &self,
        bound: &[LwpStatus],
        cpu: CpuId,
        forced: bool,
    ) -> Result<Vec<Step>, Refusal> {
        let bound: Vec<Lwp> = bound.iter().filter(|t| t.cpus.contains(cpu)).map(|t| t.lwp).collect();
        if bound.is_empty() {
            return Ok(Vec::new());
        }
        if !forced {
            return Err(Refusal::new(Subject::Processor(cpu), Reason::BoundThreads(bound))
                .hint("unbind them (pbind -u), or use -F"));
        }
        let mut steps = Vec::new();
        for lwp in bound {
            let change = self.prepare_bind_cpus(lwp.pid, Some(&[lwp.lwp]), &CpuSet::new())?;
            steps.extend(change.steps.into_iter().map(Step::tolerant));
        }
        Ok(steps)
    }

    /// `steps`, followed by those that lead to the requested state.
    pub(crate) fn with_plan(
        &self,
        view: &View,
        mut steps: Vec<Step>,
        wanted: &Wanted,
    ) -> Result<Vec<Step>, Refusal> {
        let planned = plan(view, wanted);
        let planned = self.noting_masks(view, &steps, planned)?;
        steps.extend(planned);
        Ok(steps)
    }

    /// Adds a set without CPUs. `cpus` is the number of CPUs of the machine. `id` is the number of the set; `None` for the first free one.
    pub(crate) fn add_set(
        sets: &mut BTreeMap<PsetId, SetLabel>,
        options: CreateOptions,
        cpus: usize,
        id: Option<PsetId>,
    ) -> Result<PsetId, Refusal> {
        let limit = cpus * 2;
        if sets.len() >= limit {
            return Err(Refusal::operation(Reason::TooManySets(limit)));
        }
        let id = id.unwrap_or_else(|| Pset::free_id(&sets.keys().copied().collect::<Vec<_>>()));
        let serial = sets.values().map(|s| s.serial + 1).max().unwrap_or(1);
        let mode = if options.keep_others { PsetMode::Shared } else { PsetMode::Own };
        let (members, zones, memory) = Default::default();
        let former = BTreeMap::new();
        sets.insert(id, SetLabel { members, mode, zones, memory, fence: None, former, serial });
        Ok(id)
    }

    /// Moves CPUs between the sets of `sets`, one after the other as the user listed them.
    pub(crate) fn moved(
        &self,
        view: &View,
        states: &BTreeMap<CpuId, State>,
        sets: &mut BTreeMap<PsetId, SetLabel>,
        to: PsetId,
        cpus: &[CpuId],
        forced: bool,
    ) -> Result<(Vec<Move>, Vec<Step>), Refusal> {
        let busy = view.tasks.iter().filter_map(|t| names::owner(&t.at)).collect();
        let bound = if cpus.is_empty() { Vec::new() } else { self.bound_to_processors()? };
        let (owners, active) = (Self::owners(sets), BTreeMap::new());
        let fence = |(id, set): (&PsetId, &SetLabel)| Some((*id, set.fence.as_ref()?.name.clone()));
        let fences = sets.iter().filter_map(fence).collect();
        let (partitions, is_v1) = (view.foreign_partitions(), view.v1);
        let mut moving =
            Moving { states, busy, bound, to, forced, owners, active, fences, partitions, is_v1 }.counted();
        let before = sets.clone();
        let mut seen = CpuSet::new();
        let (mut moves, mut steps) = (Vec::new(), Vec::new());
        for cpu in cpus.iter().copied() {
            if !seen.insert(cpu) {
                return Err(Refusal::new(Subject::Processor(cpu), Reason::NamedTwice));
            }
            steps.extend(self.check_move(&moving, cpu)?);
            moves.push(Move { cpu, from: moving.take(cpu), to });
        }
        let left = |cpu: &CpuId| !seen.contains(*cpu);
        for (_, set) in sets.iter_mut().filter(|(id, _)| **id != to) {
            set.members.retain(left);
            set.former.retain(|cpu, _| left(cpu));
        }
        let coming = moves.iter().filter(|moved| moved.from != to);
        let places = places(&before);
        let former = coming
            .clone()
            .filter_map(|moved| Some((moved.cpu, former(&before, moved, *places.get(&moved.cpu)?)?)));
        if let Some(set) = sets.get_mut(&to) {
            set.former.extend(former);
            set.members.extend(coming.map(|moved| moved.cpu));
        }
        let lonely = Self::left_with_one(&view.reserved(), (&before, &view.online), (&*sets, &view.online));
        let leaving = moves.iter().filter(|m| m.from != m.to).map(|m| m.cpu).collect();
        steps.extend(self.adopted(&lonely, &moving.bound, &leaving));
        Ok((moves, steps))
    }
}

impl Psets for LinuxMachine {
    fn list(&self) -> Result<Vec<Pset>, Refusal> {
        let view = self.view(RootTasks::Unlisted)?;
        let mut sets: Vec<(u64, Pset)> = Vec::new();
        let labels = view.sets();
        for (id, label) in &labels {
            let mode = view.mode(label, view.has_tasks(*id));
            let mut breaches = breaches(&view, *id, label, mode);
            let left = view.left.iter().filter(|left| names::owner(&left.leaf) == Some(*id));
            breaches.extend(left.map(|left| format!("{left} left it without a command")));
            let (members, returns) = (label.members.clone(), returns(&labels, label));
            sets.push((label.serial, Pset { id: *id, members, mode, breaches, returns }));
        }
        sets.sort_by_key(|(serial, set)| (*serial, set.id));
        let mut sets: Vec<Pset> = sets.into_iter().map(|(_, set)| set).collect();
        if !self.has_cgroups() {
            // The sets of the machine come first. Sets by affinity are private to their user.
            sets.extend(self.cooperative_list(&view));
        }
        Ok(sets)
    }

    fn prepare_create(
        &self,
        cpus: &[CpuId],
        options: CreateOptions,
        forced: bool,
    ) -> Result<Change<(PsetId, Vec<Move>)>, Refusal> {
        self.sets_are_free()?;
        if !self.has_cgroups() {
            return self.cooperative_create(cpus, options);
        }
        let exclusive = !options.keep_others;
        let view = self.view(if exclusive { RootTasks::Listed } else { RootTasks::ForLiveSets })?;
        let mut sets = view.sets();
        let states = self.states_now()?;
        let id = Self::add_set(&mut sets, options, states.len(), None)?;
        let (moves, mut steps) = self.moved(&view, &states, &mut sets, id, cpus, forced)?;
        steps = self.with_plan(&view, steps, &Wanted::of(&view, sets, Vec::new()))?;
        Ok(Change::new(format!("create processor set {id}"), steps, (id, moves)))
    }

    fn prepare_assign(
        &self,
        set: PsetId,
        cpus: &[CpuId],
        forced: bool,
    ) -> Result<Change<Vec<Move>>, Refusal> {
        self.sets_are_free()?;
        if !self.has_cgroups() {
            return self.cooperative_assign(set, cpus);
        }
        let (view, mut sets) = self.live_sets()?;
        if !set.is_default() && !sets.contains_key(&set) {
            return Err(Refusal::new(Subject::Pset(set), Reason::NoSuchPset));
        }
        Self::check_no_fence(&sets, set)?;
        let (moves, mut steps) = self.moved(&view, &self.states_now()?, &mut sets, set, cpus, forced)?;
        steps = self.with_plan(&view, steps, &Wanted::of(&view, sets, Vec::new()))?;
        let what = if set.is_default() {
            "take CPUs out of their sets".to_owned()
        } else {
            format!("assign CPUs to set {set}")
        };
        Ok(Change::new(what, steps, moves))
    }

    fn prepare_destroy(&self, set: PsetId) -> Result<Change<()>, Refusal> {
        self.sets_are_free()?;
        if !self.has_cgroups() {
            return self.cooperative_destroy(set);
        }
        let (view, mut sets) = self.live_sets()?;
        Self::check_no_fence(&sets, set)?;
        let Some(label) = sets.remove(&set) else {
            let reason = if set.is_default() { Reason::DefaultPset } else { Reason::NoSuchPset };
            return Err(Refusal::new(Subject::Pset(set), reason));
        };
        give_back(&mut sets, label, |_, _| true);
        let lost: Vec<String> = view
            .tasks
            .iter()
            .filter(|t| names::owner(&t.at) == Some(set))
            .filter_map(|t| view.groups.get(&t.at)?.origin.clone())
            .filter(|origin| !view.is_home(origin))
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        let steps = self.noting_masks(&view, &[], plan(&view, &Wanted::of(&view, sets, Vec::new())))?;
        let mut change = Change::new(format!("remove processor set {set}"), steps, ());
        for origin in lost {
            change.notes.push(format!("{origin} is gone: its tasks return to the root"));
        }
        Ok(change)
    }
}

/// The reason to refuse the move of a CPU in the partition of this cgroup.
pub(crate) fn in_partition_of(group: &str, is_v1: bool) -> Reason {
    let group = millpond_model::printable(&messages::group(group)).into_owned();
    if is_v1 { Reason::InCpuset(group) } else { Reason::InPartition(group) }
}

/// The innermost cgroup of another program whose partition has a CPU.
pub(crate) fn in_partition<'p>(partitions: &BTreeMap<&'p str, CpuSet>, cpu: CpuId) -> Option<&'p str> {
    partitions.iter().filter(|(_, cpus)| cpus.contains(cpu)).map(|(path, _)| *path).next_back()
}

/// The position of each CPU in its set.
fn places(sets: &BTreeMap<PsetId, SetLabel>) -> BTreeMap<CpuId, usize> {
    let members = sets.values().flat_map(|set| set.members.iter().enumerate());
    members.map(|(place, cpu)| (*cpu, place)).collect()
}

/// The history of a CPU that leaves its set, where it had position `place`; `None` if it comes from the default set.
pub(crate) fn former(sets: &BTreeMap<PsetId, SetLabel>, moved: &Move, place: usize) -> Option<Vec<Former>> {
    let set = sets.get(&moved.from)?;
    let left = Former { set: moved.from, serial: set.serial, place: u64::try_from(place).ok()? };
    let history = set.former.get(&moved.cpu).cloned().unwrap_or_default();
    Some(Former::followed(history, left, moved.to)).filter(|history| !history.is_empty())
}

/// A set from which a CPU was taken, if it still exists.
fn former_set<'s>(sets: &'s BTreeMap<PsetId, SetLabel>, stay: &Former) -> Option<&'s SetLabel> {
    sets.get(&stay.set).filter(|set| set.serial == stay.serial)
}

/// For each member of `label`, the set that it returns to when this set ends. Without members that return to the default set.
pub(crate) fn returns(sets: &BTreeMap<PsetId, SetLabel>, label: &SetLabel) -> BTreeMap<CpuId, PsetId> {
    let is_there = |stay: &Former| former_set(sets, stay).is_some();
    let members = label.cpus();
    let former = label.former.iter().filter(|(cpu, _)| members.contains(**cpu));
    former.filter_map(|(cpu, all)| Some((*cpu, Former::last(all.clone(), is_there)?.0.set))).collect()
}

/// Returns the CPUs of a removed set to the sets that they were taken from, each to its former position. Only if that set still exists and
/// `may_take` accepts its new size.
pub(crate) fn give_back(
    sets: &mut BTreeMap<PsetId, SetLabel>,
    ended: SetLabel,
    may_take: impl Fn(PsetId, usize) -> bool,
) {
    let mut histories = ended.former;
    let mut stays: Vec<(u64, CpuId, Vec<Former>, PsetId)> = Vec::new();
    let mut coming: BTreeMap<PsetId, usize> = BTreeMap::new();
    for cpu in ended.members {
        let is_there = |stay: &Former| {
            let coming = coming.get(&stay.set).copied().unwrap_or(0);
            former_set(sets, stay).is_some_and(|set| may_take(stay.set, set.members.len() + coming))
        };
        let Some((stay, history)) = Former::last(histories.remove(&cpu).unwrap_or_default(), is_there) else {
            continue;
        };
        *coming.entry(stay.set).or_default() += 1;
        stays.push((stay.place, cpu, history, stay.set));
    }
    // Inserted in order of position, each CPU gets its former position.
    stays.sort_by_key(|(place, cpu, ..)| (*place, *cpu));
    for (place, cpu, history, id) in stays {
        let Some(set) = sets.get_mut(&id) else { continue };
        let place = usize::try_from(place).unwrap_or(usize::MAX).min(set.members.len());
        set.members.insert(place, cpu);
        if !history.is_empty() {
            set.former.insert(cpu, history);
        }
    }
}

/// Describes the sibling whose CPU list overlaps a partition and so invalidates it.
fn overlap(view: &View, place: &str, active: &CpuSet) -> Option<String> {
    let above = |path: &str| path.rsplit_once('/').map(|(above, _)| above.to_owned());
    let both = |group: &Group| &group.cpus & active;
    let (path, group) = view.groups.iter().find(|(path, group)| {
        let near = path.as_str() != place && path.as_str() != "/" && above(path) == above(place);
        view.overlap_kills && near && !both(group).is_empty()
    })?;
    Some(format!("{} lists {} as well", messages::group(path), both(group).named()))
}

/// Describes differences between the tree and the set's mode.
fn breaches(view: &View, id: PsetId, label: &SetLabel, mode: PsetMode) -> Vec<String> {
    let active = &label.cpus() & &view.online;
    let own = view.set_group(id);
    let place = match mode {
        PsetMode::InPlace => view.present(label).next().unwrap_or(&own),
        _ => &own,
    };
    let Some(group) = view.groups.get(place) else {
        return vec![format!("{} is gone", messages::group(place))];
    };
    let mut breaches = Vec::new();
    if mode.is_exclusive() && !active.is_empty() && !view.v1 {
        match group.partition.as_deref() {
            Some("root" | "isolated") => {
                let shared = &view.shared_with_root(place) & &active;
                if !shared.is_empty() {
                    breaches.push(format!(
                        "the kernel lets others run on {} as well (cpuset.cpus.effective of the root group)",
                        shared.named()
                    ));
                }
            }
            other => {
                let why = overlap(view, place, &active)
                    .unwrap_or_else(|| messages::partition(other.unwrap_or("member")).0);
                breaches.push(format!("the kernel does not keep others out: {why}"));
            }
        }
    }
    let wanted = if view.v1 { active } else { label.cpus() };
    let is = if mode == PsetMode::InPlace { &group.exclusive } else { &group.cpus };
    // A slice without CPUs of its own shares those of the default set.
    if *is != wanted && !(view.systemd && wanted.is_empty()) {
        breaches.push(format!("its CPUs are `{is}` instead of `{wanted}`"));
    }
    let memory = view.wanted_mems(label);
    if memory.is_some() && group.mems != memory {
        let is = group.mems.clone().unwrap_or_default();
        breaches
            .push(format!("its memory comes from nodes `{is}` instead of `{}`", memory.unwrap_or_default()));
    }
    if mode == PsetMode::Steered && !view.v1 {
        breaches.push("new groups may intrude until the next check".to_owned());
    }
    breaches
}
