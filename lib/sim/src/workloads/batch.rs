//! Threads that execute operations of a fixed length and count them.

use super::options::{MILLI, Opt, THREADS, Unit, Workload};
use crate::kernel::{Action, Program};

/// 0 milliseconds: no sleep.
const NO_SLEEP: u64 = 0;

pub(super) const WORKLOAD: Workload = Workload {
    name: "batch",
    summary: "Threads that do operations of so much CPU time each, and count them, for ever.",
    options: &[
        THREADS,
        Opt {
            flag: "--op",
            value: "MS",
            summary: "milliseconds of CPU time of an operation; 1 if not given",
            unit: Unit::Millis(0, 86_400_000),
            default: MILLI,
        },
        Opt {
            flag: "--sleep",
            value: "MS",
            summary: "milliseconds of sleep after each; none if not given",
            unit: Unit::Millis(0, 86_400_000),
            default: NO_SLEEP,
        },
    ],
    constants: &[],
    programs: |values, _| {
        let mut actions = vec![Action::User(values.get("--op")), Action::Done(1)];
        match values.get("--sleep") {
            NO_SLEEP => {}
            time => actions.push(Action::Sleep(time)),
        }
        vec![Program::repeat(actions); values.count("-t")]
    },
};
