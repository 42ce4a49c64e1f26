//! Files of pool configurations: read and replaced atomically, under a lock.
//!
//! Every machine has a default file ([`DEFAULT_NAME`]). For a simulated machine it is inside the machine, for a captured one in its
//! directory. Every other name is a file of the user.
//!
//! A writer takes a lock before it reads the file. The lock file is in a directory of this user (the superuser's is
//! `/run/millpond`), because any user who can read a file can lock it. The new text is written to a temporary file in the
//! same directory, with the mode and owner of the old one, synced, and renamed. So readers see the old or the new text
//! without a lock, and a writer's new text is based on the present one. If another program changed the file in the meantime,
//! it is not replaced.

use crate::output::reason;
use crate::state_dir::usual_dir;
use crate::{Kind, Session};
use millpond_linux::{Replacing, has_name, make_state_dir, open_lock_file, replace_file};
use millpond_model::printable;
use millpond_sim::SimMachine;
use std::fs::{self, File, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// The default configuration file of a machine; see pooladm(8).
const DEFAULT_NAME: &str = "/etc/pooladm.conf";

/// The same, relative to the directory of a captured machine.
const BELOW_ROOT: &str = "etc/pooladm.conf";

/// Maximum size: larger than any configuration. Bounds the memory that a typing error can allocate.
const BYTES_MAX: u64 = 1 << 26;

/// How long to wait for another writer before reporting it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Total time to wait for another writer.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Polling interval while waiting.
const LOOK: Duration = Duration::from_millis(10);

/// The kernel's list of locks.
const LOCKS: &str = "/proc/locks";
const PROCESSES: &str = "/proc";

/// An error in using a file. The file is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// A system error.
    #[error("{0}")]
    System(String),
    /// The file exists and is not a valid text.
    #[error("{0}")]
    NoText(String),
    /// Another process holds the lock and does not finish.
    #[error("{} is changing it and does not end", .0.as_deref().unwrap_or("another process"))]
    Held(Option<String>),
    /// A program without the lock changed the file.
    #[error("another program changed it meanwhile")]
    Changed,
}

/// A pools file, by name.
pub struct PoolsFile<'s> {
    name: String,
    place: Place<'s>,
    /// Directory of the lock files.
    locks: PathBuf,
}

enum Place<'s> {
    Path(PathBuf),
    Inside(&'s SimMachine),
}

/// A locked file.
pub struct LockedPools<'f> {
    file: &'f PoolsFile<'f>,
    text: Option<String>,
    _lock: Option<PathLock>,
}

/// The lock of a file name. Its own file is removed with it.
struct PathLock {
    _file: File,
    path: PathBuf,
}

impl Drop for PathLock {
    fn drop(&mut self) {
        // Remove it while locked: a waiting process notices that the lock file is gone, and creates a new one.
        let _ = fs::remove_file(&self.path);
    }
}

/// Called when another process holds the lock for more than a second, with that process if known.
pub type Waits<'w> = &'w mut dyn FnMut(Option<String>);

impl Session {
    /// The pools file with this name; without a name, the machine's own.
    #[must_use]
    pub fn pools_file(&self, name: Option<&str>) -> PoolsFile<'_> {
        let own = name.is_none_or(|name| name == DEFAULT_NAME);
        let (name, place) = match (&self.sim, name) {
            (Some(sim), _) if own => (DEFAULT_NAME.to_owned(), Place::Inside(sim)),
            (_, Some(name)) if !own => (name.to_owned(), Place::Path(PathBuf::from(name))),
            _ => {
                let path = match (&self.dir, self.kind) {
                    (Some(dir), Kind::Captured) => dir.join(BELOW_ROOT),
                    _ => PathBuf::from(DEFAULT_NAME),
                };
                (path.display().to_string(), Place::Path(path))
            }
        };
        PoolsFile { name, place, locks: usual_dir() }
    }
}

