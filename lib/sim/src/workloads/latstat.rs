//! Timer wake-up latency, by stage, as latstat measures it.
//!
//! ```text
//!   timer due ─▶ interrupt of level 14 ─▶ soft interrupt of level 6 ─▶ the program leaves its ioctl ─▶ user mode
//!   stage 0         stage 1                  stage 2                      stage 3                      stage 4
//! ```
//!
//! The timer interrupts the CPU where the program waits. Its interval is one of 24 primes near a millisecond, drawn at random.
//! The program runs in the class and on the CPUs that it is given; `priocntl` and `psrset` make it a real-time one.
//!
//! # Sources of delay
//!
//! A thread that frees kernel memory sends a cross call to all CPUs, including those of sets without interrupts, to invalidate
//! an address. Such a call arrives at random and at an even higher level. It occupies its CPU until every other CPU has
//! answered. The time until the others answer is memoryless, so lengths are exponential. Most calls take a microsecond or two;
//! of N calls that delay a sample by more than x, the worst delays it by about `x + mean (ln N + 0.577)`. Such calls are rare.
//! To see them in a run of reasonable length, the model makes them `--boost` times as frequent, and gives a sample that
//! one delayed a correspondingly smaller weight.
//!
//! Each CPU also has one interrupt per second of its own, even in a set without interrupts: it checks that the clock still
//! ticks. A sample that coincides with it is delayed by at most its length.
//!
//! An exponential time is drawn digit by digit. Its binary digits are independent; the digit of weight w is 1 with probability
//! `1 / (1 + e^(w / mean))`.

use super::options::{Constant, Opt, Unit, Workload};
use crate::kernel::CpuIndex;
use crate::kernel::{Action, Mix, Origin, Program};

/// The primes around 1,000, twelve on each side: microseconds between two timers.
pub const INTERVALS_US: [u64; 24] = [
    919, 929, 937, 941, 947, 953, 967, 971, 977, 983, 991, 997, 1_009, 1_013, 1_019, 1_021, 1_031, 1_033,
    1_039, 1_049, 1_051, 1_061, 1_063, 1_069,
];

/// Weights of the digits of a call's length, in eighths of a microsecond: up to 32 us.
const WEIGHTS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// Lots per digit. The largest usual digit is 1 in one of them.
const LOTS: u32 = 400;

/// The work of a call with this mean length, in thousandths of a microsecond: a list of lots for each digit.
fn call_of(mean: u64) -> Vec<Action> {
    let mean_us = u32::try_from(mean).map_or(f64::MAX, f64::from) / 1e3;
    let digit = |eighths: u32| {
        let weight = u64::from(eighths) * MICRO / 8;
        let ones = f64::from(LOTS) / (1.0 + (f64::from(eighths) / 8.0 / mean_us).exp());
        Action::KernelAmong(
            (0..LOTS).map(|lot| if f64::from(lot) + 0.5 < ones { weight } else { 0 }).collect(),
        )
    };
    WEIGHTS.into_iter().rev().map(digit).collect()
}

/// Memory accesses of a stage.
const REACH_PPM: u64 = 20_000;
const FOOTPRINT_KIB: u64 = 32;

