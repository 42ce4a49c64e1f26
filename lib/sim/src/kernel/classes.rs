//! What all classes have in common, and which class's rule an event calls (reference §3.1).

use super::fx::slice;
use super::heap::Source;
use super::ids::{CpuIndex, ThreadId};
use super::queue::IDLE;
use super::thread::{ClassState, FxState, Origin, RtState, RunState, TsState};
use super::{Kernel, Start, Thread};
use millpond_model::ClassParams;

/// At which end of its level a thread enters a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Before its equals.
    Front,
    /// After its equals.
    Back,
}

impl Kernel {
    /// Starts a thread: it becomes runnable at once, and may run before this returns to [`Kernel::run_until`]'s caller
    /// only when time moves.
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

    /// What a thread that enters a class with these parameters starts with.
    #[must_use]
    pub fn entry(&self, params: ClassParams) -> ClassState {
        match params {
            ClassParams::Sys => ClassState::Sys,
            ClassParams::Ts { uprilim, upri } => self.ts_entry(uprilim, upri, None),
            ClassParams::Ia { uprilim, upri, foreground } => self.ts_entry(uprilim, upri, Some(foreground)),
            ClassParams::Fx { uprilim, upri, quantum } => ClassState::Fx(FxState {
                pri: upri.unsigned_abs(),
                uprilim: uprilim.unsigned_abs(),
                quantum,
                timeleft: slice(quantum),
                back: false,
            }),
            ClassParams::Rt { pri, quantum, tqsig } => ClassState::Rt(RtState {
                pri: pri.unsigned_abs(),
                quantum,
                timeleft: slice(quantum),
                signal: tqsig,
                signalled: 0,
                back: false,
            }),
            ClassParams::Fss { uprilim, upri } => self.fss_entry(uprilim, upri),
        }
    }

    /// Sets what a user may set about a thread in its class, or takes it into another class.
    pub fn set_params(&mut self, thread: ThreadId, params: ClassParams) {
        if self.thread(thread).params() == params {
            return;
        }
        self.catch_up(thread);
        match (self.thread(thread).class, params) {
            (ClassState::Ts(TsState { foreground: None, .. }), ClassParams::Ts { uprilim, upri }) => {
                self.ts_set(thread, uprilim, upri, None);
            }
            (
                ClassState::Ts(TsState { foreground: Some(_), .. }),
                ClassParams::Ia { uprilim, upri, foreground },
            ) => self.ts_set(thread, uprilim, upri, Some(foreground)),
            (ClassState::Fx(_), ClassParams::Fx { uprilim, upri, quantum }) => {
                self.fx_set(thread, uprilim.unsigned_abs(), upri.unsigned_abs(), quantum);
            }
            (ClassState::Rt(_), ClassParams::Rt { pri, quantum, tqsig }) => {
                self.rt_set(thread, pri.unsigned_abs(), quantum, tqsig);
            }
            (ClassState::Fss(_), ClassParams::Fss { uprilim, upri }) => {
                self.fss_set_params(thread, uprilim, upri);
            }
            _ => self.enter(thread, params),
        }
    }

    /// Takes a thread into another class.
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

    /// The global priority that a thread's class gives it now.
    pub(super) fn class_pri(&self, thread: &Thread) -> i16 {
        match &thread.class {
            ClassState::Sys => thread.pri,
            ClassState::Ts(state) => i16::from(state.umdpri),
            ClassState::Fx(state) => i16::from(state.pri),
            ClassState::Fss(state) => i16::from(state.umdpri),
            ClassState::Rt(state) => super::thread::RT_BASE + i16::from(state.pri),
        }
    }

    /// Gives a thread another global priority. One that is in a queue goes to the given end of its new level, even
    /// if the level is the old one; `true` says that this was so.
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

    /// The priority that a thread inherits changes; its class does not notice.
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

    /// A clock tick found the thread on a processor.
    pub(super) fn class_tick(&mut self, thread: ThreadId) {
        match self.thread(thread).class {
            ClassState::Sys => {}
            ClassState::Ts(_) => self.ts_tick(thread),
            ClassState::Fx(_) => self.fx_tick(thread),
            ClassState::Rt(_) => self.rt_tick(thread),
            ClassState::Fss(_) => self.fss_tick(thread),
        }
    }

    /// The thread leaves its processor against its will: it is put into a queue, or waits for its cap.
    pub(super) fn class_preempt(&mut self, thread: ThreadId) {
        if self.park_if_capped(thread) {
            return;
        }
        match self.thread(thread).class {
            ClassState::Sys => self.enqueue(thread, End::Front),
            ClassState::Ts(_) => self.ts_preempt(thread),
            ClassState::Fx(_) => self.fx_preempt(thread),
            ClassState::Rt(_) => self.rt_preempt(thread),
            ClassState::Fss(_) => self.fss_preempt(thread),
        }
    }

