//! Pods that run Millpond's loads together. The programs are those of `millpond experiment service --machine real`: requests
//! arrive at random, all need the same CPU time, and the batch job has a thread for each CPU. The service requests one CPU
//! and the batch job a hundredth of one, from which the runtime derives weights.

use crate::trial::{Trouble, find_program, ms, told};
use millpond_model::CpuSet;
use millpond_node_tests::{Cri, Daemon, RunningPod, Runtime, Status, done, eventually, tools_of_guest};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

const IMAGE: &str = "localhost/millpond:local";
const PROGRAM: &str = "/bin/millpond";

/// Run time; the first two seconds are not counted.
const SECONDS: u32 = 12;

/// A container's command.
const SPIN: [&str; 8] = [PROGRAM, "load", "spin", "--threads", "4", "--seconds", "12", "--json"];
const SERVICE: [&str; 14] = [
    PROGRAM,
    "load",
    "service",
    "--threads",
    "4",
    "--rate",
    "75",
    "--work",
    "2",
    "--settle",
    "2",
    "--seconds",
    "10",
    "--json",
];
const FOUR: [&str; 7] = [PROGRAM, "load", "spin", "--threads", "4", "--seconds", "100"];
const TWO: [&str; 7] = [PROGRAM, "load", "spin", "--threads", "2", "--seconds", "100"];
const THREE: [&str; 7] = [PROGRAM, "load", "spin", "--threads", "3", "--seconds", "100"];

/// How the service is separated from the batch job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arm {
    Pool,
    Weights,
    Lists,
}

/// A machine with containers, and a pool `web` of one to three CPUs.
struct Ground {
    millpond: PathBuf,
    runtime: Runtime,
    cri: Cri,
}

/// Number of changes in a minute, its seconds, and poold's reason for each change.
type Steady = ((f64, f64), Vec<String>);

/// poold and the agent, while pools are enabled.
struct Managed<'g> {
    ground: &'g Ground,
    poold: Daemon,
    _agent: Daemon,
}

impl Ground {
    fn begin() -> Result<Ground, Trouble> {
        let tools = tools_of_guest().ok_or("it is no guest with containerd")?;
        let millpond = find_program("millpond")?;
        let runtime = Runtime::begin(tools, Path::new("/containers/containerd"))?;
        runtime.import(&millpond, IMAGE, &[])?;
        let cri = runtime.cri()?;
        Ok(Ground { millpond, runtime, cri })
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.millpond);
        command.args(words);
        command
    }

    fn ok(&self, words: &[&str]) -> Result<(), Trouble> {
        done(&mut self.command(words))
    }

    fn edit(&self, script: &str) -> Result<(), Trouble> {
        self.ok(&["poolcfg", "-d", "-c", script])
    }

    fn manage(&self) -> Result<Managed<'_>, Trouble> {
        self.ok(&["pooladm", "-e"])?;
        self.edit(
            "create pset webset ( uint pset.min = 1 ; uint pset.max = 3 )\ncreate pool web\n\
             associate pool web ( pset webset )\ntransfer to pset webset ( cpu 1 )",
        )?;
        let mut agent = self.command(&["node", "--kubelet-dir", "/containers", "--socket"]);
        let mut agent = Daemon::start(agent.arg(self.runtime.plugins()))?;
        agent.says("tells of its containers")?;
        let mut poold = Daemon::start(&mut self.command(&["poold", "-l", "INFO"]))?;
        poold.says("configuration complete")?;
        Ok(Managed { ground: self, poold, _agent: agent })
    }

    fn pod(&self, name: &str, is_in_pool: bool) -> Result<RunningPod, Trouble> {
        let pool = [("millpond.dev/pool", "web")];
        let annotations = if is_in_pool { &pool[..] } else { &[] };
        self.cri.run_pod(name, annotations).map_err(said("make a pod"))
    }

    fn start(&self, pod: &RunningPod, words: &[&str], milli: u32) -> Result<String, Trouble> {
        self.cri.start(pod, "main", (IMAGE, words), milli).map_err(said("start a container"))
    }

    fn remove(&self, pod: &RunningPod) -> Result<(), Trouble> {
        // The runtime may time out when it gets little CPU time.
        eventually(|| self.cri.remove(pod).map_err(said("remove a pod")))
    }

    /// p99 of response times in milliseconds, and millions of iterations of the batch job per second.
    fn play(&self, arm: Arm) -> Result<(f64, f64), Trouble> {
        let pods = [self.pod("service", arm == Arm::Pool)?, self.pod("batch", false)?];
        let batch = self.start(&pods[1], &SPIN, 10)?;
        let service = self.start(&pods[0], &SERVICE, 1_000)?;
        if arm == Arm::Lists {
            self.cri.pin(&service, "1").map_err(said("pin the service"))?;
            self.cri.pin(&batch, "0,2-3").map_err(said("pin the batch"))?;
        }
        let (served, batched) = (self.result(&pods[0])?, self.result(&pods[1])?);
        pods.iter().try_for_each(|pod| self.remove(pod))?;
        let threads = batched["threads"].as_array().ok_or("the batch has no threads")?;
        let iterations: f64 =
            threads.iter().map(|thread| number(&thread["iterations"])).sum::<Result<_, _>>()?;
        Ok((number(&served["p99_ms"])?, iterations / number(&batched["seconds"])? / 1e6))
    }

    /// The final output of the load in a pod.
    fn result(&self, pod: &RunningPod) -> Result<Value, Trouble> {
        let begun = Instant::now();
        loop {
            let text = self.cri.written(pod, "main");
            if let Some(line) = text.lines().find(|line| line.starts_with('{')) {
                let value: Value = told("read what a load said", serde_json::from_str(line))?;
                return Ok(value["result"].clone());
            }
            if begun.elapsed() > Duration::from_secs(u64::from(3 * SECONDS)) {
                return Err(format!("a load said nothing but `{text}`"));
            }
            sleep(Duration::from_millis(100));
        }
    }
}

