//! When bursts end. What a thread is paid for its pipeline changes with each neighbour that comes, goes or begins to spin, often many times within one
//! instant, and only the last of these moves its end. So while an instant is worked through, an end that lies in the future is put
//! off, and entered into the heap once, before time goes on.

use super::heap::Source;
use super::ids::{CpuIndex, ThreadId};
use super::state::Kernel;
impl Kernel {
    /// From now on ends are put off, or entered at once.
    pub(super) fn put_ends_off(&mut self, on: bool) {
        self.index.ends.put_off = on;
        #[cfg(test)]
        if self.index.ends.never {
            self.index.ends.put_off = false;
        }
    }

    /// Enters the end of the running thread's burst into the heap, or puts that off. What could happen in this instant is never put off.
    pub(super) fn set_end(&mut self, cpu: CpuIndex, thread: ThreadId) {
        let source = Source::Cpu(cpu);
        if self.index.ends.put_off {
            let t = self.thread(thread);
            let is_now = self.heap.at(source) == Some(self.now);
            let owes = t.owed_sys > 0 || t.owed_user > 0;
            if is_now && t.left == 0 && !owes {
                return;
            }
            // No instruction is faster than that of a thread alone.
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

    /// What the running thread does comes to its end now.
    pub(super) fn end_now(&mut self, cpu: CpuIndex) {
        self.index.ends.late.remove(cpu);
        self.heap.set(Source::Cpu(cpu), self.now);
    }

    /// Whether the end of a burst was put off, so that another speed changes nothing before time goes on.
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

    /// Enters what was put off, before time goes on.
    pub(super) fn enter_ends(&mut self) {
        while let Some(cpu) = self.index.ends.late.pop_first() {
            // One that idles by now has no end.
            if let Some(thread) = self.cpus[cpu].running {
                self.enter_end(cpu, thread);
            }
        }
    }
}
