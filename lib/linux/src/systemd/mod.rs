//! Hosts whose cgroup tree belongs to systemd.
//!
//! # Why
//!
//! On such a host systemd is the only writer of the version 2 tree. It disables controllers that none of its units requested, and
//! with the controller all partitions end. So no cgroup is created or narrowed without systemd.
//!
//! # Nouns
//!
//! * Our **slice** (`mpset1.slice`, `mpdefault.slice`) is the cgroup of a set: a transient unit directly below the root.
//! * A **scope** in it (`mpset1-204-1.scope`) has a process that was moved in, and its later children. Its label `origin` is the
//!   original cgroup of the process. systemd removes an empty scope.
//! * A **foreign unit** is any other unit. Its list is its property `AllowedCPUs`, changed for this boot only.
//! * The [`Manager`] receives the requests: systemd on the system bus of a live root, [`captured::CapturedManager`] on a captured
//!   one.
//!
//! # How it works
//!
//! ```text
//!   unit:/mpset1.slice        StartTransientUnit, StopUnit        present, or not
//!   allowed:/mpset1.slice     SetUnitProperties (runtime)         AllowedCPUs
//!   memory:/mpset1.slice      SetUnitProperties (runtime)         AllowedMemoryNodes
//!   weight:, quota:           SetUnitProperties (runtime)         CPUWeight, CPUQuotaPerSecUSec
//!   kept:nginx.service        a drop-in of ours, Reload              the slice that it starts in
//!   place:204@8123            StartTransientUnit of a scope, AttachProcessesToUnit
//!   cg:…/cpuset.cpus.partition, cg:…/cpuset.cpus.exclusive        by us: systemd writes neither
//! ```
//!
//! Without a bus, a change that needs systemd is refused with a remedy. An existing slice of ours keeps working: its lists are
//! then written directly to the files of its cgroup.
//!
//! systemd answers before it has acted, so each change waits, with a timeout, until the kernel shows the result. systemd does not
//! act on a unit that has ended. The cgroup of such a unit may still exist: the kernel does not remove it while a task is leaving
//! it, and systemd does not always retry.
//!
//! # Consequences
//!
//! Stopping a slice kills its processes. So a slice is only stopped while it has none, and then no new ones can appear in it. A
//! property is reset in three steps, because a kernel refuses to clear the list of a unit with tasks: set the full list, reset
//! the property, and remove the drop-in in which systemd stores it.

#[cfg(feature = "systemd")]
mod bus;
mod captured;
mod drop_in;
mod manager;

pub(crate) use drop_in::{is_stronger, section};
pub(crate) use manager::Manager;

use crate::knob::TaskId;
use crate::os::knob_error;
use crate::{Os, Root, is_gone, names};
use millpond_machine::KnobError;
use millpond_model::{CpuSet, NodeSet};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Timeout for systemd to perform what it has accepted.
const PATIENCE: Duration = Duration::from_secs(30);
/// Interval between checks of the result.
const POLL: Duration = Duration::from_millis(1);
/// Interval between checks whether the unit is still active.
const ASK: Duration = Duration::from_millis(200);

/// The refusal if the message bus cannot be reached.
#[cfg(feature = "systemd")]
fn no_bus(why: &str) -> KnobError {
    KnobError::Prevented {
        why: format!("systemd manages the cgroup tree, and no message bus runs to ask it ({why})"),
        hint: "start dbus.socket, or install the package dbus or dbus-broker".to_owned(),
    }
}

/// The directory of run-time files: next to `/proc`.
pub(crate) fn run_dir(root: &Root) -> PathBuf {
    root.proc.with_file_name("run")
}

/// Connects to the systemd of this machine.
pub(crate) fn connect<'a>() -> Result<Box<dyn Manager + 'a>, KnobError> {
    #[cfg(feature = "systemd")]
    return Ok(Box::new(bus::Bus::connect()?));
    #[cfg(not(feature = "systemd"))]
    Err(KnobError::Refused("systemd owns the cgroup tree, and this program was built without it".into()))
}

/// The emulated systemd of a captured root.
pub(crate) fn captured(os: &Os) -> Box<dyn Manager + '_> {
    Box::new(captured::CapturedManager::new(os))
}

