//! A Java server: threads that each serve one warehouse, in a heap that they share.
//!
//! # What is imitated
//!
//! SPECjbb2005 at its peak: a warehouse for each CPU of the machine's share, transactions without end and without
//! waiting. An operation is so many instructions of one mix. The heap is one shared segment, which the first thread places
//! (reference §3.10). Collecting garbage is a part of what an operation costs, and stops no thread.

use super::options::{Opt, THREADS, Unit, Workload};
use crate::kernel::{Action, Mix, Program};

/// Operations between two notes.
const BATCH: u64 = 20;

pub(super) const WORKLOAD: Workload = Workload {
    name: "jbb",
    summary: "A Java server: threads that do transactions without end in a heap that they share.",
    options: &[
        THREADS,
        Opt {
            flag: "--heap",
            value: "MIB",
            summary: "size of the heap; 3200 if not given",
            unit: Unit::Count(1, 1 << 24),
            default: 3_200,
        },
        // Commercial Java of the time: a path of a bit more than a hundred thousand instructions.
        Opt {
            flag: "--op-instructions",
            value: "N",
            summary: "instructions of an operation, garbage collected; 115000 if not given (assumed)",
            unit: Unit::Count(1, 1_000_000_000),
            default: 115_000,
        },
        Opt {
            flag: "--op-cpi",
            value: "X",
            summary: "of a core's own cycles for an instruction how many these take; 1 if not given",
            unit: Unit::Milli(1, 1_000_000),
            default: 1_000,
        },
        // Commercial Java of the time: some 25 misses of the first cache in a thousand instructions.
        Opt {
            flag: "--op-reach",
            value: "X",
            summary: "of a thousand of these how many look beyond the first cache; 25 if not given",
            unit: Unit::Milli(0, 1_000_000),
            default: 25_000,
        },
        // Fitted: ff2, 8 servers, the standard table, 171,250 operations a second. Between 2 and 3 was expected.
        Opt {
            flag: "--op-misses",
            value: "X",
            summary: "of a thousand of these how many go to memory; 2.914 if not given (fitted)",
            unit: Unit::Milli(0, 1_000_000),
            default: 2_914,
        },
        Opt {
            flag: "--footprint",
            value: "KIB",
            summary: "what a thread keeps in the outer cache; 768 if not given",
            unit: Unit::Count(0, 1 << 20),
            default: 768,
        },
    ],
    programs: |values, kernel| {
        let mix = kernel.mix(Mix {
            base_milli: values.get("--op-cpi"),
            reach_ppm: values.get("--op-reach"),
            miss_ppm: values.get("--op-misses"),
            footprint_kib: values.get("--footprint"),
        });
        let heap = kernel.segment();
        let instructions = values.get("--op-instructions");
        // Threads do not all note at the same moment.
        let program = |thread: u64| {
            let first = BATCH - thread % BATCH;
            let map = Action::Map(heap, values.get("--heap") * 1_024);
            let work =
                |operations: u64| [Action::Work(mix, instructions * operations), Action::Done(operations)];
            Program::begin([vec![map], work(first).to_vec()].concat(), work(BATCH).to_vec())
        };
        (0..values.get("-t")).map(program).collect()
    },
};

#[cfg(test)]
mod tests {
    use crate::workloads::Load;
    use crate::workloads::tests::plain;
    use millpond_machine::Clock;
    use millpond_model::Nanos;

    #[test]
    fn operations_cost_their_instructions_and_their_misses() {
        // 1,000 instructions, of which 10 go to memory at 100 ns: 2,000 ns on a machine of a nanosecond each.
        let words = "jbb -t 2 --op-instructions 1000 --op-misses 10 --op-reach 0 --footprint 0";
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let machine = plain();
        let pid = machine.start_load(&Load::parse(&words).unwrap());
        // The first notes come after 20 and 19 operations.
        machine.sleep_until(Nanos(19 * 2_000));
        assert_eq!(machine.view(|s| s.operations(pid)), 19);
        machine.sleep_until(Nanos(20 * 2_000));
        assert_eq!(machine.view(|s| s.operations(pid)), 39);
        machine.sleep_until(Nanos(1_099 * 2_000));
        assert_eq!(machine.view(|s| s.operations(pid)), 1_080 + 1_099);
    }
}
