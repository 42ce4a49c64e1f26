//! Locks without priority inversion: mutexes with priority inheritance, conditions, and a lock in one word for the allocator.
//!
//! # Why
//!
//! A thread of low priority holds a lock that one of high priority wants. A third one, of a priority between, runs as long as it likes: the low one does
//! not run, and the high one waits for both (*priority inversion*, without a bound). With *inheritance* the holder has the priority of the first
//! waiting thread, which then waits for the locked section only. `examples/inversion.rs` shows both.
//!
//! # What there is
//!
//! * [`Mutex`]: a lock and what it protects. [`Mutex::new`] inherits; [`Mutex::plain`] does not, and costs a little less where no thread waits.
//! * [`Condition`]: for waiting under a mutex until something is true.
//! * `Word`: for our own data, inside an allocator.
//!
//! # How
//!
//! A mutex is one of the C library's that checks for errors, inherits and is robust (`FUTEX_LOCK_PI`). *Robust* means that the kernel releases what an
//! ending thread still holds. The list for that belongs to the C library, so the mutex has to be its own, too. The plain one is not robust: in glibc
//! 2.36 a robust mutex without inheritance stays locked for ever when `trylock` meets one that cannot be recovered.
//!
//! A condition is ours, because the C library's has an internal lock without inheritance, and stays wrong when a process is killed while it waits. Ours
//! is a number that each signal increments, and a futex on which waiters sleep while it is the same (`sequence.rs`): nothing is held, and nothing can be
//! left half done. The kernel wakes the thread of the highest priority first, which then locks the mutex as all others do. Without requeueing
//! (`FUTEX_CMP_REQUEUE_PI` needs the mutex's own word) threads that are woken together each run once to find the mutex held.
//!
//! # Fork
//!
//! The only thread of a child has another number: a private mutex that was held has no holder there. A shared one stays the parent's.

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
