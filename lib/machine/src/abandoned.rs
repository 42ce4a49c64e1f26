//! Places that a killed process had taken for itself, and how the next writer puts them back.

use crate::facets::{LatencyProbe, Place};
use crate::{Machine, Refusal, Writer};
use std::fmt;

/// A place whose owner is gone, and what came of putting it back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutBack {
    /// The place.
    pub place: Place,
    /// Everything is as it was before, with what is to be said of it; or why not.
    pub result: Result<Vec<String>, Refusal>,
}

impl PutBack {
    /// What was to be done: `put back what process 12 left`.
    #[must_use]
    pub fn what(&self) -> String {
        format!("put back what process {} left", self.place.owner)
    }
}

impl fmt::Display for PutBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { owner, cpu, traced, .. } = self.place;
        let settings = if traced { ", and the settings of the tracer timerlat" } else { "" };
        match &self.result {
            Ok(_) => write!(
                f,
                "process {owner} was killed: CPU {cpu}, which it had for itself, was put back{settings}"
            ),
            Err(refusal) => write!(f, "cannot {}: {refusal}", self.what()),
        }
    }
}

impl Writer<'_> {
    /// Puts back the places of processes that were killed before they gave them back. A place that resists is left; it disturbs no other.
    pub fn put_back_abandoned(&self, probe: &dyn LatencyProbe) -> Vec<PutBack> {
        let put_back = |place: Place| {
            let result =
                probe.prepare_leave(&place).and_then(|change| self.commit(change)).map(|done| done.notes);
            PutBack { place, result }
        };
        probe.abandoned().unwrap_or_default().into_iter().map(put_back).collect()
    }
}

/// The same for a caller that is not the writer and has seen such places ([`LatencyProbe::abandoned`], the reading of one directory): becomes one only where there
/// are any. Put back are those that are still abandoned then: what another writer put back in between may be in use again.
///
/// # Errors
/// [`Refusal`] when the machine cannot be written.
pub fn put_back_abandoned(
    machine: &dyn Machine,
    probe: &dyn LatencyProbe,
    seen: &[Place],
) -> Result<Vec<PutBack>, Refusal> {
    if seen.is_empty() {
        return Ok(Vec::new());
    }
    Ok(Writer::open(machine)?.put_back_abandoned(probe))
}
