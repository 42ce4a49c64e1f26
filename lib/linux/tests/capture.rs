//! A captured machine opens again and says the same, without the names of whose it was.

#![allow(clippy::unwrap_used)]

mod common;

use common::HandMade;
use millpond_linux::{LinuxMachine, Root, capture};
use millpond_machine::facets::CreateOptions;
use millpond_machine::{Machine, MemoryJournal, Writer};
use millpond_model::CpuId;

fn open(dir: &std::path::Path) -> LinuxMachine {
    LinuxMachine::open(Root::paper(dir), Box::new(MemoryJournal::default()))
}

#[test]
fn a_capture_says_what_the_machine_said() {
    let made = HandMade::new(4, true);
    made.process(20, &[20, 21], "secretapp", 0);
    made.file("cgroup/cpuset/acme-billing/cpuset.cpus", "0-3\n");
    made.file("cgroup/cpuset/acme-billing/tasks", "");
    let into = tempfile::tempdir().unwrap();
    let dir = into.path().join("copy");
    capture(&Root::paper(made.dir.path()), &dir).unwrap();
    let (a, b) = (made.machine(), open(&dir));
    assert_eq!(a.processors().unwrap().topology(), b.processors().unwrap().topology());
    assert_eq!(a.processors().unwrap().states(), b.processors().unwrap().states());
    assert_eq!(a.interrupts().unwrap().list(), b.interrupts().unwrap().list());
    let mut text = String::new();
    for entry in walk(&dir) {
        text.push_str(&entry.display().to_string());
        text.push_str(&std::fs::read_to_string(&entry).unwrap_or_default());
    }
    assert!(!text.contains("secretapp") && !text.contains("acme"), "a name was left in");
    assert!(capture(&Root::paper(made.dir.path()), &dir).is_err(), "an old capture is not overwritten");
}

#[test]
fn a_capture_can_be_changed_like_the_machine() {
    let made = HandMade::new(4, false);
    let original = made.machine();
    let change = original.psets().unwrap().prepare_create(&[CpuId(2)], CreateOptions::default(), false);
    Writer::open(&original).unwrap().commit(change.unwrap()).unwrap();
    let into = tempfile::tempdir().unwrap();
    let dir = into.path().join("copy");
    capture(&Root::paper(made.dir.path()), &dir).unwrap();
    let machine = open(&dir);
    let writer = Writer::open(&machine).unwrap();
    let options = CreateOptions::default();
    let change = machine.psets().unwrap().prepare_create(&[CpuId(3)], options, false).unwrap();
    writer.commit(change).unwrap();
    assert_eq!(machine.psets().unwrap().list().unwrap()[0].members, [CpuId(2)]);
    assert_eq!(machine.psets().unwrap().list().unwrap()[1].members, [CpuId(3)]);
}

#[test]
fn this_machine_can_be_captured_and_opened() {
    let into = tempfile::tempdir().unwrap();
    let dir = into.path().join("copy");
    let captured = capture(&Root::live(into.path().join("state")), &dir).unwrap();
    assert!(captured.files > 10, "{captured:?}");
    let machine = open(&dir);
    let live = LinuxMachine::open(Root::live(into.path().join("state")), Box::new(MemoryJournal::default()));
    let topology = machine.processors().unwrap().topology().unwrap();
    let same = live.processors().unwrap().topology().unwrap();
    assert_eq!(topology.cpus(), same.cpus());
    assert_eq!(topology.cores(), same.cores());
    assert_eq!(topology.caches(), same.caches());
}

fn walk(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(walk(&path));
        }
        all.push(path);
    }
    all
}
