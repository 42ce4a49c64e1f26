//! Cost of `millpond top` with two thousand additional threads, compared with programs that list threads.
//!
//! As text: own CPU time from the middle of one second to the middle of the next. On a terminal, compared with programs that draw: the mean of four
//! seconds, because `btop` reads every two seconds, and reads processes, not threads.

use super::prstat::{Crowd, refresh};
use super::sample::each;
use crate::line::{Goal, Line, Pairs};
use crate::trial::{Bench, Beside, Trouble, find_program};
use std::thread::sleep;
use std::time::Duration;

/// Number of sleeping threads.
const THREADS: usize = 2_000;

/// Half a percent of a CPU is 5 ms per second.
const GOAL: Goal = Goal::OursAtMost(5_000.0);

const NAME: &str = "top: a second with 2,000 threads";

/// Measures these goals.
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
                refresh(1, bench, &["top", "--batch", "1"], program, arguments),
                goal,
            ),
            Err(why) => Line::unresolvable(NAME, &peer, goal, why),
        }
    };
    let mut lines = peers.map(line).to_vec();
    for (program, words) in [("htop", "htop -d 10"), ("btop", "btop")] {
        let pairs = crowd.as_ref().map_err(Clone::clone).and_then(|_| drawn(bench, program, words));
        lines.push(Line::found(DRAWN, words, "us", pairs, Goal::RatioAtMost(1.0)));
    }
    lines
}

const DRAWN: &str = "top: a second with 2,000 threads on a terminal";

/// Two reports of the slowest program.
const SPAN: u32 = 4;

fn drawn(bench: &Bench, program: &str, words: &str) -> Result<Pairs, Trouble> {
    find_program(program)?;
    let ours = Beside::on_terminal(&format!("'{}' top", bench.millpond.display()))?;
    let peer = Beside::on_terminal(words)?;
    sleep(Duration::from_secs(3));
    each(SPAN, bench.pairs, &ours, || peer.cpu_time().map(|time| time.0))
}
