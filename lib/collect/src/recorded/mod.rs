//! A machine that was recorded. Its facets are read from frames, its clock goes from frame to frame, and nothing on it can be changed.
//!
//! ```text
//!   Recording ──▶ Frames ──▶ the frame of now ──rows──▶ Sample, Roster, Usage, PoolsState …
//!                    ▲
//!     Clock::sleep_until: to the frame nearest to that moment, to the next one at least
//! ```
//!
//! Counters begin anew with each watch that wrote into the recording, so a machine lives as long as one of these: then its clock stands, as at the
//! end of the recording, and [`RecordedMachine::open`] is told to ask for an end.

mod rows;

use millpond_machine::facets::{
    Accounting, Census, CensusOptions, CensusWatch, CounterWatch, Counters, CreateOptions, DisturbanceWatch,
    Disturbances, Interrupt, Launch, LwpStatus, Member, Process, ProcessorStatus, Program, Rebinding,
    StartOption, StateChange, Usage, UsageWatch, WakeReason, WatchOptions, WatchedJob,
};
use millpond_machine::{
    Absent, Change, Clock, Guard, Interrupts, Journal, Knob, KnobError, Knobs, Machine, MemoryJournal, Pools,
    Processors, Psets, Refusal, Step, Threads, Value,
};
use millpond_model::pools::PoolsState;
use millpond_model::{
    Cause, CpuId, CpuSet, Disturbance, Disturbed, LockPlace, LwpId, Move, Nanos, Pid, PoolId, Pset, PsetId,
    RealTimeSetting, Roster, Sample, State, Topology, WallTime,
};
use millpond_observe::Frame;
use millpond_observe::catalogue::Entity;
use millpond_store::{Frames, Moment, Recording, Run};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is said when its frames end before the recording does, or frames of it cannot be read.
pub type Notes = Rc<RefCell<Vec<String>>>;

/// A machine that was recorded, from a moment on.
pub struct RecordedMachine {
    name: String,
    frames: RefCell<Frames<Recording>>,
    now: RefCell<Rc<Frame>>,
    /// The frame after that of now.
    next: RefCell<Option<Moment>>,
    /// Which watch wrote these frames.
    run: usize,
    /// All watches of the recording.
    runs: Vec<Run>,
    /// From the frame before that of now until it.
    spacing: Cell<Nanos>,
    stop: &'static AtomicBool,
    /// It asked for an end, which is taken back with it: what comes after it was not asked to stop.
    ended: Cell<bool>,
    /// A wait came to its end.
    reached: Cell<bool>,
    notes: Notes,
    journal: MemoryJournal,
}

impl Drop for RecordedMachine {
    fn drop(&mut self) {
        if self.ended.get() {
            self.stop.store(false, Ordering::Relaxed);
        }
    }
}

impl RecordedMachine {
    /// As it was at `from`, or when the recording begins. `stop` is set when its frames end, until the machine is dropped.
    ///
    /// # Errors
    /// [`Absent`] where no frame can be read from that moment on.
    pub fn open(
        recording: Recording,
        from: WallTime,
        stop: &'static AtomicBool,
    ) -> Result<(RecordedMachine, Notes), Absent> {
        let notes = Notes::default();
        notes.borrow_mut().extend(recording.notes.iter().cloned());
        let name = recording.span().map(|span| span.machine).unwrap_or_default();
        let runs = recording.runs();
        let mut frames = recording.into_frames_from(from);
        // The frame before that moment comes first, where there is one.
        let mut first = frames
            .readable(&mut notes.borrow_mut())
            .ok_or_else(|| Absent::because("none of its frames can be read"))?;
        let mut next = frames.readable(&mut notes.borrow_mut());
        if let Some(later) = next.take_if(|_| first.frame.wall < from) {
            first = later;
            next = frames.readable(&mut notes.borrow_mut());
        }
        let machine = RecordedMachine {
            name,
            frames: RefCell::new(frames),
            now: RefCell::new(Rc::new(first.frame)),
            next: RefCell::new(next),
            run: first.run,
            runs,
            spacing: Cell::default(),
            stop,
            ended: Cell::default(),
            reached: Cell::default(),
            notes: Rc::clone(&notes),
            journal: MemoryJournal::default(),
        };
        Ok((machine, notes))
    }

