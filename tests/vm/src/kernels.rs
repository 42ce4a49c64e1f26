//! Debian's kernels by short name: selected from the archive's index, downloaded, unpacked, and stored in the cache.
//!
//! The package name determines the kernel: `linux-image-6.17.13+deb13-cloud-amd64` is release `6.17.13+deb13-cloud-amd64`. From
//! 6.19 on an image is split into `linux-binary-RELEASE`, `linux-modules-RELEASE` and `linux-base-RELEASE`. For a series that is
//! no longer built, the index only has the first of these. Such a kernel runs without network cards and disk, because their
//! drivers are modules.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;

use crate::apt::{Apt, debs_in};
use crate::cache::{Cache, Lock};
use crate::capability::Unavailable;

/// One line per series: its name, the first two numbers of its releases, and the suites that have or had it. The suite that keeps
/// old kernels longest comes first.
macro_rules! series {
    ($($(#[$about:meta])* $name:ident $number:literal $suites:expr;)+) => {
        /// A series of kernels that tests are written for, the oldest first.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Series {
            $($(#[$about])* $name,)+
        }

        impl Series {
            /// Every series.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The first two numbers of its releases.
            #[must_use]
            pub fn number(self) -> &'static str {
                match self {
                    $(Self::$name => $number,)+
                }
            }

            fn suites(self) -> &'static [&'static str] {
                match self {
                    $(Self::$name => &$suites,)+
                }
            }
        }
    };
}

// A new kernel is one line here: every group of cases runs on it.
series! {
    /// Debian 12: cgroup v1 cpusets, no `cpuset.cpus.exclusive`.
    V6_1 "6.1" ["bookworm"];
    /// Debian 13: no v1 cpusets, no `sched_ext`.
    V6_12 "6.12" ["trixie"];
    /// Debian 13 backports: `sched_ext`, the old overlap rules.
    V6_17 "6.17" ["trixie-backports"];
    /// Debian 13 backports: new partition rules; `sched_ext` reserves a part of each CPU from real-time threads. Only its image
    /// is still available.
    V7_0 "7.0" ["trixie-backports"];
    /// Debian 14 and sid. 7.2.13 of sid is the first with a correct description of `sched_ext` functions; backports have 7.2.12.
    V7_2 "7.2" ["sid", "forky", "trixie-backports"];
    /// Debian 13 backports: the newest.
    V7_3 "7.3" ["trixie-backports", "forky", "sid"];
}

/// Debian's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Flavour {
    /// Small: virtio, vmxnet3, no other hardware. A quarter of the download.
    Cloud,
    /// Every driver.
    Generic,
    /// `PREEMPT_RT`, with the timerlat tracer.
    Rt,
}

/// The id of a kernel: `6.17`, `6.12-rt`, `6.1-generic`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KernelId {
    /// The version line.
    pub series: Series,
    /// The configuration.
    pub flavour: Flavour,
}

/// The name of an unknown kernel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot name a kernel {0:?}: known are {known}, alone or with -generic or -rt", known = Series::ALL.iter().map(|series| series.number()).collect::<Vec<_>>().join(", "))]
pub struct UnknownKernel(String);

/// An unpacked kernel in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// The requested id.
    pub id: KernelId,
    /// Its `uname -r`.
    pub release: String,
    /// The bootable image.
    pub vmlinuz: PathBuf,
    /// Its `lib/modules/RELEASE`; missing for a kernel without modules.
    pub modules: PathBuf,
    /// Name of its directories in the cache: release and package version.
    pub(crate) key: String,
}

impl Flavour {
    /// The suffix of a release.
    fn suffix(self) -> &'static str {
        match self {
            Self::Cloud => "-cloud-amd64",
            Self::Generic => "-amd64",
            Self::Rt => "-rt-amd64",
        }
    }
}

impl KernelId {
    /// The small flavour of a series.
    #[must_use]
    pub const fn cloud(series: Series) -> Self {
        Self { series, flavour: Flavour::Cloud }
    }

