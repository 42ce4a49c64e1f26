//! Kernel features and quirks: each is defined in one place, and detected by a probe where possible, else by the release.
//!
//! | feature | since | known by |
//! |---|---|---|
//! | remote partitions | 6.7 | the file `cpuset.cpus.exclusive` or `cpuset.cpus.isolated`, else the release |
//! | partitions tolerate overlapping siblings | 7.0 | the release: a probe would invalidate a partition |
//! | prompt return of CPUs | 6.15 | the release: a probe would make a partition |
//! | remembered affinity masks | 6.2 | the release: a probe would move a thread |
//! | run-time isolation: isolated partitions move kernel threads, unbound work and timers (`HK_TYPE_DOMAIN`) | 7.0 | the function `housekeeping_update` in `/sys/kernel/btf/vmlinux`, else the release |
//! | run-time nohz_full | no release yet | `/sys/devices/system/cpu/nohz_full`: it can be written, or lists CPUs that the command line does not |
//! | emptied CPU lists | 7.0 | the error of the write (`ENOSPC`) |
//! | idle cgroups | 5.15 | the file `cpu.idle`, else the release |
//! | eBPF programs | 6.0 | the release and `/sys/kernel/btf/vmlinux` |
//! | fair server | 6.12 | the files in debugfs, else the release |
//! | ext server | 7.0 | the files in debugfs, else the release |
//! | sched_ext | 6.12 | `/sys/kernel/sched_ext/state` |
//! | functions for the class scheduler | 6.17 | the release; a function in an unknown form is reported when the scheduler is loaded |
//! | systemd on a message bus | - | the socket of the system bus, where systemd manages the cgroup tree |

use crate::Os;
use crate::settings::booted_without_ticks;
use millpond_model::{CpuSet, KernelFeature};
use std::fs;
use std::os::unix::fs::PermissionsExt;

type Release = (u32, u32);

/// Partitions below cgroups that are no partitions.
const REMOTE_PARTITIONS: Release = (6, 7);
/// Overlapping siblings do not invalidate a partition.
const OVERLAP: Release = (7, 0);
/// The removal of a partition's cgroup returns its CPUs before it completes, not some time later.
const PROMPT_RETURN: Release = (6, 15);
/// The kernel restores a thread's affinity mask when its cpuset allows it again.
const REMEMBERED_MASKS: Release = (6, 2);
/// An isolated partition is isolated from kernel threads, unbound workqueues and timers as well.
const RUN_TIME_ISOLATION: Release = (7, 0);
/// A list of CPUs or nodes can be emptied while there are tasks.
const EMPTIED_LISTS: Release = (7, 0);
/// `cpu.idle`.
const IDLE_CGROUPS: Release = (5, 15);
/// Tracepoints have the arguments that our BPF programs expect.
const PROGRAMS: Release = (6, 0);
/// The fair server replaces real-time throttling.
const FAIR_SERVER: Release = (6, 12);
/// The kernel reserves a part of each CPU for threads of a loaded scheduler, too.
const EXT_SERVER: Release = (7, 0);
/// BPF schedulers can be loaded.
const SCHED_EXT: Release = (6, 12);
/// sched_ext has the functions that the class scheduler calls, in a known form.
const CLASS_SCHEDULER: Release = (6, 17);
/// sched_ext reports `cpu.idle` of cgroups to its scheduler.
const IDLE_GROUPS: Release = (6, 19);

impl Os {
    /// Whether partitions can be below cgroups that are no partitions.
    pub(crate) fn has_remote_partitions(&self) -> bool {
        self.shows_exclusive_cpus() || self.releases_remote_partitions()
    }

    /// The same, judged by the release alone.
    pub(crate) fn releases_remote_partitions(&self) -> bool {
        self.kernel >= REMOTE_PARTITIONS
    }

    /// These files came with remote partitions. A distribution may have backported them.
    fn shows_exclusive_cpus(&self) -> bool {
        let Some(mount) = self.hierarchy.mount() else { return false };
        let groups = self.root.dirs(mount).unwrap_or_default();
        mount.join("cpuset.cpus.isolated").exists()
            || groups.iter().any(|group| mount.join(group).join("cpuset.cpus.exclusive").exists())
    }

    /// Whether an overlapping sibling invalidates a partition.
    pub(crate) fn overlap_invalidates(&self) -> bool {
        self.kernel < OVERLAP
    }

    /// Whether the CPUs of a partition are returned before the removal of its cgroup completes.
    pub(crate) fn returns_cpus_promptly(&self) -> bool {
        self.kernel >= PROMPT_RETURN
    }

    /// Whether the kernel remembers a thread's affinity mask across changes of its cpuset.
    #[must_use]
    pub fn remembers_masks(&self) -> bool {
        self.kernel >= REMEMBERED_MASKS
    }

