//! Where a program runs: its time on each CPU, measured at switches by a program in the kernel (`lib/bpf`).
//!
//! The program adds up what threads of the watched programs spend on each CPU, in memory that we share with it. Reading
//! interrupts no CPU, so that fenced and shielded ones are read as well. What is still going on is added from the time of the
//! last switch there; a thread that never switches is seen for all of its time.

use super::proc::now;
use crate::Os;
use millpond_bpf::residence::Residing;
use millpond_machine::facets::{OccupancyWatch, Residence, Sighting};
use millpond_machine::{Reason, Refusal};
use millpond_model::{CpuId, Nanos, Pid};

/// The watch.
#[derive(Debug)]
pub(super) struct MeasuredOccupancy {
    residing: Residing,
    programs: Vec<Pid>,
    processors: u32,
    since: Nanos,
    /// By CPU and program, what was read last.
    last: Vec<Vec<u64>>,
    /// How often the kernel had refused to follow a thread then.
    refused: u64,
}

impl MeasuredOccupancy {
    /// Begins to measure.
    ///
    /// # Errors
    /// Why not, as the second half of a sentence.
    pub(super) fn start(os: &Os, given: &[Pid]) -> Result<MeasuredOccupancy, String> {
        os.takes_programs()?;
        let mut programs = given.to_vec();
        programs.sort_unstable();
        programs.dedup();
        let pids: Vec<u32> = programs.iter().map(|pid| pid.0).collect();
        let processors = os.width();
        let residing = Residing::open(&pids, processors).map_err(|why| why.to_string())?;
        let mut watch = MeasuredOccupancy {
            residing,
            programs,
            processors,
            since: Nanos(0),
            last: Vec::new(),
            refused: 0,
        };
        (watch.since, watch.last) = watch.read();
        Ok(watch)
    }

    /// Now, and what each program has spent on each CPU by then.
    fn read(&self) -> (Nanos, Vec<Vec<u64>>) {
        let at = now();
        (at, (0..self.processors).map(|cpu| self.residing.read(cpu, at.0)).collect())
    }
}

impl OccupancyWatch for MeasuredOccupancy {
    fn collect(&mut self) -> Result<Residence, Refusal> {
        self.residing.list().map_err(|why| Refusal::operation(Reason::Machine(why.to_string())))?;
        let (at, times) = self.read();
        let mut sightings = Vec::new();
        for (cpu, (is, was)) in (0..).zip(times.iter().zip(&mut self.last)) {
            for ((pid, is), was) in self.programs.iter().zip(is).zip(was) {
                let time = Nanos(is.saturating_sub(*was));
                // What a switch after this moment added already is not added again.
                *was = (*was).max(*is);
                if time > Nanos(0) {
                    sightings.push(Sighting { cpu: CpuId(cpu), pid: *pid, time });
                }
            }
        }
        let elapsed = at - self.since;
        self.since = at;
        let alive =
            self.residing.alive().iter().filter_map(|place| self.programs.get(*place).copied()).collect();
        let refused = self.residing.refused();
        let unfollowed = refused - std::mem::replace(&mut self.refused, refused);
        Ok(Residence { elapsed, sightings, samples: None, alive, unfollowed })
    }

    fn why_sampled(&self) -> Option<&str> {
        None
    }
}
