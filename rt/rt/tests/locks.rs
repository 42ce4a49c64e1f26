//! Mutexes and conditions from Rust: contention, owners that end or panic, and priority inheritance.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use libc::c_int;
use millpond_rt::{Condition, LockError, LockRefusal, Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

fn refusal<T>(result: Result<MutexGuard<'_, T>, LockError<'_, T>>) -> c_int {
    match result {
        Ok(_) => 0,
        Err(error) => error.errno(),
    }
}

#[test]
fn of_many_threads_one_has_the_value_at_a_time() {
    for mutex in [Mutex::new(0u64).unwrap(), Mutex::plain(0).unwrap()] {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..5_000).for_each(|_| *mutex.lock().unwrap() += 1));
            }
        });
        assert_eq!(*mutex.lock().unwrap(), 20_000);
    }
}

#[test]
fn who_has_it_is_refused_and_who_comes_late_is_told() {
    for mutex in [Mutex::new(()).unwrap(), Mutex::plain(()).unwrap()] {
        let held = mutex.lock().unwrap();
        assert_eq!(refusal(mutex.lock()), libc::EDEADLK);
        assert_eq!(refusal(mutex.try_lock()), libc::EBUSY);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(refusal(mutex.try_lock()), libc::EBUSY);
                assert_eq!(refusal(mutex.lock_until(Instant::now())), libc::ETIMEDOUT);
                let soon = Instant::now() + Duration::from_millis(2);
                assert_eq!(refusal(mutex.lock_until(soon)), libc::ETIMEDOUT);
                assert!(Instant::now() >= soon);
            });
        });
        drop(held);
        assert_eq!(refusal(mutex.lock_until(Instant::now() + Duration::from_secs(60))), 0);
        assert_eq!(refusal(mutex.try_lock()), 0);
    }
}

/// A thread that ends while it holds the mutex.
fn end_with(mutex: &Mutex<i32>) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let mut held = mutex.lock().unwrap();
            *held = -1;
            std::mem::forget(held);
        });
        // The end of the scope waits for the closure only, not for the thread.
        thread.join().unwrap();
    });
}

/// A thread that panics while it holds the mutex.
fn panic_with(mutex: &Mutex<i32>) {
    let ended = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                *mutex.lock().unwrap() = -1;
                let _held = mutex.lock().unwrap();
                panic!("on purpose");
            })
            .join()
    });
    assert!(ended.is_err());
}

#[test]
fn the_next_one_is_told_that_the_owner_died_and_repairs() {
    for die in [end_with, panic_with] {
        let mutex = Mutex::new(1).unwrap();
        die(&mutex);
        let Err(LockError::OwnerDied(mut orphan)) = mutex.lock() else {
            panic!("the death of the owner was not reported")
        };
        assert_eq!(*orphan, -1);
        *orphan = 2;
        drop(orphan.make_consistent().unwrap());
        assert_eq!(*mutex.lock().unwrap(), 2);
    }
}

#[test]
fn what_nobody_repairs_nobody_gets() {
    for die in [end_with, panic_with] {
        let mutex = Mutex::new(1).unwrap();
        die(&mutex);
        assert!(matches!(mutex.try_lock(), Err(LockError::OwnerDied(_))));
        for refused in [mutex.lock(), mutex.try_lock(), mutex.lock_until(Instant::now())] {
            assert!(matches!(refused, Err(LockError::Refused(LockRefusal::NotRecoverable))));
        }
    }
}

#[test]
fn who_waits_when_the_owner_dies_is_told() {
    let (mutex, is_held) = (Mutex::new(1).unwrap(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::mem::forget(mutex.lock().unwrap());
            is_held.store(true, Ordering::Release);
            // Long enough for the other thread to wait. Without waiting it gets the same error.
            std::thread::sleep(Duration::from_millis(5));
        });
        while !is_held.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        assert!(matches!(mutex.lock(), Err(LockError::OwnerDied(_))));
    });
}

#[test]
fn a_mutex_that_goes_while_a_guard_was_forgotten_harms_nobody() {
    std::thread::spawn(|| {
        let mutex = Mutex::new(vec![1]).unwrap();
        std::mem::forget(mutex.lock().unwrap());
        drop(mutex);
        // The kernel reads this thread's robust list when it ends.
        let other = Mutex::new(2).unwrap();
        assert_eq!(*other.lock().unwrap(), 2);
    })
    .join()
    .unwrap();
}

#[test]
fn a_condition_wakes_each_and_all_and_by_the_clock() {
    let (mutex, filled) = (Mutex::new(0u32).unwrap(), Condition::new());
    let taken = AtomicI32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let mut held = mutex.lock().unwrap();
                    while *held == 0 {
                        held = filled.wait(held).unwrap();
                    }
                    *held -= 1;
                    taken.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for round in 0..300 {
            let mut held = mutex.lock().unwrap();
            *held += 2;
            if round % 3 == 0 {
                filled.notify_all();
            } else {
                filled.notify_one();
                filled.notify_one();
            }
        }
    });
    assert_eq!(taken.into_inner(), 600);
    let held = mutex.lock().unwrap();
    let (held, is_signalled) = filled.wait_until(held, Instant::now()).unwrap();
    assert_eq!((*held, is_signalled), (0, false));
    assert_eq!(refusal(mutex.try_lock()), libc::EBUSY);
}

