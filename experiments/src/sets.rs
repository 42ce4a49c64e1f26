//! A processor set that lives as long as an arm of an experiment.

use crate::Failure;
use millpond_machine::facets::CreateOptions;
use millpond_machine::{Machine, Writer};
use millpond_model::{CpuId, PsetId};

/// A set that we made, which pushes nobody out. Dropping it destroys it, quietly; [`MadeSet::end`] says what goes wrong.
pub(crate) struct MadeSet<'m> {
    machine: &'m dyn Machine,
    id: PsetId,
    is_there: bool,
}

impl<'m> MadeSet<'m> {
    /// Makes a set of these processors.
    pub fn make(
        machine: &'m dyn Machine,
        cpus: &[CpuId],
        note: &mut dyn FnMut(&str),
    ) -> Result<Self, Failure> {
        let psets = machine.psets().map_err(Failure::NotHere)?;
        let what = "create processor set";
        let writer = Writer::open(machine).map_err(Failure::refused(what))?;
        let options = CreateOptions { keep_others: true };
        let change = psets.prepare_create(cpus, options, false).map_err(Failure::refused(what))?;
        let done = writer.commit(change).map_err(Failure::refused(what))?;
        done.notes.iter().for_each(|text| note(text));
        Ok(MadeSet { machine, id: done.outcome.0, is_there: true })
    }

    /// Its number.
    pub fn id(&self) -> PsetId {
        self.id
    }

    /// Destroys it.
    pub fn end(mut self) -> Result<(), Failure> {
        self.destroy()
    }

    fn destroy(&mut self) -> Result<(), Failure> {
        if !std::mem::take(&mut self.is_there) {
            return Ok(());
        }
        let what = || format!("destroy processor set {}", self.id);
        let psets = self.machine.psets().map_err(Failure::NotHere)?;
        let writer = Writer::open(self.machine).map_err(Failure::refused(what()))?;
        let change = psets.prepare_destroy(self.id).map_err(Failure::refused(what()))?;
        writer.commit(change).map_err(Failure::refused(what())).map(drop)
    }
}

impl Drop for MadeSet<'_> {
    fn drop(&mut self) {
        // Whatever ended the experiment is told; that this failed too would only hide it.
        let _ = self.destroy();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_session::{OpenOptions, Session};

    fn session() -> Session {
        let options = OpenOptions { machine: "t2000".parse().unwrap(), ..OpenOptions::default() };
        Session::open(&options).unwrap()
    }

    #[test]
    fn a_set_is_there_until_it_is_ended_or_dropped() {
        let session = session();
        let sets = || session.machine().psets().unwrap().list().unwrap().len();
        for ends_itself in [true, false] {
            let set = MadeSet::make(session.machine(), &[CpuId(1), CpuId(2)], &mut |_| ()).unwrap();
            assert_eq!((sets(), set.id()), (1, PsetId(1)));
            if ends_itself {
                set.end().unwrap();
            } else {
                drop(set);
            }
            assert_eq!(sets(), 0);
        }
    }

    #[test]
    fn a_set_that_cannot_be_made_is_refused_in_words() {
        let session = session();
        let failure = MadeSet::make(session.machine(), &[CpuId(999)], &mut |_| ()).err().unwrap();
        assert!(failure.to_string().starts_with("cannot create processor set: processor 999: "), "{failure}");
    }
}
