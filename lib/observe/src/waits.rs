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
//! a thread of the process is recorded as the holder            mutex       PI and robust mutexes, and musl's but for the plain one, hold its
//!                                                                          number in the word, glibc's other ones 8 bytes behind it
//! one value throughout, not 0, and those that waited wake      mutex       a thread that got a contended mutex must wake the next;
//!   others at the same word afterwards: of a value that is                 a notification changes the word of a condition
//!   no library's only if what the holders did explains the
//!   waits
//! the value is 2 or 3 (a contended mutex has it in glibc,      unknown     the holder may keep it all the time; or a counter of
//!   Rust and Go) or that of musl's plain mutex, and fewer                  notifications stands there by chance, or a thread is idle
//!   than 5 waits were ended                                                at a condition of musl's or in TBB: these have 2, too
//! each wake-up is handed on, at least 3 of them, what the      resource    a semaphore or a condition variable that serves as a
//!   holders did explains the waits, and they run, there and                lock
//!   elsewhere
//! the same, but the holders sleep meanwhile, or do nothing     unknown     a few connections to a slow server, or a leader that waits
//!   elsewhere                                                              for requests; a lock, or work that makes work
//! the same, but the holders wait for CPUs most of the time,    unknown     on a busy machine every thread that is woken waits before it
//!   or handed it on fewer than 3 times                                     wakes the next one: a lock, or work that makes work
//! anything else, and every value 0 that is not handed on       condition   counters of notifications, words of parked threads
//! ```
//!
//! # The rhythm
//!
//! A worker that waits for the next request and a thread that is held up by another one can wait at the same kind of word. They differ in what ends the
//! wait. The worker waits as long as requests let it: they come in their own rhythm, from a thread that has not waited there. A thread that is held up waits
//! as long as the threads before it hold what it wants: each of them was woken at the word, and wakes the next one there when it has done.
//!
//! So programs in the kernel keep, from each wake-up of a thread at a word to the wake-up call that it makes at this word itself, how much time that took
//! (*held*), and for how much of it the thread ran and slept. While a thread is held up another one holds what it waits for. All that was held together
//! cannot be less than the time for which the thread that waited longest did so, but for holders that came without a wait. If it is less than half of
//! that, waits have another reason. If it is enough only with the time for which the holders waited for CPUs, it cannot be told. A holder that computes
//! is a lock's. A holder that sleeps may be the leader of idle workers, which waits for the next request and then wakes the next leader. And a thread that
//! does nothing from its call to its next wait lives by wake-ups alone, as a worker does that makes work for others.
//!
//! The rules are tried from top to bottom. Sources of the values: the manual pages futex(2) and FUTEX_LOCK_PI(2const), and what `strace` shows of programs
//! with glibc 2.36, musl 1.2.3, Rust 1.95, Go 1.26, and libgomp (-1 in a contended lock) of GCC 12.2 and TBB 2021.8 (2 in idle workers).
//!
//! What the rules cannot see: a lock that is made of parked threads (Java's monitors, `parking_lot`), each at a word of its own: their words look like those
//! of idle workers. A reader-writer lock is found as far as its waiters wake others at the same word.

use millpond_model::{FutexFacts, FutexOperation, Nanos, Wait, WaitFacts, WaitKind};

/// So many waits that handed the word on make a mutex of it. A counter that begins at 2 has passed 3 by then.
const RELEASED_MIN: u64 = 3;
/// At least one in so many of the waits that were ended hands the word on: a mutex may be lost to another thread after a wake-up.
const RELEASED_ONE_IN: u64 = 10;
/// After so many waits that were ended and none that handed the word on it is no mutex.
const WOKEN_ENOUGH: u64 = 5;
/// The values of a contended lock in the common libraries: 2; 3 in reader-writer locks of glibc.
const CONTENDED: std::ops::RangeInclusive<u32> = 2..=3;
/// That of musl's plain mutex, which does not hold the number of its holder: `EBUSY` and the bit of waiters.
const CONTENDED_MUSL: u32 = 1 << 31 | 16;

