//! The Fences facet: a fence is a set whose label also lists the kinds of OS noise that are kept off its CPUs.
//!
//! The requested value of each setting is a function of its original value (the baseline, once it was changed) and of the labels of all live sets, as
//! for interrupts (`steering`). A CPU list loses the fenced CPUs; a setting of a CPU gets the value of its fence. When the label is removed, the
//! original values are restored. A kernel thread that appears later is moved at the next check.

use crate::knob::{ControlFile, LinuxKnob, TaskId, list_value};
use crate::masks::ALL;
use crate::plan::Wanted;
use crate::processors::StateSteps;
use crate::procfs::Stat;
use crate::sets::give_back;
use crate::steering::Steering;
use crate::view::{RootTasks, SetLabel, View};
use crate::{LinuxMachine, names};
use millpond_machine::facets::{
    CreateOptions, DevicePlace, FenceWish, Fenced, Remainder, has_room, siblings, with_fence, without_fence,
};
use millpond_machine::{
    Change, Fences, Interrupts, Knob, Knobs, Pools, Psets, Reason, Refusal, Step, Subject, Value,
};
use millpond_model::{
    CpuId, CpuSet, Fence, FenceName, Fencing, Lgroup, LgrpId, MachineSetting, Nanos, Others, Proof, PsetId,
    SetMemory, Shelter, ShelterItem, State,
};
use std::collections::BTreeMap;

/// The value of `pm_qos_resume_latency_us` that allows no latency; 0 there allows any.
const NO_LATENCY: &str = "n/a";

pub(crate) type Labels = BTreeMap<PsetId, SetLabel>;
pub(crate) type Baselines = BTreeMap<Knob, Option<Value>>;

/// The value of a CPU's limit for leaving idle states.
fn latency_value(latency: Nanos) -> Value {
    match latency.0.div_ceil(1_000) {
        0 => NO_LATENCY.to_owned(),
        us => us.to_string(),
    }
}

/// The file of a CPU's setting, and the value that a shelter requests.
fn setting(item: ShelterItem, cpu: CpuId, shelter: Option<&Shelter>) -> Option<(ControlFile, Option<Value>)> {
    Some(match item {
        ShelterItem::IdleLatency => {
            let wanted = shelter.and_then(|shelter| shelter.idle_latency).map(latency_value);
            (ControlFile::IdleLatency(cpu), wanted)
        }
        ShelterItem::Governor => {
            (ControlFile::Governor(cpu), shelter.and_then(|shelter| shelter.governor.clone()))
        }
        ShelterItem::FairServer => {
            let wanted = shelter.filter(|shelter| shelter.no_fair_server).map(|_| NO.to_owned());
            (ControlFile::FairServer(cpu), wanted)
        }
        _ => return None,
    })
}

const MACHINE_SETTINGS: [MachineSetting; 4] = [
    MachineSetting::NumaBalancing,
    MachineSetting::StatInterval,
    MachineSetting::TimerMigration,
    MachineSetting::Turbo,
];

const SETTINGS: [ShelterItem; 3] = [ShelterItem::IdleLatency, ShelterItem::Governor, ShelterItem::FairServer];

/// Off and on in the kernel's files.
const NO: &str = "0";
const YES: &str = "1";

/// Whether the restored mask of a kernel thread need not stay recorded while sets have exclusive CPUs. A mask of exactly the remaining CPUs must stay
/// recorded: threads without a mask of their own show the same mask then.
fn is_told_by_itself(original: &CpuSet, taken: &CpuSet, online: &CpuSet) -> bool {
    original.is_disjoint(taken) && (taken.is_empty() || original & online != online - taken)
}

/// The knob value of a kernel thread's mask. `all` are the CPUs that count.
fn mask_value(mask: &CpuSet, all: &CpuSet) -> Value {
    if all.is_subset(mask) { ALL.to_owned() } else { (mask & all).to_string() }
}

/// The CPUs that fences keep something away from.
fn fenced(sets: &Labels, keeps_away: impl Fn(&Shelter) -> bool) -> CpuSet {
    let cpus = |label: &SetLabel| {
        label.fence.as_ref().filter(|fence| keeps_away(&fence.shelter)).map(|_| label.cpus())
    };
    sets.values().filter_map(cpus).fold(CpuSet::new(), |all, cpus| &all | &cpus)
}

/// The step that sets a foreign list or setting to the requested value. With `None` for `wanted` it restores the original value.
pub(crate) fn toward(
    baselines: &Baselines,
    knob: &LinuxKnob,
    is: Option<Value>,
    wanted: Option<Value>,
) -> Option<Step> {
    let knob = knob.knob();
    match (wanted, baselines.get(&knob)) {
        (None, None) => None,
        (None, Some(original)) => Some(Step::new(knob, is, original.clone()).releasing().tolerant()),
        (Some(wanted), kept) => {
            let wanted = Some(wanted);
            if kept == Some(&wanted) {
                return Some(Step::new(knob, is, wanted).releasing().tolerant());
            }
            (is != wanted).then(|| Step::new(knob, is, wanted).keeping().tolerant())
        }
    }
}

