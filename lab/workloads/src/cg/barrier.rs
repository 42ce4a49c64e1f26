//! The two barriers: one that spins, one that blocks.
//!
//! The spinning barrier is the subject of the published experiment. A thread wastes its CPU until the last thread arrives. If the last
//! thread waits for that same CPU, a whole quantum is wasted. The barrier must therefore neither yield nor block after a
//! while. The blocking barrier releases the CPU.
//!
//! A barrier can be *broken*, permanently, for a thread that will never arrive (it panicked, or could not be started). Every
//! `wait` then returns [`Broken`], so that a failure never leaves threads spinning.

#[cfg(loom)]
use loom::hint::spin_loop;
#[cfg(loom)]
use loom::sync::atomic::{AtomicUsize, Ordering};
#[cfg(loom)]
use loom::sync::{Condvar, Mutex};
use serde::{Deserialize, Serialize};
use std::fmt;
#[cfg(not(loom))]
use std::hint::spin_loop;
use std::str::FromStr;
use std::sync::PoisonError;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicUsize, Ordering};
#[cfg(not(loom))]
use std::sync::{Condvar, Mutex};

/// How threads wait at a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BarrierKind {
    /// Spinning on the CPU.
    Spinning,
    /// Asleep, on a condition variable.
    Blocking,
}

impl BarrierKind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Spinning, Self::Blocking];
}

impl fmt::Display for BarrierKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Spinning => "spinning",
            Self::Blocking => "blocking",
        })
    }
}

/// The text is not one of the kinds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot use barrier {0}: it is none of spinning, blocking")]
pub struct UnknownBarrier(String);

impl FromStr for BarrierKind {
    type Err = UnknownBarrier;

    fn from_str(text: &str) -> Result<Self, UnknownBarrier> {
        let found = Self::ALL.into_iter().find(|kind| kind.to_string() == text);
        found.ok_or_else(|| UnknownBarrier(text.to_owned()))
    }
}

/// The barrier is broken: a thread will never arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Broken;

/// A reusable barrier for a fixed number of threads.
// The variants differ in size by the padding of the spinning one. There is one barrier per team, so a box would save nothing.
#[expect(clippy::large_enum_variant)]
#[derive(Debug)]
pub(super) enum Barrier {
    Spinning(Spinning),
    Blocking(Blocking),
}

impl Barrier {
    /// A barrier for `threads` threads, at least one.
    pub(super) fn new(kind: BarrierKind, threads: usize) -> Self {
        match kind {
            BarrierKind::Spinning => Self::Spinning(Spinning::new(threads)),
            BarrierKind::Blocking => Self::Blocking(Blocking::new(threads)),
        }
    }

    /// Returns when all threads have arrived. Their earlier writes are visible to all afterwards.
    pub(super) fn wait(&self) -> Result<(), Broken> {
        match self {
            Self::Spinning(barrier) => barrier.wait(),
            Self::Blocking(barrier) => barrier.wait(),
        }
    }

    /// Releases all threads, now and in future, with [`Broken`].
    pub(super) fn break_up(&self) {
        match self {
            Self::Spinning(barrier) => barrier.turn.0.store(BROKEN, Ordering::Release),
            Self::Blocking(barrier) => {
                let mut state = barrier.state.lock().unwrap_or_else(PoisonError::into_inner);
                state.turn = BROKEN;
                barrier.turned.notify_all();
            }
        }
    }
}

/// Breaks the barrier if its holder unwinds.
pub(super) struct BreakOnPanic<'a>(pub(super) &'a Barrier);

impl Drop for BreakOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.break_up();
        }
    }
}

/// The generation number of a broken barrier. Generations are counted from zero and never get here.
const BROKEN: usize = usize::MAX;

/// On a cache line of its own (and the adjacent one, which is prefetched with it): arrivals must not disturb threads that poll the generation.
#[derive(Debug)]
#[repr(align(128))]
struct Padded(AtomicUsize);

/// Counts arrivals; the last one resets the count and advances the generation that the others poll.
#[derive(Debug)]
pub(super) struct Spinning {
    threads: usize,
    arrived: Padded,
    turn: Padded,
}

impl Spinning {
    fn new(threads: usize) -> Self {
        Self { threads, arrived: Padded(AtomicUsize::new(0)), turn: Padded(AtomicUsize::new(0)) }
    }

