//! Running until nothing is left to do, and why that may never come.

use crate::kernel::Halt;
use crate::machine::SimMachine;
use crate::state::SimState;
use millpond_model::{Lwp, Nanos, Pid};

/// A thread that waits for what nobody will do any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The thread.
    pub lwp: Lwp,
    /// The name of its process.
    pub name: String,
    /// The channel at which it waits.
    pub channel: u32,
}

/// A process that ends only if somebody ends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endless {
    /// Its number.
    pub pid: Pid,
    /// Its name.
    pub name: String,
}

/// How far a machine came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing runs any more.
    Idle,
    /// The time is over.
    Due,
    /// Only these are left, and they wait for ever.
    Deadlock(Vec<Waiting>),
    /// These will never end.
    Endless(Vec<Endless>),
    /// It died.
    Halted(Halt),
}

impl SimState {
    /// The threads that wait for ever, by channel.
    #[must_use]
    pub fn waiting_for_ever(&self) -> Vec<Waiting> {
        let known = |stuck: crate::kernel::Stuck| {
            let lwp = *self.threads.get(&stuck.thread)?;
            let name = self.tables.processes.get(&lwp.pid)?.name.clone();
            Some(Waiting { lwp, name, channel: stuck.channel })
        };
        self.kernel.stuck().into_iter().filter_map(known).collect()
    }

    /// The processes that never end by themselves, ascending.
    fn endless(&self) -> Vec<Endless> {
        let pids = self.kernel.endless().into_iter().filter_map(|thread| self.threads.get(&thread));
        let mut pids: Vec<Pid> = pids.map(|lwp| lwp.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        let name = |pid: Pid| self.tables.processes.get(&pid).map(|p| p.name.clone()).unwrap_or_default();
        pids.into_iter().map(|pid| Endless { pid, name: name(pid) }).collect()
    }

    /// Lets time pass until no thread runs or sleeps for a time, at most until `until`, in nanoseconds since boot.
    pub fn advance_until_idle(&mut self, until: u64) -> Outcome {
        loop {
            if let Some(halt) = self.halted {
                return Outcome::Halted(halt);
            }
            if self.threads.is_empty() {
                return Outcome::Idle;
            }
            let stuck = self.waiting_for_ever();
            if stuck.len() == self.threads.len() {
                return Outcome::Deadlock(stuck);
            }
            let stuck = |e: &Endless| stuck.iter().any(|w| w.lwp.pid == e.pid);
            let endless: Vec<Endless> = self.endless().into_iter().filter(|e| !stuck(e)).collect();
            if !endless.is_empty() {
                return Outcome::Endless(endless);
            }
            if self.kernel.now() >= until {
                return Outcome::Due;
            }
            if let Err(halt) = self.kernel.advance(until) {
                self.halted = Some(halt);
            }
            self.hear();
        }
    }
}

impl SimMachine {
    /// Lets time pass until nothing is left to do, at most until `until`.
    pub fn run_until_idle(&self, until: Nanos) -> Outcome {
        self.edit(|s| s.advance_until_idle(until.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::Load;
    use millpond_machine::Clock;
    use millpond_model::LwpId;

    fn load(machine: &SimMachine, text: &str) -> Pid {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        machine.start_load(&Load::parse(&words).unwrap())
    }

    #[test]
    fn a_machine_is_idle_at_the_moment_when_the_last_thread_ends() {
        let machine = SimMachine::named("t2000").unwrap();
        assert_eq!(machine.run_until_idle(Nanos::from_secs(9)), Outcome::Idle);
        assert_eq!(machine.now(), Nanos(0));
        load(&machine, "spin --for 5 -t 2");
        assert_eq!(machine.run_until_idle(Nanos::from_millis(1)), Outcome::Due);
        assert_eq!(machine.run_until_idle(Nanos::from_secs(9)), Outcome::Idle);
        assert!((5_000_000..6_000_000).contains(&machine.now().0), "{}", machine.now());
    }

    #[test]
    fn what_never_ends_is_named() {
        let machine = SimMachine::named("t2000").unwrap();
        let pids = [load(&machine, "spin"), load(&machine, "build"), load(&machine, "nap")];
        let endless = |pid, name: &str| Endless { pid, name: name.to_owned() };
        let expected = Outcome::Endless(vec![endless(pids[0], "spin"), endless(pids[2], "nap")]);
        assert_eq!(machine.run_until_idle(Nanos::from_secs(9)), expected);
    }

    #[test]
    fn a_job_whose_compiler_was_killed_waits_for_ever() {
        let machine = SimMachine::named("t2000").unwrap();
        let pid = load(&machine, "build --files 2");
        machine.sleep_until(Nanos::from_millis(20));
        assert_eq!(machine.view(SimState::waiting_for_ever), []);
        assert!(machine.exit(Pid(pid.0 + 1)));
        let job = Waiting { lwp: Lwp { pid, lwp: LwpId(1) }, name: "build".into(), channel: 0 };
        assert_eq!(machine.run_until_idle(Nanos::from_secs(9)), Outcome::Deadlock(vec![job]));
        assert_eq!(machine.now(), Nanos::from_millis(20));
    }
}
