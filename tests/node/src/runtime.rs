//! The container runtime, and other daemons.

use crate::Cri;
use millpond_vm::ContainerTools;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Timeout of expected events, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// The name of the image that [`Runtime::begin`] imports.
pub const IMAGE: &str = "localhost/busybox:local";

/// The cgroup of all pods. It has the prefix of the kubelet's cgroups, and belongs to no kubelet.
pub(crate) const PODS: &str = "kubepods-tests";

/// The environment variable with the directory of containerd, runc and busybox in a guest.
pub const TOOLS: &str = "MILLPOND_NODE_TOOLS";

/// The tools of a guest, if this runs in one.
#[must_use]
pub fn tools_of_guest() -> Option<ContainerTools> {
    let bin = PathBuf::from(std::env::var_os(TOOLS)?);
    Some(ContainerTools { runc: bin.join("runc"), busybox: bin.join("busybox"), bin })
}

/// The applets of busybox that containers need.
const APPLETS: [&str; 4] = ["sh", "sleep", "cat", "grep"];

/// Waits until a condition holds.
///
/// # Errors
/// The last error of `is`, if it does not hold after three minutes. The long timeout is for busy hosts.
pub fn eventually<T>(mut is: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    let begun = Instant::now();
    loop {
        match is() {
            Err(why) if begun.elapsed() > PATIENCE => return Err(why),
            Err(_) => thread::sleep(Duration::from_millis(20)),
            done => return done,
        }
    }
}

/// A background process whose output lines are collected. It is killed on drop.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Daemon {
    /// Starts the process. Collects its standard error.
    ///
    /// # Errors
    /// The system's error, as text.
    pub fn start(command: &mut Command) -> Result<Daemon, String> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (kept, stderr) = (Arc::clone(&lines), child.stderr.take());
        thread::spawn(move || {
            for line in stderr.map(BufReader::new).into_iter().flat_map(BufRead::lines) {
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(line.unwrap_or_default());
            }
        });
        Ok(Daemon { child, lines })
    }

    /// The lines written so far.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until it has written a line with this text.
    ///
    /// # Errors
    /// All its output, after three minutes or if it has ended.
    pub fn says(&mut self, text: &str) -> Result<(), String> {
        eventually(|| {
            let has_ended = self.has_ended();
            let lines = self.lines();
            if lines.iter().any(|line| line.contains(text)) {
                return Ok(Ok(()));
            }
            let why = format!("`{text}` was not said, but:\n{}", lines.join("\n"));
            if has_ended { Ok(Err(why)) } else { Err(why) }
        })
        .flatten()
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|ended| ended.is_some())
    }

    /// Kills it and waits for its end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until it ends by itself.
    ///
    /// # Errors
    /// It did not end.
    pub fn end(&mut self) -> Result<ExitStatus, String> {
        eventually(|| self.child.try_wait().ok().flatten().ok_or_else(|| "it did not end".to_owned()))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

/// containerd.
#[derive(Debug)]
pub struct Runtime {
    tools: ContainerTools,
    dir: PathBuf,
    daemon: Daemon,
}

impl Runtime {
    /// Starts containerd with all its data below `dir`, and imports an image of busybox.
    ///
    /// # Errors
    /// A message.
    pub fn begin(tools: ContainerTools, dir: &Path) -> Result<Runtime, String> {
        let wrote = fs::create_dir_all(dir)
            .and_then(|()| fs::write(dir.join("config.toml"), configuration(&tools, dir)));
        wrote.map_err(|error| error.to_string())?;
        let daemon = daemon(&tools, dir)?;
        let runtime = Runtime { tools, dir: dir.to_owned(), daemon };
        runtime.cri()?;
        runtime.import(&runtime.tools.busybox, IMAGE, &APPLETS)?;
        Ok(runtime)
    }

    /// Imports an image with one static program and links to it.
    ///
    /// # Errors
    /// A message.
    pub fn import(&self, program: &Path, name: &str, links: &[&str]) -> Result<(), String> {
        let image = self.dir.join("image").join(program.file_name().unwrap_or_default());
        fs::create_dir_all(&image).map_err(|error| error.to_string())?;
        let mut script = Command::new("sh");
        script.args(["-c", include_str!("../../../deploy/image.sh"), "sh"]);
        done(script.arg(program).arg(name).arg(&image).args(links))?;
        let import = |options: &[&str]| {
            let mut import = Command::new(self.tools.bin.join("ctr"));
            import.arg("-a").arg(self.socket()).args(["-n", "k8s.io", "image", "import"]).args(options);
            done(import.arg(image.join("image.tar")))
        };
        // 1.7 always imports in this way and does not know the option.
        import(&["--local"]).or_else(|_| import(&[]))
    }

    /// Kills and restarts it with the same data. Containers keep running.
    ///
    /// # Errors
    /// A message.
    pub fn restart(&mut self) -> Result<(), String> {
        self.daemon.kill();
        self.daemon = daemon(&self.tools, &self.dir)?;
        self.cri().map(drop)
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.daemon.pid()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.join("containerd.sock")
    }

    /// The socket for plugins.
    #[must_use]
    pub fn plugins(&self) -> PathBuf {
        self.dir.join("nri.sock")
    }

    /// A connection like that of a kubelet.
    ///
    /// # Errors
    /// A message with its output.
    pub fn cri(&self) -> Result<Cri, String> {
        eventually(|| {
            let cri = Cri::connect(&self.socket(), &self.dir.join("logs"))?;
            cri.version().map_err(|status| status.message().to_owned())?;
            Ok(cri)
        })
        .map_err(|why| format!("{why}\n{}", self.daemon.lines().join("\n")))
    }
}

impl Drop for Runtime {
    /// Containers outlive their runtime. Removes them, their supervisors, their mounts and their cgroups.
    fn drop(&mut self) {
        self.daemon.kill();
        let trees = trees_of_pods();
        for _ in 0..50 {
            let inside = trees.iter().flat_map(|tree| processes_below(tree));
            let all: Vec<i32> = inside.chain(started_for(&self.dir)).collect();
            if all.is_empty() {
                break;
            }
            for pid in all.into_iter().filter_map(rustix::process::Pid::from_raw) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
            thread::sleep(Duration::from_millis(20));
        }
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let mine = mounts
            .lines()
            .filter_map(|line| line.split(' ').nth(1))
            .filter(|at| Path::new(at).starts_with(&self.dir));
        for at in mine.collect::<Vec<_>>().into_iter().rev() {
            let _ = rustix::mount::unmount(at, rustix::mount::UnmountFlags::DETACH);
        }
        trees.iter().for_each(|tree| remove_groups(tree));
    }
}

/// The cgroups of all pods, in every hierarchy.
fn trees_of_pods() -> Vec<PathBuf> {
    let top = Path::new("/sys/fs/cgroup");
    let hierarchies = fs::read_dir(top).into_iter().flatten().flatten().map(|entry| entry.path());
    hierarchies.chain([top.to_owned()]).map(|dir| dir.join(PODS)).filter(|dir| dir.is_dir()).collect()
}

fn groups_below(tree: &Path) -> Vec<PathBuf> {
    let below = fs::read_dir(tree).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut all: Vec<PathBuf> =
        below.filter(|path| path.is_dir()).flat_map(|path| groups_below(&path)).collect();
    all.push(tree.to_owned());
    all
}

fn processes_below(tree: &Path) -> Vec<i32> {
    let of = |dir: PathBuf| fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    let all: Vec<String> = groups_below(tree).into_iter().map(of).collect();
    all.iter().flat_map(|text| text.lines()).filter_map(|pid| pid.parse().ok()).collect()
}

fn remove_groups(tree: &Path) {
    for dir in groups_below(tree) {
        let _ = fs::remove_dir(dir);
    }
}

/// Processes with the directory on their command line, except the test itself.
fn started_for(dir: &Path) -> Vec<i32> {
    let named = dir.display().to_string();
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let names = |pid: &i32| {
        fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains(&named))
    };
    pids.filter(|pid| *pid != own).filter(names).collect()
}

