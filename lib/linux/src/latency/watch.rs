//! The probe with timers of its own as its parent sees it.

use super::child::Timers;
use super::process::Process;
use super::shared::{BUFFER, SAMPLE_WORDS};
use super::words;
use crate::LinuxMachine;
use millpond_bpf::latency::Stamping;
use millpond_machine::facets::{LatencyWatch, Measured, ProbePlan, Stamps};
use millpond_machine::{Absent, Machine, Refusal};
use millpond_model::{LatencySample, Moment, Nanos, Pid, Sharer};
use std::sync::atomic::Ordering;

/// How often it is looked whether a buffer is full.
pub(super) const LOOK: Nanos = Nanos::from_millis(50);

/// A probe, and what it shares with us.
pub(super) struct Watch<'m> {
    process: Process<'m>,
    stamping: Option<Stamping>,
}

impl<'m> Watch<'m> {
    /// Forks the probe, which waits at its gate.
    pub fn begin(machine: &'m LinuxMachine, plan: &ProbePlan) -> Result<Self, Absent> {
        let intervals: Vec<u64> = plan.intervals.iter().map(|n| n.0).filter(|n| *n > 0).collect();
        if intervals.is_empty() {
            return Err(Absent::because("there is no interval to wait for"));
        }
        let stamping = if plan.stamps == Stamps::Programs {
            let help = "--plain measures the whole without them";
            Some(Stamping::open(plan.cpu.0).map_err(|why| Absent::with_help(why.to_string(), help))?)
        } else {
            None
        };
        let process = Process::fork(machine, plan, &intervals, Timers::Own(stamping.as_ref()))?;
        if let Some(stamping) = &stamping {
            stamping.follow(process.pid.0).map_err(|why| Absent::because(why.to_string()))?;
        }
        Ok(Watch { process, stamping })
    }
}

fn sample(words: &[u64; SAMPLE_WORDS]) -> LatencySample {
    let [due, irq, woken, on_cpu, user] = words.map(Nanos);
    LatencySample { due, stamps: [irq, woken, on_cpu], user }
}

impl LatencyWatch for Watch<'_> {
    fn pid(&self) -> Pid {
        self.process.pid
    }

    fn go(&mut self) -> Result<(), Refusal> {
        self.process.go()
    }

    fn collect(&mut self, deadline: Nanos) -> Result<Measured, Refusal> {
        let clock = self.process.machine.clock();
        while self.process.shared.waiting() < BUFFER {
            let now = clock.now();
            let until = deadline.min(now + LOOK);
            if now >= deadline {
                break;
            }
            clock.sleep_until(until);
            // A signal ended the wait: whoever called us looks at why.
            if clock.now() < until || self.process.has_ended() {
                break;
            }
        }
        let samples: Vec<LatencySample> = self.process.shared.take().iter().map(sample).collect();
        let lost = self.process.shared.lost.swap(0, Ordering::Relaxed);
        if samples.is_empty() {
            self.process.check()?;
        }
        Ok(Measured { samples, lost })
    }

    fn worst(&self) -> Vec<(LatencySample, Vec<Moment>)> {
        let of = |(words, moments): ([u64; SAMPLE_WORDS], Vec<[u64; 4]>)| {
            let mut moments: Vec<Moment> =
                moments.iter().filter_map(|moment| words::moment(moment, self.process.pid.0)).collect();
            // Interrupts that came while a moment was being written stand beside it.
            moments.sort_by_key(|moment| moment.at);
            (sample(&words), moments)
        };
        self.process.shared.worst().into_iter().map(of).collect()
    }

    fn sharers(&self) -> Vec<Sharer> {
        let Some(stamping) = &self.stamping else { return Vec::new() };
        let mut sharers: Vec<Sharer> = stamping
            .sums()
            .into_iter()
            .map(|sum| Sharer {
                what: words::called(sum.what, &sum.name, self.process.pid.0),
                times: sum.times,
                ran: Nanos(sum.ns),
            })
            .filter(|sharer| sharer.what != "idle" && sharer.what != "probe")
            .collect();
        sharers.sort_by(|a, b| b.ran.cmp(&a.ran).then_with(|| a.what.cmp(&b.what)));
        sharers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_probe_are_samples() {
        let words = [1000, 1001, 1003, 1006, 1010];
        assert_eq!(sample(&words).stages(), Some([1, 2, 3, 4].map(|ns| Some(Nanos(ns)))));
    }
}
