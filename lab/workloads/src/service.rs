//! A service: requests that arrive at random and need a fixed amount of work each, and their response times.
//!
//! Requests arrive from outside, independent of the number already waiting (an open system). Interarrival times are
//! exponential and depend on a seed, so that two runs with equal seeds have the same requests. Threads take requests in order
//! of arrival. The response time counts from the time at which a request is due, not from when a thread noticed it: a service
//! without a CPU is late even if none of its code runs. A thread that takes a request before its due time sleeps until then,
//! so that no hand-over between threads is needed.
//!
//! The work is a number of rounds, calibrated by the thread's own CPU time before the start. So work takes longer on a CPU that is
//! slowed down.

use crate::Error;
use crate::clock::{STOP_POLL, SetOnDrop, supervise, thread_cpu_time};
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceSpec {
    /// Number of threads that answer.
    pub threads: NonZeroU32,
    /// Average number of requests per second.
    pub rate: NonZeroU32,
    /// CPU time of each request, in milliseconds; 0.001 to 10000.
    pub work_ms: f64,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Response times before this time are not counted.
    pub settle: Duration,
    /// Run time; by default until stopped.
    pub duration: Option<Duration>,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ServiceResult {
    /// Answered and counted requests.
    pub requests: u64,
    /// Seconds from the start of counting to the end.
    pub seconds: f64,
    /// The median response time, in milliseconds.
    pub p50_ms: f64,
    /// The 99th percentile of response times, in milliseconds.
    pub p99_ms: f64,
    /// The 99.9th percentile of response times, in milliseconds.
    pub p999_ms: f64,
    /// The longest response time, in milliseconds.
    pub longest_ms: f64,
    /// Whether the stop flag ended it.
    pub stopped: bool,
}

impl ServiceResult {
    /// The result of these response times, in any order.
    fn of(mut times: Vec<Duration>, seconds: f64, stopped: bool) -> Self {
        times.sort_unstable();
        let at = |thousandths: usize| {
            let rank = (times.len() * thousandths).div_ceil(1_000).max(1);
            times.get(rank - 1).map_or(0.0, |time| time.as_secs_f64() * 1e3)
        };
        ServiceResult {
            requests: times.len() as u64,
            seconds,
            p50_ms: at(500),
            p99_ms: at(990),
            p999_ms: at(999),
            longest_ms: at(1_000),
            stopped,
        }
    }

    /// The result in one line.
    pub fn report(&self) -> String {
        format!(
            "{} requests in {:.1} s: p50 {:.3} ms, p99 {:.3} ms, p99.9 {:.3} ms, longest {:.3} ms\n",
            self.requests, self.seconds, self.p50_ms, self.p99_ms, self.p999_ms, self.longest_ms
        )
    }
}

/// Due times of requests, since the start.
struct Arrivals {
    state: u64,
    mean: f64,
    due: f64,
}

impl Arrivals {
    fn new(seed: u64, rate: NonZeroU32) -> Self {
        Arrivals { state: seed, mean: 1.0 / f64::from(rate.get()), due: 0.0 }
    }

    /// The next due time.
    fn next(&mut self) -> Duration {
        // A step of a Weyl sequence, mixed (SplitMix64, Steele et al. 2014).
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        let high = u32::try_from(z >> 32).unwrap_or(u32::MAX);
        // Greater than 0 and at most 1.
        let lot = (f64::from(high) + 1.0) / (f64::from(u32::MAX) + 1.0);
        self.due -= self.mean * lot.ln();
        Duration::from_secs_f64(self.due)
    }
}

/// Executes rounds of arithmetic.
fn rounds(count: u64) {
    let mut state = 1_u64;
    for _ in 0..count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state);
}

/// CPU time of the calibration.
const MEASURED: Duration = Duration::from_millis(40);

/// The number of rounds for this many milliseconds of CPU time.
fn rounds_of(work_ms: f64) -> u64 {
    let began = thread_cpu_time();
    let mut count = 0_u32;
    loop {
        rounds(10_000);
        count += 1;
        let time = thread_cpu_time().saturating_sub(began);
        if time >= MEASURED {
            let each = time.as_secs_f64() * 1e3 / f64::from(count) / 1e4;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "10 s of rounds are far below it"
            )]
            return ((work_ms / each) as u64).max(1);
        }
    }
}

/// A service that is ready to start.
#[derive(Debug)]
pub struct Service {
    spec: ServiceSpec,
    rounds: u64,
}

impl Service {
    /// Calibrates the work of a request: takes about 40 ms in the calling thread.
    #[must_use]
    pub fn prepare(spec: &ServiceSpec) -> Service {
        Service { rounds: rounds_of(spec.work_ms), spec: spec.clone() }
    }

