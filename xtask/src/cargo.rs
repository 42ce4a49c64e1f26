//! Cargo's messages: the executables of a build.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A test executable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestBinary {
    /// The tested crate.
    pub package: String,
    /// The target: `millpond_model`, `all`.
    pub target: String,
    /// The directory of the crate, in which tests run.
    pub dir: PathBuf,
    /// The executable file.
    pub path: PathBuf,
}

/// The results of a build.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Built {
    /// Tests, in the order of their paths in the workspace.
    pub tests: Vec<TestBinary>,
    /// Programs by name.
    pub programs: BTreeMap<String, PathBuf>,
    /// Environment variables `MILLPOND_BIN_NAME` with programs, examples and integration tests. Without them a test would run
    /// cargo, which rebuilds much of the workspace if it selects other features of libraries.
    pub variables: BTreeMap<String, OsString>,
}

impl Built {
    /// Adds the results of another build. For tests in both, those of this build are kept.
    #[must_use]
    pub fn with(mut self, other: Built) -> Built {
        let is_here = |test: &TestBinary| {
            self.tests.iter().any(|one| (&one.dir, &one.target) == (&test.dir, &test.target))
        };
        let new: Vec<_> = other.tests.into_iter().filter(|test| !is_here(test)).collect();
        self.tests.extend(new);
        self.tests.sort_by(|a, b| (&a.dir, &a.target).cmp(&(&b.dir, &b.target)));
        self.programs.extend(other.programs);
        self.variables.extend(other.variables);
        self
    }
}

/// An error of a build or of another task.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Cargo cannot be started.
    #[error("cannot run cargo: {0}")]
    Start(#[from] io::Error),
    /// The results cannot be installed.
    #[error("{0}")]
    Install(io::Error),
    /// The packages cannot be made.
    #[error("cannot make packages: {0}")]
    Package(io::Error),
    /// The version has no release notes, or they cannot be printed.
    #[error("cannot print release notes: {0}")]
    Notes(io::Error),
    /// A picture cannot be recorded.
    #[error("cannot record a picture: {0}")]
    Record(io::Error),
    /// Cargo failed, and has printed the reason.
    #[error("cannot build: see cargo's words above")]
    Build,
}

#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    manifest_path: PathBuf,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// The manifest of the workspace with the libraries for real-time programs.
pub fn rt_manifest() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../rt/Cargo.toml"))
}

/// The `cargo` that runs this program, or the one on the search path.
pub fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Builds the tests that the arguments select (`--workspace`, `--package NAME`, or none for the default members), with cargo's
/// progress on standard error. `manifest` selects the workspace; `None` is the one of the current directory.
///
/// # Errors
/// [`BuildError`] when cargo cannot be started or fails.
pub fn build_tests(manifest: Option<&Path>, selection: &[&str]) -> Result<Built, BuildError> {
    let mut command = cargo();
    command.args(["test", "--no-run", "--timings", "--message-format=json-render-diagnostics"]);
    command.args(selection);
    if let Some(manifest) = manifest {
        command.arg("--manifest-path").arg(manifest);
    }
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(BuildError::Build);
    }
    Ok(parse_messages(&String::from_utf8_lossy(&output.stdout)))
}

/// Parses cargo's messages, one JSON object per line. Other lines are ignored.
pub fn parse_messages(text: &str) -> Built {
    let mut built = Built::default();
    for message in text.lines().filter_map(|line| serde_json::from_str::<Message>(line).ok()) {
        let Some(target) = message.target.filter(|_| message.reason == "compiler-artifact") else { continue };
        let is = |kind: &str| target.kind.iter().any(|other| other == kind);
        let is_test = message.profile.is_some_and(|profile| profile.test);
        let Some(path) = message.executable else { continue };
        if (is("bin") || is("example")) && !is_test || is("test") {
            let variable = format!("MILLPOND_BIN_{}", target.name.to_uppercase().replace('-', "_"));
            built.variables.insert(variable, path.clone().into());
        }
        if is_test {
            let dir = message.manifest_path.parent().unwrap_or(Path::new("")).to_path_buf();
            let package = package_name(&message.manifest_path);
            built.tests.push(TestBinary { package, target: target.name, dir, path });
        } else if is("bin") {
            built.programs.insert(target.name, path);
        }
    }
    built.tests.sort_by(|a, b| (&a.dir, &a.target).cmp(&(&b.dir, &b.target)));
    built
}

/// The name of a crate: the last component of its directory.
fn package_name(manifest: &Path) -> String {
    let name = manifest.parent().and_then(Path::file_name).unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_and_programs_are_told_apart() {
        let text = r#"{"reason":"compiler-artifact","manifest_path":"/w/lib/model/Cargo.toml","target":{"name":"millpond_model","kind":["lib"]},"profile":{"test":true},"executable":"/t/model-1"}
{"reason":"compiler-artifact","manifest_path":"/w/lib/model/Cargo.toml","target":{"name":"millpond_model","kind":["lib"]},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","manifest_path":"/w/bin/millpond/Cargo.toml","target":{"name":"millpond","kind":["bin"]},"profile":{"test":false},"executable":"/t/millpond"}
{"reason":"compiler-artifact","manifest_path":"/w/bin/millpond/Cargo.toml","target":{"name":"millpond","kind":["bin"]},"profile":{"test":true},"executable":"/t/millpond-2"}
{"reason":"compiler-artifact","manifest_path":"/w/lab/workloads/Cargo.toml","target":{"name":"two-parts","kind":["example"]},"profile":{"test":false},"executable":"/t/two-parts"}
{"reason":"compiler-artifact","manifest_path":"/w/bin/millpond/Cargo.toml","target":{"name":"machine","kind":["test"]},"profile":{"test":true},"executable":"/t/machine-3"}
{"reason":"build-finished","success":true}
not a message
"#;
        let built = parse_messages(text);
        let tests: Vec<_> =
            built.tests.iter().map(|t| (t.package.as_str(), t.path.to_str().unwrap())).collect();
        assert_eq!(
            tests,
            [("millpond", "/t/machine-3"), ("millpond", "/t/millpond-2"), ("model", "/t/model-1")]
        );
        assert_eq!(built.tests[2].dir, Path::new("/w/lib/model"));
        let again = Built::default().with(built.clone()).with(built.clone());
        assert_eq!(again, built, "a test of two builds runs once");
        assert_eq!(built.programs["millpond"], Path::new("/t/millpond"));
        assert_eq!(built.programs.len(), 1);
        let variables: Vec<_> =
            built.variables.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(
            variables,
            [
                ("MILLPOND_BIN_MACHINE", "/t/machine-3"),
                ("MILLPOND_BIN_MILLPOND", "/t/millpond"),
                ("MILLPOND_BIN_TWO_PARTS", "/t/two-parts"),
            ]
        );
    }
}
