//! Errors of pools: the codes and texts of libpool (reference §7.5), and a hint.

use millpond_machine::{Reason, Refusal};
use std::fmt;

/// What sort of failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Code {
    /// A constraint would be broken, or a file is no configuration.
    InvalidConf,
    /// There is no such thing.
    InvalidSearch,
    /// A name or a value that cannot be.
    BadParam,
    /// A value that its property does not take.
    PutProp,
    /// The file cannot be read or written.
    Datastore,
    /// The machine says no, in the words of its error number.
    System(&'static str),
}

/// A failure. Displays as the text of libpool; what we know beyond it is the hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolError {
    /// What sort.
    pub code: Code,
    /// What is wrong in this case, and what would help.
    pub hint: Option<String>,
}

/// The error numbers of Solaris that commands print, in its words.
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
    /// Anything else.
    pub const OTHER: &str = "System error";
}

impl PoolError {
    /// Of a sort, without a remedy.
    #[must_use]
    pub fn new(code: Code) -> Self {
        PoolError { code, hint: None }
    }

    /// With what is wrong in this case, and what would help.
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

/// The error number that Solaris would give; what the machine itself says becomes the hint.
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
