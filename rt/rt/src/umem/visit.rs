//! Visitors: threads that use caches of others. An update visits all caches, and an ending thread those of its magazines.
//!
//! The creator of a cache does not know of visitors, and may destroy it at any time. So each visitor registers the cache that it visits, and
//! destruction waits until the visitor moves on. The list of caches is not locked meanwhile: constructors and destructors of the program may run, and
//! may create and destroy other caches.

use super::root;
use crate::locks::word::thread_number;
use crate::locks::{Scope, futex};
use millpond_rt_layout::Cache;
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// A visitor, on its own stack. It is in a list that is accessed under the lock of the list of caches.
pub(super) struct Visitor {
    /// The visited cache, or null.
    cache: Cell<*mut Cache>,
    thread: u32,
    next: Cell<*const Visitor>,
}

static FIRST: AtomicPtr<Visitor> = AtomicPtr::new(ptr::null_mut());
/// Changes when a visitor moves on.
static MOVES: AtomicU32 = AtomicU32::new(0);
/// Number of threads that wait for such a change.
static WAITING: AtomicU32 = AtomicU32::new(0);

/// Visits caches, one after the other: see [`Visitor::go_on`].
pub(super) fn visiting(work: impl FnOnce(&Visitor)) {
    let visitor =
        Visitor { cache: Cell::new(ptr::null_mut()), thread: thread_number(), next: Cell::new(ptr::null()) };
    {
        let _held = root::LISTS.hold();
        visitor.next.set(FIRST.load(Ordering::Relaxed));
        FIRST.store((&raw const visitor).cast_mut(), Ordering::Relaxed);
    }
    work(&visitor);
    let _held = root::LISTS.hold();
    visitor.unlink();
    tell();
}

impl Visitor {
    /// Moves on to another cache, or to none (null). `next` chooses it under the lock, while no cache can be destroyed.
    pub(super) fn go_on(&self, next: impl FnOnce(*mut Cache) -> *mut Cache) -> *mut Cache {
        let _held = root::LISTS.hold();
        let cache = next(self.cache.get());
        self.cache.set(cache);
        tell();
        cache
    }

    /// The caller holds the list. In the child of a fork whose visitors were discarded, it may be in no list.
    fn unlink(&self) {
        let mut at: *const Visitor = FIRST.load(Ordering::Relaxed);
        if ptr::eq(at, self) {
            return FIRST.store(self.next.get().cast_mut(), Ordering::Relaxed);
        }
        // SAFETY: a visitor of the list is on the stack of `visiting`, which removes it before it returns.
        while let Some(before) = unsafe { at.as_ref() } {
            if ptr::eq(before.next.get(), self) {
                return before.next.set(self.next.get());
            }
            at = before.next.get();
        }
    }
}

/// Wakes threads that wait for visitors. The caller holds the list.
fn tell() {
    if WAITING.load(Ordering::Relaxed) > 0 {
        MOVES.fetch_add(1, Ordering::Relaxed);
        let _ = futex(&MOVES, libc::FUTEX_WAKE, Scope::Private, i32::MAX.unsigned_abs(), None);
    }
}

/// Calls `work` under the lock of the list of caches when no other thread visits the cache.
pub(super) fn when_alone<T>(cache: *mut Cache, work: impl FnOnce() -> T) -> T {
    let mut held = root::LISTS.hold();
    while is_visited(cache) {
        WAITING.fetch_add(1, Ordering::Relaxed);
        let moves = MOVES.load(Ordering::Relaxed);
        drop(held);
        let _ = futex(&MOVES, libc::FUTEX_WAIT, Scope::Private, moves, None);
        held = root::LISTS.hold();
        WAITING.fetch_sub(1, Ordering::Relaxed);
    }
    work()
}

/// The caller holds the list.
fn is_visited(cache: *mut Cache) -> bool {
    let me = thread_number();
    let mut at: *const Visitor = FIRST.load(Ordering::Relaxed);
    // SAFETY: as in `unlink`.
    while let Some(visitor) = unsafe { at.as_ref() } {
        if visitor.cache.get() == cache && visitor.thread != me {
            return true;
        }
        at = visitor.next.get();
    }
    false
}

/// For the child of a fork: there are no other visitors.
pub(super) fn forget_others() {
    FIRST.store(ptr::null_mut(), Ordering::Relaxed);
    WAITING.store(0, Ordering::Relaxed);
}
