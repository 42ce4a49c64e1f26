//! What ends an experiment before its time.

use millpond_machine::{Absent, Refusal};
use millpond_pools::PoolError;

/// What ends an experiment before its time. Whatever it changed was put back.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It was asked to stop.
    #[error("it was interrupted")]
    Stopped,
    /// The experiment cannot be done on this machine.
    #[error("{0}")]
    NotHere(Absent),
    /// The machine refused something that cannot be left out.
    #[error("cannot {what}: {refusal}")]
    Refused {
        /// Verb and noun.
        what: String,
        /// Why.
        refusal: Box<Refusal>,
    },
    /// A configuration of pools was refused, and cannot be left out.
    #[error("cannot {what}: {error}")]
    Pools {
        /// Verb and noun.
        what: String,
        /// Why.
        error: Box<PoolError>,
    },
    /// A simulated machine could not be had, or died.
    #[error("{0}")]
    Machine(String),
    /// A program of ours could not be started, or did not do what it should.
    #[error("cannot run {program}: {why}")]
    Program {
        /// Which.
        program: String,
        /// Why, in words.
        why: String,
    },
}

impl Failure {
    /// A refusal of `what`, as a function for `map_err`.
    pub(crate) fn refused(what: impl Into<String>) -> impl FnOnce(Refusal) -> Failure {
        move |refusal| Failure::Refused { what: what.into(), refusal: Box::new(refusal) }
    }

    /// The same for what is done to pools.
    pub(crate) fn pools(what: impl Into<String>) -> impl FnOnce(PoolError) -> Failure {
        move |error| Failure::Pools { what: what.into(), error: Box::new(error) }
    }

    /// What would help, where something does.
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
