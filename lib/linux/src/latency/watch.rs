//! The probe as its parent sees it.

use super::child::{self, Orders};
use super::shared::{BUFFER, MOVED, Mapped, NO_CLASS, NO_LOCK, SAMPLE_WORDS};
use super::words;
use crate::LinuxMachine;
use millpond_bpf::latency::Stamping;
use millpond_machine::facets::{LatencyWatch, Measured, ProbePlan};
use millpond_machine::{Absent, Machine, Reason, Refusal};
use millpond_model::{CpuId, LatencySample, Moment, Nanos, Pid, Sharer};
use rustix::io::write;
use rustix::pipe::pipe;
use rustix::process::{Pid as Number, Signal, WaitOptions, kill_process, waitpid};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;

/// How often it is looked whether a buffer is full.
const LOOK: Nanos = Nanos::from_millis(50);
/// How long getting ready may take: locking memory reads it in.
const PATIENCE: Nanos = Nanos::from_secs(30);

/// A probe, and what it shares with us.
pub(super) struct Watch<'m> {
    machine: &'m LinuxMachine,
    child: Number,
    pid: Pid,
    cpu: CpuId,
    gate: OwnedFd,
    shared: Mapped,
    stamping: Option<Stamping>,
}

fn absent(what: &str, why: &impl ToString) -> Absent {
    Absent::because(format!("{what}: {}", why.to_string()))
}

impl<'m> Watch<'m> {
    /// Forks the probe, which waits at its gate.
    pub fn begin(machine: &'m LinuxMachine, plan: &ProbePlan) -> Result<Self, Absent> {
        let intervals: Vec<u64> = plan.intervals.iter().map(|n| n.0).filter(|n| *n > 0).collect();
        if intervals.is_empty() {
            return Err(Absent::because("there is no interval to wait for"));
        }
        let stamping = if plan.staged {
            let help = "--plain measures the whole without them";
            Some(Stamping::open(plan.cpu.0).map_err(|why| Absent::with_help(why.to_string(), help))?)
        } else {
            None
        };
        let shared = Mapped::new().map_err(|error| absent("memory", &error))?;
        let (inside, gate) = pipe().map_err(|error| absent("a pipe", &error))?;
        let orders = Orders {
            shared: &shared,
            gate: inside.as_raw_fd(),
            // SAFETY: asks for a number.
            parent: unsafe { libc::getpid() },
            cpu: i32::try_from(plan.cpu.0).unwrap_or(-1),
            intervals: &intervals,
            // As everywhere: level 0 is the kernel's priority 1.
            priority: i32::from(plan.level) + 1,
            seed: machine.clock().now().0,
            stamping: stamping.as_ref(),
        };
        // SAFETY: the child calls nothing but the system, works on memory that is there, and ends without returning (`child`).
        let forked = unsafe { libc::fork() };
        if forked == 0 {
            child::run(&orders);
        }
        let child = Number::from_raw(forked.max(0));
        let child = child.ok_or_else(|| absent("a process", &io::Error::last_os_error()))?;
        let pid = Pid(forked.unsigned_abs());
        let watch = Watch { machine, child, pid, cpu: plan.cpu, gate, shared, stamping };
        if let Some(stamping) = &watch.stamping {
            stamping.follow(pid.0).map_err(|why| Absent::because(why.to_string()))?;
        }
        Ok(watch)
    }

    /// Why it measures no more; nothing as long as it does.
    fn check(&self) -> Result<(), Refusal> {
        let ended = self.shared.ended.load(Ordering::Acquire);
        let refused = |why: String| Refusal::operation(Reason::Machine(why));
        let number = i32::try_from(ended & u64::from(u32::MAX)).unwrap_or(0);
        let error = io::Error::from_raw_os_error(number);
        match ended >> 32 {
            0 => {}
            NO_LOCK => {
                return Err(refused(format!("its memory cannot be locked: {}", text(&error)))
                    .hint("this needs CAP_IPC_LOCK, or a larger limit of locked memory (ulimit -l)"));
            }
            NO_CLASS => {
                return Err(refused(format!("it may not enter the real-time class: {}", text(&error)))
                    .hint("this needs CAP_SYS_NICE, or a limit of real-time priority (ulimit -r)"));
            }
            MOVED => {
                let online = self.machine.online_now().is_ok_and(|online| online.contains(self.cpu));
                let why =
                    if online { "it was moved to another processor" } else { "its processor went off-line" };
                return Err(refused(why.to_owned()).hint("what was measured until then is shown and kept"));
            }
            other => return Err(refused(format!("it ended ({other})"))),
        }
        match waitpid(Some(self.child), WaitOptions::NOHANG) {
            Ok(None) | Err(rustix::io::Errno::INTR) => Ok(()),
            _ if self.shared.ended.load(Ordering::Acquire) != 0 => self.check(),
            _ => Err(refused("somebody ended the process that measures".to_owned())),
        }
    }
}

