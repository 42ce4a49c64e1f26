//! The operands of `prctl`: processes, tasks, projects and zones, by name or number.

use crate::failure::{Complaint, Failure, read};
use millpond_machine::facets::CensusOptions;
use millpond_machine::{Controls, Machine, Reason};
use millpond_model::{ControlHolder, HolderKind, Pid};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// The type of ids (`-i`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdType {
    Process,
    Task,
    Project,
    Zone,
}

impl FromStr for IdType {
    type Err = Failure;

    fn from_str(word: &str) -> Result<Self, Failure> {
        Ok(match word {
            "process" | "pid" => IdType::Process,
            "task" | "taskid" => IdType::Task,
            "project" | "projid" => IdType::Project,
            "zone" | "zoneid" => IdType::Zone,
            _ => {
                let word = word.escape_debug();
                return Err(Failure::Usage(format!("-i takes process, task, project or zone, not `{word}`")));
            }
        })
    }
}

impl fmt::Display for IdType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IdType::Process => "process",
            IdType::Task => "task",
            IdType::Project => "project",
            IdType::Zone => "zone",
        })
    }
}

/// Projects, zones and tasks of a machine, by number.
pub(super) struct Directory {
    projects: Vec<(u64, String)>,
    zones: Vec<(u64, String)>,
    /// A process of each task.
    tasks: BTreeMap<u32, Pid>,
}

impl Directory {
    /// Reads the machine. If it does not number zones itself, their numbers are those of the lines of `millpond
    /// zones`. Projects then have the numbers of `prstat`, or else their positions in the list of projects.
    pub(super) fn read(machine: &dyn Machine, controls: &dyn Controls) -> Result<Directory, Failure> {
        let options = CensusOptions { places: true, ..CensusOptions::default() };
        let roster = machine.census().ok().and_then(|census| census.list(options).ok()).unwrap_or_default();
        let mut projects: BTreeMap<String, u64> = BTreeMap::new();
        let mut zones: BTreeMap<String, u64> = BTreeMap::new();
        let mut tasks = BTreeMap::new();
        for process in &roster.processes {
            projects.insert(process.project.name.clone(), process.project.id);
            zones.insert(process.zone.name.clone(), process.zone.id);
            tasks.entry(process.task).or_insert(process.pid);
        }
        let listed = machine.zones().ok().and_then(|zones| zones.list().ok()).unwrap_or_default();
        let lines = (0u64..).zip(listed).map(|(line, zone)| (zone.name, line));
        let lines: BTreeMap<String, u64> = lines.collect();
        let all = read("shares and caps", controls.list())?;
        let (mut directory, mut taken) =
            (Directory { projects: Vec::new(), zones: Vec::new(), tasks }, BTreeSet::new());
        for holder in all.into_iter().map(|one| one.holder) {
            match (controls.number(&holder), holder) {
                (Some(id), ControlHolder::Project(name)) => directory.projects.push((id, name)),
                (Some(id), ControlHolder::Zone(name)) => directory.zones.push((id, name)),
                (None, ControlHolder::Project(name)) => {
                    let known = projects.get(&name).copied().filter(|id| taken.insert(*id));
                    let free =
                        || (0..).find(|id| !projects.values().any(|is| is == id) && !taken.contains(id));
                    let id = known.or_else(free).unwrap_or(0);
                    taken.insert(id);
                    directory.projects.push((id, name));
                }
                (None, ControlHolder::Zone(name)) => {
                    let id = lines.get(&name).or_else(|| zones.get(&name)).copied();
                    directory.zones.push((id.unwrap_or(u64::MAX), name));
                }
                (_, ControlHolder::Process(_)) => {}
            }
        }
        Ok(directory)
    }

    /// The number of a holder.
    pub(super) fn number(&self, holder: &ControlHolder) -> u64 {
        let of = |list: &[(u64, String)], name: &str| {
            list.iter().find(|(_, is)| is == name).map_or(0, |(id, _)| if *id == u64::MAX { 0 } else { *id })
        };
        match holder {
            ControlHolder::Project(name) => of(&self.projects, name),
            ControlHolder::Zone(name) => of(&self.zones, name),
            ControlHolder::Process(pid) => u64::from(pid.0),
        }
    }

    /// All holders of an id, the nearest first: a process, its project and its zone; a project; a zone.
    pub(super) fn holders(
        &self,
        id: &str,
        idtype: IdType,
        controls: &dyn Controls,
    ) -> Result<Vec<ControlHolder>, Complaint> {
        let what = format!("find {idtype} {}", id.escape_debug());
        let named = |list: &[(u64, String)]| {
            let by_number = || list.iter().find(|(number, _)| number.to_string() == id);
            let found = list.iter().find(|(_, name)| name == id).or_else(by_number);
            found.map_or_else(|| id.to_owned(), |(_, name)| name.clone())
        };
        let of_process = |pid: Pid| {
            let found =
                controls.holders_of(pid).map_err(|r| Complaint::refused(&what, |_| Some(what.clone()), &r));
            found.map(|mut found| {
                let own = ControlHolder::Process(pid);
                if !found.contains(&own) {
                    found.insert(0, own);
                }
                found
            })
        };
        let no_number = |noun| Complaint::new(what.clone(), format!("a {noun} has a number"));
        match idtype {
            IdType::Project => Ok(vec![ControlHolder::Project(named(&self.projects))]),
            IdType::Zone => Ok(vec![ControlHolder::Zone(named(&self.zones))]),
            IdType::Process => of_process(id.parse().map_err(|_| no_number("process"))?),
            IdType::Task => {
                let task: u32 = id.parse().map_err(|_| no_number("task"))?;
                let pid = self.tasks.get(&task);
                let pid = pid.ok_or_else(|| Complaint::new(what.clone(), "there is no such task"))?;
                let found = of_process(*pid)?;
                Ok(found.into_iter().filter(|holder| holder.kind() != HolderKind::Process).collect())
            }
        }
    }

    /// The holder of an id among those of one kind.
    pub(super) fn holder(
        &self,
        id: &str,
        idtype: IdType,
        kind: HolderKind,
        controls: &dyn Controls,
    ) -> Result<ControlHolder, Complaint> {
        let found = self.holders(id, idtype, controls)?;
        found.into_iter().find(|holder| holder.kind() == kind).ok_or_else(|| {
            let what = format!("find the {kind} of {idtype} {}", id.escape_debug());
            let why = match (idtype, kind) {
                (IdType::Process | IdType::Task, _) => {
                    Reason::Machine(format!("it is in no {kind}")).to_string()
                }
                _ => format!("a {idtype} has no {kind}.* controls"),
            };
            Complaint::new(what, why)
        })
    }
}
