//! The tools of this machine: toolchains, their components, programs.

use crate::cargo::{cargo, rt_manifest};
use serde::Deserialize;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

/// Time limit of a step of the matrix, in seconds.
const STEP_SECONDS: u64 = 900;
/// Time limit of a build, in seconds. A build takes several times as long on a busy machine.
const BUILD_SECONDS: u64 = 3600;
/// Time limit of a soak, in seconds. The simulated year takes about two hours of CPU time.
const SOAK_SECONDS: u64 = 14_400;

/// The used parts of cargo's metadata.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Metadata {
    /// Its crates.
    pub packages: Vec<Package>,
    /// The target directory.
    pub target_directory: PathBuf,
    /// The default members.
    #[serde(default)]
    workspace_default_members: Vec<String>,
}

impl Metadata {
    /// Whether a crate is a default member.
    #[must_use]
    pub fn is_default(&self, package: &Package) -> bool {
        self.workspace_default_members.contains(&package.id)
    }
}

/// One crate.
#[derive(Debug, Clone, Deserialize)]
pub struct Package {
    /// Cargo's id.
    id: String,
    /// Its name.
    pub name: String,
    /// Its manifest.
    pub manifest_path: PathBuf,
    /// Its dependencies, of all kinds.
    pub dependencies: Vec<Dependency>,
}

/// A dependency.
#[derive(Debug, Clone, Deserialize)]
pub struct Dependency {
    /// The name of the crate.
    pub name: String,
}

/// Cargo's metadata of the workspace; empty if cargo fails.
pub fn metadata() -> &'static Metadata {
    static METADATA: LazyLock<Metadata> = LazyLock::new(|| read_metadata(None));
    &METADATA
}

/// The metadata of the workspace of the real-time libraries.
pub fn rt_metadata() -> &'static Metadata {
    static METADATA: LazyLock<Metadata> = LazyLock::new(|| read_metadata(Some(rt_manifest())));
    &METADATA
}

fn read_metadata(manifest: Option<&Path>) -> Metadata {
    let mut command = cargo();
    command.args(["metadata", "--no-deps", "--format-version", "1"]);
    if let Some(manifest) = manifest {
        command.arg("--manifest-path").arg(manifest);
    }
    words(&mut command).and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// Adds the arguments that select a crate of either workspace.
pub fn name_package(command: &mut Command, package: &str) {
    if rt_metadata().packages.iter().any(|one| one.name == package) {
        command.arg("--manifest-path").arg(rt_manifest());
    }
    command.args(["--package", package]);
}

/// Cargo's target directory, from the environment, its configuration, or the location of the workspace.
pub fn target_directory() -> &'static Path {
    &metadata().target_directory
}

/// The target directory of a group with a separate build.
pub fn target_dir(group: &str) -> PathBuf {
    target_directory().join("matrix").join(group)
}

/// The standard output of a program; `None` if it fails.
pub fn words(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text)
}

/// The exit status of a program, and all its output.
pub fn output(out: &Output) -> String {
    let (said, errors) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    format!("{}\n{said}{errors}", out.status)
}

/// Whether a program is on the search path.
pub fn has_program(name: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|dir| dir.join(name).is_file())
}

/// A compiler with its components.
#[derive(Debug, Clone)]
pub struct Toolchain {
    /// Its directory.
    sysroot: PathBuf,
    /// Its default target.
    pub host: String,
}

impl Toolchain {
    fn of(mut rustc: impl FnMut() -> Command) -> Option<Toolchain> {
        let sysroot = words(rustc().args(["--print", "sysroot"]))?.trim().into();
        let version = words(rustc().arg("-vV"))?;
        let host = version.lines().find_map(|line| line.strip_prefix("host: "))?.to_owned();
        Some(Toolchain { sysroot, host })
    }

    /// The toolchain that builds this workspace.
    pub fn usual() -> Option<Toolchain> {
        Toolchain::of(|| Command::new("rustc"))
    }

