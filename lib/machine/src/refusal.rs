//! Refusals: one type for all machines, so that all refuse with the same texts.
//!
//! A command prints its own verb first, `psrset: cannot assign processor 7: `, and then the reason. If there is a remedy, it follows on its
//! own line, `hint: …`.

use millpond_model::{ControlHolder, CpuId, CpuSet, FenceName, Lwp, Pid, PoolId, PsetId, State};
use std::fmt;

/// The object that a refusal concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// The operation as a whole.
    Operation,
    /// One CPU.
    Processor(CpuId),
    /// One set.
    Pset(PsetId),
    /// One process.
    Process(Pid),
    /// One thread.
    Thread(Lwp),
    /// A zone, by name.
    Zone(String),
    /// A pool.
    Pool(PoolId),
    /// A project, by name. (Boxed: a second `String` would make every refusal larger.)
    Project(Box<str>),
}

impl From<&ControlHolder> for Subject {
    fn from(holder: &ControlHolder) -> Self {
        match holder {
            ControlHolder::Project(name) => Subject::Project(name.as_str().into()),
            ControlHolder::Zone(name) => Subject::Zone(name.clone()),
            ControlHolder::Process(pid) => Subject::Process(*pid),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Operation => f.write_str("the machine"),
            Subject::Processor(cpu) => write!(f, "CPU {cpu}"),
            Subject::Pset(id) => write!(f, "processor set {id}"),
            Subject::Process(pid) => write!(f, "process {pid}"),
            Subject::Thread(lwp) => write!(f, "thread {lwp}"),
            Subject::Zone(name) => write!(f, "zone {name}"),
            Subject::Pool(id) => write!(f, "pool {id}"),
            Subject::Project(name) => write!(f, "project {name}"),
        }
    }
}

/// The reason, as the second half of a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// No CPU of this machine has the number.
    #[error("there is no such CPU (this machine has {present})")]
    NoSuchProcessor {
        /// The existing CPUs.
        present: CpuSet,
    },
    /// One CPU was named more than once.
    #[error("it is named twice")]
    NamedTwice,
    /// No set has the number.
    #[error("there is no such processor set")]
    NoSuchPset,
    /// The default set cannot be changed by number.
    #[error("set 0 is the default set, which holds whatever is in no other")]
    DefaultPset,
    /// The default set must keep a CPU for system threads.
    #[error("it is the last one in the default set")]
    LastOfDefault,
    /// A set with bound threads must keep a CPU.
    #[error("it is the last one in set {0}, and threads are bound to that set")]
    LastOfBusy(PsetId),
    /// The CPU is not active.
    #[error("it is {0}")]
    NotActive(State),
    /// Threads cannot run in a set without active CPUs.
    #[error("set {0} is empty")]
    EmptyPset(PsetId),
    /// No such process.
    #[error("there is no such process")]
    NoSuchProcess,
    /// No such thread.
    #[error("there is no such thread in the process")]
    NoSuchLwp,
    /// The process ended during the operation.
    #[error("it exited meanwhile")]
    ExitedMeanwhile,
    /// Kernel threads cannot be bound.
    #[error("it is a kernel thread")]
    KernelThread,
    /// The threads are bound to a CPU elsewhere.
    #[error("it is bound to CPU {cpu}, which is not in set {set}")]
    BoundElsewhere {
        /// The CPU that the threads are bound to.
        cpu: CpuId,
        /// The requested set.
        set: PsetId,
    },
    /// The CPU and the thread are in different sets.
    #[error("CPU {cpu} is in set {of}, the thread in set {thread}")]
    ProcessorInOtherPset {
        /// The CPU.
        cpu: CpuId,
        /// Its set.
        of: PsetId,
        /// The thread's set.
        thread: PsetId,
    },
    /// On this machine the threads of a process share a set.
    #[error("its process is in set {0}")]
    ProcessInPset(PsetId),
    /// Threads are bound to the CPU.
    #[error("{} bound to it: {}", if .0.len() == 1 { "a thread is" } else { "threads are" }, list(.0))]
    BoundThreads(Vec<Lwp>),
    /// The last on-line CPU of the machine.
    #[error("it is the last one on-line")]
    LastOnline,
    /// The last on-line CPU of a set.
    #[error("it is the last one on-line in set {0}")]
    LastOnlineOf(PsetId),
    /// The last CPU that takes interrupts.
    #[error("it is the last one that takes interrupts")]
    LastInterruptible,
    /// A faulted CPU needs force.
    #[error("it is faulted")]
    NeedsForce,
    /// The rules do not allow this change of state.
    #[error("a CPU that is {from} cannot become {to}")]
    Transition {
        /// The present state.
        from: State,
        /// The requested state.
        to: State,
    },
    /// The limit of the machine.
    #[error("no more than {0} sets are possible")]
    TooManySets(usize),
    /// A named group of processes that does not exist.
    #[error("there is no such zone")]
    NoSuchZone,
    /// The project does not exist.
    #[error("there is no such project")]
    NoSuchProject,
    /// Pools own the sets while they are enabled.
    #[error("pools are enabled, and sets are theirs")]
    PoolsEnabled,
    /// Pools are disabled.
    #[error("pools are not enabled")]
    PoolsDisabled,
    /// There are sets that no pool created.
    #[error("there are processor sets already: {}", sets(.0))]
    PsetsExist(Vec<PsetId>),
    /// The name of a fence is in use.
    #[error("there is a fence {name} already: {}", .cpus.named())]
    FenceExists {
        /// Its name.
        name: FenceName,
        /// Its CPUs.
        cpus: CpuSet,
    },
    /// The fence does not exist.
    #[error("there is no fence {name}{}", standing(.names))]
    NoSuchFence {
        /// The name.
        name: FenceName,
        /// The existing fences.
        names: Vec<FenceName>,
    },
    /// The device does not exist.
    #[error("there is no device {name}")]
    NoSuchDevice {
        /// The name.
        name: String,
    },
    /// The device is not on a bus: the machine does not report the CPUs close to it.
    #[error("{name} is on no bus, and near no CPU")]
    DeviceNowhere {
        /// Its name.
        name: String,
    },
    /// The set is a fence, and can only be changed as a whole.
    #[error("it belongs to fence {0}")]
    IsFence(FenceName),
    /// The CPU is in a partition of another program, which becomes invalid without its last CPU.
    #[error("it belongs to the partition of {0}, which another program made")]
    InPartition(String),
    /// The CPU is in an exclusive cpuset (cgroup version 1) of another program.
    #[error("it belongs to the exclusive cpuset of {0}, which another program made")]
    InCpuset(String),
    /// No pool has the number.
    #[error("there is no such pool")]
    NoSuchPool,
    /// A required program is not running.
    #[error("{0}")]
    NotStarted(String),
    /// Permission is missing.
    #[error("permission denied")]
    NotPermitted,
    /// The target is read-only.
    #[error("{0} is read-only")]
    ReadOnly(String),
    /// Another writer is active.
    #[error("another change is under way{}", .0.as_ref().map(|h| format!(" ({h})")).unwrap_or_default())]
    Busy(Option<Holder>),
    /// The journal cannot be written, so nothing was changed.
    #[error("the journal cannot be written: {0}")]
    Journal(String),
    /// A value differs from the one that Millpond wrote.
    #[error("{what} was changed by another program: it is `{is}`, not `{expected}`")]
    Foreign {
        /// The knob.
        what: String,
        /// Its present value.
        is: String,
        /// Its expected value.
        expected: String,
    },
    /// Another manager owns the sub-tree.
    #[error("it is managed by {0}")]
    ManagedElsewhere(String),
    /// The machine refused a step with a text of its own.
    #[error("{0}")]
    Machine(String),
    /// The machine does not have it.
    #[error("{0}")]
    Absent(crate::Absent),
}

