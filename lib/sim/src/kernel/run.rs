//! Time moves: events happen, programs go on, CPUs switch.

use super::heap::Source;
use super::ids::{CpuIndex, MixId, ThreadId};
use super::program::{Action, Program};
use super::queue::IDLE;
use super::state::{Kernel, News};
use super::thread::{RunState, Thread};
use millpond_model::Column;
use serde::{Deserialize, Serialize};

/// So many actions of one thread that take no time are more than any program means.
const STEPS_MAX: u32 = 100_000;

/// So many events of one instant are more than any workload means, for each thread and CPU.
const EVENTS_MAX: u64 = 1_000;

/// The ways in which a simulated machine dies. Its state is kept for looking at; it cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Halt {
    /// A thread's program goes round and round without taking any time.
    #[error("thread {thread} goes round without taking any time")]
    EndlessProgram {
        /// The thread's number.
        thread: ThreadId,
    },
    /// Threads wake one another for ever without taking any time.
    #[error("threads wake one another for ever at {at} ns without taking any time")]
    EndlessInstant {
        /// Since boot, in nanoseconds.
        at: u64,
    },
}

impl Kernel {
    /// Lets everything happen that is due until `until`, in nanoseconds since boot, that instant included, and forgets
    /// which threads were born and which ended.
    ///
    /// # Errors
    /// [`Halt`] when the machine died.
    pub fn run_until(&mut self, until: u64) -> Result<(), Halt> {
        loop {
            self.advance(until)?;
            if self.take_news().is_empty() {
                return Ok(());
            }
        }
    }

    /// The same until `until`, or until the first instant at which a thread is born or ends.
    ///
    /// # Errors
    /// [`Halt`] when the machine died.
    pub fn advance(&mut self, until: u64) -> Result<(), Halt> {
        self.put_ends_off(true);
        let worked = self.work_until(until);
        self.enter_ends();
        self.put_ends_off(false);
        // What is asked from outside, no CPU did.
        self.at = None;
        worked?;
        self.count_clock();
        for cpu in self.cpus.ids() {
            self.account(cpu);
        }
        Ok(())
    }

    /// Instant after instant, each with all that is due and the switches that follow.
    fn work_until(&mut self, until: u64) -> Result<(), Halt> {
        let (mut instant, mut events) = (self.now, 0u64);
        let most = EVENTS_MAX * (self.threads.len() + self.cpus.len() + 1) as u64;
        self.settle();
        self.enter_ends();
        while let Some(at) = self.heap.next_at().filter(|at| *at <= until) {
            if at > instant {
                (instant, events) = (at, 0);
            }
            self.now = at;
            self.note_tick();
            while let Some(source) = self.heap.pop_due(at) {
                events += 1;
                self.happened += 1;
                self.at = None;
                match source {
                    Source::Clock => self.clock(),
                    Source::Thread(thread) if self.thread(thread).device => self.operate(thread)?,
                    Source::Thread(thread) => self.set_runnable(thread),
                    Source::Cpu(cpu) => {
                        self.at = Some(cpu);
                        self.burst_ended(cpu)?;
                    }
                }
            }
            if events > most {
                return Err(Halt::EndlessInstant { at });
            }
            self.settle();
            self.enter_ends();
            if !self.news.is_empty() {
                break;
            }
        }
        if self.news.is_empty() {
            self.now = until.max(self.now);
        }
        Ok(())
    }

    /// Time passes and nothing happens: for a machine that died.
    pub fn grow_old(&mut self, until: u64) {
        self.now = until.max(self.now);
    }

    /// Every CPU that was asked switches, if it may.
    fn settle(&mut self) {
        while let Some(cpu) = self.asked.pop_first() {
            self.at = Some(cpu);
            let Some(thread) = self.cpus[cpu].running else {
                if let Some(next) = self.next_thread(cpu) {
                    self.switch(cpu, None, Some(next));
                }
                continue;
            };
            let in_kernel = self.thread(thread).in_kernel;
            if self.thread(thread).trapret && !in_kernel {
                self.class_trapret(thread);
            }
            let asked = &self.cpus[cpu];
            if asked.kprunrun || (asked.runrun && !in_kernel) {
                self.displace(cpu, thread);
            }
        }
    }

    /// The running thread leaves its CPU against its will.
    pub(super) fn displace(&mut self, cpu: CpuIndex, thread: ThreadId) {
        self.account(cpu);
        if self.is_interrupted(cpu) && self.may_run(thread, cpu) {
            return self.pin(cpu, thread);
        }
        self.count(cpu, Column::Icsw);
        self.t(thread).tally.involuntary += 1;
        self.class_preempt(thread);
        let next = self.next_thread(cpu);
        self.switch(cpu, Some(thread), next);
    }

