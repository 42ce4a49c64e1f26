//! Affinity masks on kernels that forget them (before 6.2).
//!
//! There every change of a thread's cpuset, by a move or by a new list, replaces its mask by the cpuset's. So
//! before a plan squeezes a thread whose mask is narrower, the mask is noted as a baseline, and whenever the
//! machine settles each noted mask is put back as far as the cpuset allows, and forgotten once it is whole.
//! Our own bindings are masks too; what they are is then kept in a record `bind.TID.START`, since the mask
//! itself may be gone. (On every kernel there is such a record of a binding to several CPUs: their mask could be anybody's.)
//!
//! There a mask also loses CPUs that are off-line, for good: whenever it is set, and with version 2 those of the root cgroup whenever partitions change. So
//! while a CPU is off-line these are noted first, too, and put back when it is on-line again.
//!
//! Since 6.2 the kernel does all else by itself, and nothing else here takes a step. The kernel's answer about a mask leaves off-line CPUs out on every
//! release; the status of a thread has them.
//!
//! The masks of its own threads every kernel forgets, each time that a partition begins, changes or ends, and with version 1 when they move: they
//! are noted in the same way, and settled with what fences keep kernel threads away from (`fences.rs`).

use crate::knob::{ControlFile, CpusetFile, LinuxKnob, TaskId};
use crate::os::knob_error;
use crate::view::{RootTasks, View};
use crate::{LinuxMachine, Os, names};
use millpond_machine::{Knob, KnobError, Refusal, Step};
use millpond_model::CpuSet;
use std::collections::BTreeSet;

/// The value of a mask knob for a thread that may use all of its cpuset.
pub(crate) const ALL: &str = "all";

/// The record of a binding of ours.
pub(crate) fn bind_record(task: TaskId) -> String {
    format!("bind.{}.{}", task.leader(), task.start)
}

/// Whether masks of kernel threads are forgotten by the step: a partition begins, changes or ends; with version 1 one of them moves, or the list of the
/// default set changes, which they are moved to.
fn moves_kernel_threads(os: &Os, view: &View, step: &Step) -> bool {
    let is_partition = |group: &str| view.groups.get(group).is_some_and(|g| g.partition.is_some());
    let is_kernels = |pid: u32| os.stat(pid, None).is_ok_and(|stat| stat.is_some_and(|stat| stat.kernel));
    match LinuxKnob::parse(&step.knob) {
        Ok(LinuxKnob::File(ControlFile::Cpuset(_, CpusetFile::Partition | CpusetFile::ExclusiveCpus))) => {
            true
        }
        Ok(LinuxKnob::File(ControlFile::Cpuset(group, CpusetFile::Cpus)) | LinuxKnob::AllowedCpus(group)) => {
            is_partition(&group) || (view.v1 && group == names::DEFAULT_GROUP)
        }
        Ok(LinuxKnob::CgroupOf(task)) => view.v1 && is_kernels(task.pid),
        _ => false,
    }
}

impl LinuxMachine {
    pub(crate) fn forgets_masks(&self) -> bool {
        self.has_cgroups() && !self.os.remembers_masks()
    }

    /// Whether changes of partitions take off-line CPUs from the masks of threads in the root cgroup.
    pub(crate) fn narrows_masks(&self) -> bool {
        self.forgets_masks() && !self.os.hierarchy.is_v1()
    }

    /// The same where there is such a CPU now.
    pub(crate) fn loses_offline(&self) -> bool {
        self.narrows_masks() && self.os.offline().is_ok_and(|offline| !offline.is_empty())
    }

    /// The off-line CPUs that are in no partition: a thread of the root cgroup that may run anywhere has them in its mask.
    pub(crate) fn free_offline(&self) -> CpuSet {
        let offline = self.os.offline().unwrap_or_default();
        if offline.is_empty() {
            return offline;
        }
        self.view(RootTasks::Unlisted).map(|view| &offline - &view.taken_from_root()).unwrap_or_default()
    }

    /// Whether a thread is in the root cgroup.
    pub(crate) fn is_in_root(&self, task: TaskId) -> bool {
        self.os.place(task.pid, Some(task.leader())).is_ok_and(|place| place.as_deref() == Some("/"))
    }

