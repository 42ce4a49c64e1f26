//! systemd for a guest: Debian's package and what it needs, unpacked in the cache, and the few files that make it the first process
//! of a guest which runs cases as one of its services. And irqbalance, a daemon that other cases need, and rtla, beside which latstat is laid.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::apt::Apt;
use crate::cache::Cache;
use crate::capability::Unavailable;
use crate::guest::Guest;
use crate::image::{Image, ImageError};

/// The suite whose systemd is used: version 252, without `CPUSetPartition=`, as most hosts have.
const SUITE: &str = "bookworm";

/// What no guest looks at.
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

/// Units of our own. Without default dependencies nothing but what a case starts is started.
const TARGET: &str = "[Unit]\nDescription=Cases\nDefaultDependencies=no\nWants=millpond-vm.service\n";
const SERVICE: &str = "[Unit]\nDescription=Run the cases\nDefaultDependencies=no\n[Service]\nType=exec\n\
                       ExecStart=/vm/systemd\nStandardOutput=null\nStandardError=null\nKillMode=process\n";

/// Gets systemd and its libraries: from the cache, else from Debian's archive. `note` hears about long work.
///
/// # Errors
/// Why it cannot be had and what would help.
pub fn obtain_systemd(cache: &Cache, note: &dyn Fn(&str)) -> Result<PathBuf, Unavailable> {
    let place = cache.path("userland/systemd");
    if place.is_dir() {
        return Ok(place);
    }
    let lock = cache.lock("userland-systemd")?;
    if place.is_dir() {
        return Ok(place);
    }
    let scratch = cache.scratch("apt-systemd.")?;
    let apt = Apt::new(scratch.path(), SUITE)?;
    note(&format!("systemd: reading the index of {}", apt.archive()));
    apt.update()?;
    note("systemd: downloading it with what it needs");
    let debs = apt.download_with_dependencies("systemd")?;
    cache.publish(&lock, Path::new("userland/systemd"), |dir| unpack(&debs, dir))
}

/// Gets the daemon irqbalance: from the cache, else from Debian's archive. Its libraries are the host's own. `note` hears about long
/// work.
///
/// # Errors
/// Why it cannot be had and what would help.
pub fn obtain_irqbalance(cache: &Cache, note: &dyn Fn(&str)) -> Result<PathBuf, Unavailable> {
    let place = cache.path("userland/irqbalance");
    let program = place.join("usr/sbin/irqbalance");
    if program.is_file() {
        return Ok(program);
    }
    let lock = cache.lock("userland-irqbalance")?;
    if !program.is_file() {
        let scratch = cache.scratch("apt-irqbalance.")?;
        let apt = Apt::new(scratch.path(), SUITE)?;
        note(&format!("irqbalance: downloading it from {}", apt.archive()));
        apt.update()?;
        let debs = apt.download(&["irqbalance".to_owned()])?;
        cache.publish(&lock, Path::new("userland/irqbalance"), |dir| unpack(&debs, dir))?;
    }
    Ok(program)
}

/// The suite of rtla: that of the kernel whose tracer it reads.
const RTLA_SUITE: &str = "trixie";

/// Gets rtla with its libraries, which are newer than the host's: a tree whose programs its own loader starts. From the cache, else from Debian's
/// archive. `note` hears about long work.
///
/// # Errors
/// Why it cannot be had and what would help.
pub fn obtain_rtla(cache: &Cache, note: &dyn Fn(&str)) -> Result<PathBuf, Unavailable> {
    let place = cache.path("userland/rtla");
    if place.is_dir() {
        return Ok(place);
    }
    let lock = cache.lock("userland-rtla")?;
    if place.is_dir() {
        return Ok(place);
    }
    let scratch = cache.scratch("apt-rtla.")?;
    let apt = Apt::new(scratch.path(), RTLA_SUITE)?;
    note(&format!("rtla: downloading it with what it needs from {}", apt.archive()));
    apt.update()?;
    let debs = apt.download_with_dependencies("rtla")?;
    cache.publish(&lock, Path::new("userland/rtla"), |dir| unpack(&debs, dir))
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
    /// Makes systemd (from [`obtain_systemd`]) the first process. Cases then run as a service, in `system.slice`; between them
    /// nothing is put back.
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
            .file("/etc/machine-id", "0123456789abcdef0123456789abcdef\n", 0o444)
            .directory("/proc")
            .directory("/dev")
            .directory("/run")
            .directory("/tmp")
            .directory("/root");
        // The last word wins.
        Ok(self.image(&image).command_line("rdinit=/lib/systemd/systemd systemd.log_target=console"))
    }
}
