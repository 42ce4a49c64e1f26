//! A rayon pool whose workers are idle after their work, with another thread that computes until the process is
//! killed.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use rayon::prelude::*;
use std::hint::black_box;

const WORKERS: usize = 4;

fn main() {
    rayon::ThreadPoolBuilder::new().num_threads(WORKERS).build_global().unwrap();
    for round in 0..50_u64 {
        black_box((0..1_000_u64).into_par_iter().map(|n| n * round).sum::<u64>());
    }
    println!("ready");
    let mut sum = 0_u64;
    loop {
        sum = black_box(sum.wrapping_add(1));
    }
}
