//! Processes and threads at an instant, with the time spent in each microstate.

use crate::{Class, CpuId, Histogram, LgrpId, Lwp, LwpId, Nanos, Pid, PsetId, WallTime};
use std::collections::BTreeMap;

/// A microstate of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Microstate {
    /// Runs in user mode.
    User,
    /// Runs in the kernel.
    System,
    /// The kernel handles a trap of the thread.
    Trap,
    /// Sleeps until a page of text is loaded.
    TextFault,
    /// Sleeps until a page of data is loaded.
    DataFault,
    /// Sleeps until it gets a lock of its program.
    Lock,
    /// Sleeps for another reason.
    Sleep,
    /// Is runnable, and waits for a CPU.
    Latency,
}

/// Every microstate, in the order of the columns.
pub const MICROSTATES: [Microstate; 8] = [
    Microstate::User,
    Microstate::System,
    Microstate::Trap,
    Microstate::TextFault,
    Microstate::DataFault,
    Microstate::Lock,
    Microstate::Sleep,
    Microstate::Latency,
];

impl Microstate {
    /// The heading of its column.
    #[must_use]
    pub fn word(self) -> &'static str {
        ["USR", "SYS", "TRP", "TFL", "DFL", "LCK", "SLP", "LAT"][self.index()]
    }

    /// Its index in [`MICROSTATES`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}

/// Time of a thread by microstate, cumulated since the thread began, or since it was first observed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// By microstate; `None` if the state is not distinguished from others.
    pub times: [Option<Nanos>; MICROSTATES.len()],
    /// Time while stopped. No column shows it.
    pub stopped: Nanos,
    /// The part of the latency caused by a CPU cap. `None` if it is not counted per thread, as on Linux, which counts it per group.
    pub capped: Option<Nanos>,
    /// Voluntary context switches.
    pub voluntary: Option<u64>,
    /// Involuntary context switches.
    pub involuntary: Option<u64>,
    /// System calls.
    pub calls: Option<u64>,
    /// Signals received.
    pub signals: Option<u64>,
}

impl Spent {
    /// The sum of all times.
    #[must_use]
    pub fn total(&self) -> Nanos {
        self.times.iter().flatten().fold(self.stopped, |sum, time| sum + *time)
    }
}

/// The kind of a wait that counts as waiting for a lock (LCK).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitKind {
    /// A mutex or a similar lock held by another thread: it is contended.
    Mutex,
    /// A barrier, until the other threads arrive.
    Barrier,
    /// A condition variable, a semaphore or an empty queue, until another thread provides something.
    Condition,
    /// A resource that threads of the program hold, use and pass on: a semaphore or a condition variable that serves as a lock.
    Resource,
    /// The end of another thread.
    Join,
    /// The facts are not conclusive.
    Unknown,
}

/// The operation of a futex wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FutexOperation {
    /// While the word has a value: `FUTEX_WAIT`, `FUTEX_WAIT_BITSET`, `futex_wait`.
    #[default]
    Wait,
    /// For a PI mutex of the kernel: `FUTEX_LOCK_PI`, `FUTEX_LOCK_PI2`.
    LockPi,
    /// At a condition variable whose mutex is a PI mutex: `FUTEX_WAIT_REQUEUE_PI`.
    RequeuePi,
    /// At several words: `futex_waitv`.
    Several,
}

/// Observations of the waits at a futex word. Counts are since the threads were first observed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FutexFacts {
    /// The operation of the last wait.
    pub operation: FutexOperation,
    /// Whether the futex is not declared private to the process.
    pub shared: bool,
    /// The smallest and the largest value that a wait expected in the word.
    pub values: (u32, u32),
    /// Waits that ended by a wake-up call of the process at this word, except those after which another thread was faster.
    pub woken: u64,
    /// The part of `woken` after which the waiting thread itself made a wake-up call at this word.
    pub released: u64,
    /// Total time from the ends of these waits to these wake-up calls: the hold time.
    pub held: Nanos,
    /// The part of `held` in which the threads ran.
    pub held_ran: Nanos,
    /// The part of `held` in which the threads slept.
    pub held_slept: Nanos,
    /// Run time of threads from the last call at the word before a wait to this wait. Time between calls without a wait in between is excluded:
    /// the thread may have held the resource then.
    pub apart_ran: Nanos,
    /// The total wait time of the thread that waited longest at the word.
    pub longest: Nanos,
    /// Waits that ended because a thread of the process ended.
    pub ended: u64,
    /// Whether the expected value is the number of a thread of the process.
    pub names_thread: bool,
    /// The thread of the process that held the mutex when a wait began, according to the word or to the record of the C library next to it.
    pub holder: Option<LwpId>,
}

