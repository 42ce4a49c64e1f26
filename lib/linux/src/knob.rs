//! The knobs of a Linux machine: what the texts in the journal mean.
//!
//! | text | what it is | value |
//! |---|---|---|
//! | `dir:/mpset1` | a cgroup of ours | `present` |
//! | `cg:/docker/cpuset.cpus` | a control file of the cpuset hierarchy | its text; CPU and node lists in list form |
//! | `proc:irq/24/smp_affinity_list`, `sys:…` | a file of procfs or sysfs | the same |
//! | `controller:/` | whether the cpuset controller is enabled below a cgroup | `on` |
//! | `label:/mpset1#set` | an extended attribute `user.millpond.set` | its text |
//! | `place:204@8123` | the cgroup of a process (with its start time); `place:204/205@8123` of one thread | a path |
//! | `mask:204/205@8123` | the affinity mask of a thread | a CPU list, or `all` when it equals its cpuset |
//! | `policy:204/205@8123` | how the kernel schedules a thread | `other -3`, `rr 11`: see `policy` |
//! | `unit:/mpset1.slice` | the transient slice of systemd whose cgroup that is | `present` |
//! | `allowed:/system.slice` | the property `AllowedCPUs` of the unit whose cgroup that is | a CPU list |
//! | `memory:/mpset1.slice` | the property `AllowedMemoryNodes` of the unit whose cgroup that is | a node list |
//! | `weight:/batch`, `quota:/batch` | what a cgroup gets of CPU time: see `controls` | a weight or `idle`; `150000 100000` |
//! | `cpu-controller:/` | whether the CPU controller is enabled below a cgroup | `on` |
//! | `cpu-group:/mpcap-204` | a cgroup of ours in the hierarchy of the CPU controller | `present` |
//! | `cpu-place:204@8123` | the cgroup of a process in that hierarchy | a path |
//! | `pages:204@8123` | where the memory of a process was moved; it reads as nothing, for that is no state | a node list |
//! | `kept:nginx.service` | our drop-in for a unit of systemd | the slice that it starts in |
//! | `irqbalance:banned` | the processors that the daemon irqbalance leaves alone | a CPU list |
//! | `osnoise:timerlat_period_us` | a setting of the tracers osnoise and timerlat; one in capitals is an option | its text; of an option `on` or `off` |
//! | `tracer:millpond-204` | a trace instance of ours, in which timerlat runs | `timerlat` |
//! | `record:processor.3` | a record in the state directory | its text |
//!
//! A value of `None` resets: an empty list, `member`, no attribute, no record, no directory.

use crate::Os;
use millpond_machine::{Knob, KnobError, Value};
use millpond_model::CpuSet;
use std::fmt;
use std::str::FromStr;

/// A tree of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tree {
    /// The cpuset hierarchy.
    Cgroup,
    /// procfs.
    Proc,
    /// sysfs.
    Sys,
}

impl Tree {
    fn word(self) -> &'static str {
        match self {
            Tree::Cgroup => "cg",
            Tree::Proc => "proc",
            Tree::Sys => "sys",
        }
    }
}

/// A process or thread that cannot be mistaken for a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    /// The process.
    pub pid: u32,
    /// The thread; `None` for the process as a whole.
    pub tid: Option<u32>,
    /// Start time of that thread (of the leader for a process), in clock ticks since boot.
    pub start: u64,
}

impl TaskId {
    /// The thread whose files stand for this task.
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

/// A knob of this machine. Paths begin with `/` in the cpuset hierarchy and without elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinuxKnob {
    /// A cgroup directory.
    Dir(String),
    /// A file.
    File(Tree, String),
    /// The cpuset controller below a cgroup (v2).
    Controller(String),
    /// An extended attribute of a cgroup.
    Label(String, String),
    /// Where a task is.
    Place(TaskId),
    /// A thread's affinity mask.
    Mask(TaskId),
    /// How a thread is scheduled.
    Policy(TaskId),
    /// A transient slice of systemd.
    Unit(String),
    /// The processors that a unit of systemd is allowed.
    Allowed(String),
    /// The memory nodes that a unit of systemd is allowed.
    AllowedMemory(String),
    /// The weight of a cgroup.
    Weight(String),
    /// The quota of a cgroup.
    Quota(String),
    /// The CPU controller below a cgroup (version 2).
    CpuController(String),
    /// A cgroup of ours in the hierarchy of the CPU controller.
    CpuGroup(String),
    /// Where a process is in that hierarchy.
    CpuPlace(TaskId),
    /// Where the memory of a process is moved.
    Pages(TaskId),
    /// The slice in which a unit of systemd starts, by our drop-in.
    Kept(String),
    /// The processors that irqbalance leaves alone.
    Balancer,
    /// A setting of the tracers osnoise and timerlat.
    Osnoise(String),
    /// A trace instance in which timerlat runs.
    Tracer(String),
    /// A record in the state directory.
    Record(String),
}

