//! Indexes over the kernel's state, so that nothing is searched: CPUs by the priority that they would lose, queues by what could be
//! stolen from them, rings of nearby CPUs, threads by home. They are derived from the state and not saved.

use super::class_state::{ClassState, Runnable};
use super::cpu_mask::{CpuLevels, CpuMask};
use super::hardware::Station;
use super::ids::{CacheId, CpuIndex, Id, PartitionId, PipelineId, QueueId, StationId, Table, ThreadId};
use super::queue::{IDLE, LEVELS_END};
use super::state::Kernel;
use super::thread::RunState;
use super::tick::Tick;
/// The indexes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Index {
    /// CPUs by the best priority that runs, waits or is under way there.
    pub scores: CpuLevels,
    /// CPUs by the best priority that could be stolen from their queues.
    pub unbound: CpuLevels,
    /// For each lgroup the CPUs in its rings.
    pub rings: Vec<Vec<CpuMask>>,
    /// Runnable threads by partition and lgroup.
    pub at_home: Table<PartitionId, Vec<u64>>,
    /// CPUs of each pipeline.
    pub mates: Table<PipelineId, Vec<CpuIndex>>,
    /// For each pipeline the sum of its CPUs' demands: see [`super::InstructionTime::usage`].
    pub usage: Table<PipelineId, u64>,
    /// For each kind of station the demand on each.
    pub stations: Vec<Table<StationId, Asked>>,
    /// Whether any pipeline has more than one CPU.
    pub shares_pipelines: bool,
    /// Idle CPUs, by the number of threads on their pipeline; busy CPUs have no level.
    pub idle_by_load: CpuLevels,
    /// Number of running threads per outer cache.
    pub busy_by_cache: Table<CacheId, u32>,
    /// Runnable threads of FSS.
    pub fss: Runnable,
    /// Burst ends that are not in the heap yet.
    pub ends: Ends,
    /// The last computed tick.
    pub tick: Tick,
}

/// Demand on a station.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// The sum of its CPUs' [`super::InstructionTime::demands`].
    pub asked: u64,
    /// The CPUs that share it.
    pub mates: Vec<CpuIndex>,
}

/// Deferred burst ends: see [`super::burst_ends`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ends {
    /// An instant is being processed. Otherwise the heap is always correct, because callers may read it.
    pub put_off: bool,
    /// CPUs whose end in the heap is wrong. Neither that end nor the correct one can be in this instant.
    pub late: CpuMask,
    /// Disables deferral, for comparison.
    #[cfg(test)]
    pub never: bool,
}

impl Default for Index {
    fn default() -> Self {
        Index {
            scores: CpuLevels::new(0),
            unbound: CpuLevels::new(0),
            rings: Vec::new(),
            at_home: Table::default(),
            mates: Table::default(),
            usage: Table::default(),
            stations: Vec::new(),
            shares_pipelines: false,
            idle_by_load: CpuLevels::new(0),
            busy_by_cache: Table::default(),
            fss: Runnable::new(),
            ends: Ends::default(),
            tick: Tick::default(),
        }
    }
}

