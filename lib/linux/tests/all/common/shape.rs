//! Synthetic sysfs trees of machines, from short descriptions.
//!
//! `2x2x2 split nodes=2 off=5` is a machine of two chips with two cores of two strands each. Further words:
//!
//! | Word | Meaning |
//! |---|---|
//! | `split` | CPUs are numbered by strand, chip and core; without it by chip, core and strand |
//! | `nodes=2` | number of nodes; CPUs are divided among them in order of chips and cores |
//! | `fake=4` | number of emulated nodes, each with all CPUs |
//! | `no-memory=1` | this node has no memory |
//! | `off=5-6` | these CPUs are off-line |
//! | `nosmt` | SMT was switched off at boot |
//! | `smt=2` | number of on-line strands per core, as with `ppc64_cpu --smt` |
//! | `e=4` | number of additional Intel E-cores, with one strand each and an L2 cache for four |
//! | `little=0-3` | these CPUs have less than half of the capacity |
//! | `l3=2` | number of cores that share an L3 cache; default: all of a chip |
//! | `l2=2` | number of cores that share an L2 cache; default: one |
//! | `no-chip-id` | `physical_package_id` is -1 |
//! | `masks` | CPU masks instead of lists |
//! | `no-lists` | the files `possible`, `present` and `online` are missing |
//! | `arch=s390x` | the architecture |

use millpond_model::{CpuId, CpuSet};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A strand: its CPU, its chip, the index of its core in the machine, and its index in the core.
#[derive(Debug, Clone, Copy)]
struct Strand {
    cpu: CpuId,
    chip: usize,
    core: usize,
    strand: usize,
}

/// The description of a machine.
#[derive(Debug, Clone)]
pub struct Shape {
    words: BTreeMap<String, String>,
    strands: Vec<Strand>,
    cores: usize,
}

impl Shape {
    /// Parses a description.
    pub fn new(text: &str) -> Shape {
        let mut words = text.split(' ');
        let sizes: Vec<usize> = words.next().unwrap().split('x').map(|n| n.parse().unwrap()).collect();
        let [chips, per_chip, threads] = sizes.try_into().unwrap();
        let words: BTreeMap<String, String> =
            words.map(|w| w.split_once('=').unwrap_or((w, ""))).map(|(k, v)| (k.into(), v.into())).collect();
        let mut strands = Vec::new();
        for core in 0..chips * per_chip {
            for strand in 0..threads {
                let split = words.contains_key("split");
                let cpu = if split { strand * chips * per_chip + core } else { core * threads + strand };
                strands.push(Strand { cpu: cpu_id(cpu), chip: core / per_chip, core, strand });
            }
        }
        let mut shape = Shape { words, cores: chips * per_chip, strands };
        for _ in 0..shape.number("e").unwrap_or(0) {
            let cpu = cpu_id(shape.strands.len());
            shape.strands.push(Strand { cpu, chip: chips - 1, core: shape.cores, strand: 0 });
            shape.cores += 1;
        }
        shape
    }

    fn has(&self, word: &str) -> bool {
        self.words.contains_key(word)
    }

    fn number(&self, word: &str) -> Option<usize> {
        self.words.get(word).map(|value| value.parse().unwrap())
    }

    fn list(&self, word: &str) -> CpuSet {
        self.words.get(word).map(|value| value.parse().unwrap()).unwrap_or_default()
    }

    fn cpus(&self, wanted: impl Fn(&Strand) -> bool) -> CpuSet {
        self.strands.iter().filter(|s| wanted(s)).map(|s| s.cpu).collect()
    }

    /// All CPUs.
    pub fn present(&self) -> CpuSet {
        self.cpus(|_| true)
    }

    /// The on-line CPUs.
    pub fn online(&self) -> CpuSet {
        let most = if self.has("nosmt") { 1 } else { self.number("smt").unwrap_or(usize::MAX) };
        &self.cpus(|s| s.strand < most) - &self.list("off")
    }

    fn architecture(&self) -> &str {
        self.words.get("arch").map_or("x86_64", String::as_str)
    }

    fn node(&self, of: &Strand) -> usize {
        of.core * self.number("nodes").unwrap_or(1) / self.cores
    }

    /// Writes the tree, replacing the current one.
    pub fn write(&self, root: &Path) {
        self.write_with(root, &self.online());
    }

