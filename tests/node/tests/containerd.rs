//! The agent with a real containerd.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test")]

use millpond_model::CpuSet;
use millpond_node_tests::{
    Cri, Daemon, IMAGE, Node, PARTS, RunningPod, cpus_here, eventually, kubelet, most, with,
};
use millpond_vm::{Containerd, cargo_binary};
use std::fs;
use std::path::Path;
use std::process::Command;

/// A command that keeps a container running.
const SLEEP: &[&str] = &["sleep", "1000000"];

/// The allowed CPUs of a container, as read inside it.
fn cpus(cri: &Cri, container: &str) -> String {
    let said = cri.exec(container, &["grep", "Cpus_allowed_list", "/proc/self/status"]).unwrap();
    said.split_ascii_whitespace().last().unwrap_or_default().to_owned()
}

fn has(cri: &Cri, container: &str, list: &str) {
    let is = || {
        let is = cpus(cri, container);
        if is == list { Ok(()) } else { Err(format!("{container} has {is}, not {list}")) }
    };
    eventually(is).unwrap();
}

fn pod_in(cri: &Cri, name: &str, pool: &str) -> RunningPod {
    cri.run_pod(name, &[("millpond.dev/pool", pool)]).unwrap()
}

fn start(cri: &Cri, pod: &RunningPod, name: &str, milli: u32) -> String {
    cri.start(pod, name, (IMAGE, SLEEP), milli).unwrap()
}

/// Number of connections that the agent made.
fn connections(agent: &Daemon) -> usize {
    agent.lines().iter().filter(|line| line.contains("tells of its containers")).count()
}

fn containers_are_in_pools(node: &mut Node) {
    let cri = node.runtime.cri().unwrap();
    let mut agent = node.agent();

    let plain = cri.run_pod("plain", &[]).unwrap();
    let free = start(&cri, &plain, "main", 100);
    has(&cri, &free, &node.rest(1));
    let web = cri.run_pod("web", &[("millpond.dev/pool", "web"), ("millpond.dev/pool.log", "pool_default")]);
    let web = web.unwrap();
    let main = start(&cri, &web, "main", 1500);
    // From its start, and not only after it is bound.
    assert_eq!(cpus(&cri, &main), "1");
    let log = start(&cri, &web, "log", 0);
    has(&cri, &log, &node.rest(1));
    agent.says("default/web/main is in pool web").unwrap();
    has(&cri, &free, &node.rest(1));

    // The environment and the notice of a program in it.
    assert_eq!(cri.exec(&main, &["sh", "-c", "echo $MILLPOND_POOL"]).unwrap(), "web\n");
    let notice = cri.exec(&main, &["cat", "/run/millpond/pools/web"]).unwrap();
    assert!(notice.contains("\nprocessors 1\n"), "{notice}");
    assert!(cri.exec(&main, &["sh", "-c", "echo x > /run/millpond/pools/web"]).is_err());

    // Its name in listings, and its CPU request.
    let zones = node.zones();
    let row =
        zones.lines().find(|line| line.starts_with("default/web/main ")).unwrap_or_else(|| panic!("{zones}"));
    assert_eq!(row.split_ascii_whitespace().skip(1).take(2).collect::<Vec<_>>(), ["container", "web"]);
    let use_of_zones = node.ok(&["prstat", "-Z", "-n", "5,50", "-c", "1", "1"]);
    assert!(use_of_zones.contains("default/web/main"), "{use_of_zones}");
    assert_eq!(node.requests(), Some(1500));
    cri.resize(&main, 250).unwrap();
    has(&cri, &main, "1");
    eventually(|| match node.requests() {
        Some(250) => Ok(()),
        other => Err(format!("{other:?} are requested")),
    })
    .unwrap();

    // It follows its pool, and a change by the runtime does not undo this.
    node.swap(1, 0);
    assert_eq!(cpus(&cri, &main), "0");
    cri.resize(&main, 300).unwrap();
    has(&cri, &main, "0");

    // Concurrent requests while the pool changes: each must be answered fast, because otherwise the runtime drops the agent.
    std::thread::scope(|scope| {
        for n in 0..4 {
            let (node, main) = (&*node, &main);
            scope.spawn(move || {
                let cri = node.runtime.cri().unwrap();
                (0..10).for_each(|round| cri.resize(main, 300 + 10 * n + round).unwrap());
            });
        }
        for _ in 0..5 {
            node.swap(0, 1);
            node.swap(1, 0);
        }
    });
    has(&cri, &main, "0");
    assert_eq!(connections(&agent), 1);

    // A restarted runtime accepts the agent again.
    node.runtime.restart().unwrap();
    let cri = node.runtime.cri().unwrap();
    eventually(|| if connections(&agent) == 2 { Ok(()) } else { Err(agent.lines().join("\n")) }).unwrap();
    has(&cri, &main, "0");
    let second = start(&cri, &web, "second", 0);
    assert_eq!(cpus(&cri, &second), "0");

    // A restarted agent finds containers that began and ended while it was not running.
    agent.kill();
    let late = pod_in(&cri, "late", "web");
    let while_dead = start(&cri, &late, "main", 0);
    if node.keeps_others {
        assert_eq!(cpus(&cri, &while_dead), node.rest(0));
    }
    node.swap(0, 1);
    has(&cri, &main, "1");
    cri.remove(&web).unwrap();
    let agent = node.agent();
    has(&cri, &while_dead, "1");
    eventually(|| {
        let zones = node.zones();
        if zones.contains("default/web/") { Err(zones) } else { Ok(()) }
    })
    .unwrap();
    eventually(|| match node.requests() {
        Some(1) => Ok(()),
        other => Err(format!("{other:?} are requested")),
    })
    .unwrap();
    drop(agent);
    for pod in [&plain, &late] {
        cri.remove(pod).unwrap();
    }
}