/// The facts about waits at one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitFacts {
    /// The machine itself knows the kind.
    Told(WaitKind),
    /// The address is a futex word.
    Futex(FutexFacts),
}

/// Waits of a thread at one address, cumulated since it was first observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// The total time, including the present wait.
    pub time: Nanos,
    /// The facts about them.
    pub facts: WaitFacts,
}

impl Wait {
    /// Combines this with later waits at the same address, of the same thread or of another thread of its process.
    #[must_use]
    pub fn joined(&self, later: &Wait) -> Wait {
        let facts = match (self.facts, later.facts) {
            (WaitFacts::Futex(a), WaitFacts::Futex(b)) => WaitFacts::Futex(FutexFacts {
                operation: b.operation,
                shared: a.shared || b.shared,
                values: (a.values.0.min(b.values.0), a.values.1.max(b.values.1)),
                woken: a.woken.saturating_add(b.woken),
                released: a.released.saturating_add(b.released),
                held: a.held + b.held,
                held_ran: a.held_ran + b.held_ran,
                held_slept: a.held_slept + b.held_slept,
                apart_ran: a.apart_ran + b.apart_ran,
                longest: a.longest.max(b.longest),
                ended: a.ended.saturating_add(b.ended),
                names_thread: a.names_thread || b.names_thread,
                holder: b.holder.or(a.holder),
            }),
            (WaitFacts::Told(_), _) => self.facts,
            (_, WaitFacts::Told(_)) => later.facts,
        };
        Wait { time: self.time + later.time, facts }
    }
}

/// Causes of the waits of a thread, cumulated since it was first observed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Causes {
    /// The part of the time asleep that is waiting for a disk.
    pub disk: Nanos,
    /// Waits for locks, by the address of the lock in its process; 0 is an unknown address. Only the remembered addresses are included.
    pub waits: BTreeMap<u64, Wait>,
}

/// The location of a lock in the memory of its program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockPlace {
    /// The library or program that the memory belongs to, or the use of the memory.
    pub name: String,
    /// Whether it is the lock of a memory allocator.
    pub of_allocator: bool,
}

/// The state of a thread at an instant; for a process that of one of its threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// Runs on this CPU.
    OnCpu(CpuId),
    /// Is runnable.
    Runnable,
    /// Is throttled by its CPU cap.
    Capped,
    /// Sleeps.
    Asleep,
    /// Is stopped.
    Stopped,
    /// Is being created.
    Idle,
    /// Has ended, and its parent has not read its status.
    Zombie,
}

impl Doing {
    /// The rank for the choice of the thread that represents a process; lower is preferred.
    fn rank(self) -> u8 {
        match self {
            Doing::OnCpu(_) => 0,
            Doing::Runnable => 1,
            Doing::Capped => 2,
            Doing::Asleep => 3,
            Doing::Stopped => 4,
            Doing::Idle => 5,
            Doing::Zombie => 6,
        }
    }
}

/// The scheduling state of a thread at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Its state.
    pub doing: Doing,
    /// Its class.
    pub class: Class,
    /// Its global priority; higher is better.
    pub priority: i16,
    /// Its nice value, -20 to 19; `None` in classes without one, and after its end.
    pub nice: Option<i8>,
    /// The CPU that it runs on, or ran on last.
    pub cpu: Option<CpuId>,
    /// Its home lgroup, if known.
    pub home: Option<LgrpId>,
    /// The set it is bound to; [`PsetId::DEFAULT`] if none, or if places were not requested.
    pub set: PsetId,
}

