//! The known machines, and opening one by name.

use crate::journal::Shared;
use crate::session::{Holder, Kind, Session};
use crate::{FileJournal, is_machine_file, machine_file, reason, state_dir};
use millpond_linux::{LinuxMachine, Root, check_state_dir};
use millpond_machine::facets::Image;
use millpond_machine::{Absent, Journal, Machine};
use millpond_sim::{DescriptionError, SimError, SimMachine};
use std::convert::Infallible;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::str::FromStr;

/// The simulated machines, by name.
pub const SIMULATED: [&str; millpond_sim::catalogue::NAMES.len()] = millpond_sim::catalogue::NAMES;

/// A machine's name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum MachineName {
    /// The real machine, where this program runs.
    #[default]
    Real,
    /// A simulated machine: its name, or its machine file ([`is_machine_file`]); `like-host` has the real machine's topology.
    Simulated(String),
}

impl FromStr for MachineName {
    type Err = Infallible;

    fn from_str(name: &str) -> Result<Self, Infallible> {
        Ok(if name == "real" { MachineName::Real } else { MachineName::Simulated(name.to_owned()) })
    }
}

/// Text of [`OpenError::Saved`] for a file that does not exist.
pub const NO_FILE: &str = "No such file or directory";

/// The reason why a machine cannot be saved in a file whose directory does not exist.
pub const NO_DIRECTORY: &str = "its directory is not there";

/// The machine to open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Its name.
    pub machine: MachineName,
    /// The directory of a captured machine, instead of the real one.
    pub root: Option<PathBuf>,
    /// The state directory, instead of the default.
    pub state: Option<PathBuf>,
    /// The file that keeps a simulated machine.
    pub kept_in: Option<PathBuf>,
}

/// An error in opening a machine.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no machine of that name.
    #[error("cannot open machine {name}: {source}")]
    Simulated {
        /// The name.
        name: String,
        /// The reason.
        source: SimError,
    },
    /// The twin of the real machine has not been calibrated.
    #[error(
        "cannot open machine like-host with its numbers: it was not measured; `millpond sim --calibrate like-host` does that"
    )]
    NotMeasured,
    /// The twin was calibrated on another machine.
    #[error("cannot open machine like-host: {} has other CPUs than this machine; measure again: `millpond sim --calibrate like-host`", path.display())]
    OtherTwin {
        /// Its machine file.
        path: PathBuf,
    },
    /// A machine file lacks a number that is to be changed.
    #[error("cannot open machine {name}: its file has no number at {field}")]
    Field {
        /// The machine.
        name: String,
        /// The number's place.
        field: String,
    },
    /// A machine file cannot be read.
    #[error("cannot read machine file {name}: {why}")]
    MachineFile {
        /// The file, as named by the user.
        name: String,
        /// The reason.
        why: String,
    },
    /// An invalid machine file.
    #[error("cannot use machine file {0}")]
    Described(DescriptionError),
    /// A root directory for a simulated machine, which has no files.
    #[error("cannot open machine {0} under a root: only the real machine has files")]
    RootOfSimulated(String),
    /// The state directory may contain files of another user.
    #[error("cannot use state directory {}: {why}", path.display())]
    State {
        /// The directory.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The directory is not a captured machine.
    #[error("cannot open captured machine {}: {why}", path.display())]
    Root {
        /// The directory.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A file for a machine that is not simulated.
    #[error("cannot open machine {0} from a file: only a simulated machine is kept in one")]
    FileOfReal(String),
    /// An invalid saved machine.
    #[error("cannot open saved machine {}: {why}", path.display())]
    Saved {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The real machine cannot be read for `like-host`.
    #[error("cannot open machine like-host: {0}")]
    Host(String),
}

impl Session {
    /// Opens a machine.
    ///
    /// # Errors
    /// [`OpenError`], for example for an unknown machine.
    pub fn open(options: &OpenOptions) -> Result<Session, OpenError> {
        match &options.machine {
            MachineName::Simulated(name) if options.root.is_some() => {
                Err(OpenError::RootOfSimulated(name.clone()))
            }
            MachineName::Simulated(name) => {
                let described = if is_machine_file(name) { Some(machine_file::read(name)?) } else { None };
                // A saved machine is identified by the name in its machine file.
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
}

/// Opens a core file as the memory of a stopped process.
///
/// # Errors
/// [`Absent`] for a file that is not a core or cannot be read.
pub fn open_core(path: &Path) -> Result<Box<dyn Image>, Absent> {
    millpond_linux::open_core(path)
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
    let path = state_dir::twin_in(host.state_dir().unwrap_or(Path::new(".")));
    if !path.exists() {
        return Ok(SimMachine::like(topology));
    }
    // It was calibrated.
    let twin = machine_file::read(&path.display().to_string())?;
    let cpus = twin.processors().and_then(|p| p.topology().map_err(|r| Absent::because(r.to_string())));
    match cpus.map(|twin| twin.cpus() == topology.cpus()) {
        Ok(true) => Ok(twin),
        _ => Err(OpenError::OtherTwin { path }),
    }
}

fn real(options: &OpenOptions) -> Result<Session, OpenError> {
    let (root, kind) = match &options.root {
        None => {
            let path = options.state.clone().unwrap_or_else(state_dir::state_dir);
            check_state_dir(&path)
                .map_err(|error| OpenError::State { path: path.clone(), why: reason(&error) })?;
            (Root::live(path), Kind::Real)
        }
        Some(dir) => {
            check_captured(dir)?;
            let mut root = Root::captured(dir);
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

/// Checks that a captured machine has at least the files that list its CPUs.
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
    fn a_state_directory_that_others_can_write_is_not_read() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let options = OpenOptions { state: Some(state.clone()), ..OpenOptions::default() };
        assert!(Session::open(&options).is_ok(), "there is none yet");
        fs::create_dir(&state).unwrap();
        fs::write(state.join("journal"), "{}\n").unwrap();
        fs::set_permissions(&state, fs::Permissions::from_mode(0o777)).unwrap();
        let said = Session::open(&options).err().unwrap().to_string();
        let (path, why) = (state.display(), "can be written by every user, so its contents are not trusted");
        assert_eq!(said, format!("cannot use state directory {path}: {path} {why}"));
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
}
