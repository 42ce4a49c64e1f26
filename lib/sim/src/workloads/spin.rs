//! Threads that compute.

use super::options::THREADS;
use super::{Opt, Unit, Workload};
use crate::kernel::{Action, Program};

/// 0 milliseconds: without end.
const FOR_EVER: u64 = 0;

pub(super) const WORKLOAD: Workload = Workload {
    name: "spin",
    summary: "Threads that compute, in user mode, and never sleep.",
    options: &[
        THREADS,
        Opt {
            flag: "--for",
            value: "MS",
            summary: "milliseconds of processor time until each thread ends; never if not given",
            unit: Unit::Millis(0, 86_400_000),
            default: FOR_EVER,
        },
    ],
    programs: |values, _| {
        let program = match values.get("--for") {
            FOR_EVER => Program::hog(),
            time => Program::once(vec![Action::User(time)]),
        };
        vec![program; values.count("-t")]
    },
};
