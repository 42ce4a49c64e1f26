//! CPU topology from sysfs and `/proc/cpuinfo`. For off-line CPUs see `offline`.

use crate::cpu_info::CpuInfo;
use crate::cpu_lists::{CACHE, CHIP, CORE, cpus, first_of};
use crate::knob::LinuxKnob;
use crate::offline::{Places, RECORD};
use crate::{LinuxMachine, Os, Root, numa};
use millpond_machine::{Reason, Refusal, Step};
use millpond_model::{
    Cache, CacheKind, ChipId, CoreId, CoreKind, CpuId, CpuSet, LgrpId, Processor, Topology,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Cores with less than this percentage of the fastest core's capacity are efficiency cores. Cores of one design with different
/// maximal clocks differ by less.
const FRUGAL_PERCENT: u64 = 75;

impl LinuxMachine {
    /// Reads the topology.
    pub(crate) fn read_topology(&self) -> Result<Topology, Refusal> {
        let os = &self.os;
        let broken = |why: String| Refusal::operation(Reason::Machine(why));
        let present = os.cpu_list("present").map_err(|e| broken(format!("the list of CPUs: {e}")))?;
        let lgroups = os.nodes(&present);
        let homes = numa::homes(&os.root, &lgroups, &present);
        let home = |cpu: CpuId| homes.get(&cpu).copied().unwrap_or(LgrpId(0));
        let info = CpuInfo::read(&os.root);
        let mut kinds = read_kinds(os, &present);
        let online = os.online().unwrap_or_default();
        let (mut places, offline) = read_places(os, &present, &online);
        let mut caches = read_caches(os, &present);
        if !offline.is_empty() {
            let kept = os.kept_places();
            places.complete(&offline, &kept, is_smt_limited(os), home);
            kept.complete(&mut caches, &offline);
            // Intel's lists omit off-line CPUs.
            let of_core: BTreeMap<CpuId, CoreKind> =
                kinds.iter().filter_map(|(cpu, kind)| Some((*places.core.get(cpu)?, *kind))).collect();
            for cpu in offline.iter().filter(|_| !kinds.is_empty()).collect::<Vec<_>>() {
                let of_its_core = places.core.get(&cpu).and_then(|core| of_core.get(core)).copied();
                kinds.extend(of_its_core.or_else(|| kept.kind(cpu)).map(|kind| (cpu, kind)));
            }
        }
        let mut numbers: BTreeMap<CpuId, CoreId> = BTreeMap::new();
        let processors = present.iter().map(|cpu| {
            let next = CoreId(u32::try_from(numbers.len()).unwrap_or(u32::MAX));
            let leader = places.core.get(&cpu).copied().unwrap_or(cpu);
            let clock_mhz = clock_mhz(os, cpu).or_else(|| info.mhz(cpu));
            Processor {
                id: cpu,
                core: *numbers.entry(leader).or_insert(next),
                chip: places.chip.get(&cpu).copied().unwrap_or(ChipId(0)),
                lgroup: home(cpu),
                kind: kinds.get(&cpu).copied().unwrap_or_default(),
                isa: info.isa.clone(),
                clock_mhz,
                fpu: info.fpu.clone(),
                implementation: info.implementation(cpu, clock_mhz),
                brand: info.brand.clone(),
            }
        });
        Topology::new(processors.collect(), caches, lgroups)
            .map_err(|e| broken(format!("the topology in sysfs contradicts itself: {e}")))
    }

    /// The step that records the positions of all CPUs before some go off-line; `None` if the record is up to date. The position
    /// of a CPU may differ from its record, because another program replaced the CPU.
    pub(crate) fn keep_places(&self, online: &CpuSet) -> Result<Option<Step>, Refusal> {
        let after = self.os.kept_places().with(&self.read_topology()?, online).text();
        let before = self.os.shared_record(RECORD);
        let knob = LinuxKnob::Record(RECORD.to_owned()).knob();
        Ok((before != after).then(|| Step::new(knob, before, after)))
    }

    /// The strands of each CPU's core. Reads no other files.
    pub(crate) fn read_cores(&self, cpus: &[CpuId]) -> BTreeMap<CpuId, CpuSet> {
        let strands = |cpu: CpuId| {
            strands(&self.os.root, &topology_dir(&self.os, cpu))
                .unwrap_or_else(|| [cpu].into_iter().collect())
        };
        cpus.iter().map(|cpu| (*cpu, strands(*cpu))).collect()
    }
}

fn topology_dir(os: &Os, cpu: CpuId) -> PathBuf {
    os.root.sys.join(format!("devices/system/cpu/cpu{cpu}/topology"))
}

/// Cores and chips of the CPUs, and the CPUs without this information because they are off-line.
fn read_places(os: &Os, present: &CpuSet, online: &CpuSet) -> (Places, CpuSet) {
    let (mut places, mut offline) = (Places::default(), CpuSet::new());
    // CPUs of chips without a number (s390, POWER partitions), with the lowest CPU of their chip.
    let mut unnumbered: BTreeMap<CpuId, CpuId> = BTreeMap::new();
    for cpu in present.iter() {
        let dir = topology_dir(os, cpu);
        let strands = strands(&os.root, &dir);
        let number = number(os, &dir.join("physical_package_id"));
        if strands.is_none() && number.is_none() && !online.contains(cpu) {
            offline.insert(cpu);
            continue;
        }
        places.core.insert(cpu, strands.and_then(|strands| strands.lowest()).unwrap_or(cpu));
        if let Some(chip) = number.and_then(|number| u32::try_from(number).ok()) {
            places.chip.insert(cpu, ChipId(chip));
        } else if let Some(lowest) = first_of(&os.root, &dir, &CHIP).and_then(|cpus| cpus.lowest()) {
            unnumbered.insert(cpu, lowest);
        }
    }
    if !unnumbered.is_empty() {
        let kept = os.kept_places();
        let mut next = places.chip.values().max().map_or(0, |chip| chip.0.saturating_add(1));
        let mut chips: BTreeMap<CpuId, ChipId> = BTreeMap::new();
        for (cpu, lowest) in unnumbered {
            // The chip gets the next number. It keeps the number when a lower chip goes off-line.
            let chip = *chips.entry(lowest).or_insert_with(|| kept.chip(cpu).unwrap_or(ChipId(next)));
            next = next.max(chip.0.saturating_add(1));
            places.chip.insert(cpu, chip);
        }
    }
    (places, offline)
}

/// Whether the number of strands per core is limited: after a boot with `nosmt`, by `smt/control`, or by `ppc64_cpu`.
fn is_smt_limited(os: &Os) -> bool {
    let file = os.root.sys.join("devices/system/cpu/smt/control");
    let control = os.root.read_value(&file).ok().flatten().unwrap_or_default();
    matches!(control.trim(), "off" | "forceoff") || control.trim().parse::<u32>().is_ok()
}

/// The strands of a core, from the directory `topology` of a CPU.
fn strands(root: &Root, dir: &Path) -> Option<CpuSet> {
    first_of(root, dir, &CORE)
}

fn list(os: &Os, path: &Path) -> Option<CpuSet> {
    os.root.read(path).ok().flatten()?.parse().ok()
}

fn number(os: &Os, path: &Path) -> Option<i64> {
    os.root.read(path).ok().flatten()?.trim().parse().ok()
}

/// The core kinds of a hybrid machine: Intel's by their lists, others by their capacity.
fn read_kinds(os: &Os, present: &CpuSet) -> BTreeMap<CpuId, CoreKind> {
    let mut kinds = BTreeMap::new();
    for (name, kind) in [("cpu_core", CoreKind::Performance), ("cpu_atom", CoreKind::Efficiency)] {
        let cpus = list(os, &os.root.sys.join("devices").join(name).join("cpus")).unwrap_or_default();
        kinds.extend((&cpus & present).iter().map(|cpu| (cpu, kind)));
    }
    if !kinds.is_empty() {
        return kinds;
    }
    let dir = os.root.sys.join("devices/system/cpu");
    let capacity = |cpu: CpuId| {
        let capacity = number(os, &dir.join(format!("cpu{cpu}/cpu_capacity")))?;
        Some((cpu, u64::try_from(capacity).ok()?))
    };
    let capacities: BTreeMap<CpuId, u64> = present.iter().filter_map(capacity).collect();
    let most = capacities.values().max().copied().unwrap_or_default();
    let kind = |capacity: u64| {
        let is_frugal = capacity.saturating_mul(100) < most.saturating_mul(FRUGAL_PERCENT);
        if is_frugal { CoreKind::Efficiency } else { CoreKind::Performance }
    };
    kinds.extend(capacities.into_iter().map(|(cpu, capacity)| (cpu, kind(capacity))));
    // Only one kind: not a hybrid machine.
    if kinds.values().all(|kind| *kind == CoreKind::Performance) { BTreeMap::new() } else { kinds }
}

fn read_caches(os: &Os, present: &CpuSet) -> Vec<Cache> {
    let mut caches = Vec::new();
    for cpu in present.iter() {
        let dir = os.root.sys.join(format!("devices/system/cpu/cpu{cpu}/cache"));
        for name in os.root.names(&dir).unwrap_or_default() {
            let index = dir.join(&name);
            if !name.starts_with("index") {
                continue;
            }
            let kind = match os.root.read(&index.join("type")).ok().flatten().as_deref() {
                Some("Data") => CacheKind::Data,
                Some("Instruction") => CacheKind::Instruction,
                _ => CacheKind::Unified,
            };
            let level = number(os, &index.join("level")).and_then(|n| u32::try_from(n).ok());
            let size = os.root.read(&index.join("size")).ok().flatten();
            let size_kib = size.and_then(|t| t.strip_suffix('K')?.parse().ok());
            let shared = cpus(&os.root, &index, &CACHE);
            if let (Some(level), Some(shared)) = (level, shared) {
                caches.push(Cache { level, kind, size_kib, cpus: shared });
            }
        }
    }
    caches
}

/// Nominal clock rate, from the firmware or the driver.
fn clock_mhz(os: &Os, cpu: CpuId) -> Option<u64> {
    let dir = os.root.sys.join(format!("devices/system/cpu/cpu{cpu}/cpufreq"));
    let khz = ["base_frequency", "cpuinfo_max_freq"].iter().find_map(|name| number(os, &dir.join(name)))?;
    u64::try_from(khz / 1000).ok()
}
