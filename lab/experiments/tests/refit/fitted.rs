//! Refits each fitted parameter without its own figure: to all other figures instead.
//!
//! A parameter that describes a machine gets nearly the same value from other figures. One that only bends the model through a
//! point does not: this table distinguishes the two.

use millpond_experiments::published::{Change, Choices, Experiment, Findings, Fit, Lab, Point, own_value};
use millpond_experiments::{Failure, named};
use millpond_report::Table;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// Values that are tried over the whole range, at equal ratios; and how often the interval around the best one is divided.
const TRIED_FIRST: u32 = 5;
const DIVISIONS: u32 = 6;

/// Smaller relative differences count as equal.
const SAME: f64 = 0.01;

/// A refitted parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Refitted {
    /// The fit.
    pub fit: Fit,
    /// Its present value.
    pub old: f64,
    /// The value fitted to all other figures; `None` if none of them depends on it.
    pub new: Option<f64>,
    /// The figure that was left out.
    pub published: f64,
    /// Its prediction with the old value.
    pub before: f64,
    /// Its prediction with the new value.
    pub after: Option<f64>,
    /// Number of other figures.
    pub others: usize,
}

/// Leaves out the figure of a fit, and finds the best value for the other figures of its experiment: with the least sum of
/// squares of the logarithms of their ratios. Figures of 0 have no logarithm and do not count.
///
/// # Errors
/// [`Failure`] of any run, or for a fit of an unknown parameter.
pub fn refit(fit: &Fit, stop: &AtomicBool, tell: &mut dyn FnMut(&str)) -> Result<Refitted, Failure> {
    let (experiment, choices) = prepared(fit, &fit.with)?;
    let old = own_value(&fit.parameter).ok_or_else(|| wrong(fit, "there is no such parameter"))?;
    let mut run = |value: f64| {
        let change = Change { parameter: fit.parameter.clone(), value };
        experiment.run(&mut Lab::new(stop, vec![change], tell), &choices)
    };
    let own = run(old)?;
    let (published, before) = left_out(fit, &own).ok_or_else(|| wrong(fit, "its figure did not come out"))?;
    let others = own.points.iter().filter(|point| !is_left_out(fit, point) && ratio(point).is_some()).count();
    if others == 0 {
        return Err(wrong(fit, "there is no other figure"));
    }
    let new = least(fit.least, fit.most, &mut |value| Ok(misfit(fit, &run(value)?)))?;
    let after = match new {
        Some(new) => left_out(fit, &run(new)?).map(|(_, ours)| ours),
        None => None,
    };
    Ok(Refitted { fit: fit.clone(), old, new, published, before, after, others })
}

/// The published figure of a fit, and the measured one in the fit's run with one seed.
///
/// # Errors
/// [`Failure`] of the run, or for a figure that the run does not produce.
pub fn measure_once(fit: &Fit, stop: &AtomicBool) -> Result<(f64, f64), Failure> {
    let mut with = fit.with.clone();
    with.remove("seeds");
    let (experiment, choices) = prepared(fit, &with)?;
    let found = experiment.run(&mut Lab::new(stop, Vec::new(), &mut |_| ()), &choices)?;
    left_out(fit, &found).ok_or_else(|| wrong(fit, "its figure did not come out"))
}

/// The experiment of a fit, and its choices.
fn prepared(fit: &Fit, with: &BTreeMap<String, String>) -> Result<(&'static Experiment, Choices), Failure> {
    let experiment = named(&fit.experiment).ok_or_else(|| wrong(fit, "there is no such experiment"))?;
    let choices = Choices::of(experiment.options, with).map_err(|error| wrong(fit, &error.to_string()))?;
    Ok((experiment, choices))
}

fn wrong(fit: &Fit, why: &str) -> Failure {
    Failure::Program { program: format!("the fit of {}", fit.parameter), why: why.to_owned() }
}

fn is_left_out(fit: &Fit, point: &Point) -> bool {
    (&point.quantity, &point.variant) == (&fit.quantity, &fit.variant)
}

/// The published and the measured value of the figure that is left out.
fn left_out(fit: &Fit, findings: &Findings) -> Option<(f64, f64)> {
    let point = findings.points.iter().find(|point| is_left_out(fit, point))?;
    Some((point.published?, point.ours))
}

