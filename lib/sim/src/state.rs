//! The complete state of a simulated machine as plain data, saved and loaded as JSON.

use crate::holder_map::HolderMap;
use crate::kernel::{CpuIndex, Executed, HZ_MAX, Halt, Hardware, Kernel, Recalled, Spells, ThreadId};
use crate::layout;
use crate::load_average::LoadAverage;
use crate::results::Counted;
use crate::tables::{
    LwpRecord, ProcessRecord, ProcessorRecord, ROOT_PROJECT, SYSTEM_PROJECT, Tables, Tunables, usual_projects,
};
use millpond_machine::facets::Job;
use millpond_model::{
    Cause, ClassParams, ControlValues, CpuId, Lwp, LwpId, Nanos, Pid, PoolId, PsetId, SERVICES, Service,
    State, Topology, WallTime,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Version of the saved form. It is raised when an older program could not read a newer file.
pub const FORMAT: u32 = 5;

/// The previous version, which can be read too. Its files contain the kernel's copy of the tables.
const FORMAT_BEFORE: u32 = 4;

/// The highest set id in a file. The kernel allocates an entry for each id up to the highest.
const SET_MAX: u32 = 65_536;

/// Default boot time of a simulated machine: 2024-11-20 08:14:02 UTC.
pub const BOOTED: WallTime = WallTime(1_732_090_442);

/// The pid of the first process that is started on a new machine.
const FIRST_PID: Pid = Pid(300);

/// The state of a simulated machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimState {
    /// [`FORMAT`].
    pub format: u32,
    /// The machine's name.
    pub name: String,
    /// Boot id.
    pub boot: String,
    /// Wall-clock time of the boot.
    pub booted: WallTime,
    /// CPUs, caches and lgroups.
    pub topology: Topology,
    /// Devices that raise interrupts.
    pub devices: Vec<Device>,
    /// Tunables of this boot.
    #[serde(default)]
    pub tunables: Tunables,
    /// Its zones, `global` first. Processes refer to them by name.
    pub zones: Vec<String>,
    /// State that commands change.
    pub tables: Tables,
    /// Threads, CPUs and simulated time.
    pub kernel: Kernel,
    /// Threads that execute, by their number in the kernel. Other threads sleep for ever and cost nothing.
    pub threads: BTreeMap<ThreadId, Lwp>,
    /// Run time of watched processes: nanoseconds by process and CPU index.
    pub residence: BTreeMap<Pid, BTreeMap<CpuIndex, u64>>,
    /// Holders of shares and caps: projects, zones and processes.
    #[serde(rename = "holdings", default)]
    pub holder_map: HolderMap,
    /// Noise of the watched job, while it is watched.
    #[serde(skip)]
    pub account: Option<Account>,
    /// Operations counted by threads that have ended, by process.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub operations: BTreeMap<Pid, u64>,
    /// Results of programs that run, or that ended and whose results have not been read.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub results: BTreeMap<Pid, Counted>,
    /// Births and ends of threads, while they are followed.
    #[serde(skip)]
    pub notes: Option<Vec<Note>>,
    /// The reason of a halt.
    pub halted: Option<Halt>,
    /// Enabled services.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub services: BTreeSet<Service>,
    /// Number of reboots.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub boots: u32,
    /// The machine's own tunables, which a reboot restores where no file sets others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_tunables: Option<Tunables>,
    /// Scheduling class and parameters of started processes.
    #[serde(default, skip_serializing_if = "is_usual_class")]
    pub start_class: ClassParams,
    /// The described processes of its zones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Held>,
    /// Zones whose processes execute.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub running_zones: BTreeSet<String>,
    /// Halted zones. They have no processes until they boot.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub halted_zones: BTreeSet<String>,
    /// Described zone ids of running zones.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub zone_ids: BTreeMap<String, u32>,
    /// Load averages.
    #[serde(default, skip_serializing_if = "LoadAverage::is_none")]
    pub load: LoadAverage,
    /// When services entered their states, unless at boot.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub since: BTreeMap<Service, WallTime>,
    /// End times of processes with a limited run time, in nanoseconds since boot.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ends: BTreeMap<Pid, u64>,
    /// Files that commands refer to by name, with their text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
}

/// A birth or an end of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// A thread forked a process of one thread.
    Born {
        /// The thread.
        parent: Lwp,
        /// The process.
        child: Pid,
    },
    /// A thread ended.
    Ended {
        /// The thread.
        lwp: Lwp,
        /// The instructions that it executed.
        executed: Executed,
    },
}

