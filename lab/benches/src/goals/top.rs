//! What `millpond top` costs: a second with two thousand threads more, beside programs that list threads.
//!
//! The own CPU time from the middle of one second to the middle of the next, as text: drawing on a terminal adds what the terminal takes.

use super::prstat::{Crowd, refresh};
use crate::line::{Goal, Line};
use crate::trial::Bench;

/// Threads that do nothing.
const THREADS: usize = 2_000;

/// Half a percent of a CPU is 5 ms of a second.
const GOAL: Goal = Goal::OursAtMost(5_000.0);

const NAME: &str = "top: a second with 2,000 threads";

/// The lines of these goals.
pub fn measure(bench: &Bench) -> Vec<Line> {
    let peers: [(&str, &[&str], Goal); 3] = [
        ("top", &["-b", "-H", "-d", "1"], GOAL),
        ("top", &["-b", "-H", "-d", "1"], Goal::RatioAtMost(1.0)),
        ("pidstat", &["-t", "1"], Goal::RatioAtMost(1.0)),
    ];
    let crowd = Crowd::gather(THREADS);
    let line = |(program, arguments, goal): (&str, &[&str], Goal)| {
        let peer = format!("{program} {}", arguments.join(" "));
        match &crowd {
            Ok(_) => Line::found(
                NAME,
                &peer,
                "us",
                refresh(bench, &["top", "--batch", "1"], program, arguments),
                goal,
            ),
            Err(why) => Line::unresolvable(NAME, &peer, goal, why),
        }
    };
    peers.map(line).to_vec()
}
