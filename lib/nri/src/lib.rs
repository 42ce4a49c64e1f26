//! Pods and containers of a container runtime, by its interface for plugins (NRI): what begins, changes and ends, as plain data. The plugin answers which
//! CPUs a container gets; it asks the runtime for nothing after it has registered: what a plugin changes unasked can stop containerd for good
//! (containerd #13733).
//!
//! ```text
//!   socket ──▶ trunk ──connection 1──▶ the runtime's questions ──▶ Node: plain data in, plain data out
//!                └─────connection 2──▶ one message: the plugin registers
//! ```
//!
//! This is the only room that speaks ttrpc. A [`Node`] is called on the thread of [`attend`] and must answer at once: a runtime drops a plugin that takes
//! longer than its request timeout, two seconds by default.

mod service;
#[cfg(test)]
mod tests;
mod trunk;
mod ttrpc;
mod wire;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::net::UnixStream;
use tokio::sync::oneshot;

/// What this is written for. Runtimes back to NRI 0.6 (containerd 1.7) understand it.
const VERSION: &str = "v0.12.5";

/// Which place among plugins this one has: two digits. The runtime asks in their order.
const INDEX: &str = "50";

const NAME: &str = "millpond";

/// For so long the runtime may take to take a plugin.
const REGISTRATION: Duration = Duration::from_secs(5);

/// The runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    /// Its name (`containerd`).
    pub name: String,
    /// Its version (`v2.1.9`).
    pub version: String,
    /// For how long it waits for an answer; 0 where it does not say.
    pub patience: Duration,
}

/// A pod. Names and annotations are as others wrote them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pod {
    /// The runtime's number for it.
    pub id: String,
    /// The cluster's number for it.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// The cgroup in which its containers are, as the runtime names it; empty where it does not say.
    pub cgroup: String,
}

/// A container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Container {
    /// The runtime's number for it.
    pub id: String,
    /// That of its pod.
    pub pod: String,
    /// Its name.
    pub name: String,
    /// Its cgroup, as the runtime names it: a path, or `SLICE:PREFIX:NAME` where systemd makes cgroups.
    pub cgroup: String,
    /// The CPUs that its specification has; empty for any.
    pub cpus: String,
    /// How much it requests, in shares: 1,024 are a CPU. `None` where it says nothing.
    pub shares: Option<u64>,
    /// Whether it has ended.
    pub has_ended: bool,
}

/// What a container gets when it is made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Adjustment {
    /// Its CPUs, as a list.
    pub cpus: Option<String>,
    /// Added to its environment.
    pub environment: Vec<(String, String)>,
    /// Files and directories of the host that it sees, read only: where they are on the host, and there.
    pub views: Vec<(String, String)>,
}

/// The CPUs of a container from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// The container's number.
    pub container: String,
    /// Its CPUs, as a list.
    pub cpus: String,
}

/// Who answers. Each answer must come at once.
pub trait Node: Send + Sync {
    /// A runtime took the plugin.
    ///
    /// # Errors
    /// Why not this one: the plugin goes.
    fn meet(&self, runtime: Runtime) -> Result<(), String>;

    /// Everything that exists, after the plugin was taken. The answer is what is to change.
    fn synchronize(&self, pods: Vec<Pod>, containers: Vec<Container>) -> Vec<Update>;

    /// A container is about to be made.
    ///
    /// # Errors
    /// Why it must not: the runtime makes none, and says so to whoever wanted it.
    fn create(&self, pod: Pod, container: Container) -> Result<Adjustment, String>;

    /// A container runs.
    fn started(&self, container: Container);

    /// A container is about to get other resources. `container` has what is wanted. The answer is the CPUs that it keeps; `None` leaves what is wanted.
    fn update(&self, pod: Pod, container: Container) -> Option<String>;

    /// A container has ended, or is gone.
    fn ended(&self, container: &str);
}

/// Why it went.
#[derive(Debug, Error)]
pub enum Parting {
    /// Nobody listens, or the socket cannot be used.
    #[error("cannot connect to {path}: {why}")]
    NoRuntime {
        /// The socket.
        path: String,
        /// What the system says.
        why: io::Error,
    },
    /// The runtime did not take the plugin.
    #[error("the runtime does not take the plugin: {0}")]
    NotTaken(String),
    /// The plugin did not take the runtime.
    #[error("{0}")]
    Refused(String),
    /// The connection ended: the runtime ended, or dropped the plugin.
    #[error("the runtime ended the connection: {0}")]
    Ended(io::Error),
    /// It was told to.
    #[error("it was told to go")]
    Told,
}

/// Registers with the runtime that listens there, and answers until the connection ends or `leave` is told. This blocks.
///
/// # Errors
/// There is always a reason for the end.
pub fn attend(socket: &Path, node: Arc<dyn Node>, leave: oneshot::Receiver<()>) -> Parting {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(why) => return Parting::Ended(why),
    };
    runtime.block_on(async {
        match UnixStream::connect(socket).await {
            Ok(stream) => service::serve(stream, node, leave).await,
            Err(why) => Parting::NoRuntime { path: socket.display().to_string(), why },
        }
    })
}
