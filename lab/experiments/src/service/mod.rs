//! A service and a batch job that uses all CPUs: ways to keep response times short, and their cost to the batch job.
//!
//! # Claim
//!
//! A set of CPUs protects a service from a batch job, and so does a weight or a cap. But a set excludes the batch job even while there are
//! no requests, and a burst of requests only has the CPUs of the set until poold reacts. So sharing by weights is better for both, if the
//! kernel lets a waking thread preempt a computing one, and the service has many more threads than it uses CPUs on average. The result
//! says so, and so does `poolstat --why`.
//!
//! # Arms
//!
//! ```text
//!   alone        the service has the machine: the lower bound
//!   nothing      both on all CPUs
//!   cpu.weight   the same; the service has a hundred times the weight
//!   cpu.max      the same; the batch job has a cap that leaves the CPUs that the service should have
//!   pools        the service in a pool with a set of its own with a minimum of CPUs, the batch job in the default pool; poold moves more
//!   below-80     the same; the set of the service has the objective utilization < 80, the example of the guide
//!   below-20     the same; it has utilization < 20, and would get ten CPUs if the batch job did not need them
//! ```
//!
//! # Measurements
//!
//! Requests arrive at random, independent of the number already waiting. All need the same CPU time, and the threads of the service
//! take them in order. The response time is the time from arrival to answer; p50, p99 and p99.9 are its percentiles. The batch job
//! has a thread for each CPU and counts its operations, in equivalent CPUs.
//!
//! # Limits
//!
//! On simulated machines the threads are in TS, which has no weights (FSS has: docs/explanation/shares.md), so *cpu.weight* is left out there. The
//! classes there are those of Solaris: in TS a thread that sleeps a lot preempts one that computes. On a real machine without cgroups with
//! shares or quotas, or without the permission to write them, that arm is left out, with the reason.
//!
//! With `--machine real` the programs run on the real machine (`millpond load service` and `millpond load spin`).

pub mod real;
mod simulated;

use crate::Failure;
use crate::pools::{own_set, put_objectives};
use crate::published::{Choices, Experiment, Findings, Lab, SECONDS, SEED};
use millpond_cli::{Flag, ValueKind};
use millpond_model::CpuId;
use millpond_pools::{Editor, PoolError};
use millpond_report::{Cell, Table};
use millpond_session::SIMULATED;
use std::collections::BTreeMap;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "service",
    options: &[
        Flag::long("arm", "nothing, cpu.weight, cpu.max, pools, below-80, below-20, beside the service alone; all").value("NAME,...", ValueKind::Words(&WORDS)),
        Flag::long("rate", "requests in a second, on average; 1000, on a real machine 100").value("N", ValueKind::Count(1, 1_000_000)),
        Flag::long("work", "milliseconds of CPU time of a request; 2").value("MS", ValueKind::Count(1, 1_000)),
        Flag::long("threads", "threads of the service; 8, on a real machine 2").value("N", ValueKind::Count(1, 1_024)),
        Flag::long("leave", "CPUs that the service should have: the least of its set, and what the cap leaves; twice what it uses on average").value("N", ValueKind::Count(1, 4_095)),
        Flag::long("machine", "the simulated machine, or real; t2-64").value("NAME", ValueKind::Word(&SIMULATED)),
        SEED,
        Flag { help: "how many seconds each arm is measured; 20", ..SECONDS },
    ],
    data: include_str!("about.json"),
    source: millpond_cli::head!(include_str!("mod.rs")),
    departs: |_| true,
    run,
    here: Some(real::run),
};

const MACHINE: &str = "t2-64";

/// Arms to choose from.
const WORDS: [&str; 6] = ["nothing", "cpu.weight", "cpu.max", "pools", "below-80", "below-20"];
const ALONE: &str = "alone";

/// The pools of the service and of the batch job.
const POOLS: [&str; 2] = ["service", "batch"];

/// Whether an arm has pools.
fn has_pools(arm: &str) -> bool {
    arm == "pools" || objective(arm).is_some()
}

/// The objective of the service's set in an arm.
fn objective(arm: &str) -> Option<String> {
    arm.strip_prefix("below-").map(|percent| format!("utilization < {percent}"))
}

/// Creates the pools of an arm, that of the service with a set of these CPUs.
fn edit(editor: &mut Editor, arm: &str, cpus: &[CpuId], least: u64) -> Result<(), PoolError> {
    own_set(editor, POOLS[0], cpus, least)?;
    if let Some(objective) = objective(arm) {
        put_objectives(editor, POOLS[0], &objective)?;
    }
    editor.create_pool(POOLS[1])
}

/// The load, independent of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ask {
    /// Requests per second.
    rate: u64,
    /// Milliseconds of CPU time per request.
    work: u64,
    /// Threads of the service.
    threads: u64,
    /// CPUs that the service should have.
    leave: u64,
    seconds: u64,
    seed: u64,
}

impl Ask {
    /// The chosen load for this many CPUs; by default this rate and number of threads.
    fn of(choices: &Choices, all: u64, rate: u64, threads: u64) -> Result<Ask, Failure> {
        let rate = choices.number("rate").unwrap_or(rate);
        let work = choices.number("work").unwrap_or(2);
        let twice = (2 * rate * work).div_ceil(1_000).clamp(1, all.saturating_sub(1).max(1));
        let leave = choices.number("leave").unwrap_or(twice);
        if leave >= all {
            let why =
                format!("of {all} CPUs the service cannot have {leave}, so that some are left for the batch");
            return Err(Failure::Machine(why));
        }
        Ok(Ask {
            rate,
            work,
            threads: choices.number("threads").unwrap_or(threads),
            leave,
            seconds: choices.number("seconds").unwrap_or(20),
            seed: choices.number("seed").unwrap_or(1),
        })
    }

