//! Processes and threads at an instant, and where the time of each went.

use crate::{Class, CpuId, Histogram, LgrpId, Lwp, LwpId, Nanos, Pid, PsetId, WallTime};
use std::collections::BTreeMap;

/// What a thread does with its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Microstate {
    /// It computes in user mode.
    User,
    /// It computes in the kernel.
    System,
    /// The kernel handles a trap of it.
    Trap,
    /// It sleeps until a page of text is there.
    TextFault,
    /// It sleeps until a page of data is there.
    DataFault,
    /// It sleeps until it gets a lock of its program.
    Lock,
    /// It sleeps for another reason.
    Sleep,
    /// It could run, and waits for a CPU.
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
    /// The word that its column has.
    #[must_use]
    pub fn word(self) -> &'static str {
        ["USR", "SYS", "TRP", "TFL", "DFL", "LCK", "SLP", "LAT"][self.index()]
    }

    /// Where it stands in [`MICROSTATES`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}

/// Where a thread's time went, cumulated since the count began: since the thread began, or since it was first seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// By microstate; `None` where that is not told from others.
    pub times: [Option<Nanos>; MICROSTATES.len()],
    /// It was stopped. No column shows it.
    pub stopped: Nanos,
    /// Of the latency: a CPU cap kept it from a CPU. `None` where that is not counted for each thread, as on Linux, which counts it for groups.
    pub capped: Option<Nanos>,
    /// It left its CPU of its own will.
    pub voluntary: Option<u64>,
    /// It was made to leave it.
    pub involuntary: Option<u64>,
    /// It called the kernel.
    pub calls: Option<u64>,
    /// It got a signal.
    pub signals: Option<u64>,
}

impl Spent {
    /// All of the time.
    #[must_use]
    pub fn total(&self) -> Nanos {
        self.times.iter().flatten().fold(self.stopped, |sum, time| sum + *time)
    }
}

/// What a wait is for that counts as waiting for a lock (LCK).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitKind {
    /// A mutex, or a lock like one, that another thread holds: it is contended.
    Mutex,
    /// A barrier, until the other threads are there.
    Barrier,
    /// A condition variable, a semaphore, an empty queue: until another thread has something.
    Condition,
    /// Something that other threads of the program have, hand on and use meanwhile: a semaphore or a condition that serves as a lock.
    Resource,
    /// The end of another thread.
    Join,
    /// The facts do not decide it.
    Unknown,
}

/// How a futex call waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FutexOperation {
    /// While the word has a value: `FUTEX_WAIT`, `FUTEX_WAIT_BITSET`, `futex_wait`.
    #[default]
    Wait,
    /// For the kernel's own mutex: `FUTEX_LOCK_PI`, `FUTEX_LOCK_PI2`.
    LockPi,
    /// At a condition whose mutex is the kernel's: `FUTEX_WAIT_REQUEUE_PI`.
    RequeuePi,
    /// At several words: `futex_waitv`.
    Several,
}

/// What is seen of the waits at a futex word. Counts are since the threads were first seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FutexFacts {
    /// How the last wait was asked for.
    pub operation: FutexOperation,
    /// It is not declared private to the process.
    pub shared: bool,
    /// The smallest and the largest value that a wait expected in the word.
    pub values: (u32, u32),
    /// Waits that a thread of the process ended by a wake-up call at this word, but for those after which another thread was faster.
    pub woken: u64,
    /// Of these, those after which the thread that had waited made a wake-up call at this word itself.
    pub released: u64,
    /// From the ends of these waits to these calls: what the threads had got was held for so long.
    pub held: Nanos,
    /// Of that: the threads ran.
    pub held_ran: Nanos,
    /// And they slept.
    pub held_slept: Nanos,
    /// From the last call at the word before a wait to this wait the threads ran for so long. What they did between calls without a wait between is no part
    /// of it: they may have had it then.
    pub apart_ran: Nanos,
    /// How long the thread waited at the word that waited longest.
    pub longest: Nanos,
    /// Waits that ended because a thread of the process ended.
    pub ended: u64,
    /// The expected value is the number of a thread of the process.
    pub names_thread: bool,
    /// The thread of the process that held the mutex when a wait for it began, as the word or the C library's record beside it has it.
    pub holder: Option<LwpId>,
}

/// What is known of waits at one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitFacts {
    /// The machine itself knows what they are for.
    Told(WaitKind),
    /// They are at a futex word.
    Futex(FutexFacts),
}

