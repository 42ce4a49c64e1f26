//! The cgroups of single threads, when a process is moved as a whole (cgroup version 2).
//!
//! Threads of one process can be in different threaded cgroups. A set takes the whole process. When the process returns to the
//! cgroup of its first thread, the kernel moves all threads there. Therefore the cgroup of each other thread is stored as a
//! baseline before the move. After the process returns, these threads are moved back and the baselines are removed.

use crate::knob::{LinuxKnob, TaskId};
use crate::{LinuxMachine, names};
use millpond_machine::{Knob, Step, Value};
use std::collections::BTreeMap;

impl LinuxMachine {
    /// Adds steps that store the cgroups of threads before their processes move, and steps that move threads after their
    /// processes return.
    pub(crate) fn noting_places(
        &self,
        baselines: &BTreeMap<Knob, Option<Value>>,
        steps: Vec<Step>,
    ) -> Vec<Step> {
        if self.os.hierarchy.is_v1() {
            return self.noting_members(steps);
        }
        let is_ours =
            |place: &Option<Value>| place.as_deref().is_some_and(|path| names::owner(path).is_some());
        let mut noted: BTreeMap<u32, Vec<(&Knob, &Option<Value>)>> = BTreeMap::new();
        for (knob, place) in baselines {
            if let Ok(LinuxKnob::CgroupOf(task)) = LinuxKnob::parse(knob)
                && task.tid.is_some()
            {
                noted.entry(task.pid).or_default().push((knob, place));
            }
        }
        let mut all = Vec::new();
        for step in steps {
            let process = match LinuxKnob::parse(&step.knob) {
                Ok(LinuxKnob::CgroupOf(task)) if task.tid.is_none() => task,
                _ => {
                    all.push(step);
                    continue;
                }
            };
            let (from, to) = (step.before.clone(), step.after.clone());
            if is_ours(&to) && !is_ours(&from) {
                all.extend(self.threads_elsewhere(process, &from).into_iter().map(|(thread, place)| {
                    let knob = LinuxKnob::CgroupOf(thread).knob();
                    Step::new(knob, Some(place), to.clone()).keeping().falling()
                }));
            }
            all.push(step);
            if is_ours(&from) && !is_ours(&to) {
                let threads = noted.get(&process.pid).into_iter().flatten().copied();
                all.extend(threads.map(|(knob, place)| {
                    Step::new(knob.clone(), to.clone(), place.clone()).releasing().tolerant()
                }));
            }
        }
        all
    }

    /// The threads of a process that are not in the cgroup of the process.
    fn threads_elsewhere(&self, process: TaskId, group: &Option<Value>) -> Vec<(TaskId, Value)> {
        let tids = self.os.tids(process.pid).unwrap_or_default();
        let found = tids.into_iter().filter(|tid| *tid != process.pid).filter_map(|tid| {
            let place = self.os.place(process.pid, Some(tid)).ok()??;
            if Some(&place) == group.as_ref() {
                return None;
            }
            Some((self.user_task(process.pid, tid)?, place))
        });
        found.collect()
    }
}