/// The value, made consistent if its owner died.
fn repaired<'a>(locked: Result<MutexGuard<'a, i32>, LockError<'a, i32>>) -> MutexGuard<'a, i32> {
    match locked {
        Ok(held) => held,
        Err(LockError::OwnerDied(orphan)) => orphan.make_consistent().unwrap(),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn who_waits_for_a_condition_is_told_that_the_owner_died() {
    let (mutex, changed) = (Mutex::new(0).unwrap(), Condition::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut held = repaired(mutex.lock());
            while *held == 0 {
                held = repaired(changed.wait(held));
            }
        });
        scope.spawn(|| {
            let mut held = mutex.lock().unwrap();
            *held = 1;
            changed.notify_one();
            std::mem::forget(held);
        });
    });
    assert_eq!(*mutex.lock().unwrap(), 1);
}

/// The kernel's current priority of the calling thread, inherited or its own: field 18 of `stat`, which is -1 minus the FIFO priority.
fn priority_now() -> i32 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let behind = stat.rsplit(") ").next().unwrap();
    behind.split(' ').nth(15).unwrap().parse().unwrap()
}

fn be_fifo(priority: c_int) -> bool {
    let wanted = libc::sched_param { sched_priority: priority };
    // SAFETY: the record is readable.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const wanted) == 0 }
}

/// The holder's priority while a FIFO 20 thread waits, and afterwards. `None`: no right to that class.
fn inherited(mutex: &Mutex<()>) -> Option<(i32, i32)> {
    let (is_waiting, tid) = (AtomicBool::new(false), AtomicI32::new(0));
    let held = mutex.lock().unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let has_right = be_fifo(20);
            // SAFETY: the call has no effect.
            tid.store(unsafe { libc::gettid() }, Ordering::Relaxed);
            is_waiting.store(true, Ordering::Release);
            drop(mutex.lock().unwrap());
            has_right
        });
        while !is_waiting.load(Ordering::Acquire) || !sleeps_in_futex(tid.load(Ordering::Relaxed), &LOCKING) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let during = priority_now();
        drop(held);
        let after = priority_now();
        waiter.join().unwrap().then_some((during, after))
    })
}

/// Whether a thread waits in `futex` with one of these operations, private or not.
fn sleeps_in_futex(tid: i32, operations: &[c_int]) -> bool {
    let call = std::fs::read_to_string(format!("/proc/self/task/{tid}/syscall")).unwrap_or_default();
    let mut words = call.split(' ');
    let is_futex = words.next() == Some(&libc::SYS_futex.to_string());
    let operation =
        words.nth(1).and_then(|word| c_int::from_str_radix(word.trim_start_matches("0x"), 16).ok());
    is_futex && operation.is_some_and(|operation| operations.contains(&(operation & libc::FUTEX_CMD_MASK)))
}

/// Why the waiting of other threads cannot be observed here; `None` if it can.
fn blind() -> Option<&'static str> {
    let has_calls = std::fs::read_to_string("/proc/thread-self/syscall").is_ok();
    (!has_calls).then_some("the kernel does not tell in which system call a thread waits")
}

/// Operations of waiting for a PI mutex, and for a plain one.
const LOCKING: [c_int; 3] = [libc::FUTEX_LOCK_PI, libc::FUTEX_LOCK_PI2, libc::FUTEX_WAIT];

#[test]
fn who_holds_it_has_the_priority_of_who_waits() {
    if let Some(why) = blind() {
        return println!("skipped: who_holds_it_has_the_priority_of_who_waits: {why}");
    }
    let before = priority_now();
    let Some(seen) = inherited(&Mutex::new(()).unwrap()) else {
        return println!(
            "skipped: who_holds_it_has_the_priority_of_who_waits: no right to real-time classes (ulimit -r)"
        );
    };
    assert_eq!(seen, (-1 - 20, before));
    assert_eq!(inherited(&Mutex::plain(()).unwrap()), Some((before, before)));
}

#[test]
fn who_was_woken_and_finds_the_mutex_held_lends_its_priority() {
    if let Some(why) = blind() {
        return println!("skipped: who_was_woken_and_finds_the_mutex_held_lends_its_priority: {why}");
    }
    let before = priority_now();
    let (mutex, changed) = (Mutex::new(false).unwrap(), Condition::new());
    let tid = AtomicI32::new(0);
    let sleeps = |operations: &[c_int]| {
        while !sleeps_in_futex(tid.load(Ordering::Acquire), operations) {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let has_right = be_fifo(20);
            let mut held = mutex.lock().unwrap();
            // SAFETY: the call has no effect.
            tid.store(unsafe { libc::gettid() }, Ordering::Release);
            while !*held {
                held = changed.wait(held).unwrap();
            }
            has_right
        });
        sleeps(&[libc::FUTEX_WAIT_BITSET]);
        let mut held = mutex.lock().unwrap();
        *held = true;
        assert_eq!(priority_now(), before);
        changed.notify_one();
        sleeps(&[libc::FUTEX_LOCK_PI, libc::FUTEX_LOCK_PI2]);
        let during = priority_now();
        drop(held);
        if !waiter.join().unwrap() {
            return println!(
                "skipped: who_was_woken_and_finds_the_mutex_held_lends_its_priority: no right to real-time classes (ulimit -r)"
            );
        }
        assert_eq!((during, priority_now()), (-1 - 20, before));
    });
}
