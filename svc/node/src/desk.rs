//! Answers the requests of the container runtime (NRI) from cached state, without blocking: the list of containers,
//! and the notices of pools. It changes nothing on the machine. [`crate::service`] takes from here what to bind.

use crate::annotations::{PodFenceRule, name_of, requests};
use crate::options::UnknownPool;
use millpond_formats::node_files::NodeFence;
use millpond_member::{MemberError, POOL_VARIABLE, Subscription, usual_state_dir};
use millpond_model::{CpuSet, printable};
use millpond_nri::{Adjustment, Container, Node, Pod, Runtime, Update};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What the agent keeps about a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    /// `namespace/pod/container`.
    pub(crate) name: String,
    /// The pool that the container names, else that of the fence of its pod.
    pub(crate) pool: Option<String>,
    /// The fence of its pod.
    pub(crate) fence: Option<NodeFence>,
    /// The CPU request, in thousandths of a CPU.
    pub(crate) requests: u64,
    /// Whether the container has started. Before that, it has no cgroup.
    pub(crate) runs: bool,
}

/// The known containers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    /// Containers, by the id of the runtime.
    pub(crate) containers: BTreeMap<String, Kept>,
    /// Whether the list is complete: the runtime has listed all containers since it accepted the plugin.
    pub(crate) is_whole: bool,
}

#[derive(Debug, Default)]
struct Inside {
    known: Known,
    has_changed: bool,
    said: Vec<String>,
    /// Whether a runtime has accepted the plugin at least once.
    was_taken: bool,
}

/// The cached state, and the handlers of requests.
#[derive(Debug)]
pub(crate) struct Desk {
    state: PathBuf,
    unknown_pool: UnknownPool,
    pod_fences: PodFenceRule,
    inside: Mutex<Inside>,
    changed: Condvar,
}

/// The oldest supported version of containerd. Before 1.7, its plugin interface of the same name is another one.
const CONTAINERD: (&str, (u32, u32)) = ("containerd", (1, 7));

impl Desk {
    /// A desk that reads the notices in a state directory.
    pub(crate) fn new(state: PathBuf, unknown_pool: UnknownPool, pod_fences: PodFenceRule) -> Desk {
        Desk { state, unknown_pool, pod_fences, inside: Mutex::default(), changed: Condvar::new() }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, how: impl FnOnce(&mut Inside)) {
        let mut inside = self.inside();
        how(&mut inside);
        inside.has_changed = true;
        self.changed.notify_one();
    }

    /// Marks the list as incomplete. After the connection to the runtime is lost, changes are unknown.
    pub(crate) fn lose(&self) {
        self.inside().known.is_whole = false;
    }

    /// Whether a runtime has accepted the plugin since the agent started. If so, a lost runtime is expected to
    /// return.
    pub(crate) fn was_taken(&self) -> bool {
        self.inside().was_taken
    }

    /// Waits for a change, at most for the given time. Returns the known containers if they changed.
    pub(crate) fn wait(&self, most: Duration) -> Option<Known> {
        let mut inside = self.inside();
        if !inside.has_changed && inside.said.is_empty() {
            inside = self.changed.wait_timeout(inside, most).unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::take(&mut inside.has_changed).then(|| inside.known.clone())
    }

    /// The known containers.
    pub(crate) fn known(&self) -> Known {
        self.inside().known.clone()
    }

    /// Takes the lines to log.
    pub(crate) fn said(&self) -> Vec<String> {
        std::mem::take(&mut self.inside().said)
    }

    fn say(&self, line: String) {
        self.inside().said.push(line);
        self.changed.notify_one();
    }

    /// The entry of a container, from its pod. Whether it runs is not known here.
    fn kept(&self, pod: &Pod, container: &Container) -> Result<Kept, String> {
        let (pool, fence) = self.pod_fences.place_of(pod, container)?;
        Ok(Kept {
            name: name_of(pod, container),
            pool,
            fence,
            requests: requests(container.shares),
            runs: false,
        })
    }

    /// The CPUs of a pool. `None` for the default pool, which has all CPUs that other pools do not have.
    fn cpus(&self, pool: &str) -> Result<Option<CpuSet>, MemberError> {
        let (number, size) = Subscription::look(&self.state, pool)?;
        Ok((!number.is_default()).then_some(size.cpus))
    }

    /// The CPU list for a container: the CPUs of its pool, if the pool exists and has CPUs.
    fn list_of(&self, pool: Option<&str>) -> Option<String> {
        let cpus = self.cpus(pool?).ok().flatten().filter(|cpus| !cpus.is_empty());
        cpus.map(|cpus| cpus.to_string())
    }

    /// The mount of the notices: their directory, and the directory in which programs in a container look for them.
    fn view(&self) -> (String, String) {
        let there = usual_state_dir().join(NOTICES);
        (self.state.join(NOTICES).display().to_string(), there.display().to_string())
    }
}

/// The directory of notices in a state directory.
const NOTICES: &str = "pools";

/// The first two numbers of a version, as in `v2.1.9`.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim_start_matches('v').split(['.', '-', '+']).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

impl Node for Desk {
    fn meet(&self, runtime: Runtime) -> Result<(), String> {
        let Runtime { name, version: told, .. } = &runtime;
        let (name, told) = (printable(name), printable(told));
        let (which, least) = CONTAINERD;
        if name == which && version(&told).is_some_and(|version| version < least) {
            return Err(format!("{name} {told} is too old: its plugins came with 1.7"));
        }
        self.inside().was_taken = true;
        self.say(format!("{name} {told} tells of its containers"));
        Ok(())
    }

