//! The kernel's control files with CPU lists, node lists and partitions: their locations, and the conversion of their texts.

use millpond_machine::Value;
use millpond_model::{CpuId, CpuSet, MachineSetting};

/// A control file of the cpuset controller, in every cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CpusetFile {
    /// `cpuset.cpus`.
    Cpus,
    /// `cpuset.cpus.exclusive` (version 2, since 6.7).
    ExclusiveCpus,
    /// `cpuset.cpus.partition` (version 2).
    Partition,
    /// `cpuset.mems`.
    Mems,
    /// `cpuset.memory_migrate` (version 1).
    MemoryMigrate,
}

impl CpusetFile {
    const ALL: [CpusetFile; 5] = [
        CpusetFile::Cpus,
        CpusetFile::ExclusiveCpus,
        CpusetFile::Partition,
        CpusetFile::Mems,
        CpusetFile::MemoryMigrate,
    ];

    /// The file name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CpusetFile::Cpus => "cpuset.cpus",
            CpusetFile::ExclusiveCpus => "cpuset.cpus.exclusive",
            CpusetFile::Partition => "cpuset.cpus.partition",
            CpusetFile::Mems => "cpuset.mems",
            CpusetFile::MemoryMigrate => "cpuset.memory_migrate",
        }
    }

    fn form(self) -> Form {
        match self {
            CpusetFile::Cpus | CpusetFile::ExclusiveCpus | CpusetFile::Mems => Form::List,
            CpusetFile::Partition => Form::Word { default: "member" },
            CpusetFile::MemoryMigrate => Form::Word { default: "0" },
        }
    }

    /// The value for a text of the file; `None` for the default.
    pub(crate) fn value_of(self, text: &str) -> Option<Value> {
        self.form().value_of(text)
    }
}

/// The direction of the packets to which an RPS or XPS mask applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PacketMask {
    /// Receive Packet Steering.
    Rps,
    /// Transmit Packet Steering.
    Xps,
}

impl std::fmt::Display for PacketMask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            PacketMask::Rps => "RPS",
            PacketMask::Xps => "XPS",
        })
    }
}

impl PacketMask {
    fn file(self) -> &'static str {
        match self {
            PacketMask::Rps => "rps_cpus",
            PacketMask::Xps => "xps_cpus",
        }
    }
}

/// A control file with a knob.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ControlFile {
    /// A file of the cgroup at this path.
    Cpuset(String, CpusetFile),
    /// The allowed CPUs of an interrupt.
    IrqAffinity(u32),
    /// The allowed CPUs of future interrupts.
    DefaultIrqAffinity,
    /// The CPUs of all unbound workqueues.
    UnboundCpumask,
    /// The CPUs of one unbound workqueue.
    WorkqueueCpumask(String),
    /// An RPS or XPS mask of a queue of a network interface.
    Packets {
        /// The network interface.
        interface: String,
        /// The queue: `rx-0`.
        queue: String,
        /// Which mask of the queue.
        mask: PacketMask,
    },
    /// The online state of a CPU.
    Online(CpuId),
    /// The CPUs that the lockup detectors watch.
    WatchdogCpumask,
    /// The limit for leaving an idle state of a CPU, in microseconds: `0` for no limit, `n/a` for no idle states.
    IdleLatency(CpuId),
    /// The frequency governor of a CPU.
    Governor(CpuId),
    /// Nanoseconds of each period that the fair server reserves on a CPU for ordinary threads (since 6.12).
    FairServer(CpuId),
    /// A setting of the whole machine.
    Machine(MachineSetting),
    /// Whether turbo frequencies are disabled: with the driver intel_pstate.
    NoTurbo,
    /// The allocation of a resctrl group for a resource, as `0=ff;1=ff`; without a name, that of the default group.
    Schema(Option<String>, Resource),
    /// The CPUs of a resctrl group.
    CacheCpus(String),
}

/// A resource of resctrl.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// Ways of L3 caches.
    L3,
    /// Memory bandwidth.
    Bandwidth,
}

impl Resource {
    const ALL: [Resource; 2] = [Resource::L3, Resource::Bandwidth];

