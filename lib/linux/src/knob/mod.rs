//! The knobs of a Linux machine: meaning of the names and values in the journal.
//!
//! | text | what it is | value |
//! |---|---|---|
//! | `dir:/mpset1` | a cgroup of ours | `present` |
//! | `cg:/docker/cpuset.cpus`, `cg:…` | a file of the cpuset controller: see [`CpusetFile`] | its text; CPU and node lists in list form |
//! | `proc:irq/24/smp_affinity_list` | the affinity of an interrupt | a CPU list |
//! | `proc:irq/default_smp_affinity` | the default IRQ affinity | a CPU list |
//! | `sys:devices/virtual/workqueue/cpumask` | the unbound workqueue cpumask; below it that of one workqueue | a CPU list |
//! | `sys:class/net/eth0/queues/rx-0/rps_cpus` | an RPS or XPS mask | a CPU list |
//! | `sys:devices/system/cpu/cpu3/online` | the online state of a CPU | `0` or `1` |
//! | `sys:devices/system/cpu/cpu3/power/pm_qos_resume_latency_us` | limit for leaving an idle state | µs, `0` for none, `n/a` for no idle states |
//! | `sys:devices/system/cpu/cpu3/cpufreq/scaling_governor` | the frequency governor of a CPU | its name |
//! | `proc:sys/kernel/watchdog_cpumask` | the CPUs that the lockup detectors watch | a CPU list |
//! | `controller:/` | whether the cpuset controller is enabled below a cgroup | `on` |
//! | `label:/mpset1#set` | an extended attribute `user.millpond.set` | its text |
//! | `place:204@8123` | the cgroup of a process (with its start time); `place:204/205@8123` of one thread | a path |
//! | `mask:204/205@8123` | the affinity mask of a thread | a CPU list, or `all` when it equals its cpuset |
//! | `kthread:17/17@3` | the affinity mask of a kernel thread | a CPU list, or `all` when it has every on-line CPU |
//! | `policy:204/205@8123` | the scheduling policy of a thread | `other -3`, `rr 11`: see `policy` |
//! | `class:204/205@8123` | the class of a thread; without a value, that of its policy | `FX 10 5 20`: [`ClassParams`](millpond_model::ClassParams) |
//! | `table:TS` | a dispatch table of that scheduler | its rows in ticks: see `classes` |
//! | `unit:/mpset1.slice` | the transient systemd slice of that cgroup | `present` |
//! | `allowed:/system.slice` | the property `AllowedCPUs` of the unit of that cgroup | a CPU list |
//! | `memory:/mpset1.slice` | the property `AllowedMemoryNodes` of the unit of that cgroup | a node list |
//! | `weight:/batch`, `quota:/batch` | CPU weight and quota of a cgroup: see `controls` | a weight or `idle`; `150000 100000` |
//! | `cpu-controller:/` | whether the CPU controller is enabled below a cgroup | `on` |
//! | `cpu-group:/mpcap-204` | a cgroup of ours in the hierarchy of the CPU controller | `present` |
//! | `cpu-place:204@8123` | the cgroup of a process in that hierarchy | a path |
//! | `pages:204@8123` | the nodes to which the memory of a process was moved; write-only | a node list |
//! | `kept:nginx.service` | our drop-in for a unit of systemd | the slice in which it starts |
//! | `irqbalance:banned` | the CPUs that the daemon irqbalance leaves alone | a CPU list |
//! | `osnoise:timerlat_period_us` | a setting of osnoise and timerlat; a name in capitals is an option | its text; for an option `on` or `off` |
//! | `tracer:millpond-204` | a trace instance of ours for timerlat | `timerlat` |
//! | `record:processor.3` | a record in the state directory | its text |
//!
//! A value of `None` resets: an empty list, `member`, no attribute, no record, no directory.

mod control_file;
#[cfg(test)]
mod tests;

pub(crate) use control_file::RESCTRL;
pub use control_file::{ControlFile, CpusetFile, PacketMask, Resource};

use millpond_machine::{Knob, KnobError, Value};
use millpond_model::{Class, CpuSet, NodeSet};
use std::fmt;
use std::str::FromStr;

/// A process or thread, with its start time, so that a reused id is not mistaken for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    /// The process id.
    pub pid: u32,
    /// The thread id; `None` for the whole process.
    pub tid: Option<u32>,
    /// Start time of that thread (of the leader for a process), in clock ticks since boot.
    pub start: u64,
}

impl TaskId {
    /// The thread id whose files represent this task.
    #[must_use]
    pub fn leader(self) -> u32 {
        self.tid.unwrap_or(self.pid)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tid {
            None => write!(f, "{}@{}", self.pid, self.start),
            Some(tid) => write!(f, "{}/{tid}@{}", self.pid, self.start),
        }
    }
}