impl LinuxKnob {
    /// As the journal writes it.
    #[must_use]
    pub fn knob(&self) -> Knob {
        Knob(match self {
            LinuxKnob::Dir(path) => format!("dir:{path}"),
            LinuxKnob::File(tree, path) => format!("{}:{path}", tree.word()),
            LinuxKnob::Controller(path) => format!("controller:{path}"),
            LinuxKnob::Label(path, key) => format!("label:{path}#{key}"),
            LinuxKnob::Place(task) => format!("place:{task}"),
            LinuxKnob::Mask(task) => format!("mask:{task}"),
            LinuxKnob::Policy(task) => format!("policy:{task}"),
            LinuxKnob::Unit(path) => format!("unit:{path}"),
            LinuxKnob::Allowed(path) => format!("allowed:{path}"),
            LinuxKnob::AllowedMemory(path) => format!("memory:{path}"),
            LinuxKnob::Weight(path) => format!("weight:{path}"),
            LinuxKnob::Quota(path) => format!("quota:{path}"),
            LinuxKnob::CpuController(path) => format!("cpu-controller:{path}"),
            LinuxKnob::CpuGroup(path) => format!("cpu-group:{path}"),
            LinuxKnob::CpuPlace(task) => format!("cpu-place:{task}"),
            LinuxKnob::Pages(task) => format!("pages:{task}"),
            LinuxKnob::Kept(unit) => format!("kept:{unit}"),
            LinuxKnob::Balancer => "irqbalance:banned".to_owned(),
            LinuxKnob::Osnoise(name) => format!("osnoise:{name}"),
            LinuxKnob::Tracer(instance) => format!("tracer:{instance}"),
            LinuxKnob::Record(name) => format!("record:{name}"),
        })
    }

    /// The inverse of [`LinuxKnob::knob`].
    ///
    /// # Errors
    /// [`KnobError::Unknown`].
    pub fn parse(knob: &Knob) -> Result<LinuxKnob, KnobError> {
        let unknown = || KnobError::Unknown(knob.0.clone());
        let (kind, rest) = knob.0.split_once(':').ok_or_else(unknown)?;
        // A journal is a file: no text in it leads out of the tree that its kind names.
        let names_file = match kind {
            "proc" => rest.starts_with("irq/") && stays_within(rest),
            "sys" => PLACES_OF_SYS.iter().any(|place| rest.starts_with(place)) && stays_within(rest),
            "dir" | "cg" | "controller" | "unit" | "allowed" | "memory" | "label" | "weight" | "quota"
            | "cpu-controller" | "cpu-group" => rest.starts_with('/') && stays_within(rest),
            "record" | "kept" => is_file_name(rest),
            _ => true,
        };
        if !names_file {
            return Err(unknown());
        }
        Ok(match kind {
            "dir" => LinuxKnob::Dir(rest.to_owned()),
            "cg" => LinuxKnob::File(Tree::Cgroup, rest.to_owned()),
            "proc" => LinuxKnob::File(Tree::Proc, rest.to_owned()),
            "sys" => LinuxKnob::File(Tree::Sys, rest.to_owned()),
            "controller" => LinuxKnob::Controller(rest.to_owned()),
            "label" => {
                let (path, key) = rest.rsplit_once('#').ok_or_else(unknown)?;
                LinuxKnob::Label(path.to_owned(), key.to_owned())
            }
            "place" => LinuxKnob::Place(rest.parse().map_err(|()| unknown())?),
            "mask" => LinuxKnob::Mask(rest.parse().map_err(|()| unknown())?),
            "policy" => LinuxKnob::Policy(rest.parse().map_err(|()| unknown())?),
            "unit" => LinuxKnob::Unit(rest.to_owned()),
            "allowed" => LinuxKnob::Allowed(rest.to_owned()),
            "memory" => LinuxKnob::AllowedMemory(rest.to_owned()),
            "weight" => LinuxKnob::Weight(rest.to_owned()),
            "quota" => LinuxKnob::Quota(rest.to_owned()),
            "cpu-controller" => LinuxKnob::CpuController(rest.to_owned()),
            "cpu-group" => LinuxKnob::CpuGroup(rest.to_owned()),
            "cpu-place" => LinuxKnob::CpuPlace(rest.parse().map_err(|()| unknown())?),
            "pages" => LinuxKnob::Pages(rest.parse().map_err(|()| unknown())?),
            "kept" => LinuxKnob::Kept(rest.to_owned()),
            "irqbalance" if rest == "banned" => LinuxKnob::Balancer,
            // Names of files: none of them leads elsewhere.
            "osnoise" if is_name(rest) => LinuxKnob::Osnoise(rest.to_owned()),
            "tracer" if is_name(rest) => LinuxKnob::Tracer(rest.to_owned()),
            "record" => LinuxKnob::Record(rest.to_owned()),
            _ => return Err(unknown()),
        })
    }
}

