//! The view of one set in one frame: its demand, the sizes that it asks for, and its target sizes.

use super::claims::Ask;
use crate::{Demand, Frame};
use millpond_model::Nanos;

/// The value of a speculative CPU, compared with one that is used.
pub(super) const SPECULATIVE_WORTH: f64 = 0.5;

/// One set in this frame. Indices are those of [`Frame::sets`].
#[derive(Debug, Clone, Copy)]
pub(super) struct SetView {
    pub demand: Option<Demand>,
    pub ask: Ask,
    /// The target size for its threads.
    pub allotted: usize,
    /// The target size with preferences; at least the size that it keeps if other sets prefer CPUs.
    pub preferred: usize,
    /// The need by the demand of this frame alone.
    pub now: usize,
    /// The need including held CPUs.
    pub uses: usize,
    /// The number of decisions, including this one, in which it has lacked CPUs.
    pub lacked: u32,
    /// The expected useful life of a grant.
    pub stay: Nanos,
    /// The number of CPUs that it lent speculatively.
    pub lent: usize,
    /// The number of further speculative CPUs that it should get.
    pub speculative: usize,
    /// The same if no set were in its backoff.
    pub without_backoff: usize,
    /// The remaining backoff.
    pub backoff: Nanos,
    /// The size if all full sets share by importance.
    pub fair: usize,
    /// The number of held CPUs that it claims from others.
    pub claim: usize,
}

impl SetView {
    /// Whether a speculative CPU is worth a move.
    pub fn is_worth_speculating(&self, frame: &Frame) -> bool {
        SPECULATIVE_WORTH * self.stay.as_secs_f64() > frame.costs.cpu.as_secs_f64()
    }
}
