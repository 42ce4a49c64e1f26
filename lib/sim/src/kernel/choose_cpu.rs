//! Choices among CPUs: the one with the least to lose, the neighbour, the one to steal from, a home
//! (reference §3.9, §3.10).

use super::cpu_mask::{CpuMask, first_in};
use super::heap::Source;
use super::ids::{CpuIndex, ThreadId};
use super::queue::{IDLE, LEVELS_END};
use super::state::Kernel;
use std::cmp::Reverse;

/// Threads below this priority are left for a moment where they last ran.
const STEAL_AT_ONCE: i16 = 60;

impl Kernel {
    /// Whether what the thread left in its CPU's cache is still there: it runs, or left not long ago.
    pub(super) fn is_warm(&self, thread: ThreadId) -> bool {
        let t = self.thread(thread);
        self.cpus[t.cpu].running == Some(thread)
            || t.left_tick.is_some_and(|left| self.lbolt() - left <= self.tunables.rechoose_interval)
    }

    /// The CPU of the thread's partition with the least to lose, looked for from its home outwards. A level is
    /// left when the thread is better than its least.
    pub(super) fn lowest(&self, hint: CpuIndex, thread: ThreadId, pri: i16) -> CpuIndex {
        self.lowest_where(hint, thread, pri, |_| true)
    }

    /// The same among some of its CPUs.
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

    /// The first CPU in both sets with the least to lose, and what that is. What the thread itself is about to
    /// leave counts as nothing.
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
        // Of equal ones the first from the hint on.
        let turn = |cpu: CpuIndex| (cpu < hint, cpu);
        match found {
            _ if !leaves => found,
            Some((score, cpu)) if (score, turn(cpu)) < (own_score, turn(own)) => Some((score, cpu)),
            _ => Some((own_score, own)),
        }
    }

    /// The next CPU of the leaf for a thread, or, alone in it, of the thread's partition.
    pub(super) fn neighbour(&self, thread: ThreadId, number: CpuIndex) -> CpuIndex {
        let leaf = &self.index.rings[self.cpus[number].lgroup as usize][0];
        let part = &self.parts[self.thread(thread).part].cpus;
        let (after, other) = (CpuIndex(number.0.saturating_add(1)), |cpu: CpuIndex| cpu != number);
        let in_leaf = first_in([part.words(), leaf.words()], after, other);
        in_leaf.or_else(|| first_in([part.words()], after, other)).unwrap_or(number)
    }

    /// A thread waits behind others: the nearest idle CPU of the partition looks whether to take it.
    pub(super) fn poke_idle(&mut self, thread: ThreadId, near: CpuIndex) {
        let t = self.thread(thread);
        let idles = |cpu: CpuIndex| self.cpus[cpu].running.is_none();
        // No CPU idles that has something to lose.
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

    /// A thread that waits for another CPU of the partition and may be taken from there. Where it should be left
    /// for a moment, the CPU looks again then.
    pub(super) fn stealable(&mut self, thief: CpuIndex) -> Option<ThreadId> {
        let (part, lgroup) = (self.cpus[thief].part, self.cpus[thief].lgroup);
        let peers = &self.parts[part].peers;
        // A CPU that idles and has one thread waiting is about to take it.
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
        // Those that are bound to a CPU do not come into question.
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

    /// The lgroup where a new thread is at home: among those with CPUs in its partition, and of these among those that it prefers most,
    /// the one with the fewest threads for its CPUs.
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
