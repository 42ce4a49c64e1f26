//! The classes TS and IA: priocntl(1), ts_dptbl(5).
//!
//! The priority of a thread has two parts, the system's and the user's. The system's part falls when a slice expires,
//! and rises when a thread has waited longer than its level allows. The update counts the seconds of a wait. Sleeping threads
//! take missed updates into account when their level next matters ([`Kernel::catch_up`]), with the same result.

use super::class::{Class, End};
use super::class_state::{ClassState, IA_BOOST, TS_ENTRY, TS_TOP, TsState, UPRI_MAX};
use super::ids::{Id, ThreadId};
use super::state::Kernel;
use super::thread::{RunState, Thread};
use millpond_model::{ClassParams, TsTable};

/// The number of lists of the update. A thread belongs to a list by its number.
const UPDATE_LISTS: u32 = 16;

pub(super) const TS: Class = Class {
    enter: Kernel::ts_entry,
    set_params: Kernel::ts_set_params,
    store: ts_store,
    unset: ClassParams::Ts { uprilim: 0, upri: 0 },
    params: ts_params,
    priority: |state| Some(i16::from(ts_of(state).umdpri)),
    tick: Kernel::ts_tick,
    preempt: Kernel::ts_preempt,
    sleep: Kernel::ts_boost_if_due,
    wakeup: Kernel::ts_wakeup,
    trapret: |kernel, thread| {
        kernel.ts_boost_if_due(thread);
        kernel.surrender_if_worse(thread);
    },
    yield_cpu: Kernel::ts_yield,
    fork: Kernel::ts_child,
    forkret: Kernel::ts_forkret,
    update: Kernel::ts_update,
    check: ts_check,
};

#[inline]
fn ts_of(state: &ClassState) -> &TsState {
    match state {
        ClassState::Ts(state) => state,
        other => unreachable!("a thread of {other:?} in the rules of TS"),
    }
}

fn ts_store(state: &mut ClassState, params: ClassParams) {
    let ClassState::Ts(state) = state else { return };
    let (uprilim, upri, foreground) = values(params);
    let uprilim = uprilim.clamp(-UPRI_MAX, UPRI_MAX);
    (state.uprilim, state.upri) = (uprilim, upri.clamp(-UPRI_MAX, uprilim));
    (state.foreground, state.boost) = (foreground, boost(foreground));
    state.umdpri = state.level();
}

fn ts_params(state: &ClassState) -> ClassParams {
    let TsState { uprilim, upri, foreground, .. } = *ts_of(state);
    match foreground {
        None => ClassParams::Ts { uprilim, upri },
        Some(foreground) => ClassParams::Ia { uprilim, upri, foreground },
    }
}

fn ts_check(_: &Kernel, thread: &Thread) -> Result<(), &'static str> {
    let state = ts_of(&thread.class);
    if state.cpupri > TS_TOP || state.umdpri != state.level() {
        return Err("has a level that its parts do not make");
    }
    Ok(())
}

/// The parameters of TS and IA: the limit of the user priority, the user priority, and whether the thread is in the foreground.
fn values(params: ClassParams) -> (i8, i8, Option<bool>) {
    match params {
        ClassParams::Ts { uprilim, upri } => (uprilim, upri, None),
        ClassParams::Ia { uprilim, upri, foreground } => (uprilim, upri, Some(foreground)),
        other => unreachable!("parameters {other} in the rules of TS"),
    }
}

impl Kernel {
    fn ts_entry(&self, params: ClassParams) -> ClassState {
        let (uprilim, upri, foreground) = values(params);
        let mut state = TsState {
            cpupri: TS_ENTRY,
            upri,
            uprilim,
            boost: boost(foreground),
            umdpri: 0,
            timeleft: i64::from(self.tables.ts.row(TS_ENTRY).quantum),
            dispwait: 0,
            back: false,
            foreground,
            restore: None,
        };
        state.umdpri = state.level();
        ClassState::Ts(state)
    }

    #[inline]
    fn ts(&mut self, thread: ThreadId) -> &mut TsState {
        match &mut self.threads[thread].class {
            ClassState::Ts(state) => state,
            other => unreachable!("a thread of {other:?} in the rules of TS"),
        }
    }

    #[inline]
    fn ts_seen(&self, thread: ThreadId) -> &TsState {
        ts_of(&self.threads[thread].class)
    }

    /// The slice for the current system's part.
    fn ts_slice(&self, thread: ThreadId) -> i64 {
        i64::from(self.tables.ts.row(self.ts_seen(thread).cpupri).quantum)
    }

    fn ts_refill(&mut self, thread: ThreadId) {
        let slice = self.ts_slice(thread);
        self.ts(thread).timeleft = slice;
    }

    /// The slice expired: the system's part falls.
    fn ts_expire(&mut self, thread: ThreadId) {
        let fallen = self.tables.ts.row(self.ts_seen(thread).cpupri).tqexp;
        let state = self.ts(thread);
        state.cpupri = fallen;
        state.umdpri = state.level();
        state.dispwait = 0;
    }

