//! The journal file: one JSON record per line.
//!
//! # Why it is safe
//!
//! A record is appended by one `write` call before its step is executed. A writer can be killed between any two calls; the next
//! writer reads the intended steps. A last line without a newline is a record whose write was interrupted. Nothing of it was
//! executed, so it does not count, and the next append first truncates it. If a write does not fit on the disk, the written part
//! is truncated at once.
//!
//! The records of an undone operation are *truncated*, and so are all records when the last baseline is released. Both take one
//! call and no disk space. So a full disk can prevent an operation, but never its undo, and an idle machine has an empty journal.
//! A long file is replaced by one with only the baselines, through a second file and a rename.
//!
//! The file is never synced: the records describe kernel state, which a crash of the kernel also ends, and the death of a process
//! loses no written data.
//!
//! # Access
//!
//! Only the holder of the machine's writer lock appends. Its first call is [`Journal::forget_other_boots`], which reads the file
//! again. Others may read at any time; an operation in progress looks unfinished to them. The writer lock
//! ([`millpond_machine::Knobs::writing`]) shows whether its writer is running; where that is unknown, use [`FileJournal::abandoned`].
//!
//! # Fault injection
//!
//! If `MILLPOND_KILL_AT` names a fault point (`begin`, `intended`, `step-1`, …), the process kills itself there.

mod records;

use crate::output::reason;
use millpond_linux::{Replacing, make_state_dir, open_plain, replace_file};
use millpond_machine::{Journal, JournalError, Knob, Operation, Step, Value};
use millpond_model::Pid;
use records::{Contents, Record};
use rustix::fs::StatVfsMountFlags;
use rustix::process::{Signal, getpid, kill_process};
use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The file's name in the state directory.
const NAME: &str = "journal";

/// A commit compacts a longer file to its baselines. A hundred sets of a large machine stay below this length. Reading it takes less
/// than a millisecond.
const LENGTH_MAX: u64 = 64 * 1024;

/// A larger file is not a journal.
const BYTES_MAX: u64 = 1 << 30;

/// A journal in a file.
pub struct FileJournal {
    dir: PathBuf,
    path: PathBuf,
    kill_at: Option<String>,
    state: RefCell<State>,
    /// An error in reading baselines that has not been reported yet.
    unread: RefCell<Option<JournalError>>,
}

#[derive(Default)]
struct State {
    /// The file's stamp when `contents` was last read or written.
    stamp: Option<Stamp>,
    contents: Contents,
    /// Open for appending after the first write.
    file: Option<File>,
}

/// Distinguishes versions of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    changed_s: i64,
    changed_ns: i64,
}

impl From<Metadata> for Stamp {
    fn from(meta: Metadata) -> Self {
        Stamp {
            device: meta.dev(),
            inode: meta.ino(),
            length: meta.len(),
            changed_s: meta.mtime(),
            changed_ns: meta.mtime_nsec(),
        }
    }
}

/// The reason why no record can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JournalFault {
    /// The file system is mounted read-only.
    #[error("its file system is mounted read-only")]
    ReadOnly,
    /// The file system is full.
    #[error("its file system has no space left")]
    NoSpace,
    /// The file system cannot have more files.
    #[error("its file system has no inodes left")]
    NoInodes,
}

impl JournalFault {
    /// A remedy.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self {
            JournalFault::ReadOnly => {
                "mount it for writing, or name another state directory in MILLPOND_STATE"
            }
            JournalFault::NoSpace | JournalFault::NoInodes => {
                "remove files there, or name another state directory in MILLPOND_STATE"
            }
        }
    }
}

