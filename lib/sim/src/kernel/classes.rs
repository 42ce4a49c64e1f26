//! The common operations of all scheduling classes, and the table of each.

use super::class::{Class, End};
use super::class_state::ClassState;
use super::eevdf::EEVDF;
use super::fss::FSS;
use super::fx::FX;
use super::heap::Source;
use super::ids::{CpuIndex, ThreadId};
use super::queue::IDLE;
use super::rt::RT;
use super::state::{Kernel, Start};
use super::sys::SYS;
use super::thread::{Origin, RunState, Thread};
use super::ts::TS;
use millpond_model::{self as model, ClassParams};

/// The classes.
pub(super) static CLASSES: [Class; 6] = [SYS, TS, FX, RT, FSS, EEVDF];

/// The table of the rules that a thread in this state follows.
#[inline]
pub(super) fn table(state: &ClassState) -> &'static Class {
    match state {
        ClassState::Eevdf(_) => &CLASSES[5],
        state => table_of(state.class()),
    }
}

/// The table of a class by the rules of Solaris. That of TS is that of IA.
#[inline]
fn table_of(class: model::Class) -> &'static Class {
    match class {
        model::Class::Sys => &CLASSES[0],
        model::Class::Ts | model::Class::Ia => &CLASSES[1],
        model::Class::Fx => &CLASSES[2],
        model::Class::Rt => &CLASSES[3],
        model::Class::Fss => &CLASSES[4],
    }
}

/// The default user parameters of a class.
pub(super) fn unset(class: model::Class) -> ClassParams {
    table_of(class).unset
}

impl Kernel {
    /// Starts a thread. It becomes runnable at once, and runs only when time advances ([`Kernel::run_until`]).
    pub fn start(&mut self, start: Start) -> ThreadId {
        let mut thread = Thread::new(start.class, start.sys_pri, start.program);
        (thread.bound, thread.part, thread.cpu) = (start.bound, start.part, start.bound.unwrap_or(start.cpu));
        thread.beats = self.beats();
        thread.pri = self.class_pri(&thread);
        let thread = self.adopt(thread);
        let home = self.choose_home(thread);
        self.t(thread).home = home;
        self.set_runnable(thread);
        thread
    }

    /// The initial state of a thread that enters a class with these parameters.
    #[must_use]
    pub fn entry(&self, params: ClassParams) -> ClassState {
        let class = match params.class() {
            model::Class::Ts if self.tunables.eevdf_slice_ns.is_some() => &CLASSES[5],
            class => table_of(class),
        };
        (class.enter)(self, params)
    }

