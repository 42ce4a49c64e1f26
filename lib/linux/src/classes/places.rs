//! Queues of the scheduler: one for each processor set, or for each last-level cache of a large set.

use millpond_bpf::classes::Places;
use millpond_model::{CpuId, CpuSet};

/// A larger set has a queue for each of its last-level caches, because a single queue would be contended.
const ONE_QUEUE: usize = 16;
/// Spare queues, for sets that are created while the scheduler is loaded.
const SPARE: usize = 16;

/// The queues of these sets. CPUs in no set share a queue, that of the default set. `width` is the number of CPU numbers, `caches` the CPUs of each
/// last-level cache. `most` is the limit of queues; CPUs beyond it share the first one.
pub(super) fn places(width: usize, sets: &[CpuSet], caches: &[CpuSet], most: Option<usize>) -> Places {
    let mut rest: CpuSet = (0..width).filter_map(|cpu| u32::try_from(cpu).ok()).map(CpuId).collect();
    for cpu in sets.iter().flat_map(CpuSet::iter) {
        rest.remove(cpu);
    }
    let mut queues: Vec<Vec<CpuId>> = Vec::new();
    let mut next: Vec<u64> = Vec::new();
    for set in std::iter::once(&rest).chain(sets) {
        let first = queues.len() as u64;
        let parts = parts_of(set, caches);
        let last = first + parts.len() as u64 - 1;
        next.extend((first..=last).map(|queue| if queue == last { first } else { queue + 1 }));
        queues.extend(parts);
    }
    let most = most.unwrap_or(if width > 1 { queues.len() + SPARE } else { 1 });
    let shared: Vec<CpuId> = queues.drain(most.min(queues.len())..).flatten().collect();
    next.truncate(most);
    let in_use = queues.len() as u64;
    next.iter_mut().filter(|queue| **queue >= in_use).for_each(|queue| *queue = 0);
    if let Some(first) = queues.first_mut() {
        first.extend(shared);
    }
    next.extend(in_use..most as u64);
    let mut cpus = vec![(0, 0); width.max(1)];
    for (number, members) in (0u64..).zip(&queues) {
        for (at, cpu) in members.iter().enumerate() {
            let following = members[(at + 1) % members.len()];
            if let Some(place) = cpus.get_mut(cpu.0 as usize) {
                *place = (number, following.0.into());
            }
        }
    }
    Places { cpus, queues: next }
}

/// A set, or its part at each last-level cache if it is large. CPUs without a cache form a part of their own.
fn parts_of(set: &CpuSet, caches: &[CpuSet]) -> Vec<Vec<CpuId>> {
    if set.len() <= ONE_QUEUE {
        return vec![set.iter().collect()];
    }
    let mut left = set.clone();
    let mut parts = Vec::new();
    for cache in caches {
        let part: Vec<CpuId> = set.iter().filter(|cpu| cache.contains(*cpu) && left.contains(*cpu)).collect();
        part.iter().for_each(|cpu| {
            left.remove(*cpu);
        });
        if !part.is_empty() {
            parts.push(part);
        }
    }
    if !left.is_empty() || parts.is_empty() {
        parts.push(left.iter().collect());
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    #[test]
    fn a_machine_without_sets_has_one_queue_in_a_ring() {
        let found = places(4, &[], &[], Some(1));
        assert_eq!(found, Places::one_queue(4));
    }

    #[test]
    fn each_set_has_a_queue_and_the_rest_is_the_default_set() {
        let found = places(6, &[set("2-3"), set("5")], &[], Some(4));
        assert_eq!(found.cpus, [(0, 1), (0, 4), (1, 3), (1, 2), (0, 0), (2, 5)]);
        // Each queue is the only one of its set; the fourth is spare.
        assert_eq!(found.queues, [0, 1, 2, 3]);
    }

    #[test]
    fn a_large_set_has_a_queue_for_each_cache_and_they_form_a_ring() {
        let caches = [set("0-15"), set("16-31")];
        let found = places(32, &[set("30-31")], &caches, None);
        assert_eq!(found.queues[..3], [1, 0, 2]);
        assert_eq!((found.cpus[0], found.cpus[15], found.cpus[16]), ((0, 1), (0, 0), (1, 17)));
        assert_eq!((found.cpus[29], found.cpus[30]), ((1, 16), (2, 31)));
        assert_eq!(found.queues.len(), 3 + SPARE);
    }

    #[test]
    fn what_does_not_fit_shares_the_first_queue() {
        let found = places(3, &[set("1"), set("2")], &[], Some(2));
        assert_eq!(found.cpus, [(0, 2), (1, 1), (0, 0)]);
        assert_eq!(found.queues, [0, 1]);
    }
}
