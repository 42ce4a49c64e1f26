//! The three phases: changes of the machine, the stream, and the measurements.

use super::causes::{Cause, causes};
use super::report::{Afterwards, E1, Phase, listing};
use super::roles::observed;
use super::{Event, Figures, Options};
use crate::program::Program;
use crate::sets::{self, MadeSet, Shelter};
use crate::{Facts, Failure};
use millpond_machine::facets::{
    CounterWatch, CreateOptions, Method, OccupancyWatch, ProcessorStatus, WatchOptions,
};
use millpond_model::{CpuId, CpuSet, Nanos, Pid, PsetId};
use millpond_observe::Rates;
use millpond_session::Session;
use millpond_workloads::stream::{StreamResult, await_return};
use std::sync::atomic::Ordering;

/// Addresses of the near and the far device, in separate network namespaces.
const NEAR: &str = "10.0.0.2/30";
const FAR: &str = "10.0.0.1/30";
/// Address of the far end: on the far device, or on the loopback.
const FAR_PORT: &str = "10.0.0.1:5001";
const LOOPBACK_PORT: &str = "127.0.0.1:0";

/// Size of the writes: small, without sleeps, for some hundred thousand system calls a second, like the published stream.
const WRITE_BYTES: &str = "1024";

/// Longer than any phase: the stream is ended explicitly.
const STREAM_SECONDS: &str = "86400";

/// Run time of the stream before the measurement.
const WARM_UP: Nanos = Nanos::from_secs(1);

/// Sampling frequency for the stream's CPU. It does not coincide with any clock or tick, and is low, because each sample is an
/// interrupt on a CPU whose interrupts are counted.
const FREQUENCY_HZ: u64 = 47;

/// Maximum number of displayed steps of a change.
const STEPS_SHOWN_MAX: usize = 12;

/// Network devices that programs move into namespaces of their own. When it is dropped, after those programs, it waits until the machine
/// has its devices again, so that later readings are complete.
struct Lent<'a>(Option<[&'a str; 2]>);

impl Lent<'_> {
    fn come_back(&self) -> Result<(), Failure> {
        self.0.iter().flatten().try_for_each(|device| {
            await_return(device)
                .map_err(|error| Failure::Program { program: (*device).to_owned(), why: error.to_string() })
        })
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        // The caller already has an error to report, or has waited before.
        let _ = self.come_back();
    }
}

/// The state of the experiment.
pub(super) struct Lab<'a, 't> {
    pub session: &'a Session,
    pub options: &'a Options<'a>,
    pub set: Vec<CpuId>,
    pub tell: &'t mut dyn FnMut(Event<'_>),
}

impl Lab<'_, '_> {
    /// Runs all three phases. On every exit, created objects are dropped in reverse order of creation.
    pub fn run(mut self, facts: Facts) -> Result<E1, Failure> {
        let machine = self.session.machine();
        let before = self.states()?;
        let cpus = self.cpus();
        (self.tell)(Event::Machine(&facts, &cpus.to_string()));
        let mut phases = Vec::new();

        let lent = Lent(self.options.nics);
        let (mut far, address) = self.start_far_end()?;
        let all = format!("phase 1: all {} CPUs take interrupts", before.len());
        phases.push(self.phase(0, all, None, &address, Vec::new())?);

        let options = CreateOptions { keep_others: !self.options.full };
        let set = MadeSet::make(machine, &self.set, options, &mut |note| (self.tell)(Event::Note(note)))?;
        let mut left_out = Vec::new();
        let shelter = if self.options.full {
            Some(Shelter::make(machine, &self.set, &mut |note| (self.tell)(Event::Note(note)))?)
        } else {
            left_out = self.would_be_steered()?;
            None
        };
        sets::bind(machine, far.pid(), PsetId::DEFAULT, &mut |note| (self.tell)(Event::Note(note)))?;
        let number = set.id();
        let made = match self.options.full {
            true => format!("psrset -c {cpus}, psrset -f {number}"),
            false => format!("psrset -c --keep-others {cpus}"),
        };
        let outside = format!("phase 2: {made}; the stream outside");
        phases.push(self.phase(1, outside, Some(PsetId::DEFAULT), &address, left_out)?);

        let inside = format!("phase 3: psrset -e {number}: the stream inside");
        phases.push(self.phase(2, inside, Some(number), &address, Vec::new())?);

        far.finish();
        drop(far);
        lent.come_back()?;
        if let Some(shelter) = shelter {
            shelter.end()?;
        }
        set.end()?;
        let afterwards = self.afterwards(&before)?;
        Ok(E1 { machine: facts, set: cpus.to_string(), full: self.options.full, phases, afterwards })
    }

    fn cpus(&self) -> CpuSet {
        self.set.iter().copied().collect()
    }

    /// Starts the far end; returns its address.
    fn start_far_end(&self) -> Result<(Program, String), Failure> {
        let mut words = vec!["stream", "--server"];
        match self.options.nics {
            None => words.push(LOOPBACK_PORT),
            Some([_, far]) => words.extend([FAR_PORT, "--nic", far, "--address", FAR]),
        }
        let mut far = Program::start("the far end of the stream", self.options.program, &words)?;
        far.go()?;
        let ready = far.wait_for("ready", self.options.stop)?;
        far.go()?;
        let address = ready["address"].as_str().unwrap_or_default().to_owned();
        Ok((far, address))
    }

