//! Interrupts: devices, interrupt handlers as threads of the highest priorities, and the clock's interrupts.
//!
//! A handler is a thread of the class SYS that waits at a channel; a post there raises the interrupt. It runs on the CPU where the
//! interrupt arrives, on top of the thread that runs there. That thread is *pinned*: it cannot be moved, and continues
//! afterwards without a counted switch. Interrupts of levels up to 10 are handled in threads of the priorities 160 to 169
//! (column `ithr`); higher levels only count as interrupts.
//!
//! Every CPU has one interrupt per second of its own, which checks that the clock still ticks. One CPU has the clock's
//! interrupts. Both are counted only when they are read.

use super::class_state::ClassState;
use super::heap::Source;
use super::ids::{ChannelId, CpuIndex, ThreadId};
use super::program::{Action, Program};
use super::run::Halt;
use super::state::Kernel;
use super::thread::{Origin, RunState, Thread};
use super::time::SECOND;
use millpond_model::Column;

/// The lowest priority of a handler.
const HANDLERS: i16 = 160;
/// The highest level that is handled in a thread.
const THREAD_LEVEL: u8 = 10;
/// The highest level.
const LEVEL_MAX: u8 = 15;
/// Limit of successive actions of a device that take no time: more than any device needs.
const STEPS_MAX: u32 = 100_000;

impl Kernel {
    /// Creates a device, which executes its program without a CPU. It can sleep, wait, post and record timestamps. Any other action
    /// ends it.
    pub fn device(&mut self, program: Program) -> ThreadId {
        let thread = Thread { device: true, beats: self.beats(), ..Thread::new(ClassState::Sys, 0, program) };
        let thread = self.adopt(thread);
        self.set_runnable(thread);
        thread
    }

    /// Creates the handler of an interrupt of this level, 1 to 15. It waits at the channel `raised`, and executes its actions for each
    /// post.
    pub fn handler(
        &mut self,
        level: u8,
        origin: Origin,
        cpu: CpuIndex,
        raised: ChannelId,
        actions: Vec<Action>,
    ) -> ThreadId {
        let level = level.clamp(1, LEVEL_MAX);
        let pri = HANDLERS - 1 + i16::from(level.min(THREAD_LEVEL));
        let program = Program::repeat(actions.into_iter().chain([Action::Wait(raised)]).collect());
        let thread = Thread {
            level,
            origin,
            cpu,
            bound: Some(cpu),
            beats: self.beats(),
            ..Thread::new(ClassState::Sys, pri, program)
        };
        let thread = self.adopt(thread);
        let home = self.choose_home(thread);
        self.t(thread).home = home;
        self.channels[raised].waiting.push_back(thread);
        thread
    }

    /// Sets the CPUs of the network's and the clock's interrupts.
    pub fn route(&mut self, network: CpuIndex, clock: CpuIndex) {
        if clock != self.clock_cpu {
            self.count_clock();
            self.clock_cpu = clock;
        }
        for thread in self.threads.ids() {
            let t = self.thread(thread);
            if t.origin == Origin::Network && t.state != RunState::Gone {
                self.confine(thread, self.thread(thread).part, Some(network));
            }
        }
    }

    /// Executes a device's actions until it waits.
    pub(super) fn operate(&mut self, device: ThreadId) -> Result<(), Halt> {
        for _ in 0..STEPS_MAX {
            match self.t(device).program.step() {
                Action::Sleep(time) => {
                    self.heap.set(Source::Thread(device), self.now.saturating_add(time));
                    return Ok(());
                }
                Action::SleepAmong(times) => {
                    let wake = self.now.saturating_add(self.draw(&times));
                    self.heap.set(Source::Thread(device), wake);
                    return Ok(());
                }
                Action::Wait(channel) => {
                    if !self.take_post(channel, device) {
                        return Ok(());
                    }
                }
                Action::Post(channel) => self.post(channel),
                Action::Stamp(log, stage) => self.stamp(log, stage),
                Action::Arrive(log) => self.note_arrival(log),
                Action::Take(from, to) => self.take_arrived(from, to),
                _ => {
                    self.t(device).state = RunState::Gone;
                    self.free.push(device);
                    return Ok(());
                }
            }
        }
        Err(Halt::EndlessProgram { thread: device })
    }