    /// A CPU goes from one thread to another. The old one was put where it belongs by the caller.
    pub(super) fn switch(&mut self, number: CpuIndex, from: Option<ThreadId>, to: Option<ThreadId>) {
        self.account(number);
        if from != to {
            if let Some(from) = from {
                self.charge_caps(from);
                self.note_warmth(from, number);
            }
            self.happened += 1;
            // Handlers of interrupts come and go on the back of what runs.
            let handler = |thread: Option<ThreadId>| thread.is_some_and(|t| self.thread(t).level > 0);
            let [to_handler, from_handler] = [handler(to), handler(from)];
            if to_handler || from_handler {
                self.count_interrupt(number, to);
                let resumes = to.is_some_and(|to| self.thread(to).state == RunState::Pinned);
                // A handler on an idle CPU made a thread runnable: the idle thread gives way to it.
                if let Some(to) = to.filter(|_| !to_handler && !resumes) {
                    self.count_arrival(number, to);
                }
            } else {
                self.count_switch(number, from, to);
            }
            if let Some(to) = to {
                let by_interrupt = std::mem::take(&mut self.t(to).by_interrupt);
                if from.is_none() {
                    let arrives = if by_interrupt { self.hardware.interrupt_ns } else { 0 };
                    self.owe(to, self.hardware.idle_exit_ns + arrives);
                }
            }
        }
        let cpu = &mut self.cpus[number];
        cpu.running = to;
        cpu.dispatch_pri = IDLE;
        match to {
            None => {
                self.busy.remove(number);
                self.update_instruction_time(number);
            }
            Some(to) => {
                let resumed = self.thread(to).state == RunState::Pinned;
                let t = self.t(to);
                (t.state, t.cpu) = (RunState::Running, number);
                let (pri, wanted) = (t.effective(), t.trapret);
                self.cpus[number].dispatch_pri = pri;
                self.busy.insert(number);
                if !resumed && from != Some(to) {
                    if self.tunables.wakeup_parity_nsec > 0 {
                        self.cpus[number].begun_at = self.now;
                    }
                    self.note_begin(number, to);
                    self.arrive(to, number);
                }
                self.update_instruction_time(number);
                self.set_end(number, to);
                if wanted {
                    self.asked.insert(number);
                }
                if resumed {
                    self.surrender_if_worse(to);
                } else if self.used_up(to).is_some() {
                    // It comes from sleep, and leaves when it is back in user mode.
                    self.surrender(to);
                }
            }
        }
        self.rescore(number);
        self.wind_clock();
    }

    /// One thread makes way for another.
    fn count_switch(&mut self, number: CpuIndex, from: Option<ThreadId>, to: Option<ThreadId>) {
        let lbolt = self.lbolt();
        if let Some(from) = from {
            let t = self.t(from);
            (t.left_tick, t.ran_on) = (Some(lbolt), Some(number));
        }
        let Some(to) = to else { return self.count(number, Column::Csw) };
        self.count_arrival(number, to);
        self.owe(to, self.hardware.switch_ns);
        self.load_space(number, to);
    }

    /// A switch to a thread, which may have been elsewhere.
    fn count_arrival(&mut self, number: CpuIndex, to: ThreadId) {
        self.count(number, Column::Csw);
        if self.thread(to).ran_on.is_some_and(|last| last != number) {
            self.count(number, Column::Migr);
        }
    }

    /// The CPU loads a thread's address space, unless it is there still. Handlers of interrupts use whichever is there, and a CPU that idles keeps it.
    fn load_space(&mut self, number: CpuIndex, thread: ThreadId) {
        let t = self.thread(thread);
        let space = Some(t.space.unwrap_or(thread));
        if self.hardware.space_switch_ns == 0 || t.level > 0 || self.cpus[number].space == space {
            return;
        }
        self.cpus[number].space = space;
        self.owe(thread, self.hardware.space_switch_ns);
    }

    /// A thread is in the process of another one, and has its address space.
    pub fn share_space(&mut self, thread: ThreadId, with: ThreadId) {
        self.t(thread).space = Some(self.thread(with).space.unwrap_or(with));
    }

    /// A thread spends so many nanoseconds in the kernel before it goes on.
    fn owe(&mut self, thread: ThreadId, nanos: u64) {
        let owed = &mut self.t(thread).owed_sys;
        *owed = owed.saturating_add(nanos);
    }