impl Standing {
    /// Of several threads the one that represents their process: a running one before a runnable one, then the better priority, then the first.
    pub fn of_process(threads: impl IntoIterator<Item = Standing>) -> Option<Standing> {
        threads.into_iter().min_by_key(|s| (s.doing.rank(), -i32::from(s.priority)))
    }
}

/// A thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadEntry {
    /// Its identifier.
    pub lwp: Lwp,
    /// Its short name.
    pub name: String,
    /// Its start time on the machine's clock. It distinguishes the thread from a later one with the same number.
    pub began: Nanos,
    /// Its scheduling state.
    pub standing: Standing,
    /// CPU time since its start.
    pub time: Nanos,
    /// Its time by microstate, if requested.
    pub spent: Option<Spent>,
    /// The causes of its waits, if requested and known.
    pub causes: Option<Causes>,
}

/// A number and a name.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named {
    /// The number.
    pub id: u64,
    /// The name.
    pub name: String,
}

/// A process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessEntry {
    /// Its number.
    pub pid: Pid,
    /// Its short name.
    pub name: String,
    /// Its start time on the machine's clock.
    pub began: Nanos,
    /// Its scheduling state, or that of the thread that represents it.
    pub standing: Standing,
    /// CPU time since its start, including threads that have ended.
    pub time: Nanos,
    /// The number of its threads.
    pub threads: u32,
    /// The effective user ID.
    pub euid: u32,
    /// The real user ID.
    pub uid: u32,
    /// Its address space in KiB, if requested and known.
    pub size: Option<u64>,
    /// Its resident memory in KiB.
    pub rss: Option<u64>,
    /// Its zone, if places were requested; number 0 is the global zone.
    pub zone: Named,
    /// Its task.
    pub task: u32,
    /// Its project.
    pub project: Named,
}

/// All processes and threads of a machine at an instant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Roster {
    /// The time on the machine's monotonic clock.
    pub at: Nanos,
    /// The wall-clock time.
    pub wall: WallTime,
    /// The number of CPUs that run threads: the basis of percentages of CPU time.
    pub processors: u32,
    /// Memory of the machine in KiB, if known.
    pub memory: Option<u64>,
    /// Running and waiting threads, averaged over 1, 5 and 15 minutes, if known.
    pub load: Option<[f64; 3]>,
    /// Every process, ascending.
    pub processes: Vec<ProcessEntry>,
    /// Every thread, ascending, if requested.
    pub threads: Vec<ThreadEntry>,
    /// Run-queue delays of threads, for waits that ended since the watch began, by the CPU that the thread got; if measured.
    pub waits: Option<BTreeMap<CpuId, Histogram>>,
    /// Missing data with the reason, one line each.
    pub missing: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_runs_stands_for_its_process_and_then_the_better_priority() {
        let one = |doing, priority| Standing {
            doing,
            class: Class::Ts,
            priority,
            nice: Some(0),
            cpu: None,
            home: None,
            set: PsetId::DEFAULT,
        };
        let sleeps = one(Doing::Asleep, 59);
        let (runs, could) = (one(Doing::OnCpu(CpuId(1)), 10), one(Doing::Runnable, 20));
        assert_eq!(Standing::of_process([sleeps, could, runs]), Some(runs));
        assert_eq!(Standing::of_process([one(Doing::Asleep, 10), sleeps]), Some(sleeps));
        assert_eq!(Standing::of_process([]), None);
    }

    #[test]
    fn columns_stand_in_the_order_of_the_reference() {
        assert_eq!(MICROSTATES.map(Microstate::word).join(" "), "USR SYS TRP TFL DFL LCK SLP LAT");
        assert!(MICROSTATES.iter().enumerate().all(|(index, state)| state.index() == index));
    }

    #[test]
    fn what_is_not_told_is_no_part_of_the_whole() {
        let mut spent = Spent { stopped: Nanos(5), ..Spent::default() };
        spent.times[0] = Some(Nanos(2));
        spent.times[7] = Some(Nanos(3));
        assert_eq!(spent.total(), Nanos(10));
    }
}
