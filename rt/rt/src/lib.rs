//! For real-time programs: pre-faulted thread stacks, real-time set-up, priority-inheritance mutexes, and object caches.
//!
//! ```
//! use millpond_rt::realtime::{Calm, SchedulingClass, Setup, Want};
//! use millpond_rt::{Mutex, ObjectCache};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let total = Mutex::new(0)?; // its holder inherits the priority of the first waiting thread
//! let buffers = ObjectCache::new(c"buffers", || vec![0_u8; 4096])?; // freed buffers are reused without construction
//!
//! // A wish may be refused, for example for lack of rights. The outcome has the reason. `require` makes a refusal an error.
//! let realtime = Setup::new()
//!     .wish(Want::Memory)
//!     .wish(Want::Class(SchedulingClass::Fifo { priority: 10 }))
//!     .begin()?;
//! for outcome in realtime.outcomes() {
//!     println!("{outcome}");
//! }
//!
//! let calm = Calm::open();
//! let section = calm.begin();
//! let buffer = buffers.get().ok_or("there is no memory")?;
//! *total.lock().map_err(|error| error.to_string())? += buffer.len();
//! println!("{}", section.end()); // page faults, context switches and migrations of this thread in the section
//!
//! drop(buffer); // returns it to its cache
//! realtime.undo()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Terms
//!
//! * A *stack*: memory of one of a few *sizes*, with an inaccessible *guard* on each side. All its pages are pre-faulted.
//! * A *lock*: a [`Mutex`], with a [`Condition`]. Its holder inherits the priority of the first waiting thread. When a thread ends
//!   while it holds a lock, the next holder gets an error that says so.
//! * A *set-up*: the seven settings that a real-time thread needs, by one call, with a report and undo ([`realtime`]). A *calm* section
//!   is one in which the kernel counted no page fault, context switch or migration of the thread.
//! * A *cache*: memory for objects of one size, which stay constructed while they are free ([`ObjectCache`], [`umem_cache_create`], [`umem_alloc`]).
//!   [`malloc`] is the malloc family over caches. `UMEM_DEBUG` in the environment finds memory errors.
//!
//! The heads of `locks`, `realtime` and `umem` explain these. The rest of this page is about stacks.
//!
//! # Stacks
//!
//! The first access to a page takes a page fault. On a usual stack this happens at the worst moment: deep in a call, once, and never in a test.
//! On a stack of this library it cannot happen. Two more terms:
//!
//! * A *group*: 64 stacks of one size, and a word with a bit for each: set if the stack is free.
//! * The *index*: a map from the address of a stack to its place in its group.
//!
//! ```text
//!  address                                     address + size
//!     │                                            │
//!  ┌──┴────┬──────────────────────────────────┬────┴──┐
//!  │ guard │ ◀── the stack grows this way     │ guard │     all of it one mapping, never unmapped
//!  └───────┴──────────────────────────────────┴───────┘
//! ```
//!
//! [`stack_alloc`] clears a bit in a word of its size. [`stack_free`] finds the place by the index and sets the bit again. Each is one atomic
//! operation on that word. So no two callers get the same stack, and of two calls that free it one fails. There is no lock, no list with the
//! ABA problem, and no system call. When no bit is set, a new stack is mapped, pre-faulted, and entered into a group and the index. Groups and
//! the index only grow, so readers need no lock. Nothing is stored in the stack itself.
//!
//! The other calls are about the stack of the calling thread, which may be any stack. [`stack_getbounds`] returns its bounds and caches them for
//! the thread. [`stack_inbounds`] and [`stack_violation`] compare with the cached bounds, the latter in signal handlers. [`stack_residency`]
//! counts its pages in memory, and [`stack_lock`] locks all of it.
//!
//! # What callers must do
//!
//! * Free a stack only when its thread has ended: after `pthread_join`. Detected errors are refused ([`StackError::InUse`]).
//! * Call `mlockall(MCL_CURRENT | MCL_FUTURE)` before the first stack if stacks shall be locked.
//! * Fork before stacks are made, or not at all. (`posix_spawn` and `vfork` do no harm: they copy no page tables.) After a fork each first write
//!   to a page faults again, in parent and child. Locks are not inherited.
//!
//! # What it does not do
//!
//! Stacks are not returned to the system, and not cleared between two users. A guard stops a thread that steps over an end, not one that jumps
//! over it by more than a page. The kernel can still cause a fault on a resident page when it moves it to another node (automatic NUMA balancing)
//! or compacts memory. The administrator can disable both. `examples/cost.rs` measures the cost of a pair of calls.

// Loom tests parts of the crate: `tests/loom.rs`.
#![cfg(not(loom))]

mod bounds;
mod c;
mod errors;
mod locks;
mod mappings;
mod own;
pub mod realtime;
mod residency;
mod slots;
mod stacks;
mod umem;
mod violation;

pub use bounds::{StackBounds, stack_getbounds, stack_inbounds, stack_setbounds};
pub use errors::StackError;
pub use locks::{Condition, LockError, LockRefusal, Mutex, MutexGuard, Orphan};
pub use mappings::{StackMapping, stack_mappings};
pub use residency::{StackResidency, stack_lock, stack_residency};
pub use stacks::{StackSizes, fetch_stack_sizes, stack_alloc, stack_free};
pub use umem::{
    Object, ObjectCache, ObjectCacheError, RawCache, RawCachePlan, malloc, umem_alloc, umem_cache_alloc,
    umem_cache_create, umem_cache_destroy, umem_cache_free, umem_free, umem_nofail_callback, umem_reap,
    umem_zalloc,
};
pub use violation::stack_violation;
