//! The latency probe: a single-threaded process that waits for timers on a dedicated CPU.
//!
//! | part | implementation |
//! |---|---|
//! | thread | a forked process, so that it can be in its own set and locks only its own memory; it ends with its parent |
//! | timer | `clock_nanosleep`, absolute, on the monotonic clock, which steps of the wall clock do not affect |
//! | stages | a BPF program records the times of timer handler, wake-up and switch in mapped memory; the thread adds its own |
//! | causes | the BPF program keeps the last events of the CPU; the thread copies them for each of the worst waits |
//! | timerlat | on request, the kernel's own tracer supplies the timers and reports the stages: the thread waits in it, its parent reads the trace |
//! | CPU | a set of one CPU, shielded from interrupts: one change, which includes the record `place.PID` |

mod child;
mod moments;
mod process;
mod shared;
mod timerlat;
mod trace;
mod traced;
mod watch;

use crate::LinuxMachine;
use crate::knob::LinuxKnob;
use millpond_machine::facets::{
    CreateOptions, LatencyProbe, LatencyWatch, Place, PlacePlan, ProbePlan, Stamps,
};
use millpond_machine::{Absent, Change, Processors, Psets, Reason, Refusal, Step};
use millpond_model::{CpuId, Nanos, Pid, PsetId, State};
use serde::{Deserialize, Serialize};

/// Prefix of the record's name.
const RECORD: &str = "place.";

/// The record of a probe's CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    /// Start time of the owner, in clock ticks.
    start: u64,
    cpu: CpuId,
    set: PsetId,
    sheltered: bool,
    /// The interval of timerlat, if it is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timerlat: Option<Nanos>,
}

fn record_knob(owner: Pid) -> LinuxKnob {
    LinuxKnob::Record(format!("{RECORD}{owner}"))
}

impl LinuxMachine {
    fn place_text(&self, owner: Pid) -> Option<String> {
        self.os.record(&format!("{RECORD}{owner}"))
    }

    fn place_record(&self, owner: Pid) -> Option<Record> {
        serde_json::from_str(&self.place_text(owner)?).ok()
    }

    fn state_of(&self, cpu: CpuId) -> Result<Option<State>, Refusal> {
        Ok(self.states()?.into_iter().find(|status| status.cpu == cpu).map(|status| status.state))
    }

    /// Whether the owner process still exists. Assumes so if it cannot be read.
    fn lives(&self, owner: Pid, start: u64) -> bool {
        match self.os.stat(owner.0, None) {
            Ok(Some(stat)) => stat.start == start && !stat.dead,
            Ok(None) => false,
            Err(error) => !crate::is_gone(&error),
        }
    }
}

impl LatencyProbe for LinuxMachine {
    fn begin(&self, plan: &ProbePlan) -> Result<Box<dyn LatencyWatch + '_>, Absent> {
        Ok(match plan.stamps {
            Stamps::Timerlat => Box::new(traced::Traced::begin(self, plan)?),
            Stamps::Programs | Stamps::None => Box::new(watch::Watch::begin(self, plan)?),
        })
    }

    fn prepare_place(&self, plan: &PlacePlan) -> Result<Change<Place>, Refusal> {
        let PlacePlan { cpu, keep_others, owner, timerlat } = *plan;
        let (task, _) = self.os.identify(owner, None)?;
        let tracer = timerlat.map(|interval| self.timerlat_steps(owner, interval)).transpose()?;
        let made = match self.prepare_create(&[cpu], CreateOptions { keep_others }, false) {
            // With `keep_others` nothing else would be moved away: bind the probe to the CPU, which stays in the default set.
            Err(refusal) if keep_others && refusal.reason == Reason::LastOfDefault => {
                Change::new("", Vec::new(), (PsetId::DEFAULT, Vec::new()))
            }
            made => made?,
        };
        let set = made.outcome.0;
        let (mut steps, mut notes) = (made.steps, made.notes);
        let sheltered = !keep_others && self.state_of(cpu)? == Some(State::OnLine);
        if sheltered {
            let quiet = self.prepare_states(&[cpu], State::NoIntr, false)?;
            steps.extend(quiet.steps);
            notes.extend(quiet.notes);
        }
        steps.extend(tracer.into_iter().flatten());
        let record = Record { start: task.start, cpu, set, sheltered, timerlat };
        let text = serde_json::to_string(&record).unwrap_or_default();
        steps.insert(0, Step::new(record_knob(owner).knob(), self.place_text(owner), Some(text)));
        let place = Place { set, cpu, sheltered, traced: timerlat.is_some(), owner };
        let what = format!("make processor set {set} of CPU {cpu} for process {owner}");
        Ok(Change { notes, ..Change::new(what, steps, place) })
    }

    fn prepare_leave(&self, place: &Place) -> Result<Change<()>, Refusal> {
        let Place { set, cpu, sheltered, owner, .. } = *place;
        let timerlat = self.place_record(owner).and_then(|record| record.timerlat);
        // End the tracer first, because that also ends a thread that waits for it.
        let (mut steps, mut notes) =
            timerlat.map(|interval| self.timerlat_end(owner, interval)).unwrap_or_default();
        let ours = |listed: &millpond_model::Pset| listed.id == set && listed.members == [cpu];
        if self.list()?.iter().any(ours) {
            let gone = self.prepare_destroy(set)?;
            steps.extend(gone.steps);
            notes.extend(gone.notes);
        }
        if sheltered && self.state_of(cpu)? == Some(State::NoIntr) {
            let open = self.prepare_states(&[cpu], State::OnLine, false)?;
            steps.extend(open.steps);
            notes.extend(open.notes);
        } else if sheltered {
            steps.extend(self.forget_shield(cpu));
        }
        if let Some(text) = self.place_text(owner) {
            steps.push(Step::new(record_knob(owner).knob(), Some(text), None));
        }
        let what = format!("put back what process {owner} had: processor set {set}, CPU {cpu}");
        Ok(Change { notes, ..Change::new(what, steps, ()) })
    }

    fn abandoned(&self) -> Result<Vec<Place>, Refusal> {
        let names = self.os.record_names();
        let read = |name: &String| {
            let owner = Pid(name.strip_prefix(RECORD)?.parse().ok()?);
            let Record { start, cpu, set, sheltered, timerlat } = self.place_record(owner)?;
            let traced = timerlat.is_some();
            (!self.lives(owner, start)).then_some(Place { set, cpu, sheltered, traced, owner })
        };
        let places = names.iter().filter_map(read).collect();
        self.os.check_records().map(|()| places)
    }
}
