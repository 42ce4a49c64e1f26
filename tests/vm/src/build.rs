//! Finds programs of this workspace, built in the same way as the running test.
//!
//! Cargo only tells a test the paths of programs in the test's own package. So cargo is run again, with the same profile, target
//! directory and target. It builds the whole workspace: for a single package it would select other features of libraries, and
//! rebuild most of the workspace. `cargo xtask test` passes the files that it built in the environment; then cargo is not run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Why a program of the workspace is not available.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The running program is not in one of cargo's test directories.
    #[error("cannot tell the target directory from {path}", path = .0.display())]
    Place(PathBuf),
    /// Cargo cannot be started.
    #[error("cannot run cargo")]
    Cargo(#[source] std::io::Error),
    /// Cargo could not build it.
    #[error("cannot build {what}: {why}")]
    Build {
        /// The requested target.
        what: String,
        /// The last output of cargo.
        why: String,
    },
}

/// Location and settings with which the running program was built.
#[derive(Debug, PartialEq, Eq)]
struct Built {
    target_dir: PathBuf,
    /// The platform's directory, if cargo was given one.
    platform: Option<String>,
    profile: String,
}

/// The executable of a `[[bin]]` of the workspace, built if necessary. The environment variable `MILLPOND_BIN_NAME` (upper case,
/// `-` as `_`) replaces it by another file.
///
/// # Errors
/// Cargo cannot build it.
pub fn cargo_binary(binary: &str) -> Result<PathBuf, BuildError> {
    if let Some(path) = from_environment(binary) {
        return Ok(path);
    }
    executable(&["build", "--workspace", "--bin", binary], binary, "bin")
}

/// The executable of an example of the workspace, built if necessary. `MILLPOND_BIN_EXAMPLE` replaces it by another file.
///
/// # Errors
/// Cargo cannot build it.
pub fn cargo_example(example: &str) -> Result<PathBuf, BuildError> {
    if let Some(path) = from_environment(example) {
        return Ok(path);
    }
    executable(&["build", "--workspace", "--example", example], example, "example")
}

/// The executable of an integration test (`tests/TEST.rs`) of the workspace, built if necessary. With `harness = false` it is a
/// program to run in a guest. `MILLPOND_BIN_TEST` replaces it by another file.
///
/// # Errors
/// Cargo cannot build it.
pub fn cargo_test_binary(test: &str) -> Result<PathBuf, BuildError> {
    if let Some(path) = from_environment(test) {
        return Ok(path);
    }
    executable(&["test", "--no-run", "--workspace", "--test", test], test, "test")
}

fn from_environment(name: &str) -> Option<PathBuf> {
    let variable = format!("MILLPOND_BIN_{}", name.to_uppercase().replace('-', "_"));
    std::env::var_os(variable).filter(|v| !v.is_empty()).map(PathBuf::from).map(without_debug_information)
}

fn executable(args: &[&str], target: &str, kind: &str) -> Result<PathBuf, BuildError> {
    let me = std::env::current_exe().map_err(BuildError::Cargo)?;
    let built = built_from(&me, env!("MILLPOND_TARGET")).ok_or(BuildError::Place(me))?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // The manifest of this package selects its workspace, whatever the working directory of the caller.
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(args);
    command.args(["--message-format=json-render-diagnostics", "--profile", &built.profile]);
    command.arg("--target-dir").arg(&built.target_dir).stdin(Stdio::null());
    if let Some(platform) = &built.platform {
        command.args(["--target", platform]);
    }
    let said = command.output().map_err(BuildError::Cargo)?;
    let failed = |why: String| BuildError::Build { what: args.join(" "), why };
    if !said.status.success() {
        return Err(failed(String::from_utf8_lossy(&said.stderr).trim_end().to_owned()));
    }
    let out = String::from_utf8_lossy(&said.stdout).into_owned();
    let built = find_executable(&out, target, kind);
    built.map(without_debug_information).ok_or_else(|| failed("cargo names no executable".to_owned()))
}