    /// The release in a package name, if it is one of this kernel: `linux-image-RELEASE` or `linux-binary-RELEASE`.
    fn release_of<'a>(&self, package: &'a str) -> Option<&'a str> {
        let release =
            package.strip_prefix("linux-image-").or_else(|| package.strip_prefix("linux-binary-"))?;
        let version = release.strip_suffix(self.flavour.suffix())?;
        let rest = version.strip_prefix(self.series.number())?.strip_prefix('.')?;
        // `-cloud` and `-rt` also end in `-amd64`. The rest must be numbers and Debian's suffix.
        let is_plain = rest.split_once('+').map_or(rest, |(numbers, _)| numbers);
        (!is_plain.is_empty() && is_plain.chars().all(|c| c.is_ascii_digit() || "-.".contains(c)))
            .then_some(release)
    }
}

impl fmt::Display for KernelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flavour = match self.flavour {
            Flavour::Cloud => "",
            Flavour::Generic => "-generic",
            Flavour::Rt => "-rt",
        };
        write!(f, "{}{flavour}", self.series.number())
    }
}

impl FromStr for KernelId {
    type Err = UnknownKernel;

    fn from_str(text: &str) -> Result<Self, UnknownKernel> {
        let (number, flavour) = match text.split_once('-') {
            None => (text, Flavour::Cloud),
            Some((number, "generic")) => (number, Flavour::Generic),
            Some((number, "rt")) => (number, Flavour::Rt),
            Some(_) => return Err(UnknownKernel(text.to_owned())),
        };
        let series = Series::ALL.iter().find(|s| s.number() == number);
        series.map(|&series| Self { series, flavour }).ok_or_else(|| UnknownKernel(text.to_owned()))
    }
}

/// The numbers in a release or package version, for comparisons: `6.12.107+deb13` is after `6.12.94+deb13`.
fn numbers_of(text: &str) -> Vec<u64> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

/// Selects the newest complete release among these package names, else the newest without modules. Returns the release and its
/// packages.
fn choose(id: KernelId, names: &[String]) -> Option<(String, Vec<String>)> {
    let mut releases: Vec<&str> = names.iter().filter_map(|n| id.release_of(n)).collect();
    releases.sort_by_key(|release| numbers_of(release));
    releases.dedup();
    let has = |name: &String| names.contains(name);
    let whole = |release: &&str| {
        let part = |kind: &str| format!("linux-{kind}-{release}");
        let mut packages =
            if has(&part("binary")) { ["binary", "modules"].map(part).to_vec() } else { vec![part("image")] };
        if !packages.iter().all(has) {
            return None;
        }
        // This package lists built-in modules. The first split kernels had no such package.
        packages.extend(Some(part("base")).filter(has));
        Some(((*release).to_owned(), packages))
    };
    let bare = |release: &&str| {
        let image = format!("linux-binary-{release}");
        has(&image).then(|| ((*release).to_owned(), vec![image]))
    };
    releases.iter().rev().find_map(whole).or_else(|| releases.iter().rev().find_map(bare))
}

/// Gets a kernel: from the cache (without network access), else from `debs/` in the cache, else from Debian's archive.
/// `MILLPOND_VM_REFRESH=1` looks for a newer one even if the cache has one. `note` receives progress messages.
///
/// # Errors
/// Why it cannot be obtained, with a remedy.
pub fn obtain(id: KernelId, cache: &Cache, note: &dyn Fn(&str)) -> Result<Kernel, Unavailable> {
    let wants_newest = std::env::var_os("MILLPOND_VM_REFRESH").is_some_and(|v| v != "0");
    if !wants_newest && let Some(kernel) = newest_cached(id, cache) {
        return Ok(kernel);
    }
    let lock = cache.lock(&format!("kernel-{id}"))?;
    // Another process may have fetched it meanwhile.
    if !wants_newest && let Some(kernel) = newest_cached(id, cache) {
        return Ok(kernel);
    }
    let by_hand = debs_in(&cache.path("debs")).unwrap_or_default();
    let by_hand_names: Vec<String> = by_hand.iter().filter_map(|p| package_of(p)).collect();
    if let Some((release, packages)) = choose(id, &by_hand_names) {
        let debs: Vec<PathBuf> =
            by_hand.into_iter().filter(|p| package_of(p).is_some_and(|n| packages.contains(&n))).collect();
        return unpack(id, cache, &lock, &release, &debs);
    }
    let mut last = None;
    for suite in id.series.suites() {
        match fetch(id, suite, cache, &lock, note) {
            Ok(kernel) => return Ok(kernel),
            Err(why) => last = Some(why),
        }
    }
    Err(last
        .unwrap_or_else(|| Unavailable::new(format!("no suite has kernel {id}"), "ask for another kernel")))
}

