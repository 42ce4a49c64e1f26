//! Published experiments on simulated machines: what was published beside what the model gives.
//!
//! # Theory
//!
//! A model is worth something when it predicts figures that it was not fitted to. So every figure that was published is data beside the experiment, every
//! parameter of the model has a source or was fitted to one figure of that list ([`fits()`]), and everything else is a prediction,
//! shown with its error. Beside the errors stand those of straight lines through the other published points: a model that cannot
//! do better has drawn a line. And a fit that means something hardly moves when its figure is taken away and all others are
//! fitted instead (`tests/refit`).
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
//! A folder with `mod.rs` and `published.json`, and a line in [`EXPERIMENTS`](crate::EXPERIMENTS). The module has an [`Experiment`]: its options, its data
//! and a function that does everything that was chosen and adds each point to the findings. The head of the module
//! is the manual that `millpond experiment NAME --help` shows. Whatever was published must be what comes without options;
//! each quantity can be chosen, so that any other point can be predicted.
//!
//! # Chance
//!
//! What is drawn by lot begins with a seed, and so does the moment at which an experiment starts within a second of the machine's clock. The
//! published experiments were done once, at one moment; `--seeds` does ours at many, and shows where their figures lie.
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
    /// Does the same on the machine at hand, where that is possible.
    pub here: Option<RunHere>,
}

impl Experiment {
    /// Does it on the machine at hand, if it can be. What a killed program left is put back first.
    ///
    /// # Errors
    /// [`Failure`]; the machine is as it was.
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

    /// Does it, as often as there are seeds of chance.
    ///
    /// # Errors
    /// [`Failure`], also when it was asked to stop.
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
