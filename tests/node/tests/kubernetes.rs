//! The agent and the controller in a cluster of one node: this host, with an API server, a scheduler and a kubelet from
//! `kubernetes/build.sh`. Only if `MILLPOND_KUBERNETES` names them, as `cargo xtask test --all --only kubernetes` does.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test")]

use millpond_node_tests::{
    Cluster, Daemon, Node, PARTS, cpus_here, eventually, free_port, kubelet, own_address, with, with_node,
};
use millpond_vm::{Cache, ContainerTools, Containerd, cargo_binary, obtain_containerd};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Time limit for a pod to run, also on a busy host.
const PATIENCE: Duration = Duration::from_secs(180);

/// The parts, if they are available.
fn parts() -> Option<PathBuf> {
    let parts = std::env::var_os(PARTS).map(PathBuf::from);
    if parts.is_none() {
        eprintln!(
            "SKIPPED: no parts of Kubernetes were built; hint: cargo xtask test --all --only kubernetes"
        );
    }
    parts
}

/// A cluster with the objects of `deploy/kubernetes/controller`. The test itself runs the controller.
fn installed(parts: &Path, dir: &Path) -> Cluster {
    let cluster = Cluster::begin(parts, dir).unwrap();
    let base = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/kubernetes/controller");
    let manifests = Command::new("kubectl").args(["kustomize", base]).output().unwrap();
    let said = cluster.apply(&String::from_utf8_lossy(&manifests.stdout));
    // Wait, because the definition exists before its resource is served.
    said.unwrap();
    eventually(|| cluster.kubectl(["get", "nodepools"])).unwrap();
    cluster
}

/// Starts the controller, with only the rights of its account.
fn controller(cluster: &Cluster, name: &str, more: &[&str]) -> Daemon {
    let access = cluster.access_of("millpond-controller").unwrap();
    let mut command = Command::new(cargo_binary("millpond-controller").unwrap());
    command.args(more).env("KUBECONFIG", access).env("POD_NAME", name);
    Daemon::start(&mut command).unwrap()
}

fn node_pools(name: &str, labels: &str, pools: &str) -> String {
    format!(
        "apiVersion: millpond.dev/v1alpha1\nkind: NodePools\nmetadata: {{name: {name}}}\n\
         spec:\n  nodeSelector: {labels}\n  pools: {pools}\n"
    )
}

fn machine(name: &str, shape: &str) -> String {
    format!("---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{shape: {shape}}}}}\n")
}

/// A field of an object, from kubectl.
fn field(cluster: &Cluster, object: &str, path: &str) -> Result<String, String> {
    cluster.kubectl(["get", object, "-o", &format!("jsonpath={path}")])
}

fn becomes(cluster: &Cluster, object: &str, path: &str, wanted: &str) {
    let is = || match field(cluster, object, path)? {
        is if is == wanted => Ok(()),
        other => Err(format!("{object} {path} is `{other}`, not `{wanted}`")),
    };
    eventually(is).unwrap_or_else(|why| panic!("{why}\n{:?}", field(cluster, object, "{.status}")));
}

#[test]
fn what_is_invalid_is_refused_with_its_place() {
    let Some(parts) = parts() else { return };
    let dir = tempfile::tempdir().unwrap();
    let cluster = installed(&parts, dir.path());
    for (pools, why) in [
        ("[{name: web, min: 3, max: 2}]", "spec.pools[0]: Invalid value: min is greater than max"),
        ("[{name: 9a}]", "spec.pools[0].name in body should match"),
        ("[{name: pod-x}]", "names that begin with pod- and node- are those of fences"),
        ("[{name: pool_default}]", "defaultPool is for the default pool"),
        ("[{name: a}, {name: a}]", "duplicate entries for key [name=\"a\"]"),
        ("[{name: a, size: 3}]", "size"),
    ] {
        let said = cluster.apply(&node_pools("bad", "{}", pools)).unwrap_err();
        assert!(said.contains(why), "{pools}: {said}");
    }
}

