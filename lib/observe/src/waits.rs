//! Tells a contended mutex from the other waits that count as LCK.
//!
//! Solaris' LCK, and so `prstat`'s, is every wait for a synchronization object of the program. Most of these are no loss: an idle worker waits at a
//! condition variable, the main thread in a join. Only a thread that waits for a *mutex* could run if the program were written otherwise. The kernel
//! sees a *futex word* and a value that the caller expects in it; the objects are the C library's. What tells them apart:
//!
//! ```text
//! fact                                                         kind        because
//! FUTEX_LOCK_PI                                                mutex       the kernel's own mutex
//! FUTEX_WAIT_REQUEUE_PI, futex_waitv                           condition   no mutex is acquired so
//! the value is a thread of the process, the word is not        join        pthread_join waits at the word that the kernel
//!   private; or the waits end when a thread ends                           clears at the end of a thread
//! a thread of the process is recorded as the holder            mutex       PI, robust and musl's mutexes hold its number in the
//!                                                                          word, glibc's other ones 8 bytes behind it
//! the value is 0                                               condition   0 in the word of a mutex means that it is free
//! one value throughout, and those that waited wake others      mutex       a thread that got a contended mutex must wake the next;
//!   at the same word afterwards                                            a notification changes the word of a condition
//! the value is 2 or 3 (a contended mutex has it in glibc,      unknown     the holder may keep it all the time; or a counter of
//!   Rust and Go), and fewer than 5 waits were ended                        notifications stands there by chance
//! anything else                                                condition   counters of notifications, words of parked threads
//! ```
//!
//! The rules are tried from top to bottom. Sources of the values: the manual pages futex(2) and FUTEX_LOCK_PI(2const), and what `strace` shows of programs
//! with glibc 2.36, musl 1.2, Rust 1.90 and Go 1.26.
//!
//! What the rules cannot see: a lock that is made of a condition variable or of parked threads (Java's monitors, `parking_lot`, a semaphore used as a lock). Its
//! word looks like that of an idle worker, and its waits count as waits at a condition. A reader-writer lock is found as far as its waiters
//! wake others at the same word.

use millpond_model::{FutexFacts, FutexOperation, Nanos, Wait, WaitFacts, WaitKind};

/// So many waits that handed the word on make a mutex of it. A counter that begins at 2 has passed 3 by then.
const RELEASED_MIN: u64 = 3;
/// At least one in so many of the waits that were ended hands the word on: a mutex may be lost to another thread after a wake-up.
const RELEASED_ONE_IN: u64 = 10;
/// After so many waits that were ended and none that handed the word on it is no mutex.
const WOKEN_ENOUGH: u64 = 5;
/// The values of a contended lock in the common libraries: 2; 3 in reader-writer locks of glibc.
const CONTENDED: std::ops::RangeInclusive<u32> = 2..=3;

/// What waits at one address are for.
#[must_use]
pub fn classify(facts: &WaitFacts) -> WaitKind {
    match facts {
        WaitFacts::Told(kind) => *kind,
        WaitFacts::Futex(facts) => of_futex(facts),
    }
}

fn of_futex(facts: &FutexFacts) -> WaitKind {
    let FutexFacts { operation, shared, values: (least, most), woken, released, ended, .. } = *facts;
    let is_contended = CONTENDED.contains(&least) && CONTENDED.contains(&most);
    match operation {
        FutexOperation::LockPi => return WaitKind::Mutex,
        FutexOperation::RequeuePi | FutexOperation::Several => return WaitKind::Condition,
        FutexOperation::Wait => {}
    }
    if ended > 0 || (shared && facts.names_thread) {
        WaitKind::Join
    } else if facts.holder.is_some() {
        WaitKind::Mutex
    } else if least == 0 {
        WaitKind::Condition
    } else if (least == most || is_contended)
        && released >= RELEASED_MIN
        && released.saturating_mul(RELEASED_ONE_IN) >= woken
    {
        WaitKind::Mutex
    } else if is_contended && woken < WOKEN_ENOUGH {
        WaitKind::Unknown
    } else {
        WaitKind::Condition
    }
}

