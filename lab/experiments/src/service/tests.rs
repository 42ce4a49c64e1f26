//! Tests of the choices, and of the results on a simulated machine.

use super::*;
use std::sync::atomic::AtomicBool;

fn choices(given: &[(&str, &str)]) -> Choices {
    let given: BTreeMap<String, String> =
        given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Choices::of(EXPERIMENT.options, &given).unwrap()
}

fn found(given: &[(&str, &str)]) -> Result<Findings, Failure> {
    let (stop, mut quiet) = (AtomicBool::new(false), |_: &str| ());
    EXPERIMENT.run(&mut Lab::new(&stop, Vec::new(), &mut quiet), &choices(given))
}

fn played(p99: f64, batch: f64, advice: Option<&str>) -> Result<Played, String> {
    Ok(Played {
        times: [2.0, p99, 9.0],
        batch: Some(batch),
        advice: advice.map(str::to_owned),
        ..Played::default()
    })
}

#[test]
fn the_service_alone_is_beside_whatever_is_chosen() {
    assert_eq!(
        arms(&choices(&[])),
        ["alone", "nothing", "cpu.weight", "cpu.max", "pools", "below-80", "below-20"]
    );
    assert_eq!(arms(&choices(&[("arm", "pools,nothing")])), ["alone", "nothing", "pools"]);
}

#[test]
fn the_service_should_have_twice_what_it_uses_and_leave_something() {
    let of = |given, all| Ask::of(&choices(given), all, 1_000, 8);
    assert_eq!(of(&[], 64).unwrap().leave, 4);
    assert_eq!(of(&[("rate", "50000")], 64).unwrap().leave, 63);
    assert_eq!(
        of(&[("leave", "7"), ("work", "3")], 64).unwrap().sentence(),
        "the service: 1000 requests a second of 3 ms, 8 threads; it should have 7 CPUs"
    );
    let refused = of(&[("leave", "2")], 2).unwrap_err().to_string();
    assert_eq!(refused, "of 2 CPUs the service cannot have 2, so that some are left for the batch");
}

#[test]
fn percentiles_are_the_least_times_that_so_many_do_not_exceed() {
    // 990 of 1 ms, 9 of 2 ms, 1 of 8 ms.
    let times = BTreeMap::from([(1_000_000, 990), (2_000_000, 9), (8_000_000, 1)]);
    assert_eq!(percentiles(&times), ([1.0, 1.0, 2.0], 1_000));
    assert_eq!(percentiles(&BTreeMap::from([(3_000_000, 1)])), ([3.0; 3], 1));
    assert_eq!(percentiles(&BTreeMap::new()), ([0.0; 3], 0));
}

#[test]
fn it_is_said_where_pools_lose_to_sharing() {
    let said = verdicts(&[
        ("nothing", played(2.5, 60.0, None)),
        ("cpu.weight", Err("there is none".into())),
        ("cpu.max", played(9.0, 60.0, None)),
        ("pools", played(4.0, 58.0, Some("share"))),
    ]);
    assert_eq!(
        said,
        [
            "pools lose to nothing: p99 4.00 ms and 2.50 ms, the batch 58.00 and 60.00 CPUs",
            "pools are a trade against cpu.max: p99 4.00 ms and 9.00 ms, the batch 58.00 and 60.00 CPUs",
            "poold advises (poolstat --why): share",
        ]
    );
    let said = verdicts(&[("nothing", played(9.0, 60.0, None)), ("pools", played(4.0, 60.1, None))]);
    assert_eq!(
        said,
        [
            "pools win against nothing: p99 4.00 ms and 9.00 ms, the batch 60.10 and 60.00 CPUs",
            "poold advises nothing",
        ]
    );
}

#[test]
fn every_arm_answers_what_arrives_and_weights_are_left_out() {
    let found = found(&[("seconds", "4")]).unwrap();
    let value = |quantity: &str, variant: &str| {
        let point = |p: &&crate::published::Point| p.quantity == quantity && p.variant == variant;
        found.points.iter().find(point).map(|point| point.ours)
    };
    // The work itself is the lower bound.
    for arm in ["alone", "nothing", "cpu.max", "pools"] {
        assert!(value("p50 of response times", arm).unwrap() >= 2.0, "{arm}");
    }
    assert_eq!(value("p99 of response times", "cpu.weight"), None);
    assert!(
        found
            .notes
            .iter()
            .any(|note| note.starts_with("cpu.weight is left out: simulated threads are in class TS"))
    );
    assert_eq!(value("work of the batch", "alone"), None);
    // The service uses two CPUs; a cap leaves it four, and so does a set of at least four.
    let batch = |arm| value("work of the batch", arm).unwrap();
    assert!((61.0..62.5).contains(&batch("nothing")), "{}", batch("nothing"));
    // A cap is only charged at ticks.
    assert!((59.0..60.5).contains(&batch("cpu.max")), "{}", batch("cpu.max"));
    assert!(batch("pools") <= 60.05, "{}", batch("pools"));
    // An objective takes no CPU from a batch job that uses it.
    for arm in ["below-80", "below-20"] {
        assert!((batch(arm) - batch("pools")).abs() < 0.1, "{arm}: {}", batch(arm));
    }
}

#[test]
fn where_pools_lose_to_sharing_poold_says_so() {
    let found = found(&[("seconds", "15"), ("arm", "nothing,pools")]).unwrap();
    let said = |start: &str| found.notes.iter().any(|note| note.starts_with(start));
    assert!(said("pools lose to nothing: p99 "), "{:?}", found.notes);
    let advice = "poold advises (poolstat --why): sharing by weights (cpu.weight) would serve service better than a set of its own: it uses 2.0 of 4.0";
    assert!(said(advice), "{:?}", found.notes);
}
