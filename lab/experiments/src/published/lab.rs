//! The environment of experiments: simulated machines, workloads on them, and time.
//!
//! A *change* sets a parameter of the model, a number of a machine file or an option of a workload, to another value. The caller of an
//! experiment may set changes; the experiment does not see them.

use super::fits::Parameter;
use crate::Failure;
use crate::sets::{self, MadeSet};
use millpond_machine::Machine;
use millpond_machine::facets::{CreateOptions, Method, Residence};
use millpond_model::{CpuId, Nanos, Outcome, Pid, State, Topology};
use millpond_session::{FieldChange, Load, Session, Simulation, Stopwatch, Workload, machine_field};
use serde_json::Value;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

/// Simulated time between two checks of the stop flag.
const SLICE: Nanos = Nanos(200_000_000);

/// Samples per second of threads' CPUs, as in the published experiments.
const FREQUENCY_HZ: u64 = 100;

/// The default seed.
const FIRST_SEED: u64 = 1;

/// Steps in nanoseconds whose multiples modulo a second are evenly distributed over the second, and as pairs over the square: 1/g and
/// 1/g^2 of Roberts' sequence, where g^3 = g + 1.
const STEPS: [u64; 2] = [754_877_666, 569_840_291];

/// A time within a second for each seed: 0 for the first one, and a step later for each next one.
fn moment(seed: u64, step: u64) -> Nanos {
    let later = u128::from(seed.wrapping_sub(FIRST_SEED)) * u128::from(step);
    Nanos(u64::try_from(later % 1_000_000_000).unwrap_or(0))
}

/// A new value of a parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The parameter.
    pub parameter: Parameter,
    /// The value, in the unit of the field or the option.
    pub value: f64,
}

/// The environment of experiments.
pub struct Lab<'a> {
    stop: &'a AtomicBool,
    changes: Vec<Change>,
    seed: u64,
    tell: &'a mut dyn FnMut(&str),
    progress: Option<Progress<'a>>,
}

/// Called periodically with the fraction of the simulated time that has passed, and the real time that it took.
pub type Progress<'a> = RefCell<&'a mut dyn FnMut(f64, Nanos)>;

/// Interval of these calls.
const TOLD_EVERY: Nanos = Nanos(1_000_000_000);

