//! The method behind the figures, in sentences: where the threads of a program spend their time, and the conclusions, step by step.

use crate::Failure;
use millpond_machine::Machine;
use millpond_machine::facets::{CensusOptions, CensusWatch, Depth};
use millpond_model::{Microstate, Pid, Spent};
use millpond_observe::Follower;
use millpond_observe::diagnosis::{CPI_OF_MEMORY, WORTH_A_WORD};

/// Measures where the threads of a program spend their time.
pub(super) struct Look<'a> {
    watch: Box<dyn CensusWatch + 'a>,
    follower: Follower,
}

impl<'a> Look<'a> {
    /// Starts measuring.
    ///
    /// # Errors
    /// [`Failure`] where microstates are unavailable.
    pub(super) fn begin(machine: &'a dyn Machine) -> Result<Look<'a>, Failure> {
        let options = CensusOptions { threads: true, depth: Depth::Measured, ..CensusOptions::default() };
        let census = machine.census().map_err(Failure::NotHere)?;
        let mut watch = census.watch(options).map_err(Failure::NotHere)?;
        let mut follower = Follower::default();
        follower.begin(&watch.sample().map_err(Failure::refused("read processes"))?);
        Ok(Look { watch, follower })
    }

    /// The time of a process by microstate since the start.
    ///
    /// # Errors
    /// [`Failure`] where microstates are unavailable, or the process has ended.
    pub(super) fn end(mut self, pid: Pid) -> Result<Parts, Failure> {
        let roster = self.watch.sample().map_err(Failure::refused("read processes"))?;
        let picture = self.follower.next(roster);
        let at = picture.roster.processes.iter().position(|process| process.pid == pid);
        let spent = at.and_then(|at| picture.process_spent.get(at));
        let gone = || Failure::Machine(format!("process {pid} ended meanwhile"));
        Ok(Parts::of(spent.ok_or_else(gone)?))
    }
}

/// Fractions of the threads' time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Parts {
    user: f64,
    lock: f64,
    latency: f64,
}

impl Parts {
    fn of(spent: &Spent) -> Parts {
        let all = spent.total().as_secs_f64().max(f64::MIN_POSITIVE);
        let part =
            |state: Microstate| spent.times[state.index()].map_or(0.0, |time| time.as_secs_f64() / all);
        Parts {
            user: part(Microstate::User),
            lock: part(Microstate::Lock),
            latency: part(Microstate::Latency),
        }
    }
}

/// The conclusions from a program's figures, step by step. A step is only taken if the ones before do not explain the time.
pub(super) fn sentence(machine: &str, parts: Parts, cpi: f64) -> String {
    let percent = |part: f64| format!("{:.1} %", part * 100.0);
    let Parts { user, lock, latency } = parts;
    let time = format!(
        "{machine}: the threads of the application spend {} of their time in user mode (USR), {} waiting for locks (LCK), {} waiting for a CPU (LAT)",
        percent(user),
        percent(lock),
        percent(latency)
    );
    let verdict = if latency >= WORTH_A_WORD {
        "so what it lacks is CPUs".to_owned()
    } else if lock >= WORTH_A_WORD {
        "so what it waits for is its own threads".to_owned()
    } else if cpi >= CPI_OF_MEMORY {
        format!(
            "so neither locks nor CPUs are the trouble, and cycles for an instruction decide: {cpi:.2} is memory that is waited for"
        )
    } else {
        format!("so it computes: {cpi:.2} cycles for an instruction leave little to wait for")
    };
    format!("{time}; {verdict}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::Nanos;

    #[test]
    fn parts_are_of_all_time() {
        let mut spent = Spent::default();
        spent.times[Microstate::User.index()] = Some(Nanos(600));
        spent.times[Microstate::Lock.index()] = Some(Nanos(100));
        spent.times[Microstate::Latency.index()] = Some(Nanos(300));
        assert_eq!(Parts::of(&spent), Parts { user: 0.6, lock: 0.1, latency: 0.3 });
        assert_eq!(Parts::of(&Spent::default()), Parts::default());
    }

    #[test]
    fn memory_is_blamed_when_nothing_else_is_left() {
        let says = |parts, cpi, what: &str| {
            let text = sentence("m", parts, cpi);
            assert!(text.contains(what), "{text}");
        };
        let busy = Parts { user: 1.0, lock: 0.0, latency: 0.0 };
        says(busy, 4.06, "spend 100.0 % of their time in user mode (USR), 0.0 % waiting for locks");
        says(busy, 4.06, "4.06 is memory that is waited for");
        says(busy, 1.08, "so it computes: 1.08 cycles");
        says(Parts { user: 0.5, lock: 0.0, latency: 0.5 }, 4.06, "what it lacks is CPUs");
        says(Parts { user: 0.5, lock: 0.5, latency: 0.0 }, 4.06, "waits for is its own threads");
    }
}