impl FileJournal {
    /// The journal in the directory `dir`, which is created at the first write. Reads nothing yet.
    #[must_use]
    pub fn in_dir(dir: &Path) -> Self {
        FileJournal {
            dir: dir.to_path_buf(),
            path: dir.join(NAME),
            kill_at: std::env::var("MILLPOND_KILL_AT").ok(),
            state: RefCell::default(),
            unread: RefCell::default(),
        }
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The unfinished operation, unless its writer still runs. For callers that cannot see the holder of the writer lock. Pids are reused, so the
    /// start time of the process must match as well.
    ///
    /// # Errors
    /// [`JournalError`] when the journal cannot be read.
    pub fn abandoned(&self) -> Result<Option<Operation>, JournalError> {
        let state = self.refreshed()?;
        let running = state.contents.running.as_ref();
        let left = running.filter(|r| r.start.is_none() || start_of(r.operation.pid) != r.start);
        Ok(left.map(|running| running.operation.clone()))
    }

    /// Repairs a corrupt journal: lines that are complete records remain, and the original file is kept under the returned
    /// name. `None` if the journal is intact. The caller holds the writer lock.
    ///
    /// # Errors
    /// [`JournalError`] when it cannot be read or replaced.
    pub fn salvage(&self) -> Result<Option<PathBuf>, JournalError> {
        let text = self.contents()?;
        if Contents::parse(&text).is_ok() {
            return Ok(None);
        }
        let kept = self.path.with_extension("damaged");
        let readable = Replacing { mode: Some(0o644), ..Replacing::default() };
        let made = replace_file(&kept, &text, readable)
            .and_then(|()| replace_file(&self.path, &Contents::salvage(&text), readable));
        made.map_err(|error| self.error(&error))?;
        *self.state.borrow_mut() = State::default();
        *self.unread.borrow_mut() = None;
        Ok(Some(kept))
    }

    /// The reason why the file system cannot take a record: it is read-only, or has no space or no inodes left. The test writes nothing.
    /// A file system without a free block still has room for a record in the last block of the journal, unless that is nearly full.
    #[must_use]
    pub fn fault(&self) -> Option<JournalFault> {
        let dir = self.dir.ancestors().find(|dir| dir.is_dir())?;
        let system = rustix::fs::statvfs(dir).ok()?;
        let is_full = |all: u64, free: u64| all > 0 && free == 0;
        match () {
            () if system.f_flag.contains(StatVfsMountFlags::RDONLY) => Some(JournalFault::ReadOnly),
            () if is_full(system.f_blocks, system.f_bavail) && !self.has_room() => {
                Some(JournalFault::NoSpace)
            }
            () if is_full(system.f_files, system.f_favail) => Some(JournalFault::NoInodes),
            () => None,
        }
    }

    /// Whether the journal's allocated blocks have room for a record.
    fn has_room(&self) -> bool {
        /// Larger than the records of an ordinary change.
        const RECORD: u64 = 2048;
        fs::metadata(&self.path).is_ok_and(|of| of.blocks() * 512 >= of.len() + RECORD)
    }

    /// Reads baselines during preparation. An error is stored and reported by the next [`Journal::begin`], so that no change is made
    /// without baselines.
    fn baselines_of<T: Default>(&self, of: impl FnOnce(&Contents) -> T) -> T {
        match self.refreshed() {
            Ok(state) => of(&state.contents),
            Err(error) => {
                *self.unread.borrow_mut() = Some(error);
                T::default()
            }
        }
    }

    /// The state, read again if the file has changed.
    fn refreshed(&self) -> Result<RefMut<'_, State>, JournalError> {
        let mut state = self.state.borrow_mut();
        // During an own operation no other process writes.
        if state.file.is_some() && state.contents.running.is_some() {
            return Ok(state);
        }
        let stamp = match fs::metadata(&self.path) {
            // A FIFO also has the length 0. It is refused when it is opened.
            Ok(meta) if meta.file_type().is_fifo() => return self.contents().map(|_| state),
            Ok(meta) => Stamp::from(meta),
            Err(error) if missing(&error) => Stamp::default(),
            Err(error) => return Err(self.error(&error)),
        };
        if state.stamp != Some(stamp) {
            let text = if stamp.length == 0 { Vec::new() } else { self.contents()? };
            let contents = Contents::parse(&text).map_err(|e| {
                JournalError::Damaged(format!("{}:{}: {}", self.path.display(), e.line, e.why))
            })?;
            *state = State { stamp: Some(stamp), contents, file: None };
        }
        Ok(state)
    }

