//! Conjugate gradient: threads that each compute a share, and meet several times per step.
//!
//! # What is modelled
//!
//! The NPB benchmark CG, repeated without end. An outer iteration is 25 steps of the conjugate gradient, the residual and the new
//! estimate. Every thread owns a share of the rows and, in each part, executes as many instructions as its rows cost. Nothing is
//! computed. A step has four parts. Each ends with a barrier, because the next part needs results of all rows:
//!
//! ```text
//!   q = A p | p.q | z += a p, r -= a q, r.r | p = r + b p |
//! ```
//!
//! An outer iteration has four more parts: `A z | |x - A z| | x.z, z.z | x = z / |z| |`. Operations are counted as the
//! benchmark counts them: `2 na (3 + nonzer (nonzer + 1) + 25 (5 + nonzer (nonzer + 1)) + 3)` for an outer iteration,
//! 66.654 million for the fifteen of a run of class S. A thread counts its own after each step.
//!
//! # What is left out
//!
//! All rows have the mean number of elements, so that shares differ only by whole rows. The construction of the matrix,
//! before the first iteration, is not modelled.

use super::options::{Opt, THREAD_PER_CPU, Unit, Values, Workload};
use crate::kernel::{Action, Mix, Program, Waiting};
use crate::kernel::{BarrierId, MixId};
use std::collections::BTreeMap;

/// Steps of the conjugate gradient in an outer iteration.
const STEPS: usize = 25;

/// The classes: rows (`na`), and random elements per row (`nonzer`).
const CLASSES: [&str; 7] = ["S", "W", "A", "B", "C", "D", "E"];
const SIZES: [(u64, u64); 7] =
    [(1_400, 7), (7_000, 8), (14_000, 11), (75_000, 13), (150_000, 15), (1_500_000, 21), (9_000_000, 26)];

/// In the order of the option's words.
const WAITINGS: [Waiting; 2] = [Waiting::Spin, Waiting::Block];

/// Bytes of a matrix element with its column, and of a row of each of the six vectors.
const ELEMENT_BYTES: u64 = 12;
const VECTORS_BYTES: u64 = 6 * 8;

pub(super) const WORKLOAD: Workload = Workload {
    name: "cg",
    summary: "Threads that do steps of a conjugate gradient (NPB CG) for ever, each a share of the rows, and meet four times in each step.",
    options: &[
        THREAD_PER_CPU,
        Opt {
            flag: "--class",
            value: "CLASS",
            summary: "size of the problem: S, W, A, B, C, D or E; S if not given",
            unit: Unit::Word(&CLASSES),
            default: 0,
        },
        Opt {
            flag: "--wait",
            value: "HOW",
            summary: "how threads wait for one another: spin, or block; spin if not given",
            unit: Unit::Word(&["spin", "block"]),
            default: 0,
        },
        Opt {
            flag: "--start",
            value: "HOW",
            summary: "how threads begin: all at once, or started by the first one when that runs after a tenth of a second: together, led; together if not given",
            unit: Unit::Word(&["together", "led"]),
            default: 0,
        },
        Opt {
            flag: "--events",
            value: "",
            summary: "a thread of its own tells of each iteration, as the program does that is measured",
            unit: Unit::Given,
            default: 0,
        },
        // An element of the sparse product is two operations and six instructions: load the element, its column and the vector's
        // element, multiply, add, and loop.
        Opt {
            flag: "--op-instructions",
            value: "X",
            summary: "instructions for each counted operation; 3 if not given",
            unit: Unit::Milli(1, 1_000_000),
            default: 3_000,
        },
        Opt {
            flag: "--op-cpi",
            value: "X",
            summary: "cycles for each of these where nothing else delays it; 1 if not given",
            unit: Unit::Milli(1, 1_000_000),
            default: 1_000,
        },
        // Three of the six are loads. The matrix is read in order, and a line of 64 bytes holds five elements: 3 misses per 100
        // instructions, and a few more for the vectors. Fitted: smartos-2, a job with a CPU to itself, 1,000 Mop/s.
        Opt {
            flag: "--op-reach",
            value: "X",
            summary: "of a hundred of these how many look beyond the first cache; 3.985 if not given (fitted)",
            unit: Unit::Milli(0, 100_000),
            default: 3_985,
        },
        // An atomic decrement, and a read of the word that opens the barrier.
        Opt {
            flag: "--barrier-instructions",
            value: "N",
            summary: "instructions that each thread executes at a barrier; 50 if not given (assumed)",
            unit: Unit::Count(0, 1_000_000),
            default: 50,
        },
    ],
    constants: &[],
    programs: |values, kernel| {
        let threads = values.get("-t").max(1);
        let barrier = kernel.barrier(u32::try_from(threads).unwrap_or(u32::MAX));
        let mix = kernel.mix(Job::mix(values, threads));
        let job = Job::of(values, barrier, mix);
        let rows = |thread: u64| job.rows * (thread + 1) / threads - job.rows * thread / threads;
        let mut programs: BTreeMap<u64, Program> = BTreeMap::new();
        let shares = (0..threads).map(rows);
        let all = shares.map(|rows| programs.entry(rows).or_insert_with(|| job.program(rows)).clone());
        let mut all: Vec<Program> = all.collect();
        if values.count("--events") > 0 {
            let told = kernel.channel();
            all[0] = Program::repeat(all[0].actions().cloned().chain([Action::Post(told)]).collect());
            all.push(Program::repeat(vec![Action::Wait(told), Action::Kernel(TELL_NS)]));
        }
        if values.count("--start") == 0 {
            return all;
        }
        let Some((first, others)) = all.split_first() else { return all };
        let start = |other: &Program| [Action::Kernel(CREATE_NS), Action::Spawn(other.clone())];
        let lead = std::iter::once(Action::Sleep(READY_NS)).chain(others.iter().flat_map(start)).collect();
        vec![Program::begin(lead, first.actions().cloned().collect())]
    },
};