impl LinuxKnob {
    /// The process or thread that the knob belongs to, if it is one's.
    pub(crate) fn task(&self) -> Option<TaskId> {
        match self {
            LinuxKnob::Place(task)
            | LinuxKnob::Mask(task)
            | LinuxKnob::Policy(task)
            | LinuxKnob::CpuPlace(task)
            | LinuxKnob::Pages(task) => Some(*task),
            _ => None,
        }
    }
}

/// Where in sysfs there are files that we change: online states, unbound workqueues, RPS/XPS masks.
const PLACES_OF_SYS: [&str; 3] = ["devices/system/cpu/", "devices/virtual/workqueue/", "class/net/"];

/// Whether a path below a tree leads nowhere else.
fn stays_within(path: &str) -> bool {
    !path.contains('\0') && path.split('/').all(|part| part != "..")
}

/// Whether a text is the name of one file that is not hidden.
fn is_file_name(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('.') && !text.contains(['/', '\0'])
}

/// Whether a text is a word.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
}

/// The written form of a file's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A CPU or node list.
    List,
    /// A hexadecimal mask in the file, a list in the value.
    Mask,
    /// Text as it is.
    Text,
}

/// Which form a control file has, by its name.
pub(crate) fn form(path: &str) -> Form {
    match path.rsplit('/').next().unwrap_or(path) {
        "cpuset.cpus" | "cpuset.mems" | "cpuset.cpus.exclusive" | "smp_affinity_list" => Form::List,
        "default_smp_affinity" | "cpumask" | "rps_cpus" | "xps_cpus" => Form::Mask,
        _ => Form::Text,
    }
}

/// Brings the text of a file into its one spelling; `None` for what resetting gives.
pub(crate) fn canonical(path: &str, text: &str) -> Option<Value> {
    let set = match form(path) {
        Form::List => text.parse::<CpuSet>().ok(),
        Form::Mask => CpuSet::from_mask(text).ok(),
        Form::Text => None,
    };
    match set {
        Some(set) if set.is_empty() => None,
        Some(set) => Some(set.to_string()),
        None if path.ends_with("cpuset.memory_migrate") && text == "0" => None,
        None if text.is_empty() || (path.ends_with(".partition") && text == "member") => None,
        None => Some(text.to_owned()),
    }
}

/// The value of a knob that holds processors; none of them is no value.
pub(crate) fn list_value(cpus: &CpuSet) -> Option<Value> {
    (!cpus.is_empty()).then(|| cpus.to_string())
}

