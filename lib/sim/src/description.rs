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
//!   "caches":   [ { "level": 1, "kind": "data", "size_kib": 64, "shared_by": "core" } ],
//!   "lgroups":  [ { "chips": [0], "memory_kib": 2040832 }, { "chips": [1] } ],
//!   "distances": [ [10, 20], [20, 10] ],
//!   "devices":  [ { "name": "e1000g0", "processor": 1 } ],
//!   "tunables": { "hz": 100, "ts_dispatch_extended": 0 },
//!   "zones":    [ { "name": "web", "processes": [ { "name": "httpd", "threads": 2 } ] } ] }
//! ```
//!
//! Without `lgroups` all processors and memory are in one group. Unknown fields are errors.

use crate::state::{self, BOOTED, Device, SimState};
use crate::tables::{HZ_MAX, Tunables};
use millpond_model::{
    Cache, CacheKind, ChipId, CoreId, CoreKind, CpuId, CpuSet, Lgroup, LgrpId, Pid, Processor, Topology,
    WallTime,
};
use serde::Deserialize;
use std::collections::BTreeMap;

/// More processors than any machine has had; it bounds what a typing error can allocate.
const PROCESSORS_MAX: u32 = 16_384;

/// The same for threads, of all described processes together.
const THREADS_MAX: u32 = 65_536;

