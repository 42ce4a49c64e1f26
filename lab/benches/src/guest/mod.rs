//! What runs inside a virtual machine: this same program, asked to measure something there and to say pairs as JSON.
//!
//! ```text
//! millpond-benches guest change PAIRS       psrset -c and -d as programs, beside the bare writes as a program
//! millpond-benches guest library PAIRS      the same without a start of programs: a machine that is kept open
//! millpond-benches guest neighbour PAIRS    wake-ups on a fenced CPU while sets change elsewhere
//! millpond-benches guest lateness CPU       wakes up at each millisecond; tells the worst lateness for each line read
//! ```

mod change;
mod lateness;
mod library;
pub mod neighbour;

use crate::line::Pairs;
use crate::trial::Trouble;
use serde_json::{Value, json};

/// The cgroup v2 mount of the guest, which is ours alone.
const CGROUP: &str = "/sys/fs/cgroup";

/// Does what the words say, and gives what is to be printed.
///
/// # Errors
/// It could not be measured.
pub fn run(words: &[String]) -> Result<Option<Value>, Trouble> {
    let number = |word: &str| word.parse::<usize>().map_err(|error| format!("{word}: {error}"));
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["change", pairs] => change::measure(number(pairs)?).map(|pairs| Some(value(&pairs))),
        ["library", pairs] => library::measure(number(pairs)?).map(|pairs| Some(value(&pairs))),
        ["neighbour", pairs] => neighbour::measure(number(pairs)?)
            .map(|felt| Some(json!({ "pairs": value(&felt.pairs), "looking": felt.looking, "idle": felt.idle, "sets": felt.sets }))),
        ["lateness", cpu] => lateness::serve(number(cpu)?).map(|()| None),
        _ => Err(format!("no such measurement: {}", words.join(" "))),
    }
}

fn value(pairs: &Pairs) -> Value {
    json!({ "ours": pairs.ours, "peer": pairs.peer })
}
