//! The plugin's services on a socket: questions are understood, given to the [`Node`], and answered.

use crate::trunk::carry;
use crate::wire::{
    self, AboutContainer, Configure, Configured, ContainerAdjustment, ContainerUpdate, Created, Event,
    KeyValue, LinuxAdjustment, LinuxUpdate, Mount, Nothing, RegisterPlugin, StateChange, Synchronize,
    Synchronized, Updated, only_cpus,
};
use crate::{Adjustment, Container, INDEX, NAME, Node, Parting, Pod, REGISTRATION, Runtime, Update, VERSION};
use async_trait::async_trait;
use futures_util::stream::{self, StreamExt};
use prost::Message;
use std::collections::HashMap;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use ttrpc::asynchronous::transport::{Listener, Socket};
use ttrpc::asynchronous::{Client, MethodHandler, Server, Service, TtrpcContext};
use ttrpc::{Code, Request, Response, get_status};

const PLUGIN_SERVICE: &str = "nri.pkg.api.v1alpha1.Plugin";
const RUNTIME_SERVICE: &str = "nri.pkg.api.v1alpha1.Runtime";

/// Everything that a runtime may ask a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Configure,
    Synchronize,
    CreateContainer,
    UpdateContainer,
    /// What happened to a container, and needs no answer but that it was heard.
    Tell(Event),
    /// The same, as older runtimes tell it.
    StateChange,
    /// What was not asked for.
    Other,
}

const METHODS: [(&str, Method); 18] = [
    ("Configure", Method::Configure),
    ("Synchronize", Method::Synchronize),
    ("Shutdown", Method::Other),
    ("CreateContainer", Method::CreateContainer),
    ("PostStartContainer", Method::Tell(Event::PostStart)),
    ("UpdateContainer", Method::UpdateContainer),
    ("StopContainer", Method::Tell(Event::Stop)),
    ("RemoveContainer", Method::Tell(Event::Remove)),
    ("StateChange", Method::StateChange),
    ("RunPodSandbox", Method::Other),
    ("UpdatePodSandbox", Method::Other),
    ("PostUpdatePodSandbox", Method::Other),
    ("StopPodSandbox", Method::Other),
    ("RemovePodSandbox", Method::Other),
    ("PostCreateContainer", Method::Other),
    ("StartContainer", Method::Other),
    ("PostUpdateContainer", Method::Other),
    ("ValidateContainerAdjustment", Method::Other),
];

/// Answers on a socket until it ends.
pub(crate) async fn serve(
    socket: impl AsyncRead + AsyncWrite + Send + 'static,
    node: Arc<dyn Node>,
    leave: oneshot::Receiver<()>,
) -> Parting {
    let (plugin, runtime, end) = carry(socket);
    let (refuse, mut refused) = mpsc::channel(1);
    let desk = Arc::new(Desk { node, refuse, parts: Mutex::default() });
    let methods = METHODS.map(|(name, method)| {
        let handler: Box<dyn MethodHandler + Send + Sync> =
            Box::new(Handler { desk: Arc::clone(&desk), method });
        (name.to_owned(), handler)
    });
    let service = Service { methods: HashMap::from(methods), streams: HashMap::new() };
    // One connection comes, once.
    let listener = Listener::new(stream::once(async { io::Result::Ok(plugin) }).chain(stream::pending()));
    let mut server = Server::new()
        .add_listener(listener)
        .register_service(HashMap::from([(PLUGIN_SERVICE.to_owned(), service)]));
    if let Err(why) = server.start().await {
        return Parting::NotTaken(why.to_string());
    }
    let client = Client::new(Socket::new(runtime));
    let parting = async {
        if let Err(why) = register(&client).await {
            return Parting::NotTaken(why);
        }
        std::future::pending().await
    };
    let mut end = pin!(end);
    tokio::select! {
        parting = parting => parting,
        why = &mut end => Parting::Ended(why),
        Some(why) = refused.recv() => {
            // The runtime hears why, and ends the connection.
            let _ended = timeout(REGISTRATION, &mut end).await;
            Parting::Refused(why)
        }
        _told = leave => Parting::Told,
    }
}

async fn register(client: &Client) -> Result<(), String> {
    let about =
        RegisterPlugin { name: NAME.to_owned(), index: INDEX.to_owned(), version: VERSION.to_owned() };
    let request = Request {
        service: RUNTIME_SERVICE.to_owned(),
        method: "RegisterPlugin".to_owned(),
        timeout_nano: i64::try_from(REGISTRATION.as_nanos()).unwrap_or(i64::MAX),
        payload: about.encode_to_vec(),
        ..Request::default()
    };
    match client.request(request).await {
        Ok(_taken) => Ok(()),
        Err(ttrpc::Error::RpcStatus(status)) => Err(status.message),
        Err(other) => Err(other.to_string()),
    }
}

struct Handler {
    desk: Arc<Desk>,
    method: Method,
}

#[async_trait]
impl MethodHandler for Handler {
    async fn handler(&self, _: TtrpcContext, request: Request) -> ttrpc::Result<Response> {
        let (status, payload) = match self.desk.answer(self.method, &request.payload) {
            Ok(payload) => (get_status(Code::OK, ""), payload),
            Err(No::NotUnderstood(why)) => (get_status(Code::INVALID_ARGUMENT, why), Vec::new()),
            Err(No::Refused(why)) => (get_status(Code::FAILED_PRECONDITION, why), Vec::new()),
        };
        let mut response = Response { payload, ..Response::default() };
        response.set_status(status);
        Ok(response)
    }
}