    /// The start of its line in `schemata`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Resource::L3 => "L3",
            Resource::Bandwidth => "MB",
        }
    }

    /// The rest of a line of `schemata`, if the line is about this resource.
    fn in_line(self, line: &str) -> Option<&str> {
        Some(line.trim().strip_prefix(self.name())?.strip_prefix(':')?.trim())
    }
}

/// Files of settings of the whole machine.
const MACHINE_SETTINGS: [(MachineSetting, &str, &str); 4] = [
    (MachineSetting::NumaBalancing, "proc", "sys/kernel/numa_balancing"),
    (MachineSetting::StatInterval, "proc", "sys/vm/stat_interval"),
    (MachineSetting::TimerMigration, "proc", "sys/kernel/timer_migration"),
    (MachineSetting::Turbo, "sys", "devices/system/cpu/cpufreq/boost"),
];

const NO_TURBO: &str = "devices/system/cpu/intel_pstate/no_turbo";

/// Mount point of resctrl, below `sys`.
pub(crate) const RESCTRL: &str = "fs/resctrl";
const CPU: &str = "devices/system/cpu/cpu";
const WORKQUEUES: &str = "devices/virtual/workqueue";

impl ControlFile {
    /// A file of the cpuset controller.
    #[must_use]
    pub fn cpuset(group: &str, file: CpusetFile) -> Self {
        ControlFile::Cpuset(group.to_owned(), file)
    }

    /// The journal's form: tree and path.
    #[must_use]
    pub(crate) fn text(&self) -> (&'static str, String) {
        match self {
            ControlFile::Cpuset(group, file) => {
                ("cg", format!("{}/{}", group.trim_end_matches('/'), file.name()))
            }
            ControlFile::IrqAffinity(irq) => ("proc", format!("irq/{irq}/smp_affinity_list")),
            ControlFile::DefaultIrqAffinity => ("proc", "irq/default_smp_affinity".to_owned()),
            ControlFile::UnboundCpumask => ("sys", format!("{WORKQUEUES}/cpumask")),
            ControlFile::WorkqueueCpumask(name) => ("sys", format!("{WORKQUEUES}/{name}/cpumask")),
            ControlFile::Packets { interface, queue, mask } => {
                ("sys", format!("class/net/{interface}/queues/{queue}/{}", mask.file()))
            }
            ControlFile::Online(cpu) => ("sys", format!("{CPU}{cpu}/online")),
            ControlFile::WatchdogCpumask => ("proc", "sys/kernel/watchdog_cpumask".to_owned()),
            ControlFile::IdleLatency(cpu) => ("sys", format!("{CPU}{cpu}/power/pm_qos_resume_latency_us")),
            ControlFile::Governor(cpu) => ("sys", format!("{CPU}{cpu}/cpufreq/scaling_governor")),
            ControlFile::FairServer(cpu) => {
                ("sys", format!("kernel/debug/sched/fair_server/cpu{cpu}/runtime"))
            }
            ControlFile::Machine(wanted) => {
                let found = MACHINE_SETTINGS.into_iter().find(|(setting, _, _)| setting == wanted);
                found.map_or(("sys", String::new()), |(_, tree, path)| (tree, path.to_owned()))
            }
            ControlFile::NoTurbo => ("sys", NO_TURBO.to_owned()),
            ControlFile::Schema(group, resource) => {
                let dir = group.as_deref().map_or(String::new(), |group| format!("{group}/"));
                ("sys", format!("{RESCTRL}/{dir}schemata#{}", resource.name()))
            }
            ControlFile::CacheCpus(group) => ("sys", format!("{RESCTRL}/{group}/cpus_list")),
        }
    }

