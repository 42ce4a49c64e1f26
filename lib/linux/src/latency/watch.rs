//! A probe with its own timers, from its parent's side.

use super::child::Timers;
use super::moments;
use super::process::Process;
use super::shared::{BUFFER, SAMPLE_WORDS};
use crate::LinuxMachine;
use millpond_bpf::latency::Stamping;
use millpond_machine::facets::{LatencyWatch, Measured, ProbePlan, Stamps};
use millpond_machine::{Absent, Machine, Refusal};
use millpond_model::{LatencySample, Moment, Nanos, Pid, Sharer};
use std::sync::atomic::Ordering;

/// Interval between checks for a full buffer.
pub(super) const LOOK: Nanos = Nanos::from_millis(50);

/// Stands for processes that do not fit into the table of names.
const UNNAMED: &str = "others (more than fit)";

/// A probe and the shared data.
pub(super) struct Watch<'m> {
    process: Process<'m>,
    stamping: Option<Stamping>,
}

impl<'m> Watch<'m> {
    /// Forks the probe, which waits for the start signal.
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
            // A signal ended the wait. The caller checks why.
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
                moments.iter().filter_map(|moment| moments::moment(moment, self.process.pid.0)).collect();
            // An interrupt during the recording of an event is recorded out of order.
            moments.sort_by_key(|moment| moment.at);
            (sample(&words), moments)
        };
        self.process.shared.worst().into_iter().map(of).collect()
    }

    fn sharers(&self) -> Vec<Sharer> {
        self.stamping.as_ref().map_or_else(Vec::new, |stamping| sharers(stamping, self.process.pid.0))
    }
}

/// What else ran on the CPU, the longest first.
fn sharers(stamping: &Stamping, probe: u32) -> Vec<Sharer> {
    let mut sharers: Vec<Sharer> = stamping
        .sums()
        .into_iter()
        .map(|sum| Sharer {
            what: moments::called(sum.what, &sum.name, probe),
            times: sum.times,
            ran: Nanos(sum.ns),
        })
        .filter(|sharer| sharer.what != "idle" && sharer.what != "probe")
        .collect();
    let (times, ns) = stamping.beyond();
    if times > 0 {
        sharers.push(Sharer { what: UNNAMED.to_owned(), times, ran: Nanos(ns) });
    }
    sharers.sort_by(|a, b| b.ran.cmp(&a.ran).then_with(|| a.what.cmp(&b.what)));
    sharers
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More processes than the kernel-side table has entries.
    const STORM: usize = 5_000;

    /// Runs on a separate thread, which shares its CPU with its children.
    fn storm(cpu: usize) {
        let mut only = rustix::thread::CpuSet::new();
        only.set(cpu);
        rustix::thread::sched_setaffinity(None, &only).unwrap();
        for _ in 0..STORM {
            // SAFETY: the child ends at once.
            match unsafe { libc::fork() } {
                // SAFETY: as above.
                0 => unsafe { libc::_exit(0) },
                child => {
                    // SAFETY: waits for a child of this thread and discards its status.
                    let waited = unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
                    assert_eq!(waited, child);
                }
            }
        }
    }

    #[test]
    fn what_ran_beyond_the_room_for_names_is_told_with_its_time() {
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        let cpu = (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).unwrap();
        let stamping = match Stamping::open(u32::try_from(cpu).unwrap()) {
            Ok(stamping) => stamping,
            Err(why) => {
                eprintln!("skipped: what_ran_beyond_the_room_for_names_is_told_with_its_time: {why}");
                return;
            }
        };
        let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        stamping.follow(own).unwrap();
        let told = |what: &Sharer| what.what == UNNAMED;
        assert!(!sharers(&stamping, own).iter().any(told), "nothing ran yet");
        std::thread::spawn(move || storm(cpu)).join().unwrap();
        let sharers = sharers(&stamping, own);
        let unnamed = sharers.iter().find(|sharer| told(sharer)).expect("it is told");
        assert!(unnamed.times > 0 && unnamed.ran > Nanos(0), "{unnamed:?}");
    }

    #[test]
    fn words_of_the_probe_are_samples() {
        let words = [1000, 1001, 1003, 1006, 1010];
        assert_eq!(sample(&words).stages(), Some([1, 2, 3, 4].map(|ns| Some(Nanos(ns)))));
    }
}
