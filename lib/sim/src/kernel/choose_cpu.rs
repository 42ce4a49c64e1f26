//! Choices among CPUs: the CPU with the lowest priority, the neighbour for balance, the CPU to steal from, a home lgroup. The rules are
//! those of the Solaris dispatcher (disp_lowpri_cpu, disp_getwork).

use super::cpu_mask::{CpuMask, first_in};
use super::heap::Source;
use super::ids::{CpuIndex, ThreadId};
use super::queue::{IDLE, LEVELS_END};
use super::state::Kernel;
use std::cmp::Reverse;

/// Threads below this priority are left on their last CPU for `nosteal_nsec` before they may be stolen.
const STEAL_AT_ONCE: i16 = 60;

impl Kernel {
    /// Whether the thread's data is still in its CPU's cache: it runs, or left within `rechoose_interval`.
    pub(super) fn is_warm(&self, thread: ThreadId) -> bool {
        let t = self.thread(thread);
        self.cpus[t.cpu].running == Some(thread)
            || t.left_tick.is_some_and(|left| self.lbolt() - left <= self.tunables.rechoose_interval)
    }

    /// The CPU of the thread's partition whose best thread has the lowest priority. The search goes from the thread's home outwards, and ends
    /// at the first ring where the thread is better than that lowest priority.
    pub(super) fn lowest(&self, hint: CpuIndex, thread: ThreadId, pri: i16) -> CpuIndex {
        self.lowest_where(hint, thread, pri, |_| true)
    }

    /// The same, restricted to some CPUs.
    pub(super) fn lowest_where(
        &self,
        hint: CpuIndex,
        thread: ThreadId,
        pri: i16,
        wanted: impl Fn(CpuIndex) -> bool,
    ) -> CpuIndex {
        let t = self.thread(thread);
        let part = &self.parts[t.part].cpus;
        let mut at_home = None;
        for ring in &self.index.rings[t.home as usize] {
            let Some((score, cpu)) = self.least(part, ring, hint, thread, &wanted) else { continue };
            if pri > score {
                return cpu;
            }
            at_home = at_home.or(Some(cpu));
        }
        at_home.unwrap_or(hint)
    }

    /// The first CPU in both sets with the lowest priority, and that priority. The thread itself does not count on the CPU that it is
    /// about to leave.
    fn least(
        &self,
        part: &CpuMask,
        ring: &CpuMask,
        hint: CpuIndex,
        thread: ThreadId,
        wanted: impl Fn(CpuIndex) -> bool,
    ) -> Option<(i16, CpuIndex)> {
        let own = self.thread(thread).cpu;
        let leaves =
            self.cpus[own].running == Some(thread) && part.contains(own) && ring.contains(own) && wanted(own);
        let own_score = self.queues[own].best.max(self.cpus[own].chosen_level);
        let scores = &self.index.scores;
        let other = |cpu: CpuIndex| wanted(cpu) && !(leaves && cpu == own);
        let (mut found, mut above) = (None, IDLE - 1);
        while let Some((level, members)) = scores.next_above(above)
            && found.is_none()
        {
            found = first_in([members, part.words(), ring.words()], hint, other).map(|cpu| (level, cpu));
            above = level;
        }
        // Ties: the first from the hint on.
        let turn = |cpu: CpuIndex| (cpu < hint, cpu);
        match found {
            _ if !leaves => found,
            Some((score, cpu)) if (score, turn(cpu)) < (own_score, turn(own)) => Some((score, cpu)),
            _ => Some((own_score, own)),
        }
    }

    /// The next CPU of the thread's partition in the leaf lgroup; in the whole partition if the CPU is alone there.
    pub(super) fn neighbour(&self, thread: ThreadId, number: CpuIndex) -> CpuIndex {
        let leaf = &self.index.rings[self.cpus[number].lgroup as usize][0];
        let part = &self.parts[self.thread(thread).part].cpus;
        let (after, other) = (CpuIndex(number.0.saturating_add(1)), |cpu: CpuIndex| cpu != number);
        let in_leaf = first_in([part.words(), leaf.words()], after, other);
        in_leaf.or_else(|| first_in([part.words()], after, other)).unwrap_or(number)
    }

