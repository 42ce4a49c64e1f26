//! Measures the basic costs of this machine: a switch, a message, a wake-up, a cache line that another CPU wrote, a
//! scheduler slice.
//!
//! # Method
//!
//! Each figure is the median of rounds of equal length, with the quartiles: other programs make a round
//! longer, and the median tolerates up to half of such rounds. Differences are computed from medians.
//!
//! ```text
//!   message   one thread writes 100 bytes to a socket and reads them back: half of that
//!   queued    the same with several messages in each of two hundred sockets, all written and then all read, for several numbers
//!   holds     number of messages in a socket before a writer waits
//!   ends      ten groups of hackbench pass one message from each sender to each receiver, and end
//!   timer     one thread sleeps until a time one millisecond ahead: its lateness
//!   switch    two threads on one CPU answer each other: half of a round, less two messages
//!   space     the same with two processes: half of a round, less half of one of two threads
//!   wake-up   two threads on two CPUs answer each other: half of a round, less two messages and a switch
//!   transfer  two threads on two CPUs alternately write a word, spinning: half of a round
//!   chase     one thread follows pointers through cache lines in random order: time per line, for several sizes
//!   turn      two threads spin on one CPU: how long one runs until the other does
//! ```
//!
//! # Effects on the machine
//!
//! Its threads bind themselves to the given CPUs, and have ended when it returns. It takes about six seconds.

mod rounds;

use crate::Error;
use schemars::JsonSchema;
use serde::Serialize;

pub use rounds::{Figure, Queued};

/// The measurements.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Probe {
    /// A message of 100 bytes, written or read, in nanoseconds.
    pub message_ns: Figure,
    /// The same while many messages wait, for several numbers, ascending.
    pub queued: Vec<Queued>,
    /// Messages of 100 bytes that a socket holds.
    pub socket_holds: u32,
    /// [`PROCESSES`] processes of hackbench, in which each sender sends one message to each receiver of its group, from their start until
    /// all have ended: nanoseconds.
    pub processes_ns: Figure,
    /// Lateness of a thread that sleeps until a time while its CPU idles, in nanoseconds.
    pub timer_ns: Figure,
    /// One exchange of two threads on one CPU: nanoseconds.
    pub switch_round_ns: Figure,
    /// One exchange of two processes on one CPU: nanoseconds.
    pub process_round_ns: Figure,
    /// One exchange of two threads on two CPUs, which sleep meanwhile: nanoseconds.
    pub wake_round_ns: Figure,
    /// Time until a CPU sees another one's write, in nanoseconds.
    pub transfer_ns: Figure,
    /// Latency of a line in [`NEAR_KIB`] KiB, in nanoseconds.
    pub near_ns: Figure,
    /// Latency of a line in [`FAR_KIB`] KiB, in nanoseconds.
    pub far_ns: Figure,
    /// The largest of [`SIZES_KIB`] whose lines are nearly as fast as those of [`NEAR_KIB`]: the measured cache size, independent of the
    /// size that the kernel reports.
    pub holds_kib: usize,
    /// Time slice of a thread that competes with another one, in nanoseconds; `None` if it was preempted too rarely.
    pub turn_ns: Option<Figure>,
    /// A tick of the kernel's clock, in nanoseconds: the resolution of its coarse clock.
    pub tick_ns: u64,
}

/// More than first-level caches hold, and less than most second-level ones.
pub const NEAR_KIB: usize = 192;
/// More than a CPU's own caches hold.
pub const FAR_KIB: usize = 64 * 1_024;
/// Number of processes of ten groups of hackbench.
pub const PROCESSES: u32 = 400;
/// Candidate sizes of a cache.
pub const SIZES_KIB: [usize; 7] = [256, 512, 1_024, 2_048, 4_096, 8_192, 16_384];

impl Probe {
    /// A switch from one thread to another, in nanoseconds: at least 0.
    #[must_use]
    pub fn switch_ns(&self) -> f64 {
        (self.switch_round_ns.median / 2.0 - 2.0 * self.message_ns.median).max(0.0)
    }

    /// The additional time of a switch between processes, compared with two threads of one, in nanoseconds: at least 0.
    #[must_use]
    pub fn space_switch_ns(&self) -> f64 {
        ((self.process_round_ns.median - self.switch_round_ns.median) / 2.0).max(0.0)
    }

    /// The time of an idle CPU to begin with a thread, in addition to a switch, in nanoseconds: at least 0.
    #[must_use]
    pub fn idle_exit_ns(&self) -> f64 {
        (self.wake_round_ns.median / 2.0 - 2.0 * self.message_ns.median - self.switch_ns()).max(0.0)
    }

    /// How much later a timer wakes an idle CPU than another CPU does, in nanoseconds: at least 0.
    #[must_use]
    pub fn interrupt_ns(&self) -> f64 {
        (self.timer_ns.median - self.idle_exit_ns() - self.switch_ns()).max(0.0)
    }

