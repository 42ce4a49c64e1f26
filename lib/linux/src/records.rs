//! Records: small files in the state directory with data that the kernel does not store.
//!
//! An unreadable record must not be treated as missing: the interrupts of a no-intr CPU would return to it, and sets could be
//! created despite pools. A reader of an unreadable record gets `None`, and the error is stored. [`Os::check_records`] returns
//! the error: every listing and every change calls it before it ends.

use crate::Os;
use crate::messages::reason;
use millpond_formats::pools::record::Record;
use millpond_machine::{Reason, Refusal};
use millpond_model::pools::PoolsState;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The record of the pool configuration.
pub(crate) const POOLS: &str = "pools";

/// The last committed pool configuration; `None` while pools are disabled, and for an invalid record.
///
/// # Errors
/// [`Refusal`] when it cannot be read.
pub(crate) fn recorded_pools(os: &Os) -> Result<Option<PoolsState>, Refusal> {
    let text = os.shared_record(POOLS);
    os.check_records()?;
    Ok(text.and_then(|text| os.parsed_pools(&text)))
}

/// Records that are cached for several queries; see [`crate::shared_reads`].
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedRecords(Rc<RefCell<Option<Seen>>>);

/// The cached data.
#[derive(Debug, Default)]
struct Seen {
    names: Option<Rc<[String]>>,
    texts: BTreeMap<String, Option<String>>,
}

impl SharedRecords {
    /// Clears the cache. `keeps`: cache what is read from now on.
    pub(crate) fn begin(&self, keeps: bool) {
        *self.0.borrow_mut() = keeps.then(Seen::default);
    }
}

/// Detects writes of a record.
#[derive(Debug)]
pub(crate) struct RecordWatch {
    inotify: OwnedFd,
    file: PathBuf,
}

impl RecordWatch {
    /// A watch of the pool configuration. `None` if no more inotify watches are available.
    pub(crate) fn of_pools(os: &Os) -> Option<RecordWatch> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
        let watch = RecordWatch { inotify, file: os.record_file(POOLS) };
        watch.renew();
        Some(watch)
    }

    /// Watches the current directory of records. Watching it again is harmless.
    pub(crate) fn renew(&self) {
        let events = WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO | WatchFlags::DELETE;
        if let Some(dir) = self.file.parent() {
            // The directory does not exist until the first record is written.
            let _ = inotify::add_watch(&self.inotify, dir, events | WatchFlags::ONLYDIR);
        }
    }

    /// Whether the record was written or removed since the last call.
    pub(crate) fn was_written(&self) -> bool {
        let mut buffer = [MaybeUninit::uninit(); 1024];
        let mut events = inotify::Reader::new(&self.inotify, &mut buffer);
        let mut was_written = false;
        loop {
            match events.next() {
                Ok(event) => {
                    let name = event.file_name().map(std::ffi::CStr::to_bytes);
                    was_written |= event.events().contains(ReadFlags::QUEUE_OVERFLOW)
                        || name == self.file.file_name().map(OsStrExt::as_bytes);
                }
                Err(Errno::INTR) => {}
                Err(_) => return was_written,
            }
        }
    }
}

impl AsFd for RecordWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

impl Os {
    /// The file of a record in the state directory.
    #[must_use]
    pub fn record_file(&self, name: &str) -> PathBuf {
        self.root.state.join("records").join(name)
    }

    /// The text of a record; `None` if it does not exist or cannot be read.
    pub(crate) fn record(&self, name: &str) -> Option<String> {
        let file = self.record_file(name);
        self.keep_error(&file, self.root.read(&file))
    }

    /// The names of all records, sorted.
    pub(crate) fn record_names(&self) -> Vec<String> {
        let dir = self.record_file("");
        self.keep_error(&dir, self.root.names(&dir))
    }

    /// The names of all records, sorted, from the cache if possible.
    pub(crate) fn shared_record_names(&self) -> Rc<[String]> {
        if let Some(names) = self.seen_records.0.borrow().as_ref().and_then(|seen| seen.names.clone()) {
            return names;
        }
        let names: Rc<[String]> = self.record_names().into();
        self.keep_seen(|seen| seen.names = Some(names.clone()));
        names
    }

    /// The text of a record, from the cache if possible.
    pub(crate) fn shared_record(&self, name: &str) -> Option<String> {
        if let Some(text) = self.seen_records.0.borrow().as_ref().and_then(|seen| seen.texts.get(name)) {
            return text.clone();
        }
        let text = self.record(name);
        self.keep_seen(|seen| drop(seen.texts.insert(name.to_owned(), text.clone())));
        text
    }

    /// Caches a value, unless there was an error: then each query reads again and fails.
    fn keep_seen(&self, put: impl FnOnce(&mut Seen)) {
        if let Some(seen) =
            self.seen_records.0.borrow_mut().as_mut().filter(|_| self.unread.borrow().is_none())
        {
            put(seen);
        }
    }

    /// Parses the text of the pool configuration; `None` if invalid. The same text is not parsed again.
    pub(crate) fn parsed_pools(&self, text: &str) -> Option<PoolsState> {
        let mut parsed = self.parsed_pools.borrow_mut();
        match &*parsed {
            Some((of, state)) if of == text => state.clone(),
            _ => {
                let state = serde_json::from_str::<Record>(text).ok().map(PoolsState::from);
                *parsed = Some((text.to_owned(), state.clone()));
                state
            }
        }
    }

    /// Whether a record exists. The empty name stands for the directory of records.
    pub(crate) fn has_record(&self, name: &str) -> bool {
        let file = self.record_file(name);
        self.keep_error(&file, fs::exists(&file))
    }

    /// Fails if a record could not be read since the last call.
    ///
    /// # Errors
    /// [`Refusal`] with the file and the reason of the first failure.
    pub(crate) fn check_records(&self) -> Result<(), Refusal> {
        match self.unread.take() {
            Some(why) => {
                Err(Refusal::operation(Reason::Machine(why)).hint("check that file and its file system"))
            }
            None => Ok(()),
        }
    }

    fn keep_error<T: Default>(&self, path: &Path, result: io::Result<T>) -> T {
        result.unwrap_or_else(|error| {
            let why = || format!("{} cannot be read: {}", path.display(), reason(&error));
            self.unread.borrow_mut().get_or_insert_with(why);
            T::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_is_written_is_noticed_once_and_no_other_one() {
        let dir = tempfile::tempdir().unwrap();
        let records = dir.path().join("records");
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        let watch = RecordWatch { inotify, file: records.join(POOLS) };
        watch.renew();
        assert!(!watch.was_written());
        fs::create_dir(&records).unwrap();
        watch.renew();
        fs::write(records.join("processor.1"), "x").unwrap();
        fs::write(records.join("new"), "x").unwrap();
        assert!(!watch.was_written());
        fs::write(records.join(POOLS), "x").unwrap();
        assert!(watch.was_written());
        fs::rename(records.join("new"), records.join(POOLS)).unwrap();
        assert!(watch.was_written());
        fs::remove_file(records.join(POOLS)).unwrap();
        assert!(watch.was_written() && !watch.was_written());
    }
}
