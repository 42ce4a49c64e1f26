//! Events: each one is executed by the simulator and by the rules.

use super::super::super::class::End as Side;
use super::super::super::class_state::ClassState;
use super::super::super::classes::table;
use super::super::super::thread::RunState;
use super::super::super::time::SECOND;
use super::super::super::{News, Program};
use super::bench::{Bench, CPU, Difference};
use super::defects::Rule;
use super::subject::{Params, seen};
use millpond_model::{Class, ClassParams};
use millpond_rules::{End, FOREVER, Place, host};

/// The name of an executed event.
type Event = Result<&'static str, Difference>;

impl Bench {
    /// Executes a random event that is possible in the subject's present state.
    pub fn event(&mut self) -> Event {
        match (self.state(), self.random.below(16)) {
            (RunState::Running, 0..=6) => self.tick(),
            (RunState::Running, 7..=8) => self.preempted(),
            (RunState::Running, 9..=10) => self.sleeps(),
            (RunState::Running, 11) => self.enters_user_mode(),
            (RunState::Running, 12) => self.yields(),
            (RunState::Running, 13) => self.forks(),
            (RunState::Running, _) => self.changed_running(),
            (RunState::Queued(_), 0..=7) => self.gets_the_cpu(),
            (RunState::Queued(_), 8..=11) => self.waits_a_second(),
            (RunState::Queued(_), 12) => self.waits_long(),
            (RunState::Queued(_), _) => self.changed_queued(),
            (RunState::Asleep, 0..=10) => self.wakes_up(),
            (RunState::Asleep, 11..=13) => self.sleeps_on(),
            (RunState::Asleep, _) => self.changed_asleep(),
            (state, _) => unreachable!("{state:?}"),
        }
    }

    /// A clock tick, which may include the once-per-second update.
    fn tick(&mut self) -> Event {
        let is_better = self.place_rival() > self.expected.pri;
        // The next tick, or the next update.
        let skips = self.random.once_in(4);
        let is_second = self.clock(skips);
        let is_used_up =
            self.rules.apply(Rule::Charge, &mut self.expected, |s, tables| host::charge(s, tables, 1));
        if !is_used_up && is_better {
            self.rules.apply(Rule::Surrender, &mut self.expected, |s, _| host::surrender(s));
        }
        self.same("request", self.kernel.cpus[CPU].runrun, is_used_up || is_better)?;
        if is_second {
            self.is_due |=
                self.rules.apply(Rule::UpdateRunning, &mut self.expected, |s, t| host::update_running(s, t));
        }
        Ok("tick")
    }

    /// The subject is preempted.
    fn preempted(&mut self) -> Event {
        self.place(self.peers[0], self.expected.pri);
        self.kernel.class_preempt(self.subject);
        let end = self.rules.apply(Rule::Preempt, &mut self.expected, |s, t| host::preempt(s, t));
        self.same("end", self.end_at(self.subject, 0), end)?;
        self.leave();
        Ok("preempt")
    }

    fn sleeps(&mut self) -> Event {
        self.kernel.set_runnable(self.occupant);
        self.kernel.sleep(CPU, self.subject);
        self.left = Some(self.kernel.lbolt());
        self.rules.apply(Rule::BoostIfDue, &mut self.expected, |s, t| host::boost_if_due(s, t));
        Ok("sleep")
    }

    /// The subject returns to user mode, with or without a due boost.
    fn enters_user_mode(&mut self) -> Event {
        let rival = self.place_rival();
        self.kernel.class_trapret(self.subject);
        self.rules.apply(Rule::BoostIfDue, &mut self.expected, |s, t| host::boost_if_due(s, t));
        self.is_due = false;
        if self.expected.class != millpond_rules::Class::Fx as i32 {
            self.same("request", self.kernel.cpus[CPU].runrun, rival > self.expected.pri)?;
        }
        Ok("user mode")
    }

