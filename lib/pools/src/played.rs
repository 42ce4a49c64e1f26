//! Demand that is played on a machine on which nothing runs: each pool wants so many CPUs, and what its set has of them it uses. A year of it, or a
//! recorded day, is over in minutes, and the [`Manager`](crate::Manager) that sizes the sets is the one of poold.
//!
//! Work is a fluid here: a set with `n` CPUs whose pools want `d` uses `min(d, n)`, evenly on its CPUs, and `d - n` threads wait where that is more than
//! none. What becomes of work for which there was no CPU cannot be known from outside ([`Unserved`]); the two answers are the two ends of what would
//! have happened. Caches, migrations and classes are not modelled: the simulated machine does that, thread by thread.
//!
//! A set counts as used where a process is in one of its pools, as everywhere: the caller puts one there.

use crate::error::PoolError;
use crate::manager::{Manager, Rhythm, Turn};
use millpond_machine::facets::{PRESSURE_INTERVAL, Usage, UsageWatch, Waited, WakeReason};
use millpond_machine::{Machine, Refusal};
use millpond_model::pools::{CpuNode, PoolsState};
use millpond_model::{CpuId, Nanos, PsetId, State};
use std::collections::BTreeMap;

/// What becomes of work for which there was no CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unserved {
    /// It is not done at all, as by a service whose callers give up: demand is what it was.
    Lost,
    /// It waits, and is done as soon as there are CPUs, as by a batch.
    Kept,
}

/// Work that was kept is wanted within this time, beside what is wanted anyway.
const CATCH_UP_S: f64 = 1.0;

/// Threads that wait are pressure when they are more than this, on average: as [`Usage::is_pressed_since`] has it.
const PRESSED: f64 = 0.25;

/// What a pool had and lacked.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Served {
    /// CPU time that it used, in seconds.
    pub used: f64,
    /// Time that its threads waited for a CPU, added up over threads, in seconds.
    pub waited: f64,
}

/// Demand on a machine.
pub struct DemandPlayer<'m> {
    machine: &'m dyn Machine,
    unserved: Unserved,
    /// CPUs that each pool wants, by name.
    wanted: BTreeMap<String, f64>,
    /// CPU seconds of each pool that were kept.
    kept: BTreeMap<String, f64>,
    usage: Usage,
    served: BTreeMap<String, Served>,
}

/// A set, while its size and what is wanted of it stay the same.
struct Play {
    id: PsetId,
    cpus: Vec<CpuId>,
    /// Its pools, and what each wants: CPUs anyway, and CPU seconds of before.
    pools: Vec<(String, f64, f64)>,
}

impl Play {
    fn size(&self) -> f64 {
        f64::from(u32::try_from(self.cpus.len()).unwrap_or(u32::MAX))
    }

    /// Threads that wait for a CPU.
    fn waiting(&self) -> f64 {
        let wanted: f64 = self.pools.iter().map(|(_, wanted, kept)| wanted + kept / CATCH_UP_S).sum();
        (wanted - self.size()).max(0.0)
    }
}

impl<'m> DemandPlayer<'m> {
    /// Begins now, with no demand.
    #[must_use]
    pub fn begin(machine: &'m dyn Machine, unserved: Unserved) -> Self {
        let usage = Usage { at: machine.clock().now(), ..Usage::default() };
        let (wanted, kept, served) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        DemandPlayer { machine, unserved, wanted, kept, usage, served }
    }

