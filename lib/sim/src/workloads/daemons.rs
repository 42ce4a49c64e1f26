//! What a system does by itself: daemons that wake up at times drawn by lot, and compute for a moment.
//!
//! Jobs that spin for each other feel them more than any other: a thread that is held up for a moment holds up all.

use super::options::{MILLI, Opt, Unit, Workload};
use crate::kernel::{Action, Program};

/// Threads, each of which takes its part.
const THREADS: u64 = 4;
/// Milliseconds between two wake-ups of a thread, one as likely as the other; 20 on average.
const PAUSES_MS: [u64; 8] = [11, 13, 17, 19, 23, 23, 25, 29];
const PAUSE_MS: u64 = 20;

pub(super) const WORKLOAD: Workload = Workload {
    name: "daemons",
    summary: "Four threads that wake up about every 20 ms and compute for a moment, as the daemons of a system do.",
    options: &[
        // Of a system that does nothing else but is watched.
        Opt {
            flag: "--busy",
            value: "X",
            summary: "percent of a CPU that they take together; 5 if not given (assumed)",
            unit: Unit::Milli(1, 100_000),
            default: 5_000,
        },
    ],
    programs: |values, _| {
        let run = values.get("--busy") * PAUSE_MS * MILLI / 100_000 / THREADS;
        let pause = Action::SleepAmong(PAUSES_MS.map(|ms| ms * MILLI).to_vec());
        (0..THREADS).map(|_| Program::repeat(vec![pause.clone(), Action::User(run)])).collect()
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
    fn daemons_take_their_part_of_a_processor() {
        assert_eq!(PAUSES_MS.iter().sum::<u64>(), PAUSE_MS * PAUSES_MS.len() as u64);
        let words: Vec<String> = "daemons --busy 10".split(' ').map(str::to_owned).collect();
        let machine = plain();
        machine.start_load(&Load::parse(&words).unwrap());
        machine.sleep_until(Nanos::from_secs(10));
        let user: u64 = machine.view(|s| s.kernel.cpus().iter().map(|cpu| cpu.user).sum());
        // A tenth of ten seconds, less what the moments themselves take of the time.
        assert!((900_000_000..=1_010_000_000).contains(&user), "{user}");
    }
}
