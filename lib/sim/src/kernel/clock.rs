//! The clock tick (reference §3.9, §3.11): it charges the threads that run, and once a second updates the waits.

use super::classes::CLASSES;
use super::heap::Source;
use super::ids::CpuIndex;
use super::state::Kernel;
impl Kernel {
    /// The clock ticks while a thread runs or waits for a cap.
    pub(super) fn wind_clock(&mut self) {
        if self.busy.is_empty() && !self.any_capped() {
            self.heap.cancel(Source::Clock);
            return;
        }
        let wound = self.heap.at(Source::Clock);
        // A CPU that begins may have its tick before the others.
        if wound.is_none() || self.tunables.tick_skew_ns > 0 {
            let next = self.next_tick();
            if wound.is_none_or(|wound| next < wound) {
                self.heap.set(Source::Clock, next);
            }
        }
    }

    /// How long after the clock's own tick that of a CPU comes.
    fn skew(&self, cpu: CpuIndex) -> u64 {
        u64::from(cpu.0) * self.tunables.tick_skew_ns % self.tick()
    }

    /// When the clock or a CPU that is busy has its next tick.
    fn next_tick(&self) -> u64 {
        let (tick, began) = (self.tick(), self.lbolt() * self.tick());
        if self.tunables.tick_skew_ns == 0 {
            return began + tick;
        }
        let passed = self.now - began;
        let of = |skew: u64| if skew > passed { began + skew } else { began + tick + skew };
        self.busy.iter().map(|cpu| of(self.skew(cpu))).fold(began + tick, u64::min)
    }

    /// One tick.
    pub(super) fn clock(&mut self) {
        let passed = self.now - self.lbolt() * self.tick();
        if self.capped && passed == 0 {
            self.decay_caps();
        }
        // Ticks of some CPUs alone: the clock's own moves on what concerns all.
        let start = self.tick_start;
        let (before, after): (Vec<CpuIndex>, Vec<CpuIndex>) = self.busy.iter().partition(|cpu| *cpu < start);
        if passed == 0 {
            self.tick_start = CpuIndex((start.0 + 1) % u32::try_from(self.cpus.len()).unwrap_or(1).max(1));
        }
        for cpu in after.into_iter().chain(before) {
            if let Some(thread) = self.cpus[cpu].running.filter(|_| self.skew(cpu) == passed) {
                self.happened += 1;
                self.tick_caps(cpu, thread);
                self.class_tick(thread);
            }
        }
        if passed == 0 && self.lbolt().is_multiple_of(u64::from(self.tunables.hz)) {
            CLASSES.iter().for_each(|class| (class.update)(self));
        }
        if passed == 0 {
            self.release_capped();
        }
        self.wind_clock();
    }
}