impl<'a> Lab<'a> {
    /// A laboratory. `stop` is set to request a stop; `tell` is called with progress messages.
    pub fn new(stop: &'a AtomicBool, changes: Vec<Change>, tell: &'a mut dyn FnMut(&str)) -> Lab<'a> {
        Lab { stop, changes, seed: FIRST_SEED, tell, progress: None }
    }

    /// The same with a callback for the progress of the current step.
    #[must_use]
    pub fn showing(self, progress: &'a mut dyn FnMut(f64, Nanos)) -> Lab<'a> {
        Lab { progress: Some(RefCell::new(progress)), ..self }
    }

    /// Sets the seed of machines that are opened from now on.
    pub fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// The seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// A time within a second that is independent of the start of machines.
    pub(crate) fn second_moment(&self) -> Nanos {
        moment(self.seed, STEPS[1])
    }

    /// The stop flag.
    pub(crate) fn stop(&self) -> &'a AtomicBool {
        self.stop
    }

    /// Reports the current step.
    pub fn tell(&mut self, what: &str) {
        (self.tell)(what);
    }

    /// Opens a freshly booted machine.
    ///
    /// # Errors
    /// [`Failure::Machine`] for an unknown name.
    pub fn open(&self, machine: &str) -> Result<Bench, Failure> {
        self.open_with(machine, &Value::Null)
    }

    /// The same with a merge patch of the machine file.
    ///
    /// # Errors
    /// [`Failure::Machine`] for an unknown name or an invalid patch.
    pub fn open_with(&self, machine: &str, patch: &Value) -> Result<Bench, Failure> {
        let field = |change: &Change| match &change.parameter {
            Parameter::Machine { machine, field } => {
                Some(FieldChange { machine: machine.clone(), field: field.clone(), value: change.value })
            }
            Parameter::Workload { .. } => None,
        };
        let fields: Vec<FieldChange> = self.changes.iter().filter_map(field).collect();
        let session = Session::open_changed(machine, patch, &fields)
            .map_err(|error| Failure::Machine(error.to_string()))?;
        let bench = Bench::new(session, self.changes.clone())?;
        bench.simulation()?.set_seed(self.seed);
        // An experiment starts at a random time within a second.
        let _ = bench.simulation()?.run_for(moment(self.seed, STEPS[0]));
        Ok(bench)
    }

    /// Opens the machine of a machine file.
    ///
    /// # Errors
    /// [`Failure::Machine`] for an invalid file.
    pub fn open_described(&self, file: &Value) -> Result<Bench, Failure> {
        let name = file["name"].as_str().unwrap_or("the machine file");
        let session = Session::described(file, name).map_err(|error| Failure::Machine(error.to_string()))?;
        Bench::new(session, self.changes.clone())
    }

    /// Advances time on a machine.
    ///
    /// # Errors
    /// [`Failure::Stopped`], or [`Failure::Machine`] when the machine halts.
    pub fn pass(&self, bench: &Bench, time: Nanos) -> Result<(), Failure> {
        let mut left = time.0;
        let (watch, mut told) = (Stopwatch::start(), Nanos(0));
        loop {
            let elapsed = watch.elapsed();
            if let Some(progress) = self.progress.as_ref().filter(|_| elapsed - told >= TOLD_EVERY) {
                told = elapsed;
                (progress.borrow_mut())(real(time.0 - left) / real(time.0.max(1)), elapsed);
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(Failure::Stopped);
            }
            let slice = left.min(SLICE.0);
            if let Outcome::Halted(halt) = bench.simulation()?.run_for(Nanos(slice)) {
                return Err(Failure::Machine(format!("machine {} died: {halt}", bench.name())));
            }
            left -= slice;
            if left == 0 {
                return Ok(());
            }
        }
    }

    /// Advances time, and returns the operations per second of processes.
    ///
    /// # Errors
    /// As [`Lab::pass`].
    pub fn rates(&self, bench: &Bench, pids: &[Pid], time: Nanos) -> Result<Vec<f64>, Failure> {
        let before = bench.operations(pids)?;
        self.pass(bench, time)?;
        let after = bench.operations(pids)?;
        Ok(before
            .iter()
            .zip(after)
            .map(|(before, after)| real(after - before) * 1e9 / real(time.0))
            .collect())
    }

    /// Advances time by seconds, and returns samples of threads' CPUs for each second, a hundred per second, and the operations per second.
    ///
    /// # Errors
    /// As [`Lab::pass`].
    pub fn watch(&self, bench: &Bench, pids: &[Pid], seconds: u64) -> Result<Watched, Failure> {
        let sampler = bench.machine().sampler().map_err(Failure::NotHere)?;
        let mut watch = sampler.watch(pids, Method::Sample(FREQUENCY_HZ)).map_err(Failure::NotHere)?;
        let before = bench.operations(pids)?;
        let mut residence = Vec::new();
        for _ in 0..seconds {
            self.pass(bench, Nanos::from_secs(1))?;
            residence.push(watch.collect().map_err(Failure::refused("watch where programs run"))?);
        }
        let after = bench.operations(pids)?;
        let rates =
            before.iter().zip(after).map(|(before, after)| real(after - before) / real(seconds.max(1)));
        Ok(Watched { rates: rates.collect(), residence })
    }
}

/// Measurements of processes.
#[derive(Debug, Clone, PartialEq)]
pub struct Watched {
    /// Operations per second of each process.
    pub rates: Vec<f64>,
    /// Samples of their CPUs, second by second.
    pub residence: Vec<Residence>,
}

impl Watched {
    /// Number of samples of a process on a CPU, second by second.
    #[must_use]
    pub fn samples(&self, pid: Pid, cpu: CpuId) -> Vec<u64> {
        let of = |residence: &Residence| {
            let here = residence.sightings.iter().filter(|seen| (seen.pid, seen.cpu) == (pid, cpu));
            here.map(|seen| seen.time.0 * FREQUENCY_HZ / 1_000_000_000).sum()
        };
        self.residence.iter().map(of).collect()
    }
}

/// A simulated machine of an experiment.
pub struct Bench {
    session: Session,
    topology: Topology,
    changes: Vec<Change>,
}

impl Bench {
    fn new(session: Session, changes: Vec<Change>) -> Result<Bench, Failure> {
        let processors = session.machine().processors().map_err(Failure::NotHere)?;
        let topology = processors.topology().map_err(Failure::refused("read CPUs"))?;
        Ok(Bench { session, topology, changes })
    }

