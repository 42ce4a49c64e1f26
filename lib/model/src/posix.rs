//! The real-time options of POSIX in four bundles, and the support that a system reports for each.

crate::words! {
    /// A bundle of options, as the Single UNIX Specification groups them (version 3, POSIX.1-2001). Later versions made some of these
    /// options mandatory.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum PosixBundle {
        /// Realtime: 14 options.
        Realtime = "Realtime",
        /// Advanced Realtime: 8 options.
        AdvancedRealtime = "Advanced Realtime",
        /// Realtime Threads: 3 options.
        RealtimeThreads = "Realtime Threads",
        /// Advanced Realtime Threads: 4 options.
        AdvancedRealtimeThreads = "Advanced Realtime Threads",
    }
}

impl PosixBundle {
    /// Its options.
    pub fn options(self) -> impl Iterator<Item = PosixOption> {
        PosixOption::ALL.into_iter().filter(move |option| option.bundle() == self)
    }
}

macro_rules! options {
    ($($bundle:ident: { $($option:ident $name:literal $meaning:literal,)+ })+) => {
        /// A real-time option.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum PosixOption {
            $($(#[doc = $meaning] $option,)+)+
        }

        impl PosixOption {
            /// All options, by bundle.
            pub const ALL: [PosixOption; 29] = [$($(PosixOption::$option,)+)+];

            fn facts(self) -> (PosixBundle, &'static str, &'static str) {
                match self {
                    $($(PosixOption::$option => (PosixBundle::$bundle, $name, $meaning),)+)+
                }
            }
        }
    };
}

options! {
    Realtime: {
        AsynchronousIo "_POSIX_ASYNCHRONOUS_IO" "reads and writes that go on beside the program",
        Fsync "_POSIX_FSYNC" "waiting until a file is on its device",
        MappedFiles "_POSIX_MAPPED_FILES" "files as memory",
        Memlock "_POSIX_MEMLOCK" "locking all memory of a process",
        MemlockRange "_POSIX_MEMLOCK_RANGE" "locking parts of it",
        MemoryProtection "_POSIX_MEMORY_PROTECTION" "access rights of memory, by page",
        MessagePassing "_POSIX_MESSAGE_PASSING" "queues of messages with priorities",
        PrioritizedIo "_POSIX_PRIORITIZED_IO" "priorities of reads and writes that go on beside",
        PriorityScheduling "_POSIX_PRIORITY_SCHEDULING" "classes and priorities of processes",
        RealtimeSignals "_POSIX_REALTIME_SIGNALS" "signals that queue and carry a value",
        Semaphores "_POSIX_SEMAPHORES" "semaphores",
        SharedMemoryObjects "_POSIX_SHARED_MEMORY_OBJECTS" "memory that processes share by name",
        SynchronizedIo "_POSIX_SYNCHRONIZED_IO" "writes that are on the device when they return",
        Timers "_POSIX_TIMERS" "clocks, and timers on them",
    }
    AdvancedRealtime: {
        AdvisoryInfo "_POSIX_ADVISORY_INFO" "saying how a file or memory will be used",
        ClockSelection "_POSIX_CLOCK_SELECTION" "by which clock is waited",
        Cputime "_POSIX_CPUTIME" "a clock of each process's own time",
        MonotonicClock "_POSIX_MONOTONIC_CLOCK" "a clock that is never set",
        Spawn "_POSIX_SPAWN" "starting a program without a copy of this one",
        SporadicServer "_POSIX_SPORADIC_SERVER" "a budget of time at a priority, for processes",
        Timeouts "_POSIX_TIMEOUTS" "calls that wait no longer than until a moment",
        TypedMemoryObjects "_POSIX_TYPED_MEMORY_OBJECTS" "memory by its kind",
    }
    RealtimeThreads: {
        ThreadPrioInherit "_POSIX_THREAD_PRIO_INHERIT" "mutexes whose owner gets the priority of its waiters",
        ThreadPrioProtect "_POSIX_THREAD_PRIO_PROTECT" "mutexes whose owner has a priority of their own",
        ThreadPriorityScheduling "_POSIX_THREAD_PRIORITY_SCHEDULING" "classes and priorities of threads",
    }
    AdvancedRealtimeThreads: {
        Barriers "_POSIX_BARRIERS" "barriers",
        SpinLocks "_POSIX_SPIN_LOCKS" "locks that spin",
        ThreadCputime "_POSIX_THREAD_CPUTIME" "a clock of each thread's own time",
        ThreadSporadicServer "_POSIX_THREAD_SPORADIC_SERVER" "a budget of time at a priority, for threads",
    }
}

impl PosixOption {
    /// Its bundle.
    #[must_use]
    pub fn bundle(self) -> PosixBundle {
        self.facts().0
    }

    /// Its constant: `_POSIX_TIMERS`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.facts().1
    }

    /// A short description.
    #[must_use]
    pub fn summary(self) -> &'static str {
        self.facts().2
    }
}

/// The support that a system reports for an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PosixAnswer {
    /// Supported, by this version of the standard: `200809`.
    Supported(u32),
    /// The functions exist and report at run time whether they work: the system returns 0.
    Undecided,
    /// Not supported.
    Unsupported,
}

impl PosixAnswer {
    /// From the result of `sysconf`.
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
