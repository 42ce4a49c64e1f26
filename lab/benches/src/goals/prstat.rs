//! Cost of `prstat`: one refresh with ten thousand additional threads, compared with `top` and `pidstat`; and the cost of accounting for the watched
//! threads.
//!
//! A refresh is measured like a sample of `mpstat`: own CPU time from the middle of one second to the middle of the next. The cost of accounting is
//! the run time of a load with and without `prstat -m`, interleaved.

use super::sample::each;
use crate::line::{Goal, Line, Pairs};
use crate::trial::{Bench, Beside, Trouble, find_program, run_ms, told};
use std::process::Command;
use std::sync::{Arc, Barrier};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::Duration;

/// Number of sleeping threads.
const THREADS: usize = 10_000;
/// Stack size of each; they need almost nothing.
const STACK_BYTES: usize = 16 * 1024;

const REFRESH: Goal = Goal::RatioAtMost(0.5);
const REFRESHED: &str = "prstat -L: one refresh with 10,000 threads";
const MEASURED: &str = "prstat -mL: the same with microstates";

/// Measures these goals.
pub fn measure(bench: &Bench) -> Vec<Line> {
    let mut lines = match Crowd::gather(THREADS) {
        Ok(_crowd) => refreshes(bench),
        Err(why) => vec![Line::unresolvable(REFRESHED, "top -b -H", REFRESH, why)],
    };
    let hackbench: &[&str] = &["load", "hackbench", "--groups", "2", "--loops", "2000"];
    let cg: &[&str] = &["load", "cg", "--class", "A", "--barrier", "block"];
    let loads: [(&str, &[&str], &[&str], Goal); 3] = [
        ("hackbench", hackbench, &["-m"], Goal::RatioAtMost(1.02)),
        ("hackbench", hackbench, &["-m", "--calls"], Goal::None),
        ("cg", cg, &["-m"], Goal::RatioAtMost(1.001)),
    ];
    for (name, words, options, goal) in loads {
        let name = format!("{name} while prstat {} watches", options.join(" "));
        lines.push(Line::found(&name, "without", "ms", watched(bench, words, options), goal));
    }
    lines
}

/// Threads that wait until this is dropped.
pub(super) struct Crowd {
    gate: Arc<Barrier>,
    threads: Vec<JoinHandle<()>>,
}

impl Crowd {
    pub(super) fn gather(size: usize) -> Result<Crowd, Trouble> {
        let gate = Arc::new(Barrier::new(size + 1));
        let mut threads = Vec::with_capacity(size);
        for _ in 0..size {
            let its = Arc::clone(&gate);
            let begun = Builder::new().stack_size(STACK_BYTES).spawn(move || {
                its.wait();
            });
            // If a thread cannot be started, the barrier never opens; the waiting threads end with the program.
            threads.push(told("start a thread", begun)?);
        }
        Ok(Crowd { gate, threads })
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.gate.wait();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn refreshes(bench: &Bench) -> Vec<Line> {
    let peers: [(&str, &[&str]); 2] = [("top", &["-b", "-H", "-d", "1"]), ("pidstat", &["-t", "1"])];
    let ours: [(&str, &[&str], Goal); 2] =
        [(REFRESHED, &["prstat", "-Lc", "1"], REFRESH), (MEASURED, &["prstat", "-mLc", "1"], Goal::None)];
    let mut lines = Vec::new();
    for (name, words, goal) in ours {
        for (program, arguments) in peers {
            let peer = format!("{program} {}", arguments.join(" "));
            lines.push(Line::found(name, &peer, "us", refresh(1, bench, words, program, arguments), goal));
        }
    }
    lines
}

/// CPU time per second of both programs while they list threads: a pair every `span` seconds.
pub(super) fn refresh(
    span: u32,
    bench: &Bench,
    words: &[&str],
    program: &str,
    arguments: &[&str],
) -> Result<Pairs, Trouble> {
    let peer = find_program(program)?;
    let ours = Beside::start(&mut bench.command(words))?;
    let peer = Beside::start(Command::new(peer).args(arguments))?;
    // Both have started, and are between two refreshes.
    sleep(Duration::from_millis(2500));
    each(span, bench.pairs, &ours, || peer.cpu_time().map(|time| time.0))
}

/// Run times of the load with and without prstat, interleaved in alternating order.
fn watched(bench: &Bench, words: &[&str], options: &[&str]) -> Result<Pairs, Trouble> {
    let beside = || -> Result<f64, Trouble> {
        let _watcher = Beside::start(&mut bench.command(&[&["prstat"], options, &["-c", "60"]].concat()))?;
        sleep(Duration::from_millis(500));
        run_ms(&mut bench.command(words))
    };
    let mut pairs = Pairs::default();
    for turn in 0..bench.pairs {
        let early = (turn % 2 == 0).then(beside).transpose()?;
        let without = run_ms(&mut bench.command(words))?;
        let with = early.map_or_else(beside, Ok)?;
        pairs.push(with, without);
    }
    Ok(pairs)
}
