//! Why a project or a zone cannot be changed.

use crate::Pid;

/// The first number of projects that are added.
pub const FIRST_PROJECT: u32 = 100;

/// The largest number of a project.
pub const PROJECT_MAX: u32 = 2_147_483_647;

/// Letters of a name.
pub const PROJECT_NAME_MAX: usize = 64;

/// A project cannot be changed so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProjectError {
    /// There is one of that name.
    #[error("there is a project of that name")]
    NameTaken,
    /// There is one of that number.
    #[error("project {0} has that number")]
    NumberTaken(String),
    /// What every machine has.
    #[error("the numbers below {FIRST_PROJECT} are those of the projects that every machine has")]
    Reserved,
    /// It is too large.
    #[error("numbers go up to {PROJECT_MAX}")]
    Number,
    /// Not a name.
    #[error(
        "a name begins with a letter, and goes on with letters, digits, `.`, `-` and `_`, {PROJECT_NAME_MAX} at most"
    )]
    Name,
    /// There is none.
    #[error("there is no such project")]
    NoSuchProject,
    /// It has processes.
    #[error("process {0} is in it")]
    Busy(Pid),
    /// There is none.
    #[error("there is no such process")]
    NoSuchProcess,
    /// A part of the kernel.
    #[error("it is a part of the kernel")]
    Kernel,
}

/// A zone cannot be booted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ZoneError {
    /// There is none of that name.
    #[error("there is no such zone")]
    NoSuchZone,
    /// It is the global one, or was booted before.
    #[error("it runs already")]
    Runs,
    /// It was halted before.
    #[error("it does not run")]
    Halted,
    /// It ends with the machine.
    #[error("the global zone ends with the machine")]
    Global,
}
