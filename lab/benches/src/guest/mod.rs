//! The part that runs inside a virtual machine: this same program, which measures there and prints pairs as JSON.
//!
//! ```text
//! millpond-benches guest change PAIRS       psrset -c and -d as programs, compared with the bare writes as a program
//! millpond-benches guest library PAIRS      the same without starting programs: the machine is kept open
//! millpond-benches guest fence PAIRS CPUS      creating and removing a fence, compared with the same writes by system calls
//! millpond-benches guest neighbour PAIRS    wake-ups on a fenced CPU while sets change elsewhere
//! millpond-benches guest lateness CPU       wakes up each millisecond; prints the maximum lateness for each line read
//! millpond-benches guest wakes BUSY ROUNDS SLICE_US         wake-up latency of a thread while others only compute
//! millpond-benches guest together BUSY ROUNDS COPIES WORDS  run time of simultaneous copies of a command
//! millpond-benches guest exchange ROUNDS                    a byte to another process and back
//! millpond-benches guest pods ROUNDS                        services and batch jobs in pods, by pools, weights and lists
//! ```

mod change;
mod classes;
mod fence;
mod lateness;
mod library;
pub mod neighbour;
mod period;
mod pods;

use crate::line::Pairs;
use crate::trial::Trouble;
use serde_json::{Value, json};

/// Runs the measurement that the words name; returns its output.
///
/// # Errors
/// The measurement failed.
pub fn run(words: &[String]) -> Result<Option<Value>, Trouble> {
    let number = |word: &str| word.parse::<usize>().map_err(|error| format!("{word}: {error}"));
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["change", pairs] => change::measure(number(pairs)?).map(|pairs| Some(value(&pairs))),
        ["library", pairs] => library::measure(number(pairs)?).map(|pairs| Some(value(&pairs))),
        ["fence", pairs, cpus] => {
            let found = fence::measure(number(pairs)?, cpus)?;
            Ok(Some(json!({ "up": value(&found.up), "down": value(&found.down), "writes": found.writes })))
        }
        ["neighbour", pairs] => neighbour::measure(number(pairs)?)
            .map(|felt| Some(json!({ "pairs": value(&felt.pairs), "looking": felt.looking, "idle": felt.idle, "sets": felt.sets }))),
        ["lateness", cpu] => lateness::serve(number(cpu)?).map(|()| None),
        ["wakes", busy, rounds, slice_us] => {
            let slice = std::time::Duration::from_micros(number(slice_us)? as u64);
            let slice = Some(slice).filter(|slice| !slice.is_zero());
            classes::wakes(number(busy)?, number(rounds)?, slice).map(|late_us| Some(json!(late_us)))
        }
        ["together", busy, rounds, copies, ..] => {
            let took_ms = classes::together(number(busy)?, number(rounds)?, number(copies)?, &words[4..]);
            took_ms.map(|took_ms| Some(json!(took_ms)))
        }
        ["exchange", rounds] => classes::exchange(number(rounds)?).map(|took_us| Some(json!(took_us))),
        ["pods", rounds] => pods::measure(number(rounds)?).map(Some),
        ["echo"] => classes::echo().map(|()| None),
        _ => Err(format!("no such measurement: {}", words.join(" "))),
    }
}

fn value(pairs: &Pairs) -> Value {
    json!({ "ours": pairs.ours, "peer": pairs.peer })
}
