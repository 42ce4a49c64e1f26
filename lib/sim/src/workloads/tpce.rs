//! A database under many short transactions: server processes that read, compute and wait for disks.
//!
//! # What is modelled
//!
//! A load like TPC-E with dedicated servers: several per CPU, all in one shared segment. A transaction is a part of the
//! computation, a read that waits for the disk, the rest of the computation, and a write of the log. Disk times are random.
//! No published figure is available to fit it to: throughput is a prediction, and only the comparison of dispatch tables
//! is meaningful.

use super::options::{Constant, MILLI, Opt, THREADS, Unit, Workload};
use crate::kernel::{Action, Mix, Program};

/// Milliseconds of an access to a disk with a cache, equally likely.
const DISK_MS: [u64; 6] = [1, 2, 3, 5, 7, 11];

pub(super) const WORKLOAD: Workload = Workload {
    name: "tpce",
    summary: "A database's servers: each computes, reads from a disk, computes, and writes its log, without end.",
    options: &[
        THREADS,
        Opt {
            flag: "--sga",
            value: "MIB",
            summary: "size of the shared segment; 26624 if not given, as published",
            unit: Unit::Count(1, 1 << 24),
            default: 26_624,
        },
        Opt {
            flag: "--op-instructions",
            value: "N",
            summary: "instructions of a transaction in user mode; 2000000 if not given (assumed)",
            unit: Unit::Count(2, 1_000_000_000),
            default: 2_000_000,
        },
        Opt {
            flag: "--op-kernel",
            value: "N",
            summary: "and in the kernel; 400000 if not given (assumed)",
            unit: Unit::Count(2, 1_000_000_000),
            default: 400_000,
        },
        // On-line transactions of the time: more of everything than Java.
        Opt {
            flag: "--op-reach",
            value: "X",
            summary: "of a thousand of these how many look beyond the first cache; 40 if not given (assumed)",
            unit: Unit::Milli(0, 1_000_000),
            default: 40_000,
        },
        Opt {
            flag: "--op-misses",
            value: "X",
            summary: "of a thousand of these how many go to memory; 5 if not given (assumed)",
            unit: Unit::Milli(0, 1_000_000),
            default: 5_000,
        },
        Opt {
            flag: "--footprint",
            value: "KIB",
            summary: "what a server keeps in the outer cache; 512 if not given (assumed)",
            unit: Unit::Count(0, 1 << 20),
            default: 512,
        },
    ],
    constants: &[Constant { name: "milliseconds of a disk", values: &DISK_MS }],
    programs: |values, kernel| {
        let mix = kernel.mix(Mix {
            reach_ppm: values.get("--op-reach"),
            miss_ppm: values.get("--op-misses"),
            footprint_kib: values.get("--footprint"),
            ..Mix::PLAIN
        });
        let segment = kernel.segment();
        let (user, sys) = (values.get("--op-instructions"), values.get("--op-kernel"));
        let disk = Action::SleepAmong(DISK_MS.map(|ms| ms * MILLI).to_vec());
        let begin = vec![Action::Map(segment, values.get("--sga") * 1_024), disk.clone()];
        let transaction = vec![
            Action::Work(mix, user / 2),
            Action::KernelWork(mix, sys / 2),
            disk.clone(),
            Action::Work(mix, user - user / 2),
            Action::KernelWork(mix, sys - sys / 2),
            disk,
            Action::Done(1),
        ];
        vec![Program::begin(begin, transaction); values.count("-t")]
    },
};
