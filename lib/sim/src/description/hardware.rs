//! The timing fields of a machine file.

use super::topology::Sharing;
use super::{Description, Wrong};
use crate::kernel::{CpuIndex, Exclusive, Hardware, Id, SOCKET_BYTES, Serves, Station, Table};
use millpond_model::Topology;
use serde::Deserialize;

/// Strands of a core that share a pipeline.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PipelineDescription {
    /// Strands of a core that share one pipeline.
    pub strands: u32,
    #[serde(default)]
    exclusive: Exclusive,
}

/// How fast a core executes instructions.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CoreSpeed {
    /// Cycles of an instruction that hits in the first cache.
    cpi: f64,
    /// Part of the outer cache's latency that the core waits for, 0 to 1.
    #[serde(default = "all")]
    exposed: f64,
    /// Misses of the first cache, as a multiple of those of a cache with lines of 64 bytes.
    #[serde(default = "all")]
    reach: f64,
}

/// A resource other than pipelines that CPUs share.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StationDescription {
    serves: Serves,
    shared_by: SharedBy,
    /// Requests per cycle of a core.
    per_cycle: Option<f64>,
    /// Gigabytes per second, in lines of memory.
    gb_s: Option<f64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SharedBy {
    Core,
    Chip,
    Lgroup,
}

impl StationDescription {
    fn station(self, cycle_fs: u64, topology: &Topology) -> Result<Station, Wrong> {
        let cycle_fs = u32::try_from(cycle_fs).map_or(f64::MAX, f64::from);
        let service_fs = match (self.per_cycle, self.gb_s) {
            (Some(rate), None) if (0.001..=1_000.0).contains(&rate) => cycle_fs / rate,
            // 64 bytes per line; 1e6 femtoseconds per nanosecond.
            (None, Some(rate)) if (0.01..=100_000.0).contains(&rate) => 64.0 * 1e6 / rate,
            _ => {
                let what = "a station serves 0.001 to 1000 requests in a cycle (per_cycle), or 0.01 to 100000 gigabytes a second (gb_s)";
                return Err(("stations", what.into()));
            }
        };
        let cpus = topology.processors().iter();
        let of = match self.shared_by {
            SharedBy::Core => numbered(cpus.map(|p| p.core)),
            SharedBy::Chip => numbered(cpus.map(|p| p.chip)),
            SharedBy::Lgroup => numbered(cpus.map(|p| p.lgroup)),
        };
        Ok(Station { serves: self.serves, of, service_fs: thousandths(service_fs / 1_000.0) })
    }
}

pub(super) fn all() -> f64 {
    1.0
}

/// Latency of memory under load, in nanoseconds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MemoryDescription {
    local_ns: Option<f64>,
    remote_ns: Option<f64>,
    per_board_ns: Option<f64>,
    #[serde(default)]
    latencies_ns: Vec<Vec<f64>>,
}

/// Default clock frequency.
const CLOCK_MHZ: u64 = 1_000;
/// Default latency of local memory, in nanoseconds for each unit of an lgroup's distance.
const NS_PER_DISTANCE: u64 = 10;
/// Default latency of the outer cache, in cycles.
const CACHE_CYCLES: u64 = 20;

