//! The machine on which the agent is tested. On this host, pools do not exclude other tasks, so that only processes started here
//! are affected. In a guest, pools exclude them.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "for tests alone"
)]

use crate::runtime::{Daemon, IMAGE, Runtime, tools_of_guest};
use millpond_model::CpuSet;
use millpond_vm::{
    Cache, ContainerTools, Containerd, Unavailable, cargo_binary, is_required, obtain_containerd,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Why the tests cannot run here; `None` if they can.
fn unavailable() -> Option<Unavailable> {
    if !rustix::process::geteuid().is_root() {
        return Some(Unavailable::new("containers are made by root", "run these tests as root"));
    }
    let state = Path::new("/run/millpond/records/pools");
    if state.exists() || Path::new("/var/lib/kubelet").exists() {
        return Some(Unavailable::new(
            "pools or a kubelet are in use here",
            "run these tests on another machine",
        ));
    }
    (cpus_here() < 2)
        .then(|| Unavailable::new("a pool needs a second CPU", "run these tests on a larger machine"))
}

/// Number of on-line CPUs of the machine. The test itself may have fewer while pools exclude it.
#[must_use]
pub fn cpus_here() -> usize {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    online.trim().parse::<CpuSet>().unwrap().len()
}

/// Checks that a container can be run at all, before an agent exists.
fn runs_a_container(runtime: &Runtime) -> Result<(), String> {
    let said = |status: tonic::Status| status.message().to_owned();
    let cri = runtime.cri()?;
    let pod = cri.run_pod("probe", &[]).map_err(said)?;
    let main = cri.start(&pod, "main", (IMAGE, &["sleep", "1000000"]), 0).map_err(said)?;
    cri.exec(&main, &["cat", "/proc/self/status"]).map_err(said)?;
    cri.remove(&pod).map_err(said)
}

/// The maximal number of CPUs of the pool.
#[must_use]
pub fn most() -> usize {
    (cpus_here() - 1).min(3)
}

/// A machine with a container runtime and a pool web with CPU 1.
#[derive(Debug)]
pub struct Node {
    /// The program under test.
    pub program: PathBuf,
    /// The directory of all data.
    pub dir: tempfile::TempDir,
    /// The container runtime.
    pub runtime: Runtime,
    /// Whether pools leave other tasks on their CPUs.
    pub keeps_others: bool,
}

impl Node {
    /// Enables pools and starts the runtime.
    ///
    /// # Errors
    /// Why it is not possible here.
    pub fn begin(version: Containerd) -> Result<Node, Unavailable> {
        if let Some(why) = unavailable() {
            return Err(why);
        }
        let tools = match tools_of_guest() {
            Some(tools) => tools,
            None => obtain_containerd(version, &Cache::from_environment()?, &|note| eprintln!("{note}"))?,
        };
        Node::begin_with(tools)
    }

    /// The same with these runtime programs.
    ///
    /// # Errors
    /// Why it is not possible here.
    pub fn begin_with(tools: ContainerTools) -> Result<Node, Unavailable> {
        if let Some(why) = unavailable() {
            return Err(why);
        }
        let keeps_others = tools_of_guest().is_none();
        let dir = tempfile::tempdir().unwrap();
        let runtime = Runtime::begin(tools, &dir.path().join("containerd"))
            .and_then(|runtime| runs_a_container(&runtime).map(|()| runtime))
            .map_err(|why| Unavailable::new(why, "run these tests where a container runtime can run"))?;
        let node = Node { program: cargo_binary("millpond").unwrap(), dir, runtime, keeps_others };
        node.ok(if keeps_others { &["pooladm", "-e", "--keep-others"] } else { &["pooladm", "-e"] });
        let script = format!(
            "create pset webset ( uint pset.min = 0 ; uint pset.max = {} )\ncreate pool web\n\
             associate pool web ( pset webset )\ntransfer to pset webset ( cpu 1 )",
            most()
        );
        node.ok(&["poolcfg", "-d", "-c", &script]);
        Ok(node)
    }

    /// The state directory.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// The program with these arguments.
    #[must_use]
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).env("MILLPOND_STATE", self.state()).env_remove("MILLPOND_KILL_AT");
        command
    }

    /// The output of the program.
    ///
    /// # Errors
    /// Its error output when it fails.
    pub fn run(&self, words: &[&str]) -> Result<String, String> {
        let said = self.command(words).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
        if said.status.success() { Ok(out.into_owned()) } else { Err(format!("{words:?}: {out}{err}")) }
    }

    /// The output of the program, which must not fail.
    pub fn ok(&self, words: &[&str]) -> String {
        self.run(words).unwrap_or_else(|why| panic!("{why}"))
    }

    /// The agent with these arguments, killed at the given moment.
    #[must_use]
    pub fn agent_with(&self, more: &[&str], kill_at: Option<&str>) -> Daemon {
        let mut command = self.command(&["node", "--kubelet-dir"]);
        command.arg(self.dir.path()).arg("--socket").arg(self.runtime.plugins()).args(more);
        command.envs(kill_at.map(|at| ("MILLPOND_KILL_AT", at)));
        Daemon::start(&mut command).unwrap()
    }

    /// The agent, connected to the runtime.
    #[must_use]
    pub fn agent(&self) -> Daemon {
        let mut agent = self.agent_with(&[], None);
        agent.says("tells of its containers").unwrap();
        agent
    }

    /// Exchanges the CPU of the pool, in one commit.
    pub fn swap(&self, from: u32, to: u32) {
        let script =
            format!("transfer to pset pset_default ( cpu {from} )\ntransfer to pset webset ( cpu {to} )");
        self.ok(&["poolcfg", "-d", "-c", &script]);
    }

    /// The CPU requests of the pool's containers, in thousandths.
    #[must_use]
    pub fn requests(&self) -> Option<u64> {
        let info = self.ok(&["poolcfg", "-dc", "info pool web"]);
        let line = info.lines().find(|line| line.contains("millpond.requests"))?;
        line.split_ascii_whitespace().last()?.parse().ok()
    }

    /// The CPUs of tasks outside pools, while the pool has one CPU.
    #[must_use]
    pub fn rest(&self, without: u32) -> String {
        let all = (0..cpus_here()).filter(|cpu| self.keeps_others || *cpu != without as usize);
        all.map(|cpu| millpond_model::CpuId(u32::try_from(cpu).unwrap())).collect::<CpuSet>().to_string()
    }

    /// The listing of zones.
    #[must_use]
    pub fn zones(&self) -> String {
        self.ok(&["zones"])
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Err(why) = self.run(&["pooladm", "-d"]) {
            eprintln!("pools stay: {why}");
        }
    }
}

/// Runs a test on a node, or prints why that is not possible.
pub fn with(version: Containerd, test: impl FnOnce(&mut Node)) {
    with_node(|| Node::begin(version), test);
}

/// The same with a node from `begin`.
pub fn with_node(begin: impl FnOnce() -> Result<Node, Unavailable>, test: impl FnOnce(&mut Node)) {
    // The pools of the host are shared, whatever their state directory, so only one test runs at a time.
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match begin() {
        Ok(mut node) => test(&mut node),
        Err(why) if is_required() => panic!("{}; hint: {}", why.why, why.what_would_help),
        Err(why) => eprintln!("SKIPPED: {}; hint: {}", why.why, why.what_would_help),
    }
}
