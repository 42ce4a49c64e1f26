//! Time of programs on each CPU, measured at context switches by a BPF program (`lib/bpf`).
//!
//! The BPF program sums up the time of the watched programs' threads on each CPU, in shared memory. Reading it interrupts no CPU,
//! so fenced and shielded CPUs are included. The time of a thread that is running is added from the time of the last switch, so a
//! thread that never switches is fully counted.

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
    /// The last reading, by CPU and program.
    last: Vec<Vec<u64>>,
    /// The kernel's count of threads that it could not follow, at the last reading.
    refused: u64,
}

impl MeasuredOccupancy {
    /// Starts the measurement.
    ///
    /// # Errors
    /// Why it is not possible, as the second half of a sentence.
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

    /// The current time, and the time of each program on each CPU.
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
                // A switch after the reading may have added time that was already counted. Do not count it twice.
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
