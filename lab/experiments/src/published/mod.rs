//! Published experiments on simulated machines: published figures compared with those of the model.
//!
//! # Theory
//!
//! A model is useful if it predicts figures that it was not fitted to. So every published figure is stored as data. Every
//! parameter of the model has a source, or was fitted to one figure of that list ([`fits()`]). All other figures are predictions,
//! shown with their errors. For comparison, the report has the errors of straight lines through the other published points: a model
//! without smaller errors only interpolates. And a meaningful fit hardly changes when its figure is left out and all others are
//! fitted instead (`tests/refit`).
//!
//! ```text
//!   Choices ──▶ Experiment::run ──▶ Findings ──▶ text, CSV, JSON, SVG
//!                    │    ▲             ▲
//!                    ▼    │             └ published.json (Published), fits.json (fits)
//!                   Lab ──┘ machines, workloads, time; Changes of parameters
//! ```
//!
//! # Adding an experiment
//!
//! Add a folder with `mod.rs` and `published.json`, and a line in [`EXPERIMENTS`](crate::EXPERIMENTS). The module has an [`Experiment`]: its
//! options, its data, and a function that runs the chosen arms and adds each point to the findings. The head of the module is the
//! manual that `millpond experiment NAME --help` shows. Without options, all published points must be run; options choose the
//! value of each condition, so that any other point can be predicted.
//!
//! # Randomness
//!
//! Random choices depend on a seed, and so does the time within a second of the machine's clock at which an experiment starts. The
//! published experiments were run once, at one such time; `--seeds` runs several, and shows the range of the figures.
//!
//! # Guarantees
//!
//! The same choices and changes give the same findings. Nothing is printed; machines exist only in memory.

mod data;
mod dress;
mod findings;
mod fits;
mod lab;
mod options;
mod processors;

pub use data::{Figure, Published, Quantity};
pub use dress::Document;
pub(crate) use findings::median;
pub use findings::{Errors, FIT_SLACK, Findings, Point, Score};
pub use fits::{Fit, Parameter, fits, is_fitted};
pub use lab::{Bench, Change, Lab, Watched, own_value};
pub(crate) use lab::{mean, real};
pub use options::{ChoiceError, Choices, SECONDS, SEED, SEEDS};
pub(crate) use processors::mpstat;

use crate::here::{Here, RunHere};
use crate::{Failure, remains};
use millpond_cli::Flag;

/// A published experiment.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// Its name: `e3`.
    pub name: &'static str,
    /// Its options.
    pub options: &'static [Flag],
    /// The published figures, as text.
    pub data: &'static str,
    /// The source text of its module, whose head is its manual.
    pub source: &'static str,
    /// Whether the choices differ from the published conditions, so that no result is comparable.
    pub departs: fn(&Choices) -> bool,
    /// Runs the chosen arms.
    pub run: fn(&mut Lab<'_>, &Choices, &mut Findings) -> Result<(), Failure>,
    /// Runs the experiment on the real machine, where that is possible.
    pub here: Option<RunHere>,
}

impl Experiment {
    /// Runs it on the real machine, if possible, after cleaning up after killed programs.
    ///
    /// # Errors
    /// [`Failure`]; all changes are undone.
    pub fn run_here(&self, here: &mut Here<'_>, choices: &Choices) -> Result<Findings, Failure> {
        let mut findings = Findings::new(self.name, self.published(), false);
        let absent = || Failure::Machine(format!("experiment {} is done on simulated machines", self.name));
        let run = self.here.ok_or_else(absent)?;
        remains::put_back(here.session, &mut |note| findings.notes.push(note.to_owned()))?;
        run(here, choices, &mut findings)?;
        Ok(findings)
    }

    /// The published figures.
    #[must_use]
    pub fn published(&self) -> Published {
        Published::read(self.data)
    }

    /// Runs it once for each seed.
    ///
    /// # Errors
    /// [`Failure`], also for a requested stop.
    pub fn run(&self, lab: &mut Lab<'_>, choices: &Choices) -> Result<Findings, Failure> {
        let number = |option: &Flag| choices.number(option.long.unwrap_or_default()).unwrap_or(1);
        let (first, seeds) = (number(&SEED), number(&SEEDS));
        let mut all = Vec::new();
        for seed in first..first.saturating_add(seeds) {
            if seeds > 1 {
                lab.tell(&format!("seed {seed}"));
            }
            lab.set_seed(seed);
            let mut findings = Findings::new(self.name, self.published(), !(self.departs)(choices));
            (self.run)(lab, choices, &mut findings)?;
            all.push(findings);
        }
        Ok(Findings::over_seeds(all).unwrap_or_else(|| Findings::new(self.name, self.published(), false)))
    }
}
