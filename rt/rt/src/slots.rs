//! A lock-free set of 64 slots: how stacks are allocated and freed.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

/// A bit for each of 64 slots, set if it is free.
///
/// All writes of a thread before it frees a slot are visible to the next thread that takes it. Both operations are one atomic instruction, so
/// a thread that is preempted or killed delays no other.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Slots(AtomicU64);

impl Slots {
    pub(crate) const COUNT: u32 = u64::BITS;

    /// All slots taken.
    #[cfg(any(test, loom))]
    pub(crate) fn new() -> Slots {
        Slots(AtomicU64::new(0))
    }

    /// Takes the lowest free slot. Recently used slots are likely to be low, so the others stay cold.
    pub(crate) fn take(&self) -> Option<u32> {
        let mut free = self.0.load(Ordering::Relaxed);
        while free != 0 {
            let place = free.trailing_zeros();
            let before = self.0.fetch_and(!(1 << place), Ordering::Acquire);
            if before & (1 << place) != 0 {
                return Some(place);
            }
            free = before;
        }
        None
    }

    /// Frees a slot. False: it was free already.
    #[must_use]
    pub(crate) fn give(&self, place: u32) -> bool {
        self.0.fetch_or(1 << place, Ordering::Release) & (1 << place) == 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_place_is_taken_and_none_twice() {
        let slots = Slots::new();
        assert_eq!(slots.take(), None);
        assert!(slots.give(63) && slots.give(5));
        assert_eq!((slots.take(), slots.take(), slots.take()), (Some(5), Some(63), None));
    }

    #[test]
    fn a_place_that_is_given_twice_is_free_once() {
        let slots = Slots::new();
        assert!(slots.give(0));
        assert!(!slots.give(0));
        assert_eq!((slots.take(), slots.take()), (Some(0), None));
    }
}

/// Every interleaving of the threads: `RUSTFLAGS="--cfg loom" cargo test -p millpond-rt --test loom slots`.
#[cfg(all(test, loom))]
mod orders {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::model::Builder;
    use loom::sync::Arc;
    use loom::thread;

    /// Each thread may be preempted three times. Without a bound the test takes half a minute and finds no more.
    fn every_order(model: impl Fn() + Sync + Send + 'static) {
        let mut builder = Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(model);
    }

    /// Slots, and a value in each. Loom fails if two threads access a value at a time, or if a read is not ordered after the write.
    struct Shared {
        slots: Slots,
        memory: [UnsafeCell<usize>; 2],
    }

    impl Shared {
        fn new(free: u32) -> Arc<Shared> {
            let shared = Shared { slots: Slots::new(), memory: [UnsafeCell::new(0), UnsafeCell::new(0)] };
            for place in 0..free {
                assert!(shared.slots.give(place));
            }
            Arc::new(shared)
        }

        /// Takes a slot, increments its value, and frees it. False: no slot was free.
        fn use_one(&self) -> bool {
            let Some(place) = self.slots.take() else { return false };
            // SAFETY: the slot is this thread's until it is freed; loom checks it.
            self.memory[place as usize].with_mut(|memory| unsafe { *memory += 1 });
            assert!(self.slots.give(place));
            true
        }

        fn used(&self) -> usize {
            // SAFETY: the other threads have ended.
            self.memory.iter().map(|memory| memory.with(|memory| unsafe { *memory })).sum()
        }
    }

    #[test]
    fn nobody_has_a_place_of_another_in_any_order() {
        for (threads, free) in [(2, 1), (2, 2), (3, 2)] {
            every_order(move || {
                let shared = Shared::new(free);
                let others: Vec<_> = (1..threads)
                    .map(|_| {
                        let shared = Arc::clone(&shared);
                        thread::spawn(move || usize::from(shared.use_one()))
                    })
                    .collect();
                let mut uses = usize::from(shared.use_one());
                uses += others.into_iter().map(|other| other.join().unwrap()).sum::<usize>();
                assert_eq!(shared.used(), uses);
                assert!((0..free).all(|_| shared.slots.take().is_some()));
                assert_eq!(shared.slots.take(), None);
            });
        }
    }

    #[test]
    fn of_two_who_give_a_place_at_once_one_is_told_in_any_order() {
        every_order(|| {
            let slots = Arc::new(Slots::new());
            let same = Arc::clone(&slots);
            let other = thread::spawn(move || same.give(7));
            let here = slots.give(7);
            assert!(here ^ other.join().unwrap());
            assert_eq!((slots.take(), slots.take()), (Some(7), None));
        });
    }

    #[test]
    fn a_place_that_is_given_while_others_take_is_lost_to_nobody() {
        every_order(|| {
            let shared = Shared::new(1);
            let giver = Arc::clone(&shared);
            let other = thread::spawn(move || assert!(giver.slots.give(1)));
            let mine = shared.slots.take();
            other.join().unwrap();
            let rest = shared.slots.take();
            assert!(mine.is_some() && rest.is_some() && mine != rest);
            assert_eq!(shared.slots.take(), None);
        });
    }
}