impl Os {
    fn manager(&self) -> Result<Box<dyn Manager + '_>, KnobError> {
        self.fs.manager(self)
    }

    /// Starts the transient slice of the cgroup `path`.
    pub(crate) fn make_unit(&self, path: &str) -> Result<(), KnobError> {
        let dir = self.group(path)?;
        if dir.is_dir() {
            return Ok(());
        }
        self.manager()?.start_slice(&unit(path)?)?;
        wait_for(|| Ok(dir.is_dir()), || format!("systemd has not made {path}"))
    }

    /// Stops the slice, unless it has processes.
    pub(crate) fn remove_unit(&self, path: &str) -> Result<(), KnobError> {
        let dir = self.group(path)?;
        if !dir.is_dir() {
            return Ok(());
        }
        if self.is_populated(path)? {
            return Err(KnobError::Refused("processes still run in it".into()));
        }
        match self.manager()?.stop(&unit(path)?) {
            // systemd does not know this unit: the directory was created manually.
            Err(KnobError::Gone) => return self.remove_group(path),
            result => result?,
        }
        wait_for(|| Ok(!dir.is_dir()), || format!("systemd has not removed {path}"))
    }

    /// Whether a cgroup or a descendant has processes.
    fn is_populated(&self, path: &str) -> Result<bool, KnobError> {
        let dir = self.group(path)?;
        let read = |name: &str| self.root.read(&dir.join(name)).map_err(knob_error);
        if let Some(events) = read("cgroup.events")? {
            return Ok(events.lines().any(|l| l == "populated 1"));
        }
        if read("cgroup.procs")?.is_some_and(|t| !t.trim().is_empty()) {
            return Ok(true);
        }
        for name in self.root.names(&dir).map_err(knob_error)? {
            if dir.join(&name).is_dir() && self.is_populated(&format!("{path}/{name}"))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The property `AllowedCPUs` of a unit.
    pub(crate) fn allowed_cpus(&self, path: &str) -> Result<Option<CpuSet>, KnobError> {
        let name = unit(path)?;
        match self.manager() {
            Ok(manager) => manager.allowed(&name),
            // Without a bus, the file of the cgroup is used instead.
            Err(no_bus) if names::owner(path).is_some() => {
                let text = self.root.read(&self.group(path)?.join("cpuset.cpus")).map_err(knob_error)?;
                let list = text.ok_or(no_bus)?.parse().unwrap_or_default();
                Ok(Some(list).filter(|list: &CpuSet| !list.is_empty()))
            }
            Err(no_bus) => Err(no_bus),
        }
    }

    /// Sets or resets the property `AllowedCPUs`.
    pub(crate) fn allow_cpus(&self, path: &str, cpus: Option<&CpuSet>) -> Result<(), KnobError> {
        let name = unit(path)?;
        if names::owner(path).is_some() && cpus.is_none() {
            // The slice is about to be stopped, which removes the list.
            return Ok(());
        }
        let manager = match (self.manager(), cpus) {
            (Ok(manager), _) => manager,
            (Err(no_bus), Some(cpus)) => {
                return self.write_list(path, "cpuset.cpus", &cpus.to_string(), no_bus);
            }
            (Err(no_bus), None) => return Err(no_bus),
        };
        let Some(cpus) = cpus else {
            let all = self.possible().clone();
            let reset = || {
                // For an ended unit, systemd would create the cgroup again and leave it.
                if manager.is_active(&name)? {
                    manager.allow(&name, Some(&all))?;
                    self.wait_for_list(path, &all)?;
                }
                manager.allowed(&name)?.map_or(Ok(()), |_| manager.allow(&name, None))
            };
            match reset() {
                // The unit was transient, or its file was removed, perhaps just now. Only our drop-in can be left.
                Ok(()) | Err(KnobError::Gone) => self.forget_drop_in(&name, "AllowedCPUs")?,
                Err(error) => return Err(error),
            }
            return match manager.allowed(&name) {
                Ok(None) | Err(KnobError::Gone) => Ok(()),
                Ok(Some(is)) => Err(KnobError::Refused(format!("systemd still has AllowedCPUs={is}"))),
                Err(error) => Err(error),
            };
        };
        manager.allow(&name, Some(cpus))?;
        self.wait_for_list(path, cpus)
    }

    /// Sets the memory nodes of one of our slices; `None` allows all.
    pub(crate) fn allow_memory(&self, path: &str, nodes: Option<&NodeSet>) -> Result<(), KnobError> {
        // A kernel does not clear the list of a unit with tasks.
        let wanted = nodes.cloned().unwrap_or_else(|| self.memory_nodes());
        match self.manager() {
            Ok(manager) => manager.allow_memory(&unit(path)?, &wanted)?,
            Err(no_bus) => return self.write_list(path, "cpuset.mems", &wanted.to_string(), no_bus),
        }
        self.wait_for(path, "cpuset.mems", &wanted, "memory nodes")
    }

    /// Writes a list of one of our slices directly, without systemd. Fails with `no_bus` for other units, and if the slice has no
    /// such file.
    fn write_list(&self, path: &str, file: &str, list: &str, no_bus: KnobError) -> Result<(), KnobError> {
        let file = self.group(path)?.join(file);
        if names::owner(path).is_none() || !file.exists() {
            return Err(no_bus);
        }
        self.write(&file, list)
    }

    fn wait_for_list(&self, path: &str, wanted: &CpuSet) -> Result<(), KnobError> {
        self.wait_for(path, "cpuset.cpus", wanted, "processors")
    }

    fn wait_for<T>(&self, path: &str, name: &str, wanted: &T, noun: &str) -> Result<(), KnobError>
    where
        T: FromStr + Default + PartialEq + Display,
    {
        let dir = self.group(path)?;
        let file = dir.join(name);
        let read = || -> Result<T, KnobError> {
            let text = self.root.read(&file).map_err(knob_error)?.unwrap_or_default();
            Ok(text.parse().unwrap_or_default())
        };
        self.wait_while_active(
            path,
            &dir,
            || Ok(read()? == *wanted),
            || format!("its {noun} are `{}` instead of `{wanted}`", read().unwrap_or_default()),
        )
    }

    /// Removes the drop-in in which systemd stores a property that we set for this boot.
    fn forget_drop_in(&self, unit: &str, setting: &str) -> Result<(), KnobError> {
        for file in self.drop_ins(unit, setting) {
            match self.root.remove(&file) {
                Err(error) if !is_gone(&error) => return Err(knob_error(error)),
                _ => {}
            }
            // Fails if the directory has other settings.
            let _ = file.parent().map(|dir| self.root.remove_dir(dir));
        }
        Ok(())
    }

    /// The possible paths of that drop-in. Transient units (scopes of containers) have a directory of their own.
    fn drop_ins(&self, unit: &str, setting: &str) -> [PathBuf; 2] {
        let dir = run_dir(&self.root).join("systemd");
        ["system.control", "transient"].map(|of| dir.join(of).join(format!("{unit}.d/50-{setting}.conf")))
    }

    /// Whether a property of a unit was set for this boot. Otherwise its value comes from the unit's files.
    pub(crate) fn is_set_for_this_boot(&self, unit: &str, property: &str) -> bool {
        self.drop_ins(unit, setting(property)).iter().any(|file| file.exists())
    }

    /// Removes the setting for this boot. The value stays until systemd reloads the unit's files, which have the same value.
    pub(crate) fn leave_to_files(&self, unit: &str, property: &str) -> Result<(), KnobError> {
        self.forget_drop_in(unit, setting(property))
    }

    /// A numeric property of a unit.
    pub(crate) fn unit_number(&self, unit: &str, property: &str) -> Result<Option<u64>, KnobError> {
        self.manager()?.number(unit, property)
    }

    /// Sets a numeric property for this boot; `None` resets it.
    pub(crate) fn set_unit_number(
        &self,
        unit: &str,
        property: &str,
        value: Option<u64>,
    ) -> Result<(), KnobError> {
        let manager = self.manager()?;
        if value.is_some() {
            return manager.set_number(unit, property, value);
        }
        match manager.number(unit, property).and_then(|_| manager.set_number(unit, property, None)) {
            // The unit has ended. Only our drop-in can be left.
            Ok(()) | Err(KnobError::Gone) => {}
            Err(error) => return Err(error),
        }
        // The drop-in is named after the setting in unit files.
        self.forget_drop_in(unit, setting(property))?;
        match manager.number(unit, property) {
            Ok(None) | Err(KnobError::Gone) => Ok(()),
            Ok(Some(is)) => Err(KnobError::Refused(format!("systemd still has {property}={is}"))),
            Err(error) => Err(error),
        }
    }

    /// Waits until the cgroup of a unit shows the requested CPU weight or quota.
    pub(crate) fn wait_for_unit(
        &self,
        path: &str,
        is_done: impl Fn() -> Result<bool, KnobError>,
        complaint: &str,
    ) -> Result<(), KnobError> {
        let dir = self.cpu_tree()?.dir(path);
        self.wait_while_active(path, &dir, is_done, || complaint.to_owned())
    }

    /// Waits for a condition on the cgroup of a unit, as long as the unit is active.
    fn wait_while_active(
        &self,
        path: &str,
        dir: &Path,
        is_done: impl FnMut() -> Result<bool, KnobError>,
        complaint: impl FnOnce() -> String,
    ) -> Result<(), KnobError> {
        let mut asked = Instant::now();
        let is_over = || {
            if !dir.is_dir() {
                return Ok(true);
            }
            if asked.elapsed() < ASK {
                return Ok(false);
            }
            asked = Instant::now();
            Ok(!self.manager()?.is_active(&unit(path)?)?)
        };
        wait_unless(is_over, is_done, complaint)
    }

    /// Moves a process: into a scope of ours, which is started if missing, or to its original cgroup.
    pub(crate) fn place_by_systemd(&self, task: TaskId, path: &str) -> Result<(), KnobError> {
        self.still(task)?;
        if !names::is_scope(path) && !names::is_control_scope(path) {
            let adopted = names::unit(path).is_some_and(|unit| {
                let adopt = || self.manager()?.adopt(&unit, task.pid);
                adopt().is_ok() && self.wait_for_place(task, path).is_ok()
            });
            // Cgroups below a unit belong to the unit, and a slice cannot adopt processes.
            return if adopted { Ok(()) } else { self.attach(task, path) };
        }
        let scope = unit(path)?;
        let slice = path.rsplit_once('/').map_or("", |(slice, _)| slice);
        let manager = self.manager()?;
        if self.group(path)?.is_dir() {
            manager.adopt(&scope, task.pid)?;
        } else {
            manager.start_scope(&scope, &unit(slice)?, task.pid)?;
        }
        self.wait_for_place(task, path)
    }

    fn wait_for_place(&self, task: TaskId, path: &str) -> Result<(), KnobError> {
        let read = || {
            self.still(task)?;
            self.place(task.pid, None).map_err(knob_error)
        };
        wait_for(
            || Ok(read()?.as_deref() == Some(path)),
            || {
                let at = read().ok().flatten().unwrap_or_default();
                format!("systemd has not moved the process: it is in {at}")
            },
        )
    }
}

/// The name of a property in unit files.
fn setting(property: &str) -> &str {
    match property {
        "CPUQuotaPerSecUSec" => "CPUQuota",
        other => other,
    }
}

fn unit(path: &str) -> Result<String, KnobError> {
    names::unit(path).ok_or_else(|| KnobError::Unknown(format!("the unit of {path}")))
}

/// Waits for `is_done`, unless `is_over`: then errors of `is_done` are ignored.
fn wait_unless(
    mut is_over: impl FnMut() -> Result<bool, KnobError>,
    mut is_done: impl FnMut() -> Result<bool, KnobError>,
    complaint: impl FnOnce() -> String,
) -> Result<(), KnobError> {
    let is_done = || match is_done() {
        Ok(true) => Ok(true),
        told => {
            if is_over()? {
                Ok(true)
            } else {
                told
            }
        }
    };
    wait_for(is_done, complaint)
}

fn wait_for(
    mut is_done: impl FnMut() -> Result<bool, KnobError>,
    complaint: impl FnOnce() -> String,
) -> Result<(), KnobError> {
    let start = Instant::now();
    while !is_done()? {
        if start.elapsed() > PATIENCE {
            return Err(KnobError::Refused(complaint()));
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn what_is_over_while_it_is_waited_for_shows_nothing_any_more() {
        let waits = |over: u32, last: Result<bool, KnobError>| {
            let looks = Cell::new(0);
            let look = || {
                looks.set(looks.get() + 1);
                if looks.get() < 3 { Ok(false) } else { last.clone() }
            };
            (wait_unless(|| Ok(looks.get() >= over), look, || "it is not as asked for".into()), looks.get())
        };
        assert_eq!(waits(3, Ok(false)), (Ok(()), 3));
        assert_eq!(waits(3, Err(KnobError::Gone)), (Ok(()), 3));
        assert_eq!(waits(9, Ok(true)), (Ok(()), 3));
        // The unit was never active.
        assert_eq!(waits(0, Ok(false)), (Ok(()), 1));
        // The file exists and cannot be read.
        assert_eq!(waits(9, Err(KnobError::NotPermitted)), (Err(KnobError::NotPermitted), 3));
        // The end cannot be determined either.
        let nobody = || Err(KnobError::Refused("no answer".into()));
        assert_eq!(wait_unless(nobody, || Ok(false), String::new), nobody().map(drop::<bool>));
    }
}