/// A resource is handed on by so many in four of the threads that were woken for it. A barrier wakes many at once.
const HANDED_ON_OF_FOUR: u64 = 3;
/// What was held, or what its holders did meanwhile, explains the waits if it is at least one in so many parts of the longest.
const EXPLAINED_ONE_IN: u64 = 2;
/// A thread does something elsewhere if it runs there for at least one in so many parts of what it runs for while it holds something.
const APART_ONE_IN: u64 = 10;

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
    let is_contended = (CONTENDED.contains(&least) && CONTENDED.contains(&most))
        || (least, most) == (CONTENDED_MUSL, CONTENDED_MUSL);
    match operation {
        FutexOperation::LockPi => return WaitKind::Mutex,
        FutexOperation::RequeuePi | FutexOperation::Several => return WaitKind::Condition,
        FutexOperation::Wait => {}
    }
    let FutexFacts { held, held_ran, held_slept, apart_ran, longest, .. } = *facts;
    let explains = |time: Nanos| time.0.saturating_mul(EXPLAINED_ONE_IN) >= longest.0;
    let did_explains = explains(held_ran + held_slept);
    let is_often = released >= RELEASED_MIN;
    let is_locked = least != 0 && (is_contended || least == most && did_explains);
    let is_handed_on = is_often && released.saturating_mul(RELEASED_ONE_IN) >= woken;
    if ended > 0 || (shared && facts.names_thread) {
        WaitKind::Join
    } else if facts.holder.is_some() || (is_locked && is_handed_on) {
        WaitKind::Mutex
    } else if is_contended && woken < WOKEN_ENOUGH {
        WaitKind::Unknown
    } else if released > 0
        && released.saturating_mul(4) >= woken.saturating_mul(HANDED_ON_OF_FOUR)
        && explains(held)
    {
        let runs = held_ran >= held_slept && apart_ran.0.saturating_mul(APART_ONE_IN) >= held_ran.0;
        if is_often && did_explains && runs { WaitKind::Resource } else { WaitKind::Unknown }
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
    /// For what other threads have and use: semaphores and conditions that serve as locks.
    pub resource: Nanos,
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
                WaitKind::Resource => &mut split.resource,
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

    /// Waits with FUTEX_WAIT or FUTEX_WAIT_BITSET, private, each for the same value. The thread that waited longest did so for 1000 ns, and nothing was held.
    fn waits(value: u32, woken: u64, released: u64) -> FutexFacts {
        FutexFacts { values: (value, value), woken, released, longest: Nanos(1_000), ..FutexFacts::default() }
    }

    /// The same; what was handed on was held for so long, of which its holders ran and slept so long, and apart from it they ran for so long.
    fn held(facts: FutexFacts, [held, ran, slept, apart]: [u64; 4]) -> FutexFacts {
        let [held, held_ran, held_slept, apart_ran] = [held, ran, slept, apart].map(Nanos);
        FutexFacts { held, held_ran, held_slept, apart_ran, ..facts }
    }

    fn kind(facts: FutexFacts) -> WaitKind {
        classify(&WaitFacts::Futex(facts))
    }

    #[test]
    fn an_idle_worker_at_a_condition_variable_is_not_at_a_mutex() {
        // glibc 2.36: 0 in the word of signals. No thread posts work; or another thread does, again and again.
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
    fn workers_wait_as_long_as_requests_let_them() {
        // A pool of which each worker, woken, wakes the next one at once: a job makes jobs. Nothing is held while they wait.
        assert_eq!(kind(held(waits(0, 500, 500), [20, 20, 0, 600])), WaitKind::Condition);
        // Requests come from a thread that never waits there.
        assert_eq!(kind(held(waits(0, 500, 0), [0, 0, 0, 0])), WaitKind::Condition);
        // A barrier: one of eight wakes the seven others.
        assert_eq!(kind(held(waits(0, 700, 100), [900, 900, 0, 900])), WaitKind::Condition);
        // Of two at a barrier each is the last one in half of the rounds.
        assert_eq!(kind(held(waits(0, 100, 50), [900, 900, 0, 900])), WaitKind::Condition);
    }

    #[test]
    fn threads_that_are_held_up_wait_as_long_as_others_hold_what_they_want() {
        // A semaphore of one permit: held all the time, and its holders do other things too.
        assert_eq!(kind(held(waits(0, 500, 500), [1_400, 1_300, 0, 400])), WaitKind::Resource);
        // The machine is busy, but what its holders did is enough.
        assert_eq!(kind(held(waits(0, 500, 500), [4_400, 500, 10, 50])), WaitKind::Resource);
        // Some permits were had without a wait, so that not all that was held is known. A counter of notifications as the word.
        assert_eq!(
            kind(held(FutexFacts { values: (4, 90), ..waits(0, 40, 36) }, [520, 500, 0, 60])),
            WaitKind::Resource
        );
        // Less than half of the longest wait is explained.
        assert_eq!(kind(held(waits(0, 500, 500), [480, 480, 0, 400])), WaitKind::Condition);
    }

    #[test]
    fn a_holder_that_sleeps_or_lives_by_wake_ups_alone_leaves_it_undecided() {
        // Few connections to a slow server; or a leader that waits for requests.
        assert_eq!(kind(held(waits(0, 500, 500), [1_000, 50, 900, 100])), WaitKind::Unknown);
        // One job that goes round; or a lock and nothing else to do.
        assert_eq!(kind(held(waits(0, 500, 500), [1_000, 990, 0, 10])), WaitKind::Unknown);
    }

    #[test]
    fn holders_that_wait_for_a_cpu_leave_it_undecided() {
        // Workers that post work themselves, and a semaphore of one permit, look alike where each thread that is woken waits for a CPU first.
        assert_eq!(kind(held(waits(0, 500, 500), [1_400, 20, 0, 600])), WaitKind::Unknown);
        assert_eq!(kind(held(waits(0, 500, 500), [1_400, 200, 0, 50])), WaitKind::Unknown);
        // It was handed on too seldom to have a rhythm.
        assert_eq!(kind(held(waits(0, 2, 2), [1_400, 1_300, 0, 400])), WaitKind::Unknown);
        assert_eq!(kind(held(waits(0, 2, 0), [1_400, 1_300, 0, 400])), WaitKind::Condition);
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
        // libgomp's lock, and musl's semaphore: a mutex where its holders explain the waits, and else an event that wakes one after another.
        assert_eq!(kind(held(waits(u32::MAX, 10, 9), [990, 900, 0, 0])), WaitKind::Mutex);
        assert_eq!(kind(held(waits(u32::MAX, 10, 9), [990, 0, 0, 0])), WaitKind::Unknown);
        assert_eq!(kind(held(waits(u32::MAX, 10, 9), [10, 0, 0, 0])), WaitKind::Condition);
        // A reader-writer lock of glibc.
        assert_eq!(kind(FutexFacts { values: (2, 3), ..waits(0, 60, 20) }), WaitKind::Mutex);
    }

    #[test]
    fn a_mutex_that_is_held_all_the_time_is_known_by_its_holder() {
        assert_eq!(kind(FutexFacts { holder: Some(LwpId(7)), ..waits(2, 0, 0) }), WaitKind::Mutex);
        // Robust mutexes, and musl's that know their holder: the number of the holder, and the bit of waiters.
        assert_eq!(kind(FutexFacts { holder: Some(LwpId(7)), ..waits(1 << 31 | 7, 0, 0) }), WaitKind::Mutex);
        // Without that it cannot be told from a counter that stands at 2.
        assert_eq!(kind(waits(2, 0, 0)), WaitKind::Unknown);
        assert_eq!(kind(waits(2, 1, 1)), WaitKind::Unknown);
        // musl's plain mutex holds no number, and nothing else has its value.
        assert_eq!(kind(waits(0x8000_0010, 0, 0)), WaitKind::Unknown);
        assert_eq!(kind(waits(0x8000_0010, 100, 90)), WaitKind::Mutex);
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
        // Go: 0; Rust's park: -1; TBB: 2. Each at a word of its own, that others wake.
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
            told(WaitKind::Resource, 2),
        ];
        let split = |mutex, barrier, resource, condition, join, unknown| Split {
            mutex: Nanos(mutex),
            barrier: Nanos(barrier),
            resource: Nanos(resource),
            condition: Nanos(condition),
            join: Nanos(join),
            unknown: Nanos(unknown),
        };
        assert_eq!(Split::of(Nanos(70), &waits), split(5, 1, 2, 50, 10, 2));
        assert_eq!(Split::of(Nanos(40), &waits), split(5, 0, 0, 35, 0, 0));
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
            let Split { mutex, barrier, resource, condition, join, unknown } = Split::of(Nanos(whole), &waits);
            prop_assert_eq!(mutex + barrier + resource + condition + join + unknown, Nanos(whole));
        }
    }
}
