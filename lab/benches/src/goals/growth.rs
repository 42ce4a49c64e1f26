//! Growth of the cost of a simulated event with the size of the machine and of its load.
//!
//! # Goal
//!
//! An event moves one or two entries in trees and heaps whose size is the number of threads and CPUs. So its cost should
//! grow with the logarithm of that number: each doubling adds the same amount. It is compared with the cost of moving one
//! entry in a heap of the same size, which grows in the same way, and with misses of the host's caches too.

use super::sim::{Load, beside_heap, machine};
use crate::line::{Goal, Line, Pairs};
use crate::stats::median_of;
use crate::trial::Bench;
use millpond_report::{Line as Drawn, Lines};

/// Two threads per CPU, which compute for 100 us and sleep for 50.
const PROCESSORS: [u32; 10] = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024];
/// On 128 CPUs, each thread computes for 10 us and sleeps for 10 ms.
const THREADS: [u32; 5] = [10, 100, 1_000, 10_000, 100_000];
/// Ten such threads on machines with this many CPUs: the cost of idle CPUs.
const IDLE: [u32; 4] = [16, 64, 256, 1_024];

/// One line of the picture.
struct Series {
    name: &'static str,
    /// Number of event sources, and nanoseconds per event and per move in a heap of that size.
    points: Vec<(f64, f64, f64)>,
}

/// Measures these goals, and draws the picture if requested.
pub fn measure(bench: &Bench) -> Vec<Line> {
    let mut lines = Vec::new();
    let by_processors = PROCESSORS.map(|cpus| Load {
        what: "",
        cpus,
        threads: 2 * cpus,
        cycle_us: (100, 50),
        goal: Goal::None,
    });
    let by_threads = THREADS.map(|threads| Load {
        what: "",
        cpus: 128,
        threads,
        cycle_us: (10, 10_000),
        goal: Goal::None,
    });
    let mostly_idle =
        IDLE.map(|cpus| Load { what: "", cpus, threads: 10, cycle_us: (10, 10_000), goal: Goal::None });
    let mut series = |name, loads: &[Load]| {
        let points = loads.iter().map(|load| {
            let found = point(load, bench.pairs);
            let at = f64::from(load.cpus + load.threads).log2();
            let what = format!("{} CPUs, {} threads", load.cpus, load.threads);
            let name = format!("simulated kernel: an event ({what})");
            let medians = (at, median_of(&found.ours), median_of(&found.peer));
            lines.push(Line::of(&name, "moving one entry in a heap of as many", "ns", &found, Goal::None));
            medians
        });
        Series { name, points: points.collect() }
    };
    let drawn = [
        series("2 to 1,024 CPUs", &by_processors),
        series("10 to 100,000 threads", &by_threads),
        series("10 threads, 16 to 1,024 CPUs", &mostly_idle),
    ];
    bench.draw("growth", || picture(&drawn), &mut lines);
    lines
}

/// Nanoseconds per event, each paired with a move in a heap.
fn point(load: &Load, pairs: usize) -> Pairs {
    beside_heap(&mut machine(load), load, pairs, |rate| 1e3 / rate)
}

fn picture(series: &[Series]) -> String {
    let drawn = |of: &Series| {
        let points = of.points.iter().map(|(at, ours, _)| (*at, rounded(*ours))).collect();
        Drawn { name: of.name.to_owned(), points }
    };
    let heap = |of: &Series| of.points.iter().map(|(at, _, heap)| (*at, rounded(*heap))).collect();
    let mut lines: Vec<Drawn> = series.iter().map(drawn).collect();
    let heap = series.first().map(heap).unwrap_or_default();
    lines.push(Drawn { name: "a move in a heap".into(), points: heap });
    let title = "What an event of a simulated machine costs".to_owned();
    Lines { title, unit_x: "log2 of threads and CPUs".into(), unit_y: "ns".into(), log_x: false, lines }.svg()
}

fn rounded(ns: f64) -> f64 {
    (ns * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_has_a_line_for_each_series_and_one_for_the_heap() {
        let series = |name| Series { name, points: vec![(1.0, 90.04, 10.0), (11.0, 400.0, 50.0)] };
        let svg = picture(&[series("a"), series("b")]);
        assert_eq!(svg.matches("<polyline").count(), 3);
        assert!(svg.contains("a: 90 ns at 1 log2 of threads and CPUs"), "{svg}");
        assert!(svg.contains("a move in a heap: 50 ns at 11 "), "{svg}");
    }
}
