//! The resource `NodePools`: which pools and fences the nodes with certain labels have.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The default maximum of CPUs of a pool's set.
const UNBOUNDED: u32 = 65_536;

/// The pools and fences of the nodes that have certain labels.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
#[kube(
    group = "millpond.dev",
    version = "v1alpha1",
    kind = "NodePools",
    plural = "nodepools",
    singular = "nodepools",
    shortname = "npl",
    status = "NodePoolsStatus",
    derive = "PartialEq",
    validation = Rule::new("self.metadata.name.size() <= 63").message("the name has at most 63 characters"),
    printcolumn(name = "Nodes", type_ = "integer", json_path = ".status.nodes", description = "nodes that it selects"),
    printcolumn(
        name = "Ready",
        type_ = "integer",
        json_path = ".status.ready",
        description = "nodes that have these pools"
    ),
    printcolumn(
        name = "Sizes",
        type_ = "string",
        json_path = ".status.sizes",
        description = "CPUs of each pool, the least and the most of all nodes"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodePoolsSpec {
    /// Labels that a node must have, all of them. Without any, every node is selected.
    #[serde(default)]
    pub node_selector: BTreeMap<String, String>,
    /// The objectives of the whole node, in the notation of poolcfg(8): "wt-load", or an empty text.
    #[serde(default = "wt_load")]
    #[schemars(length(max = 200))]
    pub objectives: String,
    /// How often poold measures, in milliseconds.
    #[schemars(with = "Option<i32>", range(min = 100, max = 3_600_000))]
    pub monitor_interval_ms: Option<u32>,
    /// The pool of all containers that name no other one.
    #[serde(default)]
    pub default_pool: DefaultPool,
    /// The other pools, each with a set of its own.
    #[serde(default)]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pools: Vec<Pool>,
    /// Fences of the nodes: CPUs that are kept free of other work.
    #[serde(default)]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub fences: Vec<Fence>,
}

/// A pool with its set.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("self.min <= self.max").message("min is greater than max"),
    validation = Rule::new("!self.name.startsWith('pod-') && !self.name.startsWith('node-')")
        .message("names that begin with pod- and node- are those of fences"),
    validation = Rule::new("!(self.name in ['pool_default', 'pset_default'])").message("defaultPool is for the default pool")
)]
pub struct Pool {
    /// The name for the annotation millpond.dev/pool of pods: a letter, then letters, digits, and any of ._-
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[A-Za-z][A-Za-z0-9._-]*$"))]
    pub name: String,
    /// The minimum number of CPUs. The sum of the CPU requests of its containers applies if it is greater.
    #[serde(default = "one")]
    #[schemars(with = "i32", range(min = 0, max = 65_536))]
    pub min: u32,
    /// The maximum number of CPUs.
    #[serde(default = "unbounded")]
    #[schemars(with = "i32", range(min = 0, max = 65_536))]
    pub max: u32,
    /// Its weight for poold, relative to other pools.
    #[serde(default = "one")]
    #[schemars(with = "i32", range(min = 0, max = 1_000_000))]
    pub importance: u32,
    /// The objectives of its set, in the notation of poolcfg(8): "utilization < 80; locality tight".
    #[serde(default)]
    #[schemars(length(max = 200))]
    pub objectives: String,
}

/// The default pool with its set.
#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DefaultPool {
    /// The minimum number of CPUs.
    #[serde(default = "one")]
    #[schemars(with = "i32", range(min = 1, max = 65_536))]
    pub min: u32,
    /// Its weight for poold, relative to other pools.
    #[serde(default = "one")]
    #[schemars(with = "i32", range(min = 0, max = 1_000_000))]
    pub importance: u32,
    /// The objectives of its set, in the notation of poolcfg(8).
    #[serde(default)]
    #[schemars(length(max = 200))]
    pub objectives: String,
}

impl Default for DefaultPool {
    fn default() -> Self {
        DefaultPool { min: 1, importance: 1, objectives: String::new() }
    }
}

/// A fence of each node.
#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fence {
    /// Its name. The fence is the set of the pool node-NAME, which pods may name.
    #[schemars(length(min = 1, max = 20), regex(pattern = "^[A-Za-z0-9_-]+$"))]
    pub name: String,
    /// A profile, such as low-latency: millpond fence --profiles.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[A-Za-z0-9_-]+$"))]
    pub profile: String,
    /// CPUs of the node, as a list: 2-3,6.
    #[schemars(length(min = 1, max = 200), regex(pattern = "^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$"))]
    pub cpus: String,
}

fn one() -> u32 {
    1
}

fn unbounded() -> u32 {
    UNBOUNDED
}

fn wt_load() -> String {
    "wt-load".to_owned()
}

/// The status of the resource.
#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolsStatus {
    /// The generation that this status describes.
    #[serde(default)]
    pub observed_generation: i64,
    /// Nodes that it selects.
    #[serde(default)]
    #[schemars(with = "i32")]
    pub nodes: u32,
    /// Nodes that have these pools.
    #[serde(default)]
    #[schemars(with = "i32")]
    pub ready: u32,
    /// CPUs of each pool: the minimum and the maximum over all nodes.
    #[serde(default)]
    pub sizes: String,
    /// Accepted: the pools are valid. Ready: every node that it selects has them.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The nodes, at most 250 of them; those that are not ready come first.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub node_status: Vec<NodeStatus>,
}

/// The status of the resource on a node.
#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// The name of the node.
    pub name: String,
    /// Ready: the node has these pools.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// CPUs of each pool at the last query of the node.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, i32>")]
    pub cpus: BTreeMap<String, u32>,
}