fn daemon(tools: &ContainerTools, dir: &Path) -> Result<Daemon, String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(tools.bin.join("containerd"));
    command.arg("-c").arg(dir.join("config.toml"));
    // It finds its supervisor of containers on this path.
    command.env("PATH", format!("{}:{path}", tools.bin.display()));
    Daemon::start(&mut command)
}

/// Runs a command and waits for it.
///
/// # Errors
/// The command failed, with its standard error.
pub fn done(command: &mut Command) -> Result<(), String> {
    let said = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    if said.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}: {}", said.status, String::from_utf8_lossy(&said.stderr)))
}

/// 1.7 and 2 both accept version 2 of the file.
fn configuration(tools: &ContainerTools, dir: &Path) -> String {
    let (dir, runc) = (dir.display(), tools.runc.display());
    // A guest has an in-memory root file system, which does not support overlays or pivot_root.
    let in_memory = std::env::var_os(TOOLS).is_some();
    let snapshotter = if in_memory { "native" } else { "overlayfs" };
    format!(
        r#"version = 2
root = "{dir}/root"
state = "{dir}/state"
[grpc]
  address = "{dir}/containerd.sock"
[ttrpc]
  address = "{dir}/containerd.sock.ttrpc"
[plugins."io.containerd.nri.v1.nri"]
  disable = false
  disable_connections = false
  plugin_config_path = "{dir}/nri/conf.d"
  plugin_path = "{dir}/nri/plugins"
  socket_path = "{dir}/nri.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{dir}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{IMAGE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{dir}/cni/bin"
    conf_dir = "{dir}/cni/conf"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "{runc}"
        SystemdCgroup = false
        NoPivotRoot = {in_memory}
"#
    )
}
