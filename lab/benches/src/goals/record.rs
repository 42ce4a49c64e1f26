//! Cost and output size of `millpond record` with two thousand additional threads, compared with other recorders.
//!
//! Costs are means of five seconds, because threads and their placement are only read every few seconds. The peers write each second:
//! `atop -w` all processes, `sadc -S ALL` figures of the machine without processes.

use super::prstat::{Crowd, refresh};
use super::sample::ROUND;
use crate::line::{Goal, Line, Pairs};
use crate::trial::{Bench, Trouble, find_program, told};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Number of sleeping threads.
const THREADS: usize = 2_000;

/// Half a percent of a CPU is 5 ms per second.
const CPU: Goal = Goal::OursAtMost(5_000.0);
/// One week, one frame per second, in 1 GiB.
const BYTES: Goal = Goal::OursAtMost(1_073_741_824.0 / 604_800.0);

const SECOND: &str = "record: CPU time of a second with 2,000 threads";
const FRAME: &str = "record: bytes a second with 2,000 threads";

/// Seconds of recording per measured size.
const SECONDS: u32 = 60;
/// Number of size measurements.
const SIZES: usize = 3;

/// Path of sysstat's collector, which is on no search path.
const SADC: &str = "/usr/lib/sysstat/sadc";

/// Measures these goals.
pub fn measure(bench: &Bench) -> Vec<Line> {
    let crowd = match Crowd::gather(THREADS) {
        Ok(crowd) => crowd,
        Err(why) => return vec![Line::unresolvable(SECOND, "atop -w", CPU, why)],
    };
    let place = |name: &str| bench.scratch.join(name).display().to_string();
    let (ours, atop, sadc) = (place("cost"), place("cost.atop"), place("cost.sadc"));
    let record = ["record", "--to", &ours];
    let mut lines = Vec::new();
    for goal in [CPU, Goal::RatioAtMost(1.0)] {
        lines.push(Line::found(
            SECOND,
            "atop -w",
            "us",
            refresh(ROUND, bench, &record, "atop", &["-w", &atop, "1"]),
            goal,
        ));
    }
    let peer = refresh(ROUND, bench, &record, SADC, &["-S", "ALL", "1", &sadc]);
    lines.push(Line::found(SECOND, "sadc -S ALL", "us", peer, Goal::RatioAtMost(1.0)));
    for (peer, goal) in [("atop", BYTES), ("sadc", Goal::None)] {
        lines.push(Line::found(FRAME, peer, "bytes", sizes(bench, peer), goal));
    }
    drop(crowd);
    lines
}

/// Bytes per second of both, recorded at the same time.
fn sizes(bench: &Bench, peer: &str) -> Result<Pairs, Trouble> {
    let mut pairs = Pairs::default();
    for turn in 0..SIZES {
        let ours = bench.scratch.join(format!("size-{peer}-{turn}"));
        let theirs = bench.scratch.join(format!("size-{turn}.{peer}"));
        let count = (SECONDS + 1).to_string();
        let mut command = match peer {
            "atop" => Command::new(find_program("atop")?),
            _ => Command::new(SADC),
        };
        match peer {
            "atop" => command.arg("-w").arg(&theirs).args(["1", &count]),
            _ => command.args(["-S", "ALL", "1", &count]).arg(&theirs),
        };
        let length = SECONDS.to_string();
        let path = ours.display().to_string();
        let both =
            [start(&mut bench.command(&["record", "--to", &path, "--for", &length]))?, start(&mut command)?];
        for mut child in both {
            let status = told("wait for a recorder", child.wait())?;
            if !status.success() {
                return Err(format!("a recorder ended: {status}"));
            }
        }
        pairs.push(size(&ours)? / f64::from(SECONDS), size(&theirs)? / f64::from(SECONDS));
    }
    Ok(pairs)
}

fn start(command: &mut Command) -> Result<Child, Trouble> {
    let name = command.get_program().to_string_lossy().into_owned();
    told(
        &format!("start {name}"),
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn(),
    )
}

/// Size of a file, or of all files of a directory.
fn size(path: &Path) -> Result<f64, Trouble> {
    let data = told("read a size", fs::metadata(path))?;
    let mut bytes = data.len();
    if data.is_dir() {
        bytes = 0;
        for entry in told("read a directory", fs::read_dir(path))? {
            bytes += told("read a size", entry.and_then(|entry| entry.metadata()))?.len();
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a size needs few digits")]
    Ok(bytes as f64)
}
