//! The real-time options of POSIX, in their four bundles, and what a system answers for each.

/// A bundle of options, as the Single UNIX Specification groups them (version 3, POSIX.1-2001). Later versions made some options a part of every system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PosixBundle {
    /// Realtime: 14 options.
    Realtime,
    /// Advanced Realtime: 8 options.
    AdvancedRealtime,
    /// Realtime Threads: 3 options.
    RealtimeThreads,
    /// Advanced Realtime Threads: 4 options.
    AdvancedRealtimeThreads,
}

impl PosixBundle {
    /// All, in the order of the specification.
    pub const ALL: [PosixBundle; 4] = [
        PosixBundle::Realtime,
        PosixBundle::AdvancedRealtime,
        PosixBundle::RealtimeThreads,
        PosixBundle::AdvancedRealtimeThreads,
    ];

    /// As the specification calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PosixBundle::Realtime => "Realtime",
            PosixBundle::AdvancedRealtime => "Advanced Realtime",
            PosixBundle::RealtimeThreads => "Realtime Threads",
            PosixBundle::AdvancedRealtimeThreads => "Advanced Realtime Threads",
        }
    }

    /// Its options.
    pub fn options(self) -> impl Iterator<Item = PosixOption> {
        PosixOption::ALL.into_iter().filter(move |option| option.bundle() == self)
    }
}

/// A real-time option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PosixOption {
    /// Reads and writes that go on beside the program.
    AsynchronousIo,
    /// Waiting until a file is on its device.
    Fsync,
    /// Files as memory.
    MappedFiles,
    /// Locking all memory of a process.
    Memlock,
    /// Locking parts of it.
    MemlockRange,
    /// Access rights to memory, by page.
    MemoryProtection,
    /// Queues of messages with priorities.
    MessagePassing,
    /// Priorities of reads and writes that go on beside.
    PrioritizedIo,
    /// Classes and priorities of processes.
    PriorityScheduling,
    /// Signals that queue and carry a value.
    RealtimeSignals,
    /// Semaphores.
    Semaphores,
    /// Memory that processes share by name.
    SharedMemoryObjects,
    /// Writes that are on the device when they return.
    SynchronizedIo,
    /// Clocks, and timers on them.
    Timers,
    /// Saying how a file or memory will be used.
    AdvisoryInfo,
    /// By which clock is waited.
    ClockSelection,
    /// A clock of each process's own time.
    Cputime,
    /// A clock that cannot be set.
    MonotonicClock,
    /// Starting a program without a copy of this one.
    Spawn,
    /// A budget of time at a priority, for processes.
    SporadicServer,
    /// Calls that wait no longer than until a moment.
    Timeouts,
    /// Memory by its kind.
    TypedMemoryObjects,
    /// Priority-inheritance mutexes: the owner has the priority of the thread that waits.
    ThreadPrioInherit,
    /// Priority-ceiling mutexes: the owner has the priority of the mutex.
    ThreadPrioProtect,
    /// Classes and priorities of threads.
    ThreadPriorityScheduling,
    /// Barriers.
    Barriers,
    /// Locks that spin.
    SpinLocks,
    /// A clock of each thread's own time.
    ThreadCputime,
    /// A budget of time at a priority, for threads.
    ThreadSporadicServer,
}

impl PosixOption {
    /// All, by bundle.
    pub const ALL: [PosixOption; 29] = [
        PosixOption::AsynchronousIo,
        PosixOption::Fsync,
        PosixOption::MappedFiles,
        PosixOption::Memlock,
        PosixOption::MemlockRange,
        PosixOption::MemoryProtection,
        PosixOption::MessagePassing,
        PosixOption::PrioritizedIo,
        PosixOption::PriorityScheduling,
        PosixOption::RealtimeSignals,
        PosixOption::Semaphores,
        PosixOption::SharedMemoryObjects,
        PosixOption::SynchronizedIo,
        PosixOption::Timers,
        PosixOption::AdvisoryInfo,
        PosixOption::ClockSelection,
        PosixOption::Cputime,
        PosixOption::MonotonicClock,
        PosixOption::Spawn,
        PosixOption::SporadicServer,
        PosixOption::Timeouts,
        PosixOption::TypedMemoryObjects,
        PosixOption::ThreadPrioInherit,
        PosixOption::ThreadPrioProtect,
        PosixOption::ThreadPriorityScheduling,
        PosixOption::Barriers,
        PosixOption::SpinLocks,
        PosixOption::ThreadCputime,
        PosixOption::ThreadSporadicServer,
    ];

    /// The bundle that it is in.
    #[must_use]
    pub fn bundle(self) -> PosixBundle {
        self.facts().0
    }

