//! Loops for counting cycles: one that stays in the core, one with random memory accesses, and an application in between.

use super::options::{Opt, THREADS, Unit, Values, Workload};
use crate::kernel::{Action, Kernel, Mix, Program, Waiting};

const MISSES: Opt = Opt {
    flag: "--misses",
    value: "X",
    summary: "of a thousand instructions how many go to memory; 4.04 if not given (fitted)",
    unit: Unit::Milli(0, 1_000_000),
    // Fitted: e6900, second sample, 2.08 cycles for an instruction.
    default: 4_040,
};

const CPI: Opt = Opt {
    flag: "--cpi",
    value: "X",
    summary: "of a core's own cycles for an instruction how many these take; 1.08 if not given (fitted)",
    unit: Unit::Milli(1, 1_000_000),
    // Fitted: u2i, the busy loop.
    default: 1_080,
};

fn hogs(values: &Values, kernel: &mut Kernel, mix: Mix) -> Vec<Program> {
    let mix = kernel.mix(mix);
    vec![Program::once(vec![Action::Work(mix, u64::MAX)]); values.count("-t")]
}

pub(super) const BUSYLOOP: Workload = Workload {
    name: "busyloop",
    summary: "A loop that stays in the core, without end.",
    options: &[THREADS, CPI],
    constants: &[],
    programs: |values, kernel| {
        let mix = Mix { base_milli: values.get("--cpi"), ..Mix::PLAIN };
        hogs(values, kernel, mix)
    },
};

/// Instructions between two accesses: a step of a random number, a mask, an address, the access, a count and a branch.
const BETWEEN: u64 = 14;

pub(super) const RANDMEM: Workload = Workload {
    name: "randmem",
    summary: "A loop that reads at random places of a large array, without end.",
    options: &[
        THREADS,
        Opt {
            flag: "--array",
            value: "KIB",
            summary: "size of the array; 65536 if not given",
            unit: Unit::Count(1, 1 << 30),
            default: 65_536,
        },
        Opt {
            flag: "--between",
            value: "N",
            summary: "instructions for each read; 14 if not given (assumed)",
            unit: Unit::Count(1, 1_000_000),
            default: BETWEEN,
        },
    ],
    constants: &[],
    programs: |values, kernel| {
        let mix = Mix {
            reach_ppm: 1_000_000 / values.get("--between").max(1),
            footprint_kib: values.get("--array"),
            ..Mix::PLAIN
        };
        hogs(values, kernel, mix)
    },
};

pub(super) const APP: Workload = Workload {
    name: "app",
    summary: "An application that misses its caches now and then, at times more and at times less, all in user mode, without end.",
    options: &[
        THREADS,
        MISSES,
        // Fitted: e6900, the largest of three samples divided by the least.
        Opt {
            flag: "--swing",
            value: "X",
            summary: "percent that more of these go to memory in the second quarter of a phase, and fewer in the last one; 31 if not given (fitted)",
            unit: Unit::Milli(0, 100_000),
            default: 31_000,
        },
        Opt {
            flag: "--phase",
            value: "N",
            summary: "millions of instructions of a phase, of each thread; 34000 if not given (assumed: a minute on e6900, twice as long as a sample)",
            unit: Unit::Count(1, 1_000_000_000),
            default: 34_000,
        },
        Opt {
            flag: "--heap",
            value: "MIB",
            summary: "size of the shared segment that it uses; 16384 if not given",
            unit: Unit::Count(1, 1 << 24),
            default: 16_384,
        },
    ],
    constants: &[],
    programs: |values, kernel| {
        let threads = values.get("-t").max(1);
        let all = kernel.barrier(u32::try_from(threads).unwrap_or(u32::MAX));
        let swing = values.get("--misses") * values.get("--swing") / 100_000;
        let mut quarter = |miss_ppm| {
            let mix = kernel.mix(Mix { miss_ppm, ..Mix::PLAIN });
            // A quarter of the period ends when all threads have finished it.
            [Action::Work(mix, values.get("--phase") * 1_000_000 / 4), Action::Meet(all, Waiting::Block)]
        };
        let misses = values.get("--misses");
        let phase = [misses, misses + swing, misses, misses - swing].map(&mut quarter).concat();
        let heap = kernel.segment();
        let map = Action::Map(heap, values.get("--heap") * 1_024);
        vec![Program::begin(vec![map], phase); values.count("-t")]
    },
};

#[cfg(test)]
mod tests {
    use crate::SimMachine;
    use crate::workloads::Load;
    use millpond_machine::Clock;
    use millpond_model::Nanos;

    /// Thousandths of a cycle per instruction of the first CPU, over a second.
    fn cpi(machine: &str, words: &str) -> u64 {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let machine = SimMachine::named(machine).unwrap();
        machine.start_load(&Load::parse(&words).unwrap());
        machine.sleep_until(Nanos::from_secs(1));
        machine.view(|s| {
            let cycles = 1_000_000_000_000_000 / s.kernel.hardware().cycle_fs;
            cycles * 1_000 / s.kernel.cpus()[crate::kernel::CpuIndex(0)].instructions
        })
    }

    #[test]
    fn cycles_for_an_instruction_are_as_the_mix_and_the_machine_say() {
        assert_eq!(cpi("u2i", "busyloop --cpi 1.5") / 10, 150);
        // One read in 10 instructions; 256 of 1,024 KiB fit: 1 + 0.1 x 9 + 0.1 x 0.75 x 68.4 (190 ns at 360 MHz) = 7.03.
        assert_eq!(cpi("u2i", "randmem --array 1024 --between 10") / 10, 703);
    }

    #[test]
    fn phases_of_an_application_miss_more_and_less_in_turn() {
        // 190 ns at 360 MHz are 68.4 cycles, and 10 of 1,000 instructions wait for them: 1 + 0.01 x 68.4. In the second quarter half
        // as many more do: 1 + 0.015 x 68.4. A second is 360 million cycles.
        let words = |phase| format!("app --misses 10 --swing 50 --phase {phase}");
        assert_eq!(cpi("u2i", &words(4_000)) / 10, 168);
        // 100 million take 168.4 million cycles; the rest take 2.026 each: 360 of 194.6.
        assert_eq!(cpi("u2i", &words(400)) / 10, 185);
        // A second contains equal parts of all quarters.
        assert_eq!(cpi("u2i", &words(1)) / 10, 168);
    }
}
