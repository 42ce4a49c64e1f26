//! Where threads may run changes: processors come, go and change partitions, threads are bound and let go.

use super::Kernel;
use super::bits::first_in;
use super::classes::End;
use super::queue::Queue;
use super::thread::RunState;
use serde::{Deserialize, Serialize};

/// A partition: a processor set, the default one, or another reason to share processors. Its queue for kernel preemption
/// comes after those of all processors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Partition {
    /// The processors that its threads may run on, ascending.
    pub cpus: Vec<u32>,
    /// The processors from whose queues its own processors may take threads, ascending.
    peers: Vec<u32>,
}

impl Partition {
    /// One that has these processors to itself.
    #[must_use]
    pub fn of(cpus: Vec<u32>) -> Self {
        Partition { peers: cpus.clone(), cpus }
    }

    pub(super) fn peers(&self) -> &[u32] {
        &self.peers
    }
}

/// How processors are shared out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrangement {
    /// For each processor the partition that it belongs to, and whether it runs threads.
    pub cpus: Vec<(u32, bool)>,
    /// For each partition the processors that its threads may run on, ascending. They may be others' too.
    pub parts: Vec<Vec<u32>>,
}

impl Kernel {
    /// Whether a thread may run on a processor.
    #[must_use]
    pub fn may_run(&self, thread: u32, cpu: u32) -> bool {
        let t = self.thread(thread);
        match t.bound {
            Some(bound) => bound == cpu,
            None => self.index.parts[t.part as usize].0.contains(cpu),
        }
    }

    /// Shares out processors anew. Threads that are or wait where they may not be any more go elsewhere at once.
    pub fn arrange(&mut self, wanted: &Arrangement) {
        if !self.place_processors(wanted) {
            return;
        }
        let cpus = (0u32..).take(self.cpus.len());
        let mut homeless = Vec::new();
        for cpu in cpus.clone() {
            let waiting: Vec<u32> = self.queues[cpu as usize].threads(&self.threads).collect();
            let lost = waiting.into_iter().filter(|thread| !self.may_run(*thread, cpu));
            homeless.extend(lost);
        }
        for thread in &homeless {
            self.dequeue(*thread);
        }
        for thread in (0u32..).take(self.threads.len()) {
            self.keep_home(thread);
        }
        for thread in homeless {
            self.enqueue(thread, End::Back);
        }
        for cpu in cpus {
            self.leave_if_lost(cpu);
            // Who idles may now be allowed to take something.
            self.asked.insert(cpu);
        }
    }

    /// Notes who may run where; `false` when nothing is new.
    fn place_processors(&mut self, wanted: &Arrangement) -> bool {
        let now = self.cpus.iter().map(|cpu| (cpu.part, cpu.active));
        let same_cpus = now.eq(wanted.cpus.iter().copied());
        let parts = self.parts.iter().map(|part| &part.cpus);
        if same_cpus && parts.eq(&wanted.parts) {
            return false;
        }
        for (cpu, (part, active)) in self.cpus.iter_mut().zip(&wanted.cpus) {
            (cpu.part, cpu.active) = (*part, *active);
        }
        let last = wanted.cpus.iter().map(|(part, _)| *part).max().unwrap_or(0);
        let known = u32::try_from(wanted.parts.len()).unwrap_or(u32::MAX);
        self.ensure_part(last.max(known.saturating_sub(1)));
        for (number, part) in (0u32..).zip(&mut self.parts) {
            part.cpus = wanted.parts.get(number as usize).cloned().unwrap_or_default();
            let own = |cpu: &&u32| self.cpus[**cpu as usize].part == number;
            let mixes = wanted.parts.iter().filter(|cpus| cpus.iter().any(|cpu| own(&cpu)));
            part.peers = mixes.flatten().copied().collect();
            part.peers.sort_unstable();
            part.peers.dedup();
        }
        self.index_parts();
        true
    }

    /// Makes partitions up to this number, without processors.
    fn ensure_part(&mut self, part: u32) {
        let most = self.parts.len().max(part as usize + 1);
        self.parts.resize_with(most, Partition::default);
        self.queues.resize_with(self.cpus.len() + most, Queue::default);
        self.index_parts();
    }

    /// Binds a thread to a partition, and to one processor of it or to none. It goes there at once.
    pub fn confine(&mut self, thread: u32, part: u32, bound: Option<u32>) {
        let t = self.thread(thread);
        if (t.part, t.bound) == (part, bound) || t.state == RunState::Gone {
            return;
        }
        if part as usize >= self.parts.len() {
            self.ensure_part(part);
        }
        let waits = matches!(self.thread(thread).state, RunState::Queued(_));
        self.count_at_home(thread, false);
        if waits {
            self.dequeue(thread);
        }
        let t = self.t(thread);
        (t.part, t.bound) = (part, bound);
        self.count_at_home(thread, true);
        self.keep_home(thread);
        if waits {
            self.enqueue(thread, End::Back);
        } else if self.thread(thread).state == RunState::Running {
            let cpu = self.thread(thread).cpu;
            self.leave_if_lost(cpu);
        }
    }

    /// A home stays while the thread may run there; else it gets another one.
    fn keep_home(&mut self, thread: u32) {
        let t = self.thread(thread);
        if t.state == RunState::Gone {
            return;
        }
        let at_home = |cpu: &u32| self.cpus[*cpu as usize].lgroup == t.home;
        let stays = match &t.bound {
            Some(cpu) => at_home(cpu),
            None => {
                let near = &self.index.rings[t.home as usize][0];
                first_in(&[&self.index.parts[t.part as usize].0, near], 0, |_| true).is_some()
            }
        };
        if !stays {
            let home = self.choose_home(thread);
            self.count_at_home(thread, false);
            self.t(thread).home = home;
            self.count_at_home(thread, true);
        }
    }

    /// A thread that runs where it may not goes elsewhere, also out of the kernel.
    fn leave_if_lost(&mut self, cpu: u32) {
        let Some(thread) = self.cpus[cpu as usize].running else { return };
        if !self.may_run(thread, cpu) {
            self.displace(cpu, thread);
        }
    }
}