/// Whether the target of a step, such as an interrupt, may currently reach some of these CPUs.
fn admits(step: &Step, cpus: &CpuSet) -> bool {
    // The list of irqbalance is inverted: it has the CPUs that get no interrupts.
    let is_banned = LinuxKnob::parse(&step.knob) == Ok(LinuxKnob::IrqbalanceBanned);
    let list = step.before.as_deref().and_then(|list| list.parse::<CpuSet>().ok()).unwrap_or_default();
    if is_banned { !cpus.is_subset(&list) } else { !list.is_disjoint(cpus) }
}

/// A list without these CPUs. If no on-line CPU would be left: all other on-line CPUs.
fn without(list: &CpuSet, away: &CpuSet, online: &CpuSet) -> CpuSet {
    let rest = list - away;
    if (&rest & online).is_empty() { online - away } else { rest }
}

impl LinuxMachine {
    /// The steps that apply the fences to everything but interrupts, which follow from states of CPUs.
    pub(crate) fn sheltering(&self, sets: &Labels) -> Result<Vec<(ShelterItem, Step)>, Refusal> {
        let baselines = self.baselines();
        let is_kept = |knob: &Knob| match LinuxKnob::parse(knob) {
            Ok(LinuxKnob::KernelThread(_)) => true,
            Ok(LinuxKnob::File(file)) => file.is_shelter(),
            _ => false,
        };
        if !sets.values().any(|set| set.fence.is_some()) && !baselines.keys().any(is_kept) {
            return Ok(Vec::new());
        }
        let online = self.online_now()?;
        let mut steps = self.steps_of_kernel_threads(sets, &baselines, &online);
        let watchdog = fenced(sets, |shelter| shelter.watchdog);
        steps.extend(self.step_of_watchdog(&watchdog, &baselines, &online));
        steps.extend(self.steps_of_settings(sets, &baselines));
        steps.extend(self.steps_of_caches(sets, &baselines));
        Ok(steps)
    }

    fn steps_of_kernel_threads(
        &self,
        sets: &Labels,
        baselines: &Baselines,
        online: &CpuSet,
    ) -> Vec<(ShelterItem, Step)> {
        let away = fenced(sets, |shelter| shelter.kernel_threads);
        let is_kept = |knob: &Knob| matches!(LinuxKnob::parse(knob), Ok(LinuxKnob::KernelThread(_)));
        if away.is_empty() && !baselines.keys().any(is_kept) {
            return Vec::new();
        }
        // The kernel allows no kernel thread on exclusive CPUs.
        let offline = self.free_offline();
        let (left, all) = (self.left_for_kernel_threads(online, &offline), online | &offline);
        let (taken, unconfined) = (online - &left, mask_value(&left, &all));
        let lacking = self.loses_offline().then(|| mask_value(&(&left & online), &all));
        // Before 6.2 setting a mask drops off-line CPUs. So the original mask is restored when those CPUs are on-line again.
        let stopped = self.os.offline().unwrap_or_default();
        let can_be_set = |list: &CpuSet| !self.forgets_masks() || list.is_disjoint(&stopped);
        let step = |task: TaskId| {
            let knob = LinuxKnob::KernelThread(task);
            let is = mask_value(&self.os.whole_mask(task, &offline).ok()?, &all);
            let kept = baselines.get(&knob.knob()).cloned().flatten();
            let is_kept = kept.is_some();
            // A thread that may run on all CPUs outside sets may run everywhere when the sets end.
            let is_unconfined = is == unconfined || lacking.as_ref() == Some(&is);
            let first = || if is_unconfined { ALL.to_owned() } else { is.clone() };
            let original = kept.unwrap_or_else(first);
            let list = if original == ALL { Some(self.os.possible().clone()) } else { original.parse().ok() };
            let list = list?;
            // With version 1 the kernel forgets every mask when the last set goes.
            let stays = taken.is_empty() || !self.os.hierarchy.is_v1();
            let is_whole =
                can_be_set(&list) && (original == ALL || (stays && is_told_by_itself(&list, &taken, online)));
            if away.is_empty() && (!is_kept || is_whole) {
                let step = toward(baselines, &knob, Some(is), None)?;
                return Some((ShelterItem::KernelThreads, step));
            }
            let wanted = without(&list, &(&away | &taken), online);
            // Off-line CPUs may be missing in a mask that was set.
            let same = |a: &CpuSet, b: &CpuSet| (a & online) == (b & online);
            let shown = if is == ALL { online.clone() } else { is.parse().ok()? };
            if same(&wanted, &shown) {
                return None;
            }
            let before = if is_kept { is } else { original.clone() };
            let wanted = if same(&wanted, &list) { original } else { list_value(&wanted)? };
            // The original stays recorded while a fence or a partition exists: see `confined_kernel_threads`.
            let step = Step::new(knob.knob(), Some(before), Some(wanted)).keeping().tolerant();
            Some((ShelterItem::KernelThreads, step))
        };
        self.kernel_threads().into_iter().filter_map(step).collect()
    }

