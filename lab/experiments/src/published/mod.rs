//! Published experiments on simulated machines: what was published beside what the model gives.
//!
//! # Theory
//!
//! A model is worth something when it says what nobody told it. So every figure that was published is data beside the experiment, every
//! parameter of the model has a source or was fitted to one figure of that list ([`fits()`]), and everything else is a prediction,
//! shown with its error. Beside the errors stand those of straight lines through the other published points: who cannot
//! do better has drawn a line. And a fit that means something hardly moves when its figure is taken away and all others are
//! fitted instead ([`refit()`]).
//!
//! ```text
//!   Choices ──▶ Experiment::run ──▶ Findings ──▶ text, CSV, JSON, SVG
//!                    │    ▲             ▲
//!                    ▼    │             └ published.json (Published), fits.json (fits)
//!                   Lab ──┘ machines, workloads, time; Changes of parameters
//! ```
//!
//! # To add an experiment
//!
//! A folder with `mod.rs` and `published.json`, and a line in [`EXPERIMENTS`]. The module has an [`Experiment`]: its options, its data
//! and a function that does everything that was chosen and adds each point to the findings. The head of the module
//! is the manual that `millpond experiment NAME --help` shows. Whatever was published must be what comes without options;
//! each quantity can be chosen, so that any other point can be predicted.
//!
//! # What callers may rely on
//!
//! The same choices and changes give the same findings. Nothing is printed; machines are in memory and vanish.

mod data;
mod dress;
mod findings;
mod fits;
mod lab;
mod options;
mod processors;
mod refit;

pub use data::{Figure, Published, Quantity};
pub use findings::{Errors, Findings, Point, Score};
pub use fits::{Fit, Parameter, fits, is_fitted};
pub(crate) use lab::real;
pub use lab::{Bench, Change, Lab, Watched, own_value};
pub use options::{ChoiceError, Choices, SECONDS, SEED};
pub(crate) use processors::mpstat;
pub use refit::{Refitted, refit, refit_all, table};

use crate::{Failure, Here, RunHere, remains};
use millpond_cli::Flag;

/// A published experiment.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// What it is called: `e3`.
    pub name: &'static str,
    /// What can be chosen.
    pub options: &'static [Flag],
    /// The published figures, as text.
    pub data: &'static str,
    /// The source of its module, whose head is its manual.
    pub source: &'static str,
    /// Whether the choices leave the published conditions, so that nothing that comes of them is comparable.
    pub departs: fn(&Choices) -> bool,
    /// Does what was chosen.
    pub run: fn(&mut Lab<'_>, &Choices, &mut Findings) -> Result<(), Failure>,
}

/// Every experiment that is done on simulated machines.
pub const EXPERIMENTS: &[Experiment] = &[
    crate::e1::EXPERIMENT,
    crate::e2::EXPERIMENT,
    crate::e3::EXPERIMENT,
    crate::e4::EXPERIMENT,
    crate::e5::EXPERIMENT,
    crate::e6::EXPERIMENT,
];

/// Experiments of our own: nothing of them was published, so that nothing stands beside what we get.
pub const OWN: &[Experiment] = &[crate::alternating::EXPERIMENT, crate::service::EXPERIMENT];

impl Experiment {
    /// The experiment of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Experiment> {
        EXPERIMENTS.iter().chain(OWN).find(|experiment| experiment.name == name)
    }

    /// What does it on the machine at hand, for those of our own.
    #[must_use]
    pub fn here(&self) -> Option<RunHere> {
        match self.name {
            "alternating" => Some(crate::alternating::real::run),
            "service" => Some(crate::service::real::run),
            "e5" => Some(crate::e5::real::run),
            "e6" => Some(crate::e6::real::run),
            _ => None,
        }
    }

    /// Does it on the machine at hand, if it can be. What a killed program left is put back first.
    ///
    /// # Errors
    /// [`Failure`]; the machine is as it was.
    pub fn run_here(&self, here: &mut Here<'_>, choices: &Choices) -> Result<Findings, Failure> {
        let mut findings = Findings::new(self.name, self.published(), false);
        let absent = || Failure::Machine(format!("experiment {} is done on simulated machines", self.name));
        let run = self.here().ok_or_else(absent)?;
        remains::put_back(here.session, &mut |note| findings.notes.push(note.to_owned()))?;
        run(here, choices, &mut findings)?;
        Ok(findings)
    }

    /// The published figures.
    #[must_use]
    pub fn published(&self) -> Published {
        Published::read(self.data)
    }

    /// Does it.
    ///
    /// # Errors
    /// [`Failure`], also when it was asked to stop.
    pub fn run(&self, lab: &mut Lab<'_>, choices: &Choices) -> Result<Findings, Failure> {
        let mut findings = Findings::new(self.name, self.published(), !(self.departs)(choices));
        (self.run)(lab, choices, &mut findings)?;
        Ok(findings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
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
            assert!(experiment.here().is_some());
        }
    }

    #[test]
    fn every_fit_is_of_a_parameter_and_a_figure_that_exist() {
        let listed: Vec<Fit> = serde_json::from_str(include_str!("fits.json")).unwrap();
        assert_eq!(listed, fits());
        for fit in fits() {
            let value = own_value(&fit.parameter).unwrap_or_else(|| panic!("there is no {}", fit.parameter));
            assert!(fit.least <= value && value <= fit.most, "{} is {value}", fit.parameter);
            let experiment = Experiment::named(&fit.experiment).unwrap();
            assert!(
                experiment.published().figure(&fit.quantity, &fit.variant).is_some(),
                "{}",
                fit.parameter
            );
            Choices::of(experiment.options, &fit.with).unwrap();
        }
    }

    #[test]
    fn one_parameter_is_fitted_of_a_machine_or_a_workload_and_to_a_figure_of_its_own() {
        let (mut owners, mut figures) = (BTreeSet::new(), BTreeSet::new());
        for fit in fits() {
            let owner = match fit.parameter.clone() {
                Parameter::Machine { machine, .. } => machine,
                Parameter::Workload { workload, .. } => workload,
            };
            assert!(owners.insert(owner.clone()), "two parameters of {owner} are fitted");
            assert!(figures.insert((fit.experiment, fit.quantity, fit.variant)), "two fits to one figure");
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

    /// The points of an experiment without options, on machines where CG is a hundred times as slow: what comes out is wrong, and comes
    /// out quickly.
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
            let listed = fits().iter().filter(|fit| fit.experiment == experiment.name).count();
            assert_eq!(fitted, listed, "{}", experiment.name);
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
