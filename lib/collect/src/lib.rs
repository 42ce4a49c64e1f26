//! From a machine to [`Frame`]s: reads the facets, each at its own rate, and fills in the tables of the catalogue (`lib/observe`).
//!
//! ```text
//!   Counters, Census, Accounting ──▶ each frame ──┐
//!                                                 ├──▶ Collector ──▶ Frame: totals at a moment
//!   Psets, Pools, Processors, Interrupts, Fences, ┘                    │ Frame::since
//!   record of poold, places: every five seconds                        ▼
//!                                                             Frame: what happened between two
//! ```
//!
//! A facet that is absent leaves its fields unknown, and [`Frame::missing`] says why. A frame of a simulated machine looks the same; looking at
//! one takes none of its time.

mod each_frame;
mod noise;
mod recorded;
mod recorder;
mod slow;

pub use recorded::{Notes, RecordedMachine};
pub use recorder::{RecordError, Recorder};

use millpond_machine::facets::{CensusOptions, CensusWatch, CounterWatch, Depth, UsageWatch, WatchOptions};
use millpond_machine::{Machine, Refusal};
use millpond_model::{Histogram, Nanos, PsetId, Roster};
use millpond_observe::Frame;
use millpond_observe::catalogue::Entity;
use millpond_session::{Session, own_cpu_time};
use noise::{Noise, Watched};
use slow::Slow;
use std::collections::BTreeMap;

/// How old slow figures may get.
const SLOW_EVERY: Nanos = Nanos::from_secs(5);

/// How old the list of threads and processes gets where frames go on for days and nobody says: it is the dear part of a frame.
pub const THREADS_EVERY: Nanos = Nanos::from_secs(5);

/// A frame that comes a little before the list is due reads it: the next one would be late by a whole interval.
const DUE_SLACK: Nanos = Nanos::from_millis(50);

/// What is to be seen; less is cheaper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Threads with their microstates, measured by programs in the kernel where it takes them. Without it only processes are listed.
    pub threads: bool,
    /// Sets and zones of processes.
    pub places: bool,
    /// Sizes of processes.
    pub memory: bool,
    /// How old the list of threads and processes may get; zero: it is read for each frame.
    pub threads_every: Nanos,
    /// Every event column of `mpstat`. Without it there is time by use alone, and no CPU is disturbed by the count.
    pub events: bool,
    /// OS noise on CPUs of sets, by cause.
    pub noise: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            threads: true,
            places: true,
            memory: true,
            threads_every: Nanos(0),
            events: true,
            noise: false,
        }
    }
}

/// Looks at a machine again and again.
pub struct Collector<'s> {
    session: &'s Session,
    options: Options,
    counters: Option<Box<dyn CounterWatch + 's>>,
    census: Option<Box<dyn CensusWatch + 's>>,
    usage: Option<Box<dyn UsageWatch + 's>>,
    noise: Option<Noise<'s>>,
    /// What is absent from the beginning, a sentence each.
    absent: Vec<String>,
    slow: Slow,
    /// CPU time of each set so far: of the CPUs that were in it from one frame to the next.
    busy: BTreeMap<PsetId, Nanos>,
    before: each_frame::Uses,
    /// How long threads waited for the CPUs of each set so far, and for each CPU.
    waits: BTreeMap<PsetId, Histogram>,
    waits_before: each_frame::Waits,
    roster: Option<Roster>,
    /// The latest frame that has the rows of `roster`.
    listed: Frame,
}

impl<'s> Collector<'s> {
    /// Starts everything that is asked for and there.
    #[must_use]
    pub fn open(session: &'s Session, options: Options) -> Collector<'s> {
        let machine = session.machine();
        let mut absent = Vec::new();
        let watch = WatchOptions { times_only: !options.events, touch_fenced: false };
        let counters = machine.counters().and_then(|facet| facet.watch(watch));
        let threads = options.threads;
        let depth = if threads { Depth::Measured } else { Depth::Use };
        let nothing = CensusOptions::default();
        let census =
            machine.census().and_then(|facet| facet.watch(CensusOptions { threads, depth, ..nothing }));
        let usage = machine.accounting().and_then(|facet| facet.watch());
        let noise = options.noise.then(|| machine.disturbances()).transpose();
        Collector {
            session,
            options,
            counters: counters.map_err(|why| absent.push(format!("counters: {why}"))).ok(),
            census: census.map_err(|why| absent.push(format!("threads and processes: {why}"))).ok(),
            usage: usage.map_err(|why| absent.push(format!("waiting by set: {why}"))).ok(),
            noise: noise.map_err(|why| absent.push(format!("OS noise: {why}"))).ok().flatten().map(Noise::of),
            absent,
            slow: Slow::default(),
            busy: BTreeMap::new(),
            before: each_frame::Uses::new(),
            waits: BTreeMap::new(),
            waits_before: each_frame::Waits::new(),
            roster: None,
            listed: Frame::default(),
        }
    }

    /// The machine that is watched.
    #[must_use]
    pub fn machine(&self) -> &'s dyn Machine {
        self.session.machine()
    }

    /// Makes the next frame read everything anew: something was changed.
    pub fn forget_slow(&mut self) {
        self.slow = Slow::default();
    }

