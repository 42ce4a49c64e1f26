//! Fork handlers: a child can allocate, whatever other threads did at the fork, even if a signal handler forked inside the allocator.
//!
//! # Why no lock is taken before a fork
//!
//! Between the prepare handlers and the fork itself, the C library waits for locks of its own (the list of streams, the name service). Other handlers
//! may do so, too. A holder of such a lock may be waiting for the allocator, so an allocator that holds its locks over a fork can deadlock. In a
//! signal handler it may hold one already. Here a fork takes no lock, waits for nothing, and changes nothing in the parent.
//!
//! # State of the child
//!
//! A fork handler repairs the child. It is registered when the library is loaded. Two cases are repaired when they meet a lock
//! (`locks/word/child.rs`): handlers that run earlier, such as those of other libraries, and children of `_Fork` and `clone`, which call no handlers.
//!
//! The child has a copy of each page. It contains the writes of another thread up to some moment and none after it: fork makes writers to copied
//! pages wait. The word of a lock shows whether its holder was inside at that moment:
//!
//! * free: the protected data is consistent;
//! * held by a thread that is not in the child: the data may be half changed. It is *repaired* from data that is written in a reliable order (see the
//!   fences in `depot`, `slab` and `pages`): the page map has the spans, spans have the free chunks. Buffers that the thread was moving are leaked;
//! * held by the thread that forked, in a signal handler: it stays held, now with the child's thread ID, and the child continues.

use super::{cache, depot, lock, messages, meta, pages, root, slab, thread, update, visit};
use crate::locks::word::{Left, Word, expect_children, is_to_be_mended, renew_thread_number};
use crate::stacks::page_size;
use millpond_rt_layout::Cache;
use std::sync::atomic::{AtomicBool, Ordering};

/// Registers the repair of children.
pub(super) extern "C" fn register() {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    // Miri has no processes.
    if cfg!(miri) || IS_DONE.swap(true, Ordering::Relaxed) {
        return;
    }
    let page = meta::pages_of_zeros(page_size());
    if !page.is_null() {
        // SAFETY: a new page, which is never unmapped.
        unsafe { expect_children(page, page_size(), mend) };
    }
    // SAFETY: a function of this file. If the registration fails, a child is repaired when it waits for a lock.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

/// Child handlers run in the order of their registration, and those of the program may allocate. So this one is registered when the library is
/// loaded, or at the first request, whichever comes first.
#[cfg(not(miri))]
#[used]
#[unsafe(link_section = ".init_array.00101")]
static AT_LOAD: extern "C" fn() = register;

/// The repair of a child's locks.
struct Child {
    /// The thread's ID in the parent.
    before: u32,
    /// Whether the thread is inside the allocator, in a signal handler.
    is_inside: bool,
}

impl Child {
    /// Whether the data of a lock must be repaired.
    fn is_torn(&mut self, word: &Word) -> bool {
        let left = word.after_fork(self.before);
        self.is_inside |= left == Left::Own;
        left == Left::Gone
    }

    unsafe fn mend(&mut self) {
        // SAFETY: this is the only thread. Data under its own locks is left unchanged.
        unsafe {
            for word in [&root::BEGINNING, &root::BEGINNING_MALLOC, &messages::LOCK] {
                self.is_torn(word);
            }
            if self.is_torn(lock::word(meta::lock_word())) {
                meta::forget_free();
            }
            if self.is_torn(lock::word(pages::lock_word())) {
                pages::mend();
            }
            if self.is_torn(&root::LISTS) {
                cache::mend_list();
            }
            let mut cache: *mut Cache = root::caches().load(Ordering::Acquire);
            while !cache.is_null() {
                for share in depot::shares(cache, 0) {
                    if self.is_torn(lock::word(&raw mut (*share).lock)) {
                        depot::mend(share);
                    }
                }
                if self.is_torn(lock::word(&raw mut (*cache).slabs.lock)) {
                    slab::mend(cache);
                }
                cache = (*cache).next;
            }
        }
    }
}

unsafe extern "C" fn in_child() {
    if is_to_be_mended() {
        mend();
    }
}

/// Repairs the child, whose only thread this is.
fn mend() {
    let mut child = Child { before: renew_thread_number(), is_inside: false };
    // SAFETY: this is the only thread.
    unsafe { child.mend() };
    millpond_unwind::after_fork();
    visit::forget_others();
    // If this thread is inside the allocator, it may be moving magazines. Then the magazines of other threads are leaked.
    thread::forget_others(!child.is_inside);
    update::forget_others();
}
