//! Opens a machine by name, and owns what a command has beside it: the state directory with the journal, the
//! time zone, its output, and the end of the process in another program.
//!
//! # Nouns
//!
//! A [`Session`] is one machine, open. Which machines exist is known here and nowhere else: the *real* one, a
//! *captured* one (a directory with the files of a machine, made by `millpond capture` or by hand), and the
//! *simulated* ones by name. An [`Output`] is where a command writes.
//!
//! # What callers must know
//!
//! * Opening reads almost nothing; each facet reads when it is asked. So a command that needs little is fast.
//! * Reading never changes anything, and never repairs. [`Session::unfinished`] tells a reading command about
//!   a change that somebody began and cannot end any more; it warns, and goes on.
//! * A simulated machine that was opened by name lives as long as the session:
//!   [`Session::keeps_changes`] says so, and a command that changes it says it to the user. A file can keep it
//!   ([`OpenOptions::kept_in`], [`Session::keep`]). What can be done to it alone is a [`Simulation`].
//! * A configuration of pools is a file ([`Session::pools_file`]) that is locked from before it is read until after it is
//!   replaced; that of a simulated machine is a part of the machine.
//!
//! # Environment
//!
//! `MILLPOND_STATE` names the state directory; `TZ` the time zone; `MILLPOND_KILL_AT` a moment at which the
//! process kills itself (fault injection, see the journal).
//!
//! This room and `linux` are the only ones that may hold a path that begins with `/`.

mod beside;
mod caps;
mod capture;
mod changed;
mod child;
mod daemon;
mod described;
mod follow;
mod interrupts;
mod journal;
mod kept;
mod output;
mod place;
mod pools_file;
mod process;
mod record;
mod signals;
mod simulation;
mod stand;
mod stop;
mod terminal;
mod text;
mod view;
mod zone;

pub use beside::{Beside, Came, program_on_path};
pub use capture::Captured;
pub use changed::{FieldChange, machine_field};
pub use child::Child;
pub use daemon::{Daemon, DaemonError, Log, NotifyState, tell_manager, watchdog};
pub use described::is_machine_file;
pub use follow::{Follower, pool_environment};
pub use journal::FileJournal;
use journal::Shared;
pub use kept::KeepError;
use kept::Kept;
pub use millpond_linux::{Cap, InterruptCount};
pub use millpond_sim::catalogue::NAMES as SIMULATED;
pub use millpond_sim::services::{NoSuchService, SERVICES, Service};
pub use millpond_sim::workloads::{Load, Opt, Unit, WORKLOADS, Workload, WorkloadError};
pub use millpond_sim::{Endless, LOOK, Outcome, Resident, SimMachine, Waiting, WaitsFor, is_pressed};
pub use output::{Output, reason};
pub use pools_file::{FileError, LockedPools, PoolsFile};
pub use process::{exec, own_pid, own_program};
pub use record::{Recorded, RecordedLine, read_log, record_on};
pub use simulation::{Executed, KillError, Moment, NoSuchProcess, NoSuchZone, Running, Simulation};
pub use stand::{Program, stand_by};
pub use stop::{stop_daemon_on_signal, stop_on_signal, take_hang_up, take_stop};
pub use terminal::{
    LineEditor, Typed, file_names, input_is_terminal, input_lines, messages_are_seen, output_is_terminal,
};
pub use text::{create_output, read_text, replace_bytes, replace_text};
pub use view::View;

use jiff::tz::TimeZone;
use millpond_linux::{LinuxMachine, Root};
use millpond_machine::{Journal, JournalError, Machine, Operation, Writing};
use millpond_sim::{DescriptionError, SimError};
use std::cell::OnceCell;
use std::convert::Infallible;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::str::FromStr;

/// Which machine, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum MachineName {
    /// The one that we run on.
    #[default]
    Real,
    /// A simulated one: its name, or its machine file ([`is_machine_file`]); `like-host` stands like the real one.
    Simulated(String),
}

impl FromStr for MachineName {
    type Err = Infallible;

    fn from_str(name: &str) -> Result<Self, Infallible> {
        Ok(if name == "real" { MachineName::Real } else { MachineName::Simulated(name.to_owned()) })
    }
}

/// What [`OpenError::Saved`] says of a file that does not exist.
pub const NO_FILE: &str = "No such file or directory";

/// What to open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Which machine.
    pub machine: MachineName,
    /// The directory of a captured machine, in place of the real one.
    pub root: Option<PathBuf>,
    /// The state directory, in place of the usual one.
    pub state: Option<PathBuf>,
    /// The file that keeps a simulated machine.
    pub kept_in: Option<PathBuf>,
}

/// What sort of machine is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The one that we run on.
    Real,
    /// The files of one.
    Captured,
    /// One in memory.
    Simulated,
}

