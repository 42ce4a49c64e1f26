//! Changes of where threads may run: CPUs come, go and change partitions; threads are bound and unbound.

use super::class::End;
use super::cpu_mask::{CpuMask, first_in};
use super::ids::{CpuIndex, Id, PartitionId, ThreadId};
use super::partition::{Arrangement, DEFAULT, Partition};
use super::queue::Queue;
use super::state::Kernel;
use super::thread::RunState;
use std::collections::BTreeSet;

impl Kernel {
    /// Whether a thread may run on a CPU.
    #[must_use]
    #[inline]
    pub fn may_run(&self, thread: ThreadId, cpu: CpuIndex) -> bool {
        let t = self.thread(thread);
        match t.bound {
            Some(bound) => bound == cpu,
            None => self.parts[t.part].cpus.contains(cpu),
        }
    }

    /// Redistributes CPUs. Threads that run or wait where they may no longer be move at once.
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
            // An idle CPU may now be allowed to steal a thread.
            self.asked.insert(cpu);
        }
    }

    /// Records which threads may run where; `false` if nothing changed.
    fn place_processors(&mut self, wanted: &Arrangement) -> bool {
        let last = wanted.cpus.iter().copied().max().unwrap_or(DEFAULT).place();
        let most = self.parts.len().max(wanted.parts.len()).max(last + 1);
        let mut cpus: Vec<CpuMask> = wanted.parts.iter().map(|cpus| cpus.iter().copied().collect()).collect();
        cpus.resize(most, CpuMask::default());
        let same_cpus = self.cpus.iter().map(|cpu| &cpu.part).eq(&wanted.cpus);
        if same_cpus && self.parts.iter().map(|part| &part.cpus).eq(&cpus) {
            return false;
        }
        self.share_out(wanted, most);
        true
    }

    /// The same without comparing with the present state, with at least as many partitions as `wanted` has.
    pub(super) fn share_out(&mut self, wanted: &Arrangement, most: usize) {
        for (cpu, part) in self.cpus.iter_mut().zip(&wanted.cpus) {
            cpu.part = *part;
        }
        let mut cpus: Vec<CpuMask> = wanted.parts.iter().map(|cpus| cpus.iter().copied().collect()).collect();
        cpus.resize(most, CpuMask::default());
        self.make_parts(most);
        let mut peers = vec![CpuMask::default(); most];
        for mixed in &cpus {
            let owners: BTreeSet<PartitionId> = mixed.iter().map(|cpu| self.cpus[cpu].part).collect();
            for owner in owners {
                mixed.iter().for_each(|cpu| peers[owner.place()].insert(cpu));
            }
        }
        for ((part, cpus), peers) in self.parts.iter_mut().zip(cpus).zip(peers) {
            (part.cpus, part.peers) = (cpus, peers);
        }
    }

    /// Creates partitions without CPUs, up to this number.
    pub(super) fn make_parts(&mut self, most: usize) {
        self.parts.resize_with(most, Partition::default);
        self.queues.resize_with(self.cpus.len() + most, Queue::default);
        self.index.at_home.resize(most, vec![0; self.levels.len()]);
    }

    /// Binds a thread to a partition, and to one of its CPUs or to none. It moves there at once.
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

    /// Keeps a thread's home while the thread may run there; else chooses another.
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
                first_in([self.parts[t.part].cpus.words(), near.words()], CpuIndex(0), |_| true).is_some()
            }
        };
        if !stays {
            let home = self.choose_home(thread);
            self.count_at_home(thread, false);
            self.t(thread).home = home;
            self.count_at_home(thread, true);
        }
    }

    /// Moves a thread that runs where it may not, even out of the kernel.
    fn leave_if_lost(&mut self, cpu: CpuIndex) {
        let Some(thread) = self.cpus[cpu].running else { return };
        if !self.may_run(thread, cpu) {
            self.displace(cpu, thread);
        }
    }
}