/// Why there is no answer.
#[derive(Debug)]
enum No {
    NotUnderstood(String),
    Refused(String),
}

impl From<prost::DecodeError> for No {
    fn from(why: prost::DecodeError) -> No {
        No::NotUnderstood(why.to_string())
    }
}

struct Desk {
    node: Arc<dyn Node>,
    refuse: mpsc::Sender<String>,
    /// What came of a list that comes in parts.
    parts: Mutex<(Vec<Pod>, Vec<Container>)>,
}

impl Desk {
    fn answer(&self, method: Method, question: &[u8]) -> Result<Vec<u8>, No> {
        Ok(match method {
            Method::Configure => self.configure(Configure::decode(question)?)?.encode_to_vec(),
            Method::Synchronize => self.synchronize(Synchronize::decode(question)?).encode_to_vec(),
            Method::CreateContainer => self.create(AboutContainer::decode(question)?)?.encode_to_vec(),
            Method::UpdateContainer => self.update(AboutContainer::decode(question)?).encode_to_vec(),
            Method::Tell(event) => self.tell(event as i32, AboutContainer::decode(question)?.container),
            Method::StateChange => {
                let change = StateChange::decode(question)?;
                self.tell(change.event, change.container)
            }
            Method::Other => Nothing {}.encode_to_vec(),
        })
    }

    fn configure(&self, asked: Configure) -> Result<Configured, No> {
        let patience = Duration::from_millis(u64::try_from(asked.request_timeout).unwrap_or(0));
        let runtime = Runtime { name: asked.runtime, version: asked.version, patience };
        self.node.meet(runtime).map_err(|why| {
            let _full = self.refuse.try_send(why.clone());
            No::Refused(why)
        })?;
        Ok(Configured { events: Event::mask() })
    }

    fn synchronize(&self, part: Synchronize) -> Synchronized {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.0.extend(part.pods.into_iter().map(Pod::from));
        parts.1.extend(part.containers.into_iter().map(Container::from));
        if part.more {
            return Synchronized { updates: Vec::new(), more: true };
        }
        let (pods, containers) = std::mem::take(&mut *parts);
        drop(parts);
        let updates = self.node.synchronize(pods, containers);
        Synchronized { updates: updates.into_iter().map(ContainerUpdate::from).collect(), more: false }
    }

    fn create(&self, about: AboutContainer) -> Result<Created, No> {
        let (pod, container) = named(about);
        let adjustment = self.node.create(pod, container).map_err(No::Refused)?;
        Ok(Created { adjustment: Some(adjustment.into()) })
    }

    fn update(&self, about: AboutContainer) -> Updated {
        let wanted = about.resources.clone();
        let (pod, mut container) = named(about);
        container.take(wanted);
        let id = container.id.clone();
        let kept = self.node.update(pod, container);
        Updated { updates: kept.map(|cpus| Update { container: id, cpus }.into()).into_iter().collect() }
    }

    /// Of an event that needs no answer.
    fn tell(&self, event: i32, container: Option<wire::Container>) -> Vec<u8> {
        let container = Container::from(container.unwrap_or_default());
        if event == Event::PostStart as i32 {
            self.node.started(container);
        } else if [Event::Stop as i32, Event::Remove as i32].contains(&event) {
            self.node.ended(&container.id);
        }
        Nothing {}.encode_to_vec()
    }
}

fn named(about: AboutContainer) -> (Pod, Container) {
    (about.pod.unwrap_or_default().into(), about.container.unwrap_or_default().into())
}

impl From<wire::Pod> for Pod {
    fn from(pod: wire::Pod) -> Pod {
        Pod {
            id: pod.id,
            uid: pod.uid,
            namespace: pod.namespace,
            name: pod.name,
            annotations: pod.annotations.into_iter().collect(),
            cgroup: pod.linux.unwrap_or_default().cgroup_parent,
        }
    }
}

/// The state of a container that has ended.
const STOPPED: i32 = 4;

impl From<wire::Container> for Container {
    fn from(container: wire::Container) -> Container {
        let linux = container.linux.unwrap_or_default();
        let mut plain = Container {
            id: container.id,
            pod: container.pod,
            name: container.name,
            cgroup: linux.cgroup,
            has_ended: container.state == STOPPED,
            ..Container::default()
        };
        plain.take(linux.resources);
        plain
    }
}

impl Container {
    /// Takes what resources say.
    fn take(&mut self, resources: Option<wire::Resources>) {
        let Some(cpu) = resources.and_then(|resources| resources.cpu) else { return };
        self.cpus = cpu.cpus;
        self.shares = cpu.shares.map(|shares| shares.value).or(self.shares);
    }
}

impl From<Adjustment> for ContainerAdjustment {
    fn from(adjustment: Adjustment) -> ContainerAdjustment {
        let view = |(source, destination): (String, String)| Mount {
            destination,
            kind: "bind".to_owned(),
            source,
            options: ["rbind", "ro", "nosuid", "nodev", "noexec"].map(str::to_owned).to_vec(),
        };
        ContainerAdjustment {
            mounts: adjustment.views.into_iter().map(view).collect(),
            env: adjustment.environment.into_iter().map(|(key, value)| KeyValue { key, value }).collect(),
            linux: adjustment.cpus.map(|cpus| LinuxAdjustment { resources: Some(only_cpus(&cpus)) }),
        }
    }
}

impl From<Update> for ContainerUpdate {
    fn from(update: Update) -> ContainerUpdate {
        ContainerUpdate {
            container: update.container,
            linux: Some(LinuxUpdate { resources: Some(only_cpus(&update.cpus)) }),
            ignores_failure: true,
        }
    }
}
