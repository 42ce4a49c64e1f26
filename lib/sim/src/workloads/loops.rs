//! Loops for counting cycles: one that stays in the core, one that is all over memory, and an application between.

use super::options::{Opt, THREADS, Unit, Values, Workload};
use crate::kernel::{Action, Kernel, Mix, Program};

const MISSES: Opt = Opt {
    flag: "--misses",
    value: "X",
    summary: "of a thousand instructions how many go to memory; 3.9 if not given (fitted)",
    unit: Unit::Milli(0, 1_000_000),
    // Fitted: e6900, second sample, 2.08 cycles for an instruction.
    default: 3_900,
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
    programs: |values, kernel| {
        let mix = Mix {
            base_milli: values.get("--cpi"),
            reach_ppm: 0,
            miss_ppm: 0,
            footprint_kib: 0,
            float_ppm: 0,
        };
        hogs(values, kernel, mix)
    },
};

/// Of the instructions between two accesses: a step of a random number, a mask, an address, the access, a count and a branch.
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
            summary: "instructions for each read; 14 if not given",
            unit: Unit::Count(1, 1_000_000),
            default: BETWEEN,
        },
    ],
    programs: |values, kernel| {
        let mix = Mix {
            base_milli: 1_000,
            reach_ppm: 1_000_000 / values.get("--between").max(1),
            miss_ppm: 0,
            footprint_kib: values.get("--array"),
            float_ppm: 0,
        };
        hogs(values, kernel, mix)
    },
};

pub(super) const APP: Workload = Workload {
    name: "app",
    summary: "An application that misses its caches now and then, all in user mode, without end.",
    options: &[
        THREADS,
        MISSES,
        Opt {
            flag: "--heap",
            value: "MIB",
            summary: "size of the shared segment that it uses; 16384 if not given",
            unit: Unit::Count(1, 1 << 24),
            default: 16_384,
        },
    ],
    programs: |values, kernel| {
        let mix = kernel.mix(Mix {
            base_milli: 1_000,
            reach_ppm: 0,
            miss_ppm: values.get("--misses"),
            footprint_kib: 0,
            float_ppm: 0,
        });
        let heap = kernel.segment();
        let map = Action::Map(heap, values.get("--heap") * 1_024);
        vec![Program::once(vec![map, Action::Work(mix, u64::MAX)]); values.count("-t")]
    },
};

#[cfg(test)]
mod tests {
    use crate::SimMachine;
    use crate::workloads::Load;
    use millpond_machine::Clock;
    use millpond_model::Nanos;

    /// Thousandths of a cycle for an instruction of the first CPU, over a second.
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
        // One read in 10 instructions; of 1,024 KiB 256 fit: 1 + 0.1 x 9 + 0.1 x 0.75 x 68.4 (190 ns of 360 MHz) = 7.03.
        assert_eq!(cpi("u2i", "randmem --array 1024 --between 10") / 10, 703);
    }
}
