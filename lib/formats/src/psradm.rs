//! The lines of `psradm -v`.

use millpond_model::{CpuId, State};

/// A changed CPU: `processor 3 taken off-line.`
#[must_use]
pub fn changed(cpu: CpuId, to: State) -> String {
    let how = match to {
        State::OnLine => "brought on-line",
        State::OffLine => "taken off-line",
        State::NoIntr => "set to no-intr",
        State::Spare => "marked spare",
        State::Faulted => "marked faulted",
        State::Disabled => "disabled",
        State::PoweredOff => "powered off",
        State::Unknown => "set to an unknown state",
    };
    format!("processor {cpu} {how}.")
}

/// An unchanged CPU: `processor 3 already off-line.`
#[must_use]
pub fn already(cpu: CpuId, state: State) -> String {
    format!("processor {cpu} already {state}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_its_sentence() {
        let said = |to| changed(CpuId(3), to);
        assert_eq!(said(State::OnLine), "processor 3 brought on-line.");
        assert_eq!(said(State::OffLine), "processor 3 taken off-line.");
        assert_eq!(said(State::NoIntr), "processor 3 set to no-intr.");
        assert_eq!(said(State::Spare), "processor 3 marked spare.");
        assert_eq!(said(State::Faulted), "processor 3 marked faulted.");
        assert_eq!(already(CpuId(0), State::NoIntr), "processor 0 already no-intr.");
    }
}
