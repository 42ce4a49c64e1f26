//! Values of the real-time options of POSIX on Solaris, the same on all its machines.

use millpond_model::{PosixAnswer, PosixOption};

/// The version that programs written for the Single UNIX Specification, version 3, ask for.
const VERSION: u32 = 200_112;

/// The result of `sysconf` there.
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
