//! Words and programs that are not Millpond commands, and the commands to use instead.

/// Words with a hint. First commands of Solaris that the shell of a simulated machine has, then words and programs of Linux.
const ELSEWHERE: &[(&[&str], &str)] = &[
    (
        &["svcs"],
        "systemctl status poold.service, millpond-pools.service; millpond sim has svcs of simulated machines",
    ),
    (&["svcadm"], "systemctl enable --now poold.service; millpond sim has svcadm of simulated machines"),
    (&["zoneadm"], "millpond zones lists units, containers and other cgroups; millpond sim has zoneadm"),
    (&["zlogin"], "poolbind -p POOL --unit UNIT binds a unit to a pool; millpond sim has zlogin"),
    (&["newtask"], "systemd-run starts a program in a slice; millpond sim has newtask"),
    (&["projects"], "millpond zones lists slices; millpond sim has projects"),
    (
        &["isolate", "shield", "cset", "isolcpus", "cpuset", "partition"],
        "millpond fence --cores 2 COMMAND gives a program cores of its own; psrset -c 2-3 makes a set of CPUs",
    ),
    (
        &["taskset", "affinity", "pin", "bind"],
        "pbind -b 3 PID binds a process to a CPU; psrset -b SET PID to a set",
    ),
    (
        &["numactl", "numad", "numastat", "numa"],
        "lgrpinfo lists NUMA nodes; plgrp shows and sets the nodes of threads; psrset --mems confines memory",
    ),
    (
        &["tuna", "irqbalance", "irq", "irqs", "tuned"],
        "millpond fence moves interrupts and kernel threads away; psradm -i does it for single CPUs; intrstat counts interrupts",
    ),
    (
        &["chrt", "nice", "renice", "schedtool"],
        "priocntl -s sets the scheduling class and the priority of a process",
    ),
    (
        &["cyclictest", "rtla", "timerlat", "oslat", "hwlatdetect", "jitter", "noise", "latency"],
        "millpond latstat measures wake-up latency; millpond quiet measures OS noise and names its causes",
    ),
    (
        &["htop", "atop", "pidstat", "ps"],
        "millpond top shows everything on one screen; prstat lists processes and threads",
    ),
    (&["sar", "history", "log"], "millpond record keeps what top shows; mpstat --from RECORDING reports it"),
    (&["perf", "turbostat", "counters"], "cpustat counts hardware events per CPU, cputrack per thread"),
    (
        &["cgroup", "cgroups", "limit", "quota", "systemd-cgtop"],
        "zonecfg caps a unit or a container; prctl shows and sets shares and caps",
    ),
    (
        &["undo", "rollback", "repair", "restore"],
        "millpond doctor --repair restores what an interrupted change left; fence --off NAME ends a fence",
    ),
    (
        &["lscpu", "lstopo", "hwloc", "topology"],
        "psrinfo -pv lists CPUs by chip and core; pginfo shows what they share; lgrpinfo lists NUMA nodes",
    ),
    (
        &["dashboard", "metrics", "prometheus", "grafana"],
        "millpond gauge serves a dashboard and metrics over HTTP",
    ),
    (&["scx", "sched_ext", "scheduler"], "millpond schedd runs the classes TS, IA and FX under sched_ext"),
];

/// What does the work of a program that is no command of Millpond.
pub(crate) fn instead_of(word: &str) -> Option<&'static str> {
    ELSEWHERE.iter().find(|(names, _)| names.contains(&word)).map(|(_, instead)| *instead)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_word_is_a_command_or_has_two_hints() {
        let words: Vec<&str> = ELSEWHERE.iter().flat_map(|(names, _)| names.iter().copied()).collect();
        assert_eq!(words.len(), words.iter().collect::<BTreeSet<_>>().len());
        let commands: BTreeSet<_> = crate::COMMANDS.iter().map(|command| command.spec.name).collect();
        assert!(words.iter().all(|word| !commands.contains(word)), "{words:?}");
    }
}
