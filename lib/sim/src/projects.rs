//! Projects: added, removed, configured, and entered by processes (`projadd`, `projdel`, `projmod`, `newtask`).
//!
//! A project's configuration is in its file, and so survives a reboot. A process that enters the project applies it, and overwrites values set by
//! `prctl`.

use crate::state::SimState;
use crate::tables::ProjectRecord;
use millpond_model::{ControlValues, FIRST_PROJECT, PROJECT_MAX, PROJECT_NAME_MAX, Pid, ProjectError};

impl SimState {
    /// The id of a project, from a name or a number.
    #[must_use]
    pub fn project_number(&self, word: &str) -> Option<u32> {
        let projects = &self.tables.projects;
        let by_name = projects.iter().find(|(_, project)| project.name == word).map(|(id, _)| *id);
        by_name.or_else(|| word.parse().ok().filter(|id| projects.contains_key(id)))
    }

    /// Adds a project; its default id is the first free one from 100 on.
    ///
    /// # Errors
    /// [`ProjectError`]; no project is added.
    pub fn add_project(
        &mut self,
        name: &str,
        id: Option<u32>,
        kept: ControlValues,
    ) -> Result<u32, ProjectError> {
        let inner = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
        if !name.starts_with(|c: char| c.is_ascii_alphabetic())
            || !name.chars().all(inner)
            || name.len() > PROJECT_NAME_MAX
        {
            return Err(ProjectError::Name);
        }
        let projects = &mut self.tables.projects;
        if projects.values().any(|project| project.name == name) {
            return Err(ProjectError::NameTaken);
        }
        let id = match id {
            Some(id) if id > PROJECT_MAX => return Err(ProjectError::Number),
            Some(id) => id,
            None => {
                let free = (FIRST_PROJECT..=PROJECT_MAX).find(|id| !projects.contains_key(id));
                free.ok_or(ProjectError::Number)?
            }
        };
        if let Some(other) = projects.get(&id) {
            return Err(ProjectError::NumberTaken(other.name.clone()));
        }
        if id < FIRST_PROJECT {
            return Err(ProjectError::Reserved);
        }
        projects
            .insert(id, ProjectRecord { name: name.to_owned(), controls: ControlValues::default(), kept });
        Ok(id)
    }

    /// Removes a project without processes.
    ///
    /// # Errors
    /// [`ProjectError`]; no project is removed.
    pub fn remove_project(&mut self, name: &str) -> Result<(), ProjectError> {
        let id = self.project_number(name).ok_or(ProjectError::NoSuchProject)?;
        if id < FIRST_PROJECT {
            return Err(ProjectError::Reserved);
        }
        if let Some((pid, _)) = self.tables.processes.iter().find(|(_, process)| process.project == id) {
            return Err(ProjectError::Busy(*pid));
        }
        self.forget_project(id);
        self.tables.projects.remove(&id);
        Ok(())
    }

    /// Configures a project. The change applies when the next process enters it.
    ///
    /// # Errors
    /// [`ProjectError`] for an unknown name.
    pub fn configure_project(&mut self, name: &str, kept: ControlValues) -> Result<(), ProjectError> {
        let id = self.project_number(name).ok_or(ProjectError::NoSuchProject)?;
        if let Some(project) = self.tables.projects.get_mut(&id) {
            project.kept = kept;
        }
        Ok(())
    }

