//! Frames for the planner, from two measurements of the machine.

use crate::requests;
use millpond_machine::facets::{Usage, Waited};
use millpond_machine::{Machine, Refusal};
use millpond_model::pools::{Keyword, Objectives, PoolsState, Weighted};
use millpond_model::{CpuId, CpuSet, Nanos, PsetId, State};
use millpond_planner::{Costs, Frame, Places, SetFrame, Waiting};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A CPU was idle if it was used for less than the interval divided by this number.
const IDLE_PART: u64 = 50;

/// Keeps the last measurement.
#[derive(Debug, Default)]
pub struct Frames {
    last: Option<Usage>,
    /// The positions of CPUs, and the CPUs and states for which they were read.
    places: (BTreeMap<CpuId, Option<Keyword<State>>>, Arc<Places>),
    told: BTreeSet<String>,
}

impl Frames {
    /// Starts an interval with `usage`.
    pub fn begin(&mut self, usage: Usage) {
        self.last = Some(usage);
    }

    /// The frame of the interval that ends with `usage`, and warnings about objectives; `None` after the first measurement.
    pub fn next(
        &mut self,
        usage: Usage,
        state: &PoolsState,
        occupied: &BTreeSet<PsetId>,
        cost: Option<Nanos>,
    ) -> (Option<Frame>, Vec<String>) {
        let mut warnings = Vec::new();
        self.warn(state, &mut warnings);
        let Some(before) = self.last.replace(usage.clone()) else { return (None, warnings) };
        let elapsed = Nanos(usage.at.0.saturating_sub(before.at.0));
        if elapsed.0 == 0 {
            return (None, warnings);
        }
        let used = |cpu: CpuId| {
            let is = usage.busy.get(&cpu)?.0;
            Some(is.saturating_sub(before.busy.get(&cpu).map_or(is, |b| b.0)))
        };
        let importances = state.conf.importances();
        let minima = requests::minima(&state.conf);
        let sets = state.conf.psets.iter().zip(minima).map(|(pset, min)| {
            let id = pset.id.unwrap_or(PsetId::DEFAULT);
            // Off-line CPUs do not count: bounds concern on-line CPUs.
            let cpus: CpuSet = pset.cpus().iter().filter(|cpu| cpu.runs_threads()).map(|c| c.id).collect();
            let idle = cpus.iter().filter(|cpu| used(*cpu).is_some_and(|u| u * IDLE_PART < elapsed.0));
            // In a set without processes, while others are kept out, the activity of its CPUs is not usage of the set.
            let has_processes = id.is_default() || occupied.contains(&id);
            let of = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
            let max = of(pset.max);
            SetFrame {
                id,
                name: pset.name.clone(),
                pinned: pset.pinned(),
                idle: idle.collect(),
                min: of(min).min(max),
                max,
                importance: importances.get(&pset.ref_id).copied().unwrap_or(0),
                objectives: held(pset.objectives.as_ref()),
                has_processes,
                busy: Nanos(if has_processes { cpus.iter().filter_map(used).sum() } else { 0 }),
                waiting: if has_processes {
                    waiting(before.waited.get(&id), usage.waited.get(&id))
                } else {
                    Waiting::Threads(Nanos(0))
                },
                is_reset: !before.waited.contains_key(&id),
                cpus,
            }
        });
        let costs =
            cost.map_or_else(Costs::default, |batch| Costs { batch, is_measured: true, ..Costs::default() });
        let frame = Frame {
            at: usage.at,
            elapsed,
            objectives: held(state.conf.system.objectives.as_ref()),
            sets: sets.collect(),
            places: Arc::clone(&self.places.1),
            costs,
        };
        (Some(frame), warnings)
    }

    /// Reads the positions of CPUs if the CPUs or their states have changed. This reads many files on a large machine, and there may be
    /// ten turns a second.
    ///
    /// # Errors
    /// If the machine cannot be read.
    pub fn find_places(&mut self, machine: &dyn Machine, state: &PoolsState) -> Result<(), Refusal> {
        let cpus: BTreeMap<_, _> = state.conf.cpus().map(|c| (c.id, c.status.clone())).collect();
        if cpus != self.places.0 {
            let places = Places::of(&machine.processors()?.topology()?);
            self.places = (cpus, Arc::new(places));
        }
        Ok(())
    }

    /// Warns about objectives without effect when they first appear.
    fn warn(&mut self, state: &PoolsState, warnings: &mut Vec<String>) {
        let system = ("system", &state.conf.system.objectives);
        let sets = state.conf.psets.iter().map(|s| (s.name.as_str(), &s.objectives));
        let mut now = BTreeSet::new();
        for (name, objectives) in std::iter::once(system).chain(sets) {
            for warning in objectives.iter().flat_map(|objectives| &objectives.warnings) {
                let line = format!("{name}: {warning}");
                if !self.told.contains(&line) {
                    warnings.push(line.clone());
                }
                now.insert(line);
            }
        }
        self.told = now;
    }
}

/// The valid objectives.
fn held(objectives: Option<&Objectives>) -> Vec<Weighted> {
    objectives.map(|objectives| objectives.hold.clone()).unwrap_or_default()
}

fn waiting(before: Option<&Waited>, now: Option<&Waited>) -> Waiting {
    match (before, now) {
        (Some(Waited::Threads(a)), Some(Waited::Threads(b))) => {
            Waiting::Threads(Nanos(b.0.saturating_sub(a.0)))
        }
        (Some(Waited::Any(a)), Some(Waited::Any(b))) => Waiting::Any(Nanos(b.0.saturating_sub(a.0))),
        _ => Waiting::Unknown,
    }
}
