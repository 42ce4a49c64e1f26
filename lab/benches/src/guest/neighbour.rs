//! Effect on a fenced CPU while sets are created, resized and destroyed elsewhere.
//!
//! CPU 3 is a set of its own with a thread that wakes up each millisecond. Meanwhile, interleaved: (1) Millpond's commands
//! create, resize and destroy sets of CPUs 1 and 2; (2) bare writes resize a bare partition of the same CPUs, as many as
//! there were commands and for as long; (3) as many commands only read (`psrset -q`); (4) no activity, for as long. A pair is
//! the maximum lateness of the first and the second. Emulated CPUs share few real ones, so that a thread that computes
//! anywhere delays all. The third shows how much of the first one's lateness is due to that.

use crate::line::Pairs;
use crate::trial::{CGROUP, Trouble, run_ms, told};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Maximum total number of created sets.
const SETS: usize = 1000;
/// Maximum total time of creating sets: an emulated machine may be slow.
const BUDGET: Duration = Duration::from_secs(25);

/// The measurements.
pub struct Felt {
    /// Maximum lateness in microseconds: during Millpond's commands, and during bare writes.
    pub pairs: Pairs,
    /// The maximum of each round with commands that only read, in microseconds.
    pub looking: Vec<f64>,
    /// The maximum of each idle round, in microseconds.
    pub idle: Vec<f64>,
    /// Number of sets that were created, resized and destroyed.
    pub sets: usize,
}

/// Measures this many rounds.
///
/// # Errors
/// A set cannot be created, or the waking thread does not answer.
pub fn measure(pairs: usize) -> Result<Felt, Trouble> {
    run_ms(Command::new("psrset").args(["-c", "3"]))?;
    let mut command = Command::new("psrset");
    command.args(["-e", "1"]).arg(told("find this program", std::env::current_exe())?);
    let mut sleeper = Sleeper::start(command, 3)?;
    let mut felt = Felt { pairs: Pairs::default(), looking: Vec::new(), idle: Vec::new(), sets: 0 };
    let turn = BUDGET.div_f64(f64::from(u32::try_from(pairs.max(1)).unwrap_or(u32::MAX)));
    let each = SETS.div_ceil(pairs.max(1));
    for _ in 0..pairs {
        let begin = Instant::now();
        sleeper.take_us()?;
        let mut sets = 0;
        while sets < each && (sets == 0 || begin.elapsed() < turn) {
            change_set()?;
            sets += 1;
        }
        felt.sets += sets;
        let took = begin.elapsed();
        let ours = sleeper.take_us()?;
        let peer = with_bare_writes(sets * 3, took, &mut sleeper)?;
        for _ in 0..sets * 3 {
            run_ms(Command::new("psrset").arg("-q"))?;
        }
        felt.looking.push(sleeper.take_us()?);
        sleep(took);
        felt.idle.push(sleeper.take_us()?);
        felt.pairs.push(ours, peer);
    }
    drop(sleeper);
    run_ms(Command::new("psrset").args(["-d", "1"]))?;
    Ok(felt)
}

fn change_set() -> Result<(), Trouble> {
    run_ms(Command::new("psrset").args(["-c", "1"]))?;
    run_ms(Command::new("psrset").args(["-a", "2", "2"]))?;
    run_ms(Command::new("psrset").args(["-d", "2"]))?;
    Ok(())
}

/// As many writes in the same time: `cpuset.cpus` of a partition, alternately one CPU more and one less.
fn with_bare_writes(writes: usize, took: Duration, sleeper: &mut Sleeper) -> Result<f64, Trouble> {
    let dir = Path::new(CGROUP).join("bare");
    told("make a cgroup", fs::create_dir(&dir))?;
    told("give it CPUs", fs::write(dir.join("cpuset.cpus"), "1"))?;
    told("make it a partition", fs::write(dir.join("cpuset.cpus.partition"), "root"))?;
    sleeper.take_us()?;
    let begin = Instant::now();
    for write in 1..=writes {
        let cpus = if write % 2 == 0 { "1" } else { "1-2" };
        told("resize it", fs::write(dir.join("cpuset.cpus"), cpus))?;
        let share = u32::try_from(write).unwrap_or(u32::MAX);
        let due = took.mul_f64(f64::from(share) / f64::from(u32::try_from(writes).unwrap_or(u32::MAX)));
        sleep(due.saturating_sub(begin.elapsed()));
    }
    let worst = sleeper.take_us()?;
    told("remove it", fs::remove_dir(&dir))?;
    Ok(worst)
}

/// The waking thread, in a program of its own.
pub struct Sleeper {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Sleeper {
    /// Starts it on a CPU. `command` is this program, or a command that executes it.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(mut command: Command, cpu: usize) -> Result<Sleeper, Trouble> {
        command.args(["guest", "lateness", &cpu.to_string()]);
        let mut child = told("start it", command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn())?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => Ok(Sleeper { child, input, output: BufReader::new(output) }),
            _ => Err("it has no pipes".into()),
        }
    }

    /// The maximum lateness since the last call, in microseconds.
    ///
    /// # Errors
    /// It does not answer.
    pub fn take_us(&mut self) -> Result<f64, Trouble> {
        told("ask for the lateness", self.input.write_all(b"\n").and_then(|()| self.input.flush()))?;
        let mut line = String::new();
        told("read the lateness", self.output.read_line(&mut line))?;
        let ns: f64 = line.trim().parse().map_err(|_| format!("the sleeper said `{}`", line.trim()))?;
        Ok(ns / 1e3)
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