impl Managed<'_> {
    /// Milliseconds from releasing three threads in the pool until it has its second CPU, while four threads compute in the
    /// default pool; and the time of the same change by hand.
    fn demand(&self) -> Result<(f64, f64), Trouble> {
        let ground = self.ground;
        let others = ground.pod("others", false)?;
        ground.start(&others, &FOUR, 10)?;
        let pod = ground.pod("grows", true)?;
        let idle = [PROGRAM, "load", "service", "--rate", "1", "--seconds", "100"];
        let asks = ground.cri.start(&pod, "asks", (IMAGE, &idle), 10).map_err(said("start a container"))?;
        until(&pod, &asks, |cpus| cpus == 1)?;
        let main = ground.start(&pod, &THREE, 10)?;
        // Stop the threads until the measurement, because creating a container is slow.
        signal(&pod, &main, Signal::STOP)?;
        until(&pod, &asks, |cpus| cpus == 1)?;
        sleep(Duration::from_secs(2));
        signal(&pod, &main, Signal::CONT)?;
        let begun = Instant::now();
        until(&pod, &main, |cpus| cpus >= 2)?;
        let ours = ms(begun);
        ground.remove(&pod)?;
        let pod = ground.pod("given", true)?;
        let asks = ground.start(&pod, &idle, 10)?;
        until(&pod, &asks, |cpus| cpus == 1)?;
        let begun = Instant::now();
        ground.edit("transfer 1 from pset pset_default to webset")?;
        let peer = ms(begun);
        ground.remove(&pod)?;
        ground.remove(&others)?;
        Ok((ours, peer))
    }

    /// A minute in which two threads compute on two CPUs, with one decision of poold per second.
    fn steady(&self) -> Result<Steady, Trouble> {
        // Two CPUs remain for the runtime, which also works.
        self.ground.edit("modify pset webset ( uint pset.max = 2 )")?;
        let pod = self.ground.pod("steady", true)?;
        let main = self.ground.start(&pod, &TWO, 10)?;
        until(&pod, &main, |cpus| cpus == 2)?;
        sleep(Duration::from_secs(5));
        let before = self.moves().len();
        sleep(Duration::from_secs(60));
        let why = self.moves().split_off(before);
        self.ground.remove(&pod)?;
        self.ground.edit("modify pset webset ( uint pset.max = 3 )")?;
        Ok(((why.len() as f64, 60.0), why))
    }

    fn moves(&self) -> Vec<String> {
        let is_move = |line: &String| line.contains(": moved ") || line.contains("applying move");
        self.poold.lines().into_iter().filter(is_move).collect()
    }
}

/// Sends a signal to the processes of a container.
fn signal(pod: &RunningPod, container: &str, signal: Signal) -> Result<(), Trouble> {
    let file = format!("/sys/fs/cgroup{}/cgroup.procs", pod.group_of(container));
    let text = told(&format!("read {file}"), std::fs::read_to_string(&file))?;
    for pid in text.lines().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)) {
        told("send a signal", kill_process(pid, signal))?;
    }
    Ok(())
}

fn until(pod: &RunningPod, container: &str, is_so: impl Fn(usize) -> bool) -> Result<(), Trouble> {
    let file = format!("/sys/fs/cgroup{}/cpuset.cpus.effective", pod.group_of(container));
    let begun = Instant::now();
    loop {
        let text = told(&format!("read {file}"), std::fs::read_to_string(&file))?;
        let is = told("read a list", text.trim().parse::<CpuSet>())?.len();
        if is_so(is) {
            return Ok(());
        }
        if begun.elapsed() > Duration::from_secs(30) {
            return Err(format!("the container has {is} CPUs still"));
        }
        sleep(Duration::from_millis(1));
    }
}

fn said(what: &str) -> impl Fn(Status) -> Trouble {
    move |why| format!("cannot {what}: {}", why.message())
}

fn number(value: &Value) -> Result<f64, Trouble> {
    value.as_f64().ok_or_else(|| format!("{value} is no number"))
}

/// This many rounds of each arm.
pub(super) fn measure(rounds: usize) -> Result<Value, Trouble> {
    let ground = Ground::begin()?;
    let (mut arms, mut demand, mut steady, mut why) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let managed = ground.manage()?;
        demand.push(managed.demand()?);
        if round == 0 {
            // Only once, because it is slow.
            let (found, said) = managed.steady()?;
            steady.push(found);
            why = said;
        }
        let pool = ground.play(Arm::Pool)?;
        drop(managed);
        ground.ok(&["pooladm", "-d"])?;
        arms.push([pool, ground.play(Arm::Weights)?, ground.play(Arm::Lists)?]);
    }
    Ok(json!({ "arms": arms, "demand": demand, "steady": steady, "why": why }))
}
