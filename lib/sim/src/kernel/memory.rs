//! Where memory is: segments that threads share, what threads have for themselves, and sets whose memory comes from some lgroups only.

use super::affinity::LgroupAffinities;
use super::ids::{CpuIndex, Id, PartitionId, SegmentId, ThreadId};
use super::state::{Kernel, Placed};
use super::thread::{RunState, Thread};

impl Kernel {
    /// A segment of memory, which the first thread that maps it places; gives its number.
    pub fn segment(&mut self) -> SegmentId {
        self.segments.add(None)
    }

    /// The thread uses a segment of so many KiB. The first to use it places it, by the policies of shared segments
    /// (reference §3.10): those above the threshold at random over all lgroups with memory, or over those of the thread's
    /// set where memory is placed with regard to sets and there is enough of it there; others at the thread's home. Where the memory of
    /// the set comes from some lgroups only, it comes from these.
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

    /// Where a segment of so many KiB goes that a thread places.
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

    /// Picoseconds until memory that is spread over lgroups answers, for each lgroup of a CPU.
    fn mean_latency(&self, lgroups: &[u32]) -> Vec<u64> {
        let mean = |row: &Vec<u64>| {
            lgroups.iter().map(|lgroup| row[*lgroup as usize]).sum::<u64>() / lgroups.len().max(1) as u64
        };
        self.hardware.latency_ps.iter().map(mean).collect()
    }

    /// Picoseconds until the thread's memory answers a CPU. What it has for itself is at its home, or where its set's memory is.
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

    /// The memory of a partition comes from these lgroups only; of all where there are none. Segments that its threads use go there.
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

    /// The segment that a thread uses comes to where its partition's memory comes from, if that is said.
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

    /// The segment that a thread uses, where it has been placed.
    #[must_use]
    pub fn memory_of(&self, thread: ThreadId) -> Option<&Placed> {
        let segment = self.thread(thread).memory?;
        self.placed.iter().find(|placed| placed.segment == segment)
    }

    /// Segments that a thread uses.
    pub fn segments_in_use(&self) -> impl Iterator<Item = &Placed> {
        let used = |placed: &&Placed| {
            self.threads.iter().any(|t| t.state != RunState::Gone && t.memory == Some(placed.segment))
        };
        self.placed.iter().filter(used)
    }

    /// How many threads run or wait for a CPU, by the lgroup that is their home.
    #[must_use]
    pub fn runnable_by_home(&self) -> Vec<u64> {
        let of = |lgroup: usize| self.index.at_home.iter().map(|homes| homes[lgroup]).sum();
        (0..self.levels.len()).map(of).collect()
    }

    /// What a thread prefers. It gets another home if it has a better one by that.
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
