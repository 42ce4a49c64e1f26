//! Detects possible changes of sets or shields: every change modifies one of a few directories.
//!
//! Our own changes are written to the journal, and most of them to a record. Cgroups that other programs create or remove change
//! the directory of cgroups. Checking the directories costs one system call; reading the sets costs a hundred.

use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
use rustix::io::{Errno, read};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// Inotify watches on these directories.
#[derive(Debug)]
pub(super) struct Traces {
    inotify: OwnedFd,
    state: PathBuf,
    groups: Option<PathBuf>,
}

impl Traces {
    /// Watches the state directory, and the directory of cgroups if there is one.
    pub(super) fn watch(state: PathBuf, groups: Option<PathBuf>) -> io::Result<Traces> {
        let inotify = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let traces = Traces { inotify, state, groups };
        traces.renew();
        Ok(traces)
    }

    /// Adds watches for the directories that exist now. Adding a watch twice is harmless.
    fn renew(&self) {
        let names = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVE | WatchFlags::ONLYDIR;
        if let Some(groups) = &self.groups {
            // Not for content: files in cgroups are written all the time.
            let _ = add_watch(&self.inotify, groups, names);
        }
        let texts = names | WatchFlags::MODIFY | WatchFlags::DELETE_SELF;
        match add_watch(&self.inotify, &self.state, texts) {
            Ok(_) => {
                // This directory is created with the first record, which triggers the watch on its parent.
                let _ = add_watch(&self.inotify, self.state.join("records"), texts);
            }
            Err(_) => {
                if let Some(above) = self.state.parent() {
                    let _ = add_watch(&self.inotify, above, WatchFlags::CREATE | WatchFlags::ONLYDIR);
                }
            }
        }
    }

    /// Whether anything changed since the last call.
    pub(super) fn stirred(&self) -> bool {
        // Room for at least one event: header and longest name.
        let mut events = [0u8; 512];
        let mut stirred = false;
        loop {
            match read(&self.inotify, &mut events) {
                Ok(count) if count > 0 => stirred = true,
                Err(Errno::INTR) => {}
                _ => break,
            }
        }
        if stirred {
            self.renew();
        }
        stirred
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn each_change_stirs_once_and_directories_may_come_later() {
        let dir = tempfile::tempdir().unwrap();
        let (state, groups) = (dir.path().join("state"), dir.path().join("groups"));
        fs::create_dir(&groups).unwrap();
        let traces = Traces::watch(state.clone(), Some(groups.clone())).unwrap();
        let expect = |what: &str, stirs: bool| {
            assert_eq!(traces.stirred(), stirs, "{what}");
            assert!(!traces.stirred(), "{what}, once");
        };
        expect("nothing", false);
        fs::create_dir(groups.join("mpset1")).unwrap();
        expect("a group", true);
        fs::write(groups.join("tasks"), "1").unwrap();
        expect("a file there is new", true);
        fs::write(groups.join("tasks"), "2").unwrap();
        expect("writing there is not", false);
        fs::create_dir(&state).unwrap();
        expect("the state directory", true);
        fs::write(state.join("journal"), "begin").unwrap();
        expect("the journal", true);
        fs::create_dir(state.join("records")).unwrap();
        expect("records", true);
        fs::write(state.join("records/processor.1"), "x").unwrap();
        expect("a record", true);
        fs::remove_dir(groups.join("mpset1")).unwrap();
        expect("no group", true);
    }
}