    fn synchronize(&self, pods: Vec<Pod>, containers: Vec<Container>) -> Vec<Update> {
        let pods: BTreeMap<String, Pod> = pods.into_iter().map(|pod| (pod.id.clone(), pod)).collect();
        let mut known = BTreeMap::new();
        let mut updates = Vec::new();
        for container in containers.into_iter().filter(|container| !container.has_ended) {
            let Some(pod) = pods.get(&container.pod) else { continue };
            // An invalid one was refused, or was started without the agent. Then it is in no pool.
            let Ok(kept) = self.kept(pod, &container) else { continue };
            if let Some(cpus) = self.list_of(kept.pool.as_deref()).filter(|cpus| *cpus != container.cpus) {
                updates.push(Update { container: container.id.clone(), cpus });
            }
            known.insert(container.id, Kept { runs: true, ..kept });
        }
        self.change(|inside| inside.known = Known { containers: known, is_whole: true });
        updates
    }

    fn create(&self, pod: Pod, container: Container) -> Result<Adjustment, String> {
        let kept = self.kept(&pod, &container).inspect_err(|why| {
            self.say(format!("{} was refused: {why}", printable(&name_of(&pod, &container))));
        })?;
        let (name, pool) = (&kept.name, kept.pool.as_deref());
        let mut adjustment = Adjustment::default();
        if let Some(pool) = pool {
            let mut has_pool = true;
            match self.cpus(pool) {
                // poold gives the pool a CPU, because it now has a container.
                Ok(Some(cpus)) if cpus.is_empty() => {
                    self.say(format!("{} waits for a CPU of pool {}", printable(name), printable(pool)));
                }
                Ok(Some(_)) if !container.cpus.is_empty() => {
                    let cpus = printable(&container.cpus);
                    return Err(format!(
                        "something else gave the container CPUs {cpus}: the kubelet's CPU manager, or another plugin"
                    ));
                }
                Ok(Some(cpus)) => adjustment.cpus = Some(cpus.to_string()),
                Ok(None) => has_pool = false,
                // The fence is made once the container runs.
                Err(_) if kept.fence.as_ref().is_some_and(|fence| fence.name.as_str() == pool) => {}
                Err(why) if self.unknown_pool == UnknownPool::Refuse => {
                    let why = format!("{why}, which annotation {} names", crate::annotations::POOL);
                    self.say(format!("{} was refused: {why}", printable(name)));
                    return Err(why);
                }
                Err(why) => {
                    has_pool = false;
                    self.say(format!("{} runs in the default pool: {why}", printable(name)));
                }
            }
            if has_pool {
                adjustment.environment.push((POOL_VARIABLE.to_owned(), pool.to_owned()));
                adjustment.views.push(self.view());
            }
        }
        self.change(|inside| {
            inside.known.containers.insert(container.id, kept);
        });
        Ok(adjustment)
    }

    fn started(&self, container: Container) {
        self.change(|inside| {
            if let Some(kept) = inside.known.containers.get_mut(&container.id) {
                kept.runs = true;
            }
        });
    }