    /// Everything that is there now. Counters of events and microstates begin with the watch, time by use with the boot.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    pub fn frame(&mut self) -> Result<Frame, Refusal> {
        let clock = self.machine().clock();
        let is_slow_due = self.slow.is_older_than(clock.now() + DUE_SLACK, SLOW_EVERY);
        let Options { places, memory, .. } = self.options;
        let sample = self.counters.as_mut().map(|watch| watch.sample()).transpose()?;
        let every = self.options.threads_every;
        let locates = is_slow_due && (places || memory);
        let is_due =
            locates || self.roster.as_ref().is_none_or(|roster| clock.now() - roster.at + DUE_SLACK >= every);
        if let Some(watch) = self.census.as_mut().filter(|_| is_due) {
            watch.set_places(is_slow_due && places, is_slow_due && memory);
            self.roster = Some(watch.sample()?);
        }
        if is_slow_due {
            self.slow = Slow::read(self.session, self.roster.as_ref().filter(|_| locates), &self.slow);
        }
        let roster = self.roster.as_ref();
        let usage = self.usage.as_mut().map(|watch| watch.sample()).transpose()?;
        let at = sample.as_ref().map(|s| s.at).or(roster.map(|r| r.at));
        let mut frame = Frame::at(at.unwrap_or_else(|| clock.now()), clock.wall());
        frame.missing = self.absent.clone();
        frame.missing.extend(self.slow.missing.iter().cloned());
        if let Some(sample) = &sample {
            frame.missing.extend(sample.missing.iter().cloned());
            each_frame::add_busy(&mut self.busy, &self.before, sample);
            self.before = each_frame::uses(sample);
        }
        if let Some(roster) = roster {
            frame.missing.extend(roster.missing.iter().cloned());
            if is_due {
                each_frame::add_waits(&mut self.waits, &mut self.waits_before, roster, &self.before);
            }
        }
        if let Some(noise) = &mut self.noise {
            if is_due {
                noise.read(sets_of(&self.before));
            }
            frame.missing.extend(noise.missing.iter().cloned());
        }
        each_frame::fill(
            &mut frame,
            &each_frame::Seen {
                name: self.machine().name(),
                sample: sample.as_ref(),
                roster,
                usage: usage.as_ref(),
                slow: &self.slow,
                busy: &self.busy,
                waits: roster.and_then(|roster| roster.waits.as_ref()).map(|_| &self.waits),
                noise: self.noise.as_ref().map(|noise| noise.rows.as_slice()),
                listed: (!is_due).then_some(&self.listed),
                watching: self.session.simulation().is_none().then(own_cpu_time),
                has_places: places && self.census.is_some(),
                has_own_places: places && is_slow_due,
            },
        );
        if is_due {
            self.listed = Frame::at(frame.at, frame.wall);
            for entity in [Entity::Process, Entity::Thread, Entity::Latency, Entity::Noise] {
                self.listed.take_rows_of(entity, &frame);
            }
        }
        Ok(frame)
    }
}

/// The CPUs of each set but the default one.
fn sets_of(uses: &each_frame::Uses) -> Watched {
    let mut sets = Watched::new();
    for (cpu, (set, _)) in uses.iter().filter(|(_, (set, _))| !set.is_default()) {
        sets.entry(*set).or_default().insert(*cpu);
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_observe::catalogue::{cpu, machine, pset, thread};
    use millpond_session::{Load, MachineName, OpenOptions};

    fn session() -> Session {
        let machine = MachineName::Simulated("t2000".into());
        Session::open(&OpenOptions { machine, ..OpenOptions::default() }).expect("it is built in")
    }

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn forty_threads_on_32_cpus_use_all_of_them_and_eight_wait() {
        let session = session();
        let simulation = session.simulation().expect("it is simulated");
        let load = Load::parse(&words("spin -t 40")).expect("it is a workload");
        let pid = simulation.start(&load);
        let mut collector = Collector::open(&session, Options::default());
        let first = collector.frame().expect("it can be read");
        let _ = simulation.run_for(Nanos::from_secs(2));
        let second = collector.frame().expect("it can be read");
        let interval = second.since(&first);
        assert_eq!(interval.elapsed, Some(Nanos::from_secs(2)));
        let set = &interval.rows(Entity::Pset)[0];
        assert_eq!((set.number(pset::BUSY), set.number(pset::WAITED)), (Some(32.0), Some(8.0)));
        assert_eq!(set.number(pset::RUNNABLE), Some(40.0));
        let of_load = |row: &&millpond_observe::Row| row.number(thread::PID) == Some(f64::from(pid.0));
        let threads: Vec<_> = interval.rows(Entity::Thread).iter().filter(of_load).collect();
        let sum = |field| threads.iter().filter_map(|row| row.number(field)).sum::<f64>();
        assert_eq!(threads.len(), 40);
        assert!(
            (sum(thread::USER) + sum(thread::SYSTEM) - 32.0).abs() < 1e-6
                && (sum(thread::LATENCY) - 8.0).abs() < 1e-6
        );
        for row in interval.rows(Entity::Cpu) {
            let shares = [cpu::USER, cpu::SYSTEM, cpu::WAIT, cpu::IDLE, cpu::STEAL].map(|id| row.number(id));
            assert!((shares.into_iter().flatten().sum::<f64>() - 1.0).abs() < 1e-6);
        }
        assert_eq!(interval.rows(Entity::Machine)[0].number(machine::CPUS), Some(32.0));
    }

    #[test]
    fn what_is_not_asked_for_is_unknown() {
        let session = session();
        let options = Options {
            threads: false,
            places: false,
            memory: false,
            threads_every: Nanos(0),
            events: false,
            noise: false,
        };
        let mut collector = Collector::open(&session, options);
        let frame = collector.frame().expect("it can be read");
        assert!(frame.rows(Entity::Thread).is_empty());
        assert!(frame.rows(Entity::Pset)[0].number(pset::RUNNABLE).is_none());
        let process = &frame.rows(Entity::Process)[0];
        assert!(process.number(millpond_observe::catalogue::process::SET).is_none());
    }
}
