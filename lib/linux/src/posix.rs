//! The C library's answers about POSIX real-time options.

use libc::c_int;
use millpond_model::{PosixAnswer, PosixOption};

/// The result of `sysconf`.
#[must_use]
pub fn posix_answer(option: PosixOption) -> PosixAnswer {
    // SAFETY: only returns a number.
    PosixAnswer::of(unsafe { libc::sysconf(number(option)) })
}

fn number(option: PosixOption) -> c_int {
    match option {
        PosixOption::AsynchronousIo => libc::_SC_ASYNCHRONOUS_IO,
        PosixOption::Fsync => libc::_SC_FSYNC,
        PosixOption::MappedFiles => libc::_SC_MAPPED_FILES,
        PosixOption::Memlock => libc::_SC_MEMLOCK,
        PosixOption::MemlockRange => libc::_SC_MEMLOCK_RANGE,
        PosixOption::MemoryProtection => libc::_SC_MEMORY_PROTECTION,
        PosixOption::MessagePassing => libc::_SC_MESSAGE_PASSING,
        PosixOption::PrioritizedIo => libc::_SC_PRIORITIZED_IO,
        PosixOption::PriorityScheduling => libc::_SC_PRIORITY_SCHEDULING,
        PosixOption::RealtimeSignals => libc::_SC_REALTIME_SIGNALS,
        PosixOption::Semaphores => libc::_SC_SEMAPHORES,
        PosixOption::SharedMemoryObjects => libc::_SC_SHARED_MEMORY_OBJECTS,
        PosixOption::SynchronizedIo => libc::_SC_SYNCHRONIZED_IO,
        PosixOption::Timers => libc::_SC_TIMERS,
        PosixOption::AdvisoryInfo => libc::_SC_ADVISORY_INFO,
        PosixOption::ClockSelection => libc::_SC_CLOCK_SELECTION,
        PosixOption::Cputime => libc::_SC_CPUTIME,
        PosixOption::MonotonicClock => libc::_SC_MONOTONIC_CLOCK,
        PosixOption::Spawn => libc::_SC_SPAWN,
        PosixOption::SporadicServer => libc::_SC_SPORADIC_SERVER,
        PosixOption::Timeouts => libc::_SC_TIMEOUTS,
        PosixOption::TypedMemoryObjects => libc::_SC_TYPED_MEMORY_OBJECTS,
        PosixOption::ThreadPrioInherit => libc::_SC_THREAD_PRIO_INHERIT,
        PosixOption::ThreadPrioProtect => libc::_SC_THREAD_PRIO_PROTECT,
        PosixOption::ThreadPriorityScheduling => libc::_SC_THREAD_PRIORITY_SCHEDULING,
        PosixOption::Barriers => libc::_SC_BARRIERS,
        PosixOption::SpinLocks => libc::_SC_SPIN_LOCKS,
        PosixOption::ThreadCputime => libc::_SC_THREAD_CPUTIME,
        PosixOption::ThreadSporadicServer => libc::_SC_THREAD_SPORADIC_SERVER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn getconf_says_the_same() {
        for option in PosixOption::ALL {
            let Ok(out) = Command::new("getconf").arg(option.name()).output() else {
                return println!("skipped: getconf_says_the_same: there is no getconf");
            };
            let said = String::from_utf8_lossy(&out.stdout).trim().to_owned();
            let expected = match posix_answer(option) {
                PosixAnswer::Supported(version) => version.to_string(),
                PosixAnswer::Undecided => "0".to_owned(),
                PosixAnswer::Unsupported => "undefined".to_owned(),
            };
            assert_eq!(said, expected, "{}", option.name());
        }
    }
}
