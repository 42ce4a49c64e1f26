//! Counts cycles and instructions of CPUs, and records them like `cpustat --record`, on simulated and real machines.

use crate::Failure;
use millpond_formats::events::{self, is_cycles};
use millpond_formats::print_iso;
use millpond_machine::facets::{CpuCounting, CpuReading, Wanted};
use millpond_machine::{HardwareCounters, Machine};
use millpond_model::{CpuId, LgrpId, Nanos, PsetId, Topology};
use millpond_observe::recording::{self, Event, Recording, counts};
use millpond_observe::{between, cycles_per_instruction};

/// The published events.
pub(super) const SPEC: &str = "pic0=Cycle_cnt,pic1=Instr_cnt";

/// Cycles and instructions of several CPUs over the same time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) cycles: u64,
    pub(super) instructions: u64,
}

impl Pair {
    /// Cycles per instruction; 0 without instructions.
    pub(super) fn cpi(self) -> f64 {
        cycles_per_instruction(self.cycles, self.instructions).unwrap_or(0.0)
    }
}

/// Running counters, and their recording.
pub(super) struct Recorder<'a> {
    counting: Box<dyn CpuCounting + 'a>,
    /// The counters with their events.
    events: Vec<(u32, String)>,
    lgroups: Vec<LgrpId>,
    began: Nanos,
    before: Vec<CpuReading>,
    text: String,
}

impl<'a> Recorder<'a> {
    /// Starts counting user mode on these CPUs; `interval` is the length of a sample.
    ///
    /// # Errors
    /// [`Failure`] where cycles and instructions cannot be counted.
    pub(super) fn begin(
        machine: &'a dyn Machine,
        topology: &Topology,
        cpus: &[CpuId],
        interval: Nanos,
    ) -> Result<Recorder<'a>, Failure> {
        let what = || Failure::refused("count cycles and instructions");
        let counters = machine.hardware_counters().map_err(Failure::NotHere)?;
        let wanted = wanted(counters)?;
        let mut counting = counters.count_cpus(cpus, std::slice::from_ref(&wanted)).map_err(what())?;
        counting.start(0).map_err(what())?;
        let before = counting.read();
        let home = |cpu: &CpuId| topology.processor(*cpu).map_or(LgrpId(0), |processor| processor.lgroup);
        let head =
            recording::head(machine.name(), &print_iso(machine.clock().wall()), interval.as_secs_f64());
        Ok(Recorder {
            counting,
            events: wanted.into_iter().map(|one| (one.counter, one.event)).collect(),
            lgroups: cpus.iter().map(home).collect(),
            began: before.first().map_or(Nanos(0), |reading| reading.at),
            before,
            text: format!("{head}\n"),
        })
    }

    /// Records and returns the counts of each CPU since the last sample.
    ///
    /// # Errors
    /// [`Failure::Machine`] for a CPU that can no longer be read, or was not counted all the time.
    pub(super) fn sample(&mut self) -> Result<Vec<(CpuId, Pair)>, Failure> {
        let now = self.counting.read();
        let events: Vec<(u32, &str)> =
            self.events.iter().map(|(pic, event)| (*pic, event.as_str())).collect();
        let mut pairs = Vec::new();
        for ((before, now), lgroup) in self.before.iter().zip(&now).zip(&self.lgroups) {
            let lost = |why: &String| Failure::Machine(format!("CPU {}: {why}", now.cpu));
            let from = before.counted.as_ref().map_err(lost)?;
            let counted = between(from, now.counted.as_ref().map_err(lost)?);
            let Some(&[cycles, instructions]) = counted.counts.as_deref() else {
                return Err(lost(&"others have its counters".to_owned()));
            };
            let pair = Pair { cycles, instructions };
            let tick = Event::Tick {
                cpu: now.cpu,
                pset: PsetId::DEFAULT,
                lgroup: *lgroup,
                time_s: (now.at - self.began).as_secs_f64(),
                elapsed_s: (now.at - before.at).as_secs_f64(),
                spec: SPEC,
                counts: Some(counts(&events, &[cycles, instructions])),
                share: counted.share,
                cpi: cycles_per_instruction(cycles, instructions),
                tick: None,
            };
            self.text += &(tick.line() + "\n");
            pairs.push((now.cpu, pair));
        }
        self.before = now;
        Ok(pairs)
    }

    /// The recording, as `millpond compare` reads it.
    ///
    /// # Errors
    /// [`Failure::Machine`] without samples.
    pub(super) fn recording(&self) -> Result<Recording, Failure> {
        recording::parse(&self.text).map_err(|error| Failure::Machine(format!("the recording: {error}")))
    }
}

/// The sum over CPUs.
pub(super) fn total(pairs: &[(CpuId, Pair)]) -> Pair {
    pairs.iter().fold(Pair::default(), |sum, (_, pair)| Pair {
        cycles: sum.cycles + pair.cycles,
        instructions: sum.instructions + pair.instructions,
    })
}

/// The published pair of events, cycles first.
fn wanted(counters: &dyn HardwareCounters) -> Result<Vec<Wanted>, Failure> {
    let spec = events::parse(SPEC, &|event| counters.capable(event));
    let spec = spec.map_err(|error| Failure::Machine(error.to_string()))?;
    let one = |c: events::Counter| Wanted { counter: c.pic, event: c.event, user: c.user, sys: c.sys };
    let mut wanted: Vec<Wanted> = spec.counters.into_iter().map(one).collect();
    wanted.sort_by_key(|one| !is_cycles(&one.event));
    Ok(wanted)
}