    fn frame(&self) -> Rc<Frame> {
        Rc::clone(&self.now.borrow())
    }

    /// Goes on to the next frame of this watch. `false` where there is none.
    fn go_on(&self) -> bool {
        let mut next = self.next.borrow_mut();
        if next.as_ref().is_none_or(|next| next.run != self.run) {
            return false;
        }
        let Some(moment) = next.take() else { return false };
        let before = self.now.replace(Rc::new(moment.frame));
        self.spacing.set(self.now.borrow().at - before.at);
        *next = self.frames.borrow_mut().readable(&mut self.notes.borrow_mut());
        true
    }

    /// When the next frame was, if it is of this watch.
    fn next_at(&self) -> Option<Nanos> {
        self.next.borrow().as_ref().filter(|next| next.run == self.run).map(|next| next.frame.at)
    }

    /// Its frames ended before the moment that is waited for.
    fn end(&self) {
        if self.stop.swap(true, Ordering::Relaxed) {
            return;
        }
        self.ended.set(true);
        let wall = self.wall();
        let note = match self.next.borrow().as_ref() {
            Some(next) if next.frame.wall > wall => format!(
                "the recording was interrupted for {} s, and counters begin anew behind that: --at goes there",
                next.frame.wall.0.saturating_sub(wall.0)
            ),
            // No moment leads to the frames of a watch that began in the time of this one.
            Some(next) => self.runs.get(next.run).map_or_else(String::new, |run| {
                format!(
                    "{} frames of another watch follow, whose clock was not later, and are left out: name its file, {}",
                    run.frames,
                    run.file.display()
                )
            }),
            None if !self.reached.get() => "the recording ends before the interval does".to_owned(),
            None => return,
        };
        self.notes.borrow_mut().push(note);
    }
}

fn unrecorded(what: &str) -> Absent {
    Absent::because(format!("a recording has no {what}"))
}

fn unchangeable() -> Refusal {
    Refusal::from(Absent::because("a recording cannot be changed"))
}

impl Clock for RecordedMachine {
    fn now(&self) -> Nanos {
        self.now.borrow().at
    }

    fn wall(&self) -> WallTime {
        self.now.borrow().wall
    }

    fn booted(&self) -> WallTime {
        let seconds = i64::try_from(self.now().0 / 1_000_000_000).unwrap_or(i64::MAX);
        WallTime(self.wall().0.saturating_sub(seconds))
    }

    fn sleep_until(&self, deadline: Nanos) {
        let mut went = false;
        while self.now() < deadline {
            let Some(next) = self.next_at() else {
                // One that is a little early is the one that was waited for, unless an earlier wait had it.
                if !went || deadline - self.now() > Nanos(self.spacing.get().0 / 2) {
                    return self.end();
                }
                break;
            };
            let is_nearer = next <= deadline || next - deadline < deadline - self.now();
            if went && !is_nearer || !self.go_on() {
                break;
            }
            went = true;
        }
        self.reached.set(true);
    }
}

impl Knobs for RecordedMachine {
    fn read(&self, _knob: &Knob) -> Result<Option<Value>, KnobError> {
        Ok(None)
    }

    fn write(&self, _knob: &Knob, _value: Option<&Value>) -> Result<(), KnobError> {
        Err(KnobError::ReadOnly)
    }

    fn settle(&self) -> Result<Vec<Step>, Refusal> {
        Ok(Vec::new())
    }

    fn lock(&self) -> Result<Box<dyn Guard>, Refusal> {
        Err(unchangeable())
    }

    fn boot_id(&self) -> String {
        self.run.to_string()
    }
}

impl Machine for RecordedMachine {
    fn name(&self) -> &str {
        &self.name
    }