    fn contents(&self) -> Result<Vec<u8>, JournalError> {
        let mut bytes = Vec::new();
        let open = open_plain(&self.path, BYTES_MAX);
        match open.and_then(|mut file| file.read_to_end(&mut bytes)).map(|_| bytes) {
            Err(error) if missing(&error) => Ok(Vec::new()),
            other => other.map_err(|e| self.error(&e)),
        }
    }

    /// Writes a record, and then applies it to the state.
    fn append(&self, state: &mut State, record: Record) -> Result<(), JournalError> {
        state.contents.permit(&record).map_err(|why| JournalError::Unwritable(why.to_owned()))?;
        let line = record.line();
        let end = state.contents.end;
        self.with_file(state, |file| {
            append_whole(file, line.as_bytes()).inspect_err(|_| {
                // Best effort: what remains is an incomplete line, which does not count.
                let _ = file.set_len(end);
            })
        })?;
        state.contents.take(record, line.len() as u64);
        Ok(())
    }

    /// Truncates the file to the end of `then`.
    fn cut(&self, state: &mut State, then: Contents) -> Result<(), JournalError> {
        self.with_file(state, |file| file.set_len(then.end))?;
        state.contents = then;
        Ok(())
    }

    /// Executes an action on the open file, and updates the stamp.
    fn with_file(
        &self,
        state: &mut State,
        work: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<(), JournalError> {
        let file = match &mut state.file {
            Some(file) => file,
            None => {
                let file = self.open(state.contents.end).map_err(|e| self.error(&e))?;
                state.file.insert(file)
            }
        };
        let result = work(file);
        state.stamp = file.metadata().ok().map(Stamp::from);
        result.map_err(|e| self.error(&e))
    }

    /// Opens the file for appending at `end`.
    fn open(&self, end: u64) -> io::Result<File> {
        let open = || OpenOptions::new().append(true).create(true).mode(0o644).open(&self.path);
        let file = match open() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                make_state_dir(&self.dir).and_then(|()| open())?
            }
            result => result?,
        };
        if file.metadata()?.len() > end {
            file.set_len(end)?;
        }
        Ok(file)
    }

    /// Compacts the file: replaces it by one with only the baselines.
    fn compact(&self, state: &mut State, record: Record) -> io::Result<()> {
        let line = record.line();
        let readable = Replacing { mode: Some(0o644), ..Replacing::default() };
        replace_file(&self.path, line.as_bytes(), readable)?;
        let file = OpenOptions::new().append(true).open(&self.path)?;
        let mut contents = Contents::default();
        contents.take(record, line.len() as u64);
        *state = State { stamp: file.metadata().ok().map(Stamp::from), contents, file: Some(file) };
        Ok(())
    }

    fn error(&self, error: &io::Error) -> JournalError {
        let why = format!("{}: {}", self.path.display(), reason(error));
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                JournalError::NoSpace(why)
            }
            _ => JournalError::Unwritable(why),
        }
    }
}

impl Journal for FileJournal {
    fn begin(&self, what: &str, boot: &str, steps: &[Step]) -> Result<(), JournalError> {
        if let Some(error) = self.unread.take() {
            return Err(error);
        }
        let pid = Pid(std::process::id());
        let record = Record::Begin {
            what: what.to_owned(),
            boot: boot.to_owned(),
            pid,
            start: start_of(pid),
            steps: steps.to_vec(),
        };
        self.append(&mut *self.refreshed()?, record)
    }

    fn extend(&self, steps: &[Step]) -> Result<(), JournalError> {
        self.append(&mut *self.refreshed()?, Record::Extend { steps: steps.to_vec() })
    }

    fn refused(&self, knob: &Knob) -> Result<(), JournalError> {
        self.append(&mut *self.refreshed()?, Record::Refused { knob: knob.clone() })
    }

