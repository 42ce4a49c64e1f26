//! Where threads may run changes: processors come, go and change partitions, threads are bound and let go.

use super::bits::{Bits, first_in};
use super::classes::End;
use super::ids::{CpuIndex, Id, PartitionId, Table, ThreadId};
use super::queue::Queue;
use super::thread::RunState;
use super::{DEFAULT, Kernel};
use serde::{Deserialize, Serialize};

/// A partition: a processor set, the default one, or another reason to share processors. Its queue for kernel preemption
/// comes after those of all processors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Partition {
    /// The processors that its threads may run on.
    pub cpus: Bits,
    /// The processors from whose queues its own processors may take threads.
    pub peers: Bits,
    /// The lgroups that the memory of its threads comes from; all where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<u32>,
}

impl Partition {
    /// One that has these processors to itself.
    pub fn of(cpus: Bits) -> Self {
        Partition { peers: cpus.clone(), cpus, memory: Vec::new() }
    }
}

/// How processors are shared out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrangement {
    /// For each processor the partition that it belongs to.
    pub cpus: Vec<PartitionId>,
    /// For each partition the processors that its threads may run on: those that run any. They may be others' too.
    pub parts: Table<PartitionId, Vec<CpuIndex>>,
}

impl Kernel {
    /// Whether a thread may run on a processor.
    #[must_use]
    pub fn may_run(&self, thread: ThreadId, cpu: CpuIndex) -> bool {
        let t = self.thread(thread);
        match t.bound {
            Some(bound) => bound == cpu,
            None => self.parts[t.part].cpus.contains(cpu),
        }
    }

    /// Shares out processors anew. Threads that are or wait where they may not be any more go elsewhere at once.
    pub fn arrange(&mut self, wanted: &Arrangement) {
        if !self.place_processors(wanted) {
            return;
        }
        let cpus = self.cpus.ids();
        let mut homeless = Vec::new();
        for cpu in cpus.clone() {
            let waiting: Vec<ThreadId> = self.queues[cpu].threads(&self.threads).collect();
            let lost = waiting.into_iter().filter(|thread| !self.may_run(*thread, cpu));
            homeless.extend(lost);
            let pinned = &self.cpus[cpu].pinned;
            homeless.extend(pinned.iter().copied().filter(|thread| !self.may_run(*thread, cpu)));
        }
        for thread in &homeless {
            self.dequeue(*thread);
            self.unpin(*thread);
        }
        for thread in self.threads.ids() {
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
        let last = wanted.cpus.iter().copied().max().unwrap_or(DEFAULT).place();
        let most = self.parts.len().max(wanted.parts.len()).max(last + 1);
        let mut cpus: Vec<Bits> = wanted.parts.iter().map(|cpus| cpus.iter().copied().collect()).collect();
        cpus.resize(most, Bits::default());
        let same_cpus = self.cpus.iter().map(|cpu| &cpu.part).eq(&wanted.cpus);
        if same_cpus && self.parts.iter().map(|part| &part.cpus).eq(&cpus) {
            return false;
        }
        for (cpu, part) in self.cpus.iter_mut().zip(&wanted.cpus) {
            cpu.part = *part;
        }
        self.make_parts(most);
        for number in 0..most {
            let own = |cpu: CpuIndex| self.cpus[cpu].part.place() == number;
            let mixes = cpus.iter().filter(|cpus| cpus.iter().any(own));
            let peers = mixes.flat_map(Bits::iter).collect();
            let part = &mut self.parts[PartitionId::at(number)];
            (part.cpus, part.peers) = (cpus[number].clone(), peers);
        }
        true
    }

    /// Makes partitions, without processors, until there are so many.
    pub(super) fn make_parts(&mut self, most: usize) {
        self.parts.resize_with(most, Partition::default);
        self.queues.resize_with(self.cpus.len() + most, Queue::default);
        self.index.at_home.resize(most, vec![0; self.levels.len()]);
    }

    /// Binds a thread to a partition, and to one processor of it or to none. It goes there at once.
    pub fn confine(&mut self, thread: ThreadId, part: PartitionId, bound: Option<CpuIndex>) {
        let t = self.thread(thread);
        if (t.part, t.bound) == (part, bound) || t.state == RunState::Gone {
            return;
        }
        if self.parts.row(part).is_none() {
            self.make_parts(part.place() + 1);
        }
        let pinned = self.thread(thread).state == RunState::Pinned;
        let waits = pinned || matches!(self.thread(thread).state, RunState::Queued(_));
        self.count_at_home(thread, false);
        if pinned {
            self.unpin(thread);
        } else if waits {
            self.dequeue(thread);
        }
        let t = self.t(thread);
        (t.part, t.bound) = (part, bound);
        self.count_at_home(thread, true);
        self.keep_home(thread);
        self.bring_memory(thread);
        if waits {
            self.enqueue(thread, End::Back);
        } else if self.thread(thread).state == RunState::Running {
            let cpu = self.thread(thread).cpu;
            self.leave_if_lost(cpu);
        }
    }

    /// A home stays while the thread may run there; else it gets another one.
    fn keep_home(&mut self, thread: ThreadId) {
        let t = self.thread(thread);
        if t.state == RunState::Gone {
            return;
        }
        let at_home = |cpu: &CpuIndex| self.cpus[*cpu].lgroup == t.home;
        let stays = match &t.bound {
            Some(cpu) => at_home(cpu),
            None => {
                let near = &self.index.rings[t.home as usize][0];
                first_in(&[&self.parts[t.part].cpus, near], CpuIndex(0), |_| true).is_some()
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
    fn leave_if_lost(&mut self, cpu: CpuIndex) {
        let Some(thread) = self.cpus[cpu].running else { return };
        if !self.may_run(thread, cpu) {
            self.displace(cpu, thread);
        }
    }
}