    /// Steps that record the masks of kernel threads that may not run everywhere. The kernel forgets these masks and allows all CPUs outside
    /// partitions, each time that a partition begins, changes or ends (cgroup version 2), or when the threads are moved to another cpuset (version
    /// 1).
    pub(crate) fn confined_kernel_threads(&self, online: &CpuSet) -> Vec<Step> {
        let offline = self.free_offline();
        let (left, all) = (self.left_for_kernel_threads(online, &offline), online | &offline);
        let (unconfined, loses) = (mask_value(&left, &all), self.loses_offline());
        let forgotten = if loses { mask_value(&(&left & online), &all) } else { unconfined.clone() };
        let step = |task: TaskId| {
            let is = mask_value(&self.os.whole_mask(task, &offline).ok()?, &all);
            let knob = LinuxKnob::KernelThread(task).knob();
            // A thread that was created while masks lack such a CPU lacks it, too.
            let is_confined = is != unconfined && is != forgotten;
            if !(is_confined || loses && self.journal.baseline(&knob).is_none()) {
                return None;
            }
            let is = if is_confined { is } else { ALL.to_owned() };
            Some(Step::new(knob, Some(is), Some(forgotten.clone())).keeping().falling())
        };
        self.kernel_threads().into_iter().filter_map(step).collect()
    }

    /// The CPUs on which the kernel allows its own threads: those outside partitions, with version 1 those of the default set. Only masks in the root
    /// cgroup have off-line CPUs.
    fn left_for_kernel_threads(&self, online: &CpuSet, offline: &CpuSet) -> CpuSet {
        let of = |group| self.os.effective(group).map(|rest| &rest & online).unwrap_or_default();
        let default = if self.os.hierarchy.is_v1() { of(names::DEFAULT_GROUP) } else { CpuSet::new() };
        if !default.is_empty() {
            return default;
        }
        let left = if self.os.hierarchy.is_v1() { CpuSet::new() } else { of("/") };
        if left.is_empty() { online | offline } else { &left | offline }
    }

    /// The kernel threads whose mask can be set. The kernel itself moves the thread of an interrupt with the interrupt.
    fn kernel_threads(&self) -> Vec<TaskId> {
        let is_free = |stat: &Stat| !stat.pinned && !stat.dead && !stat.comm.starts_with("irq/");
        self.kernel_threads_with_stat().filter(|(_, stat)| is_free(stat)).map(|(task, _)| task).collect()
    }

    /// All kernel threads, in order of their IDs.
    fn kernel_threads_with_stat(&self) -> impl Iterator<Item = (TaskId, Stat)> {
        let thread = |pid: u32| {
            let stat = self.os.stat(pid, None).ok()??;
            stat.kernel.then_some((TaskId { pid, tid: Some(pid), start: stat.start }, stat))
        };
        self.os.pids().unwrap_or_default().into_iter().filter_map(thread)
    }

    /// The knob value of a kernel thread: `all` if its mask lacks only CPUs that are off-line and in a partition.
    pub(crate) fn kernel_thread_value(&self, task: TaskId) -> Result<Value, millpond_machine::KnobError> {
        let (online, offline) = (self.os.online()?, self.os.offline().unwrap_or_default());
        let mask = self.os.whole_mask(task, &offline)?;
        let hidden = &mask & &offline;
        // As in [`LinuxMachine::mask_value`] of a thread: which CPUs are free is read last, because that reads every group.
        let is_known = if online.is_subset(&mask) { hidden == offline } else { hidden.is_empty() };
        Ok(mask_value(&mask, &if is_known { online } else { &online | &self.free_offline() }))
    }

    fn step_of_watchdog(
        &self,
        away: &CpuSet,
        baselines: &Baselines,
        online: &CpuSet,
    ) -> Option<(ShelterItem, Step)> {
        let knob = LinuxKnob::File(ControlFile::WatchdogCpumask);
        let kept = baselines.get(&knob.knob());
        if away.is_empty() && kept.is_none() {
            return None;
        }
        let is = self.read(&knob.knob()).ok().flatten()?;
        let original: CpuSet = kept.cloned().flatten().unwrap_or_else(|| is.clone()).parse().ok()?;
        let wanted = list_value(&without(&original, away, online));
        toward(baselines, &knob, Some(is), wanted).map(|step| (ShelterItem::Watchdog, step))
    }

