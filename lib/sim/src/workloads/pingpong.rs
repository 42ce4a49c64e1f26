//! Pairs of threads that wake one another.

use super::options::{Constant, Opt, Unit, Workload};
use crate::kernel::{Action, Program};

/// Work of each thread before it wakes the other, in nanoseconds.
const WORK: u64 = 5_000;

pub(super) const WORKLOAD: Workload = Workload {
    name: "pingpong",
    summary: "Pairs of threads that wake one another for ever; each computes 5 microseconds in between.",
    options: &[Opt {
        flag: "",
        value: "PAIRS",
        summary: "pairs of threads; 1 if not given",
        unit: Unit::Count(1, 1024),
        default: 1,
    }],
    constants: &[Constant { name: "microseconds of CPU time between two messages", values: &[WORK / 1_000] }],
    programs: |values, kernel| {
        let mut pair = || {
            let (ping, pong) = (kernel.channel(), kernel.channel());
            let first = vec![Action::User(WORK), Action::Post(ping), Action::Wait(pong)];
            let second = vec![Action::Wait(ping), Action::User(WORK), Action::Post(pong)];
            [Program::repeat(first), Program::repeat(second)]
        };
        (0..values.get("")).flat_map(|_| pair()).collect()
    },
};
