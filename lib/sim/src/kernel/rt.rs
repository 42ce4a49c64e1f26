//! The class RT (rt_dptbl(5)): above everything but interrupts.

use super::class::{Class, End};
use super::class_state::{ClassState, RT_BASE, RtState, slice};
use super::ids::ThreadId;
use super::state::Kernel;
use super::sys::SYS;
use super::thread::RunState;
use millpond_model::{ClassParams, Quantum};

pub(super) const RT: Class = Class {
    enter: |_, params| ClassState::Rt(rt_entry(params)),
    set_params: Kernel::rt_set_params,
    store: rt_store,
    unset: ClassParams::Rt { pri: 0, quantum: Quantum::Infinite, tqsig: 0 },
    params: |state| {
        let RtState { pri, quantum, signal, .. } = *rt_of(state);
        ClassParams::Rt { pri: pri.cast_signed(), quantum, tqsig: signal }
    },
    priority: |state| Some(RT_BASE + i16::from(rt_of(state).pri)),
    tick: Kernel::rt_tick,
    preempt: Kernel::rt_preempt,
    wakeup: Kernel::rt_wakeup,
    fork: Kernel::rt_child,
    ..SYS
};

fn rt_of(state: &ClassState) -> &RtState {
    match state {
        ClassState::Rt(state) => state,
        other => unreachable!("a thread of {other:?} in the rules of RT"),
    }
}

fn rt_entry(params: ClassParams) -> RtState {
    let ClassParams::Rt { pri, quantum, tqsig } = params else {
        unreachable!("parameters {params} in the rules of RT")
    };
    RtState {
        pri: pri.unsigned_abs(),
        quantum,
        timeleft: slice(quantum),
        signal: tqsig,
        signalled: 0,
        back: false,
    }
}

fn rt_store(state: &mut ClassState, params: ClassParams) {
    let ClassState::Rt(state) = state else { return };
    let RtState { pri, quantum, signal, .. } = rt_entry(params);
    (state.pri, state.quantum, state.signal) = (pri, quantum, signal);
}

impl Kernel {
    /// Sets the user's parameters. The thread goes behind threads of equal priority, with a full quantum.
    fn rt_set_params(&mut self, thread: ThreadId, params: ClassParams) {
        rt_store(&mut self.t(thread).class, params);
        let state = self.rt(thread);
        state.timeleft = slice(state.quantum);
        let pri = state.pri;
        self.change_pri(thread, RT_BASE + i16::from(pri), End::Back);
        self.surrender_if_worse(thread);
    }

    fn rt(&mut self, thread: ThreadId) -> &mut RtState {
        match &mut self.threads[thread].class {
            ClassState::Rt(state) => state,
            other => unreachable!("a thread of {other:?} in the rules of RT"),
        }
    }

    fn rt_tick(&mut self, thread: ThreadId) {
        let t = self.thread(thread);
        let better = t.state == RunState::Running && t.effective() < self.best_here(t.cpu);
        let state = self.rt(thread);
        let mut ended = false;
        if state.quantum != Quantum::Infinite {
            state.timeleft -= 1;
            ended = state.timeleft == 0;
        }
        if !ended && !better {
            return;
        }
        if ended && state.signal != 0 {
            state.signalled += 1;
        }
        state.back = true;
        self.surrender(thread);
    }

    fn rt_preempt(&mut self, thread: ThreadId) {
        let state = self.rt(thread);
        if state.back {
            (state.timeleft, state.back) = (slice(state.quantum), false);
            self.enqueue(thread, End::Back);
        } else {
            self.enqueue(thread, End::Front);
        }
    }

    fn rt_wakeup(&mut self, thread: ThreadId) {
        let state = self.rt(thread);
        (state.timeleft, state.back) = (slice(state.quantum), false);
        self.enqueue(thread, End::Back);
    }

    fn rt_child(&self, parent: ThreadId) -> ClassState {
        let parent = *rt_of(&self.threads[parent].class);
        ClassState::Rt(RtState { timeleft: slice(parent.quantum), back: false, signalled: 0, ..parent })
    }
}
