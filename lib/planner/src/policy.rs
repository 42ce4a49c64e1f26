//! What every policy is.

use crate::{Decision, Frame, Millpond, Solaris};
use serde_json::Value;

/// Decides from frames. Frames come in the order of time; each one's interval begins where the last one's ended.
pub trait Policy: Send {
    /// The name by which [`policy`] knows it.
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

/// The names of all policies, the default one first.
pub const POLICIES: [&str; 2] = ["millpond", "solaris"];

/// A policy by its name, remembering nothing.
#[must_use]
pub fn policy(name: &str) -> Option<Box<dyn Policy>> {
    match name {
        "millpond" => Some(Box::new(Millpond::default())),
        "solaris" => Some(Box::new(Solaris::default())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{frame, load, set};

    #[test]
    fn every_name_gives_its_policy() {
        for name in POLICIES {
            assert_eq!(policy(name).unwrap().name(), name);
        }
        assert!(policy("chance").is_none());
    }

    #[test]
    fn fuzz_a_state_is_restored_or_refused() {
        let mut seeds = vec!["{}".to_owned(), "null".to_owned(), r#"{"forced":1}"#.to_owned()];
        for name in POLICIES {
            let mut policy = policy(name).unwrap();
            let pressed = |tenth: u64| {
                let sets = vec![load(set(0, "0-3"), 1.0, 0.0), load(set(1, "4-7"), 4.0, 3.0)];
                Frame { at: millpond_model::Nanos::from_millis(100 * tenth), ..frame(sets) }
            };
            (1..8).for_each(|tenth| _ = policy.decide(&pressed(tenth)));
            seeds.push(policy.state().to_string());
        }
        let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
        millpond_fuzz::check_text("planner-state", &seeds, |text| {
            let Ok(value) = serde_json::from_str::<Value>(text) else { return };
            for name in POLICIES {
                let mut policy = policy(name).unwrap();
                if policy.restore(&value).is_ok() {
                    let state = policy.state();
                    policy.restore(&state).unwrap();
                    assert_eq!(policy.state(), state);
                    let frame = frame(vec![load(set(0, "0-3"), 1.0, 0.0), load(set(1, "4-7"), 4.0, 3.0)]);
                    assert_eq!(crate::check(&frame, &policy.decide(&frame).plan.moves), []);
                }
            }
        });
    }
}
