//! Object caches: memory for objects of one size, which stay constructed while they are free.
//!
//! # Nouns
//!
//! * A *cache* has buffers of one size. [`umem_alloc`] is a cache for each of some fifty sizes.
//! * A *slab* is a run of pages of a cache, cut into *chunks*: a buffer each, and a *tag* behind it where the cache checks. Who has which chunk stands
//!   outside of the slab.
//! * A *magazine* holds pointers to free buffers, its *rounds*. Each thread has two for each cache, the *depot* of the cache has the rest.
//! * A *span* is a run of pages: a slab, a large buffer, or free. The *page map* leads from an address to its span.
//!
//! ```text
//!  thread ── two magazines for each cache ── no lock, no shared word
//!     │ empty, or full
//!  depot ─── magazines ───────────────────── a lock for as many buffers as a magazine has rounds
//!     │ none
//!  slabs ─── chunks, a bit for each ──────── objects are constructed here, and end here
//!     │ all taken
//!  spans ─── pages ───────────────────────── the kernel, a megabyte at a time
//! ```
//!
//! # What callers may rely on
//!
//! * A buffer that comes from a magazine costs no lock, no atomic operation and no system call. Locks further down inherit priorities, so that nobody
//!   waits for a thread that waits for the processor.
//! * Objects are handed back as they were constructed, and come out as they were handed back.
//! * A fork takes no lock and waits for no thread: whatever the C library or other handlers wait for meanwhile, threads can allocate. It may come in a handler
//!   of a signal that interrupted the allocator.
//! * The child of a fork can allocate, wherever other threads were. What they had in magazines is free in it; what they were just taking, or had in
//!   magazines when a handler forked inside of the allocator, is lost there.
//! * What a thread had in magazines is free for others when it ends.
//!
//! # What callers must do
//!
//! * Not allocate or free in handlers of signals: what the handler interrupted may be half way. A handler that does meets its own lock, and the program ends
//!   with a sentence.
//! * Not cancel a thread asynchronously (`PTHREAD_CANCEL_ASYNCHRONOUS`) that allocates. No call here is a point at which it is cancelled otherwise.
//! * Destroy a cache when nobody uses it.
//!
//! # What is checked
//!
//! `UMEM_DEBUG` chooses ([`options`]): patterns in free memory, tags behind buffers, who allocated and who freed with stacks. Such caches have no magazines, and come
//! back to a buffer as late as they can. `rt/rt-layout` is how all of it lies in memory, for those who look in from outside.
//!
//! # What it does not do
//!
//! There are no arenas of the user's own (vmem). Memory of caches whose size no more is asked for goes back to the kernel only as far as whole
//! slabs are free.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of chunks, rounds, caches and return addresses are bounded by constants of the layout; tags take words apart"
)]

mod audit;
mod builtin;
mod cache;
mod debug;
mod depot;
mod errno;
mod fork;
mod frames;
mod lock;
mod log;
pub mod malloc;
mod map;
mod messages;
mod meta;
mod object;
pub(crate) mod options;
mod pages;
mod raw;
mod report;
mod root;
mod settings;
mod slab;
mod thread;
mod update;
mod visit;
mod weak;

pub use object::{Object, ObjectCache, ObjectCacheError};
pub use raw::{
    RawCache, RawCachePlan, umem_alloc, umem_cache_alloc, umem_cache_create, umem_cache_destroy,
    umem_cache_free, umem_free, umem_nofail_callback, umem_reap, umem_zalloc,
};

#[cfg(test)]
mod tests;
