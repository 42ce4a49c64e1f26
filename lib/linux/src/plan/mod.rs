//! The enforcement plan: computes an ordered list of steps from the current tree and the wanted sets.
//!
//! A pure function: it reads nothing and knows no file system path. In this order, the kernel accepts each step:
//!
//! 1. enable the controller, and create cgroups, parents first;
//! 2. dissolve the cgroups of sets that end: move tasks out, reset flags and lists, remove directories;
//! 3. remove the flags of partitions that lose all their CPUs, also of foreign ones;
//! 4. shrink lists, children before parents, and foreign lists first, because an overlap invalidates a partition;
//! 5. grow lists, parents before children, and set labels; then change lists of memory nodes;
//! 6. set partition flags;
//! 7. move tasks;
//! 8. grow foreign lists again, parents first, and then restore their partition flags;
//! 9. disable the controller when no set uses it any more.
//!
//! The plan for a machine that is already in the wanted state is empty.

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

/// The destination of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// A set.
    Set(PsetId),
    /// A pool that has this set.
    Pool(PoolId, PsetId),
    /// The default set, in a cgroup of ours, for a task that we start.
    Default,
    /// Its original cgroup.
    Home,
}

/// The wanted state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The sets.
    pub sets: BTreeMap<PsetId, SetLabel>,
    /// Tasks that move, with their current cgroups. Other tasks stay, unless their set ends.
    pub moves: Vec<(TaskId, String, Destination)>,
    /// The set of each pool. Tasks of pools follow it.
    pub pools: BTreeMap<PoolId, PsetId>,
}

impl Wanted {
    /// The wanted state with these sets and moves, and with the current pools.
    #[must_use]
    pub fn of(
        view: &View,
        sets: BTreeMap<PsetId, SetLabel>,
        moves: Vec<(TaskId, String, Destination)>,
    ) -> Self {
        Wanted { sets, moves, pools: view.pools.clone() }
    }

    /// The destination of a task that was not named.
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

/// A foreign cgroup whose list must change.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Other {
    path: String,
    now: CpuSet,
    want: CpuSet,
    keeping: Keeping,
}

/// What to do with the original of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeping {
    /// Record it.
    Keep,
    /// Remove the record: the wanted list is the original one.
    Release,
    /// There is no record.
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

/// The wanted state of one of our cgroups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Target {
    cpus: CpuSet,
    /// The type of partition.
    partition: Option<&'static str>,
    controller: bool,
    label: Option<String>,
    origin: Option<String>,
    /// The memory nodes to which it is confined; `None` for the default of our cgroups.
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
    /// CPUs of exclusive sets.
    exclusive: CpuSet,
    /// CPUs of the default set.
    default: CpuSet,
    /// CPUs that every task may use: the default set and sets that do not exclude others.
    open: CpuSet,
    modes: BTreeMap<PsetId, PsetMode>,
    /// Existing cgroups that are bound in place, with their set.
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

/// Whether a set's own cgroup will have tasks after the moves.
fn will_have_tasks(view: &View, wanted: &Wanted, id: PsetId) -> bool {
    let comes =
        |to: Destination| matches!(to, Destination::Set(set) | Destination::Pool(_, set) if set == id);
    let named = |task: TaskId| {
        wanted.moves.iter().any(|(t, ..)| *t == task || (t.tid.is_none() && t.pid == task.pid))
    };
    let stays = view.tasks.iter().any(|t| comes(wanted.destination(&t.at)) && !named(t.id));
    view.holds_units(id) || stays || wanted.moves.iter().any(|(_, _, to)| comes(*to))
}