/// Noise so far, and the job that it is counted for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    pub(crate) job: Job,
    /// By CPU index, cause and process.
    pub(crate) seen: BTreeMap<(CpuIndex, Cause, Option<Pid>), Spells>,
}

/// A process of a zone as the machine file describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// Its pid.
    pub pid: Pid,
    /// Its zone.
    pub zone: String,
    /// Its name.
    pub name: String,
    /// Number of threads.
    pub threads: u32,
    /// The workload that it executes after the zone has booted (`cg -t 2`); empty for a sleeping process.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub load: String,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes references
fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_usual_class(class: &ClassParams) -> bool {
    *class == ClassParams::default()
}

/// A device and the default CPU of its interrupts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Its name and instance (`e1000g0`).
    pub name: String,
    /// The CPU that takes its interrupts; if that CPU takes none, the next one that does.
    pub processor: CpuId,
    /// Its kind.
    #[serde(default)]
    pub kind: DeviceKind,
}

/// The kind of a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// A network interface.
    Network,
    /// A disk.
    Disk,
    /// Anything else.
    #[default]
    Other,
}

/// A text that is not a valid saved machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// A syntax error.
    #[error("line {line}, column {column}: {what}")]
    Malformed {
        /// The line.
        line: usize,
        /// The column.
        column: usize,
        /// The error.
        what: String,
    },
    /// Another version of the format.
    #[error("it was saved in format {found}; this program understands formats {FORMAT_BEFORE} and {FORMAT}")]
    Format {
        /// Its version.
        found: u32,
    },
    /// Inconsistent state.
    #[error("{0}")]
    Contradiction(String),
}

impl SimState {
    /// A freshly booted machine: all CPUs on-line in the default set, and the usual system processes.
    #[must_use]
    pub fn booted(
        name: &str,
        topology: Topology,
        hardware: Hardware,
        booted: WallTime,
        tunables: Tunables,
    ) -> Self {
        let dispatch = Arc::new(tunables.tables());
        let layout = layout::layout(&topology, hardware);
        let record = ProcessorRecord {
            state: State::OnLine,
            since: booted,
            set: PsetId::DEFAULT,
            arrival: 0,
            former: Vec::new(),
        };
        let processors = topology.processors().iter().map(|p| (p.id, record.clone())).collect();
        SimState {
            format: FORMAT,
            name: name.to_owned(),
            boot: format!("{name}-{}", booted.0),
            booted,
            kernel: Kernel::new(&layout, Arc::clone(&dispatch), layout::tunables(&tunables)),
            threads: BTreeMap::new(),
            residence: BTreeMap::new(),
            holder_map: HolderMap::default(),
            account: None,
            operations: BTreeMap::new(),
            results: BTreeMap::new(),
            notes: None,
            halted: None,
            services: BTreeSet::new(),
            boots: 0,
            own_tunables: None,
            start_class: ClassParams::default(),
            held: Vec::new(),
            running_zones: BTreeSet::new(),
            halted_zones: BTreeSet::new(),
            zone_ids: BTreeMap::new(),
            load: LoadAverage::default(),
            since: BTreeMap::new(),
            ends: BTreeMap::new(),
            files: BTreeMap::new(),
            topology,
            devices: Vec::new(),
            tunables,
            zones: vec!["global".into()],
            tables: Tables {
                processors,
                sets: BTreeMap::new(),
                processes: usual(),
                next_pid: FIRST_PID,
                dispatch,
                default_class: None,
                pools: None,
                memory: BTreeMap::new(),
                fences: BTreeMap::new(),
                projects: usual_projects(),
                zone_controls: BTreeMap::new(),
            },
        }
    }

    /// Nanoseconds since boot.
    #[must_use]
    pub fn now(&self) -> Nanos {
        Nanos(self.kernel.now())
    }

    /// The current wall-clock time.
    #[must_use]
    pub fn wall(&self) -> WallTime {
        let passed = i64::try_from(self.kernel.now() / 1_000_000_000).unwrap_or(i64::MAX);
        WallTime(self.booted.0.saturating_add(passed))
    }

    /// Sets the pools service's state from whether pools are enabled, whichever command enabled them.
    pub(crate) fn serve_pools(&mut self) {
        let is_on = self.tables.pools.is_some();
        if is_on != self.services.contains(&Service::Pools) {
            match is_on {
                true => self.services.insert(Service::Pools),
                false => self.services.remove(&Service::Pools),
            };
            self.changed_now(Service::Pools);
        }
    }