    fn steps_of_settings(&self, sets: &Labels, baselines: &Baselines) -> Vec<(ShelterItem, Step)> {
        let fences = sets.values().filter_map(|set| Some((set, &set.fence.as_ref()?.shelter)));
        let of_cpu: BTreeMap<CpuId, &Shelter> =
            fences.flat_map(|(set, shelter)| set.members.iter().map(move |cpu| (*cpu, shelter))).collect();
        let kept = baselines.keys().filter_map(|knob| match LinuxKnob::parse(knob) {
            Ok(LinuxKnob::File(
                ControlFile::IdleLatency(cpu) | ControlFile::Governor(cpu) | ControlFile::FairServer(cpu),
            )) => Some(cpu),
            _ => None,
        });
        let cpus: CpuSet = of_cpu.keys().copied().chain(kept).collect();
        let mut steps = self.steps_of_machine(sets, baselines);
        let step = |item, cpu| {
            let (file, wanted) = setting(item, cpu, of_cpu.get(&cpu).copied())?;
            let knob = LinuxKnob::File(file);
            let is = self.read(&knob.knob()).ok().flatten()?;
            toward(baselines, &knob, Some(is), wanted).map(|step| (item, step))
        };
        steps
            .extend(SETTINGS.into_iter().flat_map(|item| cpus.iter().filter_map(move |cpu| step(item, cpu))));
        steps
    }

    /// Settings of the whole machine: the first fence that requests a value decides.
    fn steps_of_machine(&self, sets: &Labels, baselines: &Baselines) -> Vec<(ShelterItem, Step)> {
        let shelters = || sets.values().filter_map(|set| Some(&set.fence.as_ref()?.shelter));
        let step = |setting: MachineSetting| {
            let file = self.machine_setting(setting)?;
            let asked = shelters().find_map(|shelter| shelter.global.get(&setting).copied());
            let wanted = asked.map(|number| match file {
                ControlFile::NoTurbo => if number == 0 { YES } else { NO }.to_owned(),
                _ => number.to_string(),
            });
            let knob = LinuxKnob::File(file);
            let is = self.read(&knob.knob()).ok().flatten()?;
            Some((ShelterItem::Global(setting), toward(baselines, &knob, Some(is), wanted)?))
        };
        MACHINE_SETTINGS.into_iter().filter_map(step).collect()
    }

    /// The file of a setting; `None` if the machine lacks it.
    fn machine_setting(&self, setting: MachineSetting) -> Option<ControlFile> {
        let files = match setting {
            MachineSetting::Turbo => vec![ControlFile::NoTurbo, ControlFile::Machine(setting)],
            _ => vec![ControlFile::Machine(setting)],
        };
        files.into_iter().find(|file| self.has_file(file))
    }

    fn has_file(&self, file: &ControlFile) -> bool {
        self.read(&LinuxKnob::File(file.clone()).knob()).is_ok_and(|value| value.is_some())
    }

    /// The steps that take CPUs off-line and back, one after the other.
    fn flushing(&self, cpus: &[CpuId]) -> Vec<Step> {
        let (off, on) = (Some(NO.to_owned()), Some(YES.to_owned()));
        let flush = |cpu: &CpuId| {
            let knob = self.flushable(*cpu)?.knob();
            Some([Step::new(knob.clone(), on.clone(), off.clone()), Step::new(knob, off.clone(), on.clone())])
        };
        cpus.iter().filter_map(flush).flatten().collect()
    }

    /// The knob that takes a CPU off-line without a loss. With cgroup version 1 the CPU would not return to its cpusets.
    fn flushable(&self, cpu: CpuId) -> Option<LinuxKnob> {
        let file = ControlFile::Online(cpu);
        (!self.os.hierarchy.is_v1() && self.has_file(&file)).then_some(LinuxKnob::File(file))
    }