    /// Moves a process into a project, and applies the project's configuration.
    ///
    /// # Errors
    /// [`ProjectError`]; nothing changes.
    pub fn enter_project(&mut self, pid: Pid, name: &str) -> Result<(), ProjectError> {
        let id = self.project_number(name).ok_or(ProjectError::NoSuchProject)?;
        match self.tables.processes.get_mut(&pid) {
            None => return Err(ProjectError::NoSuchProcess),
            Some(process) if process.kernel => return Err(ProjectError::Kernel),
            Some(process) => process.project = id,
        }
        if let Some(project) = self.tables.projects.get_mut(&id) {
            project.controls = project.kept.over(project.controls);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimMachine;
    use millpond_model::{CpuCap, Shares};

    fn shares(shares: u32) -> ControlValues {
        ControlValues { shares: Shares::new(shares).ok(), cap: None }
    }

    #[test]
    fn projects_have_free_numbers_from_100_on_and_names_once() {
        let machine = SimMachine::named("t2000").unwrap();
        machine.edit(|s| {
            assert_eq!(s.add_project("web", None, shares(3)), Ok(100));
            assert_eq!(s.add_project("db", Some(102), shares(1)), Ok(102));
            assert_eq!(s.add_project("a.b-c_1", None, shares(1)), Ok(101));
            assert_eq!(s.add_project("web", None, shares(3)), Err(ProjectError::NameTaken));
            assert_eq!(s.add_project("x", Some(102), shares(3)), Err(ProjectError::NumberTaken("db".into())));
            assert_eq!(s.add_project("x", Some(50), shares(3)), Err(ProjectError::Reserved));
            assert_eq!(s.add_project("x", Some(PROJECT_MAX + 1), shares(3)), Err(ProjectError::Number));
            for name in ["", "1a", "a b", "a\u{1b}", &"a".repeat(65)] {
                assert_eq!(s.add_project(name, None, shares(3)), Err(ProjectError::Name), "{name:?}");
            }
            assert_eq!(s.remove_project("system"), Err(ProjectError::Reserved));
            assert_eq!(s.remove_project("db"), Ok(()));
            assert_eq!(s.remove_project("db"), Err(ProjectError::NoSuchProject));
        });
    }

    #[test]
    fn who_enters_sets_what_the_project_is_configured_with_and_a_boot_keeps_that_alone() {
        let machine = SimMachine::named("t2000").unwrap();
        let pid = machine.spawn("web", 2);
        machine.edit(|s| {
            s.add_project("web", None, shares(3)).unwrap();
            assert_eq!(s.tables.projects[&100].controls, ControlValues::default());
            s.enter_project(pid, "web").unwrap();
            assert_eq!(
                (s.tables.processes[&pid].project, s.tables.projects[&100].controls),
                (100, shares(3))
            );
            // As by prctl: the cap stays; the shares stay until the next process enters.
            s.tables.projects.get_mut(&100).unwrap().controls =
                ControlValues { cap: CpuCap::new(50).ok(), ..shares(7) };
            s.enter_project(pid, "100").unwrap();
            assert_eq!(
                s.tables.projects[&100].controls,
                ControlValues { cap: CpuCap::new(50).ok(), ..shares(3) }
            );
            assert_eq!(s.remove_project("web"), Err(ProjectError::Busy(pid)));
            assert_eq!(s.enter_project(Pid(0), "web"), Err(ProjectError::Kernel));
            assert_eq!(s.enter_project(Pid(9_999), "web"), Err(ProjectError::NoSuchProcess));
            assert_eq!(s.enter_project(pid, "nowhere"), Err(ProjectError::NoSuchProject));
        });
        let new = machine.view(|s| s.rebooted("/etc/system"));
        assert_eq!(
            (new.tables.projects[&100].controls, new.tables.projects[&100].kept),
            (shares(3), shares(3))
        );
    }

    #[test]
    fn a_project_that_had_processes_can_be_removed_when_they_are_gone() {
        let machine = SimMachine::named("t2000").unwrap();
        let load = crate::workloads::Load::parse(&["spin".to_owned()]).unwrap();
        let pid = machine.start_load(&load);
        machine.edit(|s| {
            s.add_project("web", None, shares(3)).unwrap();
            s.enter_project(pid, "web").unwrap();
        });
        machine.edit(|s| s.advance(1_000_000_000));
        assert!(machine.exit(pid));
        machine.edit(|s| s.remove_project("web")).unwrap();
        machine.edit(|s| s.advance(2_000_000_000));
        assert_eq!(machine.view(SimState::check), Ok(()));
        // The id belongs to another project by then, which has no usage.
        machine.edit(|s| s.add_project("db", Some(100), shares(1))).unwrap();
        assert_eq!(machine.view(|s| s.used(crate::tables::HolderId::Project(100))).0, 0);
    }
}
