//! Pools under alternating demand: two programs, one of which wants all CPUs at a time.
//!
//! # Claim
//!
//! Resized pools follow a load that changes sides. They do at least as much work as the best fixed split, less 3 %, for every
//! demand; where demand is uneven they do more. Programs whose threads do not wait for each other lose nothing by sharing: no pools at
//! all are best for them, and pools cost the time to follow. Threads that spin for each other (`--job cg`) behave differently.
//!
//! # Arms
//!
//! ```text
//!   nothing          both programs on all CPUs
//!   split N + M      each in a pool with N or M CPUs, which stay fixed
//!   pools, POLICY    each in a pool that begins with half of the CPUs; poold moves CPUs by this policy, at its own intervals
//!   pools, POLICY, < 80   the same; both sets have the objective utilization < 80, the example of the guide
//! ```
//!
//! Each arm runs with demand that changes sides at several intervals, and with *even* demand: both programs want all CPUs all the time.
//! The program that wants all CPUs runs a thread for each of the machine's CPUs. The other one runs one thread that sleeps two thirds
//! of its time. Threads of `batch` repeat an operation of a millisecond of CPU time. Programs of `cg` are malleable: they have
//! as many threads as their pool has CPUs.
//!
//! # Measurements
//!
//! The work of both programs together, from the start: the number of CPUs that their operations are equivalent to, or Mop/s of
//! `cg`. Its ratios to the best split and to no pools, and the numbers of moved CPUs and of changes. Not modelled on a simulated
//! machine: cold caches after a move (except for `cg`), and the time that a change takes.
//!
//! With `--machine real` the programs run on the real machine (`millpond load spin`), in pools whose CPUs other threads may
//! use too. Before that, the experiment measures the speed of a CPU, and which part of the machine was available, because
//! other programs may use it.

pub mod real;
mod simulated;

use crate::Failure;
use crate::pools::{own_set, put_objectives};
use crate::published::{Choices, Experiment, Findings, Lab, SECONDS};
use millpond_cli::{Flag, ValueKind};
use millpond_model::CpuId;
use millpond_model::pools::DEFAULT_PSET;
use millpond_planner::POLICIES;
use millpond_pools::{Editor, PoolError};
use millpond_report::{Cell, Table};
use millpond_session::SIMULATED;
use simulated::play;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "alternating",
    options: &[
        Flag::long("every", "how often demand changes sides; 1,5,30, and even demand beside them").value("SECONDS,...", ValueKind::Counts(1, 600)),
        Flag::long("even", "even demand, beside what --every chooses"),
        Flag::long("split", "CPUs of the first program in splits that stay; an eighth, a quarter, a half, three quarters and seven eighths").value("N,...", ValueKind::Counts(1, 4095)),
        Flag::long("policy", "policies of poold: millpond, solaris; both").value("NAME,...", ValueKind::Words(&POLICIES)),
        Flag::long("job", "the programs: batch or cg; batch").value("WORD", ValueKind::Word(&JOBS)),
        Flag::long("machine", "the simulated machine, or real; t2-64").value("NAME", ValueKind::Word(&SIMULATED)),
        Flag { help: "how many seconds each arm is measured at least: whole turns of both; 20, with cg 4", ..SECONDS },
    ],
    data: include_str!("about.json"),
    source: millpond_cli::head!(include_str!("mod.rs")),
    departs: |_| true,
    run,
    here: Some(real::run),
};

const MACHINE: &str = "t2-64";
/// The pools: the first has a set of its own, the second the default set.
const POOLS: [&str; 2] = ["a", "b"];
const JOBS: [&str; 2] = ["batch", "cg"];

/// Seconds between two changes of sides.
const EVERY: [u64; 3] = [1, 5, 30];

/// The measured quantities.
const WORK: &str = "work of both";
const MOPS: &str = "work of both programs";
const OF_SPLIT: &str = "of the best split";
const OF_NOTHING: &str = "of no pools";

/// The goal, as a fraction of the best split.
const GOAL: f64 = 0.97;

