//! Rounds: an operation repeated many times and timed as a whole, and the median of many rounds.

use crate::Error;
use crate::hackbench::{self, HackbenchSpec};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, WaitOptions, waitpid};
use rustix::thread::{CpuSet, clock_nanosleep_absolute, sched_setaffinity, set_current_timer_slack};
use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};
use schemars::JsonSchema;
use serde::Serialize;
use std::hint::spin_loop;
use std::io::{self, Read, Write};
use std::num::{NonZeroU32, NonZeroU64};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Rounds per figure.
const ROUNDS: usize = 31;
/// Operations per round: messages, answers.
const CALLS: u32 = 1_000;
/// Writes of a word per round, for each of two threads.
const WORDS: u32 = 5_000;
/// Lines read per round.
const LINES: u32 = 100_000;
/// Bytes per cache line.
const LINE: usize = 64;
/// Bytes per message, as in hackbench.
const MESSAGE: usize = 100;
/// Number of sockets with unread messages: those of ten groups of hackbench.
const SOCKETS: u32 = 200;
/// Messages in each socket.
const DEPTHS: [u32; 7] = [1, 5, 10, 20, 50, 100, 200];
/// Maximum number of messages to try in one socket.
const HOLDS_MAX: u32 = 1 << 20;
/// Number of measured sleeps, and their length.
const SLEEPS: usize = 501;
const SLEEP_NS: i64 = 1_000_000;
/// Rounds of the measurements with many messages or processes.
const QUEUED_ROUNDS: usize = 9;
const PROCESS_ROUNDS: usize = 5;
/// How long two threads share a CPU to measure their turns.
const SHARING: Duration = Duration::from_millis(1_200);
/// A thread that sees at least this gap between two reads of the clock was preempted.
const AWAY: Duration = Duration::from_micros(300);
/// Minimum number of turns for a result.
const TURNS_MIN: usize = 8;
/// Timeout of a thread that spins for the other one, in case other programs take its CPU.
const PATIENCE: Duration = Duration::from_secs(5);

/// A figure with its quartiles, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Figure {
    /// Half of the rounds took less.
    pub median: f64,
    /// A quarter of the rounds took less.
    pub low: f64,
    /// A quarter of the rounds took more.
    pub high: f64,
    /// The number of rounds.
    pub rounds: usize,
}

impl Figure {
    /// The figure of these rounds; zeros without rounds.
    fn of(mut rounds: Vec<f64>) -> Figure {
        rounds.sort_by(f64::total_cmp);
        let at =
            |quarters: usize| rounds.get((rounds.len().max(1) - 1) * quarters / 4).copied().unwrap_or(0.0);
        Figure { median: at(2), low: at(1), high: at(3), rounds: rounds.len() }
    }
}

/// Messages while many wait.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Queued {
    /// Messages written before the first was read.
    pub messages: u32,
    /// Time of one message, written or read, in nanoseconds.
    pub ns: Figure,
}

/// Binds the calling thread.
fn bind(cpu: u32) -> Result<(), Error> {
    let refused = |source| Error::Bind { cpu, source };
    let at = usize::try_from(cpu).unwrap_or(usize::MAX);
    if at >= CpuSet::MAX_CPU {
        return Err(refused(io::ErrorKind::InvalidInput.into()));
    }
    let mut set = CpuSet::new();
    set.set(at);
    sched_setaffinity(None, &set).map_err(|errno| refused(errno.into()))
}

/// Runs a closure in a thread of its own on a CPU.
fn on<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    cpu: u32,
    work: impl FnOnce() -> io::Result<T> + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, Result<T, Error>>, Error> {
    named(scope, move || {
        bind(cpu)?;
        work().map_err(|source| Error::Probe { source })
    })
}

/// Runs a closure in a thread of its own.
fn named<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> Result<T, Error> + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, Result<T, Error>>, Error> {
    let named = thread::Builder::new().name("probe".to_owned());
    named.spawn_scoped(scope, work).map_err(|source| Error::StartThread { index: 0, of: 2, source })
}

