//! The laws on simulated machines.

mod common;

use common::SimSubject;
use millpond_machine::laws::{self, Law};
use millpond_sim::SimMachine;

/// Timeless machines count nothing.
const NOT_HERE: [Law; 1] = [Law::IdleIsNoLongerThanElapsed];

fn obeys(name: &str, cases: u32) {
    let make = || SimSubject(SimMachine::named(name).expect("it comes with the program"));
    let report = laws::run(make, cases, 1);
    report.expect_all_but(&NOT_HERE);
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
    laws::run_in_place(&mut subject, 200, 2).expect_all_but(&NOT_HERE);
}
