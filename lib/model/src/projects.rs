//! Errors of changes to projects and zones.

use crate::Pid;

/// The lowest number for a new project.
pub const FIRST_PROJECT: u32 = 100;

/// The largest number of a project.
pub const PROJECT_MAX: u32 = 2_147_483_647;

/// The longest name of a project, in characters.
pub const PROJECT_NAME_MAX: usize = 64;

/// An error of a change to a project.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProjectError {
    /// The name is in use.
    #[error("there is a project of that name")]
    NameTaken,
    /// The number is in use.
    #[error("project {0} has that number")]
    NumberTaken(String),
    /// The project exists on every machine.
    #[error("the numbers below {FIRST_PROJECT} are those of the projects that every machine has")]
    Reserved,
    /// The number is too large.
    #[error("numbers go up to {PROJECT_MAX}")]
    Number,
    /// The name is invalid.
    #[error(
        "a name begins with a letter, and goes on with letters, digits, `.`, `-` and `_`, {PROJECT_NAME_MAX} at most"
    )]
    Name,
    /// The project does not exist.
    #[error("there is no such project")]
    NoSuchProject,
    /// The project has processes.
    #[error("process {0} is in it")]
    Busy(Pid),
    /// The process does not exist.
    #[error("there is no such process")]
    NoSuchProcess,
    /// The process is part of the kernel.
    #[error("it is a part of the kernel")]
    Kernel,
}

/// An error of a change to a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ZoneError {
    /// The zone does not exist.
    #[error("there is no such zone")]
    NoSuchZone,
    /// It is the global zone, or was booted before.
    #[error("it runs already")]
    Runs,
    /// It was halted before.
    #[error("it does not run")]
    Halted,
    /// The global zone ends only with the machine.
    #[error("the global zone ends with the machine")]
    Global,
}
