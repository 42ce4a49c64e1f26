//! Annotations of pods: the pool and the fence that a pod names. Also the CPU requests and names of containers.

use millpond_formats::node_files::{NodeFence, cpus_of};
use millpond_model::{CpuSet, FenceName, printable};
use millpond_nri::{Container, Pod};

/// The annotation of a pod with its pool. With a dot and the name of a container appended, it applies to that
/// container alone.
pub(crate) const POOL: &str = "millpond.dev/pool";

/// The pool that a container names.
pub(crate) fn pool_of<'p>(pod: &'p Pod, container: &Container) -> Option<&'p str> {
    let own = pod.annotations.get(&format!("{POOL}.{}", container.name));
    own.or_else(|| pod.annotations.get(POOL)).map(|name| name.trim()).filter(|name| !name.is_empty())
}

/// The annotation that gives a pod its own fence. Its value is a profile.
pub(crate) const FENCE: &str = "millpond.dev/fence";

/// The annotation with the CPUs of that fence, as a list.
pub(crate) const FENCE_CPUS: &str = "millpond.dev/fence-cpus";

/// The prefix of the names of pod fences.
const FENCE_PREFIX: &str = "pod-";

/// The number of characters of a pod's UID that its fence name contains.
const FENCE_NUMBER_MAX: usize = 28;

/// The fences that pods may request: from the command line. Pods may request none unless all three lists are given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodFenceRule {
    /// The namespaces whose pods may request a fence.
    pub namespaces: Vec<String>,
    /// The profiles that they may name.
    pub profiles: Vec<String>,
    /// The CPUs of the node that they may fence, including those that a profile adds.
    pub cpus: CpuSet,
}

impl PodFenceRule {
    /// Refuses CPUs that pods may not fence.
    ///
    /// # Errors
    /// The refused CPUs, with the option that allows them.
    pub(crate) fn allows_cpus(&self, cpus: &CpuSet) -> Result<(), String> {
        let refused: CpuSet = cpus.iter().filter(|cpu| !self.cpus.contains(*cpu)).collect();
        match refused.is_empty() {
            true => Ok(()),
            false => {
                Err(format!("pods may not fence {}: --fence-cpus names those that they may", refused.named()))
            }
        }
    }

    /// The fence that a pod requests. `None` if it requests none.
    ///
    /// # Errors
    /// Why the pod cannot have this fence.
    pub(crate) fn fence_of(&self, pod: &Pod) -> Result<Option<NodeFence>, String> {
        let Some(profile) = pod.annotations.get(FENCE).map(|word| word.trim()) else { return Ok(None) };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if profile.is_empty() || !profile.chars().all(is_name) {
            return Err(format!("annotation {FENCE} takes the name of a profile, such as low-latency"));
        }
        let list = pod.annotations.get(FENCE_CPUS).map_or("", String::as_str);
        let cpus = cpus_of(list)
            .map_err(|_| format!("annotation {FENCE_CPUS} takes a list of CPUs, such as 2-3,6"))?;
        if !self.namespaces.contains(&pod.namespace) {
            return Err(format!(
                "pods of namespace {} may not have fences: --fence-namespaces names those that may",
                printable(&pod.namespace)
            ));
        }
        if !self.profiles.iter().any(|allowed| allowed == profile) {
            return Err(format!(
                "pods may not have fences of profile {profile}: --fence-profiles names those that they may"
            ));
        }
        self.allows_cpus(&cpus)?;
        let number = pod.uid.chars().filter(|c| is_name(*c)).take(FENCE_NUMBER_MAX);
        let name = FENCE_PREFIX.chars().chain(number).collect::<String>();
        let name = name.parse().map_err(|why| format!("the pod has no number to call a fence by: {why}"))?;
        Ok(Some(NodeFence { name, profile: profile.to_owned(), cpus }))
    }