    /// The machine, for all operations of commands.
    #[must_use]
    pub fn machine(&self) -> &dyn Machine {
        self.session.machine()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.session.machine().name()
    }

    /// The operations that only simulated machines have.
    ///
    /// # Errors
    /// [`Failure::Machine`] for other machines.
    pub fn simulation(&self) -> Result<Simulation<'_>, Failure> {
        let not = || Failure::Machine(format!("machine {} is not simulated", self.name()));
        self.session.simulation().ok_or_else(not)
    }

    /// Its topology.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// A description of the machine in one line.
    #[must_use]
    pub fn sentence(&self) -> String {
        let counted =
            |count: usize, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
        let first = self.topology.processors().first();
        let clock = first.and_then(|p| p.clock_mhz).map(|mhz| format!(", {mhz} MHz")).unwrap_or_default();
        format!(
            "{}: {} on {}, {}, {}{clock}",
            self.name(),
            counted(self.topology.processors().len(), "CPU"),
            counted(self.topology.cores().len(), "core"),
            counted(self.topology.chips().len(), "chip"),
            counted(self.topology.lgroups().len(), "lgroup"),
        )
    }

    /// Refuses a machine with one CPU, for experiments that separate CPUs.
    ///
    /// # Errors
    /// [`Failure`] on a machine of one CPU.
    pub fn needs_two(&self) -> Result<(), Failure> {
        match self.topology.cpus().len() {
            0 | 1 => Err(Failure::Machine(format!("machine {} has one CPU: this needs two", self.name()))),
            _ => Ok(()),
        }
    }

    /// Its CPUs, by number.
    #[must_use]
    pub fn cpus(&self) -> Vec<CpuId> {
        self.topology.cpus().iter().collect()
    }

    /// Starts a workload (`cg -t 4 --wait spin`) in a zone, or in the global one if the machine has no such zone. It runs when
    /// time advances.
    ///
    /// # Errors
    /// [`Failure::Program`] for an invalid workload.
    pub fn start(&self, words: &str, zone: &str) -> Result<Pid, Failure> {
        let refused = |why: String| Failure::Program { program: words.to_owned(), why };
        let mut all: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        for change in &self.changes {
            let Parameter::Workload { workload, option } = &change.parameter else { continue };
            if all.first().is_some_and(|name| name == workload) {
                let written = Workload::named(workload).map(|known| known.written(option, change.value));
                all.extend([option.clone(), written.unwrap_or_default()]);
            }
        }
        let load = Load::parse(&all).map_err(|error| refused(format!("{error}; {}", error.remedy)))?;
        let simulation = self.simulation()?;
        Ok(simulation.start_in(zone, &load).unwrap_or_else(|_| simulation.start(&load)))
    }

    /// Takes CPUs off-line.
    ///
    /// # Errors
    /// [`Failure::Refused`] when the machine refuses.
    pub fn off_line(&self, cpus: &[CpuId]) -> Result<(), Failure> {
        sets::set_states(self.machine(), cpus, State::OffLine, &mut |_| ())
    }

    /// Operations of processes so far.
    pub(crate) fn operations(&self, pids: &[Pid]) -> Result<Vec<u64>, Failure> {
        let simulation = self.simulation()?;
        Ok(pids.iter().map(|pid| simulation.operations(*pid)).collect())
    }

    /// A processor set for the lifetime of a value. It is exclusive, because the machine is dedicated to the experiment.
    ///
    /// # Errors
    /// [`Failure::Refused`] when the machine refuses.
    pub fn set(&self, cpus: &[CpuId]) -> Result<MadeSet<'_>, Failure> {
        MadeSet::make(self.machine(), cpus, CreateOptions { keep_others: false }, &mut |_| ())
    }

    /// Binds a process to a set.
    ///
    /// # Errors
    /// [`Failure::Refused`] when the machine refuses.
    pub fn bind(&self, pid: Pid, set: &MadeSet<'_>) -> Result<(), Failure> {
        sets::bind(self.machine(), pid, set.id(), &mut |_| ())
    }

    /// Ends a process.
    ///
    /// # Errors
    /// [`Failure::Program`] for an unknown process.
    pub fn kill(&self, pid: Pid) -> Result<(), Failure> {
        let refused = |why: millpond_session::KillError| Failure::Program {
            program: format!("process {pid}"),
            why: why.to_string(),
        };
        self.simulation()?.kill(pid).map_err(refused)
    }
}

