//! The three phases: what is done to the machine, the stream, and what is counted meanwhile.

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

/// Addresses of the near and the far device, in namespaces of their own.
const NEAR: &str = "10.0.0.2/30";
const FAR: &str = "10.0.0.1/30";
/// Where the far end waits: on the far device, or on the loopback.
const FAR_PORT: &str = "10.0.0.1:5001";
const LOOPBACK_PORT: &str = "127.0.0.1:0";

/// Small writes that never sleep: some hundred thousand system calls a second, as the published stream made.
const WRITE_BYTES: &str = "1024";

/// The stream is ended, not awaited.
const STREAM_SECONDS: &str = "86400";

/// How long the stream runs before it is measured.
const WARM_UP: Nanos = Nanos::from_secs(1);

/// How often a second it is looked where the stream runs: out of step with every clock and tick, and seldom, since each look
/// is an interrupt on a CPU whose interrupts are counted.
const FREQUENCY_HZ: u64 = 47;

/// Most steps of a change that are shown.
const STEPS_SHOWN_MAX: usize = 12;

/// Network devices that programs take into namespaces of their own. Dropped, on any way out after those programs, it waits until the machine
/// has its devices again, so that what is read afterwards is whole.
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
        // The caller has an error to report already, or has waited before.
        let _ = self.come_back();
    }
}

/// Where the experiment is done.
pub(super) struct Lab<'a, 't> {
    pub session: &'a Session,
    pub options: &'a Options<'a>,
    pub set: Vec<CpuId>,
    pub tell: &'t mut dyn FnMut(Event<'_>),
}

impl Lab<'_, '_> {
    /// All three phases. What is made is dropped, on any way out, in the reverse order of its making.
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

    /// Starts the far end and gives the address where it waits.
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

    /// One phase, with the stream's near end in the set named, if one is.
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
        // Beginning to watch takes its time, and interrupts every CPU: before there is a stream.
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

    /// Begins to watch CPUs, and the stream's near end.
    fn watches(&self, near: Pid) -> Result<Watches<'_>, Failure> {
        let machine = self.session.machine();
        let counters = machine.counters().map_err(Failure::NotHere)?;
        // Read twice in a phase: that costs a sheltered CPU two interrupts, which is less than not knowing.
        let counts = counters
            .watch(WatchOptions { touch_fenced: true, ..WatchOptions::default() })
            .map_err(Failure::NotHere)?;
        // Where there are no samples, the system calls tell where it ran.
        let sightings = machine
            .sampler()
            .and_then(|sampler| sampler.watch(&[near], Method::MeasureOrSample(FREQUENCY_HZ)))
            .ok();
        Ok(Watches { counts, sightings })
    }

    /// Counts what CPUs do while the stream runs.
    fn measure(&self, watches: Watches<'_>) -> Result<Measured, Failure> {
        let Watches { mut counts, mut sightings } = watches;
        self.wait(WARM_UP)?;
        let names_before = self.session.interrupt_counts().map_err(Failure::NotHere)?;
        // Where it ran until now is of no interest; what cannot be collected now cannot be later.
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

    /// On a machine that is not ours: what `psrset -f` would do.
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

    /// The published experiment ends with a listing: all on-line, with new times on the set's CPUs only.
    fn afterwards(&self, before: &[ProcessorStatus]) -> Result<Afterwards, Failure> {
        let after = self.states()?;
        let as_before = |status: &ProcessorStatus| {
            before.iter().any(|old| old.cpu == status.cpu && old.state == status.state)
        };
        let renewed: CpuSet = after.iter().filter(|new| !before.contains(new)).map(|new| new.cpu).collect();
        Ok(Afterwards { same_states: after.iter().all(as_before), renewed: renewed.to_string() })
    }
}

/// What counts in a phase.
struct Watches<'m> {
    counts: Box<dyn CounterWatch + 'm>,
    sightings: Option<Box<dyn OccupancyWatch + 'm>>,
}

/// What was counted in a phase.
struct Measured {
    figures: Figures,
    mpstat: String,
    causes: Vec<Cause>,
}
