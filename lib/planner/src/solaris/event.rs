//! Log messages of the Solaris daemon as data, with its exact texts.

use millpond_model::CpuId;
use millpond_model::pools::{Bound, Importance};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The part of the daemon that logs a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Category {
    /// Reads and changes configurations.
    Configuration,
    /// Measures.
    Monitoring,
    /// Decides.
    Optimization,
    /// The daemon as a whole.
    Poold,
}

/// The severity of a message (`system.poold.log-level`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A notice.
    Notice,
    /// An action of the daemon.
    Info,
}

/// A transfer, with the names that the log uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// The name of the donor set.
    pub from: String,
    /// The name of the receiving set.
    pub to: String,
    /// The CPU.
    pub cpu: CpuId,
}

/// A utilization objective and the measured utilization.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The name of the set.
    pub set: String,
    /// The importance of the objective.
    pub importance: Importance,
    /// Its operator.
    pub bound: Bound,
    /// Its value, percent.
    pub percent: u8,
    /// The set's utilization, percent.
    pub utilization: f64,
}

/// One line of the log, without its date.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The daemon starts.
    Starting,
    /// It has read the configuration.
    ConfigurationComplete,
    /// Another program changed it.
    ChangedExternally,
    /// Too few samples.
    NotEvaluating,
    /// All objectives are satisfied.
    AllSatisfied,
    /// The share of a set differs from its size.
    WtLoadNotSatisfied {
        /// The name of the set.
        set: String,
        /// The importance of the objective.
        importance: Importance,
        /// Its share.
        desired: usize,
        /// Its size.
        actual: usize,
    },
    /// A utilization objective is violated.
    UtilizationNotSatisfied(Found),
    /// The load has changed permanently: samples are discarded.
    Reinitialized(Found),
    /// A reconfiguration is required.
    ReconfigurationRequired,
    /// A move is made.
    Applying(Transfer),
    /// The same move made things worse the last time.
    PoorPastResults(Transfer),
    /// No move would help.
    NotSignificant(Transfer),
    /// There is no possible move.
    NoMoves,
    /// The machine refused a move.
    MoveFailed,
    /// The configuration is written.
    Reconfiguring,
    /// The daemon ends.
    Exiting,
}

impl Event {
    /// The part of the daemon that logs it.
    #[must_use]
    pub fn category(&self) -> Category {
        match self {
            Event::Starting
            | Event::ConfigurationComplete
            | Event::ChangedExternally
            | Event::Reconfiguring => Category::Configuration,
            Event::NotEvaluating
            | Event::AllSatisfied
            | Event::WtLoadNotSatisfied { .. }
            | Event::UtilizationNotSatisfied(_)
            | Event::Reinitialized(_)
            | Event::ReconfigurationRequired => Category::Monitoring,
            Event::Applying(_)
            | Event::PoorPastResults(_)
            | Event::NotSignificant(_)
            | Event::NoMoves
            | Event::MoveFailed => Category::Optimization,
            Event::Exiting => Category::Poold,
        }
    }

    /// Its severity.
    #[must_use]
    pub fn severity(&self) -> Severity {
        if *self == Event::Exiting { Severity::Notice } else { Severity::Info }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Category::Configuration => "Configuration",
            Category::Monitoring => "Monitoring",
            Category::Optimization => "Optimization",
            Category::Poold => "poold",
        })
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Severity::Notice => "NOTICE",
            Severity::Info => "INFO",
        })
    }
}

impl fmt::Display for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "move from pset {} to pset {} components [cpu {}]", self.from, self.to, self.cpu)
    }
}

impl Found {
    fn write(&self, f: &mut fmt::Formatter<'_>, what: &str, why: &str) -> fmt::Result {
        let Found { set, importance, bound, percent, utilization } = self;
        write!(
            f,
            "pset {set} utilization objective {what} ({importance}, utilization, '{bound}', {percent}) "
        )?;
        write!(f, "with utilization {utilization:.2} ({why})")
    }
}

/// The message.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Starting => f.write_str("starting"),
            Event::ConfigurationComplete => f.write_str("configuration complete"),
            Event::ChangedExternally => f.write_str("configuration changed externally"),
            Event::NotEvaluating => f.write_str(
                "not evaluating workload-dependent objectives until sufficient statistics are collected",
            ),
            Event::AllSatisfied => f.write_str("all evaluated objectives satisfied"),
            Event::WtLoadNotSatisfied { set, importance, desired, actual } => write!(
                f,
                "system: {set} utilization objective not satisfied ({importance}, wt-load) with desired share {desired} and actual share {actual}"
            ),
            Event::UtilizationNotSatisfied(found) => {
                found.write(f, "not satisfied", "control zone bounds exceeded")
            }
            Event::Reinitialized(found) => {
                found.write(f, "statistics reinitialized", "nine points on same side of mean")
            }
            Event::ReconfigurationRequired => f.write_str("reconfiguration required"),
            Event::Applying(transfer) => write!(f, "applying {transfer}"),
            Event::PoorPastResults(transfer) => {
                write!(f, "{transfer} not applied due to poor past results")
            }
            Event::NotSignificant(transfer) => {
                write!(f, "{transfer} not applied as benefit not significant")
            }
            Event::NoMoves => f.write_str("no moves found"),
            Event::MoveFailed => {
                f.write_str("move failed, possibly due to a bound process in a 1-processor set")
            }
            Event::Reconfiguring => f.write_str("reconfiguring..."),
            Event::Exiting => f.write_str("exiting"),
        }
    }
}