    fn wait(&self) -> Result<(), Broken> {
        let turn = self.turn.0.load(Ordering::Acquire);
        if turn == BROKEN {
            return Err(Broken);
        }
        if self.threads == 1 {
            return Ok(());
        }
        if self.arrived.0.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.arrived.0.store(0, Ordering::Relaxed);
            // Exchange instead of store: a barrier that was broken in the meantime must stay broken.
            let turned = self.turn.0.compare_exchange(turn, turn + 1, Ordering::AcqRel, Ordering::Acquire);
            return turned.map(drop).map_err(|_| Broken);
        }
        loop {
            match self.turn.0.load(Ordering::Acquire) {
                BROKEN => return Err(Broken),
                // The hint frees the pipeline for a sibling strand; it does not release the CPU.
                now if now == turn => spin_loop(),
                _ => return Ok(()),
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Blocking {
    threads: usize,
    state: Mutex<BlockingState>,
    turned: Condvar,
}

#[derive(Debug)]
struct BlockingState {
    arrived: usize,
    turn: usize,
}

impl Blocking {
    fn new(threads: usize) -> Self {
        Self { threads, state: Mutex::new(BlockingState { arrived: 0, turn: 0 }), turned: Condvar::new() }
    }

    fn wait(&self) -> Result<(), Broken> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = state.turn;
        if turn == BROKEN {
            return Err(Broken);
        }
        state.arrived += 1;
        if state.arrived == self.threads {
            state.arrived = 0;
            state.turn += 1;
            self.turned.notify_all();
            return Ok(());
        }
        while state.turn == turn {
            state = self.turned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.turn == BROKEN { Err(Broken) } else { Ok(()) }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::thread;

    /// Miri takes a hundred times longer, and tries another order in each round.
    const ROUNDS: usize = if cfg!(miri) { 4 } else { 100 };

    /// `threads` threads add to a counter and meet, `rounds` times; after each meeting all must see every addition.
    fn nobody_runs_ahead(kind: BarrierKind, threads: usize, rounds: usize) {
        let (barrier, counter) = (Barrier::new(kind, threads), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for round in 1..=rounds {
                        counter.fetch_add(1, Ordering::Relaxed);
                        barrier.wait().unwrap();
                        assert_eq!(counter.load(Ordering::Relaxed), round * threads);
                        barrier.wait().unwrap();
                    }
                });
            }
        });
    }

    #[test]
    fn nobody_passes_a_spinning_barrier_before_all_arrived() {
        // Few rounds: with more threads than CPUs, each round costs a time slice.
        nobody_runs_ahead(BarrierKind::Spinning, 1, ROUNDS);
        nobody_runs_ahead(BarrierKind::Spinning, 2, ROUNDS);
        nobody_runs_ahead(BarrierKind::Spinning, 3, 5);
    }

    #[test]
    fn nobody_passes_a_blocking_barrier_before_all_arrived() {
        for threads in 1..=8 {
            nobody_runs_ahead(BarrierKind::Blocking, threads, ROUNDS);
        }
    }

    #[test]
    fn a_broken_barrier_lets_everybody_go_now_and_later() {
        for kind in BarrierKind::ALL {
            let barrier = Barrier::new(kind, 3);
            thread::scope(|scope| {
                let waiting = [scope.spawn(|| barrier.wait()), scope.spawn(|| barrier.wait())];
                barrier.break_up();
                for thread in waiting {
                    assert_eq!(thread.join().unwrap(), Err(Broken));
                }
            });
            assert_eq!(barrier.wait(), Err(Broken));
        }
    }

    #[test]
    fn a_barrier_for_one_never_waits_but_can_be_broken() {
        for kind in BarrierKind::ALL {
            let barrier = Barrier::new(kind, 1);
            assert_eq!(barrier.wait(), Ok(()));
            assert_eq!(barrier.wait(), Ok(()));
            barrier.break_up();
            assert_eq!(barrier.wait(), Err(Broken));
        }
    }

