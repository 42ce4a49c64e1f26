//! Changes of the machine for the lifetime of a value: processor sets, and CPUs without interrupts.

use crate::Failure;
use millpond_machine::facets::CreateOptions;
use millpond_machine::{Change, Machine, Refusal, Writer};
use millpond_model::{CpuId, Pid, PsetId, State};

/// Options of sets on a shared machine.
pub(crate) const KEEP_OTHERS: CreateOptions = CreateOptions { keep_others: true };

/// A created set. Dropping it destroys the set and ignores errors; [`MadeSet::end`] reports them.
pub struct MadeSet<'m> {
    machine: &'m dyn Machine,
    id: PsetId,
    is_there: bool,
}

impl<'m> MadeSet<'m> {
    /// Creates a set of these CPUs.
    pub fn make(
        machine: &'m dyn Machine,
        cpus: &[CpuId],
        options: CreateOptions,
        note: &mut dyn FnMut(&str),
    ) -> Result<Self, Failure> {
        let psets = machine.psets().map_err(Failure::NotHere)?;
        let create = || psets.prepare_create(cpus, options, false);
        let id = change(machine, "create processor set", create, note)?.0;
        Ok(MadeSet { machine, id, is_there: true })
    }

    /// Its id.
    pub fn id(&self) -> PsetId {
        self.id
    }

    /// Destroys the set.
    pub fn end(mut self) -> Result<(), Failure> {
        self.destroy()
    }

    fn destroy(&mut self) -> Result<(), Failure> {
        if !std::mem::take(&mut self.is_there) {
            return Ok(());
        }
        let psets = self.machine.psets().map_err(Failure::NotHere)?;
        let what = format!("destroy processor set {}", self.id);
        change(self.machine, &what, || psets.prepare_destroy(self.id), &mut |_| ()).map(drop)
    }
}

impl Drop for MadeSet<'_> {
    fn drop(&mut self) {
        // The error that ended the experiment is reported; an error here would only hide it.
        let _ = self.destroy();
    }
}

/// Executes a prepared change, and reports its notes; returns its outcome.
pub(crate) fn change<T>(
    machine: &dyn Machine,
    what: &str,
    prepare: impl FnOnce() -> Result<Change<T>, Refusal>,
    note: &mut dyn FnMut(&str),
) -> Result<T, Failure> {
    let writer = Writer::open(machine).map_err(Failure::refused(what))?;
    let change = prepare().map_err(Failure::refused(what))?;
    let done = writer.commit(change).map_err(Failure::refused(what))?;
    done.notes.iter().for_each(|text| note(text));
    Ok(done.outcome)
}

/// Binds a started program to a set, or to the CPUs that no set has.
pub(crate) fn bind(
    machine: &dyn Machine,
    pid: Pid,
    set: PsetId,
    note: &mut dyn FnMut(&str),
) -> Result<(), Failure> {
    let threads = machine.threads().map_err(Failure::NotHere)?;
    let bind = || {
        if set.is_default() {
            threads.prepare_start_in_default(pid)
        } else {
            threads.prepare_bind_set(pid, None, Some(set)).map(|change| change.map(drop))
        }
    };
    change(machine, &format!("bind process {pid} to set {set}"), bind, note)
}

/// CPUs that take no interrupts. Dropping it lets them take interrupts again and ignores errors; [`Shelter::end`] reports
/// them.
pub(crate) struct Shelter<'m> {
    machine: &'m dyn Machine,
    cpus: Vec<CpuId>,
}

impl<'m> Shelter<'m> {
    /// Sets the CPUs to no-intr.
    pub fn make(
        machine: &'m dyn Machine,
        cpus: &[CpuId],
        note: &mut dyn FnMut(&str),
    ) -> Result<Self, Failure> {
        set_states(machine, cpus, State::NoIntr, note)?;
        Ok(Shelter { machine, cpus: cpus.to_vec() })
    }

    /// Sets them back to on-line.
    pub fn end(mut self) -> Result<(), Failure> {
        let cpus = std::mem::take(&mut self.cpus);
        set_states(self.machine, &cpus, State::OnLine, &mut |_| ())
    }
}

impl Drop for Shelter<'_> {
    fn drop(&mut self) {
        if !self.cpus.is_empty() {
            // As for sets: the error that ended the experiment is reported.
            let _ = set_states(self.machine, &self.cpus, State::OnLine, &mut |_| ());
        }
    }
}

/// The steps that would set the CPUs to no-intr, one per line.
pub(crate) fn shelter_steps(machine: &dyn Machine, cpus: &[CpuId]) -> Result<Vec<String>, Failure> {
    let processors = machine.processors().map_err(Failure::NotHere)?;
    let what = "shelter CPUs from interrupts";
    let change = processors.prepare_states(cpus, State::NoIntr, false).map_err(Failure::refused(what))?;
    Ok(change.steps.iter().map(ToString::to_string).collect())
}

pub(crate) fn set_states(
    machine: &dyn Machine,
    cpus: &[CpuId],
    to: State,
    note: &mut dyn FnMut(&str),
) -> Result<(), Failure> {
    let processors = machine.processors().map_err(Failure::NotHere)?;
    let prepare = || processors.prepare_states(cpus, to, false);
    change(machine, &format!("make CPUs {to}"), prepare, note).map(drop)
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
            let set =
                MadeSet::make(session.machine(), &[CpuId(1), CpuId(2)], KEEP_OTHERS, &mut |_| ()).unwrap();
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
    fn processors_are_sheltered_until_the_shelter_is_ended_or_dropped() {
        let session = session();
        let cpus = [CpuId(4), CpuId(5)];
        let sheltered = || {
            let states = session.machine().processors().unwrap().states().unwrap();
            states
                .iter()
                .filter(|status| status.state == State::NoIntr)
                .map(|status| status.cpu)
                .collect::<Vec<_>>()
        };
        assert!(!shelter_steps(session.machine(), &cpus).unwrap().is_empty());
        assert_eq!(sheltered(), []);
        for ends_itself in [true, false] {
            let shelter = Shelter::make(session.machine(), &cpus, &mut |_| ()).unwrap();
            assert_eq!(sheltered(), cpus);
            if ends_itself {
                shelter.end().unwrap();
            } else {
                drop(shelter);
            }
            assert_eq!(sheltered(), []);
        }
    }

    #[test]
    fn a_set_that_cannot_be_made_is_refused_in_words() {
        let session = session();
        let failure =
            MadeSet::make(session.machine(), &[CpuId(999)], KEEP_OTHERS, &mut |_| ()).err().unwrap();
        assert!(failure.to_string().starts_with("cannot create processor set: CPU 999: "), "{failure}");
    }
}
