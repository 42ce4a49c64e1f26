//! Files of a daemon: its instance lock, its saved state, the record of its decisions, and its log.

use crate::lossy_writer::WAITING_MAX;
use crate::output::reason;
use millpond_linux::{
    Replacing, has_name, make_private_dir, make_state_dir, open_lock_file, open_plain, replace_file,
};
use millpond_model::printable;
use rustix::fs::{FlockOperation, flock};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{iter, thread};

/// Maximum size of the record before a new file is begun; one older file is kept.
const RECORD_BYTES_MAX: u64 = 16 << 20;

/// Maximum size of the saved state: more than is needed for the most pools that a machine can have.
const MEMORY_BYTES_MAX: u64 = 16 << 20;

/// Maximum size of a pid with a line end.
const PID_BYTES_MAX: u64 = 32;

/// Default log of poold; see poold(8).
const LOG: &str = "/var/log/pool/poold";

/// The socket of the system logger.
const SYSLOG: &str = "/dev/log";

/// Syslog's number of the facility `daemon`.
const DAEMONS: u8 = 3;

/// An error in starting a daemon.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DaemonError {
    /// Another instance runs.
    #[error("another one is running{}", .0.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    Running(Option<u32>),
    /// Its directory is unusable.
    #[error("{path}: {why}")]
    Place {
        /// The directory or file.
        path: String,
        /// The reason.
        why: String,
    },
}

fn at(path: &Path) -> impl Fn(io::Error) -> DaemonError {
    let path = path.display().to_string();
    move |error| DaemonError::Place { path: path.clone(), why: reason(&error) }
}

/// The files of a running daemon, locked until the value is dropped.
#[derive(Debug)]
pub struct Daemon {
    dir: PathBuf,
    name: String,
    lock: File,
}

impl Daemon {
    /// Becomes the only daemon of this name in a state directory.
    ///
    /// # Errors
    /// [`DaemonError`].
    pub fn begin(dir: &Path, name: &str) -> Result<Daemon, DaemonError> {
        make_state_dir(dir).map_err(at(dir))?;
        Daemon::hold(dir, name)
    }

    /// The same in a private directory, which is created if needed and not accessible to other users.
    ///
    /// # Errors
    /// [`DaemonError`].
    pub fn begin_private(dir: &Path, name: &str) -> Result<Daemon, DaemonError> {
        make_private_dir(dir).map_err(at(dir))?;
        Daemon::hold(dir, name)
    }

    fn hold(dir: &Path, name: &str) -> Result<Daemon, DaemonError> {
        let path = dir.join(format!("{name}.lock"));
        let mut lock = open_lock_file(&path).map_err(at(&path))?;
        // A process that checks for a running daemon holds the lock for a moment.
        let takes = || flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
        if !takes()
            && !iter::repeat_n((), 5).any(|()| {
                thread::sleep(Duration::from_millis(10));
                takes()
            })
        {
            let mut text = String::new();
            let _ = (&mut lock).take(PID_BYTES_MAX).read_to_string(&mut text);
            return Err(DaemonError::Running(text.trim().parse().ok()));
        }
        let pid = format!("{}\n", std::process::id());
        lock.set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| lock.write_all(pid.as_bytes()))
            .map_err(at(&path))?;
        Ok(Daemon { dir: dir.to_owned(), name: name.to_owned(), lock })
    }

    /// Whether a daemon of this name runs in a state directory.
    #[must_use]
    pub fn runs(dir: &Path, name: &str) -> bool {
        let Ok(lock) = open_plain(&dir.join(format!("{name}.lock")), PID_BYTES_MAX) else { return false };
        flock(&lock, FlockOperation::NonBlockingLockShared).is_err()
    }

    fn file(&self, kind: &str) -> PathBuf {
        self.dir.join(format!("{}.{kind}", self.name))
    }

    /// Whether this is still the only instance. After the state directory is removed, another one can start there.
    #[must_use]
    pub fn is_the_one(&self) -> bool {
        has_name(&self.lock, &self.file("lock"))
    }

    /// The state that the last instance saved. A file that no daemon wrote (a FIFO, a file of gigabytes) is ignored without waiting.
    #[must_use]
    pub fn memory(&self) -> Option<String> {
        let file = open_plain(&self.file("memory"), MEMORY_BYTES_MAX).ok()?;
        io::read_to_string(file.take(MEMORY_BYTES_MAX)).ok()
    }

    /// Saves the state atomically.
    ///
    /// # Errors
    /// The system's error.
    pub fn remember(&self, text: &str) -> io::Result<()> {
        replace_file(&self.file("memory"), text.as_bytes(), Replacing::default())
    }

    /// Appends a line to the record of decisions.
    ///
    /// # Errors
    /// The system's error; then nothing of the line is written.
    pub fn record(&self, line: &str) -> io::Result<()> {
        let file = self.file("decisions");
        if fs::metadata(&file).is_ok_and(|m| m.len() > RECORD_BYTES_MAX) {
            fs::rename(&file, self.file("decisions.1"))?;
        }
        // Do not wait for a reader if the file is a FIFO.
        let flags = libc::O_NONBLOCK;
        let mut out = OpenOptions::new().append(true).create(true).custom_flags(flags).open(&file)?;
        let before = out.metadata()?.len();
        let written = out.write_all(format!("{line}\n").as_bytes());
        if written.is_err() {
            let _ = out.set_len(before);
        }
        written
    }
}