    fn clock(&self) -> &dyn Clock {
        self
    }

    fn journal(&self) -> &dyn Journal {
        &self.journal
    }

    millpond_machine::facets! { self:
        processors, Processors => Ok(self);
        psets, Psets => Ok(self);
        fences, Fences => Err(unrecorded("steps of fences"));
        threads, Threads => Ok(self);
        zones, Zones => Err(unrecorded("zones"));
        pools, Pools => Ok(self);
        interrupts, Interrupts => Ok(self);
        counters, Counters => Ok(self);
        sampler, Sampler => Err(unrecorded("samples of what runs where"));
        accounting, Accounting => Ok(self);
        dispatcher, Dispatcher => Err(unrecorded("tables of scheduling classes"));
        lgroups, Lgroups => Err(unrecorded("memory of lgroups"));
        hardware_counters, HardwareCounters => Err(unrecorded("counters of hardware"));
        latency, LatencyProbe => Err(unrecorded("threads that can be woken"));
        disturbances, Disturbances => Ok(self);
        census, Census => Ok(self);
        controls, Controls => Err(unrecorded("shares and caps"));
        images, Images => Err(unrecorded("memory of processes"));
    }
}

impl Processors for RecordedMachine {
    fn topology(&self) -> Result<Topology, Refusal> {
        let unknown = || Refusal::from(Absent::because("the recording does not say which core CPUs are of"));
        let strange = |why| Refusal::from(Absent::because(format!("its CPUs make no machine: {why}")));
        rows::topology(&self.frame()).ok_or_else(unknown)?.map_err(strange)
    }

    fn states(&self) -> Result<Vec<ProcessorStatus>, Refusal> {
        let since = self.booted();
        Ok(rows::states(&self.frame())
            .into_iter()
            .map(|(cpu, state)| ProcessorStatus { cpu, state, since })
            .collect())
    }

    fn prepare_state(&self, _: CpuId, _: State, _: bool) -> Result<Change<StateChange>, Refusal> {
        Err(unchangeable())
    }

    fn prepare_states(&self, _: &[CpuId], _: State, _: bool) -> Result<Change<Vec<StateChange>>, Refusal> {
        Err(unchangeable())
    }

    fn prepare_each_state(
        &self,
        _: &[CpuId],
        _: State,
        _: bool,
    ) -> Result<Change<Vec<Result<StateChange, Refusal>>>, Refusal> {
        Err(unchangeable())
    }
}

impl Psets for RecordedMachine {
    fn list(&self) -> Result<Vec<Pset>, Refusal> {
        Ok(rows::sets(&self.frame()))
    }

    fn prepare_create(
        &self,
        _: &[CpuId],
        _: CreateOptions,
        _: bool,
    ) -> Result<Change<(PsetId, Vec<Move>)>, Refusal> {
        Err(unchangeable())
    }

    fn prepare_assign(&self, _: PsetId, _: &[CpuId], _: bool) -> Result<Change<Vec<Move>>, Refusal> {
        Err(unchangeable())
    }

    fn prepare_destroy(&self, _: PsetId) -> Result<Change<()>, Refusal> {
        Err(unchangeable())
    }
}

impl Threads for RecordedMachine {
    fn processes(&self) -> Result<Vec<Process>, Refusal> {
        let processes = rows::roster(&self.frame()).processes.into_iter();
        Ok(processes.map(|p| Process { pid: p.pid, name: p.name, kernel: false }).collect())
    }

    fn lwps(&self, _: Pid) -> Result<Vec<LwpStatus>, Refusal> {
        Err(unrecorded("bindings of threads").into())
    }

    fn bound(&self) -> Result<Vec<LwpStatus>, Refusal> {
        Err(unrecorded("bindings of threads").into())
    }

    fn prepare_bind_set(
        &self,
        _: Pid,
        _: Option<&[LwpId]>,
        _: Option<PsetId>,
    ) -> Result<Change<Vec<Rebinding<PsetId>>>, Refusal> {
        Err(unchangeable())
    }

