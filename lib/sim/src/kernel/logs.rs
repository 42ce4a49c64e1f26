//! Timestamps that programs record, and random choices.

use super::ids::LogId;
use super::state::Kernel;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Timestamps of a repeated measurement: the times of its stages after stage 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// Time of the last stage 0, in nanoseconds since boot.
    pub began: u64,
    /// For each stage from 1 on, a histogram of nanoseconds since stage 0.
    pub stages: Vec<BTreeMap<u64, u64>>,
    /// Arrivals that are not taken yet, in nanoseconds since boot, oldest first.
    #[serde(default)]
    pub arrived: VecDeque<u64>,
}

/// Most stages: more than any measurement has.
const STAGES_MAX: u32 = 64;

impl Kernel {
    /// Creates a log.
    pub fn log(&mut self) -> LogId {
        self.logs.add(Log::default())
    }

    /// All logs.
    #[must_use]
    pub fn logs(&self) -> &[Log] {
        &self.logs
    }

    /// Records a timestamp.
    pub(super) fn stamp(&mut self, log: LogId, stage: u32) {
        let now = self.now;
        let log = &mut self.logs[log];
        let Some(at) = stage.min(STAGES_MAX).checked_sub(1) else {
            log.began = now;
            return;
        };
        let at = at as usize;
        if log.stages.len() <= at {
            log.stages.resize(at + 1, BTreeMap::new());
        }
        *log.stages[at].entry(now - log.began).or_default() += 1;
    }

    /// Records an arrival.
    pub(super) fn note_arrival(&mut self, log: LogId) {
        let now = self.now;
        self.logs[log].arrived.push_back(now);
    }

    /// Takes the first arrival of `from` as stage 0 of `to`.
    pub(super) fn take_arrived(&mut self, from: LogId, to: LogId) {
        let arrived = self.logs[from].arrived.pop_front();
        self.logs[to].began = arrived.unwrap_or(self.now);
    }

    /// Sets the seed of random choices.
    pub fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// A random element; 0 of an empty list.
    pub(super) fn draw(&mut self, among: &[u64]) -> u64 {
        // A step of a Weyl sequence, mixed (SplitMix64, Steele et al. 2014).
        self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        let at = z.checked_rem(among.len() as u64).unwrap_or(0);
        usize::try_from(at).ok().and_then(|at| among.get(at)).copied().unwrap_or(0)
    }
}
