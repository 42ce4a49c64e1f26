//! Reboot: the state that survives it, and the kernel's configuration file.
//!
//! A reboot keeps the hardware, the devices, the zones with their described processes, projects with their configuration, files,
//! enabled services, and the default class. It loses sets, bindings, pools that are in no file, CPU states, changed dispatch
//! tables, and all running threads. The time since boot restarts; the wall clock continues.

use crate::state::{self, SimState};
use crate::tables::Tunables;
use crate::workloads::Load;
use millpond_formats::system_file::within_bounds;
use millpond_model::{ClassParams, ClassRequest, Pid, ZoneError};

impl Tunables {
    /// These tunables, changed by the text of the tunables file.
    #[must_use]
    fn with_settings(mut self, text: &str) -> Tunables {
        within_bounds(text).0.iter().for_each(|setting| self.set(&setting.name, setting.value));
        self
    }

    /// Sets a value within its bounds.
    fn set(&mut self, name: &str, value: i64) {
        let unsigned = u64::try_from(value).unwrap_or(0);
        let small = u32::try_from(unsigned).unwrap_or(u32::MAX);
        match name {
            "hz" => self.hz = small,
            "lgrp_mem_pset_aware" => self.lgrp_mem_pset_aware = small,
            "nosteal_nsec" => self.nosteal_nsec = Some(unsigned),
            "wakeup_parity_nsec" => self.wakeup_parity_nsec = Some(unsigned),
            "rechoose_interval" => self.rechoose_interval = Some(unsigned),
            _ => self.ts_dispatch_extended = i32::try_from(value).unwrap_or(0),
        }
    }
}

impl SimState {
    /// The machine after a reboot with the tunables file of this name.
    #[must_use]
    pub fn rebooted(&self, system_file: &str) -> SimState {
        let own = self.own_tunables.unwrap_or(self.tunables);
        let text = self.files.get(system_file).map(String::as_str).unwrap_or_default();
        let tunables = own.with_settings(text);
        let hardware = self.kernel.hardware().clone();
        let mut new = SimState::booted(&self.name, self.topology.clone(), hardware, self.wall(), tunables);
        new.boot = format!("{}-{}-{}", self.name, self.wall().0, self.boots + 1);
        new.boots = self.boots + 1;
        new.own_tunables = Some(own);
        new.devices = self.devices.clone();
        new.zones = self.zones.clone();
        new.zone_ids = self.zone_ids.clone();
        for held in &self.held {
            let pid = new.tables.add_process(state::process(&held.name, false, &held.zone, held.threads));
            new.held.push(state::Held { pid, ..held.clone() });
        }
        // The project file keeps the projects' configuration; controls that were set with prctl are lost.
        new.tables.projects = self.tables.projects.clone();
        new.tables.projects.values_mut().for_each(|project| project.controls = project.kept);
        new.files = self.files.clone();
        new.services = self.services.clone();
        new.tables.default_class = self.tables.default_class;
        if let Some(class) = self.tables.default_class {
            let request = ClassRequest::bare(class);
            let entered = request.and_then(|r| r.apply(ClassParams::default(), &new.tables.dispatch).ok());
            new.start_class = entered.map(|(params, _)| params).unwrap_or_default();
            for process in new.tables.processes.values_mut().filter(|process| !process.kernel) {
                process.lwps.values_mut().for_each(|lwp| lwp.class = new.start_class);
            }
        }
        new.start_held("global");
        new
    }
}

impl SimState {
    /// Whether the processes of a zone execute.
    #[must_use]
    pub fn zone_runs(&self, zone: &str) -> bool {
        zone == "global" || self.running_zones.contains(zone)
    }

    /// Boots a zone: its processes execute the workloads of the machine file. Returns the names and pids of the started
    /// processes.
    ///
    /// # Errors
    /// [`ZoneError`]; no process is started.
    pub fn boot_zone(&mut self, zone: &str) -> Result<Vec<(String, Pid)>, ZoneError> {
        if !self.zones.iter().any(|name| name == zone) {
            return Err(ZoneError::NoSuchZone);
        }
        if self.zone_runs(zone) {
            return Err(ZoneError::Runs);
        }
        if self.halted_zones.remove(zone) {
            if let Some(number) = self.zone_number(zone) {
                self.tables.zone_controls.remove(&number);
            }
            for at in 0..self.held.len() {
                let held = &self.held[at];
                if held.zone == zone {
                    let process = state::process(&held.name, false, zone, held.threads);
                    self.held[at].pid = self.tables.add_process(process);
                }
            }
        }
        self.running_zones.insert(zone.to_owned());
        Ok(self.start_held(zone))
    }