/// Why a machine file cannot be used, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}:{line}:{column}: {what}")]
pub struct DescriptionError {
    /// The file.
    pub origin: String,
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1.
    pub column: usize,
    /// What is wrong.
    pub what: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    name: String,
    #[serde(rename = "about")]
    _about: String,
    booted: Option<String>,
    chips: u32,
    cores_per_chip: u32,
    strands_per_core: u32,
    #[serde(default)]
    numbering: Numbering,
    processor: ProcessorDescription,
    #[serde(default)]
    caches: Vec<CacheDescription>,
    #[serde(default)]
    lgroups: Vec<LgroupDescription>,
    #[serde(default)]
    distances: Vec<Vec<u32>>,
    #[serde(default)]
    devices: Vec<DeviceDescription>,
    #[serde(default)]
    zones: Vec<ZoneDescription>,
    #[serde(default)]
    tunables: Tunables,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Numbering {
    #[default]
    CoreMajor,
    StrandMajor,
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

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct CacheDescription {
    level: u32,
    kind: CacheKind,
    size_kib: Option<u64>,
    shared_by: Sharing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Sharing {
    Core,
    Chip,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LgroupDescription {
    chips: Vec<u32>,
    memory_kib: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceDescription {
    name: String,
    processor: CpuId,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ZoneDescription {
    name: String,
    #[serde(default)]
    processes: Vec<ProcessDescription>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProcessDescription {
    name: String,
    threads: u32,
}

/// What is wrong, and the key of the file at which it shows.
type Wrong = (&'static str, String);

/// Reads a machine file. `origin` names it in messages.
///
/// # Errors
/// [`DescriptionError`] with the place.
pub fn parse(text: &str, origin: &str) -> Result<SimState, DescriptionError> {
    let error = |line, column, what| DescriptionError { origin: origin.to_owned(), line, column, what };
    let description: Description = serde_json::from_str(text).map_err(|e| {
        let what = e.to_string();
        let what = what.split(" at line ").next().unwrap_or_default().to_owned();
        error(e.line(), e.column(), what)
    })?;
    expand(&description).map_err(|(key, what)| {
        let (line, column) = place_of(text, key);
        error(line, column, what)
    })
}

/// Line and column of the first place where a key stands, or of the beginning.
fn place_of(text: &str, key: &str) -> (usize, usize) {
    let quoted = format!("\"{key}\"");
    text.lines()
        .zip(1..)
        .find_map(|(line, number)| line.find(&quoted).map(|at| (number, at + 1)))
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
    let mut state = SimState::booted(&d.name, topology, booted, d.tunables);
    for device in &d.devices {
        let DeviceDescription { name, processor } = device;
        if !state.topology.cpus().contains(*processor) {
            return Err((
                "devices",
                format!("device {name} interrupts processor {processor}, which does not exist"),
            ));
        }
        state.devices.push(Device { name: name.clone(), processor: *processor });
    }
    let mut threads: u32 = 0;
    for zone in &d.zones {
        if state.zones.contains(&zone.name) {
            return Err(("zones", format!("zone {} is described twice", zone.name)));
        }
        state.zones.push(zone.name.clone());
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
        }
    }
    Ok(state)
}

fn topology(d: &Description) -> Result<Topology, Wrong> {
    let count = u64::from(d.chips) * u64::from(d.cores_per_chip);
    let count = count.saturating_mul(u64::from(d.strands_per_core));
    if count == 0 || count > u64::from(PROCESSORS_MAX) {
        let what =
            format!("chips, cores and strands make {count} processors; 1 to {PROCESSORS_MAX} are possible");
        return Err(("chips", what));
    }
    let lgroup_of = lgroup_of_chip(d)?;
    let cores = d.chips * d.cores_per_chip;
    let mut processors = Vec::new();
    for core in 0..cores {
        for strand in 0..d.strands_per_core {
            let chip = core / d.cores_per_chip;
            let id = match d.numbering {
                Numbering::CoreMajor => core * d.strands_per_core + strand,
                Numbering::StrandMajor => strand * cores + core,
            };
            processors.push(Processor {
                id: CpuId(id),
                core: CoreId(core),
                chip: ChipId(chip),
                lgroup: lgroup_of[chip as usize],
                kind: CoreKind::Uniform,
                isa: d.processor.isa.clone(),
                clock_mhz: d.processor.clock_mhz,
                fpu: d.processor.fpu.clone(),
                implementation: d.processor.implementation.replace("{chip}", &chip.to_string()),
                brand: d.processor.brand.clone(),
            });
        }
    }
    let (caches, lgroups) = (caches(d, &processors), lgroups(d, &processors));
    Topology::new(processors, caches, lgroups).map_err(|error| ("distances", error.to_string()))
}

/// The lgroup of each chip; every chip is in exactly one.
fn lgroup_of_chip(d: &Description) -> Result<Vec<LgrpId>, Wrong> {
    if d.lgroups.is_empty() {
        return Ok(vec![LgrpId(0); d.chips as usize]);
    }
    let mut of: Vec<Option<LgrpId>> = vec![None; d.chips as usize];
    for (group, id) in d.lgroups.iter().zip((0u32..).map(LgrpId)) {
        for chip in &group.chips {
            match of.get_mut(*chip as usize) {
                None => {
                    return Err(("lgroups", format!("lgroup {id} has chip {chip}, which does not exist")));
                }
                Some(Some(other)) => {
                    return Err(("lgroups", format!("chip {chip} is in lgroups {other} and {id}")));
                }
                Some(slot) => *slot = Some(id),
            }
        }
    }
    of.into_iter()
        .zip(0u32..)
        .map(|(id, chip)| id.ok_or_else(|| ("lgroups", format!("chip {chip} is in no lgroup"))))
        .collect()
}

fn caches(d: &Description, processors: &[Processor]) -> Vec<Cache> {
    let mut caches = Vec::new();
    for (index, c) in d.caches.iter().enumerate() {
        // Described twice is there once.
        if d.caches[..index].contains(c) {
            continue;
        }
        let mut sharers: BTreeMap<u32, CpuSet> = BTreeMap::new();
        for p in processors {
            let by = match c.shared_by {
                Sharing::Core => p.core.0,
                Sharing::Chip => p.chip.0,
            };
            sharers.entry(by).or_default().insert(p.id);
        }
        let cache = |cpus| Cache { level: c.level, kind: c.kind, size_kib: c.size_kib, cpus };
        caches.extend(sharers.into_values().map(cache));
    }
    caches
}

fn lgroups(d: &Description, processors: &[Processor]) -> Vec<Lgroup> {
    let cpus = |id| processors.iter().filter(|p| p.lgroup == id).map(|p| p.id).collect::<CpuSet>();
    if d.lgroups.is_empty() {
        return vec![Lgroup { id: LgrpId(0), cpus: cpus(LgrpId(0)), distances: vec![10], memory_kib: None }];
    }
    let group = |(group, id): (&LgroupDescription, LgrpId)| Lgroup {
        id,
        cpus: cpus(id),
        distances: d.distances.get(id.0 as usize).cloned().unwrap_or_default(),
        memory_kib: group.memory_kib,
    };
    d.lgroups.iter().zip((0u32..).map(LgrpId)).map(group).collect()
}

/// Parses `2024-11-20 08:14:02`, UTC.
fn parse_time(text: &str) -> Option<WallTime> {
    let (date, time) = text.split_once(' ')?;
    let (year, month, day) = three(date, '-')?;
    let (hour, minute, second) = three(time, ':')?;
    let possible = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !possible {
        return None;
    }
    let before: i64 = (1970..year).map(|y| 365 + i64::from(is_leap(y))).sum();
    let before = before + (1..month).map(|m| days_in(year, m)).sum::<i64>();
    Some(WallTime(((before + day - 1) * 24 + hour) * 3600 + minute * 60 + second))
}

fn three(text: &str, separator: char) -> Option<(i64, i64, i64)> {
    let mut parts = text.split(separator).map(|p| p.parse::<u32>().ok().map(i64::from));
    let found = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() { None } else { Some(found) }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"{
  "name": "small", "about": "for tests",
  "chips": 2, "cores_per_chip": 2, "strands_per_core": 2,
  "processor": { "isa": "i386", "implementation": "x86 (chipid {chip})" }
}"#;

    fn with(line: &str) -> String {
        SMALL.replace("\n  \"processor\"", &format!("\n  {line},\n  \"processor\""))
    }

    fn error(text: &str) -> String {
        parse(text, "small.json").unwrap_err().to_string()
    }

    #[test]
    fn strands_are_numbered_as_the_file_says() {
        let core_major = parse(SMALL, "").unwrap().topology;
        assert_eq!(core_major.siblings(CpuId(0)).to_string(), "0-1");
        assert_eq!(core_major.chip_cpus(ChipId(1)).to_string(), "4-7");
        let strand_major = parse(&with(r#""numbering": "strand-major""#), "").unwrap().topology;
        assert_eq!(strand_major.siblings(CpuId(0)).to_string(), "0,4");
        assert_eq!(strand_major.chip_cpus(ChipId(1)).to_string(), "2-3,6-7");
        assert_eq!(strand_major.processor(CpuId(7)).unwrap().implementation, "x86 (chipid 1)");
    }

    #[test]
    fn a_cache_stands_once_for_each_group_of_sharers() {
        let text =
            with(r#""caches": [{"level": 2, "kind": "unified", "size_kib": 64, "shared_by": "chip"}]"#);
        let topology = parse(&text, "").unwrap().topology;
        let sharers: Vec<String> = topology.caches().iter().map(|c| c.cpus.to_string()).collect();
        assert_eq!(sharers, ["0-3", "4-7"]);
    }

    #[test]
    fn a_tunable_chooses_the_table_for_large_servers() {
        let slice = |line: &str| parse(&with(line), "").unwrap().tables.dispatch.ts.row(29).quantum;
        assert_eq!(slice(r#""numbering": "core-major""#), 12);
        assert_eq!(slice(r#""tunables": {"ts_dispatch_extended": -1}"#), 12);
        assert_eq!(slice(r#""tunables": {"ts_dispatch_extended": 0, "hz": 1000}"#), 12);
        assert_eq!(slice(r#""tunables": {"ts_dispatch_extended": 1}"#), 36);
    }

    #[test]
    fn mistakes_are_reported_with_their_place() {
        assert_eq!(error("{"), "small.json:1:1: EOF while parsing an object");
        let unknown = error(&with(r#""nodes": 2"#));
        assert!(unknown.starts_with("small.json:4:9: unknown field `nodes`"), "{unknown}");
        assert_eq!(error(&with(r#""lgroups": [{"chips": [0]}]"#)), "small.json:4:3: chip 1 is in no lgroup");
        assert_eq!(
            error(&with(r#""lgroups": [{"chips": [0, 1]}, {"chips": [1]}]"#)),
            "small.json:4:3: chip 1 is in lgroups 0 and 1"
        );
        assert_eq!(
            error(&with(r#""lgroups": [{"chips": [0]}, {"chips": [1]}], "distances": [[10, 20]]"#)),
            "small.json:4:48: lgroup 1 gives 0 distances where 2 are needed"
        );
        assert_eq!(
            error(&with(r#""devices": [{"name": "e1000g0", "processor": 8}]"#)),
            "small.json:4:3: device e1000g0 interrupts processor 8, which does not exist"
        );
        assert_eq!(
            error(&SMALL.replace("\"chips\": 2", "\"chips\": 0")),
            "small.json:3:3: chips, cores and strands make 0 processors; 1 to 16384 are possible"
        );
        assert_eq!(
            error(&SMALL.replace(": 2", ": 4294967295")),
            "small.json:3:3: chips, cores and strands make 18446744073709551615 processors; 1 to 16384 are possible"
        );
        assert_eq!(
            error(&with(r#""tunables": {"hz": 0}"#)),
            "small.json:4:16: hz is 0; 1 to 10000 ticks in a second are possible"
        );
        let crowd = with(r#""zones": [{"name": "web", "processes": [{"name": "httpd", "threads": 65537}]}]"#);
        assert_eq!(error(&crowd), "small.json:4:29: process httpd goes beyond 65536 threads in all");
        assert_eq!(
            error(&with(r#""booted": "yesterday""#)),
            "small.json:4:3: `yesterday` is no time; write 2024-11-20 08:14:02 (UTC)"
        );
    }

    #[test]
    fn times_are_seconds_since_1970() {
        assert_eq!(parse_time("1970-01-01 00:00:00"), Some(WallTime(0)));
        assert_eq!(parse_time("2024-02-29 12:00:00"), Some(WallTime(1_709_208_000)));
        assert_eq!(parse_time("2024-11-20 08:14:02"), Some(BOOTED));
        for wrong in ["2023-02-29 00:00:00", "2024-13-01 00:00:00", "2024-01-01", "2024-01-01 24:00:00"] {
            assert_eq!(parse_time(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn fuzz_descriptions_of_machines() {
        let full = with(
            r#""booted": "2024-11-20 08:14:02", "numbering": "strand-major",
  "caches": [{"level": 2, "kind": "unified", "size_kib": 64, "shared_by": "chip"}],
  "lgroups": [{"chips": [0], "memory_kib": 9}, {"chips": [1]}], "distances": [[10, 20], [20, 10]],
  "devices": [{"name": "e1000g0", "processor": 1}],
  "tunables": {"hz": 1000, "ts_dispatch_extended": 1},
  "zones": [{"name": "web", "processes": [{"name": "httpd", "threads": 2}]}]"#,
        );
        millpond_fuzz::check_text("sim-descriptions", &[SMALL, &full], |text| match parse(text, "x") {
            Ok(state) => assert_eq!(state.check(), Ok(())),
            Err(error) => {
                let lines = text.lines().count().max(1);
                assert!((1..=lines + 1).contains(&error.line), "{error}");
            }
        });
    }
}