    /// The time of a message with this average number of unread messages, in nanoseconds: interpolated between the two nearest measured numbers.
    /// While all are written and then all are read, half of them are unread on average.
    #[must_use]
    pub fn message_among(&self, waiting: f64) -> f64 {
        let known = self.queued.iter().map(|q| (f64::from(q.messages) / 2.0, q.ns.median));
        let all: Vec<(f64, f64)> = std::iter::once((0.0, self.message_ns.median)).chain(known).collect();
        let between = all.iter().zip(all.iter().skip(1)).find(|(_, (above, _))| waiting < *above);
        match between {
            Some(((x, low), (above, high))) => low + (high - low) * (waiting - x) / (above - x),
            None => all.last().map_or(0.0, |(_, most)| *most),
        }
    }
}

/// Measures on these two CPUs.
///
/// # Errors
/// [`Error`] when a thread cannot be started or bound, or a socket cannot be created.
pub fn run(first: u32, second: u32) -> Result<Probe, Error> {
    let (near_ns, far_ns) = (rounds::chase(first, NEAR_KIB)?, rounds::chase(first, FAR_KIB)?);
    let line = |kib| Ok((kib, rounds::chase(first, kib)?.median));
    let sizes = SIZES_KIB.into_iter().map(line).collect::<Result<Vec<_>, Error>>()?;
    Ok(Probe {
        holds_kib: holds(near_ns.median, far_ns.median, &sizes),
        message_ns: rounds::message(first)?,
        queued: rounds::queued(first)?,
        socket_holds: rounds::holds(first)?,
        processes_ns: rounds::processes(first)?,
        timer_ns: rounds::timer(first)?,
        switch_round_ns: rounds::answers(first, first)?,
        process_round_ns: rounds::process_answers(first)?,
        wake_round_ns: rounds::answers(first, second)?,
        transfer_ns: rounds::transfer(first, second)?,
        near_ns,
        far_ns,
        turn_ns: rounds::turns(first)?,
        tick_ns: rounds::tick(),
    })
}

/// The largest of these sizes up to which a line takes less than the geometric mean of near and far.
fn holds(near: f64, far: f64, sizes: &[(usize, f64)]) -> usize {
    let half = (near * far).sqrt();
    sizes.iter().take_while(|(_, ns)| *ns < half).map(|(kib, _)| *kib).last().unwrap_or(NEAR_KIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_holds_what_comes_faster_than_half_the_way() {
        // The geometric mean of 4 and 100 is 20.
        let sizes = [(256, 4.0), (512, 5.0), (1_024, 19.0), (2_048, 21.0), (4_096, 19.0)];
        assert_eq!(holds(4.0, 100.0, &sizes), 1_024);
        assert_eq!(holds(4.0, 100.0, &[(256, 60.0)]), NEAR_KIB);
    }

    fn figure(median: f64) -> Figure {
        Figure { median, low: median, high: median, rounds: 1 }
    }

    #[test]
    fn a_switch_and_a_wake_up_are_what_messages_leave() {
        let probe = Probe {
            message_ns: figure(500.0),
            queued: vec![
                Queued { messages: 20_000, ns: figure(900.0) },
                Queued { messages: 40_000, ns: figure(1_300.0) },
            ],
            socket_holds: 278,
            processes_ns: figure(30e6),
            timer_ns: figure(30_000.0),
            switch_round_ns: figure(5_000.0),
            process_round_ns: figure(5_400.0),
            wake_round_ns: figure(15_000.0),
            transfer_ns: figure(60.0),
            near_ns: figure(4.0),
            far_ns: figure(90.0),
            holds_kib: 2_048,
            turn_ns: None,
            tick_ns: 4_000_000,
        };
        // Half a round is 2,500, of which two messages are 1,000; half of the other 7,500, less 1,000 and the switch.
        assert_eq!((probe.switch_ns(), probe.idle_exit_ns()), (1_500.0, 5_000.0));
        // 5,400 instead of 5,000 for two switches.
        assert_eq!(probe.space_switch_ns(), 200.0);
        // 30 us late, less 5,000 and 1,500.
        assert_eq!(probe.interrupt_ns(), 23_500.0);
        // 20,000 are 10,000 on average; then half of the difference from 0 to there, and half of that to 20,000.
        assert_eq!(
            [0.0, 5_000.0, 10_000.0, 15_000.0, 1e9].map(|n| probe.message_among(n)),
            [500.0, 700.0, 900.0, 1_100.0, 1_300.0]
        );
        let quick = Probe { switch_round_ns: figure(1_000.0), wake_round_ns: figure(1_000.0), ..probe };
        assert_eq!((quick.switch_ns(), quick.idle_exit_ns()), (0.0, 0.0));
    }

    #[test]
    fn a_machine_answers() {
        let cpus = crate::allowed_cpus().unwrap();
        let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
        let probe = run(first, last).unwrap();
        let all = [
            probe.message_ns,
            probe.processes_ns,
            probe.timer_ns,
            probe.switch_round_ns,
            probe.process_round_ns,
            probe.wake_round_ns,
            probe.transfer_ns,
            probe.near_ns,
            probe.far_ns,
        ];
        assert!(all.iter().all(|f| f.median > 0.0 && f.low <= f.median && f.median <= f.high), "{probe:?}");
        assert!(probe.tick_ns > 0 && probe.socket_holds > 0);
        assert!(probe.queued.iter().all(|q| q.messages > 0 && q.ns.median > 0.0), "{probe:?}");
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_told() {
        let error = run(1_000_000, 0).unwrap_err();
        assert_eq!(error.to_string(), "cannot bind a thread to CPU 1000000");
    }
}