    fn update(&self, pod: Pod, container: Container) -> Option<String> {
        let pool = self.kept(&pod, &container).ok().and_then(|kept| kept.pool);
        let asked = requests(container.shares);
        // poold may decide again before the runtime writes this list, so the list is checked again later.
        self.change(|inside| {
            if let Some(kept) = inside.known.containers.get_mut(&container.id) {
                kept.requests = asked;
            }
        });
        self.list_of(pool.as_deref())
    }

    fn ended(&self, container: &str) {
        self.change(|inside| {
            inside.known.containers.remove(container);
        });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::fs;

    fn desk(unknown_pool: UnknownPool) -> (Desk, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("pools")).unwrap();
        let rule = PodFenceRule {
            namespaces: vec!["shop".into()],
            profiles: vec!["gentle".into()],
            cpus: "6".parse().unwrap(),
        };
        let desk = Desk::new(dir.path().to_owned(), unknown_pool, rule);
        notice(&dir, "pool_default", 0, "0-1,4-7");
        notice(&dir, "web", 1, "2-3");
        (desk, dir)
    }

    fn notice(dir: &tempfile::TempDir, pool: &str, number: u32, cpus: &str) {
        let size = cpus.parse::<CpuSet>().unwrap().len();
        let text = format!("pool {number}\nprocessors {cpus}\nsize {size}\nserial 1\n");
        fs::write(dir.path().join("pools").join(pool), text).unwrap();
    }

    fn pod(pool: Option<&str>) -> Pod {
        let annotations = pool.map(|pool| ("millpond.dev/pool".to_owned(), pool.to_owned()));
        Pod {
            id: "p".into(),
            namespace: "shop".into(),
            name: "web-7c".into(),
            annotations: annotations.into_iter().collect(),
            ..Pod::default()
        }
    }

    fn container(id: &str, shares: u64) -> Container {
        Container {
            id: id.into(),
            pod: "p".into(),
            name: "main".into(),
            shares: Some(shares),
            ..Container::default()
        }
    }

    fn runtime(name: &str, version: &str) -> Runtime {
        Runtime { name: name.into(), version: version.into(), patience: Duration::from_secs(2) }
    }

    #[test]
    fn a_container_is_made_with_the_cpus_of_its_pool() {
        let (desk, dir) = desk(UnknownPool::Refuse);
        let made = desk.create(pod(Some("web")), container("a", 512)).unwrap();
        assert_eq!(made.cpus.as_deref(), Some("2-3"));
        assert_eq!(made.environment, [("MILLPOND_POOL".to_owned(), "web".to_owned())]);
        let here = dir.path().join("pools").display().to_string();
        assert_eq!(made.views, [(here, "/run/millpond/pools".to_owned())]);
        let kept = Kept {
            name: "shop/web-7c/main".into(),
            pool: Some("web".into()),
            fence: None,
            requests: 500,
            runs: false,
        };
        assert_eq!(desk.wait(Duration::ZERO).unwrap().containers["a"], kept);
        desk.started(container("a", 512));
        assert!(desk.wait(Duration::ZERO).unwrap().containers["a"].runs);
        desk.ended("a");
        assert!(desk.wait(Duration::ZERO).unwrap().containers.is_empty());
        assert!(desk.wait(Duration::ZERO).is_none());
    }

    #[test]
    fn who_asks_for_no_pool_or_the_default_one_is_left_alone() {
        let (desk, _dir) = desk(UnknownPool::Refuse);
        for pool in [None, Some("pool_default")] {
            assert_eq!(desk.create(pod(pool), container("a", 2)).unwrap(), Adjustment::default());
            assert_eq!(desk.update(pod(pool), container("a", 2)), None);
        }
    }

    #[test]
    fn a_container_keeps_its_pool_whatever_the_runtime_is_asked() {
        let (desk, dir) = desk(UnknownPool::Refuse);
        desk.create(pod(Some("web")), container("a", 512)).unwrap();
        assert_eq!(desk.update(pod(Some("web")), container("a", 1024)).as_deref(), Some("2-3"));
        assert_eq!(desk.known().containers["a"].requests, 1000);
        notice(&dir, "web", 1, "2-5");
        assert_eq!(desk.update(pod(Some("web")), container("a", 1024)).as_deref(), Some("2-5"));
    }

