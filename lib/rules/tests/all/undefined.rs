//! `undefined.c`, compiled with the undefined-behaviour sanitizer by each installed compiler.

use std::path::{Path, PathBuf};
use std::process::Command;

const COMPILERS: [&str; 3] = ["gcc", "clang", "clang-19"];

/// A directory for one program; dropping the value removes it.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Compiles the program. A sanitizer that traps needs no run-time library.
fn compile(compiler: &str, level: &str, to: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let trap =
        if compiler == "gcc" { "-fsanitize-undefined-trap-on-error" } else { "-fsanitize-trap=undefined" };
    let mut command = Command::new(compiler);
    command.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", level, "-fsanitize=undefined", trap]);
    command.arg("-I").arg(root.join("include")).arg(root.join("tests/undefined.c")).arg("-o").arg(to);
    let out = command.output().unwrap();
    assert!(out.status.success(), "{compiler}: {}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn no_state_and_no_table_makes_a_rule_undefined() {
    let has = |compiler: &&str| Command::new(compiler).arg("--version").output().is_ok();
    let there: Vec<&str> = COMPILERS.into_iter().filter(has).collect();
    if there.is_empty() {
        return println!("skipped: no_state_and_no_table_makes_a_rule_undefined: there is no C compiler");
    }
    let place = Place(std::env::temp_dir().join(format!("millpond-rules-{}", std::process::id())));
    std::fs::create_dir_all(&place.0).unwrap();
    for compiler in there {
        for level in ["-O1", "-O2"] {
            let program = place.0.join(format!("{compiler}{level}"));
            compile(compiler, level, &program);
            let out = Command::new(&program).output().unwrap();
            let said = String::from_utf8_lossy(&out.stdout);
            assert!(out.status.success(), "{compiler} {level}: {} {said}", out.status);
            let stopped = Command::new(&program).arg("1").status().unwrap();
            assert_eq!(stopped.code(), None, "{compiler} {level}: the sanitizer lets an overflow pass");
        }
    }
}