fn unknown_pools_are_refused(node: &mut Node) {
    let cri = node.runtime.cri().unwrap();
    let mut agent = node.agent();
    let pod = pod_in(&cri, "lost", "shop");
    let refused = cri.start(&pod, "main", (IMAGE, SLEEP), 0).unwrap_err();
    assert!(refused.message().contains("there is no pool shop"), "{}", refused.message());
    agent.says("default/lost/main was refused: there is no pool shop").unwrap();
    drop(agent);

    let mut agent = node.agent_with(&["--unknown-pool", "default"], None);
    agent.says("tells of its containers").unwrap();
    let main = start(&cri, &pod, "main", 0);
    agent.says("default/lost/main runs in the default pool: there is no pool shop").unwrap();
    node.ok(&["poolcfg", "-d", "-c", "create pool shop\nassociate pool shop ( pset webset )"]);
    has(&cri, &main, "1");
    cri.remove(&pod).unwrap();
}

/// A configuration file like a mounted `ConfigMap`.
fn a_configuration_is_committed_whenever_it_changes(node: &mut Node) {
    let file = node.dir.path().join("pooladm.conf");
    let text = include_str!("../../../deploy/kubernetes/node/pooladm.conf");
    fs::write(&file, text).unwrap();
    let mut agent = node.agent_with(&["--conf", &file.display().to_string()], None);
    agent.says("the configuration of the pools was committed").unwrap();
    agent.says("tells of its containers").unwrap();
    let cri = node.runtime.cri().unwrap();
    let pod = pod_in(&cri, "configured", "web");
    let main = start(&cri, &pod, "main", 0);
    // The number of CPUs depends on the machine: some, and not all.
    eventually(|| match cpus(&cri, &main).parse::<CpuSet>().unwrap().len() {
        some if some < cpus_here() => Ok(()),
        other => Err(format!("{other} CPUs")),
    })
    .unwrap();
    fs::write(&file, text.replace("name=\"web\" active", "name=\"web active")).unwrap();
    agent.says("pooladm.conf:").unwrap();
    let web = |info: &str| node.ok(&["poolcfg", "-dc", "info pool web"]).contains(info);
    assert!(web("pool.importance 10"), "{}", node.ok(&["poolcfg", "-dc", "info pool web"]));
    fs::write(&file, text.replace("importance=\"10\"", "importance=\"20\"")).unwrap();
    eventually(|| if web("pool.importance 20") { Ok(()) } else { Err(agent.lines().join("\n")) }).unwrap();
    cri.remove(&pod).unwrap();
}

