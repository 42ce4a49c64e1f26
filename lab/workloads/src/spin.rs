//! Threads that only use CPU time, all of the time or a part of it.
//!
//! It measures how much CPU time a program gets. Without other threads, each thread's CPU seconds are its share of the wall clock; with
//! others, the difference is their CPU time. Iterations show the amount of work in that time, which is less on a strand
//! that shares its core or on a throttled CPU.
//!
//! A duty cycle divides the wall clock into periods and spins during the first part of each. It is a demand, not a guarantee: a thread
//! that gets no CPU in its part of a period does not catch up later.

use crate::Error;
use crate::clock::{STOP_POLL, SetOnDrop, supervise, thread_cpu_time};
use crate::cpus::allowed_cpu_count;
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// The parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpinSpec {
    /// Number of threads; by default the number of CPUs that the calling thread may use.
    pub threads: Option<NonZeroU32>,
    /// Run time; by default until stopped.
    pub duration: Option<Duration>,
    /// The part of the time in which each thread spins; by default all of it.
    pub duty: Option<Duty>,
    /// Interval of [`SpinEvent::Progress`]; by default never.
    pub interval: Option<Duration>,
    /// MiB that each thread reads at random addresses, one word per round; each address depends on the word read before. By default threads
    /// only use registers.
    pub memory_mib: Option<NonZeroU32>,
}

/// A part of the wall clock, in percent of a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Duty {
    percent: u8,
    period: Duration,
}

/// An invalid duty cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadDuty {
    /// The percentage is invalid.
    #[error("cannot spin {0} percent of the time: it is not within 1 and 100")]
    Percent(u8),
    /// The period is invalid.
    #[error("cannot spin in periods of {} ms: they are 1 ms to 1 h long", .0.as_millis())]
    Period(Duration),
}

impl Duty {
    /// The default period: shorter than the interval of load monitors, longer than a tick.
    pub const PERIOD_DEFAULT: Duration = Duration::from_millis(20);

    /// `percent` (1 to 100) of each `period` (1 ms to 1 h).
    ///
    /// # Errors
    ///
    /// [`BadDuty`] for other values.
    pub fn new(percent: u8, period: Duration) -> Result<Self, BadDuty> {
        if !(1..=100).contains(&percent) {
            return Err(BadDuty::Percent(percent));
        }
        if !(Duration::from_millis(1)..=Duration::from_secs(3600)).contains(&period) {
            return Err(BadDuty::Period(period));
        }
        Ok(Self { percent, period })
    }

    /// The share in percent.
    pub fn percent(&self) -> u8 {
        self.percent
    }

    /// The period.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// How long a thread must still sleep at `elapsed` since its start; zero while it must spin.
    fn pause_after(&self, elapsed: Duration) -> Duration {
        let period_ns = self.period.as_nanos();
        let within = elapsed.as_nanos() % period_ns;
        let is_busy = within * 100 < period_ns * u128::from(self.percent);
        let pause_ns = if is_busy { 0 } else { period_ns - within };
        // A period is at most an hour.
        Duration::from_nanos(u64::try_from(pause_ns).unwrap_or(u64::MAX))
    }
}

/// An event during a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum SpinEvent {
    /// All threads have been started.
    Started {
        /// The number of threads.
        threads: u32,
    },
    /// An interval has passed.
    Progress {
        /// Time since the start.
        seconds: f64,
        /// Iterations of all threads until now.
        iterations: u64,
    },
}

/// A thread's result.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SpinThread {
    /// Rounds of a fixed computation.
    pub iterations: u64,
    /// CPU time of the thread.
    pub cpu_seconds: f64,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SpinResult {
    /// The threads' results.
    pub threads: Vec<SpinThread>,
    /// From the start of the first thread to the end of the last one.
    pub seconds: f64,
    /// Whether the stop flag ended it.
    pub stopped: bool,
}

impl SpinResult {
    /// Total iterations.
    pub fn iterations(&self) -> u64 {
        self.threads.iter().map(|thread| thread.iterations).sum()
    }

    /// Total CPU time.
    pub fn cpu_seconds(&self) -> f64 {
        self.threads.iter().map(|thread| thread.cpu_seconds).sum()
    }

