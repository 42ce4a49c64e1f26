//! Debian packages for guests, unpacked in the cache: systemd with its message bus, with the few files that make it process 1 of
//! a guest that runs cases in a service; irqbalance, for cases; rtla, which is compared with latstat; nginx, for tests of
//! diagnose; and the programs that are compared with a fence.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::apt::Apt;
use crate::cache::Cache;
use crate::capability::{Unavailable, busybox};
use crate::guest::Guest;
use crate::image::{Image, ImageError};

/// The suite of systemd: version 252, without `CPUSetPartition=`, as on most hosts.
const SUITE: &str = "bookworm";

/// Directories that guests do not need.
const DEAD: [&str; 16] = [
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/perl",
    "usr/share/perl5",
    "usr/share/info",
    "usr/share/i18n",
    "usr/share/zoneinfo",
    "usr/share/bash-completion",
    "usr/share/lintian",
    "usr/lib/x86_64-linux-gnu/perl-base",
    "usr/lib/x86_64-linux-gnu/perl",
    "usr/lib/x86_64-linux-gnu/gconv",
    "usr/lib/apt",
    "usr/lib/udev/hwdb.d",
    "lib/udev/hwdb.d",
];

/// Our units. Without default dependencies, only the units that a case needs are started.
const TARGET: &str =
    "[Unit]\nDescription=Cases\nDefaultDependencies=no\nWants=dbus.service millpond-vm.service\n";
const SERVICE: &str = "[Unit]\nDescription=Run the cases\nDefaultDependencies=no\nAfter=dbus.service\n[Service]\nType=exec\n\
                       ExecStart=/vm/systemd\nStandardOutput=null\nStandardError=null\nKillMode=process\n";

/// The message bus has no dependency on the basic system, either.
const EARLY: &str = "[Unit]\nDefaultDependencies=no\n";
/// The users for the message bus, which its package's scripts would have created.
const USERS: &str = "root:x:0:0:root:/root:/bin/sh\nmessagebus:x:101:101::/nonexistent:/usr/sbin/nologin\n";
const GROUPS: &str = "root:x:0:\nmessagebus:x:101:\n";

/// Debian packages that are unpacked together in a directory of the cache. They are not installed, so no service is started or
/// enabled.
struct Packages {
    /// Name of the directory.
    name: &'static str,
    suite: &'static str,
    packages: &'static [&'static str],
    /// Whether to include all dependencies. Otherwise they use the host's libraries.
    with_dependencies: bool,
}

impl Packages {
    /// The directory: from the cache, else from Debian's archive. `note` receives progress messages.
    ///
    /// # Errors
    /// Why they cannot be obtained, with a remedy.
    fn obtain(&self, cache: &Cache, note: &dyn Fn(&str)) -> Result<PathBuf, Unavailable> {
        let place = Path::new("userland").join(self.name);
        if cache.path(&place).is_dir() {
            return Ok(cache.path(&place));
        }
        let lock = cache.lock(&format!("userland-{}", self.name))?;
        if cache.path(&place).is_dir() {
            return Ok(cache.path(&place));
        }
        let scratch = cache.scratch(&format!("apt-{}.", self.name))?;
        let apt = Apt::new(scratch.path(), self.suite)?;
        note(&format!("{}: downloading it from {}", self.packages.join(", "), apt.archive()));
        apt.update()?;
        let debs = if self.with_dependencies {
            apt.download_with_dependencies(self.packages)?
        } else {
            apt.download(&self.packages.iter().map(|package| (*package).to_owned()).collect::<Vec<_>>())?
        };
        cache.publish(&lock, &place, |dir| unpack(&debs, dir))
    }
}

/// Gets systemd, the message bus and their libraries: from the cache, else from Debian's archive. `note` receives progress
/// messages.
///
/// # Errors
/// Why they cannot be obtained, with a remedy.
pub fn obtain_systemd(cache: &Cache, note: &dyn Fn(&str)) -> Result<PathBuf, Unavailable> {
    let packages = &["systemd", "dbus"];
    Packages { name: "systemd-dbus", suite: SUITE, packages, with_dependencies: true }.obtain(cache, note)
}