/// The files that a cluster's controller writes for all nodes, as mounted.
fn the_files_of_all_nodes_are_followed(node: &mut Node) {
    let dir = node.dir.path().join("nodes-of-the-cluster");
    fs::create_dir(&dir).unwrap();
    let pools = |tag: &str, least: &str| {
        include_str!("../../../deploy/kubernetes/node/pooladm.conf")
            .replace(
                "<pool name=\"pool_default\"",
                &format!(
                    "<property name=\"millpond.configuration\" type=\"string\">{tag}</property>\n<pool name=\"pool_default\""
                ),
            )
            .replace("name=\"web\" default=\"false\" min=\"1\"", &format!("name=\"web\" default=\"false\" min=\"{least}\""))
    };
    let write = |file: &str, text: &str| {
        fs::write(dir.join("next"), text).unwrap();
        fs::rename(dir.join("next"), dir.join(file)).unwrap();
    };
    let mut agent = node.agent_with(&["--conf", &dir.display().to_string(), "--node", "n2"], None);
    agent.says("there is no file").unwrap();
    // Without a configuration it reports its pools unchanged.
    agent.says("tells of its containers").unwrap();
    write("shop.xml", &pools("shop-1-aa", "1"));
    write("nodes", "n1 other\nn2 shop\n");
    agent.says("the configuration of the pools was committed").unwrap();
    let system = || node.ok(&["poolcfg", "-dc", "info"]);
    let said = |what: &'static str| {
        eventually(|| if system().contains(what) { Ok(()) } else { Err(system()) }).unwrap();
    };
    said("millpond.configuration shop-1-aa");
    assert!(!system().contains("millpond.refused"));
    // An impossible configuration is reported, and the node keeps the current one.
    write("shop.xml", &pools("shop-2-aa", "60000"));
    said("millpond.refused");
    said("millpond.configuration shop-1-aa");
    write("shop.xml", &pools("shop-3-aa", "1"));
    said("millpond.configuration shop-3-aa");
    eventually(|| if system().contains("millpond.refused") { Err(system()) } else { Ok(()) }).unwrap();
    if !node.keeps_others {
        write("shop.fences", "node-packets gentle 3\n");
        agent.says("is behind fence node-packets").unwrap();
        assert!(node.ok(&["fence"]).contains("node-packets"), "{}", node.ok(&["fence"]));
        write("shop.fences", "node-packets own 3\n");
        said("fence node-packets: there is no profile own");
        write("shop.fences", "");
        eventually(
            || if node.ok(&["fence"]).contains("packets") { Err(node.ok(&["fence"])) } else { Ok(()) },
        )
        .unwrap();
    }
    // A node that no resource selects has only the default pool.
    write("nodes", "n1 other\n");
    let pools = || node.ok(&["poolcfg", "-dc", "info"]);
    eventually(|| if pools().contains("pool web") { Err(pools()) } else { Ok(()) }).unwrap();
}

#[test]
fn the_manifests_are_rendered() {
    for (base, parts) in [("node", 4), ("monitoring", 5), ("controller", 13)] {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/kubernetes");
        let Ok(said) = Command::new("kubectl").arg("kustomize").arg(Path::new(dir).join(base)).output()
        else {
            eprintln!("SKIPPED: there is no program kubectl here; hint: install kubernetes-client");
            return;
        };
        let text = String::from_utf8_lossy(&said.stdout);
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        assert_eq!(text.lines().filter(|line| line.starts_with("kind: ")).count(), parts, "{text}");
        assert_eq!(text.matches("image: millpond:latest").count(), 3);
        assert_eq!(text.contains("--token-file"), base != "node");
    }
}

