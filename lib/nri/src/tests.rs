//! A fake runtime calls the plugin over a socket pair.

use crate::service::serve;
use crate::trunk::carry;
use crate::ttrpc::{Client, Code, Status, answer};
use crate::wire::{
    AboutContainer, Configure, Configured, Container as Told, Cpu, Created, LinuxContainer, LinuxPod,
    Nothing, Number, Pod as ToldPod, RegisterPlugin, Resources, StateChange, Synchronize, Synchronized,
    Updated,
};
use crate::{Adjustment, Container, Node, Parting, Pod, Runtime, Update, attend};
use prost::Message;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::split;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// Records calls, and gives every container of pool `web` CPUs 2-3.
#[derive(Default)]
struct Notes {
    lines: Mutex<Vec<String>>,
    refuses: bool,
}

impl Notes {
    fn note(&self, line: String) {
        self.lines.lock().unwrap().push(line);
    }

    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().unwrap())
    }
}

const POOL: &str = "millpond.dev/pool";

impl Node for Notes {
    fn meet(&self, runtime: Runtime) -> Result<(), String> {
        self.note(format!("meet {} {} {:?}", runtime.name, runtime.version, runtime.patience));
        if self.refuses { Err("two plugins set CPUs here".to_owned()) } else { Ok(()) }
    }

    fn synchronize(&self, pods: Vec<Pod>, containers: Vec<Container>) -> Vec<Update> {
        self.note(format!("synchronize {} {}", pods.len(), containers.len()));
        containers.into_iter().map(|c| Update { container: c.id, cpus: "2-3".to_owned() }).collect()
    }

    fn create(&self, pod: Pod, container: Container) -> Result<Adjustment, String> {
        self.note(format!(
            "create {}/{}/{} in {} {:?}",
            pod.namespace, pod.name, container.name, container.cgroup, container.shares
        ));
        match pod.annotations.get(POOL).map(String::as_str) {
            Some("web") => Ok(Adjustment {
                cpus: Some("2-3".to_owned()),
                environment: vec![("MILLPOND_POOL".to_owned(), "web".to_owned())],
                views: vec![("/run/millpond/notices".to_owned(), "/run/millpond/notices".to_owned())],
            }),
            Some(other) => Err(format!("there is no pool {other}")),
            None => Ok(Adjustment::default()),
        }
    }

    fn started(&self, container: Container) {
        self.note(format!("started {}", container.id));
    }

    fn update(&self, _pod: Pod, container: Container) -> Option<String> {
        self.note(format!("update {} to {:?} {:?}", container.id, container.cpus, container.shares));
        (container.id == "c1").then(|| "2-3".to_owned())
    }

    fn ended(&self, container: &str) {
        self.note(format!("ended {container}"));
    }
}

/// The runtime's end of the socket.
struct Fake {
    client: Client,
    registered: mpsc::Receiver<RegisterPlugin>,
    /// The tasks of the connections and of registration.
    _tasks: JoinSet<()>,
}

