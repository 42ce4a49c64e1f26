//! Processor sets.

use crate::{Change, Refusal};
use millpond_model::{CpuId, Move, Pset, PsetId};

/// How a set is to be made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CreateOptions {
    /// Confine members, do not push others out (mode `shared`).
    pub keep_others: bool,
}

/// The facet.
pub trait Psets {
    /// The sets that users made, in order of creation.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn list(&self) -> Result<Vec<Pset>, Refusal>;

    /// Prepares a new set with the lowest free number. CPUs come from the default set or, as on
    /// Solaris, from any other; none makes an empty set. All or nothing: where one CPU cannot come, no
    /// set is made.
    ///
    /// # Errors
    /// [`Refusal`] naming the CPU: unknown, named twice, not active, the last of the default set or of
    /// a set with bound threads, or with threads bound to it (unless `forced`, which unbinds them).
    fn prepare_create(
        &self,
        cpus: &[CpuId],
        options: CreateOptions,
        forced: bool,
    ) -> Result<Change<(PsetId, Vec<Move>)>, Refusal>;

    /// Prepares moving CPUs into a set, in the order given; [`PsetId::DEFAULT`] takes them out of
    /// theirs. CPUs that are there already take no step.
    ///
    /// # Errors
    /// As for [`Psets::prepare_create`], and when there is no such set.
    fn prepare_assign(&self, set: PsetId, cpus: &[CpuId], forced: bool)
    -> Result<Change<Vec<Move>>, Refusal>;

    /// Prepares the end of a set: its CPUs return to the default set, its threads to where they were.
    ///
    /// # Errors
    /// [`Refusal`] when there is no such set.
    fn prepare_destroy(&self, set: PsetId) -> Result<Change<()>, Refusal>;
}
