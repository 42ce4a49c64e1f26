//! Cost of a node's agent: creating and resizing containers with and without it, its own use at rest, and how long a container waits for the
//! first CPU of its pool. The container runtime is Debian's, with all its files in a separate directory.

mod callbacks;

use crate::goals::classes::quantile;
use crate::goals::sample::{ROUND, each};
use crate::line::{Goal, Line, Pairs};
use crate::trial::{Bench, Beside, Trouble, cpu_time_of, ms, told};
use callbacks::Between;
use millpond_node_tests::{Cri, Daemon, IMAGE, RunningPod, Runtime, done, eventually};
use millpond_vm::{Cache, Containerd, obtain_containerd};
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

const MADE: &str = "node: a container, made and started";
const RESIZED: &str = "node: a container, resized";
const SECOND: &str = "node: a second of the agent with ten containers";
const FIRST_CPU: &str = "node: from the start of a container to the first CPU of its empty pool";
const CALLBACK: &str =
    "node: 99 of 100 answers to the runtime, while ten containers are resized and the pool changes";
const MEMORY: &str = "node: memory of the agent with ten containers, at most";
const ALONE: &str = "containerd alone";
const BESIDE: &str = "containerd in the same second";

/// 0.2 percent of a CPU.
const SECOND_GOAL: Goal = Goal::OursAtMost(2_000.0);
/// A runtime drops a plugin that does not answer for two seconds; users notice shorter delays.
const CALLBACK_GOAL: Goal = Goal::OursAtMost(5.0);
const MEMORY_GOAL: Goal = Goal::OursAtMost(30.0);
/// Maximum time until the first CPU, in milliseconds: a quarter of a second of demand.
const FIRST_CPU_GOAL: Goal = Goal::OursAtMost(250.0);

/// Number of containers during the measurement at rest.
const CONTAINERS: usize = 10;

/// Measures these goals.
pub fn measure(bench: &Bench) -> Vec<Line> {
    let node = Node::begin(bench);
    let line = |name, peer, unit, goal, pairs: fn(&Node<'_>, &Bench) -> Result<Pairs, Trouble>| match &node {
        Ok(node) => Line::found(name, peer, unit, pairs(node, bench), goal),
        Err(why) => Line::unresolvable(name, peer, goal, why),
    };
    vec![
        line(MADE, ALONE, "ms", Goal::None, made),
        line(RESIZED, ALONE, "ms", Goal::None, resized),
        line(SECOND, BESIDE, "us", SECOND_GOAL, second),
        line(CALLBACK, "a resize as its caller sees it", "ms", CALLBACK_GOAL, callback),
        line(MEMORY, "containerd", "MB", MEMORY_GOAL, memory),
        line(FIRST_CPU, "a container in a pool with a CPU", "ms", FIRST_CPU_GOAL, first_cpu),
    ]
}

struct Node<'b> {
    bench: &'b Bench,
    runtime: Runtime,
}

impl<'b> Node<'b> {
    /// Starts a runtime, and creates a pool of one CPU; other pools stay unchanged.
    fn begin(bench: &'b Bench) -> Result<Node<'b>, Trouble> {
        if Path::new("/var/lib/kubelet").exists() || Path::new("/run/millpond/records/pools").exists() {
            return Err("pools or a kubelet are in use here".to_owned());
        }
        let cache = Cache::from_environment().map_err(|why| why.to_string())?;
        let tools = obtain_containerd(Containerd::Newest, &cache, &|_| {}).map_err(|why| why.to_string())?;
        let runtime = Runtime::begin(tools, &bench.scratch.join("containerd"))?;
        let node = Node { bench, runtime };
        node.ok(&["pooladm", "-e", "--keep-others"])?;
        node.ok(&[
            "poolcfg",
            "-d",
            "-c",
            "create pset webset ( uint pset.min = 0 ; uint pset.max = 1 )\ncreate pool web\n\
             associate pool web ( pset webset )\ntransfer to pset webset ( cpu 1 )",
        ])?;
        Ok(node)
    }

    fn ok(&self, words: &[&str]) -> Result<(), Trouble> {
        done(&mut self.bench.command(words))
    }

    fn agent_command(&self) -> Command {
        let mut command = self.bench.command(&["node", "--kubelet-dir"]);
        command.arg(&self.bench.scratch).arg("--socket").arg(self.runtime.plugins());
        command
    }

    fn agent(&self) -> Result<Daemon, Trouble> {
        let mut agent = Daemon::start(&mut self.agent_command())?;
        agent.says("tells of its containers")?;
        Ok(agent)
    }
}

impl Drop for Node<'_> {
    fn drop(&mut self) {
        let _ = self.ok(&["pooladm", "-d"]);
    }
}