    /// Counts a CPU's time until now.
    pub(super) fn account(&mut self, number: CpuIndex) {
        let cpu = &mut self.cpus[number];
        let passed = self.now - cpu.since;
        cpu.since = self.now;
        let Some(thread) = cpu.running else {
            cpu.idle += passed;
            return;
        };
        if passed == 0 {
            return;
        }
        if let Some(seen) = self.seen.as_mut() {
            *seen.entry(thread).or_default().entry(number).or_default() += passed;
        }
        let t = &mut self.threads[thread];
        let switching = passed.min(t.owed_sys);
        let loading = (passed - switching).min(t.owed_user);
        let working = passed - switching - loading;
        (t.owed_sys, t.owed_user) = (t.owed_sys - switching, t.owed_user - loading);
        let (user, sys) =
            if t.in_kernel { (loading, switching + working) } else { (loading + working, switching) };
        (t.user, t.sys) = (t.user + user, t.sys + sys);
        (cpu.user, cpu.sys) = (cpu.user + user, cpu.sys + sys);
        self.note_spent(number, thread, passed);
        if working > 0 {
            self.progress(number, thread, working);
        }
    }

    /// What a CPU did has come to its end. One that idles looks again for something to take.
    fn burst_ended(&mut self, cpu: CpuIndex) -> Result<(), Halt> {
        self.account(cpu);
        match self.cpus[cpu].running {
            Some(thread) => self.step(cpu, thread),
            None => {
                self.asked.insert(cpu);
                Ok(())
            }
        }
    }

    /// The running thread goes on with its program until that takes time.
    fn step(&mut self, cpu: CpuIndex, thread: ThreadId) -> Result<(), Halt> {
        if self.comes_back(cpu, thread) {
            return Ok(());
        }
        for _ in 0..STEPS_MAX {
            let action = self.t(thread).program.step();
            // The handler of an interrupt makes no system calls.
            if self.thread(thread).level == 0 && self.t(thread).call.next(&action) {
                self.count(cpu, Column::Syscl);
                self.t(thread).tally.calls += 1;
            }
            match action {
                Action::User(0) | Action::Kernel(0) | Action::Work(_, 0) | Action::KernelWork(_, 0) => {}
                Action::User(left) => {
                    self.begin(cpu, thread, false, None, left);
                    return Ok(());
                }
                Action::Kernel(left) => {
                    self.begin(cpu, thread, true, None, left);
                    return Ok(());
                }
                Action::KernelAmong(times) => {
                    let left = self.draw(&times);
                    self.begin(cpu, thread, true, None, left);
                    return Ok(());
                }
                Action::Work(mix, left) => {
                    self.begin(cpu, thread, false, Some(mix), left);
                    return Ok(());
                }
                Action::KernelWork(mix, left) => {
                    let left = left.saturating_mul(self.hardware.kernel_milli) / 1_000;
                    self.begin(cpu, thread, true, Some(mix), left);
                    return Ok(());
                }
                Action::Calls(calls) => {
                    self.cpus[cpu].events[Column::Syscl.index()] += calls;
                    self.t(thread).tally.calls += calls;
                }
                Action::Map(segment, kib) => self.map(thread, segment, kib),
                Action::Stamp(log, stage) => self.stamp(log, stage),
                Action::Arrive(log) => self.note_arrival(log),
                Action::Take(from, to) => self.take_arrived(from, to),
                Action::Sleep(time) => {
                    self.sleep_for(cpu, thread, time);
                    return Ok(());
                }
                Action::SleepAmong(times) => {
                    let time = self.draw(&times);
                    self.sleep_for(cpu, thread, time);
                    return Ok(());
                }
                Action::Wait(channel) => {
                    if !self.take_post(channel, thread) {
                        self.sleep(cpu, thread);
                        return Ok(());
                    }
                }
                Action::Post(channel) => self.post(channel),
                Action::Meet(barrier, waiting) => {
                    if !self.meet(cpu, thread, barrier, waiting) {
                        return Ok(());
                    }
                }
                Action::Done(operations) => {
                    let t = self.t(thread);
                    let first = t.done == 0;
                    t.done = t.done.saturating_add(operations);
                    if first {
                        self.news.push(News::Counts { thread });
                    }
                }
                Action::Yield => {
                    self.class_yield(thread);
                    self.leave(cpu, thread);
                    return Ok(());
                }
                Action::Hold(hold) => self.t(thread).hold = hold,
                Action::Fork(program) => {
                    if self.fork(thread, program, false) {
                        self.leave(cpu, thread);
                        return Ok(());
                    }
                }
                Action::Spawn(program) => {
                    if self.fork(thread, program, true) {
                        self.leave(cpu, thread);
                        return Ok(());
                    }
                }
                Action::Exit => {
                    self.leave_for_good(thread);
                    self.leave(cpu, thread);
                    return Ok(());
                }
            }
        }
        Err(Halt::EndlessProgram { thread })
    }

