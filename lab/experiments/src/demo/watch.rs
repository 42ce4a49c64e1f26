//! Samples where programs run, second by second.

use super::Seen;
use crate::program::Program;
use millpond_machine::facets::{Method, OccupancyWatch, Residence};
use millpond_machine::{Absent, Machine};
use millpond_model::{CpuId, Nanos, Pid};
use std::collections::BTreeMap;

/// A frequency that does not coincide with any clock or tick.
const FREQUENCY_HZ: u64 = 4_997;

/// Percentage of samples on one CPU, one value per second.
type Seconds = Vec<f64>;

/// Samples of several programs, as long as the machine provides them.
pub(super) struct Watch<'m> {
    source: Result<Box<dyn OccupancyWatch + 'm>, Absent>,
    seen: BTreeMap<(Pid, CpuId), Seconds>,
    seconds: usize,
}

impl<'m> Watch<'m> {
    /// Starts sampling.
    pub fn begin(machine: &'m dyn Machine, programs: &[Program]) -> Watch<'m> {
        let pids: Vec<Pid> = programs.iter().map(Program::pid).collect();
        let source =
            machine.sampler().and_then(|sampler| sampler.watch(&pids, Method::MeasureOrSample(FREQUENCY_HZ)));
        Watch { source, seen: BTreeMap::new(), seconds: 0 }
    }

    /// The reason why there are no samples, if so.
    pub fn unseen(&self) -> Option<String> {
        self.source.as_ref().err().map(ToString::to_string)
    }

    /// Discards the samples so far.
    pub fn restart(&mut self) {
        let _ = self.take();
        self.seen.clear();
        self.seconds = 0;
    }

    /// Adds the samples since the last call, which should be about a second ago.
    pub fn collect(&mut self) {
        let Some(residence) = self.take().filter(|residence| residence.elapsed.0 > 0) else { return };
        for sighting in residence.sightings {
            let seconds = self.seen.entry((sighting.pid, sighting.cpu)).or_default();
            seconds.resize(self.seconds, 0.0);
            seconds.push(percent(sighting.time, residence.elapsed));
        }
        self.seconds += 1;
    }

    fn take(&mut self) -> Option<Residence> {
        let watch = self.source.as_mut().ok()?;
        match watch.collect() {
            Ok(residence) => Some(residence),
            Err(refusal) => {
                self.source = Err(Absent::because(format!("samples were lost: {refusal}")));
                None
            }
        }
    }

    /// The samples of one program.
    pub fn of(&self, pid: Pid) -> Vec<Seen> {
        let of_pid = self.seen.range((pid, CpuId(0))..=(pid, CpuId(u32::MAX)));
        of_pid
            .map(|((_, cpu), seconds)| {
                let mut seconds = seconds.clone();
                seconds.resize(self.seconds, 0.0);
                Seen::over(*cpu, &seconds)
            })
            .collect()
    }
}

/// A share in percent. It can exceed 100 only because reading takes time.
fn percent(time: Nanos, elapsed: Nanos) -> f64 {
    (time.as_secs_f64() * 100.0 / elapsed.as_secs_f64()).min(100.0)
}
