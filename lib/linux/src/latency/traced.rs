//! A timerlat probe from its parent's side: the parent reads the trace.

use super::child::Timers;
use super::process::Process;
use super::shared::{BUFFER, WORST};
use super::timerlat;
use super::trace::Trace;
use super::watch::LOOK;
use crate::LinuxMachine;
use crate::tracefs::Tracefs;
use millpond_machine::facets::{LatencyWatch, Measured, ProbePlan};
use millpond_machine::{Absent, Machine, Reason, Refusal};
use millpond_model::{CpuId, LatencySample, Moment, Nanos, Pid, Sharer};
use rustix::fs::OFlags;
use std::cmp::Reverse;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

/// The kernel returns at most a page of text.
const PAGE: usize = 4096;

/// A probe and its samples.
pub(super) struct Traced<'m> {
    process: Process<'m>,
    tracefs: Tracefs,
    cpu: CpuId,
    /// The trace of the CPU; opened at the start.
    pipe: Option<File>,
    trace: Trace,
    /// The longest waits, in descending order.
    worst: Vec<LatencySample>,
}

fn refused(why: String) -> Refusal {
    Refusal::operation(Reason::Machine(why))
}

impl<'m> Traced<'m> {
    /// Forks the probe, which waits for the start signal. The tracer is set up together with its CPU.
    pub fn begin(machine: &'m LinuxMachine, plan: &ProbePlan) -> Result<Self, Absent> {
        let tracefs = machine.timerlat()?;
        let file = format!("osnoise/per_cpu/cpu{}/timerlat_fd", plan.cpu);
        if !tracefs.path().join(&file).exists() {
            return Err(Absent::because(format!("timerlat knows no CPU {}", plan.cpu)));
        }
        let file = CString::new(file).map_err(|error| Absent::because(error.to_string()))?;
        let timers = Timers::Timerlat(tracefs.dir().as_raw_fd(), &file);
        let process = Process::fork(machine, plan, &[], timers)?;
        let (trace, worst) = (Trace::default(), Vec::new());
        Ok(Traced { process, tracefs, cpu: plan.cpu, pipe: None, trace, worst })
    }

    /// Opens the trace of our instance.
    fn open(&self) -> Result<File, Refusal> {
        let instance =
            self.tracefs.path().join("instances").join(timerlat::instance(Pid(std::process::id())));
        let path = instance.join(format!("per_cpu/cpu{}/trace_pipe", self.cpu));
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
        opened.map_err(|error| refused(format!("the trace of CPU {} cannot be read: {error}", self.cpu)))
    }

    /// Reads everything that was traced since the last call.
    fn read(&mut self) -> Result<(), Refusal> {
        let Some(pipe) = &mut self.pipe else { return Ok(()) };
        let mut page = [0; PAGE];
        loop {
            match pipe.read(&mut page) {
                Ok(0) => return Ok(()),
                Ok(read) => self.trace.add(&page[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.unreadable(&error)),
            }
        }
    }

    fn unreadable(&self, error: &io::Error) -> Refusal {
        refused(format!("the trace of CPU {} cannot be read: {error}", self.cpu))
    }
}

/// Keeps the longest waits, in descending order.
fn keep_worst(worst: &mut Vec<LatencySample>, samples: &[LatencySample]) {
    worst.extend_from_slice(samples);
    worst.sort_by_key(|sample| Reverse(sample.total()));
    worst.truncate(WORST);
}

impl LatencyWatch for Traced<'_> {
    fn pid(&self) -> Pid {
        self.process.pid
    }

    fn go(&mut self) -> Result<(), Refusal> {
        self.pipe = Some(self.open()?);
        self.process.go()?;
        self.read()?;
        // The first samples are from the warm-up.
        let (untimed, _) = self.trace.take();
        if untimed.is_empty() {
            return Err(refused("what timerlat writes into its trace is not understood".to_owned())
                .hint("look at it: cat /sys/kernel/tracing/instances/millpond-*/trace while it runs"));
        }
        Ok(())
    }

    fn collect(&mut self, deadline: Nanos) -> Result<Measured, Refusal> {
        let clock = self.process.machine.clock();
        self.read()?;
        while u64::try_from(self.trace.waiting()).unwrap_or(u64::MAX) < BUFFER {
            let now = clock.now();
            let until = deadline.min(now + LOOK);
            if now >= deadline {
                break;
            }
            clock.sleep_until(until);
            self.read()?;
            // A signal ended the wait. The caller checks why.
            if clock.now() < until || self.process.has_ended() {
                break;
            }
        }
        let (samples, lost) = self.trace.take();
        keep_worst(&mut self.worst, &samples);
        if samples.is_empty() {
            self.process.check()?;
        }
        Ok(Measured { samples, lost })
    }

    fn worst(&self) -> Vec<(LatencySample, Vec<Moment>)> {
        self.worst.iter().map(|sample| (*sample, Vec::new())).collect()
    }

    fn sharers(&self) -> Vec<Sharer> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_ones_are_kept_longest_first() {
        let sample =
            |ns: u64| LatencySample { due: Nanos(1), user: Nanos(1 + ns), ..LatencySample::default() };
        let mut worst = Vec::new();
        keep_worst(&mut worst, &(1..=20).map(sample).collect::<Vec<_>>());
        keep_worst(&mut worst, &[sample(30), sample(2)]);
        let totals: Vec<u64> = worst.iter().map(|sample| sample.total().0).collect();
        assert_eq!(totals, [30, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6]);
    }
}