    /// The control file of a tree and a path; `None` if such a file is never changed.
    pub(super) fn parse(tree: &str, path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.split('/').collect();
        if parts.contains(&"..") || path.contains('\0') {
            return None;
        }
        if let Some((setting, ..)) = MACHINE_SETTINGS.into_iter().find(|(_, t, p)| (*t, *p) == (tree, path)) {
            return Some(ControlFile::Machine(setting));
        }
        Some(match (tree, parts.as_slice()) {
            ("sys", _) if path == NO_TURBO => ControlFile::NoTurbo,
            ("sys", ["kernel", "debug", "sched", "fair_server", cpu, "runtime"]) => {
                ControlFile::FairServer(CpuId(cpu.strip_prefix("cpu")?.parse().ok()?))
            }
            ("cg", ["", .., name]) => {
                let group = path.strip_suffix(name)?.strip_suffix('/')?;
                let file = CpusetFile::ALL.into_iter().find(|file| file.name() == *name)?;
                ControlFile::Cpuset(if group.is_empty() { "/" } else { group }.to_owned(), file)
            }
            ("proc", ["irq", "default_smp_affinity"]) => ControlFile::DefaultIrqAffinity,
            ("proc", ["irq", irq, "smp_affinity_list"]) => ControlFile::IrqAffinity(irq.parse().ok()?),
            ("sys", ["devices", "virtual", "workqueue", "cpumask"]) => ControlFile::UnboundCpumask,
            ("sys", ["devices", "virtual", "workqueue", name, "cpumask"]) => {
                ControlFile::WorkqueueCpumask((*name).to_owned())
            }
            ("sys", ["class", "net", interface, "queues", queue, name]) => {
                let mask = [PacketMask::Rps, PacketMask::Xps].into_iter().find(|m| m.file() == *name)?;
                let (interface, queue) = ((*interface).to_owned(), (*queue).to_owned());
                ControlFile::Packets { interface, queue, mask }
            }
            ("sys", ["fs", "resctrl", group, "cpus_list"]) => ControlFile::CacheCpus((*group).to_owned()),
            ("sys", ["fs", "resctrl", group @ .., file]) if group.len() < 2 => {
                let name = file.strip_prefix("schemata#")?;
                let resource = Resource::ALL.into_iter().find(|resource| resource.name() == name)?;
                ControlFile::Schema(group.first().map(|group| (*group).to_owned()), resource)
            }
            ("proc", ["sys", "kernel", "watchdog_cpumask"]) => ControlFile::WatchdogCpumask,
            ("sys", ["devices", "system", "cpu", cpu, file @ ..]) => {
                let cpu = CpuId(cpu.strip_prefix("cpu")?.parse().ok()?);
                match file {
                    ["online"] => ControlFile::Online(cpu),
                    ["power", "pm_qos_resume_latency_us"] => ControlFile::IdleLatency(cpu),
                    ["cpufreq", "scaling_governor"] => ControlFile::Governor(cpu),
                    _ => return None,
                }
            }
            _ => return None,
        })
    }

    fn form(&self) -> Form {
        match self {
            ControlFile::Cpuset(_, file) => file.form(),
            ControlFile::IrqAffinity(_) | ControlFile::WatchdogCpumask | ControlFile::CacheCpus(_) => {
                Form::List
            }
            ControlFile::Schema(_, resource) => Form::Line { of: *resource },
            ControlFile::DefaultIrqAffinity
            | ControlFile::UnboundCpumask
            | ControlFile::WorkqueueCpumask(_)
            | ControlFile::Packets { .. } => Form::Mask,
            ControlFile::Online(_)
            | ControlFile::IdleLatency(_)
            | ControlFile::Governor(_)
            | ControlFile::FairServer(_)
            | ControlFile::Machine(_)
            | ControlFile::NoTurbo => Form::Word { default: "" },
        }
    }

    /// The canonical value for a text of the file; `None` for the default.
    pub(crate) fn value_of(&self, text: &str) -> Option<Value> {
        self.form().value_of(text)
    }

    /// The text to write for a value. `width` is the number of CPUs in a mask of this kernel.
    pub(crate) fn text_of(&self, value: Option<&Value>, width: u32) -> String {
        match (self.form(), value) {
            (Form::Word { default }, None) if !default.is_empty() => default.to_owned(),
            (Form::Line { of }, Some(value)) => format!("{}:{value}\n", of.name()),
            // An empty write has no effect; a newline empties a list.
            (_, None) => "\n".to_owned(),
            (Form::Mask, Some(list)) => list.parse::<CpuSet>().unwrap_or_default().to_mask(width),
            (Form::List | Form::Word { .. }, Some(value)) => value.clone(),
        }
    }

