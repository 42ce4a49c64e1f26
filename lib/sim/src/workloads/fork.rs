//! A thread that forks children.

use super::options::{MILLI, Opt, Unit, Workload};
use crate::kernel::{Action, Program};

pub(super) const WORKLOAD: Workload = Workload {
    name: "fork",
    summary: "A process that starts a child every so often, for ever; each child computes and ends.",
    options: &[
        Opt {
            flag: "--every",
            value: "MS",
            summary: "milliseconds between two children; 10 if not given",
            unit: Unit::Millis(0, 86_400_000),
            default: 10 * MILLI,
        },
        Opt {
            flag: "--life",
            value: "MS",
            summary: "milliseconds of CPU time that a child uses; 5 if not given",
            unit: Unit::Millis(0, 86_400_000),
            default: 5 * MILLI,
        },
    ],
    constants: &[],
    programs: |values, kernel| {
        let child =
            Program::once(vec![Action::User(values.get("--life"))]).ending_in(kernel.process_end_ns());
        vec![Program::repeat(vec![Action::Fork(child), Action::Sleep(values.get("--every"))])]
    },
};
