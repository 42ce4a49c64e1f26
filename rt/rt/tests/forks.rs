//! Forks at moments that are hard for an allocator (`forks.c`), in a program that is linked with the library.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod common;

use common::compiled::{How, Program, has};

fn forks(test: &str, cases: &[&str]) {
    if !has("cc") {
        return println!("skipped: {test}: there is no C compiler");
    }
    let how = How { compiler: "cc", standard: "gnu99", library: "so", more: &["-DUMEM"] };
    let program = Program::new("tests/forks.c", how);
    for debug in ["", "default"] {
        for case in cases {
            let out = program.command().arg(case).env("UMEM_DEBUG", debug).output().unwrap();
            let said = String::from_utf8_lossy(&out.stderr);
            assert!(out.status.success(), "{case} {debug:?}: {}: {said}", out.status);
        }
    }
}

#[test]
fn a_fork_that_waits_holds_up_no_thread_that_allocates() {
    forks("a_fork_that_waits_holds_up_no_thread_that_allocates", &["streams", "handlers", "loops"]);
}

#[test]
fn a_child_can_allocate_wherever_other_threads_were_at_the_fork() {
    forks("a_child_can_allocate_wherever_other_threads_were_at_the_fork", &["stopped"]);
}

#[test]
fn a_handler_of_a_signal_can_fork_and_its_child_goes_on() {
    forks("a_handler_of_a_signal_can_fork_and_its_child_goes_on", &["signal", "signal-threads", "steps"]);
}
