//! An archive that is unpacked below a prefix, and the checksums of all packages.

use super::parts::divide;
use super::run::{Run, VERSION};
use super::tool::{said, text};
use super::tree;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory where units expect the program, unless they are edited.
const PREFIX: &str = "/usr/local";

/// Makes the archive: the files of `make install`, without debug information.
pub fn make(run: &Run) -> io::Result<PathBuf> {
    let root = run.install("archive", PREFIX, "lib")?;
    let installed = root.join(PREFIX.trim_start_matches('/'));
    let name = format!("millpond-{VERSION}");
    for (part, own) in divide(&tree::files(&installed)?)? {
        if part.section != "debug" {
            own.iter().try_for_each(|file| tree::move_to(file, &installed, &run.work.path().join(&name)))?;
        }
    }
    tree::files(&run.work.path().join(&name))?;
    let made = run.out.join(format!("{name}-linux-{}.tar.gz", run.machine.name));
    let mut tar = Command::new("tar");
    tar.current_dir(run.work.path()).arg("--create").arg("--file").arg(&made);
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
    tar.args([&format!("--mtime=@{}", run.epoch), "--use-compress-program=gzip -9 --no-name", &name]);
    said(&mut tar)?;
    Ok(made)
}

/// Writes `SHA256SUMS` of all files in a directory.
pub fn sums(dir: &Path) -> io::Result<PathBuf> {
    let sums = said(Command::new("sha256sum").current_dir(dir).args(tree::files(dir)?))?;
    let made = dir.join("SHA256SUMS");
    fs::write(text(&made), sums)?;
    Ok(made)
}