    /// The requested items of a shelter that this machine does not support, one per line.
    fn absent(&self, view: &View, wish: &FenceWish, sets: &Labels) -> Vec<String> {
        let mut lines = Vec::new();
        if wish.shelter.others == Others::Isolated && !view.partitions {
            lines.push(
                "others: there are no isolated partitions here, and load is balanced inside".to_owned(),
            );
        }
        if wish.shelter.watchdog && !self.has_file(&ControlFile::WatchdogCpumask) {
            lines.push("watchdog: this kernel has none that can be kept away".to_owned());
        }
        for item in SETTINGS {
            let lacks = |cpu: &CpuId| {
                setting(item, *cpu, Some(&wish.shelter))
                    .is_some_and(|(file, wanted)| wanted.is_some() && !self.has_file(&file))
            };
            let without: CpuSet = wish.cpus.iter().copied().filter(lacks).collect();
            if !without.is_empty() {
                lines.push(format!("{}: {without} cannot be set here", item.key()));
            }
        }
        let stays: CpuSet = wish.cpus.iter().copied().filter(|cpu| self.flushable(*cpu).is_none()).collect();
        if wish.shelter.flush && !stays.is_empty() {
            let why = if self.os.hierarchy.is_v1() {
                "cpusets of cgroup version 1 lose it then"
            } else {
                "the kernel keeps it on-line"
            };
            lines.push(format!("flush: {} cannot go off-line for a moment: {why}", stays.named()));
        }
        lines.extend(self.nodes_without_memory(view, wish));
        lines.extend(self.absent_of_caches(&wish.cpus.iter().copied().collect(), &wish.shelter, sets));
        let absent = wish.shelter.global.keys().filter(|setting| self.machine_setting(**setting).is_none());
        lines.extend(absent.map(|setting| format!("{}: this machine has no such setting", setting.key())));
        lines
    }

    /// A line about the nodes of a fence without memory, if local memory was requested.
    fn nodes_without_memory(&self, view: &View, wish: &FenceWish) -> Option<String> {
        if wish.shelter.memory != SetMemory::Local {
            return None;
        }
        let cpus: CpuSet = wish.cpus.iter().copied().collect();
        let near: Vec<&LgrpId> =
            view.nodes.iter().filter(|(_, of)| !of.is_disjoint(&cpus)).map(|(node, _)| node).collect();
        let nodes = self.online_nodes().ok()?;
        let is_empty = |node: &&Lgroup| node.memory_kib == Some(0) && !node.cpus.is_disjoint(&cpus);
        let empty: Vec<String> = nodes.iter().filter(is_empty).map(|node| node.id.to_string()).collect();
        let from: Vec<String> = near.iter().map(ToString::to_string).collect();
        let from = if from.is_empty() { "any node".to_owned() } else { format!("node {}", from.join(", ")) };
        let has = if empty.len() == 1 { "has" } else { "have" };
        let line = || format!("memory: NUMA node {} {has} none: it comes from {from}", empty.join(", "));
        (!empty.is_empty()).then(line)
    }

    /// The names of fences, by set.
    pub(crate) fn fence_of(sets: &Labels, set: PsetId) -> Option<&FenceName> {
        sets.get(&set)?.fence.as_ref().map(|fence| &fence.name)
    }

    /// The set of a fence.
    fn set_of_fence(sets: &Labels, name: &FenceName) -> Result<PsetId, Refusal> {
        let fences = || sets.iter().filter_map(|(id, label)| Some((*id, &label.fence.as_ref()?.name)));
        fences().find(|(_, found)| *found == name).map(|(id, _)| id).ok_or_else(|| {
            let names = fences().map(|(_, name)| name.clone()).collect();
            Refusal::operation(Reason::NoSuchFence { name: name.clone(), names })
        })
    }

    /// Refuses a set that is a fence: it cannot be changed by its number.
    pub(crate) fn check_no_fence(sets: &Labels, set: PsetId) -> Result<(), Refusal> {
        match Self::fence_of(sets, set) {
            Some(name) => Err(Refusal::new(Subject::Pset(set), Reason::IsFence(name.clone()))),
            None => Ok(()),
        }
    }
}

impl Fences for LinuxMachine {
    fn list(&self) -> Result<Vec<Fence>, Refusal> {
        let view = self.view(RootTasks::Unlisted)?;
        let sets = view.sets();
        if sets.values().all(|set| set.fence.is_none()) {
            return Ok(Vec::new());
        }
        let (psets, states) = (Psets::list(self)?, self.states_now()?);
        let mut fences: Vec<Fence> = Vec::new();
        for (set, label) in &sets {
            let Some(fencing) = label.fence.clone() else { continue };
            let mut breaches =
                psets.iter().find(|p| p.id == *set).map(|p| p.breaches.clone()).unwrap_or_default();
            let cpus = label.cpus();
            breaches.extend(fencing.breaches(&cpus, |cpu| states.get(&cpu).copied()));
            fences.push(Fence { fencing, set: *set, cpus, breaches, stays: Vec::new() });
        }
        let left: Vec<Step> = self.sheltering(&sets)?.into_iter().map(|(_, step)| step).collect();
        let steered = Steering::of(self).steps(&self.shielded()?)?;
        let baselines = self.baselines();
        for fence in &mut fences {
            let interrupts = fence.fencing.shelter.interrupts;
            let reaching = steered.iter().filter(|step| interrupts && admits(step, &fence.cpus));
            for step in left.iter().chain(reaching).filter(|step| !step.is_note()) {
                let what = self.called(&step.knob);
                fence.breaches.push(if baselines.contains_key(&step.knob) {
                    format!("{what} was changed by another program")
                } else {
                    format!("{what} is new, and is not kept away yet")
                });
            }
            if interrupts {
                fence.stays = self.staying()?;
            }
        }
        fences.sort_by(|a, b| a.fencing.name.cmp(&b.fencing.name));
        Ok(fences)
    }

