//! The shared libraries of a host program, as resolved by the host's loader.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::image::ImageError;

/// Paths of all libraries of `program` and of its loader; empty for a static program.
///
/// Only linked libraries are found. Libraries that a program opens at run time must be added separately.
pub(crate) fn libraries_of(program: &Path) -> Result<Vec<PathBuf>, ImageError> {
    let failed = |why: String| ImageError::Libraries { program: program.to_owned(), why };
    if !program.is_file() {
        return Err(failed("there is no such file".to_owned()));
    }
    let said = Command::new("ldd")
        .arg(program)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|e| failed(format!("ldd: {e}")))?;
    let out = String::from_utf8_lossy(&said.stdout).into_owned();
    let err = String::from_utf8_lossy(&said.stderr).into_owned();
    if err.contains("not a dynamic executable") {
        return Ok(Vec::new());
    }
    if !said.status.success() {
        return Err(failed(err.trim().to_owned()));
    }
    parse(&out).map_err(|name| failed(format!("library {name} is not found")))
}

/// Parses the output of ldd. The error is the name of a library that was not found.
fn parse(text: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        let (name, target) = match line.split_once("=>") {
            Some((name, target)) => (name.trim(), target.trim()),
            None => (line, line),
        };
        if target.starts_with("not found") {
            return Err(name.to_owned());
        }
        // An entry without a path is the kernel's own (linux-vdso), or a message of ldd.
        if let Some(path) = target.split_whitespace().next().filter(|p| p.starts_with('/')) {
            found.push(PathBuf::from(path));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_the_loader_are_found_and_the_vdso_is_not() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\
                    \tlibgcc_s.so.1 => /lib/x86_64-linux-gnu/libgcc_s.so.1 (0x00007f0)\n\
                    \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f1)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f2)\n";
        let want = [
            "/lib/x86_64-linux-gnu/libgcc_s.so.1",
            "/lib/x86_64-linux-gnu/libc.so.6",
            "/lib64/ld-linux-x86-64.so.2",
        ];
        assert_eq!(parse(text).unwrap(), want.map(PathBuf::from));
    }

    #[test]
    fn a_missing_library_is_named() {
        assert_eq!(parse("\tlibelf.so.1 => not found\n"), Err("libelf.so.1".to_owned()));
        assert_eq!(parse("\tstatically linked\n"), Ok(Vec::new()));
    }

    #[test]
    fn this_very_test_needs_the_c_library() {
        let libraries = libraries_of(&std::env::current_exe().unwrap()).unwrap();
        assert!(libraries.iter().any(|p| p.to_string_lossy().contains("libc.so")), "{libraries:?}");
    }
}