    /// Whether it is about device interrupts.
    pub(crate) fn is_irq(&self) -> bool {
        matches!(self, ControlFile::IrqAffinity(_) | ControlFile::DefaultIrqAffinity)
    }

    /// Whether only fences change it.
    pub(crate) fn is_shelter(&self) -> bool {
        matches!(
            self,
            ControlFile::WatchdogCpumask
                | ControlFile::IdleLatency(_)
                | ControlFile::Governor(_)
                | ControlFile::FairServer(_)
                | ControlFile::Machine(_)
                | ControlFile::NoTurbo
                | ControlFile::Schema(None, _)
        )
    }

    /// The cgroup of the file.
    pub(crate) fn cgroup(&self) -> Option<&str> {
        match self {
            ControlFile::Cpuset(group, _) => Some(group),
            _ => None,
        }
    }
}

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A CPU or node list.
    List,
    /// A hexadecimal mask in the file, a list in the value.
    Mask,
    /// One line of several.
    Line {
        /// The resource of the line.
        of: Resource,
    },
    /// A word, with the word for the default.
    Word {
        /// The word that resets the file.
        default: &'static str,
    },
}

impl Form {
    fn value_of(self, text: &str) -> Option<Value> {
        if let Form::Line { of } = self {
            return text.lines().find_map(|line| of.in_line(line)).map(str::to_owned);
        }
        let set = match self {
            Form::List => text.parse::<CpuSet>().ok(),
            Form::Mask => CpuSet::from_mask(text).ok(),
            Form::Word { default } if text == default => return None,
            Form::Word { .. } | Form::Line { .. } => None,
        };
        match set {
            Some(set) => super::list_value(&set),
            None => (!text.is_empty()).then(|| text.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_have_one_spelling() {
        assert_eq!(CpusetFile::Cpus.value_of("0,1,2,5"), Some("0-2,5".into()));
        assert_eq!(ControlFile::DefaultIrqAffinity.value_of("f"), Some("0-3".into()));
        assert_eq!(CpusetFile::Cpus.value_of(""), None);
        assert_eq!(CpusetFile::Partition.value_of("member"), None);
        assert_eq!(CpusetFile::Partition.value_of("root invalid"), Some("root invalid".into()));
        assert_eq!(CpusetFile::MemoryMigrate.value_of("0"), None);
        assert_eq!(ControlFile::Online(CpuId(3)).value_of("0"), Some("0".into()));
        let schemata = "    MB:0=100;1=100\n    L3:0=fff;1=fff\n";
        assert_eq!(ControlFile::Schema(None, Resource::L3).value_of(schemata), Some("0=fff;1=fff".into()));
        assert_eq!(ControlFile::Schema(None, Resource::L3).value_of("L3CODE:0=f\n"), None);
    }

    #[test]
    fn each_file_is_written_in_the_form_that_the_kernel_reads() {
        let two = Some("1,33".to_owned());
        let root = Some("root".to_owned());
        for (tree, path, value, text) in [
            ("cg", "/mpset1/cpuset.cpus", &two, "1,33"),
            ("cg", "/mpset1/cpuset.cpus", &None, "\n"),
            ("cg", "/mpset1/cpuset.cpus.partition", &root, "root"),
            ("cg", "/mpset1/cpuset.cpus.partition", &None, "member"),
            ("cg", "/mpset1/cpuset.memory_migrate", &None, "0"),
            ("proc", "irq/24/smp_affinity_list", &two, "1,33"),
            ("proc", "irq/default_smp_affinity", &two, "00000002,00000002"),
            ("sys", "devices/virtual/workqueue/cpumask", &two, "00000002,00000002"),
            ("sys", "class/net/eth0/queues/rx-0/rps_cpus", &None, "\n"),
            ("proc", "sys/kernel/watchdog_cpumask", &two, "1,33"),
            ("sys", "fs/resctrl/mpset1/cpus_list", &two, "1,33"),
            ("sys", "fs/resctrl/mpset1/schemata#MB", &Some("0=50".to_owned()), "MB:0=50\n"),
        ] {
            let file = ControlFile::parse(tree, path).unwrap();
            assert_eq!(file.text_of(value.as_ref(), 64), text, "{path}");
        }
    }
}
