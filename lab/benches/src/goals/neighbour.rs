//! Effect on a neighbour on the real machine: a real-time thread that wakes up each millisecond on the last CPU, while sets of the
//! first CPU are created and destroyed by commands that run there.
//!
//! On a shared machine threads stay where they are, so the neighbour's CPU is not fenced, and the sets evict no thread.
//! Interleaved: Millpond's commands; programs that only make the writes, as many and for as long; no activity, for as long.

use crate::guest::neighbour::Sleeper;
use crate::line::{Goal, Line, Pairs};
use crate::stats::median_of;
use crate::trial::{Bench, Trouble, build_bare, find_program, run_ms, told};
use rustix::thread::{CpuSet, sched_getaffinity};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Instant;

const NAME: &str = "worst wake-up of a neighbour while sets come and go (on this machine)";
const PEER: &str = "as many sets by bare writes";
const GOAL: Goal = Goal::RatioAtMost(1.0);
/// Total number of sets.
const SETS: usize = 1000;
/// The version 1 hierarchy.
const ROOT: &str = "/sys/fs/cgroup/cpuset";
/// A cgroup without other threads.
const GROUP: &str = "millpond-bench";

/// Measures this goal.
pub fn measure(bench: &Bench) -> Vec<Line> {
    match felt(bench) {
        Ok((pairs, idle)) => {
            let line = Line::of(NAME, PEER, "us", &pairs, GOAL);
            vec![line.noting(format!(
                "{SETS} sets made and destroyed; with nothing going on: {:.0} us",
                median_of(&idle)
            ))]
        }
        Err(why) => vec![Line::unresolvable(NAME, PEER, GOAL, why)],
    }
}

fn felt(bench: &Bench) -> Result<(Pairs, Vec<f64>), Trouble> {
    let mine = told("ask where we may run", sched_getaffinity(None))?;
    let usable: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| mine.is_set(cpu)).collect();
    let (&[first, ..], Some(&last)) = (&usable[..], usable.last()) else {
        return Err("there is no CPU".into());
    };
    if first == last {
        return Err("it takes two CPUs".into());
    }
    let nodes = fs::read_to_string(Path::new(ROOT).join("cpuset.mems"));
    let nodes = nodes.map_err(
        |_| "it takes a version 1 cpuset hierarchy: elsewhere sets cannot be made without pushing others out",
    )?;
    let taskset = find_program("taskset")?;
    let bare = build_bare(&bench.scratch)?;
    let mut sleeper = Sleeper::start(Command::new(&bench.own), last)?;
    // Our programs stay away from the neighbour's CPU.
    let away = |program: &Path, words: &[&str]| {
        let mut command = Command::new(&taskset);
        command.arg("-c").arg(first.to_string()).arg(program).args(words);
        run_ms(command.env("MILLPOND_STATE", bench.scratch.join("state"))).map(|_| ())
    };
    let cpu = first.to_string();
    let sets = || {
        away(&bench.millpond, &["psrset", "--keep-others", "-c", &cpu])?;
        away(&bench.millpond, &["psrset", "-d", "1"])
    };
    let bare = || {
        away(&bare, &["create-v1", ROOT, GROUP, &cpu, nodes.trim()])?;
        away(&bare, &["destroy-v1", ROOT, GROUP])
    };
    turns(bench.pairs, &mut sleeper, &sets, &bare)
}

/// Interleaves: sets by Millpond's commands; as many by bare writes, over the same time; no activity, for as long.
fn turns(
    rounds: usize,
    sleeper: &mut Sleeper,
    ours: &dyn Fn() -> Result<(), Trouble>,
    bare: &dyn Fn() -> Result<(), Trouble>,
) -> Result<(Pairs, Vec<f64>), Trouble> {
    let (mut pairs, mut idle) = (Pairs::default(), Vec::new());
    let each = SETS.div_ceil(rounds.max(1));
    for _ in 0..rounds {
        sleeper.take_us()?;
        let begin = Instant::now();
        (0..each).try_for_each(|_| ours())?;
        let took = begin.elapsed();
        let felt = sleeper.take_us()?;
        let begin = Instant::now();
        for set in 1..=each {
            bare()?;
            let part = |n: usize| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
            let due = took.mul_f64(part(set) / part(each));
            sleep(due.saturating_sub(begin.elapsed()));
        }
        let peer = sleeper.take_us()?;
        sleep(took);
        idle.push(sleeper.take_us()?);
        pairs.push(felt, peer);
    }
    Ok((pairs, idle))
}
