//! hackbench and the limit of open files. A test program of its own, because the limit belongs to the whole process.

use millpond_workloads::Error;
use millpond_workloads::hackbench::{HackbenchSpec, TaskMode, run};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::num::NonZeroU32;
use std::sync::atomic::AtomicBool;

/// One test, in this order: no other code may open files meanwhile, and a hard limit can only be lowered.
#[test]
fn the_limit_of_open_files_is_raised_where_that_helps_and_named_where_it_does_not() {
    let never = AtomicBool::new(false);
    // 20 groups of 10 pairs in threads: 400 descriptors and 4 for the gates.
    let number = |number| NonZeroU32::new(number).unwrap();
    let spec = HackbenchSpec {
        groups: number(20),
        pairs: number(10),
        loops: number(1),
        mode: TaskMode::Thread,
        ..HackbenchSpec::default()
    };
    assert_eq!(spec.descriptors(), 404);

    // The soft limit is too low: it is raised for the run, and lowered again.
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(256), maximum }).unwrap();
    let result = run(&spec, &never, &mut |_| ()).unwrap();
    assert_eq!(result.messages, 2_000);
    assert_eq!(getrlimit(Resource::Nofile).current, Some(256));

    // The hard limit has room, but not in addition to the open descriptors: opening fails.
    setrlimit(Resource::Nofile, Rlimit { current: Some(405), maximum: Some(405) }).unwrap();
    let error = run(&spec, &never, &mut |_| ()).unwrap_err();
    assert!(matches!(error, Error::Descriptors { needed: 404, limit: Some(405) }), "{error:?}");

    // The hard limit is too low in any case.
    setrlimit(Resource::Nofile, Rlimit { current: Some(128), maximum: Some(128) }).unwrap();
    let error = run(&spec, &never, &mut |_| ()).unwrap_err();
    assert_eq!(error.to_string(), "cannot open 404 file descriptors: the limit is 128");
    assert_eq!(error.hint().as_deref(), Some("raise the limit with ulimit -n 468"));

    // Processes inherit their descriptors, so the same groups fit: 20 at a time, and 4.
    let spec = HackbenchSpec { mode: TaskMode::Process, ..spec };
    assert_eq!(spec.descriptors(), 24);
    assert_eq!(run(&spec, &never, &mut |_| ()).unwrap().messages, 2_000);
}