impl Kernel {
    /// Rebuilds the indexes, after the kernel was created or loaded.
    pub fn reindex(&mut self) {
        let cpus = || self.cpus.with_ids();
        let count = u32::try_from(self.cpus.len()).unwrap_or(u32::MAX);
        let within = |ring: &Vec<u32>| -> CpuMask {
            cpus().filter(|(_, cpu)| ring.contains(&cpu.lgroup)).map(|(number, _)| number).collect()
        };
        let rings = self.levels.iter().map(|rings| rings.iter().map(within).collect()).collect();
        let at_home = vec![vec![0; self.levels.len()]; self.parts.len()].into();
        let mut mates: Table<PipelineId, Vec<CpuIndex>> = vec![Vec::new(); self.cpus.len()].into();
        for (cpu, pipeline) in self.cpus.ids().zip(&self.hardware.pipelines) {
            mates[*pipeline].push(cpu);
        }
        let usage_of =
            |mates: &Vec<CpuIndex>| mates.iter().map(|mate| self.cpus[*mate].instruction_time.usage).sum();
        let usage = mates.iter().map(usage_of).collect();
        self.index = Index {
            scores: CpuLevels::new(count),
            unbound: CpuLevels::new(count),
            rings,
            at_home,
            shares_pipelines: mates.iter().any(|mates| mates.len() > 1),
            mates,
            usage,
            stations: self.asked_of_stations(),
            idle_by_load: CpuLevels::new(count),
            busy_by_cache: vec![0; self.filled.len()].into(),
            fss: Runnable::new(),
            ends: Ends::default(),
            tick: Tick::default(),
        };
        for cpu in self.cpus.ids() {
            // All pipelines of an idle machine are empty.
            self.index.idle_by_load.set(cpu, 0);
        }
        for cpu in self.cpus.ids() {
            self.rescore(cpu);
        }
        for thread in self.threads.ids() {
            self.count_at_home(thread, true);
        }
    }

    fn asked_of_stations(&self) -> Vec<Table<StationId, Asked>> {
        let of_kind = |(at, station): (usize, &Station)| {
            let mut all: Table<StationId, Asked> = vec![Asked::default(); self.cpus.len()].into();
            for (cpu, id) in self.cpus.ids().zip(&station.of) {
                all[*id].asked += self.cpus[cpu].instruction_time.demands[at];
                all[*id].mates.push(cpu);
            }
            all
        };
        self.hardware.stations.iter().enumerate().map(of_kind).collect()
    }

    /// Updates the indexes after a change of a queue. Partition queues belong to no CPU.
    pub(super) fn rescore_queue(&mut self, queue: QueueId) {
        if queue.place() < self.cpus.len() {
            self.rescore(CpuIndex(queue.0));
        }
    }

    /// Updates the indexes after a change of what a CPU runs or of what can be stolen from it.
    pub(super) fn rescore(&mut self, number: CpuIndex) {
        let (cpu, queue) = (&self.cpus[number], &self.queues[number]);
        let score = cpu.dispatch_pri.max(queue.best).max(cpu.chosen_level);
        self.index.unbound.set(number, queue.best_unbound);
        let before = self.index.scores.set(number, score);
        if (score > IDLE) != (before > IDLE) {
            self.note_busy(number, score > IDLE);
        }
    }

    /// Updates the indexes when a CPU becomes busy or idle.
    fn note_busy(&mut self, number: CpuIndex, is_busy: bool) {
        let beside = &mut self.index.busy_by_cache[self.hardware.caches[number]];
        *beside = if is_busy { *beside + 1 } else { beside.saturating_sub(1) };
        if !self.index.shares_pipelines {
            return;
        }
        let pipeline = self.hardware.pipelines[number];
        let load = self.load(pipeline);
        for at in 0..self.index.mates[pipeline].len() {
            let mate = self.index.mates[pipeline][at];
            let level = if self.index.scores.level(mate) > IDLE { IDLE } else { load };
            self.index.idle_by_load.set(mate, level);
        }
    }

    /// Number of busy CPUs of a pipeline.
    pub(super) fn load(&self, pipeline: PipelineId) -> i16 {
        let mates = self.index.mates[pipeline].iter();
        let load = mates.filter(|mate| self.index.scores.level(**mate) > IDLE).count();
        i16::try_from(load).unwrap_or(i16::MAX).min(LEVELS_END - 1)
    }

    /// Counts a thread that becomes runnable, or no longer is, at its home lgroup.
    pub(super) fn count_at_home(&mut self, thread: ThreadId, comes: bool) {
        let t = &self.threads[thread];
        if !matches!(t.state, RunState::Queued(_) | RunState::Running | RunState::Pinned) || t.device {
            return;
        }
        let here = &mut self.index.at_home[t.part][t.home as usize];
        *here = if comes { *here + 1 } else { here.saturating_sub(1) };
        if let ClassState::Fss(_) = t.class {
            self.count_fss(thread, comes);
        }
    }
}
