//! Deferred ends of bursts. The speed of a thread changes with each thread that starts, stops or begins to spin on its pipeline.
//! That often happens many times within one instant, and only the last change determines the end of its burst. So while an
//! instant is processed, an end in the future is deferred, and entered into the heap once, before time advances.

use super::heap::Source;
use super::ids::{CpuIndex, ThreadId};
use super::state::Kernel;
impl Kernel {
    /// Starts or stops deferring ends.
    pub(super) fn put_ends_off(&mut self, on: bool) {
        self.index.ends.put_off = on;
        #[cfg(test)]
        if self.index.ends.never {
            self.index.ends.put_off = false;
        }
    }

    /// Enters the end of the running thread's burst into the heap, or defers it. An end that may be in this instant is never deferred.
    pub(super) fn set_end(&mut self, cpu: CpuIndex, thread: ThreadId) {
        let source = Source::Cpu(cpu);
        if self.index.ends.put_off {
            let t = self.thread(thread);
            let is_now = self.heap.at(source) == Some(self.now);
            let owes = t.owed_sys > 0 || t.owed_user > 0;
            if is_now && t.left == 0 && !owes {
                return;
            }
            // Lower bound of the end: no instruction is faster than alone on its pipeline.
            let alone = self.cpus[cpu].instruction_time.alone;
            let later = owes || t.left > 0 && (alone == 0 || t.left.saturating_mul(alone) > t.rest_fs);
            if later && !is_now {
                self.index.ends.late.insert(cpu);
                return;
            }
            self.index.ends.late.remove(cpu);
        }
        self.enter_end(cpu, thread);
    }

    /// The running thread's burst ends now.
    pub(super) fn end_now(&mut self, cpu: CpuIndex) {
        self.index.ends.late.remove(cpu);
        self.heap.set(Source::Cpu(cpu), self.now);
    }

    /// Whether the end of a burst is deferred. Then another change of speed has no effect before time advances.
    pub(super) fn is_late(&self, cpu: CpuIndex) -> bool {
        self.index.ends.late.contains(cpu)
    }

    fn enter_end(&mut self, cpu: CpuIndex, thread: ThreadId) {
        self.retime_instruction(cpu);
        match self.remaining(cpu, thread) {
            None => self.heap.cancel(Source::Cpu(cpu)),
            Some(left) => self.heap.set(Source::Cpu(cpu), self.now.saturating_add(left)),
        }
    }

    /// Enters the deferred ends, before time advances.
    pub(super) fn enter_ends(&mut self) {
        while let Some(cpu) = self.index.ends.late.pop_first() {
            // A CPU that is idle by now has no end.
            if let Some(thread) = self.cpus[cpu].running {
                self.enter_end(cpu, thread);
            }
        }
    }
}
