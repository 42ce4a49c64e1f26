//! Timer wake-up latency, by stage (reference §6.1).
//!
//! ```text
//!   timer due ─▶ interrupt of level 14 ─▶ soft interrupt of level 6 ─▶ the program leaves its ioctl ─▶ user mode
//!   stage 0         stage 1                  stage 2                      stage 3                      stage 4
//! ```
//!
//! The timer interrupts the CPU where the program waits, at one of 24 prime intervals near a millisecond, drawn by lot. The
//! program takes what class and processors it is given: `priocntl` and `psrset` make it a real-time one.
//!
//! # What comes between
//!
//! A thread that gives kernel memory back calls all CPUs, also those of sets without interrupts, to forget an address. Such a call
//! comes at an even higher level, at random, and holds its CPU until every other one has answered: from one to so many
//! microseconds, one as likely as the other. They are rare: to be seen at all in a run of reasonable length they are made so
//! many times as often, and a sample that one delayed weighs as much less (`--boost`).

use super::options::{Opt, Unit, Workload};
use crate::kernel::CpuIndex;
use crate::kernel::{Action, Mix, Origin, Program};

/// The primes around 1,000, twelve on each side: microseconds between two timers.
pub const INTERVALS_US: [u64; 24] = [
    919, 929, 937, 941, 947, 953, 967, 971, 977, 983, 991, 997, 1_009, 1_013, 1_019, 1_021, 1_031, 1_033,
    1_039, 1_049, 1_051, 1_061, 1_063, 1_069,
];

/// Nanoseconds of a microsecond.
const MICRO: u64 = 1_000;

pub(super) const WORKLOAD: Workload = Workload {
    name: "latstat",
    summary: "A program that a timer wakes about every millisecond by way of two interrupts, and notes how long each stage takes.",
    options: &[
        Opt {
            flag: "--instructions",
            value: "N",
            summary: "instructions of each of the four stages; 2000 if not given (assumed)",
            unit: Unit::Count(1, 1_000_000),
            default: 2_000,
        },
        // Fitted: 300 of 320 million samples took 13 to 30 us.
        Opt {
            flag: "--calls",
            value: "N",
            summary: "calls to all CPUs in a thousand seconds; 120 if not given (fitted)",
            unit: Unit::Count(0, 1_000_000),
            default: 120,
        },
        Opt {
            flag: "--call-us",
            value: "N",
            summary: "microseconds that the longest of them takes; 27 if not given (assumed: as long as the longest sample)",
            unit: Unit::Count(1, 1_000),
            default: 27,
        },
        Opt {
            flag: "--boost",
            value: "N",
            summary: "how many times as often they are made; 1 if not given",
            unit: Unit::Count(1, 10_000),
            default: 1,
        },
    ],
    programs: |values, kernel| {
        let mix = kernel.mix(Mix {
            base_milli: 1_000,
            reach_ppm: 20_000,
            miss_ppm: 0,
            footprint_kib: 32,
            float_ppm: 0,
        });
        let stage = Action::KernelWork(mix, values.get("--instructions"));
        let log = kernel.log();
        let [arm, timer, soft, ring, call] = [(); 5].map(|()| kernel.channel());
        let intervals = INTERVALS_US.map(|us| us * MICRO).to_vec();
        let wait = vec![
            Action::Wait(arm),
            Action::SleepAmong(intervals),
            Action::Stamp(log, 0),
            Action::Post(timer),
        ];
        kernel.device(Program::repeat(wait));
        let high = vec![stage.clone(), Action::Stamp(log, 1), Action::Post(soft)];
        kernel.handler(14, Origin::Timer(ring), CpuIndex(0), timer, high);
        let low = vec![stage.clone(), Action::Stamp(log, 2), Action::Post(ring)];
        kernel.handler(6, Origin::Timer(ring), CpuIndex(0), soft, low);
        if values.get("--calls") > 0 {
            // At lot between half and one and a half times the mean.
            let mean = 1_000 * 1_000_000_000 / (values.get("--calls") * values.get("--boost")).max(1);
            let pauses = (0..64).map(|n| mean / 2 + mean * n / 64).collect();
            kernel.device(Program::repeat(vec![Action::SleepAmong(pauses), Action::Post(call)]));
            let lengths = (1..=values.get("--call-us")).map(|us| us * MICRO).collect();
            kernel.handler(15, Origin::Timer(ring), CpuIndex(0), call, vec![Action::KernelAmong(lengths)]);
        }
        let program = vec![
            Action::Post(arm),
            Action::Wait(ring),
            stage,
            Action::Stamp(log, 3),
            Action::Work(mix, values.get("--instructions")),
            Action::Stamp(log, 4),
            Action::Done(1),
        ];
        // Once through the code untimed.
        let unseen = program.iter().filter(|action| !matches!(action, Action::Stamp(..) | Action::Done(_)));
        vec![Program::begin(unseen.cloned().collect(), program.clone())]
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::Load;
    use crate::workloads::tests::plain;
    use millpond_machine::Clock;
    use millpond_model::Nanos;
    use std::collections::BTreeMap;

    fn last_stage(options: &str) -> BTreeMap<u64, u64> {
        let text = format!("latstat --instructions 1000 {options}");
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let machine = plain();
        machine.start_load(&Load::parse(&words).unwrap());
        machine.sleep_until(Nanos::from_secs(2));
        machine.view(|s| s.kernel.logs()[0].stages[3].clone())
    }

    #[test]
    fn there_are_24_primes_around_1000() {
        let is_prime = |n: u64| (2..n).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d));
        assert!(INTERVALS_US.iter().all(|us| is_prime(*us)) && INTERVALS_US.is_sorted());
        assert_eq!((919..=1_069).filter(|n| is_prime(*n)).count(), 24);
    }

    #[test]
    fn a_program_that_nothing_disturbs_is_always_as_fast() {
        // Four stages of 1,000 instructions of a nanosecond; a fiftieth looks into an outer cache that is none, 20 cycles each, and
        // goes to memory, 100: 1 + 0.4 + 2.
        let stages = last_stage("--calls 0");
        assert_eq!(stages.len(), 1, "{stages:?}");
        let (time, samples) = stages.first_key_value().unwrap();
        assert_eq!(*time, 13_600);
        // About a thousand a second.
        assert!((1_900..=2_200).contains(samples), "{stages:?}");
    }

    #[test]
    fn calls_delay_a_few_samples_by_as_much_as_they_take() {
        let undisturbed = *last_stage("--calls 0").first_key_value().unwrap().0;
        let stages = last_stage("--calls 1000000 --boost 10 --call-us 25");
        let late: u64 = stages.range(undisturbed + 1..).map(|(_, samples)| samples).sum();
        let (most, _) = stages.last_key_value().unwrap();
        assert!(late > 0 && *most <= undisturbed + 25_000, "{stages:?}");
        // 10,000 calls a second of 13 us on average meet an eighth of all timers, and more that begin within the stages.
        let all: u64 = stages.values().sum();
        assert!((10..40).contains(&(late * 100 / all)), "{late} of {all}");
    }
}