    /// A thread waits behind others: makes the nearest idle CPU of the partition consider stealing it.
    pub(super) fn poke_idle(&mut self, thread: ThreadId, near: CpuIndex) {
        let t = self.thread(thread);
        let idles = |cpu: CpuIndex| self.cpus[cpu].running.is_none();
        // Idle CPUs are at level IDLE.
        let Some((IDLE, free)) = self.index.scores.next_above(IDLE - 1) else { return };
        if t.bound.is_some() {
            return;
        }
        let part = &self.parts[t.part].cpus;
        let rings = &self.index.rings[self.cpus[near].lgroup as usize];
        let idle = rings.iter().find_map(|ring| first_in([free, part.words(), ring.words()], near, idles));
        if let Some(idle) = idle {
            self.asked.insert(idle);
            self.cross_call(idle);
        }
    }

    /// A thread that waits for another CPU of the partition and may be stolen. If the only candidates must be left for a moment,
    /// the CPU tries again afterwards.
    pub(super) fn stealable(&mut self, thief: CpuIndex) -> Option<ThreadId> {
        let (part, lgroup) = (self.cpus[thief].part, self.cpus[thief].lgroup);
        let peers = &self.parts[part].peers;
        // An idle CPU with one waiting thread is about to run it.
        let is_switching = |cpu: CpuIndex| self.cpus[cpu].running.is_none() && self.queues[cpu].len() == 1;
        let open =
            |cpu: CpuIndex| cpu != thief && self.queues[cpu].steal_after <= self.now && !is_switching(cpu);
        let levels = &self.index.unbound;
        let best_in = |ring: &CpuMask| {
            let mut below = LEVELS_END;
            while let Some((level, members)) = levels.next_below(below)
                && level > IDLE
            {
                let found = first_in([members, peers.words(), ring.words()], thief, open);
                if found.is_some() {
                    return found;
                }
                below = level;
            }
            None
        };
        let victim = self.index.rings[lgroup as usize].iter().find_map(best_in);
        let victim = victim?;
        let Kernel { queues, threads, parts, .. } = self;
        // Bound threads are not in the list.
        let may_come = |thread: ThreadId| parts[threads[thread].part].cpus.contains(thief);
        let thread = queues[victim].first_unbound(threads, may_come);
        self.rescore(victim);
        let thread = thread?;
        let t = self.thread(thread);
        let until = t.queued_at + self.tunables.nosteal_nsec;
        let stays = t.effective() < STEAL_AT_ONCE
            && t.ran_on == Some(victim)
            && self.cpus[victim].core != self.cpus[thief].core
            && self.now < until;
        if stays {
            self.queues[victim].steal_after = until;
            self.heap.set(Source::Cpu(thief), until);
            return None;
        }
        Some(thread)
    }

    /// The home lgroup of a new thread: among those with CPUs in its partition, the most preferred; of these, the one with the
    /// fewest threads per CPU.
    pub(super) fn choose_home(&self, thread: ThreadId) -> u32 {
        let t = self.thread(thread);
        if let Some(cpu) = t.bound {
            return self.cpus[cpu].lgroup;
        }
        let part = &self.parts[t.part].cpus;
        let load = |(lgroup, rings): (u32, &Vec<CpuMask>)| {
            let cpus = rings[0].iter().filter(|cpu| part.contains(*cpu)).count() as u64;
            let threads = self.index.at_home[t.part][lgroup as usize];
            (cpus > 0).then(|| (Reverse(t.affinities.of(lgroup)), threads * 1_000_000 / cpus, lgroup))
        };
        (0u32..).zip(&self.index.rings).filter_map(load).min().map_or(0, |(_, _, lgroup)| lgroup)
    }
}
