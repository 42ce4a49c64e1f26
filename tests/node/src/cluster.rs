//! The parts of a cluster on this machine, each a process that ends with the test: an API server with its store, a scheduler, a
//! kubelet. `kubernetes/build.sh` builds them.

use crate::runtime::{Daemon, PODS, Runtime, done, eventually};
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The environment variable with the directory of the parts. Their programs are in its `bin`.
pub const PARTS: &str = "MILLPOND_KUBERNETES";

/// The administrator's token for the API server.
const TOKEN: &str = "millpond-tests";

/// An API server with its store.
#[derive(Debug)]
pub struct Cluster {
    dir: PathBuf,
    parts: PathBuf,
    port: u16,
    // Fields are dropped in this order.
    server: Daemon,
    _store: Daemon,
}

impl Cluster {
    /// Starts the server with all its data below `dir`.
    ///
    /// # Errors
    /// A message.
    pub fn begin(parts: &Path, dir: &Path) -> Result<Cluster, String> {
        fs::create_dir_all(dir).map_err(|error| error.to_string())?;
        let in_dir = |name: &str| dir.join(name).display().to_string();
        done(Command::new("openssl").args(["genrsa", "-out", &in_dir("sa.key"), "2048"]))?;
        let key = ["rsa", "-in", &in_dir("sa.key"), "-pubout", "-out", &in_dir("sa.pub")];
        done(Command::new("openssl").args(key))?;
        let tokens = format!("{TOKEN},admin,admin,\"system:masters\"\n");
        fs::write(dir.join("tokens.csv"), tokens).map_err(|error| error.to_string())?;
        let [store, peers, port] = [free_port()?, free_port()?, free_port()?];
        let at = |port: u16| format!("http://127.0.0.1:{port}");
        let mut etcd = Command::new("etcd");
        etcd.args(["--unsafe-no-fsync", "--logger=zap", "--log-level=error", "--data-dir", &in_dir("etcd")])
            .args(["--listen-client-urls", &at(store), "--advertise-client-urls", &at(store)])
            .args(["--listen-peer-urls", &at(peers), "--initial-advertise-peer-urls", &at(peers)])
            .args(["--initial-cluster", &format!("default={}", at(peers))]);
        let etcd = Daemon::start(&mut etcd)?;
        let mut server = Command::new(parts.join("bin/kube-apiserver"));
        server
            .arg(format!("--etcd-servers={}", at(store)))
            .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
            .args([format!("--secure-port={port}"), format!("--cert-dir={}", in_dir("certificates"))])
            .args([format!("--token-auth-file={}", in_dir("tokens.csv"))])
            .args(["--authorization-mode=Node,RBAC", "--allow-privileged=true"])
            // This plugin would wait for a controller that creates an account for each namespace.
            .args(["--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none"])
            .args([format!("--service-account-key-file={}", in_dir("sa.pub"))])
            .args([format!("--service-account-signing-key-file={}", in_dir("sa.key"))])
            .args(["--service-account-issuer=https://127.0.0.1", "--service-cluster-ip-range=10.0.0.0/24"]);
        let server = Daemon::start(&mut server)?;
        let cluster = Cluster { dir: dir.to_owned(), parts: parts.to_owned(), port, server, _store: etcd };
        cluster.write_access("access", TOKEN)?;
        let is_ready = || cluster.kubectl(["get", "--raw", "/readyz"]);
        eventually(is_ready).map_err(|why| format!("{why}\n{}", cluster.server.lines().join("\n")))?;
        Ok(cluster)
    }

    /// Writes a kubeconfig file with a token.
    fn write_access(&self, name: &str, token: &str) -> Result<PathBuf, String> {
        let file = self.dir.join(name);
        let text = format!(
            "apiVersion: v1\nkind: Config\n\
             clusters: [{{name: c, cluster: {{server: \"https://127.0.0.1:{}\", insecure-skip-tls-verify: true}}}}]\n\
             users: [{{name: u, user: {{token: \"{token}\"}}}}]\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n",
            self.port
        );
        fs::write(&file, text).map_err(|error| error.to_string())?;
        Ok(file)
    }

    /// A kubeconfig file with the rights of an account of the namespace millpond.
    ///
    /// # Errors
    /// A message.
    pub fn access_of(&self, account: &str) -> Result<PathBuf, String> {
        let token = self.kubectl(["-n", "millpond", "create", "token", account])?;
        self.write_access(account, token.trim())
    }

    /// The administrator's kubeconfig file.
    #[must_use]
    pub fn access(&self) -> PathBuf {
        self.dir.join("access")
    }

    /// The output of kubectl.
    ///
    /// # Errors
    /// Its error output when it fails.
    pub fn kubectl<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, words: I) -> Result<String, String> {
        self.kubectl_with(words, "")
    }

    /// Sends objects to the API server, as YAML.
    ///
    /// # Errors
    /// The error output of kubectl when it fails.
    pub fn apply(&self, objects: &str) -> Result<String, String> {
        self.kubectl_with(["apply", "--server-side", "--force-conflicts", "-f", "-"], objects)
    }

    fn kubectl_with<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(
        &self,
        words: I,
        input: &str,
    ) -> Result<String, String> {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(self.access()).args(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("kubectl: {error}"))?;
        let fed = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(input.as_bytes()));
        let said = child.wait_with_output().map_err(|error| error.to_string())?;
        let (out, err) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
        match said.status.success() && fed.is_ok() {
            true => Ok(out.into_owned()),
            false => Err(format!("{out}{err}")),
        }
    }

    /// Starts a part that only needs access to the API server, such as the scheduler.
    ///
    /// # Errors
    /// A message.
    pub fn part(&self, name: &str, words: &[&str]) -> Result<Daemon, String> {
        let mut command = Command::new(self.parts.join("bin").join(name));
        command.arg(format!("--kubeconfig={}", self.access().display())).args(words);
        Daemon::start(&mut command)
    }

    /// The process id of the API server.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// A counter of the API server: the sum of the series whose labels contain all these texts.
    ///
    /// # Errors
    /// A message.
    pub fn counted(&self, name: &str, labels: &[&str]) -> Result<f64, String> {
        let text = self.kubectl(["get", "--raw", "/metrics"])?;
        let of = |line: &str| {
            let (series, value) = line.rsplit_once(' ')?;
            let is_meant = series.starts_with(name) && labels.iter().all(|label| series.contains(label));
            is_meant.then(|| value.parse::<f64>().ok()).flatten()
        };
        Ok(text.lines().filter_map(of).sum())
    }
}