/// Nanoseconds per microsecond.
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
            summary: "calls to all CPUs in a thousand seconds; 6300 if not given (fitted)",
            unit: Unit::Count(0, 1_000_000),
            default: 6_300,
        },
        // Fitted: the worst of 320 million samples took 30 us.
        Opt {
            flag: "--call-us",
            value: "X",
            summary: "microseconds that one of them takes on average; 2.7 if not given (fitted)",
            unit: Unit::Milli(100, 1_000_000),
            default: 2_700,
        },
        Opt {
            flag: "--look-us",
            value: "X",
            summary: "microseconds of the interrupt, once a second, by which a CPU looks whether the clock still ticks; 1.5 if not given (assumed)",
            unit: Unit::Milli(0, 1_000_000),
            default: 1_500,
        },
        Opt {
            flag: "--boost",
            value: "N",
            summary: "how many times as often they are made; 1 if not given",
            unit: Unit::Count(1, 10_000),
            default: 1,
        },
    ],
    constants: &[
        Constant { name: "accesses beyond the first cache in a million instructions", values: &[REACH_PPM] },
        Constant { name: "KiB in the outer cache", values: &[FOOTPRINT_KIB] },
        Constant {
            name: "parts of which the digits of a call's length are drawn: no call is longer than all digits, 31.9 us",
            values: &[LOTS as u64],
        },
    ],
    programs: |values, kernel| {
        let mix = kernel.mix(Mix { reach_ppm: REACH_PPM, footprint_kib: FOOTPRINT_KIB, ..Mix::PLAIN });
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
            // Random, between 0.5 and 1.5 times the mean.
            let mean = 1_000 * 1_000_000_000 / (values.get("--calls") * values.get("--boost")).max(1);
            let pauses = (0..64).map(|n| mean / 2 + mean * n / 64).collect();
            kernel.device(Program::repeat(vec![Action::SleepAmong(pauses), Action::Post(call)]));
            kernel.handler(15, Origin::Timer(ring), CpuIndex(0), call, call_of(values.get("--call-us")));
        }
        if values.get("--look-us") > 0 {
            let look = kernel.channel();
            let second = 1_000_000_000 / values.get("--boost").max(1);
            kernel.device(Program::repeat(vec![Action::Sleep(second), Action::Post(look)]));
            let work = vec![Action::Kernel(values.get("--look-us"))];
            kernel.handler(15, Origin::Look(ring), CpuIndex(0), look, work);
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
        // One untimed pass through the code.
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

    /// A sample is one system call and two switches: from the idle thread to the program, and back. The work of the interrupt handlers is neither.
    #[test]
    fn a_sample_is_a_call_and_two_switches() {
        let words: Vec<String> = ["latstat", "--calls", "0", "--look-us", "0"].map(str::to_owned).to_vec();
        let machine = plain();
        let pid = machine.start_load(&Load::parse(&words).unwrap());
        machine.sleep_until(Nanos::from_secs(2));
        machine.view(|s| {
            let samples = s.operations(pid);
            let count = |column: millpond_model::Column| {
                s.kernel.cpus().iter().map(|cpu| cpu.events[column.index()]).sum::<u64>()
            };
            assert!(samples > 1_800);
            // The first round is untimed; the last one may be unfinished.
            let calls = count(millpond_model::Column::Syscl);
            assert!((samples + 1..=samples + 2).contains(&calls), "{calls} {samples}");
            let switches = count(millpond_model::Column::Csw);
            assert!((2 * samples..=2 * samples + 5).contains(&switches), "{switches} {samples}");
        });
    }

    #[test]
    fn there_are_24_primes_around_1000() {
        let is_prime = |n: u64| (2..n).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d));
        assert!(INTERVALS_US.iter().all(|us| is_prime(*us)) && INTERVALS_US.is_sorted());
        assert_eq!((919..=1_069).filter(|n| is_prime(*n)).count(), 24);
    }

    #[test]
    fn a_program_that_nothing_disturbs_is_always_as_fast() {
        // Four stages of 1,000 instructions of 1 ns. One instruction in 50 misses: 20 cycles for the outer cache, which does not exist,
        // and 100 for memory: 1 + 0.4 + 2.
        let stages = last_stage("--calls 0 --look-us 0");
        assert_eq!(stages.len(), 1, "{stages:?}");
        let (time, samples) = stages.first_key_value().unwrap();
        assert_eq!(*time, 13_600);
        // About a thousand per second.
        assert!((1_900..=2_200).contains(samples), "{stages:?}");
    }

    #[test]
    fn calls_delay_a_few_samples_and_few_of_these_by_much() {
        let undisturbed = *last_stage("--calls 0 --look-us 0").first_key_value().unwrap().0;
        let stages = last_stage("--look-us 0 --calls 1000000 --boost 10 --call-us 5");
        let late = |by: u64| stages.range(undisturbed + by..).map(|(_, samples)| samples).sum::<u64>();
        // 10,000 calls per second. A call meets the sample if it begins within 13.6 us of the timer, or still lasts then, 5 us on
        // average: 18.6 us of 100. Of all samples 1 - e^-0.186, or 17 %.
        let all: u64 = stages.values().sum();
        assert!((13..22).contains(&(late(1) * 100 / all)), "{} of {all}", late(1));
        // The rest of an exponential time is as long as the whole: e^-2, or 14 %, of these samples are late by twice the mean, and a
        // few more meet two calls.
        assert!((9..22).contains(&(late(10_000) * 100 / late(1))), "{} of {}", late(10_000), late(1));
    }

    #[test]
    fn the_look_at_the_clock_delays_what_it_meets() {
        let stages = last_stage("--calls 0 --look-us 5 --boost 10000");
        // Every 100 us for 5 us. A check meets the sample if it begins within 13.6 us of the timer or still lasts then: 18.6 of 100.
        let all: u64 = stages.values().sum();
        let late: u64 = stages.range(13_601..).map(|(_, samples)| samples).sum();
        assert!((15..22).contains(&(late * 100 / all)), "{late} of {all}");
        // No sample is late by more than the whole check.
        assert_eq!(*stages.last_key_value().unwrap().0, 18_600, "{stages:?}");
    }

    #[test]
    fn digits_make_exponential_times() {
        let digits: Vec<Vec<u64>> = call_of(2_700)
            .into_iter()
            .map(|action| match action {
                Action::KernelAmong(lots) => lots,
                other => panic!("{other:?}"),
            })
            .collect();
        let ones = |digit: &[u64]| digit.iter().filter(|lot| **lot > 0).count();
        // 16, 8, 4, 2 and 1 us: of 400 lots 400 / (1 + e^(w / 2.7)) = 1.06, 19.6, 74.1, 129.2 and 163.3.
        assert_eq!(digits.iter().map(|digit| ones(digit)).take(5).collect::<Vec<_>>(), [1, 20, 74, 129, 163]);
        // The mean of an exponential time in eighths, truncated: 2.7 us less half an eighth.
        let mean: f64 = digits
            .iter()
            .map(|lots| lots.iter().sum::<u64>())
            .map(|sum| f64::from(u32::try_from(sum).unwrap()) / 400.0)
            .sum();
        assert!((mean - 2_637.5).abs() < 30.0, "{mean}");
    }
}
