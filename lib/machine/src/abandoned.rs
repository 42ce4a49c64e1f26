//! Places that a killed process had reserved for a latency probe, and their restoration by the next writer.

use crate::facets::{LatencyProbe, Place};
use crate::{Machine, Refusal, Writer};
use std::fmt;

/// A place whose owner no longer exists, and the result of its restoration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutBack {
    /// The place.
    pub place: Place,
    /// Notes if everything is restored, else the refusal.
    pub result: Result<Vec<String>, Refusal>,
}

impl PutBack {
    /// The operation as text: `put back what process 12 left`.
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
    /// Restores the places of killed processes. A place that cannot be restored does not block the others.
    pub fn put_back_abandoned(&self, probe: &dyn LatencyProbe) -> Vec<PutBack> {
        let put_back = |place: Place| {
            let result =
                probe.prepare_leave(&place).and_then(|change| self.commit(change)).map(|done| done.notes);
            PutBack { place, result }
        };
        probe.abandoned().unwrap_or_default().into_iter().map(put_back).collect()
    }
}

/// The same for a caller that is not the writer and has found such places ([`LatencyProbe::abandoned`], which reads one directory). Becomes
/// the writer only if there are any. Restores those that are still abandoned then: a place that another writer restored in between may be
/// in use again.
///
/// # Errors
/// [`Refusal`] if the machine cannot be written.
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
