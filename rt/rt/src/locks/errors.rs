//! Errors of locks, and the errno of each for programs in C.

use super::Orphan;
use std::error::Error;
use std::fmt;
use std::io;

/// A failed operation on a mutex.
#[derive(Debug)]
#[non_exhaustive]
pub enum LockRefusal {
    /// The caller holds it already. `EDEADLK`.
    Relock,
    /// Another thread holds it, and the call does not wait. `EBUSY`.
    NotOwner,
    /// A thread holds it, and the caller would not wait. `EBUSY`.
    Busy,
    /// The deadline has passed. `ETIMEDOUT`.
    TimedOut,
    /// Its owner died, and the next owner did not repair the protected data. `ENOTRECOVERABLE`.
    NotRecoverable,
    /// Not a valid mutex or condition, or destroyed; an invalid time; or a mutex that needs no repair. `EINVAL`.
    Invalid,
    /// Another error of the system; its errno.
    System {
        /// The operation that failed.
        action: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

impl LockRefusal {
    /// Its errno, positive.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            LockRefusal::Relock => libc::EDEADLK,
            LockRefusal::NotOwner => libc::EPERM,
            LockRefusal::Busy => libc::EBUSY,
            LockRefusal::TimedOut => libc::ETIMEDOUT,
            LockRefusal::NotRecoverable => libc::ENOTRECOVERABLE,
            LockRefusal::Invalid => libc::EINVAL,
            LockRefusal::System { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
        }
    }

    /// Converts an error of the C library for `action`.
    pub(super) fn of(errno: i32, action: &'static str) -> LockRefusal {
        match errno {
            libc::EDEADLK => LockRefusal::Relock,
            libc::EPERM => LockRefusal::NotOwner,
            libc::EBUSY => LockRefusal::Busy,
            libc::ETIMEDOUT => LockRefusal::TimedOut,
            libc::ENOTRECOVERABLE => LockRefusal::NotRecoverable,
            libc::EINVAL => LockRefusal::Invalid,
            _ => LockRefusal::System { action, source: io::Error::from_raw_os_error(errno) },
        }
    }
}

impl fmt::Display for LockRefusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            LockRefusal::Relock => "cannot lock: the calling thread holds the lock already, or waits in a circle",
            LockRefusal::NotOwner => "cannot unlock: the calling thread does not hold the lock",
            LockRefusal::Busy => "cannot lock at once: a thread holds the lock",
            LockRefusal::TimedOut => "cannot lock in time: the deadline has passed",
            LockRefusal::NotRecoverable => {
                "cannot lock: the owner died, and what it left was not repaired; destroy the lock and make it anew"
            }
            LockRefusal::Invalid => "cannot use the lock: it is none, or not in the state for that",
            LockRefusal::System { action, .. } => return write!(out, "cannot {action}"),
        })
    }
}

impl Error for LockRefusal {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            LockRefusal::System { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// A lock call without a guard.
#[derive(Debug)]
pub enum LockError<'a, T: ?Sized> {
    /// The owner ended, was cancelled or panicked while it held the mutex. The caller holds it now; the data may be half changed. `EOWNERDEAD`.
    OwnerDied(Orphan<'a, T>),
    /// The caller does not hold it.
    Refused(LockRefusal),
}

impl<T: ?Sized> LockError<'_, T> {
    /// Its errno, positive.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            LockError::OwnerDied(_) => libc::EOWNERDEAD,
            LockError::Refused(refusal) => refusal.errno(),
        }
    }
}

impl<T: ?Sized> From<LockRefusal> for LockError<'_, T> {
    fn from(refusal: LockRefusal) -> Self {
        LockError::Refused(refusal)
    }
}

impl<T: ?Sized> fmt::Display for LockError<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockError::OwnerDied(_) => {
                out.write_str("the owner of the lock died: repair what it protects, then make it consistent")
            }
            LockError::Refused(refusal) => refusal.fmt(out),
        }
    }
}

impl<T: ?Sized + fmt::Debug> Error for LockError<'_, T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_the_errno_that_the_c_library_gave() {
        for errno in [
            libc::EDEADLK,
            libc::EPERM,
            libc::EBUSY,
            libc::ETIMEDOUT,
            libc::ENOTRECOVERABLE,
            libc::EINVAL,
            libc::ENOTSUP,
            libc::EAGAIN,
        ] {
            assert_eq!(LockRefusal::of(errno, "lock").errno(), errno);
        }
        let refusal = LockRefusal::of(libc::ENOTSUP, "make a lock with priority inheritance");
        assert_eq!(refusal.to_string(), "cannot make a lock with priority inheritance");
        assert!(refusal.source().is_some());
    }
}
