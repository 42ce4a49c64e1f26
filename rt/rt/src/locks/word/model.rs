//! A model of the kernel for loom: waiting threads in FIFO order. The word changes as the manual of `FUTEX_LOCK_PI` specifies.

use super::{FREE, Ordering, Word};
use loom::sync::{Condvar, Mutex, MutexGuard};

/// The threads that wait for a word.
#[derive(Debug, Default)]
pub(super) struct Kernel {
    waiters: Mutex<Vec<u32>>,
    handed: Condvar,
}

impl Kernel {
    fn enter(&self) -> MutexGuard<'_, Vec<u32>> {
        self.waiters.lock().expect("no test panics in the kernel")
    }
}

impl Word {
    pub(super) fn wait(&self) {
        let me = thread::number();
        let mut waiters = self.1.enter();
        let mut value = self.0.load(Ordering::Relaxed);
        loop {
            let wanted = if value == FREE { me } else { value | libc::FUTEX_WAITERS };
            match self.0.compare_exchange(value, wanted, Ordering::Acquire, Ordering::Relaxed) {
                Ok(FREE) => return,
                Ok(_) => break,
                Err(other) => value = other,
            }
        }
        waiters.push(me);
        while self.0.load(Ordering::Acquire) & libc::FUTEX_TID_MASK != me {
            waiters = self.1.handed.wait(waiters).expect("as above");
        }
    }

    pub(super) fn hand_over(&self) {
        let mut waiters = self.1.enter();
        let value = self.0.load(Ordering::Relaxed);
        assert_eq!(value, thread::number() | libc::FUTEX_WAITERS, "another thread holds it");
        let next = waiters.remove(0);
        let others = if waiters.is_empty() { 0 } else { libc::FUTEX_WAITERS };
        self.0.store(next | others, Ordering::Release);
        self.1.handed.notify_all();
    }
}

pub(super) mod thread {
    //! IDs of loom's threads.

    use std::cell::Cell;
    use std::sync::atomic::{AtomicU32, Ordering};

    static NEXT: AtomicU32 = AtomicU32::new(1);

    loom::thread_local! {
        static NUMBER: Cell<u32> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) & libc::FUTEX_TID_MASK);
    }

    pub(in super::super) fn number() -> u32 {
        NUMBER.with(Cell::get)
    }
}