impl FromStr for TaskId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (task, start) = text.split_once('@').ok_or(())?;
        let (pid, tid) = match task.split_once('/') {
            Some((pid, tid)) => (pid, Some(tid.parse().map_err(|_| ())?)),
            None => (task, None),
        };
        Ok(TaskId { pid: pid.parse().map_err(|_| ())?, tid, start: start.parse().map_err(|_| ())? })
    }
}

/// A label of ours on a cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Label {
    /// The requested attributes of a set.
    Set,
    /// The original cgroup of the tasks in a leaf.
    Origin,
}

impl Label {
    /// The last part of the attribute's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Label::Set => "set",
            Label::Origin => "origin",
        }
    }
}

/// A knob of this machine. Paths of cgroups begin with `/`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinuxKnob {
    /// A cgroup directory of ours.
    Cgroup(String),
    /// A control file.
    File(ControlFile),
    /// Whether the cpuset controller is enabled below a cgroup (version 2).
    CpusetController(String),
    /// An extended attribute of a cgroup.
    Label(String, Label),
    /// The cgroup of a task.
    CgroupOf(TaskId),
    /// The affinity mask of a thread.
    Affinity(TaskId),
    /// The affinity mask of a kernel thread.
    KernelThread(TaskId),
    /// The scheduling policy of a thread.
    Policy(TaskId),
    /// The class of a thread, by the scheduler of the classes.
    ClassOf(TaskId),
    /// A dispatch table of that scheduler.
    DispatchTable(Class),
    /// A transient slice of systemd.
    Slice(String),
    /// The allowed CPUs of a unit of systemd.
    AllowedCpus(String),
    /// The allowed memory nodes of a unit of systemd.
    AllowedMemoryNodes(String),
    /// The CPU weight of a cgroup.
    Weight(String),
    /// The CPU quota of a cgroup.
    Quota(String),
    /// Whether the CPU controller is enabled below a cgroup (version 2).
    CpuController(String),
    /// A cgroup of ours in the hierarchy of the CPU controller.
    CpuCgroup(String),
    /// The cgroup of a process in that hierarchy.
    CpuCgroupOf(TaskId),
    /// The nodes that the memory of a process was moved to.
    MemoryOf(TaskId),
    /// The slice in which a unit of systemd starts, by our drop-in.
    UnitSlice(String),
    /// The CPUs that irqbalance leaves alone.
    IrqbalanceBanned,
    /// A resctrl group: the directory of that name.
    CacheGroup(String),
    /// A setting of the tracers osnoise and timerlat.
    OsnoiseSetting(String),
    /// A trace instance of ours for timerlat.
    TraceInstance(String),
    /// A record in the state directory.
    Record(String),
}

impl LinuxKnob {
    /// The knob's text in the journal.
    #[must_use]
    pub fn knob(&self) -> Knob {
        Knob(match self {
            LinuxKnob::Cgroup(path) => format!("dir:{path}"),
            LinuxKnob::File(file) => {
                let (tree, path) = file.text();
                format!("{tree}:{path}")
            }
            LinuxKnob::CpusetController(path) => format!("controller:{path}"),
            LinuxKnob::Label(path, label) => format!("label:{path}#{}", label.name()),
            LinuxKnob::CgroupOf(task) => format!("place:{task}"),
            LinuxKnob::Affinity(task) => format!("mask:{task}"),
            LinuxKnob::KernelThread(task) => format!("kthread:{task}"),
            LinuxKnob::Policy(task) => format!("policy:{task}"),
            LinuxKnob::ClassOf(task) => format!("class:{task}"),
            LinuxKnob::DispatchTable(class) => format!("table:{class}"),
            LinuxKnob::Slice(path) => format!("unit:{path}"),
            LinuxKnob::AllowedCpus(path) => format!("allowed:{path}"),
            LinuxKnob::AllowedMemoryNodes(path) => format!("memory:{path}"),
            LinuxKnob::Weight(path) => format!("weight:{path}"),
            LinuxKnob::Quota(path) => format!("quota:{path}"),
            LinuxKnob::CpuController(path) => format!("cpu-controller:{path}"),
            LinuxKnob::CpuCgroup(path) => format!("cpu-group:{path}"),
            LinuxKnob::CpuCgroupOf(task) => format!("cpu-place:{task}"),
            LinuxKnob::MemoryOf(task) => format!("pages:{task}"),
            LinuxKnob::UnitSlice(unit) => format!("kept:{unit}"),
            LinuxKnob::IrqbalanceBanned => "irqbalance:banned".to_owned(),
            LinuxKnob::CacheGroup(name) => format!("cache-group:{name}"),
            LinuxKnob::OsnoiseSetting(name) => format!("osnoise:{name}"),
            LinuxKnob::TraceInstance(instance) => format!("tracer:{instance}"),
            LinuxKnob::Record(name) => format!("record:{name}"),
        })
    }