/// The system's reason without its number.
fn text(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

fn sample(words: &[u64; SAMPLE_WORDS]) -> LatencySample {
    let [due, irq, woken, on_cpu, user] = words.map(Nanos);
    LatencySample { due, stamps: [irq, woken, on_cpu], user }
}

impl LatencyWatch for Watch<'_> {
    fn pid(&self) -> Pid {
        self.pid
    }

    fn go(&mut self) -> Result<(), Refusal> {
        let _ = write(&self.gate, b"!");
        let clock = self.machine.clock();
        let end = clock.now() + PATIENCE;
        while self.shared.ready.load(Ordering::Acquire) == 0 {
            self.check()?;
            if clock.now() >= end {
                let why = format!("after {} s it is not ready", PATIENCE.as_secs_f64());
                return Err(Refusal::operation(Reason::Machine(why)));
            }
            clock.sleep_until(clock.now() + Nanos::from_millis(1));
        }
        Ok(())
    }

    fn collect(&mut self, deadline: Nanos) -> Result<Measured, Refusal> {
        let clock = self.machine.clock();
        while self.shared.waiting() < BUFFER {
            let now = clock.now();
            let until = deadline.min(now + LOOK);
            if now >= deadline {
                break;
            }
            clock.sleep_until(until);
            // A signal ended the wait: whoever called us looks at why.
            if clock.now() < until || self.shared.ended.load(Ordering::Acquire) != 0 {
                break;
            }
        }
        let samples: Vec<LatencySample> = self.shared.take().iter().map(sample).collect();
        let lost = self.shared.lost.swap(0, Ordering::Relaxed);
        if samples.is_empty() {
            self.check()?;
        }
        Ok(Measured { samples, lost })
    }

    fn worst(&self) -> Vec<(LatencySample, Vec<Moment>)> {
        let of = |(words, moments): ([u64; SAMPLE_WORDS], Vec<[u64; 4]>)| {
            let mut moments: Vec<Moment> =
                moments.iter().filter_map(|moment| words::moment(moment, self.pid.0)).collect();
            // Interrupts that came while a moment was being written stand beside it.
            moments.sort_by_key(|moment| moment.at);
            (sample(&words), moments)
        };
        self.shared.worst().into_iter().map(of).collect()
    }

    fn sharers(&self) -> Vec<Sharer> {
        let Some(stamping) = &self.stamping else { return Vec::new() };
        let mut sharers: Vec<Sharer> = stamping
            .sums()
            .into_iter()
            .map(|sum| Sharer {
                what: words::called(sum.what, &sum.name, self.pid.0),
                times: sum.times,
                ran: Nanos(sum.ns),
            })
            .filter(|sharer| sharer.what != "idle" && sharer.what != "probe")
            .collect();
        sharers.sort_by(|a, b| b.ran.cmp(&a.ran).then_with(|| a.what.cmp(&b.what)));
        sharers
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        // One that ended already is waited for all the same.
        let _ = kill_process(self.child, Signal::KILL);
        while let Err(rustix::io::Errno::INTR) = waitpid(Some(self.child), WaitOptions::empty()) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_probe_are_samples() {
        let words = [1000, 1001, 1003, 1006, 1010];
        assert_eq!(sample(&words).stages(), Some([1, 2, 3, 4].map(Nanos)));
        assert_eq!(text(&io::Error::from_raw_os_error(1)), "Operation not permitted");
    }
}
