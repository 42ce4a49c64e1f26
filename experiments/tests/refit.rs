//! Every fitted parameter meets the figure that it was fitted to, and is fitted anew to all the others.
//!
//! `cargo test -p millpond-experiments --test refit -- --nocapture` shows the table.

use millpond_experiments::published::{fits, refit_all, table};
use std::sync::atomic::AtomicBool;

/// How far from its figure a fitted parameter may leave the model, as a share.
const SLACK: f64 = 0.03;

#[test]
fn fitted_parameters_meet_their_figures_and_are_fitted_anew() {
    let refitted = refit_all(&AtomicBool::new(false), &mut |_| ()).unwrap();
    println!("{}", table(&refitted).text());
    assert_eq!(refitted.len(), fits().len());
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
