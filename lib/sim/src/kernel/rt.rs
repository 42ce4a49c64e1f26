//! The class RT (reference §3.7): above everything but interrupts.

use super::Kernel;
use super::classes::End;
use super::fx::slice;
use super::ids::ThreadId;
use super::thread::{ClassState, RT_BASE, RtState, RunState};
use millpond_model::Quantum;

impl Kernel {
    /// Sets what the user may set. Goes behind its equals, with a full slice.
    pub(super) fn rt_set(&mut self, thread: ThreadId, pri: u8, quantum: Quantum, signal: u8) {
        let state = self.rt(thread);
        (state.pri, state.quantum, state.signal) = (pri, quantum, signal);
        state.timeleft = slice(quantum);
        self.change_pri(thread, RT_BASE + i16::from(pri), End::Back);
        self.surrender_if_worse(thread);
    }

    fn rt(&mut self, thread: ThreadId) -> &mut RtState {
        match &mut self.threads[thread].class {
            ClassState::Rt(state) => state,
            other => unreachable!("a thread of {other:?} in the rules of RT"),
        }
    }

    pub(super) fn rt_tick(&mut self, thread: ThreadId) {
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

    pub(super) fn rt_preempt(&mut self, thread: ThreadId) {
        let state = self.rt(thread);
        if state.back {
            (state.timeleft, state.back) = (slice(state.quantum), false);
            self.enqueue(thread, End::Back);
        } else {
            self.enqueue(thread, End::Front);
        }
    }

    pub(super) fn rt_wakeup(&mut self, thread: ThreadId) {
        let state = self.rt(thread);
        (state.timeleft, state.back) = (slice(state.quantum), false);
        self.enqueue(thread, End::Back);
    }

    pub(super) fn rt_child(&self, parent: RtState) -> RtState {
        RtState { timeleft: slice(parent.quantum), back: false, signalled: 0, ..parent }
    }
}
