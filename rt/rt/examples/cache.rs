//! A cache of objects that stay constructed while they are free: used a thousand times, constructed once.
//!
//! ```text
//! cargo run --manifest-path rt/Cargo.toml -p millpond-rt --example cache
//! UMEM_DEBUG=default cargo run --manifest-path rt/Cargo.toml -p millpond-rt --example cache
//! ```
//!
//! Where buffers are checked, each allocation constructs the object, so that all memory of a free buffer can be checked.

#![allow(clippy::print_stdout)]

use millpond_rt::ObjectCache;
use std::error::Error;
use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};

const TIMES: u32 = 1000;

static MADE: AtomicU32 = AtomicU32::new(0);
static ENDED: AtomicU32 = AtomicU32::new(0);

/// A costly object: a buffer for a line.
struct Line(Vec<u8>);

impl Line {
    fn new() -> Line {
        MADE.fetch_add(1, Ordering::Relaxed);
        Line(Vec::with_capacity(4096))
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        ENDED.fetch_add(1, Ordering::Relaxed);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let lines = ObjectCache::new(c"lines", Line::new)?;
    for number in 0..TIMES {
        let mut line = lines.get().ok_or("there is no memory")?;
        write!(line.0, "line {number}")?;
        // Returned in its constructed state: empty, with its capacity.
        line.0.clear();
    }
    drop(lines);
    println!(
        "used {TIMES} times, made {}, ended {}",
        MADE.load(Ordering::Relaxed),
        ENDED.load(Ordering::Relaxed)
    );
    Ok(())
}
