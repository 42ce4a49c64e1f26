//! Moves debug information from a program into a file, which debuggers find through a link in the program.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A program in two files. Dropping the value removes them.
pub struct Split {
    /// The program without symbols and debug information.
    pub program: PathBuf,
    /// The debug information.
    pub debug: PathBuf,
    _dir: TempDir,
}

/// The result of splitting a program.
pub enum Outcome {
    /// The two files.
    Split(Split),
    /// Not an ELF file, so it has no debug information.
    Whole,
    /// `objcopy` is missing, or fails on this file.
    Failed,
}

/// Splits a program. The debug file is named `NAME.debug`.
///
/// # Errors
/// The system's error when the program cannot be read or the directory for the files cannot be created.
pub fn split(program: &Path, name: &str) -> io::Result<Outcome> {
    let mut magic = [0; 4];
    let is_elf = File::open(program)?.read_exact(&mut magic).is_ok() && magic == *b"\x7fELF";
    if !is_elf {
        return Ok(Outcome::Whole);
    }
    let dir = tempfile::tempdir()?;
    let split =
        Split { program: dir.path().join(name), debug: dir.path().join(format!("{name}.debug")), _dir: dir };
    let link = format!("--add-gnu-debuglink={}", split.debug.display());
    let is_done = objcopy(&["--only-keep-debug"], program, &split.debug)
        && objcopy(&["--strip-all", &link], program, &split.program);
    Ok(if is_done { Outcome::Split(split) } else { Outcome::Failed })
}

fn objcopy(options: &[&str], from: &Path, to: &Path) -> bool {
    let mut command = Command::new("objcopy");
    command.args(options).args([from, to]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
