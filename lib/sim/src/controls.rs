//! The controls facet: shares and caps of projects, zones and processes.

use crate::kernel::PERIOD;
use crate::machine::SimMachine;
use crate::state::SimState;
use crate::tables::HolderId;
use millpond_machine::facets::{Controlled, Controls, Enforced, Recontrolled, Throttled};
use millpond_machine::{Absent, Change, Reason, Refusal, Subject};
use millpond_model::{Class, Control, ControlHolder, ControlSetting, Nanos, Pid};

impl Controls for SimMachine {
    fn made_by(&self) -> String {
        "simulated: shares by the class FSS, caps whatever the class".to_owned()
    }

    fn live(&self, _: Control) -> Result<(), Absent> {
        Ok(())
    }

    fn list(&self) -> Result<Vec<Controlled>, Refusal> {
        self.view(|s| {
            let mut projects: Vec<&String> =
                s.tables.projects.values().map(|project| &project.name).collect();
            projects.sort_unstable();
            let mut zones: Vec<&String> = s.zones.iter().collect();
            zones.sort_unstable();
            let own = s.tables.processes.iter().filter(|(_, process)| !process.controls.is_none());
            let projects = projects.into_iter().cloned().map(ControlHolder::Project);
            let zones = zones.into_iter().cloned().map(ControlHolder::Zone);
            let processes = own.map(|(pid, _)| ControlHolder::Process(*pid));
            projects.chain(zones).chain(processes).map(|holder| controlled(s, &holder)).collect()
        })
    }

    fn controlled(&self, holder: &ControlHolder) -> Result<Controlled, Refusal> {
        self.view(|s| controlled(s, holder))
    }

    fn number(&self, holder: &ControlHolder) -> Option<u64> {
        self.view(|s| match holder {
            // A running zone has the id that the machine file gives.
            ControlHolder::Zone(name) => s.zone_id(name).map(u64::from),
            ControlHolder::Project(_) | ControlHolder::Process(_) => match number(s, holder).ok()? {
                HolderId::Project(id) | HolderId::Zone(id) => Some(u64::from(id)),
                HolderId::Process(pid) => Some(u64::from(pid.0)),
            },
        })
    }

    fn holders_of(&self, pid: Pid) -> Result<Vec<ControlHolder>, Refusal> {
        self.view(|s| {
            let process = s.tables.processes.get(&pid);
            let process = process.ok_or(Refusal::new(Subject::Process(pid), Reason::NoSuchProcess))?;
            let mut holders = vec![ControlHolder::Process(pid)];
            // Projects of other zones cannot be named from the global one.
            if s.zone_number(&process.zone) == Some(0) {
                let project = s.tables.projects.get(&process.project);
                holders.extend(project.map(|project| ControlHolder::Project(project.name.clone())));
            }
            holders.push(ControlHolder::Zone(process.zone.clone()));
            Ok(holders)
        })
    }

    fn enforced(&self, holder: &ControlHolder, control: Control) -> Result<Enforced, Refusal> {
        self.view(|s| number(s, holder))?;
        Ok(match control {
            Control::CpuShares => Enforced {
                by: "class FSS".into(),
                exact: true,
                note: Some("shares have no effect on threads of other classes".into()),
            },
            Control::CpuCap => Enforced {
                by: "CPU caps".into(),
                exact: true,
                note: Some(format!("{} ms of a cap may be used ahead", PERIOD / 1_000_000)),
            },
        })
    }

    fn prepare_set(
        &self,
        holder: &ControlHolder,
        to: ControlSetting,
    ) -> Result<Change<Recontrolled>, Refusal> {
        let id = self.view(|s| number(s, holder))?;
        let mut builder = self.builder();
        if let HolderId::Process(pid) = id
            && builder.tables.processes.get(&pid).is_some_and(|process| process.kernel)
        {
            return Err(Refusal::new(Subject::Process(pid), Reason::KernelThread));
        }
        let from = builder.tables.controls_of(id).setting(to.control());
        builder.control(id, to)?;
        let what = match to.value() {
            Some(value) => format!("set {} of {holder} to {value}", to.control()),
            None => format!("delete {} of {holder}", to.control()),
        };
        let mut change = builder.finish(what, Recontrolled { holder: holder.clone(), from, to });
        if matches!(to, ControlSetting::CpuShares(Some(_))) && !self.view(|s| is_shared(s, id)) {
            change.notes.push(format!(
                "no process of {holder} is in class FSS: its shares have no effect until one is (priocntl -s -c FSS)"
            ));
        }
        Ok(change)
    }
}

/// The kernel's number of a holder.
fn number(state: &SimState, holder: &ControlHolder) -> Result<HolderId, Refusal> {
    let refuse = |reason| Refusal::new(Subject::from(holder), reason);
    match holder {
        ControlHolder::Project(name) => {
            let found = state.tables.projects.iter().find(|(_, project)| project.name == *name);
            found.map(|(id, _)| HolderId::Project(*id)).ok_or_else(|| {
                let names: Vec<&str> = state.tables.projects.values().map(|one| one.name.as_str()).collect();
                refuse(Reason::NoSuchProject).hint(format!("there are {}", names.join(", ")))
            })
        }
        ControlHolder::Zone(name) => {
            let found = state.zone_number(name).map(HolderId::Zone);
            found.ok_or_else(|| refuse(Reason::NoSuchZone).hint("millpond zones lists them"))
        }
        ControlHolder::Process(pid) => {
            let exists = state.tables.processes.contains_key(pid);
            exists.then_some(HolderId::Process(*pid)).ok_or_else(|| refuse(Reason::NoSuchProcess))
        }
    }
}

fn controlled(state: &SimState, holder: &ControlHolder) -> Result<Controlled, Refusal> {
    let id = number(state, holder)?;
    let values = state.tables.controls_of(id);
    let throttled = state.taken(id).map(|taken| Throttled {
        time: Nanos(taken.time),
        periods: taken.periods,
        of: taken.of,
        period: Nanos(PERIOD),
    });
    Ok(Controlled {
        holder: holder.clone(),
        shares: values.shares,
        cap: values.cap,
        used: Some(state.used(id)),
        throttled,
    })
}

/// Whether any thread of a holder is in FSS.
fn is_shared(state: &SimState, id: HolderId) -> bool {
    let within = |pid: &Pid, process: &crate::tables::ProcessRecord| match id {
        HolderId::Zone(zone) => state.zone_number(&process.zone) == Some(zone),
        HolderId::Project(project) => {
            state.zone_number(&process.zone) == Some(0) && process.project == project
        }
        HolderId::Process(holder) => *pid == holder,
    };
    let inside = state.tables.processes.iter().filter(|(pid, process)| within(pid, process));
    inside.flat_map(|(_, process)| process.lwps.values()).any(|lwp| lwp.class.class() == Class::Fss)
}