/// Initialization time of the first thread, before it starts the others.
const READY_NS: u64 = 100_000_000;
/// Cost of the report after an iteration: a line of text written to a pipe. Assumed.
const TELL_NS: u64 = 3_000;
/// Cost to create a thread: mapping its stack, and clone. Assumed.
const CREATE_NS: u64 = 30_000;

/// Common data of a job's threads.
struct Job {
    rows: u64,
    /// Operations of the sparse product per row.
    product: u64,
    op_instructions: u64,
    barrier_instructions: u64,
    barrier: BarrierId,
    mix: MixId,
    waiting: Waiting,
}

impl Job {
    fn size(values: &Values) -> (u64, u64) {
        SIZES.get(values.count("--class")).copied().unwrap_or(SIZES[0])
    }

    /// The job's instruction mix. A thread's footprint is its share of the matrix and of the vectors.
    fn mix(values: &Values, threads: u64) -> Mix {
        let (rows, drawn) = Job::size(values);
        let bytes = rows * (drawn * (drawn + 1) * ELEMENT_BYTES + VECTORS_BYTES);
        Mix {
            base_milli: values.get("--op-cpi"),
            reach_ppm: values.get("--op-reach") * 10,
            miss_ppm: 0,
            footprint_kib: (bytes / threads).div_ceil(1_024),
            // The counted operations are floating-point instructions.
            float_ppm: (1_000_000_000 / values.get("--op-instructions").max(1)).min(1_000_000),
        }
    }

    fn of(values: &Values, barrier: BarrierId, mix: MixId) -> Job {
        let (rows, drawn) = Job::size(values);
        Job {
            rows,
            product: 2 * drawn * (drawn + 1),
            op_instructions: values.get("--op-instructions"),
            barrier_instructions: values.get("--barrier-instructions"),
            barrier,
            mix,
            waiting: WAITINGS.get(values.count("--wait")).copied().unwrap_or(Waiting::Spin),
        }
    }

    /// The program of a thread that owns this many rows: outer iterations without end.
    fn program(&self, rows: u64) -> Program {
        let step = self.parts(rows, &[self.product, 2, 6, 2]);
        let estimate = self.parts(rows, &[self.product, 6, 4, 2]);
        let steps = std::iter::repeat_n(step, STEPS).flatten();
        Program::repeat(steps.chain(estimate).collect())
    }

