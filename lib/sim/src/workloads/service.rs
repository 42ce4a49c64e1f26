//! A service: requests arrive at random, and threads answer them.
//!
//! # What is modelled
//!
//! Requests arrive from outside, independent of the number already waiting (an open system). Interarrival times are random and
//! nearly exponential: 32 equally likely values. All requests need the same CPU time. Threads take them in order of arrival. The
//! response time is the time from arrival to answer; each thread's log has it as stage 1.

use super::options::{Constant, MILLI, Opt, Unit, Workload};
use crate::kernel::{Action, Program};

/// Thousandths of the mean: the medians of 32 equal parts of an exponential distribution, scaled to a mean of one.
const GAPS: [u64; 32] = [
    16, 49, 82, 117, 153, 191, 230, 270, 312, 356, 402, 450, 501, 554, 610, 670, 733, 800, 872, 950, 1_035,
    1_127, 1_228, 1_340, 1_467, 1_611, 1_780, 1_983, 2_237, 2_577, 3_094, 4_203,
];

pub(super) const WORKLOAD: Workload = Workload {
    name: "service",
    summary: "Threads that answer requests, which arrive at random; logs have the response times.",
    options: &[
        Opt {
            flag: "-t",
            value: "N",
            summary: "threads that answer; 8 if not given",
            unit: Unit::Count(1, 4096),
            default: 8,
        },
        Opt {
            flag: "--rate",
            value: "N",
            summary: "requests in a second, on average; 1000 if not given",
            unit: Unit::Count(1, 1_000_000),
            default: 1_000,
        },
        Opt {
            flag: "--work",
            value: "MS",
            summary: "milliseconds of CPU time of each request; 2 if not given",
            unit: Unit::Millis(0, 86_400_000),
            default: 2 * MILLI,
        },
    ],
    constants: &[Constant {
        name: "thousandths of the mean between two requests, one as likely as the other",
        values: &GAPS,
    }],
    programs: |values, kernel| {
        let (arrived, ring) = (kernel.log(), kernel.channel());
        let mean = 1_000 * MILLI / values.get("--rate").max(1);
        let gaps = GAPS.map(|thousandths| (mean * thousandths / 1_000).max(1)).to_vec();
        kernel.device(Program::repeat(vec![
            Action::SleepAmong(gaps),
            Action::Arrive(arrived),
            Action::Post(ring),
        ]));
        let mut thread = || {
            let own = kernel.log();
            Program::repeat(vec![
                Action::Wait(ring),
                Action::Take(arrived, own),
                Action::User(values.get("--work")),
                Action::Stamp(own, 1),
                Action::Done(1),
            ])
        };
        (0..values.get("-t")).map(|_| thread()).collect()
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

    /// Response times over ten seconds; their total is the number of answered requests.
    fn times(options: &str) -> BTreeMap<u64, u64> {
        let words: Vec<String> = format!("service {options}").split_whitespace().map(str::to_owned).collect();
        let machine = plain();
        machine.start_load(&Load::parse(&words).unwrap());
        machine.sleep_until(Nanos::from_secs(10));
        let mut all = BTreeMap::new();
        machine.view(|s| {
            for (time, count) in s.kernel.logs().iter().flat_map(|log| &log.stages).flatten() {
                *all.entry(*time).or_default() += count;
            }
        });
        all
    }

    #[test]
    fn gaps_have_the_mean_that_is_asked_for() {
        assert_eq!(GAPS.iter().sum::<u64>(), 32_000);
        assert!(GAPS.is_sorted());
    }

    #[test]
    fn with_threads_enough_every_request_takes_its_work() {
        let times = times("-t 32 --rate 1000 --work 2");
        assert_eq!(times.keys().copied().collect::<Vec<_>>(), [2 * MILLI]);
        let answered: u64 = times.values().sum();
        assert!((9_600..10_400).contains(&answered), "{answered}");
    }

    #[test]
    fn with_one_thread_requests_wait_for_each_other() {
        // Utilization is one half: for a queue with fixed work the mean time is 1 + 0.5 / (2 x 0.5) = 1.5 times the work.
        let times = times("-t 1 --rate 250 --work 2");
        let answered: u64 = times.values().sum();
        let mean = times.iter().map(|(time, count)| time * count).sum::<u64>() / answered;
        assert!((2_700_000..3_300_000).contains(&mean), "{mean}");
    }
}
