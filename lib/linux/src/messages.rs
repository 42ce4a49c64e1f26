//! Names of objects in messages: knobs, and the kernel's reasons for invalid partitions.
//!
//! A message names a set, a CPU, a thread, an interrupt or a group. The file is only for the journal and for `--dry-run`. Every
//! name here is singular, so that `… is gone` and `… is read-only` can follow.

use crate::interrupt_names::device_name;
use crate::knob::{ControlFile, CpusetFile, LinuxKnob, TaskId};
use crate::{Os, names};
use millpond_machine::{Knob, KnobError};
use millpond_model::{MachineSetting, PsetId};
use std::io;

/// The text of an error without its number.
#[must_use]
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error ").map_or(text.as_str(), |(words, _)| words).to_owned()
}

/// The name of a knob of the journal.
#[must_use]
pub(crate) fn called(os: &Os, knob: &Knob) -> String {
    match LinuxKnob::parse(knob) {
        Ok(knob) => name_of(os, &knob),
        Err(_) => knob.to_string(),
    }
}

fn name_of(os: &Os, knob: &LinuxKnob) -> String {
    match knob {
        LinuxKnob::Cgroup(path) | LinuxKnob::Slice(path) => group(path),
        LinuxKnob::File(file) => file_name(os, file),
        LinuxKnob::CpusetController(path) => format!("the cpuset controller below {}", group(path)),
        LinuxKnob::Label(path, _) => format!("the label of {}", group(path)),
        LinuxKnob::CgroupOf(id) => task(os, *id),
        LinuxKnob::Affinity(id) => format!("the affinity mask of {}", task(os, *id)),
        LinuxKnob::KernelThread(id) => format!("the affinity mask of kernel {}", task(os, *id)),
        LinuxKnob::Policy(id) => format!("the scheduling policy of {}", task(os, *id)),
        LinuxKnob::ClassOf(id) => format!("the scheduling class of {}", task(os, *id)),
        LinuxKnob::DispatchTable(class) => format!("the dispatch table of {class}"),
        LinuxKnob::AllowedCpus(path) => format!("the CPU list of {}", group(path)),
        LinuxKnob::AllowedMemoryNodes(path) => format!("the memory node list of {}", group(path)),
        LinuxKnob::Weight(path) => format!("the CPU weight of {}", group(path)),
        LinuxKnob::Quota(path) => format!("the CPU quota of {}", group(path)),
        LinuxKnob::CpuController(path) => format!("the CPU controller below {}", group(path)),
        LinuxKnob::CpuCgroup(path) => group(path),
        LinuxKnob::CpuCgroupOf(id) => task(os, *id),
        LinuxKnob::MemoryOf(id) => format!("the memory of {}", task(os, *id)),
        LinuxKnob::UnitSlice(unit) => format!("the drop-in for {unit}"),
        LinuxKnob::IrqbalanceBanned => "irqbalance".to_owned(),
        LinuxKnob::CacheGroup(group) => format!("group {group} of resctrl"),
        LinuxKnob::OsnoiseSetting(name) => format!("the setting {name} of the tracer timerlat"),
        LinuxKnob::TraceInstance(instance) => format!("the trace instance {instance}"),
        LinuxKnob::Record(name) => format!("the record {name} in the state directory"),
    }
}

/// The name of a cgroup: `set 1` for the cgroup of a set, `the default set's group`, `group /docker`.
#[must_use]
pub(crate) fn group(path: &str) -> String {
    match names::owner(path) {
        _ if path.is_empty() || path == "/" => "the root group".to_owned(),
        None => format!("group {path}"),
        Some(set) => {
            let inner = path.trim_start_matches('/').split_once('/').map(|(_, leaf)| leaf);
            let of = if set == PsetId::DEFAULT { "the default set".to_owned() } else { format!("set {set}") };
            match inner {
                None => of,
                Some(_) => format!("group {path} of {of}"),
            }
        }
    }
}