fn pod(cri: &Cri, name: &str) -> Result<RunningPod, Trouble> {
    cri.run_pod(name, &[("millpond.dev/pool", "web")]).map_err(|why| why.message().to_owned())
}

fn start(cri: &Cri, pod: &RunningPod, name: &str) -> Result<String, Trouble> {
    let started = cri.start(pod, name, (IMAGE, &["sleep", "1000000"]), 10);
    started.map_err(|why| why.message().to_owned())
}

fn remove(cri: &Cri, pod: &RunningPod) -> Result<(), Trouble> {
    cri.remove(pod).map_err(|why| why.message().to_owned())
}

/// Interleaves runs with and without the agent, so that both see the same conditions.
fn with_and_without(
    node: &Node<'_>,
    bench: &Bench,
    act: impl Fn(&Cri) -> Result<f64, Trouble>,
) -> Result<Pairs, Trouble> {
    let cri = node.runtime.cri()?;
    act(&cri)?;
    let mut pairs = Pairs::default();
    for _ in 0..bench.pairs {
        let agent = node.agent()?;
        let ours = act(&cri)?;
        drop(agent);
        // Wait until the runtime has noticed the disconnect.
        sleep(Duration::from_millis(200));
        pairs.push(ours, act(&cri)?);
    }
    Ok(pairs)
}

fn made(node: &Node<'_>, bench: &Bench) -> Result<Pairs, Trouble> {
    with_and_without(node, bench, |cri| {
        let pod = pod(cri, "made")?;
        let begun = Instant::now();
        start(cri, &pod, "main")?;
        let took = ms(begun);
        remove(cri, &pod)?;
        Ok(took)
    })
}

fn resized(node: &Node<'_>, bench: &Bench) -> Result<Pairs, Trouble> {
    let cri = node.runtime.cri()?;
    let pod = pod(&cri, "resized")?;
    let main = start(&cri, &pod, "main")?;
    let pairs = with_and_without(node, bench, |cri| {
        let begun = Instant::now();
        for milli in 10..20 {
            cri.resize(&main, milli).map_err(|why| why.message().to_owned())?;
        }
        Ok(ms(begun) / 10.0)
    });
    remove(&cri, &pod)?;
    pairs
}

fn second(node: &Node<'_>, bench: &Bench) -> Result<Pairs, Trouble> {
    let cri = node.runtime.cri()?;
    let ours = Beside::start(&mut node.agent_command())?;
    sleep(Duration::from_secs(1));
    let pod = pod(&cri, "many")?;
    for n in 0..CONTAINERS {
        start(&cri, &pod, &format!("c{n}"))?;
    }
    sleep(Duration::from_secs(2));
    let pairs = each(ROUND, bench.pairs, &ours, || cpu_time_of(node.runtime.pid()).map(|time| time.0));
    remove(&cri, &pod)?;
    pairs
}

/// Resizes ten containers ten times each from four callers, while CPUs of the pool are swapped. Returns the p99 of the agent's response times, and
/// the longest resize.
fn resized_at_once(node: &Node<'_>, between: &Between, mains: &[String]) -> Result<(f64, f64), Trouble> {
    drop(between.take());
    let slowest = std::thread::scope(|scope| {
        let callers: Vec<_> = mains
            .chunks(3)
            .map(|mains| {
                scope.spawn(move || {
                    let cri = node.runtime.cri()?;
                    let mut slowest: f64 = 0.0;
                    for (main, milli) in
                        mains.iter().flat_map(|main| (20..30).map(move |milli| (main, milli)))
                    {
                        let begun = Instant::now();
                        cri.resize(main, milli).map_err(|why| why.message().to_owned())?;
                        slowest = slowest.max(ms(begun));
                    }
                    Ok::<_, Trouble>(slowest)
                })
            })
            .collect();
        for (from, to) in [(1, 0), (0, 1)] {
            node.ok(&[
                "poolcfg",
                "-d",
                "-c",
                &format!(
                    "transfer to pset pset_default ( cpu {from} )\ntransfer to pset webset ( cpu {to} )"
                ),
            ])?;
        }
        let ended =
            callers.into_iter().map(|caller| caller.join().map_err(|_| "a caller panicked".to_owned())?);
        ended.collect::<Result<Vec<f64>, Trouble>>()
    })?;
    let answers: Vec<f64> = between.take().iter().map(|took| took.as_secs_f64() * 1e3).collect();
    if answers.is_empty() {
        return Err("the runtime asked nothing".to_owned());
    }
    Ok((quantile(&answers, 990), slowest.into_iter().fold(0.0, f64::max)))
}

