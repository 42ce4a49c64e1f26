//! Frames: the measurements of one interval, and the bounds of sets.

use millpond_model::pools::{Importance, Objective, Weighted};
use millpond_model::{CpuId, CpuSet, Lgroup, Move, Nanos, PsetId, Topology};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// All that is known at the end of one interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// The end of the interval, on the machine's monotonic clock.
    pub at: Nanos,
    /// How long the interval was.
    pub elapsed: Nanos,
    /// Objectives of the system; only `wt-load` means something here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objectives: Vec<Weighted>,
    /// Every set, the default set among them.
    pub sets: Vec<SetFrame>,
    /// Where CPUs stand. Shared: it hardly ever changes.
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub places: Arc<Places>,
    /// What moving costs.
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
    /// Those of them that must stay (`cpu.pinned`).
    #[serde(default, skip_serializing_if = "CpuSet::is_empty")]
    pub pinned: CpuSet,
    /// Those of them that were idle nearly all the time; none where that is not known.
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
    /// Whether it has processes: then it keeps at least one CPU.
    pub has_processes: bool,
    /// CPU time used by its threads.
    pub busy: Nanos,
    /// How its threads waited for a CPU.
    pub waiting: Waiting,
    /// Whether counters began anew in the interval: then `busy` and `waiting` say nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_reset: bool,
}

/// Waiting for a CPU: a need beyond the size of the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Waiting {
    /// Time that runnable threads were without a CPU, added up over threads (run-queue delay). It says
    /// how many CPUs more would have been used.
    Threads(Nanos),
    /// Time in which at least one thread was without a CPU (pressure, `some`). It says that more would
    /// have been used, and not how many.
    Any(Nanos),
    /// Not measured. Only a set that is busy all the time looks as if it needed more.
    Unknown,
}

/// Where CPUs stand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// Strands that share a core. A CPU that is in none of these is a core of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<CpuSet>,
    /// Locality groups, ascending, with their distances; 10 is local.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lgroups: Vec<Lgroup>,
}

/// What moving costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Costs {
    /// CPU time lost when one CPU changes sets within its locality group: threads that move, caches that are cold.
    pub cpu: Nanos,
    /// Time that writing one batch of moves takes, however many.
    pub batch: Nanos,
    /// Whether these were measured on this machine, or assumed.
    pub is_measured: bool,
}

/// Assumed where nothing was measured: half a millisecond to warm a CPU's caches, one to write a batch.
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

    /// How many CPUs all sets have.
    #[must_use]
    pub fn total(&self) -> usize {
        self.sets.iter().map(|set| set.cpus.len()).sum()
    }

    /// Each CPU with the place in [`Frame::sets`] of its set, ascending by CPU. One that is in two sets is there twice.
    #[must_use]
    pub fn members(&self) -> Vec<(CpuId, usize)> {
        let sets = self.sets.iter().enumerate();
        let mut members: Vec<(CpuId, usize)> =
            sets.flat_map(|(at, set)| set.cpus.iter().map(move |cpu| (cpu, at))).collect();
        members.sort_unstable();
        members
    }

    /// Moves in words: `2-3 from a to b, 7 from c to b`; `nothing` where there are none.
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

    /// How much `wt-load` counts, where it is asked for.
    #[must_use]
    pub fn wt_load(&self) -> Option<Importance> {
        let asked = self.objectives.iter().find(|weighted| weighted.objective == Objective::WtLoad);
        asked.map(|weighted| weighted.importance)
    }
}

impl SetFrame {
    /// How many CPUs it has.
    #[must_use]
    pub fn size(&self) -> usize {
        self.cpus.len()
    }

    /// How many CPUs it cannot be without: its minimum, its pinned ones, one where there are processes, and one in the default set.
    #[must_use]
    pub fn floor(&self) -> usize {
        let one = usize::from(self.has_processes || self.id.is_default());
        self.min.max((&self.pinned & &self.cpus).len()).max(one)
    }
}

impl Places {
    /// The places of a machine.
    #[must_use]
    pub fn of(topology: &Topology) -> Places {
        let cores = topology.cores().into_iter().map(|core| core.cpus).filter(|cpus| cpus.len() > 1);
        Places { cores: cores.collect(), lgroups: topology.lgroups().to_vec() }
    }

    /// Whether it makes no difference where a CPU stands.
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