fn file_name(os: &Os, file: &ControlFile) -> String {
    match file {
        ControlFile::Cpuset(path, file) => {
            let of = group(path);
            match file {
                CpusetFile::Cpus => format!("the CPU list of {of}"),
                CpusetFile::ExclusiveCpus => format!("the exclusive CPU list of {of}"),
                CpusetFile::Partition => format!("the partition of {of}"),
                CpusetFile::Mems => format!("the memory node list of {of}"),
                CpusetFile::MemoryMigrate => format!("cpuset.memory_migrate of {of}"),
            }
        }
        ControlFile::IrqAffinity(irq) => format!("interrupt {irq} ({})", device_name(&os.root, *irq)),
        ControlFile::DefaultIrqAffinity => "the default IRQ affinity".to_owned(),
        ControlFile::UnboundCpumask => "the unbound workqueue cpumask".to_owned(),
        ControlFile::WorkqueueCpumask(queue) => format!("the cpumask of workqueue {queue}"),
        ControlFile::Packets { interface, queue, mask } => {
            format!("the {mask} mask of {interface}/{queue}")
        }
        ControlFile::Online(cpu) => format!("the online state of CPU {cpu}"),
        ControlFile::WatchdogCpumask => "the watchdog cpumask".to_owned(),
        ControlFile::IdleLatency(cpu) => format!("the idle latency limit of CPU {cpu}"),
        ControlFile::Governor(cpu) => format!("the frequency governor of CPU {cpu}"),
        ControlFile::FairServer(cpu) => format!("the runtime of the fair server of CPU {cpu}"),
        ControlFile::Machine(MachineSetting::NumaBalancing) => "kernel.numa_balancing".to_owned(),
        ControlFile::Machine(MachineSetting::StatInterval) => "vm.stat_interval".to_owned(),
        ControlFile::Machine(MachineSetting::TimerMigration) => "kernel.timer_migration".to_owned(),
        ControlFile::Machine(MachineSetting::Turbo) => "cpufreq/boost".to_owned(),
        ControlFile::NoTurbo => "intel_pstate/no_turbo".to_owned(),
        ControlFile::Schema(None, resource) => format!("the {} schema of all others", resource.name()),
        ControlFile::Schema(Some(group), resource) => {
            format!("the {} schema of group {group} of resctrl", resource.name())
        }
        ControlFile::CacheCpus(group) => format!("the CPU list of group {group} of resctrl"),
    }
}

fn task(os: &Os, id: TaskId) -> String {
    let name = os.stat(id.pid, id.tid).ok().flatten().filter(|s| s.start == id.start);
    let name = name.map(|s| format!(" ({})", s.comm)).unwrap_or_default();
    match id.tid {
        Some(tid) => format!("thread {}/{tid}{name}", id.pid),
        None => format!("process {}{name}", id.pid),
    }
}

/// The reason why a partition is invalid, and a remedy. `is` is the text of the file (`root invalid (Cpu list in cpuset.cpus not
/// exclusive)`, `member`), without its `root` or `isolated`.
#[must_use]
pub(crate) fn partition(is: &str) -> (String, &'static str) {
    let reason = is.split_once('(').map(|(_, rest)| rest.trim_end_matches(')').trim());
    let (why, hint) = match reason {
        None if !is.contains("invalid") => {
            ("its partition is switched off", "millpond doctor --repair switches it on again")
        }
        None => (
            "the kernel gives no reason; another group lists the same CPUs, or the set has none online",
            "find the group with grep . /sys/fs/cgroup/*/cpuset.cpus, or bring a CPU online (psradm -n)",
        ),
        Some("Cpu list in cpuset.cpus not exclusive") => (
            "another group lists the same CPUs, or no CPU would be left for the others",
            "take them out of that group's cpuset.cpus, or leave the default set one more",
        ),
        Some("Invalid cpu list in cpuset.cpus.exclusive") => {
            ("another partition has the same CPUs", "take them out of that partition first")
        }
        Some("cpuset.cpus and cpuset.cpus.exclusive are empty") => {
            ("its CPU list is empty", "assign CPUs to it (psrset -a)")
        }
        Some("Parent is not a partition root" | "Parent is an invalid partition root") => (
            "the group above it is not a partition",
            "run this outside the container, or make the group above a partition",
        ),
        Some("Parent unable to distribute cpu downstream") => {
            ("no CPU would be left in the group above it", "leave the default set one more CPU")
        }
        Some("No cpu available due to hotplug") => {
            ("none of its CPUs is online", "bring one on-line (psradm -n)")
        }
        Some("partition config conflicts with housekeeping setup") => (
            "the kernel was started with isolcpus= or nohz_full= for some of these CPUs",
            "choose other CPUs, or start the kernel without these options",
        ),
        Some("Enable partition not permitted") => {
            ("the right to make partitions is missing", "this needs the rights of the superuser")
        }
        Some("Have remote partition underneath") => (
            "a group further down has a partition with some of these CPUs",
            "end that group's partition first",
        ),
        Some(other) => return (format!("the kernel says: {other}"), "choose other CPUs"),
    };
    (why.to_owned(), hint)
}

