//! A simulated daemon, started from the shell. The code that advances time runs it when it is due.

use crate::machine::SimMachine;
use crate::state::SimState;
use millpond_machine::Clock;
use millpond_model::{Nanos, Outcome, Pid};
use std::rc::Rc;

/// A daemon that runs at times of its own choice. It never sleeps; it names its next time instead.
pub trait Daemon {
    /// The time of its next run.
    fn due(&self) -> Nanos;

    /// Runs once, at the current time.
    fn act(&self, machine: &SimMachine);
}

impl SimMachine {
    /// Sets or replaces the machine's daemon; `None` removes it.
    pub fn set_daemon(&self, daemon: Option<Rc<dyn Daemon>>) {
        self.daemon.replace(daemon);
    }

    /// Advances time to `until`, and runs the daemon whenever it is due. `go` advances to a given time; it returns a value if it stopped early.
    fn pass<T>(&self, until: Nanos, mut go: impl FnMut(&mut SimState, Nanos) -> Option<T>) -> Option<T> {
        let mut acted: Option<Nanos> = None;
        loop {
            let now = self.now();
            let daemon = self.daemon.borrow().clone();
            // The next run is later than the last one.
            let earliest = if acted == Some(now) { now + Nanos(1) } else { now };
            let due = daemon.as_ref().map(|daemon| daemon.due().max(earliest));
            let next = due.filter(|due| *due < until).unwrap_or(until);
            if let Some(end) = self.edit(|s| go(s, next)) {
                return Some(end);
            }
            match daemon {
                Some(daemon) if next < until => {
                    acted = Some(next);
                    daemon.act(self);
                }
                _ => return None,
            }
        }
    }

    pub(crate) fn pass_until(&self, until: Nanos) {
        let gone: Option<()> = self.pass(until, |s, next| {
            s.advance(next.0);
            None
        });
        debug_assert!(gone.is_none());
    }

    /// Advances time until the next note about a thread, at most to `until`.
    pub(crate) fn pass_until_noted(&self, until: Nanos) {
        let _noted: Option<()> = self.pass(until, |s, next| {
            while s.halted.is_none() && s.kernel.now() < next.0 {
                s.go_on(next.0);
                if s.notes.as_ref().is_some_and(|notes| !notes.is_empty()) {
                    return Some(());
                }
            }
            s.kernel.grow_old(next.0);
            None
        });
    }

    /// Advances time until a process has ended, at most to `until`. `false`: it still runs.
    pub fn run_until_ended(&self, pid: Pid, until: Nanos) -> bool {
        let ended = self.pass(until, |s, next| {
            let ended = s.advance_until_ended(pid, next.0);
            (ended || s.halted.is_some()).then_some(ended)
        });
        ended.unwrap_or(false)
    }

    /// Advances time until no thread has work, at most to `until`. Does not wait for later runs of the daemon.
    pub fn run_until_idle(&self, until: Nanos) -> Outcome {
        let end = self.pass(until, |s, next| match s.advance_until_idle(next.0) {
            Outcome::Due => None,
            end => Some(end),
        });
        end.unwrap_or(Outcome::Due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::Load;
    use std::cell::RefCell;

    /// Runs every 10 ms and records the times.
    #[derive(Default)]
    struct Clerk(RefCell<Vec<u64>>);

    impl Daemon for Clerk {
        fn due(&self) -> Nanos {
            Nanos::from_millis(10 * (1 + self.0.borrow().len() as u64))
        }

        fn act(&self, machine: &SimMachine) {
            self.0.borrow_mut().push(machine.now().0);
        }
    }

    fn ms(count: u64) -> u64 {
        Nanos::from_millis(count).0
    }

    #[test]
    fn a_daemon_acts_at_its_moments_whatever_lets_time_pass() {
        let machine = SimMachine::named("x4200").unwrap();
        let clerk = Rc::new(Clerk::default());
        machine.set_daemon(Some(Rc::clone(&clerk) as Rc<dyn Daemon>));
        assert!(machine.daemon.borrow().is_some());
        machine.sleep_until(Nanos::from_millis(25));
        assert_eq!(
            (machine.now(), clerk.0.borrow().as_slice()),
            (Nanos::from_millis(25), &[ms(10), ms(20)][..])
        );
        // `sleep_until` itself ends the sleep; the daemon runs when time advances further.
        machine.sleep_until(Nanos::from_millis(30));
        assert_eq!(clerk.0.borrow().len(), 2);
        let words: Vec<String> = ["nap", "--run", "1", "--sleep", "1"].map(str::to_owned).to_vec();
        let pid = Load::parse(&words).map(|load| machine.start_load(&load)).unwrap();
        assert!(!machine.run_until_ended(pid, Nanos::from_millis(45)));
        assert_eq!(clerk.0.borrow()[2..], [ms(30), ms(40)]);
        machine.set_daemon(None);
        machine.sleep_until(Nanos::from_millis(100));
        assert_eq!(clerk.0.borrow().len(), 4);
    }

    #[test]
    fn a_daemon_that_wants_to_act_again_at_once_does_not_stop_time() {
        struct Hasty;
        impl Daemon for Hasty {
            fn due(&self) -> Nanos {
                Nanos(0)
            }
            fn act(&self, _: &SimMachine) {}
        }
        let machine = SimMachine::named("smartos-2").unwrap();
        machine.set_daemon(Some(Rc::new(Hasty)));
        machine.sleep_until(Nanos(50));
        assert_eq!(machine.now(), Nanos(50));
    }
}
