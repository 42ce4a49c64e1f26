//! The poold of the shell's simulated machine. It decides and moves with the same parts as the daemon, in the same rhythm, while simulated time passes.

use millpond_machine::facets::{PRESSURE_INTERVAL, Usage, UsageWatch};
use millpond_machine::{Machine, Writer};
use millpond_model::Nanos;
use millpond_planner::{POLICIES, Policy, policy};
use millpond_pools::{Manager, OnPressure, POLICY_PROPERTY, Record, Rhythm, SLOW, dynamic};
use millpond_session::{SimDaemon, Simulation};
use std::cell::RefCell;

/// Under what name it keeps its record.
pub const NAME: &str = "poold";

/// How often what appeared beside members follows them.
const SETTLE: Nanos = Nanos::from_millis(1000);

/// It, between two moments at which it acts.
pub struct Poold(RefCell<Inside>);

struct Inside {
    manager: Manager,
    rhythm: Rhythm,
    record: Record,
    /// When the interval began.
    began: Nanos,
    /// When it ends, where that is fixed.
    fixed: Option<Nanos>,
    /// The last look.
    before: Option<Usage>,
    settled: Option<Nanos>,
}

fn named(name: &str) -> Box<dyn Policy> {
    policy(name).unwrap_or_else(|| Box::new(millpond_planner::Millpond::default()))
}

impl Poold {
    /// One that begins now.
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

    /// Another interval that was configured counts from the beginning of the one that lasts.
    pub fn heed(&self, machine: &dyn Machine) {
        let inside = &mut *self.0.borrow_mut();
        if let Ok(state) = dynamic::read(machine) {
            inside.rhythm = Rhythm::of(inside.manager.policy_name(), state.conf.system.monitor_interval);
        }
    }

    /// It ends. What it decided last is to be written down, too.
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
                    // It cannot fail: everything is counted here.
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
            // Pools are disabled: it waits for them.
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
            // What is refused now is tried again in a second.
            let _ = Writer::open(machine).and_then(|writer| writer.settle());
        }
    }
}
