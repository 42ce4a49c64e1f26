//! The run: successive teams of threads, and the calling thread's decisions between iterations.

use super::barrier::{Barrier, BreakOnPanic, Broken};
use super::matrix::Matrix;
use super::worker::{Board, Estimate, Worker};
use super::{CgEvent, CgResult, CgSpec, Iteration, Verification};
use crate::Error;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::Instant;

/// Runs `spec`; `count_cpus` returns the number of CPUs that may be used now.
pub(super) fn run(
    spec: &CgSpec,
    stop: &AtomicBool,
    count_cpus: &mut dyn FnMut() -> Result<usize, Error>,
    on_event: &mut dyn FnMut(CgEvent),
) -> Result<CgResult, Error> {
    let setup = Instant::now();
    let problem = spec.class.problem();
    let threads = wanted_threads(spec, count_cpus)?;
    let board = Board::new(Matrix::generate(&problem), problem.shift);
    on_event(CgEvent::Ready {
        nonzeros: board.matrix.nonzeros() as u64,
        threads,
        setup_seconds: setup.elapsed().as_secs_f64(),
    });
    let mut lead = Lead::new(spec, stop, count_cpus, on_event, threads);
    loop {
        run_team(&board, &mut lead)?;
        match lead.next.take() {
            Some(Next::Resize(to)) => lead.resize(to),
            Some(Next::Fail(error)) => return Err(error),
            Some(Next::End) | None => return Ok(lead.finish()),
        }
    }
}

/// The number of threads that `spec` asks for now.
fn wanted_threads(spec: &CgSpec, count_cpus: &mut dyn FnMut() -> Result<usize, Error>) -> Result<u32, Error> {
    if let (Some(threads), false) = (spec.threads, spec.malleable) {
        return Ok(threads.get());
    }
    let allowed = u32::try_from(count_cpus()?).unwrap_or(u32::MAX).max(1);
    Ok(allowed.min(spec.threads.map_or(u32::MAX, NonZeroU32::get)))
}

/// The leader's decision after an iteration, read by every thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Verdict {
    /// This team ends.
    leave: bool,
    /// Start a new repetition with x = 1, instead of the normalised solution.
    afresh: bool,
}

impl Verdict {
    fn encode(self) -> u8 {
        u8::from(self.leave) | u8::from(self.afresh) << 1
    }

    fn decode(code: u8) -> Self {
        Self { leave: code & 1 != 0, afresh: code & 2 != 0 }
    }
}

/// Runs one team until the verdict is to leave. The calling thread is its thread 0.
fn run_team(board: &Board, lead: &mut Lead<'_>) -> Result<(), Error> {
    let threads = lead.result.threads;
    let (barrier, verdict) = (Barrier::new(lead.spec.barrier, threads as usize), AtomicU8::new(0));
    thread::scope(|scope| {
        for index in 1..threads {
            let (barrier, verdict) = (&barrier, &verdict);
            let follow = move || {
                let _guard = BreakOnPanic(barrier);
                let worker = Worker::new(board, barrier, index as usize, threads as usize);
                // A broken barrier means that the run failed elsewhere, where it is reported.
                let _ = iterate(worker, verdict, &mut Follower);
            };
            if let Err(source) =
                thread::Builder::new().name(format!("cg-{index}")).spawn_scoped(scope, follow)
            {
                barrier.break_up();
                return Err(Error::StartThread { index, of: threads, source });
            }
        }
        let _guard = BreakOnPanic(&barrier);
        let worker = Worker::new(board, &barrier, 0, threads as usize);
        // Only broken by a panic of a follower, which the scope propagates when it ends.
        let _ = iterate(worker, &verdict, lead);
        Ok(())
    })
}

/// A thread's actions around an iteration, besides computing.
trait Part {
    /// Before the last barrier: the leader's verdict; `None` from followers.
    fn decide(&mut self) -> Option<Verdict>;
    /// After the last barrier.
    fn record(&mut self, estimate: &Estimate);
}

struct Follower;

impl Part for Follower {
    fn decide(&mut self) -> Option<Verdict> {
        None
    }

    fn record(&mut self, _: &Estimate) {}
}

