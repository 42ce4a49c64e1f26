//! Dispatching: the queue that a runnable thread enters, the CPU that is asked to switch, and the thread that a CPU runs next
//! (setbackdq, setfrontdq and disp in Solaris).

use super::class::End;
use super::heap::Source;
use super::ids::{CpuIndex, QueueId, ThreadId};
use super::queue::IDLE;
use super::state::{Kernel, add};
use super::thread::RunState;
use super::waits;
use millpond_model::Nanos;
/// From this priority on, queues of a level are balanced exactly; below, a difference of two threads is accepted.
const MATCH_FROM: i16 = 16;

impl Kernel {
    /// Puts a thread that is in no queue into the right one.
    pub(super) fn enqueue(&mut self, thread: ThreadId, end: End) {
        let t = self.thread(thread);
        let pri = t.effective();
        if t.bound.is_none() && pri >= self.tunables.kpreempt_pri {
            return self.enqueue_kp(thread, end);
        }
        let cpu = match (t.bound, end) {
            (Some(cpu), _) => cpu,
            (None, end) => match (self.eevdf_home(thread), end) {
                (Some(cpu), _) => cpu,
                (None, End::Back) => self.choose_back(thread, pri),
                (None, End::Front) => self.choose_front(thread, pri),
            },
        };
        self.eevdf_move(thread, cpu);
        // A new best asks the CPU to switch. So does a worse one where the best was not let to.
        if self.insert(thread, cpu.into(), end) || self.tunables.wakeup_parity_nsec > 0 {
            self.resched(cpu, pri);
        }
        self.t(thread).cpu = cpu;
        if self.cpus[cpu].running.is_none() {
            self.asked.insert(cpu);
            self.cross_call(cpu);
        } else {
            self.poke_idle(thread, cpu);
        }
    }

    /// Inserts the thread into this queue. Returns whether it is better than all others there.
    fn insert(&mut self, thread: ThreadId, queue: QueueId, end: End) -> bool {
        let better = self.queues[queue].insert(&mut self.threads, thread, end == End::Front);
        let now = self.now;
        let t = self.t(thread);
        if !matches!(t.state, RunState::Queued(_)) {
            t.waits_since = now;
        }
        (t.state, t.queued_at) = (RunState::Queued(queue), now);
        self.rescore_queue(queue);
        better
    }

    /// Puts the thread into the partition's kp queue, and preempts the CPU with the lowest priority.
    fn enqueue_kp(&mut self, thread: ThreadId, end: End) {
        let t = self.thread(thread);
        let (pri, part, hint) = (t.effective(), t.part, t.cpu);
        let queue = self.kp_queue(part);
        self.insert(thread, queue, end);
        // Only CPUs that use this queue.
        let cpu = self.lowest_where(hint, thread, pri, |c| self.kp_queue(self.cpus[c].part) == queue);
        let chosen = &mut self.cpus[cpu].chosen_level;
        *chosen = pri.max(*chosen);
        self.rescore(cpu);
        self.resched(cpu, pri);
        if self.cpus[cpu].running.is_none() {
            self.asked.insert(cpu);
            self.cross_call(cpu);
        }
    }

    /// Removes a thread from its queue.
    pub(super) fn dequeue(&mut self, thread: ThreadId) {
        if let RunState::Queued(queue) = self.thread(thread).state {
            self.queues[queue].remove(&mut self.threads, thread);
            let t = self.thread(thread);
            let (part, passed) = (t.part, self.now - t.queued_at);
            add(&mut self.waited, part, passed);
            self.rescore_queue(queue);
        }
    }

    /// Asks a CPU to switch to priority `pri`, unless it runs an equal or better one.
    pub(super) fn resched(&mut self, number: CpuIndex, pri: i16) {
        let kernel_too = pri >= self.tunables.kpreempt_pri;
        let cpu = &mut self.cpus[number];
        if cpu.running.is_none() || pri <= cpu.dispatch_pri {
            return;
        }
        if self.sparing && !kernel_too && self.now - cpu.begun_at < self.tunables.wakeup_parity_nsec {
            return;
        }
        cpu.runrun = true;
        cpu.kprunrun |= kernel_too;
        self.asked.insert(number);
        self.cross_call(number);
    }

    /// The CPU for a thread that goes behind its equals.
    fn choose_back(&self, thread: ThreadId, pri: i16) -> CpuIndex {
        let t = self.thread(thread);
        if !self.may_run(thread, t.cpu) {
            return self.lowest(t.cpu, thread, pri);
        }
        let last = &self.cpus[t.cpu];
        let at_home = self.is_warm(thread) && last.lgroup == t.home;
        let cpu = if at_home { t.cpu } else { self.lowest(t.cpu, thread, pri) };
        let cpu = self.spread(thread, cpu);
        self.balanced(thread, cpu, pri)
    }

    /// The neighbour, if it has clearly fewer threads of this priority.
    fn balanced(&self, thread: ThreadId, cpu: CpuIndex, pri: i16) -> CpuIndex {
        let mut len = i64::from(self.queues[cpu].len_at(pri));
        if pri >= MATCH_FROM {
            len -= 2;
        }
        if len <= 0 {
            return cpu;
        }
        let neighbour = self.neighbour(thread, cpu);
        if i64::from(self.queues[neighbour].len_at(pri)) < len { neighbour } else { cpu }
    }

    /// The CPU for a thread that goes before its equals.
    fn choose_front(&self, thread: ThreadId, pri: i16) -> CpuIndex {
        let t = self.thread(thread);
        let last = &self.cpus[t.cpu];
        let crowded = pri < self.queues[t.cpu].best && !self.is_warm(thread);
        if self.may_run(thread, t.cpu) && last.lgroup == t.home && !crowded {
            t.cpu
        } else {
            self.lowest(t.cpu, thread, pri)
        }
    }

    /// The next thread of a CPU: from its partition's kp queue, its own queue, or another CPU's. The thread is removed from its queue.
    pub(super) fn next_thread(&mut self, cpu: CpuIndex) -> Option<ThreadId> {
        // The burst of the previous thread no longer ends here.
        self.heap.cancel(Source::Cpu(cpu));
        if let Some(pinned) = self.resume(cpu) {
            return Some(pinned);
        }
        let part = self.cpus[cpu].part;
        let kp = self.kp_queue(part);
        // An off-line CPU stays in its set, but takes no thread from it.
        let serves = self.parts[part].cpus.contains(cpu);
        let kp_best = if serves { self.queues[kp].best } else { IDLE };
        let own_best = self.queues[cpu].best;
        let from = if kp_best != IDLE && kp_best >= own_best {
            Some(kp)
        } else if own_best == IDLE {
            None
        } else {
            Some(cpu.into())
        };
        let thread = match from {
            Some(queue) => self.queues[queue].first().map(|first| match queue == cpu.into() {
                true if self.is_eevdf(own_best) => self.eevdf_best(cpu, first),
                _ => first,
            }),
            None => self.stealable(cpu),
        };
        let state = &mut self.cpus[cpu];
        (state.runrun, state.kprunrun, state.chosen_level) = (false, false, IDLE);
        self.rescore(cpu);
        let thread = thread?;
        let t = self.thread(thread);
        let since = if t.waits_since == 0 { t.queued_at } else { t.waits_since };
        waits::record(&mut self.waits, cpu, Nanos(self.now - since));
        self.eevdf_move(thread, cpu);
        self.dequeue(thread);
        Some(thread)
    }
}
