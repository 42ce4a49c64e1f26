//! Cost of poold on the real machine at steady load: the real daemon, in pools with shared CPUs, with one thread in a pool that computes half of the
//! time. Its CPU time is read from the kernel at both ends of windows of 20 s. The peer is sysstat's monitor at poold's interval of one second.
//!
//! On a shared machine, waiting threads of other programs wake poold up to ten times a second. A busy machine is the worse case, and the note
//! reports it.

use super::place::Pools;
use crate::line::{Goal, Line, Pairs};
use crate::stats::median_of;
use crate::trial::{Bench, Beside, Trouble, find_program, told};
use millpond_planner::read_log;
use millpond_session::stop_on_signal;
use std::fs;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

const NAME: &str = "poold: its own CPU time at steady load (on this machine)";
const PEER: &str = "mpstat -P ALL 1 of sysstat";
const GOAL: Goal = Goal::OursAtMost(0.1);
const MOVES: &str = "poold: CPUs moved at steady load (on this machine)";
const WINDOW: Duration = Duration::from_secs(20);
/// The start-up, which does not count.
const START: Duration = Duration::from_secs(3);

pub fn measure(bench: &Bench) -> Vec<Line> {
    match run(bench) {
        Ok(Seen { pairs, wakes, moves }) => {
            let told = format!("windows of 20 s; woken {:.1} times a second", median_of(&wakes));
            let windows = pairs.ours.len();
            let moves = Pairs { ours: vec![moves; windows], peer: Vec::new() };
            vec![
                Line::of(NAME, PEER, "%", &pairs, GOAL).noting(told),
                Line::of(MOVES, "no peer", "moves", &moves, Goal::OursAtMost(0.0))
                    .noting("in all windows together; where there are two CPUs, each set needs its one"),
            ]
        }
        Err(why) => vec![
            Line::unresolvable(NAME, PEER, GOAL, why.clone()),
            Line::unresolvable(MOVES, "no peer", Goal::OursAtMost(0.0), why),
        ],
    }
}

struct Seen {
    /// Percent of a CPU.
    pairs: Pairs,
    wakes: Vec<f64>,
    moves: f64,
}

fn run(bench: &Bench) -> Result<Seen, Trouble> {
    // Remove the pools even after an interrupt from the terminal.
    let stop = stop_on_signal();
    let windows = bench.pairs.min(6);
    let pools = Pools::make(bench)?;
    let millpond = bench.millpond.display().to_string();
    let _load =
        Beside::start(&mut pools.command(&[&millpond, "load", "spin", "--threads", "1", "--duty", "50"]))?;
    let poold = Beside::start(&mut bench.command(&["poold", "-l", "ERR"]))?;
    let peer = find_program("mpstat").and_then(|p| Beside::start(Command::new(p).args(["-P", "ALL", "1"])));
    sleep(START);
    let (mut pairs, mut wakes) = (Pairs::default(), Vec::new());
    let peer_time = || peer.as_ref().ok().map(|peer| peer.cpu_time().map(|time| time.0)).transpose();
    for _ in 0..windows {
        let (begin, ours, beside, woken) =
            (Instant::now(), poold.cpu_time()?.0, peer_time()?, switches(&poold)?);
        while begin.elapsed() < WINDOW {
            sleep(Duration::from_millis(500));
            if stop.load(Ordering::Relaxed) {
                return Err("it was interrupted".into());
            }
        }
        let passed = begin.elapsed().as_secs_f64();
        let percent =
            |before: u64, now: u64| Duration::from_nanos(now - before).as_secs_f64() / passed * 100.0;
        pairs.ours.push(percent(ours, poold.cpu_time()?.0));
        if let (Some(before), Some(now)) = (beside, peer_time()?) {
            pairs.peer.push(percent(before, now));
        }
        wakes.push((switches(&poold)? - woken) / passed);
    }
    let record = fs::read_to_string(bench.scratch.join("state/poold.decisions")).unwrap_or_default();
    let moves: usize = read_log(&record).0.iter().map(|decision| decision.plan.moves.len()).sum();
    let moves = f64::from(u32::try_from(moves).unwrap_or(u32::MAX));
    Ok(Seen { pairs, wakes, moves })
}

/// Number of voluntary switches.
fn switches(program: &Beside) -> Result<f64, Trouble> {
    let text = told("read its status", fs::read_to_string(format!("/proc/{}/status", program.pid())))?;
    let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok()).ok_or_else(|| "its status does not count".into())
}
