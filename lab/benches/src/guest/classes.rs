//! Measurements of a scheduler: wake-up latency of one thread while other threads only compute, the cost of a byte to another process and
//! back, and the run time of programs that run in parallel.

use super::period::{Period, now};
use crate::trial::{Trouble, told};
use rustix::time::ClockId;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Period of an interactive thread; see `WORK` for its run time.
const PERIOD: Duration = Duration::from_millis(5);
const WORK: Duration = Duration::from_micros(100);
/// Wake-ups per round, unless that takes too long.
const WAKES: usize = 100;
const ROUND: Duration = Duration::from_secs(10);
/// Time for levels to settle.
const WARM_UP: Duration = Duration::from_secs(3);
/// Bytes exchanged per round.
const BYTES: u32 = 2000;

/// Wake-up latencies in microseconds, round by round, while `busy` threads only compute. `slice` is the slice that the waking
/// thread requests from the kernel's scheduler.
///
/// # Errors
/// The slice cannot be set.
pub fn wakes(busy: usize, rounds: usize, slice: Option<Duration>) -> Result<Vec<Vec<f64>>, Trouble> {
    compute(busy);
    if let Some(slice) = slice {
        ask_for(slice)?;
    }
    let mut period = Period::begin(PERIOD);
    let warm = now(ClockId::Monotonic) + WARM_UP;
    while now(ClockId::Monotonic) < warm {
        wake(&mut period);
    }
    let round = |_| {
        let (mut late_us, until) = (Vec::new(), now(ClockId::Monotonic) + ROUND);
        while late_us.len() < WAKES && now(ClockId::Monotonic) < until {
            late_us.push(wake(&mut period).as_secs_f64() * 1e6);
        }
        late_us
    };
    Ok((0..rounds).map(round).collect())
}

/// Milliseconds until all of several simultaneous copies of a command have ended, for each round, while `busy` threads only compute.
///
/// # Errors
/// The command cannot be started, or fails.
pub fn together(busy: usize, rounds: usize, copies: usize, words: &[String]) -> Result<Vec<f64>, Trouble> {
    let Some((program, words)) = words.split_first() else { return Err("there is no command".into()) };
    compute(busy);
    std::thread::sleep(if busy > 0 { WARM_UP } else { Duration::ZERO });
    let round = |_| {
        let begin = Instant::now();
        let start = |_| {
            let mut command = Command::new(program);
            told("start it", command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).spawn())
        };
        let started: Vec<Child> = (0..copies).map(start).collect::<Result<_, _>>()?;
        for mut child in started {
            let status = told("wait for it", child.wait())?;
            if !status.success() {
                return Err(format!("{program}: {status}"));
            }
        }
        Ok(begin.elapsed().as_secs_f64() * 1e3)
    };
    // Discard the first round, which loads it into memory.
    (0..=rounds).map(round).skip(1).collect()
}

/// Microseconds of a byte to another process and back, round by round.
///
/// # Errors
/// The other process cannot be started, or ends early.
pub fn exchange(rounds: usize) -> Result<Vec<f64>, Trouble> {
    let mut command = Command::new(told("find this program", std::env::current_exe())?);
    command.args(["guest", "echo"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut other = told("start it", command.spawn())?;
    let (Some(mut there), Some(mut back)) = (other.stdin.take(), other.stdout.take()) else {
        return Err("it has no pipes".into());
    };
    let mut byte = [0];
    let mut round = || {
        let begin = Instant::now();
        for _ in 0..BYTES {
            there.write_all(&byte).and_then(|()| back.read_exact(&mut byte))?;
        }
        Ok(begin.elapsed().as_secs_f64() * 1e6 / f64::from(BYTES))
    };
    let result: std::io::Result<Vec<f64>> = (0..=rounds).map(|_| round()).skip(1).collect();
    drop(there);
    told("wait for it", other.wait())?;
    told("talk to it", result)
}

/// The other process of an exchange.
///
/// # Errors
/// It cannot answer.
pub fn echo() -> Result<(), Trouble> {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut byte = [0];
    while told("read", input.read(&mut byte))? == 1 {
        told("answer", output.write_all(&byte).and_then(|()| output.flush()))?;
    }
    Ok(())
}

/// Starts threads that only compute until this program ends.
fn compute(threads: usize) {
    for _ in 0..threads {
        std::thread::spawn(|| {
            let mut number = 0_u64;
            loop {
                number = std::hint::black_box(number.wrapping_add(1));
            }
        });
    }
}

/// Wakes up and works; returns the latency.
fn wake(period: &mut Period) -> Duration {
    let late = period.wake();
    let until = now(ClockId::ThreadCPUTime) + WORK;
    while now(ClockId::ThreadCPUTime) < until {}
    late
}

/// Requests slices of this length from the kernel's scheduler (`sched_runtime` of a thread outside the deadline class, from Linux 6.12 on).
fn ask_for(slice: Duration) -> Result<(), Trouble> {
    let mut wish = libc::sched_attr {
        size: 0,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX),
        sched_deadline: 0,
        sched_period: 0,
    };
    wish.size = u32::try_from(size_of_val(&wish)).unwrap_or(0);
    // SAFETY: the structure is live, initialised and contains its size; 0 is the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const wish, 0) };
    if result == 0 {
        Ok(())
    } else {
        Err(format!("cannot have a slice: {}", std::io::Error::last_os_error()))
    }
}