fn fetch(
    id: KernelId,
    suite: &str,
    cache: &Cache,
    lock: &Lock,
    note: &dyn Fn(&str),
) -> Result<Kernel, Unavailable> {
    let scratch = cache.scratch(&format!("apt-{id}."))?;
    let apt = Apt::new(scratch.path(), suite)?;
    note(&format!("kernel {id}: reading the index of {}", apt.archive()));
    apt.update()?;
    let names = apt.names(&format!("^linux-(image|binary|modules|base)-{}[.]", id.series.number()))?;
    let (release, packages) = choose(id, &names).ok_or_else(|| {
        Unavailable::new(
            format!("{} has no kernel {id}", apt.archive()),
            "put the kernel's .deb files into the debs directory of the cache",
        )
    })?;
    note(&format!("kernel {id}: downloading {release}"));
    let debs = apt.download(&packages)?;
    note(&format!("kernel {id}: unpacking {release}"));
    unpack(id, cache, lock, &release, &debs)
}

fn unpack(
    id: KernelId,
    cache: &Cache,
    lock: &Lock,
    release: &str,
    debs: &[PathBuf],
) -> Result<Kernel, Unavailable> {
    let broken = |why: String| Unavailable::new(why, "remove the file, or fetch it again");
    let version = debs.iter().filter_map(|p| version_of(p)).next().unwrap_or_else(|| "0".to_owned());
    let key = format!("{release}_{version}");
    let place = cache.publish(lock, &PathBuf::from(format!("kernels/{id}/{key}")), |dir| {
        for deb in debs {
            let said = Command::new("dpkg-deb").arg("-x").arg(deb).arg(dir).stdin(Stdio::null()).output();
            let is_good = said.as_ref().is_ok_and(|s| s.status.success());
            if !is_good {
                return Err(broken(format!("cannot unpack {}", deb.display())));
            }
        }
        // A guest does not need documentation and symbol maps.
        for dead in ["usr/share", "boot/System.map"] {
            let _ = fs::remove_dir_all(dir.join(dead));
        }
        kernel_at(id, dir, &key).map(drop).ok_or_else(|| broken(format!("{release} has no image")))
    })?;
    kernel_at(id, &place, &key).ok_or_else(|| broken(format!("{} is damaged", place.display())))
}

/// The newest complete kernel of this id in the cache.
fn newest_cached(id: KernelId, cache: &Cache) -> Option<Kernel> {
    let mut keys: Vec<String> = fs::read_dir(cache.path(format!("kernels/{id}")))
        .ok()?
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    keys.sort_by_key(|key| numbers_of(key));
    keys.iter().rev().find_map(|key| kernel_at(id, &cache.path(format!("kernels/{id}/{key}")), key))
}

/// Finds image and modules in an unpacked tree, at their old paths (`boot`, `lib/modules`) and the new ones.
fn kernel_at(id: KernelId, root: &Path, key: &str) -> Option<Kernel> {
    let release = key.split_once('_').map_or(key, |(release, _)| release);
    let places = ["usr/lib/modules", "lib/modules"].map(|dir| root.join(dir).join(release));
    let modules = places.iter().find(|dir| dir.join("kernel").is_dir()).unwrap_or(&places[0]).clone();
    let vmlinuz = [modules.join("vmlinuz"), root.join(format!("boot/vmlinuz-{release}"))]
        .into_iter()
        .find(|file| file.is_file())?;
    Some(Kernel { id, release: release.to_owned(), vmlinuz, modules, key: key.to_owned() })
}

/// The package name in a file name `name_version_arch.deb`.
fn package_of(deb: &Path) -> Option<String> {
    deb.file_name()?.to_str()?.split_once('_').map(|(name, _)| name.to_owned())
}

