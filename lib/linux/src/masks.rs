//! Affinity masks on kernels that forget them (before 6.2).
//!
//! On these kernels every change of a thread's cpuset, by a move or by a new list, replaces the thread's mask by that of the cpuset. So
//! before a plan changes the cpuset of a thread with a narrower mask, that mask is recorded as a baseline. Whenever the
//! machine settles, each recorded mask is restored as far as the cpuset allows. The record is removed once the mask is complete.
//! Our own bindings are masks, too. Each has a record `bind.TID.START`, because the mask
//! itself may be lost. (On every kernel a binding to several CPUs has such a record, because such a mask could be that of another program.)
//!
//! On these kernels a mask also loses off-line CPUs permanently: whenever it is set, and for threads in the root cgroup of version 2 whenever
//! partitions change. So while a CPU is off-line these masks are recorded first, and restored when it is on-line again.
//!
//! Since 6.2 the kernel restores masks itself, and this module needs no other steps. On every release `sched_getaffinity` omits off-line CPUs;
//! `/proc/PID/status` has them.
//!
//! Every kernel forgets the masks of its own threads each time that a partition begins, changes or ends, and with version 1 when they move. They
//! are recorded in the same way, and restored together with the kernel threads of fences (`fences.rs`).

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

/// Whether a step makes the kernel forget masks of its threads: a partition begins, changes or ends. With version 1: a kernel thread moves, or the
/// list of the default set, to which they are moved, changes.
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

    /// The same, if a CPU is off-line now.
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

    /// Whether a mask of one CPU is a binding by Millpond.
    pub(crate) fn is_ours(&self, task: TaskId) -> bool {
        if self.forgets_masks() {
            return self.os.has_record(&bind_record(task));
        }
        self.journal.baseline(&LinuxKnob::Affinity(task).knob()).is_some()
    }

    /// The steps that record a binding by Millpond; without CPUs they remove the record. A binding to a single CPU needs no record where the
    /// kernel keeps masks.
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

    /// The recorded binding of a thread.
    pub(crate) fn bound_to(&self, task: TaskId) -> Option<CpuSet> {
        self.os.record(&bind_record(task))?.parse().ok()
    }

    /// The recorded bindings to several CPUs. New threads and children inherit these masks.
    pub(crate) fn bound_lists(&self) -> BTreeSet<CpuSet> {
        let names = self.os.shared_record_names();
        let records = names.iter().filter(|name| name.starts_with("bind."));
        let read = |name: &String| self.os.record(name)?.parse().ok();
        records.filter_map(read).filter(|list: &CpuSet| list.len() > 1).collect()
    }

    /// Whether a mask that is restored now would be complete, so that its baseline can be removed.
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

    /// Whether one of these steps makes the kernel forget masks of its threads.
    pub(crate) fn move_kernel_threads(&self, view: &View, steps: &[Step]) -> bool {
        steps.iter().any(|step| moves_kernel_threads(&self.os, view, step))
    }

    /// Inserts steps that record masks and cgroups before steps that would erase them. A mask that one of the `earlier` steps of the same change
    /// sets needs no record: its current value will be replaced first.
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
                // The mask changes with the cpuset: undoing the change must restore it.
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

    /// The steps that restore recorded masks.
    pub(crate) fn settle_masks(&self) -> Vec<Step> {
        if !self.forgets_masks() {
            return Vec::new();
        }
        let mut steps = Vec::new();
        let has_sets = self.live_sets().is_ok_and(|(_, sets)| !sets.is_empty());
        for (knob, original) in self.baselines().iter() {
            let Ok(LinuxKnob::Affinity(task)) = LinuxKnob::parse(knob) else { continue };
            // Records of ended threads are removed elsewhere.
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
        // Inside a set the original mask of a thread does not apply. It is restored when the thread leaves the set.
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
        // A mask of exactly the CPUs outside sets looks like no mask, and would not be recorded again.
        let looks_like_none = has_sets && original != ALL && target == cpuset;
        let whole = self.is_whole(original, &cpuset) && !looks_like_none;
        if mask == target && !whole {
            return Ok(None);
        }
        let step = Step::new(knob.clone(), before, Some(original.to_owned())).tolerant();
        Ok(Some(if whole { step.releasing() } else { step.keeping() }))
    }
}
