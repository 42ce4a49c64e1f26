//! Barriers: threads wait for one another, asleep or spinning. A thread that spins keeps its CPU busy with nothing, and learns that
//! the others have come only while it runs.

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
        for thread in std::mem::take(&mut found.there) {
            match self.thread(thread).state {
                RunState::Asleep => self.set_runnable(thread),
                // It spins, and sees it when it runs; the last one to come does not wait.
                RunState::Queued(_) | RunState::Pinned | RunState::Capped => self.t(thread).left = 0,
                RunState::Running => {
                    let t = self.t(thread);
                    if t.left == u64::MAX {
                        t.left = 0;
                        let cpu = t.cpu;
                        self.end_now(cpu);
                    }
                }
                RunState::Gone => {}
            }
        }
        true
    }

    /// A thread that ends belongs to no barrier any more.
    pub(super) fn forget_at_barriers(&mut self, thread: ThreadId) {
        for barrier in &mut self.barriers {
            barrier.there.retain(|other| *other != thread);
        }
    }
}
