//! Processor sets: how a machine enforces them, and moves of CPUs between sets.

use crate::{CpuId, CpuSet, PsetId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

crate::words! {
    /// How a set is enforced, as the machine actually achieved it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum PsetMode {
        /// Exclusive; every member was moved or started by Millpond.
        Own = "own",
        /// Exclusive, around one cgroup that stays where it is.
        InPlace = "in-place",
        /// Members are confined and other threads were moved away; new threads may run there until the next check.
        Steered = "steered",
        /// Members are confined; other threads are not pushed out.
        Shared = "shared",
        /// Cooperative: only the bound threads are confined.
        Affinity = "affinity",
    }
    else crate::ParseIdError, |text| crate::ParseIdError { text, noun: "set mode" }
}

impl PsetMode {
    /// Whether the machine itself keeps other threads out.
    #[must_use]
    pub fn is_exclusive(self) -> bool {
        matches!(self, PsetMode::Own | PsetMode::InPlace)
    }
}

/// A processor set created by a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pset {
    /// Its number, 1 or more.
    pub id: PsetId,
    /// Members in order of arrival, including off-line ones, without duplicates.
    pub members: Vec<CpuId>,
    /// How it is enforced.
    pub mode: PsetMode,
    /// Members of an exclusive set on which other threads are known to be able to run, with the reason. Empty if the set is enforced.
    pub breaches: Vec<String>,
    /// The set that each member returns to at the end of this one, if that is not the default set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub returns: BTreeMap<CpuId, PsetId>,
}

impl Pset {
    /// The members as a set.
    #[must_use]
    pub fn cpus(&self) -> CpuSet {
        self.members.iter().copied().collect()
    }

    /// The lowest number that is not in `taken`: the number for a new set.
    #[must_use]
    pub fn free_id(taken: &[PsetId]) -> PsetId {
        let mut id = 1;
        while taken.contains(&PsetId(id)) {
            id += 1;
        }
        PsetId(id)
    }
}

/// A former set of a CPU, to which it returns when its present set ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Former {
    /// The set.
    pub set: PsetId,
    /// The serial number of the set. Set numbers are reused, serial numbers are not.
    pub serial: u64,
    /// The position of the CPU among the members: lower is earlier.
    pub place: u64,
}

impl Former {
    /// The history of a CPU that moves from `left` to the set `to`: entries after an earlier stay in `to` are removed.
    #[must_use]
    pub fn followed(mut history: Vec<Former>, left: Former, to: PsetId) -> Vec<Former> {
        history.push(left);
        if let Some(stay) = history.iter().position(|former| former.set == to) {
            history.truncate(stay);
        }
        history
    }

    /// The most recent set that still exists, and the history before it.
    #[must_use]
    pub fn last(
        mut history: Vec<Former>,
        is_there: impl Fn(&Former) -> bool,
    ) -> Option<(Former, Vec<Former>)> {
        while let Some(former) = history.pop() {
            if is_there(&former) {
                return Some((former, history));
            }
        }
        None
    }
}

/// A CPU changes sets; 0 is the default set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Move {
    /// The CPU.
    pub cpu: CpuId,
    /// The set that it leaves.
    pub from: PsetId,
    /// The set that it joins.
    pub to: PsetId,
}

/// `3: 0 -> 1`.
impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} -> {}", self.cpu, self.from, self.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_free_number_is_not_taken_and_nothing_lower_is_free(
            taken in proptest::collection::vec(1u32..12, 0..12)
        ) {
            let taken: Vec<PsetId> = taken.into_iter().map(PsetId).collect();
            let id = Pset::free_id(&taken);
            prop_assert!(!taken.contains(&id));
            prop_assert!((1..id.0).all(|lower| taken.contains(&PsetId(lower))));
        }

        #[test]
        fn a_set_survives_json(members in proptest::collection::btree_set(0u32..300, 0..20), mode in 0usize..5) {
            let set = Pset {
                id: PsetId(3),
                members: members.into_iter().rev().map(CpuId).collect(),
                mode: PsetMode::ALL[mode],
                breaches: vec![],
                returns: BTreeMap::from([(CpuId(2), PsetId(1))]),
            };
            let text = serde_json::to_string(&set).unwrap();
            prop_assert_eq!(serde_json::from_str::<Pset>(&text).unwrap(), set);
            prop_assert_eq!(PsetMode::ALL[mode].to_string().parse(), Ok(PsetMode::ALL[mode]));
        }
    }

    #[test]
    fn a_move_names_the_processor_and_both_sets() {
        let one = Move { cpu: CpuId(3), from: PsetId(0), to: PsetId(1) };
        assert_eq!(one.to_string(), "3: 0 -> 1");
        assert_eq!(serde_json::to_string(&one).unwrap(), r#"{"cpu":3,"from":0,"to":1}"#);
    }
}