    fn commit(&self) -> Result<(), JournalError> {
        let state = &mut *self.refreshed()?;
        let Some(running) = &state.contents.running else { return Ok(()) };
        let baselines = state.contents.folded();
        if baselines.is_empty() {
            return self.cut(state, Contents::default());
        }
        // At least twice the last summary: with very many baselines, do not rewrite them at every commit.
        if state.contents.end > LENGTH_MAX.max(2 * state.contents.summary) {
            let boot = running.operation.boot.clone();
            // Without space for a second file, the long one remains in use.
            if self.compact(state, Record::Summary { boot, baselines }).is_ok() {
                return Ok(());
            }
        }
        self.append(state, Record::Commit)
    }

    fn abort(&self) -> Result<(), JournalError> {
        let state = &mut *self.refreshed()?;
        match state.contents.without_running() {
            Some(then) => self.cut(state, then),
            None => Ok(()),
        }
    }

    fn unfinished(&self) -> Result<Option<Operation>, JournalError> {
        let state = self.refreshed()?;
        Ok(state.contents.running.as_ref().map(|r| r.operation.clone()))
    }

    fn baseline(&self, knob: &Knob) -> Option<Option<Value>> {
        self.baselines_of(|contents| contents.baseline(knob))
    }

    fn baselines(&self) -> BTreeMap<Knob, Option<Value>> {
        self.baselines_of(Contents::folded)
    }

    fn forget_other_boots(&self, boot: &str) -> Result<(), JournalError> {
        *self.state.borrow_mut() = State::default();
        let state = &mut *self.refreshed()?;
        match &state.contents.boot {
            Some(other) if other != boot => self.cut(state, Contents::default()),
            _ => Ok(()),
        }
    }

    fn moment(&self, name: &str) {
        if self.kill_at.as_deref() == Some(name) {
            // Cannot fail: the signal and the process exist. It is delivered before the call returns.
            let _ = kill_process(getpid(), Signal::KILL);
        }
    }
}

/// Shares the journal between the machine and its session.
pub(crate) struct Shared(pub(crate) Rc<FileJournal>);

impl Journal for Shared {
    fn begin(&self, what: &str, boot: &str, steps: &[Step]) -> Result<(), JournalError> {
        self.0.begin(what, boot, steps)
    }
    fn extend(&self, steps: &[Step]) -> Result<(), JournalError> {
        self.0.extend(steps)
    }
    fn refused(&self, knob: &Knob) -> Result<(), JournalError> {
        self.0.refused(knob)
    }
    fn commit(&self) -> Result<(), JournalError> {
        self.0.commit()
    }
    fn abort(&self) -> Result<(), JournalError> {
        self.0.abort()
    }
    fn unfinished(&self) -> Result<Option<Operation>, JournalError> {
        self.0.unfinished()
    }
    fn baseline(&self, knob: &Knob) -> Option<Option<Value>> {
        self.0.baseline(knob)
    }
    fn baselines(&self) -> BTreeMap<Knob, Option<Value>> {
        self.0.baselines()
    }
    fn forget_other_boots(&self, boot: &str) -> Result<(), JournalError> {
        self.0.forget_other_boots(boot)
    }
    fn moment(&self, name: &str) {
        self.0.moment(name);
    }
}

/// One write; a second one only to learn the error of a short write.
fn append_whole(file: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let written = file.write(bytes)?;
    if written < bytes.len() { file.write_all(&bytes[written..]) } else { Ok(()) }
}

fn missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// The start time of a process in the system's ticks; `None` if it does not exist.
fn start_of(pid: Pid) -> Option<u64> {
    let mut bytes = [0; 1024];
    // The kernel returns the file in one read, and the needed field is near its beginning.
    let filled = File::open(format!("/proc/{pid}/stat")).and_then(|mut file| file.read(&mut bytes)).ok()?;
    let stat = String::from_utf8_lossy(&bytes[..filled]);
    // The name in parentheses may contain blanks and parentheses; field 22 counts from before the name.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests;
