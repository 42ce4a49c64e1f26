//! The main loop of the controller: it plans from the watched objects, and writes the differences. One task does
//! everything, so that nothing is written from incomplete data.

use crate::agents::Asker;
use crate::lease::{EVERY, Holding};
use crate::options::Options;
use crate::plan::{Known, Labels, Plan, plan};
use crate::resource::{NodePools, NodePoolsStatus};
use crate::status::{Cluster, Heard, status_of};
use crate::table::Table;
use futures_util::stream::{FuturesUnordered, StreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::runtime::events::{Event as Notice, EventType, Recorder, Reporter};
use kube::runtime::watcher::{Config, Event, watcher};
use kube::runtime::{WatchStreamExt, watcher as watching};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::IpAddr;
use std::pin::Pin;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep_until;

/// The field manager of writes to the API server.
const MANAGER: &str = "millpond-controller";
/// Changes are collected for this time before they are written.
const SETTLE: Duration = Duration::from_millis(50);
/// The shortest interval between two writes of statuses.
const STATUS: Duration = Duration::from_secs(2);
/// The delay of a retry after a failure.
const AGAIN: Duration = Duration::from_secs(2);
/// Nodes are queried in rounds. This is the interval between the starts of two rounds.
const ROUND: Duration = Duration::from_secs(10);
/// The most nodes that are queried at a time.
const ASKED_MAX: usize = 64;
/// The label of the agents' pods.
const AGENTS: &str = "app.kubernetes.io/name=millpond";
/// The most characters of a sentence in a status or an event.
const SENTENCE_MAX: usize = 500;

/// Why the service ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    #[error("there is no cluster: {0}")]
    NoCluster(String),
    #[error("signals cannot be waited for: {0}")]
    Signals(std::io::Error),
}

/// Runs until a signal stops it.
pub(crate) async fn serve(options: &Options) -> Result<(), Ended> {
    let client = Client::try_default().await.map_err(|error| Ended::NoCluster(error.to_string()))?;
    let me = std::env::var("POD_NAME").ok().filter(|name| !name.is_empty());
    let me = me.unwrap_or_else(|| format!("{MANAGER}-{}", std::process::id()));
    let mut terminated = signal(SignalKind::terminate()).map_err(Ended::Signals)?;
    let mut interrupted = signal(SignalKind::interrupt()).map_err(Ended::Signals)?;

    let objects: Api<NodePools> = Api::all(client.clone());
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &options.namespace);
    let pods: Api<Pod> = Api::namespaced(client.clone(), &options.namespace);
    let labels: Api<PartialObjectMeta<Node>> = Api::all(client.clone());
    let named = Config::default().fields(&format!("metadata.name={}", options.config_map));
    let mut objects_seen = watch(objects.clone(), Config::default());
    let mut nodes_seen = watch(labels, Config::default());
    let mut agents_seen = watch(pods, Config::default().labels(AGENTS));
    let mut maps_seen = watch(maps.clone(), named);

    let leases: Api<Lease> = Api::namespaced(client.clone(), &options.namespace);
    let reporter = Reporter { controller: MANAGER.to_owned(), instance: Some(me.clone()) };
    let mut service = Service {
        options,
        holding: Holding::new(leases, MANAGER, me),
        was_held: false,
        objects_api: objects,
        maps_api: maps,
        recorder: Recorder::new(client, reporter),
        objects: Table::default(),
        nodes: Table::default(),
        agents: Table::default(),
        maps: Table::default(),
        heard: BTreeMap::new(),
        written: BTreeMap::new(),
        plan: Plan::default(),
        asker: Asker::new(options.port),
        plan_due: None,
        status_due: None,
        complaint: None,
    };
    let mut asking = FuturesUnordered::new();
    let mut to_ask: Vec<(String, IpAddr)> = Vec::new();
    let (mut round_due, mut lease_due) = (Instant::now(), Instant::now());
    service.say("watching the cluster");
    loop {
        let is_idle = to_ask.is_empty() && asking.is_empty();
        let next_round = Some(round_due).filter(|_| is_idle && service.is_planned());
        let wake = service.next_due(next_round).map_or(lease_due, |due| due.min(lease_due));
        tokio::select! {
            _ = terminated.recv() => break,
            _ = interrupted.recv() => break,
            Some(event) = objects_seen.next() => service.see_objects(event),
            Some(event) = nodes_seen.next() => service.see_nodes(event),
            Some(event) = agents_seen.next() => service.see_agents(event),
            Some(event) = maps_seen.next() => service.see_maps(event),
            Some((node, heard)) = asking.next(), if !asking.is_empty() => service.hear(node, heard),
            () = sleep_until(wake.into()) => {}
        }
        let now = Instant::now();
        if now >= lease_due {
            lease_due = now + EVERY;
            service.hold().await;
        }
        if !service.holding.is_held() {
            (to_ask, round_due) = (Vec::new(), now);
            continue;
        }
        if now >= round_due && service.is_planned() && to_ask.is_empty() && asking.is_empty() {
            round_due = now + ROUND;
            to_ask = service.begin_round();
        }
        while asking.len() < ASKED_MAX {
            let Some((node, at)) = to_ask.pop() else { break };
            let asker = service.asker.clone();
            asking.push(async move { (node, asker.ask(at).await) });
        }
        service.write(now).await;
    }
    service.holding.release().await;
    Ok(())
}

