//! Prepared changes: knobs, steps, and the expected outcome.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The name of a setting. The text has a meaning to its machine only. Equal texts are the same setting until the next boot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Knob(pub String);

impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The value of a knob, in the spelling that is read back after a write.
pub type Value = String;

/// The effect of a step on the stored original value of a knob.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Baseline {
    /// None: Millpond creates and removes the knob.
    #[default]
    Ours,
    /// The first such step stores `before`; later ones keep the stored value.
    Keep,
    /// The knob has its original value again: delete the stored value.
    Release,
}

/// A knob's present value, and the value it should have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// The knob.
    pub knob: Knob,
    /// The value read during preparation; `None` if the knob did not exist.
    pub before: Option<Value>,
    /// The new value; `None` if the knob should not exist.
    pub after: Option<Value>,
    /// Whether Millpond owns the knob, and whether its original value is stored.
    #[serde(default)]
    pub baseline: Baseline,
    /// If true, a refusal of this step is a note and does not end the operation. For knobs that can refuse (a managed interrupt) or
    /// disappear (a thread).
    #[serde(default)]
    pub may_refuse: bool,
    /// A later step of the same change removes this knob as well, as a directory's removal removes its files: the value is not written,
    /// only restored by an undo.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub falls: bool,
}

impl Step {
    /// A step on a knob created by Millpond, which must succeed.
    #[must_use]
    pub fn new(knob: Knob, before: Option<Value>, after: Option<Value>) -> Self {
        Step { knob, before, after, baseline: Baseline::Ours, may_refuse: false, falls: false }
    }

    /// Whether the step only keeps or releases a baseline in the journal: the value stays unchanged.
    #[must_use]
    pub fn is_note(&self) -> bool {
        self.before == self.after
    }

    /// The same step, keeping the original value as baseline.
    #[must_use]
    pub fn keeping(mut self) -> Self {
        self.baseline = Baseline::Keep;
        self
    }

    /// The same step, releasing the baseline, which it restores.
    #[must_use]
    pub fn releasing(mut self) -> Self {
        self.baseline = Baseline::Release;
        self
    }

    /// The same step; the value changes as a side effect of a later step of the same change.
    #[must_use]
    pub fn falling(mut self) -> Self {
        self.falls = true;
        self
    }

    /// The same step; its refusal is only a note.
    #[must_use]
    pub fn tolerant(mut self) -> Self {
        self.may_refuse = true;
        self
    }
}

/// `file /a: 0-3 -> 0,2-3`, for `--dry-run` and reports.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |v: &Option<Value>| match v {
            None => "absent".to_owned(),
            Some(v) if v.is_empty() => "empty".to_owned(),
            Some(v) => v.clone(),
        };
        write!(f, "{}: {} -> {}", self.knob, word(&self.before), word(&self.after))
    }
}

/// A change that was prepared by reading and is not yet applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change<T> {
    /// A description for the journal and for reports: `create processor set 1`.
    pub what: String,
    /// The steps, in the order in which they must be applied.
    pub steps: Vec<Step>,
    /// The state after the change.
    pub outcome: T,
    /// Notes for the user that are not errors.
    pub notes: Vec<String>,
}

impl<T> Change<T> {
    /// A change without notes.
    #[must_use]
    pub fn new(what: impl Into<String>, steps: Vec<Step>, outcome: T) -> Self {
        Change { what: what.into(), steps, outcome, notes: Vec::new() }
    }

    /// The same change with another outcome.
    #[must_use]
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Change<U> {
        Change { what: self.what, steps: self.steps, outcome: f(self.outcome), notes: self.notes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_step_survives_json(
            knob in "[a-z:/.0-9]{1,20}",
            before in proptest::option::of(".{0,12}"),
            after in proptest::option::of(".{0,12}"),
            kind in 0u8..3,
            may_refuse in any::<bool>(),
            falls in any::<bool>(),
        ) {
            let baseline = [Baseline::Ours, Baseline::Keep, Baseline::Release][usize::from(kind)];
            let step = Step { knob: Knob(knob), before, after, baseline, may_refuse, falls };
            let text = serde_json::to_string(&step).unwrap();
            prop_assert!(!text.contains('\n'));
            prop_assert_eq!(serde_json::from_str::<Step>(&text).unwrap(), step);
        }
    }

    #[test]
    fn a_step_says_what_it_does() {
        let step = Step::new(Knob("cpu.3.state".into()), Some("on-line".into()), None);
        assert_eq!(step.to_string(), "cpu.3.state: on-line -> absent");
    }
}
