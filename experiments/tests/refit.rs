//! Every fitted parameter meets the figure that it was fitted to, and is fitted anew to all the others.
//!
//! `cargo test -p millpond-experiments --test refit -- --nocapture` shows the tables.

use millpond_experiments::published::{fits, refit, table};
use std::sync::atomic::AtomicBool;

/// How far from its figure a fitted parameter may leave the model, as a share. Some are fitted anew in shorter runs than
/// the experiment's own.
const SLACK: f64 = 0.03;

fn fitted_anew(experiment: &str) {
    let stop = AtomicBool::new(false);
    let own = fits().into_iter().filter(|fit| fit.experiment == experiment);
    let refitted: Vec<_> = own.map(|fit| refit(&fit, &stop, &mut |_| ()).unwrap()).collect();
    println!("{}", table(&refitted).text());
    assert!(!refitted.is_empty());
    for one in &refitted {
        let off = one.before / one.published - 1.0;
        assert!(
            off.abs() <= SLACK,
            "the figure that {} is said to be fitted to is off by {off:+.3}",
            one.fit.parameter
        );
        let sensible = one.new.is_none_or(|new| (one.fit.least..=one.fit.most).contains(&new));
        assert!(one.others > 0 && sensible, "{}", one.fit.parameter);
    }
}

#[test]
fn fits_of_e1() {
    fitted_anew("e1");
}

#[test]
fn fits_of_e2() {
    fitted_anew("e2");
}

#[test]
fn fits_of_e3() {
    fitted_anew("e3");
}

#[test]
fn fits_of_e4() {
    fitted_anew("e4");
}

#[test]
fn fits_of_e5() {
    fitted_anew("e5");
}

/// Some forty million messages: minutes.
#[test]
#[ignore = "takes minutes: cargo test --release -p millpond-experiments --test refit -- --ignored --nocapture"]
fn fits_of_e6() {
    fitted_anew("e6");
}

#[test]
fn every_fit_is_of_one_of_these() {
    assert!(fits().iter().all(|fit| ["e1", "e2", "e3", "e4", "e5", "e6"].contains(&fit.experiment.as_str())));
}
