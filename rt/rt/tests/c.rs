//! Programs in C and C++, compiled against the headers and linked with both libraries; and the exported symbols of the shared library.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod common;

use common::compiled::{How, Program, has, library};
use std::path::Path;
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Values of `UMEM_DEBUG`, each with groups of `umem.c` that check themselves.
const GROUPS: [(&str, &[&str]); 4] = [
    ("", &["calls", "objects", "no-memory", "limited", "threads", "many-caches", "caches-come-and-go"]),
    ("guards", &["guarded"]),
    ("mtbf=7", &["injected"]),
    ("default", &["calls", "no-memory", "limited", "threads", "many-caches", "caches-come-and-go"]),
];

/// Runs a group of `umem.c`, which prints nothing on success.
fn run_group(program: &Program, debug: &str, group: &str) {
    let out = program.command().arg(group).env("UMEM_DEBUG", debug).output().unwrap();
    let (said, complained) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{debug:?} {group}: {}: {said}{complained}", out.status);
}

fn every_call(test: &str, compilers: &[(&str, &[&str])]) {
    let there: Vec<_> = compilers.iter().filter(|(compiler, _)| has(compiler)).collect();
    if there.is_empty() {
        println!("skipped: {test}: there is no {}", compilers[0].0);
    }
    for (compiler, standards) in there {
        for (standard, library) in standards.iter().flat_map(|s| [(s, "a"), (s, "so")]) {
            let how = How { compiler, standard, library, more: &[] };
            for source in ["tests/calls.c", "tests/locks.c"] {
                let out = Program::new(source, how).command().output().unwrap();
                let said = String::from_utf8_lossy(&out.stdout);
                assert!(out.status.success(), "{source} {compiler} {standard} {library}: {said}");
            }
            let umem = Program::new("tests/umem.c", how);
            for (debug, groups) in GROUPS {
                groups.iter().for_each(|group| run_group(&umem, debug, group));
            }
        }
    }
}

/// A program in C with the shared library. `None`: there is no compiler.
fn shared(test: &str, source: &str) -> Option<Program> {
    if !has("cc") {
        println!("skipped: {test}: there is no C compiler");
        return None;
    }
    Some(Program::new(source, How { compiler: "cc", standard: "gnu99", library: "so", more: &["-g"] }))
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
fn the_header_compiles_with_strict_standards_and_the_published_declaration_works() {
    let test = "the_header_compiles_with_strict_standards_and_the_published_declaration_works";
    let there: Vec<_> = ["gcc", "clang", "clang-19"].into_iter().filter(|compiler| has(compiler)).collect();
    if there.is_empty() {
        println!("skipped: {test}: there is no C compiler");
    }
    for compiler in there {
        for standard in ["c99", "c11", "c17", "c2x"] {
            for more in [&[][..], &["-DLAST"], &["-D_POSIX_C_SOURCE=200809L"]] {
                let how = How { compiler, standard, library: "so", more };
                let out = Program::new("tests/strict.c", how).command().output().unwrap();
                let sizes = String::from_utf8(out.stdout).unwrap();
                assert!(out.status.success(), "{compiler} {standard} {more:?}");
                assert!(sizes.ends_with("512 1024 2048 "), "{compiler} {standard} {more:?}: {sizes}");
            }
        }
    }
}

#[test]
fn the_example_meets_no_fault_on_our_stack() {
    let test = "the_example_meets_no_fault_on_our_stack";
    let Some(program) = shared(test, "examples/thread.c") else { return };
    let out = program.command().output().unwrap();
    let said = String::from_utf8(out.stdout).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_ne!(lines[0], "page faults on a usual stack: 0");
    assert_eq!(lines[1], "page faults on ours: 0");
}

#[test]
fn without_memory_real_time_is_refused_and_nothing_is_done() {
    let test = "without_memory_real_time_is_refused_and_nothing_is_done";
    if !has("cc") {
        return println!("skipped: {test}: there is no C compiler");
    }
    let how = How { compiler: "cc", standard: "gnu99", library: "a", more: &[] };
    let out = Program::new("tests/no_memory.c", how).command().output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
}

#[test]
fn the_example_of_real_time_tells_what_it_has_and_meets_no_fault() {
    let test = "the_example_of_real_time_tells_what_it_has_and_meets_no_fault";
    let Some(program) = shared(test, "examples/realtime.c") else { return };
    let out = program.command().output().unwrap();
    let said = String::from_utf8(out.stdout).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert!(!lines[0].starts_with("before: 0 faults"), "{said}");
    assert!(lines.contains(&"heap          4194304 bytes kept"), "{said}");
    assert!(lines[lines.len() - 1].starts_with("after: 0 faults"), "{said}");
}

#[test]
fn the_example_shows_who_is_first_under_each_lock() {
    let test = "the_example_shows_who_is_first_under_each_lock";
    let Some(program) = shared(test, "examples/inversion.c") else { return };
    let out = program.command().output().unwrap();
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
fn the_example_makes_an_object_once_or_each_time_where_it_is_checked() {
    let test = "the_example_makes_an_object_once_or_each_time_where_it_is_checked";
    let pairs = [("gcc", "so"), ("clang", "a"), ("clang-19", "a")];
    let there: Vec<_> = pairs.into_iter().filter(|(compiler, _)| has(compiler)).collect();
    if there.is_empty() {
        println!("skipped: {test}: there is no C compiler");
    }
    for (compiler, library) in there {
        let how = How { compiler, standard: "gnu99", library, more: &[] };
        let program = Program::new("examples/cache.c", how);
        for (debug, made) in [("", 1), ("default", 1000)] {
            let out = program.command().env("UMEM_DEBUG", debug).output().unwrap();
            let wanted = format!("used 1000 times, made {made}, ended {made}\n");
            assert_eq!(String::from_utf8(out.stdout).unwrap(), wanted, "{compiler} {debug:?}");
        }
    }
}

#[test]
fn children_that_are_forked_while_others_allocate_can_allocate() {
    let test = "children_that_are_forked_while_others_allocate_can_allocate";
    let Some(program) = shared(test, "tests/umem.c") else { return };
    for debug in ["", "nosignal", "guards", "default"] {
        run_group(&program, debug, "forks");
    }
}

#[test]
fn a_cache_that_is_destroyed_with_buffers_out_is_said_and_stays() {
    let test = "a_cache_that_is_destroyed_with_buffers_out_is_said_and_stays";
    let Some(program) = shared(test, "tests/umem.c") else { return };
    for (debug, says) in [("", false), ("verbose", true), ("default,verbose", true)] {
        let out = program.command().arg("not-empty").env("UMEM_DEBUG", debug).output().unwrap();
        assert!(out.status.success());
        let said = String::from_utf8(out.stderr).unwrap();
        let is_said = said.starts_with("umem_cache_destroy: 'kept' (") && said.ends_with(") not empty\n");
        assert_eq!((is_said, said.lines().count()), (says, usize::from(says)), "{debug}: {said}");
    }
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
    let headers =
        concat!(include_str!("../include/millpond/rt.h"), include_str!("../include/millpond/umem.h"));
    assert!(listed.iter().all(|name| headers.contains(&format!("{name}("))));
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
    for page in std::fs::read_dir(Path::new(ROOT).join("man")).unwrap() {
        let page = page.unwrap().path();
        if std::fs::read_to_string(&page).unwrap().starts_with(".so ") {
            continue;
        }
        let out = Command::new("groff").args(["-man", "-ww", "-Tutf8"]).arg(page).output().unwrap();
        assert!(out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
    }
}