/// The process that is changing the machine: `process 812: create processor set 1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The process.
    pub pid: Pid,
    /// Its operation, if it has reported one.
    pub what: Option<String>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)?;
        self.what.as_ref().map_or(Ok(()), |what| write!(f, ": {what}"))
    }
}

fn sets(ids: &[PsetId]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn standing(names: &[FenceName]) -> String {
    let names: Vec<&str> = names.iter().map(FenceName::as_str).collect();
    if names.is_empty() { ": none stands".to_owned() } else { format!(": there is {}", names.join(", ")) }
}

fn list(lwps: &[Lwp]) -> String {
    let mut text: Vec<String> = lwps.iter().take(4).map(ToString::to_string).collect();
    if lwps.len() > text.len() {
        text.push(format!("{} more", lwps.len() - text.len()));
    }
    text.join(", ")
}

/// A change that was not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The object it concerns.
    pub subject: Subject,
    /// The reason.
    pub reason: Reason,
    /// A remedy, if any.
    pub hint: Option<String>,
}

impl Refusal {
    /// About `subject`, with the default hint of the reason, if any.
    #[must_use]
    pub fn new(subject: Subject, reason: Reason) -> Self {
        let hint = match &reason {
            Reason::Absent(absent) => absent.what_would_help.clone(),
            Reason::PoolsEnabled => {
                Some("change them with poolcfg -d and poolbind, or disable pools: pooladm -d".to_owned())
            }
            Reason::PoolsDisabled => Some("enable them: pooladm -e".to_owned()),
            Reason::NoSuchDevice { .. } => Some(
                "a device is called as in /sys/class/net and /sys/class/block, or by its address on the PCI bus"
                    .to_owned(),
            ),
            Reason::IsFence(name) => Some(format!("take it down first: millpond fence --off {name}")),
            Reason::InPartition(_) => Some("choose another CPU, or end that partition first".to_owned()),
            Reason::InCpuset(_) => Some("choose another CPU, or take it out of that cpuset first".to_owned()),
            Reason::PsetsExist(sets) => {
                let sets: String = sets.iter().map(|set| format!(" {set}")).collect();
                Some(format!("remove them first: psrset -d{sets}"))
            }
            _ => None,
        };
        Refusal { subject, reason, hint }
    }

