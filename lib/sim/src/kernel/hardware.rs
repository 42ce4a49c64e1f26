//! The hardware of a machine, as far as it determines timing.

use super::ids::{CacheId, CpuIndex, Id, PipelineId, StationId, Table};
use serde::{Deserialize, Serialize};

/// Femtoseconds per nanosecond.
const FS: u64 = 1_000_000;

/// The longest cycle: 10 MHz. The bounds keep every product below within 64 bits.
const CYCLE_MAX_FS: u64 = 100 * FS;
/// The longest memory latency: a millisecond.
pub(super) const LATENCY_MAX_PS: u64 = 1_000_000_000;

/// Most bytes of unread messages: the payload that messages of 100 bytes fit into 16 KiB, Solaris' default.
pub const SOCKET_BYTES: u64 = 16_000;

/// The part of an instruction that occupies a pipeline.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exclusive {
    /// One cycle, the issue: strands alternate every cycle.
    #[default]
    Issue,
    /// All of it except memory stalls: strands switch when one waits for memory.
    Base,
}

/// The kind of requests that a station serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Serves {
    /// Floating-point instructions.
    Float,
    /// Accesses to the outer cache.
    Cache,
    /// Lines of memory.
    Memory,
}

/// Number of kinds of stations.
const STATIONS: usize = 3;

/// A resource other than pipelines that CPUs share. It serves requests one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Station {
    /// The requests that it serves.
    pub serves: Serves,
    /// For each CPU the one that it uses; they count from 0.
    pub of: Table<CpuIndex, StationId>,
    /// Femtoseconds of service per request.
    pub service_fs: u64,
}

/// A machine's hardware, as far as it determines timing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hardware {
    /// Femtoseconds per cycle.
    pub cycle_fs: u64,
    /// The part of an instruction that occupies a pipeline.
    pub exclusive: Exclusive,
    /// The pipeline of each CPU, counted from 0.
    pub pipelines: Table<CpuIndex, PipelineId>,
    /// The outer cache of each CPU, counted from 0.
    pub caches: Table<CpuIndex, CacheId>,
    /// The size of an outer cache, in KiB; 0 for none.
    pub cache_kib: u64,
    /// Thousandths of a cycle of an instruction without misses.
    pub core_milli: u64,
    /// Latency of the outer cache, in cycles.
    pub cache_cycles: u64,
    /// Thousandths of that latency that the core waits for.
    pub exposed_milli: u64,
    /// Thousandths of a mix's reach that miss the first cache here: 1,000 with lines of 64 bytes.
    pub reach_milli: u64,
    /// Memory latency in picoseconds, by lgroup of the CPU, then by lgroup of the memory.
    pub latency_ps: Vec<Vec<u64>>,
    /// Memory of each lgroup, in KiB.
    pub memory_kib: Vec<u64>,
    /// Kernel cost of a thread switch, in nanoseconds.
    pub switch_ns: u64,
    /// How long a CPU keeps a word that several CPUs write in turn, in thousandths of a trip to the outer cache, or to memory where
    /// the outer caches differ: see [`super::barriers`].
    #[serde(default)]
    pub handover_milli: u64,
    /// Shared resources other than pipelines; of each kind at most one per CPU.
    #[serde(default)]
    pub stations: Vec<Station>,
    /// Additional time of an idle CPU to begin with a thread.
    #[serde(default)]
    pub idle_exit_ns: u64,
    /// Additional latency of an interrupt of the clock or a device on an idle CPU, compared with a call from another CPU.
    #[serde(default)]
    pub interrupt_ns: u64,
    /// Thousandths: this kernel's instructions per kernel instruction of a workload.
    #[serde(default = "as_told")]
    pub kernel_milli: u64,
    /// Most bytes of unread messages before a writer waits.
    #[serde(default = "solaris_socket")]
    pub socket_bytes: u64,
    /// Kernel time of a process exit, in nanoseconds.
    #[serde(default)]
    pub process_end_ns: u64,
    /// Additional cost of a switch to a thread of another address space, in nanoseconds.
    #[serde(default)]
    pub space_switch_ns: u64,
}

fn solaris_socket() -> u64 {
    SOCKET_BYTES
}