    /// Whether a mask of one CPU is a binding of ours.
    pub(crate) fn is_ours(&self, task: TaskId) -> bool {
        if self.forgets_masks() {
            return self.os.has_record(&bind_record(task));
        }
        self.journal.baseline(&LinuxKnob::Affinity(task).knob()).is_some()
    }

    /// The steps that keep a binding of ours in mind; no CPUs for one that ends. One to a single CPU is
    /// seen by its mask where the kernel keeps masks.
    pub(crate) fn remember_binding(&self, task: TaskId, to: &CpuSet) -> Vec<Step> {
        let is_seen = to.is_empty() || (to.len() == 1 && !self.forgets_masks());
        let after = (!is_seen).then(|| to.to_string());
        let name = bind_record(task);
        let before = self.os.record(&name);
        if before == after {
            return Vec::new();
        }
        vec![Step::new(LinuxKnob::Record(name).knob(), before, after)]
    }

    /// What a thread is bound to by us, as far as that is kept beside its mask.
    pub(crate) fn bound_to(&self, task: TaskId) -> Option<CpuSet> {
        self.os.record(&bind_record(task))?.parse().ok()
    }

    /// The lists of several CPUs that we bound threads to. New threads and children of these have the same masks.
    pub(crate) fn bound_lists(&self) -> BTreeSet<CpuSet> {
        let names = self.os.shared_record_names();
        let records = names.iter().filter(|name| name.starts_with("bind."));
        let read = |name: &String| self.os.record(name)?.parse().ok();
        records.filter_map(read).filter(|list: &CpuSet| list.len() > 1).collect()
    }

    /// Whether a mask that is put back now would be whole, so that its baseline can be forgotten.
    pub(crate) fn is_whole(&self, original: &str, cpuset: &CpuSet) -> bool {
        if !self.forgets_masks() {
            return true;
        }
        match original {
            ALL => self
                .os
                .cpu_list("present")
                .is_ok_and(|all| all.is_subset(&self.os.online().unwrap_or_default())),
            list => list.parse::<CpuSet>().is_ok_and(|list| list.is_subset(cpuset)),
        }
    }

    /// Whether masks of kernel threads are forgotten by one of these.
    pub(crate) fn move_kernel_threads(&self, view: &View, steps: &[Step]) -> bool {
        steps.iter().any(|step| moves_kernel_threads(&self.os, view, step))
    }

    /// Puts notes of the masks and places in front of steps that would erase them. A mask that one of the `earlier` steps of the same change
    /// sets is not worth a note: as it is now it will not be then.
    pub(crate) fn noting_masks(
        &self,
        view: &View,
        earlier: &[Step],
        steps: Vec<Step>,
    ) -> Result<Vec<Step>, Refusal> {
        let steps = self.noting_places(&view.baselines, steps);
        let mut notes = Vec::new();
        if self.move_kernel_threads(view, &steps) {
            notes = self.confined_kernel_threads(&self.online_now()?);
        }
        if !self.forgets_masks() {
            notes.extend(steps);
            return Ok(notes);
        }
        let mut groups: BTreeSet<String> = BTreeSet::new();
        if !view.v1 && self.move_kernel_threads(view, &steps) {
            groups.insert("/".to_owned());
        }
        let loses = self.loses_offline();
        let mut tasks: BTreeSet<TaskId> = BTreeSet::new();
        for step in &steps {
            match LinuxKnob::parse(&step.knob) {
                Ok(LinuxKnob::CgroupOf(task)) => tasks.extend(self.threads_of(task)),
                Ok(LinuxKnob::File(ControlFile::Cpuset(group, _)) | LinuxKnob::AllowedCpus(group)) => {
                    groups.insert(group);
                }
                _ => {}
            }
        }
        for group in groups.iter().filter(|g| view.groups.contains_key(*g)) {
            tasks.extend(self.tasks_in(group));
        }
        for task in tasks {
            let knob = LinuxKnob::Affinity(task).knob();
            let is_set = earlier.iter().any(|s| s.knob == knob);
            if is_set || view.baselines.contains_key(&knob) {
                continue;
            }
            let (Ok(mask), Ok(cpuset)) = (self.os.mask(task), self.cpuset_of(task)) else { continue };
            if mask != cpuset || (loses && self.is_in_root(task)) {
                // The mask falls with the cpuset: a change that is put back puts it back, too.
                let Ok(mask) = self.mask_value(task) else { continue };
                notes.push(Step::new(knob, Some(mask), Some(ALL.to_owned())).keeping().falling());
            }
        }
        notes.extend(steps);
        Ok(notes)
    }