    fn ts_waited_too_long(&self, thread: ThreadId) -> bool {
        let state = self.ts_seen(thread);
        state.dispwait > self.tables.ts.row(state.umdpri).maxwait
    }

    fn ts_tick(&mut self, thread: ThreadId) {
        self.ts(thread).timeleft -= 1;
        if self.ts_seen(thread).timeleft <= 0 {
            let (hold, most) = (self.thread(thread).hold, self.tunables.hold_ticks);
            if hold && self.ts_seen(thread).timeleft > -most {
                self.t(thread).asked_to_yield = true;
                return;
            }
            self.ts(thread).restore = None;
            self.ts_expire(thread);
            let pri = i16::from(self.ts_seen(thread).umdpri);
            if self.change_pri(thread, pri, End::Back) {
                self.ts_refill(thread);
            } else {
                self.ts(thread).back = true;
                self.surrender(thread);
            }
            return;
        }
        let t = self.thread(thread);
        if t.state == RunState::Running && t.effective() < self.queues[t.cpu].best {
            self.ts(thread).back = true;
            self.surrender(thread);
        }
    }

    fn ts_preempt(&mut self, thread: ThreadId) {
        if self.thread(thread).hold {
            if self.ts_seen(thread).timeleft > -self.tunables.hold_ticks {
                let pri = self.thread(thread).pri;
                let state = self.ts(thread);
                if state.restore.is_none() {
                    state.restore = Some(pri);
                }
                let t = self.t(thread);
                t.pri = i16::from(TS_TOP);
                t.asked_to_yield = true;
                return self.enqueue(thread, End::Front);
            }
            self.t(thread).hold = false;
            self.ts_restore(thread);
        }
        if self.ts_seen(thread).back {
            self.ts_refill(thread);
            let state = self.ts(thread);
            (state.dispwait, state.back) = (0, false);
            self.enqueue(thread, End::Back);
        } else {
            self.enqueue(thread, End::Front);
        }
    }

    /// Restores the priority from before the thread was allowed to hold off preemption.
    fn ts_restore(&mut self, thread: ThreadId) {
        if let Some(pri) = self.ts(thread).restore.take() {
            self.t(thread).pri = pri;
        }
    }

    /// Raises a thread that has waited too long, with a full slice.
    fn ts_boost_if_due(&mut self, thread: ThreadId) {
        if !self.ts_waited_too_long(thread) {
            return;
        }
        let raised = self.tables.ts.row(self.ts_seen(thread).cpupri).slpret;
        let state = self.ts(thread);
        state.cpupri = raised;
        state.umdpri = state.level();
        state.dispwait = 0;
        let pri = i16::from(state.umdpri);
        self.ts_refill(thread);
        self.change_pri(thread, pri, End::Back);
    }

    fn ts_wakeup(&mut self, thread: ThreadId) {
        self.ts_boost_if_due(thread);
        self.ts(thread).back = false;
        let end = match self.ts_seen(thread).foreground {
            Some(true) => End::Front,
            Some(false) => End::Back,
            None => self.end_by_tick(thread),
        };
        self.enqueue(thread, end);
    }

    fn ts_yield(&mut self, thread: ThreadId) {
        self.ts_restore(thread);
        if self.ts_seen(thread).timeleft <= 0 {
            self.ts_expire(thread);
            self.ts_refill(thread);
            let pri = i16::from(self.ts_seen(thread).umdpri);
            self.t(thread).pri = pri;
        }
        self.ts(thread).back = false;
    }

    fn ts_child(&self, parent: ThreadId) -> ClassState {
        let timeleft = self.ts_slice(parent);
        ClassState::Ts(TsState { timeleft, dispwait: 0, back: false, restore: None, ..*self.ts_seen(parent) })
    }

    /// The child runs first, at the old level; the parent falls as after a slice.
    fn ts_forkret(&mut self, thread: ThreadId) -> bool {
        self.ts_expire(thread);
        self.ts_refill(thread);
        let pri = i16::from(self.ts_seen(thread).umdpri);
        self.t(thread).pri = pri;
        self.ts(thread).back = false;
        self.enqueue(thread, End::Back);
        true
    }

    /// The update of each second, for all threads that are runnable or wait for a cap. Sleeping threads catch up later.
    fn ts_update(&mut self) {
        let beat = self.beats();
        let waiting = self.queues.iter().filter(|queue| !queue.is_empty());
        let waiting = waiting.flat_map(|queue| queue.threads(&self.threads));
        let capped = self.holders.iter().filter_map(|holder| holder.cap.as_ref());
        let capped = capped.flat_map(|cap| cap.waiting.iter().copied());
        let running = self.busy.iter().filter_map(|cpu| self.cpus[cpu].running);
        let shared = |thread: &ThreadId| matches!(self.thread(*thread).class, ClassState::Ts(_));
        let mut order: Vec<(u32, ThreadId)> =
            waiting.chain(capped).chain(running).filter(shared).map(|n| (self.update_turn(n), n)).collect();
        order.sort_unstable();
        let mut changed = None;
        for (list, thread) in order {
            if self.thread(thread).beats >= beat {
                continue;
            }
            self.t(thread).beats = beat;
            if self.ts_update_one(thread) && changed.is_none() {
                changed = Some(list);
            }
        }
        if let Some(list) = changed {
            self.update_start = (self.update_start + list + 1) % UPDATE_LISTS;
        }
    }

