//! Object caches (the slab allocator of libumem): memory for objects of one size, which stay constructed while they are free.
//!
//! # Terms
//!
//! * A *cache* has buffers of one size. [`umem_alloc`] uses about fifty caches, one for each size class.
//! * A *slab* is a run of pages of a cache, divided into *chunks*. A chunk is a buffer, followed by a *tag* if the cache has checks. The bookkeeping
//!   of a slab is outside of it.
//! * A *magazine* holds pointers to free buffers, its *rounds*. Each thread has two for each cache. The *depot* of the cache has the rest.
//! * A *span* is a run of pages: a slab, a large buffer, or free. The *page map* leads from an address to its span.
//!
//! ```text
//!  thread ── two magazines for each cache, a few large buffers ── no lock, no shared word
//!     │ empty, or full
//!  depot ─── magazines ───────────────────── one lock for as many buffers as a magazine has rounds
//!     │ none
//!  slabs ─── chunks, a bit for each ──────── objects are constructed and destroyed here
//!     │ all taken
//!  pages ─── spans ───────────────────────── the kernel, a megabyte at a time
//! ```
//!
//! # Files and lock order
//!
//! A file uses files of the lines above it only, so no import goes up. Locks are taken from the bottom of the table to its top: a thread that holds
//! one takes none further down. The lock of messages is last; no other is taken under it.
//!
//! | layer | files | lock |
//! |---|---|---|
//! | ground | `root`, `settings`, `messages`, `lock` | messages |
//! | own memory | `meta`, `map`, `trace`, `log` | `meta` |
//! | pages | `pages`, `kept`, `walls` | all spans |
//! | slab | `tags`, `slab` | the slabs of a cache |
//! | buffer | `report`, `debug`, `buffer` | none |
//! | depot | `depot` | each share of a depot |
//! | thread | `visit`, `thread`, `update` | the list of caches |
//! | cache | `cache`, `builtin` | none |
//! | process | `fork`, `start` | initialisation |
//! | calls | `placed`, `raw`, `malloc`, `object` | none |
//!
//! # What callers may rely on
//!
//! * An allocation from a magazine needs no lock, no atomic operation and no system call. All locks are priority-inheritance locks.
//! * A constructed object returns to its cache unchanged, and is allocated again in the same state.
//! * A fork takes no lock and waits for no thread. So threads can allocate while the C library or other fork handlers wait. A signal handler that
//!   interrupted the allocator may fork.
//! * The child of a fork can allocate, whatever other threads did at that moment. Buffers in their magazines are free in the child. Buffers that they
//!   were just taking are leaked there. If a signal handler forked inside the allocator, all magazines of other threads are leaked, too.
//! * When a thread ends, the buffers in its magazines are free for other threads.
//!
//! # What callers must do
//!
//! * Do not allocate or free in signal handlers: the interrupted call may be half done. Such a handler meets a lock of its own thread, and the
//!   program ends with a message.
//! * Do not cancel a thread that allocates asynchronously (`PTHREAD_CANCEL_ASYNCHRONOUS`). No call here is a cancellation point.
//! * Destroy a cache only when no thread uses it.
//!
//! # What is checked
//!
//! `UMEM_DEBUG` selects the checks ([`options`]): patterns in free memory, tags after buffers, stack traces of allocations and frees. Caches with
//! checks have no magazines, and reuse a buffer as late as possible. `rt/rt-layout` describes the memory layout, for readers in other processes.
//!
//! # What it does not do
//!
//! There are no arenas for users (vmem). Memory of a cache returns to the kernel only when whole slabs are free.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of chunks, rounds, caches and return addresses are bounded by constants of the layout; tags take words apart"
)]

mod buffer;
mod builtin;
mod cache;
mod debug;
mod depot;
mod errno;
mod fork;
mod kept;
mod lock;
mod log;
pub mod malloc;
mod map;
mod messages;
mod meta;
mod object;
pub(crate) mod options;
mod pages;
mod placed;
mod raw;
mod report;
mod root;
mod settings;
mod slab;
mod start;
mod tags;
mod thread;
mod trace;
mod update;
mod visit;
mod walls;
#[cfg(any(miri, not(test)))]
mod weak;

pub use cache::RawCachePlan;
pub use object::{Object, ObjectCache, ObjectCacheError};
pub use raw::{
    RawCache, umem_alloc, umem_cache_alloc, umem_cache_create, umem_cache_destroy, umem_cache_free,
    umem_free, umem_nofail_callback, umem_reap, umem_zalloc,
};

#[cfg(test)]
mod tests;
