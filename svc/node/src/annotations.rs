//! What pods say: which pool a container asks for, what it requests, and what it is called.

use millpond_nri::{Container, Pod};

/// The annotation of a pod. With a dot and the name of a container behind it, of that container alone.
pub(crate) const POOL: &str = "millpond.dev/pool";

/// The pool that a container asks for.
pub(crate) fn pool_of<'p>(pod: &'p Pod, container: &Container) -> Option<&'p str> {
    let own = pod.annotations.get(&format!("{POOL}.{}", container.name));
    own.or_else(|| pod.annotations.get(POOL)).map(|name| name.trim()).filter(|name| !name.is_empty())
}

/// What users call a container.
pub(crate) fn name_of(pod: &Pod, container: &Container) -> String {
    format!("{}/{}/{}", pod.namespace, pod.name, container.name)
}

/// The least shares that the kubelet writes; it stands for no request.
const LEAST_SHARES: u64 = 2;

/// What a container requests, in thousandths of a CPU: the kubelet writes it as shares, of which 1,024 are a CPU, rounded down.
pub(crate) fn requests(shares: Option<u64>) -> u64 {
    let shares = shares.filter(|shares| *shares > LEAST_SHARES).unwrap_or(0);
    shares.saturating_mul(1000).saturating_add(512) / 1024
}

/// So many digits of a container's number are its name as a zone.
const ZONE_DIGITS: usize = 12;

/// The name of a container as a zone of the machine, where nobody gave it another one.
pub(crate) fn zone_of(id: &str) -> &str {
    id.get(..ZONE_DIGITS).unwrap_or(id)
}

/// The number of the container whose group of processes that is; `None` where it is no container of a pod.
pub(crate) fn id_of(group: &str) -> Option<&str> {
    let (above, name) = group.rsplit_once('/')?;
    let bare = name.strip_suffix(".scope").unwrap_or(name);
    let id = bare.rsplit('-').next().unwrap_or(bare);
    let is_id = id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit());
    (is_id && above.split('/').any(|part| part.starts_with("kubepods"))).then_some(id)
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn shares_are_what_was_requested() {
        // The kubelet: milliCPU * 1024 / 1000, at least 2.
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