    fn prepare_start_in_default(&self, _: Pid) -> Result<Change<()>, Refusal> {
        Err(unchangeable())
    }

    fn prepare_bind_cpus(
        &self,
        _: Pid,
        _: Option<&[LwpId]>,
        _: &CpuSet,
    ) -> Result<Change<Vec<Rebinding<CpuSet>>>, Refusal> {
        Err(unchangeable())
    }

    fn launch(&self, _: &Launch<'_>) -> Result<Box<dyn Program + '_>, Refusal> {
        Err(unchangeable())
    }
}

impl Pools for RecordedMachine {
    fn state(&self) -> Result<Option<PoolsState>, Refusal> {
        Ok(rows::pools(&self.frame()))
    }

    fn members(&self) -> Result<BTreeMap<Pid, PoolId>, Refusal> {
        let shared = || Refusal::from(unrecorded("pools of processes where several pools share a set"));
        rows::members(&self.frame()).ok_or_else(shared)
    }

    fn prepare_commit(&self, _: Option<PoolsState>) -> Result<Change<Option<PoolsState>>, Refusal> {
        Err(unchangeable())
    }

    fn zone_key(&self, _: &str) -> Result<String, Refusal> {
        Err(unrecorded("zones").into())
    }

    fn prepare_join(&self, _: &Member, _: PoolId) -> Result<Change<()>, Refusal> {
        Err(unchangeable())
    }

    fn prepare_persist(&self, _: &str, _: PoolId) -> Result<Change<()>, Refusal> {
        Err(unchangeable())
    }

    fn start_options(&self, _: PoolId) -> Result<Vec<StartOption>, Refusal> {
        Ok(Vec::new())
    }
}

impl Interrupts for RecordedMachine {
    fn list(&self) -> Result<Vec<Interrupt>, Refusal> {
        Ok(rows::interrupts(&self.frame()))
    }

    fn staying(&self) -> Result<Vec<String>, Refusal> {
        Ok(Vec::new())
    }
}

/// A watch sees the frame of now.
struct Watch<'m>(&'m RecordedMachine);

/// Where figures come from.
fn origin(machine: &RecordedMachine) -> Vec<String> {
    vec![format!("every figure: frames of the recording of machine {}", machine.name)]
}

impl Counters for RecordedMachine {
    fn since_boot(&self) -> Result<Sample, Refusal> {
        Ok(rows::sample(&self.frame(), false))
    }

    fn watch(&self, _: WatchOptions) -> Result<Box<dyn CounterWatch + '_>, Absent> {
        Ok(Box::new(Watch(self)))
    }
}

impl CounterWatch for Watch<'_> {
    fn sample(&mut self) -> Result<Sample, Refusal> {
        Ok(rows::sample(&self.0.frame(), true))
    }

    fn explain(&self) -> Vec<String> {
        origin(self.0)
    }
}

impl Census for RecordedMachine {
    fn list(&self, _: CensusOptions) -> Result<Roster, Refusal> {
        Ok(rows::roster(&self.frame()))
    }

    fn watch(&self, _: CensusOptions) -> Result<Box<dyn CensusWatch + '_>, Absent> {
        Ok(Box::new(Watch(self)))
    }

    fn lock_place(&self, _: Pid, _: u64) -> Option<LockPlace> {
        None
    }

    fn users(&self) -> BTreeMap<u32, String> {
        BTreeMap::new()
    }
}

impl CensusWatch for Watch<'_> {
    fn sample(&mut self) -> Result<Roster, Refusal> {
        Ok(rows::roster(&self.0.frame()))
    }

    /// They are told as they were recorded.
    fn set_places(&mut self, _: bool, _: bool) {}

    fn explain(&self) -> Vec<String> {
        origin(self.0)
    }
}

