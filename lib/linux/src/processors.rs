//! The CPUs facet: states from sysfs and from the records of earlier changes.
//!
//! The kernel knows two states, on-line and off-line, and no times. Records `processor.N` have the other states (no-intr, spare,
//! faulted) and all times. A record that contradicts the kernel is ignored: another program has changed the state since.

use crate::LinuxMachine;
use crate::cpu_states::CpuStates;
use crate::knob::{ControlFile, LinuxKnob};
use crate::os::knob_error;
use crate::plan::{Wanted, plan};
use crate::settings::kernel_settings;
use crate::steering::Steering;
use crate::view::RootTasks;
use millpond_machine::facets::{LwpStatus, ProcessorStatus, Reserved, StateChange};
use millpond_machine::{Change, Machine, Processors, Psets, Reason, Refusal, Step, Subject};
use millpond_model::{CpuId, CpuSet, PsetId, State, Topology, Transition, TransitionError, WallTime};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::rc::Rc;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    state: State,
    since: WallTime,
}

/// Prefix of the name of a CPU's record.
const RECORD: &str = "processor.";

fn record_knob(cpu: CpuId) -> LinuxKnob {
    LinuxKnob::Record(format!("{RECORD}{cpu}"))
}

/// Whether a CPU has a record. `names` are the sorted names of all records.
fn is_recorded(names: &[String], cpu: CpuId) -> bool {
    names.binary_search(&format!("{RECORD}{cpu}")).is_ok()
}

impl LinuxMachine {
    fn record(&self, cpu: CpuId) -> Option<(String, Record)> {
        let LinuxKnob::Record(name) = record_knob(cpu) else { return None };
        let text = self.os.shared_record(&name)?;
        let record = serde_json::from_str(&text).ok()?;
        Some((text, record))
    }

    /// The step after which a CPU that another program took off-line returns as one that takes interrupts; `None` if it would not return no-intr.
    pub(crate) fn forget_shield(&self, cpu: CpuId) -> Option<Step> {
        let (text, record) = self.record(cpu)?;
        (record.state == State::NoIntr).then(|| Step::new(record_knob(cpu).knob(), Some(text), None))
    }

    /// The state of each CPU, with the time of its last change where a record has it.
    fn known_states(&self) -> Result<Vec<(CpuId, State, Option<WallTime>)>, Refusal> {
        let (present, online) = (self.processor_list("present")?, self.online_now()?);
        if present.is_empty() {
            let why = "there are no CPUs in devices/system/cpu of sysfs";
            return Err(Refusal::operation(Reason::Machine(why.into())));
        }
        // Few CPUs have a record. One list of names avoids reading the others.
        let records = self.os.shared_record_names();
        let known = |cpu| {
            let on = online.contains(cpu);
            let record = if is_recorded(&records, cpu) { self.record_if_true(cpu, on) } else { None };
            match record {
                Some(record) => (cpu, record.state, Some(record.since)),
                None => (cpu, if on { State::OnLine } else { State::OffLine }, None),
            }
        };
        let states = present.iter().map(known).collect();
        self.os.check_records().map(|()| states)
    }

    /// The state of each CPU, without its time.
    pub(crate) fn states_now(&self) -> Result<BTreeMap<CpuId, State>, Refusal> {
        self.shared_reads
            .states(|| Ok(self.known_states()?.into_iter().map(|(cpu, state, _)| (cpu, state)).collect()))
    }

    /// The on-line CPUs, from the shared reading if there is one.
    pub(crate) fn online_now(&self) -> Result<CpuSet, Refusal> {
        self.shared_reads
            .of_view(|view| view.online.clone())
            .map_or_else(|| self.processor_list("online"), Ok)
    }

    fn processor_list(&self, name: &str) -> Result<CpuSet, Refusal> {
        self.os
            .cpu_list(name)
            .map_err(|e| Refusal::operation(Reason::Machine(format!("the list of {name} CPUs: {e}"))))
    }

    /// The record of a CPU, unless it contradicts the kernel.
    fn record_if_true(&self, cpu: CpuId, on: bool) -> Option<Record> {
        self.record(cpu).map(|(_, record)| record).filter(|record| record.state.runs_threads() == on)
    }

