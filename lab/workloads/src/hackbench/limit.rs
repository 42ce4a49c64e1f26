//! The limit of open files, raised during a run.

use crate::Error;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Reserve for descriptors that the process has open already or opens meanwhile.
const RESERVE: u64 = 64;

/// Restores the soft limit when dropped, if it was changed.
#[derive(Debug)]
pub(super) struct RaisedLimit {
    former: Option<Rlimit>,
}

impl RaisedLimit {
    /// Raises the soft limit so that `needed` more descriptors can be opened, as far as the hard limit allows.
    ///
    /// # Errors
    ///
    /// [`Error::Descriptors`] when the hard limit is certainly too low.
    pub(super) fn for_descriptors(needed: u64) -> Result<Self, Error> {
        let limit = getrlimit(Resource::Nofile);
        // `None` means unlimited.
        if limit.maximum.is_some_and(|hard| hard < needed) {
            return Err(Error::Descriptors { needed, limit: limit.maximum });
        }
        let Some(current) = raised(limit.current, limit.maximum, needed) else {
            return Ok(Self { former: None });
        };
        let raised = Rlimit { current: Some(current), maximum: limit.maximum };
        // If raising fails, opening will report the shortage.
        let former = setrlimit(Resource::Nofile, raised).is_ok().then_some(limit);
        Ok(Self { former })
    }
}

impl Drop for RaisedLimit {
    fn drop(&mut self) {
        if let Some(former) = self.former.take() {
            let _ = setrlimit(Resource::Nofile, former);
        }
    }
}

/// The new soft limit, if the present one is too low and may be raised.
fn raised(soft: Option<u64>, hard: Option<u64>, needed: u64) -> Option<u64> {
    let wanted = needed.saturating_add(RESERVE).min(hard.unwrap_or(u64::MAX));
    soft.filter(|soft| *soft < wanted).map(|_| wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_unlimited_or_sufficient_limit_is_left_alone() {
        assert_eq!(raised(None, None, 1_000_000), None);
        assert_eq!(raised(Some(1_024), Some(4_096), 900), None);
    }

    #[test]
    fn a_low_limit_is_raised_as_far_as_needed_and_allowed() {
        assert_eq!(raised(Some(1_024), Some(1_048_576), 2_000), Some(2_064));
        assert_eq!(raised(Some(1_024), Some(2_010), 2_000), Some(2_010));
    }

    proptest! {
        #[test]
        fn a_limit_is_never_lowered_nor_raised_beyond_the_hard_one(soft in 0_u64..5000, above in 0_u64..5000, needed in 0_u64..9000) {
            let hard = soft + above;
            if let Some(new) = raised(Some(soft), Some(hard), needed) {
                prop_assert!(new > soft && new <= hard);
            } else {
                prop_assert!(soft >= needed + RESERVE || soft == hard);
            }
        }
    }
}
