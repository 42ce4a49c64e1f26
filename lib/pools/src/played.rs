//! Demand that is played on a machine without running threads: each pool has a demand in CPUs, and uses the CPUs that its set has. A year, or a
//! recorded day, takes minutes. The [`Manager`](crate::Manager) that sizes the sets is that of poold.
//!
//! Work is modelled as a fluid: a set with `n` CPUs whose pools want `d` uses `min(d, n)`, evenly on its CPUs, and `d - n` threads wait if that is
//! positive. What happens to work without a CPU is unknown; there are two models ([`Unserved`]), and neither is a bound.
//! Caches, migrations and scheduling classes are not modelled; the simulated machine models them, thread by thread.
//!
//! A set counts as used if one of its pools has a process, as on any machine: the caller creates one.

use crate::error::PoolError;
use crate::manager::{Manager, Rhythm, Turn};
use millpond_machine::facets::{PRESSURE_INTERVAL, Usage, UsageWatch, Waited, WakeReason};
use millpond_machine::{Machine, Refusal};
use millpond_model::pools::PoolsState;
use millpond_model::{CpuId, Nanos, PsetId};
use std::collections::BTreeMap;

/// What happens to work without a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unserved {
    /// Waiting threads want CPUs for as long as they waited in the recording, independent of what they get. This holds for a service whose
    /// clients give up and retry, and for endless computations.
    Lost,
    /// A waiting thread has one slice of work, and does it as soon as there is a CPU.
    Kept,
}

/// The work of a waiting thread, in seconds of CPU time. Slices are 20 to 200 ms in the standard table of TS (ts_dptbl(5)), and some ms
/// under EEVDF.
const SLICE_S: f64 = 0.1;

/// The measured activity of a pool, averaged over an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Seen {
    /// CPUs that it used.
    pub used: f64,
    /// Threads that waited for a CPU.
    pub waiting: f64,
    /// Threads of the pool, the limit of waiting ones. Infinite if unknown.
    pub threads: f64,
}

impl Seen {
    /// Whether it wanted a CPU.
    #[must_use]
    pub fn is_demand(&self) -> bool {
        self.used + self.waiting > 0.0
    }
}

/// More waiting threads than this, on average, are pressure: the same threshold as in [`Usage::is_pressed_since`].
const PRESSED: f64 = 0.25;

/// CPU time that a pool used and lacked.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Served {
    /// CPU time used, in seconds.
    pub used: f64,
    /// Time that its threads waited for a CPU, summed over threads, in seconds.
    pub waited: f64,
}

/// Plays demand on a machine.
pub struct DemandPlayer<'m> {
    machine: &'m dyn Machine,
    unserved: Unserved,
    /// CPUs that each pool wants, by name.
    wanted: BTreeMap<String, f64>,
    /// Unserved work of each pool, in CPU seconds.
    kept: BTreeMap<String, f64>,
    /// The last recorded activity of each pool, if a recording is played.
    seen: BTreeMap<String, Seen>,
    usage: Usage,
    served: BTreeMap<String, Served>,
}

/// A set while its size and its demand stay the same.
struct Play {
    id: PsetId,
    cpus: Vec<CpuId>,
    /// Its pools, and for each its demand in CPUs and its unserved work in CPU seconds.
    pools: Vec<(String, f64, f64)>,
    /// The threads of these pools.
    threads: f64,
}

impl Play {
    fn size(&self) -> f64 {
        f64::from(u32::try_from(self.cpus.len()).unwrap_or(u32::MAX))
    }

    /// Threads that wait for a CPU.
    fn waiting(&self) -> f64 {
        let wanted: f64 = self.pools.iter().map(|(_, wanted, kept)| (wanted + kept / SLICE_S).max(0.0)).sum();
        (wanted - self.size()).min(self.threads - self.size()).max(0.0)
    }
}

impl<'m> DemandPlayer<'m> {
    /// Starts now, without demand.
    #[must_use]
    pub fn begin(machine: &'m dyn Machine, unserved: Unserved) -> Self {
        let usage = Usage { at: machine.clock().now(), ..Usage::default() };
        let (wanted, kept, seen, served) = <_>::default();
        DemandPlayer { machine, unserved, wanted, kept, seen, usage, served }
    }

