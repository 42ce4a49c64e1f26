//! Threads that compute.

use super::options::{MILLI, Opt, THREADS, Unit, Workload};
use crate::kernel::{Action, Program};

/// 0 milliseconds: without end.
const FOR_EVER: u64 = 0;

pub(super) const WORKLOAD: Workload = Workload {
    name: "spin",
    summary: "Threads that compute, in user mode, and never sleep, or so much of each period.",
    options: &[
        THREADS,
        Opt {
            flag: "--for",
            value: "MS",
            summary: "milliseconds of CPU time until each thread ends; never if not given",
            unit: Unit::Millis(0, 86_400_000),
            default: FOR_EVER,
        },
        Opt {
            flag: "--duty",
            value: "N",
            summary: "of a hundred parts of a period how many are computed, and the others slept; 100 if not given",
            unit: Unit::Count(1, 100),
            default: 100,
        },
        Opt {
            flag: "--period",
            value: "SECONDS",
            summary: "seconds of a period; 0.02 if not given",
            unit: Unit::Seconds,
            default: 20 * MILLI,
        },
    ],
    constants: &[],
    programs: |values, _| {
        let (duty, period) = (values.get("--duty"), values.get("--period"));
        let run = (period * duty / 100).max(1);
        let turn = || vec![Action::User(run), Action::Sleep(period.saturating_sub(run).max(1))];
        let program = match values.get("--for") {
            FOR_EVER if duty == 100 => Program::hog(),
            FOR_EVER => Program::repeat(turn()),
            time if duty == 100 => Program::once(vec![Action::User(time)]),
            time => Program::times(turn(), time.div_ceil(run)),
        };
        vec![program; values.count("-t")]
    },
};
