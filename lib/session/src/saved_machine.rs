//! Simulated machines in files, read and replaced atomically.
//!
//! The new text is written to a temporary file in the same directory, synced, and renamed, so that no file is ever incomplete. A
//! file that is not a saved machine is never overwritten.

use crate::output::reason;
use crate::session::Holder;
use crate::{NO_DIRECTORY, NO_FILE, OpenError, Session};
use millpond_linux::{Replacing, replace_file};
use millpond_sim::SimMachine;
use std::cell::RefCell;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Maximum size: larger than any saved machine. Bounds the memory that a typing error can allocate.
const BYTES_MAX: u64 = 1 << 30;

/// A machine was not saved. The file is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeepError {
    /// A system error.
    #[error("{0}")]
    System(String),
    /// The file was changed since it was opened.
    #[error("another program changed it meanwhile")]
    Changed,
}

/// The file in which a session keeps its machine.
pub(crate) struct Kept {
    path: PathBuf,
    /// The known text of the file; `None` without a file.
    text: RefCell<Option<String>>,
    /// The machine as it was opened, if there was no file.
    fresh: String,
}

/// The text of a file; `None` if it does not exist.
fn read(path: &Path) -> Result<Option<String>, String> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(reason(&error)),
        Ok(found) if !found.is_file() => return Err("it is no file".into()),
        Ok(found) if found.len() > BYTES_MAX => return Err("it is longer than any saved machine".into()),
        Ok(_) => {}
    }
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err("it is no saved machine".into()),
        Err(error) => Err(reason(&error)),
    }
}

