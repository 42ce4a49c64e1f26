//! System activity: daemons that wake up at random times and compute for a moment.
//!
//! Other threads have used the caches in the meantime, so all of a daemon's accesses go to memory: it executes few instructions,
//! at many cycles each. On a nearly idle CPU, that is what its counters show.
//!
//! Jobs that spin for each other suffer most: a delay of one thread delays all.

use super::options::{Constant, MILLI, Opt, Unit, Workload};
use crate::kernel::{Action, Kernel, Mix, Program};

/// Number of threads; each has an equal part of the work.
const THREADS: u64 = 4;
/// Pauses of a thread between two wake-ups, in twentieths of the mean, equally likely.
const PAUSES: [u64; 8] = [11, 13, 17, 19, 23, 23, 25, 29];
const MEAN: u64 = 20;

/// Memory accesses per million instructions: in a quarter of a millisecond about 1,000 cache lines, or 64 KiB.
const MISS_PPM: u64 = 30_000;

/// Number of a daemon's instructions that take this long, in nanoseconds, with local memory.
fn instructions(kernel: &Kernel, mix: Mix, nanos: u64) -> u64 {
    let h = kernel.hardware();
    let core_fs = h.cycle_fs * mix.base_milli / 1_000 * h.core_milli / 1_000;
    let latency_ps = h.latency_ps.first().and_then(|row| row.first()).copied().unwrap_or(0);
    nanos * 1_000_000 / (core_fs + mix.miss_ppm * latency_ps / 1_000).max(1)
}

pub(super) const WORKLOAD: Workload = Workload {
    name: "daemons",
    summary: "Four threads that wake up now and then and compute for a moment, as the daemons of a system do.",
    options: &[
        // A system that only runs a monitor.
        Opt {
            flag: "--busy",
            value: "X",
            summary: "percent of a CPU that they take together; 5 if not given (assumed)",
            unit: Unit::Milli(1, 100_000),
            default: 5_000,
        },
        Opt {
            flag: "--every",
            value: "MS",
            summary: "milliseconds between two wake-ups of a thread on average; 20 if not given (assumed)",
            unit: Unit::Millis(1, 60_000),
            default: 20 * MILLI,
        },
    ],
    constants: &[
        Constant { name: "threads", values: &[THREADS] },
        Constant { name: "twentieths of the mean between two wake-ups", values: &PAUSES },
        Constant { name: "accesses to memory in a million instructions", values: &[MISS_PPM] },
    ],
    programs: |values, kernel| {
        let every = values.get("--every");
        let run = every * values.get("--busy") / 100_000 / THREADS;
        let mix = Mix { miss_ppm: MISS_PPM, ..Mix::PLAIN };
        let moment = Action::Work(kernel.mix(mix), instructions(kernel, mix, run));
        let pause = Action::SleepAmong(PAUSES.map(|part| every / MEAN * part).to_vec());
        (0..THREADS).map(|_| Program::repeat(vec![pause.clone(), moment.clone()])).collect()
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::Load;
    use crate::workloads::tests::plain;
    use millpond_machine::Clock;
    use millpond_model::Nanos;

    #[test]
    fn daemons_wake_up_as_often_as_is_said() {
        let words: Vec<String> = "daemons --busy 1 --every 100".split(' ').map(str::to_owned).collect();
        let machine = plain();
        machine.start_load(&Load::parse(&words).unwrap());
        machine.sleep_until(Nanos::from_secs(100));
        let switches: u64 = machine.view(|s| {
            s.kernel.cpus().iter().map(|cpu| cpu.events[millpond_model::Column::Csw.index()]).sum()
        });
        // Four threads, ten times a second, for 100 s: two switches each time.
        assert!((7_600..=8_400).contains(&switches), "{switches}");
    }

    #[test]
    fn daemons_take_their_part_of_a_processor() {
        assert_eq!(PAUSES.iter().sum::<u64>(), MEAN * PAUSES.len() as u64);
        let words: Vec<String> = "daemons --busy 10".split(' ').map(str::to_owned).collect();
        let machine = plain();
        machine.start_load(&Load::parse(&words).unwrap());
        machine.sleep_until(Nanos::from_secs(10));
        let user: u64 = machine.view(|s| s.kernel.cpus().iter().map(|cpu| cpu.user).sum());
        // A tenth of ten seconds, less the share of the active moments themselves.
        assert!((900_000_000..=1_010_000_000).contains(&user), "{user}");
        // 1 ns per cycle, and 100 ns of memory for 30 of 1,000 instructions: 4 cycles each.
        let instructions: u64 =
            machine.view(|s| s.kernel.cpus().iter().map(|cpu| cpu.user_instructions).sum());
        assert!(
            (user / instructions, user * 10 / instructions) == (4, 40) || user * 100 / instructions == 399,
            "{user} {instructions}"
        );
    }
}