    /// The position of a thread's list in the order of the update.
    pub(super) fn update_turn(&self, thread: ThreadId) -> u32 {
        (thread.0 % UPDATE_LISTS + UPDATE_LISTS - self.update_start) % UPDATE_LISTS
    }

    /// The update of one runnable thread; `true` if its priority changed.
    fn ts_update_one(&mut self, thread: ThreadId) -> bool {
        self.ts(thread).dispwait = self.ts_seen(thread).dispwait.saturating_add(1);
        if !self.ts_waited_too_long(thread) || self.thread(thread).hold {
            return false;
        }
        if self.thread(thread).state == RunState::Running {
            self.t(thread).trapret = true;
            let cpu = self.thread(thread).cpu;
            self.asked.insert(cpu);
            return false;
        }
        let before = self.thread(thread).pri;
        self.ts_promote(thread);
        let pri = i16::from(self.ts_seen(thread).umdpri);
        if pri == before {
            return false;
        }
        self.ts_change_priority(thread);
        true
    }

    /// Raises the system's part after a long wait (`lwait`).
    fn ts_promote(&mut self, thread: ThreadId) {
        let raised = self.tables.ts.row(self.ts_seen(thread).cpupri).lwait;
        let state = self.ts(thread);
        state.cpupri = raised;
        state.umdpri = state.level();
        state.dispwait = 0;
    }

    /// Gives the thread the priority of its level. Used by the update and by changes of parameters.
    fn ts_change_priority(&mut self, thread: ThreadId) {
        let pri = i16::from(self.ts_seen(thread).umdpri);
        self.ts(thread).restore = None;
        if self.thread(thread).state == RunState::Running {
            self.change_pri(thread, pri, End::Back);
            let t = self.thread(thread);
            if t.effective() < self.best_here(t.cpu) {
                self.ts(thread).back = true;
                self.surrender(thread);
            } else {
                self.ts_refill(thread);
            }
            return;
        }
        let end = if self.ts_seen(thread).foreground == Some(true) { End::Front } else { End::Back };
        if self.change_pri(thread, pri, end) {
            self.ts_refill(thread);
        } else {
            self.ts(thread).back = true;
        }
    }

    /// Sets the user parameters: the user priority, its limit and, in IA, whether the thread is in the foreground. Restarts the
    /// count of the wait.
    fn ts_set_params(&mut self, thread: ThreadId, params: ClassParams) {
        ts_store(&mut self.t(thread).class, params);
        self.ts(thread).dispwait = 0;
        self.ts_change_priority(thread);
    }

    /// Applies the updates during which a thread slept.
    pub(super) fn catch_up(&mut self, thread: ThreadId) {
        let beats = self.beats();
        let Some(t) = self.threads.get_mut(thread.place()) else { return };
        let missed = beats.saturating_sub(t.beats);
        t.beats = beats;
        let ClassState::Ts(state) = &mut t.class else { return };
        if missed == 0 || t.state != RunState::Asleep {
            return;
        }
        if !t.hold {
            sleep_through(state, &self.tables.ts, missed);
            if state.restore.is_none() {
                t.pri = i16::from(state.umdpri);
            }
        }
    }
}

/// The priority boost of a thread in the foreground or background of IA; 0 in TS.
fn boost(foreground: Option<bool>) -> i8 {
    match foreground {
        None => 0,
        Some(true) => IA_BOOST,
        Some(false) => -IA_BOOST,
    }
}

/// Applies `missed` updates to a sleeping thread. Each counts a second; beyond `maxwait` the thread rises.
fn sleep_through(state: &mut TsState, table: &TsTable, mut missed: u64) {
    while missed > 0 {
        let most = u64::from(table.row(state.umdpri).maxwait);
        let until_lift = (most + 1).saturating_sub(u64::from(state.dispwait)).max(1);
        if missed < until_lift {
            state.dispwait = state.dispwait.saturating_add(u32::try_from(missed).unwrap_or(u32::MAX));
            return;
        }
        missed -= until_lift;
        let raised = table.row(state.cpupri).lwait;
        state.dispwait = 0;
        if raised == state.cpupri {
            // Its level stays the same: complete rounds have no effect.
            missed %= most + 1;
            state.dispwait = u32::try_from(missed).unwrap_or(u32::MAX);
            return;
        }
        let before = state.umdpri;
        state.cpupri = raised;
        state.umdpri = state.level();
        state.back |= state.umdpri != before;
    }
}
