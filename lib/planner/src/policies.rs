//! Every policy by its name.

use crate::{Millpond, Policy, Solaris};

/// The names of all policies, the default one first.
pub const POLICIES: [&str; 2] = ["millpond", "solaris"];

/// A policy by its name, in its initial state.
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
    use crate::Frame;
    use crate::testing::{frame, load, set};
    use serde_json::Value;

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