    /// The thread is about to sleep.
    pub(super) fn class_sleep(&mut self, thread: ThreadId) {
        if let ClassState::Ts(_) = self.thread(thread).class {
            self.ts_boost_if_due(thread);
        }
    }

    /// The thread may run again, or for the first time: it is put into a queue.
    pub(super) fn set_runnable(&mut self, thread: ThreadId) {
        if self.thread(thread).device {
            self.heap.set(Source::Thread(thread), self.now);
            return;
        }
        if let Origin::Timer(channel) = self.thread(thread).origin
            && let Some(client) = self.channels[channel].waiting.front()
        {
            let cpu = self.thread(*client).cpu;
            self.t(thread).bound = Some(cpu);
        }
        self.catch_up(thread);
        if self.thread(thread).state == RunState::Asleep {
            let now = self.now;
            self.t(thread).tally.wake(now);
        }
        self.class_wakeup(thread);
        self.count_at_home(thread, true);
    }

    fn class_wakeup(&mut self, thread: ThreadId) {
        match self.thread(thread).class {
            ClassState::Sys => self.enqueue(thread, End::Back),
            ClassState::Ts(_) => self.ts_wakeup(thread),
            ClassState::Fx(_) => self.fx_wakeup(thread),
            ClassState::Rt(_) => self.rt_wakeup(thread),
            ClassState::Fss(_) => self.fss_wakeup(thread),
        }
    }

    /// The thread returns to user mode and something awaits it.
    pub(super) fn class_trapret(&mut self, thread: ThreadId) {
        self.t(thread).trapret = false;
        if let ClassState::Ts(_) = self.thread(thread).class {
            self.ts_boost_if_due(thread);
            self.surrender_if_worse(thread);
        }
    }

    /// The thread lets others go first: it is put into a queue.
    pub(super) fn class_yield(&mut self, thread: ThreadId) {
        let t = self.t(thread);
        (t.hold, t.asked_to_yield) = (false, false);
        match self.thread(thread).class {
            ClassState::Sys => {}
            ClassState::Ts(_) => self.ts_yield(thread),
            ClassState::Fx(_) => self.fx_yield(thread),
            ClassState::Fss(_) => self.fss_yield(thread),
            ClassState::Rt(_) => {}
        }
        self.enqueue(thread, End::Back);
    }

    /// What a child of the thread starts with: its class, in the state that a child has.
    pub(super) fn class_fork(&self, parent: ThreadId) -> ClassState {
        match self.thread(parent).class {
            ClassState::Sys => ClassState::Sys,
            ClassState::Ts(state) => ClassState::Ts(self.ts_child(state)),
            ClassState::Fx(state) => ClassState::Fx(self.fx_child(state)),
            ClassState::Rt(state) => ClassState::Rt(self.rt_child(state)),
            ClassState::Fss(state) => ClassState::Fss(self.fss_child(state)),
        }
    }

    /// The parent after its child was set running. `true`: it went into a queue and leaves its processor.
    pub(super) fn class_forkret(&mut self, parent: ThreadId) -> bool {
        match self.thread(parent).class {
            ClassState::Sys | ClassState::Rt(_) => false,
            ClassState::Ts(_) => {
                self.ts_forkret(parent);
                true
            }
            ClassState::Fx(_) => {
                self.fx_forkret(parent);
                true
            }
            ClassState::Fss(_) => {
                self.fss_forkret(parent);
                true
            }
        }
    }

    /// Whether a runnable thread goes before its equals: it ran during this very tick.
    pub(super) fn end_by_tick(&self, thread: ThreadId) -> End {
        if self.thread(thread).left_tick == Some(self.lbolt()) { End::Front } else { End::Back }
    }

    /// Asks the processor of a running thread to switch.
    pub(super) fn surrender(&mut self, thread: ThreadId) {
        let number = self.thread(thread).cpu;
        let best = self.best_here(number);
        let kernel_too = best >= self.tunables.kpreempt_pri;
        let cpu = &mut self.cpus[number];
        cpu.runrun = true;
        cpu.kprunrun |= kernel_too;
        self.asked.insert(number);
    }

    /// Asks the processor to switch if a thread that runs is now worse than one that waits for this processor.
    pub(super) fn surrender_if_worse(&mut self, thread: ThreadId) {
        let t = self.thread(thread);
        if t.state == RunState::Running && t.effective() < self.best_here(t.cpu) {
            self.surrender(thread);
        }
    }

    /// The best priority that waits for a processor: in its queue or in that of its partition.
    pub(super) fn best_here(&self, cpu: CpuIndex) -> i16 {
        let kp = self.kp_queue(self.cpus[cpu].part);
        self.queues[cpu].best.max(self.queues[kp].best)
    }
}
