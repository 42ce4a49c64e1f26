//! Errors of calls about stacks, and the errno of each for programs in C.

use crate::StackBounds;
use std::error::Error;
use std::fmt;
use std::io;

/// A failed operation on a stack.
#[derive(Debug)]
#[non_exhaustive]
pub enum StackError {
    /// Not an offered size, or not the size of that stack. `EINVAL`.
    Size(usize),
    /// [`stack_alloc`](crate::stack_alloc) never returned that address. `EFAULT`.
    Foreign(usize),
    /// The stack is free already. `EALREADY`.
    Twice(usize),
    /// The caller runs on it. `EBUSY`.
    InUse(usize),
    /// Out of memory or address space, or too many mappings. `ENOMEM`.
    NoMemory(usize),
    /// All future memory is to be locked (`MCL_FUTURE`), and the stack exceeds the limit on locked memory. `EAGAIN`.
    LockLimit(usize),
    /// Invalid bounds. `EINVAL`.
    Bounds(StackBounds),
    /// The main stack has no limit to which it could be locked. `ENOTSUP`.
    Unlimited,
    /// The main stack cannot grow to its limit. `ENOMEM`.
    Growth(usize),
    /// Another error of the system; its errno.
    System {
        /// The operation that failed.
        action: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

impl StackError {
    /// Its errno, positive.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            StackError::Size(_) | StackError::Bounds(_) => libc::EINVAL,
            StackError::Foreign(_) => libc::EFAULT,
            StackError::Twice(_) => libc::EALREADY,
            StackError::InUse(_) => libc::EBUSY,
            StackError::NoMemory(_) | StackError::Growth(_) => libc::ENOMEM,
            StackError::Unlimited => libc::ENOTSUP,
            StackError::LockLimit(_) => libc::EAGAIN,
            StackError::System { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
        }
    }

    /// The error of mapping a stack of that size.
    pub(crate) fn making(size: usize, action: &'static str, source: io::Error) -> StackError {
        match source.raw_os_error() {
            Some(libc::ENOMEM) => StackError::NoMemory(size),
            Some(libc::EAGAIN) => StackError::LockLimit(size),
            _ => StackError::System { action, source },
        }
    }
}

impl fmt::Display for StackError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StackError::Size(size) => {
                write!(
                    out,
                    "cannot use size {size} for a stack: it is none of fetch_stack_sizes, or not its own"
                )
            }
            StackError::Foreign(address) => {
                write!(out, "cannot free stack {address:#x}: stack_alloc never gave it")
            }
            StackError::Twice(address) => write!(out, "cannot free stack {address:#x}: it is free already"),
            StackError::InUse(address) => {
                write!(out, "cannot free stack {address:#x}: the caller runs on it")
            }
            StackError::NoMemory(size) => {
                write!(
                    out,
                    "cannot make a stack of {size} bytes: there is no memory, or a limit (ulimit -v, vm.max_map_count)"
                )
            }
            StackError::LockLimit(size) => {
                write!(
                    out,
                    "cannot lock a stack of {size} bytes: raise the limit on locked memory (ulimit -l)"
                )
            }
            StackError::Bounds(StackBounds { base, size }) => write!(
                out,
                "cannot set stack bounds {base:#x}+{size:#x}: both must be multiples of 16, the size at least {}",
                libc::MINSIGSTKSZ
            ),
            StackError::Unlimited => {
                write!(out, "cannot lock the main stack: it has no limit; set one (ulimit -s)")
            }
            StackError::Growth(size) => write!(
                out,
                "cannot grow the main stack to its limit of {size} bytes: something is mapped there, or address space (ulimit -v) or locked memory \
                 (ulimit -l) is limited; a lower limit of the stack (ulimit -s) may fit"
            ),
            StackError::System { action, .. } => write!(out, "cannot {action}"),
        }
    }
}

impl Error for StackError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            StackError::System { source, .. } => Some(source),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_an_errno_of_its_own_and_says_what_to_do() {
        let system = |errno| StackError::making(32768, "map a stack", io::Error::from_raw_os_error(errno));
        let told = [
            (StackError::Size(1), libc::EINVAL),
            (StackError::Foreign(0x1000), libc::EFAULT),
            (StackError::Twice(0x1000), libc::EALREADY),
            (StackError::InUse(0x1000), libc::EBUSY),
            (StackError::Bounds(StackBounds { base: 0, size: 16 }), libc::EINVAL),
            (StackError::Unlimited, libc::ENOTSUP),
            (StackError::Growth(1), libc::ENOMEM),
            (system(libc::ENOMEM), libc::ENOMEM),
            (system(libc::EAGAIN), libc::EAGAIN),
            (system(libc::EPERM), libc::EPERM),
        ];
        for (error, errno) in &told {
            assert_eq!(error.errno(), *errno, "{error}");
        }
        assert_eq!(told[2].0.to_string(), "cannot free stack 0x1000: it is free already");
        assert_eq!(
            told[8].0.to_string(),
            "cannot lock a stack of 32768 bytes: raise the limit on locked memory (ulimit -l)"
        );
        assert_eq!(told[9].0.to_string(), "cannot map a stack");
        assert!(told[9].0.source().is_some());
    }
}
