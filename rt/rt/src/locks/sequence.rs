//! How a condition sleeps and wakes: a number that each signal increments.
//!
//! A waiting thread reads the number while it holds the mutex, releases the mutex, and sleeps while the number is unchanged. A signal increments
//! it, then wakes. A signal between the two changes the number, so none is lost. If a sleeping thread dies, the count of waiters stays too high by
//! one. The only effect is that signals make unneeded system calls.

#[cfg(not(loom))]
use super::futex::{Scope, futex};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering};

/// The number, and the count of waiting threads.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Sequence {
    number: AtomicU32,
    waiting: AtomicU32,
    #[cfg(loom)]
    kernel: (loom::sync::Mutex<()>, loom::sync::Condvar),
}

/// The number at the time at which a thread began to wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket(u32);

/// Which threads to wake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiters {
    One,
    All,
}

impl Sequence {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Sequence {
        Sequence { number: AtomicU32::new(0), waiting: AtomicU32::new(0) }
    }

    /// Begins to wait: later signals are not missed.
    pub(crate) fn enter(&self) -> Ticket {
        // Before the number is read, so that a later signal finds a waiting thread.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Ticket(self.number.load(Ordering::SeqCst))
    }

    /// Ends a wait.
    pub(crate) fn leave(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn is_same(&self, ticket: Ticket) -> bool {
        self.number.load(Ordering::SeqCst) == ticket.0
    }

    /// Increments the number. True: a thread may be asleep.
    fn advance(&self) -> bool {
        self.number.fetch_add(1, Ordering::SeqCst);
        self.waiting.load(Ordering::SeqCst) != 0
    }
}

#[cfg(not(loom))]
impl Sequence {
    /// Sleeps while the number is unchanged, until `deadline`. False: the deadline has passed.
    pub(crate) fn sleep(&self, ticket: Ticket, scope: Scope, deadline: Option<&libc::timespec>) -> bool {
        while self.is_same(ticket) {
            let slept = futex(&self.number, libc::FUTEX_WAIT_BITSET, scope, ticket.0, deadline);
            if slept == Err(libc::ETIMEDOUT) {
                return false;
            }
        }
        true
    }

    pub(crate) fn wake(&self, waiters: Waiters, scope: Scope) {
        if self.advance() {
            let count = if waiters == Waiters::One { 1 } else { i32::MAX.unsigned_abs() };
            // It cannot fail for a valid word, and no caller could handle a failure.
            let _ = futex(&self.number, libc::FUTEX_WAKE, scope, count, None);
        }
    }
}

/// The same with a model of the kernel: `FUTEX_WAIT` compares and falls asleep in one step, as seen by `FUTEX_WAKE`. Every interleaving of the
/// threads: `RUSTFLAGS="--cfg loom" cargo test -p millpond-rt --test loom sequence`.
#[cfg(all(test, loom))]
mod orders {
    use super::*;
    use loom::sync::{Arc, Condvar, Mutex};

    impl Sequence {
        fn new() -> Sequence {
            let (number, waiting) = (AtomicU32::new(0), AtomicU32::new(0));
            Sequence { number, waiting, kernel: (Mutex::new(()), Condvar::new()) }
        }

        fn sleep(&self, ticket: Ticket) {
            let mut inside = self.kernel.0.lock().unwrap();
            while self.is_same(ticket) {
                inside = self.kernel.1.wait(inside).unwrap();
            }
        }

        fn wake(&self, waiters: Waiters) {
            if self.advance() {
                let _inside = self.kernel.0.lock().unwrap();
                match waiters {
                    Waiters::One => self.kernel.1.notify_one(),
                    Waiters::All => self.kernel.1.notify_all(),
                }
            }
        }
    }

    /// The usual use of a condition: a count under a mutex, and threads that wait until it is not zero.
    struct Shared {
        count: Mutex<u32>,
        sequence: Sequence,
    }

    impl Shared {
        fn take(&self) {
            loop {
                let mut count = self.count.lock().unwrap();
                if *count > 0 {
                    *count -= 1;
                    return;
                }
                let ticket = self.sequence.enter();
                drop(count);
                self.sequence.sleep(ticket);
                self.sequence.leave();
            }
        }

        fn give(&self, how_many: u32, waiters: Waiters) {
            *self.count.lock().unwrap() += how_many;
            // After the mutex is released: the harder case.
            self.sequence.wake(waiters);
        }
    }

    /// Loom fails if all threads sleep.
    fn every_order(give: fn(&Shared)) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let shared = Arc::new(Shared { count: Mutex::new(0), sequence: Sequence::new() });
            let takers: Vec<_> = (0..2)
                .map(|_| {
                    let shared = Arc::clone(&shared);
                    loom::thread::spawn(move || shared.take())
                })
                .collect();
            give(&shared);
            for taker in takers {
                taker.join().unwrap();
            }
            assert_eq!(*shared.count.lock().unwrap(), 0);
        });
    }

    #[test]
    fn a_signal_for_each_reaches_both_in_any_order() {
        every_order(|shared| {
            shared.give(1, Waiters::One);
            shared.give(1, Waiters::One);
        });
    }

    #[test]
    fn one_signal_for_all_reaches_both_in_any_order() {
        every_order(|shared| shared.give(2, Waiters::All));
    }
}