/// Where the time for locks went, by what it was for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Split {
    /// For contended mutexes.
    pub mutex: Nanos,
    /// At barriers.
    pub barrier: Nanos,
    /// At conditions, semaphores, empty queues.
    pub condition: Nanos,
    /// For ends of threads.
    pub join: Nanos,
    /// Undecided, or not remembered.
    pub unknown: Nanos,
}

impl Split {
    /// Splits the time for locks, `whole`, as the waits say that are known; what they leave is unknown. Each address once.
    pub fn of<'a>(whole: Nanos, waits: impl IntoIterator<Item = &'a Wait>) -> Split {
        let mut split = Split::default();
        let mut left = whole;
        for wait in waits {
            let part = match classify(&wait.facts) {
                WaitKind::Mutex => &mut split.mutex,
                WaitKind::Barrier => &mut split.barrier,
                WaitKind::Condition => &mut split.condition,
                WaitKind::Join => &mut split.join,
                WaitKind::Unknown => &mut split.unknown,
            };
            // Both are read from a machine that goes on: a wait may be a moment ahead of the whole.
            let time = wait.time.min(left);
            *part = *part + time;
            left = left - time;
        }
        split.unknown = split.unknown + left;
        split
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::LwpId;
    use proptest::prelude::*;

    /// Waits with FUTEX_WAIT or FUTEX_WAIT_BITSET, private, each for the same value.
    fn waits(value: u32, woken: u64, released: u64) -> FutexFacts {
        FutexFacts { values: (value, value), woken, released, ..FutexFacts::default() }
    }

    fn kind(facts: FutexFacts) -> WaitKind {
        classify(&WaitFacts::Futex(facts))
    }

    #[test]
    fn an_idle_worker_at_a_condition_variable_is_not_at_a_mutex() {
        // glibc 2.36: 0 in the word of signals. Nobody posts work; or another thread does, again and again.
        assert_eq!(kind(waits(0, 0, 0)), WaitKind::Condition);
        assert_eq!(kind(waits(0, 1_000, 0)), WaitKind::Condition);
        // A counter of notifications: Rust's, and newer glibc's.
        assert_eq!(kind(FutexFacts { values: (4, 90), ..waits(0, 40, 0) }), WaitKind::Condition);
        assert_eq!(kind(waits(17, 0, 0)), WaitKind::Condition);
    }

    #[test]
    fn workers_that_post_work_themselves_are_not_at_a_mutex() {
        // Each wakes others at the word at which it waited: as the holders of a mutex do, but the word counts.
        assert_eq!(kind(FutexFacts { values: (2, 50), ..waits(0, 40, 40) }), WaitKind::Condition);
        assert_eq!(kind(waits(0, 40, 40)), WaitKind::Condition);
    }

    #[test]
    fn a_semaphore_of_connections_is_not_a_mutex_though_those_that_waited_post_it() {
        assert_eq!(kind(waits(0, 500, 500)), WaitKind::Condition);
    }

    #[test]
    fn main_in_a_join_is_known_by_the_thread_that_it_waits_for() {
        let join = FutexFacts { shared: true, names_thread: true, ..waits(4212, 0, 0) };
        assert_eq!(kind(join), WaitKind::Join);
        // The thread has ended meanwhile: its number is not known any more.
        assert_eq!(kind(FutexFacts { names_thread: false, ended: 1, ..join }), WaitKind::Join);
        // A counter of a process that happens to be such a number is private.
        assert_eq!(kind(FutexFacts { shared: false, ..join }), WaitKind::Condition);
    }

    #[test]
    fn a_contended_mutex_is_known_by_those_that_hand_it_on() {
        assert_eq!(kind(waits(2, 1_000, 990)), WaitKind::Mutex);
        // It is often lost to another thread after a wake-up.
        assert_eq!(kind(waits(2, 1_000, 150)), WaitKind::Mutex);
        // libgomp: -1.
        assert_eq!(kind(waits(u32::MAX, 10, 9)), WaitKind::Mutex);
        // A reader-writer lock of glibc.
        assert_eq!(kind(FutexFacts { values: (2, 3), ..waits(0, 60, 20) }), WaitKind::Mutex);
    }

    #[test]
    fn a_mutex_that_is_held_all_the_time_is_known_by_its_holder() {
        assert_eq!(kind(FutexFacts { holder: Some(LwpId(7)), ..waits(2, 0, 0) }), WaitKind::Mutex);
        // musl and robust mutexes: the number of the holder, and the bit of waiters.
        assert_eq!(kind(FutexFacts { holder: Some(LwpId(7)), ..waits(1 << 31 | 7, 0, 0) }), WaitKind::Mutex);
        // Without that it cannot be told from a counter that stands at 2.
        assert_eq!(kind(waits(2, 0, 0)), WaitKind::Unknown);
        assert_eq!(kind(waits(2, 1, 1)), WaitKind::Unknown);
    }

    #[test]
    fn a_mutex_of_the_kernel_is_one() {
        let facts = |operation| FutexFacts { operation, ..FutexFacts::default() };
        assert_eq!(kind(facts(FutexOperation::LockPi)), WaitKind::Mutex);
        assert_eq!(kind(facts(FutexOperation::RequeuePi)), WaitKind::Condition);
        assert_eq!(kind(facts(FutexOperation::Several)), WaitKind::Condition);
    }

    #[test]
    fn parked_threads_wait_for_something() {
        // Go: 0; parking_lot: 1; Rust's park: -1; TBB: 2. Each at a word of its own, that others wake.
        for value in [0, 1, u32::MAX, 2] {
            assert_eq!(kind(waits(value, 300, 0)), WaitKind::Condition, "{value}");
        }
        assert_eq!(kind(waits(1, 0, 0)), WaitKind::Condition);
    }

    #[test]
    fn the_facts_of_all_threads_decide_together() {
        // The last of three to wait has seen only that it was woken.
        let one = |facts, time| Wait { time: Nanos(time), facts: WaitFacts::Futex(facts) };
        let all = [one(waits(2, 3, 2), 10), one(waits(2, 2, 1), 20), one(waits(2, 1, 0), 30)];
        let sum = all.iter().copied().reduce(|a, b| a.joined(&b)).unwrap();
        assert_eq!(sum, one(waits(2, 6, 3), 60));
        assert_eq!(classify(&sum.facts), WaitKind::Mutex);
        let held = one(FutexFacts { holder: Some(LwpId(3)), ..waits(5, 0, 0) }, 1);
        let sum = held.joined(&one(waits(2, 0, 0), 1));
        assert_eq!(sum, one(FutexFacts { values: (2, 5), holder: Some(LwpId(3)), ..waits(0, 0, 0) }, 2));
    }

    #[test]
    fn time_that_no_wait_explains_is_unknown() {
        let told = |kind, time| Wait { time: Nanos(time), facts: WaitFacts::Told(kind) };
        let waits = [
            told(WaitKind::Mutex, 5),
            told(WaitKind::Condition, 50),
            told(WaitKind::Join, 10),
            told(WaitKind::Barrier, 1),
        ];
        let split = |mutex, barrier, condition, join, unknown| Split {
            mutex: Nanos(mutex),
            barrier: Nanos(barrier),
            condition: Nanos(condition),
            join: Nanos(join),
            unknown: Nanos(unknown),
        };
        assert_eq!(Split::of(Nanos(70), &waits), split(5, 1, 50, 10, 4));
        assert_eq!(Split::of(Nanos(40), &waits), split(5, 0, 35, 0, 0));
    }

    proptest! {
        #[test]
        fn nothing_of_the_whole_is_lost(
            whole in 0_u64..1000, waits in prop::collection::vec((0_u64..300, 0_u32..4, 0_u64..9, 0_u64..9), 0..6),
        ) {
            let wait = |(time, value, woken, released): &(u64, u32, u64, u64)| Wait {
                time: Nanos(*time),
                facts: WaitFacts::Futex(FutexFacts { values: (*value, *value), woken: *woken, released: *released, ..FutexFacts::default() }),
            };
            let waits: Vec<Wait> = waits.iter().map(wait).collect();
            let Split { mutex, barrier, condition, join, unknown } = Split::of(Nanos(whole), &waits);
            prop_assert_eq!(mutex + barrier + condition + join + unknown, Nanos(whole));
        }
    }
}
