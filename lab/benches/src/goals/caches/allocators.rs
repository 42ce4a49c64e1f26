//! The compared allocators, and C programs that use them.

use crate::trial::{Bench, Trouble, run_ms, told};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The shared library with the object caches.
pub(super) const CALLS: &str = "libmillpond_rt.so";
/// The library that replaces malloc.
pub(super) const MALLOC: &str = "libmillpond_malloc.so";

/// A library of this tree, next to this program.
pub(super) fn library(bench: &Bench, name: &str) -> Result<PathBuf, Trouble> {
    let file = bench.own.with_file_name(name);
    if file.is_file() {
        Ok(file)
    } else {
        Err(format!("there is no {name} beside millpond-benches (make build)"))
    }
}

/// An allocator of another project, at its package's path.
pub(super) fn other(name: &str) -> Result<PathBuf, Trouble> {
    let dirs = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let files = dirs.iter().map(|dir| Path::new(dir).join(name));
    files.into_iter().find(|file| file.is_file()).ok_or_else(|| format!("there is no {name} here"))
}

/// Compiles a C program with this name and source.
pub(super) fn build(bench: &Bench, name: &str, source: &str, more: &[&str]) -> Result<PathBuf, Trouble> {
    let (file, program) = (bench.scratch.join(format!("{name}.c")), bench.scratch.join(name));
    told("write a program", fs::write(&file, source))?;
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-g", "-pthread", "-o"]).arg(&program).arg(&file).args(more).arg("-ldl");
    run_ms(&mut cc)?;
    Ok(program)
}

/// The numbers that a program prints.
pub(super) fn numbers(command: &mut Command) -> Result<Vec<f64>, Trouble> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = told(&format!("run {name}"), command.output())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{name} failed: {}", said.lines().next().unwrap_or("it said nothing")));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let words: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    if words.is_empty() { Err(format!("{name} printed no number: {text}")) } else { Ok(words) }
}