/// Iterates until the verdict is to leave.
fn iterate(mut worker: Worker<'_>, verdict: &AtomicU8, part: &mut impl Part) -> Result<(), Broken> {
    loop {
        let estimate = worker.solve(|| {
            if let Some(decided) = part.decide() {
                // No thread still reads the previous verdict: all have passed this iteration's barriers since then.
                verdict.store(decided.encode(), Ordering::Relaxed);
            }
        })?;
        let decided = Verdict::decode(verdict.load(Ordering::Relaxed));
        part.record(&estimate);
        if decided.afresh {
            worker.reset()
        } else {
            worker.advance(&estimate)
        }
        if decided.leave {
            worker.hand_over();
            return Ok(());
        }
    }
}

/// The reason why a team ends.
#[derive(Debug)]
enum Next {
    Resize(u32),
    End,
    Fail(Error),
}

/// The calling thread's state of the run, and its decisions.
struct Lead<'a> {
    spec: &'a CgSpec,
    stop: &'a AtomicBool,
    count_cpus: &'a mut dyn FnMut() -> Result<usize, Error>,
    on_event: &'a mut dyn FnMut(CgEvent),
    /// `None` until the untimed iteration is over.
    started: Option<Instant>,
    /// Complete iterations of this repetition.
    iteration: u32,
    next: Option<Next>,
    result: CgResult,
}

impl<'a> Lead<'a> {
    fn new(
        spec: &'a CgSpec,
        stop: &'a AtomicBool,
        count_cpus: &'a mut dyn FnMut() -> Result<usize, Error>,
        on_event: &'a mut dyn FnMut(CgEvent),
        threads: u32,
    ) -> Self {
        let result = CgResult {
            class: spec.class,
            threads,
            barrier: spec.barrier,
            resizes: 0,
            repetitions: 0,
            iterations: 0,
            seconds: 0.0,
            mops_total: 0.0,
            residual: 0.0,
            zeta: 0.0,
            verification: Verification::NotReached,
            stopped: false,
        };
        Self { spec, stop, count_cpus, on_event, started: None, iteration: 0, next: None, result }
    }

    fn seconds(&self) -> f64 {
        self.started.map_or(0.0, |started| started.elapsed().as_secs_f64())
    }

    /// Whether the current iteration is the last of its repetition.
    fn ends_repetition(&self) -> bool {
        self.started.is_some() && self.iteration + 1 == self.spec.class.problem().iterations
    }

    /// The reason why this team should end after the current iteration, if it should.
    fn plan_next(&mut self) -> Option<Next> {
        if self.stop.load(Ordering::Relaxed) {
            self.result.stopped = true;
            return Some(Next::End);
        }
        let is_enough = self.spec.duration.is_none_or(|duration| self.seconds() >= duration.as_secs_f64());
        if self.ends_repetition() && is_enough {
            return Some(Next::End);
        }
        if !self.spec.malleable {
            return None;
        }
        match wanted_threads(self.spec, self.count_cpus) {
            Ok(threads) => (threads != self.result.threads).then_some(Next::Resize(threads)),
            Err(error) => Some(Next::Fail(error)),
        }
    }

    fn record_iteration(&mut self, started: Instant, estimate: &Estimate) {
        self.result.seconds = started.elapsed().as_secs_f64();
        self.result.iterations += 1;
        self.iteration += 1;
        self.result.residual = estimate.residual;
        let repetition = self.result.repetitions + 1;
        (self.on_event)(CgEvent::Iteration(Iteration {
            repetition,
            iteration: self.iteration,
            threads: self.result.threads,
            residual: estimate.residual,
            zeta: estimate.zeta,
            seconds: self.result.seconds,
        }));
        if self.iteration < self.spec.class.problem().iterations {
            if self.result.repetitions == 0 {
                self.result.zeta = estimate.zeta;
            }
            return;
        }
        let verified = self.spec.class.accepts(estimate.zeta);
        self.iteration = 0;
        self.result.repetitions = repetition;
        self.result.zeta = estimate.zeta;
        self.result.verification = match (verified, self.result.verification) {
            (false, _) | (true, Verification::Failed) => Verification::Failed,
            (true, _) => Verification::Passed,
        };
        let (zeta, seconds) = (estimate.zeta, self.result.seconds);
        (self.on_event)(CgEvent::Repetition { repetition, zeta, verified, seconds });
    }

    fn resize(&mut self, to: u32) {
        let seconds = self.seconds();
        (self.on_event)(CgEvent::Resized { from: self.result.threads, to, seconds });
        self.result.threads = to;
        self.result.resizes += 1;
    }

