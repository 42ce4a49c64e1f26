//! A client for a container runtime with the requests of a kubelet that these tests need. Field numbers are from api.proto of
//! k8s.io/cri-api, version v1.

use crate::runtime::PODS;
use http::uri::PathAndQuery;
use prost::Message;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

/// Timeout of a request.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, PartialEq, Message)]
struct Nothing {}

#[derive(Clone, PartialEq, Message)]
struct Version {
    #[prost(string, tag = "3")]
    number: String,
}

#[derive(Clone, PartialEq, Message)]
struct PodName {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    uid: String,
    #[prost(string, tag = "3")]
    namespace: String,
}

/// Namespace modes: 0 pod, 1 container, 2 node.
#[derive(Clone, PartialEq, Message)]
struct Namespaces {
    #[prost(int32, tag = "1")]
    network: i32,
    #[prost(int32, tag = "2")]
    pid: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Security {
    #[prost(message, optional, tag = "1")]
    namespaces: Option<Namespaces>,
}

#[derive(Clone, PartialEq, Message)]
struct LinuxPod {
    #[prost(string, tag = "1")]
    cgroup: String,
    #[prost(message, optional, tag = "2")]
    security: Option<Security>,
}

#[derive(Clone, PartialEq, Message)]
struct PodConfig {
    #[prost(message, optional, tag = "1")]
    name: Option<PodName>,
    #[prost(string, tag = "3")]
    logs: String,
    #[prost(map = "string, string", tag = "7")]
    annotations: HashMap<String, String>,
    #[prost(message, optional, tag = "8")]
    linux: Option<LinuxPod>,
}

#[derive(Clone, PartialEq, Message)]
struct RunPod {
    #[prost(message, optional, tag = "1")]
    config: Option<PodConfig>,
}

/// A message with one string as field 1: an id.
#[derive(Clone, PartialEq, Message)]
struct Id {
    #[prost(string, tag = "1")]
    id: String,
}

#[derive(Clone, PartialEq, Message)]
struct Resources {
    #[prost(int64, tag = "3")]
    shares: i64,
    #[prost(string, tag = "6")]
    cpus: String,
}

#[derive(Clone, PartialEq, Message)]
struct LinuxContainer {
    #[prost(message, optional, tag = "1")]
    resources: Option<Resources>,
}

#[derive(Clone, PartialEq, Message)]
struct ContainerConfig {
    #[prost(message, optional, tag = "1")]
    name: Option<Id>,
    #[prost(message, optional, tag = "2")]
    image: Option<Id>,
    #[prost(string, repeated, tag = "3")]
    command: Vec<String>,
    #[prost(string, tag = "11")]
    log: String,
    #[prost(message, optional, tag = "15")]
    linux: Option<LinuxContainer>,
}

#[derive(Clone, PartialEq, Message)]
struct CreateContainer {
    #[prost(string, tag = "1")]
    pod: String,
    #[prost(message, optional, tag = "2")]
    config: Option<ContainerConfig>,
    #[prost(message, optional, tag = "3")]
    pod_config: Option<PodConfig>,
}

#[derive(Clone, PartialEq, Message)]
struct UpdateContainer {
    #[prost(string, tag = "1")]
    container: String,
    #[prost(message, optional, tag = "2")]
    resources: Option<Resources>,
}

#[derive(Clone, PartialEq, Message)]
struct Exec {
    #[prost(string, tag = "1")]
    container: String,
    #[prost(string, repeated, tag = "2")]
    command: Vec<String>,
    #[prost(int64, tag = "3")]
    timeout_s: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Executed {
    #[prost(bytes = "vec", tag = "1")]
    out: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    err: Vec<u8>,
    #[prost(int32, tag = "3")]
    status: i32,
}

/// A running pod and its configuration.
#[derive(Debug, Clone)]
pub struct RunningPod {
    /// The runtime's id of the pod.
    pub id: String,
    config: PodConfig,
}

impl RunningPod {
    /// The cgroup of a container of the pod.
    #[must_use]
    pub fn group_of(&self, container: &str) -> String {
        let linux = self.config.linux.as_ref();
        format!("{}/{container}", linux.map_or("", |linux| &linux.cgroup))
    }
}

/// A connection to a runtime.
#[derive(Debug)]
pub struct Cri {
    runtime: tokio::runtime::Runtime,
    channel: Channel,
    logs: PathBuf,
}

impl Cri {
    /// Connects to the runtime at this socket. The runtime writes logs of containers below `logs`.
    ///
    /// # Errors
    /// A message.
    pub fn connect(socket: &Path, logs: &Path) -> Result<Cri, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let endpoint = Endpoint::from_shared(format!("unix:{}", socket.display()));
        let endpoint = endpoint.map_err(|error| error.to_string())?.timeout(PATIENCE);
        let channel = runtime.block_on(endpoint.connect()).map_err(|error| error.to_string())?;
        Ok(Cri { runtime, channel, logs: logs.to_owned() })
    }

