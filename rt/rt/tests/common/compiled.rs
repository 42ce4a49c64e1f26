//! Compiles programs in C and C++ against the headers, and links them with the libraries, or with neither.

#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses a part")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The directory of the library, also when this file is used by `rt-malloc`.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../rt");

/// A library, which cargo built for this test.
pub fn library(extension: &str) -> PathBuf {
    std::env::current_exe().unwrap().with_file_name(format!("libmillpond_rt.{extension}"))
}

/// Whether a program exists.
pub fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|out| out.status.success())
}

/// A temporary directory of one program.
pub struct Place(pub PathBuf);

impl Place {
    pub fn new() -> Place {
        static PLACES: AtomicUsize = AtomicUsize::new(0);
        let number = PLACES.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("millpond-rt-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Place(dir)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Options of a compilation.
#[derive(Clone, Copy)]
pub struct How<'a> {
    pub compiler: &'a str,
    pub standard: &'a str,
    /// `a`, `so`, or empty: without the library.
    pub library: &'a str,
    pub more: &'a [&'a str],
}

/// A compiled program. Dropping it removes its directory.
pub struct Program {
    place: Place,
}

impl Program {
    /// Compiles a file of `rt/rt`.
    pub fn new(source: &str, how: How<'_>) -> Program {
        let How { compiler, standard, library: extension, more } = how;
        let place = Place::new();
        let mut command = Command::new(compiler);
        command.args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-O1"]).arg(format!("-std={standard}"));
        command.arg("-I").arg(Path::new(ROOT).join("include")).args(more);
        command.args(["-x", if standard.contains("++") { "c++" } else { "c" }]);
        command.arg(Path::new(ROOT).join(source));
        if !extension.is_empty() {
            command.args(["-x", "none"]).arg(library(extension)).args(["-lgcc_s", "-ldl", "-lm"]);
        }
        if extension == "so" {
            std::fs::copy(library("so"), place.0.join("libmillpond_rt.so.0")).unwrap();
            command.arg(format!("-Wl,-rpath,{}", place.0.display()));
        }
        let out = command.arg("-lpthread").arg("-o").arg(place.0.join("program")).output().unwrap();
        assert!(out.status.success(), "{compiler} {standard}: {}", String::from_utf8_lossy(&out.stderr));
        Program { place }
    }

    /// A command that runs it, without the allocator's variables of the environment.
    pub fn command(&self) -> Command {
        let mut command = Command::new(self.place.0.join("program"));
        for variable in ["UMEM_DEBUG", "UMEM_LOGGING", "UMEM_OPTIONS", "LD_PRELOAD"] {
            command.env_remove(variable);
        }
        command
    }
}