    /// Starts the workloads of a zone's processes, as the machine file describes them; returns names and pids.
    pub(crate) fn start_held(&mut self, zone: &str) -> Vec<(String, Pid)> {
        let mut started = Vec::new();
        for held in self.held.clone().into_iter().filter(|held| held.zone == zone) {
            let words: Vec<String> = held.load.split_whitespace().map(str::to_owned).collect();
            if let Ok(load) = Load::parse(&words)
                && self.tables.processes.contains_key(&held.pid)
            {
                self.execute_load(held.pid, &load);
                started.push((held.name, held.pid));
            }
        }
        started
    }

    /// Halts a zone: its processes end, and its changed controls are lost. Its configuration stays.
    ///
    /// # Errors
    /// [`ZoneError`]; no process ends.
    pub fn halt_zone(&mut self, zone: &str) -> Result<(), ZoneError> {
        let number = self.zone_number(zone).ok_or(ZoneError::NoSuchZone)?;
        if zone == "global" {
            return Err(ZoneError::Global);
        }
        if !self.halted_zones.insert(zone.to_owned()) {
            return Err(ZoneError::Halted);
        }
        self.running_zones.remove(zone);
        self.tables.processes.retain(|_, process| process.zone != zone || process.kernel);
        self.tables.zone_controls.remove(&number);
        Ok(())
    }

