//! Frames: the measurements of one interval, and the bounds of sets.

use millpond_model::pools::{Importance, Objective, Weighted};
use millpond_model::{CpuId, CpuSet, Lgroup, Move, Nanos, PsetId, Topology};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The measurements of one interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// The end of the interval, on the machine's monotonic clock.
    pub at: Nanos,
    /// The length of the interval.
    pub elapsed: Nanos,
    /// Objectives of the system. The planner uses `wt-load` only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objectives: Vec<Weighted>,
    /// Every set, including the default set.
    pub sets: Vec<SetFrame>,
    /// Positions of CPUs in the topology. Shared, because it rarely changes.
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub places: Arc<Places>,
    /// The costs of moves.
    #[serde(default)]
    pub costs: Costs,
}

/// One set in one interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetFrame {
    /// Its number; [`PsetId::DEFAULT`] for the default set.
    pub id: PsetId,
    /// Its name, for messages.
    pub name: String,
    /// Its members that are on-line.
    pub cpus: CpuSet,
    /// Members that must stay (`cpu.pinned`).
    #[serde(default, skip_serializing_if = "CpuSet::is_empty")]
    pub pinned: CpuSet,
    /// Members that were idle nearly all the time; empty if unknown.
    #[serde(default, skip_serializing_if = "CpuSet::is_empty")]
    pub idle: CpuSet,
    /// `pset.min`.
    pub min: usize,
    /// `pset.max`.
    pub max: usize,
    /// The highest `pool.importance` of its pools; 0 without pools.
    pub importance: i64,
    /// Its objectives: locality and utilization.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objectives: Vec<Weighted>,
    /// Whether it has processes. If so, it keeps at least one CPU.
    pub has_processes: bool,
    /// CPU time used by its threads.
    pub busy: Nanos,
    /// Run-queue delay of its threads.
    pub waiting: Waiting,
    /// Whether counters were reset in the interval. If so, `busy` and `waiting` are meaningless.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_reset: bool,
}

/// Time spent waiting for a CPU: demand beyond the size of the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Waiting {
    /// Time that runnable threads were without a CPU, summed over threads (run-queue delay). Divided by the interval
    /// it is the number of further CPUs that would have been used.
    Threads(Nanos),
    /// Time in which at least one thread was without a CPU (pressure, `some`). It shows that more CPUs would have been
    /// used, but not how many.
    Any(Nanos),
    /// Not measured. Demand beyond the size is assumed only for a set that is busy all the time.
    Unknown,
}

/// Positions of CPUs in the topology.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// Strands that share a core. A CPU in none of these sets is a core of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<CpuSet>,
    /// Locality groups in ascending order, with their distances; 10 is local.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lgroups: Vec<Lgroup>,
}

/// The costs of moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Costs {
    /// CPU time lost when one CPU changes sets within its locality group: thread migration and cold caches.
    pub cpu: Nanos,
    /// Time to write one batch of moves, independent of its size.
    pub batch: Nanos,
    /// Whether the costs were measured on this machine or are defaults.
    pub is_measured: bool,
}

/// Defaults without a measurement: 0.5 ms to warm the caches of a CPU, 1 ms to write a batch.
impl Default for Costs {
    fn default() -> Self {
        Costs { cpu: Nanos(500_000), batch: Nanos::from_millis(1), is_measured: false }
    }
}

fn is_unknown(places: &Arc<Places>) -> bool {
    **places == Places::default()
}

impl Frame {
    /// A set by its number.
    #[must_use]
    pub fn set(&self, id: PsetId) -> Option<&SetFrame> {
        self.sets.iter().find(|set| set.id == id)
    }

    /// The number of CPUs in all sets.
    #[must_use]
    pub fn total(&self) -> usize {
        self.sets.iter().map(|set| set.cpus.len()).sum()
    }

    /// Each CPU with the index of its set in [`Frame::sets`], ascending by CPU. A CPU in two sets is listed twice.
    #[must_use]
    pub fn members(&self) -> Vec<(CpuId, usize)> {
        let sets = self.sets.iter().enumerate();
        let mut members: Vec<(CpuId, usize)> =
            sets.flat_map(|(at, set)| set.cpus.iter().map(move |cpu| (cpu, at))).collect();
        members.sort_unstable();
        members
    }

    /// Moves as text: `2-3 from a to b, 7 from c to b`; `nothing` if there are none.
    #[must_use]
    pub fn told(&self, moves: &[Move]) -> String {
        if moves.is_empty() {
            return "nothing".to_owned();
        }
        let mut ways: BTreeMap<(PsetId, PsetId), CpuSet> = BTreeMap::new();
        for one in moves {
            ways.entry((one.from, one.to)).or_default().insert(one.cpu);
        }
        let name = |id| self.set(id).map_or_else(|| format!("set {id}"), |set| set.name.clone());
        let way = |((from, to), cpus): (&(PsetId, PsetId), &CpuSet)| {
            format!("{cpus} from {} to {}", name(*from), name(*to))
        };
        ways.iter().map(way).collect::<Vec<_>>().join(", ")
    }

