//! Priority inversion on one CPU: a low, a middle and a high thread, under a plain lock and under one with priority inheritance.
//!
//! ```text
//! cargo run --manifest-path rt/Cargo.toml -p millpond-rt --example inversion
//! ```
//!
//! The high thread waits as long as the middle one computes, or only as long as the low one holds the lock.

#![allow(clippy::print_stdout)]

mod meeting;

use meeting::{Lock, Work, meet};
use millpond_rt::Mutex;
use std::process::ExitCode;

/// The middle thread's computing times, in milliseconds.
const MIDDLE: [u64; 3] = [20, 60, 180];

struct Ours(Mutex<()>);

impl Lock for Ours {
    fn hold(&self, section: &mut dyn FnMut()) -> Result<(), String> {
        let _held = self.0.lock().map_err(|error| error.to_string())?;
        section();
        Ok(())
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("cannot show an inversion: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let lock = |made: Result<Mutex<()>, _>| {
        made.map(Ours).map_err(|error: millpond_rt::LockRefusal| error.to_string())
    };
    let locks = [("plain", lock(Mutex::plain(()))?), ("inherits", lock(Mutex::new(()))?)];
    let mut table = String::from("lock      the middle one computes  the high one waits  and gets it\n");
    for (name, lock) in &locks {
        for middle in MIDDLE {
            let meeting = meet(lock, Work { low: 10, middle, high: 5 })?;
            println!(
                "{name}, the middle one computes {middle} ms; = has the lock, - waits for it, # computes"
            );
            println!("{}", meeting.timeline(4));
            let tenths = meeting.waited().unwrap_or(0) / 100_000;
            let first = if meeting.is_inverted() == Some(true) { "behind" } else { "before" };
            table += &format!(
                "{name:<8}  {middle:>20} ms  {:>14}.{} ms  {first} the middle one ends\n",
                tenths / 10,
                tenths % 10
            );
        }
    }
    print!("{table}");
    Ok(())
}
