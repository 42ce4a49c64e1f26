//! What the Solaris daemon logs, as data whose text is its own (reference §13.7).

use millpond_model::CpuId;
use millpond_model::pools::{Bound, Importance};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Which part of the daemon speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Category {
    /// What reads and changes configurations.
    Configuration,
    /// What measures.
    Monitoring,
    /// What decides.
    Optimization,
    /// The whole.
    Poold,
}

/// How much it matters (`system.poold.log-level`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Something to know.
    Notice,
    /// What it does.
    Info,
}

/// A transfer, named as the log names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// The name of the set that gives.
    pub from: String,
    /// The name of the set that gets.
    pub to: String,
    /// What.
    pub cpu: CpuId,
}

/// A utilization objective and what was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The name of the set.
    pub set: String,
    /// How much the objective counts.
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
    /// Nothing to do.
    AllSatisfied,
    /// A set's share is not its size.
    WtLoadNotSatisfied {
        /// The name of the set.
        set: String,
        /// How much the objective counts.
        importance: Importance,
        /// What it should have.
        desired: usize,
        /// What it has.
        actual: usize,
    },
    /// Utilization is beyond its bounds.
    UtilizationNotSatisfied(Found),
    /// The load has changed for good: samples are discarded.
    Reinitialized(Found),
    /// Something is to be changed.
    ReconfigurationRequired,
    /// A move is made.
    Applying(Transfer),
    /// A move made things worse the last time.
    PoorPastResults(Transfer),
    /// No move would help.
    NotSignificant(Transfer),
    /// There is nothing that could be moved.
    NoMoves,
    /// The machine refused a move.
    MoveFailed,
    /// The configuration is written.
    Reconfiguring,
    /// The daemon ends.
    Exiting,
}

impl Event {
    /// The part of the daemon that says it.
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

    /// How much it matters.
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
