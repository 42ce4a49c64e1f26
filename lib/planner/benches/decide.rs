//! What a decision costs, in nanoseconds: one line for each policy, machine and situation. `cargo bench -p millpond-planner`.
//!
//! *Steady* is what happens nearly always: nothing is lacking. *Upheaval* is the worst: every other set wants all it can get, and the
//! others have nothing to do any more. The goal is 5 ms for 1,024 processors in 16 sets.
#![allow(clippy::print_stdout, reason = "it is for a person to read")]

use millpond_model::pools::{Objective, Weighted};
use millpond_model::{CpuId, CpuSet, Lgroup, LgrpId, Nanos, PsetId};
use millpond_planner::{Costs, Frame, POLICIES, Places, SetFrame, Waiting, policy};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A machine of cores with two strands, in groups of 64 processors.
fn machine(cpus: u32, sets: u32) -> Frame {
    let each = cpus / sets;
    let set = |id: u32| SetFrame {
        id: PsetId(id),
        name: format!("set{id}"),
        cpus: (id * each..(id + 1) * each).map(CpuId).collect(),
        pinned: CpuSet::new(),
        idle: CpuSet::new(),
        min: 1,
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
        distances: (0..groups).map(|other| if other == id { 10 } else { 20 }).collect(),
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

/// One interval later: a set is busy in such a part, and so many threads wait for each of its processors.
fn live(frame: &mut Frame, load: impl Fn(usize) -> (u64, u64)) {
    frame.at = frame.at + frame.elapsed;
    for (at, set) in frame.sets.iter_mut().enumerate() {
        let (percent, waiting) = load(at);
        let size = u64::try_from(set.size()).unwrap_or_default();
        set.busy = Nanos(frame.elapsed.0 / 100 * percent * size);
        set.waiting = Waiting::Threads(Nanos(frame.elapsed.0 * waiting * size));
    }
}

/// The median and the longest of some decisions, and their moves. Each is made by a policy that has seen as many frames of ease as
/// the slowest needs before it moves anything.
fn measure(name: &str, cpus: u32, sets: u32, is_upheaval: bool) -> Option<(Duration, Duration, usize)> {
    let (mut times, mut moves) = (Vec::new(), 0);
    for _ in 0..31 {
        let mut policy = policy(name)?;
        let mut frame = machine(cpus, sets);
        for _ in 0..5 {
            live(&mut frame, |_| (50, 0));
            policy.decide(&frame);
        }
        live(&mut frame, |at| match (is_upheaval, at % 2) {
            (false, _) => (50, 0),
            (true, 0) => (100, 9),
            (true, _) => (0, 0),
        });
        let start = Instant::now();
        let decision = policy.decide(&frame);
        times.push(start.elapsed());
        moves = decision.plan.moves.len();
    }
    times.sort_unstable();
    Some((times[times.len() / 2], *times.last()?, moves))
}

fn main() {
    println!("policy | processors | sets | situation | median ns | longest ns | moves");
    for name in POLICIES {
        for (cpus, sets) in [(64, 2), (1024, 16), (4096, 256)] {
            for (situation, is_upheaval) in [("steady", false), ("upheaval", true)] {
                if let Some((median, longest, moves)) = measure(name, cpus, sets, is_upheaval) {
                    let (median, longest) = (median.as_nanos(), longest.as_nanos());
                    println!("{name} | {cpus} | {sets} | {situation} | {median} | {longest} | {moves}");
                }
            }
        }
    }
}
