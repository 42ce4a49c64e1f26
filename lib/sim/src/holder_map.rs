//! Maps projects, zones and processes of the tables to the kernel's holders of shares and caps.
//!
//! A process with its own control holds itself and its later children, until the last of these has ended. All other processes are held by their
//! project, and projects by their zone. A project in two zones has two holders, as on Solaris.

use crate::kernel::{HolderIndex, HolderSettings, Level, Taken, ThreadId};
use crate::state::SimState;
use crate::tables::{HolderId, ProcessRecord};
use millpond_model::{ControlValues, CpuCap, Nanos, Pid, Shares};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The kernel's holders by identity, and the CPU time of ended threads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HolderMap {
    /// By zone id.
    zones: BTreeMap<u32, HolderIndex>,
    /// By zone id times 2^32, plus project id.
    projects: BTreeMap<u64, HolderIndex>,
    /// By process.
    processes: BTreeMap<Pid, HolderIndex>,
    /// CPU time of ended threads by holder, in nanoseconds.
    used: BTreeMap<HolderIndex, u64>,
}

/// The holders of a process: its zone, its project there, and its nearest process with own controls, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Above {
    zone: u32,
    project: u32,
    process: Option<Pid>,
}

fn key(zone: u32, project: u32) -> u64 {
    u64::from(zone) << 32 | u64::from(project)
}

impl SimState {
    /// The id of a zone.
    pub(crate) fn zone_number(&self, name: &str) -> Option<u32> {
        let at = self.zones.iter().position(|zone| zone == name)?;
        u32::try_from(at).ok()
    }

    fn above(&self, pid: Pid, process: &ProcessRecord) -> Above {
        let own = (!process.controls.is_none()).then_some(pid).or(process.held_by);
        Above { zone: self.zone_number(&process.zone).unwrap_or(0), project: process.project, process: own }
    }

    /// Sets the kernel's holders of threads from the tables. The holders' controls must be applied before.
    pub(crate) fn hold(&mut self) {
        let threads: Vec<(ThreadId, Pid)> =
            self.threads.iter().map(|(thread, lwp)| (*thread, lwp.pid)).collect();
        let mut known: BTreeMap<Pid, HolderIndex> = BTreeMap::new();
        for (thread, pid) in threads {
            let Some(process) = self.tables.processes.get(&pid) else { continue };
            let holder = match known.get(&pid) {
                Some(holder) => *holder,
                None => {
                    let above = self.above(pid, process);
                    let holder = self.holder(above);
                    known.insert(pid, holder);
                    holder
                }
            };
            self.kernel.set_holder(thread, Some(holder));
        }
        self.drop_holders();
    }

    /// The kernel's holder of a process, created if needed.
    fn holder(&mut self, above: Above) -> HolderIndex {
        let SimState { kernel, holder_map, tables, .. } = self;
        let controls = |c: ControlValues| (c.shares.map(Shares::get), c.cap.map(CpuCap::get));
        let mut make = |level, parent, values: ControlValues| {
            let number = kernel.hold(level, parent);
            let (shares, cap) = controls(values);
            kernel.set_shares(number, shares);
            kernel.set_cap(number, cap);
            number
        };
        let of_zone = tables.zone_controls.get(&above.zone).copied().unwrap_or_default();
        let zone = *holder_map.zones.entry(above.zone).or_insert_with(|| make(Level::Zone, None, of_zone));
        let of_project = match tables.projects.get(&above.project) {
            Some(project) if above.zone == 0 => project.controls,
            _ => ControlValues::default(),
        };
        let project = holder_map.projects.entry(key(above.zone, above.project));
        let project = *project.or_insert_with(|| make(Level::Project, Some(zone), of_project));
        let Some(pid) = above.process else { return project };
        let own = tables.processes.get(&pid).map(|process| process.controls).unwrap_or_default();
        let process =
            *holder_map.processes.entry(pid).or_insert_with(|| make(Level::Process, Some(project), own));
        if tables.processes.contains_key(&pid) {
            kernel.set_project(process, project);
        }
        process
    }

    /// Shares and caps of the existing holders, from the tables.
    pub(crate) fn holder_settings(&self) -> Vec<HolderSettings> {
        let SimState { holder_map, tables, .. } = self;
        let zones = holder_map.zones.iter().map(|(zone, number)| {
            (*number, Some(tables.zone_controls.get(zone).copied().unwrap_or_default()))
        });
        let projects = holder_map.projects.iter().map(|(project, number)| {
            let record = u32::try_from(*project).ok().and_then(|id| tables.projects.get(&id));
            (*number, record.map(|record| record.controls))
        });
        let processes = holder_map.processes.iter();
        let processes = processes
            .map(|(pid, number)| (*number, tables.processes.get(pid).map(|process| process.controls)));
        let of = |(holder, values): (HolderIndex, Option<ControlValues>)| {
            let values = values?;
            let (shares, cap) = (values.shares.map(Shares::get), values.cap.map(CpuCap::get));
            Some(HolderSettings { holder, shares, cap })
        };
        zones.chain(projects).chain(processes).filter_map(of).collect()
    }

