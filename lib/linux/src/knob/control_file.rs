//! The kernel's control files that hold CPU lists, node lists and partitions: where each is, and how its text is read and written.

use millpond_machine::Value;
use millpond_model::{CpuId, CpuSet, MachineSetting};

/// A control file of the cpuset controller, which every cgroup has.
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

    /// The name of the file.
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

    /// The value of the file's text; `None` for the default.
    pub(crate) fn value_of(self, text: &str) -> Option<Value> {
        self.form().value_of(text)
    }
}

/// Which way the packets of a queue go whose CPUs a mask names.
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

/// A control file that a knob stands for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ControlFile {
    /// A file of the cgroup with this path.
    Cpuset(String, CpusetFile),
    /// The CPUs that an interrupt may go to.
    IrqAffinity(u32),
    /// The same for interrupts that are yet to be set up.
    DefaultIrqAffinity,
    /// The CPUs of all unbound workqueues.
    UnboundCpumask,
    /// The CPUs of one unbound workqueue.
    WorkqueueCpumask(String),
    /// The CPUs of a queue of a network interface.
    Packets {
        /// The interface.
        interface: String,
        /// Its queue: `rx-0`.
        queue: String,
        /// Which of its masks.
        mask: PacketMask,
    },
    /// The online state of a CPU.
    Online(CpuId),
    /// The CPUs that the detectors of lockups watch.
    WatchdogCpumask,
    /// How long it may take to leave an idle state of a CPU, in microseconds: `0` for any time, `n/a` for none.
    IdleLatency(CpuId),
    /// Who chooses the frequency of a CPU.
    Governor(CpuId),
    /// Nanoseconds of each period that a CPU keeps for ordinary threads while real-time threads want all of it (since 6.12).
    FairServer(CpuId),
    /// A setting of the whole machine.
    Machine(MachineSetting),
    /// Whether CPUs may *not* run faster than they can for long: with the driver intel_pstate.
    NoTurbo,
    /// What a group of resctrl gets of a resource, as `0=ff;1=ff`; without a name, the group of all that are in no other.
    Schema(Option<String>, Resource),
    /// The CPUs of a group of resctrl.
    CacheCpus(String),
}

/// A resource that resctrl shares out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// Ways of L3 caches.
    L3,
    /// Memory bandwidth.
    Bandwidth,
}

impl Resource {
    const ALL: [Resource; 2] = [Resource::L3, Resource::Bandwidth];

    /// As its line in `schemata` begins.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Resource::L3 => "L3",
            Resource::Bandwidth => "MB",
        }
    }

    /// The part of a line of `schemata` after the resource, if it is this one's.
    fn in_line(self, line: &str) -> Option<&str> {
        Some(line.trim().strip_prefix(self.name())?.strip_prefix(':')?.trim())
    }
}

/// Where the kernel keeps settings of the whole machine.
const MACHINE_SETTINGS: [(MachineSetting, &str, &str); 4] = [
    (MachineSetting::NumaBalancing, "proc", "sys/kernel/numa_balancing"),
    (MachineSetting::StatInterval, "proc", "sys/vm/stat_interval"),
    (MachineSetting::TimerMigration, "proc", "sys/kernel/timer_migration"),
    (MachineSetting::Turbo, "sys", "devices/system/cpu/cpufreq/boost"),
];

const NO_TURBO: &str = "devices/system/cpu/intel_pstate/no_turbo";

/// Where resctrl is mounted, below `sys`.
pub(crate) const RESCTRL: &str = "fs/resctrl";
const CPU: &str = "devices/system/cpu/cpu";
const WORKQUEUES: &str = "devices/virtual/workqueue";

impl ControlFile {
    /// A file of the cpuset controller.
    #[must_use]
    pub fn cpuset(group: &str, file: CpusetFile) -> Self {
        ControlFile::Cpuset(group.to_owned(), file)
    }

    /// As the journal writes it: the tree that it is in, and its path there.
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

    /// The file of a tree and a path; `None` where that is no file that is ever changed.
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

    /// Brings the text of the file into its one spelling; `None` for the default.
    pub(crate) fn value_of(&self, text: &str) -> Option<Value> {
        self.form().value_of(text)
    }

    /// The text to write for a value. `width` is how many CPUs a mask of this kernel has.
    pub(crate) fn text_of(&self, value: Option<&Value>, width: u32) -> String {
        match (self.form(), value) {
            (Form::Word { default }, None) if !default.is_empty() => default.to_owned(),
            (Form::Line { of }, Some(value)) => format!("{}:{value}\n", of.name()),
            // An empty write does nothing; a line end empties a list.
            (_, None) => "\n".to_owned(),
            (Form::Mask, Some(list)) => list.parse::<CpuSet>().unwrap_or_default().to_mask(width),
            (Form::List | Form::Word { .. }, Some(value)) => value.clone(),
        }
    }

    /// Whether it belongs to interrupts of devices.
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

    /// The cgroup that it belongs to.
    pub(crate) fn cgroup(&self) -> Option<&str> {
        match self {
            ControlFile::Cpuset(group, _) => Some(group),
            _ => None,
        }
    }
}

/// The form of a file's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A CPU or node list.
    List,
    /// A hexadecimal mask in the file, a list in the value.
    Mask,
    /// A line of several.
    Line {
        /// The resource that it is about.
        of: Resource,
    },
    /// Text as it is, with what it says by default.
    Word {
        /// What the file says when it is reset.
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