    /// The CPUs that device interrupts are kept off: those that are no-intr, or will be when they return on-line, and those that Millpond took
    /// off-line. The latter so that their interrupts return with them.
    pub(crate) fn shielded(&self) -> Result<CpuSet, Refusal> {
        if !self.os.shared_record_names().iter().any(|name| name.starts_with(RECORD)) {
            return self.os.check_records().map(|()| CpuSet::new());
        }
        let states = self.states_now()?;
        let unasked = self.unasked(&states);
        let shielded = states.into_iter().filter(|(_, state)| !state.takes_interrupts());
        Ok(&shielded.map(|(cpu, _)| cpu).collect() - &unasked)
    }

    /// The CPUs that another program took off-line: off-line ones without a record, or with a record of a state that takes interrupts.
    fn unasked(&self, states: &BTreeMap<CpuId, State>) -> CpuSet {
        let records = self.os.shared_record_names();
        let shields = |cpu: CpuId| {
            is_recorded(&records, cpu)
                && self.record(cpu).is_some_and(|(_, record)| !record.state.takes_interrupts())
        };
        let off = states.iter().filter(|(cpu, state)| !state.runs_threads() && !shields(**cpu));
        off.map(|(cpu, _)| *cpu).collect()
    }

    /// The steps that remove outdated records of CPUs that another program took off-line or on-line. The record of a no-intr CPU stays: the CPU is
    /// no-intr again when it returns.
    pub(crate) fn overtaken_records(&self) -> Vec<Step> {
        let records = self.os.shared_record_names();
        let cpus = records.iter().filter_map(|name| Some(CpuId(name.strip_prefix(RECORD)?.parse().ok()?)));
        let (Ok(online), Ok(present)) = (self.online_now(), self.processor_list("present")) else {
            return Vec::new();
        };
        let forget = |cpu: CpuId| {
            let (text, record) = self.record(cpu)?;
            let is_true = record.state.runs_threads() == online.contains(cpu);
            let is_over = present.contains(cpu) && !is_true && record.state != State::NoIntr;
            is_over.then(|| Step::new(record_knob(cpu).knob(), Some(text), None))
        };
        cpus.filter_map(forget).collect()
    }

    fn online_step(&self, cpu: CpuId, on: bool) -> Result<Step, Refusal> {
        let file = ControlFile::Online(cpu);
        let path = self
            .os
            .control_path(&file)
            .map_err(|e| e.into_refusal(Subject::Processor(cpu), "its `online` file"))?;
        let is = self
            .os
            .root
            .read(&path)
            .map_err(|e| knob_error(e).into_refusal(Subject::Processor(cpu), "its `online` file"))?;
        let Some(is) = is else {
            let why = "this kernel cannot take it off-line: it has no `online` file";
            return Err(Refusal::new(Subject::Processor(cpu), Reason::Machine(why.into())));
        };
        let after = if on { "1" } else { "0" };
        Ok(Step::new(LinuxKnob::File(file).knob(), Some(is), Some(after.to_owned())))
    }

    /// The steps before CPUs go off-line. They record bindings that would become invisible. Version 1 permanently removes an off-line CPU from every
    /// list, so these steps narrow the lists first: then the original lists are recorded, and a refused change can be undone.
    fn before_stopping(&self, stopped: &CpuSet, bound: &[LwpStatus]) -> Result<Vec<Step>, Refusal> {
        if stopped.is_empty() || !self.has_cgroups() {
            return Ok(Vec::new());
        }
        let (view, sets) = self.live_sets()?;
        let mut view = Rc::unwrap_or_clone(view);
        let left = &view.online - stopped;
        let apart = view.reserved();
        let lonely = Self::left_with_one(&apart, (&sets, &view.online), (&sets, &left));
        let mut steps = self.adopted(&lonely, bound, stopped);
        if view.v1 {
            view.online = left;
            let narrowed = plan(&view, &Wanted::of(&view, sets, Vec::new()));
            steps.extend(self.noting_masks(&view, &[], narrowed)?);
        }
        Ok(steps)
    }