fn joined<T>(thread: ScopedJoinHandle<'_, Result<T, Error>>) -> Result<T, Error> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Nanoseconds per operation of a round.
fn each(passed: Duration, count: u32) -> f64 {
    passed.as_secs_f64() * 1e9 / f64::from(count)
}

/// A message written and read by the same thread: half of both.
pub(super) fn message(cpu: u32) -> Result<Figure, Error> {
    let (mut near, mut far) = pair()?;
    let work = move || {
        let mut bytes = [0; MESSAGE];
        let round = |_| {
            let began = Instant::now();
            for _ in 0..CALLS {
                near.write_all(&bytes)?;
                far.read_exact(&mut bytes)?;
            }
            Ok(each(began.elapsed(), 2 * CALLS))
        };
        (0..ROUNDS).map(round).collect::<io::Result<Vec<f64>>>()
    };
    thread::scope(|scope| joined(on(scope, cpu, work)?)).map(Figure::of)
}

/// Many unread messages, in as many sockets as ten groups of hackbench have receivers: with many messages, their data is no longer in the caches.
pub(super) fn queued(cpu: u32) -> Result<Vec<Queued>, Error> {
    let pairs = (0..SOCKETS).map(|_| pair()).collect::<Result<Vec<_>, Error>>()?;
    let work = move || {
        let (mut near, mut far): (Vec<UnixStream>, Vec<UnixStream>) = pairs.into_iter().unzip();
        near.iter().try_for_each(|socket| socket.set_nonblocking(true))?;
        let mut all = Vec::new();
        for depth in DEPTHS {
            let (mut messages, mut rounds) = (0, Vec::new());
            for _ in 0..QUEUED_ROUNDS {
                let began = Instant::now();
                messages = fill_and_empty(&mut near, &mut far, depth)?;
                rounds.push(each(began.elapsed(), 2 * messages.max(1)));
            }
            all.push(Queued { messages, ns: Figure::of(rounds) });
        }
        Ok(all)
    };
    thread::scope(|scope| joined(on(scope, cpu, work)?))
}

/// Writes this many messages to each socket, or as many as fit, and then reads all. Returns their number.
fn fill_and_empty(near: &mut [UnixStream], far: &mut [UnixStream], depth: u32) -> io::Result<u32> {
    let (mut bytes, mut waiting) = ([0; MESSAGE], vec![0u32; near.len()]);
    for _ in 0..depth {
        for (socket, waiting) in near.iter_mut().zip(&mut waiting) {
            *waiting += u32::from(takes(socket, &bytes)?);
        }
    }
    for (socket, waiting) in far.iter_mut().zip(&waiting) {
        (0..*waiting).try_for_each(|_| socket.read_exact(&mut bytes))?;
    }
    Ok(waiting.iter().sum())
}

/// Writes one more message if the socket has room for it; returns whether it had.
fn takes(socket: &mut UnixStream, message: &[u8]) -> io::Result<bool> {
    match socket.write(message) {
        Ok(MESSAGE) => Ok(true),
        Ok(_) => Err(io::ErrorKind::WriteZero.into()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

/// Number of unread messages before a writer waits.
pub(super) fn holds(cpu: u32) -> Result<u32, Error> {
    let (mut near, _far) = pair()?;
    let work = move || {
        near.set_nonblocking(true)?;
        let mut count = 0;
        while count < HOLDS_MAX && takes(&mut near, &[0; MESSAGE])? {
            count += 1;
        }
        Ok(count)
    };
    thread::scope(|scope| joined(on(scope, cpu, work)?))
}

/// Run time of hackbench's processes, which end after one message in each direction.
pub(super) fn processes(cpu: u32) -> Result<Figure, Error> {
    let work = || {
        bind(cpu)?;
        let spec = HackbenchSpec { loops: NonZeroU32::MIN, ..HackbenchSpec::default() };
        let round = |_| Ok(hackbench::run(&spec, &AtomicBool::new(false), &mut |_| ())?.seconds * 1e9);
        (0..PROCESS_ROUNDS).map(round).collect::<Result<Vec<f64>, Error>>()
    };
    thread::scope(|scope| joined(named(scope, work)?)).map(Figure::of)
}

/// Lateness of a thread that sleeps until a given time, alone on its CPU.
pub(super) fn timer(cpu: u32) -> Result<Figure, Error> {
    let work = || {
        // By default the kernel may delay the wake-up of a time-sharing thread by 50 us, to wake several threads together.
        set_current_timer_slack(Some(NonZeroU64::MIN))?;
        let now = || clock_gettime(ClockId::Monotonic);
        let sleep = |_| {
            let due = now() + Timespec { tv_sec: 0, tv_nsec: SLEEP_NS };
            while let Err(errno) = clock_nanosleep_absolute(ClockId::Monotonic, &due) {
                if errno != Errno::INTR {
                    return Err(errno.into());
                }
            }
            let late = now() - due;
            Ok(Duration::try_from(late).unwrap_or_default().as_secs_f64() * 1e9)
        };
        (0..SLEEPS).map(sleep).collect::<io::Result<Vec<f64>>>()
    };
    thread::scope(|scope| joined(on(scope, cpu, work)?)).map(Figure::of)
}

/// Two threads answer each other: a whole round of one message in each direction.
pub(super) fn answers(first: u32, second: u32) -> Result<Figure, Error> {
    let (near, far) = pair()?;
    thread::scope(|scope| {
        let answers = on(scope, second, move || {
            answer(far);
            Ok(())
        })?;
        let asked = on(scope, first, move || ask(near)).and_then(joined);
        joined(answers)?;
        asked
    })
    .map(Figure::of)
}

/// The same with two processes on one CPU.
pub(super) fn process_answers(cpu: u32) -> Result<Figure, Error> {
    let (near, far) = pair()?;
    let work = move || {
        // SAFETY: the child only makes system calls on existing descriptors, takes no lock, does not allocate, and leaves by `_exit`. So locks held
        // by other threads during the fork do not matter.
        match unsafe { libc::fork() } {
            0 => {
                // Otherwise its own copy would hide that the other end was closed.
                drop(near);
                answer(far);
                // SAFETY: ends the child at once.
                unsafe { libc::_exit(0) }
            }
            raw => {
                let child = Pid::from_raw(raw.max(0)).ok_or_else(io::Error::last_os_error)?;
                drop(far);
                let asked = ask(near);
                retry_on_intr(|| waitpid(Some(child), WaitOptions::empty()))?;
                asked
            }
        }
    };
    thread::scope(|scope| joined(on(scope, cpu, work)?)).map(Figure::of)
}

/// Sends requests and waits for each answer; returns the time of each round in nanoseconds.
fn ask(mut near: UnixStream) -> io::Result<Vec<f64>> {
    let mut bytes = [0; MESSAGE];
    let round = |_| {
        let began = Instant::now();
        for _ in 0..CALLS {
            near.write_all(&bytes)?;
            near.read_exact(&mut bytes)?;
        }
        Ok(each(began.elapsed(), CALLS))
    };
    (0..ROUNDS).map(round).collect()
}

/// Answers until the other end is closed.
fn answer(mut far: UnixStream) {
    let mut bytes = [0; MESSAGE];
    while far.read_exact(&mut bytes).is_ok() && far.write_all(&bytes).is_ok() {}
}

fn pair() -> Result<(UnixStream, UnixStream), Error> {
    UnixStream::pair().map_err(|source| Error::OpenChannel { number: 1, of: 1, source })
}

/// A word that two threads write alternately.
#[repr(align(128))]
struct Word(AtomicU32);

/// The time until one thread sees a write of the other.
pub(super) fn transfer(first: u32, second: u32) -> Result<Figure, Error> {
    let word = Word(AtomicU32::new(0));
    let last = 2 * WORDS * u32::try_from(ROUNDS).unwrap_or(1);
    let late = || io::Error::new(io::ErrorKind::TimedOut, "a CPU was taken away by others");
    // One thread writes even numbers, the other odd ones.
    let turn = |wanted: u32, deadline: Instant| {
        let mut looks = 0u32;
        while word.0.load(Ordering::Acquire) != wanted {
            spin_loop();
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(1 << 20) && Instant::now() > deadline {
                return Err(late());
            }
        }
        word.0.store(wanted + 1, Ordering::Release);
        Ok(())
    };
    let answers = || {
        let deadline = Instant::now() + PATIENCE;
        (1..last).step_by(2).try_for_each(|wanted| turn(wanted, deadline))
    };
    let asks = || {
        let deadline = Instant::now() + PATIENCE;
        let round = |at: usize| {
            let from = 2 * WORDS * u32::try_from(at).unwrap_or(0);
            let began = Instant::now();
            (from..from + 2 * WORDS).step_by(2).try_for_each(|wanted| turn(wanted, deadline))?;
            Ok(each(began.elapsed(), 2 * WORDS))
        };
        (0..ROUNDS).map(round).collect::<io::Result<Vec<f64>>>()
    };
    thread::scope(|scope| {
        let answers = on(scope, second, answers)?;
        let asked = on(scope, first, asks).and_then(joined);
        joined(answers).and(asked)
    })
    .map(Figure::of)
}

/// The time to read a line of this many KiB, each of which contains the index of the next one.
pub(super) fn chase(cpu: u32, kib: usize) -> Result<Figure, Error> {
    let lines = kib * 1_024 / LINE;
    let work = move || {
        let step = LINE / size_of::<usize>();
        let order = shuffled(lines);
        let mut memory = vec![0usize; lines * step];
        for (at, line) in order.iter().enumerate() {
            memory[line * step] = order[(at + 1) % lines] * step;
        }
        let mut at = 0;
        let round = |_| {
            let began = Instant::now();
            for _ in 0..LINES {
                at = memory[at];
            }
            let passed = began.elapsed();
            std::hint::black_box(at);
            Ok(each(passed, LINES))
        };
        (0..ROUNDS).map(round).collect::<io::Result<Vec<f64>>>()
    };
    thread::scope(|scope| joined(on(scope, cpu, work)?)).map(Figure::of)
}

/// The numbers below `count`, in a fixed random order.
fn shuffled(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut lot = 0x2545_f491_4f6c_dd1d_u64;
    for at in (1..count).rev() {
        lot ^= lot << 13;
        lot ^= lot >> 7;
        lot ^= lot << 17;
        let other = usize::try_from(lot % (at as u64 + 1)).unwrap_or(0);
        order.swap(at, other);
    }
    order
}

/// How long a thread keeps its CPU when another one competes for it without sleeping.
pub(super) fn turns(cpu: u32) -> Result<Option<Figure>, Error> {
    let (over, began) = (AtomicBool::new(false), Instant::now());
    let spins = || {
        let (mut turns, mut last) = (Vec::new(), Instant::now());
        let mut begun = None;
        while began.elapsed() < SHARING && !over.load(Ordering::Relaxed) {
            let now = Instant::now();
            if now - last > AWAY {
                // The first turn began before the measurement.
                turns.extend(begun.map(|begun: Instant| (last - begun).as_secs_f64() * 1e9));
                begun = Some(now);
            }
            last = now;
        }
        over.store(true, Ordering::Relaxed);
        Ok(turns)
    };
    let turns = thread::scope(|scope| {
        let other = on(scope, cpu, spins)?;
        let own = on(scope, cpu, spins).and_then(joined);
        let other = joined(other);
        own.and_then(|own| Ok([own, other?].concat()))
    })?;
    Ok((turns.len() >= TURNS_MIN).then(|| Figure::of(turns)))
}

/// The length of a kernel clock tick.
pub(super) fn tick() -> u64 {
    let tick = clock_getres(ClockId::MonotonicCoarse);
    u64::try_from(tick.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_the_median_with_quartiles() {
        let figure = Figure::of(vec![9.0, 1.0, 5.0, 3.0, 7.0]);
        assert_eq!(figure, Figure { median: 5.0, low: 3.0, high: 7.0, rounds: 5 });
        assert_eq!(Figure::of(Vec::new()), Figure { median: 0.0, low: 0.0, high: 0.0, rounds: 0 });
    }

    #[test]
    fn what_is_shuffled_is_all_there() {
        let mut order = shuffled(1_000);
        assert!(!order.is_sorted());
        order.sort_unstable();
        assert!(order.into_iter().eq(0..1_000));
    }
}
