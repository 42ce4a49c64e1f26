//! Loads a scheduler with a defect and prints how the kernel ends it. For guests; `tests/vm` runs it.
//!
//! ```text
//! adversary stall|kick|idle|none|bare SECONDS
//! ```
//! `stall`: threads whose names begin with `stall` are never queued. `kick`: CPUs are kicked without end. `idle`: nothing is dispatched.
//! `none`: no defect. `bare`: no rules; shows the cost of sched_ext itself. It prints `attached`, then `ended: KIND REASON (MESSAGE)` when
//! the kernel ended it, or `at work` after SECONDS.
#![allow(clippy::print_stdout, reason = "a test reads it")]

use millpond_bpf::classes::{Classes, Options, Places};
use std::error::Error;
use std::fs::read_to_string;
use std::time::{Duration, Instant};

/// All slices have this length. Levels change as in no real table: a level falls to 0 and rises to the top.
const SLICE_NS: u64 = 20_000_000;
const TOP: u64 = 59;
const TS_LEVELS: usize = 60;
const FX_LEVELS: usize = 61;

/// `struct rule_tables` as words.
fn tables() -> Vec<u64> {
    // The slice; the level after it (low word) and the level after a sleep (high word); the level after a wait, and a longest wait of 0.
    let ts = std::iter::repeat_n([SLICE_NS, TOP << 32, TOP], TS_LEVELS).flatten();
    ts.chain(std::iter::repeat_n(SLICE_NS, FX_LEVELS + 1)).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let usage = "usage: adversary stall|kick|idle|none|bare SECONDS";
    let [what, seconds] = words.as_slice() else { return Err(usage.into()) };
    let (defect, bare) = match what.as_str() {
        "none" => (0, false),
        "stall" => (1, false),
        "kick" => (2, false),
        "idle" => (3, false),
        "bare" => (0, true),
        _ => return Err(usage.into()),
    };
    let possible = read_to_string("/sys/devices/system/cpu/possible")?;
    let last: u32 = possible.trim().rsplit(['-', ',']).next().unwrap_or_default().parse()?;
    let options = Options {
        partial: false,
        timeout_ms: 5_000,
        hotplug_seq: read_to_string("/sys/kernel/sched_ext/hotplug_seq")?.trim().parse()?,
        rescue_ns: 2_000_000_000,
        parent_pays: true,
        parity_ns: 0,
        audit: true,
        defect,
        bare,
    };
    let mut classes = Classes::open(&Places::one_queue(last + 1), &options, &tables(), None)?;
    classes.attach()?;
    println!("attached");
    let control = classes.control()?;
    let until = Instant::now() + Duration::from_secs(seconds.parse()?);
    while Instant::now() < until {
        if let Some(ending) = control.ending() {
            println!("ended: {} {} ({})", ending.kind, ending.reason, ending.message);
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    println!("at work");
    Ok(())
}