/// The destination of a daemon's log.
#[derive(Debug)]
pub enum Log {
    /// A file, opened for each line, so that log rotation can move it.
    File(PathBuf),
    /// The system logger.
    System {
        /// The name in its messages.
        name: String,
        /// The logger's socket.
        socket: PathBuf,
    },
}

impl Log {
    /// The destination in a configuration: a path or `syslog`; `None` is the default.
    #[must_use]
    pub fn at(location: Option<&str>, name: &str) -> Log {
        match location {
            Some(word) if word.eq_ignore_ascii_case("syslog") => {
                Log::System { name: name.to_owned(), socket: PathBuf::from(SYSLOG) }
            }
            Some(path) => Log::File(PathBuf::from(path)),
            None => Log::File(PathBuf::from(LOG)),
        }
    }

    /// Writes a line, for any text. `severity` is syslog's, 0 (most severe) to 7.
    ///
    /// # Errors
    /// The system's error.
    pub fn line(&self, severity: u8, text: &str) -> io::Result<()> {
        let line = printable(text);
        match self {
            Log::File(path) => {
                if let Some(dir) = path.parent() {
                    fs::create_dir_all(dir)?;
                }
                // A pipe without a reader is an error, not a reason to wait.
                let open =
                    OpenOptions::new().append(true).create(true).custom_flags(libc::O_NONBLOCK).open(path);
                let mut file = open?;
                file.write_all(format!("{line}\n").as_bytes())
            }
            Log::System { name, socket: logger } => {
                let socket = UnixDatagram::unbound()?;
                // If the logger does not read, lose the line instead of blocking the daemon.
                socket.set_nonblocking(true)?;
                let priority = DAEMONS * 8 + severity.min(7);
                let text = format!("<{priority}>{name}[{}]: {line}", std::process::id());
                socket.send_to(text.as_bytes(), logger).map(|_| ())
            }
        }
    }
}

/// Notifies the service manager that started this process: ready, alive, or stopping. Does nothing without a service manager.
pub fn tell_manager(states: &[NotifyState<'_>]) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let text: String = states.iter().map(|state| format!("{state}\n")).collect();
    // Best effort: an error cannot be reported anywhere else.
    let waits = !matches!(states, [NotifyState::Watchdog]);
    let _ = tell(&socket, &text, waits);
}

/// Sends a message to a service manager. Waits at most [`WAITING_MAX`] if it does not read, and not at all for watchdog messages: the next one
/// follows soon, and the daemon must not be delayed.
fn tell(socket: &OsStr, text: &str, waits: bool) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let from = UnixDatagram::unbound()?;
    from.set_write_timeout(Some(WAITING_MAX))?;
    from.set_nonblocking(!waits)?;
    from.send_to_addr(text.as_bytes(), &address).map(drop)
}