    /// The pool of a container, and the fence of its pod. The pool is the one that the container names, else that of
    /// the fence.
    ///
    /// # Errors
    /// As for [`PodFenceRule::fence_of`]. Also if the pool is the fence of another pod.
    pub(crate) fn place_of(
        &self,
        pod: &Pod,
        container: &Container,
    ) -> Result<(Option<String>, Option<NodeFence>), String> {
        let fence = self.fence_of(pod)?;
        let own = fence.as_ref().map(|fence| fence.name.as_str());
        let named = pool_of(pod, container);
        if let Some(pool) = named.filter(|pool| pool.starts_with(FENCE_PREFIX) && Some(*pool) != own) {
            return Err(format!("pool {} is that of the fence of another pod", printable(pool)));
        }
        Ok((named.or(own).map(str::to_owned), fence))
    }
}

/// Whether a fence belongs to a pod.
pub(crate) fn is_of_pod(fence: &FenceName) -> bool {
    fence.as_str().starts_with(FENCE_PREFIX)
}

/// The name of a container for users.
pub(crate) fn name_of(pod: &Pod, container: &Container) -> String {
    format!("{}/{}/{}", pod.namespace, pod.name, container.name)
}

/// The smallest shares that the kubelet writes. They mean that there is no request.
const LEAST_SHARES: u64 = 2;

/// The CPU request of a container, in thousandths of a CPU. The kubelet writes it as shares, 1,024 per CPU, rounded
/// down.
pub(crate) fn requests(shares: Option<u64>) -> u64 {
    let shares = shares.filter(|shares| *shares > LEAST_SHARES).unwrap_or(0);
    shares.saturating_mul(1000).saturating_add(512) / 1024
}

/// The number of digits of a container's id in its zone name.
const ZONE_DIGITS: usize = 12;

/// The zone name of a container that has no other name.
pub(crate) fn zone_of(id: &str) -> &str {
    id.get(..ZONE_DIGITS).unwrap_or(id)
}

