//! Cost of a decision after a change of demand, by size of the machine and number of pools.
//!
//! *When nothing changed* is the usual case: no set lacks CPUs. *When demand changed* is the worst case: every other set wants as many CPUs as
//!   possible,
//! and the others have become idle. Each policy has seen a few quiet intervals before the decision.

use crate::goals::sim::processor_time;
use crate::line::{Goal, Line, Pairs};
use crate::stats::median_of;
use crate::trial::Bench;
use millpond_model::pools::{Objective, Weighted};
use millpond_model::{CpuId, CpuSet, Lgroup, LgrpId, Nanos, PsetId};
use millpond_planner::{Costs, Frame, POLICIES, Places, SetFrame, Waiting, policy};
use millpond_report::{Line as Drawn, Lines};
use std::sync::Arc;

const PEER: &str = "when nothing changed";
/// The goal: 1,024 CPUs, 16 pools, milliseconds.
const GOAL: (u32, u32, f64) = (1_024, 16, 5.0);
const POOLS: [u32; 2] = [16, 256];
/// Sizes with a line of output; the picture has those in between too.
const TOLD: [u32; 3] = [64, 1_024, 4_096];
const DRAWN: [u32; 7] = [64, 128, 256, 512, 1_024, 2_048, 4_096];
/// Quiet intervals before the measured one.
const EASE: u32 = 5;

pub fn measure(bench: &Bench) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut drawn = Vec::new();
    for name in POLICIES {
        for pools in POOLS {
            // The other policy with many pools would dominate the scale of the picture.
            let is_drawn = name == POLICIES[0] || pools == POOLS[0];
            let mut points = Vec::new();
            for cpus in DRAWN.into_iter().filter(|cpus| is_drawn || TOLD.contains(cpus)) {
                let Some(pairs) = pairs(name, (cpus, pools), bench.pairs) else { continue };
                points.push((f64::from(cpus).log2(), rounded(median_of(&pairs.ours))));
                if TOLD.contains(&cpus) {
                    lines.push(line(name, (cpus, pools), &pairs));
                }
            }
            if is_drawn {
                drawn.push(Drawn { name: format!("{name}, {pools} pools"), points });
            }
        }
    }
    bench.draw("planner", || picture(drawn), &mut lines);
    lines
}

fn line(policy: &str, (cpus, pools): (u32, u32), pairs: &Pairs) -> Line {
    let goal = match GOAL {
        (c, p, ms) if (c, p) == (cpus, pools) => Goal::OursAtMost(ms),
        _ => Goal::None,
    };
    let name =
        format!("planner, policy {policy}: a decision when demand changed ({cpus} CPUs, {pools} pools)");
    Line::of(&name, PEER, "ms", pairs, goal)
}

fn picture(lines: Vec<Drawn>) -> String {
    let title = "What a decision costs when demand changed".to_owned();
    Lines { title, unit_x: "log2 of CPUs".into(), unit_y: "ms".into(), log_x: false, lines }.svg()
}

fn rounded(ms: f64) -> f64 {
    (ms * 1e4).round() / 1e4
}

/// Milliseconds of CPU time: a decision after a change of demand, paired with one of the same policy without a change.
fn pairs(name: &str, size: (u32, u32), count: usize) -> Option<Pairs> {
    let mut pairs = Pairs::default();
    // Discard the first trial, which has cold caches.
    for trial in 0..=count {
        let (ours, peer) = (decision(name, size, true)?, decision(name, size, false)?);
        if trial > 0 {
            pairs.push(ours, peer);
        }
    }
    Some(pairs)
}

fn decision(name: &str, (cpus, pools): (u32, u32), is_upheaval: bool) -> Option<f64> {
    let mut policy = policy(name)?;
    let mut frame = machine(cpus, pools);
    for _ in 0..EASE {
        live(&mut frame, |_| (50, 0));
        policy.decide(&frame);
    }
    live(&mut frame, |at| match (is_upheaval, at % 2) {
        (false, _) => (50, 0),
        (true, 0) => (100, 9),
        (true, _) => (0, 0),
    });
    let begin = processor_time();
    std::hint::black_box(policy.decide(&frame));
    Some((processor_time() - begin).as_secs_f64() * 1e3)
}

/// A machine of cores with two strands, in groups of 64 CPUs. With more sets than CPUs most sets are empty, and may be.
fn machine(cpus: u32, sets: u32) -> Frame {
    let set = |id: u32| SetFrame {
        id: PsetId(id),
        name: format!("set{id}"),
        cpus: (id * cpus / sets..(id + 1) * cpus / sets).map(CpuId).collect(),
        pinned: CpuSet::new(),
        idle: CpuSet::new(),
        min: usize::from(sets <= cpus),
        max: 65_536,
        importance: 1,
        objectives: Vec::new(),
        has_processes: true,
        busy: Nanos(0),
        waiting: Waiting::Threads(Nanos(0)),
        is_reset: false,
    };
    let groups = cpus.div_ceil(64);
    let group = |id: u32| Lgroup {
        id: LgrpId(id),
        cpus: (id * 64..((id + 1) * 64).min(cpus)).map(CpuId).collect(),
        distances: Lgroup::even_distances(id as usize, groups as usize),
        memory_kib: None,
    };
    let core = |core: u32| [CpuId(2 * core), CpuId(2 * core + 1)].into_iter().collect();
    Frame {
        at: Nanos(0),
        elapsed: Nanos::from_millis(100),
        objectives: vec![Weighted { importance: 1, objective: Objective::WtLoad }],
        sets: (0..sets).map(set).collect(),
        places: Arc::new(Places {
            cores: (0..cpus / 2).map(core).collect(),
            lgroups: (0..groups).map(group).collect(),
        }),
        costs: Costs::default(),
    }
}

/// Advances by one interval: `load` gives each set's busy part and the number of waiting threads per CPU.
fn live(frame: &mut Frame, load: impl Fn(usize) -> (u64, u64)) {
    frame.at = frame.at + frame.elapsed;
    for (at, set) in frame.sets.iter_mut().enumerate() {
        let (percent, waiting) = load(at);
        let size = u64::try_from(set.size()).unwrap_or_default();
        set.busy = Nanos(frame.elapsed.0 / 100 * percent * size);
        set.waiting = Waiting::Threads(Nanos(frame.elapsed.0 * waiting * size));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_every_processor_once_however_many_sets_there_are() {
        for (cpus, sets) in [(64, 16), (64, 256), (1_024, 256)] {
            let frame = machine(cpus, sets);
            let all = frame.sets.iter().fold(CpuSet::new(), |all, set| &all | &set.cpus);
            let sum: usize = frame.sets.iter().map(|set| set.cpus.len()).sum();
            assert_eq!((all.len(), sum, frame.sets.len()), (cpus as usize, cpus as usize, sets as usize));
        }
    }

    #[test]
    fn demand_that_changed_moves_processors_and_ease_does_not() {
        let moves = |is_upheaval| {
            let mut policy = policy("millpond").unwrap();
            let mut frame = machine(64, 16);
            for at in 0..=EASE {
                live(&mut frame, |set| match (is_upheaval && at == EASE, set % 2) {
                    (false, _) => (50, 0),
                    (true, 0) => (100, 9),
                    (true, _) => (0, 0),
                });
                if at < EASE {
                    policy.decide(&frame);
                }
            }
            policy.decide(&frame).plan.moves.len()
        };
        assert_eq!(moves(false), 0);
        assert!(moves(true) > 8);
    }
}