    fn yields(&mut self) -> Event {
        let end = self.rules.apply(Rule::Yield, &mut self.expected, |s, t| host::yield_cpu(s, t));
        self.place(self.peers[0], self.expected.pri);
        self.kernel.class_yield(self.subject);
        self.same("end", self.end_at(self.subject, 0), end)?;
        self.leave();
        Ok("yield")
    }

    fn forks(&mut self) -> Event {
        let mut child = self.expected;
        self.rules.apply(Rule::ForkChild, &mut child, |child, tables| {
            let parent = *child;
            host::fork_child(child, &parent, tables);
        });
        let end_of_child = self.rules.apply(Rule::Wakeup, &mut child, |s, t| host::wakeup(s, t, false));
        let leaves = self.rules.apply(Rule::ForkParent, &mut self.expected, |s, t| host::fork_parent(s, t));
        self.place(self.peers[0], child.pri);
        self.place(self.peers[1], self.expected.pri);
        let left = self.kernel.fork(self.subject, Program::hog(), false);
        let Some(News::Born { child: born, .. }) = self.kernel.take_news().pop() else {
            return Err("no child was born".into());
        };
        self.same("child", seen(&self.kernel, born), child)?;
        self.same("end of the child", self.end_at(born, 0), end_of_child)?;
        self.same("parent in the queue", left, leaves)?;
        self.same("end of the parent", self.end_at(self.subject, 1), End::Back)?;
        self.kernel.end(born);
        self.kernel.take_news();
        self.leave();
        Ok("fork")
    }

    fn gets_the_cpu(&mut self) -> Event {
        self.kernel.sleep(CPU, self.occupant);
        self.same("the CPU", self.kernel.on(CPU), Some(self.subject))?;
        if self.random.once_in(3) {
            self.put_anywhere();
        }
        Ok("run")
    }

    /// Puts a running subject at a random level with a random rest of its slice, on both sides. A random walk alone visits few levels.
    fn put_anywhere(&mut self) {
        let left = i64::from(self.random.below(4));
        let cpupri = self.random.within(0, 59).unsigned_abs();
        match &mut self.kernel.t(self.subject).class {
            ClassState::Ts(state) => {
                (state.cpupri, state.timeleft) = (cpupri, left);
                state.umdpri = state.level();
                (self.expected.cpupri, self.expected.timeleft) = (cpupri.into(), left);
                host::level(&mut self.expected);
                let pri = state.umdpri.into();
                self.kernel.change_pri(self.subject, pri, Side::Back);
            }
            ClassState::Fx(state) if state.timeleft != FOREVER => {
                state.timeleft = left;
                self.expected.timeleft = left;
            }
            _ => {}
        }
    }

    /// The subject is queued during an update.
    fn waits_a_second(&mut self) -> Event {
        let mut after = self.expected;
        let moves = self.rules.apply(Rule::UpdateQueued, &mut after, |s, t| host::update_queued(s, t));
        // One peer was in the queue before; another one goes behind the subject now.
        self.place(self.peers[0], after.pri);
        self.clock(true);
        // The same by the rule for many seconds.
        let mut by_wait = self.expected;
        host::wait(&mut by_wait, &self.rules.tables, 1, true);
        if self.rules.defect.is_none() {
            self.same("one second", after, by_wait)?;
        }
        self.expected = after;
        if moves {
            self.same("end", self.end_at(self.subject, 0), host::end_of(&self.expected, End::Back))?;
        }
        Ok("wait")
    }

    /// The subject is queued during many updates, which the rules apply at once.
    fn waits_long(&mut self) -> Event {
        let seconds = self.random.below(40);
        for _ in 0..seconds {
            self.clock(true);
        }
        self.rules.apply(Rule::UpdateQueued, &mut self.expected, |s, tables| {
            host::wait(s, tables, seconds.into(), true);
        });
        Ok("wait long")
    }

    /// Applies the updates of the subject's sleep.
    fn catch_up(&mut self) {
        let missed = self.missed();
        self.rules.apply(Rule::Wait, &mut self.expected, |s, tables| host::update_asleep(s, tables, missed));
    }

