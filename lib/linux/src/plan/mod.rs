//! The enforcement plan: from the tree as it is and the sets that are wanted to an ordered list of steps.
//!
//! A pure function: it reads nothing and knows no path of a file system. The order is what makes each step
//! acceptable to the kernel at its moment:
//!
//! 1. the controller, and new cgroups, parents first;
//! 2. cgroups of sets that end: tasks out, flags and lists reset, directories removed;
//! 3. partitions that lose all their CPUs give up their flag, those of others too;
//! 4. lists shrink, children before parents — other people's first, for an overlap kills a partition;
//! 5. lists grow, parents before children, and labels follow; then lists of memory nodes;
//! 6. partition flags are set;
//! 7. tasks move;
//! 8. other people's lists grow back, parents first, and then their partition flags;
//! 9. the controller is given back when no set uses it any more.
//!
//! A plan for a machine that already is as wanted is empty.

mod foreign_groups;
mod memory;
mod own_groups;
mod tasks;
mod zones;

use crate::knob::{LinuxKnob, TaskId};
use crate::names;
use crate::view::{SetLabel, View};
use millpond_machine::{Baseline, Step, Value};
use millpond_model::{CpuSet, PoolId, PsetId, PsetMode};
use std::collections::BTreeMap;

/// Where a task should go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// Into a set.
    Set(PsetId),
    /// Into a pool that has a set.
    Pool(PoolId, PsetId),
    /// Into the default set, in a cgroup of ours, because we start it.
    Default,
    /// Back to where it came from.
    Home,
}

/// What is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The sets.
    pub sets: BTreeMap<PsetId, SetLabel>,
    /// Tasks that change places, with where each is now. Others stay, unless their set ends.
    pub moves: Vec<(TaskId, String, Destination)>,
    /// The set of each pool; tasks of pools follow.
    pub pools: BTreeMap<PoolId, PsetId>,
}

impl Wanted {
    /// These sets and moves, and pools as they are.
    #[must_use]
    pub fn of(
        view: &View,
        sets: BTreeMap<PsetId, SetLabel>,
        moves: Vec<(TaskId, String, Destination)>,
    ) -> Self {
        Wanted { sets, moves, pools: view.pools.clone() }
    }

    /// Where a task goes that nobody named.
    fn destination(&self, at: &str) -> Destination {
        if let Some(pool) = names::pool(at) {
            return self.pools.get(&pool).map_or(Destination::Home, |set| Destination::Pool(pool, *set));
        }
        match names::owner(at) {
            Some(set) if set.is_default() && names::is_started(at) && !self.sets.is_empty() => {
                Destination::Default
            }
            Some(set) if self.sets.contains_key(&set) => Destination::Set(set),
            _ => Destination::Home,
        }
    }
}

/// Somebody else's cgroup whose list must change.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Other {
    path: String,
    now: CpuSet,
    want: CpuSet,
    keeping: Keeping,
}

/// What becomes of the original of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeping {
    /// It is remembered.
    Keep,
    /// The list that is wanted is the original one, which can be forgotten.
    Release,
    /// The group never had one.
    Nothing,
}

impl Keeping {
    fn baseline(self) -> Baseline {
        match self {
            Keeping::Keep => Baseline::Keep,
            Keeping::Release => Baseline::Release,
            Keeping::Nothing => Baseline::Ours,
        }
    }
}

/// What a cgroup of ours should be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Target {
    cpus: CpuSet,
    /// The type of partition.
    partition: Option<&'static str>,
    controller: bool,
    label: Option<String>,
    origin: Option<String>,
    /// The memory nodes that it is confined to; `None` for what cgroups of ours have by themselves.
    mems: Option<Value>,
}

/// The steps from `view` to `wanted`, in order.
#[must_use]
pub fn plan(view: &View, wanted: &Wanted) -> Vec<Step> {
    Planner::new(view, wanted).steps()
}

struct Planner<'a> {
    view: &'a View,
    wanted: &'a Wanted,
    /// CPUs that nobody else may use.
    exclusive: CpuSet,
    /// CPUs of the default set.
    default: CpuSet,
    /// Where everybody may run: also in sets that push nobody out.
    open: CpuSet,
    modes: BTreeMap<PsetId, PsetMode>,
    /// Existing cgroups that are bound as they are, with their set.
    zones: BTreeMap<String, PsetId>,
    targets: BTreeMap<String, Target>,
    moves: Vec<(TaskId, String, String)>,
    steps: Vec<Step>,
}

impl<'a> Planner<'a> {
    fn new(view: &'a View, wanted: &'a Wanted) -> Self {
        let union = |filter: fn(&SetLabel) -> bool| {
            wanted.sets.values().filter(|s| filter(s)).fold(CpuSet::new(), |all, s| &all | &s.cpus())
        };
        let taken = union(|_| true);
        let exclusive = union(|s| s.mode != PsetMode::Shared);
        let modes = wanted
            .sets
            .iter()
            .map(|(id, s)| (*id, view.mode(s, will_have_tasks(view, wanted, *id))))
            .collect();
        let zones =
            wanted.sets.iter().flat_map(|(id, s)| view.present(s).map(|z| (z.clone(), *id))).collect();
        Planner {
            modes,
            zones,
            view,
            wanted,
            open: &(&view.online - &exclusive) - &view.reserved(),
            exclusive,
            default: &(&view.online - &taken) - &view.reserved(),
            targets: BTreeMap::new(),
            moves: Vec::new(),
            steps: Vec::new(),
        }
    }

    fn steps(mut self) -> Vec<Step> {
        self.aim_sets();
        self.aim_tasks();
        self.aim_default();
        self.aim_memory();
        self.create();
        self.dissolve();
        self.release_flags();
        self.release_zones();
        let mut others = self.others();
        self.release_partitions(&others);
        self.shrink_others(&mut others);
        self.shrink_ours();
        self.grow_ours();
        self.confine_memory();
        self.flag();
        self.move_tasks();
        self.claim_zones();
        self.grow_others(&others);
        self.restore_partitions(&others);
        self.give_back_zone_controllers();
        self.give_back_controller();
        self.steps
    }

    fn push(&mut self, knob: &LinuxKnob, before: Option<Value>, after: Option<Value>) {
        if before != after {
            self.steps.push(Step::new(knob.knob(), before, after));
        }
    }
}

/// Whether a set will have members in its own cgroup once the moves are made.
fn will_have_tasks(view: &View, wanted: &Wanted, id: PsetId) -> bool {
    let comes =
        |to: Destination| matches!(to, Destination::Set(set) | Destination::Pool(_, set) if set == id);
    let named = |task: TaskId| {
        wanted.moves.iter().any(|(t, ..)| *t == task || (t.tid.is_none() && t.pid == task.pid))
    };
    let stays = view.tasks.iter().any(|t| comes(wanted.destination(&t.at)) && !named(t.id));
    view.holds_units(id) || stays || wanted.moves.iter().any(|(_, _, to)| comes(*to))
}