pub(super) fn hardware(d: &Description, topology: &Topology) -> Result<Hardware, Wrong> {
    let cpus = topology.processors();
    let mut hardware = like(topology);
    (hardware.switch_ns, hardware.space_switch_ns) = (d.switch_ns, d.space_switch_ns);
    hardware.idle_exit_ns = d.idle_exit_ns;
    (hardware.interrupt_ns, hardware.process_end_ns) = (d.interrupt_ns, d.process_end_ns);
    hardware.socket_bytes = d.socket_bytes.unwrap_or(SOCKET_BYTES);
    if !(0.001..=100.0).contains(&d.kernel) {
        return Err((
            "kernel",
            format!("the kernel executes {} times as much; 0.001 to 100 are possible", d.kernel),
        ));
    }
    hardware.kernel_milli = thousandths(d.kernel);
    hardware.cache_cycles = d.cache_cycles.unwrap_or(CACHE_CYCLES);
    bounds(d)?;
    hardware.handover_milli = thousandths(d.handover_trips);
    if let Some(core) = d.core {
        if !(0.001..=100.0).contains(&core.cpi)
            || !(0.0..=1.0).contains(&core.exposed)
            || !(0.0..=100.0).contains(&core.reach)
        {
            let what = "a core needs 0.001 to 100 cycles for an instruction, waits for 0 to 1 of its outer cache, and looks there \
                        0 to 100 times as often as usual";
            return Err(("core", what.into()));
        }
        hardware.reach_milli = thousandths(core.reach);
        (hardware.core_milli, hardware.exposed_milli) = (thousandths(core.cpi), thousandths(core.exposed));
    }
    if let Some(pipeline) = d.pipeline {
        let strands = topology.cores().iter().map(|core| core.cpus.len()).max().unwrap_or(1);
        if pipeline.strands == 0 || strands % pipeline.strands as usize != 0 {
            let what = format!(
                "{} strands share a pipeline, and a core has {strands}; {} are possible",
                pipeline.strands,
                divisors(strands)
            );
            return Err(("pipeline", what));
        }
        hardware.exclusive = pipeline.exclusive;
        let mut first_of = std::collections::BTreeMap::new();
        for core in topology.cores() {
            for (cpu, at) in core.cpus.iter().zip(0u32..) {
                first_of.insert(cpu, (core.id, at / pipeline.strands));
            }
        }
        hardware.pipelines = numbered(cpus.iter().map(|p| first_of.get(&p.id).copied()));
    }
    if let Some(outer) = d.caches.iter().max_by_key(|c| c.level) {
        hardware.cache_kib = outer.size_kib.unwrap_or(0);
        hardware.caches = match outer.shared_by {
            Sharing::Core => numbered(cpus.iter().map(|p| p.core)),
            Sharing::Chip => numbered(cpus.iter().map(|p| p.chip)),
        };
    }
    if let Some(memory) = &d.memory {
        hardware.latency_ps = latencies(memory, topology.lgroups().len())?;
    }
    for (at, described) in d.stations.iter().enumerate() {
        if d.stations.iter().take(at).any(|other| other.serves == described.serves) {
            return Err(("stations", "two kinds of stations serve the same".into()));
        }
        hardware.stations.push(described.station(hardware.cycle_fs, topology)?);
    }
    hardware.check(cpus.len(), topology.lgroups().len()).map_err(|what| ("memory", what))?;
    Ok(hardware)
}

/// Checks each number by itself against the limits of real hardware.
fn bounds(d: &Description) -> Result<(), Wrong> {
    let size = d.caches.iter().filter_map(|cache| cache.size_kib).max();
    let numbers = [
        ("clock_mhz", d.processor.clock_mhz.unwrap_or(CLOCK_MHZ), 10, 1_000_000),
        ("size_kib", size.unwrap_or(0), 0, 1 << 24),
        ("cache_cycles", d.cache_cycles.unwrap_or(CACHE_CYCLES), 0, 10_000),
        ("switch_ns", d.switch_ns, 0, 1_000_000_000),
        ("space_switch_ns", d.space_switch_ns, 0, 1_000_000_000),
        ("idle_exit_ns", d.idle_exit_ns, 0, 1_000_000_000),
        ("interrupt_ns", d.interrupt_ns, 0, 1_000_000_000),
        ("process_end_ns", d.process_end_ns, 0, 1_000_000_000),
        ("socket_bytes", d.socket_bytes.unwrap_or(SOCKET_BYTES), 1, 1 << 30),
    ];
    if !(0.0..=100.0).contains(&d.handover_trips) {
        let what = format!("handover_trips is {}; 0 to 100 are possible", d.handover_trips);
        return Err(("handover_trips", what));
    }
    match numbers.into_iter().find(|(_, number, least, most)| !(least..=most).contains(&number)) {
        None => Ok(()),
        Some((key, number, least, most)) => {
            Err((key, format!("{key} is {number}; {least} to {most} are possible")))
        }
    }
}

/// The divisors as text: `1, 2, 4`.
fn divisors(number: usize) -> String {
    let all = (1..=number).filter(|part| number.is_multiple_of(*part));
    all.map(|part| part.to_string()).collect::<Vec<_>>().join(", ")
}