    /// The table of the class of a thread.
    #[inline]
    fn class_of(&self, thread: ThreadId) -> &'static Class {
        table(&self.thread(thread).class)
    }

    /// Sets the user parameters of a thread, or moves it into another class.
    pub fn set_params(&mut self, thread: ThreadId, params: ClassParams) {
        let state = &self.thread(thread).class;
        let class = table(state);
        if (class.params)(state) == params {
            return;
        }
        let stays = state.class() == params.class();
        self.catch_up(thread);
        if stays {
            (class.set_params)(self, thread, params);
        } else {
            self.enter(thread, params);
        }
    }

    /// Moves a thread into another class.
    fn enter(&mut self, thread: ThreadId, params: ClassParams) {
        let class = self.entry(params);
        self.count_at_home(thread, false);
        let t = self.t(thread);
        (t.class, t.trapret) = (class, false);
        self.count_at_home(thread, true);
        let pri = self.class_pri(self.thread(thread));
        self.change_pri(thread, pri, End::Back);
        self.surrender_if_worse(thread);
    }

    /// Gives a thread a number.
    pub(super) fn adopt(&mut self, mut thread: Thread) -> ThreadId {
        thread.tally.born(self.now);
        match self.free.pop() {
            Some(number) => {
                *self.t(number) = thread;
                number
            }
            None => self.threads.add(thread),
        }
    }

    /// The current global priority of a thread by its class.
    pub(super) fn class_pri(&self, thread: &Thread) -> i16 {
        (table(&thread.class).priority)(&thread.class).unwrap_or(thread.pri)
    }

    /// Changes the global priority of a thread. A queued thread moves to the given end of its new level, even if the level
    /// is unchanged; `true` if the thread was queued.
    pub(super) fn change_pri(&mut self, thread: ThreadId, pri: i16, end: End) -> bool {
        match self.thread(thread).state {
            RunState::Queued(_) => {
                self.dequeue(thread);
                self.t(thread).pri = pri;
                self.enqueue(thread, end);
                true
            }
            RunState::Running => {
                self.t(thread).pri = pri;
                let (cpu, pri) = (self.thread(thread).cpu, self.thread(thread).effective());
                self.cpus[cpu].dispatch_pri = pri;
                self.rescore(cpu);
                false
            }
            RunState::Asleep | RunState::Pinned | RunState::Capped | RunState::Gone => {
                self.t(thread).pri = pri;
                false
            }
        }
    }

    /// Changes the inherited priority of a thread. The state of its class is unchanged.
    pub fn inherit(&mut self, thread: ThreadId, pri: Option<i16>) {
        let pri = pri.unwrap_or(IDLE);
        if let RunState::Queued(_) = self.thread(thread).state {
            self.dequeue(thread);
            self.t(thread).inherited = pri;
            self.enqueue(thread, End::Back);
            return;
        }
        self.t(thread).inherited = pri;
        if self.thread(thread).state == RunState::Running {
            let (cpu, pri) = (self.thread(thread).cpu, self.thread(thread).effective());
            self.cpus[cpu].dispatch_pri = pri;
            self.rescore(cpu);
            self.surrender_if_worse(thread);
        }
    }

    /// A clock tick found the thread on a CPU.
    pub(super) fn class_tick(&mut self, thread: ThreadId) {
        (self.class_of(thread).tick)(self, thread);
    }

    /// The thread is preempted: it is put into a queue, or waits for its cap.
    pub(super) fn class_preempt(&mut self, thread: ThreadId) {
        if !self.park_if_capped(thread) {
            (self.class_of(thread).preempt)(self, thread);
        }
    }

    /// The thread is about to sleep.
    pub(super) fn class_sleep(&mut self, thread: ThreadId) {
        (self.class_of(thread).sleep)(self, thread);
    }

    /// The thread becomes runnable, again or for the first time: it is put into a queue.
    pub(super) fn set_runnable(&mut self, thread: ThreadId) {
        if self.thread(thread).device {
            self.heap.set(Source::Thread(thread), self.now);
            return;
        }
        if let Origin::Timer(channel) | Origin::Look(channel) = self.thread(thread).origin
            && let Some(client) = self.channels[channel].waiting.front()
        {
            let cpu = self.thread(*client).cpu;
            self.t(thread).bound = Some(cpu);
        }
        self.catch_up(thread);
        self.t(thread).by_interrupt = self.at.is_none();
        if self.thread(thread).state == RunState::Asleep {
            let now = self.now;
            self.t(thread).tally.wake(now);
        }
        self.sparing = self.tunables.wakeup_parity_nsec > 0 && self.is_program_at_work();
        (self.class_of(thread).wakeup)(self, thread);
        self.sparing = false;
        self.count_at_home(thread, true);
    }

    /// Whether a program causes the current event, and not an interrupt, a device or a kernel thread.
    fn is_program_at_work(&self) -> bool {
        let running = self.at.and_then(|cpu| self.cpus[cpu].running);
        running.is_some_and(|thread| self.thread(thread).class.class() != model::Class::Sys)
    }

    /// The thread returns to user mode with `trapret` set.
    pub(super) fn class_trapret(&mut self, thread: ThreadId) {
        self.t(thread).trapret = false;
        (self.class_of(thread).trapret)(self, thread);
    }

    /// The thread yields: it is put into a queue.
    pub(super) fn class_yield(&mut self, thread: ThreadId) {
        let t = self.t(thread);
        (t.hold, t.asked_to_yield) = (false, false);
        (self.class_of(thread).yield_cpu)(self, thread);
        self.enqueue(thread, End::Back);
    }

    /// The initial state of a child of the thread, in the same class.
    pub(super) fn class_fork(&self, parent: ThreadId) -> ClassState {
        (self.class_of(parent).fork)(self, parent)
    }

    /// The parent, after its child was made runnable. `true`: the parent is in a queue and leaves its CPU.
    pub(super) fn class_forkret(&mut self, parent: ThreadId) -> bool {
        (self.class_of(parent).forkret)(self, parent)
    }

    /// The end at which a runnable thread is queued: the front if it ran during this tick.
    pub(super) fn end_by_tick(&self, thread: ThreadId) -> End {
        if self.thread(thread).left_tick == Some(self.lbolt()) { End::Front } else { End::Back }
    }

    /// Asks the CPU of a running thread to switch.
    pub(super) fn surrender(&mut self, thread: ThreadId) {
        let number = self.thread(thread).cpu;
        let best = self.best_here(number);
        let kernel_too = best >= self.tunables.kpreempt_pri;
        let cpu = &mut self.cpus[number];
        cpu.runrun = true;
        cpu.kprunrun |= kernel_too;
        self.asked.insert(number);
    }

    /// Asks the CPU to switch if a thread with a higher priority than the running one waits for it.
    pub(super) fn surrender_if_worse(&mut self, thread: ThreadId) {
        let t = self.thread(thread);
        if t.state == RunState::Running && t.effective() < self.best_here(t.cpu) {
            self.surrender(thread);
        }
    }

    /// The highest priority of the threads that wait for a CPU: in its queue or in that of its partition.
    pub(super) fn best_here(&self, cpu: CpuIndex) -> i16 {
        let kp = self.kp_queue(self.cpus[cpu].part);
        self.queues[cpu].best.max(self.queues[kp].best)
    }
}
