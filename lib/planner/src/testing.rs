//! Short constructors of frames for tests.

use crate::{Costs, Frame, Places, SetFrame, Waiting};
use millpond_model::pools::{Bound, Locality, Objective, Weighted};
use millpond_model::{Lgroup, LgrpId, Nanos, PsetId};
use std::sync::Arc;

/// A set with processes, at least 1, no maximum, importance 1, idle.
pub(crate) fn set(id: u32, cpus: &str) -> SetFrame {
    SetFrame {
        id: PsetId(id),
        name: if id == 0 { "pset_default".into() } else { format!("set{id}") },
        cpus: cpus.parse().unwrap(),
        pinned: Default::default(),
        idle: Default::default(),
        min: 1,
        max: 65_536,
        importance: 1,
        objectives: Vec::new(),
        has_processes: true,
        busy: Nanos(0),
        waiting: Waiting::Threads(Nanos(0)),
        is_reset: false,
    }
}

/// 100 ms, `wt-load`, no positions.
pub(crate) fn frame(sets: Vec<SetFrame>) -> Frame {
    Frame {
        at: Nanos::from_millis(100),
        elapsed: Nanos::from_millis(100),
        objectives: vec![Weighted { importance: 1, objective: Objective::WtLoad }],
        sets,
        places: Arc::default(),
        costs: Costs::default(),
    }
}

/// A set with this number of CPUs used and lacking, for 100 ms.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "tests give small counts")]
pub(crate) fn load(set: SetFrame, used: f64, waiting: f64) -> SetFrame {
    let tenth = |count: f64| Nanos((count * 1e8) as u64);
    SetFrame { busy: tenth(used), waiting: Waiting::Threads(tenth(waiting)), ..set }
}

/// Adds an objective to a set.
pub(crate) fn wanting(mut set: SetFrame, importance: u32, objective: Objective) -> SetFrame {
    set.objectives.push(Weighted { importance, objective });
    set
}

/// `utilization < percent`.
pub(crate) const fn below(percent: u8) -> Objective {
    Objective::Utilization(Bound::Below, percent)
}

/// `utilization > percent`.
pub(crate) const fn above(percent: u8) -> Objective {
    Objective::Utilization(Bound::Above, percent)
}

/// `utilization ~ percent`.
pub(crate) const fn near(percent: u8) -> Objective {
    Objective::Utilization(Bound::Near, percent)
}

pub(crate) const TIGHT: Objective = Objective::Locality(Locality::Tight);
pub(crate) const LOOSE: Objective = Objective::Locality(Locality::Loose);

/// Locality groups of these CPUs; distance 10 within a group and 20 between groups.
pub(crate) fn places(lgroups: &[&str], cores: &[&str]) -> Arc<Places> {
    let group = |(at, cpus): (usize, &&str)| Lgroup {
        id: LgrpId(u32::try_from(at).unwrap()),
        cpus: cpus.parse().unwrap(),
        distances: Lgroup::even_distances(at, lgroups.len()),
        memory_kib: None,
    };
    Arc::new(Places {
        cores: cores.iter().map(|cpus| cpus.parse().unwrap()).collect(),
        lgroups: lgroups.iter().enumerate().map(group).collect(),
    })
}
