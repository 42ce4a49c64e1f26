//! Operations that only a simulated machine has: starting workloads on command, advancing time on command, and saving it as
//! a text.

use crate::{Achieved, Load, Session, record};
use millpond_machine::facets::UsageWatch;
use millpond_machine::{Clock, Machine};
use millpond_model::{
    Class, ControlValues, CpuCap, CpuId, Nanos, Outcome, Pid, ProjectError, PsetId, Service, StuckThread,
    WallTime, ZoneError, most_favoured,
};
use millpond_sim::{SimMachine, SimState};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The operations of a simulated machine, in addition to its facets.
#[derive(Clone, Copy)]
pub struct Simulation<'s>(pub(crate) &'s SimMachine);

/// The file of a zone's configuration.
fn zone_file(zone: &str) -> String {
    format!("/etc/zones/{zone}.cfg")
}

/// A project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Its id.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its configured shares and cap, which a process applies when it enters.
    pub kept: ControlValues,
}

/// A process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Its pid.
    pub pid: Pid,
    /// Its name.
    pub name: String,
    /// Number of threads.
    pub threads: usize,
    /// The class of its highest-priority thread.
    pub class: Class,
    /// The sets of its threads, ascending; the default set stands for unbound ones.
    pub sets: Vec<PsetId>,
    /// CPU time of its existing threads.
    pub time: Nanos,
    /// Whether it executes a program; other processes sleep for ever.
    pub executes: bool,
}

/// User-mode execution of a CPU since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Executed {
    /// The time.
    pub user: Nanos,
    /// The instructions.
    pub user_instructions: u64,
}

/// The reason why a process was not killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KillError {
    /// There is no process with that pid.
    #[error("there is no such process")]
    NoSuchProcess,
    /// It belongs to the kernel.
    #[error("it is a part of the kernel")]
    Kernel,
}

/// There is no process with that pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no process {0}")]
pub struct NoSuchProcess(pub Pid);

/// There is no zone of that name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no zone {0}")]
pub struct NoSuchZone(pub String);

/// The file of tunables that is read at boot.
pub const SYSTEM_FILE: &str = "/etc/system";

/// The file that discards what is written to it.
pub const NULL_FILE: &str = "/dev/null";

/// A daemon on a simulated machine: it runs at certain times, while the caller advances time.
pub trait SimDaemon {
    /// The time of its next run.
    fn due(&self) -> Nanos;

    /// Runs once, at the current time.
    fn act(&self, simulation: Simulation<'_>);
}

/// Adapts a daemon to the machine's interface.
struct Adapted(Rc<dyn SimDaemon>);

impl millpond_sim::Daemon for Adapted {
    fn due(&self) -> Nanos {
        self.0.due()
    }

    fn act(&self, machine: &SimMachine) {
        self.0.act(Simulation(machine));
    }
}

/// A snapshot of the machine, to return to.
pub struct Moment(SimState);

impl Session {
    /// The operations of a simulated machine; `None` for other kinds.
    #[must_use]
    pub fn simulation(&self) -> Option<Simulation<'_>> {
        self.sim.as_deref().map(Simulation)
    }
}

impl<'s> Simulation<'s> {
    /// Its facets.
    #[must_use]
    pub fn machine(self) -> &'s dyn Machine {
        self.0
    }

    /// Accounting since boot, independent of when it is read.
    #[must_use]
    pub fn watch_since_boot(self) -> Box<dyn UsageWatch + 's> {
        self.0.watch_since_boot()
    }

    /// Appends a line to the record of a daemon. The oldest lines of a long record are dropped.
    pub fn record(self, name: &str, line: &str) {
        record::record_on(self.0, name, line);
    }
}

