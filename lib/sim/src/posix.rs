//! What Solaris answers for the real-time options of POSIX, on all its machines.

use millpond_model::{PosixAnswer, PosixOption};

/// The version for which a program asks that is made by the Single UNIX Specification, version 3.
const VERSION: u32 = 200_112;

/// What `sysconf` answers there.
#[must_use]
pub fn posix_answer(option: PosixOption) -> PosixAnswer {
    match option {
        PosixOption::PrioritizedIo
        | PosixOption::Cputime
        | PosixOption::SporadicServer
        | PosixOption::TypedMemoryObjects
        | PosixOption::ThreadCputime
        | PosixOption::ThreadSporadicServer => PosixAnswer::Unsupported,
        _ => PosixAnswer::Supported(VERSION),
    }
}