fn an_agent_dies_at_every_step(node: &mut Node) {
    let cri = node.runtime.cri().unwrap();
    let mut deaths = 0;
    for moment in
        ["begin", "intended", "step-1", "step-2", "step-3", "step-4", "step-5", "applied", "committed"]
    {
        let mut agent = node.agent_with(&[], Some(moment));
        let pod = pod_in(&cri, &format!("at-{moment}"), "web");
        let main = start(&cri, &pod, "main", 500);
        let outlived = agent.says("main is in pool web").is_ok();
        if !outlived {
            assert!(!agent.end().unwrap().success());
            deaths += 1;
        }
        drop(agent);
        let agent = node.agent();
        has(&cri, &main, "1");
        eventually(|| match node.requests() {
            Some(500) => Ok(()),
            other => Err(format!("{other:?} are requested after a death at {moment}: {:?}", agent.lines())),
        })
        .unwrap();
        cri.remove(&pod).unwrap();
        eventually(|| node.requests().map_or(Ok(()), |some| Err(format!("{some} are requested")))).unwrap();
        let doctor = node.run(&["doctor"]).unwrap_or_else(|said| said);
        assert!(!doctor.contains("begun and not finished"), "{doctor}");
    }
    assert!(deaths >= 4, "{deaths} deaths");
}

fn a_pool_grows_with_what_its_containers_need(node: &mut Node) {
    if most() < 2 {
        eprintln!(
            "SKIPPED: a pool of one CPU cannot grow; hint: run these tests on a machine with four CPUs"
        );
        return;
    }
    let cri = node.runtime.cri().unwrap();
    let mut agent = node.agent();
    // poold takes the last CPU of an empty pool, and returns it when the pool gets a member.
    let mut poold = Daemon::start(&mut node.command(&["poold"])).unwrap();
    let pod = pod_in(&cri, "busy", "web");
    let main = start(&cri, &pod, "main", 0);
    agent.says("default/busy/main is in pool web").unwrap();
    let spin = "for n in 1 2 3; do while :; do :; done >/dev/null 2>&1 & done; echo $! > /tmp/last";
    cri.exec(&main, &["sh", "-c", spin]).unwrap();
    let size = || cpus(&cri, &main).parse::<CpuSet>().unwrap().len();
    let becomes = |wanted: usize| {
        eventually(|| match size() {
            size if size == wanted => Ok(()),
            other => Err(format!("the container has {other} CPUs, not {wanted}")),
        })
    };
    becomes(most()).unwrap_or_else(|why| panic!("{why}: {:?}", poold.lines()));
    cri.exec(
        &main,
        &["sh", "-c", "kill -9 $(cat /tmp/last) $(($(cat /tmp/last) - 1)) $(($(cat /tmp/last) - 2))"],
    )
    .unwrap();
    // The pool needs no CPU and other tasks do. It keeps its requested CPU.
    let others = cri.run_pod("others", &[]).unwrap();
    let rest = start(&cri, &others, "main", 0);
    cri.exec(&rest, &["sh", "-c", spin]).unwrap();
    becomes(1).unwrap_or_else(|why| panic!("{why}: {:?}", poold.lines()));
    cri.resize(&main, 1500).unwrap();
    becomes(2).unwrap_or_else(|why| panic!("{why}: {:?}", poold.lines()));
    poold.kill();
    cri.remove(&pod).unwrap();
    cri.remove(&others).unwrap();
}

fn the_first_container_gets_its_pool_a_cpu_at_once(node: &mut Node) {
    node.ok(&["poolcfg", "-d", "-c", "transfer to pset pset_default ( cpu 1 )"]);
    let mut poold = Daemon::start(&mut node.command(&["poold", "-l", "INFO", "--interval", "1h"])).unwrap();
    poold.says("configuration complete").unwrap();
    let cri = node.runtime.cri().unwrap();
    let _agent = node.agent();
    let pod = pod_in(&cri, "first", "web");
    let main = start(&cri, &pod, "main", 0);
    // Nothing else wakes poold, because the container sleeps.
    eventually(|| match cpus(&cri, &main).parse::<CpuSet>().unwrap().len() {
        1 => Ok(()),
        other => Err(format!("the container has {other} CPUs, not 1")),
    })
    .unwrap_or_else(|why| panic!("{why}: {:?}", poold.lines()));
    poold.kill();
    cri.remove(&pod).unwrap();
}

