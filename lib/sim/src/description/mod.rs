//! Machine files: a compact description in JSON, expanded to a machine that was just booted.
//!
//! ```text
//! { "name": "x4200", "about": "two chips of two cores",
//!   "booted": "2024-11-20 08:14:02",            may be left out
//!   "chips": 2, "cores_per_chip": 2, "strands_per_core": 1,
//!   "numbering": "core-major",                  strands of a core are neighbours; "strand-major": the first
//!                                               strand of every core, then the second of every core, …
//!   "processor": { "isa": "i386", "clock_mhz": 2400, "fpu": "i387 compatible",
//!                  "implementation": "x86 (chipid {chip} …)", "brand": "…" },
//!   "core":     { "cpi": 0.8, "exposed": 0.5 },  cycles per instruction, part of the outer cache's latency that stalls, and
//!                                               "reach", a multiple of the usual misses of the first cache
//!   "pipeline": { "strands": 4, "exclusive": "issue" },
//!   "caches":   [ { "level": 1, "kind": "data", "size_kib": 64, "shared_by": "core" } ],
//!   "cache_cycles": 12,                         latency of the outermost cache
//!   "lgroups":  [ { "chips": [0], "memory_kib": 2040832 }, { "chips": [1] } ],
//!   "distances": [ [10, 20], [20, 10] ],
//!   "memory":   { "latencies_ns": [ [65, 105], [105, 65] ] },
//!   "switch_ns": 1500,
//!   "space_switch_ns": 200,                     additional cost where the next thread has another address space
//!   "idle_exit_ns": 4000,                       wake-up of an idle CPU, in addition to a switch
//!   "interrupt_ns": 16000,                      additional latency when the clock or a device, not a CPU, wakes an idle CPU
//!   "handover_trips": 4,                        trips to the outer cache to pass on a word that all CPUs write
//!   "stations": [ { "serves": "memory", "shared_by": "lgroup", "gb_s": 6.4 } ],
//!   "kernel": 0.7,                              factor on the kernel instructions of workloads
//!   "socket_bytes": 16000,                      most bytes of unread messages before a writer waits
//!   "process_end_ns": 70000,                    exit time of a process
//!   "devices":  [ { "name": "e1000g0", "processor": 1, "kind": "network" } ],
//!   "tunables": { "hz": 100, "ts_dispatch_extended": 0, "lgrp_mem_pset_aware": 0 },
//!   "zones":    [ { "name": "web", "processes": [ { "name": "httpd", "threads": 2 } ] } ],
//!   "sources":  { "memory": "source of the figure" } }
//! ```
//!
//! In place of the three numbers of chips, cores and strands, `"cores": [ { "chip": 0, "strands": [0, 1] } ]` names every
//! strand. In place of `lgroups` and `distances`, `"board": { "chips": 4, "memory_kib": 67108864 }` makes one lgroup for each
//! group of that many chips. Without any of them, all CPUs and memory are in one group. In place of `latencies_ns`,
//! `"memory": { "local_ns": 553, "remote_ns": 553, "per_board_ns": 94.7 }` gives the latency of memory in another lgroup:
//! `remote_ns` (default `local_ns`), plus `per_board_ns` for each lgroup of the machine, because all are asked.
//! Unknown fields are errors.

pub(crate) mod hardware;
#[cfg(test)]
mod tests;
mod time;
mod topology;

use crate::kernel::HZ_MAX;
use crate::state::{self, BOOTED, Device, DeviceKind, Held, SimState};
use crate::tables::Tunables;
use crate::workloads::Load;
use hardware::{CoreSpeed, MemoryDescription, PipelineDescription, StationDescription};
use millpond_model::{CpuId, Pid};
use serde::Deserialize;
use std::collections::BTreeMap;
use time::parse_time;
use topology::{BoardDescription, CacheDescription, CoreDescription, LgroupDescription, Numbering, topology};

/// Most CPUs: more than any machine has had. Bounds the memory that a typing error can allocate.
const PROCESSORS_MAX: u32 = 16_384;

/// Most chips. The table of memory latencies grows with their square.
const CHIPS_MAX: u32 = 1024;

/// Most threads of all described processes together.
const THREADS_MAX: u32 = 65_536;

