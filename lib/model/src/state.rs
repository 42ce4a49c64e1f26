//! CPU states and the rules for transitions between them.
//!
//! Words and rules are those of psradm(8) of Solaris. See `docs/reference/solaris-differences.md` for the two states that
//! a Linux machine cannot enter by itself (`powered-off`, `unknown`).

use serde::{Deserialize, Serialize};

crate::words! {
    /// The state of a CPU.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum State {
        /// Runs threads and takes interrupts.
        OnLine = "on-line",
        /// Taken off-line by an administrator: runs nothing.
        OffLine = "off-line",
        /// Runs threads, without device interrupts.
        NoIntr = "no-intr",
        /// Off-line; management software may put it on-line again.
        Spare = "spare",
        /// Off-line because of a diagnosed fault: needs force to leave this state.
        Faulted = "faulted",
        /// Without power.
        PoweredOff = "powered-off",
        /// An SMT sibling with SMT switched off.
        Disabled = "disabled",
        /// Unknown.
        Unknown = "unknown",
    }
    else crate::ParseIdError, |text| crate::ParseIdError { text, noun: "CPU state" }
}

/// Every state, in the order of psradm(8).
pub const PARSEABLE_STATES: [State; 8] = State::ALL;

/// The action of a machine for a change of state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// None: the CPU is in this state already.
    Nothing,
    /// Move device interrupts away; threads stay.
    ShelterFromInterrupts,
    /// Allow device interrupts again.
    AdmitInterrupts,
    /// Bring on-line; then move device interrupts away if requested.
    Start {
        /// Whether the requested state is `no-intr`.
        then_shelter: bool,
    },
    /// Take off-line (allowing interrupts first if necessary), then set the mark.
    Stop,
    /// Change the mark only: the CPU stays off-line.
    Mark,
}

/// The reason why the rules refuse a change of state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TransitionError {
    /// A faulted CPU needs force.
    #[error("it is faulted")]
    NeedsForce,
    /// There is no such transition.
    #[error("a CPU that is {from} cannot become {to}")]
    Impossible {
        /// The present state.
        from: State,
        /// The requested state.
        to: State,
    },
}

impl State {
    /// Whether threads may run: `on-line` or `no-intr`. Such a CPU is called *active*.
    #[must_use]
    pub fn runs_threads(self) -> bool {
        matches!(self, State::OnLine | State::NoIntr)
    }

    /// Whether device interrupts may arrive.
    #[must_use]
    pub fn takes_interrupts(self) -> bool {
        self == State::OnLine
    }

    /// The action for a change from this state to `to`.
    ///
    /// Source of the table: psradm(8) of Solaris.
    ///
    /// # Errors
    /// [`TransitionError`] if the rules refuse. Limits of the *machine* (last CPU, bound threads) are checked elsewhere.
    pub fn transition(self, to: State, forced: bool) -> Result<Transition, TransitionError> {
        use State::{Disabled, Faulted, NoIntr, OffLine, OnLine, PoweredOff, Spare, Unknown};
        let impossible = Err(TransitionError::Impossible { from: self, to });
        if self == to {
            return Ok(Transition::Nothing);
        }
        match (self, to) {
            (_, PoweredOff | Unknown) | (Unknown, _) => impossible,
            // Taking SMT siblings off-line is a forced change of CPUs in service.
            (OnLine | NoIntr, Disabled) if forced => Ok(Transition::Stop),
            (OffLine, Disabled) if forced => Ok(Transition::Mark),
            (_, Disabled) => impossible,
            (Disabled, OnLine | NoIntr) if forced => Ok(Transition::Start { then_shelter: to == NoIntr }),
            (Disabled, _) => impossible,
            (Faulted, OnLine | NoIntr | OffLine | Spare) if !forced => Err(TransitionError::NeedsForce),
            (OnLine, NoIntr) => Ok(Transition::ShelterFromInterrupts),
            (NoIntr, OnLine) => Ok(Transition::AdmitInterrupts),
            (OffLine | Spare | Faulted | PoweredOff, OnLine | NoIntr) => {
                Ok(Transition::Start { then_shelter: to == NoIntr })
            }
            (OnLine | NoIntr, OffLine | Spare | Faulted) => Ok(Transition::Stop),
            (OffLine | Spare | Faulted | PoweredOff, OffLine | Spare | Faulted) => Ok(Transition::Mark),
            (OnLine, OnLine) | (NoIntr, NoIntr) => Ok(Transition::Nothing),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::select;

    fn any_state() -> impl Strategy<Value = State> {
        select(PARSEABLE_STATES.to_vec())
    }

    proptest! {
        #[test]
        fn every_state_survives_printing_and_parsing(state in any_state()) {
            prop_assert_eq!(state.to_string().parse(), Ok(state));
        }

        #[test]
        fn force_never_turns_a_permitted_change_into_a_refused_one(a in any_state(), b in any_state()) {
            if a.transition(b, false).is_ok() {
                prop_assert!(a.transition(b, true).is_ok());
            }
        }

        #[test]
        fn staying_is_always_a_successful_nothing(a in any_state(), forced in any::<bool>()) {
            prop_assert_eq!(a.transition(a, forced), Ok(Transition::Nothing));
        }

        #[test]
        fn a_start_ends_active_and_a_stop_begins_active(a in any_state(), b in any_state()) {
            match a.transition(b, true) {
                Ok(Transition::Start { .. }) => prop_assert!(!a.runs_threads() && b.runs_threads()),
                Ok(Transition::Stop) => prop_assert!(a.runs_threads() && !b.runs_threads()),
                Ok(Transition::Mark) => prop_assert!(!a.runs_threads() && !b.runs_threads()),
                _ => {}
            }
        }
    }

    #[test]
    fn a_faulted_processor_leaves_only_by_force() {
        assert_eq!(State::Faulted.transition(State::OnLine, false), Err(TransitionError::NeedsForce));
        assert_eq!(
            State::Faulted.transition(State::OnLine, true),
            Ok(Transition::Start { then_shelter: false })
        );
    }

    #[test]
    fn a_strand_is_switched_off_by_force_only_and_a_spare_one_not_at_all() {
        assert!(State::OnLine.transition(State::Disabled, false).is_err());
        assert_eq!(State::OnLine.transition(State::Disabled, true), Ok(Transition::Stop));
        assert_eq!(State::OffLine.transition(State::Disabled, true), Ok(Transition::Mark));
        assert!(State::Spare.transition(State::Disabled, true).is_err());
        assert!(State::Faulted.transition(State::Disabled, true).is_err());
    }

    #[test]
    fn a_disabled_strand_cannot_be_taken_off_line() {
        assert!(State::Disabled.transition(State::OffLine, true).is_err());
    }
}
