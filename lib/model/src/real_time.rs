//! Kernel settings that determine the latency of real-time threads.

use serde::{Deserialize, Serialize};

/// What a setting does to a real-time thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Nothing that it could be rid of.
    Good,
    /// It may make the thread late.
    Delays,
    /// The machine does not say how it is set.
    Unknown,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RealTimeSetting {
    /// What it is called.
    pub name: String,
    /// How it is set, and what follows from that.
    pub is: String,
    /// What it does.
    pub effect: Effect,
    /// What would help, where something would.
    pub remedy: Option<String>,
}

impl RealTimeSetting {
    /// A setting with a good value.
    #[must_use]
    pub fn good(name: &str, is: impl Into<String>) -> Self {
        RealTimeSetting { name: name.into(), is: is.into(), effect: Effect::Good, remedy: None }
    }

    /// A setting that may delay a thread, with the remedy.
    #[must_use]
    pub fn delays(name: &str, is: impl Into<String>, remedy: impl Into<String>) -> Self {
        RealTimeSetting {
            name: name.into(),
            is: is.into(),
            effect: Effect::Delays,
            remedy: Some(remedy.into()),
        }
    }

    /// An unknown setting, with the reason.
    #[must_use]
    pub fn unknown(name: &str, why: impl Into<String>) -> Self {
        RealTimeSetting { name: name.into(), is: why.into(), effect: Effect::Unknown, remedy: None }
    }
}
