//! The sets facet.

use crate::change_builder::ChangeBuilder;
use crate::machine::{SimMachine, named_twice};
use crate::tables::SetRecord;
use millpond_machine::facets::CreateOptions;
use millpond_machine::{Change, Psets, Reason, Refusal, Subject};
use millpond_model::{CpuId, CpuSet, Lwp, Move, Pset, PsetId};

impl Psets for SimMachine {
    fn list(&self) -> Result<Vec<Pset>, Refusal> {
        Ok(self.view(|s| s.tables.psets()))
    }

    fn prepare_create(
        &self,
        cpus: &[CpuId],
        options: CreateOptions,
        forced: bool,
    ) -> Result<Change<(PsetId, Vec<Move>)>, Refusal> {
        self.sets_are_free()?;
        named_twice(cpus)?;
        let mut builder = self.builder();
        let id = add_set(&mut builder, options, None)?;
        let moves = move_all(&mut builder, cpus, id, forced)?;
        Ok(builder.finish(format!("create processor set {id}"), (id, moves)))
    }

    fn prepare_assign(
        &self,
        set: PsetId,
        cpus: &[CpuId],
        forced: bool,
    ) -> Result<Change<Vec<Move>>, Refusal> {
        self.sets_are_free()?;
        let mut builder = self.builder();
        if !builder.tables.has_set(set) {
            return Err(Refusal::new(Subject::Pset(set), Reason::NoSuchPset));
        }
        builder.check_no_fence(set)?;
        named_twice(cpus)?;
        let moves = move_all(&mut builder, cpus, set, forced)?;
        let which = cpus.iter().copied().collect::<CpuSet>();
        let what = if set.is_default() {
            format!("take CPUs {which} out of their sets")
        } else {
            format!("assign CPUs {which} to set {set}")
        };
        Ok(builder.finish(what, moves))
    }

    fn prepare_destroy(&self, set: PsetId) -> Result<Change<()>, Refusal> {
        self.sets_are_free()?;
        let mut builder = self.builder();
        let refuse = |reason| Err(Refusal::new(Subject::Pset(set), reason));
        if set.is_default() {
            return refuse(Reason::DefaultPset);
        }
        if !builder.tables.has_set(set) {
            return refuse(Reason::NoSuchPset);
        }
        builder.check_no_fence(set)?;
        dissolve(&mut builder, set)?;
        Ok(builder.finish(format!("remove processor set {set}"), ()))
    }
}

/// Adds a set without CPUs.
pub(crate) fn add_set(
    builder: &mut ChangeBuilder,
    options: CreateOptions,
    id: Option<PsetId>,
) -> Result<PsetId, Refusal> {
    let taken: Vec<PsetId> = builder.tables.sets.keys().copied().collect();
    // Limit of Solaris: 2 * CPUs + 1 sets, including the default set.
    let possible = 2 * builder.tables.processors.len();
    if taken.len() >= possible {
        return Err(Refusal::operation(Reason::TooManySets(possible)));
    }
    let id = id.unwrap_or_else(|| Pset::free_id(&taken));
    let serial = builder.tables.sets.values().map(|s| s.serial).max().unwrap_or(0) + 1;
    builder.set(id, Some(SetRecord { shared: options.keep_others, serial }))?;
    Ok(id)
}

/// Destroys a set.
pub(crate) fn dissolve(builder: &mut ChangeBuilder, set: PsetId) -> Result<(), Refusal> {
    // CPUs first, so that a thread that is also bound to one of them is never bound outside its set.
    give_back(builder, set, |_, _| true)?;
    let bound: Vec<Lwp> = builder.bound_to_set(set, false).chain(builder.bound_to_set(set, true)).collect();
    for lwp in bound {
        builder.bind_set(lwp, None, true)?;
    }
    builder.set(set, None)
}

/// Returns the CPUs of a set to the sets that they came from, if those still exist and `may_take` them.
pub(crate) fn give_back(
    builder: &mut ChangeBuilder,
    set: PsetId,
    may_take: impl Fn(PsetId, usize) -> bool,
) -> Result<(), Refusal> {
    builder.tables.members(set).into_iter().try_for_each(|cpu| builder.place_back(cpu, &may_take))
}

pub(crate) fn move_all(
    builder: &mut ChangeBuilder,
    cpus: &[CpuId],
    to: PsetId,
    forced: bool,
) -> Result<Vec<Move>, Refusal> {
    cpus.iter().map(|cpu| builder.move_cpu(*cpu, to, forced)).collect()
}