impl Disturbances for RecordedMachine {
    fn watch(&self, what: &WatchedJob) -> Result<Box<dyn DisturbanceWatch + '_>, Absent> {
        let frame = self.frame();
        let Some(base) = rows::noises(&frame) else {
            return Err(Absent::because("the recording was made without --noise"));
        };
        let watched: CpuSet = rows::sets(&frame).iter().flat_map(|set| set.members.clone()).collect();
        let others = &what.cpus - &watched;
        if !others.is_empty() {
            let why = format!("{} in no set, and only OS noise on CPUs of sets is recorded", were(&others));
            return Err(Absent::with_help(why, "choose CPUs of a set"));
        }
        let began = frame.read_at(Entity::Noise).unwrap_or(frame.at);
        Ok(Box::new(NoiseWatch { machine: self, cpus: what.cpus.clone(), began, base }))
    }

    fn real_time_settings(&self) -> Result<Vec<RealTimeSetting>, Absent> {
        Err(unrecorded("settings of the kernel"))
    }
}

/// `CPU 3 was`, `CPUs 3-5 were`.
fn were(cpus: &CpuSet) -> String {
    format!("{} {}", cpus.named(), if cpus.len() == 1 { "was" } else { "were" })
}

/// What came since `began`, when there was already `base`.
struct NoiseWatch<'m> {
    machine: &'m RecordedMachine,
    cpus: CpuSet,
    began: Nanos,
    base: rows::Noises,
}

impl DisturbanceWatch for NoiseWatch<'_> {
    fn join(&mut self, _: Pid) -> Result<(), Refusal> {
        Err(unchangeable())
    }

    fn collect(&mut self) -> Result<Disturbed, Refusal> {
        let frame = self.machine.frame();
        let now = rows::noises(&frame).unwrap_or_default();
        let mut lost = Vec::new();
        // Counts that went back began anew: where sets got other CPUs, the recorder began to watch again.
        let restarted = self.base.iter().any(|(key, base)| now.get(key).is_none_or(|now| now.0 < base.0));
        if restarted {
            lost.push("sets got other CPUs meanwhile, and what came before is not counted".to_owned());
            self.base.clear();
        }
        let one = |((cpu, cause), (count, total, longest)): (&(CpuId, Cause), &rows::Noise)| {
            let base = self.base.get(&(*cpu, cause.clone())).copied().unwrap_or_default();
            let more = count.map(|count| count - base.0.unwrap_or_default());
            Disturbance {
                cpu: *cpu,
                cause: cause.clone(),
                pid: None,
                count: more,
                total: total.map(|total| Nanos(total.0.saturating_sub(base.1.unwrap_or_default().0))),
                // One that is no longer than that of before may be that of before.
                longest: (*longest > base.2).then_some(*longest).flatten(),
                longest_at: None,
            }
        };
        let rows = now.iter().filter(|((cpu, _), _)| self.cpus.contains(*cpu)).map(one);
        Ok(Disturbed {
            began: self.began,
            at: frame.read_at(Entity::Noise).unwrap_or(frame.at),
            cpus: self.cpus.clone(),
            rows: rows.filter(|row| row.count != Some(0)).collect(),
            lost,
            missing: vec!["stretches one by one: they are not recorded".to_owned()],
            has_unknown_lengths: true,
            source: format!("a recording of machine {}", self.machine.name),
            ..Disturbed::default()
        })
    }
}

impl Accounting for RecordedMachine {
    fn watch(&self) -> Result<Box<dyn UsageWatch + '_>, Absent> {
        Ok(Box::new(Watch(self)))
    }

    fn load(&self) -> Result<BTreeMap<PsetId, u64>, Refusal> {
        rows::load(&self.frame()).ok_or_else(|| unrecorded("threads: it was made without --threads").into())
    }
}

impl UsageWatch for Watch<'_> {
    fn sample(&mut self) -> Result<Usage, Refusal> {
        Ok(rows::usage(&self.0.frame()))
    }

    fn wait(&mut self, deadline: Nanos) -> WakeReason {
        self.0.sleep_until(deadline);
        WakeReason::Deadline
    }

    fn explain(&self) -> Vec<String> {
        origin(self.0)
    }
}

#[cfg(test)]
mod tests;