impl Simulation<'_> {
    /// Starts a workload as a process, unbound and in TS.
    #[must_use]
    pub fn start(&self, load: &Load) -> Pid {
        self.0.start_load(&load.load)
    }

    /// Creates a process with one thread that sleeps until the process executes a workload.
    #[must_use]
    pub fn prepare(&self, name: &str) -> Pid {
        self.0.edit(|s| s.prepare(name))
    }

    /// Makes a process execute a workload.
    pub fn execute(&self, pid: Pid, load: &Load) {
        self.0.edit(|s| s.execute_load(pid, &load.load));
    }

    /// Results of all running programs that report a figure.
    #[must_use]
    pub fn achievements(&self) -> Vec<Achieved> {
        self.0.view(SimState::achievements).into_iter().map(Achieved).collect()
    }

    /// Results of programs that ended since the last call.
    #[must_use]
    pub fn take_ended(&self) -> Vec<Achieved> {
        self.0.edit(SimState::take_ended).into_iter().map(Achieved).collect()
    }

    /// Whether a process never ends by itself, judged by its programs.
    #[must_use]
    pub fn is_endless(&self, pid: Pid) -> bool {
        self.0.view(|s| s.never_ends(pid))
    }

    /// Starts a process that sleeps for ever.
    #[must_use]
    pub fn start_sleeper(&self, name: &str) -> Pid {
        self.0.spawn(name, 1)
    }

    /// Starts a workload as a process of a zone, unbound and in TS.
    ///
    /// # Errors
    /// [`NoSuchZone`]; nothing is started.
    pub fn start_in(&self, zone: &str, load: &Load) -> Result<Pid, NoSuchZone> {
        if !self.0.view(|s| s.zones.iter().any(|name| name == zone)) {
            return Err(NoSuchZone(zone.to_owned()));
        }
        Ok(self.0.edit(|s| {
            let pid = s.prepare(&load.name);
            if let Some(process) = s.tables.processes.get_mut(&pid) {
                process.zone = zone.to_owned();
            }
            s.execute_load(pid, &load.load);
            pid
        }))
    }

    /// Starts a workload as a child of a process of the zone: in its pool, with its bindings and class.
    ///
    /// # Errors
    /// [`NoSuchZone`]; nothing is started.
    pub fn log_in(&self, zone: &str, load: &Load) -> Result<Pid, NoSuchZone> {
        let Some(parent) = self.pids_of_zone(zone).first().copied() else { return self.start_in(zone, load) };
        Ok(self.0.edit(|s| {
            let pid = s.prepare(&load.name);
            if let Some(parent) = s.tables.processes.get(&parent).cloned()
                && let Some(process) = s.tables.processes.get_mut(&pid)
            {
                let inherited = parent.lwps.values().next().cloned().unwrap_or_default();
                (process.zone, process.pool) = (parent.zone, parent.pool);
                process.lwps.values_mut().for_each(|lwp| *lwp = inherited.clone());
            }
            s.execute_load(pid, &load.load);
            pid
        }))
    }

    /// Limits the CPU time of a process and its later children to `percent` of one CPU, on all CPUs together. An earlier cap is
    /// replaced.
    ///
    /// # Errors
    /// [`NoSuchProcess`].
    pub fn cap(&self, pid: Pid, percent: u32) -> Result<(), NoSuchProcess> {
        self.0.edit(|s| {
            let process = s.tables.processes.get_mut(&pid).ok_or(NoSuchProcess(pid))?;
            process.controls.cap = CpuCap::new(percent.max(1)).ok();
            Ok(())
        })
    }

    /// Operations counted by the threads of a process, including ended threads.
    #[must_use]
    pub fn operations(&self, pid: Pid) -> u64 {
        self.0.view(|s| s.operations(pid))
    }

    /// The same for each existing thread, in order.
    #[must_use]
    pub fn operations_by_thread(&self, pid: Pid) -> Vec<u64> {
        self.0.view(|s| {
            let own = s.threads.iter().filter(|(_, lwp)| lwp.pid == pid);
            let by_lwp: BTreeMap<_, _> =
                own.map(|(thread, lwp)| (lwp.lwp, s.kernel.thread(*thread).done)).collect();
            by_lwp.into_values().collect()
        })
    }

    /// Advances time until a process has ended, at most by this much. `false`: it still runs.
    pub fn run_until_ended(&self, pid: Pid, most: Nanos) -> bool {
        self.0.run_until_ended(pid, Nanos(self.0.now().0.saturating_add(most.0)))
    }

    /// Number of threads that run or wait for a CPU.
    #[must_use]
    pub fn runnable(&self) -> u64 {
        self.0.view(|s| s.kernel.runnable())
    }

    /// Number of unread messages between workloads' threads.
    #[must_use]
    pub fn messages_waiting(&self) -> u64 {
        self.0.view(|s| s.kernel.messages_waiting())
    }

    /// For each stage of each workload log, a histogram of nanoseconds since its stage 0.
    #[must_use]
    pub fn logs(&self) -> Vec<Vec<BTreeMap<u64, u64>>> {
        self.0.view(|s| s.kernel.logs().iter().map(|log| log.stages.clone()).collect())
    }

    /// Sets the seed of random choices.
    pub fn set_seed(&self, seed: u64) {
        self.0.edit(|s| s.kernel.set_seed(seed));
    }

    /// User-mode execution of each CPU since boot, ascending.
    #[must_use]
    pub fn executed(&self) -> Vec<(CpuId, Executed)> {
        self.0.view(|s| {
            let numbers = s.topology.processors().iter().map(|p| p.id);
            let one = |cpu: &millpond_sim::kernel::Cpu| Executed {
                user: Nanos(cpu.user),
                user_instructions: cpu.user_instructions,
            };
            numbers.zip(s.kernel.cpus().iter().map(one)).collect()
        })
    }

    /// Kills a process.
    ///
    /// # Errors
    /// [`KillError`].
    pub fn kill(&self, pid: Pid) -> Result<(), KillError> {
        match self.0.view(|s| s.tables.processes.get(&pid).map(|p| p.kernel)) {
            None => Err(KillError::NoSuchProcess),
            Some(true) => Err(KillError::Kernel),
            Some(false) => {
                self.0.exit(pid);
                Ok(())
            }
        }
    }

    /// All processes, ascending.
    #[must_use]
    pub fn processes(&self) -> Vec<Running> {
        self.0.view(|s| {
            let one = |(pid, p): (&Pid, &millpond_sim::tables::ProcessRecord)| {
                let mut sets: Vec<PsetId> = p.lwps.values().map(|lwp| lwp.set_id()).collect();
                sets.sort_unstable();
                sets.dedup();
                let params = most_favoured(p.lwps.values().map(|lwp| lwp.class)).unwrap_or_default();
                let threads = s.threads.iter().filter(|(_, lwp)| lwp.pid == *pid);
                let threads: Vec<_> = threads.map(|(number, _)| s.kernel.thread(*number)).collect();
                Running {
                    pid: *pid,
                    name: p.name.clone(),
                    threads: p.lwps.len(),
                    class: params.class(),
                    sets,
                    time: Nanos(threads.iter().map(|t| t.user + t.sys).sum()),
                    executes: !threads.is_empty(),
                }
            };
            s.tables.processes.iter().map(one).collect()
        })
    }

    /// Advances time by this much.
    pub fn run_for(&self, time: Nanos) -> Outcome {
        let until = self.0.now().0.saturating_add(time.0);
        self.0.sleep_until(Nanos(until));
        self.0.view(|s| s.halted.map_or(Outcome::Due, |halt| Outcome::Halted(halt.to_string())))
    }

    /// Advances time until no thread has work, at most by this much.
    pub fn run_until_idle(&self, most: Nanos) -> Outcome {
        self.0.run_until_idle(Nanos(self.0.now().0.saturating_add(most.0)))
    }

    /// The threads that wait for ever.
    #[must_use]
    pub fn waiting_for_ever(&self) -> Vec<StuckThread> {
        self.0.view(SimState::waiting_for_ever)
    }

    /// The text of a file inside the machine.
    #[must_use]
    pub fn file(&self, name: &str) -> Option<String> {
        self.0.view(|s| s.files.get(name).cloned())
    }

    /// Replaces a file inside the machine.
    pub fn put_file(&self, name: &str, text: &str) {
        self.0.edit(|s| s.files.insert(name.to_owned(), text.to_owned()));
    }

    /// A zone's configuration, as `zonecfg` commands.
    #[must_use]
    pub fn zone_configuration(&self, zone: &str) -> Option<String> {
        self.file(&zone_file(zone))
    }

    /// Configures a zone with `zonecfg` commands; an empty text removes the configuration.
    pub fn configure_zone(&self, zone: &str, commands: &str) {
        match commands {
            "" => drop(self.0.edit(|s| s.files.remove(&zone_file(zone)))),
            _ => self.put_file(&zone_file(zone), commands),
        }
    }

    /// The configured zones.
    #[must_use]
    pub fn configured_zones(&self) -> Vec<String> {
        self.0
            .view(|s| s.zones.iter().filter(|zone| s.files.contains_key(&zone_file(zone))).cloned().collect())
    }

    /// Halts a zone: its processes end.
    ///
    /// # Errors
    /// [`ZoneError`].
    pub fn halt_zone(&self, zone: &str) -> Result<(), ZoneError> {
        self.0.edit(|s| s.halt_zone(zone))
    }

    /// The halted zones.
    #[must_use]
    pub fn halted_zones(&self) -> Vec<String> {
        self.0.view(|s| s.halted_zones.iter().cloned().collect())
    }

    /// Reboots the machine. Pools are disabled until their service is started.
    pub fn reboot(&self) {
        self.0.edit(|s| *s = s.rebooted(SYSTEM_FILE));
    }

    /// Boots a zone. Returns names and pids of the started processes.
    ///
    /// # Errors
    /// [`ZoneError`].
    pub fn boot_zone(&self, zone: &str) -> Result<Vec<(String, Pid)>, ZoneError> {
        self.0.edit(|s| s.boot_zone(zone))
    }

    /// Whether the processes of a zone execute.
    #[must_use]
    pub fn zone_runs(&self, zone: &str) -> bool {
        self.0.view(|s| s.zone_runs(zone))
    }

    /// All projects, by id.
    #[must_use]
    pub fn projects(&self) -> Vec<Project> {
        let one = |(id, project): (&u32, &millpond_sim::tables::ProjectRecord)| Project {
            id: *id,
            name: project.name.clone(),
            kept: project.kept,
        };
        self.0.view(|s| s.tables.projects.iter().map(one).collect())
    }

    /// The processes of a project, by its name or id, without kernel processes; `None` for an unknown project.
    #[must_use]
    pub fn pids_of_project(&self, word: &str) -> Option<Vec<Pid>> {
        self.0.view(|s| {
            let project = s.project_number(word)?;
            let is_in = |p: &millpond_sim::tables::ProcessRecord| p.project == project && !p.kernel;
            Some(s.tables.processes.iter().filter(|(_, p)| is_in(p)).map(|(pid, _)| *pid).collect())
        })
    }

    /// Adds a project; returns its id.
    ///
    /// # Errors
    /// [`ProjectError`].
    pub fn add_project(&self, name: &str, id: Option<u32>, kept: ControlValues) -> Result<u32, ProjectError> {
        self.0.edit(|s| s.add_project(name, id, kept))
    }

    /// Configures a project. The change applies when the next process enters it.
    ///
    /// # Errors
    /// [`ProjectError`].
    pub fn configure_project(&self, name: &str, kept: ControlValues) -> Result<(), ProjectError> {
        self.0.edit(|s| s.configure_project(name, kept))
    }

    /// Removes a project without processes.
    ///
    /// # Errors
    /// [`ProjectError`].
    pub fn remove_project(&self, name: &str) -> Result<(), ProjectError> {
        self.0.edit(|s| s.remove_project(name))
    }

    /// Moves a process into a project.
    ///
    /// # Errors
    /// [`ProjectError`].
    pub fn enter_project(&self, pid: Pid, name: &str) -> Result<(), ProjectError> {
        self.0.edit(|s| s.enter_project(pid, name))
    }

    /// The processes of a zone.
    #[must_use]
    pub fn pids_of_zone(&self, zone: &str) -> Vec<Pid> {
        self.0.view(|s| {
            s.tables.processes.iter().filter(|(_, p)| p.zone == zone).map(|(pid, _)| *pid).collect()
        })
    }

    /// Numbers of CPUs that a zone sees, and of on-line ones among them: those of its pool, or of the machine.
    #[must_use]
    pub fn processors_of_zone(&self, zone: &str) -> [usize; 2] {
        self.0.view(|s| {
            let process = s.tables.processes.values().find(|p| p.zone == zone && !p.kernel);
            let record = process.and_then(|p| p.lwps.values().next());
            let is_confined = zone != "global" && s.tables.pools.is_some();
            let set = record.filter(|_| is_confined).map(|record| record.set_id());
            let here = |p: &millpond_sim::tables::ProcessorRecord| set.is_none_or(|set| p.set == set);
            let online = |p: &millpond_sim::tables::ProcessorRecord| here(p) && p.state.runs_threads();
            [s.tables.where_cpu(here).len(), s.tables.where_cpu(online).len()]
        })
    }

    /// Memory size in KiB; `None` if the machine file does not give it.
    #[must_use]
    pub fn memory_kib(&self) -> Option<u64> {
        self.0.view(|s| s.topology.lgroups().iter().map(|lgroup| lgroup.memory_kib).sum())
    }

    /// Load averages over one, five and fifteen minutes, in hundredths.
    #[must_use]
    pub fn load_averages(&self) -> [u64; 3] {
        self.0.view(|s| s.load.hundredths())
    }

    /// When a service entered its state.
    #[must_use]
    pub fn since(&self, service: Service) -> WallTime {
        self.0.view(|s| s.since.get(&service).copied().unwrap_or(s.booted))
    }

    /// Records that a service, and the services that need it, changed state now.
    pub fn changed_now(&self, service: Service) {
        self.0.edit(|s| s.changed_now(service));
    }

    /// Whether a service is enabled.
    #[must_use]
    pub fn is_enabled(&self, service: Service) -> bool {
        self.0.view(|s| s.services.contains(&service))
    }

    /// Enables or disables a service.
    pub fn enable(&self, service: Service, on: bool) {
        let changed =
            self.0.edit(|s| if on { s.services.insert(service) } else { s.services.remove(&service) });
        if changed {
            self.changed_now(service);
        }
    }

    /// Sets or replaces the machine's daemon; `None` removes it.
    pub fn set_daemon(&self, daemon: Option<Rc<dyn SimDaemon>>) {
        self.0.set_daemon(daemon.map(|daemon| Rc::new(Adapted(daemon)) as Rc<dyn millpond_sim::Daemon>));
    }

    /// A snapshot of the machine.
    #[must_use]
    pub fn moment(&self) -> Moment {
        Moment(self.0.view(SimState::clone))
    }

    /// Restores a snapshot; later changes are lost.
    pub fn go_back(&self, moment: Moment) {
        self.0.edit(|s| *s = moment.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_of_a_zone_is_started_there_and_its_operations_are_counted() {
        let session = Session::open_changed("smartos-2", &serde_json::Value::Null, &[]).unwrap();
        let simulation = session.simulation().unwrap();
        let load = Load::parse(&["cg".to_owned()]).unwrap();
        assert_eq!(simulation.start_in("zone3", &load), Err(NoSuchZone("zone3".into())));
        let pid = simulation.start_in("zone2", &load).unwrap();
        assert_eq!(simulation.0.view(|s| s.tables.processes[&pid].zone.clone()), "zone2");
        assert_eq!(simulation.operations(pid), 0);
        simulation.run_for(Nanos::from_millis(10));
        assert!(simulation.operations(pid) > 0);
    }

    #[test]
    fn a_process_under_a_cap_gets_that_much_time_and_no_more_beside_others() {
        let session = Session::open_changed("smartos-2", &serde_json::Value::Null, &[]).unwrap();
        let simulation = session.simulation().unwrap();
        assert_eq!(simulation.cap(Pid(9_999_999), 100), Err(NoSuchProcess(Pid(9_999_999))));
        let spin = Load::parse(&["spin".to_owned(), "-t".to_owned(), "2".to_owned()]).unwrap();
        let time = |pid| simulation.processes().into_iter().find(|p| p.pid == pid).unwrap().time.0;
        let capped = simulation.start(&spin);
        simulation.cap(capped, 50).unwrap();
        simulation.run_for(Nanos::from_secs(10));
        // Half a CPU for 10 s, a tenth of a second ahead, and two ticks more.
        let alone = time(capped);
        assert!((5_000_000_000..=5_070_000_000).contains(&alone), "{alone}");
        // A cap guarantees nothing: with competition the process may get less. The others have the rest of two CPUs.
        let free = simulation.start(&spin);
        simulation.run_for(Nanos::from_secs(10));
        let beside = time(capped) - alone;
        assert!((1..=5_070_000_000).contains(&beside), "{beside}");
        assert!((beside + time(free)).abs_diff(20_000_000_000) < 100_000_000);
        let saved = simulation.0.save();
        assert_eq!(SimMachine::load(&saved).unwrap().save(), saved);
    }
}