impl Fake {
    async fn of(socket: UnixStream) -> Fake {
        let (plugin, runtime, end) = carry(socket);
        let (sender, registered) = mpsc::channel(1);
        let take = move |method: &str, question: &[u8]| {
            if method != "RegisterPlugin" {
                return Err(Status::new(Code::Unimplemented, method));
            }
            sender.try_send(RegisterPlugin::decode(question)?).unwrap();
            Ok(Nothing {}.encode_to_vec())
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(async { drop(end.await) });
        tasks.spawn(async {
            let (from, to) = split(runtime);
            drop(answer(from, to, "nri.pkg.api.v1alpha1.Runtime", take).await);
        });
        Fake { client: Client::new(plugin), registered, _tasks: tasks }
    }

    async fn ask(&self, method: &str, payload: Vec<u8>) -> Result<Vec<u8>, Status> {
        let patience = Duration::from_secs(20);
        self.client.call("nri.pkg.api.v1alpha1.Plugin", method, payload, patience).await
    }

    async fn asked<A: Message + Default>(&self, method: &str, question: impl Message) -> A {
        A::decode(self.ask(method, question.encode_to_vec()).await.unwrap().as_slice()).unwrap()
    }
}

fn block_on<T>(what: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(what)
}

/// Connects a runtime and a plugin, and executes `act`; returns the reason of the disconnect.
fn with_plugin<F: Future<Output = ()>>(node: &Arc<Notes>, act: impl FnOnce(Fake) -> F) -> Parting {
    block_on(async {
        let (here, there) = UnixStream::pair().unwrap();
        let (_stay, leave) = oneshot::channel();
        let plugin = tokio::spawn(serve(here, Arc::clone(node) as Arc<dyn Node>, leave));
        act(Fake::of(there).await).await;
        plugin.await.unwrap()
    })
}

fn pod(pool: Option<&str>) -> ToldPod {
    ToldPod {
        id: "p1".to_owned(),
        name: "web-7c".to_owned(),
        uid: "u1".to_owned(),
        namespace: "shop".to_owned(),
        annotations: pool.map(|pool| (POOL.to_owned(), pool.to_owned())).into_iter().collect(),
        linux: Some(LinuxPod { cgroup_parent: "/kubepods/podu1".to_owned() }),
    }
}

fn resources(cpus: &str, shares: u64) -> Resources {
    Resources { cpu: Some(Cpu { shares: Some(Number { value: shares }), cpus: cpus.to_owned() }) }
}

fn container(id: &str) -> Told {
    Told {
        id: id.to_owned(),
        pod: "p1".to_owned(),
        name: "nginx".to_owned(),
        state: 3,
        linux: Some(LinuxContainer {
            resources: Some(resources("", 2048)),
            cgroup: format!("/kubepods/podu1/{id}"),
        }),
    }
}

fn about(id: &str, pool: Option<&str>, wanted: Option<Resources>) -> AboutContainer {
    AboutContainer { pod: Some(pod(pool)), container: Some(container(id)), resources: wanted }
}

#[test]
fn a_container_gets_its_cpus_when_it_is_made_and_keeps_them_when_it_is_updated() {
    let node = Arc::new(Notes::default());
    let parting = with_plugin(&node, |mut fake| {
        let node = Arc::clone(&node);
        async move {
            let plugin = fake.registered.recv().await.unwrap();
            assert_eq!(
                (plugin.name.as_str(), plugin.index.as_str(), plugin.version.as_str()),
                ("millpond", "50", "v0.12.5")
            );
            let configure = Configure {
                runtime: "containerd".to_owned(),
                version: "v2.1.9".to_owned(),
                request_timeout: 2000,
            };
            let configured: Configured = fake.asked("Configure", configure).await;
            // Events 4, 7, 8, 10 and 11; event N is bit N - 1.
            assert_eq!(configured.events, 0b110_1100_1000);
            let created: Created = fake.asked("CreateContainer", about("c1", Some("web"), None)).await;
            let adjustment = created.adjustment.unwrap();
            assert_eq!(
                adjustment.linux.unwrap().resources.unwrap().cpu.unwrap(),
                Cpu { shares: None, cpus: "2-3".to_owned() }
            );
            let env: Vec<_> = adjustment.env.iter().map(|e| (e.key.as_str(), e.value.as_str())).collect();
            assert_eq!(env, [("MILLPOND_POOL", "web")]);
            assert_eq!(adjustment.mounts.len(), 1);
            assert!(adjustment.mounts[0].options.contains(&"ro".to_owned()));
            let plain: Created = fake.asked("CreateContainer", about("c2", None, None)).await;
            assert_eq!(plain.adjustment, Some(Default::default()), "what has no pool is left alone");
            let refused = fake.ask("CreateContainer", about("c3", Some("gone"), None).encode_to_vec()).await;
            assert_eq!(refused.unwrap_err(), Status::new(Code::FailedPrecondition, "there is no pool gone"));
            let updated: Updated =
                fake.asked("UpdateContainer", about("c1", Some("web"), Some(resources("0-7", 512)))).await;
            let [update] = &updated.updates[..] else { panic!("{updated:?}") };
            let cpus = update.linux.clone().unwrap().resources.unwrap().cpu.unwrap().cpus;
            assert_eq!((update.container.as_str(), cpus.as_str()), ("c1", "2-3"));
            let left: Updated = fake.asked("UpdateContainer", about("c2", None, None)).await;
            assert!(left.updates.is_empty());
            for method in ["PostStartContainer", "StopContainer", "RemoveContainer", "RunPodSandbox"] {
                let _heard: Nothing = fake.asked(method, about("c1", None, None)).await;
            }
            // The form of older runtimes.
            let change = |event| StateChange { event, pod: None, container: Some(container("c2")) };
            for event in [1, 7, 10, 11] {
                let _heard: Nothing = fake.asked("StateChange", change(event)).await;
            }
            assert_eq!(
                node.taken(),
                [
                    "meet containerd v2.1.9 2s",
                    "create shop/web-7c/nginx in /kubepods/podu1/c1 Some(2048)",
                    "create shop/web-7c/nginx in /kubepods/podu1/c2 Some(2048)",
                    "create shop/web-7c/nginx in /kubepods/podu1/c3 Some(2048)",
                    "update c1 to \"0-7\" Some(512)",
                    "update c2 to \"\" Some(2048)",
                    "started c1",
                    "ended c1",
                    "ended c1",
                    "started c2",
                    "ended c2",
                    "ended c2",
                ]
            );
        }
    });
    assert!(matches!(parting, Parting::Ended(_)), "{parting}");
}

#[test]
fn a_list_may_come_in_parts() {
    let node = Arc::new(Notes::default());
    with_plugin(&node, |mut fake| {
        let node = Arc::clone(&node);
        async move {
            fake.registered.recv().await.unwrap();
            let part = |ids: &[&str], more| Synchronize {
                pods: vec![pod(None)],
                containers: ids.iter().map(|id| container(id)).collect(),
                more,
            };
            let first: Synchronized = fake.asked("Synchronize", part(&["c1", "c2"], true)).await;
            assert_eq!(first, Synchronized { updates: Vec::new(), more: true });
            let last: Synchronized = fake.asked("Synchronize", part(&["c3"], false)).await;
            let ids: Vec<&str> = last.updates.iter().map(|update| update.container.as_str()).collect();
            assert_eq!((last.more, ids), (false, vec!["c1", "c2", "c3"]));
            assert_eq!(node.taken(), ["synchronize 2 3"]);
        }
    });
}

#[test]
fn many_questions_at_once_have_their_own_answers() {
    let node = Arc::new(Notes::default());
    with_plugin(&node, |mut fake| async move {
        fake.registered.recv().await.unwrap();
        let ask = |number: usize| {
            let fake = &fake;
            async move {
                let id = if number.is_multiple_of(2) { "c1" } else { "c2" };
                // Long enough that frames of several requests interleave.
                let mut about = about(id, Some("web"), None);
                if let Some(pod) = &mut about.pod {
                    pod.annotations.insert("long".to_owned(), "x".repeat(200_000));
                }
                let updated: Updated = fake.asked("UpdateContainer", about).await;
                assert_eq!(updated.updates.len(), (number + 1) % 2, "{number}");
            }
        };
        futures_util::future::join_all((0..100).map(ask)).await;
    });
    assert_eq!(node.taken().len(), 100);
}

#[test]
fn a_runtime_that_is_not_taken_hears_why() {
    let node = Arc::new(Notes { refuses: true, ..Notes::default() });
    let parting = with_plugin(&node, |mut fake| async move {
        fake.registered.recv().await.unwrap();
        let refused = fake.ask("Configure", Configure::default().encode_to_vec()).await;
        assert_eq!(refused.unwrap_err().message, "two plugins set CPUs here");
    });
    assert_eq!(parting.to_string(), "two plugins set CPUs here");
}

#[test]
fn what_cannot_be_understood_is_refused_and_the_next_is_answered() {
    let node = Arc::new(Notes::default());
    with_plugin(&node, |mut fake| async move {
        fake.registered.recv().await.unwrap();
        let refused = fake.ask("CreateContainer", vec![0xff; 9]).await.unwrap_err();
        assert_eq!(refused.code, Code::InvalidArgument as i32, "{refused:?}");
        let refused = fake.ask("NoSuchMethod", Vec::new()).await.unwrap_err();
        assert_eq!(refused, Status::new(Code::Unimplemented, "there is no method `NoSuchMethod`"));
        let _plain: Created = fake.asked("CreateContainer", about("c2", None, None)).await;
    });
}

#[test]
fn it_goes_when_it_is_told_and_says_when_nobody_listens() {
    let node: Arc<dyn Node> = Arc::new(Notes::default());
    let dir = tempfile::tempdir().unwrap();
    let (_stay, leave) = oneshot::channel();
    let parting = attend(&dir.path().join("nri.sock"), Arc::clone(&node), leave);
    assert!(
        matches!(&parting, Parting::NoRuntime { why, .. } if why.kind() == io::ErrorKind::NotFound),
        "{parting}"
    );
    let listener = std::os::unix::net::UnixListener::bind(dir.path().join("nri.sock")).unwrap();
    let (stay, leave) = oneshot::channel();
    let path = dir.path().join("nri.sock");
    let plugin = std::thread::spawn(move || attend(&path, node, leave));
    let (_socket, _) = listener.accept().unwrap();
    std::thread::sleep(Duration::from_millis(50));
    stay.send(()).unwrap();
    assert!(matches!(plugin.join().unwrap(), Parting::Told));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]
    #[test]
    fn no_frames_break_it(frames in proptest::collection::vec((0u32..4, proptest::collection::vec(proptest::prelude::any::<u8>(), 0..60)), 0..12)) {
        let node = Arc::new(Notes::default());
        let parting = block_on(async {
            let (here, there) = UnixStream::pair().unwrap();
            let (_stay, leave) = oneshot::channel();
            let plugin = tokio::spawn(serve(here, node as Arc<dyn Node>, leave));
            let mut bytes = Vec::new();
            for (id, payload) in &frames {
                bytes.extend(id.to_be_bytes());
                bytes.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
                bytes.extend(payload);
            }
            there.writable().await.unwrap();
            let _all = there.try_write(&bytes);
            drop(there);
            tokio::time::timeout(Duration::from_secs(20), plugin).await.unwrap().unwrap()
        });
        let gone = matches!(parting, Parting::Ended(_) | Parting::NotTaken(_));
        proptest::prop_assert!(gone, "{}", parting);
    }
}

#[test]
fn annotations_come_in_order() {
    let told = ToldPod {
        annotations: HashMap::from(["b", "a"].map(|key| (key.to_owned(), String::new()))),
        ..ToldPod::default()
    };
    let keys: BTreeMap<String, String> = Pod::from(told).annotations;
    assert_eq!(keys.into_keys().collect::<Vec<_>>(), ["a", "b"]);
}
