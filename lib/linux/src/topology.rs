//! Topology from sysfs and `/proc/cpuinfo`.
//!
//! Off-line CPUs lose most of their sysfs files; what was read while they were on-line is kept in the
//! record `topology`, so that a chip does not change its size when a CPU is taken out.

use crate::{LinuxMachine, Os, numa};
use millpond_machine::{Reason, Refusal};
use millpond_model::{
    Cache, CacheKind, ChipId, CoreId, CoreKind, CpuId, CpuSet, LgrpId, Processor, Topology,
};
use std::collections::BTreeMap;
use std::path::Path;

impl LinuxMachine {
    /// Reads the topology.
    pub(crate) fn read_topology(&self) -> Result<Topology, Refusal> {
        let os = &self.os;
        let broken = |why: String| Refusal::operation(Reason::Machine(why));
        let present = os.cpu_list("present").map_err(|e| broken(format!("the list of CPUs: {e}")))?;
        let lgroups = numa::read_nodes(&os.root, &present);
        let info = CpuInfo::read(os);
        let kinds = read_kinds(os);
        let mut cores: BTreeMap<CpuId, CoreId> = BTreeMap::new();
        let mut core_leaders: Vec<CpuId> = Vec::new();
        let mut processors = Vec::new();
        for cpu in present.iter() {
            let dir = os.root.sys.join(format!("devices/system/cpu/cpu{cpu}/topology"));
            let siblings = strands(os, cpu, &dir);
            let leader = siblings.lowest().unwrap_or(cpu);
            let core = *cores.entry(leader).or_insert_with(|| {
                core_leaders.push(leader);
                CoreId(u32::try_from(core_leaders.len() - 1).unwrap_or(u32::MAX))
            });
            let chip = number(os, &dir.join("physical_package_id")).and_then(|n| u32::try_from(n).ok());
            let lgroup = lgroups.iter().find(|l| l.cpus.contains(cpu)).map_or(LgrpId(0), |l| l.id);
            processors.push(Processor {
                id: cpu,
                core,
                chip: ChipId(chip.unwrap_or(0)),
                lgroup,
                kind: kinds.iter().find(|(_, cpus)| cpus.contains(cpu)).map(|(k, _)| *k).unwrap_or_default(),
                isa: info.isa.clone(),
                clock_mhz: info.clock_mhz(os, cpu),
                fpu: info.fpu.clone(),
                implementation: info.implementation(os, cpu),
                brand: info.brand.clone(),
            });
        }
        Topology::new(processors, read_caches(os, &present), lgroups)
            .map_err(|e| broken(format!("the topology in sysfs contradicts itself: {e}")))
    }

    /// The strands of each CPU's core: no other file is read than theirs.
    pub(crate) fn read_cores(&self, cpus: &[CpuId]) -> BTreeMap<CpuId, CpuSet> {
        let dir = |cpu: CpuId| self.os.root.sys.join(format!("devices/system/cpu/cpu{cpu}/topology"));
        cpus.iter().map(|cpu| (*cpu, strands(&self.os, *cpu, &dir(*cpu)))).collect()
    }
}

/// The strands of a CPU's core, given its directory `topology`; itself alone where the kernel does not say.
fn strands(os: &Os, cpu: CpuId, dir: &Path) -> CpuSet {
    list(os, &dir.join("core_cpus_list"))
        .or_else(|| list(os, &dir.join("thread_siblings_list")))
        .unwrap_or_else(|| std::iter::once(cpu).collect())
}

fn list(os: &Os, path: &Path) -> Option<CpuSet> {
    os.root.read(path).ok().flatten()?.parse().ok()
}

fn number(os: &Os, path: &Path) -> Option<i64> {
    os.root.read(path).ok().flatten()?.trim().parse().ok()
}

fn read_kinds(os: &Os) -> Vec<(CoreKind, CpuSet)> {
    [("cpu_core", CoreKind::Performance), ("cpu_atom", CoreKind::Efficiency)]
        .into_iter()
        .filter_map(|(name, kind)| {
            Some((kind, list(os, &os.root.sys.join("devices").join(name).join("cpus"))?))
        })
        .collect()
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
            let shared = list(os, &index.join("shared_cpu_list")).unwrap_or_default();
            if let (Some(level), false) = (level, shared.is_empty()) {
                caches.push(Cache { level, kind, size_kib, cpus: shared });
            }
        }
    }
    caches
}

/// What `/proc/cpuinfo` says, per machine (cores of one machine that differ in more than their clock are not
/// told apart here).
struct CpuInfo {
    isa: String,
    fpu: Option<String>,
    brand: String,
    vendor: String,
    family: String,
    model: String,
    stepping: String,
    mhz: BTreeMap<u32, u64>,
}

impl CpuInfo {
    fn read(os: &Os) -> Self {
        let text = os.root.read(&os.root.proc.join("cpuinfo")).ok().flatten().unwrap_or_default();
        let mut fields: BTreeMap<&str, &str> = BTreeMap::new();
        let mut mhz = BTreeMap::new();
        let mut cpu = 0;
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else { continue };
            let (key, value) = (key.trim(), value.trim());
            match key {
                "processor" => cpu = value.parse().unwrap_or(cpu),
                "cpu MHz" => {
                    let whole = value.split('.').next().and_then(|v| v.parse().ok());
                    mhz.extend(whole.map(|v: u64| (cpu, v)));
                }
                _ => {}
            }
            fields.entry(key).or_insert(value);
        }
        let field = |key: &str| fields.get(key).copied().unwrap_or_default().to_owned();
        let x86 = fields.contains_key("vendor_id");
        let fpu = if x86 {
            (field("fpu") == "yes").then(|| "i387 compatible".to_owned())
        } else {
            field("Features").split(' ').any(|f| f == "fp").then(|| "IEEE 754".to_owned())
        };
        CpuInfo {
            isa: if x86 { "i386".to_owned() } else { std::env::consts::ARCH.to_owned() },
            fpu,
            brand: field("model name"),
            vendor: if x86 { field("vendor_id") } else { field("CPU implementer") },
            family: field("cpu family"),
            model: field("model"),
            stepping: field("stepping"),
            mhz,
        }
    }

    /// Nominal clock: what the firmware or the driver says, else what the CPU was seen to run at.
    fn clock_mhz(&self, os: &Os, cpu: CpuId) -> Option<u64> {
        let dir = os.root.sys.join(format!("devices/system/cpu/cpu{cpu}/cpufreq"));
        let nominal = ["base_frequency", "cpuinfo_max_freq"]
            .iter()
            .find_map(|name| number(os, &dir.join(name)))
            .and_then(|khz| u64::try_from(khz / 1000).ok());
        nominal.or_else(|| self.mhz.get(&cpu.0).copied()).or_else(|| self.mhz.values().next().copied())
    }

    fn implementation(&self, os: &Os, cpu: CpuId) -> String {
        if self.vendor.is_empty() {
            return self.isa.clone();
        }
        let mut text = format!(
            "x86 ({} family {} model {} step {}",
            self.vendor, self.family, self.model, self.stepping
        );
        if self.isa != "i386" {
            text = format!("{} (implementer {}", self.isa, self.vendor);
        }
        if let Some(mhz) = self.clock_mhz(os, cpu) {
            text.push_str(&format!(" clock {mhz} MHz"));
        }
        text.push(')');
        text
    }
}