    /// From now on pools want so many CPUs; those that are not named want none.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    pub fn want(&mut self, wanted: BTreeMap<String, f64>) -> Result<(), Refusal> {
        self.pass()?;
        self.wanted = wanted;
        Ok(())
    }

    /// Before the machine is changed by another hand than that of the manager, which looks first.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    pub fn pass(&mut self) -> Result<(), Refusal> {
        let plays = self.plays()?;
        self.go_on(&plays);
        Ok(())
    }

    /// What each pool has had and lacked so far.
    #[must_use]
    pub fn served(&self) -> &BTreeMap<String, Served> {
        &self.served
    }

    /// Lets time pass until `end`, while a manager does what poold does. Each turn is told.
    ///
    /// # Errors
    /// When the machine cannot be read.
    pub fn manage(
        &mut self,
        manager: &mut Manager,
        rhythm: Rhythm,
        end: Nanos,
        told: &mut dyn FnMut(&Turn),
    ) -> Result<(), PoolError> {
        let (machine, clock) = (self.machine, self.machine.clock());
        while clock.now() < end {
            let began = clock.now();
            told(&manager.turn(machine, self)?);
            manager.wait(rhythm, clock, self, (began, Some(end)))?;
        }
        Ok(self.pass()?)
    }

    fn plays(&self) -> Result<Vec<Play>, Refusal> {
        let Some(PoolsState { conf, .. }) = self.machine.pools()?.state()? else { return Ok(Vec::new()) };
        let play = |set: &millpond_model::pools::PsetNode| {
            let runs = |cpu: &&CpuNode| cpu.state().is_none_or(State::runs_threads);
            let of = |all: &BTreeMap<String, f64>, name: &str| all.get(name).copied().unwrap_or(0.0);
            let pools = conf.pools.iter().filter(|pool| pool.pset == set.ref_id);
            Play {
                id: set.id.unwrap_or(PsetId::DEFAULT),
                cpus: set.cpus().iter().filter(runs).map(|cpu| cpu.id).collect(),
                pools: pools
                    .map(|pool| (pool.name.clone(), of(&self.wanted, &pool.name), of(&self.kept, &pool.name)))
                    .collect(),
            }
        };
        Ok(conf.psets.iter().map(play).collect())
    }

    /// Books the time since the last look.
    fn go_on(&mut self, plays: &[Play]) {
        let now = self.machine.clock().now();
        let passed = now - self.usage.at;
        let seconds = passed.as_secs_f64();
        self.usage.at = now;
        for play in plays {
            let size = play.size();
            let wanted: f64 = play.pools.iter().map(|(_, wanted, kept)| wanted * seconds + kept).sum();
            let used = wanted.min(size * seconds);
            let part = if wanted > 0.0 { used / wanted } else { 1.0 };
            for (name, cpus, kept) in &play.pools {
                let work = cpus * seconds + kept;
                if self.unserved == Unserved::Kept {
                    self.kept.insert(name.clone(), work * (1.0 - part));
                }
                let served = self.served.entry(name.clone()).or_default();
                served.used += work * part;
                // Of those that wait a share waits for each pool.
                let share = if wanted > 0.0 { work / wanted } else { 0.0 };
                served.waited += play.waiting() * share * seconds;
            }
            let each = if size > 0.0 { Nanos(nanos(used / size)).min(passed) } else { Nanos(0) };
            for cpu in &play.cpus {
                let busy = self.usage.busy.entry(*cpu).or_default();
                *busy = *busy + each;
            }
            let waited = self.usage.waited.entry(play.id).or_insert(Waited::Threads(Nanos(0)));
            if let Waited::Threads(time) = waited {
                *time = *time + Nanos(nanos(play.waiting() * seconds));
            }
        }
        let is_there = |set: &PsetId| plays.iter().any(|play| play.id == *set);
        self.usage.waited.retain(|set, _| is_there(set));
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is not negative, and ends at the largest"
)]
fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

impl UsageWatch for DemandPlayer<'_> {
    fn sample(&mut self) -> Result<Usage, Refusal> {
        self.pass()?;
        Ok(self.usage.clone())
    }

    fn wait(&mut self, deadline: Nanos) -> WakeReason {
        let clock = self.machine.clock();
        while clock.now() < deadline {
            let Ok(plays) = self.plays() else { return WakeReason::Deadline };
            let is_pressed = plays.iter().any(|play| play.waiting() > PRESSED);
            let next = if is_pressed { deadline.min(clock.now() + PRESSURE_INTERVAL) } else { deadline };
            clock.sleep_until(next);
            self.go_on(&plays);
            if is_pressed {
                return WakeReason::Pressure;
            }
        }
        WakeReason::Deadline
    }

    fn explain(&self) -> Vec<String> {
        vec!["use and waiting are those of a demand that is played".to_owned()]
    }
}