fn version_of(deb: &Path) -> Option<String> {
    deb.file_stem()?.to_str()?.split('_').nth(1).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|s| (*s).to_owned()).collect()
    }

    #[test]
    fn the_newest_release_of_the_flavour_is_chosen() {
        let id = "6.12".parse().unwrap();
        let list = names(&[
            "linux-image-6.12.94+deb13-cloud-amd64",
            "linux-image-6.12.107+deb13-cloud-amd64",
            "linux-image-6.12.107+deb13-cloud-amd64-dbg",
            "linux-image-6.12.107+deb13-cloud-amd64-unsigned",
            "linux-image-6.12.108+deb13-rt-amd64",
            "linux-image-6.12.108+deb13-amd64",
        ]);
        let (release, packages) = choose(id, &list).unwrap();
        assert_eq!(release, "6.12.107+deb13-cloud-amd64");
        assert_eq!(packages, ["linux-image-6.12.107+deb13-cloud-amd64"]);
        let (release, _) = choose("6.12-generic".parse().unwrap(), &list).unwrap();
        assert_eq!(release, "6.12.108+deb13-amd64");
        let (release, _) = choose("6.12-rt".parse().unwrap(), &list).unwrap();
        assert_eq!(release, "6.12.108+deb13-rt-amd64");
    }

    #[test]
    fn a_split_image_without_its_modules_is_passed_over() {
        let list = names(&[
            "linux-image-7.2.12+deb13-cloud-amd64",
            "linux-binary-7.2.12+deb13-cloud-amd64",
            "linux-modules-7.2.12+deb13-cloud-amd64",
            "linux-base-7.2.12+deb13-cloud-amd64",
            "linux-image-7.2.13+deb14-cloud-amd64",
            "linux-binary-7.2.13+deb14-cloud-amd64",
        ]);
        let (release, packages) = choose("7.2".parse().unwrap(), &list).unwrap();
        assert_eq!(release, "7.2.12+deb13-cloud-amd64");
        assert_eq!(packages.len(), 3);
    }

    #[test]
    fn where_no_release_has_modules_the_newest_image_is_taken() {
        let list = names(&["linux-binary-7.0.4+deb13-cloud-amd64", "linux-binary-7.0.13+deb13-cloud-amd64"]);
        let (release, packages) = choose("7.0".parse().unwrap(), &list).unwrap();
        assert_eq!(release, "7.0.13+deb13-cloud-amd64");
        assert_eq!(packages, ["linux-binary-7.0.13+deb13-cloud-amd64"]);
    }

    #[test]
    fn one_series_is_not_taken_for_another() {
        let list = names(&["linux-image-6.17.13+deb13-cloud-amd64", "linux-image-6.12.1+deb13-cloud-amd64"]);
        assert_eq!(choose("6.1".parse().unwrap(), &list), None);
        let old = names(&["linux-image-6.1.0-47-cloud-amd64", "linux-image-6.1.0-50-cloud-amd64"]);
        assert_eq!(choose("6.1".parse().unwrap(), &old).unwrap().0, "6.1.0-50-cloud-amd64");
    }

    #[test]
    fn a_kernel_in_the_cache_needs_no_network() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().to_owned());
        for key in ["6.17.8+deb13-cloud-amd64_6.17.8-1", "6.17.13+deb13-cloud-amd64_6.17.13-1"] {
            let release = key.split('_').next().unwrap();
            let root = cache.path(format!("kernels/6.17/{key}"));
            fs::create_dir_all(root.join(format!("usr/lib/modules/{release}/kernel"))).unwrap();
            fs::create_dir_all(root.join("boot")).unwrap();
            fs::write(root.join(format!("boot/vmlinuz-{release}")), "").unwrap();
        }
        // An incomplete kernel is ignored, even if it is newer.
        fs::create_dir_all(cache.path("kernels/6.17/6.17.99+deb13-cloud-amd64_1/boot")).unwrap();
        let kernel = newest_cached("6.17".parse().unwrap(), &cache).unwrap();
        assert_eq!(kernel.release, "6.17.13+deb13-cloud-amd64");
    }

    proptest! {
        #[test]
        fn what_is_printed_is_parsed_back(series in 0..Series::ALL.len(), flavour in 0..3usize) {
            let flavour = [Flavour::Cloud, Flavour::Generic, Flavour::Rt][flavour];
            let id = KernelId { series: Series::ALL[series], flavour };
            prop_assert_eq!(id.to_string().parse::<KernelId>(), Ok(id));
        }

        #[test]
        fn no_word_makes_the_parser_panic(word in "\\PC{0,20}") {
            let _ = word.parse::<KernelId>();
            let _ = KernelId::cloud(Series::V6_17).release_of(&word);
        }
    }
}
