//! poold for experiments: the same manager at the same intervals, as long as the value lives.

use crate::Failure;
use millpond_machine::Machine;
use millpond_machine::facets::{UsageWatch, WakeReason};
use millpond_model::Nanos;
use millpond_planner::policy;
use millpond_pools::{Done, Manager, OnPressure, Rhythm};
use std::sync::atomic::{AtomicBool, Ordering};

/// Polling interval of the stop flag.
const LOOK: Nanos = Nanos::from_millis(500);

/// Manages the pools of a machine while time passes.
pub(crate) struct Keeper<'m> {
    machine: &'m dyn Machine,
    manager: Manager,
    watch: Box<dyn UsageWatch + 'm>,
    rhythm: Rhythm,
    /// Start of the interval.
    began: Nanos,
    /// End of the interval, if it is fixed.
    fixed: Option<Nanos>,
    /// Number of moved CPUs.
    pub moves: u64,
    /// Number of configuration changes that moved them.
    pub changes: u64,
    /// The last advice.
    pub advice: Option<String>,
}

impl<'m> Keeper<'m> {
    /// Starts now, with this policy.
    pub fn begin(machine: &'m dyn Machine, name: &str) -> Result<Self, Failure> {
        let unknown = || Failure::Machine(format!("there is no policy {name}"));
        let mut manager = Manager::new(policy(name).ok_or_else(unknown)?);
        let accounting = machine.accounting().map_err(Failure::NotHere)?;
        let mut watch = accounting.watch().map_err(Failure::NotHere)?;
        manager.look(watch.as_mut()).map_err(Failure::pools("manage pools"))?;
        let (rhythm, began) = (Rhythm::of(name, None), machine.clock().now());
        Ok(Keeper { machine, manager, watch, rhythm, began, fixed: None, moves: 0, changes: 0, advice: None })
    }

    /// Advances time to `end`, with poold's actions. `after` is called after each run that moved CPUs.
    ///
    /// # Errors
    /// [`Failure::Stopped`], errors of `after`, and [`Failure::Pools`] when the machine cannot be read.
    pub fn until(
        &mut self,
        end: Nanos,
        stop: &AtomicBool,
        after: &mut dyn FnMut() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let clock = self.machine.clock();
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(Failure::Stopped);
            }
            let now = clock.now();
            let due = self.fixed.unwrap_or(self.began + self.rhythm.interval);
            if now >= due {
                if self.turn()? {
                    after()?;
                }
                continue;
            }
            if now >= end {
                return Ok(());
            }
            let until = due.min(end).min(now + LOOK);
            if self.fixed.is_some() || !self.rhythm.wakes {
                clock.sleep_until(until);
            } else if self.watch.wait(until) == WakeReason::Pressure {
                let now = clock.now();
                self.fixed = Some(match Rhythm::on_pressure(self.began, now) {
                    OnPressure::Until(at) => at,
                    OnPressure::Again(length) => {
                        let looked = self.manager.look(self.watch.as_mut());
                        looked.map_err(Failure::pools("manage pools"))?;
                        self.began = now;
                        now + length
                    }
                });
            }
        }
    }

    /// Runs the manager once. Returns whether CPUs were moved.
    fn turn(&mut self) -> Result<bool, Failure> {
        let turn = self.manager.turn(self.machine, self.watch.as_mut());
        let turn = turn.map_err(Failure::pools("manage pools"))?;
        (self.began, self.fixed) = (self.machine.clock().now(), None);
        let Some(decision) = turn.decision else { return Ok(false) };
        self.advice = decision.advice.or(self.advice.take());
        let is_moved = matches!(turn.done, Done::Moved(_));
        if is_moved {
            self.moves += decision.plan.moves.len() as u64;
            self.changes += 1;
        }
        Ok(is_moved)
    }
}