fn callback(node: &Node<'_>, bench: &Bench) -> Result<Pairs, Trouble> {
    let cri = node.runtime.cri()?;
    let between = Between::begin(&bench.scratch.join("between.sock"), &node.runtime.plugins())?;
    let mut command = bench.command(&["node", "--kubelet-dir"]);
    command.arg(&bench.scratch).arg("--socket").arg(between.socket());
    let mut agent = Daemon::start(&mut command)?;
    agent.says("tells of its containers")?;
    let pod = pod(&cri, "asked")?;
    let mains: Vec<String> =
        (0..CONTAINERS).map(|n| start(&cri, &pod, &format!("c{n}"))).collect::<Result<_, _>>()?;
    let mut pairs = Pairs::default();
    for _ in 0..bench.pairs {
        let (ours, peer) = resized_at_once(node, &between, &mains)?;
        pairs.push(ours, peer);
    }
    remove(&cri, &pod)?;
    Ok(pairs)
}

/// Peak memory of a process, in megabytes.
fn most_memory(pid: u32) -> Result<f64, Trouble> {
    let status = told("read a status", std::fs::read_to_string(format!("/proc/{pid}/status")))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse().map_err(|_| line.to_owned())?;
    Ok(kilobytes * 1024.0 / 1e6)
}

fn memory(node: &Node<'_>, bench: &Bench) -> Result<Pairs, Trouble> {
    let cri = node.runtime.cri()?;
    let mut pairs = Pairs::default();
    for _ in 0..bench.pairs {
        let agent = node.agent()?;
        let pod = pod(&cri, "kept")?;
        for n in 0..CONTAINERS {
            start(&cri, &pod, &format!("c{n}"))?;
        }
        sleep(Duration::from_secs(1));
        pairs.push(most_memory(agent.pid())?, most_memory(node.runtime.pid())?);
        remove(&cri, &pod)?;
    }
    Ok(pairs)
}

/// Waits until the container's allowed CPUs are exactly one, as its pool has.
fn until_it_has_one(cri: &Cri, container: &str) -> Result<(), Trouble> {
    eventually(|| {
        let said = cri.exec(container, &["grep", "Cpus_allowed_list", "/proc/self/status"]);
        let said = said.map_err(|why| why.message().to_owned())?;
        let is = said.split_ascii_whitespace().last().unwrap_or_default();
        let one = is.bytes().all(|b| b.is_ascii_digit());
        if one { Ok(()) } else { Err(format!("the container has {is}")) }
    })
}

fn first_cpu(node: &Node<'_>, bench: &Bench) -> Result<Pairs, Trouble> {
    let cri = node.runtime.cri()?;
    let _agent = node.agent()?;
    let mut pairs = Pairs::default();
    for _ in 0..bench.pairs {
        let timed = |name: &str| {
            let pod = pod(&cri, name)?;
            let main = start(&cri, &pod, "main")?;
            let begun = Instant::now();
            until_it_has_one(&cri, &main)?;
            Ok::<_, Trouble>((ms(begun), pod))
        };
        // Try both; the pool may have neither.
        for cpu in ["0", "1"] {
            let _has_not =
                node.ok(&["poolcfg", "-d", "-c", &format!("transfer to pset pset_default ( cpu {cpu} )")]);
        }
        let poold = Daemon::start(&mut bench.command(&["poold"]))?;
        sleep(Duration::from_secs(1));
        let (ours, first) = timed("first")?;
        // The pool already has its CPU: this measures the overhead of polling.
        let (peer, next) = timed("next")?;
        pairs.push(ours, peer);
        drop(poold);
        remove(&cri, &first)?;
        remove(&cri, &next)?;
        sleep(Duration::from_secs(1));
    }
    Ok(pairs)
}