    /// Answers requests until the end of the run time or until `stop` is set. `started` is called when all threads exist.
    ///
    /// # Errors
    ///
    /// [`Error::StartThread`].
    pub fn run(&self, stop: &AtomicBool, started: &mut dyn FnMut()) -> Result<ServiceResult, Error> {
        let (spec, of) = (&self.spec, self.spec.threads.get());
        let is_over = AtomicBool::new(false);
        let arrivals = Mutex::new(Arrivals::new(spec.seed, spec.rate));
        let began = Instant::now();
        let deadline = spec.duration.and_then(|duration| began.checked_add(spec.settle + duration));
        let (times, stopped) = thread::scope(|scope| {
            let _end = SetOnDrop(&is_over);
            let (alive, ended) = channel::<()>();
            let mut threads = Vec::new();
            for index in 0..of {
                let (alive, is_over, arrivals) = (alive.clone(), &is_over, &arrivals);
                let answer = move || {
                    let _alive = alive;
                    self.answer(began, deadline, is_over, arrivals)
                };
                let thread =
                    thread::Builder::new().name(format!("service-{index}")).spawn_scoped(scope, answer);
                threads.push(thread.map_err(|source| Error::StartThread { index, of, source })?);
            }
            drop(alive);
            started();
            let stopped = supervise(&ended, began, None, stop, &is_over, &mut |_| ());
            let join = |thread: thread::ScopedJoinHandle<'_, Vec<Duration>>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            Ok((threads.into_iter().flat_map(join).collect(), stopped))
        })?;
        let seconds = began.elapsed().saturating_sub(spec.settle).as_secs_f64();
        Ok(ServiceResult::of(times, seconds, stopped))
    }

    /// The code of a thread; returns the response times of its requests.
    fn answer(
        &self,
        began: Instant,
        deadline: Option<Instant>,
        is_over: &AtomicBool,
        arrivals: &Mutex<Arrivals>,
    ) -> Vec<Duration> {
        let mut times = Vec::new();
        loop {
            let due = arrivals.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(at) = began.checked_add(due) else { return times };
            loop {
                let now = Instant::now();
                if is_over.load(Ordering::Relaxed) || deadline.is_some_and(|deadline| now >= deadline) {
                    return times;
                }
                if now >= at {
                    break;
                }
                // Sleep in short intervals, to notice a stop.
                thread::sleep((at - now).min(STOP_POLL));
            }
            rounds(self.rounds);
            if due >= self.spec.settle {
                times.push(at.elapsed());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_least_times_that_so_many_do_not_exceed() {
        let ms = Duration::from_millis;
        let times = [vec![ms(8)], vec![ms(1); 990], vec![ms(2); 9]].concat();
        let result = ServiceResult::of(times, 10.0, true);
        assert_eq!(
            result.report(),
            "1000 requests in 10.0 s: p50 1.000 ms, p99 1.000 ms, p99.9 2.000 ms, longest 8.000 ms\n"
        );
        assert_eq!(ServiceResult::of(Vec::new(), 1.0, false).longest_ms, 0.0);
    }

    #[test]
    fn requests_of_equal_seeds_are_due_at_the_same_times_and_as_many_as_asked_for() {
        let rate = NonZeroU32::new(1_000).unwrap();
        let due = |seed| {
            let mut arrivals = Arrivals::new(seed, rate);
            (0..10_000).map(|_| arrivals.next()).collect::<Vec<_>>()
        };
        let times = due(7);
        assert_eq!(times, due(7));
        assert_ne!(times, due(8));
        assert!(times.is_sorted());
        let last = times.last().unwrap().as_secs_f64();
        assert!((9.6..10.4).contains(&last), "{last}");
    }

    #[test]
    fn requests_are_answered_until_it_is_stopped() {
        let spec = ServiceSpec {
            threads: NonZeroU32::new(2).unwrap(),
            rate: NonZeroU32::new(1_000).unwrap(),
            work_ms: 0.01,
            seed: 1,
            settle: Duration::ZERO,
            duration: Some(Duration::from_millis(200)),
        };
        let mut is_started = false;
        let service = Service::prepare(&spec);
        let result = service.run(&AtomicBool::new(false), &mut || is_started = true).unwrap();
        assert!(is_started && result.requests > 0 && !result.stopped);
        assert!(result.p50_ms <= result.p99_ms && result.p999_ms <= result.longest_ms);
        let endless = ServiceSpec { duration: None, ..spec };
        let result = Service::prepare(&endless).run(&AtomicBool::new(true), &mut || ()).unwrap();
        assert!(result.stopped);
    }
}