    /// Runs one phase, with the stream's near end in the named set, if any.
    fn phase(
        &mut self,
        number: usize,
        sentence: String,
        set: Option<PsetId>,
        address: &str,
        left_out: Vec<String>,
    ) -> Result<Phase, Failure> {
        (self.tell)(Event::Begin(&sentence));
        let mut words = vec![
            "stream",
            "--connect",
            address,
            "--spin",
            "--bytes",
            WRITE_BYTES,
            "--seconds",
            STREAM_SECONDS,
        ];
        if let Some([near, _]) = self.options.nics {
            words.extend(["--nic", near, "--address", NEAR]);
        }
        let mut near = Program::start("the near end of the stream", self.options.program, &words)?;
        if let Some(set) = set {
            let machine = self.session.machine();
            sets::bind(machine, near.pid(), set, &mut |note| (self.tell)(Event::Note(note)))?;
        }
        near.go()?;
        near.wait_for("ready", self.options.stop)?;
        // Starting the counters takes time and interrupts every CPU, so do it before the stream.
        let watches = self.watches(near.pid())?;
        near.go()?;
        near.wait_for("started", self.options.stop)?;
        let measured = self.measure(watches)?;
        near.finish();
        let result = near.result(self.options.stop)?;
        let stream: StreamResult = serde_json::from_value(result)
            .map_err(|error| Failure::Program { program: near.name.clone(), why: error.to_string() })?;
        let Measured { figures, mpstat, causes } = measured;
        let [out_mbits, in_mbits] =
            [stream.out_flow, stream.in_flow].map(|flow| Some(flow.mbits_per_second()));
        let figures = Figures { out_mbits, in_mbits, ..figures };
        let phase = Phase { sentence, stream, figures, mpstat, causes, left_out };
        (self.tell)(Event::Done(number, &phase));
        Ok(phase)
    }

    /// Starts the counters of CPUs, and the sampling of the stream's near end.
    fn watches(&self, near: Pid) -> Result<Watches<'_>, Failure> {
        let machine = self.session.machine();
        let counters = machine.counters().map_err(Failure::NotHere)?;
        // Two readings per phase cost a fenced CPU two interrupts, which is acceptable.
        let counts = counters
            .watch(WatchOptions { touch_fenced: true, ..WatchOptions::default() })
            .map_err(Failure::NotHere)?;
        // Without samples, system calls identify the stream's CPU.
        let sightings = machine
            .sampler()
            .and_then(|sampler| sampler.watch(&[near], Method::MeasureOrSample(FREQUENCY_HZ)))
            .ok();
        Ok(Watches { counts, sightings })
    }

    /// Measures the CPUs while the stream runs.
    fn measure(&self, watches: Watches<'_>) -> Result<Measured, Failure> {
        let Watches { mut counts, mut sightings } = watches;
        self.wait(WARM_UP)?;
        let names_before = self.session.interrupt_counts().map_err(Failure::NotHere)?;
        // Discard the samples so far. An error here would occur again later.
        let _ = sightings.as_mut().map(|watch| watch.collect());
        let before = counts.sample().map_err(Failure::refused("read counters"))?;
        self.wait(Nanos::from_secs(self.options.seconds))?;
        let after = counts.sample().map_err(Failure::refused("read counters"))?;
        let seen = sightings.as_mut().and_then(|watch| watch.collect().ok()).and_then(|residence| {
            residence.sightings.into_iter().max_by_key(|sighting| sighting.time).map(|most| most.cpu)
        });
        let names_after = self.session.interrupt_counts().map_err(Failure::NotHere)?;
        let frame = Rates::between(&before, &after);
        let (cpus, seconds) = (self.cpus(), (after.at - before.at).as_secs_f64());
        let causes = causes(&names_before, &names_after, &cpus, seconds);
        Ok(Measured { figures: observed(&frame, &cpus, seen), mpstat: listing(&frame), causes })
    }

    fn wait(&self, time: Nanos) -> Result<(), Failure> {
        let clock = self.session.machine().clock();
        let deadline = clock.now() + time;
        while clock.now() < deadline {
            clock.sleep_until(deadline);
            if self.options.stop.load(Ordering::Relaxed) {
                return Err(Failure::Stopped);
            }
        }
        Ok(())
    }

    /// The steps that `psrset -f` would execute, on a shared machine.
    fn would_be_steered(&self) -> Result<Vec<String>, Failure> {
        let steps = sets::shelter_steps(self.session.machine(), &self.set)?;
        let why = "interrupts are not moved on a machine that is not the experiment's own (--full says that it is); \
                   psrset -f would take these steps:";
        let mut lines = vec![why.to_owned()];
        lines.extend(steps.iter().take(STEPS_SHOWN_MAX).map(|step| format!("  {step}")));
        if steps.len() > STEPS_SHOWN_MAX {
            lines.push(format!("  and {} more", steps.len() - STEPS_SHOWN_MAX));
        }
        Ok(lines)
    }

    fn states(&self) -> Result<Vec<ProcessorStatus>, Failure> {
        let processors = self.session.machine().processors().map_err(Failure::NotHere)?;
        processors.states().map_err(Failure::refused("read CPUs"))
    }

    /// The published experiment ends with a listing: all CPUs on-line, with new times only on the set's CPUs.
    fn afterwards(&self, before: &[ProcessorStatus]) -> Result<Afterwards, Failure> {
        let after = self.states()?;
        let as_before = |status: &ProcessorStatus| {
            before.iter().any(|old| old.cpu == status.cpu && old.state == status.state)
        };
        let renewed: CpuSet = after.iter().filter(|new| !before.contains(new)).map(|new| new.cpu).collect();
        Ok(Afterwards { same_states: after.iter().all(as_before), renewed: renewed.to_string() })
    }
}

/// The counters of a phase.
struct Watches<'m> {
    counts: Box<dyn CounterWatch + 'm>,
    sightings: Option<Box<dyn OccupancyWatch + 'm>>,
}

/// The measurements of a phase.
struct Measured {
    figures: Figures,
    mpstat: String,
    causes: Vec<Cause>,
}
