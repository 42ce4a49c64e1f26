//! What happens when a machine's files are changed. On a live root the kernel and systemd do it; on a captured root `captured` does the
//! little that makes the files tell the truth.

mod captured;
mod live;

pub(crate) use captured::{Captured, label_file};
pub(crate) use live::Live;

use crate::Os;
use crate::cpu_tree::CpuTree;
use crate::knob::TaskId;
use crate::policy::Policy;
use crate::systemd::Manager;
use millpond_machine::KnobError;
use millpond_model::{CpuSet, NodeSet};
use std::fmt::Debug;
use std::io;
use std::path::Path;

type Done = Result<(), KnobError>;

/// The operations that differ between the machine at hand and a captured one. Callers have checked that a task is the one that is meant.
pub(crate) trait Fs: Debug {
    /// Whether cgroups can be made and changed below `mount`.
    fn may_write_groups(&self, mount: &Path) -> Done;
    /// Writes a file in one call, as control files want it.
    fn write(&self, os: &Os, path: &Path, text: &str) -> Done;
    /// Makes a cgroup; one that exists is no error.
    fn make_group(&self, os: &Os, path: &str, dir: &Path) -> Done;
    /// Removes a cgroup that has no tasks and no children.
    fn remove_group(&self, os: &Os, dir: &Path) -> Done;
    /// A label of a cgroup.
    fn label(&self, os: &Os, dir: &Path, key: &str) -> Result<Option<String>, KnobError>;
    /// Sets or removes it.
    fn set_label(&self, os: &Os, dir: &Path, key: &str, value: Option<&str>) -> io::Result<()>;
    /// Moves a task into a cgroup.
    fn attach(&self, os: &Os, task: TaskId, path: &str) -> Done;
    /// The affinity mask of a thread within its cpuset.
    fn affinity(&self, os: &Os, task: TaskId) -> Result<CpuSet, KnobError>;
    /// The same with CPUs that are off-line.
    fn whole_affinity(&self, os: &Os, task: TaskId) -> Result<CpuSet, KnobError>;
    /// Sets it; `None` allows everything.
    fn set_affinity(&self, os: &Os, task: TaskId, mask: Option<&CpuSet>) -> Done;
    /// The affinity mask of the thread that asks, if it is one of this machine.
    fn own_affinity(&self, os: &Os) -> io::Result<Option<CpuSet>>;
    /// The scheduling policy that was set here and that `stat` does not show.
    fn kept_policy(&self, os: &Os, task: TaskId) -> Option<Policy>;
    /// Sets the scheduling policy of a thread.
    fn set_policy(&self, os: &Os, task: TaskId, to: Policy) -> Done;
    /// Moves the memory of a process to some nodes.
    fn move_pages(&self, os: &Os, task: TaskId, to: &NodeSet) -> Done;
    /// The CPUs that the tasks of a cgroup may use.
    fn effective(&self, os: &Os, path: &str) -> Result<CpuSet, KnobError>;
    /// Makes a group of resctrl.
    fn make_cache_group(&self, os: &Os, dir: &Path) -> io::Result<()>;
    /// Removes it: its CPUs go back to the group of all others.
    fn remove_cache_group(&self, os: &Os, dir: &Path) -> io::Result<()>;
    /// Makes a cgroup in the hierarchy of the CPU controller.
    fn make_cpu_group(&self, os: &Os, tree: &CpuTree, path: &str) -> io::Result<()>;
    /// Moves a process there.
    fn attach_cpu(&self, os: &Os, tree: &CpuTree, task: TaskId, path: &str) -> Done;
    /// What systemd is asked through.
    fn manager<'a>(&self, os: &'a Os) -> Result<Box<dyn Manager + 'a>, KnobError>;
}