impl PoolsFile<'_> {
    /// Its name for messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is inside a simulated machine, which changes with it.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        matches!(self.place, Place::Inside(_))
    }

    /// Its text; `None` if it does not exist.
    ///
    /// # Errors
    /// [`FileError`] when it cannot be read.
    pub fn read(&self) -> Result<Option<String>, FileError> {
        match &self.place {
            Place::Inside(sim) => Ok(sim.view(|s| s.files.get(&self.name).cloned())),
            Place::Path(path) => read(path),
        }
    }

    /// Locks it until the value is dropped. The file need not exist.
    ///
    /// # Errors
    /// [`FileError`] when it cannot be read.
    pub fn lock(&self, waits: Waits<'_>) -> Result<LockedPools<'_>, FileError> {
        let lock = match &self.place {
            Place::Inside(_) => None,
            Place::Path(path) => Some(acquire(&self.locks, path, waits)?),
        };
        Ok(LockedPools { file: self, text: self.read()?, _lock: lock })
    }
}

impl LockedPools<'_> {
    /// Its text; `None` if it does not exist.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Replaces its text.
    ///
    /// # Errors
    /// [`FileError`]; the file is unchanged.
    pub fn write(&mut self, text: &str) -> Result<(), FileError> {
        match &self.file.place {
            Place::Inside(sim) => sim.edit(|s| {
                s.files.insert(self.file.name.clone(), text.to_owned());
            }),
            Place::Path(path) => {
                self.check_unchanged(path)?;
                replace(path, text, self.text.is_some())?;
            }
        }
        self.text = Some(text.to_owned());
        Ok(())
    }

    /// Removes the file.
    ///
    /// # Errors
    /// [`FileError`]; the file still exists.
    pub fn remove(&mut self) -> Result<(), FileError> {
        match &self.file.place {
            Place::Inside(sim) => sim.edit(|s| {
                s.files.remove(&self.file.name);
            }),
            Place::Path(path) => {
                self.check_unchanged(path)?;
                fs::remove_file(path).map_err(|e| system(&e))?;
            }
        }
        self.text = None;
        Ok(())
    }

    /// Detects changes by programs that do not use the lock, such as editors.
    fn check_unchanged(&self, path: &Path) -> Result<(), FileError> {
        let now = match fs::read(path) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(system(&error)),
        };
        if now.as_deref() == self.text.as_deref().map(str::as_bytes) {
            Ok(())
        } else {
            Err(FileError::Changed)
        }
    }
}

fn system(error: &io::Error) -> FileError {
    FileError::System(reason(error))
}

fn read(path: &Path) -> Result<Option<String>, FileError> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(system(&error)),
        Ok(found) if !found.is_file() => return Err(FileError::NoText("it is no file".into())),
        Ok(found) if found.len() > BYTES_MAX => {
            return Err(FileError::NoText("it is longer than any configuration".into()));
        }
        Ok(_) => {}
    }
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(system(&error)),
    };
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|e| system(&e))?;
    let text = String::from_utf8(bytes).map_err(|_| FileError::NoText("it is no text in UTF-8".into()))?;
    Ok(Some(text))
}

/// The lock file of a file name: one for all spellings of the path.
fn lock_path(locks: &Path, path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let real = fs::canonicalize(&path).unwrap_or_else(|_| {
        let dir = path.parent().and_then(|dir| fs::canonicalize(dir).ok());
        dir.zip(path.file_name()).map_or_else(|| path.clone(), |(dir, name)| dir.join(name))
    });
    let mut hasher = DefaultHasher::new();
    real.hash(&mut hasher);
    Ok(locks.join(format!("pools-{:016x}.lock", hasher.finish())))
}

fn acquire(locks: &Path, path: &Path, waits: Waits<'_>) -> Result<PathLock, FileError> {
    make_state_dir(locks).map_err(|e| system(&e))?;
    let path = lock_path(locks, path).map_err(|e| system(&e))?;
    let begun = Instant::now();
    let mut is_told = false;
    loop {
        let file = open_lock_file(&path).map_err(|e| system(&e))?;
        match file.try_lock() {
            Ok(()) if has_name(&file, &path) => return Ok(PathLock { _file: file, path }),
            Ok(()) => continue,
            Err(TryLockError::Error(error)) => return Err(system(&error)),
            Err(TryLockError::WouldBlock) if begun.elapsed() < PATIENCE => {}
            Err(TryLockError::WouldBlock) => {
                let inode = file.metadata().map_err(|e| system(&e))?.ino();
                let who = || {
                    let held = fs::read_to_string(LOCKS).unwrap_or_default();
                    holder(&held, inode).map(|pid| called(Path::new(PROCESSES), pid))
                };
                if begun.elapsed() > WAIT_MAX {
                    return Err(FileError::Held(who()));
                }
                if !std::mem::replace(&mut is_told, true) {
                    waits(who());
                }
            }
        }
        thread::sleep(LOOK);
    }
}