/// Waits of a thread at one address, cumulated since it was first seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// How long, the wait included that goes on.
    pub time: Nanos,
    /// What is known of them.
    pub facts: WaitFacts,
}

impl Wait {
    /// This and later waits at the same address, of the same thread or of another one of its process.
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

/// What the waits of a thread were for, cumulated since it was first seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Causes {
    /// Of the time asleep: for a disk.
    pub disk: Nanos,
    /// Of the time for locks: by the address of each that is remembered, in its process; 0 is one that could not be told. Others are not among them.
    pub waits: BTreeMap<u64, Wait>,
}

/// Where a lock of a program lies in its memory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockPlace {
    /// The library or program whose memory it is, or what that memory is used for.
    pub name: String,
    /// It is the lock of an allocator of memory.
    pub of_allocator: bool,
}

/// What a thread, or a process by one of its threads, does at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// It runs there.
    OnCpu(CpuId),
    /// It could run.
    Runnable,
    /// It may not run until its cap lets it.
    Capped,
    /// It sleeps.
    Asleep,
    /// It was stopped.
    Stopped,
    /// It is being made.
    Idle,
    /// It has ended, and its parent has not read its status.
    Zombie,
}

impl Doing {
    /// Less is more worth showing of a process.
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

/// How a thread is scheduled at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// What it does.
    pub doing: Doing,
    /// Its class.
    pub class: Class,
    /// Its global priority; more is better.
    pub priority: i16,
    /// How nice it is, -20 to 19; `None` in classes that have no such thing, and for what has ended.
    pub nice: Option<i8>,
    /// The CPU that it is on, or was on last.
    pub cpu: Option<CpuId>,
    /// Its home, where that is known.
    pub home: Option<LgrpId>,
    /// The set it is bound to; [`PsetId::DEFAULT`] for none, and where no places were asked for.
    pub set: PsetId,
}

impl Standing {
    /// Of several threads the one that stands for their process: one that runs before one that is runnable, then the better priority, then the first.
    pub fn of_process(threads: impl IntoIterator<Item = Standing>) -> Option<Standing> {
        threads.into_iter().min_by_key(|s| (s.doing.rank(), -i32::from(s.priority)))
    }
}

/// A thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadEntry {
    /// Which.
    pub lwp: Lwp,
    /// Its short name.
    pub name: String,
    /// When it began, on the machine's clock: what tells it from a later one of the same number.
    pub began: Nanos,
    /// How it is scheduled.
    pub standing: Standing,
    /// CPU time since it began.
    pub time: Nanos,
    /// Where its time went, where that was asked for.
    pub spent: Option<Spent>,
    /// What its waits were for, where that was asked for and is known.
    pub causes: Option<Causes>,
}

/// A number with its name.
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
    /// Which.
    pub pid: Pid,
    /// Its short name.
    pub name: String,
    /// When it began, on the machine's clock.
    pub began: Nanos,
    /// How it, or one thread for all, is scheduled.
    pub standing: Standing,
    /// CPU time since it began, that of threads that ended included.
    pub time: Nanos,
    /// How many threads it has.
    pub threads: u32,
    /// The effective user.
    pub euid: u32,
    /// The real user.
    pub uid: u32,
    /// Its address space in KiB, where that was asked for and is known.
    pub size: Option<u64>,
    /// What of it is in memory, in KiB.
    pub rss: Option<u64>,
    /// Its zone, where places were asked for; number 0 is the global one.
    pub zone: Named,
    /// Its task.
    pub task: u32,
    /// Its project.
    pub project: Named,
}

/// Everything that lives on a machine at an instant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Roster {
    /// When, on the machine's monotonic clock.
    pub at: Nanos,
    /// When, on the wall.
    pub wall: WallTime,
    /// CPUs that run threads: what a percentage of CPU time is a part of.
    pub processors: u32,
    /// Memory of the machine in KiB, where it is known.
    pub memory: Option<u64>,
    /// Threads that ran or waited, on average over 1, 5 and 15 minutes, where that is known.
    pub load: Option<[f64; 3]>,
    /// Every process, ascending.
    pub processes: Vec<ProcessEntry>,
    /// Every thread, ascending, where they were asked for.
    pub threads: Vec<ThreadEntry>,
    /// How long threads waited for the CPU that they got, of waits that ended since the watch began, by CPU; where that is measured.
    pub waits: Option<BTreeMap<CpuId, Histogram>>,
    /// What is lacking, and why; each a line.
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