/// The service manager's watchdog interval; `None` without a watchdog.
#[must_use]
pub fn watchdog() -> Option<Duration> {
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
        assert!(Daemon::runs(dir.path(), "poold") && !Daemon::runs(dir.path(), "fence"));
        let error = Daemon::begin(dir.path(), "poold").unwrap_err();
        assert_eq!(error.to_string(), format!("another one is running (process {})", std::process::id()));
        first.remember("a").unwrap();
        first.remember("b").unwrap();
        first.record("{}").unwrap();
        first.record("[]").unwrap();
        drop(first);
        assert!(!Daemon::runs(dir.path(), "poold"));
        let second = Daemon::begin(dir.path(), "poold").unwrap();
        assert_eq!(second.memory().as_deref(), Some("b"));
        let read = std::fs::read_to_string(dir.path().join("poold.decisions")).unwrap();
        assert_eq!(read, "{}\n[]\n");
    }

    #[test]
    fn what_stands_in_the_place_of_its_files_is_not_waited_for_and_read_up_to_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        let daemon = Daemon::begin(dir.path(), "poold").unwrap();
        let (memory, record) = (daemon.file("memory"), daemon.file("decisions"));
        File::create(&memory).unwrap().set_len(30 << 30).unwrap();
        assert_eq!(daemon.memory(), None, "no memory has 30 GiB");
        fs::remove_file(&memory).unwrap();
        for path in [&memory, &record] {
            let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
            rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
        }
        assert_eq!(daemon.memory(), None, "no process writes to it");
        daemon.record("{}").unwrap_err();
        assert!(crate::record::tail(&record, 100).is_err(), "a record is no FIFO");
        daemon.remember("a").unwrap();
        assert_eq!(daemon.memory().as_deref(), Some("a"), "it is replaced");
    }

    #[test]
    fn a_daemon_notices_that_its_directory_was_removed() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let first = Daemon::begin(&state, "poold").unwrap();
        assert!(first.is_the_one());
        fs::remove_dir_all(&state).unwrap();
        assert!(!first.is_the_one());
        let second = Daemon::begin(&state, "poold").unwrap();
        assert!(second.is_the_one() && !first.is_the_one());
        let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(state.join("poold.lock")).unwrap());
        assert_eq!(mode & 0o777, 0o600, "no other user can hold it");
    }

    #[test]
    fn a_manager_that_reads_nothing_holds_up_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        tell(path.as_os_str(), "READY=1\n", true).unwrap();
        let mut heard = [0; 64];
        let length = manager.recv(&mut heard).unwrap();
        assert_eq!(&heard[..length], b"READY=1\n");
        // The queue of a socket is bounded: eventually it is full, and the call returns an error.
        let refused = (0..10_000).find_map(|_| tell(path.as_os_str(), "WATCHDOG=1\n", false).err());
        assert_eq!(refused.map(|error| error.kind()), Some(io::ErrorKind::WouldBlock));
        let refused = tell(path.as_os_str(), "STOPPING=1\n", true).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_pipe_without_a_reader_is_no_log() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(Log::File(path).line(6, "one").is_err());
    }

    #[test]
    fn a_logger_that_reads_nothing_loses_lines_and_holds_up_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("log");
        let logger = UnixDatagram::bind(&socket).unwrap();
        let log = Log::System { name: "poold".into(), socket };
        log.line(5, "pool a\nb \u{1b}[2J").unwrap();
        let mut heard = [0; 256];
        let length = logger.recv(&mut heard).unwrap();
        let line = format!("<29>poold[{}]: pool a\\nb \\u001b[2J", std::process::id());
        assert_eq!(std::str::from_utf8(&heard[..length]).unwrap(), line);
        let refused = (0..100_000).find_map(|_| log.line(6, "again").err());
        assert_eq!(refused.map(|error| error.kind()), Some(io::ErrorKind::WouldBlock));
    }

    #[test]
    fn a_log_is_a_file_or_the_systems() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/log");
        let log = Log::at(path.to_str(), "poold");
        log.line(6, "one").unwrap();
        log.line(6, "two\nNov 20 10:02:11 poold NOTICE: exiting\u{1b}[2J").unwrap();
        let second = "two\\nNov 20 10:02:11 poold NOTICE: exiting\\u001b[2J";
        assert_eq!(fs::read_to_string(path).unwrap(), format!("one\n{second}\n"));
        assert!(matches!(Log::at(Some("SysLog"), "poold"), Log::System { .. }));
        assert!(matches!(Log::at(None, "poold"), Log::File(path) if path.ends_with("pool/poold")));
    }
}
