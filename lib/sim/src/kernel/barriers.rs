//! Barriers: threads wait for one another, asleep or spinning. A thread that spins keeps its CPU busy with nothing, and learns that
//! the others have come only while it runs.
//!
//! # Handover
//!
//! Threads that come are counted in a word of memory, which one CPU has at a time. Each keeps it for some trips to where it meets the
//! others': the outer cache, or memory where they have different ones. A thread that comes meanwhile waits for it, so that `n` threads that
//! come at once are counted after `n` times as long. The barrier opens then.

use super::ids::{BarrierId, CpuIndex, MixId, ThreadId};
use super::program::Waiting;
use super::state::Kernel;
use super::thread::RunState;
impl Kernel {
    /// The running thread comes to a barrier. `true`: all were there, and it goes on.
    pub(super) fn meet(
        &mut self,
        cpu: CpuIndex,
        thread: ThreadId,
        barrier: BarrierId,
        waiting: Waiting,
    ) -> bool {
        self.barriers[barrier].there.push(thread);
        self.hand_over(barrier, cpu);
        if self.open_if_full(barrier) {
            return true;
        }
        match waiting {
            Waiting::Spin => {
                // What spins is the first mix.
                self.begin(cpu, thread, false, Some(MixId(0)), u64::MAX);
            }
            Waiting::Block => {
                self.t(thread).tally.for_lock = true;
                self.sleep(cpu, thread);
            }
        }
        false
    }

    /// When all threads that belong to a barrier are there, they go on.
    pub(super) fn open_if_full(&mut self, barrier: BarrierId) -> bool {
        let found = &mut self.barriers[barrier];
        if found.there.len() < found.parties as usize || found.there.is_empty() {
            return false;
        }
        let counting = found.free_at.saturating_sub(self.now);
        for thread in std::mem::take(&mut found.there) {
            let t = self.thread(thread);
            let (state, cpu) = (t.state, t.cpu);
            if counting > 0 && matches!(state, RunState::Asleep | RunState::Running) {
                if state == RunState::Running {
                    self.account(cpu);
                }
                let owed = &mut self.t(thread).owed_user;
                *owed = owed.saturating_add(counting);
            }
            match state {
                RunState::Asleep => self.set_runnable(thread),
                // It spins, and sees it when it runs; the last one to come does not wait.
                RunState::Queued(_) | RunState::Pinned | RunState::Capped => self.t(thread).left = 0,
                RunState::Running => {
                    let t = self.t(thread);
                    if t.left == u64::MAX {
                        t.left = 0;
                        self.end_now(cpu);
                    }
                }
                RunState::Gone => {}
            }
        }
        true
    }

    /// A thread on that CPU is counted, after all that came before it.
    fn hand_over(&mut self, barrier: BarrierId, cpu: CpuIndex) {
        let h = &self.hardware;
        let found = &self.barriers[barrier];
        if h.handover_milli == 0 || found.parties < 2 {
            return;
        }
        let lgroup = |cpu: CpuIndex| self.cpus[cpu].lgroup as usize;
        let far = found.last.filter(|last| h.caches[*last] != h.caches[cpu]);
        let trip_fs = match far {
            Some(last) => h.latency_ps[lgroup(cpu)][lgroup(last)] * 1_000,
            None => h.cache_cycles * h.cycle_fs,
        };
        let kept = trip_fs * h.handover_milli / 1_000_000_000;
        let free_at = found.free_at.max(self.now).saturating_add(kept);
        let found = &mut self.barriers[barrier];
        (found.free_at, found.last) = (free_at, Some(cpu));
    }

    /// A thread that ends belongs to no barrier any more.
    pub(super) fn forget_at_barriers(&mut self, thread: ThreadId) {
        for barrier in &mut self.barriers {
            barrier.there.retain(|other| *other != thread);
        }
    }
}
