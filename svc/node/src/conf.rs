//! The configuration of pools that the agent commits: a file that others change, such as a mounted ConfigMap.

use millpond_formats::pools::xml;
use millpond_machine::Writer;
use millpond_pools::{PoolError, dynamic, instantiate};
use millpond_session::Session;
use std::path::{Path, PathBuf};

/// The file, with its text when it was looked at last.
pub(crate) struct Conf {
    file: PathBuf,
    seen: Option<String>,
}

/// What came of a look.
pub(crate) enum Looked {
    /// Nothing is new.
    Same,
    /// The file was committed. Notes of the machine.
    Committed(Vec<String>),
    /// It could not be.
    Failed(String),
}

impl Conf {
    pub(crate) fn new(file: &Path) -> Conf {
        Conf { file: file.to_owned(), seen: None }
    }

    /// Commits the file if its text is another one. One that failed is tried again when it changes.
    pub(crate) fn look(&mut self, session: &Session) -> Looked {
        let name = self.file.display().to_string();
        let text = match session.pools_file(Some(&name)).read() {
            Ok(Some(text)) => text,
            // Whoever replaces it may have taken it away for a moment.
            Ok(None) if self.seen.is_some() => return Looked::Same,
            Ok(None) => return Looked::Failed(format!("there is no file {name}")),
            Err(error) => return Looked::Failed(format!("{name} cannot be read: {error}")),
        };
        if self.seen.as_ref() == Some(&text) {
            return Looked::Same;
        }
        let committed = commit(session, &name, &text);
        self.seen = Some(text);
        committed.map_or_else(Looked::Failed, Looked::Committed)
    }
}

fn commit(session: &Session, name: &str, text: &str) -> Result<Vec<String>, String> {
    let conf = xml::read(text)
        .map_err(|error| format!("{name}:{}:{}: {error}; {}", error.line, error.column, error.hint()))?;
    let machine = session.machine();
    let said = |error: PoolError| match error.hint {
        Some(ref hint) => format!("{name} cannot be committed: {error}\nhint: {hint}"),
        None => format!("{name} cannot be committed: {error}"),
    };
    let writer = Writer::open(machine).map_err(|refusal| refusal.to_string())?;
    dynamic::enable(&writer, machine, false).map_err(said)?;
    let state = dynamic::read(machine).map_err(said)?;
    let to = instantiate(&conf, &state).map_err(said)?;
    let done = dynamic::commit(&writer, machine, Some(to)).map_err(said)?;
    Ok(done.notes)
}