    fn prepare_fence(&self, wish: &FenceWish, forced: bool) -> Result<Change<Fenced>, Refusal> {
        if !self.has_cgroups() || !self.os.may_administrate() {
            return Err(Refusal::operation(Reason::NotPermitted).hint(
                "a fence is made by an administrator; psrset -c and -e confine your own programs by their affinity",
            ));
        }
        let exclusive = wish.shelter.others != Others::In;
        let root = if exclusive { RootTasks::Listed } else { RootTasks::ForLiveSets };
        let mut view = (*self.view(root)?).clone();
        let mut sets = view.sets();
        if let Some(set) = sets.values().find(|s| s.fence.as_ref().is_some_and(|f| f.name == wish.name)) {
            let reason = Reason::FenceExists { name: wish.name.clone(), cpus: set.cpus() };
            return Err(Refusal::operation(reason));
        }
        let states = self.states_now()?;
        let takes = |cpu: &CpuId| states.get(cpu).is_some_and(|state| state.takes_interrupts());
        let admitted: Vec<CpuId> = if wish.shelter.interrupts {
            wish.cpus.iter().copied().filter(takes).collect()
        } else {
            Vec::new()
        };
        let stopped = if wish.shelter.siblings_off {
            let owners = Self::owners(&sets);
            let cpus = siblings(&self.read_topology()?, &wish.cpus, &self.online_now()?, &owners)?;
            cpus.into_iter().filter_map(|cpu| Some((cpu, *states.get(&cpu)?))).collect()
        } else {
            BTreeMap::new()
        };
        let fencing = Fencing {
            name: wish.name.clone(),
            profile: wish.profile.clone(),
            shelter: wish.shelter.clone(),
            admitted: admitted.clone(),
            stopped: stopped.clone(),
            proof: None,
        };
        let owners = Self::owners(&sets);
        let fence_of = |cpu: CpuId| Self::fence_of(&sets, *owners.get(&cpu)?).cloned();
        let pools = Pools::state(self)?
            .map(|state| with_fence(state, &wish.name, &wish.cpus, fence_of))
            .transpose()?;
        let id = pools.as_ref().and_then(|state| state.conf.pset(wish.name.as_str())?.id);
        let id = Self::add_set(&mut sets, CreateOptions { keep_others: !exclusive }, states.len(), id)?;
        if let Some(label) = sets.get_mut(&id) {
            label.memory = wish.shelter.memory.clone();
            label.fence = Some(fencing);
        }
        if !wish.shelter.memory.is_all() {
            view = self.nodes_in_view(&view)?;
        }
        let (moves, mut steps) = self.moved(&view, &states, &mut sets, id, &wish.cpus, forced)?;
        let quieted = admitted.iter().map(|cpu| (*cpu, State::NoIntr));
        let changes: Vec<(CpuId, State)> =
            quieted.chain(stopped.keys().map(|cpu| (*cpu, State::OffLine))).collect();
        let StateSteps { first, last, shielded, interrupts, outcome } =
            self.state_changes(&changes, forced, Some(Self::owners(&sets)))?;
        outcome.into_iter().collect::<Result<Vec<_>, Refusal>>()?;
        let (notes, told) = interrupts.news_of_staying(&admitted.iter().copied().collect(), &shielded)?;
        let mut parts = Vec::new();
        let mut part = |item: ShelterItem, count: usize| {
            if count > 0 {
                parts.push((item, count));
            }
        };
        let released = steps.len();
        part(ShelterItem::Others, released);
        steps.extend(first);
        steps.extend(told);
        part(ShelterItem::Interrupts, steps.len() - released);
        part(ShelterItem::Smt, last.len());
        steps.extend(last);
        let isolates = view.partitions && wish.shelter.others == Others::Isolated;
        let moves_threads = isolates && self.os.isolates_at_run_time();
        // Threads that such a kernel does not move with the partition are moved when the change settles.
        let waits = |item| moves_threads && item == ShelterItem::KernelThreads;
        for (item, step) in self.sheltering(&sets)?.into_iter().filter(|(item, _)| !waits(*item)) {
            part(item, 1);
            steps.push(step);
        }
        let mut absent = self.absent(&view, wish, &sets);
        if moves_threads && wish.shelter.kernel_threads {
            absent.push(
                "kernel-threads: no step is needed, this kernel keeps them out of isolated partitions"
                    .to_owned(),
            );
        }
        let before = steps.len();
        let mut wanted = Wanted::of(&view, sets, Vec::new());
        if let Some(state) = &pools {
            wanted.pools = state.sets();
        }
        steps = self.with_plan(&view, steps, &wanted)?;
        if pools.is_some() {
            steps.extend(self.record_step(pools.as_ref()));
        }
        part(ShelterItem::Others, steps.len() - before);
        if wish.shelter.flush {
            // Other tasks have left by now, and leave no new timers or work. One CPU at a time, so that a partition of several never lacks all of
            // them.
            let flushing = self.flushing(&wish.cpus);
            part(ShelterItem::Flush, flushing.len());
            steps.extend(flushing);
        }
        let mut change = Change::new(
            format!("put up fence {}", wish.name),
            steps,
            Fenced {
                set: id,
                pool: pools.as_ref().and_then(|s| s.conf.pool(wish.name.as_str())?.id),
                moves,
                parts,
                absent,
            },
        );
        change.notes = notes;
        Ok(change)
    }

