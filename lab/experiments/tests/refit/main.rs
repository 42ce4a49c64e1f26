//! Every fitted parameter meets the figure that it was fitted to, and is fitted anew to all the others.
//!
//! `cargo test -p millpond-experiments --test refit -- --nocapture` shows the tables. With `MILLPOND_REFIT=all` hackbench and latstat are fitted anew
//! too, which takes some forty million messages, or as many samples, for each value that is tried.

mod fitted;

use fitted::{refit, table};
use millpond_experiments::Failure;
use millpond_experiments::published::fits;
use std::sync::atomic::AtomicBool;

/// How far from its figure a fitted parameter may leave the model, as a share. Some are fitted anew in shorter runs than
/// the experiment's own.
const SLACK: f64 = 0.03;

/// What takes minutes, unless it is asked for.
const SLOW: [&str; 3] = ["hackbench --instructions", "latstat --calls", "latstat --call-us"];

/// The tables of an experiment.
fn fitted_anew(experiment: &str) -> Result<String, Failure> {
    let mut told = String::new();
    let all = std::env::var_os("MILLPOND_REFIT").is_some_and(|asked| asked == "all");
    let stop = AtomicBool::new(false);
    let (slow, own): (Vec<_>, Vec<_>) = fits()
        .into_iter()
        .filter(|fit| fit.experiment == experiment)
        .partition(|fit| !all && SLOW.contains(&fit.parameter.to_string().as_str()));
    for fit in &slow {
        told += &format!("left out, for it takes minutes: {} (MILLPOND_REFIT=all)\n", fit.parameter);
    }
    let refitted = own.iter().map(|fit| refit(fit, &stop, &mut |_| ())).collect::<Result<Vec<_>, _>>()?;
    told += &table(&refitted).text();
    assert!(!refitted.is_empty() || !slow.is_empty());
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
    Ok(told)
}

#[test]
fn fits_of_e1() {
    println!("{}", fitted_anew("e1").unwrap());
}

#[test]
fn fits_of_e2() {
    println!("{}", fitted_anew("e2").unwrap());
}

#[test]
fn fits_of_e3() {
    println!("{}", fitted_anew("e3").unwrap());
}

#[test]
fn fits_of_e4() {
    println!("{}", fitted_anew("e4").unwrap());
}

#[test]
fn fits_of_e5() {
    println!("{}", fitted_anew("e5").unwrap());
}

#[test]
fn fits_of_e6() {
    println!("{}", fitted_anew("e6").unwrap());
}

#[test]
fn every_fit_is_of_one_of_these() {
    assert!(fits().iter().all(|fit| ["e1", "e2", "e3", "e4", "e5", "e6"].contains(&fit.experiment.as_str())));
}
