//! The sets facet.

use crate::draft::Draft;
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
        let mut draft = self.draft();
        let taken: Vec<PsetId> = draft.tables.sets.keys().copied().collect();
        // Solaris: twice the processors and one more, the default set included.
        let possible = 2 * draft.tables.processors.len();
        if taken.len() >= possible {
            return Err(Refusal::operation(Reason::TooManySets(possible)));
        }
        let id = Pset::free_id(&taken);
        let serial = draft.tables.sets.values().map(|s| s.serial).max().unwrap_or(0) + 1;
        draft.set(id, Some(SetRecord { shared: options.keep_others, serial }))?;
        let moves = move_all(&mut draft, cpus, id, forced)?;
        Ok(draft.finish(format!("create processor set {id}"), (id, moves)))
    }

    fn prepare_assign(
        &self,
        set: PsetId,
        cpus: &[CpuId],
        forced: bool,
    ) -> Result<Change<Vec<Move>>, Refusal> {
        self.sets_are_free()?;
        let mut draft = self.draft();
        if !draft.tables.has_set(set) {
            return Err(Refusal::new(Subject::Pset(set), Reason::NoSuchPset));
        }
        named_twice(cpus)?;
        let moves = move_all(&mut draft, cpus, set, forced)?;
        let which = cpus.iter().copied().collect::<CpuSet>();
        let what = if set.is_default() {
            format!("take processors {which} out of their sets")
        } else {
            format!("assign processors {which} to set {set}")
        };
        Ok(draft.finish(what, moves))
    }

    fn prepare_destroy(&self, set: PsetId) -> Result<Change<()>, Refusal> {
        self.sets_are_free()?;
        let mut draft = self.draft();
        let refuse = |reason| Err(Refusal::new(Subject::Pset(set), reason));
        if set.is_default() {
            return refuse(Reason::DefaultPset);
        }
        if !draft.tables.has_set(set) {
            return refuse(Reason::NoSuchPset);
        }
        // Processors first: a thread that is bound to one of them too is then never bound outside its set.
        for cpu in draft.tables.members(set) {
            draft.place(cpu, PsetId::DEFAULT)?;
        }
        let bound: Vec<Lwp> = draft.bound_to_set(set, false).chain(draft.bound_to_set(set, true)).collect();
        for lwp in bound {
            draft.bind_set(lwp, None, true)?;
        }
        draft.set(set, None)?;
        Ok(draft.finish(format!("remove processor set {set}"), ()))
    }
}

fn move_all(draft: &mut Draft, cpus: &[CpuId], to: PsetId, forced: bool) -> Result<Vec<Move>, Refusal> {
    cpus.iter().map(|cpu| draft.move_cpu(*cpu, to, forced)).collect()
}
