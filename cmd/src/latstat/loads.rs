//! Loads on the other CPUs during a measurement, and the CPU time that they got.

use super::options::LoadKind;
use crate::failure::{Complaint, Failure, facet, read};
use millpond_machine::Machine;
use millpond_machine::facets::{Launch, LaunchMode, Program};
use millpond_model::{CpuId, CpuSet, Nanos, State};
use millpond_session::own_program;
use millpond_workloads::build::remove_files_of;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::ffi::OsString;

/// A load has started when it has had this much CPU time.
const BEGUN: Nanos = Nanos::from_millis(10);
/// The longest wait for that: a load of low priority may have to wait for CPU time.
const PATIENCE: Nanos = Nanos::from_secs(3);
/// The interval of checks.
const LOOK: Nanos = Nanos::from_millis(10);

/// The command line of millpond for a load that runs until it is ended.
fn words(kind: LoadKind) -> Result<Vec<OsString>, String> {
    let words: &[&str] = match kind {
        // More than a day.
        LoadKind::Hackbench => &["load", "hackbench", "--loops", "1000000000"],
        LoadKind::Build => &["load", "build"],
        LoadKind::Mpstat => &["mpstat", "1"],
    };
    Ok([own_program()?.into()].into_iter().chain(words.iter().map(Into::into)).collect())
}

/// A running load.
struct Load<'m> {
    kind: LoadKind,
    program: Box<dyn Program + 'm>,
    /// Its CPU time when the measurement began.
    before: Nanos,
}

impl Drop for Load<'_> {
    /// A load that ends slowly is killed before it has removed its files.
    fn drop(&mut self) {
        self.program.exit();
        if self.kind == LoadKind::Build {
            remove_files_of(self.program.pid().0);
        }
    }
}

/// All loads. They end when this is dropped.
#[derive(Default)]
pub(super) struct Loads<'m> {
    loads: Vec<Load<'m>>,
    others: u64,
    since: Nanos,
}

/// A load's result.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub(super) struct Got {
    #[serde(rename = "name")]
    pub kind: LoadKind,
    /// Percent of the CPU time of all CPUs except the measured one.
    #[serde(serialize_with = "tenths")]
    pub percent: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields so")]
fn tenths<S: Serializer>(percent: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((percent * 10.0).round() / 10.0)
}

fn cannot(kind: LoadKind, why: String) -> Complaint {
    Complaint::new(format!("run load {}", kind.name()), why)
}

impl<'m> Loads<'m> {
    /// Starts the loads on all CPUs that run threads, except for one.
    pub fn begin(machine: &'m dyn Machine, kinds: &[LoadKind], cpu: CpuId) -> Result<Self, Failure> {
        if kinds.is_empty() {
            return Ok(Loads::default());
        }
        let states = read("processors", facet("processors", machine.processors())?.states())?;
        let runs = |state: State| matches!(state, State::OnLine | State::NoIntr);
        let others: CpuSet =
            states.iter().filter(|status| runs(status.state) && status.cpu != cpu).map(|s| s.cpu).collect();
        if others.is_empty() {
            return Err(Complaint::new("run a load", "there is no other CPU").into());
        }
        let threads = facet("threads", machine.threads())?;
        let start = |kind: &LoadKind| -> Result<Load<'m>, Failure> {
            let words = words(*kind).map_err(|why| cannot(*kind, why))?;
            let launch = Launch { words: &words, mode: LaunchMode::Background(others.clone()) };
            let program = threads.launch(&launch).map_err(|why| cannot(*kind, why.reason.to_string()))?;
            Ok(Load { kind: *kind, program, before: Nanos(0) })
        };
        let loads: Vec<Load<'m>> = kinds.iter().map(start).collect::<Result<_, _>>()?;
        let clock = machine.clock();
        let end = clock.now() + PATIENCE;
        while clock.now() < end && loads.iter().any(|load| load.program.cpu_time() < BEGUN) {
            clock.sleep_until(clock.now() + LOOK);
        }
        Ok(Loads { loads, others: others.len() as u64, since: Nanos(0) })
    }

    /// Starts to measure the CPU time of the loads.
    pub fn mark(&mut self, now: Nanos) {
        self.since = now;
        self.loads.iter_mut().for_each(|load| load.before = load.program.cpu_time());
    }

    /// Ends the loads. Returns the CPU time of each since the mark, and the reason if one has ended early.
    pub fn end(mut self, machine: &dyn Machine) -> (Vec<Got>, Option<Complaint>) {
        let clock = machine.clock();
        let span = (clock.now() - self.since).as_secs_f64()
            * f64::from(u32::try_from(self.others).unwrap_or(u32::MAX));
        let got = |load: &Load<'_>| {
            let used = load.program.cpu_time().0.saturating_sub(load.before.0);
            Got { kind: load.kind, percent: percent(Nanos(used), span) }
        };
        let got = self.loads.iter().map(got).collect();
        let mut failed = None;
        for load in &mut self.loads {
            if !load.program.has_ended() {
                continue;
            }
            let why = load.program.exit().failure.unwrap_or_else(|| "it came to its end".to_owned());
            failed = failed.or(Some(cannot(load.kind, why)));
        }
        // On SIGTERM, a load removes its files.
        self.loads.iter().for_each(|load| load.program.terminate());
        let end = clock.now() + PATIENCE;
        while clock.now() < end && self.loads.iter().any(|load| !load.program.has_ended()) {
            clock.sleep_until(clock.now() + LOOK);
        }
        (got, failed)
    }
}

fn percent(used: Nanos, span_s: f64) -> f64 {
    if span_s > 0.0 { used.as_secs_f64() / span_s * 100.0 } else { 0.0 }
}

/// The loads as text: `load: hackbench: 61.3 %, build: 30.0 % of the other CPUs`. Empty without loads.
pub(super) fn text(got: &[Got]) -> String {
    if got.is_empty() {
        return String::new();
    }
    let each: Vec<String> =
        got.iter().map(|got| format!("{}: {:.1} %", got.kind.name(), got.percent)).collect();
    format!("load: {} of the other CPUs\n", each.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_they_got_is_a_line() {
        let got = |kind, percent| Got { kind, percent };
        assert_eq!(text(&[]), "");
        assert_eq!(text(&[got(LoadKind::Hackbench, 93.06)]), "load: hackbench: 93.1 % of the other CPUs\n");
        assert_eq!(
            text(&[got(LoadKind::Build, 60.0), got(LoadKind::Mpstat, 0.04)]),
            "load: build: 60.0 %, mpstat: 0.0 % of the other CPUs\n"
        );
    }

    #[test]
    fn all_of_the_others_is_a_hundred_percent() {
        assert_eq!((percent(Nanos::from_secs(6), 6.0), percent(Nanos(5), 0.0)), (100.0, 0.0));
    }
}
