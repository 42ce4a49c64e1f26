//! Simulated machines from the user's machine files.

use crate::OpenError;
use crate::text::read_text;
use millpond_sim::{SimError, SimMachine};
use std::path::Path;

/// Whether a machine's name is a machine file: it ends in `.json` or contains a slash.
#[must_use]
pub fn is_machine_file(name: &str) -> bool {
    name.contains('/') || Path::new(name).extension().is_some_and(|extension| extension == "json")
}

/// The machine of a file, freshly booted.
///
/// # Errors
/// [`OpenError`] when the file cannot be read, or is invalid: then with the place.
pub(crate) fn read(name: &str) -> Result<SimMachine, OpenError> {
    let text =
        read_text(Path::new(name)).map_err(|why| OpenError::MachineFile { name: name.to_owned(), why })?;
    described(&text, name)
}

/// The machine of a text. `origin` names it in messages.
pub(crate) fn described(text: &str, origin: &str) -> Result<SimMachine, OpenError> {
    SimMachine::described(text, origin).map_err(|error| match error {
        SimError::Description(error) => OpenError::Described(error),
        source => OpenError::Simulated { name: origin.to_owned(), source },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MachineName, OpenOptions, Session};
    use std::fs;

    const FILE: &str = r#"{ "name": "small", "about": "for tests",
  "chips": 1, "cores_per_chip": 2, "strands_per_core": 1,
  "processor": { "isa": "i386", "implementation": "x86" } }"#;

    fn open(name: &Path, kept_in: Option<&Path>) -> Result<Session, String> {
        let Ok(machine) = name.to_string_lossy().parse::<MachineName>();
        let options = OpenOptions { machine, kept_in: kept_in.map(Into::into), ..OpenOptions::default() };
        Session::open(&options).map_err(|error| error.to_string())
    }

    #[test]
    fn a_name_with_a_slash_or_of_json_is_a_file() {
        for (name, is_file) in
            [("t2000", false), ("small.json", true), ("./small", true), ("/x/y", true), ("json", false)]
        {
            assert_eq!(is_machine_file(name), is_file, "{name}");
        }
    }

    #[test]
    fn a_machine_file_is_opened_and_can_be_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (file, kept) = (dir.path().join("mine.json"), dir.path().join("kept"));
        fs::write(&file, FILE).unwrap();
        let session = open(&file, Some(&kept)).unwrap();
        assert_eq!(session.machine().name(), "small");
        session.machine().clock().sleep_until(millpond_model::Nanos::from_secs(5));
        session.keep().unwrap();
        let again = open(&file, Some(&kept)).unwrap();
        assert_eq!(again.machine().clock().now().0, 5_000_000_000);
        fs::write(&file, FILE.replace("small", "other")).unwrap();
        let said = open(&file, Some(&kept)).err().unwrap();
        assert!(said.ends_with(": it has machine small, not other"), "{said}");
    }

    #[test]
    fn a_file_that_is_no_machine_is_refused_with_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mine.json");
        let shown = file.display();
        let missing = open(&file, None).err().unwrap();
        assert_eq!(missing, format!("cannot read machine file {shown}: No such file or directory"));
        fs::write(&file, FILE.replace("\"chips\"", "\"nodes\"")).unwrap();
        let said = open(&file, None).err().unwrap();
        let expected = format!("cannot use machine file {shown}:2:9: unknown field `nodes`");
        assert!(said.starts_with(&expected), "{said}");
    }
}
