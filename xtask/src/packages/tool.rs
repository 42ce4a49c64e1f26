//! Runs the tools that make packages.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// The output of a tool. If it cannot be started, the error names its Debian package.
pub fn said(command: &mut Command) -> io::Result<String> {
    let name = command.get_program().to_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| {
        let package = match name.to_str() {
            Some("dpkg-deb") => "dpkg",
            Some("dpkg-shlibdeps") => "dpkg-dev",
            Some("rpmbuild") => "rpm",
            other => other.unwrap_or_default(),
        };
        let why = format!("cannot run {}: {error}\nhint: apt-get install {package}", name.display());
        io::Error::new(error.kind(), why)
    })?;
    if output.status.success() {
        return String::from_utf8(output.stdout).map_err(io::Error::other);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{} ended with {}: {}", name.display(), output.status, errors.trim())))
}

/// A path as text. Paths made here have no other characters.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}
