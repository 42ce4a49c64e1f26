//! Process limits that are too low: no thread, no child, no large file. Each gives an error message and leaves no
//! partial change.

use crate::captured::{Captured, PROGRAM, err};
use rustix::process::{Resource, Rlimit, geteuid, setrlimit};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A user id without processes. Limits do not count the processes of root.
const NOBODY_ELSE: u32 = 64_321;

fn limit(command: &mut Command, resource: Resource, most: u64) {
    let limit = Rlimit { current: Some(most), maximum: Some(most) };
    // SAFETY: between fork and exec one system call is made.
    unsafe { command.pre_exec(move || Ok(setrlimit(resource, limit)?)) };
}

/// Runs the program in a way that it can start neither a thread nor a child.
fn alone(words: &[&str], input: &str) -> Output {
    // That user may have no access to the directory of the program, so it is executed by an open file.
    let program = File::open(PROGRAM).unwrap();
    rustix::io::fcntl_setfd(&program, rustix::io::FdFlags::empty()).unwrap();
    let mut command = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
    command.arg0("millpond").args(words).current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if geteuid().is_root() {
        command.uid(NOBODY_ELSE).gid(NOBODY_ELSE);
    }
    limit(&mut command, Resource::Nproc, 0);
    let mut child = command.spawn().unwrap();
    // A program that ended early does not read its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

#[test]
fn where_neither_threads_nor_processes_can_be_started_that_is_said() {
    let cases: [(&[&str], &str, &str); 9] = [
        (
            &["load", "build", "--seconds", "1", "--jobs", "2"],
            "",
            "millpond load: cannot start thread 0 of 2: ",
        ),
        (
            &["load", "spin", "--seconds", "1", "--threads", "2"],
            "",
            "millpond load: cannot start thread 0 of 2: ",
        ),
        (&["load", "service", "--seconds", "1"], "", "millpond load: cannot start thread 0 of "),
        (&["load", "stream", "--seconds", "1"], "", "millpond load: cannot start thread 0 of "),
        (&["load", "hackbench", "--groups", "1"], "", "millpond load: cannot start "),
        (&["load", "hackbench", "--groups", "1", "--threads"], "", "millpond load: cannot start "),
        (
            &["load", "spin", "--on-input"],
            "go\n",
            "millpond load: cannot run load spin: no thread can be started that ",
        ),
        (&["sim", "x4200"], "psrinfo | grep 1\n", "stdin:1:11: cannot start grep: "),
        (&["latstat", "--samples", "10", "--plain"], "", "latstat: cannot measure latency: "),
    ];
    for (words, input, begins) in cases {
        let output = alone(words, input);
        let said = err(&output);
        assert!(said.lines().any(|line| line.starts_with(begins)), "{words:?}: {output:?}");
        assert!(!said.contains("panicked"), "{words:?}: {said}");
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
    }
}

/// Every file below a directory, with its text.
fn tree(dir: &Path, into: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            into.insert(path.display().to_string(), Vec::new());
            tree(&path, into);
        } else {
            into.insert(path.display().to_string(), fs::read(&path).unwrap());
        }
    }
}

#[test]
fn a_change_that_meets_the_limit_of_a_files_size_is_undone_and_says_so() {
    let mut refused = 0;
    for most in (0..).step_by(64) {
        assert!(most < 1 << 16, "it is never done");
        let machine = Captured::new();
        let seen = || {
            let mut files = BTreeMap::new();
            tree(&machine.dir().join("cgroup"), &mut files);
            files
        };
        let before = seen();
        let mut command = machine.command(&["psrset", "-c", "2", "3"]);
        limit(&mut command, Resource::Fsize, most);
        let output = command.output().unwrap();
        assert_eq!(output.status.signal(), None, "{most} bytes: {output:?}");
        if output.status.success() {
            break;
        }
        refused += 1;
        assert!(err(&output).contains("File too large"), "{most} bytes: {output:?}");
        assert_eq!(seen(), before, "{most} bytes: {output:?}");
        let again = machine.run(&["psrset", "-c", "2", "3"]);
        assert!(again.status.success(), "after {most} bytes: {again:?}");
    }
    assert!(refused > 0, "it writes nothing");
}
