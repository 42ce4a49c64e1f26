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
//! Its containers get the CPUs of the pool when they are created, and follow the decisions of poold. They keep these CPUs when the kubelet
//! changes their resources, and when the container runtime, the kubelet or this agent is restarted. Containers of pods without the
//! annotation have the CPUs of the default pool.
//!
//! Run it together with poold on each node, as root and in the host's PID namespace. The manifests in `deploy/kubernetes/node` do so. It is
//! a plugin of the container runtime (NRI) and needs no rights in the cluster.
//!
//! # Pools
//!
//! Pools must be enabled. With `--conf` the agent enables them and commits that file, as `pooladm -c` does, and again each time the file
//! changes: a mounted ConfigMap is such a file. An invalid file changes nothing; the reason is logged.
//!
//! With `--node` as well, the path is a directory with the files of all nodes, which the controller of a cluster writes from `NodePools`
//! resources: `nodes`, which names the configuration of each node, and for each configuration `NAME.xml` with its pools and `NAME.fences`.
//! Each line of the latter is a fence, which exists as long as the line. A node without a line in `nodes` has only the default pool.
//! `poolcfg -dc info` shows the node's configuration as `millpond.configuration`, and the reason of a refusal as `millpond.refused`.
//!
//! A set does not become smaller than the containers of its pools request: the minimum for poold is the sum of `resources.requests.cpu` if
//! `pset.min` is less. `poolcfg -dc info` shows the sum, in thousandths of a CPU, as `millpond.requests` of a pool.
//!
//! A container whose pool does not exist is refused, with the reason in the pod's events. With `--unknown-pool default` it runs in the
//! default pool until a pool of that name exists.
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
//! Pods may have fences only of the namespaces, profiles and CPUs that `--fence-namespaces`, `--fence-profiles` and `--fence-cpus` name,
//! and none without these options. A pod that requests more is refused, with the reason in its events.
//!
//! While a container of such a pod runs, these CPUs are fenced (`millpond fence`) with the settings of the profile, including interrupts.
//! The fence is the set of a pool `pod-NUMBER`, which has the pod's containers. It ends with the last of them. Settings of the whole
//! machine that a profile requests are left out.
//!
//! # In the container
//!
//! `MILLPOND_POOL` names the pool, and the notices of all pools are mounted read-only at the path where Millpond's libraries look for them.
//! So programs that follow their pool's size also do so in a pod.
//!
//! # Names
//!
//! Commands call a container of a pod `namespace/pod/container`: `poolbind -q`, `millpond zones`, `top`, metrics and `quiet`.
//!
//! # Refusals
//!
//! The agent exits if the kubelet's CPU manager has the policy `static`, because that writes CPUs of containers as
//! well. It also exits if the runtime's NRI is missing or too old. A container that names a pool is refused if another
//! plugin has already set its CPUs.

mod annotations;
mod conf;
mod desk;
mod fences;
mod options;
mod service;

pub use annotations::PodFenceRule;
pub use options::{Options, SPEC, parse};
pub use service::run;
