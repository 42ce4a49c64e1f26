//! Pods and containers of a container runtime, through its plugin interface (NRI), as plain data: when they begin, change and end. The plugin
//! decides the CPUs of a container in its answers. After registration it sends no requests to the runtime: an unsolicited update can stop
//! containerd permanently (containerd #13733).
//!
//! ```text
//!   socket ──▶ trunk ──connection 1──▶ the runtime's requests ──▶ Node: plain data in, plain data out
//!                └─────connection 2──▶ one message: the plugin registers
//! ```
//!
//! Only this crate uses ttrpc. A [`Node`] is called on the thread of [`attend`] and must not block: a runtime drops a plugin that exceeds
//! its request timeout, two seconds by default.

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

/// The NRI version that the plugin is written for. Runtimes back to NRI 0.6 (containerd 1.7) support it.
const VERSION: &str = "v0.12.5";

/// The plugin's index: two digits. The runtime calls plugins in this order.
const INDEX: &str = "50";

const NAME: &str = "millpond";

/// Timeout of the registration.
const REGISTRATION: Duration = Duration::from_secs(5);

/// A container runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    /// Its name (`containerd`).
    pub name: String,
    /// Its version (`v2.1.9`).
    pub version: String,
    /// Its request timeout; 0 if unknown.
    pub patience: Duration,
}

/// A pod. Names and annotations are foreign text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pod {
    /// The runtime's id.
    pub id: String,
    /// The cluster's id.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// The parent cgroup of its containers, in the runtime's notation; empty if unknown.
    pub cgroup: String,
}

/// A container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Container {
    /// The runtime's id.
    pub id: String,
    /// Its pod's id.
    pub pod: String,
    /// Its name.
    pub name: String,
    /// Its cgroup in the runtime's notation: a path, or `SLICE:PREFIX:NAME` where systemd manages cgroups.
    pub cgroup: String,
    /// The CPUs of its specification; empty for any.
    pub cpus: String,
    /// Its CPU request in shares: 1,024 are a CPU. `None` if unspecified.
    pub shares: Option<u64>,
    /// Whether it has ended.
    pub has_ended: bool,
}

/// Changes to a container at its creation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Adjustment {
    /// Its CPUs, as a list.
    pub cpus: Option<String>,
    /// Additional environment variables.
    pub environment: Vec<(String, String)>,
    /// Read-only mounts of host files and directories: the host's path, and the container's.
    pub views: Vec<(String, String)>,
}

/// New CPUs of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// The container's id.
    pub container: String,
    /// Its CPUs, as a list.
    pub cpus: String,
}

/// Answers the runtime's requests. No method may block.
pub trait Node: Send + Sync {
    /// The runtime has accepted the plugin.
    ///
    /// # Errors
    /// The reason why the plugin rejects this runtime. Then the plugin disconnects.
    fn meet(&self, runtime: Runtime) -> Result<(), String>;

    /// All existing pods and containers, after the registration. Returns the required changes.
    fn synchronize(&self, pods: Vec<Pod>, containers: Vec<Container>) -> Vec<Update>;

    /// A container is about to be created.
    ///
    /// # Errors
    /// The reason why it must not be created: the runtime creates no container and reports the reason to its client.
    fn create(&self, pod: Pod, container: Container) -> Result<Adjustment, String>;

    /// A container has started.
    fn started(&self, container: Container);

    /// A container's resources are about to change. `container` has the requested ones. Returns the CPUs that it keeps; `None` accepts the request.
    fn update(&self, pod: Pod, container: Container) -> Option<String>;

    /// A container has ended, or was removed.
    fn ended(&self, container: &str);
}

/// The reason of a disconnect.
#[derive(Debug, Error)]
pub enum Parting {
    /// No runtime listens, or the socket is unusable.
    #[error("cannot connect to {path}: {why}")]
    NoRuntime {
        /// The socket.
        path: String,
        /// The system's error.
        why: io::Error,
    },
    /// The runtime did not accept the plugin.
    #[error("the runtime does not take the plugin: {0}")]
    NotTaken(String),
    /// The plugin did not accept the runtime.
    #[error("{0}")]
    Refused(String),
    /// The connection ended: the runtime ended, or dropped the plugin.
    #[error("the runtime ended the connection: {0}")]
    Ended(io::Error),
    /// The caller requested it.
    #[error("it was told to go")]
    Told,
}

/// Registers with the runtime on this socket, and answers requests until the connection ends or `leave` fires. Blocks the thread.
///
/// # Errors
/// Always returns the reason of the disconnect.
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
