//! A build of many files: jobs that start compilers and wait for them.

use super::options::{Constant, MILLI, Opt, Unit, Workload};
use crate::kernel::{Action, Program};

/// A compiler's phases for one file: 50 milliseconds on a CPU of its own.
const FILE_MS: [u64; 4] = [30, 8, 10, 2];
const FILE: [Action; 4] = [
    Action::User(FILE_MS[0] * MILLI),
    // Waits for the disk.
    Action::Sleep(FILE_MS[1] * MILLI),
    Action::User(FILE_MS[2] * MILLI),
    Action::Kernel(FILE_MS[3] * MILLI),
];

pub(super) const WORKLOAD: Workload = Workload {
    name: "build",
    summary: "Jobs that start a compiler for each file and wait for it: 40 ms in user mode, 8 ms of waiting for the disk, 2 ms in the kernel.",
    options: &[
        Opt {
            flag: "-j",
            value: "N",
            summary: "jobs at once; 1 if not given",
            unit: Unit::Count(1, 1024),
            default: 1,
        },
        Opt {
            flag: "--files",
            value: "N",
            summary: "files in all, shared out evenly; 100 if not given",
            unit: Unit::Count(1, 10_000),
            default: 100,
        },
    ],
    constants: &[Constant {
        name: "milliseconds of a compiler: user mode, disk, user mode, kernel",
        values: &FILE_MS,
    }],
    programs: |values, kernel| {
        let (jobs, files) = (values.get("-j"), values.get("--files"));
        let mut job = |number: u64| {
            let done = kernel.channel();
            let compiler = FILE.into_iter().chain([Action::Post(done)]).collect();
            let compiler = Program::once(compiler).ending_in(kernel.process_end_ns());
            let turn = [Action::Fork(compiler), Action::Wait(done)];
            let turns = files / jobs + u64::from(number < files % jobs);
            Program::once((0..turns).flat_map(|_| turn.clone()).collect())
        };
        (0..jobs).map(&mut job).collect()
    },
};
