//! A machine modelled by arithmetic: loads want CPUs, plans are applied, and frames follow from both.

use millpond_model::pools::{Objective, Weighted};
use millpond_model::{CpuId, CpuSet, Nanos, PsetId};
use millpond_planner::{Costs, Decision, Frame, Places, Policy, SetFrame, Waiting, check, policy};
use std::sync::Arc;

/// How waiting is measured.
#[derive(Debug, Clone, Copy)]
pub enum Counted {
    Threads,
    Any,
    Unknown,
}

/// The load of a malleable program: one thread per CPU, and no thread waits.
pub const MALLEABLE: f64 = f64::INFINITY;

/// A machine that advances frame by frame.
pub struct World {
    pub sets: Vec<SetFrame>,
    pub interval: Nanos,
    pub costs: Costs,
    pub counted: Counted,
    pub objectives: Vec<Weighted>,
    pub places: Arc<Places>,
    at: Nanos,
    policy: Box<dyn Policy>,
}

/// The result of one interval.
#[derive(Debug, Clone)]
pub struct Step {
    /// Sizes after the plan.
    pub sizes: Vec<usize>,
    /// Moves of the plan.
    pub moves: usize,
    /// CPUs lacking in the interval before the plan.
    pub unmet: f64,
    pub decision: Decision,
}

/// A set: processes, at least one CPU, importance 1, no maximum.
pub fn set(id: u32, cpus: &str) -> SetFrame {
    SetFrame {
        id: PsetId(id),
        name: if id == 0 { "pset_default".into() } else { format!("set{id}") },
        cpus: cpus.parse().expect("a list"),
        pinned: CpuSet::new(),
        idle: CpuSet::new(),
        min: 1,
        max: 65_536,
        importance: 1,
        objectives: Vec::new(),
        has_processes: true,
        busy: Nanos(0),
        waiting: Waiting::Unknown,
        is_reset: false,
    }
}

pub fn wanting(mut set: SetFrame, objective: Objective) -> SetFrame {
    set.objectives.push(Weighted { importance: 1, objective });
    set
}

#[expect(clippy::cast_precision_loss, reason = "small counts")]
pub fn real(count: usize) -> f64 {
    count as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "loads are small and positive")]
fn part(of: Nanos, count: f64) -> Nanos {
    Nanos((of.as_secs_f64() * 1e9 * count).round() as u64)
}

/// The number of CPUs that a load lacks.
fn lacking(set: &SetFrame, demand: f64) -> f64 {
    if demand.is_infinite() { 0.0 } else { (demand - real(set.size())).max(0.0) }
}

impl World {
    /// Frames of 100 ms for `millpond`, of 15 seconds for `solaris`.
    pub fn new(name: &str, sets: Vec<SetFrame>) -> World {
        let interval = if name == "solaris" { Nanos::from_secs(15) } else { Nanos::from_millis(100) };
        World {
            sets,
            interval,
            costs: Costs::default(),
            counted: Counted::Threads,
            objectives: vec![Weighted { importance: 1, objective: Objective::WtLoad }],
            places: Arc::default(),
            at: Nanos(0),
            policy: policy(name).expect("a policy"),
        }
    }

    fn frame(&mut self, demands: &[f64]) -> Frame {
        self.at = self.at + self.interval;
        let elapsed = self.interval;
        let measure = |(set, demand): (&SetFrame, &f64)| {
            let size = real(set.size());
            let lacks = lacking(set, *demand);
            let waiting = match self.counted {
                Counted::Threads => Waiting::Threads(part(elapsed, lacks)),
                Counted::Any => Waiting::Any(if lacks > 0.0 { elapsed } else { Nanos(0) }),
                Counted::Unknown => Waiting::Unknown,
            };
            SetFrame { busy: part(elapsed, demand.min(size)), waiting, ..set.clone() }
        };
        let sets = self.sets.iter().zip(demands).map(measure).collect();
        let objectives = self.objectives.clone();
        Frame { at: self.at, elapsed, objectives, sets, places: Arc::clone(&self.places), costs: self.costs }
    }

    /// One interval with these demands of the sets, in CPUs.
    pub fn step(&mut self, demands: &[f64]) -> Step {
        let frame = self.frame(demands);
        let decision = self.policy.decide(&frame);
        let moves = &decision.plan.moves;
        assert_eq!(check(&frame, moves), [], "{}", decision.plan.reason);
        for one in moves {
            for set in &mut self.sets {
                if set.id == one.from {
                    set.cpus.remove(one.cpu);
                } else if set.id == one.to {
                    set.cpus.insert(one.cpu);
                }
            }
        }
        let lacks = frame.sets.iter().zip(demands).map(|(set, demand)| lacking(set, *demand));
        Step { sizes: self.sizes(), moves: moves.len(), unmet: lacks.sum(), decision }
    }

    /// `count` intervals of loads that change with time, in seconds at the end of the interval.
    pub fn run(&mut self, count: usize, mut demands: impl FnMut(f64) -> Vec<f64>) -> Vec<Step> {
        self.live(count, |end, _| demands(end))
    }

    /// The same with loads that depend on the sizes of their sets.
    pub fn live(&mut self, count: usize, mut demands: impl FnMut(f64, &[usize]) -> Vec<f64>) -> Vec<Step> {
        let step = |_| {
            let end = (self.at + self.interval).as_secs_f64();
            self.step(&demands(end, &self.sizes()))
        };
        (0..count).map(step).collect()
    }

    pub fn sizes(&self) -> Vec<usize> {
        self.sets.iter().map(SetFrame::size).collect()
    }

    /// Removes a CPU.
    pub fn unplug(&mut self, cpu: u32) {
        self.sets.iter_mut().for_each(|set| _ = set.cpus.remove(CpuId(cpu)));
    }
}

/// The number of batches.
pub fn batches(steps: &[Step]) -> usize {
    steps.iter().filter(|step| step.moves > 0).count()
}

/// CPUs lacking on average.
pub fn unmet(steps: &[Step]) -> f64 {
    steps.iter().map(|step| step.unmet).sum::<f64>() / real(steps.len())
}

/// Noise from a seed, reproducible.
pub struct Noise(u64);

impl Noise {
    pub fn new(seed: u64) -> Noise {
        Noise(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A value around 1, at most `width` away.
    #[expect(clippy::cast_precision_loss, reason = "a fraction of 2^53")]
    pub fn around(&mut self, width: f64) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let fraction = (self.0 >> 11) as f64 / (1u64 << 53) as f64;
        1.0 + width * (2.0 * fraction - 1.0)
    }
}