    /// Parts with these operations per row, each closed by the barrier. The operations are counted at the end.
    fn parts(&self, rows: u64, operations: &[u64]) -> Vec<Action> {
        let part = |each: &u64| {
            let instructions = rows * each * self.op_instructions / 1_000 + self.barrier_instructions;
            [Action::Work(self.mix, instructions), Action::Meet(self.barrier, self.waiting)]
        };
        let done = rows * operations.iter().sum::<u64>();
        operations.iter().flat_map(part).chain([Action::Done(done)]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{CREATE_NS, READY_NS};
    use crate::SimMachine;
    use crate::workloads::Load;
    use crate::workloads::tests::plain;
    use millpond_machine::Clock;
    use millpond_model::Nanos;

    /// Operations after this many nanoseconds, where an operation takes 1 ns and barriers take no time.
    fn operations(options: &str, nanos: u64) -> u64 {
        let text = format!("cg -t 1 --op-instructions 1 --op-reach 0 --barrier-instructions 0 {options}");
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let machine = plain();
        let pid = machine.start_load(&Load::parse(&words).unwrap());
        machine.sleep_until(Nanos(nanos));
        machine.view(|s| s.operations(pid))
    }

    #[test]
    fn a_thread_tells_of_each_iteration() {
        let words: Vec<String> = "cg -t 2 --start led --events".split(' ').map(str::to_owned).collect();
        let machine = plain();
        let pid = machine.start_load(&Load::parse(&words).unwrap());
        let threads = || machine.view(|s| s.tables.processes.get(&pid).map(|p| p.lwps.len()));
        // The first thread initializes; then it starts the second one and the one that reports.
        assert_eq!(threads(), Some(1));
        machine.sleep_until(Nanos(2 * READY_NS));
        assert_eq!(threads(), Some(3));
    }

    /// Operations of fifteen outer iterations of class S: 15 x 2 x 1400 x (3 + 56 + 25 x (5 + 56) + 3).
    const RUN: u64 = 66_654_000;

    #[test]
    fn a_run_of_class_s_counts_66_654_million_operations() {
        assert_eq!(operations("", RUN), RUN);
        // The last part has 2 operations per row, which are counted only at its end.
        assert_eq!(operations("", RUN - 1), RUN - 1_400 * (2 * 56 + 12));
        // Class W: 7,000 rows of 8 elements, 15 x 2 x 7000 x (3 + 72 + 25 x (5 + 72) + 3).
        assert_eq!(operations("--class W", 210_000 * 2_003), 210_000 * 2_003);
    }

    #[test]
    fn threads_share_the_rows_out() {
        assert_eq!(operations("-t 2", RUN / 2), RUN);
        assert_eq!(operations("-t 2 --wait block", RUN / 2), RUN);
        // 466, 467 and 467 rows: the largest share determines the time.
        assert_eq!(operations("-t 3", RUN / 1_400 * 467), RUN);
        assert!(operations("-t 3", RUN / 1_400 * 466) < RUN);
    }

    #[test]
    fn a_team_that_the_first_thread_leads_does_the_same_later() {
        assert_eq!(operations("-t 2 --start led", READY_NS + CREATE_NS + RUN / 2), RUN);
        assert_eq!(operations("--start led", READY_NS + RUN), RUN);
    }

    #[test]
    fn what_an_operation_costs_can_be_set() {
        // 2.5 instructions of 0.4 cycles.
        assert_eq!(operations("--op-instructions 2.5 --op-cpi 0.4", RUN), RUN);
        assert_eq!(operations("--op-cpi 2", 2 * RUN), RUN);
        // A step has four barriers, and so has the end of an outer iteration: 15 x 26 x 4, of 100 ns each.
        assert_eq!(operations("--barrier-instructions 100", RUN + 15 * 26 * 4 * 100), RUN);
    }

    #[test]
    fn what_was_done_stays_known_when_the_job_has_ended() {
        let words: Vec<String> = "cg -t 2".split(' ').map(str::to_owned).collect();
        let machine = SimMachine::named("t2000").unwrap();
        let pid = machine.start_load(&Load::parse(&words).unwrap());
        machine.sleep_until(Nanos::from_millis(10));
        let before = machine.view(|s| s.operations(pid));
        assert!(before > 0);
        machine.exit(pid);
        machine.sleep_until(Nanos::from_millis(20));
        assert_eq!(machine.view(|s| s.operations(pid)), before);
        let again = crate::SimState::load(&machine.save()).unwrap();
        assert_eq!(again.operations(pid), before);
    }
}
