//! A case: a named shell script that runs in a guest. The head of `guest/case.sh` lists the functions for scripts.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default time limit of a case. The CPUs are emulated, so this is mostly waiting.
const LIMIT_DEFAULT: Duration = Duration::from_secs(120);

/// A script that runs in a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    pub(crate) name: String,
    pub(crate) script: String,
    pub(crate) limit: Duration,
    pub(crate) must_leave_nothing: bool,
}

/// Why a case is invalid.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// A name must have only letters, digits and `_`, because it is also used as a file name and a word in a line.
    #[error("cannot name a case {0:?}: only letters, digits and _")]
    Name(String),
    /// A directory of scripts cannot be read.
    #[error("cannot read {path}", path = .path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

impl Case {
    /// A case from the text of a script. A line `# limit_s: N` sets its limit to N seconds instead of 120. With a line `# leaves:
    /// nothing` it fails if the guest had to restore anything after it.
    ///
    /// # Errors
    /// The name has characters other than letters, digits and `_`.
    pub fn new(name: &str, script: impl Into<String>) -> Result<Self, CaseError> {
        let is_word = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_word {
            return Err(CaseError::Name(name.to_owned()));
        }
        let script = script.into();
        Ok(Self {
            name: name.to_owned(),
            limit: limit_in(&script).unwrap_or(LIMIT_DEFAULT),
            must_leave_nothing: script.lines().any(|l| l.trim_end() == "# leaves: nothing"),
            script,
        })
    }

    /// All scripts `NAME.sh` of a directory, sorted by name.
    ///
    /// # Errors
    /// The directory or a script cannot be read, or a file name is not a valid case name.
    pub fn all_in(directory: &Path) -> Result<Vec<Self>, CaseError> {
        let read = |path: &Path| {
            let path = path.to_owned();
            move |source| CaseError::Read { path, source }
        };
        let mut cases = Vec::new();
        for entry in fs::read_dir(directory).map_err(read(directory))? {
            let path = entry.map_err(read(directory))?.path();
            if path.extension().is_none_or(|e| e != "sh") {
                continue;
            }
            let script = fs::read_to_string(&path).map_err(read(&path))?;
            cases.push(Self::new(&path.file_stem().unwrap_or_default().to_string_lossy(), script)?);
        }
        cases.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(cases)
    }

    /// The same case with this limit (before `MILLPOND_VM_TIMEOUT_SCALE`).
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The same case with a multiple of its limit: for a slower guest than the one that it was written for.
    #[must_use]
    pub fn patient(mut self, times: u32) -> Self {
        self.limit *= times;
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn limit_in(script: &str) -> Option<Duration> {
    let seconds = script.lines().find_map(|l| l.strip_prefix("# limit_s:"))?;
    seconds.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word() {
        assert!(Case::new("a_cpu_comes_back", "").is_ok());
        for bad in ["", "a b", "a/b", "../x", "a\n"] {
            assert!(matches!(Case::new(bad, ""), Err(CaseError::Name(_))), "{bad:?}");
        }
    }

    #[test]
    fn a_script_says_what_it_must_leave() {
        assert!(Case::new("a", "true\n# leaves: nothing\n").unwrap().must_leave_nothing);
        assert!(!Case::new("a", "echo '# leaves: nothing at all'\n").unwrap().must_leave_nothing);
    }

    #[test]
    fn a_directory_gives_its_scripts_in_order_with_their_limits() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("b.sh"), "# what\n# limit_s: 200\ntrue\n").unwrap();
        fs::write(dir.path().join("a.sh"), "true\n").unwrap();
        fs::write(dir.path().join("README.md"), "").unwrap();
        let cases = Case::all_in(dir.path()).unwrap();
        let told: Vec<(&str, u64)> = cases.iter().map(|c| (c.name(), c.limit.as_secs())).collect();
        assert_eq!(told, [("a", 120), ("b", 200)]);
        assert_eq!(cases[1].clone().patient(3).limit.as_secs(), 600);
    }
}
