//! Where programs run, second by second.

use super::Seen;
use crate::program::Program;
use millpond_machine::facets::{Method, OccupancyWatch, Residence};
use millpond_machine::{Absent, Machine};
use millpond_model::{CpuId, Nanos, Pid};
use std::collections::BTreeMap;

/// Out of step with every clock and tick.
const FREQUENCY_HZ: u64 = 4_997;

/// Percent of samples on one CPU, one number a second.
type Seconds = Vec<f64>;

/// Samples of several programs, for as long as the machine gives any.
pub(super) struct Watch<'m> {
    source: Result<Box<dyn OccupancyWatch + 'm>, Absent>,
    seen: BTreeMap<(Pid, CpuId), Seconds>,
    seconds: usize,
}

impl<'m> Watch<'m> {
    /// Begins to watch.
    pub fn begin(machine: &'m dyn Machine, programs: &[Program]) -> Watch<'m> {
        let pids: Vec<Pid> = programs.iter().map(Program::pid).collect();
        let source =
            machine.sampler().and_then(|sampler| sampler.watch(&pids, Method::MeasureOrSample(FREQUENCY_HZ)));
        Watch { source, seen: BTreeMap::new(), seconds: 0 }
    }

    /// Why nothing is seen, if nothing is.
    pub fn unseen(&self) -> Option<String> {
        self.source.as_ref().err().map(ToString::to_string)
    }

    /// Forgets what was seen until now.
    pub fn restart(&mut self) {
        let _ = self.take();
        self.seen.clear();
        self.seconds = 0;
    }

    /// Takes what was seen since the last time, which should be about a second.
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

    /// Where one program was seen.
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

/// A share in percent. More than 100 are possible only by the moments that reading takes.
fn percent(time: Nanos, elapsed: Nanos) -> f64 {
    (time.as_secs_f64() * 100.0 / elapsed.as_secs_f64()).min(100.0)
}