/// A machine could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is none of that name.
    #[error("cannot open machine {name}: {source}")]
    Simulated {
        /// The name.
        name: String,
        /// Why not.
        source: SimError,
    },
    /// A machine file has no such number to be changed.
    #[error("cannot open machine {name}: its file has no number at {field}")]
    Field {
        /// The machine.
        name: String,
        /// Where it should be.
        field: String,
    },
    /// A machine file cannot be read.
    #[error("cannot read machine file {name}: {why}")]
    MachineFile {
        /// The file, as it was named.
        name: String,
        /// Why not.
        why: String,
    },
    /// A machine file describes no machine.
    #[error("cannot use machine file {0}")]
    Described(DescriptionError),
    /// A simulated machine has no directory.
    #[error("cannot open machine {0} under a root: only the real machine has files")]
    RootOfSimulated(String),
    /// The directory is not that of a captured machine.
    #[error("cannot open captured machine {}: {why}", path.display())]
    Root {
        /// The directory.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// Only a simulated machine is kept in a file.
    #[error("cannot open machine {0} from a file: only a simulated machine is kept in one")]
    FileOfReal(String),
    /// The file of a saved machine is none.
    #[error("cannot open saved machine {}: {why}", path.display())]
    Saved {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// The machine to be imitated cannot be read.
    #[error("cannot open machine like-host: {0}")]
    Host(String),
}

/// An operation that its writer did not end, and cannot end any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// What it was.
    pub operation: Operation,
}

/// One machine, open.
pub struct Session {
    machine: Holder,
    /// The machine itself, if it is simulated.
    sim: Option<Rc<SimMachine>>,
    kept: Option<Kept>,
    kind: Kind,
    keeps_changes: bool,
    journal: Option<Rc<FileJournal>>,
    /// Where the machine's files are, if it has any.
    root: Option<Root>,
    /// The directory of a captured machine.
    dir: Option<PathBuf>,
    zone: OnceCell<TimeZone>,
}

/// What holds the machine.
enum Holder {
    Simulated(Rc<SimMachine>),
    Other(Box<dyn Machine>),
}

impl Session {
    /// Opens a machine.
    ///
    /// # Errors
    /// [`OpenError`] when there is no such machine.
    pub fn open(options: &OpenOptions) -> Result<Session, OpenError> {
        match &options.machine {
            MachineName::Simulated(name) if options.root.is_some() => {
                Err(OpenError::RootOfSimulated(name.clone()))
            }
            MachineName::Simulated(name) => {
                let described = if is_machine_file(name) { Some(described::read(name)?) } else { None };
                // A file that keeps a machine knows it by the name that it has in its own file.
                let own =
                    described.as_ref().map_or_else(|| name.clone(), |machine| machine.name().to_owned());
                let name = &own;
                let fresh = || match described {
                    Some(machine) => Ok(machine),
                    None if name == "like-host" => like_host(options),
                    None => simulated(name),
                };
                match &options.kept_in {
                    Some(path) => Session::kept_in(path, Some(name), fresh),
                    None => Ok(Session::simulated(fresh()?, false)),
                }
            }
            MachineName::Real => match &options.kept_in {
                Some(_) if options.root.is_some() => Err(OpenError::FileOfReal("under a root".into())),
                Some(path) => {
                    let why = NO_FILE.to_owned();
                    let none = || Err(OpenError::Saved { path: path.clone(), why });
                    Session::kept_in(path, None, none)
                }
                None => real(options),
            },
        }
    }

    /// A simulated machine that lives as long as the session.
    fn simulated(machine: SimMachine, keeps_changes: bool) -> Session {
        let machine = Rc::new(machine);
        let holder = Holder::Simulated(Rc::clone(&machine));
        Session { keeps_changes, ..Session::of(holder, Some(machine)) }
    }

    /// A simulated machine that somebody else keeps for longer than a command: what commands see of it, and itself.
    #[must_use]
    pub fn with(machine: Box<dyn Machine>, itself: Rc<SimMachine>) -> Session {
        Session::of(Holder::Other(machine), Some(itself))
    }

