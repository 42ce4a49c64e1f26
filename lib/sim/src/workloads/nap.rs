//! Threads that compute and sleep in turn.

use super::options::{MILLI, Opt, THREADS, Unit, Workload};
use crate::kernel::{Action, Program};

pub(super) const WORKLOAD: Workload = Workload {
    name: "nap",
    summary: "Threads that compute for a while, sleep for a while, and so on for ever.",
    options: &[
        THREADS,
        Opt {
            flag: "--run",
            value: "MS",
            summary: "milliseconds of CPU time between two sleeps; 10 if not given",
            unit: Unit::Millis(0, 86_400_000),
            default: 10 * MILLI,
        },
        Opt {
            flag: "--sleep",
            value: "MS",
            summary: "milliseconds of each sleep; 10 if not given",
            unit: Unit::Millis(0, 86_400_000),
            default: 10 * MILLI,
        },
    ],
    constants: &[],
    programs: |values, _| {
        let turn = vec![Action::User(values.get("--run")), Action::Sleep(values.get("--sleep"))];
        vec![Program::repeat(turn); values.count("-t")]
    },
};
