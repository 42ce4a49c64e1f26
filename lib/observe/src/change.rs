//! What changed on a machine between two samples: CPUs that came and went, sets, moves.

use millpond_model::{CpuId, CpuSample, CpuSet, PsetId, Sample};
use schemars::JsonSchema;
use serde::Serialize;

/// A change that an observer reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// CPUs became active.
    Added(CpuSet),
    /// CPUs became inactive.
    Removed(CpuSet),
    /// A set was created.
    Created(PsetId),
    /// A set was destroyed.
    Destroyed(PsetId),
    /// A CPU moved from one set to another; set 0 means none.
    #[serde(untagged)]
    Moved {
        /// The CPU.
        #[serde(rename = "moved")]
        cpu: CpuId,
        /// The old set.
        from: PsetId,
        /// The new set.
        to: PsetId,
    },
}

/// What an observer looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// CPUs only: what sets do is not noticed.
    Processors,
    /// CPUs and sets.
    Sets,
}

/// The changes, in the order in which they are reported: moves, CPUs added, removed, sets made,
/// destroyed.
#[must_use]
pub fn changes(before: &Sample, after: &Sample, scope: Scope) -> Vec<Change> {
    let mut changes = Vec::new();
    if scope == Scope::Sets {
        changes.extend(pairs(before, after).filter(|(b, a)| b.set != a.set).map(|(b, a)| Change::Moved {
            cpu: a.cpu,
            from: b.set,
            to: a.set,
        }));
    }
    let active = |sample: &Sample| -> CpuSet { sample.cpus.iter().map(|c| c.cpu).collect() };
    // The common case costs no memory: mostly nothing changes.
    if !before.cpus.iter().map(|c| c.cpu).eq(after.cpus.iter().map(|c| c.cpu)) {
        let (old, new) = (active(before), active(after));
        let (added, removed) = (&new - &old, &old - &new);
        if !added.is_empty() {
            changes.push(Change::Added(added));
        }
        if !removed.is_empty() {
            changes.push(Change::Removed(removed));
        }
    }
    if scope == Scope::Sets {
        let created = after.sets.iter().filter(|id| !before.sets.contains(id));
        changes.extend(created.map(|id| Change::Created(*id)));
        let destroyed = before.sets.iter().filter(|id| !after.sets.contains(id));
        changes.extend(destroyed.map(|id| Change::Destroyed(*id)));
    }
    changes
}

/// CPUs that are in both samples, which are ascending.
pub(crate) fn pairs<'s>(
    before: &'s Sample,
    after: &'s Sample,
) -> impl Iterator<Item = (&'s CpuSample, &'s CpuSample)> {
    let mut old = before.cpus.iter().peekable();
    after.cpus.iter().filter_map(move |new| {
        while old.next_if(|old| old.cpu < new.cpu).is_some() {}
        old.next_if(|old| old.cpu == new.cpu).map(|old| (old, new))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rates::tests::any_sample;
    use millpond_model::{COLUMNS, Nanos, Ticks, WallTime};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn sample(cpus: &[(u32, u32)], sets: &[u32]) -> Sample {
        let cpus = cpus.iter().map(|(cpu, set)| CpuSample {
            cpu: CpuId(*cpu),
            set: PsetId(*set),
            events: [None; COLUMNS.len()],
            ticks: Ticks::default(),
        });
        Sample {
            at: Nanos(0),
            wall: WallTime(0),
            cpus: cpus.collect(),
            sets: sets.iter().copied().map(PsetId).collect(),
            missing: vec![],
        }
    }

    fn cpus(list: &[u32]) -> CpuSet {
        list.iter().copied().map(CpuId).collect()
    }

    #[test]
    fn changes_come_in_the_order_of_the_reference() {
        let before = sample(&[(0, 0), (2, 0), (3, 0), (4, 2)], &[2]);
        let after = sample(&[(0, 0), (1, 0), (3, 1)], &[1]);
        assert_eq!(
            changes(&before, &after, Scope::Sets),
            [
                Change::Moved { cpu: CpuId(3), from: PsetId::DEFAULT, to: PsetId(1) },
                Change::Added(cpus(&[1])),
                Change::Removed(cpus(&[2, 4])),
                Change::Created(PsetId(1)),
                Change::Destroyed(PsetId(2)),
            ]
        );
        assert_eq!(
            changes(&before, &after, Scope::Processors),
            [Change::Added(cpus(&[1])), Change::Removed(cpus(&[2, 4]))]
        );
    }

    #[test]
    fn an_empty_set_that_comes_is_noticed() {
        let before = sample(&[(0, 0)], &[]);
        let after = sample(&[(0, 0)], &[1]);
        assert_eq!(changes(&before, &after, Scope::Sets), [Change::Created(PsetId(1))]);
        assert_eq!(changes(&before, &after, Scope::Processors), []);
    }

    proptest! {
        #[test]
        fn nothing_changes_between_a_sample_and_itself(sample in any_sample()) {
            prop_assert_eq!(changes(&sample, &sample, Scope::Sets), []);
        }

        #[test]
        fn changes_lead_from_one_sample_to_the_other(before in any_sample(), after in any_sample()) {
            let place = |sample: &Sample| -> BTreeMap<CpuId, PsetId> {
                sample.cpus.iter().map(|c| (c.cpu, c.set)).collect()
            };
            let (mut places, target) = (place(&before), place(&after));
            let mut sets = before.sets.clone();
            for change in changes(&before, &after, Scope::Sets) {
                match change {
                    Change::Moved { cpu, from, to } => prop_assert_eq!(places.insert(cpu, to), Some(from)),
                    Change::Added(cpus) => {
                        places.extend(cpus.iter().map(|cpu| (cpu, target[&cpu])));
                    }
                    Change::Removed(cpus) => places.retain(|cpu, _| !cpus.contains(*cpu)),
                    Change::Created(id) => sets.push(id),
                    Change::Destroyed(id) => sets.retain(|other| *other != id),
                }
            }
            sets.sort();
            prop_assert_eq!(places, target);
            prop_assert_eq!(sets, after.sets);
        }
    }
}
