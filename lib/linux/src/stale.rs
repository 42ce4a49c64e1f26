//! Removes baselines and records of threads, processes, cgroups, units and devices that no longer exist.
//!
//! Outside the kernel there are two kinds of stored state: original values in the journal (*baselines*) and files among the
//! records. Both name their object: a task with its start time, a path, a unit. Only this module checks whether the object still
//! exists.
//!
//! | stored data | its object has ended when |
//! |---|---|
//! | the original of `mask:`, `place:`, `policy:`, `pages:` | the task with that start time is gone or a zombie |
//! | the original of a file, a controller or a property of a unit | its file or cgroup is gone |
//! | the original of what irqbalance leaves alone | the daemon does not run |
//! | groups of processes in the record `controls` | the process is gone |
//! | `bind.TID.START` | no thread with a remembered mask has that name |
//! | `member.PID@START` | the process with that start time is gone |
//! | `processor.N` | another program took CPU N off-line, or brought it back; that of a no-intr CPU stays |
//! | `inside.TID.START` | the task or its set is gone, or another program moved the task |
//!
//! A record of an ended object is never used, because every reader compares start times. So it is harmless, and the next change
//! removes it.

use crate::knob::{LinuxKnob, TaskId};
use crate::masks::bind_record;
use crate::view::RootTasks;
use crate::{LinuxMachine, inside};
use millpond_machine::{Knob, KnobError, Step};
use std::collections::BTreeSet;

impl LinuxMachine {
    /// The steps that remove stale baselines and records.
    pub(crate) fn stale_steps(&self) -> Vec<Step> {
        let baselines = self.baselines();
        let known: Vec<(&Knob, LinuxKnob)> =
            baselines.keys().filter_map(|knob| Some((knob, LinuxKnob::parse(knob).ok()?))).collect();
        let mut steps: Vec<Step> =
            known.iter().filter_map(|(knob, parsed)| self.forgetting(knob, parsed)).collect();
        let bound: BTreeSet<String> = known
            .iter()
            .filter_map(|(_, parsed)| match parsed {
                LinuxKnob::Affinity(task) if !self.has_ended(*task) => Some(bind_record(*task)),
                _ => None,
            })
            .collect();
        steps.extend(self.stale_controls());
        steps.extend(self.overtaken_records());
        let view = self.view(RootTasks::Unlisted).ok();
        for name in self.os.shared_record_names().iter() {
            if name.starts_with(inside::RECORD) {
                if view.as_ref().is_some_and(|view| self.is_no_member(view, name)) {
                    steps.push(Step::new(LinuxKnob::Record(name.clone()).knob(), self.os.record(name), None));
                }
                continue;
            }
            let ended = match name.strip_prefix("member.").map(str::parse::<TaskId>) {
                Some(Ok(process)) => self.is_another(process),
                _ => name.starts_with("bind.") && !bound.contains(name),
            };
            if ended {
                let before = self.os.record(name);
                steps.push(Step::new(LinuxKnob::Record(name.clone()).knob(), before, None));
            }
        }
        steps
    }

    /// The step that removes a baseline whose object has ended.
    fn forgetting(&self, knob: &Knob, parsed: &LinuxKnob) -> Option<Step> {
        let no_group = |path: &str| self.os.group(path).is_ok_and(|dir| !dir.exists());
        let no_cpu_group = |path: &str| self.os.cpu_tree().is_ok_and(|tree| !tree.dir(path).exists());
        let ended = match parsed {
            // A unit that has ended would get the old property at its next start, so reset the property.
            LinuxKnob::AllowedCpus(path) if no_group(path) => {
                let full = self.os.possible().to_string();
                return Some(Step::new(knob.clone(), Some(full), None).releasing().tolerant());
            }
            // A restarted daemon has its own list.
            LinuxKnob::IrqbalanceBanned => matches!(self.os.left_alone(), Err(KnobError::Gone)),
            LinuxKnob::CpusetController(path) => no_group(path),
            // The values of a unit for this boot apply again at its next start. This is intended while a control is set.
            LinuxKnob::Weight(path) | LinuxKnob::Quota(path) if no_cpu_group(path) => {
                if self.os.cpu_unit(path).is_none() {
                    return Some(Step::new(knob.clone(), None, None).releasing());
                }
                let any = Some("ended".to_owned());
                let is_set = self.recorded_controls().contains_key(path);
                return (!is_set).then(|| Step::new(knob.clone(), any, None).releasing().tolerant());
            }
            LinuxKnob::CpuController(path) => no_cpu_group(path),
            LinuxKnob::File(file) => self.os.control_path(file).is_ok_and(|path| !path.exists()),
            other => other.task().is_some_and(|task| self.has_ended(task)),
        };
        ended.then(|| Step::new(knob.clone(), None, None).releasing())
    }

    fn has_ended(&self, task: TaskId) -> bool {
        matches!(self.os.still(task), Err(KnobError::Gone))
    }

    /// Whether no process has this id and start time. A process whose first thread has ended still exists.
    fn is_another(&self, process: TaskId) -> bool {
        self.os.stat(process.pid, None).is_ok_and(|stat| stat.is_none_or(|stat| stat.start != process.start))
    }
}
