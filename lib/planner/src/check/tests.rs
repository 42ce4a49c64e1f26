//! For each rule a plan that breaks it, and plans that break no rule.

use super::*;
use crate::SetFrame;
use crate::testing::{frame, load, set};

fn one(cpu: u32, from: u32, to: u32) -> Move {
    Move { cpu: CpuId(cpu), from: PsetId(from), to: PsetId(to) }
}

/// Default 0-3 (3 is pinned), set 1 with 4-5 (2 to 3 of them), set 2 with 6 (0 to 4, processes), set 3 with 7 (0 to 4).
fn machine() -> Frame {
    frame(vec![
        SetFrame { pinned: "3".parse().unwrap(), ..set(0, "0-3") },
        SetFrame { min: 2, max: 3, ..set(1, "4-5") },
        SetFrame { min: 0, max: 4, ..set(2, "6") },
        SetFrame { min: 0, max: 4, has_processes: false, ..set(3, "7") },
    ])
}

fn rules(frame: &Frame, moves: &[Move]) -> Vec<Rule> {
    check(frame, moves).into_iter().map(|violation| violation.rule).collect()
}

#[test]
fn each_rule_has_a_plan_that_only_it_finds() {
    let machine = machine();
    let no_minimum =
        |sets: Vec<SetFrame>| frame(sets.into_iter().map(|s| SetFrame { min: 0, ..s }).collect());
    let broken: Vec<(Rule, Frame, Vec<Move>)> = vec![
        (Rule::KnownProcessor, machine.clone(), vec![one(9, 0, 2)]),
        (Rule::KnownSet, machine.clone(), vec![one(0, 0, 9)]),
        (Rule::TwoSets, machine.clone(), vec![one(0, 0, 0)]),
        (Rule::MovedOnce, machine.clone(), vec![one(0, 0, 2), one(0, 2, 3)]),
        (Rule::MovedFromItsPlace, machine.clone(), vec![one(0, 2, 3)]),
        (Rule::Pinned, machine.clone(), vec![one(3, 0, 2)]),
        (Rule::Minimum, machine.clone(), vec![one(4, 1, 2)]),
        (Rule::Maximum, machine.clone(), vec![one(0, 0, 1), one(1, 0, 1)]),
        (Rule::DefaultSet, no_minimum(vec![set(0, "0"), set(1, "1")]), vec![one(0, 0, 1)]),
        (Rule::LastProcessor, machine.clone(), vec![one(6, 2, 3)]),
        (Rule::Needed, frame(vec![set(0, "0-3"), load(set(1, "4-5"), 1.5, 0.0)]), vec![one(4, 1, 0)]),
        (Rule::Total, frame(vec![set(0, "0-3"), set(1, "3-5")]), vec![one(5, 1, 0)]),
    ];
    let found: Vec<Rule> = broken.iter().map(|(rule, ..)| *rule).collect();
    assert_eq!(found, Rule::ALL);
    for (rule, frame, moves) in broken {
        assert_eq!(rules(&frame, &moves), [rule]);
    }
}

#[test]
fn what_breaks_a_rule_only_on_the_way_is_found() {
    let machine = machine();
    assert_eq!(rules(&machine, &[one(4, 1, 2), one(0, 0, 1)]), [Rule::Minimum]);
    assert_eq!(rules(&machine, &[one(0, 0, 1), one(4, 1, 2)]), []);
    let full = frame(vec![SetFrame { max: 2, ..set(0, "0-1") }, set(1, "2-3")]);
    assert_eq!(rules(&full, &[one(2, 1, 0), one(0, 0, 1)]), [Rule::Maximum], "the default set has one, too");
}

#[test]
fn a_set_that_was_outside_its_bounds_may_be_helped_and_not_hurt() {
    let short = frame(vec![set(0, "0-3"), SetFrame { min: 5, ..set(1, "4-5") }]);
    assert_eq!(rules(&short, &[one(0, 0, 1)]), []);
    assert_eq!(rules(&short, &[one(4, 1, 0)]), [Rule::Minimum]);
    let long = frame(vec![set(0, "0-3"), SetFrame { max: 1, ..set(1, "4-6") }]);
    assert_eq!(rules(&long, &[one(4, 1, 0)]), []);
    assert_eq!(rules(&long, &[one(0, 0, 1)]), [Rule::Maximum]);
}

#[test]
fn a_set_without_processes_may_be_emptied_and_filled() {
    assert_eq!(rules(&machine(), &[one(7, 3, 0)]), []);
    assert_eq!(rules(&machine(), &[one(7, 3, 2), one(6, 2, 3)]), []);
}

#[test]
fn a_cpu_that_is_needed_goes_only_to_a_set_that_may_need_it() {
    let two = |donor: SetFrame, receiver: SetFrame| rules(&frame(vec![receiver, donor]), &[one(4, 1, 0)]);
    let busy = || load(set(1, "4-5"), 1.5, 0.0);
    assert_eq!(two(busy(), load(set(0, "0-3"), 3.5, 0.0)), [Rule::Needed], "it has the four that it needs");
    assert_eq!(two(busy(), load(set(0, "0-3"), 4.0, 0.5)), [], "both lack");
    assert_eq!(
        two(busy(), load(set(0, "0-3"), 4.0, 0.0)),
        [],
        "it may need more: it is busy all of its time"
    );
    assert_eq!(two(busy(), SetFrame { min: 5, ..set(0, "0-3") }), [], "its minimum");
    assert_eq!(two(SetFrame { max: 1, ..busy() }, set(0, "0-3")), [], "a maximum is no choice");
    assert_eq!(two(load(set(1, "4-5"), 0.9, 0.0), set(0, "0-3")), [], "it does not need it");
    assert_eq!(two(SetFrame { is_reset: true, ..busy() }, set(0, "0-3")), [], "that is not known");
}

#[test]
fn no_moves_break_nothing() {
    assert_eq!(check(&Frame::default(), &[]), []);
    assert_eq!(
        rules(&Frame::default(), &[one(0, 0, 1)]),
        [Rule::KnownSet, Rule::KnownSet, Rule::KnownProcessor]
    );
}

#[test]
fn a_breach_says_which_move_and_what() {
    let said = |frame: &Frame, moves: &[Move]| check(frame, moves)[0].to_string();
    let machine = machine();
    assert_eq!(said(&machine, &[one(0, 0, 2), one(3, 0, 2)]), "move 2: CPU 3 is pinned");
    assert_eq!(said(&machine, &[one(4, 1, 2)]), "move 1: set 1 is brought below its minimum");
    let twice = frame(vec![set(0, "0-3"), set(1, "3-5")]);
    assert_eq!(said(&twice, &[one(5, 1, 0)]), "CPU 3 is not in exactly one set");
}
