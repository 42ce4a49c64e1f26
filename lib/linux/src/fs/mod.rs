//! Effects of writing a machine's files. On a live root the kernel and systemd cause them. On a captured root, `captured`
//! emulates the few that keep the files consistent.

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

/// The operations that differ between a live and a captured root. Callers have checked the identity of a task (its start time).
pub(crate) trait Fs: Debug {
    /// Checks that cgroups can be created and changed below `mount`.
    fn may_write_groups(&self, mount: &Path) -> Done;
    /// Writes a file in a single call, as control files require.
    fn write(&self, os: &Os, path: &Path, text: &str) -> Done;
    /// Creates a cgroup. An existing one is not an error.
    fn make_group(&self, os: &Os, path: &str, dir: &Path) -> Done;
    /// Removes a cgroup without tasks and children.
    fn remove_group(&self, os: &Os, dir: &Path) -> Done;
    /// A label of a cgroup.
    fn label(&self, os: &Os, dir: &Path, key: &str) -> Result<Option<String>, KnobError>;
    /// Sets or removes a label.
    fn set_label(&self, os: &Os, dir: &Path, key: &str, value: Option<&str>) -> io::Result<()>;
    /// Moves a task into a cgroup.
    fn attach(&self, os: &Os, task: TaskId, path: &str) -> Done;
    /// The affinity mask of a thread, restricted to its cpuset.
    fn affinity(&self, os: &Os, task: TaskId) -> Result<CpuSet, KnobError>;
    /// The affinity mask including off-line CPUs.
    fn whole_affinity(&self, os: &Os, task: TaskId) -> Result<CpuSet, KnobError>;
    /// Sets the affinity mask; `None` allows all CPUs.
    fn set_affinity(&self, os: &Os, task: TaskId, mask: Option<&CpuSet>) -> Done;
    /// The affinity mask of the calling thread, if it belongs to this machine.
    fn own_affinity(&self, os: &Os) -> io::Result<Option<CpuSet>>;
    /// The scheduling policy that was set on this root, if `stat` does not show it.
    fn kept_policy(&self, os: &Os, task: TaskId) -> Option<Policy>;
    /// Sets the scheduling policy of a thread.
    fn set_policy(&self, os: &Os, task: TaskId, to: Policy) -> Done;
    /// Moves the memory of a process to the nodes `to`.
    fn move_pages(&self, os: &Os, task: TaskId, to: &NodeSet) -> Done;
    /// The CPUs that the tasks of a cgroup may use.
    fn effective(&self, os: &Os, path: &str) -> Result<CpuSet, KnobError>;
    /// Creates a resctrl group.
    fn make_cache_group(&self, os: &Os, dir: &Path) -> io::Result<()>;
    /// Removes a resctrl group. Its CPUs return to the default group.
    fn remove_cache_group(&self, os: &Os, dir: &Path) -> io::Result<()>;
    /// Creates a cgroup in the hierarchy of the CPU controller.
    fn make_cpu_group(&self, os: &Os, tree: &CpuTree, path: &str) -> io::Result<()>;
    /// Moves a process to a cgroup in that hierarchy.
    fn attach_cpu(&self, os: &Os, tree: &CpuTree, task: TaskId, path: &str) -> Done;
    /// The interface to systemd.
    fn manager<'a>(&self, os: &'a Os) -> Result<Box<dyn Manager + 'a>, KnobError>;
}