    /// Records that a service, and the enabled services that need it, changed state now.
    pub fn changed_now(&mut self, service: Service) {
        let now = self.wall();
        let others = SERVICES.into_iter().filter(|other| other.needs() == Some(service));
        let changed = others.filter(|other| self.services.contains(other)).chain([service]);
        self.since.extend(changed.map(|one| (one, now)));
    }

    /// The state as JSON, without the kernel's copy of the tables.
    #[must_use]
    pub fn save(&self) -> String {
        let mut saved = self.clone();
        saved.kernel.forget(&self.settings());
        // Cannot fail: every key is a string or a number.
        serde_json::to_string(&saved).unwrap_or_default()
    }

    /// The inverse of [`SimState::save`].
    ///
    /// # Errors
    /// [`LoadError`] when the text is not a saved machine or is inconsistent.
    pub fn load(text: &str) -> Result<Self, LoadError> {
        let mut state: SimState = serde_json::from_str(text).map_err(|error| {
            let what = error.to_string();
            let what = what.split(" at line ").next().unwrap_or_default().to_owned();
            LoadError::Malformed { line: error.line(), column: error.column(), what }
        })?;
        if ![FORMAT_BEFORE, FORMAT].contains(&state.format) {
            return Err(LoadError::Format { found: state.format });
        }
        state.check_tables().map_err(LoadError::Contradiction)?;
        if state.format == FORMAT {
            state.recall();
        }
        state.check_kernel().map_err(LoadError::Contradiction)?;
        state.format = FORMAT;
        state.kernel.reindex();
        state.apply_tables();
        Ok(state)
    }

    /// Rebuilds the kernel's copy of the tables after loading.
    fn recall(&mut self) {
        let mut settings = self.settings();
        for t in &mut settings.threads {
            t.holder = self.threads.get(&t.thread).and_then(|lwp| self.known_holder(lwp.pid));
        }
        let layout = layout::layout(&self.topology, self.kernel.hardware().clone());
        self.kernel.recall(&Recalled { layout, tunables: layout::tunables(&self.tunables), settings });
    }

    /// Checks the consistency of the parts.
    ///
    /// # Errors
    /// A sentence that names the first inconsistency.
    pub fn check(&self) -> Result<(), String> {
        self.check_tables()?;
        self.check_kernel()
    }

    fn check_tables(&self) -> Result<(), String> {
        let t = &self.tables;
        let present = self.topology.cpus();
        if self.topology.processors().len() != present.len() {
            return Err("the topology names a CPU twice".into());
        }
        if t.where_cpu(|_| true) != present {
            return Err(format!("the topology has CPUs {present}, the table {}", t.where_cpu(|_| true)));
        }
        if t.active(PsetId::DEFAULT).is_empty() {
            return Err("the default set has no CPU that runs".into());
        }
        if !(1..=HZ_MAX).contains(&self.tunables.hz) {
            return Err(format!("hz is {}; 1 to {HZ_MAX} ticks in a second are possible", self.tunables.hz));
        }
        if let Some((set, _)) = t.sets.last_key_value().filter(|(set, _)| set.0 > SET_MAX) {
            return Err(format!("set {set} is beyond {SET_MAX}, the highest number of a set"));
        }
        for (cpu, p) in &t.processors {
            if !t.has_set(p.set) {
                return Err(format!("CPU {cpu} is in set {}, which does not exist", p.set));
            }
        }
        for (pid, p) in &t.processes {
            if p.lwps.is_empty() {
                return Err(format!("process {pid} has no thread"));
            }
            if !self.zones.contains(&p.zone) {
                return Err(format!("process {pid} is in zone `{}`, which does not exist", p.zone));
            }
            if !p.kernel && p.lwps.values().any(|lwp| lwp.class == ClassParams::Sys) {
                return Err(format!("process {pid} is in class SYS, and no part of the kernel"));
            }
            if *pid >= t.next_pid {
                return Err(format!("process {pid} exists, and {} is to be the next one", t.next_pid));
            }
        }
        for (lwp, l) in t.lwps() {
            if t.active(l.set_id()).is_empty() {
                return Err(format!("thread {lwp} is bound to set {}, where nothing runs", l.set_id()));
            }
            let active = t.active(l.set_id());
            if let Some(bond) = l.cpu.as_ref().filter(|b| b.to.is_empty() || !b.to.is_subset(&active)) {
                return Err(format!("thread {lwp} is bound to CPUs {}, where it cannot run", bond.to));
            }
        }
        if self.kernel.cpus().len() != t.processors.len() {
            return Err("the kernel has other CPUs than the table".into());
        }
        for device in &self.devices {
            if !present.contains(device.processor) {
                let Device { name, processor, .. } = device;
                return Err(format!("device {name} interrupts CPU {processor}, which does not exist"));
            }
        }
        Ok(())
    }

