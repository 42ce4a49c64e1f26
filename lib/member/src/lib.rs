//! For programs in a pool: its name and its size, and a notice when the size changes.
//!
//! A pool's set gets and loses processors while programs run in it. A program that can run on any number of threads asks between two pieces of
//! work:
//!
//! ```
//! use millpond_member::Subscription;
//! use std::thread::available_parallelism;
//!
//! // None: this machine has no pools.
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
//! One that has nothing to do meanwhile waits ([`Subscription::wait`]), or has its own loop wait ([`Subscription::fd`] for poll and epoll).
//!
//! # How it is told
//!
//! The writer of pools keeps a file for each pool, in one stroke ([`millpond_model::pools::PoolNotice`]), into the directory `pools` of the state
//! directory. A subscription watches that directory by inotify and begins to watch before it reads, so that no change is missed; several changes
//! may be told as one, the latest. A change is told when it is done: a program that is told of more processors has them, one that is told of fewer
//! has lost them already and runs on those that are left.
//!
//! No rights are needed, and nothing is asked of any process. Asking for the size when nothing has changed costs one system call.
//!
//! # Which pool
//!
//! [`Subscription::of_own`] takes the pool that the environment names (`MILLPOND_POOL`, which `poolbind -e` sets), else the one that the process is
//! in by its cgroup, else the default pool. The state directory is the one that `MILLPOND_STATE` names, else `/run/millpond`.
//!
//! # What it does not do
//!
//! It does not bind, and it does not change how a program runs. A subscription belongs to the pool of its name: when that pool goes, is renamed, or pools are disabled, it ends
//! ([`MemberError::Ended`]), once and for all. A process whose pool is gone is in the default pool; to follow that one, subscribe anew.

mod own;
mod subscription;

pub use millpond_model::pools::PoolSize;
pub use millpond_model::{CpuId, CpuSet};
pub use own::{POOL_VARIABLE, STATE_VARIABLE, usual_state_dir};
pub use subscription::Subscription;

use millpond_model::pools::NoticeError;
use std::io;
use std::path::PathBuf;

/// A pool cannot be followed, or not any more.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// There are no notices of pools: pools are disabled, or the state directory is another one.
    #[error("there are no pools: {} does not exist", .0.display())]
    NoPools(PathBuf),
    /// There are pools, and none of that name.
    #[error("there is no pool {0}")]
    NoSuchPool(String),
    /// The pool that was followed is gone.
    #[error("pool {0} is gone")]
    Ended(String),
    /// Its notice is invalid.
    #[error("the notice of pool {pool} is invalid: {source}")]
    NoNotice {
        /// The pool.
        pool: String,
        /// Why.
        source: NoticeError,
    },
    /// The system refuses.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
}
