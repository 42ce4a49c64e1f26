//! The trait of a policy.

use crate::{Decision, Frame};
use serde_json::Value;

/// Decides from frames. Frames come in the order of time; each one's interval begins where the last one's ended.
pub trait Policy: Send {
    /// The name by which [`policy()`](crate::policy()) knows it.
    fn name(&self) -> &'static str;

    /// What to do now. Every plan passes [`check()`](crate::check()). The policy assumes that it is carried out before
    /// the next interval begins, and sees from the next frame if it was not.
    fn decide(&mut self, frame: &Frame) -> Decision;

    /// What it remembers, so that it can go on after a restart.
    fn state(&self) -> Value;

    /// Goes on from what [`Policy::state`] gave.
    ///
    /// # Errors
    /// [`StateError`] for what no policy of this name gave; then it remembers what it did before.
    fn restore(&mut self, state: &Value) -> Result<(), StateError>;
}

/// A value that is not a policy's state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is no state of the policy `{policy}`: {what}")]
pub struct StateError {
    /// The policy.
    pub policy: &'static str,
    /// What is wrong.
    pub what: String,
}