    /// The inverse of [`LinuxKnob::knob`].
    ///
    /// # Errors
    /// [`KnobError::Unknown`] for every text that [`LinuxKnob::knob`] does not write.
    pub fn parse(knob: &Knob) -> Result<LinuxKnob, KnobError> {
        let parsed = knob.0.split_once(':').and_then(|(kind, rest)| Self::parse_kind(kind, rest));
        // A text with another spelling of the same knob is refused.
        parsed.filter(|parsed| parsed.knob() == *knob).ok_or_else(|| KnobError::Unknown(knob.0.clone()))
    }

    /// A journal is a file and untrusted: no text may lead out of the tree that its kind names.
    fn parse_kind(kind: &str, rest: &str) -> Option<LinuxKnob> {
        let cgroup = || is_cgroup(rest).then(|| rest.to_owned());
        let file_name = || is_file_name(rest).then(|| rest.to_owned());
        let word = || is_word(rest).then(|| rest.to_owned());
        let task = || rest.parse().ok();
        match kind {
            "dir" => cgroup().map(LinuxKnob::Cgroup),
            "cg" | "proc" | "sys" => ControlFile::parse(kind, rest).map(LinuxKnob::File),
            "controller" => cgroup().map(LinuxKnob::CpusetController),
            "label" => {
                let (path, name) = rest.rsplit_once('#')?;
                let label = [Label::Set, Label::Origin].into_iter().find(|label| label.name() == name)?;
                is_cgroup(path).then(|| LinuxKnob::Label(path.to_owned(), label))
            }
            "place" => task().map(LinuxKnob::CgroupOf),
            "mask" => task().map(LinuxKnob::Affinity),
            "kthread" => task().map(LinuxKnob::KernelThread),
            "policy" => task().map(LinuxKnob::Policy),
            "class" => task().map(LinuxKnob::ClassOf),
            "table" => rest.parse().ok().map(LinuxKnob::DispatchTable),
            "unit" => cgroup().map(LinuxKnob::Slice),
            "allowed" => cgroup().map(LinuxKnob::AllowedCpus),
            "memory" => cgroup().map(LinuxKnob::AllowedMemoryNodes),
            "weight" => cgroup().map(LinuxKnob::Weight),
            "quota" => cgroup().map(LinuxKnob::Quota),
            "cpu-controller" => cgroup().map(LinuxKnob::CpuController),
            "cpu-group" => cgroup().map(LinuxKnob::CpuCgroup),
            "cpu-place" => task().map(LinuxKnob::CpuCgroupOf),
            "pages" => task().map(LinuxKnob::MemoryOf),
            "kept" => file_name().map(LinuxKnob::UnitSlice),
            "cache-group" => file_name().map(LinuxKnob::CacheGroup),
            "irqbalance" => (rest == "banned").then_some(LinuxKnob::IrqbalanceBanned),
            "osnoise" => word().map(LinuxKnob::OsnoiseSetting),
            "tracer" => word().map(LinuxKnob::TraceInstance),
            "record" => file_name().map(LinuxKnob::Record),
            _ => None,
        }
    }

    /// The process or thread of the knob, if it has one.
    pub(crate) fn task(&self) -> Option<TaskId> {
        match self {
            LinuxKnob::CgroupOf(task)
            | LinuxKnob::Affinity(task)
            | LinuxKnob::KernelThread(task)
            | LinuxKnob::Policy(task)
            | LinuxKnob::ClassOf(task)
            | LinuxKnob::CpuCgroupOf(task)
            | LinuxKnob::MemoryOf(task) => Some(*task),
            _ => None,
        }
    }
}

/// Whether a text is the path of a cgroup without `..`.
fn is_cgroup(path: &str) -> bool {
    path.starts_with('/') && !path.contains('\0') && path.split('/').all(|part| part != "..")
}

/// Whether a text is the name of a single, visible file.
fn is_file_name(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('.') && !text.contains(['/', '\0'])
}

/// Whether a text is a word, which is safe as a file name.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
}

/// The value for memory nodes; `None` for an empty set.
pub(crate) fn node_list(nodes: &NodeSet) -> Option<Value> {
    (!nodes.is_empty()).then(|| nodes.to_string())
}

/// The value for CPUs; `None` for an empty set.
pub(crate) fn list_value(cpus: &CpuSet) -> Option<Value> {
    (!cpus.is_empty()).then(|| cpus.to_string())
}
