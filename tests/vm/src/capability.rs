//! Checks whether kernels can be booted here. If not, it reports the reason and a remedy.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The environment variable with the tests that must not be skipped: a comma-separated list. `vm` is ours.
const REQUIRE: &str = "MILLPOND_REQUIRE";

/// Why no kernel can be booted here, with a remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unavailable {
    /// The obstacle, without a full stop.
    pub why: String,
    /// The remedy, as an instruction: `install the package qemu-system-x86`.
    pub what_would_help: String,
}

impl Unavailable {
    /// Both texts.
    pub fn new(why: impl Into<String>, what_would_help: impl Into<String>) -> Self {
        Self { why: why.into(), what_would_help: what_would_help.into() }
    }
}

/// What a test does about an obstacle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Run: there is no obstacle.
    Run,
    /// Skip the test with a message.
    Skip(Unavailable),
    /// Fail: the test was required.
    Fail(Unavailable),
}

/// The decision for a result of [`available`] or [`crate::obtain`].
pub fn decide<T>(answer: &Result<T, Unavailable>, is_required: bool) -> Decision {
    match answer {
        Ok(_) => Decision::Run,
        Err(why) if is_required => Decision::Fail(why.clone()),
        Err(why) => Decision::Skip(why.clone()),
    }
}

/// True when the environment forbids skipping VM tests (`MILLPOND_REQUIRE=vm`, or `vm` among several words).
#[must_use]
pub fn is_required() -> bool {
    std::env::var(REQUIRE).is_ok_and(|words| requires_vm(&words))
}

fn requires_vm(words: &str) -> bool {
    words.split(',').any(|word| word.trim() == "vm")
}

/// Whether this machine has the programs to boot a guest. Does not check kernels; [`crate::obtain`] does.
///
/// # Errors
/// The first missing prerequisite.
pub fn available() -> Result<(), Unavailable> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Err(Unavailable::new(
            "the guests run amd64 kernels with this machine's own programs",
            "run these tests on an amd64 Linux machine",
        ));
    }
    qemu()?;
    busybox()?;
    Ok(())
}

/// The emulator; `MILLPOND_QEMU` selects another one.
pub(crate) fn qemu() -> Result<PathBuf, Unavailable> {
    if let Some(path) = std::env::var_os("MILLPOND_QEMU") {
        return Ok(PathBuf::from(path));
    }
    program("qemu-system-x86_64", "qemu-system-x86")
}

/// The guest's shell and tools. Debian's package `busybox` lacks `nsenter` and `unshare`, which cases need.
pub(crate) fn busybox() -> Result<PathBuf, Unavailable> {
    let path = program("busybox", "busybox-static")?;
    let applets = Command::new(&path).arg("--list").stdin(Stdio::null()).output();
    let has_all = applets.is_ok_and(|said| {
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        ["nsenter", "unshare", "insmod", "timeout", "cpio"]
            .iter()
            .all(|need| text.lines().any(|l| l == *need))
    });
    if has_all {
        Ok(path)
    } else {
        Err(Unavailable::new(
            "the installed busybox lacks applets that the guests need",
            "install the package busybox-static",
        ))
    }
}

/// A program on the search path; the error names the Debian package to install.
pub(crate) fn program(name: &str, package: &str) -> Result<PathBuf, Unavailable> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].iter().map(PathBuf::from))
        .map(|dir| dir.join(name))
        .find(|candidate| is_executable(candidate))
        .ok_or_else(|| {
            Unavailable::new(
                format!("there is no program {name} here"),
                format!("install the package {package}"),
            )
        })
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_obstacle_is_a_skip_unless_required() {
        let answer: Result<(), _> = Err(Unavailable::new("no kernel", "fetch one"));
        assert!(matches!(decide(&answer, false), Decision::Skip(_)));
        assert!(matches!(decide(&answer, true), Decision::Fail(_)));
        assert_eq!(decide(&Ok(()), true), Decision::Run);
    }

    #[test]
    fn vm_is_one_word_among_several() {
        assert!(requires_vm("vm"));
        assert!(requires_vm("host, vm"));
        assert!(!requires_vm("vmware"));
        assert!(!requires_vm(""));
    }

    #[test]
    fn a_missing_program_names_its_package() {
        let missing = program("no-such-program-of-ours", "some-package").unwrap_err();
        assert_eq!(missing.why, "there is no program no-such-program-of-ours here");
        assert_eq!(missing.what_would_help, "install the package some-package");
    }
}
