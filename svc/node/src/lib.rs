//! Keeps the containers of a Kubernetes node in pools.
//!
//! A pod names its pool in an annotation:
//!
//! ```text
//! metadata:
//!   annotations:
//!     millpond.dev/pool: web               # all its containers
//!     millpond.dev/pool.metrics: batch     # but the container metrics
//! ```
//!
//! Its containers get the CPUs of the pool when they are created, and follow what poold decides. They keep them when the kubelet
//! changes their resources, and when the container runtime, the kubelet or this agent is restarted. Containers of pods without the annotation
//! have the CPUs of the default pool.
//!
//! Run it beside poold on each node, as root and in the host's PID namespace. The manifests in `deploy/kubernetes/node` do
//! so. It is a plugin of the container runtime (NRI) and needs no rights in the cluster.
//!
//! # Pools
//!
//! Pools must be enabled. With `--conf` the agent enables them and commits that file, as `pooladm -c` does, and again each time
//! the file changes: a mounted ConfigMap is such a file. One that is wrong changes nothing; the reason is logged.
//!
//! With `--node` as well the path is a directory with the files of all nodes, which the controller of a cluster writes from resources
//! `NodePools`: `nodes`, which names the configuration of each node, and for each configuration `NAME.xml` with its pools and `NAME.fences`. A
//! fence of a line there stands while the line does. A node without a line in `nodes` has no pools but the default one. `poolcfg -dc info`
//! shows which configuration the node has as `millpond.configuration`, and why it did not take one as `millpond.refused`.
//!
//! A set is not made smaller than the containers of its pools request: poold takes the sum of `resources.requests.cpu` for its minimum where
//! `pset.min` is less. `poolcfg -dc info` shows the sum, in thousandths of a CPU, as `millpond.requests` of a pool.
//!
//! A container whose pool does not exist is refused, with the reason in the pod's events. With `--unknown-pool default` it runs in the default
//! pool until a pool of that name exists.
//!
//! # Fences
//!
//! ```text
//! metadata:
//!   annotations:
//!     millpond.dev/fence: low-latency      # a profile: millpond fence --profiles
//!     millpond.dev/fence-cpus: 2-3         # CPUs of the node
//! ```
//!
//! Pods may have fences only of the namespaces, profiles and CPUs that `--fence-namespaces`, `--fence-profiles` and `--fence-cpus` name, and
//! none without these. A pod that asks for more is refused, with the reason in its events.
//!
//! While a container of such a pod runs, these CPUs are behind a fence (`millpond fence`) that keeps away what the profile names, interrupts
//! included. The fence is the set of a pool `pod-NUMBER`, in which the pod's containers are. It goes with the last of them. Settings of the
//! whole machine that a profile asks for are left out.
//!
//! # In the container
//!
//! `MILLPOND_POOL` names the pool, and the notices of all pools are mounted read-only where libraries of Millpond look for them. So programs
//! that follow their pool's size do so in a pod.
//!
//! # Names
//!
//! Commands call a container of a pod `namespace/pod/container`: `poolbind -q`, `millpond zones`, `top`, metrics and `quiet`.
//!
//! # Refusals
//!
//! It ends where the kubelet's CPU manager has the policy `static`, which writes CPUs of containers as well, and where the runtime has no
//! NRI or one that is too old. A container that names a pool and whose CPUs another plugin has set before is refused.

mod annotations;
mod conf;
mod desk;
mod fences;
mod options;
mod service;

pub use annotations::PodFenceRule;
pub use options::{Options, SPEC, parse};
pub use service::run;
