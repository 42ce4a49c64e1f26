//! Messages of the interface (`nri.pkg.api.v1alpha1`, NRI 0.12) with their field numbers. Unused fields are not declared, and are ignored
//! when received.

use prost::Message;
use std::collections::HashMap;

/// Events of containers, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Create = 4,
    PostStart = 7,
    Update = 8,
    Stop = 10,
    Remove = 11,
}

impl Event {
    const ASKED: [Event; 5] = [Event::Create, Event::PostStart, Event::Update, Event::Stop, Event::Remove];

    /// The mask of all events that the plugin subscribes to.
    pub fn mask() -> i32 {
        Event::ASKED.iter().fold(0, |mask, event| mask | 1 << (*event as i32 - 1))
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Nothing {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RegisterPlugin {
    #[prost(string, tag = "1")]
    pub name: String,
    /// Two digits: the plugin's index.
    #[prost(string, tag = "2")]
    pub index: String,
    #[prost(string, tag = "3")]
    pub version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Configure {
    #[prost(string, tag = "2")]
    pub runtime: String,
    #[prost(string, tag = "3")]
    pub version: String,
    /// In milliseconds.
    #[prost(int64, tag = "5")]
    pub request_timeout: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Configured {
    #[prost(int32, tag = "2")]
    pub events: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Synchronize {
    #[prost(message, repeated, tag = "1")]
    pub pods: Vec<Pod>,
    #[prost(message, repeated, tag = "2")]
    pub containers: Vec<Container>,
    /// Whether another part follows.
    #[prost(bool, tag = "3")]
    pub more: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Synchronized {
    #[prost(message, repeated, tag = "1")]
    pub updates: Vec<ContainerUpdate>,
    #[prost(bool, tag = "2")]
    pub more: bool,
}

/// The common part of all requests about one container.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct AboutContainer {
    #[prost(message, optional, tag = "1")]
    pub pod: Option<Pod>,
    #[prost(message, optional, tag = "2")]
    pub container: Option<Container>,
    /// In an update: the requested resources.
    #[prost(message, optional, tag = "3")]
    pub resources: Option<Resources>,
}

/// Events that only need an acknowledgement, in the form of older runtimes.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StateChange {
    #[prost(int32, tag = "1")]
    pub event: i32,
    #[prost(message, optional, tag = "2")]
    pub pod: Option<Pod>,
    #[prost(message, optional, tag = "3")]
    pub container: Option<Container>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Created {
    #[prost(message, optional, tag = "1")]
    pub adjustment: Option<ContainerAdjustment>,
}

/// The response to an update and to a stop.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Updated {
    #[prost(message, repeated, tag = "1")]
    pub updates: Vec<ContainerUpdate>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Pod {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(string, tag = "3")]
    pub uid: String,
    #[prost(string, tag = "4")]
    pub namespace: String,
    #[prost(map = "string, string", tag = "6")]
    pub annotations: HashMap<String, String>,
    #[prost(message, optional, tag = "8")]
    pub linux: Option<LinuxPod>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LinuxPod {
    #[prost(string, tag = "3")]
    pub cgroup_parent: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Container {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, tag = "2")]
    pub pod: String,
    #[prost(string, tag = "3")]
    pub name: String,
    /// 1 created, 2 paused, 3 running, 4 stopped.
    #[prost(int32, tag = "4")]
    pub state: i32,
    #[prost(message, optional, tag = "11")]
    pub linux: Option<LinuxContainer>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LinuxContainer {
    #[prost(message, optional, tag = "3")]
    pub resources: Option<Resources>,
    #[prost(string, tag = "5")]
    pub cgroup: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Resources {
    #[prost(message, optional, tag = "2")]
    pub cpu: Option<Cpu>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Cpu {
    #[prost(message, optional, tag = "1")]
    pub shares: Option<Number>,
    #[prost(string, tag = "6")]
    pub cpus: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Number {
    #[prost(uint64, tag = "1")]
    pub value: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerAdjustment {
    #[prost(message, repeated, tag = "3")]
    pub mounts: Vec<Mount>,
    #[prost(message, repeated, tag = "4")]
    pub env: Vec<KeyValue>,
    #[prost(message, optional, tag = "6")]
    pub linux: Option<LinuxAdjustment>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LinuxAdjustment {
    #[prost(message, optional, tag = "2")]
    pub resources: Option<Resources>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Mount {
    #[prost(string, tag = "1")]
    pub destination: String,
    #[prost(string, tag = "2")]
    pub kind: String,
    #[prost(string, tag = "3")]
    pub source: String,
    #[prost(string, repeated, tag = "4")]
    pub options: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeyValue {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerUpdate {
    #[prost(string, tag = "1")]
    pub container: String,
    #[prost(message, optional, tag = "2")]
    pub linux: Option<LinuxUpdate>,
    /// The container may have been removed in the meantime.
    #[prost(bool, tag = "3")]
    pub ignores_failure: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LinuxUpdate {
    #[prost(message, optional, tag = "1")]
    pub resources: Option<Resources>,
}

/// Resources with only these CPUs.
pub(crate) fn only_cpus(cpus: &str) -> Resources {
    Resources { cpu: Some(Cpu { shares: None, cpus: cpus.to_owned() }) }
}