/// Gets a small Debian system with systemd and dpkg, with an empty package database. From the cache, else from Debian's archive.
/// `note` receives progress messages.
///
/// # Errors
/// Why it cannot be obtained, with a remedy.
pub fn obtain_debian(cache: &Cache, note: &dyn Fn(&str)) -> Result<PathBuf, Unavailable> {
    // Essential packages are not declared as dependencies of other packages, so they must be listed.
    let packages = &[
        "systemd",
        "dbus",
        "dpkg",
        "bash",
        "dash",
        "coreutils",
        "diffutils",
        "findutils",
        "grep",
        "gzip",
        "libc-bin",
        "procps",
        "sed",
        "tar",
        "util-linux",
    ];
    Packages { name: "debian", suite: SUITE, packages, with_dependencies: true }.obtain(cache, note)
}

/// Gets irqbalance: from the cache, else from Debian's archive. It uses the host's libraries. `note` receives progress messages.
///
/// # Errors
/// Why it cannot be obtained, with a remedy.
pub fn obtain_irqbalance(cache: &Cache, note: &dyn Fn(&str)) -> Result<PathBuf, Unavailable> {
    let packages = &["irqbalance"];
    let irqbalance = Packages { name: "irqbalance", suite: SUITE, packages, with_dependencies: false };
    Ok(irqbalance.obtain(cache, note)?.join("usr/sbin/irqbalance"))
}

/// Gets nginx: a command that runs it on this machine, with its own loader and libraries. From the cache, else from Debian's
/// archive. The packages are unpacked and not installed, so no service is started or enabled. `note` receives progress messages.
///
/// # Errors
/// Why it cannot be obtained, with a remedy.
pub fn obtain_nginx(cache: &Cache, note: &dyn Fn(&str)) -> Result<Command, Unavailable> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Unavailable::new(
            "nginx is fetched for x86-64 only",
            "install nginx, and disable its service",
        ));
    }
    // With its linked libraries.
    let packages = &["nginx", "libc6", "libcrypt1", "libpcre2-8-0", "libssl3", "zlib1g"];
    let nginx = Packages { name: "nginx", suite: SUITE, packages, with_dependencies: false };
    let place = nginx.obtain(cache, note)?;
    let libraries = place.join("lib/x86_64-linux-gnu");
    let mut command = Command::new(libraries.join("ld-linux-x86-64.so.2"));
    let mut path = libraries.into_os_string();
    path.push(":");
    path.push(place.join("usr/lib/x86_64-linux-gnu"));
    command.arg("--library-path").arg(path).arg(place.join("usr/sbin/nginx"));
    Ok(command)
}

/// Gets rtla with its libraries, which are newer than the host's: a tree whose programs are started by its own loader. From the
/// cache, else from Debian's archive. `note` receives progress messages.
///
/// # Errors
/// Why it cannot be obtained, with a remedy.
pub fn obtain_rtla(cache: &Cache, note: &dyn Fn(&str)) -> Result<PathBuf, Unavailable> {
    // The suite of the kernel whose tracer it reads.
    let rtla = Packages { name: "rtla", suite: "trixie", packages: &["rtla"], with_dependencies: true };
    rtla.obtain(cache, note)
}

/// A version of containerd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Containerd {
    /// 1.7, with plugins off by default.
    V1_7,
    /// The newest version in Debian, 2.1 or later.
    Newest,
}

/// The programs that run containers, and the contents of a container image.
#[derive(Debug, Clone)]
pub struct ContainerTools {
    /// The directory of containerd's programs.
    pub bin: PathBuf,
    /// The container runtime.
    pub runc: PathBuf,
    /// The program in the container image.
    pub busybox: PathBuf,
}

/// Their directory in a guest.
const CONTAINERS: &str = "/opt/containers";

impl ContainerTools {
    /// Adds the tools to a guest's image: `/opt/containers`.
    ///
    /// # Errors
    /// The programs or their libraries cannot be read.
    pub fn in_image(&self, mut image: Image) -> Result<Image, ImageError> {
        let own = ["containerd", "containerd-shim-runc-v2", "ctr"].map(|name| self.bin.join(name));
        for program in own.iter().chain([&self.runc, &self.busybox]) {
            let name = program.file_name().unwrap_or_default();
            image = image.program_at(&Path::new(CONTAINERS).join(name), program)?;
        }
        Ok(image)
    }
}

