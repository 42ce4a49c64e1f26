//! A fork while other threads allocate: the child must find everything whole, and nobody else in it.

use super::{depot, frames, lock, messages, meta, pages, root, thread, update, visit};
use millpond_rt_layout::Cache;
use std::sync::atomic::Ordering;

/// From now on forks are noticed. The allocator is ready.
pub(super) fn register() {
    // Miri has no processes.
    if !cfg!(miri) {
        // SAFETY: functions of ours. Failing, a child that allocates may find a lock that nobody gives back, which `Word` ends with a sentence.
        unsafe { libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child)) };
    }
}

/// All locks, in their order.
fn each_lock(mut work: impl FnMut(*mut u32)) {
    let mut cache: *mut Cache = root::caches().load(Ordering::Acquire);
    // SAFETY: the list is held, or this is the only thread.
    unsafe {
        while !cache.is_null() {
            depot::shares(cache, 0).for_each(|share| work(&raw mut (*share).lock));
            work(&raw mut (*cache).slabs.lock);
            cache = (*cache).next;
        }
    }
    work(pages::lock_word());
    work(meta::lock_word());
}

unsafe extern "C" fn prepare() {
    root::LISTS.lock();
    each_lock(|place| lock::word(place).lock());
    messages::LOCK.lock();
}

unsafe extern "C" fn in_parent() {
    messages::LOCK.unlock();
    each_lock(|place| lock::word(place).unlock());
    root::LISTS.unlock();
}

unsafe extern "C" fn in_child() {
    messages::LOCK.reset();
    each_lock(|place| lock::word(place).reset());
    root::LISTS.reset();
    frames::after_fork();
    visit::forget_others();
    thread::forget_others();
    update::forget_thread();
}
