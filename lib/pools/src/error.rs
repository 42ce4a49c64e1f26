//! Errors of pools: the codes and texts of libpool(3LIB), and a hint.

use millpond_machine::{Reason, Refusal};
use std::fmt;

/// The code of a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Code {
    /// A constraint would be violated, or a file is not a valid configuration.
    InvalidConf,
    /// The element does not exist.
    InvalidSearch,
    /// An invalid name or value.
    BadParam,
    /// A value that its property does not accept.
    PutProp,
    /// The file cannot be read or written.
    Datastore,
    /// The machine refuses. The text is that of the Solaris error number.
    System(&'static str),
}

/// A failure. Displays the text of libpool; further details are in the hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolError {
    /// The code.
    pub code: Code,
    /// The details of this case, and a remedy.
    pub hint: Option<String>,
}

/// The error numbers that Solaris commands print, with their texts.
pub mod errno {
    /// `EBUSY`.
    pub const BUSY: &str = "Device busy";
    /// `EINVAL`.
    pub const INVAL: &str = "Invalid argument";
    /// `ENOTACTIVE`.
    pub const NOT_ACTIVE: &str = "Facility is not active";
    /// `ENOTSUP`.
    pub const NOT_SUPPORTED: &str = "Operation not supported";
    /// `EPERM`.
    pub const PERM: &str = "Not owner";
    /// `ESRCH`.
    pub const SRCH: &str = "No such process";
    /// Any other error.
    pub const OTHER: &str = "System error";
}

impl PoolError {
    /// An error without a hint.
    #[must_use]
    pub fn new(code: Code) -> Self {
        PoolError { code, hint: None }
    }

    /// An error with details of this case, and a remedy.
    #[must_use]
    pub fn hinted(code: Code, hint: impl Into<String>) -> Self {
        PoolError { code, hint: Some(hint.into()) }
    }

    /// Pools are not enabled.
    #[must_use]
    pub fn not_active() -> Self {
        PoolError::hinted(Code::System(errno::NOT_ACTIVE), "enable pools: pooladm -e")
    }
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.code {
            Code::InvalidConf => "Invalid configuration",
            Code::InvalidSearch => "Invalid search",
            Code::BadParam => "Bad parameter supplied",
            Code::PutProp => "Error putting property",
            Code::Datastore => "Pools repository error",
            Code::System(text) => text,
        })
    }
}

impl std::error::Error for PoolError {}

/// The error number that Solaris would return. The message of the machine becomes the hint.
impl From<Refusal> for PoolError {
    fn from(refusal: Refusal) -> Self {
        let text = match &refusal.reason {
            Reason::PoolsDisabled => return PoolError::not_active(),
            Reason::NoSuchPool | Reason::NoSuchZone => {
                return PoolError { code: Code::InvalidSearch, hint: refusal.hint };
            }
            Reason::EmptyPset(_) => errno::NOT_SUPPORTED,
            Reason::BoundElsewhere { .. }
            | Reason::BoundThreads(_)
            | Reason::LastOfBusy(_)
            | Reason::LastOfDefault
            | Reason::LastOnline
            | Reason::LastOnlineOf(_)
            | Reason::LastInterruptible
            | Reason::Busy(_)
            | Reason::PsetsExist(_) => errno::BUSY,
            Reason::NoSuchProcess | Reason::ExitedMeanwhile => errno::SRCH,
            Reason::NotPermitted | Reason::ReadOnly(_) | Reason::KernelThread => errno::PERM,
            Reason::NoSuchProcessor { .. } | Reason::NamedTwice | Reason::NoSuchPset => errno::INVAL,
            Reason::Transition { .. } | Reason::NeedsForce | Reason::ManagedElsewhere(_) => errno::INVAL,
            _ => errno::OTHER,
        };
        let hint = match &refusal.hint {
            Some(hint) => format!("{refusal}; {hint}"),
            None => refusal.to_string(),
        };
        PoolError::hinted(Code::System(text), hint)
    }
}