/// The kind of programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Job {
    /// Independent threads.
    Batch,
    /// Threads that spin for each other, one per CPU of the pool.
    Cg,
}

/// The configuration of an arm.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Arm {
    Nothing,
    /// CPUs of the first program, of all CPUs.
    Split(usize, usize),
    /// A policy of poold, and the objective of both sets.
    Pools(String, Option<&'static str>),
}

/// The example of the guide.
const OBJECTIVE: &str = "utilization < 80";

impl Arm {
    fn name(&self) -> String {
        match self {
            Arm::Nothing => "nothing".into(),
            Arm::Split(size, all) => format!("split {size} + {}", all - size),
            Arm::Pools(policy, None) => format!("pools, {policy}"),
            Arm::Pools(policy, Some(objective)) => {
                format!("pools, {policy}, {}", objective.trim_start_matches("utilization "))
            }
        }
    }

    /// Creates the pools of this arm, the first with a set of these CPUs.
    fn edit(&self, editor: &mut Editor, cpus: &[CpuId]) -> Result<(), PoolError> {
        own_set(editor, POOLS[0], cpus, 1)?;
        editor.create_pool(POOLS[1])?;
        if let Arm::Pools(_, Some(objective)) = self {
            for set in [POOLS[0], DEFAULT_PSET] {
                put_objectives(editor, set, objective)?;
            }
        }
        Ok(())
    }
}

/// Result of an arm.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Played {
    /// Work of both programs per second, in the unit of the job.
    work: f64,
    moves: u64,
    changes: u64,
}

/// Seconds between two changes of sides; `None` for even demand.
type Every = Option<u64>;

fn demands(choices: &Choices) -> Vec<Every> {
    let chosen = choices.has("every") || choices.has("even");
    let every = choices.numbers("every").unwrap_or(if chosen { &[] } else { &EVERY });
    let even = choices.has("even") || !chosen;
    every.iter().copied().map(Some).chain(even.then_some(None)).collect()
}

/// The arms for this many CPUs.
fn arms(choices: &Choices, all: usize) -> Result<Vec<Arm>, Failure> {
    let usual = [all / 8, all / 4, all / 2, all - all / 4, all - all / 8];
    let chosen =
        choices.numbers("split").map(|sizes| sizes.iter().map(|n| usize::try_from(*n).unwrap_or(all)));
    let mut sizes: Vec<usize> = chosen.map_or_else(|| usual.to_vec(), Iterator::collect);
    if let Some(size) = sizes.iter().find(|size| choices.has("split") && **size >= all) {
        let why = format!("of {all} CPUs {size} cannot be split off, so that some are left");
        return Err(Failure::Machine(why));
    }
    sizes.retain(|size| (1..all).contains(size));
    sizes.sort_unstable();
    sizes.dedup();
    let policies: Vec<&str> =
        if choices.has("policy") { choices.words("policy").collect() } else { POLICIES.to_vec() };
    let mut arms = vec![Arm::Nothing];
    arms.extend(sizes.into_iter().map(|size| Arm::Split(size, all)));
    let pools = |name: &str| [None, Some(OBJECTIVE)].map(|objective| Arm::Pools(name.to_owned(), objective));
    arms.extend(policies.into_iter().flat_map(pools));
    Ok(arms)
}

fn run(lab: &mut Lab<'_>, choices: &Choices, findings: &mut Findings) -> Result<(), Failure> {
    let job = if choices.word("job") == Some(JOBS[1]) { Job::Cg } else { Job::Batch };
    let seconds = choices.number("seconds").unwrap_or(if job == Job::Cg { 4 } else { 20 });
    let machine = choices.word("machine").unwrap_or(MACHINE);
    let bench = lab.open(machine)?;
    findings.machines.push(bench.sentence());
    let arms = arms(choices, bench.cpus().len())?;
    drop(bench);
    for every in demands(choices) {
        let mut played = Vec::new();
        for arm in &arms {
            lab.tell(&format!("{}: {}", sentence(every), arm.name()));
            played.push((arm.clone(), play(lab, machine, job, arm, every, seconds)?));
        }
        judge(findings, every, job, &played);
    }
    Ok(())
}

