//! Fork handlers: a child can allocate, whatever other threads did at the fork, even if a signal handler forked inside the allocator.
//!
//! # Why no lock is taken before a fork
//!
//! Between the handlers that run before a fork and the fork itself, the C library waits for locks of its own (the list of streams, the name service), and
//! so may other handlers. Their holder may be waiting for the allocator, so an allocator that held its locks over a fork could deadlock. In a signal
//! handler it may hold one already. Here a fork takes no lock, waits for nothing, and changes nothing in the parent.
//!
//! # What the child finds
//!
//! A handler of forks mends it, which is registered when the library is loaded. What comes before that handler, such as one of another library, and
//! children of `_Fork` and `clone`, which call no handlers, are mended where they meet a lock (`locks/word/child.rs`).
//!
//! It is a copy of each page. Of another thread's writes it has those up to some moment, and none after it: fork keeps writers to copied pages waiting. A
//! lock's word tells whether its holder was inside at that moment:
//!
//! * free: what the lock protects is whole;
//! * held by a thread that is not in the child: it may be half way, and is *mended* from what is written in a reliable order (fences in `depot`, `slab`,
//!   `pages` tell where): the page map tells which spans there are, spans tell which chunks are free. What that thread was just moving is lost;
//! * held by the thread that forked, in a signal handler: it stays held, now by the child's number, and the child goes on.

use super::{cache, depot, lock, messages, meta, pages, root, slab, thread, update, visit};
use crate::locks::word::{Left, Word, expect_children, is_to_be_mended, renew_thread_number};
use crate::stacks::page_size;
use millpond_rt_layout::Cache;
use std::sync::atomic::{AtomicBool, Ordering};

/// From now on children of forks are mended.
pub(super) extern "C" fn register() {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    // Miri has no processes.
    if cfg!(miri) || IS_DONE.swap(true, Ordering::Relaxed) {
        return;
    }
    let page = meta::pages_of_zeros(page_size());
    if !page.is_null() {
        // SAFETY: a new page, which stays.
        unsafe { expect_children(page, page_size(), mend) };
    }
    // SAFETY: a function of ours. Failing, a child is mended where it waits for a lock.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

/// Children's handlers run in the order of their registration, and those of the program may allocate. So ours is registered when the library is
/// loaded, or at the first request, whichever comes first.
#[cfg(not(miri))]
#[used]
#[unsafe(link_section = ".init_array.00101")]
static AT_LOAD: extern "C" fn() = register;

/// The locks of a child, one after the other.
struct Child {
    /// The number that its thread had in the parent.
    before: u32,
    /// Whether it is inside of the allocator, in a signal handler.
    is_inside: bool,
}

impl Child {
    /// Whether what a lock protects is to be mended.
    fn is_torn(&mut self, word: &Word) -> bool {
        let left = word.after_fork(self.before);
        self.is_inside |= left == Left::Own;
        left == Left::Gone
    }

    unsafe fn mend(&mut self) {
        // SAFETY: this is the only thread. What it holds itself is left as it is.
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

/// The child goes on as the only thread.
fn mend() {
    let mut child = Child { before: renew_thread_number(), is_inside: false };
    // SAFETY: this is the only thread.
    unsafe { child.mend() };
    millpond_unwind::after_fork();
    visit::forget_others();
    // Magazines change hands under locks, one of which may be this thread's: then what others had in theirs is lost.
    thread::forget_others(!child.is_inside);
    update::forget_others();
}
