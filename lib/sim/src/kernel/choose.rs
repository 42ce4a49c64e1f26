//! Choices among processors: the one with the least to lose, the neighbour, the one to steal from, a home
//! (reference §3.9, §3.10).

use super::Kernel;
use super::heap::Source;
use super::queue::IDLE;
use super::thread::RunState;

/// Threads below this priority are left for a moment where they last ran.
const STEAL_AT_ONCE: i16 = 60;

impl Kernel {
    /// Whether what the thread left in its processor's cache is still there: it runs, or left not long ago.
    pub(super) fn is_warm(&self, thread: u32) -> bool {
        let t = self.thread(thread);
        self.cpus[t.cpu as usize].running == Some(thread)
            || t.left_tick.is_some_and(|left| self.lbolt() - left <= self.tunables.rechoose_interval)
    }

    /// What a processor would lose: the best of what it runs, what waits there and what is on its way.
    fn score(&self, number: u32, thread: u32) -> i16 {
        let cpu = &self.cpus[number as usize];
        let runs = if cpu.running == Some(thread) { IDLE } else { cpu.dispatch_pri };
        runs.max(self.queues[number as usize].best).max(cpu.chosen_level)
    }

    /// The processor of the thread's partition with the least to lose, looked for from its home outwards. A level is
    /// left when the thread is better than its least.
    pub(super) fn lowest(&self, hint: u32, thread: u32, pri: i16) -> u32 {
        self.lowest_where(hint, thread, pri, |_| true)
    }

    /// The same among some of its processors.
    pub(super) fn lowest_where(&self, hint: u32, thread: u32, pri: i16, wanted: impl Fn(u32) -> bool) -> u32 {
        let t = self.thread(thread);
        let part = &self.parts[t.part as usize];
        let mut at_home = None;
        for ring in &self.levels[t.home as usize] {
            let mut least: Option<(i16, u32)> = None;
            for cpu in in_order(&part.cpus, hint) {
                if !ring.contains(&self.cpus[cpu as usize].lgroup) || !wanted(cpu) {
                    continue;
                }
                let score = self.score(cpu, thread);
                if score == IDLE {
                    return cpu;
                }
                if least.is_none_or(|(best, _)| score < best) {
                    least = Some((score, cpu));
                }
            }
            if let Some((score, cpu)) = least {
                if pri > score {
                    return cpu;
                }
                at_home = at_home.or(Some(cpu));
            }
        }
        at_home.unwrap_or(hint)
    }

    /// The next processor of the leaf for a thread, or, alone in it, of the thread's partition.
    pub(super) fn neighbour(&self, thread: u32, number: u32) -> u32 {
        let cpu = &self.cpus[number as usize];
        let part = &self.parts[self.thread(thread).part as usize];
        let after = || in_order(&part.cpus, number.saturating_add(1)).filter(|other| *other != number);
        let in_leaf = after().find(|other| self.cpus[*other as usize].lgroup == cpu.lgroup);
        in_leaf.or_else(|| after().next()).unwrap_or(number)
    }

    /// A thread waits behind others: the nearest idle processor of the partition looks whether to take it.
    pub(super) fn poke_idle(&mut self, thread: u32, near: u32) {
        let t = self.thread(thread);
        let part = &self.parts[t.part as usize];
        if t.bound.is_some() || part.cpus.iter().filter(|c| self.busy.contains(c)).count() == part.cpus.len()
        {
            return;
        }
        let lgroup = self.cpus[near as usize].lgroup;
        let idle = self.levels[lgroup as usize].iter().find_map(|ring| {
            in_order(&part.cpus, near)
                .find(|c| !self.busy.contains(c) && ring.contains(&self.cpus[*c as usize].lgroup))
        });
        self.asked.extend(idle);
    }

    /// A thread that waits for another processor of the partition and may be taken from there. Where it should be left
    /// for a moment, the processor looks again then.
    pub(super) fn stealable(&mut self, thief: u32) -> Option<u32> {
        let (part, lgroup) = (self.cpus[thief as usize].part, self.cpus[thief as usize].lgroup);
        let mut victim = None;
        for ring in &self.levels[lgroup as usize] {
            let mut best = IDLE;
            for cpu in in_order(self.parts[part as usize].peers(), thief) {
                let queue = &self.queues[cpu as usize];
                let far = !ring.contains(&self.cpus[cpu as usize].lgroup);
                if far || cpu == thief || queue.steal_after > self.now || queue.best_unbound <= best {
                    continue;
                }
                (best, victim) = (queue.best_unbound, Some(cpu));
            }
            if victim.is_some() {
                break;
            }
        }
        let victim = victim?;
        let mut queue = std::mem::take(&mut self.queues[victim as usize]);
        let thread = queue.first_unbound(&self.threads, |thread| self.may_run(thread, thief));
        self.queues[victim as usize] = queue;
        let thread = thread?;
        let t = self.thread(thread);
        let until = t.queued_at + self.tunables.nosteal_nsec;
        let stays = t.effective() < STEAL_AT_ONCE
            && t.ran_on == Some(victim)
            && self.cpus[victim as usize].core != self.cpus[thief as usize].core
            && self.now < until;
        if stays {
            self.queues[victim as usize].steal_after = until;
            self.heap.set(Source::Cpu(thief), until);
            return None;
        }
        Some(thread)
    }

    /// The lgroup where a new thread is at home: among those with processors in its partition, the one with the fewest
    /// threads for its processors.
    pub(super) fn choose_home(&self, thread: u32) -> u32 {
        let t = self.thread(thread);
        if let Some(cpu) = t.bound {
            return self.cpus[cpu as usize].lgroup;
        }
        let lgroups = (0u32..).take(self.levels.len());
        let load = |lgroup: u32| {
            let cpus = &self.parts[t.part as usize].cpus;
            let cpus = cpus.iter().filter(|c| self.cpus[**c as usize].lgroup == lgroup).count() as u64;
            let here = self.threads.iter().filter(|o| o.home == lgroup && o.part == t.part);
            let threads = here.filter(|o| matches!(o.state, RunState::Queued(_) | RunState::Running)).count();
            (cpus > 0).then(|| (threads as u64 * 1_000_000 / cpus, lgroup))
        };
        lgroups.filter_map(load).min().map_or(0, |(_, lgroup)| lgroup)
    }
}

/// Members of an ascending list from the first that is at least `from`, going round.
fn in_order(cpus: &[u32], from: u32) -> impl Iterator<Item = u32> + '_ {
    let start = cpus.partition_point(|cpu| *cpu < from);
    cpus[start..].iter().chain(&cpus[..start]).copied()
}
