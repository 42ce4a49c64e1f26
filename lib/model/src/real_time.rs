//! Kernel settings that determine the latency of real-time threads.

use serde::{Deserialize, Serialize};

/// The effect of a setting on real-time threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// None, or none that can be avoided.
    Good,
    /// It may make a thread late.
    Delays,
    /// The machine does not report the setting.
    Unknown,
}

/// A kernel setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RealTimeSetting {
    /// Its name.
    pub name: String,
    /// Its value and the consequence.
    pub is: String,
    /// Its effect.
    pub effect: Effect,
    /// A remedy, if one is known.
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