    /// Sets the demand of pools in CPUs from now on; a pool that is not named wants none.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    pub fn want(&mut self, wanted: BTreeMap<String, f64>) -> Result<(), Refusal> {
        self.pass()?;
        self.wanted = wanted;
        Ok(())
    }

    /// From now on pools repeat the recorded activity of an interval, as far as their CPUs allow; pools that are not named do nothing. On
    /// sets of the recorded sizes they would wait as recorded.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    pub fn follow(&mut self, seen: &BTreeMap<String, Seen>, elapsed: Nanos) -> Result<(), Refusal> {
        self.pass()?;
        self.wanted.clear();
        for (pool, now) in seen {
            let before = self.seen.insert(pool.clone(), *now);
            let wanted = match (self.unserved, before) {
                (Unserved::Lost, _) => now.used + now.waiting,
                (Unserved::Kept, None) => {
                    self.kept.insert(pool.clone(), now.waiting * SLICE_S);
                    now.used
                }
                // The usage, and the change of waiting work.
                (Unserved::Kept, Some(before)) => {
                    now.used + (now.waiting - before.waiting) * SLICE_S / elapsed.as_secs_f64().max(SLICE_S)
                }
            };
            self.wanted.insert(pool.clone(), wanted);
        }
        Ok(())
    }

    /// Accounts for the time up to now. Must be called before any change of the machine that the manager does not make; the manager samples first.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    pub fn pass(&mut self) -> Result<(), Refusal> {
        let mut plays = self.plays()?;
        self.go_on(&mut plays);
        Ok(())
    }

    /// CPU time that each pool has used and lacked so far.
    #[must_use]
    pub fn served(&self) -> &BTreeMap<String, Served> {
        &self.served
    }

    /// Advances the clock to `end` while a manager runs its turns as in poold. Each turn is passed to the callback.
    ///
    /// # Errors
    /// If the machine cannot be read.
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
            let of = |all: &BTreeMap<String, f64>, name: &str| all.get(name).copied().unwrap_or(0.0);
            let pools = conf.pools.iter().filter(|pool| pool.pset == set.ref_id);
            let threads = |name: &str| self.seen.get(name).map_or(f64::INFINITY, |seen| seen.threads);
            Play {
                threads: pools.clone().map(|pool| threads(&pool.name)).sum(),
                id: set.id.unwrap_or(PsetId::DEFAULT),
                cpus: set.cpus().iter().filter(|cpu| cpu.runs_threads()).map(|cpu| cpu.id).collect(),
                pools: pools
                    .map(|pool| (pool.name.clone(), of(&self.wanted, &pool.name), of(&self.kept, &pool.name)))
                    .collect(),
            }
        };
        Ok(conf.psets.iter().map(play).collect())
    }

    /// Accounts for the time since the last sample.
    fn go_on(&mut self, plays: &mut [Play]) {
        let now = self.machine.clock().now();
        let passed = now - self.usage.at;
        self.usage.at = now;
        let mut left = passed;
        loop {
            // If unserved work is kept, the number of waiting threads falls in the meantime.
            let changes = self.unserved == Unserved::Kept && plays.iter().any(|play| play.waiting() > 0.0);
            let part = if changes { left.min(PRESSURE_INTERVAL) } else { left };
            self.book(plays, part);
            left = left - part;
            if left == Nanos(0) {
                break;
            }
        }
        let is_there = |set: &PsetId| plays.iter().any(|play| play.id == *set);
        self.usage.waited.retain(|set, _| is_there(set));
    }

    /// Accounts for a time in which the number of waiting threads is constant.
    fn book(&mut self, plays: &mut [Play], passed: Nanos) {
        let seconds = passed.as_secs_f64();
        for play in plays {
            let (size, waiting) = (play.size(), play.waiting());
            let work_of = |cpus: f64, kept: f64| (cpus * seconds + kept).max(0.0);
            let wanted: f64 = play.pools.iter().map(|(_, cpus, kept)| work_of(*cpus, *kept)).sum();
            let used = wanted.min(size * seconds);
            let part = if wanted > 0.0 { used / wanted } else { 1.0 };
            for (name, cpus, kept) in &mut play.pools {
                let work = work_of(*cpus, *kept);
                if self.unserved == Unserved::Kept {
                    *kept = work * (1.0 - part);
                    self.kept.insert(name.clone(), *kept);
                }
                let served = self.served.entry(name.clone()).or_default();
                served.used += work * part;
                // Waiting threads are divided among pools by their work.
                let share = if wanted > 0.0 { work / wanted } else { 0.0 };
                served.waited += waiting * share * seconds;
            }
            let each = if size > 0.0 { Nanos(nanos(used / size)).min(passed) } else { Nanos(0) };
            for cpu in &play.cpus {
                let busy = self.usage.busy.entry(*cpu).or_default();
                *busy = *busy + each;
            }
            let waited = self.usage.waited.entry(play.id).or_insert(Waited::Threads(Nanos(0)));
            if let Waited::Threads(time) = waited {
                *time = *time + Nanos(nanos(waiting * seconds));
            }
        }
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
            let Ok(mut plays) = self.plays() else { return WakeReason::Deadline };
            let is_pressed = plays.iter().any(|play| play.waiting() > PRESSED);
            let next = if is_pressed { deadline.min(clock.now() + PRESSURE_INTERVAL) } else { deadline };
            clock.sleep_until(next);
            self.go_on(&mut plays);
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
