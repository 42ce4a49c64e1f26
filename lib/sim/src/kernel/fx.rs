//! The class FX (reference §3.6): slices without movement.

use super::Kernel;
use super::classes::End;
use super::ids::ThreadId;
use super::thread::{ClassState, FxState, RunState};
use millpond_model::Quantum;

impl Kernel {
    /// Sets what the user may set. Goes behind its equals, with a full slice.
    pub(super) fn fx_set(&mut self, thread: ThreadId, uprilim: u8, pri: u8, quantum: Quantum) {
        let state = self.fx(thread);
        let moves = state.pri != pri;
        (state.uprilim, state.pri, state.quantum) = (uprilim, pri, quantum);
        state.timeleft = slice(quantum);
        if moves {
            self.change_pri(thread, i16::from(pri), End::Back);
            self.surrender_if_worse(thread);
        }
    }

    fn fx(&mut self, thread: ThreadId) -> &mut FxState {
        match &mut self.threads[thread].class {
            ClassState::Fx(state) => state,
            other => unreachable!("a thread of {other:?} in the rules of FX"),
        }
    }

    pub(super) fn fx_tick(&mut self, thread: ThreadId) {
        let (hold, most) = (self.thread(thread).hold, self.tunables.hold_ticks);
        let state = self.fx(thread);
        if state.quantum != Quantum::Infinite {
            state.timeleft -= 1;
            if state.timeleft <= 0 {
                if hold && state.timeleft > -most {
                    self.t(thread).asked_to_yield = true;
                    return;
                }
                let pri = self.thread(thread).pri;
                if self.change_pri(thread, pri, End::Back) {
                    let state = self.fx(thread);
                    state.timeleft = slice(state.quantum);
                } else {
                    self.fx(thread).back = true;
                    self.surrender(thread);
                }
                return;
            }
        }
        let t = self.thread(thread);
        if t.state == RunState::Running && t.effective() < self.queues[t.cpu].best {
            self.fx(thread).back = true;
            self.surrender(thread);
        }
    }

    pub(super) fn fx_preempt(&mut self, thread: ThreadId) {
        let (hold, most) = (self.thread(thread).hold, self.tunables.hold_ticks);
        if hold {
            let state = self.fx(thread);
            if state.quantum == Quantum::Infinite || state.timeleft > -most {
                self.t(thread).asked_to_yield = true;
                return self.enqueue(thread, End::Front);
            }
            self.t(thread).hold = false;
        }
        let state = self.fx(thread);
        if state.back {
            (state.timeleft, state.back) = (slice(state.quantum), false);
            self.enqueue(thread, End::Back);
        } else {
            self.enqueue(thread, End::Front);
        }
    }

    pub(super) fn fx_wakeup(&mut self, thread: ThreadId) {
        self.fx(thread).back = false;
        let end = self.end_by_tick(thread);
        self.enqueue(thread, end);
    }

    pub(super) fn fx_yield(&mut self, thread: ThreadId) {
        let state = self.fx(thread);
        if state.timeleft <= 0 {
            state.timeleft = slice(state.quantum);
        }
        state.back = false;
    }

    pub(super) fn fx_child(&self, parent: FxState) -> FxState {
        FxState { timeleft: slice(parent.quantum), back: false, ..parent }
    }

    /// The child goes first; the parent loses nothing else.
    pub(super) fn fx_forkret(&mut self, thread: ThreadId) {
        self.fx(thread).back = false;
        self.enqueue(thread, End::Back);
    }
}

/// A quantum as ticks left; one that never ends is not counted.
pub(super) fn slice(quantum: Quantum) -> i64 {
    match quantum {
        Quantum::Ticks(ticks) => i64::from(ticks),
        Quantum::Infinite => i64::MAX,
    }
}