    /// The steps of one CPU, given that the changes in `planned` are done. Adds this change to `planned`.
    fn state_steps(
        &self,
        planned: &mut CpuStates,
        bound: &[LwpStatus],
        cpu: CpuId,
        (to, forced): (State, bool),
    ) -> Result<(Vec<Step>, StateChange), Refusal> {
        let subject = Subject::Processor(cpu);
        let Some(from) = planned.state(cpu) else {
            return Err(Refusal::new(subject, Reason::NoSuchProcessor { present: planned.present() }));
        };
        let transition = from.transition(to, forced).map_err(|error| match error {
            TransitionError::NeedsForce => {
                Refusal::new(subject.clone(), Reason::NeedsForce).hint("add -F to force the change")
            }
            TransitionError::Impossible { from, to } => {
                Refusal::new(subject.clone(), Reason::Transition { from, to })
            }
        })?;
        let mut steps = Vec::new();
        match transition {
            Transition::Nothing => return Ok((steps, StateChange { cpu, from, to })),
            Transition::AdmitInterrupts | Transition::Mark => {}
            Transition::ShelterFromInterrupts => planned.check_shield(cpu)?,
            Transition::Start { .. } => steps.push(self.online_step(cpu, true)?),
            Transition::Stop => {
                planned.check_stop(cpu)?;
                steps.extend(self.release_bound(bound, cpu, forced)?);
                steps.push(self.online_step(cpu, false)?);
            }
        }
        let record = Record { state: to, since: self.clock().wall() };
        let after = serde_json::to_string(&record).unwrap_or_default();
        let before = self.record(cpu).map(|(text, _)| text);
        // The record comes first: an interrupted change is undone from the last step. Until the record is removed, it contradicts the
        // state and is ignored.
        steps.insert(0, Step::new(record_knob(cpu).knob(), before, Some(after)));
        planned.becomes(cpu, to);
        Ok((steps, StateChange { cpu, from, to }))
    }
}

/// The steps that change states of CPUs.
pub(crate) struct StateSteps<'m> {
    /// Starts CPUs, then moves interrupts.
    pub(crate) first: Vec<Step>,
    /// Stops CPUs.
    pub(crate) last: Vec<Step>,
    /// The CPUs that take no interrupts afterwards.
    pub(crate) shielded: CpuSet,
    /// The interrupts, read once.
    pub(crate) interrupts: Steering<'m>,
    /// The outcome of each change.
    pub(crate) outcome: Vec<Result<StateChange, Refusal>>,
}

impl LinuxMachine {
    /// Prepares changes of several CPUs, each given that the earlier ones are done. `sets` has the sets of CPUs afterwards, if these change, too.
    pub(crate) fn state_changes(
        &self,
        changes: &[(CpuId, State)],
        forced: bool,
        sets: Option<BTreeMap<CpuId, PsetId>>,
    ) -> Result<StateSteps<'_>, Refusal> {
        let states: BTreeMap<CpuId, State> = self.states()?.into_iter().map(|s| (s.cpu, s.state)).collect();
        let (mut first, mut last) = (Vec::new(), Vec::new());
        let interrupts = Steering::of(self);
        if !self.os.may_administrate() {
            let refused = |(cpu, _): &(CpuId, State)| {
                Err(Refusal::new(Subject::Processor(*cpu), Reason::NotPermitted)
                    .hint("states are changed by an administrator"))
            };
            let outcome = changes.iter().map(refused).collect();
            return Ok(StateSteps { first, last, shielded: CpuSet::new(), interrupts, outcome });
        }
        // All threads and sets are read once, and only if a CPU may stop.
        let runs = |cpu: &CpuId| states.get(cpu).is_some_and(|state| state.runs_threads());
        let stops = changes.iter().any(|(cpu, to)| !to.runs_threads() && runs(cpu));
        let bound = if stops { self.bound_to_processors()? } else { Vec::new() };
        let sets = match sets {
            Some(sets) => sets,
            None if stops => {
                let sets = Psets::list(self)?;
                sets.iter().flat_map(|set| set.members.iter().map(|cpu| (*cpu, set.id))).collect()
            }
            None => BTreeMap::new(),
        };
        let unasked = self.unasked(&states);
        let mut planned = CpuStates::new(states, sets, unasked);
        let mut outcome = Vec::new();
        for (cpu, to) in changes {
            let steps = self.state_steps(&mut planned, &bound, *cpu, (*to, forced));
            outcome.push(steps.map(|(more, change)| {
                if to.runs_threads() {
                    first.extend(more)
                } else {
                    last.extend(more)
                }
                change
            }));
        }
        let done = || {
            outcome.iter().flatten().filter(|c: &&StateChange| c.from.runs_threads() != c.to.runs_threads())
        };
        let stopped: CpuSet =
            done().filter(|change| change.from.runs_threads()).map(|change| change.cpu).collect();
        last.splice(0..0, self.before_stopping(&stopped, &bound)?).for_each(drop);
        if !stopped.is_empty() {
            last.splice(0..0, self.keep_places(&self.online_now()?)?).for_each(drop);
        }
        let shielded = planned.shielded();
        if !(first.is_empty() && last.is_empty()) {
            // Interrupts leave before their CPU stops, and return after it starts.
            first.extend(interrupts.steps(&shielded)?);
            if done().next().is_some() {
                first.splice(0..0, interrupts.lists_to_remember()).for_each(drop);
            }
        }
        Ok(StateSteps { first, last, shielded, interrupts, outcome })
    }
}