    /// Takes a post of the channel. `false`: there is no post, and the thread waits at the channel now.
    pub(super) fn take_post(&mut self, channel: ChannelId, thread: ThreadId) -> bool {
        let channel = &mut self.channels[channel];
        let Some(left) = channel.posts.checked_sub(1) else {
            channel.waiting.push_back(thread);
            return false;
        };
        channel.posts = left;
        true
    }

    /// Posts to a channel: wakes one waiting thread, or the next one that will wait.
    pub(super) fn post(&mut self, channel: ChannelId) {
        let channel = &mut self.channels[channel];
        match channel.waiting.pop_front() {
            Some(waiter) => self.set_runnable(waiter),
            None => channel.posts += 1,
        }
    }

    /// Whether a handler that is better than the running thread waits for the CPU.
    pub(super) fn is_interrupted(&self, cpu: CpuIndex) -> bool {
        let best = self.queues[cpu].best;
        best >= HANDLERS && best > self.cpus[cpu].dispatch_pri
    }

    /// Runs a handler on top of the running thread.
    pub(super) fn pin(&mut self, cpu: CpuIndex, thread: ThreadId) {
        self.t(thread).state = RunState::Pinned;
        let handler = self.next_thread(cpu);
        self.cpus[cpu].pinned.push(thread);
        self.switch(cpu, Some(thread), handler);
    }

    /// The pinned thread to continue after a handler has ended, unless another handler waits.
    pub(super) fn resume(&mut self, cpu: CpuIndex) -> Option<ThreadId> {
        let best = self.queues[cpu].best;
        let pinned = *self.cpus[cpu].pinned.last()?;
        if best >= HANDLERS && best > self.thread(pinned).effective() {
            return None;
        }
        self.cpus[cpu].pinned.pop()
    }

    /// Removes a thread from under its handlers; the caller puts it elsewhere.
    pub(super) fn unpin(&mut self, thread: ThreadId) {
        let cpu = self.thread(thread).cpu;
        self.cpus[cpu].pinned.retain(|pinned| *pinned != thread);
    }

    /// Counts the start or the end of a handler.
    pub(super) fn count_interrupt(&mut self, cpu: CpuIndex, to: Option<ThreadId>) {
        let handler = to.filter(|to| !matches!(self.thread(*to).origin, Origin::Look(_)));
        let Some(level) = handler.map(|to| self.thread(to).level).filter(|level| *level > 0) else { return };
        self.count(cpu, Column::Intr);
        if level <= THREAD_LEVEL {
            self.count(cpu, Column::Ithr);
        }
    }

    /// Counts a cross call, which is an interrupt on the target CPU.
    pub(super) fn cross_call(&mut self, to: CpuIndex) {
        let Some(from) = self.at.filter(|from| *from != to) else { return };
        self.count(from, Column::Xcal);
        self.count(to, Column::Intr);
        self.note_call(from, to);
    }

    /// Counts the clock's interrupts up to now.
    pub(super) fn count_clock(&mut self) {
        let (before, now) = (self.counted, self.now);
        self.counted = now;
        let seconds = now / SECOND - before / SECOND;
        let ticks = now / self.tick() - before / self.tick();
        if seconds > 0 {
            for cpu in &mut self.cpus {
                cpu.events[Column::Intr.index()] += seconds;
            }
        }
        self.note_clock(ticks, seconds);
        let clock = &mut self.cpus[self.clock_cpu].events;
        clock[Column::Intr.index()] += ticks;
        clock[Column::Ithr.index()] += ticks;
    }
}