    /// The importance of `wt-load`, if it is configured.
    #[must_use]
    pub fn wt_load(&self) -> Option<Importance> {
        let asked = self.objectives.iter().find(|weighted| weighted.objective == Objective::WtLoad);
        asked.map(|weighted| weighted.importance)
    }
}

impl SetFrame {
    /// The number of its CPUs.
    #[must_use]
    pub fn size(&self) -> usize {
        self.cpus.len()
    }

    /// The number of CPUs that it must keep: its minimum, its pinned CPUs, one if it has processes, and one in the default set.
    #[must_use]
    pub fn floor(&self) -> usize {
        let one = usize::from(self.has_processes || self.id.is_default());
        self.min.max((&self.pinned & &self.cpus).len()).max(one)
    }
}

impl Places {
    /// The positions of the CPUs of a machine.
    #[must_use]
    pub fn of(topology: &Topology) -> Places {
        let cores = topology.cores().into_iter().map(|core| core.cpus).filter(|cpus| cpus.len() > 1);
        Places { cores: cores.collect(), lgroups: topology.lgroups().to_vec() }
    }

    /// Whether the position of a CPU is irrelevant.
    #[must_use]
    pub fn are_alike(&self) -> bool {
        let mut distances = self.lgroups.iter().flat_map(|group| &group.distances);
        let first = distances.next();
        self.lgroups.len() < 2 || distances.all(|distance| Some(distance) == first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{frame, set};
    use millpond_model::LgrpId;

    #[test]
    fn a_set_keeps_what_it_cannot_be_without() {
        assert_eq!(set(1, "0-3").floor(), 1, "its minimum");
        assert_eq!(
            SetFrame { pinned: "0-2,9".parse().unwrap(), ..set(1, "0-3") }.floor(),
            3,
            "9 is off-line"
        );
        assert_eq!(SetFrame { min: 0, ..set(0, "0-3") }.floor(), 1, "the default set");
        assert_eq!(SetFrame { min: 0, has_processes: true, ..set(1, "0-3") }.floor(), 1);
        assert_eq!(SetFrame { min: 0, has_processes: false, ..set(1, "0-3") }.floor(), 0);
    }

    #[test]
    fn a_processor_in_two_sets_is_seen_twice() {
        let frame = frame(vec![set(0, "0-1"), set(1, "1-2")]);
        let members: Vec<(u32, usize)> = frame.members().into_iter().map(|(cpu, at)| (cpu.0, at)).collect();
        assert_eq!(members, [(0, 0), (1, 0), (1, 1), (2, 1)]);
        assert_eq!(frame.total(), 4);
    }

    #[test]
    fn moves_are_told_by_the_names_of_sets() {
        let frame = frame(vec![set(0, "0-1"), set(1, "2-3")]);
        let one = |cpu: u32, from: u32, to: u32| Move { cpu: CpuId(cpu), from: PsetId(from), to: PsetId(to) };
        let moves = [one(3, 1, 0), one(0, 0, 9), one(2, 1, 0)];
        assert_eq!(frame.told(&moves), "0 from pset_default to set 9, 2-3 from set1 to pset_default");
        assert_eq!(frame.told(&[]), "nothing");
    }

    #[test]
    fn places_differ_only_where_distances_do() {
        let group = |id: u32, distances: &[u32]| Lgroup {
            id: LgrpId(id),
            cpus: CpuSet::new(),
            distances: distances.to_vec(),
            memory_kib: None,
        };
        let places = |lgroups| Places { cores: Vec::new(), lgroups };
        assert!(Places::default().are_alike());
        assert!(places(vec![group(0, &[10])]).are_alike());
        assert!(places(vec![group(0, &[10, 10]), group(1, &[10, 10])]).are_alike());
        assert!(!places(vec![group(0, &[10, 20]), group(1, &[20, 10])]).are_alike());
        let three = vec![group(0, &[10, 20, 20]), group(1, &[20, 10, 20]), group(2, &[20, 20, 10])];
        assert!(!places(three).are_alike());
        assert!(places(vec![group(0, &[10, 20])]).are_alike(), "there is no other place");
    }

    #[test]
    fn a_frame_is_the_same_after_it_was_written_and_read() {
        let mut frame = frame(vec![set(0, "0-3"), set(1, "4-7")]);
        frame.places = Arc::new(Places { cores: vec!["0-1".parse().unwrap()], lgroups: Vec::new() });
        let text = serde_json::to_string(&frame).unwrap();
        assert_eq!(serde_json::from_str::<Frame>(&text).unwrap(), frame);
    }
}