    fn finish(mut self) -> CgResult {
        self.result.mops_total = self.spec.class.mops(self.result.iterations, self.result.seconds);
        self.result
    }
}

impl Part for Lead<'_> {
    fn decide(&mut self) -> Option<Verdict> {
        self.next = self.plan_next();
        let afresh = self.started.is_none() || self.ends_repetition();
        Some(Verdict { leave: self.next.is_some(), afresh })
    }

    fn record(&mut self, estimate: &Estimate) {
        match self.started {
            Some(started) => self.record_iteration(started, estimate),
            None => {
                (self.on_event)(CgEvent::Started);
                self.started = Some(Instant::now());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BarrierKind, Class};
    use super::*;
    use proptest::prelude::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn malleable(barrier: BarrierKind) -> CgSpec {
        CgSpec { malleable: true, barrier, ..CgSpec::new(Class::S) }
    }

    /// Runs class S while the number of allowed CPUs changes: one count per iteration, the last one for ever.
    fn run_with_counts(spec: &CgSpec, counts: &[usize]) -> (CgResult, Vec<u32>) {
        let (mut asked, mut threads) = (0, Vec::new());
        let mut count_cpus = || {
            let count = counts[asked.min(counts.len() - 1)];
            asked += 1;
            Ok(count)
        };
        let mut on_event = |event| {
            if let CgEvent::Iteration(iteration) = event {
                threads.push(iteration.threads);
            }
        };
        let result = run(spec, &AtomicBool::new(false), &mut count_cpus, &mut on_event).unwrap();
        (result, threads)
    }

    #[test]
    fn a_malleable_run_that_shrinks_to_one_thread_and_grows_again_gives_the_same_zeta() {
        let fixed = run_with_counts(&CgSpec { threads: NonZeroU32::new(1), ..CgSpec::new(Class::S) }, &[1]).0;
        // The first count is for the first team, the second is read in the untimed iteration.
        let (result, threads) = run_with_counts(&malleable(BarrierKind::Blocking), &[3, 3, 3, 1, 1, 2, 4]);
        assert!(result.is_verified());
        assert_eq!(result.zeta.to_bits(), fixed.zeta.to_bits());
        assert_eq!(threads, [3, 3, 1, 1, 2, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4]);
        assert_eq!((result.resizes, result.threads), (3, 4));
    }

    #[test]
    fn a_spinning_team_shrinks_to_one_without_a_deadlock() {
        let (result, threads) = run_with_counts(&malleable(BarrierKind::Spinning), &[2, 2, 2, 1]);
        assert!(result.is_verified());
        assert_eq!(threads[..3], [2, 2, 1]);
        assert_eq!(threads[3..], [1; 12]);
    }

    #[test]
    fn a_malleable_run_never_exceeds_the_threads_that_were_asked_for() {
        let spec = CgSpec { threads: NonZeroU32::new(2), ..malleable(BarrierKind::Blocking) };
        let (result, threads) = run_with_counts(&spec, &[1, 1, 64]);
        assert!(result.is_verified());
        assert_eq!(threads[0], 1);
        assert_eq!(threads[1..], [2; 14]);
    }

    #[test]
    fn a_failure_to_read_the_processors_ends_the_run_with_that_error() {
        let mut asked = 0;
        let mut count_cpus = || {
            asked += 1;
            if asked < 4 {
                Ok(2)
            } else {
                Err(Error::ReadAllowedCpus { source: std::io::Error::from_raw_os_error(1) })
            }
        };
        let spec = malleable(BarrierKind::Spinning);
        let error = run(&spec, &AtomicBool::new(false), &mut count_cpus, &mut |_| ()).unwrap_err();
        assert!(matches!(error, Error::ReadAllowedCpus { .. }));
    }

    #[test]
    fn a_panic_in_the_callback_ends_the_spinning_threads() {
        let spec = CgSpec { threads: NonZeroU32::new(2), ..CgSpec::new(Class::S) };
        let mut on_event = |event| assert!(!matches!(event, CgEvent::Iteration(_)), "as the test wants");
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let _ = run(&spec, &AtomicBool::new(false), &mut || Ok(2), &mut on_event);
        }));
        assert!(outcome.is_err());
    }

    proptest! {
        #[test]
        fn a_verdict_reads_back_as_itself(leave: bool, afresh: bool) {
            let verdict = Verdict { leave, afresh };
            prop_assert_eq!(Verdict::decode(verdict.encode()), verdict);
        }
    }
}
