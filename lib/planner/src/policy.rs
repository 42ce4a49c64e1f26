//! The trait of a policy.

use crate::{Decision, Frame};
use serde_json::Value;

/// Decides from frames. Frames come in order of time; the interval of each begins where the previous one ended.
pub trait Policy: Send {
    /// The name that [`policy()`](crate::policy()) accepts.
    fn name(&self) -> &'static str;

    /// The decision for this frame. Every plan passes [`check()`](crate::check()). The policy assumes that the plan is applied before
    /// the next interval begins. The next frame shows if it was not.
    fn decide(&mut self, frame: &Frame) -> Decision;

    /// The state of the policy, to continue after a restart.
    fn state(&self) -> Value;

    /// Continues from a value that [`Policy::state`] returned.
    ///
    /// # Errors
    /// [`StateError`] if the value is not a state of this policy. The policy then keeps its current state.
    fn restore(&mut self, state: &Value) -> Result<(), StateError>;
}

/// A value that is not a policy's state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is no state of the policy `{policy}`: {what}")]
pub struct StateError {
    /// The policy.
    pub policy: &'static str,
    /// The error.
    pub what: String,
}