    fn ask<Q, A>(&self, method: &str, question: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let path = format!("/runtime.v1.RuntimeService/{method}");
        let path = PathAndQuery::try_from(path).map_err(|error| Status::internal(error.to_string()))?;
        self.runtime.block_on(async {
            let mut client = Grpc::new(self.channel.clone());
            client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
            let answer = client.unary(Request::new(question), path, ProstCodec::<Q, A>::default()).await?;
            Ok(answer.into_inner())
        })
    }

    /// The runtime's version.
    ///
    /// # Errors
    /// The runtime's error.
    pub fn version(&self) -> Result<String, Status> {
        self.ask("Version", Nothing {}).map(|version: Version| version.number)
    }

    /// Runs a pod in the node's network.
    ///
    /// # Errors
    /// The runtime's error.
    pub fn run_pod(&self, name: &str, annotations: &[(&str, &str)]) -> Result<RunningPod, Status> {
        let uid = format!("{name}-uid");
        let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let namespaces = Namespaces { network: 2, pid: 1 };
        let config = PodConfig {
            linux: Some(LinuxPod {
                cgroup: format!("/{PODS}/burstable/pod{uid}"),
                security: Some(Security { namespaces: Some(namespaces) }),
            }),
            name: Some(PodName { name: name.to_owned(), uid, namespace: "default".to_owned() }),
            logs: self.logs.display().to_string(),
            annotations: annotations.collect(),
        };
        let made: Id = self.ask("RunPodSandbox", RunPod { config: Some(config.clone()) })?;
        Ok(RunningPod { id: made.id, config })
    }

    /// Creates and starts a container. `milli` is its CPU request, in thousandths. Returns its id.
    ///
    /// # Errors
    /// The error of the runtime, or of the agent through it.
    pub fn start(
        &self,
        pod: &RunningPod,
        name: &str,
        (image, command): (&str, &[&str]),
        milli: u32,
    ) -> Result<String, Status> {
        let config = ContainerConfig {
            name: Some(Id { id: name.to_owned() }),
            image: Some(Id { id: image.to_owned() }),
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            log: log(pod, name),
            linux: Some(LinuxContainer { resources: Some(shares(milli)) }),
        };
        let made: Id = self.ask(
            "CreateContainer",
            CreateContainer {
                pod: pod.id.clone(),
                config: Some(config),
                pod_config: Some(pod.config.clone()),
            },
        )?;
        let _: Nothing = self.ask("StartContainer", Id { id: made.id.clone() })?;
        Ok(made.id)
    }

    /// Changes the CPU request of a container, as an in-place resize does.
    ///
    /// # Errors
    /// The runtime's error.
    pub fn resize(&self, container: &str, milli: u32) -> Result<(), Status> {
        let update = UpdateContainer { container: container.to_owned(), resources: Some(shares(milli)) };
        self.ask("UpdateContainerResources", update).map(|Nothing {}| ())
    }

    /// Sets the CPUs of a container, as a kubelet with a static CPU manager does.
    ///
    /// # Errors
    /// The runtime's error.
    pub fn pin(&self, container: &str, cpus: &str) -> Result<(), Status> {
        let resources = Resources { shares: 0, cpus: cpus.to_owned() };
        let update = UpdateContainer { container: container.to_owned(), resources: Some(resources) };
        self.ask("UpdateContainerResources", update).map(|Nothing {}| ())
    }

    /// The output of a container of a pod so far. In the log each line begins with a time, a stream and a completeness flag.
    #[must_use]
    pub fn written(&self, pod: &RunningPod, name: &str) -> String {
        let text = std::fs::read_to_string(self.logs.join(log(pod, name))).unwrap_or_default();
        text.lines().filter_map(|line| line.splitn(4, ' ').nth(3)).collect::<Vec<_>>().join("\n")
    }

    /// Runs a command in a container. Returns its standard output.
    ///
    /// # Errors
    /// The runtime's error, or that the command failed, with its standard error.
    pub fn exec(&self, container: &str, command: &[&str]) -> Result<String, Status> {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        let exec = Exec { container: container.to_owned(), command, timeout_s: 20 };
        let done: Executed = self.ask("ExecSync", exec)?;
        if done.status != 0 {
            return Err(Status::unknown(String::from_utf8_lossy(&done.err)));
        }
        Ok(String::from_utf8_lossy(&done.out).into_owned())
    }

    /// Removes a pod and its containers.
    ///
    /// # Errors
    /// The runtime's error.
    pub fn remove(&self, pod: &RunningPod) -> Result<(), Status> {
        let _: Nothing = self.ask("StopPodSandbox", Id { id: pod.id.clone() })?;
        self.ask("RemovePodSandbox", Id { id: pod.id.clone() }).map(|Nothing {}| ())
    }
}

/// The log file of a container.
fn log(pod: &RunningPod, name: &str) -> String {
    format!("{}-{name}.log", pod.id)
}

fn shares(milli: u32) -> Resources {
    Resources { shares: (i64::from(milli) * 1024 / 1000).max(2), cpus: String::new() }
}
