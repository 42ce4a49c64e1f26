//! The experiments on simulated machines.

use crate::published::Experiment;
use crate::{alternating, e1, e2, e3, e4, e5, e6, service, twin};

/// The published experiments on simulated machines.
pub const EXPERIMENTS: &[Experiment] =
    &[e1::EXPERIMENT, e2::EXPERIMENT, e3::EXPERIMENT, e4::EXPERIMENT, e5::EXPERIMENT, e6::EXPERIMENT];

/// Experiments without published figures.
pub const OWN: &[Experiment] = &[alternating::EXPERIMENT, service::EXPERIMENT, twin::EXPERIMENT];

/// The experiment with this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().chain(OWN).find(|experiment| experiment.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::{
        Change, Choices, Figure, Findings, Fit, Lab, Parameter, Point, Published, fits, is_fitted, own_value,
    };
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::atomic::AtomicBool;

    #[test]
    fn data_are_understood_and_fit_together() {
        for experiment in EXPERIMENTS {
            let data: Published = serde_json::from_str(experiment.data).unwrap();
            let names: BTreeSet<&str> =
                data.quantities.iter().map(|quantity| quantity.name.as_str()).collect();
            assert_eq!(names.len(), data.quantities.len(), "{}", experiment.name);
            let mut seen = BTreeSet::new();
            for figure in &data.points {
                let Figure { quantity, variant, line, x, .. } = figure;
                assert!(names.contains(quantity.as_str()), "{}: {quantity}", experiment.name);
                assert!(seen.insert((quantity, variant)), "{}: {quantity}, {variant} twice", experiment.name);
                assert_eq!(line.is_some(), x.is_some(), "{}: {quantity}, {variant}", experiment.name);
            }
        }
    }

    #[test]
    fn of_our_own_nothing_was_published() {
        for experiment in OWN {
            let data: Published = serde_json::from_str(experiment.data).unwrap();
            assert!(data.points.is_empty() && !data.quantities.is_empty(), "{}", experiment.name);
            assert!(EXPERIMENTS.iter().all(|other| other.name != experiment.name));
            assert!(experiment.here.is_some());
        }
    }

    #[test]
    fn every_fit_is_of_a_parameter_and_a_figure_that_exist() {
        let listed: Vec<Fit> = serde_json::from_str(include_str!("published/fits.json")).unwrap();
        assert_eq!(listed, fits());
        for fit in fits() {
            let value = own_value(&fit.parameter).unwrap_or_else(|| panic!("there is no {}", fit.parameter));
            assert!(fit.least <= value && value <= fit.most, "{} is {value}", fit.parameter);
            let experiment = named(&fit.experiment).unwrap();
            assert!(
                experiment.published().figure(&fit.quantity, &fit.variant).is_some(),
                "{}",
                fit.parameter
            );
            Choices::of(experiment.options, &fit.with).unwrap();
        }
    }

    #[test]
    fn one_parameter_is_fitted_of_a_machine_or_a_workload_or_two_and_each_to_a_figure_of_its_own() {
        let (mut owners, mut figures) = (BTreeMap::new(), BTreeSet::new());
        for fit in fits() {
            let owner = match fit.parameter.clone() {
                Parameter::Machine { machine, .. } => machine,
                Parameter::Workload { workload, .. } => workload,
            };
            let of_owner: &mut u32 = owners.entry(owner.clone()).or_default();
            *of_owner += 1;
            // A mean and a swing; a rate and a length; and two parameters fitted to one figure.
            let most = if ["app", "latstat", "jbb"].contains(&owner.as_str()) { 2 } else { 1 };
            assert!(*of_owner <= most, "{of_owner} parameters of {owner} are fitted");
            let is_new = figures.insert((fit.experiment, fit.quantity, fit.variant));
            assert!(is_new || owner == "jbb", "two fits to one figure");
        }
    }

    #[test]
    fn every_experiment_predicts_more_than_was_fitted() {
        for experiment in EXPERIMENTS {
            let data = experiment.published();
            let fitted =
                data.points.iter().filter(|p| is_fitted(experiment.name, &p.quantity, &p.variant)).count();
            assert!(data.points.len() - fitted > fitted, "{}", experiment.name);
        }
    }

    /// The points of an experiment with default options, on machines where CG is a hundred times as slow: wrong figures, but
    /// quickly computed.
    fn hurried(experiment: &Experiment) -> Findings {
        let parameter = Parameter::Workload { workload: "cg".into(), option: "--op-cpi".into() };
        let value = own_value(&parameter).unwrap() * 100.0;
        let (stop, mut quiet) = (AtomicBool::new(false), |_: &str| ());
        let mut lab = Lab::new(&stop, vec![Change { parameter, value }], &mut quiet);
        experiment.run(&mut lab, &Choices::default()).unwrap()
    }

    #[test]
    fn without_options_everything_that_was_published_comes_out_and_fits_are_marked() {
        for experiment in EXPERIMENTS {
            let (data, findings) = (experiment.published(), hurried(experiment));
            for Figure { quantity, variant, value, .. } in &data.points {
                let same = |point: &&Point| (&point.quantity, &point.variant) == (quantity, variant);
                let found: Vec<&Point> = findings.points.iter().filter(same).collect();
                assert_eq!(found.len(), 1, "{}: {quantity}, {variant}", experiment.name);
                assert_eq!(found[0].published, Some(*value));
                assert_eq!(found[0].fitted, is_fitted(experiment.name, quantity, variant));
            }
            let fitted = findings.points.iter().filter(|point| point.fitted).count();
            let of_it = fits().into_iter().filter(|fit| fit.experiment == experiment.name);
            let listed: BTreeSet<_> = of_it.map(|fit| (fit.quantity, fit.variant)).collect();
            assert_eq!(fitted, listed.len(), "{}", experiment.name);
        }
    }

    #[test]
    fn options_are_not_named_twice() {
        for experiment in EXPERIMENTS.iter().chain(OWN) {
            let names: BTreeSet<&str> = experiment.options.iter().filter_map(|option| option.long).collect();
            assert_eq!(names.len(), experiment.options.len(), "{}", experiment.name);
        }
    }
}