/// Gets containerd, and a runc that works with the host's libraries: from the cache, else from Debian's archive. They are
/// unpacked and not installed, so no service is started or enabled. `note` receives progress messages.
///
/// # Errors
/// Why they cannot be obtained, or do not run here, with a remedy.
pub fn obtain_containerd(
    version: Containerd,
    cache: &Cache,
    note: &dyn Fn(&str),
) -> Result<ContainerTools, Unavailable> {
    let (name, suite) = match version {
        Containerd::V1_7 => ("containerd-1.7", "trixie"),
        Containerd::Newest => ("containerd-newest", "sid"),
    };
    let packages = &["containerd"];
    let containerd = Packages { name, suite, packages, with_dependencies: false }.obtain(cache, note)?;
    let packages = &["runc", "libseccomp2"];
    let runc =
        Packages { name: "runc", suite: SUITE, packages, with_dependencies: false }.obtain(cache, note)?;
    let tools = ContainerTools {
        bin: containerd.join("usr/bin"),
        runc: runc.join("usr/sbin/runc"),
        busybox: busybox()?,
    };
    for program in [tools.bin.join("containerd"), tools.runc.clone()] {
        let said = Command::new(&program).arg("--version").stdin(Stdio::null()).output();
        if !said.is_ok_and(|said| said.status.success()) {
            let why = format!("Debian's {} does not run here", program.display());
            return Err(Unavailable::new(why, "run these tests on a newer system"));
        }
    }
    Ok(tools)
}

/// Gets the tools that isolate CPUs manually (cset, tuna and `TuneD`), with all dependencies: a tree for `chroot`. From the
/// cache, else from Debian's archive. `note` receives progress messages.
///
/// # Errors
/// Why they cannot be obtained, with a remedy.
pub fn obtain_isolators(cache: &Cache, note: &dyn Fn(&str)) -> Result<PathBuf, Unavailable> {
    // The last suite with cset, which needs cpusets of cgroup v1.
    let packages = &["cpuset", "tuna", "tuned", "bash", "coreutils", "kmod"];
    Packages { name: "isolators", suite: SUITE, packages, with_dependencies: true }.obtain(cache, note)
}

fn unpack(debs: &[PathBuf], dir: &Path) -> Result<(), Unavailable> {
    for deb in debs {
        let said = Command::new("dpkg-deb").arg("-x").arg(deb).arg(dir).stdin(Stdio::null()).output();
        if !said.is_ok_and(|s| s.status.success()) {
            let why = format!("cannot unpack {}", deb.display());
            return Err(Unavailable::new(why, "remove the file, or fetch it again"));
        }
    }
    for dead in DEAD {
        let _ = fs::remove_dir_all(dir.join(dead));
    }
    Ok(())
}

impl Guest {
    /// Makes systemd (from [`obtain_systemd`]) process 1. Cases then run in a service, in `system.slice`. Nothing is restored
    /// between them.
    ///
    /// # Errors
    /// Its files cannot be read.
    pub fn systemd(self, userland: &Path) -> Result<Self, ImageError> {
        let image = Image::new()
            .tree("/", userland)?
            .file("/vm/systemd", include_str!("../guest/systemd.sh"), 0o755)
            .file("/etc/systemd/system/millpond-vm.target", TARGET, 0o644)
            .file("/etc/systemd/system/millpond-vm.service", SERVICE, 0o644)
            .link("/etc/systemd/system/default.target", "millpond-vm.target")
            .file("/etc/systemd/system/dbus.service.d/early.conf", EARLY, 0o644)
            .file("/etc/systemd/system/dbus.socket.d/early.conf", EARLY, 0o644)
            .file("/etc/passwd", USERS, 0o644)
            .file("/etc/group", GROUPS, 0o644)
            .file("/etc/machine-id", "0123456789abcdef0123456789abcdef\n", 0o444)
            .directory("/proc")
            .directory("/dev")
            .directory("/run")
            .directory("/tmp")
            .directory("/root");
        // The last option on the command line takes precedence.
        Ok(self.image(&image).command_line("rdinit=/lib/systemd/systemd systemd.log_target=console"))
    }
}
