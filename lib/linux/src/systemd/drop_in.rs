//! Persistent set membership of a unit: our drop-in with the slice of the set, in the administrator's directory, so that it
//! persists across boots.
//!
//! A drop-in is ours if and only if it begins with our first line. A file of that name with another first line belongs to another
//! program and is never changed.

use super::Manager;
use crate::files::{Replacing, replace_file};
use crate::os::knob_error;
use crate::{Os, is_gone, names};
use millpond_machine::KnobError;
use millpond_model::PsetId;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// The name of our drop-in.
const DROP_IN: &str = "50-millpond-pool.conf";
/// Its first line.
const HEAD: &str =
    "# millpond: the pool of this unit (poolbind --persist); pool_default with --persist removes this file";
/// Directories of unit configuration in order of precedence, relative to `/`.
const PLACES: [&str; 4] =
    ["etc/systemd/system", "run/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"];

/// The section of a unit file with its slice. `None` for a unit whose name determines its cgroup, or that is created transiently.
#[must_use]
pub(crate) fn section(unit: &str) -> Option<&'static str> {
    match unit.rsplit_once('.')?.1 {
        "service" => Some("Service"),
        "socket" => Some("Socket"),
        "mount" => Some("Mount"),
        "swap" => Some("Swap"),
        _ => None,
    }
}

/// The unit that creates the pools at boot.
const POOLS: &str = "millpond-pools.service";

/// The text of the drop-in. A unit that waits for the pools finds its set when it starts.
fn text(section: &str, slice: &str, waits: bool) -> String {
    let order = if waits { format!("[Unit]\nAfter={POOLS}\n") } else { String::new() };
    format!("{HEAD}\n{order}[{section}]\nSlice={slice}\n")
}

/// Whether a unit can wait for the pools at boot: it must be a service that starts after the basic system, and on which the pools
/// do not depend.
fn may_wait(manager: &dyn Manager, unit: &str) -> bool {
    let is_bus = matches!(unit, "dbus.service" | "dbus-broker.service");
    let is_late = |unit| manager.is_started_after(unit, "basic.target").unwrap_or(false);
    unit.ends_with(".service") && !is_bus && is_late(unit)
}

/// The last `Slice=` of a file.
fn slice_of(text: &str) -> Option<&str> {
    text.lines().rev().find_map(|line| line.trim().strip_prefix("Slice=")).map(str::trim)
}

impl Os {
    fn top(&self) -> PathBuf {
        self.root.proc.parent().map_or_else(|| PathBuf::from("/"), Path::to_path_buf)
    }

    fn drop_in_of(&self, unit: &str) -> PathBuf {
        self.top().join(PLACES[0]).join(format!("{unit}.d")).join(DROP_IN)
    }

    /// The slice in our drop-in for a unit.
    ///
    /// # Errors
    /// [`KnobError::Refused`] for a file of that name that is not ours.
    pub(crate) fn persistent_slice(&self, unit: &str) -> Result<Option<String>, KnobError> {
        let Some(is) = self.root.read(&self.drop_in_of(unit)).map_err(knob_error)? else { return Ok(None) };
        if !is.starts_with(HEAD) {
            return Err(KnobError::Prevented {
                why: format!("{unit} has a drop-in {DROP_IN} that another program wrote"),
                hint: format!("rename it, or set Slice= there (systemctl edit --drop-in={DROP_IN} {unit})"),
            });
        }
        Ok(slice_of(&is).map(str::to_owned))
    }

    /// Whether our drop-in for a unit is from an earlier version, which let the unit start before the pools exist.
    pub(crate) fn is_kept_unordered(&self, unit: &str) -> bool {
        let text = self.root.read(&self.drop_in_of(unit)).ok().flatten();
        let is_unordered = text.is_some_and(|text| text.starts_with(HEAD) && !text.contains(POOLS));
        is_unordered && self.manager().is_ok_and(|manager| may_wait(&*manager, unit))
    }

    /// The sets in which units start because of our drop-ins.
    pub(crate) fn kept_sets(&self) -> BTreeSet<PsetId> {
        if !self.systemd {
            return BTreeSet::new();
        }
        let dirs = self.root.dirs(&self.top().join(PLACES[0])).unwrap_or_default();
        let units = dirs.iter().filter_map(|dir| dir.strip_suffix(".d"));
        let slices = units.filter_map(|unit| self.persistent_slice(unit).ok().flatten());
        slices.filter_map(|slice| names::owner(&slice)).collect()
    }