    /// The id of a zone: from the machine file, else its position among the zones. As in Solaris, it is assigned before the zone boots.
    #[must_use]
    pub fn zone_id(&self, zone: &str) -> Option<u32> {
        let at = self.zones.iter().position(|name| name == zone)?;
        let own = self.zone_ids.get(zone).copied();
        Some(own.unwrap_or(u32::try_from(at).unwrap_or(u32::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimMachine;
    use millpond_machine::Clock;
    use millpond_model::{Class, CpuId, Nanos, PsetId, State};

    fn without(text: &str) -> Vec<String> {
        let (_, without) = within_bounds(text);
        without.into_iter().map(|f| format!("{}:{}: {}", f.line, f.column, f.what)).collect()
    }

    #[test]
    fn a_zone_that_is_halted_has_no_processes_until_it_boots() {
        let machine = SimMachine::named("smartos-2").unwrap();
        machine.edit(|s| s.boot_zone("zone1")).unwrap();
        machine.sleep_until(Nanos::from_secs(1));
        let of = |zone: &'static str| {
            machine.view(|s| s.tables.processes.values().filter(|process| process.zone == zone).count())
        };
        let listed = || -> Vec<String> {
            let zones = millpond_machine::Zones::list(&machine).unwrap();
            zones.into_iter().map(|zone| zone.name).collect()
        };
        let before = of("zone1");
        machine.edit(|s| s.halt_zone("zone1")).unwrap();
        assert_eq!((of("zone1"), listed()), (0, vec!["global".to_owned(), "zone2".to_owned()]));
        assert_eq!(machine.edit(|s| s.halt_zone("zone1")), Err(ZoneError::Halted));
        assert_eq!(machine.edit(|s| s.halt_zone("global")), Err(ZoneError::Global));
        assert_eq!(machine.edit(|s| s.halt_zone("zone9")), Err(ZoneError::NoSuchZone));
        machine.sleep_until(Nanos::from_secs(2));
        let started = machine.edit(|s| s.boot_zone("zone1")).unwrap();
        assert_eq!((of("zone1"), started.len(), listed().len()), (before, 1, 3));
        machine.sleep_until(Nanos::from_secs(3));
        assert_eq!(machine.view(SimState::check), Ok(()));
        assert!(machine.view(|s| s.used(crate::tables::HolderId::Zone(1))).0 > 0);
    }

    #[test]
    fn what_the_global_zone_holds_executes_from_the_start_and_after_a_boot() {
        let file = r#"{ "name": "twin", "about": "for tests", "chips": 1, "cores_per_chip": 2, "strands_per_core": 1,
            "processor": { "isa": "i386", "implementation": "x86" },
            "zones": [{ "name": "global", "processes": [{ "name": "daemons", "threads": 4, "load": "daemons --busy 10" }] }] }"#;
        let machine = SimMachine::described(file, "twin.json").unwrap();
        let used = |machine: &SimMachine| {
            machine.sleep_until(Nanos::from_secs(10));
            machine.view(|s| s.kernel.cpus().iter().map(|cpu| cpu.user).sum::<u64>())
        };
        // A tenth of a CPU for ten seconds, less the share of the active moments themselves.
        assert!((900_000_000..=1_010_000_000).contains(&used(&machine)), "{}", used(&machine));
        assert_eq!(machine.view(|s| s.zones.clone()), ["global"]);
        let again = SimMachine::new(
            machine.view(|s| s.rebooted("/etc/system")),
            Box::new(millpond_machine::MemoryJournal::default()),
        );
        assert!((900_000_000..=1_010_000_000).contains(&used(&again)), "{}", used(&again));
        assert_eq!(again.view(SimState::check), Ok(()));
    }

    #[test]
    fn tunables_are_set_and_others_are_named() {
        let text = "set ts_dispatch_extended=1\nset hz=1000\nset rechoose_interval=0\n";
        let tuned = Tunables::default().with_settings(text);
        assert_eq!((tuned.ts_dispatch_extended, tuned.hz, tuned.rechoose_interval), (1, 1_000, Some(0)));
        assert!(without(text).is_empty());
        let tuned = Tunables::default().with_settings("set wakeup_parity_nsec=300000\n");
        assert_eq!(crate::layout::tunables(&tuned).wakeup_parity_nsec, 300_000);
        assert_eq!(crate::layout::tunables(&Tunables::default()).wakeup_parity_nsec, 0);
        assert_eq!(
            without("set maxusers=10\nset hz=0\nsat\n"),
            [
                "1:5: there is no tunable maxusers on a simulated machine",
                "2:5: hz is a number from 1 to 10000, and not 0",
                "3:1: a line begins with set, a directive, or * for a comment",
            ]
        );
    }

    #[test]
    fn a_boot_keeps_files_services_and_the_default_class_and_nothing_else() {
        let machine = SimMachine::named("smartos-2").unwrap();
        machine.sleep_until(Nanos::from_secs(5));
        machine.edit(|s| {
            s.files.insert("/etc/system".to_owned(), "set ts_dispatch_extended=1\n".to_owned());
            s.tables.default_class = Some(Class::Fx);
            s.tables.processors.get_mut(&CpuId(1)).unwrap().state = State::NoIntr;
        });
        let load = crate::workloads::Load::parse(&["spin".to_owned()]).unwrap();
        machine.start_load(&load);
        let new = machine.view(|s| s.rebooted("/etc/system"));
        assert_eq!((new.now(), new.check()), (Nanos(0), Ok(())));
        assert_eq!(new.booted.0, machine.booted().0 + 5);
        assert_eq!(new.tables.processors[&CpuId(1)].state, State::OnLine);
        assert_eq!(new.tables.active(PsetId::DEFAULT).iter().count(), 2);
        assert_eq!(
            *new.tables.dispatch,
            Tunables { ts_dispatch_extended: 1, ..Tunables::default() }.tables()
        );
        let names: Vec<&str> =
            new.tables.processes.values().filter(|p| p.zone == "zone2").map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["init", "cg"]);
        assert!(new.tables.processes.values().all(|p| p.name != "spin"));
        let classes = new.tables.processes.values().filter(|p| !p.kernel).flat_map(|p| p.lwps.values());
        assert!(classes.into_iter().all(|lwp| lwp.class.class() == Class::Fx));
        // A line that is removed again has no effect any more.
        let mut again = new.clone();
        again.files.clear();
        assert_eq!(again.rebooted("/etc/system").tunables, Tunables::default());
    }
}
