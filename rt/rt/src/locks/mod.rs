//! Locks under which a thread of high priority waits for no more than it must.
//!
//! # Why
//!
//! A thread of low priority holds a lock that one of high priority wants. A third one, of a priority between, needs no lock: it runs as long as it likes,
//! the low one does not run, and the high one waits for both (*inversion*, which has no bound). With *inheritance* the thread that holds a lock has the priority of the first waiting thread
//! for it: the high one waits for the section under the lock, and for nothing else. `examples/inversion.rs` shows both.
//!
//! # What there is
//!
//! * [`Mutex`]: a lock and what it protects. [`Mutex::new`] inherits; [`Mutex::plain`] does not, and costs a little less where no thread waits.
//! * [`Condition`]: for waiting under a mutex until something is true.
//! * `Word`: for our own data, inside an allocator.
//!
//! # How
//!
//! A mutex is one of the C library's, of the kind that checks for errors, inherits and is robust: the kernel keeps its holder and the waiting threads (`FUTEX_LOCK_PI`).
//! *Robust* means that the kernel looks at what an ending thread still holds. Each thread has one list for that, it is the C library's, and whatever else is on it must look like a
//! mutex of the C library: so it is one. The plain one is not robust: the C library's (2.36) robust mutex without inheritance stays locked for ever
//! when `trylock` meets one that cannot be recovered.
//!
//! A condition is ours. The C library's has a lock of its own inside, without inheritance, which signallers and waiters take; a thread of low priority that is interrupted there
//! holds up one of high priority. It also counts the threads that wait in groups, and a process that is killed while it waits leaves the groups wrong for ever. Ours is a number that
//! each signal makes greater, and a futex on which waiters sleep while it is the same (`sequence.rs`): nothing is held, and nothing can be left half done. The kernel wakes the
//! thread of the highest priority first. It wants the mutex like all others and, if that is held, lends its priority: nothing is lost between the two, since a thread that was
//! woken needs no lock to get so far. What is given up beside requeueing in the kernel (`FUTEX_CMP_REQUEUE_PI`, which needs the mutex's own word) is that threads that are woken
//! together run once each to find the mutex held.
//!
//! # Fork
//!
//! A child has no threads but one, and that has another number: a private mutex that was held is held by no thread of the child, not even by that one. A shared
//! one stays the parent's.

#[cfg(not(loom))]
mod condition;
#[cfg(not(loom))]
mod deadline;
#[cfg(not(loom))]
mod errors;
#[cfg(not(loom))]
mod futex;
#[cfg(not(loom))]
mod mutex;
#[cfg(not(loom))]
mod raw;
mod sequence;
#[allow(dead_code, reason = "object caches lock by it")]
pub(crate) mod word;

#[cfg(not(loom))]
pub use condition::Condition;
#[cfg(not(loom))]
pub(crate) use condition::RawCondition;
#[cfg(not(loom))]
pub(crate) use deadline::Deadline;
#[cfg(not(loom))]
pub use errors::{LockError, LockRefusal};
#[cfg(not(loom))]
pub(crate) use futex::Scope;
#[cfg(not(loom))]
pub use mutex::{Mutex, MutexGuard, Orphan};
#[cfg(not(loom))]
pub(crate) use raw::{Protocol, RawMutex, State};
#[cfg(not(loom))]
pub(crate) use sequence::Waiters;