    fn prepare_off(&self, name: &FenceName) -> Result<Change<()>, Refusal> {
        let (view, mut sets) = self.live_sets()?;
        let id = Self::set_of_fence(&sets, name)?;
        let Some(label) = sets.remove(&id) else { return Err(Refusal::operation(Reason::NoSuchPset)) };
        let before = Pools::state(self)?;
        let room = |id, size| before.as_ref().is_none_or(|state| has_room(state, id, size));
        give_back(&mut sets, label.clone(), room);
        let owners = Self::owners(&sets);
        let pools =
            before.as_ref().map(|state| without_fence(state.clone(), name, |cpu| owners.get(&cpu).copied()));
        let mut wanted = Wanted::of(&view, sets.clone(), Vec::new());
        if let Some(state) = &pools {
            wanted.pools = state.sets();
        }
        let mut steps = self.with_plan(&view, Vec::new(), &wanted)?;
        if pools.is_some() {
            steps.extend(self.record_step(pools.as_ref()));
        }
        // Masks of kernel threads change with the partition, and are restored after its removal.
        let is_settled_later =
            |step: &Step| matches!(LinuxKnob::parse(&step.knob), Ok(LinuxKnob::KernelThread(_)));
        let sheltering = self.sheltering(&sets)?.into_iter().map(|(_, step)| step);
        steps.extend(sheltering.filter(|step| !is_settled_later(step)));
        let states = self.states_now()?;
        let is_now = |cpu: &CpuId, state| states.get(cpu) == Some(&state);
        let admitted = label.fence.iter().flat_map(|fence| fence.admitted.iter().copied());
        let admitted = admitted.filter(|cpu| is_now(cpu, State::NoIntr)).map(|cpu| (cpu, State::OnLine));
        let stopped =
            label.fence.iter().flat_map(|fence| fence.stopped.iter().map(|(cpu, state)| (*cpu, *state)));
        let changes: Vec<(CpuId, State)> =
            admitted.chain(stopped.filter(|(cpu, _)| is_now(cpu, State::OffLine))).collect();
        let StateSteps { first, last, shielded, interrupts, outcome } =
            self.state_changes(&changes, false, Some(Self::owners(&sets)))?;
        outcome.into_iter().collect::<Result<Vec<_>, Refusal>>()?;
        // A CPU that another program took off-line will take interrupts when it returns.
        let away = label.fence.iter().flat_map(|fence| fence.admitted.iter());
        let away = away.filter(|cpu| states.get(cpu).is_some_and(|state| !state.runs_threads()));
        steps.extend(away.filter_map(|cpu| self.forget_shield(*cpu)));
        steps.extend(first);
        steps.extend(last);
        steps.extend(interrupts.news_of_staying(&CpuSet::new(), &shielded)?.1);
        Ok(Change::new(format!("take down fence {name}"), steps, ()))
    }

    fn prepare_proof(&self, name: &FenceName, proof: &Proof) -> Result<Change<()>, Refusal> {
        let (view, mut sets) = self.live_sets()?;
        let id = Self::set_of_fence(&sets, name)?;
        if let Some(fence) = sets.get_mut(&id).and_then(|label| label.fence.as_mut()) {
            fence.proof = Some(proof.clone());
        }
        let steps = crate::plan(&view, &Wanted::of(&view, sets, Vec::new()));
        Ok(Change::new(format!("remember what fence {name} was measured to be"), steps, ()))
    }

    fn device(&self, name: &str) -> Result<DevicePlace, Refusal> {
        self.place_of_device(name)
    }