    /// A nightly toolchain, if rustup has one.
    pub fn nightly() -> Option<Toolchain> {
        Toolchain::of(|| nightly("rustc"))
    }

    /// Whether it has the runtime of a sanitizer (`asan`, `tsan`).
    pub fn has_sanitizer(&self, name: &str) -> bool {
        let dir = self.sysroot.join("lib/rustlib").join(&self.host).join("lib");
        let end = format!("_rt.{name}.a");
        names(&dir).any(|file| file.ends_with(&end))
    }

    /// Whether it can compile for a target.
    pub fn has_target(&self, name: &str) -> bool {
        self.sysroot.join("lib/rustlib").join(name).join("lib").is_dir()
    }

    /// Whether it has the sources of the standard library.
    pub fn has_sources(&self) -> bool {
        self.sysroot.join("lib/rustlib/src/rust/library/std").is_dir()
    }
}

fn names(dir: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
}

/// A program of the nightly toolchain.
pub fn nightly(program: &str) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", program]);
    // These variables name the toolchain that runs this program.
    for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(name);
    }
    command
}

/// The command with the time limit of a step.
pub fn limited(command: &Command) -> Command {
    limited_by(STEP_SECONDS, command)
}

/// The command with the time limit of a soak.
pub fn limited_soak(command: &Command) -> Command {
    limited_by(SOAK_SECONDS, command)
}

/// The command with the time limit of a build.
pub fn limited_build(command: &Command) -> Command {
    limited_by(BUILD_SECONDS, command)
}

/// The command with a time limit in seconds.
pub fn limited_by(seconds: u64, command: &Command) -> Command {
    let mut limited = Command::new("timeout");
    limited
        .args(["--kill-after=10", &seconds.to_string()])
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    if let Some(dir) = command.get_current_dir() {
        limited.current_dir(dir);
    }
    limited
}

/// Sets compiler flags for all crates, replacing those in the environment.
pub fn with_flags(command: &mut Command, flags: &[&str]) {
    command.env_remove("CARGO_ENCODED_RUSTFLAGS").env("RUSTFLAGS", flags.join(" "));
}

/// Number of usable CPUs.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limited_command_is_the_same_one() {
        let mut command = Command::new("env");
        command.arg("-0").env("MILLPOND_X", "1").env_remove("HOME").current_dir("/");
        let limited = limited(&command);
        assert_eq!(limited.get_program(), "timeout");
        assert_eq!(limited.get_args().collect::<Vec<_>>()[2..], ["env", "-0"]);
        assert_eq!(limited.get_envs().count(), 2);
        assert_eq!(limited.get_current_dir(), Some(Path::new("/")));
    }

    #[test]
    fn what_hangs_is_ended() {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=1", "0.1", "sleep", "60"]);
        assert_eq!(words(&mut command), None);
    }

    #[test]
    fn programs_are_found_on_the_search_path() {
        assert!(has_program("sh") && !has_program("no-such-program-here"));
    }

    #[test]
    fn the_workspace_is_known() {
        let metadata = metadata();
        let is_default = |name: &str| {
            let package = metadata.packages.iter().find(|package| package.name == name).unwrap();
            metadata.is_default(package)
        };
        assert!(is_default("millpond-xtask") && !is_default("millpond-controller"));
        assert!(metadata.target_directory.is_absolute());
    }

    #[test]
    fn a_crate_is_named_with_the_manifest_of_its_workspace() {
        let arguments = |package: &str| {
            let mut command = Command::new("cargo");
            name_package(&mut command, package);
            command.get_args().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(arguments("millpond-linux"), ["--package", "millpond-linux"]);
        let of_rt = arguments("millpond-unwind");
        assert_eq!(of_rt[0], "--manifest-path");
        assert!(of_rt[1].ends_with("rt/Cargo.toml"), "{of_rt:?}");
        assert_eq!(of_rt[2..], ["--package", "millpond-unwind"]);
        assert_eq!(rt_metadata().target_directory, metadata().target_directory, "both build into one");
    }
}
