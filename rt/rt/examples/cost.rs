//! Cost of a stack: a pair of calls that reuses one, the same with contending threads, and a new stack.
//!
//! ```text
//! cargo run --release --manifest-path rt/Cargo.toml -p millpond-rt --example cost
//! ```

#![allow(clippy::print_stdout)]

use millpond_rt::{fetch_stack_sizes, stack_alloc, stack_free};
use std::time::{Duration, Instant};

const PAIRS: u32 = 100_000;

/// Allocates and frees this many times; returns nanoseconds per pair.
fn pairs(size: usize) -> f64 {
    let start = Instant::now();
    for _ in 0..PAIRS {
        let stack = stack_alloc(size).expect("there is memory");
        // SAFETY: no thread uses it.
        unsafe { stack_free(std::hint::black_box(stack).as_ptr(), size) }.expect("it is ours");
    }
    ns(start.elapsed(), PAIRS)
}

fn ns(time: Duration, times: u32) -> f64 {
    time.as_secs_f64() * 1e9 / f64::from(times)
}

fn main() {
    pairs(32 << 10);
    let mut best: Vec<f64> = (0..99).map(|_| pairs(32 << 10)).collect();
    best.sort_by(f64::total_cmp);
    println!(
        "allocate and free, cached: {:.1} ns, the median of {} runs; {:.1} ns, the best",
        best[49],
        best.len(),
        best[0]
    );
    let both = std::thread::scope(|scope| {
        let threads = [64 << 10, 64 << 10].map(|size| scope.spawn(move || pairs(size)));
        threads.map(|thread| thread.join().expect("it measures"))
    });
    println!("two threads at once: {:.1} and {:.1} ns", both[0], both[1]);
    for size in fetch_stack_sizes().iter().copied() {
        let start = Instant::now();
        for _ in 0..10 {
            stack_alloc(size).expect("there is memory");
        }
        println!("a new one of {:>4} KB: {:.0} us", size >> 10, ns(start.elapsed(), 10) / 1000.0);
    }
}
