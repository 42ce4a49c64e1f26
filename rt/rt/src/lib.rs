//! For real-time programs: stacks that are there before they are needed, a set-up, locks, and object caches.
//!
//! # Nouns
//!
//! * A *stack*: memory of one of a few *sizes*, with an inaccessible *guard* on each side. Every page of it was written to once.
//! * A *lock*: a [`Mutex`], with a [`Condition`]. The thread that holds one inherits the priority of the first waiting thread. When a thread ends with it, the next one is told.
//! * A *set-up*: the seven things that a thread needs to be in time, by one call, with a report and undone ([`realtime`]). A *calm* section is one in
//!   which nothing disturbed the thread, by count.
//! * A *cache*: memory for objects of one size, which stay constructed while no thread has them ([`ObjectCache`], [`umem_cache_create`], [`umem_alloc`]).
//!   [`malloc`] is the family of that name over caches. `UMEM_DEBUG` in the environment finds mistakes.
//!
//! Each has the rest of its nouns and its theory at its own head: `locks`, `realtime`, `umem`. What follows is that of stacks.
//!
//! # Stacks
//!
//! A thread that touches a page for the first time waits for the kernel. On a stack this happens at the worst moment: deep in a call, once,
//! and never in a test. Here it cannot happen. Two more nouns:
//!
//! * A *group*: sixty-four stacks of a size, and a word in which a bit is set for each that is free.
//! * The *index*: from the address of a stack to its place in its group.
//!
//! ```text
//!  address                                     address + size
//!     │                                            │
//!  ┌──┴────┬──────────────────────────────────┬────┴──┐
//!  │ guard │ ◀── the stack grows this way     │ guard │     all of it one mapping, never given back
//!  └───────┴──────────────────────────────────┴───────┘
//! ```
//!
//! # How it works
//!
//! [`stack_alloc`] takes a bit out of a word of its size; [`stack_free`] finds the place by the index and puts the bit back. Each is one atomic
//! operation on that word, which also decides between two callers: no two get a stack, and of two that free one only one does. There is no
//! lock that a thread of low priority could hold, no list that could be reordered behind a reader's back (the ABA problem), and no system call.
//! Only when no bit is set the kernel is asked: the mapping is made, faulted in, entered into a group and into the index. Groups and entries of
//! the index are added and never taken away, so that a reader of them needs no permission.
//!
//! Nothing is kept in the stack itself. A stack that was overrun can lose its own content only, and an address of another thread is looked up and
//! never followed.
//!
//! # Any stack
//!
//! The rest is about the stack that a thread runs on, whatever made it. [`stack_getbounds`] says where it is and keeps that for the thread;
//! [`stack_inbounds`] and [`stack_violation`] compare with what is kept, the latter in signal handlers. [`stack_residency`] says how much of it is in
//! memory, and [`stack_lock`] gets all of it there, for those that were not made here.
//!
//! # What callers must do
//!
//! * Free a stack only when its thread has ended: after `pthread_join`. No other thread can know when that is; what can be seen is refused
//!   ([`StackError::InUse`]).
//! * Call `mlockall(MCL_CURRENT | MCL_FUTURE)` before the first stack if stacks shall be locked. With `MCL_FUTURE` alone those that are in the
//!   cache already stay as they are.
//!
//! A fork costs what was gained: parent and child share all pages until one of them writes, and each first write faults again, in both; locks are not
//! inherited. A real-time program forks before it makes stacks, or not at all (`posix_spawn` and `vfork` share nothing).
//!
//! # What it does not do
//!
//! Stacks are not given back to the system: a program that needed a hundred once will need them again, and the second time must be as quick as
//! all others. They are not cleared between two users. Their content is not checked: the guards stop threads that walk off an end, not threads that
//! jump over it by more than a page. The kernel can still make a page fault that is resident when it moves it to another node (automatic NUMA
//! balancing) or compacts memory; that is for the administrator to switch off.
//!
//! Thresholds on time are not promises: `examples/cost.rs` shows what a pair of calls costs here.

mod locks;
mod slots;

#[cfg(not(loom))]
mod bounds;
#[cfg(not(loom))]
mod c;
#[cfg(not(loom))]
mod errors;
#[cfg(not(loom))]
mod mappings;
#[cfg(not(loom))]
mod own;
#[cfg(not(loom))]
pub mod realtime;
#[cfg(not(loom))]
mod residency;
#[cfg(not(loom))]
mod stacks;
#[cfg(not(loom))]
mod umem;
#[cfg(all(test, loom))]
#[path = "umem/orders.rs"]
mod umem_orders;
#[cfg(not(loom))]
mod violation;

#[cfg(not(loom))]
pub use bounds::{StackBounds, stack_getbounds, stack_inbounds, stack_setbounds};
#[cfg(not(loom))]
pub use errors::StackError;
#[cfg(not(loom))]
pub use locks::{Condition, LockError, LockRefusal, Mutex, MutexGuard, Orphan};
#[cfg(not(loom))]
pub use mappings::{StackMapping, stack_mappings};
#[cfg(not(loom))]
pub use residency::{StackResidency, stack_lock, stack_residency};
#[cfg(not(loom))]
pub use stacks::{StackSizes, fetch_stack_sizes, stack_alloc, stack_free};
#[cfg(not(loom))]
pub use umem::{
    Object, ObjectCache, ObjectCacheError, RawCache, RawCachePlan, malloc, umem_alloc, umem_cache_alloc,
    umem_cache_create, umem_cache_destroy, umem_cache_free, umem_free, umem_nofail_callback, umem_reap,
    umem_zalloc,
};
#[cfg(not(loom))]
pub use violation::stack_violation;