    /// Writes the tree with only these CPUs on-line.
    pub fn write_with(&self, root: &Path, online: &CpuSet) {
        let sys = root.join("sys/devices/system");
        let _ = fs::remove_dir_all(sys.join("cpu"));
        let _ = fs::remove_dir_all(sys.join("node"));
        let file = |path: &str, text: &str| write(&sys.join(path), text);
        let sets = |dir: &str, [list, mask]: [&str; 2], cpus: &CpuSet| {
            if self.has("masks") {
                file(&format!("{dir}/{mask}"), &cpus.to_mask(8));
            } else {
                file(&format!("{dir}/{list}"), &cpus.to_string());
            }
        };
        if !self.has("no-lists") {
            for (name, cpus) in
                [("possible", &self.present()), ("present", &self.present()), ("online", online)]
            {
                file(&format!("cpu/{name}"), &cpus.to_string());
            }
        }
        let smt = match self.words.get("smt") {
            Some(most) => most.as_str(),
            None if self.has("nosmt") => "off",
            None => "on",
        };
        file("cpu/smt/control", smt);
        for of in &self.strands {
            let dir = format!("cpu/cpu{}", of.cpu);
            let linked = if self.has("fake") { 0 } else { self.node(of) };
            fs::create_dir_all(sys.join(format!("{dir}/node{linked}"))).unwrap();
            if of.cpu != CpuId(0) {
                file(&format!("{dir}/online"), if online.contains(of.cpu) { "1" } else { "0" });
            }
            if self.has("little") {
                let capacity = if self.list("little").contains(of.cpu) { "446" } else { "1024" };
                file(&format!("{dir}/cpu_capacity"), capacity);
            }
            if !online.contains(of.cpu) {
                continue;
            }
            let seen = |wanted: &dyn Fn(&Strand) -> bool| &self.cpus(wanted) & online;
            let topology = format!("{dir}/topology");
            sets(&topology, ["thread_siblings_list", "thread_siblings"], &seen(&|s| s.core == of.core));
            sets(&topology, ["core_siblings_list", "core_siblings"], &seen(&|s| s.chip == of.chip));
            let chip = if self.has("no-chip-id") { "-1".to_owned() } else { of.chip.to_string() };
            file(&format!("{topology}/physical_package_id"), &chip);
            let (l2, l3) = (self.number("l2").unwrap_or(1), self.number("l3").unwrap_or(usize::MAX));
            let first_e = self.cores - self.number("e").unwrap_or(0);
            let l2_of = |s: &Strand| match s.core.checked_sub(first_e) {
                Some(e) => (true, e / 4),
                None => (false, s.core / l2),
            };
            for (level, kind, cpus) in [
                (1, "Data", seen(&|s| s.core == of.core)),
                (2, "Unified", seen(&|s| l2_of(s) == l2_of(of))),
                (3, "Unified", seen(&|s| s.chip == of.chip && s.core / l3 == of.core / l3)),
            ] {
                let cache = format!("{dir}/cache/index{level}");
                file(&format!("{cache}/level"), &level.to_string());
                file(&format!("{cache}/type"), kind);
                sets(&cache, ["shared_cpu_list", "shared_cpu_map"], &cpus);
            }
        }
        for node in 0..self.number("fake").or(self.number("nodes")).unwrap_or(1) {
            let dir = format!("node/node{node}");
            let is_here = |s: &Strand| self.has("fake") || self.node(s) == node;
            sets(&dir, ["cpulist", "cpumap"], &(&self.cpus(is_here) & online));
            let far = if self.has("fake") { "10" } else { "20" };
            let nodes = self.number("fake").or(self.number("nodes")).unwrap_or(1);
            let distances: Vec<&str> =
                (0..nodes).map(|other| if other == node { "10" } else { far }).collect();
            file(&format!("{dir}/distance"), &distances.join(" "));
            let memory = if self.number("no-memory") == Some(node) { 0 } else { 2_040_832 };
            file(&format!("{dir}/meminfo"), &format!("Node {node} MemTotal:  {memory} kB"));
        }
        self.write_kinds(root, online);
    }

    fn write_kinds(&self, root: &Path, online: &CpuSet) {
        if let Some(count) = self.number("e") {
            let atom = self.cpus(|s| s.core >= self.cores - count);
            for (name, cpus) in [("cpu_core", &self.present() - &atom), ("cpu_atom", atom)] {
                write(&root.join(format!("sys/devices/{name}/cpus")), &(&cpus & online).to_string());
            }
        }
        let (keys, each) = match self.architecture() {
            "x86_64" => {
                ("", "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 58\nstepping : 9\nfpu : yes\n")
            }
            "s390x" => ("vendor_id : IBM/S390\nprocessor 0: version = FF,  machine = 2964\n", ""),
            "ppc64le" => (
                "timebase : 512000000\n",
                "cpu : POWER9, altivec supported\nrevision : 2.2\nclock : 2300.000000MHz\n",
            ),
            "aarch64" => ("", "Features : fp asimd\nCPU implementer : 0x41\nCPU part : 0xd0c\n"),
            "riscv64" => ("", "isa : rv64imafdc\nuarch : sifive,u74-mc\n"),
            "loongarch64" => {
                ("", "CPU Family : Loongson-64bit\nModel Name : Loongson-3A5000\nFeatures : fpu\n")
            }
            other => panic!("{other}"),
        };
        let cpus: String = online.iter().map(|cpu| format!("processor : {cpu}\n{each}\n")).collect();
        write(&root.join("proc/cpuinfo"), &format!("{keys}\n{cpus}"));
        write(&root.join("proc/sys/kernel/arch"), self.architecture());
    }
}

fn cpu_id(number: usize) -> CpuId {
    CpuId(u32::try_from(number).unwrap())
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("{text}\n")).unwrap();
}
