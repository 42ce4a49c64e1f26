//! The poold of the shell's simulated machine. It uses the same manager as the daemon, at the same intervals, while
//! simulated time passes.

use millpond_machine::facets::{PRESSURE_INTERVAL, Usage, UsageWatch};
use millpond_machine::{Machine, Writer};
use millpond_model::Nanos;
use millpond_planner::{POLICIES, Policy, policy};
use millpond_pools::{Manager, OnPressure, POLICY_PROPERTY, Record, Rhythm, SLOW, dynamic};
use millpond_session::{SimDaemon, Simulation};
use std::cell::RefCell;

/// The name of its decision record.
pub const NAME: &str = "poold";

/// The interval at which set membership is applied to new threads.
const SETTLE: Nanos = Nanos::from_millis(1000);

/// The daemon, which acts at certain moments of simulated time.
pub struct Poold(RefCell<Inside>);

struct Inside {
    manager: Manager,
    rhythm: Rhythm,
    record: Record,
    /// The start of the interval.
    began: Nanos,
    /// The end of the interval, if it is fixed.
    fixed: Option<Nanos>,
    /// The last sample.
    before: Option<Usage>,
    settled: Option<Nanos>,
}

fn named(name: &str) -> Box<dyn Policy> {
    policy(name).unwrap_or_else(|| Box::new(millpond_planner::Millpond::default()))
}

impl Poold {
    /// A daemon that starts now.
    pub fn new(now: Nanos) -> Poold {
        Poold(RefCell::new(Inside {
            manager: Manager::new(named(POLICIES[0])),
            rhythm: Rhythm::of(POLICIES[0], None),
            record: Record::default(),
            began: now,
            fixed: Some(now),
            before: None,
            settled: None,
        }))
    }

    /// Reads the configured interval. A changed one applies to the current interval as well.
    pub fn heed(&self, machine: &dyn Machine) {
        let inside = &mut *self.0.borrow_mut();
        if let Ok(state) = dynamic::read(machine) {
            inside.rhythm = Rhythm::of(inside.manager.policy_name(), state.conf.system.monitor_interval);
        }
    }

    /// Ends the daemon. Returns the last line of its decision record.
    pub fn end(&self) -> Option<String> {
        self.0.borrow_mut().record.finish(None)
    }
}

impl SimDaemon for Poold {
    fn due(&self) -> Nanos {
        let inside = self.0.borrow();
        let end = inside.fixed.unwrap_or(inside.began + inside.rhythm.interval);
        let looks = inside.fixed.is_none() && inside.rhythm.wakes;
        match &inside.before {
            Some(before) if looks => end.min(before.at + PRESSURE_INTERVAL),
            _ => end,
        }
    }

    fn act(&self, simulation: Simulation<'_>) {
        let inside = &mut *self.0.borrow_mut();
        let now = simulation.machine().clock().now();
        let mut watch = simulation.watch_since_boot();
        let Ok(usage) = watch.sample() else { return };
        let is_over = now >= inside.fixed.unwrap_or(inside.began + inside.rhythm.interval);
        if is_over {
            inside.turn(simulation, watch.as_mut(), now);
        } else if inside.before.as_ref().is_some_and(|before| usage.is_pressed_since(before)) {
            inside.fixed = Some(match Rhythm::on_pressure(inside.began, now) {
                OnPressure::Until(at) => at.max(now),
                OnPressure::Again(length) => {
                    // This cannot fail: simulated machines count everything.
                    let _ = inside.manager.look(watch.as_mut());
                    inside.began = now;
                    now + length
                }
            });
        }
        inside.before = Some(usage);
    }
}

impl Inside {
    fn turn(&mut self, simulation: Simulation<'_>, watch: &mut dyn UsageWatch, now: Nanos) {
        let machine = simulation.machine();
        (self.began, self.fixed) = (now, None);
        let Ok(state) = dynamic::read(machine) else {
            // Pools are disabled. poold waits until they are enabled.
            self.fixed = Some(now + SLOW);
            return;
        };
        let system = &state.conf.system;
        let name =
            system.user.string(POLICY_PROPERTY).filter(|name| POLICIES.contains(name)).unwrap_or(POLICIES[0]);
        if name != self.manager.policy_name() {
            self.manager = Manager::new(named(name));
        }
        self.rhythm = Rhythm::of(name, system.monitor_interval);
        if let Ok(turn) = self.manager.turn(machine, watch)
            && let Some(decision) = turn.decision
            && let Some(line) = self.record.take(decision, turn.outcome)
        {
            simulation.record(NAME, &line);
        }
        if self.settled.is_none_or(|settled| now >= settled + SETTLE) {
            self.settled = Some(now);
            // A refused step is tried again after a second.
            let _ = Writer::open(machine).and_then(|writer| writer.settle());
        }
    }
}