/// A copy of the program without debug information, in the same directory, which the guest unpacks ten times as fast. Without
/// `strip`, the program itself.
fn without_debug_information(program: PathBuf) -> PathBuf {
    let small = program.with_extension("small");
    let made = |path: &Path| std::fs::metadata(path).and_then(|meta| meta.modified()).ok();
    if made(&small).is_some() && made(&small) >= made(&program) {
        return small;
    }
    // Another test may do the same at the same time. Each writes its own file, and the last rename wins.
    let aside = program.with_extension(format!("small-{}", std::process::id()));
    let said = Command::new("strip").arg("--strip-debug").arg("-o").arg(&aside).arg(&program).output();
    let is_there = said.is_ok_and(|said| said.status.success()) && std::fs::rename(&aside, &small).is_ok();
    if is_there { small } else { program }
}

/// Parses cargo's messages: one JSON object per line.
fn find_executable(messages: &str, target: &str, kind: &str) -> Option<PathBuf> {
    messages.lines().rev().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let described = &message["target"];
        let is_it = message["reason"] == "compiler-artifact"
            && described["name"] == target
            && described["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|k| k == kind));
        if is_it { message["executable"].as_str().map(PathBuf::from) } else { None }
    })
}

/// Derives target directory, platform and profile from a path such as `target/debug/deps/vm-0123` or
/// `target/PLATFORM/release/examples/run`. `target` is the platform for which cargo compiled the program. Its directory exists if
/// cargo was given that platform. Only names are used: a directory that was created beforehand, such as a container's empty
/// volume, has no mark of cargo.
fn built_from(program: &Path, target: &str) -> Option<Built> {
    let name = |path: &Path| path.file_name().map(|n| n.to_string_lossy().into_owned());
    let within = program.parent()?;
    if !name(within).is_some_and(|n| n == "deps" || n == "examples") {
        return None;
    }
    let dir = within.parent()?;
    let profile = match name(dir)?.as_str() {
        "debug" => "dev".to_owned(),
        other => other.to_owned(),
    };
    let above = dir.parent()?;
    let platform = name(above).filter(|n| n == target);
    let target_dir = if platform.is_some() { above.parent()? } else { above };
    Some(Built { target_dir: target_dir.to_owned(), platform, profile })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_and_directories_are_read_from_the_path() {
        const HOST: &str = "x86_64-unknown-linux-gnu";
        let from = |path: &str| built_from(Path::new(path), HOST);
        let want = |platform: Option<&str>, profile: &str| {
            Some(Built {
                target_dir: "/w/target".into(),
                platform: platform.map(str::to_owned),
                profile: profile.into(),
            })
        };
        assert_eq!(from("/w/target/debug/deps/vm-01"), want(None, "dev"));
        assert_eq!(from("/w/target/release/examples/boot"), want(None, "release"));
        assert_eq!(from("/w/target/x86_64-unknown-linux-gnu/bench/examples/run"), want(Some(HOST), "bench"));
        // The directory of another platform has no special meaning.
        let other = from("/w/aarch64-unknown-linux-gnu/debug/deps/vm-01").unwrap();
        assert_eq!(other.target_dir, Path::new("/w/aarch64-unknown-linux-gnu"));
        assert_eq!(from("/usr/bin/vm"), None);
    }

    #[test]
    fn a_target_directory_that_was_made_beforehand_serves() {
        let dir = tempfile::tempdir().unwrap();
        let deps = dir.path().join("debug/deps");
        std::fs::create_dir_all(&deps).unwrap();
        let built = built_from(&deps.join("vm-01"), "x86_64-unknown-linux-gnu").unwrap();
        assert_eq!(built.target_dir, dir.path());
        assert_eq!(built.platform, None);
    }

    #[test]
    fn the_executable_is_found_among_the_messages() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"millpond","kind":["lib"]},"executable":null}
{"reason":"compiler-artifact","target":{"name":"millpond","kind":["bin"]},"executable":"/t/millpond"}
{"reason":"build-finished","success":true}
not json"#;
        assert_eq!(find_executable(messages, "millpond", "bin"), Some("/t/millpond".into()));
        assert_eq!(find_executable(messages, "other", "bin"), None);
    }
}