/// The present value of a parameter; `None` if it does not exist.
#[must_use]
pub fn own_value(parameter: &Parameter) -> Option<f64> {
    match parameter {
        Parameter::Machine { machine, field } => machine_field(machine, field),
        Parameter::Workload { workload, option } => Workload::named(workload)?.default_of(option),
    }
}

/// A count as a floating-point number.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of operations are far from the 53 bits that are exact"
)]
pub(crate) fn real(count: u64) -> f64 {
    count as f64
}

/// The mean; 0 without values.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / real(values.len().max(1) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameter(text: &str) -> Parameter {
        serde_json::from_str(text).unwrap()
    }

    fn rate(machine: &str, words: &str, changes: Vec<Change>) -> f64 {
        let (stop, mut quiet) = (AtomicBool::new(false), |_: &str| ());
        let lab = Lab::new(&stop, changes, &mut quiet);
        let bench = lab.open(machine).unwrap();
        let pid = bench.start(words, "zone1").unwrap();
        lab.rates(&bench, &[pid], Nanos::from_millis(100)).unwrap()[0]
    }

    #[test]
    fn changes_reach_workloads_and_machines() {
        let instructions = parameter(r#"{"workload":"cg","option":"--op-instructions"}"#);
        let default = own_value(&instructions).unwrap();
        let before = rate("smartos-2", "cg -t 1", Vec::new());
        let change = Change { parameter: instructions, value: default * 2.0 };
        let after = rate("smartos-2", "cg -t 1", vec![change]);
        assert!((before / after - 2.0).abs() < 0.02, "{before} {after}");

        let clock = parameter(r#"{"machine":"t2-64","field":"/processor/clock_mhz"}"#);
        assert_eq!(own_value(&clock), Some(1165.0));
        let (stop, mut quiet) = (AtomicBool::new(false), |_: &str| ());
        let lab = Lab::new(&stop, vec![Change { parameter: clock, value: 1400.0 }], &mut quiet);
        assert_eq!(
            lab.open("t2-64").unwrap().sentence(),
            "t2-64: 64 CPUs on 8 cores, 1 chip, 1 lgroup, 1400 MHz"
        );
    }

    #[test]
    fn what_is_not_there_is_refused_in_words() {
        let (stop, mut quiet) = (AtomicBool::new(false), |_: &str| ());
        let lab = Lab::new(&stop, Vec::new(), &mut quiet);
        let bench = lab.open("t2-64").unwrap();
        let refused = |words, zone| bench.start(words, zone).unwrap_err().to_string();
        assert!(refused("cg -t 0", "zone1").starts_with("cannot run cg -t 0: `0` is no N of cg; -t N is"));
        assert!(
            lab.open("deep-thought").err().unwrap().to_string().contains("there is no simulated machine")
        );
        assert_eq!(own_value(&parameter(r#"{"workload":"cg","option":"--wait"}"#)), None);
        assert_eq!(own_value(&parameter(r#"{"workload":"cg","option":"--colour"}"#)), None);
    }

    #[test]
    fn seeds_begin_all_over_a_second() {
        // 0, 754.9, 1509.8, 2264.6, 3019.5 milliseconds, modulo a second.
        let millis: Vec<u64> = (1..=5).map(|seed| moment(seed, STEPS[0]).0 / 1_000_000).collect();
        assert_eq!(millis, [0, 754, 509, 264, 19]);
        // Of twenty, about ten are in each half of a second, and all four combinations of halves occur.
        let halves = |seed| STEPS.map(|step| moment(seed, step).0 / 500_000_000);
        for quarter in [[0, 0], [0, 1], [1, 0], [1, 1]] {
            let count = (1..=20).filter(|seed| halves(*seed) == quarter).count();
            assert!((4..=6).contains(&count), "{quarter:?}: {count}");
        }
        assert!(moment(0, STEPS[1]).0 < 1_000_000_000);
    }

    #[test]
    fn an_experiment_that_is_asked_to_stop_does() {
        let (stop, mut quiet) = (AtomicBool::new(true), |_: &str| ());
        let lab = Lab::new(&stop, Vec::new(), &mut quiet);
        let bench = lab.open("smartos-2").unwrap();
        assert!(matches!(lab.pass(&bench, Nanos::from_secs(1)), Err(Failure::Stopped)));
    }
}