    fn of(machine: Holder, sim: Option<Rc<SimMachine>>) -> Session {
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

    /// The same session, for somebody who keeps it from one command to the next.
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

    /// What sort of machine it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether a change outlives the session.
    #[must_use]
    pub fn keeps_changes(&self) -> bool {
        self.keeps_changes
    }

    /// The time zone in which listings show times.
    #[must_use]
    pub fn zone(&self) -> &TimeZone {
        self.zone.get_or_init(zone::read_zone)
    }

    /// The state directory of the machine; a simulated one has none.
    #[must_use]
    pub fn state_dir(&self) -> Option<&Path> {
        self.root.as_ref().map(|root| root.state.as_path())
    }

    /// Where the journal is, if it is a file.
    #[must_use]
    pub fn journal_path(&self) -> Option<&Path> {
        self.journal.as_deref().map(FileJournal::path)
    }

    /// The operation that somebody began and cannot end any more. One that is merely under way is none (whoever ends it holds the writer's
    /// lock), and neither is one of another boot.
    ///
    /// # Errors
    /// [`JournalError`] when the journal cannot be read.
    pub fn unfinished(&self) -> Result<Option<Unfinished>, JournalError> {
        let journal = self.machine().journal();
        if journal.unfinished()?.is_none() {
            return Ok(None);
        }
        // Asked again under the lock: what was under way a moment ago may have ended.
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

fn simulated(name: &str) -> Result<SimMachine, OpenError> {
    SimMachine::named(name).map_err(|source| OpenError::Simulated { name: name.to_owned(), source })
}

fn like_host(options: &OpenOptions) -> Result<SimMachine, OpenError> {
    let host = real(&OpenOptions { machine: MachineName::Real, ..options.clone() })?;
    let topology = host
        .machine()
        .processors()
        .map_err(Into::into)
        .and_then(|p| p.topology())
        .map_err(|refusal| OpenError::Host(refusal.to_string()))?;
    Ok(SimMachine::like(topology))
}

fn real(options: &OpenOptions) -> Result<Session, OpenError> {
    let (root, kind) = match &options.root {
        None => (Root::live(options.state.clone().unwrap_or_else(place::state_dir)), Kind::Real),
        Some(dir) => {
            check_captured(dir)?;
            let mut root = Root::paper(dir);
            if let Some(state) = &options.state {
                root.state = state.clone();
            }
            (root, Kind::Captured)
        }
    };
    let journal = Rc::new(FileJournal::in_dir(&root.state));
    let shared: Box<dyn Journal> = Box::new(Shared(Rc::clone(&journal)));
    let machine = LinuxMachine::open(root.clone(), shared);
    let session = Session::of(Holder::Other(Box::new(machine)), None);
    let dir = options.root.clone();
    Ok(Session { kind, journal: Some(journal), root: Some(root), dir, ..session })
}

/// A captured machine has at least the files that say which processors there are.
fn check_captured(dir: &Path) -> Result<(), OpenError> {
    let refuse = |why| OpenError::Root { path: dir.to_path_buf(), why };
    let not_found = || io::Error::from(io::ErrorKind::NotADirectory);
    fs::metadata(dir)
        .and_then(|m| if m.is_dir() { Ok(()) } else { Err(not_found()) })
        .map_err(|e| refuse(reason(&e)))?;
    if dir.join("sys/devices/system/cpu").is_dir() {
        Ok(())
    } else {
        Err(refuse("it has no sys/devices/system/cpu".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_machine::{Knob, Step};

    fn open(machine: &str, root: Option<&Path>) -> Result<Session, OpenError> {
        let machine = machine.parse().unwrap();
        Session::open(&OpenOptions { machine, root: root.map(Into::into), ..OpenOptions::default() })
    }

    fn refused(machine: &str, root: Option<&Path>) -> String {
        match open(machine, root) {
            Ok(_) => panic!("it was opened"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_simulated_machine_is_opened_by_name_and_forgotten() {
        let session = open("t2000", None).unwrap();
        assert_eq!(session.machine().name(), "t2000");
        assert_eq!(session.kind(), Kind::Simulated);
        assert!(!session.keeps_changes());
        assert!(session.unfinished().unwrap().is_none());
    }

    #[test]
    fn machines_that_do_not_exist_are_refused_by_name() {
        let said = refused("deep-thought", None);
        assert!(
            said.starts_with("cannot open machine deep-thought: there is no simulated machine"),
            "{said}"
        );
        assert!(refused("t2000", Some(Path::new("/"))).contains("only the real machine has files"));
    }

    #[test]
    fn a_directory_without_a_machine_in_it_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let said = refused("real", Some(dir.path()));
        assert!(said.ends_with(": it has no sys/devices/system/cpu"), "{said}");
        let said = refused("real", Some(&dir.path().join("missing")));
        assert!(said.ends_with(": No such file or directory"), "{said}");
    }

    #[test]
    fn only_a_change_that_nobody_can_end_is_unfinished() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("sys/devices/system/cpu")).unwrap();
        fs::create_dir_all(dir.path().join("proc/sys/kernel/random")).unwrap();
        fs::write(dir.path().join("proc/sys/kernel/random/boot_id"), "boot-1\n").unwrap();
        let writer = open("real", Some(dir.path())).unwrap();
        let session = open("real", Some(dir.path())).unwrap();
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
