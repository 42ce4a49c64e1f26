//! Locks without priority inversion: mutexes with priority inheritance, conditions, and a lock in one word for the allocator.
//!
//! # Why
//!
//! A thread of low priority holds a lock that a thread of high priority wants. A third thread, of medium priority, preempts the holder for an
//! unlimited time. The thread of high priority waits for both (*unbounded priority inversion*). With *inheritance* the holder runs at the priority
//! of the first waiting thread, which then waits for the critical section only. `examples/inversion.rs` shows both.
//!
//! # Types
//!
//! * [`Mutex`]: a lock and the data that it protects. [`Mutex::new`] inherits. [`Mutex::plain`] does not, and costs a little less without contention.
//! * [`Condition`]: waits under a mutex until a predicate is true.
//! * `Word`: for data of this library, inside an allocator.
//!
//! # How
//!
//! A mutex is a mutex of the C library that checks for errors, inherits and is robust (`FUTEX_LOCK_PI`). *Robust* means that the kernel releases the
//! locks that an ending thread still holds. The robust list belongs to the C library, so the mutex has to be the C library's, too. The plain mutex
//! is not robust: in glibc 2.36 a robust mutex without inheritance stays locked for ever if `trylock` meets an unrecoverable one.
//!
//! A condition is implemented here. The C library's condition has an internal lock without inheritance, and stays corrupt when a process is killed
//! while it waits. This one is a number that each signal increments, and a futex on which waiters sleep while the number is unchanged
//! (`sequence.rs`). No lock is held, and no operation can be left half done. The kernel wakes the thread of the highest priority first, which then
//! takes the mutex as any thread does. There is no requeueing (`FUTEX_CMP_REQUEUE_PI` needs access to the mutex's word), so each of several
//! threads that are woken together runs once and finds the mutex held.
//!
//! # Fork
//!
//! The only thread of a child has another thread ID. A private mutex that was held has no holder there. A shared one stays the parent's.

mod condition;
mod deadline;
mod errors;
mod futex;
mod mutex;
mod raw;
mod sequence;
pub(crate) mod word;

pub use condition::Condition;
pub(crate) use condition::RawCondition;
pub(crate) use deadline::Deadline;
pub use errors::{LockError, LockRefusal};
pub(crate) use futex::{Scope, futex};
pub use mutex::{Mutex, MutexGuard, Orphan};
pub(crate) use raw::{Protocol, RawMutex, State};
pub(crate) use sequence::Waiters;