    #[test]
    fn a_panic_breaks_the_barrier() {
        let barrier = Barrier::new(BarrierKind::Spinning, 2);
        let joined = thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let _guard = BreakOnPanic(&barrier);
                panic!("as the test wants");
            });
            let waited = barrier.wait();
            (waited, thread.join().is_err())
        });
        assert_eq!(joined, (Err(Broken), true));
    }

    #[test]
    fn an_unknown_kind_is_refused_by_name() {
        let error = "yielding".parse::<BarrierKind>().unwrap_err();
        assert_eq!(error.to_string(), "cannot use barrier yielding: it is none of spinning, blocking");
    }

    proptest! {
        #[test]
        fn a_kind_reads_back_as_itself(kind in prop::sample::select(&BarrierKind::ALL[..])) {
            prop_assert_eq!(kind.to_string().parse::<BarrierKind>().unwrap(), kind);
            prop_assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{kind}\""));
        }
    }
}

/// All thread interleavings, within loom's bounds: `RUSTFLAGS="--cfg loom" cargo test -p millpond-workloads barrier`.
#[cfg(all(test, loom))]
mod orders {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::model::Builder;
    use loom::sync::Arc;
    use loom::thread;

    /// Shared data. The cell is plain memory: loom fails if a read is not ordered after the write.
    struct Shared {
        barrier: Barrier,
        written: Vec<UnsafeCell<usize>>,
    }

    impl Shared {
        fn new(kind: BarrierKind, threads: usize) -> Arc<Self> {
            let written = (0..threads).map(|_| UnsafeCell::new(0)).collect();
            Arc::new(Self { barrier: Barrier::new(kind, threads), written })
        }

        /// Writes into the thread's own cell, waits, and reads all cells, `rounds` times.
        fn meet(&self, me: usize, rounds: usize) {
            for round in 1..=rounds {
                // SAFETY: between two meetings each cell is only written by its own thread; loom checks it.
                self.written[me].with_mut(|cell| unsafe { *cell = round });
                self.barrier.wait().unwrap();
                for cell in &self.written {
                    // SAFETY: no thread writes before all have met again.
                    assert_eq!(cell.with(|cell| unsafe { *cell }), round);
                }
                self.barrier.wait().unwrap();
            }
        }
    }

    fn every_order(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
        let mut builder = Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(model);
    }

    fn all_meet(kind: BarrierKind, threads: usize, rounds: usize, preemptions: usize) {
        every_order(preemptions, move || {
            let shared = Shared::new(kind, threads);
            let others: Vec<_> = (1..threads)
                .map(|me| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || shared.meet(me, rounds))
                })
                .collect();
            shared.meet(0, rounds);
            for other in others {
                other.join().unwrap();
            }
        });
    }

    // Two threads, of which at most one spins at a time: with two, loom would explore their polling order for ever.
    #[test]
    fn what_was_written_before_a_spinning_barrier_is_seen_behind_it_in_every_order() {
        all_meet(BarrierKind::Spinning, 2, 2, 3);
    }

    #[test]
    fn what_was_written_before_a_blocking_barrier_is_seen_behind_it_in_every_order() {
        all_meet(BarrierKind::Blocking, 2, 2, 3);
        all_meet(BarrierKind::Blocking, 3, 1, 2);
    }

    #[test]
    fn a_barrier_that_is_broken_at_any_moment_lets_everybody_go() {
        for kind in BarrierKind::ALL {
            every_order(3, move || {
                let shared = Shared::new(kind, 2);
                let waiting = Arc::clone(&shared);
                let waiter = thread::spawn(move || waiting.barrier.wait());
                shared.barrier.break_up();
                assert_eq!(waiter.join().unwrap(), Err(Broken));
                assert_eq!(shared.barrier.wait(), Err(Broken));
            });
        }
    }

    #[test]
    fn a_barrier_that_is_broken_by_one_who_has_just_passed_stays_broken() {
        for kind in BarrierKind::ALL {
            every_order(3, move || {
                let shared = Shared::new(kind, 2);
                let waiting = Arc::clone(&shared);
                let waiter = thread::spawn(move || waiting.barrier.wait());
                assert_eq!(shared.barrier.wait(), Ok(()));
                shared.barrier.break_up();
                // The other one met this one; whether it sees that or the break depends on timing.
                let _ = waiter.join().unwrap();
                assert_eq!(shared.barrier.wait(), Err(Broken));
            });
        }
    }
}