/// The id of the container of a cgroup. `None` if it is not the cgroup of a container of a pod.
pub(crate) fn id_of(group: &str) -> Option<&str> {
    let (above, name) = group.rsplit_once('/')?;
    let bare = name.strip_suffix(".scope").unwrap_or(name);
    let id = bare.rsplit('-').next().unwrap_or(bare);
    let is_id = id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit());
    (is_id && above.split('/').any(|part| part.starts_with("kubepods"))).then_some(id)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn pod(annotations: &[(&str, &str)]) -> Pod {
        let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Pod {
            namespace: "shop".into(),
            name: "web-7c".into(),
            annotations: annotations.collect(),
            ..Pod::default()
        }
    }

    fn container(name: &str) -> Container {
        Container { name: name.into(), ..Container::default() }
    }

    #[test]
    fn a_container_can_have_another_pool_than_its_pod() {
        let both = pod(&[("millpond.dev/pool", "web"), ("millpond.dev/pool.log", " batch ")]);
        assert_eq!(pool_of(&both, &container("nginx")), Some("web"));
        assert_eq!(pool_of(&both, &container("log")), Some("batch"));
        assert_eq!(name_of(&both, &container("log")), "shop/web-7c/log");
        assert_eq!(pool_of(&pod(&[("millpond.dev/pool", " ")]), &container("nginx")), None);
        assert_eq!(pool_of(&pod(&[]), &container("nginx")), None);
    }

    fn rule() -> PodFenceRule {
        let words = |list: &str| list.split(',').map(str::to_owned).collect();
        PodFenceRule {
            namespaces: words("shop,bank"),
            profiles: words("low-latency"),
            cpus: "2-3,6".parse().unwrap(),
        }
    }

    #[test]
    fn a_pod_can_ask_for_a_fence() {
        let asked = |annotations| rule().fence_of(&Pod { uid: "3d2f-11:22/x".into(), ..pod(annotations) });
        let fence = asked(&[("millpond.dev/fence", "low-latency"), ("millpond.dev/fence-cpus", "2-")]);
        let name = "pod-3d2f-1122x".parse().unwrap();
        let cpus = "2-3,6".parse().unwrap();
        let wanted = NodeFence { name, profile: "low-latency".into(), cpus };
        assert!(is_of_pod(&wanted.name));
        assert_eq!(
            fence.unwrap_err(),
            "annotation millpond.dev/fence-cpus takes a list of CPUs, such as 2-3,6"
        );
        let fence = asked(&[("millpond.dev/fence", "low-latency"), ("millpond.dev/fence-cpus", "2-3,6")]);
        assert_eq!(fence.unwrap(), Some(wanted));
        assert_eq!(asked(&[]).unwrap(), None);
        let why =
            asked(&[("millpond.dev/fence", "../shadow"), ("millpond.dev/fence-cpus", "2")]).unwrap_err();
        assert_eq!(why, "annotation millpond.dev/fence takes the name of a profile, such as low-latency");
    }

    #[test]
    fn pods_may_fence_only_what_the_operator_allows_and_nothing_by_default() {
        let why = |rule: &PodFenceRule, namespace: &str, profile: &str, cpus: &str| {
            let asks = pod(&[("millpond.dev/fence", profile), ("millpond.dev/fence-cpus", cpus)]);
            rule.fence_of(&Pod { namespace: namespace.into(), uid: "7".into(), ..asks }).unwrap_err()
        };
        assert_eq!(
            why(&PodFenceRule::default(), "shop", "low-latency", "2"),
            "pods of namespace shop may not have fences: --fence-namespaces names those that may"
        );
        assert_eq!(
            why(&rule(), "default", "low-latency", "2"),
            "pods of namespace default may not have fences: --fence-namespaces names those that may"
        );
        assert_eq!(
            why(&rule(), "shop", "gentle", "2"),
            "pods may not have fences of profile gentle: --fence-profiles names those that they may"
        );
        assert_eq!(
            why(&rule(), "shop", "low-latency", "2-5"),
            "pods may not fence CPUs 4-5: --fence-cpus names those that they may"
        );
    }

    #[test]
    fn no_pod_enters_the_fence_of_another_one() {
        let place = |pool: &str| {
            let asks = [
                ("millpond.dev/fence", "low-latency"),
                ("millpond.dev/fence-cpus", "2"),
                ("millpond.dev/pool", pool),
            ];
            rule().place_of(&Pod { uid: "7".into(), ..pod(&asks) }, &container("main"))
        };
        assert_eq!(place("pod-8").unwrap_err(), "pool pod-8 is that of the fence of another pod");
        assert_eq!(place("pod-7").unwrap().0.as_deref(), Some("pod-7"));
        assert_eq!(place("").unwrap().0.as_deref(), Some("pod-7"));
        assert_eq!(place("node-packets").unwrap().0.as_deref(), Some("node-packets"));
    }

    #[test]
    fn shares_are_what_was_requested() {
        // The rule of the kubelet: milliCPU * 1024 / 1000, at least 2.
        for milli in [0_u64, 10, 100, 250, 999, 1000, 1500, 64_000] {
            let shares = (milli * 1024 / 1000).max(2);
            assert!(requests(Some(shares)).abs_diff(milli) <= 1, "{milli}: {}", requests(Some(shares)));
        }
        assert_eq!((requests(None), requests(Some(2)), requests(Some(2048))), (0, 0, 2000));
        assert_eq!(requests(Some(u64::MAX)), u64::MAX / 1024);
    }

    #[test]
    fn containers_of_pods_are_told_by_their_groups() {
        let id = "0123456789abcdef".repeat(4);
        assert_eq!(id_of(&format!("/kubepods/burstable/pod7/{id}")), Some(id.as_str()));
        let scope = format!("/kubepods.slice/kubepods-pod7.slice/cri-containerd-{id}.scope");
        assert_eq!(id_of(&scope), Some(id.as_str()));
        assert_eq!(zone_of(&id), "0123456789ab");
        assert_eq!(id_of(&format!("/docker/{id}")), None);
        assert_eq!(id_of("/kubepods/burstable/pod7"), None);
    }
}
