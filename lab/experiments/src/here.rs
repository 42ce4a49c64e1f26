//! Experiments on the real machine: its facts, and programs that begin and end there.

use crate::Failure;
use crate::ground::{self, Facts};
use crate::pools;
use crate::program::Program;
use crate::published::{Choices, Findings, real};
use millpond_machine::{Absent, Machine};
use millpond_model::{CpuId, Nanos, Pid};
use millpond_session::{Kind, Session};
use serde_json::Value;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The real machine, with the context of an experiment.
pub struct Here<'a> {
    /// The machine.
    pub session: &'a Session,
    /// The program with the command `load`: this one.
    pub program: &'a Path,
    /// Set to request a stop.
    pub stop: &'a AtomicBool,
    /// Called with progress messages.
    pub tell: &'a mut dyn FnMut(&str),
}

/// Runs an experiment on the real machine.
pub type RunHere = fn(&mut Here<'_>, &Choices, &mut Findings) -> Result<(), Failure>;

/// Facts, usable CPUs, and whether pools can be created.
pub(crate) type Found = (Facts, Vec<CpuId>, Result<(), Absent>);

/// Polling interval of the stop flag.
const LOOK: Nanos = Nanos::from_millis(500);

impl<'a> Here<'a> {
    /// Reads the machine's facts, the usable CPUs of the default set (at least two), and whether pools can be created.
    ///
    /// # Errors
    /// [`Failure::NotHere`] where programs do not run, where pools or sets are in use, and with fewer than two CPUs.
    pub(crate) fn look(&mut self) -> Result<Found, Failure> {
        if self.session.kind() != Kind::Real {
            let why = format!("machine {} runs no programs of ours", self.machine().name());
            return Err(Failure::NotHere(Absent::because(why)));
        }
        let (facts, free) = ground::read(self.session)?;
        let pools = pools::are_free(self.machine())?;
        if free.len() < 2 {
            let why =
                format!("there is nothing to share out: it may use CPUs {} of this machine", facts.free);
            return Err(Failure::NotHere(Absent::because(why)));
        }
        Ok((facts, free, pools))
    }

    pub(crate) fn machine(&self) -> &'a dyn Machine {
        self.session.machine()
    }

    /// Starts a single-threaded load, which `place` binds; then initializes it.
    pub(crate) fn ready(
        &self,
        name: &str,
        words: &str,
        place: impl FnOnce(Pid) -> Result<(), Failure>,
    ) -> Result<Program, Failure> {
        let words: Vec<&str> = words.split_whitespace().collect();
        let mut program = Program::start(name, self.program, &words)?;
        place(program.pid())?;
        program.go()?;
        program.wait_for("ready", self.stop)?;
        Ok(program)
    }

    /// Begins an initialized load.
    pub(crate) fn begin(&self, program: &mut Program) -> Result<(), Failure> {
        program.go()?;
        program.wait_for("started", self.stop).map(drop)
    }

    /// Ends a load; returns its result.
    pub(crate) fn end(&self, mut program: Program) -> Result<Value, Failure> {
        program.finish();
        program.result(self.stop)
    }

    /// Measures for a second, with a thread of `load spin` on each of these CPUs: iterations per second of CPU time, and the fraction of
    /// their time that was available.
    pub(crate) fn speed(&mut self, free: &[CpuId]) -> Result<(f64, f64), Failure> {
        (self.tell)("the speed of a CPU");
        let threads = free.len();
        let mut program = self.ready("spin", &format!("spin --threads {threads}"), |_| Ok(()))?;
        self.begin(&mut program)?;
        let clock = self.machine().clock();
        let began = clock.now();
        self.wait(began + Nanos::from_secs(1))?;
        let result = self.end(program)?;
        let seconds = (clock.now() - began).as_secs_f64() * real(threads as u64);
        let threads = result["threads"].as_array().into_iter().flatten();
        let used: f64 = threads.filter_map(|thread| thread["cpu_seconds"].as_f64()).sum();
        Ok((real(iterations(&result)) / used.max(f64::MIN_POSITIVE), (used / seconds).min(1.0)))
    }

    /// Sleeps until a time.
    pub(crate) fn wait(&self, until: Nanos) -> Result<(), Failure> {
        let clock = self.machine().clock();
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Failure::Stopped);
            }
            let now = clock.now();
            if now >= until {
                return Ok(());
            }
            clock.sleep_until(until.min(now + LOOK));
        }
    }
}

/// A note about a machine of which only a part was available.
pub(crate) fn shared(part: f64) -> Option<String> {
    let taken = 100.0 * (1.0 - part);
    (taken >= 3.0).then(|| {
        format!("other programs used {taken:.0} % of the CPUs just before: these are no figures of a quiet machine")
    })
}

/// The iterations of all threads of `load spin`.
pub(crate) fn iterations(result: &Value) -> u64 {
    let threads = result["threads"].as_array().into_iter().flatten();
    threads.filter_map(|thread| thread["iterations"].as_u64()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_session::OpenOptions;

    #[test]
    fn a_simulated_machine_runs_no_programs() {
        let options = OpenOptions { machine: "t2000".parse().unwrap(), ..OpenOptions::default() };
        let session = Session::open(&options).unwrap();
        let (stop, program) = (AtomicBool::new(false), Path::new("millpond"));
        let mut here = Here { session: &session, program, stop: &stop, tell: &mut |_| () };
        assert_eq!(here.look().unwrap_err().to_string(), "machine t2000 runs no programs of ours");
    }

    #[test]
    fn a_machine_that_others_use_is_said_to_be_that() {
        let said = shared(0.7).unwrap();
        assert!(said.starts_with("other programs used 30 % of the CPUs"), "{said}");
        assert_eq!(shared(0.98), None);
    }

    #[test]
    fn iterations_of_all_threads_are_added() {
        let result =
            serde_json::json!({ "threads": [{ "iterations": 3, "cpu_seconds": 0.1 }, { "iterations": 4 }] });
        assert_eq!((iterations(&result), iterations(&Value::Null)), (7, 0));
    }
}
