//! Simulated hardware counters with faults: contention by other users, and CPUs that go off-line during counting.

use crate::machine::{Mischief, Stage};
use millpond_machine::facets::{
    CpuCounting, CpuReading, Follow, Happening, Interface, LwpCounting, LwpReading, Tracked, Tracking, Wanted,
};
use millpond_machine::{Absent, HardwareCounters, Refusal};
use millpond_model::{Counted, CpuId, Lwp, Nanos, Pid, State};

/// The simulated machine's counters, with the faults.
impl HardwareCounters for Stage {
    fn hardware(&self) -> Result<(), Absent> {
        self.sim().hardware()
    }

    fn interface(&self) -> Interface {
        self.sim().interface()
    }

    fn capable(&self, event: &str) -> Option<u32> {
        self.sim().capable(event)
    }

    fn count_cpus(&self, cpus: &[CpuId], sets: &[Vec<Wanted>]) -> Result<Box<dyn CpuCounting + '_>, Refusal> {
        let counting = self.sim().count_cpus(cpus, sets)?;
        Ok(Box::new(Contended { stage: self, counting, samples: 0 }))
    }

    fn count_lwps(&self, lwps: &[Lwp], set: &[Wanted]) -> Result<Box<dyn LwpCounting + '_>, Refusal> {
        self.sim().count_lwps(lwps, set)
    }

    fn track(
        &self,
        whose: &Tracked,
        sets: &[Vec<Wanted>],
        follow: Follow,
    ) -> Result<Box<dyn Tracking + '_>, Refusal> {
        let tracking = self.sim().track(whose, sets, follow)?;
        Ok(Box::new(ContendedThreads { mischief: &self.mischief, tracking }))
    }
}

/// CPU counters that are available only for a part of the time.
struct Contended<'a> {
    stage: &'a Stage,
    counting: Box<dyn CpuCounting + 'a>,
    samples: u32,
}

/// The CPU goes off-line before this reading. The first reading is the start of counting, the second the first sample.
const GOES_BEFORE: u32 = 3;

impl CpuCounting for Contended<'_> {
    fn start(&mut self, set: usize) -> Result<(), Refusal> {
        self.counting.start(set)
    }

    fn read(&mut self) -> Vec<CpuReading> {
        let (sim, mischief) = (self.stage.sim(), &self.stage.mischief);
        self.samples += 1;
        if self.samples == GOES_BEFORE
            && let Some(cpu) = mischief.goes.take()
        {
            sim.edit(|s| {
                if let Some(record) = s.tables.processors.get_mut(&cpu) {
                    record.state = State::OffLine;
                }
            });
        }
        let percent = mischief.counts.get().unwrap_or(100);
        let part = |reading: CpuReading| CpuReading {
            counted: reading.counted.map(|counted| share(&counted, percent)),
            ..reading
        };
        self.counting.read().into_iter().map(part).collect()
    }
}

/// Thread counters that are available only for a part of the time.
struct ContendedThreads<'a> {
    mischief: &'a Mischief,
    tracking: Box<dyn Tracking + 'a>,
}

impl ContendedThreads<'_> {
    fn part(&self, reading: LwpReading) -> LwpReading {
        let percent = self.mischief.counts.get().unwrap_or(100);
        LwpReading { counted: share(&reading.counted, percent), ..reading }
    }
}

impl Tracking for ContendedThreads<'_> {
    fn pid(&self) -> Pid {
        self.tracking.pid()
    }

    fn next(&mut self, deadline: Nanos) -> Result<Happening, Refusal> {
        Ok(match self.tracking.next(deadline)? {
            Happening::Ended(reading) => Happening::Ended(self.part(reading)),
            other => other,
        })
    }

    fn start(&mut self, set: usize) -> Result<(), Refusal> {
        self.tracking.start(set)
    }

    fn read(&mut self) -> Vec<LwpReading> {
        let readings = self.tracking.read();
        readings.into_iter().map(|reading| self.part(reading)).collect()
    }
}

/// The counts scaled to a percentage of the time.
fn share(counted: &Counted, percent: u64) -> Counted {
    let of = |value: u64| value.saturating_mul(percent) / 100;
    Counted {
        values: counted.values.iter().map(|value| of(*value)).collect(),
        wanted: counted.wanted,
        counting: Nanos(of(counted.wanted.0)),
    }
}
