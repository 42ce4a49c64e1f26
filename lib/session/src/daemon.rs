//! What a daemon of ours keeps in files: that it is the only one, what it remembers, the record of what it decided, and its log.

use crate::output::reason;
use millpond_linux::{Replacing, make_state_dir, replace_file};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// The record goes on in a new file when it has this size; one older file is kept.
const RECORD_BYTES_MAX: u64 = 16 << 20;

/// Where poold logs when its configuration says nothing (reference §13.1).
const LOG: &str = "/var/log/pool/poold";

/// Where the system's logger listens.
const SYSLOG: &str = "/dev/log";

/// The facility of daemons, as a number in syslog's form.
const DAEMONS: u8 = 3;

/// A daemon cannot begin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DaemonError {
    /// Another one runs.
    #[error("another one is running{}", .0.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    Running(Option<u32>),
    /// Its directory cannot be used.
    #[error("{path}: {why}")]
    Place {
        /// The directory or file.
        path: String,
        /// Why not.
        why: String,
    },
}

/// The files of a daemon that runs. They are its own until the value is dropped.
#[derive(Debug)]
pub struct Daemon {
    dir: PathBuf,
    name: String,
    _lock: File,
}

impl Daemon {
    /// Becomes the one daemon of that name in a state directory.
    ///
    /// # Errors
    /// [`DaemonError`].
    pub fn begin(dir: &Path, name: &str) -> Result<Daemon, DaemonError> {
        let at = |path: &Path| {
            let path = path.display().to_string();
            move |error: io::Error| DaemonError::Place { path, why: reason(&error) }
        };
        make_state_dir(dir).map_err(at(dir))?;
        let path = dir.join(format!("{name}.lock"));
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut lock = open.map_err(at(&path))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut text = String::new();
            let _ = lock.read_to_string(&mut text);
            return Err(DaemonError::Running(text.trim().parse().ok()));
        }
        let pid = format!("{}\n", std::process::id());
        lock.set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| lock.write_all(pid.as_bytes()))
            .map_err(at(&path))?;
        Ok(Daemon { dir: dir.to_owned(), name: name.to_owned(), _lock: lock })
    }

    fn file(&self, kind: &str) -> PathBuf {
        self.dir.join(format!("{}.{kind}", self.name))
    }

    /// What it remembered when it last ran.
    #[must_use]
    pub fn memory(&self) -> Option<String> {
        fs::read_to_string(self.file("memory")).ok()
    }

    /// Remembers, in one stroke.
    ///
    /// # Errors
    /// The system's.
    pub fn remember(&self, text: &str) -> io::Result<()> {
        replace_file(&self.file("memory"), text.as_bytes(), Replacing::default())
    }

    /// Adds a line to the record of decisions.
    ///
    /// # Errors
    /// The system's; the line is then missing whole.
    pub fn record(&self, line: &str) -> io::Result<()> {
        let file = self.file("decisions");
        if fs::metadata(&file).is_ok_and(|m| m.len() > RECORD_BYTES_MAX) {
            fs::rename(&file, self.file("decisions.1"))?;
        }
        let mut out = OpenOptions::new().append(true).create(true).open(&file)?;
        let before = out.metadata()?.len();
        let written = out.write_all(format!("{line}\n").as_bytes());
        if written.is_err() {
            let _ = out.set_len(before);
        }
        written
    }
}

/// Where a daemon's log goes.
#[derive(Debug)]
pub enum Log {
    /// To a file, opened for each line, so that others may move it away.
    File(PathBuf),
    /// To the system's logger, under a name.
    System(String),
}

impl Log {
    /// The place that a configuration names: a path or `syslog`; the usual one where it names none.
    #[must_use]
    pub fn at(location: Option<&str>, name: &str) -> Log {
        match location {
            Some(word) if word.eq_ignore_ascii_case("syslog") => Log::System(name.to_owned()),
            Some(path) => Log::File(PathBuf::from(path)),
            None => Log::File(PathBuf::from(LOG)),
        }
    }

    /// Writes a line. `severity` is syslog's, 0 (gravest) to 7.
    ///
    /// # Errors
    /// The system's.
    pub fn line(&self, severity: u8, line: &str) -> io::Result<()> {
        match self {
            Log::File(path) => {
                if let Some(dir) = path.parent() {
                    fs::create_dir_all(dir)?;
                }
                let mut file = OpenOptions::new().append(true).create(true).open(path)?;
                file.write_all(format!("{line}\n").as_bytes())
            }
            Log::System(name) => {
                let socket = UnixDatagram::unbound()?;
                let priority = DAEMONS * 8 + severity.min(7);
                let text = format!("<{priority}>{name}[{}]: {line}", std::process::id());
                socket.send_to(text.as_bytes(), SYSLOG).map(|_| ())
            }
        }
    }
}

/// Tells the service manager that started us that we are ready, still alive, or about to end; nobody, where none did.
pub fn tell_manager(states: &[sd_notify::NotifyState<'_>]) {
    let _ = sd_notify::notify(states);
}

/// How often the service manager wants to hear that we are alive; `None` where it does not.
#[must_use]
pub fn watchdog() -> Option<std::time::Duration> {
    sd_notify::watchdog_enabled()
}

pub use sd_notify::NotifyState;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_daemon_and_the_next_one_goes_on_where_it_ended() {
        let dir = tempfile::tempdir().unwrap();
        let first = Daemon::begin(dir.path(), "poold").unwrap();
        assert_eq!(first.memory(), None);
        let error = Daemon::begin(dir.path(), "poold").unwrap_err();
        assert_eq!(error.to_string(), format!("another one is running (process {})", std::process::id()));
        first.remember("a").unwrap();
        first.remember("b").unwrap();
        first.record("{}").unwrap();
        first.record("[]").unwrap();
        drop(first);
        let second = Daemon::begin(dir.path(), "poold").unwrap();
        assert_eq!(second.memory().as_deref(), Some("b"));
        let read = std::fs::read_to_string(dir.path().join("poold.decisions")).unwrap();
        assert_eq!(read, "{}\n[]\n");
    }

    #[test]
    fn a_log_is_a_file_or_the_systems() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/log");
        let log = Log::at(path.to_str(), "poold");
        log.line(6, "one").unwrap();
        log.line(6, "two").unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "one\ntwo\n");
        assert!(matches!(Log::at(Some("SysLog"), "poold"), Log::System(_)));
        assert!(matches!(Log::at(None, "poold"), Log::File(path) if path.ends_with("pool/poold")));
    }
}