/// The text to write into a file for a value.
pub(crate) fn written(os: &Os, path: &str, value: Option<&Value>) -> String {
    let Some(value) = value else {
        return match path {
            path if path.ends_with(".partition") => "member".to_owned(),
            path if path.ends_with("cpuset.memory_migrate") => "0".to_owned(),
            _ => "\n".to_owned(),
        };
    };
    match form(path) {
        Form::Mask => {
            let set: CpuSet = value.parse().unwrap_or_default();
            set.to_mask(os.width())
        }
        Form::List | Form::Text => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_task() -> impl Strategy<Value = TaskId> {
        (1u32..99999, proptest::option::of(1u32..99999), 0u64..u64::MAX / 2)
            .prop_map(|(pid, tid, start)| TaskId { pid, tid, start })
    }

    fn any_knob() -> impl Strategy<Value = LinuxKnob> {
        let path = "(/[a-z+@#:0-9-][a-z+@.#:0-9-]{0,11}){1,3}";
        prop_oneof![
            path.prop_map(LinuxKnob::Dir),
            Just(LinuxKnob::Balancer),
            path.prop_map(|p| LinuxKnob::File(Tree::Cgroup, p)),
            path.prop_map(|p| LinuxKnob::File(Tree::Proc, format!("irq{p}"))),
            path.prop_map(|p| LinuxKnob::File(Tree::Sys, format!("devices/system/cpu{p}"))),
            path.prop_map(LinuxKnob::Controller),
            path.prop_map(LinuxKnob::Unit),
            path.prop_map(LinuxKnob::Allowed),
            path.prop_map(LinuxKnob::AllowedMemory),
            path.prop_map(LinuxKnob::Weight),
            path.prop_map(LinuxKnob::Quota),
            path.prop_map(LinuxKnob::CpuController),
            path.prop_map(LinuxKnob::CpuGroup),
            any_task().prop_map(LinuxKnob::CpuPlace),
            any_task().prop_map(LinuxKnob::Pages),
            "[a-z@-][a-z@.-]{0,11}".prop_map(LinuxKnob::Kept),
            (path, "[a-z]{1,8}").prop_map(|(p, k)| LinuxKnob::Label(p, k)),
            any_task().prop_map(LinuxKnob::Place),
            any_task().prop_map(LinuxKnob::Mask),
            any_task().prop_map(LinuxKnob::Policy),
            "[A-Z_a-z]{1,12}".prop_map(LinuxKnob::Osnoise),
            "millpond-[0-9]{1,6}".prop_map(LinuxKnob::Tracer),
            "[a-z0-9][a-z.0-9]{0,11}".prop_map(LinuxKnob::Record),
        ]
    }

    #[test]
    fn fuzz_knobs() {
        let seeds = [
            "dir:/mpset1",
            "cg:/docker/cpuset.cpus",
            "proc:irq/24/smp_affinity_list",
            "label:/mpset1#set",
            "place:204/205@8123",
            "mask:204@8123",
        ];
        millpond_fuzz::check_text("linux-knobs", &seeds, |text| {
            if let Ok(knob) = LinuxKnob::parse(&Knob(text.to_owned())) {
                assert_eq!(LinuxKnob::parse(&knob.knob()), Ok(knob));
            }
            // A value in its one spelling stays as it is.
            for path in ["/a/cpuset.cpus", "irq/default_smp_affinity", "/a/cpuset.cpus.partition"] {
                let once = canonical(path, text);
                if form(path) != Form::Mask {
                    assert_eq!(once.as_deref().and_then(|value| canonical(path, value)), once, "{path}");
                }
            }
        });
    }

    proptest! {
        #[test]
        fn every_knob_survives_the_journal(knob in any_knob()) {
            prop_assert_eq!(LinuxKnob::parse(&knob.knob()), Ok(knob));
        }

        #[test]
        fn parsing_any_text_never_panics(text in ".{0,30}") {
            let _ = LinuxKnob::parse(&Knob(text));
        }
    }

    #[test]
    fn no_knob_of_a_journal_leads_out_of_its_tree() {
        for text in [
            "record:../../home/u/.profile",
            "record:a/b",
            "record:..",
            "record:.hidden",
            "record:",
            "kept:../../../etc/x",
            "proc:../etc/passwd",
            "proc:/etc/passwd",
            "proc:irq/../../etc/passwd",
            "proc:self/root/etc/passwd",
            "proc:sys/kernel/core_pattern",
            "sys:/etc/passwd",
            "sys:devices/system/cpu/../../../../etc/passwd",
            "sys:kernel/../../etc/passwd",
            "sys:kernel/debug/x",
            "cg:/../../../etc/passwd",
            "cg:etc/passwd",
            "dir:/../x",
            "controller:/a/../../x",
            "label:/../x#set",
            "unit:/../x",
            "allowed:/../x",
            "memory:/../x",
            "osnoise:../x",
            "tracer:../x",
        ] {
            let knob = Knob(text.to_owned());
            assert_eq!(LinuxKnob::parse(&knob), Err(KnobError::Unknown(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn equal_values_have_one_spelling() {
        assert_eq!(canonical("/a/cpuset.cpus", "0,1,2,5"), Some("0-2,5".into()));
        assert_eq!(canonical("irq/default_smp_affinity", "f"), Some("0-3".into()));
        assert_eq!(canonical("/a/cpuset.cpus", ""), None);
        assert_eq!(canonical("/a/cpuset.cpus.partition", "member"), None);
        assert_eq!(canonical("/a/cpuset.cpus.partition", "root invalid"), Some("root invalid".into()));
    }
}