    /// The holder of a process, if it exists already.
    pub(crate) fn known_holder(&self, pid: Pid) -> Option<HolderIndex> {
        let above = self.above(pid, self.tables.processes.get(&pid)?);
        let HolderMap { projects, processes, .. } = &self.holder_map;
        match above.process {
            Some(process) => processes.get(&process).copied(),
            None => projects.get(&key(above.zone, above.project)).copied(),
        }
    }

    /// Deletes holders of processes that hold no process any more.
    fn drop_holders(&mut self) {
        let SimState { kernel, holder_map, tables, .. } = self;
        holder_map.processes.retain(|pid, number| {
            let holds_itself = tables.processes.get(pid).is_some_and(|p| !p.controls.is_none());
            let stays = holds_itself || tables.processes.values().any(|p| p.held_by == Some(*pid));
            if !stays {
                kernel.release_holder(*number);
                holder_map.used.remove(number);
            }
            stays
        });
    }

    /// Forgets the usage of a project that is removed.
    pub(crate) fn forget_project(&mut self, id: u32) {
        let SimState { kernel, holder_map, .. } = self;
        holder_map.projects.retain(|key, number| {
            let stays = *key & u64::from(u32::MAX) != u64::from(id);
            if !stays {
                kernel.release_holder(*number);
                holder_map.used.remove(number);
            }
            stays
        });
    }

    /// Adds the CPU time of an ended thread to its holders.
    pub(crate) fn keep_used(&mut self, pid: Pid, used: u64) {
        let Some(process) = self.tables.processes.get(&pid) else { return };
        let above = self.above(pid, process);
        let holder_map = &mut self.holder_map;
        let numbers = [
            holder_map.zones.get(&above.zone),
            holder_map.projects.get(&key(above.zone, above.project)),
            above.process.and_then(|pid| holder_map.processes.get(&pid)),
        ];
        for number in numbers.into_iter().flatten() {
            let sum = holder_map.used.entry(*number).or_default();
            *sum = sum.saturating_add(used);
        }
    }

    /// The kernel's holder; `None` before its first thread has run.
    fn number_of(&self, holder: HolderId) -> Option<HolderIndex> {
        match holder {
            HolderId::Zone(zone) => self.holder_map.zones.get(&zone),
            HolderId::Project(project) => self.holder_map.projects.get(&key(0, project)),
            HolderId::Process(pid) => self.holder_map.processes.get(&pid),
        }
        .copied()
    }

    /// CPU time of a holder's processes, including ended ones.
    pub(crate) fn used(&self, holder: HolderId) -> Nanos {
        let past =
            self.number_of(holder).and_then(|number| self.holder_map.used.get(&number)).copied().unwrap_or(0);
        let of = |pid: Pid| {
            let Some(process) = self.tables.processes.get(&pid) else { return false };
            let above = self.above(pid, process);
            match holder {
                HolderId::Zone(zone) => above.zone == zone,
                HolderId::Project(project) => above.zone == 0 && above.project == project,
                HolderId::Process(holder) => pid == holder || above.process == Some(holder),
            }
        };
        let living = self.threads.iter().filter(|(_, lwp)| of(lwp.pid)).map(|(thread, _)| {
            let t = self.kernel.thread(*thread);
            t.user + t.sys
        });
        Nanos(past.saturating_add(living.sum()))
    }

    /// Effect of a holder's cap; `None` without a cap.
    pub(crate) fn taken(&self, holder: HolderId) -> Option<Taken> {
        self.kernel.taken(self.number_of(holder)?)
    }

    /// Checks that the map contains each kernel holder exactly once.
    pub(crate) fn check_holder_map(&self) -> Result<(), String> {
        let HolderMap { zones, projects, processes, .. } = &self.holder_map;
        let are = |mut numbers: Vec<HolderIndex>, level: Level| {
            let count = numbers.len();
            numbers.sort_unstable();
            numbers.dedup();
            numbers.len() == count
                && numbers.iter().all(|number| self.kernel.level_of(*number) == Some(level))
        };
        let right = are(zones.values().copied().collect(), Level::Zone)
            && are(projects.values().copied().collect(), Level::Project)
            && are(processes.values().copied().collect(), Level::Process);
        if !right {
            return Err("what holds threads in the tables is something else in the kernel".into());
        }
        for (pid, process) in &self.tables.processes {
            if !self.tables.projects.contains_key(&process.project) {
                return Err(format!("process {pid} is in project {}, which does not exist", process.project));
            }
        }
        Ok(())
    }
}