    fn pass_asleep(&mut self) {
        let tick = self.kernel.tick();
        let passed = match self.random.below(8) {
            0..=1 => 0,
            2..=3 => u64::from(self.random.below(3)) * tick,
            4..=6 => u64::from(self.random.below(5)) * SECOND,
            // Many updates; rarely more than the top level of the standard table allows.
            _ if self.random.once_in(50) => u64::from(self.random.below(70_000)) * SECOND,
            _ => u64::from(self.random.below(400)) * SECOND,
        };
        self.kernel.now += passed;
    }

    /// A sleeping subject is updated for the seconds that passed, and sleeps on.
    fn sleeps_on(&mut self) -> Event {
        self.pass_asleep();
        self.kernel.catch_up(self.subject);
        self.catch_up();
        Ok("sleep on")
    }

    fn wakes_up(&mut self) -> Event {
        self.pass_asleep();
        self.catch_up();
        let is_same_tick = self.left == Some(self.kernel.lbolt());
        let end = self
            .rules
            .apply(Rule::Wakeup, &mut self.expected, |s, tables| host::wakeup(s, tables, is_same_tick));
        self.place(self.peers[0], self.expected.pri);
        self.kernel.set_runnable(self.subject);
        self.same("end", self.end_at(self.subject, 0), end)?;
        Ok("wake up")
    }

    /// A user sets parameters or the class of the subject. `place_of` gives the subject's place from its new level.
    fn changed(&mut self, place_of: impl Fn(i32) -> Place) -> Result<End, Difference> {
        let current = self.kernel.thread(self.subject).class.class();
        let class = match self.random.below(8) {
            0 => Class::Ts,
            1 => Class::Ia,
            2 => Class::Fx,
            _ => current,
        };
        let state = self.kernel.thread(self.subject).class;
        let before = (table(&state).params)(&state);
        let is_same = class == current && self.random.once_in(4);
        let params = match before {
            // Only the foreground flag changes.
            ClassParams::Ia { uprilim, upri, foreground } if is_same && self.random.once_in(2) => {
                ClassParams::Ia { uprilim, upri, foreground: !foreground }
            }
            _ if is_same => before,
            _ => self.random.params(class),
        };
        let is_foreground = is_same && params != before;
        let Params { class, uprilim, upri, foreground, quantum } = params.into();
        let mut stored = self.expected;
        host::store(&mut stored, uprilim, upri, foreground, quantum);
        let place = place_of(stored.pri);
        let rule = if is_foreground { Rule::Foreground } else { Rule::Set };
        let end = self.rules.apply(rule, &mut self.expected, |s, tables| {
            if is_foreground {
                return host::foreground(s, tables, foreground, place);
            }
            host::set(s, tables, class, uprilim, upri, foreground, quantum, place)
        });
        self.place(self.peers[0], self.expected.pri);
        if params.class() != current {
            self.is_due = false;
        }
        if params == before {
            // The machine skips unchanged parameters, but the class still updates the thread.
            self.kernel.catch_up(self.subject);
            (table(&state).set_params)(&mut self.kernel, self.subject, params);
        } else {
            self.kernel.set_params(self.subject, params);
        }
        Ok(end)
    }

    fn changed_running(&mut self) -> Event {
        let rival = self.place_rival();
        self.changed(|level| if rival > level { Place::Outranked } else { Place::Running })?;
        Ok("set, running")
    }

    fn changed_queued(&mut self) -> Event {
        let end = self.changed(|_| Place::Queued)?;
        // If the subject keeps its position, it was there before its peer.
        let end = if end == End::Stays { End::Front } else { end };
        self.same("end", self.end_at(self.subject, 0), end)?;
        Ok("set, queued")
    }

    fn changed_asleep(&mut self) -> Event {
        self.pass_asleep();
        self.catch_up();
        self.changed(|_| Place::Asleep)?;
        Ok("set, asleep")
    }
}