#[test]
fn nodes_have_what_the_resources_say_and_one_controller_writes() {
    let Some(parts) = parts() else { return };
    let dir = tempfile::tempdir().unwrap();
    let cluster = installed(&parts, dir.path());
    let mut first = controller(&cluster, "one", &[]);
    first.says("this instance writes from now on").unwrap();
    let second = controller(&cluster, "two", &[]);
    cluster.apply(&(machine("n1", "big") + &machine("n2", "small"))).unwrap();
    cluster.apply(&node_pools("all", "{}", "[{name: web}]")).unwrap();
    let cluster_in_space = |words: &[&str]| cluster.kubectl([&["-n", "millpond"], words].concat());
    let nodes_are = |wanted: &str| {
        let path = ["get", "configmap", "millpond-nodes", "-o", "jsonpath={.data.nodes}"];
        eventually(|| match cluster_in_space(&path)? {
            is if is == wanted => Ok(()),
            other => Err(other),
        })
        .unwrap();
    };
    nodes_are("n1 all\nn2 all\n");
    becomes(&cluster, "nodepools/all", "{.status.nodes}", "2");
    // A newer resource does not take a node from an older one, and reports this.
    cluster.apply(&node_pools("big", "{shape: big}", "[{name: batch}]")).unwrap();
    let reason = "{.status.nodeStatus[0].conditions[0].reason}";
    becomes(&cluster, "nodepools/big", reason, "Overlap");
    nodes_are("n1 all\nn2 all\n");
    cluster.apply(&node_pools("all", "{shape: small}", "[{name: web}]")).unwrap();
    nodes_are("n1 big\nn2 all\n");
    cluster.kubectl(["label", "node", "n2", "shape=other", "--overwrite"]).unwrap();
    nodes_are("n1 big\n");
    // Errors that only our own parser detects are reported in the status.
    let wrong = "[{name: batch, objectives: speed > 3}]";
    cluster.apply(&node_pools("big", "{shape: big}", wrong)).unwrap();
    let accepted = "{.status.conditions[?(@.type==\"Accepted\")].status}";
    becomes(&cluster, "nodepools/big", accepted, "False");
    let events = || match cluster.kubectl(["get", "events", "-n", "default"])? {
        text if text.contains("unrecognized objective name for pset: speed > 3") => Ok(()),
        text => Err(text),
    };
    eventually(events).unwrap();
    // Another client edits what the controller writes.
    let edit = ["patch", "configmap", "millpond-nodes", "--type=merge", "-p", "{\"data\":{\"nodes\":\"\"}}"];
    cluster_in_space(&edit).unwrap();
    nodes_are("n1 big\n");
    // The second instance takes over, and never wrote at the same time as the first.
    assert!(!second.lines().iter().any(|line| line.contains("writes from now on")));
    first.kill();
    let mut second = second;
    second.says("this instance writes from now on").unwrap();
    cluster.apply(&machine("n3", "big")).unwrap();
    nodes_are("n1 big\nn3 big\n");
    cluster.kubectl(["delete", "nodepools", "--all"]).unwrap();
    nodes_are("");
}

/// A pod that sleeps on this node, with an annotation and a request.
fn pod(name: &str, pool: Option<&str>, request: &str) -> String {
    let annotations =
        pool.map(|pool| format!(", annotations: {{millpond.dev/pool: {pool}}}")).unwrap_or_default();
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: default{annotations}}}\nspec:\n  \
         hostNetwork: true\n  automountServiceAccountToken: false\n  enableServiceLinks: false\n  \
         terminationGracePeriodSeconds: 1\n  tolerations: [{{operator: Exists}}]\n  containers:\n  - name: main\n    \
         image: {IMAGE}\n    imagePullPolicy: Never\n    command: [sleep, \"3600\"]\n    \
         resources: {{requests: {{cpu: {request}}}}}\n    \
         resizePolicy: [{{resourceName: cpu, restartPolicy: NotRequired}}]\n",
        IMAGE = millpond_node_tests::IMAGE,
    )
}

