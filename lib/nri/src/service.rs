//! The plugin's services on a socket: requests are decoded, passed to the [`Node`], and answered.

use crate::trunk::carry;
use crate::ttrpc::{self, Client, Code, Status};
use crate::wire::{
    self, AboutContainer, Configure, Configured, ContainerAdjustment, ContainerUpdate, Created, Event,
    KeyValue, LinuxAdjustment, LinuxUpdate, Mount, Nothing, RegisterPlugin, StateChange, Synchronize,
    Synchronized, Updated, only_cpus,
};
use crate::{Adjustment, Container, INDEX, NAME, Node, Parting, Pod, REGISTRATION, Runtime, Update, VERSION};
use prost::Message;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, split};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

const PLUGIN_SERVICE: &str = "nri.pkg.api.v1alpha1.Plugin";
const RUNTIME_SERVICE: &str = "nri.pkg.api.v1alpha1.Runtime";

/// A request of a runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Configure,
    Synchronize,
    CreateContainer,
    UpdateContainer,
    /// An event of a container, which only needs an acknowledgement.
    Tell(Event),
    /// The same in the form of older runtimes.
    StateChange,
    /// A request that the plugin did not subscribe to.
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

/// Serves a socket until it closes.
pub(crate) async fn serve(
    socket: impl AsyncRead + AsyncWrite + Send + 'static,
    node: Arc<dyn Node>,
    leave: oneshot::Receiver<()>,
) -> Parting {
    let (plugin, runtime, end) = carry(socket);
    let (refuse, mut refused) = mpsc::channel(1);
    let mut desk = Desk { node, refuse, parts: Default::default() };
    let (from, to) = split(plugin);
    // It ends with this function, but continues while a refused runtime closes the connection.
    let mut answers = JoinSet::new();
    answers.spawn(async move {
        ttrpc::answer(from, to, PLUGIN_SERVICE, |name, question| desk.answer(name, question)).await
    });
    let client = Client::new(runtime);
    let parting = async {
        if let Err(why) = register(&client).await {
            return Parting::NotTaken(why.message);
        }
        std::future::pending().await
    };
    let mut end = pin!(end);
    tokio::select! {
        parting = parting => parting,
        why = &mut end => Parting::Ended(why),
        Some(why) = refused.recv() => {
            // The runtime gets the reason, and closes the connection.
            let _ended = timeout(REGISTRATION, &mut end).await;
            Parting::Refused(why)
        }
        _told = leave => Parting::Told,
    }
}

async fn register(client: &Client) -> Result<(), Status> {
    let about =
        RegisterPlugin { name: NAME.to_owned(), index: INDEX.to_owned(), version: VERSION.to_owned() };
    client.call(RUNTIME_SERVICE, "RegisterPlugin", about.encode_to_vec(), REGISTRATION).await.map(drop)
}

struct Desk {
    node: Arc<dyn Node>,
    refuse: mpsc::Sender<String>,
    /// The parts of a multi-part list so far.
    parts: (Vec<Pod>, Vec<Container>),
}

impl Desk {
    fn answer(&mut self, name: &str, question: &[u8]) -> Result<Vec<u8>, Status> {
        let Some((_, method)) = METHODS.iter().find(|(known, _)| *known == name) else {
            return Err(Status::new(Code::Unimplemented, format!("there is no method `{name}`")));
        };
        Ok(match *method {
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

    fn configure(&self, asked: Configure) -> Result<Configured, Status> {
        let patience = Duration::from_millis(u64::try_from(asked.request_timeout).unwrap_or(0));
        let runtime = Runtime { name: asked.runtime, version: asked.version, patience };
        self.node.meet(runtime).map_err(|why| {
            let _full = self.refuse.try_send(why.clone());
            refusal(why)
        })?;
        Ok(Configured { events: Event::mask() })
    }

    fn synchronize(&mut self, part: Synchronize) -> Synchronized {
        self.parts.0.extend(part.pods.into_iter().map(Pod::from));
        self.parts.1.extend(part.containers.into_iter().map(Container::from));
        if part.more {
            return Synchronized { updates: Vec::new(), more: true };
        }
        let (pods, containers) = std::mem::take(&mut self.parts);
        let updates = self.node.synchronize(pods, containers);
        Synchronized { updates: updates.into_iter().map(ContainerUpdate::from).collect(), more: false }
    }

    fn create(&self, about: AboutContainer) -> Result<Created, Status> {
        let (pod, container) = named(about);
        let adjustment = self.node.create(pod, container).map_err(refusal)?;
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

    /// Handles an event that only needs an acknowledgement.
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

fn refusal(why: String) -> Status {
    Status::new(Code::FailedPrecondition, why)
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

/// The state number of a container that has ended.
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
    /// Copies the fields of a resources message.
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
