//! Tests of twins with invented measurements: predictions of arms, and their presentation.

use super::calibrate::tests::probe;
use super::*;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

fn choices(given: &[(&str, &str)]) -> Choices {
    let given: BTreeMap<String, String> =
        given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Choices::of(EXPERIMENT.options, &given).unwrap()
}

/// Two CPUs of 2 GHz under the rules of Linux.
fn file() -> Value {
    serde_json::json!({
        "name": "two", "about": "for tests", "chips": 1, "cores_per_chip": 2, "strands_per_core": 1,
        "processor": { "isa": "i386", "clock_mhz": 2000, "implementation": "x86" },
        "core": { "cpi": 0.6, "exposed": 0.2 }, "cache_cycles": 8,
        "caches": [{ "level": 2, "kind": "unified", "size_kib": 2048, "shared_by": "core" }],
        "memory": { "local_ns": 90 }, "switch_ns": 1500, "idle_exit_ns": 5000, "handover_trips": 0.67, "kernel": 0.1,
        "tunables": { "hz": 250, "eevdf_slice_ns": 1_400_000, "nosteal_nsec": 500_000 }
    })
}

fn predicted(arm: Arm) -> Spread {
    let (stop, mut quiet) = (AtomicBool::new(false), |_: &str| ());
    let lab = Lab::new(&stop, Vec::new(), &mut quiet);
    predict::over_seeds(&lab, &file(), arm, &choices(&[("draws", "3"), ("seconds", "1")])).unwrap()
}

#[test]
fn a_spread_has_the_median_between_the_least_and_the_most() {
    assert_eq!(Spread::of(vec![4.0, 1.0, 2.0, 9.0]), Some(Spread { median: 3.0, least: 1.0, most: 9.0 }));
    assert_eq!(Spread::of(Vec::new()), None);
}

#[test]
fn a_twin_tells_that_jobs_apart_are_as_fast_as_alone_and_that_fights_are_not() {
    let (alone, apart) = (predicted(Arm::Alone), predicted(Arm::Pools { blocks: false }));
    assert!((0.99..1.01).contains(&(apart.median / alone.median)), "{alone:?} {apart:?}");
    let fighting = predicted(Arm::Fighting { blocks: false });
    assert!(fighting.median < 0.9 * alone.median, "{alone:?} {fighting:?}");
}

#[test]
fn hackbench_takes_as_long_as_its_messages_at_least() {
    // Ten groups of twenty senders and receivers, a hundred messages each: 400,000, written and read on the one remaining CPU, each
    // in 15,020 instructions times 0.1: 1,502 of 0.6 cycles of 0.5 ns are 450 ns.
    let time = predicted(Arm::Hackbench);
    assert!((0.36..1.5).contains(&time.median), "{time:?}");
}

#[test]
fn what_was_measured_stands_beside_what_was_predicted() {
    let mut findings = Findings::new(EXPERIMENT.name, EXPERIMENT.published(), false);
    let spread = |median| Spread { median, least: median * 0.9, most: median * 1.1 };
    show(
        &mut findings,
        &[
            (Arm::Alone, spread(1_000.0), Some(spread(900.0))),
            (Arm::Pools { blocks: false }, spread(1_000.0), Some(spread(700.0))),
            (Arm::Fighting { blocks: false }, spread(100.0), Some(spread(190.0))),
            (Arm::Hackbench, spread(0.5), None),
        ],
    );
    let text = findings.tables[0].1.text();
    let ends: Vec<String> = text
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().rev().take(3).collect::<Vec<_>>().join(" "))
        .collect();
    assert!(ends.iter().any(|end| end == "yes 1.25 1.11"), "{text}");
    assert!(ends.iter().any(|end| end == "NO 1.25 1.43"), "{text}");
    assert!(ends.iter().any(|end| end == "yes 2.00 0.53"), "{text}");
    assert!(ends.iter().any(|end| end == "- 1.25 -"), "{text}");
}

#[test]
fn arms_are_chosen_by_their_words() {
    let words: Vec<&str> =
        chosen(&choices(&[("arm", "hackbench,fighting-blocking")])).map(Arm::word).collect();
    assert_eq!(words, ["fighting-blocking", "hackbench"]);
    assert_eq!(chosen(&choices(&[])).count(), WORDS.len());
}

#[test]
fn what_was_measured_is_told() {
    let twin = Twin {
        file: file(),
        probe: probe(),
        others: super::Others { times_s: 30.0, time_ns: 40.0 },
        mops: 1_000.0,
    };
    let text = twin.table().text();
    assert!(text.contains("a line out of 64 MiB") && text.contains("90.0"), "{text}");
}
