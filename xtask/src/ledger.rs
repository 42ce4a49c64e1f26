//! Small JSON files with the results of earlier runs.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::io;
use std::path::Path;

/// The contents of a file; the default if it is missing. A damaged file is replaced, with a message.
pub fn read<T: DeserializeOwned + Default>(file: &Path) -> (T, Option<String>) {
    let read = match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return (T::default(), None),
        Err(error) => Err(error.to_string()),
        Ok(text) => serde_json::from_str(&text).map_err(|error| error.to_string()),
    };
    match read {
        Ok(ledger) => (ledger, None),
        Err(why) => {
            (T::default(), Some(format!("{}: the ledger is damaged and begins anew: {why}", file.display())))
        }
    }
}

/// Writes the record with a rename, so that a reader sees the old file or the new one.
pub fn write<T: Serialize>(file: &Path, ledger: &T) -> io::Result<()> {
    if let Some(dir) = file.parent() {
        fs::create_dir_all(dir)?;
    }
    let new = file.with_extension("json.new");
    fs::write(&new, format!("{}\n", serde_json::to_string(ledger)?))?;
    fs::rename(new, file)
}
