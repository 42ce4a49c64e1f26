//! Memory placement: shared segments, private memory of threads, and sets whose memory comes from some lgroups only.

use super::affinity::LgroupAffinities;
use super::ids::{CpuIndex, Id, PartitionId, SegmentId, ThreadId};
use super::state::{Kernel, Placed};
use super::thread::{RunState, Thread};

impl Kernel {
    /// Creates a memory segment. The first thread that maps it places it.
    pub fn segment(&mut self) -> SegmentId {
        self.segments.add(None)
    }

    /// Makes a thread use a segment of this many KiB. Its first user places it, as Solaris places shared segments. Segments above the
    /// threshold are spread at random over all lgroups with memory. With `mem_pset_aware`, they are spread over the lgroups of the thread's set, if
    /// those have enough memory. Smaller segments go to the thread's home. Where the set's memory is restricted to some lgroups, the segment
    /// goes to these.
    pub(super) fn map(&mut self, thread: ThreadId, segment: SegmentId, kib: u64) {
        self.t(thread).memory = Some(segment);
        if self.segments[segment].is_some() {
            return;
        }
        let lgroups = self.placement(thread, kib);
        self.place(segment, kib, lgroups);
    }

    fn place(&mut self, segment: SegmentId, kib: u64, lgroups: Vec<u32>) {
        self.segments[segment] = Some(self.mean_latency(&lgroups));
        self.placed.retain(|placed| placed.segment != segment);
        self.placed.push(Placed { segment, kib, lgroups });
    }

    /// The lgroups for a segment of this many KiB that a thread places.
    fn placement(&self, thread: ThreadId, kib: u64) -> Vec<u32> {
        let t = self.thread(thread);
        let memory = &self.hardware.memory_kib;
        let all = || (0u32..).take(memory.len());
        let part = &self.parts[t.part];
        let small = kib <= self.tunables.shm_random_kib;
        if !part.memory.is_empty() {
            let at_home = small && part.memory.contains(&t.home);
            return if at_home { vec![t.home] } else { part.memory.clone() };
        }
        let in_set = |lgroup: &u32| part.cpus.iter().any(|cpu| self.cpus[cpu].lgroup == *lgroup);
        let of_set: Vec<u32> = all().filter(in_set).collect();
        let enough = of_set.iter().map(|lgroup| memory[*lgroup as usize]).sum::<u64>() > kib;
        if small {
            vec![t.home]
        } else if self.tunables.mem_pset_aware && enough {
            of_set
        } else {
            all().collect()
        }
    }

    /// Latency of memory that is spread over lgroups, in picoseconds, by lgroup of the CPU.
    fn mean_latency(&self, lgroups: &[u32]) -> Vec<u64> {
        let mean = |row: &Vec<u64>| {
            lgroups.iter().map(|lgroup| row[*lgroup as usize]).sum::<u64>() / lgroups.len().max(1) as u64
        };
        self.hardware.latency_ps.iter().map(mean).collect()
    }

    /// Latency of the thread's memory from a CPU, in picoseconds. Private memory is at its home, or in the lgroups of its set's memory.
    pub(super) fn latency(&self, t: &Thread, cpu: CpuIndex) -> u64 {
        let lgroup = self.cpus[cpu].lgroup as usize;
        let segment = t.memory.and_then(|segment| self.segments[segment].as_ref());
        let set = &self.parts[t.part].memory;
        match segment {
            Some(by_lgroup) => by_lgroup[lgroup],
            None if set.is_empty() || set.contains(&t.home) => {
                self.hardware.latency_ps[lgroup][t.home as usize]
            }
            None => self.mean_latency(set)[lgroup],
        }
    }

    /// Restricts the memory of a partition to these lgroups; to none for all. Segments in use by its threads move there.
    pub fn confine_memory(&mut self, part: PartitionId, lgroups: &[u32]) {
        if self.parts.row(part).is_none() {
            self.make_parts(part.place() + 1);
        }
        if self.parts[part].memory == lgroups {
            return;
        }
        self.parts[part].memory = lgroups.to_vec();
        for thread in self.threads.ids() {
            if self.thread(thread).part == part {
                self.bring_memory(thread);
            }
        }
    }

    /// Moves the thread's segment into the lgroups of its partition's memory, if those are restricted.
    pub(super) fn bring_memory(&mut self, thread: ThreadId) {
        let t = self.thread(thread);
        let allowed = &self.parts[t.part].memory;
        if t.state == RunState::Gone || allowed.is_empty() {
            return;
        }
        let (cpu, runs) = (t.cpu, t.state == RunState::Running);
        let placed = self.placed.iter().find(|placed| Some(placed.segment) == t.memory);
        let strays = placed.filter(|placed| !placed.lgroups.iter().all(|l| allowed.contains(l)));
        if let Some((segment, kib)) = strays.map(|placed| (placed.segment, placed.kib)) {
            let lgroups = self.placement(thread, kib);
            self.place(segment, kib, lgroups);
        }
        if runs {
            self.account(cpu);
            self.update_instruction_time(cpu);
            self.set_end(cpu, thread);
        }
    }

    /// The segment of a thread, if it is placed.
    #[must_use]
    pub fn memory_of(&self, thread: ThreadId) -> Option<&Placed> {
        let segment = self.thread(thread).memory?;
        self.placed.iter().find(|placed| placed.segment == segment)
    }

    /// Segments with a thread that uses them.
    pub fn segments_in_use(&self) -> impl Iterator<Item = &Placed> {
        let used = |placed: &&Placed| {
            self.threads.iter().any(|t| t.state != RunState::Gone && t.memory == Some(placed.segment))
        };
        self.placed.iter().filter(used)
    }

    /// Number of threads that run or wait for a CPU, by home lgroup.
    #[must_use]
    pub fn runnable_by_home(&self) -> Vec<u64> {
        let of = |lgroup: usize| self.index.at_home.iter().map(|homes| homes[lgroup]).sum();
        (0..self.levels.len()).map(of).collect()
    }

    /// Sets a thread's affinities. It gets another home if they prefer one.
    pub fn prefer(&mut self, thread: ThreadId, affinities: LgroupAffinities) {
        let t = self.thread(thread);
        if t.affinities == affinities || t.state == RunState::Gone {
            return;
        }
        self.t(thread).affinities = affinities;
        let home = self.choose_home(thread);
        let t = self.thread(thread);
        if affinities.of(home) > affinities.of(t.home) {
            self.count_at_home(thread, false);
            self.t(thread).home = home;
            self.count_at_home(thread, true);
        }
    }
}
