//! What the kernel keeps beside its truth so that nobody searches: processors by what they would lose, queues by what could
//! be taken from them, who is near whom, threads at home. It follows from the rest and is not saved.

use super::bits::{Bits, Levels};
use super::{Kernel, RunState};

/// The index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Index {
    /// Processors by the best of what they run, what waits there and what is on its way.
    pub scores: Levels,
    /// Processors by the best that could be taken from their queues.
    pub unbound: Levels,
    /// For each lgroup the processors in its rings.
    pub rings: Vec<Vec<Bits>>,
    /// Runnable threads by partition and lgroup.
    pub at_home: Vec<Vec<u64>>,
}

impl Default for Index {
    fn default() -> Self {
        Index { scores: Levels::new(0), unbound: Levels::new(0), rings: Vec::new(), at_home: Vec::new() }
    }
}

impl Kernel {
    /// Makes the index anew, after the kernel was made or loaded.
    pub fn reindex(&mut self) {
        let cpus = || (0u32..).zip(&self.cpus);
        let count = u32::try_from(self.cpus.len()).unwrap_or(u32::MAX);
        let within = |ring: &Vec<u32>| -> Bits {
            cpus().filter(|(_, cpu)| ring.contains(&cpu.lgroup)).map(|(number, _)| number).collect()
        };
        let rings = self.levels.iter().map(|rings| rings.iter().map(within).collect()).collect();
        let at_home = vec![vec![0; self.levels.len()]; self.parts.len()];
        self.index = Index { scores: Levels::new(count), unbound: Levels::new(count), rings, at_home };
        for cpu in 0..count {
            self.rescore(cpu);
        }
        for thread in (0u32..).take(self.threads.len()) {
            self.count_at_home(thread, true);
        }
    }

    /// What a processor has to lose, or what can be taken from it, changed. Queues of partitions have no processor.
    pub(super) fn rescore(&mut self, number: u32) {
        let (Some(cpu), Some(queue)) = (self.cpus.get(number as usize), self.queues.get(number as usize))
        else {
            return;
        };
        self.index.scores.set(number, cpu.dispatch_pri.max(queue.best).max(cpu.chosen_level));
        self.index.unbound.set(number, queue.best_unbound);
    }

    /// A thread becomes runnable, or stops being so, at its home.
    pub(super) fn count_at_home(&mut self, thread: u32, comes: bool) {
        let t = &self.threads[thread as usize];
        if !matches!(t.state, RunState::Queued(_) | RunState::Running) {
            return;
        }
        let here = &mut self.index.at_home[t.part as usize][t.home as usize];
        *here = if comes { *here + 1 } else { here.saturating_sub(1) };
    }
}