/// The mount of the agent's `ConfigMap`, and the pod by which the controller finds gauge. The kubelet creates everything except
/// the agent itself.
fn pod_of_the_agent() -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: agent, namespace: millpond, labels: {{app.kubernetes.io/name: millpond}}}}\n\
         spec:\n  nodeName: here\n  hostNetwork: true\n  automountServiceAccountToken: false\n  \
         enableServiceLinks: false\n  terminationGracePeriodSeconds: 1\n  tolerations: [{{operator: Exists}}]\n  \
         containers: [{{name: main, image: {IMAGE}, imagePullPolicy: Never, command: [sleep, \"36000\"], \
         volumeMounts: [{{name: pools, mountPath: /pools}}]}}]\n  \
         volumes: [{{name: pools, configMap: {{name: millpond-nodes}}}}]\n",
        IMAGE = millpond_node_tests::IMAGE,
    )
}

/// A real node: this host.
struct Whole<'n> {
    node: &'n mut Node,
    cluster: Cluster,
    parts: PathBuf,
    kubelet: Option<Daemon>,
    agent: Option<Daemon>,
    _gauge: Daemon,
    _scheduler: Daemon,
    _controller: Daemon,
    mounted: PathBuf,
}

impl Whole<'_> {
    fn begin(node: &mut Node, parts: PathBuf) -> Whole<'_> {
        let dir = node.dir.path().to_owned();
        let cluster = installed(&parts, &dir.join("cluster"));
        let scheduler = cluster.part("kube-scheduler", &["--leader-elect=false", "--secure-port=0"]).unwrap();
        let kubelet =
            kubelet(&parts, &dir.join("kubelet"), &node.runtime, Some(&cluster.access()), None).unwrap();
        eventually(|| cluster.kubectl(["get", "node", "here"])).unwrap();
        cluster.kubectl(["label", "node", "here", "shape=real"]).unwrap();
        let port = free_port().unwrap().to_string();
        let at = format!("{}:{port}", own_address().unwrap());
        let token = dir.join("token");
        fs::write(&token, "0123456789abcdef0123456789abcdef\n").unwrap();
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
        let token = token.display().to_string();
        let listens = ["gauge", "--threads", "1s", "--listen", &at, "--token-file", &token];
        let gauge = Daemon::start(&mut node.command(&listens)).unwrap();
        let controller = controller(&cluster, "one", &["--port", &port, "--token-file", &token]);
        cluster.apply(&pod_of_the_agent()).unwrap();
        let uid = eventually(|| {
            let path =
                ["-n", "millpond", "get", "pod", "agent", "-o", "jsonpath={.status.phase} {.metadata.uid}"];
            let told = cluster.kubectl(path)?;
            told.strip_prefix("Running ").map(str::to_owned).ok_or(told)
        })
        .unwrap_or_else(|why| panic!("{why}\n{}", kubelet.lines().join("\n")));
        let mounted = dir.join("kubelet/root/pods").join(uid).join("volumes/kubernetes.io~configmap/pools");
        let mut whole = Whole {
            node,
            cluster,
            parts,
            kubelet: Some(kubelet),
            agent: None,
            _gauge: gauge,
            _scheduler: scheduler,
            _controller: controller,
            mounted,
        };
        whole.start_agent();
        whole
    }

    fn start_agent(&mut self) {
        let conf = self.mounted.display().to_string();
        let mut agent = self.node.agent_with(&["--conf", &conf, "--node", "here"], None);
        agent.says("tells of its containers").unwrap();
        self.agent = Some(agent);
    }

    fn start_kubelet(&mut self) {
        let dir = self.node.dir.path().join("kubelet");
        let started = kubelet(&self.parts, &dir, &self.node.runtime, Some(&self.cluster.access()), None);
        self.kubelet = Some(started.unwrap());
    }

    /// The CPUs of the main container of a pod, from the kernel.
    fn cpus(&self, pod: &str) -> Result<String, String> {
        let id = field(&self.cluster, &format!("pod/{pod}"), "{.status.containerStatuses[0].containerID}")?;
        let id = id.rsplit('/').next().filter(|id| !id.is_empty()).ok_or("it does not run")?;
        Ok(self
            .node
            .runtime
            .cri()?
            .exec(id, &["grep", "Cpus_allowed_list", "/proc/self/status"])
            .map_err(|status| status.message().to_owned())?
            .split_ascii_whitespace()
            .last()
            .unwrap_or_default()
            .to_owned())
    }

    fn count(&self, pod: &str) -> Result<usize, String> {
        self.cpus(pod)?.parse::<millpond_model::CpuSet>().map(|cpus| cpus.len()).map_err(|e| e.to_string())
    }

    /// Waits until a pod has this number of CPUs. Restarts a kubelet that has ended, as a service manager does: it exits if the
    /// runtime is not available when it starts.
    fn has(&mut self, pod: &str, cpus: usize) {
        let begun = Instant::now();
        loop {
            if self.kubelet.as_mut().is_none_or(Daemon::has_ended) {
                self.start_kubelet();
            }
            let why = match self.count(pod) {
                Ok(is) if is == cpus => return,
                Ok(other) => format!("{pod} has {other} CPUs, not {cpus}"),
                Err(why) => why,
            };
            if begun.elapsed() > PATIENCE {
                let status = self.cluster.kubectl(["describe", "pod", pod]);
                let agent = self.agent.iter().flat_map(Daemon::lines).collect::<Vec<_>>().join("\n");
                panic!("{why}\n{agent}\n{status:?}");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn restarts(&self, pod: &str) -> String {
        field(&self.cluster, &format!("pod/{pod}"), "{.status.containerStatuses[0].restartCount}").unwrap()
    }
}

#[test]
fn a_change_of_a_resource_reaches_the_cgroup() {
    let Some(parts) = parts() else { return };
    with(Containerd::Newest, |node| {
        let mut whole = Whole::begin(node, parts);
        let pools = |max: usize| {
            node_pools("real", "{shape: real}", &format!("[{{name: web, min: {max}, max: {max}}}]"))
        };
        whole.cluster.apply(&pools(1)).unwrap();
        whole.cluster.apply(&pod("shop", Some("web"), "100m")).unwrap();
        whole.cluster.apply(&pod("other", None, "100m")).unwrap();
        whole.has("shop", 1);
        becomes(&whole.cluster, "nodepools/real", "{.status.ready}/{.status.sizes}", "1/web 1");
        // In place: the set stays, and nothing restarts.
        let resize = "{\"spec\":{\"containers\":[{\"name\":\"main\",\"resources\":{\"requests\":{\"cpu\":\"300m\"}}}]}}";
        whole
            .cluster
            .kubectl(["patch", "pod", "shop", "--subresource", "resize", "--type=strategic", "-p", resize])
            .unwrap();
        let shares = "{.status.containerStatuses[0].resources.requests.cpu}";
        becomes(&whole.cluster, "pod/shop", shares, "300m");
        whole.has("shop", 1);
        assert_eq!(whole.restarts("shop"), "0");
        // An impossible configuration is reported in the status of its resource.
        whole.cluster.apply(&pools(cpus_here() + 1)).unwrap();
        let reason = "{.status.nodeStatus[0].conditions[0].reason}";
        becomes(&whole.cluster, "nodepools/real", reason, "Refused");
        whole.has("shop", 1);
        whole.cluster.apply(&pools(1)).unwrap();
        becomes(&whole.cluster, "nodepools/real", "{.status.ready}", "1");
        // Without a resource the node has only the default pool. Where pools do not exclude other tasks, the container keeps its
        // CPU list.
        let zones = whole.node.zones();
        assert!(zones.lines().any(|l| l.contains("default/shop/main") && l.contains(" web")), "{zones}");
        whole.cluster.kubectl(["delete", "nodepools", "real"]).unwrap();
        let is_in =
            |zones: String| zones.lines().any(|l| l.contains("default/shop/main") && l.contains(" web"));
        eventually(|| if is_in(whole.node.zones()) { Err(whole.node.zones()) } else { Ok(()) }).unwrap();
    });
}

/// Number of kills of each of the three.
const DEATHS: usize = 100;

#[test]
fn a_hundred_deaths_lose_nothing() {
    let Some(parts) = parts() else { return };
    with(Containerd::Newest, |node| {
        let mut whole = Whole::begin(node, parts);
        whole.cluster.apply(&node_pools("real", "{shape: real}", "[{name: web, max: 1}]")).unwrap();
        whole.cluster.apply(&pod("shop", Some("web"), "100m")).unwrap();
        whole.has("shop", 1);
        for death in 0..DEATHS {
            match death % 3 {
                0 => {
                    whole.agent.take().map(|mut agent| agent.kill()).unwrap();
                    whole.start_agent();
                }
                1 => {
                    whole.node.runtime.restart().unwrap();
                    // The agent reconnects, or it ended before a connection: both are reported.
                    let agent = whole.agent.as_mut().unwrap();
                    agent.says("it is connected to again").unwrap();
                }
                _ => {
                    whole.kubelet.take().map(|mut kubelet| kubelet.kill()).unwrap();
                    whole.start_kubelet();
                }
            }
            if death % 10 == 9 {
                whole.has("shop", 1);
                let name = format!("after-{death}");
                whole.cluster.apply(&pod(&name, Some("web"), "10m")).unwrap();
                whole.has(&name, 1);
                whole.cluster.kubectl(["delete", "pod", &name, "--grace-period=0", "--force"]).unwrap();
            }
        }
        whole.has("shop", 1);
        assert_eq!(whole.restarts("shop"), "0");
        let zones = whole.node.zones();
        assert_eq!(zones.matches("default/shop/main").count(), 1, "{zones}");
    });
}

/// Number of concurrent updates.
const AT_ONCE: u32 = 100;

/// An agent that requests updates would block older runtimes forever. Ours only answers.
fn updates_at_once_do_not_hang(node: &mut Node) {
    let mut agent = node.agent();
    let cri = node.runtime.cri().unwrap();
    let pods: Vec<_> =
        (0..10).map(|n| cri.run_pod(&format!("p{n}"), &[("millpond.dev/pool", "web")]).unwrap()).collect();
    let start =
        |pod| cri.start(pod, "main", (millpond_node_tests::IMAGE, &["sleep", "1000000"]), 100).unwrap();
    let mains: Vec<String> = pods.iter().map(start).collect();
    agent.says("default/p9/main is in pool web").unwrap();
    std::thread::scope(|scope| {
        for n in 0..AT_ONCE {
            let (node, main) = (&*node, &mains[n as usize % mains.len()]);
            // A missing answer is an error after one minute.
            scope.spawn(move || node.runtime.cri().unwrap().resize(main, 100 + n).unwrap());
        }
        for _ in 0..3 {
            node.swap(1, 0);
            node.swap(0, 1);
        }
    });
    for main in &mains {
        let status = cri.exec(main, &["grep", "Cpus_allowed_list", "/proc/self/status"]).unwrap();
        assert_eq!(status.split_ascii_whitespace().last(), Some("1"), "{main}");
    }
    let connections = agent.lines().iter().filter(|line| line.contains("tells of its containers")).count();
    assert_eq!(connections, 1, "{}", agent.lines().join("\n"));
    pods.iter().for_each(|pod| cri.remove(pod).unwrap());
}

#[test]
fn a_hundred_updates_at_once_do_not_hang_debians_containerd() {
    if parts().is_some() {
        with(Containerd::Newest, updates_at_once_do_not_hang);
    }
}

#[test]
fn a_hundred_updates_at_once_do_not_hang_a_newer_containerd() {
    let Some(parts) = parts() else { return };
    let begin = || {
        let tools =
            obtain_containerd(Containerd::Newest, &Cache::from_environment()?, &|note| eprintln!("{note}"))?;
        Node::begin_with(ContainerTools { bin: parts.join("bin"), ..tools })
    };
    with_node(begin, updates_at_once_do_not_hang);
}

/// Number of nodes that kwok simulates. They run nothing: this only tests the controller.
const MANY: usize = 1000;

#[test]
fn a_change_is_written_once_whatever_the_number_of_nodes() {
    let Some(parts) = parts() else { return };
    let dir = tempfile::tempdir().unwrap();
    let cluster = installed(&parts, dir.path());
    let _kwok =
        cluster.part("kwok", &["--manage-all-nodes=true", "--node-lease-duration-seconds=40"]).unwrap();
    let shape = |n: usize| if n.is_multiple_of(4) { "big" } else { "small" };
    let machines: String = (0..MANY).map(|n| machine(&format!("n{n:04}"), shape(n))).collect();
    cluster.apply(&machines).unwrap();
    cluster.apply(&node_pools("big", "{shape: big}", "[{name: web}]")).unwrap();
    cluster.apply(&node_pools("small", "{shape: small}", "[{name: batch}]")).unwrap();
    let mut controller = controller(&cluster, "one", &[]);
    controller.says("1000 nodes have pools of 2 NodePools").unwrap();
    becomes(&cluster, "nodepools/big", "{.status.nodes}", "250");
    becomes(&cluster, "nodepools/small", "{.status.nodes}", "750");
    // No agent listens: all nodes are reported, and the statuses become stable.
    let message = "{.status.conditions[?(@.type==\"Ready\")].message}";
    becomes(&cluster, "nodepools/big", message, "250 of 250 nodes; n0000: it runs no agent");
    let writes = || {
        let of = |resource: &str| {
            let resource = format!("resource=\"{resource}\"");
            ["APPLY", "PATCH", "POST", "PUT"]
                .iter()
                .map(|verb| {
                    cluster
                        .counted("apiserver_request_total", &[&resource, &format!("verb=\"{verb}\"")])
                        .unwrap()
                })
                .sum::<f64>()
        };
        (of("configmaps"), of("nodepools"))
    };
    let rests = || {
        let before = writes();
        std::thread::sleep(Duration::from_secs(3));
        let after = writes();
        if before == after { Ok(after) } else { Err(format!("{before:?} {after:?}")) }
    };
    let before = eventually(rests).unwrap();
    let version = || {
        cluster
            .kubectl([
                "-n",
                "millpond",
                "get",
                "configmap",
                "millpond-nodes",
                "-o",
                "jsonpath={.metadata.resourceVersion}",
            ])
            .unwrap()
    };
    let was = version();
    let begun = Instant::now();
    cluster.kubectl(["label", "node", "n0001", "shape=big", "--overwrite"]).unwrap();
    eventually(|| if version() == was { Err("the ConfigMap is the same".to_owned()) } else { Ok(()) })
        .unwrap();
    let took = begun.elapsed();
    becomes(&cluster, "nodepools/big", "{.status.nodes}", "251");
    let after = eventually(rests).unwrap();
    // One ConfigMap, and the status of each of the two resources, plus at most one write after polling the node.
    let (maps, statuses) = (after.0 - before.0, after.1 - before.1);
    eprintln!(
        "with {MANY} nodes: {:.0} ms from a label to the ConfigMap as kubectl sees it, {maps} and {statuses} writes; memory {}",
        took.as_secs_f64() * 1e3,
        memory(controller.pid()),
    );
    assert!((1.0..=1.0).contains(&maps), "{maps} ConfigMaps");
    assert!((2.0..=4.0).contains(&statuses), "{statuses} statuses");
}

/// The peak memory of a process, from the kernel.
fn memory(pid: u32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().to_owned()
}
