//! Counters of the running kernel. Uses software events, which exist without counter hardware. Prints a message where rights are
//! missing.

use millpond_linux::{LinuxMachine, Root};
use millpond_machine::facets::{Follow, Happening, Tracked, Wanted};
use millpond_machine::{HardwareCounters, Machine, MemoryJournal, Reason, Refusal};
use millpond_model::{Nanos, Pid};
use std::process::Command;

/// Longer than the run time of any of these programs.
const LONG: Nanos = Nanos(60_000_000_000);

fn machine() -> (tempfile::TempDir, LinuxMachine) {
    let dir = tempfile::tempdir().expect("there is room");
    let machine = LinuxMachine::open(Root::live(dir.path().into()), Box::new(MemoryJournal::default()));
    (dir, machine)
}

fn faults() -> Vec<Vec<Wanted>> {
    vec![vec![Wanted { counter: 0, event: "page-faults".into(), user: true, sys: false }]]
}

/// Whether a test cannot run here; prints a message if so.
fn skips(test: &str, refusal: &Refusal) -> bool {
    let missing = matches!(refusal.reason, Reason::Absent(_) | Reason::NotPermitted);
    if missing {
        println!("skipped: {test}: {refusal}");
    }
    missing
}

fn words(words: &[&str]) -> Tracked {
    Tracked::Program(words.iter().map(Into::into).collect())
}

#[test]
fn a_program_is_followed_through_forks_and_other_programs_to_its_end() {
    let (_dir, machine) = machine();
    let follow = Follow { forks: true, execs: true };
    let whose = words(&["sh", "-c", "(exit 3) & wait; exec true"]);
    let mut tracking = match machine.track(&whose, &faults(), follow) {
        Err(refusal) if skips("a program is followed", &refusal) => return,
        tracking => tracking.unwrap(),
    };
    let first = tracking.pid();
    let (mut began, mut forked, mut became, mut exited, mut counted) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), 0);
    let deadline = machine.clock().now() + LONG;
    loop {
        match tracking.next(deadline).unwrap() {
            Happening::Began { lwp, created } => {
                assert!(!created, "nobody starts a thread");
                began.push(lwp.pid);
            }
            Happening::Forked { lwp, child } => forked.push((lwp.pid, child)),
            Happening::Became { lwp, image, followed, before } => {
                assert!(followed && before.len() == 1);
                became.push((lwp.pid, image.is_some()));
            }
            Happening::Ended(reading) => counted += reading.counted.values[0],
            Happening::Exited { pid } => exited.push(pid),
            Happening::Over => break,
            // A signal for another thread of this process may end the wait.
            Happening::Due if machine.clock().now() < deadline => {}
            Happening::Due | Happening::NotCounted { .. } => panic!("it should have ended"),
        }
    }
    let child = forked[0].1;
    assert_eq!(forked, [(first, child)]);
    assert_eq!(began, [first, child, first], "the second program counts anew");
    assert_eq!(became, [(first, true)]);
    assert_eq!(exited, [child, first]);
    assert!(counted > 0, "a program cannot begin without a page");
}

#[test]
fn a_program_that_does_not_exist_is_not_started() {
    let (_dir, machine) = machine();
    let refused = machine.track(&words(&["/no/such/program"]), &faults(), Follow::default()).err().unwrap();
    if !skips("a program that does not exist", &refused) {
        assert_eq!(refused.reason, Reason::NotStarted("No such file or directory".into()));
    }
}

#[test]
fn a_process_that_is_let_go_goes_on() {
    let (_dir, machine) = machine();
    let mut child = Command::new("sleep").arg("1000").spawn().expect("there is a sleep");
    let whose = Tracked::Process(Pid(child.id()));
    match machine.track(&whose, &faults(), Follow::default()) {
        Err(refusal) if skips("a process that is let go", &refusal) => {}
        tracking => {
            let mut tracking = tracking.unwrap();
            assert!(matches!(tracking.next(Nanos(0)), Ok(Happening::Began { .. })));
            assert_eq!(tracking.next(Nanos(0)), Ok(Happening::Due));
            assert_eq!(tracking.read().len(), 1);
            drop(tracking);
            assert!(child.try_wait().expect("it is ours").is_none(), "it lives");
            let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
            assert!(status.contains("TracerPid:\t0\n"), "{status}");
        }
    }
    child.kill().expect("it lives");
    child.wait().expect("it is ours");
}