/// Only in a guest, because a fence moves interrupts and kernel threads.
fn a_pod_has_a_fence_while_it_runs(node: &mut Node) {
    if node.keeps_others {
        eprintln!("SKIPPED: fences are for guests; hint: MILLPOND_VM=all has a guest with containers");
        return;
    }
    let cri = node.runtime.cri().unwrap();
    let allowed =
        ["--fence-namespaces", "default", "--fence-profiles", "low-latency,own", "--fence-cpus", "2-3"];
    let agent_with = |node: &Node| {
        let mut agent = node.agent_with(&allowed, None);
        agent.says("tells of its containers").unwrap();
        agent
    };
    let mut agent = agent_with(node);
    let others = cri.run_pod("others", &[]).unwrap();
    let rest = start(&cri, &others, "main", 0);
    let asks = |profile| [("millpond.dev/fence", profile), ("millpond.dev/fence-cpus", "2-3")];
    let fast = cri.run_pod("fast", &asks("low-latency")).unwrap();
    let main = start(&cri, &fast, "main", 0);
    agent.says("default/fast/main is behind fence pod-fast-uid").unwrap();
    has(&cri, &main, "2-3");
    has(&cri, &rest, "0");
    assert!(node.ok(&["fence"]).contains("pod-fast-uid"), "{}", node.ok(&["fence"]));
    // The fence belongs to the pod, and another container of the pod uses it.
    let second = start(&cri, &fast, "second", 0);
    assert_eq!(cpus(&cri, &second), "2-3");
    // A restarted agent takes the fence down when its pod is gone.
    agent.kill();
    cri.remove(&fast).unwrap();
    let mut agent = agent_with(node);
    agent.says("fence pod-fast-uid is gone").unwrap();
    has(&cri, &rest, &node.rest(1));
    let wrong = cri.run_pod("wrong", &asks("../shadow")).unwrap();
    let refused = cri.start(&wrong, "main", (IMAGE, SLEEP), 0).unwrap_err();
    assert!(refused.message().contains("takes the name of a profile"), "{}", refused.message());
    let greedy = cri.run_pod("greedy", &asks("gentle")).unwrap();
    let refused = cri.start(&greedy, "main", (IMAGE, SLEEP), 0).unwrap_err();
    assert!(refused.message().contains("may not have fences of profile gentle"), "{}", refused.message());
    let unknown = cri.run_pod("unknown", &asks("own")).unwrap();
    let main = start(&cri, &unknown, "main", 0);
    agent.says("default/unknown/main cannot be fenced: there is no profile own").unwrap();
    has(&cri, &main, &node.rest(1));
    for pod in [others, wrong, greedy, unknown] {
        cri.remove(&pod).unwrap();
    }
}

/// Sleep time of the static pod's main program; identifies its process.
const STATIC_SLEEP: &str = "36001";

/// The allowed CPUs of the static pod's main program.
fn cpus_of_the_static_pod() -> Result<String, String> {
    let pids = fs::read_dir("/proc").map_err(|error| error.to_string())?;
    let sleeps = |dir: &Path| {
        fs::read(dir.join("cmdline"))
            .is_ok_and(|line| line == format!("sleep\0{STATIC_SLEEP}\0").into_bytes())
    };
    let dir = pids.flatten().map(|entry| entry.path()).find(|dir| sleeps(dir)).ok_or("it does not run")?;
    let status = fs::read_to_string(dir.join("status")).map_err(|error| error.to_string())?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    Ok(list.unwrap_or_default().trim().to_owned())
}

