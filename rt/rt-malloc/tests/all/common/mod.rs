//! The library, and helpers of `rt/rt`'s tests for programs in C.

#![allow(dead_code, unused_imports, clippy::unwrap_used, reason = "modules use a part")]

#[path = "../../../../rt/tests/common/compiled.rs"]
pub mod compiled;
#[path = "../../../../rt/tests/common/said.rs"]
pub mod said;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The library, built with the profile of this test. Cargo does not build it for tests, because a cdylib cannot be a dependency.
pub fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let place = test.ancestors().nth(2).unwrap();
        let profile = match place.file_name().unwrap().to_str().unwrap() {
            "debug" => "dev",
            other => other,
        };
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args([
            "build",
            "--offline",
            "--quiet",
            "--package",
            "millpond-rt-malloc",
            "--profile",
            profile,
        ]);
        cargo.arg("--target-dir").arg(place.parent().unwrap());
        assert!(cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap().success());
        place.join("libmillpond_malloc.so")
    })
}
