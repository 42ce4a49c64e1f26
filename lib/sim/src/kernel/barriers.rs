//! Barriers: threads wait for one another, asleep or spinning. A spinning thread keeps its CPU busy, and sees that the others
//! have arrived only while it runs.
//!
//! # Handover
//!
//! Arriving threads are counted in a word of memory, whose cache line one CPU has at a time. Each CPU keeps it for several trips
//! to the level where it meets the others' CPUs: the outer cache, or memory where they have different ones. A thread that arrives
//! in the meantime waits for the line. So `n` threads that arrive at once are counted after `n` times as long; then the barrier opens.

use super::ids::{BarrierId, CpuIndex, MixId, ThreadId};
use super::program::Waiting;
use super::state::Kernel;
use super::thread::RunState;
impl Kernel {
    /// The running thread arrives at a barrier. `true`: it was the last one, and continues.
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
                // The first mix is that of spinning.
                self.begin(cpu, thread, false, Some(MixId(0)), u64::MAX);
            }
            Waiting::Block => {
                self.t(thread).tally.for_lock = true;
                self.sleep(cpu, thread);
            }
        }
        false
    }

    /// Opens a barrier when all its threads have arrived.
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
                // A spinning thread sees it when it runs; the last thread does not wait.
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

    /// Counts the arrival of a thread on that CPU, after all that arrived before it.
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

    /// Removes a thread that ends from all barriers.
    pub(super) fn forget_at_barriers(&mut self, thread: ThreadId) {
        for barrier in &mut self.barriers {
            barrier.there.retain(|other| *other != thread);
        }
    }
}
