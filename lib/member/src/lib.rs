//! For programs in a pool: its name, its size, and notification of size changes.
//!
//! The processor set of a pool gains and loses CPUs while programs run in it. A program that can run on any number of threads reads the size between
//! two pieces of work:
//!
//! ```
//! use millpond_member::Subscription;
//! use std::thread::available_parallelism;
//!
//! // `None`: this machine has no pools.
//! let mut pool = Subscription::of_own().ok();
//! for piece in 1..=3 {
//!     let threads = match pool.as_mut().and_then(|pool| pool.size().ok()) {
//!         Some(size) => size.size().max(1),
//!         None => available_parallelism()?.get(),
//!     };
//!     println!("piece {piece} of the work, on {threads} threads");
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! A program that has nothing to do meanwhile waits ([`Subscription::wait`]), or lets its event loop wait ([`Subscription::fd`] for poll and epoll).
//!
//! # How it works
//!
//! The writer of pools keeps a file for each pool ([`millpond_model::pools::PoolNotice`]) in the directory `pools` of the state directory, and
//! replaces it atomically. A subscription watches that directory by inotify. It begins to watch before it reads, so that no change is missed. Several
//! changes may be reported as one, the latest. A change is reported after it is made: a program that sees more CPUs has them, one that sees fewer has
//! lost them already and runs on the remaining ones.
//!
//! No rights are needed, and no other process is contacted. Reading the size when nothing has changed costs one system call.
//!
//! # Which pool
//!
//! [`Subscription::of_own`] follows the pool that the environment names (`MILLPOND_POOL`, which `poolbind -e` sets), else the pool of the process's
//! cgroup, else the default pool. The state directory is the one that `MILLPOND_STATE` names, else `/run/millpond`.
//!
//! # What it does not do
//!
//! It does not bind, and it does not change how a program runs. A subscription belongs to the pool of its name. When that pool is destroyed or
//! renamed, or pools are disabled, it ends for ever ([`MemberError::Ended`]). A process whose pool was destroyed is in the default pool; to follow
//! that one, subscribe again.

mod own;
mod subscription;

pub use millpond_model::pools::PoolSize;
pub use millpond_model::{CpuId, CpuSet};
pub use own::{POOL_VARIABLE, STATE_VARIABLE, usual_state_dir};
pub use subscription::Subscription;

use millpond_model::pools::NoticeError;
use std::io;
use std::path::PathBuf;

/// Why a pool cannot be followed, or not any more.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// There are no notices of pools: pools are disabled, or the state directory is another one.
    #[error("there are no pools: {} does not exist", .0.display())]
    NoPools(PathBuf),
    /// There are pools, but none of that name.
    #[error("there is no pool {0}")]
    NoSuchPool(String),
    /// The pool was destroyed or renamed.
    #[error("pool {0} is gone")]
    Ended(String),
    /// Its notice is invalid.
    #[error("the notice of pool {pool} is invalid: {source}")]
    NoNotice {
        /// The pool.
        pool: String,
        /// What is invalid.
        source: NoticeError,
    },
    /// An error of the system.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}
