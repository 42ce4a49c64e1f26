//! Processor sets.

use crate::{Change, Refusal};
use millpond_model::{CpuId, Move, Pset, PsetId};

/// Options for a new set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CreateOptions {
    /// Confine members, do not push others out (mode `shared`).
    pub keep_others: bool,
}

/// The facet.
pub trait Psets {
    /// The sets created by users, in order of creation.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    fn list(&self) -> Result<Vec<Pset>, Refusal>;

    /// Prepares a new set with the lowest free number. CPUs come from the default set or, as on Solaris, from any other; without CPUs the
    /// set is empty. All or nothing: if one CPU cannot be moved, no set is created.
    ///
    /// # Errors
    /// [`Refusal`] for a CPU: unknown, named twice, not active, the last of the default set or of a set with bound threads, or with threads
    /// bound to it (unless `forced`, which unbinds them).
    fn prepare_create(
        &self,
        cpus: &[CpuId],
        options: CreateOptions,
        forced: bool,
    ) -> Result<Change<(PsetId, Vec<Move>)>, Refusal>;

    /// Prepares moving CPUs into a set, in the order given; [`PsetId::DEFAULT`] removes them from theirs. CPUs that are already in the set
    /// take no step.
    ///
    /// # Errors
    /// As for [`Psets::prepare_create`], and if the set does not exist.
    fn prepare_assign(&self, set: PsetId, cpus: &[CpuId], forced: bool)
    -> Result<Change<Vec<Move>>, Refusal>;

    /// Prepares the end of a set: its CPUs return to the default set, its threads to their former places.
    ///
    /// # Errors
    /// [`Refusal`] if the set does not exist.
    fn prepare_destroy(&self, set: PsetId) -> Result<Change<()>, Refusal>;
}
