//! Emulates systemd on a root that is only files. It creates and removes the cgroups of units, stores `AllowedCPUs` in drop-ins,
//! enables the controller where a property needs it and disables it elsewhere, and removes empty scopes.

use super::{Manager, run_dir};
use crate::hierarchy::lists_cpuset;
use crate::knob::TaskId;
use crate::os::knob_error;
use crate::{Os, Root, is_gone, names};
use millpond_machine::KnobError;
use millpond_model::{CpuSet, NodeSet};
use std::path::{Path, PathBuf};

pub(super) struct CapturedManager<'a> {
    os: &'a Os,
}

impl<'a> CapturedManager<'a> {
    pub fn new(os: &'a Os) -> Self {
        let manager = CapturedManager { os };
        manager.reap();
        manager
    }

    /// The cgroup of a running unit.
    fn path_of(&self, unit: &str) -> Option<String> {
        let mut todo = vec![String::new()];
        while let Some(above) = todo.pop() {
            for path in self.children(&above) {
                if names::unit(&path).as_deref() == Some(unit) {
                    return Some(path);
                }
                todo.push(path);
            }
        }
        None
    }

    fn children(&self, above: &str) -> Vec<String> {
        let Ok(dir) = self.os.group(above) else { return Vec::new() };
        let names = self.os.root.names(&dir).unwrap_or_default();
        names.into_iter().filter(|n| dir.join(n).is_dir()).map(|n| format!("{above}/{n}")).collect()
    }

    fn drop_in(&self, unit: &str) -> PathBuf {
        run_dir(&self.os.root).join(format!("systemd/system.control/{unit}.d/50-AllowedCPUs.conf"))
    }

    fn property(&self, unit: &str) -> Option<CpuSet> {
        let text = self.os.root.text(self.drop_in(unit)).ok()?;
        let cpus: CpuSet = text.lines().rev().find_map(|l| l.strip_prefix("AllowedCPUs="))?.parse().ok()?;
        (!cpus.is_empty()).then_some(cpus)
    }

    fn number_file(&self, unit: &str, property: &str) -> PathBuf {
        let setting = super::setting(property);
        run_dir(&self.os.root).join(format!("systemd/system.control/{unit}.d/50-{setting}.conf"))
    }

    fn number_of(&self, unit: &str, property: &str) -> Option<u64> {
        let kept = self.os.root.proc.with_file_name("etc/systemd/system.control");
        let kept = kept.join(format!("{unit}.d/50-{}.conf", super::setting(property)));
        let read = |file: PathBuf| {
            let text = self.os.root.text(file).ok()?;
            text.lines().rev().find_map(|line| line.strip_prefix(property)?.strip_prefix('='))?.parse().ok()
        };
        read(self.number_file(unit, property)).or_else(|| read(kept))
    }

    /// Enables and disables the CPU controller, from the bottom up.
    fn realize_cpu(&self, above: &str) -> Result<bool, KnobError> {
        let mut wanted = false;
        for path in self.children(above) {
            let has = |property| names::unit(&path).is_some_and(|u| self.number_of(&u, property).is_some());
            wanted |= self.realize_cpu(&path)? || has("CPUWeight") || has("CPUQuotaPerSecUSec");
        }
        let has = self.os.cpu_controller(above)?.is_some();
        if wanted != has {
            self.os.set_cpu_controller(above, wanted)?;
        }
        Ok(wanted)
    }

    /// Enables and disables the cpuset controller, from the bottom up. Where the kernel refuses, it stays enabled.
    fn realize(&self, above: &str) -> Result<bool, KnobError> {
        let mut wanted = false;
        let mut anchored = false;
        for path in self.children(above) {
            let property = names::unit(&path).is_some_and(|u| self.property(&u).is_some());
            wanted |= self.realize(&path)? || property;
            anchored |= self.has_controller(&path)?;
        }
        let has = self.has_controller(above)?;
        let file = self.os.group(above)?.join("cgroup.subtree_control");
        if wanted && !has {
            self.os.write(&file, "+cpuset")?;
        } else if has && !wanted && !anchored && names::owner(above).is_none() {
            self.os.write(&file, "-cpuset")?;
        }
        Ok(wanted)
    }

    fn has_controller(&self, path: &str) -> Result<bool, KnobError> {
        let file = self.os.group(path)?.join("cgroup.subtree_control");
        let text = self.os.root.read(&file).map_err(knob_error)?.unwrap_or_default();
        Ok(lists_cpuset(&text))
    }

    fn reap(&self) {
        for slice in self.children("").into_iter().filter(|p| names::owner(p).is_some()) {
            for scope in self.children(&slice).into_iter().filter(|p| names::is_scope(p)) {
                // Fails for a scope that is not empty.
                let _ = self.os.remove_group(&scope);
            }
        }
        for scope in self.children("/system.slice").into_iter().filter(|p| names::is_control_scope(p)) {
            let unit = names::unit(&scope).unwrap_or_default();
            if self.os.remove_group(&scope).is_ok() {
                for property in ["CPUWeight", "CPUQuotaPerSecUSec"] {
                    let _ = remove(&self.os.root, &self.number_file(&unit, property));
                }
                let _ = self.realize_cpu("");
            }
        }
    }