    /// Writes or removes our drop-in, and makes systemd reload its files. All or nothing.
    pub(crate) fn set_persistent_slice(&self, unit: &str, slice: Option<&str>) -> Result<(), KnobError> {
        let before = self.persistent_slice(unit)?;
        let manager = self.manager()?;
        let waits = may_wait(&*manager, unit);
        let change = |to: Option<&str>| {
            self.write_drop_in(unit, to, waits).map_err(knob_error)?;
            manager.reload()
        };
        change(slice).inspect_err(|_| {
            // After a failure, restore the file, so that systemd does not find it at its next start.
            let _ = change(before.as_deref());
        })
    }

    fn write_drop_in(&self, unit: &str, slice: Option<&str>, waits: bool) -> io::Result<()> {
        let file = self.drop_in_of(unit);
        let dir = file.parent().unwrap_or(&file);
        let Some(slice) = slice else {
            match self.root.remove(&file) {
                Err(error) if !is_gone(&error) => return Err(error),
                _ => {}
            }
            // Fails if the directory has other settings.
            let _ = self.root.remove_dir(dir);
            return Ok(());
        };
        let section = section(unit).ok_or(io::ErrorKind::InvalidInput)?;
        self.root.make_dirs(dir)?;
        let readable = Replacing { mode: Some(0o644), ..Replacing::default() };
        replace_file(&self.root.at(&file)?.path, text(section, slice, waits).as_bytes(), readable)
    }

    /// Other files that set a unit's slice, in descending precedence: the file and the slice. Without our own drop-in.
    pub(crate) fn other_slices(&self, unit: &str) -> Vec<(PathBuf, String)> {
        let mut found: Vec<(String, PathBuf, String)> = Vec::new();
        for place in PLACES.map(|place| self.top().join(place)) {
            let dir = place.join(format!("{unit}.d"));
            for name in self.root.names(&dir).unwrap_or_default() {
                // A name in a directory of higher precedence hides files of the same name.
                let hidden = found.iter().any(|(is, ..)| *is == name);
                if name.ends_with(".conf") && name != DROP_IN && !hidden {
                    let text = self.root.read(&dir.join(&name)).ok().flatten().unwrap_or_default();
                    if let Some(slice) = slice_of(&text) {
                        found.push((name.clone(), dir.join(&name), slice.to_owned()));
                    }
                }
            }
        }
        // Drop-ins are read in order of their names, in all directories.
        found.sort_by(|a, b| b.0.cmp(&a.0));
        found.into_iter().map(|(_, file, slice)| (file, slice)).collect()
    }
}

/// Whether a drop-in is read after ours and therefore overrides it.
#[must_use]
pub(crate) fn is_stronger(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name.to_string_lossy().as_ref() > DROP_IN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drop_in_has_the_section_of_its_unit() {
        let text = text(section("a.socket").unwrap(), "mpset2.slice", false);
        assert!(text.ends_with("\n[Socket]\nSlice=mpset2.slice\n"), "{text}");
        assert!(text.starts_with("# millpond: "));
        assert_eq!(slice_of(&text), Some("mpset2.slice"));
        for none in ["user.slice", "session-1.scope", "a.timer", "nothing"] {
            assert_eq!(section(none), None, "{none}");
        }
    }

    #[test]
    fn the_drop_in_of_an_ordinary_service_has_it_wait_for_the_pools() {
        let text = text("Service", "mpset2.slice", true);
        assert!(text.ends_with("\n[Unit]\nAfter=millpond-pools.service\n[Service]\nSlice=mpset2.slice\n"));
        assert_eq!(slice_of(&text), Some("mpset2.slice"));
    }

    #[test]
    fn the_last_file_by_name_has_the_last_word() {
        assert!(is_stronger(Path::new("/etc/systemd/system/a.service.d/90-x.conf")));
        assert!(!is_stronger(Path::new("/etc/systemd/system/a.service.d/10-x.conf")));
        assert_eq!(slice_of("[Service]\nSlice=a.slice\n Slice= b.slice \n"), Some("b.slice"));
    }
}
