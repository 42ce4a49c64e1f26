//! What the kernel keeps beside its truth so that nobody searches: processors by what they would lose, queues by what could
//! be taken from them, who is near whom, threads at home. It follows from the rest and is not saved.

use super::bits::{Bits, Levels};
use super::ends::Ends;
use super::fss::Runnable;
use super::queue::{IDLE, LEVELS_END};
use super::{ClassState, Kernel, RunState};

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
    /// For each pipeline the processors that share it.
    pub mates: Vec<Vec<u32>>,
    /// For each pipeline the sum of how much those that share it need it: see [`super::Pace::usage`].
    pub usage: Vec<u64>,
    /// Whether any pipeline has two of them.
    pub shares_pipelines: bool,
    /// Processors that idle, by how many threads run on their pipeline; others at no level.
    pub idle_by_load: Levels,
    /// For each outer cache how many threads run beside it.
    pub busy_by_cache: Vec<u32>,
    /// Runnable threads of FSS.
    pub fss: Runnable,
    /// Ends of bursts that are not in the heap yet.
    pub ends: Ends,
}

impl Default for Index {
    fn default() -> Self {
        Index {
            scores: Levels::new(0),
            unbound: Levels::new(0),
            rings: Vec::new(),
            at_home: Vec::new(),
            mates: Vec::new(),
            usage: Vec::new(),
            shares_pipelines: false,
            idle_by_load: Levels::new(0),
            busy_by_cache: Vec::new(),
            fss: Runnable::new(),
            ends: Ends::default(),
        }
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
        let mut mates: Vec<Vec<u32>> = vec![Vec::new(); self.cpus.len()];
        for (cpu, pipeline) in (0u32..).zip(&self.hardware.pipelines) {
            mates[*pipeline as usize].push(cpu);
        }
        let usage_of = |mates: &Vec<u32>| mates.iter().map(|mate| self.cpus[*mate as usize].pace.usage).sum();
        let usage = mates.iter().map(usage_of).collect();
        self.index = Index {
            scores: Levels::new(count),
            unbound: Levels::new(count),
            rings,
            at_home,
            shares_pipelines: mates.iter().any(|mates| mates.len() > 1),
            mates,
            usage,
            idle_by_load: Levels::new(count),
            busy_by_cache: vec![0; self.filled.len()],
            fss: Runnable::new(),
            ends: Ends::default(),
        };
        for cpu in 0..count {
            // On an idle machine all pipelines are empty.
            self.index.idle_by_load.set(cpu, 0);
        }
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
        let score = cpu.dispatch_pri.max(queue.best).max(cpu.chosen_level);
        self.index.unbound.set(number, queue.best_unbound);
        let was_busy = self.index.scores.level(number) > IDLE;
        self.index.scores.set(number, score);
        if (score > IDLE) != was_busy {
            self.note_busy(number, score > IDLE);
        }
    }

    /// A processor begins to have something to do, or has nothing to do any more.
    fn note_busy(&mut self, number: u32, is_busy: bool) {
        let beside = &mut self.index.busy_by_cache[self.hardware.caches[number as usize] as usize];
        *beside = if is_busy { *beside + 1 } else { beside.saturating_sub(1) };
        if !self.index.shares_pipelines {
            return;
        }
        let pipeline = self.hardware.pipelines[number as usize] as usize;
        let load = self.load(pipeline);
        for at in 0..self.index.mates[pipeline].len() {
            let mate = self.index.mates[pipeline][at];
            let level = if self.index.scores.level(mate) > IDLE { IDLE } else { load };
            self.index.idle_by_load.set(mate, level);
        }
    }

    /// How many processors of a pipeline have something to do.
    pub(super) fn load(&self, pipeline: usize) -> i16 {
        let mates = self.index.mates[pipeline].iter();
        let load = mates.filter(|mate| self.index.scores.level(**mate) > IDLE).count();
        i16::try_from(load).unwrap_or(i16::MAX).min(LEVELS_END - 1)
    }

    /// A thread becomes runnable, or stops being so, at its home.
    pub(super) fn count_at_home(&mut self, thread: u32, comes: bool) {
        let t = &self.threads[thread as usize];
        if !matches!(t.state, RunState::Queued(_) | RunState::Running | RunState::Pinned) || t.device {
            return;
        }
        let here = &mut self.index.at_home[t.part as usize][t.home as usize];
        *here = if comes { *here + 1 } else { here.saturating_sub(1) };
        if let ClassState::Fss(_) = t.class {
            self.count_fss(thread, comes);
        }
    }
}