    /// Whether the kernel keeps its own threads, also later ones, out of isolated partitions. Judged by the release alone: searching for the function
    /// takes longer than the steps that this saves.
    pub(crate) fn isolates_at_run_time(&self) -> bool {
        self.kernel >= RUN_TIME_ISOLATION
    }

    /// Whether the kernel has the function by which partitions change HK_TYPE_DOMAIN. A distribution may have backported it.
    fn updates_housekeeping(&self) -> bool {
        let types = fs::read(self.root.sys.join("kernel/btf/vmlinux")).unwrap_or_default();
        let name: &[u8] = b"\0housekeeping_update\0";
        types.windows(name.len()).any(|bytes| bytes == name)
    }

    /// Whether the tick of a CPU can be stopped at run time (nohz_full).
    fn ends_ticks_at_run_time(&self) -> bool {
        let file = self.root.sys.join("devices/system/cpu/nohz_full");
        let is_writable = fs::metadata(&file).is_ok_and(|file| file.permissions().mode() & 0o222 != 0);
        let shown = self.root.read_value(&file).ok().flatten().and_then(|list| list.parse::<CpuSet>().ok());
        let shown = shown.unwrap_or_default();
        is_writable || !shown.is_subset(&booted_without_ticks(&self.root))
    }

    /// Whether a list of version 2 can be emptied while the cgroup has tasks. On a live root the result of the write decides.
    pub(crate) fn empties_lists(&self) -> bool {
        self.kernel >= EMPTIED_LISTS
    }

    /// Whether a cgroup can be idle (`cpu.idle`).
    pub(crate) fn can_idle(&self, path: &str) -> bool {
        let shown = || self.cpu_value(path, "cpu.idle").is_ok_and(|value| value.is_some());
        self.systemd || self.kernel >= IDLE_CGROUPS || shown()
    }

    /// Whether our BPF programs fit the tracepoints.
    ///
    /// # Errors
    /// The reason, as the second half of a sentence.
    pub(crate) fn takes_programs(&self) -> Result<(), String> {
        self.is_at_least(PROGRAMS)
    }

    /// Whether the class scheduler can be loaded, given that the kernel has sched_ext.
    ///
    /// # Errors
    /// The reason, as the second half of a sentence.
    pub(crate) fn takes_class_scheduler(&self) -> Result<(), String> {
        self.is_at_least(CLASS_SCHEDULER)
    }

    /// Whether sched_ext reports `cpu.idle` of cgroups to its scheduler.
    pub(crate) fn tells_schedulers_of_idle_groups(&self) -> bool {
        self.kernel >= IDLE_GROUPS
    }

    fn is_at_least(&self, (major, minor): Release) -> Result<(), String> {
        if self.kernel >= (major, minor) {
            Ok(())
        } else {
            Err(format!("this kernel is older than {major}.{minor}"))
        }
    }

    /// Whether the fair server replaces real-time throttling.
    pub(crate) fn has_fair_server(&self) -> bool {
        self.kernel >= FAIR_SERVER || self.root.sys.join("kernel/debug/sched/fair_server").is_dir()
    }

    /// Whether threads of a loaded scheduler get a reserved share of a CPU that is busy with real-time threads.
    pub(crate) fn has_ext_server(&self) -> bool {
        self.kernel >= EXT_SERVER || self.root.sys.join("kernel/debug/sched/ext_server").is_dir()
    }