fn as_told() -> u64 {
    1_000
}

impl Hardware {
    /// CPUs of 1 GHz that share nothing, in this many lgroups with memory at 100 ns.
    #[must_use]
    pub fn plain(cpus: u32, lgroups: usize) -> Self {
        Hardware {
            cycle_fs: FS,
            exclusive: Exclusive::Issue,
            pipelines: (0..cpus).map(PipelineId).collect(),
            caches: (0..cpus).map(CacheId).collect(),
            cache_kib: 0,
            core_milli: 1_000,
            cache_cycles: 0,
            exposed_milli: 1_000,
            reach_milli: 1_000,
            latency_ps: vec![vec![100_000; lgroups]; lgroups],
            memory_kib: vec![0; lgroups],
            switch_ns: 0,
            handover_milli: 0,
            stations: Vec::new(),
            idle_exit_ns: 0,
            interrupt_ns: 0,
            kernel_milli: 1_000,
            socket_bytes: SOCKET_BYTES,
            process_end_ns: 0,
            space_switch_ns: 0,
        }
    }

    /// Number of outer caches.
    #[must_use]
    pub fn cache_count(&self) -> usize {
        self.caches.iter().max().map_or(0, |last| last.place() + 1)
    }

    /// Checks that it fits this many CPUs and lgroups.
    ///
    /// # Errors
    /// A sentence that names the first mismatch.
    pub fn check(&self, cpus: usize, lgroups: usize) -> Result<(), String> {
        let square = self.latency_ps.len() == lgroups && self.latency_ps.iter().all(|r| r.len() == lgroups);
        if !square || self.memory_kib.len() != lgroups {
            return Err("the hardware has not one latency for each two lgroups".into());
        }
        let fits = self.pipelines.len() == cpus && self.caches.len() == cpus;
        let below = self.pipelines.iter().all(|id| id.place() < cpus)
            && self.caches.iter().all(|id| id.place() < cpus);
        if !fits || !below {
            return Err("the hardware has not one pipeline and one cache for each CPU".into());
        }
        let far = self.latency_ps.iter().flatten().any(|ps| *ps > LATENCY_MAX_PS);
        if !(1..=CYCLE_MAX_FS).contains(&self.cycle_fs) || far || self.cache_cycles > 10_000 {
            return Err("the hardware has a cycle or a latency that no hardware has".into());
        }
        if !(1..=100_000).contains(&self.core_milli)
            || self.exposed_milli > 1_000
            || self.reach_milli > 100_000
        {
            return Err("the hardware has a core that no hardware has".into());
        }
        let all = |s: &Station| s.of.len() == cpus && s.of.iter().all(|id| id.place() < cpus);
        let possible = |s: &Station| all(s) && s.service_fs <= 1_000 * CYCLE_MAX_FS;
        if self.stations.len() > STATIONS || !self.stations.iter().all(possible) {
            return Err(
                "the hardware has not one station of a kind for each CPU, or one that no hardware has".into(),
            );
        }
        if self.handover_milli > 100_000 {
            return Err("the hardware has a handover that no hardware has".into());
        }
        if !(1..=1 << 30).contains(&self.socket_bytes) {
            return Err("the hardware has a socket that no machine has".into());
        }
        let switches = self.switch_ns.max(self.idle_exit_ns).max(self.space_switch_ns);
        let longest = switches.max(self.interrupt_ns).max(self.process_end_ns);
        if self.cache_kib > 1 << 24 || longest > 1_000_000_000 || !(1..=100_000).contains(&self.kernel_milli)
        {
            return Err("the hardware has a cache, a switch or a kernel that no hardware has".into());
        }
        Ok(())
    }
}

/// The timing of the thread that a CPU runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstructionTime {
    /// Femtoseconds per instruction, alone on the pipeline; 0 for work that is measured in time.
    pub alone: u64,
    /// Femtoseconds per instruction under the present load.
    pub now: u64,
    /// The part of the time in which it needs its pipeline, alone; [`FULL`] is always.
    pub usage: u64,
    /// The same for each of its stations.
    #[serde(default)]
    pub demands: [u64; STATIONS],
}