    /// The load in one sentence.
    fn sentence(&self) -> String {
        format!(
            "the service: {} requests a second of {} ms, {} threads; it should have {} CPU{}",
            self.rate,
            self.work,
            self.threads,
            self.leave,
            if self.leave == 1 { "" } else { "s" }
        )
    }
}

/// Results of an arm.
#[derive(Debug, Clone, Default, PartialEq)]
struct Played {
    /// p50, p99 and p99.9, in milliseconds.
    times: [f64; 3],
    /// Answered requests per second.
    answered: f64,
    /// Work of the batch job in equivalent CPUs; `None` if it did not run.
    batch: Option<f64>,
    /// Number of moved CPUs.
    moves: Option<u64>,
    /// Advice of poold.
    advice: Option<String>,
}

/// The arms to run: the service alone, and the chosen ones.
fn arms(choices: &Choices) -> Vec<&'static str> {
    let is_chosen = |word: &&&str| !choices.has("arm") || choices.words("arm").any(|chosen| chosen == **word);
    std::iter::once(ALONE).chain(WORDS.iter().filter(is_chosen).copied()).collect()
}

fn run(lab: &mut Lab<'_>, choices: &Choices, findings: &mut Findings) -> Result<(), Failure> {
    let machine = choices.word("machine").unwrap_or(MACHINE);
    let bench = lab.open(machine)?;
    let ask = Ask::of(choices, bench.cpus().len() as u64, 1_000, 8)?;
    findings.machines.push(bench.sentence());
    drop(bench);
    let mut played = Vec::new();
    for arm in arms(choices) {
        lab.tell(arm);
        played.push((arm, simulated::play(lab, machine, arm, &ask)?));
    }
    report(findings, &ask, &played);
    Ok(())
}

/// p50, p99 and p99.9 in milliseconds of times in nanoseconds; and their number.
fn percentiles(times: &BTreeMap<u64, u64>) -> ([f64; 3], u64) {
    let all: u64 = times.values().sum();
    let at = |thousandths: u64| {
        let rank = (all * thousandths).div_ceil(1_000).max(1);
        let mut seen = 0;
        let found = times.iter().find(|(_, count)| {
            seen += **count;
            seen >= rank
        });
        found.map_or(0.0, |(time, _)| crate::published::real(*time) / 1e6)
    };
    ([at(500), at(990), at(999)], all)
}

/// Adds the results of all arms: points, the table, and conclusions.
fn report(findings: &mut Findings, ask: &Ask, played: &[(&str, Result<Played, String>)]) {
    findings.notes.push(ask.sentence());
    let mut table =
        Table::of(&["arm"], &["p50 ms", "p99 ms", "p99.9 ms", "answered/s", "batch, CPUs", "moved"]);
    for (arm, outcome) in played {
        let Ok(played) = outcome else { continue };
        let [p50, p99, p999] = played.times;
        for (quantity, value) in [("p99", p99), ("p50", p50), ("p99.9", p999)] {
            findings.point(&format!("{quantity} of response times"), arm, value);
        }
        if let Some(batch) = played.batch {
            findings.point("work of the batch", arm, batch);
        }
        table.row([
            (*arm).into(),
            (p50, 2).into(),
            (p99, 2).into(),
            (p999, 2).into(),
            (played.answered, 0).into(),
            played.batch.map(|batch| (batch, 2)).into(),
            played.moves.map_or(Cell::Missing, Cell::Count),
        ]);
    }
    findings.tables.push(("response times, and the batch".into(), table));
    for (arm, outcome) in played {
        if let Err(why) = outcome {
            findings.notes.push(format!("{arm} is left out: {why}"));
        }
    }
    findings.notes.extend(verdicts(played));
}

/// Response times or work with a smaller relative difference count as equal.
const ALIKE: f64 = 0.02;

/// Where sharing is better than pools, and where pools are; and the advice of poold.
fn verdicts(played: &[(&str, Result<Played, String>)]) -> Vec<String> {
    let of =
        |word: &str| played.iter().find(|(arm, _)| *arm == word).and_then(|(_, played)| played.as_ref().ok());
    let Some(pools) = of("pools") else { return Vec::new() };
    let mut said = Vec::new();
    for word in WORDS.iter().filter(|word| !has_pools(word)) {
        let Some(other) = of(word) else { continue };
        let (ours, theirs) = (pools.times[1], other.times[1]);
        let (our_batch, their_batch) = (pools.batch.unwrap_or(0.0), other.batch.unwrap_or(0.0));
        let less = |a: f64, b: f64| a < b * (1.0 - ALIKE);
        let (slower, faster) = (less(theirs, ours), less(ours, theirs));
        let (poorer, richer) = (less(our_batch, their_batch), less(their_batch, our_batch));
        let word_of = match (slower || poorer, faster || richer) {
            (true, false) => "pools lose to",
            (false, true) => "pools win against",
            (true, true) => "pools are a trade against",
            (false, false) => "pools do as",
        };
        said.push(format!(
            "{word_of} {word}: p99 {ours:.2} ms and {theirs:.2} ms, the batch {our_batch:.2} and {their_batch:.2} CPUs"
        ));
    }
    said.push(match &pools.advice {
        Some(advice) => format!("poold advises (poolstat --why): {advice}"),
        None => "poold advises nothing".to_owned(),
    });
    said
}

#[cfg(test)]
mod tests;
