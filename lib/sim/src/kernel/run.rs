//! Advances time: events happen, programs continue, CPUs switch.

use super::heap::Source;
use super::ids::{CpuIndex, MixId, ThreadId};
use super::program::{Action, Program};
use super::queue::IDLE;
use super::state::{Kernel, News};
use super::thread::{RunState, Thread};
use millpond_model::Column;
use serde::{Deserialize, Serialize};

/// Limit of successive actions of one thread that take no time: more than any program needs.
const STEPS_MAX: u32 = 100_000;

/// Limit of events in one instant per thread and CPU: more than any workload needs.
const EVENTS_MAX: u64 = 1_000;

/// Fatal errors of a simulated machine. Its state can still be read, but it cannot continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Halt {
    /// A thread's program loops without taking time.
    #[error("thread {thread} goes round without taking any time")]
    EndlessProgram {
        /// The thread's number.
        thread: ThreadId,
    },
    /// Threads wake one another without end and without taking time.
    #[error("threads wake one another for ever at {at} ns without taking any time")]
    EndlessInstant {
        /// Nanoseconds since boot.
        at: u64,
    },
}

impl Kernel {
    /// Executes all events up to and including `until`, in nanoseconds since boot, and discards the births and ends of threads.
    ///
    /// # Errors
    /// [`Halt`] when the machine halted.
    pub fn run_until(&mut self, until: u64) -> Result<(), Halt> {
        loop {
            self.advance(until)?;
            if self.take_news().is_empty() {
                return Ok(());
            }
        }
    }

    /// Like [`Kernel::run_until`], but stops at the first instant with a birth or an end of a thread.
    ///
    /// # Errors
    /// [`Halt`] when the machine halted.
    pub fn advance(&mut self, until: u64) -> Result<(), Halt> {
        self.put_ends_off(true);
        let worked = self.work_until(until);
        self.enter_ends();
        self.put_ends_off(false);
        // Actions from outside come from no CPU.
        self.at = None;
        worked?;
        self.count_clock();
        for cpu in self.cpus.ids() {
            self.account(cpu);
        }
        Ok(())
    }

    /// Processes one instant after the other: all due events, then the switches.
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

    /// Advances the clock of a halted machine.
    pub fn grow_old(&mut self, until: u64) {
        self.now = until.max(self.now);
    }

    /// Switches every CPU with a requested switch, if it may.
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

    /// Preempts the running thread.
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

    /// Switches a CPU from one thread to another. The caller has queued the old one or put it to sleep.
    pub(super) fn switch(&mut self, number: CpuIndex, from: Option<ThreadId>, to: Option<ThreadId>) {
        self.account(number);
        if from != to {
            if let Some(from) = from {
                self.charge_caps(from);
                self.note_warmth(from, number);
            }
            self.happened += 1;
            // Interrupt handlers run on top of the running thread, without a switch.
            let handler = |thread: Option<ThreadId>| thread.is_some_and(|t| self.thread(t).level > 0);
            let [to_handler, from_handler] = [handler(to), handler(from)];
            if to_handler || from_handler {
                self.count_interrupt(number, to);
                let resumes = to.is_some_and(|to| self.thread(to).state == RunState::Pinned);
                // A handler on an idle CPU made a thread runnable: a switch from the idle thread.
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
                    // It slept, and is preempted at its return to user mode.
                    self.surrender(to);
                }
            }
        }
        self.rescore(number);
        self.wind_clock();
    }

    /// Counts a switch from one thread to another.
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

    /// Counts the arrival of a thread, which may be a migration.
    fn count_arrival(&mut self, number: CpuIndex, to: ThreadId) {
        self.count(number, Column::Csw);
        if self.thread(to).ran_on.is_some_and(|last| last != number) {
            self.count(number, Column::Migr);
        }
    }

    /// Loads a thread's address space, unless it is still loaded. Interrupt handlers use any address space, and an idle CPU keeps the last one.
    fn load_space(&mut self, number: CpuIndex, thread: ThreadId) {
        let t = self.thread(thread);
        let space = Some(t.space.unwrap_or(thread));
        if self.hardware.space_switch_ns == 0 || t.level > 0 || self.cpus[number].space == space {
            return;
        }
        self.cpus[number].space = space;
        self.owe(thread, self.hardware.space_switch_ns);
    }

    /// Puts a thread into the process of another one, whose address space it shares.
    pub fn share_space(&mut self, thread: ThreadId, with: ThreadId) {
        self.t(thread).space = Some(self.thread(with).space.unwrap_or(with));
    }

    /// Charges a thread kernel nanoseconds that it spends before it continues.
    fn owe(&mut self, thread: ThreadId, nanos: u64) {
        let owed = &mut self.t(thread).owed_sys;
        *owed = owed.saturating_add(nanos);
    }

    /// Accounts a CPU's time up to now.
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

    /// Handles the end of a burst. An idle CPU tries again to steal a thread.
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

    /// Executes the running thread's actions until one takes time.
    fn step(&mut self, cpu: CpuIndex, thread: ThreadId) -> Result<(), Halt> {
        if self.comes_back(cpu, thread) {
            return Ok(());
        }
        for _ in 0..STEPS_MAX {
            let action = self.t(thread).program.step();
            // Interrupt handlers make no system calls.
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

    /// The running thread leaves the kernel: if a switch or an action of its class is pending, it passes through user mode first.
    /// `true`: it does. Handlers stay in the kernel.
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

    /// Starts a burst of the running thread.
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
            // The return to user mode handles pending requests.
            self.asked.insert(cpu);
        }
        self.set_end(cpu, thread);
    }

    fn sleep_for(&mut self, cpu: CpuIndex, thread: ThreadId, time: u64) {
        let wake = self.now.saturating_add(time);
        self.heap.set(Source::Thread(thread), wake);
        self.sleep(cpu, thread);
    }

    /// Puts the running thread to sleep.
    pub(super) fn sleep(&mut self, cpu: CpuIndex, thread: ThreadId) {
        self.class_sleep(thread);
        self.count_at_home(thread, false);
        let now = self.now;
        let t = self.t(thread);
        (t.state, t.tally.asleep_since) = (RunState::Asleep, now);
        self.leave(cpu, thread);
    }

    /// The running thread leaves its CPU voluntarily.
    fn leave(&mut self, cpu: CpuIndex, thread: ThreadId) {
        self.t(thread).tally.voluntary += 1;
        let next = self.next_thread(cpu);
        self.switch(cpu, Some(thread), next);
    }

    /// Ends a thread from outside, in any state.
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

    /// Starts a child, in the same process or in a new one. `true`: the parent was queued behind it.
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
