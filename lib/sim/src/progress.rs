//! Running until no thread has work, and the reasons why that never happens.

use crate::kernel::{Stuck, WaitsFor};
use crate::state::SimState;
use millpond_model::{EndlessProcess, Outcome, Pid, StuckThread};

impl SimState {
    /// Threads that wait for ever: first those at channels, by thread number, in order of arrival.
    #[must_use]
    pub fn waiting_for_ever(&self) -> Vec<StuckThread> {
        self.named(&self.kernel.stuck())
    }

    fn named(&self, stuck: &[Stuck]) -> Vec<StuckThread> {
        let known = |stuck: &Stuck| {
            let lwp = *self.threads.get(&stuck.thread)?;
            let name = self.tables.processes.get(&lwp.pid)?.name.clone();
            let at_barrier = matches!(stuck.waits_for, WaitsFor::Barrier { .. });
            Some(StuckThread { lwp, name, at: stuck.waits_for.to_string(), at_barrier })
        };
        stuck.iter().filter_map(known).collect()
    }

    /// Processes that never end by themselves and have no end time, ascending. Stuck threads do not count.
    fn endless(&self, stuck: &[Stuck]) -> Vec<EndlessProcess> {
        let threads = self.kernel.endless().into_iter();
        let threads = threads.filter(|thread| stuck.iter().all(|s| s.thread != *thread));
        let pids = threads.filter_map(|thread| self.threads.get(&thread));
        let mut pids: Vec<Pid> = pids.map(|lwp| lwp.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        pids.retain(|pid| !self.ends.contains_key(pid));
        let name = |pid: Pid| self.tables.processes.get(&pid).map(|p| p.name.clone()).unwrap_or_default();
        pids.into_iter().map(|pid| EndlessProcess { pid, name: name(pid) }).collect()
    }

    /// Whether a process never ends by itself and has no end time.
    #[must_use]
    pub fn never_ends(&self, pid: Pid) -> bool {
        self.endless(&[]).iter().any(|endless| endless.pid == pid)
    }

    /// Advances time until no thread runs or sleeps for a limited time, at most to `until`, in nanoseconds since boot.
    pub fn advance_until_idle(&mut self, until: u64) -> Outcome {
        loop {
            if let Some(halt) = self.halted {
                return Outcome::Halted(halt.to_string());
            }
            if self.threads.is_empty() {
                return Outcome::Idle;
            }
            let stuck = self.kernel.stuck();
            // Devices and handlers may wait for ever too; they are threads without a process.
            let waiting = self.named(&stuck);
            let ends = waiting.iter().any(|one| self.ends.contains_key(&one.lwp.pid));
            if waiting.len() == self.threads.len() && !ends {
                return Outcome::Deadlock(waiting);
            }
            let endless = self.endless(&stuck);
            if !endless.is_empty() {
                return Outcome::Endless(endless);
            }
            if self.kernel.now() >= until {
                return Outcome::Due;
            }
            self.go_on(until);
        }
    }

    /// Advances time until a process has ended, at most to `until`, in nanoseconds since boot. `false`: it still runs.
    pub fn advance_until_ended(&mut self, pid: Pid, until: u64) -> bool {
        while self.tables.processes.contains_key(&pid) {
            if self.halted.is_some() || self.kernel.now() >= until {
                return false;
            }
            self.go_on(until);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Action, Program, Waiting as How};
    use crate::machine::SimMachine;
    use crate::workloads::Load;
    use millpond_machine::Clock;
    use millpond_model::{Lwp, LwpId, Nanos};

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
        let endless = |pid, name: &str| EndlessProcess { pid, name: name.to_owned() };
        let expected = Outcome::Endless(vec![endless(pids[0], "spin"), endless(pids[2], "nap")]);
        assert_eq!(machine.run_until_idle(Nanos::from_secs(9)), expected);
    }

    #[test]
    fn devices_that_wait_for_nobody_hide_no_deadlock_and_make_none() {
        let machine = SimMachine::named("t2000").unwrap();
        let gone = load(&machine, "latstat");
        machine.sleep_until(Nanos::from_millis(10));
        assert!(machine.exit(gone));
        // Its server thread waits for ever, and has no process.
        let pid = load(&machine, "build --files 2");
        machine.sleep_until(Nanos::from_millis(20));
        assert!(machine.exit(Pid(pid.0 + 1)));
        let Outcome::Deadlock(waiting) = machine.run_until_idle(Nanos::from_secs(9)) else {
            panic!("the job waits for ever");
        };
        assert_eq!(waiting.iter().map(|one| one.lwp.pid).collect::<Vec<Pid>>(), [pid]);
    }

    #[test]
    fn a_job_whose_compiler_was_killed_waits_for_ever() {
        let machine = SimMachine::named("t2000").unwrap();
        let pid = load(&machine, "build --files 2");
        machine.sleep_until(Nanos::from_millis(20));
        assert_eq!(machine.view(SimState::waiting_for_ever), []);
        assert!(machine.exit(Pid(pid.0 + 1)));
        let lwp = Lwp { pid, lwp: LwpId(1) };
        let job = StuckThread { lwp, name: "build".into(), at: "channel 0".into(), at_barrier: false };
        assert_eq!(machine.run_until_idle(Nanos::from_secs(9)), Outcome::Deadlock(vec![job]));
        assert_eq!(machine.now(), Nanos::from_millis(20));
    }

    /// Three processes of one thread each that repeatedly compute for 5 ms and meet at a barrier.
    fn three_who_meet(machine: &SimMachine, how: How) -> [Pid; 3] {
        machine.edit(|s| {
            let barrier = s.kernel.barrier(3);
            let turn = vec![Action::User(5_000_000), Action::Meet(barrier, how)];
            [(); 3].map(|()| s.start("party", vec![Program::repeat(turn.clone())]))
        })
    }

    #[test]
    fn those_who_meet_without_end_never_end_and_those_who_miss_one_wait_for_ever() {
        for how in [How::Spin, How::Block] {
            let machine = SimMachine::named("t2000").unwrap();
            let pids = three_who_meet(&machine, how);
            let endless = pids.map(|pid| EndlessProcess { pid, name: "party".into() });
            assert_eq!(machine.run_until_idle(Nanos::from_secs(9)), Outcome::Endless(endless.to_vec()));
            machine.sleep_until(Nanos::from_millis(12));
            assert!(machine.exit(pids[1]));
            // The other two have not reached the barrier yet.
            assert_eq!(machine.view(SimState::waiting_for_ever), []);
            machine.sleep_until(Nanos::from_millis(20));
            let waiting = |pid| StuckThread {
                lwp: Lwp { pid, lwp: LwpId(1) },
                name: "party".into(),
                at: "barrier 0 (2 of 3 are there)".into(),
                at_barrier: true,
            };
            let stuck = vec![waiting(pids[0]), waiting(pids[2])];
            assert_eq!(machine.run_until_idle(Nanos::from_secs(9)), Outcome::Deadlock(stuck), "{how:?}");
            assert_eq!(machine.now(), Nanos::from_millis(20));
        }
    }

    #[test]
    fn what_never_ends_beside_what_is_stuck_is_named_even_within_one_process() {
        let machine = SimMachine::named("t2000").unwrap();
        let pid = machine.edit(|s| {
            let barrier = s.kernel.barrier(2);
            let meet = Program::repeat(vec![Action::Meet(barrier, How::Spin)]);
            s.start("odd", vec![meet, Program::hog()])
        });
        machine.sleep_until(Nanos::from_millis(1));
        let endless = Outcome::Endless(vec![EndlessProcess { pid, name: "odd".into() }]);
        assert_eq!(machine.run_until_idle(Nanos::from_secs(9)), endless);
    }
}
