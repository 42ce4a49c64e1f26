//! Cases on real kernels: each group is one boot, each case is one test. The scripts are in `cases/`; `groups.rs` assigns them to
//! kernels.
//!
//! `MILLPOND_VM=newest` boots only the group of `make test`, `MILLPOND_VM=all` adds those of `make test-all`. With
//! `MILLPOND_REQUIRE=vm` a skip is a failure. A filter boots only the groups with a matching case.
#![allow(clippy::print_stdout, reason = "a test harness reports on standard output")]

#[path = "vm/groups.rs"]
mod groups;
#[path = "vm/itself.rs"]
mod itself;
#[path = "vm/runner.rs"]
mod runner;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let args = Arguments::from_args();
    let groups = if groups::wants_newest() { groups::newest() } else { groups::all(groups::wants_all()) };
    match groups {
        Ok(groups) => runner::run(&args, groups),
        Err(why) => {
            println!("vm: {why}");
            ExitCode::FAILURE
        }
    }
}