    /// A line per thread and one for all: iterations, CPU seconds, and these in percent of the wall clock.
    pub fn report(&self) -> String {
        let line = |name: &str, iterations: u64, cpu_seconds: f64| {
            let percent = if self.seconds > 0.0 { 100.0 * cpu_seconds / self.seconds } else { 0.0 };
            format!("{name:>6} {iterations:>16} {cpu_seconds:>10.3} {percent:>7.1}\n")
        };
        let head = format!("{:>6} {:>16} {:>10} {:>7}\n", "thread", "iterations", "cpu s", "cpu %");
        let each = self.threads.iter().zip(0_u32..);
        let each =
            each.map(|(thread, index)| line(&index.to_string(), thread.iterations, thread.cpu_seconds));
        std::iter::once(head)
            .chain(each)
            .chain([line("all", self.iterations(), self.cpu_seconds())])
            .collect()
    }
}

/// Rounds between two checks of the clock and the flag: about ten microseconds.
const CHUNK: u64 = 10_000;

/// Spins until `stop` is set or the run time is over.
///
/// # Errors
///
/// [`Error::StartThread`], [`Error::ReadAllowedCpus`] when the number of threads depends on the allowed CPUs.
pub fn run(
    spec: &SpinSpec,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(SpinEvent),
) -> Result<SpinResult, Error> {
    let threads = match spec.threads {
        Some(threads) => threads.get(),
        None => u32::try_from(allowed_cpu_count()?).unwrap_or(u32::MAX),
    };
    let (is_over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let started = Instant::now();
    let deadline = spec.duration.and_then(|duration| started.checked_add(duration));
    let (parts, stopped) = thread::scope(|scope| {
        let _end = SetOnDrop(&is_over);
        let (alive, ended) = channel::<()>();
        let mut spinners = Vec::new();
        for index in 0..threads {
            // Dropped when the thread ends; the main thread notices when the last one is dropped.
            let (alive, is_over, done) = (alive.clone(), &is_over, &done);
            let spin = move || {
                let _alive = alive;
                spin(spec, deadline, is_over, done)
            };
            let spinner = thread::Builder::new().name(format!("spin-{index}")).spawn_scoped(scope, spin);
            spinners.push(spinner.map_err(|source| Error::StartThread { index, of: threads, source })?);
        }
        drop(alive);
        on_event(SpinEvent::Started { threads });
        let mut progress =
            |seconds| on_event(SpinEvent::Progress { seconds, iterations: done.load(Ordering::Relaxed) });
        let stopped = supervise(&ended, started, spec.interval, stop, &is_over, &mut progress);
        let join = |spinner: thread::ScopedJoinHandle<'_, SpinThread>| {
            spinner.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        Ok((spinners.into_iter().map(join).collect(), stopped))
    })?;
    Ok(SpinResult { threads: parts, seconds: started.elapsed().as_secs_f64(), stopped })
}

/// The successor of a number. Alternating shifts and exclusive ors, so that a compiler cannot combine several rounds into one.
fn scrambled(mut state: u64) -> u64 {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    state
}

/// Memory of random words, all of it written: pages of zeros could all be mapped to one page.
fn memory(mib: NonZeroU32) -> Vec<u64> {
    let words = (mib.get() as usize) << 17;
    let mut word = 1;
    std::iter::repeat_with(|| {
        word = scrambled(word);
        word
    })
    .take(words)
    .collect()
}

/// The successor of a number and of the word at its index. It is scrambled; otherwise an index would almost determine the next one, and a
/// walk would soon enter a short cycle that fits into the caches.
fn read(number: u64, words: &[u64]) -> u64 {
    scrambled(number.wrapping_add(words[place(number, words.len())]))
}

/// The index for a number, from its upper half.
fn place(number: u64, places: usize) -> usize {
    let place = (u128::from(number) * places as u128) >> 64;
    // It is less than `places`.
    usize::try_from(place).unwrap_or(0)
}

/// The code of a thread.
fn spin(spec: &SpinSpec, deadline: Option<Instant>, is_over: &AtomicBool, done: &AtomicU64) -> SpinThread {
    let (began, mut iterations, mut state) = (Instant::now(), 0, 1_u64);
    let memory = spec.memory_mib.map(memory);
    while !is_over.load(Ordering::Relaxed) {
        let now = Instant::now();
        if deadline.is_some_and(|deadline| now >= deadline) {
            break;
        }
        let pause = spec.duty.map_or(Duration::ZERO, |duty| duty.pause_after(now - began));
        if !pause.is_zero() {
            let left = deadline.map_or(pause, |deadline| pause.min(deadline - now));
            // Sleep through long periods in short intervals, to notice a stop.
            thread::sleep(left.min(STOP_POLL));
            continue;
        }
        state = match &memory {
            None => (0..CHUNK).fold(state, |state, _| scrambled(state)),
            Some(words) => (0..CHUNK).fold(state, |state, _| read(state, words)),
        };
        state = black_box(state);
        iterations += CHUNK;
        done.fetch_add(CHUNK, Ordering::Relaxed);
    }
    SpinThread { iterations, cpu_seconds: thread_cpu_time().as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_quarter_of_20_ms_is_5_ms_of_spinning_and_15_of_sleep() {
        let (duty, ms) = (Duty::new(25, Duration::from_millis(20)).unwrap(), Duration::from_millis);
        assert_eq!(duty.pause_after(ms(0)), Duration::ZERO);
        assert_eq!(duty.pause_after(ms(4)), Duration::ZERO);
        assert_eq!(duty.pause_after(ms(5)), ms(15));
        assert_eq!(duty.pause_after(ms(19)), ms(1));
        assert_eq!(duty.pause_after(ms(64)), Duration::ZERO);
        assert_eq!(duty.pause_after(ms(66)), ms(14));
    }

    #[test]
    fn impossible_duties_are_refused_with_their_limits() {
        let text = |duty: Result<Duty, BadDuty>| duty.unwrap_err().to_string();
        let period = Duty::PERIOD_DEFAULT;
        assert_eq!(
            text(Duty::new(0, period)),
            "cannot spin 0 percent of the time: it is not within 1 and 100"
        );
        assert_eq!(
            text(Duty::new(101, period)),
            "cannot spin 101 percent of the time: it is not within 1 and 100"
        );
        assert_eq!(
            text(Duty::new(50, Duration::ZERO)),
            "cannot spin in periods of 0 ms: they are 1 ms to 1 h long"
        );
    }

    #[test]
    fn a_report_has_a_line_per_thread_and_one_for_all() {
        let thread = |iterations, cpu_seconds| SpinThread { iterations, cpu_seconds };
        let result = SpinResult {
            threads: vec![thread(10_000, 0.5), thread(30_000, 1.5)],
            seconds: 2.0,
            stopped: false,
        };
        let expected = "\
thread       iterations      cpu s   cpu %
     0            10000      0.500    25.0
     1            30000      1.500    75.0
   all            40000      2.000   100.0
";
        assert_eq!(result.report(), expected);
    }

    #[test]
    fn memory_is_random_words_and_every_number_stands_for_a_place() {
        let words = memory(NonZeroU32::MIN);
        assert_eq!(words.len() * size_of::<u64>(), 1 << 20);
        let distinct: std::collections::HashSet<&u64> = words.iter().collect();
        assert_eq!(distinct.len(), words.len());
        assert_eq!((place(0, 10), place(u64::MAX / 2, 10), place(u64::MAX, 10)), (0, 4, 9));
        // 131,072 random accesses to as many words leave 37 % of them unread.
        let numbers = std::iter::successors(Some(1), |number| Some(read(*number, &words)));
        let places: std::collections::HashSet<usize> =
            numbers.take(words.len()).map(|number| place(number, words.len())).collect();
        assert!(places.len() > words.len() / 2, "{}", places.len());
    }

    proptest! {
        #[test]
        fn a_duty_spins_its_share_of_any_period(percent in 1_u8..=100, period_ms in 1_u64..5000, periods in 0_u32..10) {
            let period = Duration::from_millis(period_ms);
            let duty = Duty::new(percent, period).unwrap();
            prop_assert_eq!((duty.percent(), duty.period()), (percent, period));
            let (begin, busy) = (period * periods, period * u32::from(percent) / 100);
            prop_assert_eq!(duty.pause_after(begin), Duration::ZERO);
            prop_assert_eq!(duty.pause_after(begin + busy - Duration::from_nanos(1)), Duration::ZERO);
            if percent < 100 {
                prop_assert_eq!(duty.pause_after(begin + busy), period - busy);
            }
        }
    }
}
