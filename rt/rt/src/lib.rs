//! For real-time programs: pre-faulted thread stacks, real-time set-up, priority-inheritance mutexes, and object caches.
//!
//! ```
//! use millpond_rt::realtime::{Calm, SchedulingClass, Setup, Want};
//! use millpond_rt::{Mutex, ObjectCache};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let total = Mutex::new(0)?; // the thread that holds it inherits the priority of the first waiting one
//! let buffers = ObjectCache::new(c"buffers", || vec![0_u8; 4096])?; // buffers are made once and used again
//!
//! // A wish that is refused, for lack of rights for example, is an outcome with the reason. `require` makes it an error.
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
//! println!("{}", section.end()); // page faults, context switches and migrations of this thread meanwhile
//!
//! drop(buffer); // it goes back to its cache
//! realtime.undo()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Terms
//!
//! * A *stack*: memory of one of a few *sizes*, with an inaccessible *guard* on each side. Every page of it was written to once.
//! * A *lock*: a [`Mutex`], with a [`Condition`]. Its holder inherits the priority of the first waiting thread. When a thread ends with it, the next one is told.
//! * A *set-up*: the seven things that a real-time thread needs, by one call, with a report and undo ([`realtime`]). In a *calm* section nothing disturbed
//!   the thread, by count.
//! * A *cache*: memory for objects of one size, which stay constructed while they are free ([`ObjectCache`], [`umem_cache_create`], [`umem_alloc`]).
//!   [`malloc`] is the malloc family over caches. `UMEM_DEBUG` in the environment finds memory errors.
//!
//! The heads of `locks`, `realtime` and `umem` explain those. What follows is about stacks.
//!
//! # Stacks
//!
//! A thread that touches a page for the first time waits for the kernel. On a stack this happens at the worst moment: deep in a call, once,
//! and never in a test. Here it cannot happen. Two more terms:
//!
//! * A *group*: sixty-four stacks of a size, and a word in which a bit is set for each that is free.
//! * The *index*: from the address of a stack to its place in its group.
//!
//! ```text
//!  address                                     address + size
//!     │                                            │
//!  ┌──┴────┬──────────────────────────────────┬────┴──┐
//!  │ guard │ ◀── the stack grows this way     │ guard │     all of it one mapping, never unmapped
//!  └───────┴──────────────────────────────────┴───────┘
//! ```
//!
//! [`stack_alloc`] takes a bit out of a word of its size; [`stack_free`] finds the place by the index and sets the bit again. Each is one atomic
//! operation on that word. So no two callers get one stack, and of two that free it one fails. There is no lock, no list that suffers from the ABA
//! problem, and no system call. Only when no bit is set a stack is mapped, faulted in, and entered into a group and the index. These only grow, so that
//! readers need no lock. Nothing is kept in the stack itself.
//!
//! The other calls are about the stack that a thread runs on, whatever made it. [`stack_getbounds`] says where it is and keeps that for the thread.
//! [`stack_inbounds`] and [`stack_violation`] compare with it, the latter in signal handlers. [`stack_residency`] says how much of it is in memory, and
//! [`stack_lock`] locks all of it.
//!
//! # What callers must do
//!
//! * Free a stack only when its thread has ended: after `pthread_join`. What can be detected is refused ([`StackError::InUse`]).
//! * Call `mlockall(MCL_CURRENT | MCL_FUTURE)` before the first stack if stacks shall be locked.
//! * Fork before stacks are made, or not at all (`posix_spawn` and `vfork` share nothing). After a fork each first write to a page faults again, in parent and
//!   child; locks are not inherited.
//!
//! # What it does not do
//!
//! Stacks are not given back to the system, nor cleared between two users. The guards stop threads that walk off an end, not threads that jump over it by
//! more than a page. The kernel can still cause a fault on a resident page when it moves it to another node (automatic NUMA balancing) or compacts
//! memory: the administrator can switch that off. `examples/cost.rs` shows what a pair of calls costs here.

// Loom tries parts of it: `tests/loom.rs`.
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
