//! What is known of one set in one frame: its demand, what it asks for, and what it should have.

use super::claims::Ask;
use crate::{Demand, Frame};
use millpond_model::Nanos;

/// What a CPU is worth that may or may not be of use, compared with one that is used.
pub(super) const SPECULATIVE_WORTH: f64 = 0.5;

/// One set in this frame. The places are those of [`Frame::sets`].
#[derive(Debug, Clone, Copy)]
pub(super) struct SetView {
    pub demand: Option<Demand>,
    pub ask: Ask,
    /// What it should have for its threads.
    pub allotted: usize,
    /// What it should have with what it prefers; no less than what it keeps when others prefer CPUs.
    pub preferred: usize,
    /// What it needs by this frame's demand alone.
    pub now: usize,
    /// What it needs, with what it holds.
    pub uses: usize,
    /// In how many decisions, up to this one, it has lacked CPUs.
    pub lacked: u32,
    /// How long what it gets will be of use.
    pub stay: Nanos,
    /// How many CPUs it gave speculatively.
    pub lent: usize,
    /// How many more it should get speculatively.
    pub speculative: usize,
    /// The same if no set were in its backoff.
    pub without_backoff: usize,
    /// How much longer its backoff lasts.
    pub backoff: Nanos,
    /// What it should have if all full sets share by importance.
    pub fair: usize,
    /// How many more it claims of what others hold.
    pub claim: usize,
}

impl SetView {
    /// Whether CPUs that may or may not be of use are worth bringing.
    pub fn is_worth_speculating(&self, frame: &Frame) -> bool {
        SPECULATIVE_WORTH * self.stay.as_secs_f64() > frame.costs.cpu.as_secs_f64()
    }
}
