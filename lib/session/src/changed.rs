//! Machine files as data: of the program's own machines, of the user, and of the twin of the real machine. Numbers can be changed, to try
//! a model's parameters.

use crate::text::{read_text, replace_text};
use crate::{OpenError, Session, is_machine_file, machine_file, state_dir};
use millpond_sim::{SimError, SimMachine, catalogue};
use serde_json::{Number, Value};
use std::path::{Path, PathBuf};

/// A number of a machine file, and its new value.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldChange {
    /// The machine's name.
    pub machine: String,
    /// JSON pointer to the number (`/processor/clock_mhz`).
    pub field: String,
    /// The new value. It is rounded if the file's number is an integer.
    pub value: f64,
}

/// A number in the file of one of the program's own machines; `None` if the machine or the number does not exist.
#[must_use]
pub fn machine_field(machine: &str, field: &str) -> Option<f64> {
    file_of(machine).ok()?.pointer(field)?.as_f64()
}

impl Session {
    /// The machine that these data describe, freshly booted. `origin` names them in messages.
    ///
    /// # Errors
    /// [`OpenError`] for invalid data.
    pub fn described(file: &Value, origin: &str) -> Result<Session, OpenError> {
        let machine = machine_file::described(&file.to_string(), origin)?;
        Ok(Session::simulated(machine, false))
    }

    /// Saves a machine file as that of the twin of the real machine (`like-host`). It is valid until the next boot. Returns the path.
    ///
    /// # Errors
    /// The path, and the system's reason in words.
    pub fn keep_twin(&self, file: &Value) -> Result<PathBuf, (PathBuf, String)> {
        let path = state_dir::twin_in(self.state_dir().unwrap_or(Path::new(".")));
        let text = serde_json::to_string_pretty(file).unwrap_or_default();
        replace_text(&path, &format!("{text}\n")).map(|()| path.clone()).map_err(|why| (path, why))
    }

    /// Opens a simulated machine, one of the program's own or of a file, with changes: a merge patch of its file (RFC 7396;
    /// `null` changes nothing), and those of `changes` that are for this machine.
    ///
    /// # Errors
    /// [`OpenError`] when the machine or the number does not exist, or the changed file is invalid.
    pub fn open_changed(machine: &str, patch: &Value, changes: &[FieldChange]) -> Result<Session, OpenError> {
        let refused = |source| OpenError::Simulated { name: machine.to_owned(), source };
        let mut file = machine_description(machine)?;
        if !patch.is_null() {
            merge(&mut file, patch);
        }
        for change in changes.iter().filter(|change| change.machine == machine) {
            let number = file.pointer_mut(&change.field).filter(|value| value.is_number());
            let number = number
                .ok_or_else(|| OpenError::Field { name: machine.to_owned(), field: change.field.clone() })?;
            *number = like(number, change.value);
        }
        let described = SimMachine::described(&file.to_string(), &format!("{machine}.json, changed"));
        Ok(Session::simulated(described.map_err(refused)?, false))
    }
}

/// The machine file of a name: one of the program's own machines, a file of the user, or the twin of the real machine.
///
/// # Errors
/// [`OpenError`] when the file does not exist or is invalid.
pub fn machine_description(name: &str) -> Result<Value, OpenError> {
    let path = match name {
        "like-host" => state_dir::twin_in(&state_dir::state_dir()),
        name if is_machine_file(name) => PathBuf::from(name),
        name => return file_of(name),
    };
    if name == "like-host" && !path.exists() {
        return Err(OpenError::NotMeasured);
    }
    let origin = path.display().to_string();
    let text = read_text(&path).map_err(|why| OpenError::MachineFile { name: origin.clone(), why })?;
    machine_file::described(&text, &origin)?;
    // Cannot fail: the text was just parsed.
    Ok(serde_json::from_str(&text).unwrap_or_default())
}

fn file_of(machine: &str) -> Result<Value, OpenError> {
    let refused = |source| OpenError::Simulated { name: machine.to_owned(), source };
    let none = || refused(SimError::NoSuchMachine { name: machine.to_owned() });
    let text = catalogue::text(machine).ok_or_else(none)?;
    // The program's own files are JSON; a test opens each.
    Ok(serde_json::from_str(text).unwrap_or_default())
}

/// Merges objects key by key; `null` removes a key, and any other value replaces the old one.
fn merge(file: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *file = patch.clone();
        return;
    };
    if !file.is_object() {
        *file = Value::Object(serde_json::Map::new());
    }
    let Some(fields) = file.as_object_mut() else { return };
    for (key, value) in patch {
        if value.is_null() {
            fields.remove(key);
        } else {
            merge(fields.entry(key).or_insert(Value::Null), value);
        }
    }
}

/// The new number in the kind of the old one: an integer or a fraction.
fn like(old: &Value, new: f64) -> Value {
    let whole = || format!("{new:.0}").parse::<i64>().ok().map(Number::from);
    let number = if old.is_f64() { Number::from_f64(new) } else { whole() };
    number.map_or(Value::Null, Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SIMULATED;
    use serde_json::json;

    fn change(field: &str, value: f64) -> FieldChange {
        FieldChange { machine: "t2-64".into(), field: field.into(), value }
    }

    fn clock(session: &Session) -> Option<u64> {
        session.machine().processors().unwrap().topology().unwrap().processors()[0].clock_mhz
    }

    #[test]
    fn a_number_is_changed_for_its_machine_alone() {
        assert_eq!(machine_field("t2-64", "/processor/clock_mhz"), Some(1165.0));
        let changes = [change("/processor/clock_mhz", 1400.4)];
        assert_eq!(clock(&Session::open_changed("t2-64", &Value::Null, &changes).unwrap()), Some(1400));
        assert_eq!(clock(&Session::open_changed("t2000", &Value::Null, &changes).unwrap()), Some(1000));
    }

    #[test]
    fn a_patch_adds_replaces_and_takes_away() {
        let patch = json!({ "tunables": { "hz": 1000 }, "processor": { "clock_mhz": 700, "fpu": null }, "devices": [] });
        let session = Session::open_changed("t2-64", &patch, &[change("/tunables/hz", 500.0)]).unwrap();
        let simulation = session.simulation().unwrap();
        let (hz, devices) = simulation.0.view(|s| (s.tunables.hz, s.devices.len()));
        let topology = session.machine().processors().unwrap().topology().unwrap();
        let first = &topology.processors()[0];
        assert_eq!((hz, devices, first.clock_mhz, first.fpu.as_deref()), (500, 0, Some(700), None));
        assert_eq!(first.isa, "sparcv9");
        assert!(Session::open_changed("t2-64", &json!([]), &[]).is_err());
    }

    #[test]
    fn every_machine_opens_unchanged() {
        for name in SIMULATED {
            assert_eq!(Session::open_changed(name, &Value::Null, &[]).unwrap().machine().name(), name);
        }
    }

    #[test]
    fn what_is_no_number_of_the_file_is_refused() {
        let refused = |machine, changes: &[FieldChange]| {
            Session::open_changed(machine, &Value::Null, changes)
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default()
        };
        for field in ["/processor/colour", "/processor/isa", "processor"] {
            assert_eq!(
                refused("t2-64", &[change(field, 1.0)]),
                format!("cannot open machine t2-64: its file has no number at {field}")
            );
        }
        let said = refused("t2-64", &[change("/chips", 0.0)]);
        assert!(said.contains("0 chips of 8 cores of 8 strands are no CPUs"), "{said}");
        assert!(refused("deep-thought", &[]).contains("there is no simulated machine"));
        assert_eq!(machine_field("deep-thought", "/chips"), None);
    }
}
