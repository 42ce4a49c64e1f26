//! A real container runtime with all its data in a directory of its own, a client with the requests of a kubelet, and the agent.

mod cluster;
mod cri;
mod node;
mod runtime;

pub use cluster::{Cluster, PARTS, free_port, kubelet, own_address};
pub use cri::{Cri, RunningPod};
pub use node::{Node, cpus_here, most, with, with_node};
pub use runtime::{Daemon, IMAGE, Runtime, done, eventually, tools_of_guest};
pub use tonic::Status;