    fn is_empty(&self, path: &str) -> bool {
        self.os.is_populated(path).is_ok_and(|populated| !populated)
    }
}

impl Manager for CapturedManager<'_> {
    fn start_slice(&self, unit: &str) -> Result<(), KnobError> {
        self.os.make_group(&format!("/{unit}"))
    }

    fn start_scope(&self, unit: &str, slice: &str, pid: u32) -> Result<(), KnobError> {
        let above = self.path_of(slice).ok_or(KnobError::Gone)?;
        let path = format!("{above}/{unit}");
        self.os.make_group(&path)?;
        self.adopt(unit, pid)
    }

    fn adopt(&self, unit: &str, pid: u32) -> Result<(), KnobError> {
        let path = self.path_of(unit).filter(|p| !p.ends_with(".slice")).ok_or(KnobError::Gone)?;
        let stat = self.os.stat(pid, None).map_err(knob_error)?.ok_or(KnobError::Gone)?;
        self.os.attach(TaskId { pid, tid: None, start: stat.start }, &path)?;
        self.reap();
        Ok(())
    }

    fn stop(&self, unit: &str) -> Result<(), KnobError> {
        let path = self.path_of(unit).ok_or(KnobError::Gone)?;
        remove(&self.os.root, &self.drop_in(unit))?;
        for child in self.children(&path) {
            self.os.remove_group(&child)?;
        }
        self.os.remove_group(&path)?;
        self.realize("").map(drop)
    }

    fn is_active(&self, unit: &str) -> Result<bool, KnobError> {
        Ok(self.path_of(unit).is_some())
    }

    fn allowed(&self, unit: &str) -> Result<Option<CpuSet>, KnobError> {
        self.path_of(unit).ok_or(KnobError::Gone)?;
        Ok(self.property(unit))
    }

    fn allow(&self, unit: &str, cpus: Option<&CpuSet>) -> Result<(), KnobError> {
        let file = self.drop_in(unit);
        let text = cpus.map(ToString::to_string).unwrap_or_default();
        self.os.root.make_dirs(file.parent().unwrap_or(&file)).map_err(knob_error)?;
        self.os
            .root
            .replace(&file, format!("[Slice]\nAllowedCPUs=\nAllowedCPUs={text}\n"))
            .map_err(knob_error)?;
        let Some(path) = self.path_of(unit) else { return Ok(()) };
        self.realize("")?;
        let list = self.os.group(&path)?.join("cpuset.cpus");
        match cpus {
            // The kernel refuses to clear the list of a unit with tasks. systemd ignores this error.
            None if list.exists() && self.is_empty(&path) => self.os.write(&list, ""),
            None => Ok(()),
            Some(_) => self.os.write(&list, &text),
        }
    }

    fn number(&self, unit: &str, property: &str) -> Result<Option<u64>, KnobError> {
        self.path_of(unit).ok_or(KnobError::Gone)?;
        Ok(self.number_of(unit, property))
    }

    fn set_number(&self, unit: &str, property: &str, value: Option<u64>) -> Result<(), KnobError> {
        let path = self.path_of(unit).ok_or(KnobError::Gone)?;
        let file = self.number_file(unit, property);
        self.os.root.make_dirs(file.parent().unwrap_or(&file)).map_err(knob_error)?;
        let text = value.map(|value| value.to_string()).unwrap_or_default();
        self.os
            .root
            .replace(&file, format!("[Slice]\n{property}=\n{property}={text}\n"))
            .map_err(knob_error)?;
        self.realize_cpu("")?;
        let dir = self.os.cpu_tree()?.dir(&path);
        let write = |name: &str, text: String| match dir.join(name).exists() {
            true => self.os.write(&dir.join(name), &text),
            false => Ok(()),
        };
        match (property, value) {
            ("CPUWeight", Some(0)) => write("cpu.idle", "1".into()),
            ("CPUWeight", value) => {
                write("cpu.idle", "0".into())?;
                write("cpu.weight", value.unwrap_or(100).to_string())
            }
            (_, None) => write("cpu.max", "max 100000".into()),
            (_, Some(us)) => write("cpu.max", format!("{} 100000", us / 10)),
        }
    }

    fn allow_memory(&self, unit: &str, nodes: &NodeSet) -> Result<(), KnobError> {
        let path = self.path_of(unit).ok_or(KnobError::Gone)?;
        let list = self.os.group(&path)?.join("cpuset.mems");
        self.os.write(&list, &nodes.to_string())
    }

    fn is_started_after(&self, _unit: &str, other: &str) -> Result<bool, KnobError> {
        // Units of a captured root are ordinary ones.
        Ok(other == "basic.target")
    }

    fn reload(&self) -> Result<(), KnobError> {
        // With this file, tests simulate a manager that is about to exit.
        match run_dir(&self.os.root).join("systemd/refuses-reload").exists() {
            true => Err(KnobError::Refused("systemd says: it is ending".into())),
            false => Ok(()),
        }
    }
}

fn remove(root: &Root, file: &Path) -> Result<(), KnobError> {
    match root.remove(file) {
        Err(error) if !is_gone(&error) => return Err(knob_error(error)),
        _ => {}
    }
    if let Some(dir) = file.parent() {
        let _ = root.remove_dir(dir);
    }
    Ok(())
}
