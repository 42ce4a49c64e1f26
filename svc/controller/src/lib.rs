//! Assigns pools to the nodes of a Kubernetes cluster.
//!
//! A resource of the cluster defines the pools of its nodes:
//!
//! ```text
//! apiVersion: millpond.dev/v1alpha1
//! kind: NodePools
//! metadata:
//!   name: web
//! spec:
//!   nodeSelector:
//!     kubernetes.io/os: linux
//!   pools:
//!     - name: web
//!       min: 2
//!       importance: 10
//!       objectives: utilization < 80
//!   fences:
//!     - name: packets
//!       profile: low-latency
//!       cpus: 2-3
//! ```
//!
//! The controller watches these resources and the labels of nodes. It writes one ConfigMap with a file for each resource, and a line for each
//! node that names its file. The agent of each node (`millpond node`) mounts it. Then the controller queries the nodes, and writes their
//! answers into the status: `kubectl get nodepools` shows how many nodes have the pools, and their sizes.
//!
//! If several resources select a node, the oldest one applies. A node that no resource selects has no pools.
//!
//! # Rights
//!
//! It reads nodes, and pods of its namespace. It writes that ConfigMap, statuses of NodePools, its Lease, and events.
//! It cannot change pods. It reads no secret except its token, which is mounted as a file. It reaches a node only on
//! the port of gauge.
//!
//! # Several instances
//!
//! Only the instance that holds the Lease writes. Another one takes over within 20 seconds of its end.

mod agents;
mod lease;
mod options;
mod plan;
mod render;
mod resource;
mod service;
mod status;
mod table;

pub use options::{Asked, Options, SPEC, parse};

use kube::CustomResourceExt;
use std::fmt::Display;

/// The definition of the resource, for `kubectl apply`: JSON, which is YAML.
///
/// # Errors
/// The definition cannot be written as JSON: a mistake in its description.
pub fn definition() -> serde_json::Result<String> {
    let mut text = serde_json::to_string_pretty(&resource::NodePools::crd())?;
    text.push('\n');
    Ok(text)
}

/// Runs until a signal stops it.
///
/// # Errors
/// Why it cannot run.
pub fn run(options: &Options) -> Result<(), String> {
    let said = |error: &dyn Display| error.to_string();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| said(&error))?;
    runtime.block_on(service::serve(options)).map_err(|error| said(&error))
}