/// The refusal of a partition that the kernel accepted and then declared invalid. `path` is the path of its cgroup.
#[must_use]
pub(crate) fn partition_refused(path: &str, is: &str) -> KnobError {
    let (why, hint) = partition(is);
    let of = group(path);
    KnobError::Prevented {
        why: format!("the kernel does not keep others out of {of}: {why}"),
        hint: hint.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;

    #[test]
    fn reasons_stand_without_their_numbers() {
        assert_eq!(reason(&io::Error::from_raw_os_error(1)), "Operation not permitted");
    }

    #[test]
    fn knobs_are_called_by_what_they_belong_to() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc/irq/24/eth0-rx-0")).unwrap();
        let os = Os::new(Root::captured(dir.path()));
        for (knob, name) in [
            ("dir:/mpset1", "set 1"),
            ("unit:/mpset2.slice", "set 2"),
            ("dir:/mpset1/from+", "group /mpset1/from+ of set 1"),
            ("cg:/mpset1/cpuset.cpus", "the CPU list of set 1"),
            ("cg:/docker/cpuset.cpus", "the CPU list of group /docker"),
            ("cg:/cpuset.cpus", "the CPU list of the root group"),
            ("cg:/mpset3/cpuset.cpus.partition", "the partition of set 3"),
            ("cg:/mpdefault/cpuset.mems", "the memory node list of the default set"),
            ("controller:/", "the cpuset controller below the root group"),
            ("label:/mpset1#set", "the label of set 1"),
            ("allowed:/system.slice", "the CPU list of group /system.slice"),
            ("proc:irq/24/smp_affinity_list", "interrupt 24 (eth0-rx-0)"),
            ("proc:irq/default_smp_affinity", "the default IRQ affinity"),
            ("sys:devices/system/cpu/cpu3/online", "the online state of CPU 3"),
            ("sys:devices/virtual/workqueue/cpumask", "the unbound workqueue cpumask"),
            ("sys:devices/virtual/workqueue/writeback/cpumask", "the cpumask of workqueue writeback"),
            ("sys:class/net/eth0/queues/rx-0/rps_cpus", "the RPS mask of eth0/rx-0"),
            ("place:7@5", "process 7"),
            ("mask:7/9@5", "the affinity mask of thread 7/9"),
            ("irqbalance:banned", "irqbalance"),
            ("osnoise:timerlat_period_us", "the setting timerlat_period_us of the tracer timerlat"),
            ("tracer:millpond-204", "the trace instance millpond-204"),
            ("record:set.1", "the record set.1 in the state directory"),
            ("hello", "hello"),
        ] {
            assert_eq!(called(&os, &Knob(knob.into())), name);
        }
    }

    #[test]
    fn what_the_kernel_says_of_a_partition_is_said_in_words_with_a_remedy() {
        for (is, word) in [
            ("member", "partition is switched off"),
            ("root invalid", "no reason"),
            ("root invalid (Cpu list in cpuset.cpus not exclusive)", "another group lists the same"),
            ("isolated invalid (Parent is not a partition root)", "the group above"),
            ("root invalid (No cpu available due to hotplug)", "online"),
            ("root invalid (Something new)", "the kernel says: Something new"),
        ] {
            let (why, hint) = partition(is);
            assert!(why.contains(word) && !hint.is_empty(), "{is}: {why}");
            assert!(!why.contains("invalid"), "{why}");
        }
    }
}
