//! Which parameters were fitted, and to which figure: the only list.
//!
//! Every parameter of the model is a field of a machine file, with its source beside it, or an option of a workload, with a default. What cannot
//! be looked up is fitted to one published figure. That figure is then no prediction any more, and is marked wherever it is shown.
//! Of each machine at most one parameter is fitted, and of each workload; two where a workload has a rare delay, which comes so often and is so long,
//! and two of `jbb`, to the same figure.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

/// One parameter that was fitted.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// Which.
    pub parameter: Parameter,
    /// The least value that makes sense.
    pub least: f64,
    /// The greatest.
    pub most: f64,
    /// The experiment whose figure it was fitted to.
    pub experiment: String,
    /// The quantity of the figure.
    pub quantity: String,
    /// Its variant.
    pub variant: String,
    /// What of the experiment has to do with it: its choices, by option. Nothing: all of it.
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
        /// With its dashes.
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

/// Every parameter that was fitted. The list is a part of the program, and a test reads it.
#[must_use]
pub fn fits() -> Vec<Fit> {
    serde_json::from_str(include_str!("fits.json")).unwrap_or_default()
}

/// Whether a parameter was fitted to that figure.
#[must_use]
pub fn is_fitted(experiment: &str, quantity: &str, variant: &str) -> bool {
    let to_it =
        |fit: &Fit| fit.experiment == experiment && fit.quantity == quantity && fit.variant == variant;
    fits().iter().any(to_it)
}
