//! The laws on simulated machines.

mod common;

use common::SimSubject;
use millpond_machine::Machine;
use millpond_machine::laws::{self, Abilities, Law, Subject, Times};
use millpond_model::{Lwp, Pid, State};
use millpond_sim::SimMachine;
use std::cell::Cell;
use std::rc::Rc;

fn obeys(name: &str, cases: u32) {
    let make = || SimSubject(SimMachine::named(name).expect("it comes with the program"));
    let report = laws::run(make, laws::cases(cases), 1);
    report.expect_all_but(&[]);
}

#[test]
fn a_machine_of_two_processors_obeys_every_law() {
    obeys("smartos-2", 400);
}

#[test]
fn a_machine_of_two_chips_obeys_every_law() {
    obeys("x4200", 600);
}

#[test]
fn a_machine_of_thirty_two_strands_obeys_every_law() {
    obeys("t2000", 150);
}

#[test]
fn one_machine_obeys_every_law_through_many_scripts() {
    let mut subject = SimSubject(SimMachine::named("x4200").unwrap());
    laws::run_in_place(&mut subject, laws::cases(200), 2).expect_all_but(&[]);
}

/// A machine that can do less than it could, and is seen wrongly when `wrong_in` looks have been counted down.
struct Modest {
    inner: SimSubject<SimMachine>,
    wrong_in: Rc<Cell<i32>>,
}

impl Modest {
    fn new(wrong_in: &Rc<Cell<i32>>) -> Self {
        let machine = SimMachine::named("x4200").expect("it comes with the program");
        Modest { inner: SimSubject(machine), wrong_in: Rc::clone(wrong_in) }
    }
}

impl Subject for Modest {
    fn abilities(&self) -> Abilities {
        let all = Abilities::all(&"0-2".parse().expect("it is a list"));
        Abilities {
            states: vec![State::OnLine],
            exclusive: false,
            sees_lone_heirs: false,
            free_clock: false,
            ..all
        }
    }
    fn machine(&self) -> &dyn Machine {
        self.inner.machine()
    }
    fn snapshot(&self, times: Times) -> Result<String, String> {
        self.wrong_in.set(self.wrong_in.get() - 1);
        if self.wrong_in.get() == 0 { Ok("a mirage".into()) } else { self.inner.snapshot(times) }
    }
    fn spawn(&mut self) -> Result<Pid, String> {
        self.inner.spawn()
    }
    fn add_thread(&mut self, pid: Pid) -> Result<Lwp, String> {
        self.inner.add_thread(pid)
    }
    fn fork(&mut self, parent: Pid) -> Result<Pid, String> {
        self.inner.fork(parent)
    }
    fn exit(&mut self, pid: Pid) -> Result<(), String> {
        self.inner.exit(pid)
    }
}

#[test]
fn what_a_machine_cannot_do_is_not_asked_and_the_report_says_so() {
    let never = Rc::new(Cell::new(-1));
    let report = laws::run(|| Modest::new(&never), 50, 1);
    report.expect_all_but(&[
        Law::OthersStayOutside,
        Law::LastOnlineStays,
        Law::LastInterruptibleStays,
        Law::ShelteredFromInterrupts,
        Law::StoppedKeepsItsSet,
        Law::SinceChangesWithState,
    ]);
    let text = report.to_string();
    for why in ["this machine makes no exclusive sets", "processors cannot be sheltered here"] {
        assert!(text.contains(why), "{why}\n{text}");
    }
}

#[test]
fn what_happens_only_once_is_shown_as_it_happened() {
    let soon = Rc::new(Cell::new(200));
    let report = laws::run(|| Modest::new(&soon), 50, 1);
    let text = report.to_string();
    assert!(!report.kept());
    for part in ["a mirage", "it did not happen again", "as code: run_script("] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| laws::run(|| SimSubject(SimMachine::named("smartos-2").unwrap()), 20, seed);
    assert_eq!(run(5).to_string(), run(5).to_string());
    assert_ne!(run(5).tally, run(6).tally);
}
