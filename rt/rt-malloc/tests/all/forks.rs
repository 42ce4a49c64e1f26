//! Forks at difficult moments for an allocator (`rt/rt/tests/forks.c`): with the library linked, and as a replacement of malloc.

use crate::common::compiled::{How, Program, has};
use std::process::Command;

fn run_cases(test: &str, how: How<'_>, prepare: impl Fn(&mut Command), cases: &[&str]) {
    if !has("cc") {
        return println!("skipped: {test}: there is no C compiler");
    }
    let program = Program::new("tests/forks.c", how);
    for debug in ["", "default"] {
        for case in cases {
            let mut command = program.command();
            prepare(&mut command);
            let out = command.arg(case).env("UMEM_DEBUG", debug).output().unwrap();
            let printed = String::from_utf8_lossy(&out.stderr);
            assert!(out.status.success(), "{case} {debug:?}: {}: {printed}", out.status);
        }
    }
}

fn linked(test: &str, cases: &[&str]) {
    let how = How { compiler: "cc", standard: "gnu99", library: "so", more: &["-DUMEM"] };
    run_cases(test, how, |_| {}, cases);
}

fn preloaded(test: &str, cases: &[&str]) {
    let how = How { compiler: "cc", standard: "gnu99", library: "", more: &["-fno-builtin"] };
    let prepare = |command: &mut Command| {
        command.env("LD_PRELOAD", crate::common::library());
    };
    run_cases(test, how, prepare, cases);
}

macro_rules! tests {
    ($run:ident) => {
        mod $run {
            use super::$run;

            #[test]
            fn a_waiting_fork_blocks_no_thread_that_allocates() {
                $run("a_waiting_fork_blocks_no_thread_that_allocates", &["streams", "handlers", "loops"]);
            }

            #[test]
            fn a_child_can_allocate_wherever_other_threads_were_at_the_fork() {
                $run("a_child_can_allocate_wherever_other_threads_were_at_the_fork", &["stopped"]);
            }

            #[test]
            fn a_handler_that_was_registered_first_can_allocate_in_the_child() {
                let cases = ["registered", "registered-early"];
                $run("a_handler_that_was_registered_first_can_allocate_in_the_child", &cases);
            }

            #[test]
            fn a_child_of_which_no_handler_knows_can_allocate() {
                $run("a_child_of_which_no_handler_knows_can_allocate", &["without"]);
            }

            #[test]
            fn a_signal_handler_can_fork_and_its_child_goes_on() {
                let cases = ["signal", "signal-threads", "steps"];
                $run("a_signal_handler_can_fork_and_its_child_goes_on", &cases);
            }
        }
    };
}

tests!(linked);
tests!(preloaded);