    fn check_kernel(&self) -> Result<(), String> {
        self.kernel.check()?;
        self.check_holder_map()?;
        for (thread, lwp) in &self.threads {
            if self.kernel.threads().row(*thread).is_none() || self.tables.lwp(*lwp).is_none() {
                return Err(format!(
                    "thread {lwp} is kernel thread {thread}, and one of them does not exist"
                ));
            }
        }
        Ok(())
    }
}

/// A process with this many threads, none of them bound. Kernel processes are in SYS, others in TS.
#[must_use]
pub fn process(name: &str, kernel: bool, zone: &str, threads: u32) -> ProcessRecord {
    let class = if kernel { ClassParams::Sys } else { ClassParams::default() };
    let record = LwpRecord { class, ..LwpRecord::default() };
    let lwps = (1..=threads).map(|n| (LwpId(n), record.clone())).collect();
    ProcessRecord {
        name: name.to_owned(),
        kernel,
        zone: zone.to_owned(),
        lwps,
        parent: None,
        pool: PoolId::DEFAULT,
        project: ROOT_PROJECT,
        controls: ControlValues::default(),
        held_by: None,
    }
}

/// The system processes of every machine, with the pids of the manuals' examples.
fn usual() -> BTreeMap<Pid, ProcessRecord> {
    [
        (0, "sched", true, 1),
        (1, "init", false, 1),
        (2, "pageout", true, 1),
        (3, "fsflush", true, 1),
        (31, "devfsadm", false, 1),
        (67, "syslogd", false, 1),
        (101, "sshd", false, 1),
        (149, "nscd", false, 3),
        (204, "httpd", false, 2),
        (223, "cron", false, 1),
    ]
    .into_iter()
    .map(|(pid, name, kernel, threads)| {
        let usual = process(name, kernel, "global", threads);
        (Pid(pid), ProcessRecord { project: SYSTEM_PROJECT, ..usual })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimMachine;

    #[test]
    fn a_machine_that_was_saved_before_there_were_classes_has_the_standard_ones() {
        let machine = SimMachine::named("t2000").unwrap();
        let mut saved: serde_json::Value = serde_json::from_str(&machine.save()).unwrap();
        saved.as_object_mut().unwrap().remove("tunables");
        let tables = saved["tables"].as_object_mut().unwrap();
        tables.remove("dispatch");
        tables.remove("default_class");
        let old = SimState::load(&saved.to_string()).unwrap();
        assert_eq!(old.save(), machine.save());
    }

    #[test]
    fn only_parts_of_the_kernel_are_in_its_class() {
        let saved = SimMachine::named("t2000").unwrap().save();
        let wrong = saved.replace("TS 0 0", "SYS");
        let error = SimState::load(&wrong).unwrap_err();
        assert_eq!(error.to_string(), "process 1 is in class SYS, and no part of the kernel");
    }

    #[test]
    fn a_saved_machine_that_contradicts_itself_is_refused() {
        let saved: serde_json::Value =
            serde_json::from_str(&SimMachine::named("smartos-2").unwrap().save()).unwrap();
        let mut twice = saved.clone();
        let processors = twice["topology"]["processors"].as_array_mut().unwrap();
        processors.push(processors[0].clone());
        let said = SimState::load(&twice.to_string()).unwrap_err().to_string();
        assert_eq!(said, "the topology names a CPU twice");
        let mut many = saved.clone();
        many["tables"]["sets"]["4000000000"] = serde_json::json!({ "shared": false, "serial": 1 });
        let said = SimState::load(&many.to_string()).unwrap_err().to_string();
        assert_eq!(said, "set 4000000000 is beyond 65536, the highest number of a set");
        let mut far = saved;
        far["kernel"]["heap"]
            .as_array_mut()
            .unwrap()
            .push(serde_json::json!([1, { "cpu": 2_147_483_648_u32 }]));
        let said = SimState::load(&far.to_string()).unwrap_err().to_string();
        assert!(said.contains("an event of thread or CPU 2147483648"), "{said}");
    }

    #[test]
    fn fuzz_saved_machines() {
        let saved = SimMachine::named("smartos-2").unwrap().save();
        millpond_fuzz::check_text("sim-saved", &[&saved], |text| {
            if let Ok(state) = SimState::load(text) {
                assert_eq!(SimState::load(&state.save()).map(|again| again.save()).ok(), Some(state.save()));
            }
        });
    }
}