    fn remains(&self, cpus: &[CpuId], shelter: &Shelter) -> Result<Vec<Remainder>, Refusal> {
        let cpus: CpuSet = cpus.iter().copied().collect();
        let online = self.online_now()?;
        let settings = self.settings();
        // A partition has the same effect as `domain`, and can be removed.
        let domain = if settings.isolated_partitions.is_some() { "" } else { "domain," };
        let mut all = Vec::new();
        let mut tell = |what: String, parameter: Option<String>| all.push(Remainder { what, parameter });
        let ticking = &cpus - &settings.nohz_full;
        if !ticking.is_empty() {
            let what = format!("the clock interrupts {} while a thread runs there", ticking.named());
            tell(what, Some(format!("nohz_full={cpus}")));
        }
        let calling = &cpus - &settings.rcu_nocbs;
        if !calling.is_empty() {
            let what = format!("{} free memory for others (RCU callbacks)", calling.named());
            tell(what, Some(format!("rcu_nocbs={cpus}")));
        }
        if shelter.interrupts {
            let reaches = |allowed: &CpuSet| !allowed.is_disjoint(&cpus);
            for thing in Interrupts::list(self)? {
                let Some(why) = &thing.fixed else { continue };
                if reaches(thing.effective.as_ref().unwrap_or(&thing.allowed)) {
                    let what = format!("interrupt {} ({}) stays: {why}", thing.id, thing.name);
                    tell(what, Some(format!("isolcpus={domain}managed_irq,{cpus}")));
                }
            }
        }
        let bound = self.bound_kernel_threads(&cpus);
        if !bound.is_empty() {
            tell(
                format!(
                    "kernel threads that belong to one CPU run when it gives them work: {}",
                    bound.join(", ")
                ),
                None,
            );
        }
        let rest = &online - &cpus;
        if all.iter().any(|r| r.parameter.as_deref().is_some_and(|p| p.starts_with("isolcpus=")))
            && !rest.is_empty()
        {
            all.push(Remainder {
                what: "interrupts that are requested at boot go anywhere".to_owned(),
                parameter: Some(format!("irqaffinity={rest}")),
            });
        }
        Ok(all)
    }
}

impl LinuxMachine {
    /// The names of kernel threads that are pinned to one of these CPUs, without the CPU number, each name once.
    fn bound_kernel_threads(&self, cpus: &CpuSet) -> Vec<String> {
        let name = |(task, stat): (TaskId, Stat)| {
            let mask = if stat.pinned { self.os.mask(task).ok()? } else { return None };
            (mask.is_subset(cpus)).then(|| stat.comm.split('/').next().unwrap_or_default().to_owned())
        };
        let names: std::collections::BTreeSet<String> =
            self.kernel_threads_with_stat().filter_map(name).collect();
        names.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_in_microseconds_and_none_has_a_word() {
        assert_eq!(latency_value(Nanos(0)), "n/a");
        assert_eq!(latency_value(Nanos(1)), "1");
        assert_eq!(latency_value(Nanos(20_000)), "20");
        assert_eq!(latency_value(Nanos(20_001)), "21");
    }

    #[test]
    fn a_mask_that_is_all_that_is_left_is_kept_in_mind() {
        let list = |text: &str| text.parse::<CpuSet>().unwrap();
        let is = |original: &str, taken: &str| is_told_by_itself(&list(original), &list(taken), &list("0-3"));
        assert!(is("0-1", "") && is("0", "2-3"));
        // All kernel threads have 0-1 then.
        assert!(!is("0-1", "2-3") && !is("1-2", "2-3"));
    }

    #[test]
    fn a_list_is_never_left_without_a_cpu() {
        let of = |text: &str| text.parse::<CpuSet>().unwrap();
        assert_eq!(without(&of("0-7"), &of("2-3"), &of("0-7")), of("0-1,4-7"));
        assert_eq!(without(&of("2-3"), &of("2-3"), &of("0-3")), of("0-1"));
    }

    #[test]
    fn what_is_not_ours_is_remembered_and_given_back() {
        let knob = LinuxKnob::File(ControlFile::WatchdogCpumask);
        let (all, less) = (Some("0-3".to_owned()), Some("0-1".to_owned()));
        let none = Baselines::new();
        let kept = Baselines::from([(knob.knob(), all.clone())]);
        assert_eq!(toward(&none, &knob, all.clone(), all.clone()), None);
        assert_eq!(toward(&none, &knob, all.clone(), None), None);
        let step = toward(&none, &knob, all.clone(), less.clone()).unwrap();
        assert_eq!(step, Step::new(knob.knob(), all.clone(), less.clone()).keeping().tolerant());
        for wanted in [all.clone(), None] {
            let step = toward(&kept, &knob, less.clone(), wanted).unwrap();
            assert_eq!(step, Step::new(knob.knob(), less.clone(), all.clone()).releasing().tolerant());
        }
        assert_eq!(toward(&kept, &knob, less.clone(), less.clone()), None);
    }
}
