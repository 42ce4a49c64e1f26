//! Hosts whose cgroup tree belongs to systemd.
//!
//! # Why
//!
//! On such a host systemd is the one writer of the version 2 tree: it takes back controllers that no unit of
//! its own asked for, and with the controller go all partitions. So nothing is made or narrowed behind its back.
//!
//! # Nouns
//!
//! * Our **slice** (`mpset1.slice`, `mpdefault.slice`) is a set's cgroup: a transient unit directly below the root.
//! * A **scope** in it (`mpset1-204-1.scope`) holds a process that was moved in, with what it starts afterwards. Its
//!   label `origin` says where the process came from. systemd removes it when it is empty.
//! * A **foreign unit** is any other unit. Its list is its property `AllowedCPUs`, changed for this boot only.
//! * The [`Manager`] is what is asked: systemd on the system bus of a live root, [`captured::CapturedManager`] on a captured one.
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
//! Where no bus runs, a change that needs systemd is refused with the remedy. A slice of ours that exists keeps working: its lists are
//! files of its cgroup, which are then written directly.
//!
//! systemd answers before it has acted, so each change waits for the kernel to show it, for a while. It does not act on a unit that has
//! ended, whose cgroup may outlive it: the kernel removes none that a task is just leaving, and systemd does not always try again.
//!
//! # What follows
//!
//! Stopping a slice kills what runs in it: it is only stopped while nothing does, and nothing can be born there then.
//! A property is undone in three steps, because a kernel refuses to empty the list of a unit that has tasks: the full
//! list explicitly, the property reset, and the drop-in removed that remembers it.

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

/// How long systemd may take to do what it has agreed to.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often we look whether it has.
const POLL: Duration = Duration::from_millis(1);
/// How often systemd is asked whether the unit still runs, meanwhile.
const ASK: Duration = Duration::from_millis(200);

/// The refusal where the message bus cannot be reached.
#[cfg(feature = "systemd")]
fn no_bus(why: &str) -> KnobError {
    KnobError::Prevented {
        why: format!("systemd manages the cgroup tree, and no message bus runs to ask it ({why})"),
        hint: "start dbus.socket, or install the package dbus or dbus-broker".to_owned(),
    }
}

/// Where the system's run-time files are: beside `/proc`.
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

/// What acts as systemd for a captured root.
pub(crate) fn captured(os: &Os) -> Box<dyn Manager + '_> {
    Box::new(captured::CapturedManager::new(os))
}