/// The demand as text: `every 5 s`, `even`.
fn sentence(every: Every) -> String {
    every.map_or("even".to_owned(), |seconds| format!("every {seconds} s"))
}

/// The split with the most work; among those within a thousandth, the most even one.
fn best_split(played: &[(Arm, Played)]) -> Option<&(Arm, Played)> {
    let splits = || played.iter().filter(|(arm, _)| matches!(arm, Arm::Split(..)));
    let most = splits().map(|(_, played)| played.work).fold(0.0, f64::max);
    let lean = |arm: &Arm| if let Arm::Split(size, all) = arm { (2 * size).abs_diff(*all) } else { 0 };
    splits().filter(|(_, played)| played.work >= most * 0.999).min_by_key(|(arm, _)| lean(arm))
}

/// Adds the results of all arms under one demand: points, a table, and a conclusion.
fn judge(findings: &mut Findings, every: Every, job: Job, played: &[(Arm, Played)]) {
    let (quantity, unit, decimals) = match job {
        Job::Cg => (MOPS, "Mop/s", 0),
        Job::Batch => (WORK, "processors", 2),
    };
    let of = |wanted: fn(&Arm) -> bool| played.iter().filter(move |(arm, _)| wanted(arm));
    let best = best_split(played);
    let nothing = of(|arm| *arm == Arm::Nothing).map(|(_, played)| played.work).next();
    let ratio = |work: f64, of: Option<f64>| of.filter(|of| *of > 0.0).map(|of| work / of);
    let best_work = best.map(|(_, played)| played.work);
    let mut table = Table::of(&["arm"], &[unit, OF_SPLIT, OF_NOTHING, "moved", "changes"]);
    let demand = sentence(every);
    for (arm, played) in played {
        let name = arm.name();
        let of_split = ratio(played.work, best_work);
        let of_nothing = ratio(played.work, nothing);
        findings.point(quantity, &format!("{demand}: {name}"), played.work);
        let is_pools = matches!(arm, Arm::Pools(..));
        let count = |count: u64| if is_pools { Cell::Count(count) } else { Cell::Missing };
        let mark = if best.is_some_and(|(best, _)| best == arm) { " (best)" } else { "" };
        table.row([
            format!("{name}{mark}").into(),
            Cell::Real(played.work, decimals),
            of_split.map(|ratio| (ratio, 3)).into(),
            of_nothing.map(|ratio| (ratio, 3)).into(),
            count(played.moves),
            count(played.changes),
        ]);
        if is_pools {
            for (quantity, ratio) in [(OF_SPLIT, of_split), (OF_NOTHING, of_nothing)] {
                if let Some(ratio) = ratio {
                    findings.point(quantity, &format!("{demand}: {name}"), ratio);
                }
            }
            let best = best.map(|(arm, _)| arm.name());
            findings.notes.push(verdict(&demand, &name, (of_split, best), of_nothing));
        }
    }
    findings.tables.push((format!("demand {demand}"), table));
}

/// The conclusion from the ratios, in words.
fn verdict(
    demand: &str,
    name: &str,
    (of_split, best): (Option<f64>, Option<String>),
    of_nothing: Option<f64>,
) -> String {
    let mut parts = Vec::new();
    if let (Some(ratio), Some(best)) = (of_split, best) {
        let word = match ratio {
            ratio if ratio < GOAL => "lose against",
            ratio if ratio > 2.0 - GOAL => "win against",
            _ => "do as much as",
        };
        parts.push(format!("{word} the best split, {best} ({ratio:.3})"));
    }
    if let Some(ratio) = of_nothing {
        let word = match ratio {
            ratio if ratio < 0.995 => "lose against",
            ratio if ratio > 1.005 => "win against",
            _ => "do as much as",
        };
        parts.push(format!("{word} no pools ({ratio:.3})"));
    }
    format!("{demand}: {name} {}", parts.join(" and "))
}

#[cfg(test)]
mod tests;
