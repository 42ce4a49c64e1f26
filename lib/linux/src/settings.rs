//! Boot parameters and settings of the kernel that decide how much OS noise a CPU has.

use crate::view::RootTasks;
use crate::{LinuxMachine, Root};
use millpond_model::{CpuSet, KernelSettings};

impl LinuxMachine {
    /// The settings that affect OS noise, with the isolated partitions.
    pub(crate) fn settings(&self) -> KernelSettings {
        let view = self.view(RootTasks::Unlisted).ok();
        let isolated_partitions = view.filter(|view| view.partitions).map(|view| view.isolated_partitions());
        KernelSettings { isolated_partitions, ..kernel_settings(&self.os.root) }
    }
}

/// The settings of a root. A missing file means that the setting is off or unknown.
pub(crate) fn kernel_settings(root: &Root) -> KernelSettings {
    let proc = |path: &str| root.read_value(&root.proc.join(path)).ok().flatten();
    let list = |name: &str| {
        let text = root.read_value(&root.sys.join("devices/system/cpu").join(name)).ok().flatten();
        // Some kernels write `(null)` for an empty list.
        text.and_then(|text| text.parse::<CpuSet>().ok()).unwrap_or_default()
    };
    let switch = |path: &str| proc(path).map(|text| text.trim() != "0");
    let nohz_full = list("nohz_full");
    let rcu_nocbs = no_callbacks(&proc("cmdline").unwrap_or_default(), &list("possible"));
    KernelSettings {
        rcu_nocbs: &rcu_nocbs | &nohz_full,
        nohz_full,
        isolated: list("isolated"),
        isolated_partitions: None,
        nmi_watchdog: switch("sys/kernel/nmi_watchdog"),
        watchdog: switch("sys/kernel/watchdog"),
        stat_interval_s: proc("sys/vm/stat_interval").and_then(|text| text.trim().parse().ok()),
    }
}

/// The parameters of a kernel command line: name, and value if there is one.
pub(crate) fn parameters(command_line: &str) -> impl DoubleEndedIterator<Item = (&str, Option<&str>)> {
    let parameter =
        |word| str::split_once(word, '=').map_or((word, None), |(name, value)| (name, Some(value)));
    command_line.split_whitespace().map(parameter)
}

/// The CPUs whose tick the command line stops: `nohz_full=`, and `isolcpus=` with the flag `nohz`.
pub(crate) fn booted_without_ticks(root: &Root) -> CpuSet {
    let command_line = root.read_value(&root.proc.join("cmdline")).ok().flatten().unwrap_or_default();
    let list = |parameter: (&str, Option<&str>)| match parameter {
        ("nohz_full", Some(list)) => list.parse::<CpuSet>().ok(),
        ("isolcpus", Some(value)) => {
            let cpus = value.trim_start_matches(|c: char| !c.is_ascii_digit());
            value.split(',').any(|flag| flag == "nohz").then(|| cpus.parse().ok()).flatten()
        }
        _ => None,
    };
    parameters(&command_line).filter_map(list).fold(CpuSet::new(), |all, cpus| &all | &cpus)
}

/// The CPUs of `rcu_nocbs=`; without a list, or with `all`, every one.
fn no_callbacks(command_line: &str, possible: &CpuSet) -> CpuSet {
    let value = parameters(command_line).find(|(name, _)| *name == "rcu_nocbs").map(|(_, value)| value);
    match value {
        None => CpuSet::new(),
        Some(None | Some("all")) => possible.clone(),
        Some(Some(list)) => list.parse().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn settings_are_read_from_where_the_kernel_shows_them() {
        let dir = tempfile::tempdir().unwrap();
        let file = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let root = Root::captured(dir.path());
        assert_eq!(kernel_settings(&root), KernelSettings::default(), "nothing is told");
        file("proc/cmdline", "ro quiet rcu_nocbs=5-6 nosmt\n");
        file("proc/sys/kernel/nmi_watchdog", "0\n");
        file("proc/sys/kernel/watchdog", "1\n");
        file("proc/sys/vm/stat_interval", "37\n");
        file("sys/devices/system/cpu/possible", "0-7\n");
        file("sys/devices/system/cpu/nohz_full", "3\n");
        file("sys/devices/system/cpu/isolated", "\n");
        let settings = kernel_settings(&root);
        assert_eq!(
            (settings.nohz_full.to_string(), settings.rcu_nocbs.to_string()),
            ("3".into(), "3,5-6".into())
        );
        assert!(settings.isolated.is_empty());
        assert_eq!((settings.nmi_watchdog, settings.watchdog), (Some(false), Some(true)));
        assert_eq!(settings.stat_interval_s, Some(37));
        file("sys/devices/system/cpu/nohz_full", "(null)\n");
        file("proc/cmdline", "rcu_nocbs\n");
        let settings = kernel_settings(&root);
        assert!(settings.nohz_full.is_empty());
        assert_eq!(settings.rcu_nocbs.to_string(), "0-7");
    }
}
