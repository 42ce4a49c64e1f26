//! A process at its descriptor limit: a change is made completely or not at all. A single test, because the limit applies to the
//! process.

#![allow(clippy::unwrap_used)]

#[path = "all/common/mod.rs"]
mod common;

use common::HandMade;
use common::commands::{EXCLUSIVE, bind, create, destroy};
use millpond_machine::Refusal;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// Runs `action` with only `more` further descriptors available.
fn with_few<T>(more: u64, action: impl FnOnce() -> T) -> T {
    let usual = getrlimit(Resource::Nofile);
    let next = u64::try_from(File::open("/dev/null").unwrap().as_raw_fd()).unwrap();
    setrlimit(Resource::Nofile, Rlimit { current: Some(next + more), ..usual }).unwrap();
    let result = action();
    setrlimit(Resource::Nofile, usual).unwrap();
    result
}

/// All files except the state directory.
fn seen(made: &HandMade) -> BTreeMap<PathBuf, String> {
    let state = made.dir.path().join("state");
    made.snapshot().into_iter().filter(|(path, _)| !path.starts_with(&state)).collect()
}

type Action = fn(&HandMade) -> Result<(), Refusal>;

#[test]
fn a_change_for_which_there_are_too_few_descriptors_leaves_nothing() {
    let actions: [(&str, Action); 4] = [
        ("create", |made| create(&made.machine(), &[2, 3], EXCLUSIVE).map(drop)),
        ("bind", |made| bind(&made.machine(), 7, Some(1))),
        ("unbind", |made| bind(&made.machine(), 7, None)),
        ("destroy", |made| destroy(&made.machine(), 1)),
    ];
    for v1 in [false, true] {
        let made = HandMade::new(4, v1);
        made.process(7, &[7, 9], "job", 0);
        for (name, action) in &actions {
            let mut refused = 0;
            loop {
                assert!(refused < 100, "{name}: {refused} descriptors are not enough");
                let before = seen(&made);
                match with_few(refused, || action(&made)) {
                    Ok(()) => break,
                    Err(_) => assert_eq!(seen(&made), before, "{name} with {refused} descriptors, v1 {v1}"),
                }
                refused += 1;
            }
            assert!(refused > 0, "{name} needs no descriptor");
        }
    }
}
