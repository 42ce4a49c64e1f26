//! The class FX (fx_dptbl(5)): fixed priorities with slices.

use super::class::{Class, End};
use super::class_state::{ClassState, FxState, slice};
use super::ids::ThreadId;
use super::state::Kernel;
use super::sys::SYS;
use super::thread::RunState;
use millpond_model::{ClassParams, Quantum};

pub(super) const FX: Class = Class {
    enter: |_, params| ClassState::Fx(fx_entry(params)),
    set_params: Kernel::fx_set_params,
    store: fx_store,
    unset: ClassParams::Fx { uprilim: 0, upri: 0, quantum: Quantum::Infinite },
    params: |state| {
        let FxState { uprilim, pri, quantum, .. } = *fx_of(state);
        ClassParams::Fx { uprilim: uprilim.cast_signed(), upri: pri.cast_signed(), quantum }
    },
    priority: |state| Some(i16::from(fx_of(state).pri)),
    tick: Kernel::fx_tick,
    preempt: Kernel::fx_preempt,
    wakeup: Kernel::fx_wakeup,
    yield_cpu: Kernel::fx_yield,
    fork: Kernel::fx_child,
    forkret: Kernel::fx_forkret,
    ..SYS
};

fn fx_of(state: &ClassState) -> &FxState {
    match state {
        ClassState::Fx(state) => state,
        other => unreachable!("a thread of {other:?} in the rules of FX"),
    }
}

fn fx_entry(params: ClassParams) -> FxState {
    let ClassParams::Fx { uprilim, upri, quantum } = params else {
        unreachable!("parameters {params} in the rules of FX")
    };
    FxState {
        pri: upri.unsigned_abs(),
        uprilim: uprilim.unsigned_abs(),
        quantum,
        timeleft: slice(quantum),
        back: false,
    }
}

fn fx_store(state: &mut ClassState, params: ClassParams) {
    let ClassState::Fx(state) = state else { return };
    let FxState { uprilim, pri, quantum, .. } = fx_entry(params);
    (state.uprilim, state.pri, state.quantum) = (uprilim, pri, quantum);
}

impl Kernel {
    /// Sets the user parameters. The thread goes behind threads of equal priority, with a full slice.
    fn fx_set_params(&mut self, thread: ThreadId, params: ClassParams) {
        let before = self.fx(thread).pri;
        fx_store(&mut self.t(thread).class, params);
        let state = self.fx(thread);
        state.timeleft = slice(state.quantum);
        let pri = state.pri;
        if pri != before {
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

    fn fx_tick(&mut self, thread: ThreadId) {
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

    fn fx_preempt(&mut self, thread: ThreadId) {
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

    fn fx_wakeup(&mut self, thread: ThreadId) {
        self.fx(thread).back = false;
        let end = self.end_by_tick(thread);
        self.enqueue(thread, end);
    }

    fn fx_yield(&mut self, thread: ThreadId) {
        let state = self.fx(thread);
        if state.timeleft <= 0 {
            state.timeleft = slice(state.quantum);
        }
        state.back = false;
    }

    fn fx_child(&self, parent: ThreadId) -> ClassState {
        let parent = *fx_of(&self.threads[parent].class);
        ClassState::Fx(FxState { timeleft: slice(parent.quantum), back: false, ..parent })
    }

    /// The child runs first. The parent keeps its priority and slice.
    fn fx_forkret(&mut self, thread: ThreadId) -> bool {
        self.fx(thread).back = false;
        self.enqueue(thread, End::Back);
        true
    }
}