    #[test]
    fn what_runs_already_is_taken_over() {
        let (desk, _dir) = desk(UnknownPool::Refuse);
        desk.create(pod(None), container("gone", 2)).unwrap();
        let right = Container { cpus: "2-3".into(), ..container("right", 2) };
        let ended = Container { has_ended: true, ..container("ended", 2) };
        let all = vec![container("wrong", 2), right, ended];
        let updates = desk.synchronize(vec![pod(Some("web"))], all);
        assert_eq!(updates, [Update { container: "wrong".into(), cpus: "2-3".into() }]);
        let known = desk.wait(Duration::ZERO).unwrap();
        assert!(known.is_whole && known.containers.values().all(|kept| kept.runs));
        assert_eq!(known.containers.keys().collect::<Vec<_>>(), ["right", "wrong"]);
        desk.lose();
        assert!(!desk.known().is_whole);
    }

    #[test]
    fn a_pool_that_does_not_exist_is_refused_or_passed_over() {
        let (strict, _dir) = desk(UnknownPool::Refuse);
        let why = strict.create(pod(Some("shop\n")), container("a", 2)).unwrap_err();
        assert_eq!(why, "there is no pool shop, which annotation millpond.dev/pool names");
        assert_eq!(strict.said(), [format!("shop/web-7c/main was refused: {why}")]);
        assert!(strict.known().containers.is_empty());
        let (lenient, _dir) = desk(UnknownPool::Default);
        assert_eq!(lenient.create(pod(Some("shop")), container("a", 2)).unwrap(), Adjustment::default());
        assert_eq!(lenient.said(), ["shop/web-7c/main runs in the default pool: there is no pool shop"]);
    }

    #[test]
    fn a_fence_of_a_pod_is_the_pool_of_its_containers() {
        let (desk, dir) = desk(UnknownPool::Refuse);
        let asks = [("millpond.dev/fence", "gentle"), ("millpond.dev/fence-cpus", "6")];
        let asks = asks.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let fast = Pod { uid: "7".into(), annotations: asks.into_iter().collect(), ..pod(None) };
        let made = desk.create(fast.clone(), container("a", 2)).unwrap();
        assert_eq!((made.cpus, made.environment[0].1.as_str()), (None, "pod-7"));
        assert_eq!(desk.known().containers["a"].pool.as_deref(), Some("pod-7"));
        notice(&dir, "pod-7", 3, "6");
        assert_eq!(desk.create(fast.clone(), container("b", 2)).unwrap().cpus.as_deref(), Some("6"));
        assert_eq!(desk.update(fast.clone(), container("a", 2)).as_deref(), Some("6"));
        let mut wrong = fast;
        wrong.annotations.remove("millpond.dev/fence-cpus");
        assert!(desk.create(wrong.clone(), container("c", 2)).is_err());
        wrong.annotations.insert("millpond.dev/fence-cpus".into(), "0-6".into());
        desk.said();
        let why = desk.create(wrong, container("c", 2)).unwrap_err();
        assert_eq!(why, "pods may not fence CPUs 0-5: --fence-cpus names those that they may");
        assert_eq!(desk.said(), [format!("shop/web-7c/main was refused: {why}")]);
    }

    #[test]
    fn what_another_one_has_decided_is_refused() {
        let (desk, _dir) = desk(UnknownPool::Refuse);
        let set = Container { cpus: "0".into(), ..container("a", 2) };
        let why = desk.create(pod(Some("web")), set).unwrap_err();
        assert!(why.starts_with("something else gave the container CPUs 0: "), "{why}");
    }

    #[test]
    fn a_pool_without_cpus_is_waited_for() {
        let (desk, dir) = desk(UnknownPool::Refuse);
        notice(&dir, "web", 1, "");
        let made = desk.create(pod(Some("web")), container("a", 2)).unwrap();
        assert_eq!((made.cpus, made.environment.len(), made.views.len()), (None, 1, 1));
        assert_eq!(desk.said(), ["shop/web-7c/main waits for a CPU of pool web"]);
        assert_eq!(desk.update(pod(Some("web")), container("a", 2)), None);
    }

    #[test]
    fn a_runtime_that_is_too_old_is_refused() {
        let (desk, _dir) = desk(UnknownPool::Refuse);
        for (name, version, taken) in [
            ("containerd", "v1.7.24", true),
            ("containerd", "2.1.9~ds1", true),
            ("containerd", "v1.6.20", false),
            ("cri-o", "1.26.0", true),
            ("containerd", "unknown", true),
        ] {
            assert_eq!(desk.meet(runtime(name, version)).is_ok(), taken, "{name} {version}");
        }
        assert_eq!(version("v2.1.9"), Some((2, 1)));
    }
}
