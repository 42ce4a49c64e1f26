//! Programs in C and C++, compiled against the header and linked with both libraries; and what the shared library exports.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A library, which cargo built for this test.
fn library(extension: &str) -> PathBuf {
    std::env::current_exe().unwrap().with_file_name(format!("libmillpond_rt.{extension}"))
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|out| out.status.success())
}

/// A place of one test, which goes with it.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let dir = std::env::temp_dir().join(format!("millpond-rt-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Place(dir)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Compiles a program as `standard` and runs it.
fn run(compiler: &str, standard: &str, source: &str, extension: &str) -> Output {
    let name = source.replace('/', "-");
    let place = Place::new(&format!("{compiler}-{standard}-{extension}-{name}"));
    let program = place.0.join("program");
    let mut command = Command::new(compiler);
    command.args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-O1"]).arg(format!("-std={standard}"));
    command.arg("-I").arg(Path::new(ROOT).join("include"));
    command.args(["-x", if standard.contains("++") { "c++" } else { "c" }]);
    command.arg(Path::new(ROOT).join(source)).args(["-x", "none"]);
    command.arg(library(extension)).args(["-lgcc_s", "-lpthread", "-ldl", "-lm"]);
    if extension == "so" {
        std::fs::copy(library("so"), place.0.join("libmillpond_rt.so.0")).unwrap();
        command.arg(format!("-Wl,-rpath,{}", place.0.display()));
    }
    let out = command.arg("-o").arg(&program).output().unwrap();
    assert!(out.status.success(), "{compiler} {standard}: {}", String::from_utf8_lossy(&out.stderr));
    Command::new(&program).output().unwrap()
}

fn every_call(test: &str, compilers: &[(&str, &[&str])]) {
    let there: Vec<_> = compilers.iter().filter(|(compiler, _)| has(compiler)).collect();
    if there.is_empty() {
        println!("skipped: {test}: there is no {}", compilers[0].0);
    }
    for (compiler, standards) in there {
        for (standard, extension) in standards.iter().flat_map(|s| [(s, "a"), (s, "so")]) {
            for source in ["tests/calls.c", "tests/locks.c"] {
                let out = run(compiler, standard, source, extension);
                let said = String::from_utf8_lossy(&out.stdout);
                assert!(out.status.success(), "{source} {compiler} {standard} {extension}: {said}");
            }
        }
    }
}

#[test]
fn every_call_does_what_the_header_says_with_gcc() {
    every_call(
        "every_call_does_what_the_header_says_with_gcc",
        &[("gcc", &["c99", "c11"]), ("g++", &["c++11", "c++17"])],
    );
}

#[test]
fn every_call_does_what_the_header_says_with_clang() {
    every_call(
        "every_call_does_what_the_header_says_with_clang",
        &[("clang", &["c99", "c11"]), ("clang++", &["c++11"]), ("clang-19", &["c99", "c11"])],
    );
}

#[test]
fn without_memory_real_time_is_refused_and_nothing_is_done() {
    if !has("cc") {
        return println!(
            "skipped: without_memory_real_time_is_refused_and_nothing_is_done: there is no C compiler"
        );
    }
    let out = run("cc", "gnu99", "tests/no_memory.c", "a");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
}

#[test]
fn the_example_meets_no_fault_on_our_stack() {
    if !has("cc") {
        return println!("skipped: the_example_meets_no_fault_on_our_stack: there is no C compiler");
    }
    let out = run("cc", "gnu99", "examples/thread.c", "so");
    let said = String::from_utf8(out.stdout).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_ne!(lines[0], "page faults on a usual stack: 0");
    assert_eq!(lines[1], "page faults on ours: 0");
}

#[test]
fn the_example_of_real_time_tells_what_it_has_and_meets_no_fault() {
    if !has("cc") {
        return println!(
            "skipped: the_example_of_real_time_tells_what_it_has_and_meets_no_fault: there is no C compiler"
        );
    }
    let out = run("cc", "gnu11", "examples/realtime.c", "so");
    let said = String::from_utf8(out.stdout).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert!(!lines[0].starts_with("before: 0 faults"), "{said}");
    assert!(lines.contains(&"heap          4194304 bytes kept"), "{said}");
    assert!(lines[lines.len() - 1].starts_with("after: 0 faults"), "{said}");
}

#[test]
fn the_example_shows_who_is_first_under_each_lock() {
    let test = "the_example_shows_who_is_first_under_each_lock";
    if !has("cc") {
        return println!("skipped: {test}: there is no C compiler");
    }
    let out = run("cc", "gnu99", "examples/inversion.c", "so");
    let said = String::from_utf8(out.stdout).unwrap();
    if said.starts_with("cannot show an inversion: Operation not permitted") {
        return println!("skipped: {test}: no right to real-time classes (ulimit -r)");
    }
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines,
        [
            "plain: the high one has the lock when the middle one is done",
            "inherits: the high one has the lock before the middle one is done",
        ]
    );
}

#[test]
fn the_shared_library_exports_what_the_list_says() {
    if !has("nm") {
        return println!("skipped: the_shared_library_exports_what_the_list_says: there is no nm (binutils)");
    }
    let out = Command::new("nm").args(["-D", "--defined-only"]).arg(library("so")).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let mut exported: Vec<&str> = text.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    exported.sort_unstable();
    let listed: Vec<&str> = include_str!("../symbols").lines().collect();
    assert_eq!(exported, listed);
    let header = include_str!("../include/millpond/rt.h");
    assert!(listed.iter().all(|name| header.contains(&format!("{name}("))));
}

#[test]
fn every_call_has_a_page_of_the_manual_that_shows_it() {
    let man = Path::new(ROOT).join("man");
    for name in include_str!("../symbols").lines() {
        let mut text = std::fs::read_to_string(man.join(format!("{name}.3"))).unwrap();
        if let Some(other) = text.strip_prefix(".so man3/") {
            text = std::fs::read_to_string(man.join(other.trim())).unwrap();
        }
        assert!(text.lines().any(|line| line.contains(&format!("{name}("))), "{name}");
    }
}

#[test]
fn groff_finds_nothing_wrong_with_the_manual() {
    if !has("groff") {
        return println!("skipped: groff_finds_nothing_wrong_with_the_manual: there is no groff");
    }
    for name in [
        "stack_alloc",
        "stack_getbounds",
        "stack_lock",
        "rt_mutex_init",
        "rt_mutex_lock",
        "rt_cond_init",
        "rt_setup_begin",
        "rt_calm_open",
    ] {
        let page = Path::new(ROOT).join(format!("man/{name}.3"));
        let out = Command::new("groff").args(["-man", "-ww", "-Tutf8"]).arg(page).output().unwrap();
        assert!(out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
    }
}
