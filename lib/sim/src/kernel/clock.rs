//! The clock tick: charges running threads, and runs the once-per-second update of waiting ones.

use super::classes::CLASSES;
use super::heap::Source;
use super::ids::CpuIndex;
use super::state::Kernel;
impl Kernel {
    /// Starts the clock. It ticks while a thread runs or waits for a cap.
    pub(super) fn wind_clock(&mut self) {
        if self.busy.is_empty() && !self.any_capped() {
            self.heap.cancel(Source::Clock);
        } else if self.heap.at(Source::Clock).is_none() {
            let next = (self.lbolt() + 1) * self.tick();
            self.heap.set(Source::Clock, next);
        }
    }

    /// Processes one tick.
    pub(super) fn clock(&mut self) {
        if self.capped {
            self.decay_caps();
        }
        let start = self.tick_start;
        let (before, after): (Vec<CpuIndex>, Vec<CpuIndex>) = self.busy.iter().partition(|cpu| *cpu < start);
        self.tick_start = CpuIndex((start.0 + 1) % u32::try_from(self.cpus.len()).unwrap_or(1).max(1));
        for cpu in after.into_iter().chain(before) {
            if let Some(thread) = self.cpus[cpu].running {
                self.happened += 1;
                self.tick_caps(cpu, thread);
                self.class_tick(thread);
                if self.tunables.wakeup_parity_nsec > 0 {
                    self.surrender_if_worse(thread);
                }
            }
        }
        if self.lbolt().is_multiple_of(u64::from(self.tunables.hz)) {
            CLASSES.iter().for_each(|class| (class.update)(self));
        }
        self.release_capped();
        self.wind_clock();
    }
}
