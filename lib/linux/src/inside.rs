//! Tasks that leave a set without a command (cgroup version 1).
//!
//! When the last CPU of a cpuset goes off-line, the kernel moves its tasks to the parent cpuset, and leaves them there when the
//! CPU returns. A bound task therefore has a record `inside.TID.START` with its leaf. If such a task is in the root cpuset, or
//! among the tasks that we keep in the default set, it left without a command. A [`View`] then shows it in its leaf, and settling
//! moves it there once the set has a CPU. A task that another program moved into a cpuset of its own is no longer a member.

use crate::knob::{LinuxKnob, TaskId};
use crate::view::{Left, TaskAt, View};
use crate::{LinuxMachine, Os, names};
use millpond_machine::{Step, Value};

/// Prefix of the record's name.
pub(crate) const RECORD: &str = "inside.";

fn name_of(task: TaskId) -> String {
    format!("{RECORD}{}.{}", task.leader(), task.start)
}

/// Parses the task and the leaf of a record.
fn parse(text: &str) -> Option<(TaskId, String)> {
    let (task, leaf) = text.split_once(' ')?;
    Some((task.parse().ok()?, leaf.to_owned()))
}

fn is_member_of_set(path: &str) -> bool {
    names::owner(path).is_some_and(|set| !set.is_default())
}

/// Whether a task with a record is in its set, or in the cgroup to which the kernel moves it when the set has no CPU.
fn is_kept(at: &str) -> bool {
    at == "/" || names::owner(at).is_some()
}

impl View {
    /// Changes this view so that tasks that left a set are back in it.
    pub(crate) fn recall_left(&mut self, os: &Os) {
        if !self.v1 {
            return;
        }
        for name in os.shared_record_names().iter().filter(|name| name.starts_with(RECORD)) {
            let Some((task, leaf)) = os.shared_record(name).as_deref().and_then(parse) else { continue };
            let Ok(Some(at)) = os.place(task.pid, Some(task.leader())) else { continue };
            let left = is_kept(&at) && !is_member_of_set(&at);
            if !left || os.still(task).is_err() || !self.groups.contains_key(&leaf) {
                continue;
            }
            let is_it = |other: TaskId| match task.tid {
                Some(_) => other.leader() == task.leader(),
                None => other.pid == task.pid,
            };
            self.tasks.retain(|other| !is_it(other.id));
            self.tasks.push(TaskAt { id: task, at: leaf.clone(), kernel: false, pinned: false });
            self.left.push(Left { task, at, leaf });
        }
    }

    /// The steps that move these tasks back, for sets with a CPU.
    pub(crate) fn steps_of_left(&self) -> Vec<Step> {
        let sets = self.sets();
        let has_cpu = |left: &&Left| {
            let set = names::owner(&left.leaf).and_then(|set| sets.get(&set));
            set.is_some_and(|set| !set.cpus().is_disjoint(&self.online))
        };
        let step = |left: &Left| {
            let (at, leaf) = (Some(left.at.clone()), Some(left.leaf.clone()));
            Step::new(LinuxKnob::CgroupOf(left.task).knob(), at, leaf).tolerant()
        };
        self.left.iter().filter(has_cpu).map(step).collect()
    }
}

impl LinuxMachine {
    /// Adds the steps that write records of new members of sets and remove those of former members.
    pub(crate) fn noting_members(&self, steps: Vec<Step>) -> Vec<Step> {
        let place = |step: &Step| match LinuxKnob::parse(&step.knob) {
            Ok(LinuxKnob::CgroupOf(task)) => Some((task, step.after.clone().unwrap_or_default())),
            _ => None,
        };
        let moves: Vec<(TaskId, Value)> = steps.iter().filter_map(place).collect();
        let mut all = Vec::new();
        for step in steps {
            let moved = place(&step);
            let is_tolerant = step.may_refuse;
            all.push(step);
            let Some((task, to)) = moved else { continue };
            // A thread that moves with its process needs no record.
            let follows = task.tid.is_some_and(|tid| tid != task.pid)
                && moves.iter().any(|(other, there)| other.leader() == task.pid && *there == to);
            let whole = TaskId { tid: task.tid.filter(|tid| *tid != task.pid), ..task };
            let after = (is_member_of_set(&to) && !follows).then(|| format!("{whole} {to}"));
            all.extend(
                self.record_of_member(task, after)
                    .map(|step| if is_tolerant { step.tolerant() } else { step }),
            );
        }
        all
    }

    /// The step that writes or removes the record of a task; `None` if it is unchanged.
    pub(crate) fn record_of_member(&self, task: TaskId, after: Option<Value>) -> Option<Step> {
        let name = name_of(task);
        let before = self.os.record(&name);
        (before != after).then(|| Step::new(LinuxKnob::Record(name).knob(), before, after))
    }

    /// Whether a record is obsolete: its task or its set has ended, or another program moved the task.
    pub(crate) fn is_no_member(&self, view: &View, name: &str) -> bool {
        let Some((task, leaf)) = self.os.record(name).as_deref().and_then(parse) else { return true };
        let is_live = names::owner(&leaf).is_some_and(|set| view.sets().contains_key(&set));
        let at = self.os.place(task.pid, Some(task.leader())).ok().flatten();
        !is_live || self.os.still(task).is_err() || at.is_none_or(|at| !is_kept(&at))
    }
}