/// A standalone kubelet runs pods from files.
fn a_static_pod_is_in_its_pool(node: &mut Node) {
    let Some(parts) = std::env::var_os(PARTS) else {
        eprintln!("SKIPPED: no kubelet was built; hint: cargo xtask test --all --only kubernetes builds one");
        return;
    };
    let manifests = node.dir.path().join("manifests");
    fs::create_dir(&manifests).unwrap();
    let pod = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: shop, namespace: default, annotations: {{millpond.dev/pool: web}}}}\n\
         spec:\n  hostNetwork: true\n  terminationGracePeriodSeconds: 1\n  containers: [{{name: main, image: {IMAGE}, \
         imagePullPolicy: Never, command: [sleep, \"{STATIC_SLEEP}\"], resources: {{requests: {{cpu: 250m}}}}}}]\n"
    );
    fs::write(manifests.join("shop.yaml"), pod).unwrap();
    let mut agent = node.agent();
    let dir = node.dir.path().join("kubelet");
    let start = |runtime| kubelet(Path::new(&parts), &dir, runtime, None, Some(&manifests)).unwrap();
    let mut own = start(&node.runtime);
    agent
        .says("default/shop-here/main is in pool web")
        .unwrap_or_else(|why| panic!("{why}\n{}", own.lines().join("\n")));
    let has = |cpus: &str| {
        let is = || match cpus_of_the_static_pod()? {
            is if is == cpus => Ok(()),
            other => Err(other),
        };
        eventually(is).unwrap();
    };
    has("1");
    assert_eq!(node.requests(), Some(250));
    if cpus_here() > 2 {
        node.swap(1, 2);
        has("2");
        node.swap(2, 1);
    }
    // After a kill of kubelet and agent, the new ones find everything unchanged.
    own.kill();
    agent.kill();
    let (_own, agent) = (start(&node.runtime), node.agent());
    has("1");
    eventually(|| if node.zones().contains("default/shop-here/main") { Ok(()) } else { Err(node.zones()) })
        .unwrap_or_else(|why| panic!("{why}\n{}", agent.lines().join("\n")));
    fs::remove_file(manifests.join("shop.yaml")).unwrap();
    eventually(|| match cpus_of_the_static_pod() {
        Err(_) => Ok(()),
        Ok(cpus) => Err(format!("it still runs on {cpus}")),
    })
    .unwrap();
    eventually(|| if node.zones().contains("shop-here") { Err(node.zones()) } else { Ok(()) }).unwrap();
}

#[test]
fn a_kubelet_alone_makes_pods_of_files() {
    with(Containerd::Newest, a_static_pod_is_in_its_pool);
}

#[test]
fn a_pod_can_have_a_fence() {
    with(Containerd::Newest, a_pod_has_a_fence_while_it_runs);
}

#[test]
fn a_pool_follows_its_containers() {
    with(Containerd::Newest, a_pool_grows_with_what_its_containers_need);
}

#[test]
fn an_empty_pool_gets_a_cpu_with_its_first_container() {
    with(Containerd::Newest, the_first_container_gets_its_pool_a_cpu_at_once);
}

#[test]
fn containers_are_in_pools_with_the_newest_containerd() {
    with(Containerd::Newest, |node| {
        containers_are_in_pools(node);
        unknown_pools_are_refused(node);
        a_configuration_is_committed_whenever_it_changes(node);
        the_files_of_all_nodes_are_followed(node);
    });
}

#[test]
fn containers_are_in_pools_with_containerd_1_7() {
    with(Containerd::V1_7, containers_are_in_pools);
}

#[test]
fn an_agent_that_is_killed_at_every_step_loses_nothing() {
    with(Containerd::Newest, an_agent_dies_at_every_step);
}

#[test]
fn the_agent_does_not_run_where_it_cannot() {
    let dir = tempfile::tempdir().unwrap();
    let program = cargo_binary("millpond").unwrap();
    let said = |more: &[&str]| {
        let mut command = Command::new(&program);
        command.arg("node").args(more).env("MILLPOND_STATE", dir.path().join("state"));
        let said = command.output().unwrap();
        assert_eq!(said.status.code(), Some(1));
        String::from_utf8_lossy(&said.stderr).into_owned()
    };
    let kubelet = dir.path().display().to_string();
    fs::write(dir.path().join("cpu_manager_state"), r#"{"policyName":"static"}"#).unwrap();
    let why = said(&["--kubelet-dir", &kubelet]);
    assert!(why.starts_with("node: the kubelet's CPU manager has the policy static ("), "{why}");
    assert!(why.contains("\nhint: set cpuManagerPolicy: none"), "{why}");
}
