//! Finds the value of each fitted parameter that reproduces its figure, for the machine file or the workload.
//!
//! ```text
//! cargo run --release -p millpond-experiments --example fit [EXPERIMENT]
//! ```

use millpond_experiments::named;
use millpond_experiments::published::{Change, Choices, Fit, Lab, fits, own_value};
use std::io::Write as _;
use std::sync::atomic::AtomicBool;

/// Bisection steps.
const HALVINGS: u32 = 24;

fn ours(fit: &Fit, value: f64) -> Option<(f64, f64)> {
    let experiment = named(&fit.experiment)?;
    let choices = Choices::of(experiment.options, &fit.with).ok()?;
    let change = Change { parameter: fit.parameter.clone(), value };
    let (stop, mut quiet) = (AtomicBool::new(false), |_: &str| ());
    let findings = experiment.run(&mut Lab::new(&stop, vec![change], &mut quiet), &choices).ok()?;
    let point = findings.points.iter().find(|p| p.quantity == fit.quantity && p.variant == fit.variant)?;
    Some((point.ours, point.published?))
}

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let only = std::env::args().nth(1);
    for fit in fits().into_iter().filter(|fit| only.as_ref().is_none_or(|only| *only == fit.experiment)) {
        let (mut low, mut high) = (fit.least, fit.most);
        let (Some((at_low, published)), Some((at_high, _))) = (ours(&fit, low), ours(&fit, high)) else {
            writeln!(out, "{}: its figure does not come out", fit.parameter)?;
            continue;
        };
        let rises = at_high > at_low;
        for _ in 0..HALVINGS {
            let middle = (low * high).sqrt();
            let Some((value, _)) = ours(&fit, middle) else { break };
            if (value < published) == rises { low = middle } else { high = middle }
        }
        let value = (low * high).sqrt();
        let met = ours(&fit, value).map_or(f64::NAN, |(ours, _)| ours);
        let now = own_value(&fit.parameter).unwrap_or(f64::NAN);
        writeln!(out, "{}: {value:.4} (now {now}) gives {met:.4} for {published}", fit.parameter)?;
    }
    Ok(())
}
