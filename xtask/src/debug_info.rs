//! Takes debug information out of a program, into a file that debuggers find by a link in the program.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A program in two files. They are removed when it is dropped.
pub struct Split {
    /// Without symbols and debug information.
    pub program: PathBuf,
    /// What was taken out.
    pub debug: PathBuf,
    _dir: TempDir,
}

/// What came of a program.
pub enum Outcome {
    /// Two files.
    Split(Split),
    /// No ELF file: nothing to take out.
    Whole,
    /// There is no `objcopy` here, or it fails on this file.
    Failed,
}

/// Splits a program. The debug file is called `NAME.debug`.
///
/// # Errors
/// The system's reason when the program cannot be read or no directory for the files can be made.
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
