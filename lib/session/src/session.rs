//! An open machine, with its environment.

use crate::saved_machine::Kept;
use crate::zone;
use crate::{FileJournal, JournalFault};
use jiff::tz::TimeZone;
use millpond_linux::Root;
use millpond_machine::{Journal, JournalError, Machine, Operation, Reason, Refusal, Writing};
use millpond_model::Topology;
use millpond_sim::SimMachine;
use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The kind of an open machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The machine where this program runs.
    Real,
    /// A directory with the files of a machine.
    Captured,
    /// A machine in memory.
    Simulated,
    /// A recording of a machine.
    Recorded,
}

/// An operation whose writer was killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// The operation.
    pub operation: Operation,
}

/// Adapts a remedy to the machine: returns the text, or a replacement where the machine refuses a command in it; `None` without one. The
/// program passes this function to its services, which do not know the commands.
pub type Advice = fn(&Session, &str) -> Option<String>;

/// An open machine.
pub struct Session {
    pub(crate) machine: Holder,
    /// The same machine, if it is simulated.
    pub(crate) sim: Option<Rc<SimMachine>>,
    pub(crate) kept: Option<Kept>,
    pub(crate) kind: Kind,
    pub(crate) keeps_changes: bool,
    pub(crate) journal: Option<Rc<FileJournal>>,
    /// The root of the machine's files, if it has any.
    pub(crate) root: Option<Root>,
    /// The directory of a captured machine.
    pub(crate) dir: Option<PathBuf>,
    pub(crate) zone: OnceCell<TimeZone>,
}

/// The owner of the machine.
pub(crate) enum Holder {
    Simulated(Rc<SimMachine>),
    Other(Box<dyn Machine>),
}

impl Session {
    /// A simulated machine with this topology and no workload. It lasts as long as the session; nothing of it is kept.
    #[must_use]
    pub fn twin(topology: Topology) -> Session {
        Session::simulated(SimMachine::like(topology), false)
    }

    pub(crate) fn simulated(machine: SimMachine, keeps_changes: bool) -> Session {
        let machine = Rc::new(machine);
        let holder = Holder::Simulated(Rc::clone(&machine));
        Session { keeps_changes, ..Session::of(holder, Some(machine)) }
    }

    /// A simulated machine that another object keeps for longer than one command: its facets, and the machine itself.
    #[must_use]
    pub fn with(machine: Box<dyn Machine>, itself: Rc<SimMachine>) -> Session {
        Session::of(Holder::Other(machine), Some(itself))
    }

    /// A recorded machine: only its time changes.
    #[must_use]
    pub fn recorded_machine(machine: Box<dyn Machine>) -> Session {
        Session { kind: Kind::Recorded, ..Session::of(Holder::Other(machine), None) }
    }

    pub(crate) fn of(machine: Holder, sim: Option<Rc<SimMachine>>) -> Session {
        Session {
            machine,
            sim,
            kept: None,
            kind: Kind::Simulated,
            keeps_changes: true,
            journal: None,
            root: None,
            dir: None,
            zone: OnceCell::new(),
        }
    }

    /// The same session in another time zone than the environment's.
    #[must_use]
    pub fn in_zone(mut self, zone: TimeZone) -> Session {
        self.zone = OnceCell::from(zone);
        self
    }

    /// The same session, marked as kept from one command to the next.
    #[must_use]
    pub fn lasting(self) -> Session {
        Session { keeps_changes: true, ..self }
    }

    /// The machine.
    #[must_use]
    pub fn machine(&self) -> &dyn Machine {
        match &self.machine {
            Holder::Simulated(sim) => &**sim,
            Holder::Other(machine) => &**machine,
        }
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether a change outlives the session.
    #[must_use]
    pub fn keeps_changes(&self) -> bool {
        self.keeps_changes
    }

    /// The time zone of listings.
    #[must_use]
    pub fn zone(&self) -> &TimeZone {
        self.zone.get_or_init(zone::read_zone)
    }

    /// The state directory of the machine; `None` for a simulated one.
    #[must_use]
    pub fn state_dir(&self) -> Option<&Path> {
        self.root.as_ref().map(|root| root.state.as_path())
    }

    /// The journal's path, if it is a file.
    #[must_use]
    pub fn journal_path(&self) -> Option<&Path> {
        self.journal.as_deref().map(FileJournal::path)
    }

    /// The reason why the journal cannot be written, if any: [`FileJournal::fault`].
    #[must_use]
    pub fn journal_fault(&self) -> Option<JournalFault> {
        self.journal.as_ref()?.fault()
    }

    /// Repairs a corrupt journal, as the writer: [`FileJournal::salvage`].
    ///
    /// # Errors
    /// [`Refusal`] when the writer lock cannot be taken, or the file cannot be replaced.
    pub fn salvage_journal(&self) -> Result<Option<PathBuf>, Refusal> {
        let Some(journal) = &self.journal else { return Ok(None) };
        if !matches!(journal.unfinished(), Err(JournalError::Damaged(_))) {
            return Ok(None);
        }
        let _held = self.machine().lock()?;
        journal.salvage().map_err(|error| Refusal::operation(Reason::Journal(error.to_string())))
    }

    /// The operation whose writer was killed. An operation in progress does not count (its writer holds the writer lock), nor one of another
    /// boot.
    ///
    /// # Errors
    /// [`JournalError`] when the journal cannot be read.
    pub fn unfinished(&self) -> Result<Option<Unfinished>, JournalError> {
        let journal = self.machine().journal();
        if journal.unfinished()?.is_none() {
            return Ok(None);
        }
        // Check again under the lock: the operation may have ended in the meantime.
        let seen = match self.machine().writing() {
            Writing::Now => None,
            Writing::Nobody(_quiet) => journal.unfinished()?,
            Writing::Unknown => match &self.journal {
                Some(file) => file.abandoned()?,
                None => journal.unfinished()?,
            },
        };
        let boot = self.machine().boot_id();
        Ok(seen.filter(|operation| operation.boot == boot).map(|operation| Unfinished { operation }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenOptions;
    use millpond_machine::{Knob, Step};
    use std::fs;

    fn open(root: &Path) -> Session {
        Session::open(&OpenOptions { root: Some(root.into()), ..OpenOptions::default() }).unwrap()
    }

    #[test]
    fn only_a_change_that_nobody_can_end_is_unfinished() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("sys/devices/system/cpu")).unwrap();
        fs::create_dir_all(dir.path().join("proc/sys/kernel/random")).unwrap();
        fs::write(dir.path().join("proc/sys/kernel/random/boot_id"), "boot-1\n").unwrap();
        let writer = open(dir.path());
        let session = open(dir.path());
        let boot = session.machine().boot_id();
        let step = Step::new(Knob("x".into()), None, Some("1".into()));
        let held = writer.machine().lock().unwrap();
        writer.machine().journal().begin("make a set", &boot, &[step]).unwrap();
        assert!(session.unfinished().unwrap().is_none(), "its writer is at work");
        drop(held);
        assert_eq!(session.unfinished().unwrap().unwrap().operation.what, "make a set");
        let next = writer.machine().lock().unwrap();
        assert!(session.unfinished().unwrap().is_none(), "the next writer puts it back");
        drop(next);

        let path = session.journal_path().unwrap().to_path_buf();
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace(&boot, "another-boot")).unwrap();
        assert!(session.unfinished().unwrap().is_none(), "it ended with its boot");
    }
}