impl Processors for LinuxMachine {
    fn topology(&self) -> Result<Topology, Refusal> {
        self.read_topology()
    }

    fn cores_of(&self, cpus: &[CpuId]) -> Result<BTreeMap<CpuId, CpuSet>, Refusal> {
        Ok(self.read_cores(cpus))
    }

    fn reserved(&self) -> Result<Reserved, Refusal> {
        let isolated = kernel_settings(&self.os.root).isolated;
        let bound = self.bound_to_processors()?;
        let bound = bound.iter().fold(CpuSet::new(), |all, thread| &all | &thread.cpus);
        let partitions = self.view(RootTasks::Unlisted)?.reserved();
        Ok(Reserved { isolated, partitions, bound })
    }

    fn states(&self) -> Result<Vec<ProcessorStatus>, Refusal> {
        let status = |(cpu, state, since): (CpuId, State, Option<WallTime>)| ProcessorStatus {
            cpu,
            state,
            since: since.unwrap_or_else(|| self.clock().booted()),
        };
        Ok(self.known_states()?.into_iter().map(status).collect())
    }

    fn prepare_state(&self, cpu: CpuId, to: State, forced: bool) -> Result<Change<StateChange>, Refusal> {
        let change = self.prepare_states(&[cpu], to, forced)?;
        Ok(change.map(|mut changes| changes.remove(0)))
    }

    fn prepare_states(
        &self,
        cpus: &[CpuId],
        to: State,
        forced: bool,
    ) -> Result<Change<Vec<StateChange>>, Refusal> {
        let change = self.prepare_each_state(cpus, to, forced)?;
        let Change { what, steps, notes, outcome } = change;
        let mut changes = outcome.into_iter().collect::<Result<Vec<_>, Refusal>>()?;
        // A CPU that is named twice reports the state before the first change.
        let mut was = BTreeMap::new();
        for change in &mut changes {
            change.from = *was.entry(change.cpu).or_insert(change.from);
        }
        Ok(Change { what, steps, notes, outcome: changes })
    }

    fn prepare_each_state(
        &self,
        cpus: &[CpuId],
        to: State,
        forced: bool,
    ) -> Result<Change<Vec<Result<StateChange, Refusal>>>, Refusal> {
        let changes: Vec<(CpuId, State)> = cpus.iter().map(|cpu| (*cpu, to)).collect();
        let StateSteps { first, last, shielded, interrupts, outcome } =
            self.state_changes(&changes, forced, None)?;
        let steps = [first, last].concat();
        let done: CpuSet = outcome.iter().flatten().map(|change| change.cpu).collect();
        let mut change = Change::new(format!("make CPUs {done} {to}"), steps, outcome);
        if !change.steps.is_empty() {
            let quiet = if to == State::NoIntr { done } else { CpuSet::new() };
            let (lines, told) = interrupts.news_of_staying(&quiet, &shielded)?;
            change.notes = lines;
            change.steps.extend(told);
        }
        Ok(change)
    }
}
