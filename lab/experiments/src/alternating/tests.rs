//! Tests of the choices, and of the results on a simulated machine.

use super::*;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

fn choices(given: &[(&str, &str)]) -> Choices {
    let given: BTreeMap<String, String> =
        given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Choices::of(EXPERIMENT.options, &given).unwrap()
}

fn found(given: &[(&str, &str)]) -> Findings {
    let (stop, mut quiet) = (AtomicBool::new(false), |_: &str| ());
    EXPERIMENT.run(&mut Lab::new(&stop, Vec::new(), &mut quiet), &choices(given)).unwrap()
}

fn ours(found: &Findings, quantity: &str, variant: &str) -> f64 {
    let point = |p: &&crate::published::Point| p.quantity == quantity && p.variant == variant;
    found.points.iter().find(point).unwrap().ours
}

#[test]
fn demand_is_chosen() {
    let of = |given| demands(&choices(given));
    assert_eq!(of(&[]), [Some(1), Some(5), Some(30), None]);
    assert_eq!(of(&[("every", "2")]), [Some(2)]);
    assert_eq!(of(&[("even", "")]), [None]);
    assert_eq!(of(&[("every", "2,3"), ("even", "")]), [Some(2), Some(3), None]);
}

#[test]
fn arms_are_chosen_and_splits_leave_something() {
    let names =
        |given, all| -> Vec<String> { arms(&choices(given), all).unwrap().iter().map(Arm::name).collect() };
    assert_eq!(
        names(&[], 64),
        [
            "nothing",
            "split 8 + 56",
            "split 16 + 48",
            "split 32 + 32",
            "split 48 + 16",
            "split 56 + 8",
            "pools, millpond",
            "pools, millpond, < 80",
            "pools, solaris",
            "pools, solaris, < 80"
        ]
    );
    assert_eq!(
        names(&[("policy", "millpond")], 2),
        ["nothing", "split 1 + 1", "pools, millpond", "pools, millpond, < 80"]
    );
    assert_eq!(
        names(&[("split", "3"), ("policy", "solaris")], 4),
        ["nothing", "split 3 + 1", "pools, solaris", "pools, solaris, < 80"]
    );
    let refused = arms(&choices(&[("split", "4")]), 4).unwrap_err().to_string();
    assert_eq!(refused, "of 4 CPUs 4 cannot be split off, so that some are left");
}

#[test]
fn of_splits_that_do_alike_the_most_even_is_the_best() {
    let played = |size, work| (Arm::Split(size, 8), Played { work, ..Played::default() });
    let best = |all: &[(Arm, Played)]| best_split(all).map(|(arm, _)| arm.name());
    assert_eq!(best(&[played(1, 5.0), played(4, 4.999), played(6, 4.9)]), Some("split 4 + 4".into()));
    assert_eq!(best(&[played(1, 5.0), played(4, 4.9)]), Some("split 1 + 7".into()));
    assert_eq!(best(&[(Arm::Nothing, Played::default())]), None);
}

#[test]
fn verdicts_say_who_loses() {
    let said = verdict("every 5 s", "pools, millpond", (Some(1.9), Some("split 32 + 32".into())), Some(0.98));
    assert_eq!(
        said,
        "every 5 s: pools, millpond win against the best split, split 32 + 32 (1.900) and lose against no pools (0.980)"
    );
    let said = verdict("even", "pools, solaris", (Some(0.96), Some("split 1 + 1".into())), None);
    assert_eq!(said, "even: pools, solaris lose against the best split, split 1 + 1 (0.960)");
}

#[test]
fn pools_follow_demand_that_changes_sides() {
    let found = found(&[("every", "1,5"), ("seconds", "10"), ("split", "32"), ("policy", "millpond")]);
    for demand in ["every 1 s", "every 5 s"] {
        // The program that wants all CPUs has half of the machine, and the other one a third of a CPU.
        let split = ours(&found, WORK, &format!("{demand}: split 32 + 32"));
        assert!((32.0..32.5).contains(&split), "{split}");
        let nothing = ours(&found, WORK, &format!("{demand}: nothing"));
        assert!((63.0..=64.0).contains(&nothing), "{nothing}");
        let of_split = ours(&found, OF_SPLIT, &format!("{demand}: pools, millpond"));
        assert!(of_split > 1.6, "{demand}: {of_split}");
        // An objective of both takes no CPU that is needed.
        let preferring = ours(&found, OF_SPLIT, &format!("{demand}: pools, millpond, < 80"));
        assert!(preferring >= 0.99 * of_split, "{demand}: {preferring} and {of_split}");
    }
    assert_eq!(found.tables.len(), 2);
    assert_eq!(found.notes.len(), 4);
}

#[test]
fn even_demand_moves_nothing_and_costs_nothing() {
    let found = found(&[("even", ""), ("seconds", "5"), ("split", "32")]);
    for policy in ["millpond", "millpond, < 80", "solaris"] {
        let of_split = ours(&found, OF_SPLIT, &format!("even: pools, {policy}"));
        assert!(of_split > GOAL, "{policy}: {of_split}");
    }
    let json = serde_json::to_value(&found.tables[0].1).unwrap();
    assert_eq!(json[2]["moved"], 0, "{json}");
}