/// Hardware with default timing for a topology.
pub fn like(topology: &Topology) -> Hardware {
    let cpus = topology.processors();
    let mhz = cpus.first().and_then(|p| p.clock_mhz).filter(|mhz| *mhz > 0).unwrap_or(CLOCK_MHZ);
    let outer = topology.caches().iter().max_by_key(|c| c.level);
    let shared = |id| {
        let of_outer = topology.caches().iter().filter(|c| Some(c.level) == outer.map(|o| o.level));
        of_outer.clone().position(|c| c.cpus.contains(id))
    };
    let row =
        |distances: &Vec<u32>| distances.iter().map(|d| u64::from(*d) * NS_PER_DISTANCE * 1_000).collect();
    Hardware {
        cycle_fs: (1_000_000_000 / mhz).max(1),
        exclusive: Exclusive::Issue,
        pipelines: numbered(cpus.iter().map(|p| p.id)),
        caches: numbered(cpus.iter().map(|p| (shared(p.id), p.core))),
        cache_kib: outer.and_then(|c| c.size_kib).unwrap_or(0),
        core_milli: 1_000,
        cache_cycles: CACHE_CYCLES,
        exposed_milli: 1_000,
        reach_milli: 1_000,
        latency_ps: topology.lgroups().iter().map(|l| row(&l.distances)).collect(),
        memory_kib: topology.lgroups().iter().map(|l| l.memory_kib.unwrap_or(0)).collect(),
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

/// Numbers distinct values in order of first occurrence; equal values get equal numbers.
fn numbered<T: PartialEq, I: Id>(things: impl Iterator<Item = T>) -> Table<CpuIndex, I> {
    let mut known: Vec<T> = Vec::new();
    let mut numbers = Table::default();
    for thing in things {
        let at = known.iter().position(|other| *other == thing).unwrap_or_else(|| {
            known.push(thing);
            known.len() - 1
        });
        numbers.add(I::at(at));
    }
    numbers
}

/// Memory latencies between lgroups, in picoseconds.
fn latencies(memory: &MemoryDescription, lgroups: usize) -> Result<Vec<Vec<u64>>, Wrong> {
    if !memory.latencies_ns.is_empty() {
        if memory.local_ns.or(memory.remote_ns).or(memory.per_board_ns).is_some() {
            let what = "memory has latencies_ns, and local_ns, remote_ns or per_board_ns beside it; leave one of the two out";
            return Err(("memory", what.into()));
        }
        let rows = memory.latencies_ns.len();
        if rows != lgroups {
            return Err((
                "latencies_ns",
                format!("latencies_ns has {rows} rows where {lgroups} are needed, one for each lgroup"),
            ));
        }
        for (row, lgroup) in memory.latencies_ns.iter().zip(0u32..) {
            if row.len() != lgroups {
                let what = format!(
                    "row {lgroup} of latencies_ns has {} numbers where {lgroups} are needed, one for each lgroup",
                    row.len()
                );
                return Err(("latencies_ns", what));
            }
        }
        return memory
            .latencies_ns
            .iter()
            .map(|row| row.iter().map(|ns| picoseconds(*ns)).collect())
            .collect();
    }
    let Some(local) = memory.local_ns else {
        return Err(("memory", "memory has neither local_ns nor latencies_ns; give one of the two".into()));
    };
    let boards = u32::try_from(lgroups).unwrap_or(u32::MAX);
    let remote = memory.remote_ns.unwrap_or(local) + memory.per_board_ns.unwrap_or(0.0) * f64::from(boards);
    let (local, remote) = (picoseconds(local)?, picoseconds(remote)?);
    let between = |from: usize| (0..lgroups).map(|to| if from == to { local } else { remote }).collect();
    Ok((0..lgroups).map(between).collect())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the bounds are checked")]
fn thousandths(number: f64) -> u64 {
    (number * 1_000.0).round() as u64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the bounds are checked")]
fn picoseconds(ns: f64) -> Result<u64, Wrong> {
    if (0.0..=1_000_000.0).contains(&ns) {
        Ok((ns * 1_000.0).round() as u64)
    } else {
        Err(("memory", format!("{ns} ns until memory answers; 0 to 1000000 are possible")))
    }
}
