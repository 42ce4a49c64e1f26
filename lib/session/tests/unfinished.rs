//! Reading during writes: an operation in progress is never taken for an abandoned one. A test program of its own, because a child
//! that another test forks holds the lock until its exec.

#![allow(clippy::unwrap_used)]

use millpond_machine::{Knob, Step};
use millpond_session::{OpenOptions, Session};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of changes during the reads.
const CHANGES: u32 = 300;

fn captured() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("sys/devices/system/cpu")).unwrap();
    fs::create_dir_all(dir.path().join("proc/sys/kernel/random")).unwrap();
    fs::write(dir.path().join("proc/sys/kernel/random/boot_id"), "boot-1\n").unwrap();
    dir
}

fn open(root: &Path) -> Session {
    Session::open(&OpenOptions { root: Some(root.into()), ..OpenOptions::default() }).unwrap()
}

#[test]
fn nobody_who_reads_meets_an_unfinished_change_while_writers_live() {
    let dir = captured();
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let session = open(dir.path());
            let machine = session.machine();
            for change in 0..CHANGES {
                let step = Step::new(Knob("x".into()), None, Some(change.to_string()));
                let held = machine.lock().unwrap();
                machine.journal().begin("change x", &machine.boot_id(), &[step]).unwrap();
                std::thread::yield_now();
                machine.journal().commit().unwrap();
                drop(held);
            }
            has_ended.store(true, Ordering::Relaxed);
        });
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let session = open(dir.path());
                    while !has_ended.load(Ordering::Relaxed) {
                        assert_eq!(session.unfinished().unwrap(), None);
                    }
                })
            })
            .collect();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    let left = open(dir.path());
    let step = Step::new(Knob("x".into()), None, Some("1".into()));
    left.machine().journal().begin("change x", "boot-1", &[step]).unwrap();
    let seen = open(dir.path()).unfinished().unwrap().unwrap();
    assert_eq!(seen.operation.what, "change x", "nobody holds the lock: it was left behind");
}
