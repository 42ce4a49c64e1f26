//! Nanoseconds per allocation and free: by one and by several threads, immediately, in thousands, and with frees by another
//! thread; and objects with expensive constructors.

use super::allocators::{CALLS, MALLOC, build, library, numbers, other};
use crate::line::{Goal, Line, Pairs};
use crate::trial::{Bench, Trouble};
use std::path::{Path, PathBuf};
use std::process::Command;

/// At least as fast as the best of the others.
const GOAL: Goal = Goal::RatioAtMost(1.0);
const PATTERNS: [&str; 3] = ["pair", "batch", "cross"];
/// Object sizes in bytes.
const SIZES: [usize; 2] = [64, 1024];
/// Allocations per thread and trial.
const ROUNDS: usize = 2_000_000;

/// Loads of malloc: pattern, bytes, allocations per thread, and the goal for the time.
const LOADS: [(&str, &str, &str, Goal); 9] = [
    ("pages", "40000", "200000", Goal::RatioAtMost(1.1)),
    ("pages", "100000", "100000", Goal::RatioAtMost(1.1)),
    ("pages", "300000", "20000", Goal::RatioAtMost(1.1)),
    ("pages", "1000000", "8000", Goal::RatioAtMost(1.1)),
    ("pages", "4000000", "4000", Goal::RatioAtMost(1.1)),
    ("pages", "16000000", "600", Goal::RatioAtMost(1.1)),
    ("mixed", "200000", "20000", Goal::None),
    ("larson", "500", "2000000", Goal::None),
    ("xmalloc", "500", "2000000", Goal::None),
];

/// The figures of a trial: elapsed time, CPU time, resident memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Figure {
    Time,
    Cpu,
    Memory,
}

/// The compared allocators.
struct Peers {
    program: PathBuf,
    calls: PathBuf,
    malloc: PathBuf,
    /// Name, and library to preload; `None` for the C library's own.
    others: Vec<(&'static str, Option<PathBuf>)>,
}

impl Peers {
    fn find(bench: &Bench) -> Result<Peers, Trouble> {
        let mut others = vec![("glibc", None)];
        for (name, file) in [("jemalloc", "libjemalloc.so.2"), ("mimalloc", "libmimalloc.so.2")] {
            match other(file) {
                Ok(file) => others.push((name, Some(file))),
                Err(why) => eprintln!("bench: {why}: {name} is left out"),
            }
        }
        let program = build(bench, "alloc", include_str!("../../../peer/alloc.c"), &[])?;
        Ok(Peers { program, calls: library(bench, CALLS)?, malloc: library(bench, MALLOC)?, others })
    }

    fn run(&self, words: &[&str], calls: Option<&Path>, preload: Option<&Path>) -> Result<Vec<f64>, Trouble> {
        let mut command = Command::new(&self.program);
        command.args(words).args(calls);
        if let Some(preload) = preload {
            command.env("LD_PRELOAD", preload);
        }
        numbers(&mut command)
    }

    /// Pairs with the best of the others, and how often each was the best.
    fn beside(
        &self,
        pairs: usize,
        figure: Figure,
        ours: impl Fn() -> Result<Vec<f64>, Trouble>,
        theirs: &[&str],
    ) -> Result<(Pairs, String), Trouble> {
        let of = |found: Vec<f64>| {
            found.get(figure as usize).copied().ok_or("the program printed too few numbers".to_owned())
        };
        let mut found = Pairs::default();
        let mut best = vec![0_usize; self.others.len()];
        for _ in 0..pairs {
            let ours = of(ours()?)?;
            let mut least: Option<(usize, f64)> = None;
            for (at, (_, preload)) in self.others.iter().enumerate() {
                let time = of(self.run(theirs, None, preload.as_deref())?)?;
                if least.is_none_or(|(_, least)| time < least) {
                    least = Some((at, time));
                }
            }
            if let Some((at, time)) = least {
                found.push(ours, time);
                best[at] += 1;
            }
        }
        let wins = self.others.iter().zip(&best).filter(|(_, times)| **times > 0);
        let wins: Vec<String> = wins.map(|((name, _), times)| format!("{name} {times}")).collect();
        Ok((found, format!("best of the others: {}", wins.join(", "))))
    }
}

pub(super) fn measure(bench: &Bench) -> Vec<Line> {
    let peer = "the quickest of glibc, jemalloc, mimalloc";
    let peers = match Peers::find(bench) {
        Ok(peers) => peers,
        Err(why) => return vec![Line::unresolvable("object caches", peer, GOAL, &why)],
    };
    let line = |name: String, found: Result<(Pairs, String), Trouble>, goal| match found {
        Ok((pairs, note)) => Line::of(&name, peer, "ns", &pairs, goal).noting(note),
        Err(why) => Line::unresolvable(&name, peer, goal, &why),
    };
    let mut lines = Vec::new();
    let rounds = ROUNDS.to_string();
    for pattern in PATTERNS {
        for size in SIZES {
            for threads in counts().filter(|threads| pattern != "cross" || *threads > 1) {
                let (size, threads) = (size.to_string(), threads.to_string());
                let words = |what| [what, pattern, &*size, &*threads, &*rounds];
                let ours = || peers.run(&words("cache"), Some(&peers.calls), None);
                let found = peers.beside(bench.pairs, Figure::Time, ours, &words("malloc"));
                lines.push(line(
                    format!("umem_cache, {pattern}, {size} bytes, {threads} threads"),
                    found,
                    GOAL,
                ));
                let ours = || peers.run(&words("malloc"), None, Some(&peers.malloc));
                let found = peers.beside(bench.pairs, Figure::Time, ours, &words("malloc"));
                lines.push(line(
                    format!("malloc by LD_PRELOAD, {pattern}, {size} bytes, {threads} threads"),
                    found,
                    Goal::None,
                ));
            }
        }
    }
    for threads in counts() {
        let threads = threads.to_string();
        let words = |what| [what, "pair", "0", &*threads, "500000"];
        let ours = || peers.run(&words("made"), Some(&peers.calls), None);
        let found = peers.beside(bench.pairs, Figure::Time, ours, &words("object"));
        let name = format!("objects with locks and lists out of a cache, {threads} threads");
        lines.push(line(name, found, Goal::RatioAtMost(0.5)));
    }
    for (pattern, size, rounds, goal) in LOADS {
        for threads in counts().filter(|threads| pattern != "xmalloc" || *threads > 1) {
            let threads = threads.to_string();
            let words = ["malloc", pattern, size, &*threads, rounds];
            let ours = || peers.run(&words, None, Some(&peers.malloc));
            for (figure, what, unit, goal) in
                [(Figure::Cpu, "time of CPUs", "ns", goal), (Figure::Memory, "memory", "MB", Goal::None)]
            {
                let name =
                    format!("malloc by LD_PRELOAD, {pattern}, {size} bytes, {threads} threads: {what}");
                let peer =
                    if figure == Figure::Memory { "the least of glibc, jemalloc, mimalloc" } else { peer };
                lines.push(match peers.beside(bench.pairs, figure, ours, &words) {
                    Ok((pairs, note)) => Line::of(&name, peer, unit, &pairs, goal).noting(note),
                    Err(why) => Line::unresolvable(&name, peer, goal, &why),
                });
            }
        }
    }
    lines
}

/// Thread counts: one, and the number of CPUs.
fn counts() -> impl Iterator<Item = usize> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from).min(64);
    [1, processors.max(2)].into_iter()
}