    /// All features, for `doctor`.
    pub(crate) fn features(&self) -> Vec<KernelFeature> {
        let by = |shown: bool, file: &'static str| if shown { file } else { "its release" };
        let one = |name: &'static str, present: bool, since: Release, known_by: &str| KernelFeature {
            name: name.to_owned(),
            present,
            since: format!("{}.{}", since.0, since.1),
            known_by: known_by.to_owned(),
        };
        let sys = |path: &str| self.root.sys.join(path).exists();
        let (exclusive, fair) = (self.shows_exclusive_cpus(), sys("kernel/debug/sched/fair_server"));
        let ext = sys("kernel/debug/sched/ext_server");
        let housekeeping = self.updates_housekeeping();
        let idle = self.cpu.as_ref().is_ok_and(|tree| {
            let dirs = self.root.dirs(&tree.dir("/")).unwrap_or_default();
            dirs.iter().any(|name| tree.dir(name).join("cpu.idle").exists())
        });
        let programs = self.takes_programs().is_ok() && sys("kernel/btf/vmlinux");
        vec![
            one("idle cgroups", idle || self.kernel >= IDLE_CGROUPS, IDLE_CGROUPS, by(idle, "cpu.idle")),
            one("eBPF programs", programs, PROGRAMS, "/sys/kernel/btf/vmlinux"),
            one("remembered affinity masks", self.remembers_masks(), REMEMBERED_MASKS, "its release"),
            one(
                "remote partitions",
                self.has_remote_partitions(),
                REMOTE_PARTITIONS,
                by(exclusive, "cpuset.cpus.exclusive"),
            ),
            one("fair server", self.has_fair_server(), FAIR_SERVER, by(fair, "debugfs")),
            one("sched_ext", sys("kernel/sched_ext/state"), SCHED_EXT, "/sys/kernel/sched_ext/state"),
            one("ext server", self.has_ext_server(), EXT_SERVER, by(ext, "debugfs")),
            one(
                "run-time isolation",
                housekeeping || self.isolates_at_run_time(),
                RUN_TIME_ISOLATION,
                by(housekeeping, "/sys/kernel/btf/vmlinux"),
            ),
            one("prompt return of CPUs", self.returns_cpus_promptly(), PROMPT_RETURN, "its release"),
            one("partitions bear overlaps", !self.overlap_invalidates(), OVERLAP, "its release"),
            one("emptied CPU lists", self.empties_lists(), EMPTIED_LISTS, "its release"),
            KernelFeature {
                since: String::new(),
                ..one("run-time nohz_full", self.ends_ticks_at_run_time(), (0, 0), "nohz_full")
            },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;

    fn os(release: &str, files: &[&str]) -> (tempfile::TempDir, Os) {
        let dir = tempfile::tempdir().unwrap();
        let kernel = "proc/sys/kernel/osrelease";
        for (path, text) in [(kernel, release), ("cgroup/cgroup.controllers", "cpuset cpu\n")]
            .into_iter()
            .chain(files.iter().map(|file| (*file, "")))
        {
            let file = dir.path().join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let os = Os::new(Root::captured(dir.path()));
        (dir, os)
    }

    fn there(os: &Os) -> Vec<String> {
        os.features().into_iter().filter(|f| f.present).map(|f| f.name).collect()
    }

    #[test]
    fn a_release_has_what_came_before_it() {
        let (_dir, old) = os("6.1.0-44-amd64", &[]);
        assert_eq!(there(&old), ["idle cgroups"]);
        let (_dir, new) = os("7.2.12", &["sys/kernel/btf/vmlinux", "sys/kernel/sched_ext/state"]);
        let lacking: Vec<_> = new.features().into_iter().filter(|f| !f.present).map(|f| f.name).collect();
        assert_eq!(lacking, ["run-time nohz_full"]);
        assert!(old.overlap_invalidates() && !new.overlap_invalidates());
    }

    #[test]
    fn run_time_nohz_full_is_known_by_its_list() {
        let list = "sys/devices/system/cpu/nohz_full";
        let is = |text: &str, command_line: &str, mode: u32| {
            let (dir, os) = os("7.9.1", &[list, "proc/cmdline"]);
            fs::write(dir.path().join(list), text).unwrap();
            fs::write(dir.path().join("proc/cmdline"), command_line).unwrap();
            fs::set_permissions(dir.path().join(list), fs::Permissions::from_mode(mode)).unwrap();
            os.ends_ticks_at_run_time()
        };
        assert!(!is("(null)\n", "ro quiet\n", 0o444));
        assert!(!is("\n", "ro quiet\n", 0o444));
        assert!(!is("2-3\n", "ro nohz_full=2-3\n", 0o444));
        assert!(!is("2-3\n", "ro isolcpus=nohz,domain,2-3\n", 0o444));
        // A partition of CPUs 2 and 3 was made since.
        assert!(is("2-3\n", "ro quiet\n", 0o444) && is("2-5\n", "nohz_full=4-5\n", 0o444));
        assert!(is("\n", "ro quiet\n", 0o644));
    }

    #[test]
    fn a_file_says_more_than_the_release() {
        let files = ["cgroup/a.slice/cpuset.cpus.exclusive", "sys/kernel/debug/sched/fair_server/cpu0"];
        let (dir, old) = os("5.14.0-611.el9", &files);
        assert_eq!(there(&old), ["remote partitions", "fair server"]);
        fs::create_dir_all(dir.path().join("sys/kernel/btf")).unwrap();
        fs::write(
            dir.path().join("sys/kernel/btf/vmlinux"),
            b"\x9f\xeb\0housekeeping_test_cpu\0housekeeping_update\0",
        )
        .unwrap();
        let os = old;
        assert_eq!(there(&os), ["remote partitions", "fair server", "run-time isolation"]);
        let known: Vec<String> =
            os.features().into_iter().filter(|f| f.present).map(|f| f.known_by).collect();
        assert_eq!(known, ["cpuset.cpus.exclusive", "debugfs", "/sys/kernel/btf/vmlinux"]);
    }
}
