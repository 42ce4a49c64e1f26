//! The fitted parameters, and the figure of each: the only list.
//!
//! Every parameter of the model is a field of a machine file, with its source, or an option of a workload, with a default. A parameter
//! without a source is fitted to one published figure. That figure is then no longer a prediction, and is marked wherever it is shown.
//! At most one parameter is fitted per machine and per workload. Exceptions: two for workloads with a rare delay (its frequency and its
//! length), and two of `jbb`, fitted to the same figure.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

/// A fitted parameter.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// The parameter.
    pub parameter: Parameter,
    /// The smallest plausible value.
    pub least: f64,
    /// The largest plausible value.
    pub most: f64,
    /// The experiment of the figure.
    pub experiment: String,
    /// The quantity of the figure.
    pub quantity: String,
    /// Its variant.
    pub variant: String,
    /// The part of the experiment to run: its choices, by option. Empty for all of it.
    #[serde(default)]
    pub with: BTreeMap<String, String>,
}

/// A parameter of the model.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(untagged)]
pub enum Parameter {
    /// A number of a machine file.
    Machine {
        /// The machine.
        machine: String,
        /// A JSON pointer.
        field: String,
    },
    /// An option of a workload.
    Workload {
        /// The workload.
        workload: String,
        /// The option, with its dashes.
        option: String,
    },
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Parameter::Machine { machine, field } => write!(f, "{machine} {field}"),
            Parameter::Workload { workload, option } => write!(f, "{workload} {option}"),
        }
    }
}

/// All fitted parameters. The list is part of the program, and a test parses it.
#[must_use]
pub fn fits() -> Vec<Fit> {
    serde_json::from_str(include_str!("fits.json")).unwrap_or_default()
}

/// Whether a parameter was fitted to this figure.
#[must_use]
pub fn is_fitted(experiment: &str, quantity: &str, variant: &str) -> bool {
    let to_it =
        |fit: &Fit| fit.experiment == experiment && fit.quantity == quantity && fit.variant == variant;
    fits().iter().any(to_it)
}