    /// Its constant: `_POSIX_TIMERS`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.facts().1
    }

    /// What it is, in a few words.
    #[must_use]
    pub fn summary(self) -> &'static str {
        self.facts().2
    }

    fn facts(self) -> (PosixBundle, &'static str, &'static str) {
        use PosixBundle::{AdvancedRealtime, AdvancedRealtimeThreads, Realtime, RealtimeThreads};
        match self {
            PosixOption::AsynchronousIo => {
                (Realtime, "_POSIX_ASYNCHRONOUS_IO", "reads and writes that go on beside the program")
            }
            PosixOption::Fsync => (Realtime, "_POSIX_FSYNC", "waiting until a file is on its device"),
            PosixOption::MappedFiles => (Realtime, "_POSIX_MAPPED_FILES", "files as memory"),
            PosixOption::Memlock => (Realtime, "_POSIX_MEMLOCK", "locking all memory of a process"),
            PosixOption::MemlockRange => (Realtime, "_POSIX_MEMLOCK_RANGE", "locking parts of it"),
            PosixOption::MemoryProtection => {
                (Realtime, "_POSIX_MEMORY_PROTECTION", "access rights of memory, by page")
            }
            PosixOption::MessagePassing => {
                (Realtime, "_POSIX_MESSAGE_PASSING", "queues of messages with priorities")
            }
            PosixOption::PrioritizedIo => {
                (Realtime, "_POSIX_PRIORITIZED_IO", "priorities of reads and writes that go on beside")
            }
            PosixOption::PriorityScheduling => {
                (Realtime, "_POSIX_PRIORITY_SCHEDULING", "classes and priorities of processes")
            }
            PosixOption::RealtimeSignals => {
                (Realtime, "_POSIX_REALTIME_SIGNALS", "signals that queue and carry a value")
            }
            PosixOption::Semaphores => (Realtime, "_POSIX_SEMAPHORES", "semaphores"),
            PosixOption::SharedMemoryObjects => {
                (Realtime, "_POSIX_SHARED_MEMORY_OBJECTS", "memory that processes share by name")
            }
            PosixOption::SynchronizedIo => {
                (Realtime, "_POSIX_SYNCHRONIZED_IO", "writes that are on the device when they return")
            }
            PosixOption::Timers => (Realtime, "_POSIX_TIMERS", "clocks, and timers on them"),
            PosixOption::AdvisoryInfo => {
                (AdvancedRealtime, "_POSIX_ADVISORY_INFO", "saying how a file or memory will be used")
            }
            PosixOption::ClockSelection => {
                (AdvancedRealtime, "_POSIX_CLOCK_SELECTION", "by which clock is waited")
            }
            PosixOption::Cputime => {
                (AdvancedRealtime, "_POSIX_CPUTIME", "a clock of each process's own time")
            }
            PosixOption::MonotonicClock => {
                (AdvancedRealtime, "_POSIX_MONOTONIC_CLOCK", "a clock that is never set")
            }
            PosixOption::Spawn => {
                (AdvancedRealtime, "_POSIX_SPAWN", "starting a program without a copy of this one")
            }
            PosixOption::SporadicServer => {
                (AdvancedRealtime, "_POSIX_SPORADIC_SERVER", "a budget of time at a priority, for processes")
            }
            PosixOption::Timeouts => {
                (AdvancedRealtime, "_POSIX_TIMEOUTS", "calls that wait no longer than until a moment")
            }
            PosixOption::TypedMemoryObjects => {
                (AdvancedRealtime, "_POSIX_TYPED_MEMORY_OBJECTS", "memory by its kind")
            }
            PosixOption::ThreadPrioInherit => (
                RealtimeThreads,
                "_POSIX_THREAD_PRIO_INHERIT",
                "mutexes whose owner gets the priority of its waiters",
            ),
            PosixOption::ThreadPrioProtect => (
                RealtimeThreads,
                "_POSIX_THREAD_PRIO_PROTECT",
                "mutexes whose owner has a priority of their own",
            ),
            PosixOption::ThreadPriorityScheduling => {
                (RealtimeThreads, "_POSIX_THREAD_PRIORITY_SCHEDULING", "classes and priorities of threads")
            }
            PosixOption::Barriers => (AdvancedRealtimeThreads, "_POSIX_BARRIERS", "barriers"),
            PosixOption::SpinLocks => (AdvancedRealtimeThreads, "_POSIX_SPIN_LOCKS", "locks that spin"),
            PosixOption::ThreadCputime => {
                (AdvancedRealtimeThreads, "_POSIX_THREAD_CPUTIME", "a clock of each thread's own time")
            }
            PosixOption::ThreadSporadicServer => (
                AdvancedRealtimeThreads,
                "_POSIX_THREAD_SPORADIC_SERVER",
                "a budget of time at a priority, for threads",
            ),
        }
    }
}

/// What a system answers for an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PosixAnswer {
    /// The option is there, as of that version of the standard: `200809`.
    Supported(u32),
    /// Its calls are there, and whether they work they say themselves: the system answers 0.
    Undecided,
    /// The option is lacking.
    Unsupported,
}

impl PosixAnswer {
    /// From the number that `sysconf` gives.
    #[must_use]
    pub fn of(number: i64) -> PosixAnswer {
        match u32::try_from(number) {
            Ok(0) => PosixAnswer::Undecided,
            Ok(version) => PosixAnswer::Supported(version),
            Err(_) => PosixAnswer::Unsupported,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundles_are_of_14_8_3_and_4_options() {
        let counts = PosixBundle::ALL.map(|bundle| bundle.options().count());
        assert_eq!(counts, [14, 8, 3, 4]);
        for bundle in PosixBundle::ALL {
            assert!(bundle.options().all(|option| option.name().starts_with("_POSIX_")), "{bundle:?}");
        }
    }

    #[test]
    fn a_number_is_a_version_or_undecided_or_lacking() {
        let answers = [200_809, 0, -1].map(PosixAnswer::of);
        let expected = [PosixAnswer::Supported(200_809), PosixAnswer::Undecided, PosixAnswer::Unsupported];
        assert_eq!(answers, expected);
    }
}
