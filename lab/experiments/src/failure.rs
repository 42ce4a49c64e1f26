//! Errors that end an experiment.

use millpond_machine::{Absent, Refusal};
use millpond_pools::PoolError;

/// An error that ends an experiment. All changes are undone.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A stop was requested.
    #[error("it was interrupted")]
    Stopped,
    /// The experiment is impossible on this machine.
    #[error("{0}")]
    NotHere(Absent),
    /// The machine refused a necessary change.
    #[error("cannot {what}: {refusal}")]
    Refused {
        /// Verb and noun.
        what: String,
        /// The reason.
        refusal: Box<Refusal>,
    },
    /// A necessary pool configuration was refused.
    #[error("cannot {what}: {error}")]
    Pools {
        /// Verb and noun.
        what: String,
        /// The reason.
        error: Box<PoolError>,
    },
    /// A simulated machine could not be opened, or halted.
    #[error("{0}")]
    Machine(String),
    /// A program could not be started, or failed.
    #[error("cannot run {program}: {why}")]
    Program {
        /// The program.
        program: String,
        /// The reason, in words.
        why: String,
    },
}

impl Failure {
    /// A refusal of `what`, as a function for `map_err`.
    pub(crate) fn refused(what: impl Into<String>) -> impl FnOnce(Refusal) -> Failure {
        move |refusal| Failure::Refused { what: what.into(), refusal: Box::new(refusal) }
    }

    /// The same for pool errors.
    pub(crate) fn pools(what: impl Into<String>) -> impl FnOnce(PoolError) -> Failure {
        move |error| Failure::Pools { what: what.into(), error: Box::new(error) }
    }

    /// A remedy, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Failure::NotHere(absent) => absent.what_would_help.as_deref(),
            Failure::Refused { refusal, .. } => refusal.hint.as_deref(),
            Failure::Pools { error, .. } => error.hint.as_deref(),
            Failure::Stopped | Failure::Machine(_) | Failure::Program { .. } => None,
        }
    }
}