fn load(path: &Path, text: &str) -> Result<SimMachine, OpenError> {
    SimMachine::load(text)
        .map_err(|error| OpenError::Saved { path: path.to_path_buf(), why: error.to_string() })
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Replaces a file if it has the expected text; `None` accepts any text.
fn replace(path: &Path, text: &str, expected: Option<&Option<String>>) -> Result<(), KeepError> {
    let system = |error: &io::Error| KeepError::System(reason(error));
    if path.file_name().is_none() {
        return Err(KeepError::System("it is no file".into()));
    }
    // Writers lock the directory, one after the other.
    let dir = File::open(directory(path)).map_err(|e| system(&e))?;
    dir.lock().map_err(|e| system(&e))?;
    if let Some(expected) = expected
        && read(path).map_err(KeepError::System)? != *expected
    {
        return Err(KeepError::Changed);
    }
    replace_file(path, text.as_bytes(), Replacing::default()).map_err(|error| system(&error))
}

impl Session {
    /// Opens the machine in a file, or a fresh one, which the file will keep. `fresh` creates it where the file does not
    /// exist; `name` is the expected machine.
    pub(crate) fn kept_in(
        path: &Path,
        name: Option<&str>,
        fresh: impl FnOnce() -> Result<SimMachine, OpenError>,
    ) -> Result<Session, OpenError> {
        let saved = |why| OpenError::Saved { path: path.to_path_buf(), why };
        let text = read(path).map_err(saved)?;
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        if text.is_none() && name.is_some() && dir.is_some_and(|dir| !dir.is_dir()) {
            return Err(saved(NO_DIRECTORY.to_owned()));
        }
        let machine = match &text {
            None => fresh()?,
            Some(text) => load(path, text)?,
        };
        let found = machine.view(|s| s.name.clone());
        if let Some(name) = name.filter(|name| *name != found) {
            return Err(saved(format!("it has machine {found}, not {name}")));
        }
        let kept = Kept { path: path.to_path_buf(), text: RefCell::new(text), fresh: machine.save() };
        let mut session = Session::simulated(machine, true);
        session.kept = Some(kept);
        Ok(session)
    }

    /// The file that keeps the machine.
    #[must_use]
    pub fn kept_path(&self) -> Option<&Path> {
        self.kept.as_ref().map(|kept| kept.path.as_path())
    }

    /// Writes a changed machine into the file that keeps it, if there is one.
    ///
    /// # Errors
    /// [`KeepError`]; the file is unchanged.
    pub fn keep(&self) -> Result<(), KeepError> {
        let (Some(kept), Some(sim)) = (&self.kept, &self.sim) else { return Ok(()) };
        let now = sim.save();
        let mut text = kept.text.borrow_mut();
        if *text.as_ref().unwrap_or(&kept.fresh) == now {
            return Ok(());
        }
        replace(&kept.path, &now, Some(&text))?;
        *text = Some(now);
        Ok(())
    }

    /// Saves a simulated machine into a file, and replaces its contents.
    ///
    /// # Errors
    /// [`KeepError`]; the file is unchanged. Only a simulated machine can be saved.
    pub fn save_as(&self, path: &Path) -> Result<(), KeepError> {
        let sim =
            self.sim.as_ref().ok_or_else(|| KeepError::System("the machine is not simulated".into()))?;
        if let Some(text) = read(path).map_err(KeepError::System)?
            && !text.is_empty()
            && SimMachine::load(&text).is_err()
        {
            return Err(KeepError::System("the file is there, and has something else than a machine".into()));
        }
        replace(path, &sim.save(), None)
    }

    /// Replaces this machine by the one that a file contains.
    ///
    /// # Errors
    /// [`OpenError`] when the file has no valid machine; then this one remains.
    pub fn go_on_with(&mut self, path: &Path) -> Result<(), OpenError> {
        let saved = |why| OpenError::Saved { path: path.to_path_buf(), why };
        let text = read(path).map_err(saved)?.ok_or_else(|| saved(NO_FILE.to_owned()))?;
        let machine = Rc::new(load(path, &text)?);
        self.machine = Holder::Simulated(Rc::clone(&machine));
        self.sim = Some(machine);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MachineName, OpenOptions};
    use millpond_model::Nanos;

    fn open(name: &str, path: &Path) -> Result<Session, OpenError> {
        let Ok(machine) = name.parse::<MachineName>();
        let kept_in = Some(path.to_path_buf());
        Session::open(&OpenOptions { machine, kept_in, ..OpenOptions::default() })
    }

    fn refused(result: Result<Session, OpenError>) -> String {
        match result {
            Ok(_) => panic!("it was opened"),
            Err(error) => error.to_string(),
        }
    }

    fn seconds(session: &Session) -> u64 {
        session.machine().clock().now().0 / 1_000_000_000
    }

    #[test]
    fn a_machine_goes_on_where_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("machine");
        let session = open("x4200", &path).unwrap();
        assert!(session.keeps_changes());
        session.keep().unwrap();
        assert!(!path.exists(), "nothing was changed");
        session.machine().clock().sleep_until(Nanos::from_secs(5));
        session.keep().unwrap();
        assert_eq!(seconds(&open("x4200", &path).unwrap()), 5);
        assert_eq!(seconds(&open("real", &path).unwrap()), 5, "the file says which machine it is");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_is_not_the_machine_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("machine");
        let shown = path.display();
        let said = refused(open("real", &path));
        assert_eq!(said, format!("cannot open saved machine {shown}: No such file or directory"));
        let saved = SimMachine::named("t2000").unwrap().save();
        for (text, why) in [
            ("hello", "line 1, column 1: expected value"),
            (&saved[..saved.len() / 2], "EOF while parsing"),
            (&saved.replace("\"format\":5", "\"format\":9"), "it was saved in format 9"),
            (&saved, "it has machine t2000, not x4200"),
        ] {
            fs::write(&path, text).unwrap();
            let said = refused(open("x4200", &path));
            assert!(said.starts_with(&format!("cannot open saved machine {shown}: ")), "{said}");
            assert!(said.contains(why), "{said}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        fs::write(&path, b"\xff\xfe").unwrap();
        assert!(refused(open("x4200", &path)).ends_with(": it is no saved machine"));
        assert!(refused(open("x4200", dir.path())).ends_with(": it is no file"));
    }

    #[test]
    fn what_somebody_else_kept_meanwhile_is_not_lost() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("machine");
        let (one, two) = (open("x4200", &path).unwrap(), open("x4200", &path).unwrap());
        one.machine().clock().sleep_until(Nanos::from_secs(1));
        two.machine().clock().sleep_until(Nanos::from_secs(2));
        one.keep().unwrap();
        assert_eq!(two.keep(), Err(KeepError::Changed));
        assert_eq!(seconds(&open("x4200", &path).unwrap()), 1);
    }

    #[test]
    fn a_machine_is_saved_over_machines_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("machine");
        let mut session = open("x4200", &path).unwrap();
        session.machine().clock().sleep_until(Nanos::from_secs(3));
        session.save_as(&path).unwrap();
        session.save_as(&path).unwrap();
        session.machine().clock().sleep_until(Nanos::from_secs(4));
        session.go_on_with(&path).unwrap();
        assert_eq!(seconds(&session), 3);
        let letter = dir.path().join("letter");
        fs::write(&letter, "Dear").unwrap();
        let error = session.save_as(&letter).unwrap_err().to_string();
        assert_eq!(error, "the file is there, and has something else than a machine");
        assert_eq!(fs::read_to_string(&letter).unwrap(), "Dear");
        assert!(session.go_on_with(&letter).is_err());
        assert_eq!(seconds(&session), 3);
        let error = session.save_as(Path::new("/nowhere/machine")).unwrap_err().to_string();
        assert_eq!(error, "No such file or directory");
    }
}