/// Starts a kubelet on a container runtime. Its cgroups are below those of the tests, and it does not change settings of the
/// host.
///
/// # Errors
/// A message.
pub fn kubelet(
    parts: &Path,
    dir: &Path,
    runtime: &Runtime,
    access: Option<&Path>,
    manifests: Option<&Path>,
) -> Result<Daemon, String> {
    let wrote = fs::create_dir_all(dir).and_then(|()| {
        groups_for_pods()?;
        fs::write(dir.join("kubelet.yaml"), configuration(dir, runtime, manifests))
    });
    wrote.map_err(|error| error.to_string())?;
    let mut shell = Command::new("unshare");
    shell.args(["-m", "sh", "-c", SETTINGS, "sh"]).arg(dir.join("settings"));
    shell.arg(parts.join("bin/kubelet")).arg(format!("--config={}", dir.join("kubelet.yaml").display()));
    shell.arg(format!("--root-dir={}", dir.join("root").display()));
    shell.arg(format!("--cert-dir={}", dir.join("certificates").display()));
    shell.args(["--hostname-override=here".to_owned(), format!("--node-ip={}", own_address()?)]);
    shell.args(access.map(|file| format!("--kubeconfig={}", file.display())));
    Daemon::start(&mut shell)
}

/// A kubelet writes some settings of the whole machine, and sockets of device plugins below `/var/lib`. It does not write
/// settings that already have the required values. So it runs in a mount namespace that shows these values, with a directory of
/// its own.
const SETTINGS: &str = "
set -e
dir=$1
shift
mkdir -p \"$dir\"
while read -r setting value; do
    [ \"$(cat /proc/sys/$setting)\" != $value ] || continue
    file=$dir/$(echo $setting | tr / -)
    echo $value >\"$file\"
    mount --bind \"$file\" /proc/sys/$setting
done <<END
vm/overcommit_memory 1
vm/panic_on_oom 0
kernel/panic 10
kernel/panic_on_oops 1
kernel/keys/root_maxkeys 1000000
kernel/keys/root_maxbytes 25000000
END
mkdir -p \"$dir/lib\"
mount --bind \"$dir/lib\" /var/lib
exec \"$@\"";

fn configuration(dir: &Path, runtime: &Runtime, manifests: Option<&Path>) -> String {
    let manifests = manifests.map(|dir| format!("staticPodPath: {}\n", dir.display())).unwrap_or_default();
    format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
         authentication: {{anonymous: {{enabled: true}}, webhook: {{enabled: false}}}}\n\
         authorization: {{mode: AlwaysAllow}}\naddress: 127.0.0.1\nport: {}\nreadOnlyPort: 0\nhealthzPort: 0\n\
         cgroupDriver: cgroupfs\ncgroupRoot: /{PODS}\nfailCgroupV1: false\nfailSwapOn: false\n\
         containerRuntimeEndpoint: unix://{}\npodLogsDir: {}\nmakeIPTablesUtilChains: false\n\
         localStorageCapacityIsolation: false\nevictionHard: {{memory.available: 1Mi}}\nresolvConf: \"\"\n\
         cpuManagerPolicy: none\nsyncFrequency: 2s\nconfigMapAndSecretChangeDetectionStrategy: Watch\n{manifests}",
        free_port().unwrap_or(11_250),
        runtime.socket().display(),
        dir.join("logs").display(),
    )
}

/// Creates the cgroup of the tests in every hierarchy, because a kubelet requires it. On version 1 a new cgroup has no CPUs.
fn groups_for_pods() -> std::io::Result<()> {
    let top = Path::new("/sys/fs/cgroup");
    if top.join("cgroup.controllers").exists() {
        return fs::create_dir_all(top.join(PODS));
    }
    for hierarchy in fs::read_dir(top)?.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()) {
        let group = hierarchy.join(PODS);
        fs::create_dir_all(&group)?;
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if let Ok(all) = fs::read_to_string(hierarchy.join(file)) {
                fs::write(group.join(file), all.trim())?;
            }
        }
    }
    Ok(())
}

/// An address by which other machines reach this one. A kubelet accepts no other address as its own.
///
/// # Errors
/// A message.
pub fn own_address() -> Result<IpAddr, String> {
    // Nothing is sent: the kernel selects the source address.
    let asked = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    asked.map(|address| address.ip()).map_err(|error| format!("this machine has no address: {error}"))
}

/// A port that is unused at the moment.
///
/// # Errors
/// A message.
pub fn free_port() -> Result<u16, String> {
    let bound = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    bound.map(|address| address.port()).map_err(|error| error.to_string())
}