/// An invalid machine file: the error and its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}:{line}:{column}: {what}")]
pub struct DescriptionError {
    /// The file's name.
    pub origin: String,
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1.
    pub column: usize,
    /// What is wrong.
    pub what: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a machine, in braces")]
struct Description {
    name: String,
    #[serde(rename = "about")]
    _about: String,
    booted: Option<String>,
    #[serde(default)]
    chips: u32,
    #[serde(default)]
    cores_per_chip: u32,
    #[serde(default)]
    strands_per_core: u32,
    #[serde(default)]
    cores: Vec<CoreDescription>,
    #[serde(default)]
    numbering: Numbering,
    processor: ProcessorDescription,
    core: Option<CoreSpeed>,
    pipeline: Option<PipelineDescription>,
    #[serde(default)]
    caches: Vec<CacheDescription>,
    cache_cycles: Option<u64>,
    #[serde(default)]
    lgroups: Vec<LgroupDescription>,
    #[serde(default)]
    distances: Vec<Vec<u32>>,
    board: Option<BoardDescription>,
    memory: Option<MemoryDescription>,
    #[serde(default)]
    switch_ns: u64,
    #[serde(default)]
    space_switch_ns: u64,
    #[serde(default)]
    handover_trips: f64,
    #[serde(default)]
    stations: Vec<StationDescription>,
    #[serde(default)]
    idle_exit_ns: u64,
    #[serde(default)]
    interrupt_ns: u64,
    #[serde(default)]
    process_end_ns: u64,
    socket_bytes: Option<u64>,
    #[serde(default = "hardware::all")]
    kernel: f64,
    #[serde(default)]
    devices: Vec<DeviceDescription>,
    #[serde(default)]
    zones: Vec<ZoneDescription>,
    #[serde(default)]
    tunables: Tunables,
    #[serde(default, rename = "sources")]
    _sources: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProcessorDescription {
    isa: String,
    clock_mhz: Option<u64>,
    fpu: Option<String>,
    implementation: String,
    #[serde(default)]
    brand: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceDescription {
    name: String,
    processor: CpuId,
    #[serde(default)]
    kind: DeviceKind,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ZoneDescription {
    name: String,
    /// Its zone id when it runs.
    id: Option<u32>,
    #[serde(default)]
    processes: Vec<ProcessDescription>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProcessDescription {
    name: String,
    threads: u32,
    /// The workload that it executes after its zone has booted.
    #[serde(default)]
    load: String,
}

/// An error, and the key of the file that it is about.
type Wrong = (&'static str, String);

/// Reads a machine file. `origin` names it in messages.
///
/// # Errors
/// [`DescriptionError`] with the place.
pub fn parse(text: &str, origin: &str) -> Result<SimState, DescriptionError> {
    let error = |line, column, what| DescriptionError { origin: origin.to_owned(), line, column, what };
    let description: Description = serde_json::from_str(text).map_err(|e| {
        let what = e.to_string();
        let what = what.split(" at line ").next().unwrap_or_default();
        let said = [
            ("expected u32", "expected a whole number"),
            ("expected u64", "expected a whole number"),
            ("expected f64", "expected a number"),
        ];
        let what = said.into_iter().fold(what.to_owned(), |what, (wrong, right)| what.replace(wrong, right));
        error(e.line(), e.column(), what)
    })?;
    expand(&description).map_err(|(key, what)| {
        let (line, column) = place_of(text, key);
        error(line, column, what)
    })
}

/// Line and column of the first occurrence of a key; the beginning of the file if it does not occur.
fn place_of(text: &str, key: &str) -> (usize, usize) {
    let quoted = format!("\"{key}\"");
    text.lines()
        .zip(1..)
        .find_map(|(line, number)| line.find(&quoted).map(|at| (number, line[..at].chars().count() + 1)))
        .unwrap_or((1, 1))
}

fn expand(d: &Description) -> Result<SimState, Wrong> {
    let booted = match &d.booted {
        None => BOOTED,
        Some(text) => parse_time(text)
            .ok_or_else(|| ("booted", format!("`{text}` is no time; write 2024-11-20 08:14:02 (UTC)")))?,
    };
    let topology = topology(d)?;
    if !(1..=HZ_MAX).contains(&d.tunables.hz) {
        let what = format!("hz is {}; 1 to {HZ_MAX} ticks in a second are possible", d.tunables.hz);
        return Err(("hz", what));
    }
    let hardware = hardware::hardware(d, &topology)?;
    let mut state = SimState::booted(&d.name, topology, hardware, booted, d.tunables);
    for device in &d.devices {
        let DeviceDescription { name, processor, kind } = device;
        if !state.topology.cpus().contains(*processor) {
            return Err((
                "devices",
                format!("device {name} interrupts CPU {processor}, which does not exist"),
            ));
        }
        state.devices.push(Device { name: name.clone(), processor: *processor, kind: *kind });
    }
    let mut threads: u32 = 0;
    for zone in &d.zones {
        if d.zones.iter().filter(|other| other.name == zone.name).count() > 1 {
            return Err(("zones", format!("zone {} is described twice", zone.name)));
        }
        // The global zone always exists.
        if !state.zones.contains(&zone.name) {
            state.zones.push(zone.name.clone());
        }
        if let Some(id) = zone.id {
            if id == 0 || state.zone_ids.values().any(|other| *other == id) {
                return Err(("zones", format!("zone {} has number {id}, which another zone has", zone.name)));
            }
            state.zone_ids.insert(zone.name.clone(), id);
        }
        for process in &zone.processes {
            if process.threads == 0 {
                return Err(("processes", format!("process {} has no thread", process.name)));
            }
            threads = threads.saturating_add(process.threads);
            if threads > THREADS_MAX {
                let what = format!("process {} goes beyond {THREADS_MAX} threads in all", process.name);
                return Err(("processes", what));
            }
            let pid = state.tables.next_pid;
            let record = state::process(&process.name, false, &zone.name, process.threads);
            state.tables.processes.insert(pid, record);
            state.tables.next_pid = Pid(pid.0 + 1);
            let words: Vec<String> = process.load.split_whitespace().map(str::to_owned).collect();
            if let Some(Err(error)) =
                Some(&words).filter(|words| !words.is_empty()).map(|words| Load::parse(words))
            {
                return Err((
                    "load",
                    format!("process {} cannot execute `{}`: {error}", process.name, process.load),
                ));
            }
            state.held.push(Held {
                pid,
                zone: zone.name.clone(),
                name: process.name.clone(),
                threads: process.threads,
                load: process.load.clone(),
            });
        }
    }
    state.start_held("global");
    Ok(state)
}