type Seen<K> = Pin<Box<dyn futures_util::Stream<Item = watching::Result<Event<K>>> + Send>>;

fn watch<K>(api: Api<K>, config: Config) -> Seen<K>
where
    K: Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    watcher(api, config).default_backoff().boxed()
}

struct Service<'o> {
    options: &'o Options,
    holding: Holding,
    was_held: bool,
    objects_api: Api<NodePools>,
    maps_api: Api<ConfigMap>,
    recorder: Recorder,
    objects: Table<Known>,
    nodes: Table<Labels>,
    /// The address of the agent of each node.
    agents: Table<IpAddr>,
    /// The data of the ConfigMap.
    maps: Table<BTreeMap<String, String>>,
    heard: BTreeMap<String, Heard>,
    /// The statuses that were written last. The watch may still show older ones.
    written: BTreeMap<String, NodePoolsStatus>,
    plan: Plan,
    asker: Asker,
    plan_due: Option<Instant>,
    status_due: Option<Instant>,
    /// The last reported error.
    complaint: Option<String>,
}

impl Service<'_> {
    fn say(&self, text: &str) {
        // A failed write to standard error is ignored.
        drop(writeln!(std::io::stderr(), "{MANAGER}: {text}"));
    }

    /// Reports an error, unless it is the same as the last one.
    fn complain(&mut self, why: String) {
        if self.complaint.as_ref() != Some(&why) {
            self.say(&why);
            self.complaint = Some(why);
        }
    }

    fn is_due(&mut self, changed: bool) {
        if changed {
            self.plan_due.get_or_insert_with(|| Instant::now() + SETTLE);
        }
    }

    /// The event of a watch. An error is reported; the watch restarts by itself.
    fn shown<K>(&mut self, what: &str, event: watching::Result<Event<K>>) -> Option<Event<K>> {
        event.map_err(|error| self.complain(format!("{what} cannot be watched: {error}"))).ok()
    }

    fn see_objects(&mut self, event: watching::Result<Event<NodePools>>) {
        let Some(event) = self.shown("NodePools", event) else { return };
        let keep = |object: NodePools| Some((object.name_any(), Known::new(object)));
        // The watch also shows the statuses that this controller writes. They are ignored.
        let of = |known: &Known| (known.object.metadata.uid.clone(), known.object.metadata.generation);
        let changed = self.objects.take(event, keep, |was, is| of(was) != of(is));
        self.is_due(changed);
    }

    fn see_nodes(&mut self, event: watching::Result<Event<PartialObjectMeta<Node>>>) {
        let Some(event) = self.shown("nodes", event) else { return };
        let keep =
            |node: PartialObjectMeta<Node>| Some((node.name_any(), node.metadata.labels.unwrap_or_default()));
        let changed = self.nodes.take(event, keep, |was, is| was != is);
        self.is_due(changed);
    }

    fn see_agents(&mut self, event: watching::Result<Event<Pod>>) {
        let Some(event) = self.shown("pods", event) else { return };
        let keep = |pod: Pod| {
            let node = pod.spec.and_then(|spec| spec.node_name)?;
            Some((node, pod.status?.pod_ip?.parse().ok()?))
        };
        self.agents.take(event, keep, |was, is| was != is);
    }

    fn see_maps(&mut self, event: watching::Result<Event<ConfigMap>>) {
        let Some(event) = self.shown("ConfigMaps", event) else { return };
        let keep = |map: ConfigMap| Some((map.name_any(), map.data.unwrap_or_default()));
        let changed = self.maps.take(event, keep, |was, is| was != is);
        self.is_due(changed);
    }

    async fn hold(&mut self) {
        if let Err(error) = self.holding.turn().await {
            self.complain(format!("the Lease cannot be held: {error}"));
        }
        let is_held = self.holding.is_held();
        if is_held && !self.was_held {
            self.say("this instance writes from now on");
            self.written.clear();
            self.is_due(true);
        } else if !is_held && self.was_held {
            self.say("another instance writes from now on");
        }
        self.was_held = is_held;
    }

    /// The time of the next action, except for those of the Lease. `None` if another instance is the writer.
    fn next_due(&self, next_round: Option<Instant>) -> Option<Instant> {
        let dues = [self.plan_due, self.status_due, next_round];
        dues.into_iter().flatten().min().filter(|_| self.holding.is_held())
    }

    /// Whether there are nodes to query.
    fn is_planned(&self) -> bool {
        !self.plan.nodes.is_empty()
    }

    /// The nodes to query in a round.
    fn begin_round(&mut self) -> Vec<(String, IpAddr)> {
        let (Some(nodes), Some(agents)) = (self.nodes.whole(), self.agents.whole()) else {
            return Vec::new();
        };
        let token = match &self.options.token_file {
            Some(file) => match std::fs::read_to_string(file) {
                Ok(token) => Some(token.trim().to_owned()),
                Err(error) => {
                    let why = format!("{} cannot be read: {error}", file.display());
                    self.complain(why);
                    return Vec::new();
                }
            },
            None => None,
        };
        self.asker.set_token(token);
        let mut to_ask = Vec::new();
        let mut silent = Vec::new();
        for node in nodes.keys().filter(|node| self.plan.nodes.contains_key(*node)) {
            match agents.get(node) {
                Some(at) => to_ask.push((node.clone(), *at)),
                None => silent.push(node.clone()),
            }
        }
        self.heard.retain(|node, _| nodes.contains_key(node));
        for node in silent {
            self.hear(node, Heard::Silent("it runs no agent".to_owned()));
        }
        to_ask
    }

    fn hear(&mut self, node: String, heard: Heard) {
        let heard = match heard {
            Heard::Silent(why) => Heard::Silent(sentence(&why)),
            Heard::Said(mut report) => {
                report.refused = report.refused.as_deref().map(sentence);
                report.tag = report.tag.as_deref().map(sentence);
                Heard::Said(report)
            }
        };
        if self.heard.get(&node) != Some(&heard) {
            self.heard.insert(node, heard);
            self.status_due.get_or_insert_with(|| Instant::now() + STATUS);
        }
    }

    /// Writes the plan and the statuses that are due.
    async fn write(&mut self, now: Instant) {
        if self.plan_due.is_some_and(|due| now >= due) {
            self.plan_due = None;
            match self.write_map().await {
                Ok(()) => {
                    self.complaint = None;
                    self.status_due.get_or_insert(now);
                }
                Err(why) => {
                    self.complain(why);
                    self.plan_due = Some(Instant::now() + AGAIN);
                }
            }
        }
        if self.status_due.is_some_and(|due| now >= due) {
            self.status_due = None;
            if let Err(why) = self.write_statuses().await {
                self.complain(why);
                self.status_due = Some(Instant::now() + AGAIN);
            }
        }
    }

    async fn write_map(&mut self) -> Result<(), String> {
        let (Some(objects), Some(nodes), Some(maps)) =
            (self.objects.whole(), self.nodes.whole(), self.maps.whole())
        else {
            return Ok(());
        };
        self.plan = plan(objects, nodes)?;
        let name = &self.options.config_map;
        if maps.get(name).is_some_and(|data| *data == self.plan.data) {
            return Ok(());
        }
        let map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name},
            "data": self.plan.data,
        });
        let with = PatchParams::apply(MANAGER).force();
        let written = self.maps_api.patch(name, &with, &Patch::Apply(&map)).await;
        written.map_err(|error| format!("the ConfigMap {name} cannot be written: {error}"))?;
        let (nodes, objects) = (self.plan.nodes.len(), objects.len());
        self.say(&format!("ConfigMap {name}: {nodes} nodes have pools of {objects} NodePools"));
        Ok(())
    }

    async fn write_statuses(&mut self) -> Result<(), String> {
        let (Some(objects), Some(nodes)) = (self.objects.whole(), self.nodes.whole()) else { return Ok(()) };
        self.written.retain(|name, _| objects.contains_key(name));
        for (name, known) in objects {
            let before = self.written.get(name).or(known.object.status.as_ref());
            let cluster = Cluster { plan: &self.plan, nodes, heard: &self.heard };
            let status = status_of(name, known, before, &cluster, Timestamp::now());
            if before == Some(&status) {
                continue;
            }
            let patch = json!({
                "apiVersion": NodePools::api_version(&()),
                "kind": NodePools::kind(&()),
                "metadata": {"name": name},
                "status": status,
            });
            let with = PatchParams::apply(MANAGER).force();
            match self.objects_api.patch_status(name, &with, &Patch::Apply(&patch)).await {
                Ok(_) => {}
                // The resource was deleted meanwhile. The watch will show that.
                Err(kube::Error::Api(error)) if error.code == 404 => continue,
                Err(error) => return Err(format!("the status of {name} cannot be written: {error}")),
            }
            self.tell(&known.object, before, &status).await;
            self.written.insert(name.clone(), status);
        }
        Ok(())
    }

    /// Publishes events for conditions that have changed.
    async fn tell(&self, object: &NodePools, before: Option<&NodePoolsStatus>, after: &NodePoolsStatus) {
        for is in &after.conditions {
            let was = before.and_then(|before| before.conditions.iter().find(|was| was.type_ == is.type_));
            let same = |was: &Condition| (&was.status, &was.reason) == (&is.status, &is.reason);
            if is.status == "Unknown" || was.is_some_and(same) {
                continue;
            }
            let notice = Notice {
                type_: if is.status == "True" { EventType::Normal } else { EventType::Warning },
                reason: is.reason.clone(),
                note: Some(sentence(&is.message)),
                action: "Render".to_owned(),
                secondary: None,
            };
            if let Err(error) = self.recorder.publish(&notice, &object.object_ref(&())).await {
                self.say(&format!("an event cannot be written: {error}"));
            }
        }
    }
}

/// A text of another machine as a sentence: escaped and truncated.
fn sentence(text: &str) -> String {
    millpond_model::printable(text).chars().take(SENTENCE_MAX).collect()
}