    fn threads_of(&self, task: TaskId) -> Vec<TaskId> {
        let tids = match task.tid {
            Some(tid) => vec![tid],
            None => self.os.tids(task.pid).unwrap_or_default(),
        };
        tids.into_iter().filter_map(|tid| self.user_task(task.pid, tid)).collect()
    }

    fn tasks_in(&self, group: &str) -> Vec<TaskId> {
        let Ok(dir) = self.os.group(group) else { return Vec::new() };
        let text = self.os.root.read(&dir.join(self.os.threads_file())).ok().flatten().unwrap_or_default();
        text.split_ascii_whitespace()
            .filter_map(|tid| {
                let tid = tid.parse().ok()?;
                self.user_task(self.os.process_of(tid).ok()??, tid)
            })
            .collect()
    }

    pub(crate) fn user_task(&self, pid: u32, tid: u32) -> Option<TaskId> {
        let stat = self.os.stat(pid, Some(tid)).ok()??;
        (!stat.kernel && !stat.dead).then_some(TaskId { pid, tid: Some(tid), start: stat.start })
    }

    /// What is left to do about noted masks.
    pub(crate) fn settle_masks(&self) -> Vec<Step> {
        if !self.forgets_masks() {
            return Vec::new();
        }
        let mut steps = Vec::new();
        let has_sets = self.live_sets().is_ok_and(|(_, sets)| !sets.is_empty());
        for (knob, original) in self.baselines().iter() {
            let Ok(LinuxKnob::Affinity(task)) = LinuxKnob::parse(knob) else { continue };
            // One that has ended is forgotten elsewhere.
            let original = original.as_deref().unwrap_or(ALL);
            steps.extend(self.settle_mask(task, knob, original, has_sets).ok().flatten());
        }
        steps
    }

    fn settle_mask(
        &self,
        task: TaskId,
        knob: &Knob,
        original: &str,
        has_sets: bool,
    ) -> Result<Option<Step>, KnobError> {
        let cpuset = self.cpuset_of(task)?;
        let mask = self.os.mask(task)?;
        let bound = self.os.root.read(&self.os.record_file(&bind_record(task))).map_err(knob_error)?;
        let before = Some(self.mask_value(task)?);
        if let Some(cpu) = bound {
            let wanted: CpuSet = cpu.parse().unwrap_or_default();
            let lost = wanted.is_subset(&cpuset) && mask != wanted;
            return Ok(lost.then(|| Step::new(knob.clone(), before, Some(cpu)).tolerant()));
        }
        let place = self.os.place(task.pid, task.tid).map_err(knob_error)?;
        // Inside a set a mask of somebody else's is set aside, and comes back with the thread.
        if place.as_deref().and_then(names::owner).is_some_and(|set| !set.is_default()) {
            return Ok(None);
        }
        let target = match original {
            ALL => cpuset.clone(),
            list => {
                let both = &list.parse().unwrap_or_default() & &cpuset;
                if both.is_empty() { cpuset.clone() } else { both }
            }
        };
        // One of all that sets leave looks like none, and would not be noted again.
        let looks_like_none = has_sets && original != ALL && target == cpuset;
        let whole = self.is_whole(original, &cpuset) && !looks_like_none;
        if mask == target && !whole {
            return Ok(None);
        }
        let step = Step::new(knob.clone(), before, Some(original.to_owned())).tolerant();
        Ok(Some(if whole { step.releasing() } else { step.keeping() }))
    }
}