/// The holder of a lock on a file, by the kernel's list: `1: FLOCK  ADVISORY  WRITE 812 fe:00:4711 0 EOF`. Waiting processes have an arrow.
fn holder(locks: &str, inode: u64) -> Option<u32> {
    let end = format!(":{inode}");
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, "FLOCK", _, _, pid, file, ..] if file.ends_with(&end) => pid.parse().ok(),
            _ => None,
        }
    })
}

fn called(processes: &Path, pid: u32) -> String {
    let name = fs::read_to_string(processes.join(pid.to_string()).join("comm")).unwrap_or_default();
    match name.trim() {
        "" => format!("process {pid}"),
        name => format!("process {pid} ({})", printable(name)),
    }
}

/// Renames a new file with this text into place. Where no file existed, a file that appeared in the meantime is not replaced.
fn replace(path: &Path, text: &str, is_there: bool) -> Result<(), FileError> {
    // Follow a symbolic link.
    let path = if is_there { fs::canonicalize(path).map_err(|e| system(&e))? } else { path.to_path_buf() };
    let how = Replacing { must_be_new: !is_there, ..Replacing::default() };
    replace_file(&path, text.as_bytes(), how).map_err(|error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => FileError::Changed,
        _ => system(&error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MachineName, OpenOptions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::sync::mpsc;

    fn nobody() -> impl FnMut(Option<String>) {
        |who| panic!("nobody holds it, but {who:?}")
    }

    fn simulated() -> Session {
        let machine = MachineName::Simulated("t2000".into());
        Session::open(&OpenOptions { machine, ..OpenOptions::default() }).unwrap()
    }

    fn file_at(path: &Path) -> PoolsFile<'static> {
        let locks = std::env::temp_dir().join(format!("millpond-locks-{}", std::process::id()));
        PoolsFile { name: path.display().to_string(), place: Place::Path(path.to_path_buf()), locks }
    }

    #[test]
    fn no_lock_of_a_reader_stops_a_writer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("conf");
        fs::write(&path, "old").unwrap();
        // Any user who can read the file can hold a lock on it.
        let held = File::open(&path).unwrap();
        held.lock().unwrap();
        let file = file_at(&path);
        assert_eq!(file.read().unwrap().as_deref(), Some("old"));
        file.lock(&mut nobody()).unwrap().write("new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        let other = dir.path().join("..").join(dir.path().file_name().unwrap()).join("conf");
        assert_eq!(lock_path(dir.path(), &path).unwrap(), lock_path(dir.path(), &other).unwrap());
        let locks = &file.locks;
        drop(file.lock(&mut nobody()).unwrap());
        assert!(!lock_path(locks, &path).unwrap().exists(), "and none is left");
    }

    #[test]
    fn that_of_a_simulated_machine_lives_in_the_machine() {
        let session = simulated();
        let file = session.pools_file(None);
        assert_eq!((file.name(), file.is_inside()), ("/etc/pooladm.conf", true));
        assert_eq!(file.read(), Ok(None));
        file.lock(&mut nobody()).unwrap().write("text").unwrap();
        let named = session.pools_file(Some("/etc/pooladm.conf"));
        assert_eq!(named.read().unwrap().as_deref(), Some("text"));
        let saved = session.sim.as_ref().unwrap().save();
        assert!(saved.contains(r#""files":{"/etc/pooladm.conf":"text"}"#));
        assert_eq!(SimMachine::load(&saved).unwrap().save(), saved);
        named.lock(&mut nobody()).unwrap().remove().unwrap();
        assert!(!session.sim.as_ref().unwrap().save().contains("files"));
        assert!(!session.pools_file(Some("mine.conf")).is_inside());
    }

    #[test]
    fn that_of_a_captured_machine_lives_in_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("sys/devices/system/cpu")).unwrap();
        fs::create_dir_all(dir.path().join("etc")).unwrap();
        let root = Some(dir.path().to_path_buf());
        let session = Session::open(&OpenOptions { root, ..OpenOptions::default() }).unwrap();
        let expected = dir.path().join("etc/pooladm.conf").display().to_string();
        for name in [None, Some("/etc/pooladm.conf")] {
            let file = session.pools_file(name);
            assert_eq!((file.name(), file.is_inside()), (expected.as_str(), false));
        }
        assert_eq!(session.pools_file(Some("mine.conf")).name(), "mine.conf");
    }

    #[test]
    fn a_file_is_replaced_with_its_mode_through_links_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("conf"), dir.path().join("link"));
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&path, &link).unwrap();
        let file = file_at(&link);
        let mut locked = file.lock(&mut nobody()).unwrap();
        assert_eq!(locked.text(), Some("old"));
        locked.write("new").unwrap();
        locked.write("newer").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "newer");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
        locked.remove().unwrap();
        assert_eq!((locked.text(), file.read()), (None, Ok(None)));
    }

    #[test]
    fn a_new_file_takes_the_place_of_nobody_elses() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("conf");
        let file = file_at(&path);
        let mut locked = file.lock(&mut nobody()).unwrap();
        assert_eq!(locked.text(), None);
        fs::write(&path, "theirs").unwrap();
        assert_eq!(locked.write("ours"), Err(FileError::Changed));
        assert_eq!(replace(&path, "ours", false).err(), Some(FileError::Changed));
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_writer_waits_for_the_other_and_goes_on_with_what_that_one_wrote() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("conf");
        fs::write(&path, "1").unwrap();
        let file = file_at(&path);
        let mut first = file.lock(&mut nobody()).unwrap();
        let (waits, told) = mpsc::channel();
        let there = path.clone();
        let second = thread::spawn(move || {
            let file = file_at(&there);
            let mut locked = file.lock(&mut |who| waits.send(who).unwrap()).unwrap();
            let text = locked.text().unwrap().to_owned();
            locked.write(&(text.clone() + "3")).unwrap();
            text
        });
        let who = told.recv().unwrap();
        if let Some(who) = who {
            assert!(who.starts_with(&format!("process {}", std::process::id())), "{who}");
        }
        first.write("12").unwrap();
        drop(first);
        assert_eq!(second.join().unwrap(), "12");
        assert_eq!(fs::read_to_string(&path).unwrap(), "123");
    }

    #[test]
    fn what_is_no_configuration_is_refused_in_words() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("conf");
        let said = |path: &Path| file_at(path).read().unwrap_err().to_string();
        assert_eq!(said(dir.path()), "it is no file");
        fs::write(&path, b"\xff").unwrap();
        assert_eq!(said(&path), "it is no text in UTF-8");
        assert_eq!(said(&path.join("below")), "Not a directory");
        let missing = dir.path().join("missing/conf");
        let file = file_at(&missing);
        let error = file.lock(&mut nobody()).unwrap().write("x").unwrap_err();
        assert_eq!(error.to_string(), "No such file or directory");
    }

    #[test]
    fn the_kernel_says_who_holds_a_lock() {
        let locks = "1: POSIX  ADVISORY  WRITE 3 fe:00:77 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 812 fe:00:4711 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 900 fe:00:4711 0 EOF\n\
                     3: FLOCK  ADVISORY  READ  5 fe:00:14711 0 EOF\n";
        assert_eq!(holder(locks, 4711), Some(812));
        assert_eq!(holder(locks, 14711), Some(5));
        assert_eq!((holder(locks, 77), holder("", 1)), (None, None));
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("812")).unwrap();
        fs::write(dir.path().join("812/comm"), "poolcfg\n").unwrap();
        assert_eq!(called(dir.path(), 812), "process 812 (poolcfg)");
        assert_eq!(called(dir.path(), 1), "process 1");
    }
}