impl Os {
    fn manager(&self) -> Result<Box<dyn Manager + '_>, KnobError> {
        self.fs.manager(self)
    }

    /// Starts the transient slice whose cgroup `path` is.
    pub(crate) fn make_unit(&self, path: &str) -> Result<(), KnobError> {
        let dir = self.group(path)?;
        if dir.is_dir() {
            return Ok(());
        }
        self.manager()?.start_slice(&unit(path)?)?;
        wait_for(|| Ok(dir.is_dir()), || format!("systemd has not made {path}"))
    }

    /// Stops it, unless something runs in it.
    pub(crate) fn remove_unit(&self, path: &str) -> Result<(), KnobError> {
        let dir = self.group(path)?;
        if !dir.is_dir() {
            return Ok(());
        }
        if self.is_populated(path)? {
            return Err(KnobError::Refused("processes still run in it".into()));
        }
        match self.manager()?.stop(&unit(path)?) {
            // systemd does not know it: a directory that somebody made by hand.
            Err(KnobError::Gone) => return self.remove_group(path),
            result => result?,
        }
        wait_for(|| Ok(!dir.is_dir()), || format!("systemd has not removed {path}"))
    }

    /// Whether a process is in a cgroup or below it.
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

    /// The CPUs that a unit is allowed by its own property.
    pub(crate) fn allowed_cpus(&self, path: &str) -> Result<Option<CpuSet>, KnobError> {
        let name = unit(path)?;
        match self.manager() {
            Ok(manager) => manager.allowed(&name),
            // Without a bus it is the list that is written instead.
            Err(no_bus) if names::owner(path).is_some() => {
                let text = self.root.read(&self.group(path)?.join("cpuset.cpus")).map_err(knob_error)?;
                let list = text.ok_or(no_bus)?.parse().unwrap_or_default();
                Ok(Some(list).filter(|list: &CpuSet| !list.is_empty()))
            }
            Err(no_bus) => Err(no_bus),
        }
    }

    /// Sets the property, or undoes it.
    pub(crate) fn allow_cpus(&self, path: &str, cpus: Option<&CpuSet>) -> Result<(), KnobError> {
        let name = unit(path)?;
        if names::owner(path).is_some() && cpus.is_none() {
            // It is about to be stopped, which takes the list along.
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
                // systemd would make the cgroup of one that has ended anew, and leave it there.
                if manager.is_active(&name)? {
                    manager.allow(&name, Some(&all))?;
                    self.wait_for_list(path, &all)?;
                }
                manager.allowed(&name)?.map_or(Ok(()), |_| manager.allow(&name, None))
            };
            match reset() {
                // It was a transient one, or its file was removed, perhaps just now: only our drop-in can be left.
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

    /// Sets the memory nodes of a slice of ours, or lets it have all again.
    pub(crate) fn allow_memory(&self, path: &str, nodes: Option<&NodeSet>) -> Result<(), KnobError> {
        // A kernel does not empty the list of a unit that has tasks.
        let wanted = nodes.cloned().unwrap_or_else(|| self.memory_nodes());
        match self.manager() {
            Ok(manager) => manager.allow_memory(&unit(path)?, &wanted)?,
            Err(no_bus) => return self.write_list(path, "cpuset.mems", &wanted.to_string(), no_bus),
        }
        self.wait_for(path, "cpuset.mems", &wanted, "memory nodes")
    }

    /// Writes a list of a slice of ours where systemd cannot be asked; of others, and where the slice has no such file, `no_bus` is the refusal.
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

    /// Removes the drop-in in which systemd remembers a property that we set for this boot.
    fn forget_drop_in(&self, unit: &str, setting: &str) -> Result<(), KnobError> {
        for file in self.drop_ins(unit, setting) {
            match self.root.remove(&file) {
                Err(error) if !is_gone(&error) => return Err(knob_error(error)),
                _ => {}
            }
            // It stays where it holds somebody else's settings.
            let _ = file.parent().map(|dir| self.root.remove_dir(dir));
        }
        Ok(())
    }

    /// Where that may be: transient units (scopes of containers) have their drop-ins in a directory of their own.
    fn drop_ins(&self, unit: &str, setting: &str) -> [PathBuf; 2] {
        let dir = run_dir(&self.root).join("systemd");
        ["system.control", "transient"].map(|of| dir.join(of).join(format!("{unit}.d/50-{setting}.conf")))
    }

    /// Whether a property of a unit was set for this boot. If not, the files of the unit say it.
    pub(crate) fn is_set_for_this_boot(&self, unit: &str, property: &str) -> bool {
        self.drop_ins(unit, setting(property)).iter().any(|file| file.exists())
    }

    /// Forgets that it was: the value stays until systemd reads the files of the unit again, which say the same.
    pub(crate) fn leave_to_files(&self, unit: &str, property: &str) -> Result<(), KnobError> {
        self.forget_drop_in(unit, setting(property))
    }

    /// A property of a unit that is a number.
    pub(crate) fn unit_number(&self, unit: &str, property: &str) -> Result<Option<u64>, KnobError> {
        self.manager()?.number(unit, property)
    }

    /// Sets it for this boot, or takes back what was set so.
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
            // It has ended: only our drop-in can be left.
            Ok(()) | Err(KnobError::Gone) => {}
            Err(error) => return Err(error),
        }
        // systemd calls the drop-in as its files call the setting.
        self.forget_drop_in(unit, setting(property))?;
        match manager.number(unit, property) {
            Ok(None) | Err(KnobError::Gone) => Ok(()),
            Ok(Some(is)) => Err(KnobError::Refused(format!("systemd still has {property}={is}"))),
            Err(error) => Err(error),
        }
    }

    /// Waits until the cgroup of a unit shows for CPU time what systemd was asked for.
    pub(crate) fn wait_for_unit(
        &self,
        path: &str,
        is_done: impl Fn() -> Result<bool, KnobError>,
        complaint: &str,
    ) -> Result<(), KnobError> {
        let dir = self.cpu_tree()?.dir(path);
        self.wait_while_active(path, &dir, is_done, || complaint.to_owned())
    }

    /// Waits for what the cgroup of a unit shows, as long as the unit runs.
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

    /// Moves a process: into a scope of ours, which is started where there is none yet, or to where it came from.
    pub(crate) fn place_by_systemd(&self, task: TaskId, path: &str) -> Result<(), KnobError> {
        self.still(task)?;
        if !names::is_scope(path) && !names::is_control_scope(path) {
            let adopted = names::unit(path).is_some_and(|unit| {
                let adopt = || self.manager()?.adopt(&unit, task.pid);
                adopt().is_ok() && self.wait_for_place(task, path).is_ok()
            });
            // What lies below a unit is its own; and a slice adopts nobody.
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

/// As unit files call a property.
fn setting(property: &str) -> &str {
    match property {
        "CPUQuotaPerSecUSec" => "CPUQuota",
        other => other,
    }
}

fn unit(path: &str) -> Result<String, KnobError> {
    names::unit(path).ok_or_else(|| KnobError::Unknown(format!("the unit of {path}")))
}

/// Waits for what shall be done, unless it is over: then nothing shows it, and nothing that is wrong with it matters.
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
        // It never ran.
        assert_eq!(waits(0, Ok(false)), (Ok(()), 1));
        // It is there, and cannot be read.
        assert_eq!(waits(9, Err(KnobError::NotPermitted)), (Err(KnobError::NotPermitted), 3));
        // Nobody can say whether it is over.
        let nobody = || Err(KnobError::Refused("no answer".into()));
        assert_eq!(wait_unless(nobody, || Ok(false), String::new), nobody().map(drop::<bool>));
    }
}