/// The logarithm of the ratio to the published value; `None` if either is 0.
fn ratio(point: &Point) -> Option<f64> {
    let published = point.published.filter(|published| *published > 0.0)?;
    (point.ours > 0.0).then(|| (point.ours / published).ln())
}

/// The sum of squares over all other figures.
fn misfit(fit: &Fit, findings: &Findings) -> f64 {
    let others = findings.points.iter().filter(|point| !is_left_out(fit, point));
    others.filter_map(ratio).map(|ratio| ratio * ratio).sum()
}

/// The minimum of a function on an interval: the best of several values at equal ratios, then successively closer around it. `None`
/// if it is nearly constant.
fn least(from: f64, to: f64, f: &mut dyn FnMut(f64) -> Result<f64, Failure>) -> Result<Option<f64>, Failure> {
    let mut step = (to / from).powf(1.0 / f64::from(TRIED_FIRST - 1));
    let (mut best, mut best_value, mut worst_value) = (from, f64::INFINITY, 0.0_f64);
    for index in 0..TRIED_FIRST {
        let at = (from * step.powf(f64::from(index))).min(to);
        let value = f(at)?;
        worst_value = worst_value.max(value);
        if value < best_value {
            (best, best_value) = (at, value);
        }
    }
    if worst_value - best_value <= SAME * worst_value {
        return Ok(None);
    }
    for _ in 0..DIVISIONS {
        step = step.sqrt();
        for at in [best / step, best * step] {
            let at = at.clamp(from, to);
            let value = f(at)?;
            if value < best_value {
                (best, best_value) = (at, value);
                break;
            }
        }
    }
    Ok(Some(best))
}

/// A table with a row for each refitted parameter.
#[must_use]
pub fn table(refitted: &[Refitted]) -> Table {
    let mut table = Table::of(
        &["parameter", "fitted to"],
        &["value", "from the others", "change", "others", "published", "with value", "from the others"],
    );
    for one in refitted {
        let Fit { experiment, quantity, variant, parameter, .. } = &one.fit;
        table.row([
            parameter.to_string().into(),
            format!("{experiment}: {quantity}, {variant}").into(),
            (one.old, 3).into(),
            one.new.map(|new| (new, 3)).into(),
            one.new.map(|new| format!("{:+.1} %", (new / one.old - 1.0) * 100.0)).into(),
            u32::try_from(one.others).unwrap_or(u32::MAX).into(),
            (one.published, 1).into(),
            (one.before, 1).into(),
            one.after.map(|after| (after, 1)).into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_found_in_few_runs() {
        for wanted in [0.5_f64, 2.9, 7.7, 49.0] {
            let mut runs = 0;
            let found = least(0.5, 50.0, &mut |at| {
                runs += 1;
                Ok((at / wanted).ln().powi(2))
            });
            let found = found.unwrap().unwrap();
            assert!((found / wanted - 1.0).abs() < 0.02 && runs <= 19, "{found} for {wanted} in {runs} runs");
        }
    }

    #[test]
    fn what_does_not_matter_has_no_best_value() {
        assert_eq!(least(0.5, 50.0, &mut |at| Ok(9.0 + at / 1e4)).unwrap(), None);
    }

    #[test]
    fn a_row_tells_what_a_parameter_would_be() {
        let fit = Fit {
            parameter: serde_json::from_str(r#"{"workload":"cg","option":"--op-reach"}"#).unwrap(),
            least: 1.0,
            most: 9.0,
            experiment: "e2".into(),
            quantity: "Mop/s".into(),
            variant: "psets".into(),
            with: std::collections::BTreeMap::new(),
        };
        let one = Refitted {
            fit,
            old: 3.0,
            new: Some(3.3),
            published: 1000.0,
            before: 998.0,
            after: Some(907.3),
            others: 4,
        };
        let expected = "\
parameter      fitted to         value  from the others   change  others  published  with value  from the others
cg --op-reach  e2: Mop/s, psets  3.000            3.300  +10.0 %       4     1000.0       998.0            907.3
";
        assert_eq!(table(&[one]).text(), expected);
    }
}
