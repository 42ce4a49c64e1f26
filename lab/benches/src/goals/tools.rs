//! Creating and destroying a set on the real machine, compared with the tools that Linux administrators use for it.
//!
//! The sets are empty, have unique names and shared CPUs; no foreign thread is moved. `cset` creates and destroys a cpuset. `tuna`
//! has no sets: the nearest operation without effect on others is to move one thread of this program to a CPU and
//! back.

use crate::line::{Goal, Line, Pairs};
use crate::trial::{Bench, Beside, Trouble, build_bare, find_program, run_ms};
use std::process::Command;

const NAME: &str = "psrset -c, psrset -d (empty, keeping others)";
const GOAL: Goal = Goal::RatioAtMost(0.1);
const CSET: &str = "cset set -c, cset set -d";
const BARE: &str = "the bare writes, as a static program";
const V1: &str = "/sys/fs/cgroup/cpuset";
const TUNA: &str = "tuna -m of one thread, there and back";
/// A cpuset without other threads.
const CPUSET: &str = "millpond-bench";

/// Measures this goal.
pub fn measure(bench: &Bench) -> Vec<Line> {
    let line = |peer, goal, result: Result<Pairs, Trouble>| Line::found(NAME, peer, "ms", result, goal);
    vec![
        line(CSET, GOAL, beside_cset(bench)),
        line(TUNA, GOAL, beside_tuna(bench)),
        // The goal against bare writes is for exclusive sets; this measures start-up and reading on real CPUs.
        line(BARE, Goal::None, beside_bare(bench)),
    ]
}

/// The last of the CPUs that this process may use: a set of it leaves the others unchanged.
pub(super) fn processor() -> Result<String, Trouble> {
    let mine = rustix::thread::sched_getaffinity(None).map_err(|error| error.to_string())?;
    let last = (0..rustix::thread::CpuSet::MAX_CPU).rev().find(|&cpu| mine.is_set(cpu));
    last.filter(|&cpu| cpu > 0).map(|cpu| cpu.to_string()).ok_or_else(|| "it takes two CPUs".into())
}

fn ours_ms(bench: &Bench, cpu: &str) -> Result<f64, Trouble> {
    let made = run_ms(&mut bench.command(&["psrset", "--keep-others", "-c", cpu]))?;
    Ok(made + run_ms(&mut bench.command(&["psrset", "-d", "1"]))?)
}

/// Refuses if sets exist: ours would not be the first one, with number 1.
pub(super) fn must_be_free(bench: &Bench) -> Result<(), Trouble> {
    let output = bench.command(&["psrset"]).output().map_err(|error| error.to_string())?;
    if output.stdout.is_empty() { Ok(()) } else { Err("there are processor sets already".into()) }
}

fn beside_bare(bench: &Bench) -> Result<Pairs, Trouble> {
    let cpu = processor()?;
    let nodes = std::fs::read_to_string(format!("{V1}/cpuset.mems"))
        .map_err(|_| "there is no version 1 cpuset hierarchy here".to_owned())?;
    must_be_free(bench)?;
    let bare = build_bare(&bench.scratch)?;
    let run = || -> Result<f64, Trouble> {
        let made = run_ms(Command::new(&bare).args(["create-v1", V1, CPUSET, &cpu, nodes.trim()]))?;
        Ok(made + run_ms(Command::new(&bare).args(["destroy-v1", V1, CPUSET]))?)
    };
    let mut pairs = Pairs::default();
    for _ in 0..bench.pairs {
        let ours = ours_ms(bench, &cpu)?;
        pairs.push(ours, run()?);
    }
    Ok(pairs)
}

fn beside_cset(bench: &Bench) -> Result<Pairs, Trouble> {
    let (cset, cpu) = (find_program("cset")?, processor()?);
    if !std::path::Path::new(V1).join("cpuset.cpus").exists() {
        return Err("cset works with cgroup v1 only, and would mount it here".into());
    }
    must_be_free(bench)?;
    let run = || -> Result<f64, Trouble> {
        let made = run_ms(Command::new(&cset).args(["set", "-s", CPUSET, "-c", &cpu]))?;
        Ok(made + run_ms(Command::new(&cset).args(["set", "-d", CPUSET]))?)
    };
    let mut pairs = Pairs::default();
    for _ in 0..bench.pairs {
        let ours = ours_ms(bench, &cpu)?;
        pairs.push(ours, run()?);
    }
    Ok(pairs)
}

fn beside_tuna(bench: &Bench) -> Result<Pairs, Trouble> {
    let (tuna, cpu) = (find_program("tuna")?, processor()?);
    must_be_free(bench)?;
    let sleeper = Beside::start(Command::new("sleep").arg("3600"))?;
    let thread = format!("--threads={}", sleeper.pid());
    let run = || -> Result<f64, Trouble> {
        let there = run_ms(Command::new(&tuna).args([&format!("--cpus={cpu}"), &thread, "--move"]))?;
        Ok(there + run_ms(Command::new(&tuna).args([&format!("--cpus=0,{cpu}"), &thread, "--move"]))?)
    };
    let mut pairs = Pairs::default();
    for _ in 0..bench.pairs {
        let ours = ours_ms(bench, &cpu)?;
        pairs.push(ours, run()?);
    }
    Ok(pairs)
}
