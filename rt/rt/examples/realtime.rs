//! A thread becomes a real-time thread, works, and checks whether it was disturbed.
//!
//! ```text
//! cargo run --manifest-path rt/Cargo.toml -p millpond-rt --example realtime [CPUS]
//! ```

#![allow(clippy::print_stdout)]

use millpond_rt::realtime::{Calm, SchedulingClass, Setup, Want};
use std::error::Error;
use std::hint::black_box;
use std::time::Duration;

/// The time-critical work: it allocates, and uses stack.
#[inline(never)]
fn work() {
    black_box([1u8; 64 << 10]);
    black_box(vec![1u8; 1 << 20]);
}

fn show_section(when: &str, calm: &Calm) {
    let section = calm.begin();
    work();
    println!("{when}: {}", section.end());
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut setup = Setup::new()
        .require(Want::Heap(4 << 20))
        .wish(Want::Memory)
        .wish(Want::Stack)
        .wish(Want::IdleLatency(Duration::ZERO))
        .wish(Want::TimerSlack(Duration::from_nanos(1)))
        .wish(Want::Class(SchedulingClass::Fifo { priority: 10 }));
    if let Some(cpus) = std::env::args().nth(1) {
        setup = setup.require(Want::Cpus(cpus.parse()?));
    }
    let calm = Calm::open();
    show_section("before", &calm);
    let realtime = setup.begin()?;
    for outcome in realtime.outcomes() {
        println!("{outcome}");
    }
    show_section("after", &calm);
    realtime.undo()?;
    Ok(())
}