    /// About the operation as a whole.
    #[must_use]
    pub fn operation(reason: Reason) -> Self {
        Refusal::new(Subject::Operation, reason)
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.reason)
    }
}

impl std::error::Error for Refusal {}

impl From<crate::Absent> for Refusal {
    fn from(absent: crate::Absent) -> Self {
        Refusal::operation(Reason::Absent(absent))
    }
}

/// The reason why a knob could not be read or set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KnobError {
    /// Its owner no longer exists.
    #[error("it is gone")]
    Gone,
    /// Permission is missing.
    #[error("permission denied")]
    NotPermitted,
    /// It is on a read-only file system.
    #[error("it is read-only")]
    ReadOnly,
    /// The machine refuses, with its own reason.
    #[error("{0}")]
    Refused(String),
    /// The machine refuses, and a remedy is known. Both texts are complete.
    #[error("{why}")]
    Prevented {
        /// The reason, as half a sentence.
        why: String,
        /// The remedy.
        hint: String,
    },
    /// The machine has no such knob (a journal of another version).
    #[error("`{0}` is no knob of this machine")]
    Unknown(String),
}

impl KnobError {
    /// The refusal about `subject` for a knob with the display name `what`.
    #[must_use]
    pub fn into_refusal(self, subject: Subject, what: &str) -> Refusal {
        match self {
            KnobError::NotPermitted => Refusal::new(subject, Reason::NotPermitted),
            KnobError::ReadOnly => Refusal::new(subject, Reason::ReadOnly(what.to_owned())).hint(
                "it lies on a file system that is mounted read-only, as in a container: mount it for writing",
            ),
            KnobError::Gone => Refusal::new(subject, Reason::Machine(format!("{what} is gone")))
                .hint("another program removed it meanwhile; try again"),
            KnobError::Refused(why) => Refusal::new(subject, Reason::Machine(format!("{what}: {why}"))),
            KnobError::Prevented { why, hint } => Refusal::new(subject, Reason::Machine(why)).hint(hint),
            KnobError::Unknown(text) => {
                Refusal::new(subject, Reason::Machine(format!("`{text}` is no knob of this machine")))
                    .hint("the journal was written by another version of this program; use that one")
            }
        }
    }

    /// The note for a tolerated refusal.
    #[must_use]
    pub fn note(&self, what: &str) -> String {
        match self {
            KnobError::Prevented { why, hint } => format!("{why}; {hint}"),
            other => format!("{what}: {other}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::LwpId;

    #[test]
    fn refusals_read_as_the_second_half_of_a_sentence() {
        let refusal = Refusal::new(Subject::Processor(CpuId(7)), Reason::LastOfDefault);
        assert_eq!(refusal.to_string(), "CPU 7: it is the last one in the default set");
        let lwp = |n| Lwp { pid: Pid(9), lwp: LwpId(n) };
        assert_eq!(Reason::BoundThreads(vec![lwp(1)]).to_string(), "a thread is bound to it: 9/1");
        assert_eq!(
            Reason::BoundThreads((1..7).map(lwp).collect()).to_string(),
            "threads are bound to it: 9/1, 9/2, 9/3, 9/4, 2 more"
        );
        let holder =
            |what: Option<&str>| Reason::Busy(Some(Holder { pid: Pid(4), what: what.map(Into::into) }));
        assert_eq!(holder(None).to_string(), "another change is under way (process 4)");
        assert_eq!(
            holder(Some("remove processor set 2")).to_string(),
            "another change is under way (process 4: remove processor set 2)"
        );
    }

    #[test]
    fn a_knob_that_fails_is_called_by_its_name_and_brings_its_remedy_along() {
        let said = |error: KnobError| {
            let refusal = error.into_refusal(Subject::Operation, "the list of set 1");
            (refusal.reason.to_string(), refusal.hint.is_some())
        };
        assert_eq!(said(KnobError::Gone), ("the list of set 1 is gone".into(), true));
        assert_eq!(said(KnobError::Refused("no".into())), ("the list of set 1: no".into(), false));
        let prevented = KnobError::Prevented { why: "no".into(), hint: "ask".into() };
        assert_eq!(prevented.note("the list of set 1"), "no; ask");
        assert_eq!(said(prevented), ("no".into(), true));
    }

    #[test]
    fn an_absent_facet_brings_its_remedy_along() {
        let refusal: Refusal = crate::Absent::with_help("no cpuset controller", "boot with it").into();
        assert_eq!(refusal.hint.as_deref(), Some("boot with it"));
    }
}