    /// A thread whose work in the kernel is over passes through user mode, where it does what it was asked to before it goes on.
    /// `true`: it was asked. Handlers stay where they are.
    fn comes_back(&mut self, cpu: CpuIndex, thread: ThreadId) -> bool {
        let asked = self.cpus[cpu].runrun;
        let t = self.t(thread);
        if !std::mem::take(&mut t.in_kernel) || t.level > 0 || !(asked || t.trapret) {
            return false;
        }
        t.left = 0;
        self.asked.insert(cpu);
        self.set_end(cpu, thread);
        true
    }

    /// The running thread begins to compute.
    pub(super) fn begin(
        &mut self,
        cpu: CpuIndex,
        thread: ThreadId,
        in_kernel: bool,
        mix: Option<MixId>,
        left: u64,
    ) {
        let t = self.t(thread);
        let changed = t.mix != mix;
        (t.in_kernel, t.mix, t.left, t.rest_fs) = (in_kernel, mix, left, 0);
        if mix.is_some() && std::mem::take(&mut t.arrived) {
            self.warm_up(thread, cpu);
        }
        if mix.is_some() || changed {
            self.update_instruction_time(cpu);
        }
        if !in_kernel {
            // On its way back to user mode it does what it was asked to.
            self.asked.insert(cpu);
        }
        self.set_end(cpu, thread);
    }

    fn sleep_for(&mut self, cpu: CpuIndex, thread: ThreadId, time: u64) {
        let wake = self.now.saturating_add(time);
        self.heap.set(Source::Thread(thread), wake);
        self.sleep(cpu, thread);
    }

    /// The running thread goes to sleep.
    pub(super) fn sleep(&mut self, cpu: CpuIndex, thread: ThreadId) {
        self.class_sleep(thread);
        self.count_at_home(thread, false);
        let now = self.now;
        let t = self.t(thread);
        (t.state, t.tally.asleep_since) = (RunState::Asleep, now);
        self.leave(cpu, thread);
    }

    /// The running thread leaves its CPU of its own will.
    fn leave(&mut self, cpu: CpuIndex, thread: ThreadId) {
        self.t(thread).tally.voluntary += 1;
        let next = self.next_thread(cpu);
        self.switch(cpu, Some(thread), next);
    }

    /// Ends a thread from outside, whatever it does.
    pub fn end(&mut self, thread: ThreadId) {
        match self.thread(thread).state {
            RunState::Gone => {}
            RunState::Asleep => {
                self.heap.cancel(Source::Thread(thread));
                for channel in &mut self.channels {
                    channel.waiting.retain(|waiter| *waiter != thread);
                }
                self.leave_for_good(thread);
            }
            RunState::Queued(_) => {
                self.dequeue(thread);
                self.leave_for_good(thread);
            }
            RunState::Running => {
                let cpu = self.thread(thread).cpu;
                self.account(cpu);
                self.leave_for_good(thread);
                self.leave(cpu, thread);
            }
            RunState::Pinned => {
                self.unpin(thread);
                self.leave_for_good(thread);
            }
            RunState::Capped => {
                self.uncap(thread);
                self.leave_for_good(thread);
                self.wind_clock();
            }
        }
    }

    fn leave_for_good(&mut self, thread: ThreadId) {
        self.count_at_home(thread, false);
        self.forget_at_barriers(thread);
        let t = self.t(thread);
        t.state = RunState::Gone;
        let (done, executed) = (t.done, t.executed());
        self.free.push(thread);
        self.news.push(News::Ended { thread, done, executed });
    }

    /// A child starts, in the same process or in another one. `true`: the parent went into a queue behind it.
    pub(super) fn fork(&mut self, parent: ThreadId, program: Program, same_process: bool) -> bool {
        let class = self.class_fork(parent);
        let p = self.thread(parent);
        let mut child = Thread::new(class, p.pri, program);
        (child.bound, child.part, child.cpu, child.beats) = (p.bound, p.part, p.cpu, p.beats);
        (child.holder, child.affinities) = (p.holder, p.affinities);
        child.pri = self.class_pri(&child);
        let child = self.adopt(child);
        if same_process {
            self.share_space(child, parent);
        }
        let home = self.choose_home(child);
        self.t(child).home = home;
        self.news.push(News::Born { parent, child, same_process });
        self.set_runnable(child);
        self.class_forkret(parent)
    }
}
