//! Terms of operating systems and of Solaris, which `millpond help WORD` explains.

/// A term: its spellings, what it means, and commands or pages to read next.
pub(super) struct Term {
    pub(super) names: &'static [&'static str],
    pub(super) meaning: &'static str,
    pub(super) see: &'static [&'static str],
}

const fn term(names: &'static [&'static str], meaning: &'static str, see: &'static [&'static str]) -> Term {
    Term { names, meaning, see }
}

/// Every term. The names of commands are explained by their manuals.
pub(super) const TERMS: &[Term] = &[
    term(
        &["processor set", "set", "pset"],
        "A group of CPUs that only the processes bound to it use. Sets have numbers from 1. CPUs of no set are in the default set, where every other process runs.",
        &["psrset", "poolcfg"],
    ),
    term(
        &["default set"],
        "The CPUs that are in no processor set. Processes run there unless they are bound to a set. At least one CPU stays in it.",
        &["psrset"],
    ),
    term(
        &["pool"],
        "A named processor set with a least and a greatest size and an importance. Processes, units and containers are bound to pools. poold moves CPUs between pools by load.",
        &["poolcfg", "pooladm", "poolbind", "poold"],
    ),
    term(
        &["zone"],
        "A group of processes that is limited as a whole. On Linux: a systemd unit, a container or another cgroup. On a simulated machine: a zone of Solaris.",
        &["zones", "zonecfg", "poolbind"],
    ),
    term(
        &["fence"],
        "A processor set that also keeps away interrupts, kernel threads, timers and other noise, by a profile. It can hold for one command, or until it is removed.",
        &["fence", "quiet"],
    ),
    term(
        &["mode"],
        "How strictly a machine keeps other threads out of a set: own, in-place, steered, shared or affinity. The manual of psrset explains each.",
        &["psrset"],
    ),
    term(
        &["partition"],
        "A cgroup (version 2) whose CPUs the kernel takes from all other cgroups: cpuset.cpus.partition is `root`, or `isolated` without load balancing. Exclusive sets use one.",
        &["psrset", "fence", "doctor"],
    ),
    term(
        &["housekeeping", "housekeeping CPU"],
        "A CPU that does the work that is kept away from isolated CPUs: interrupts, kernel threads, timers, workqueues.",
        &["fence", "doctor"],
    ),
    term(
        &["binding", "bound"],
        "A thread runs only on the CPU, or the processor set, that it is bound to. Children inherit it.",
        &["pbind", "psrset"],
    ),
    term(
        &["affinity", "affinity mask"],
        "The CPUs on which the kernel lets a thread run. It is narrower than, or equal to, the CPUs of the thread's cgroup.",
        &["pbind"],
    ),
    term(
        &["strand", "hardware thread", "smt"],
        "One of the hardware threads of a core. The kernel numbers each as a CPU. Strands of a core share its execution units and its first caches.",
        &["psrinfo", "pginfo"],
    ),
    term(
        &["core"],
        "The part of a chip that executes instructions. It has one or more strands.",
        &["psrinfo", "pginfo"],
    ),
    term(
        &["chip", "socket", "package"],
        "One processor package (a socket): its cores have common memory controllers.",
        &["psrinfo"],
    ),
    term(
        &["llc", "last-level cache", "l3"],
        "The largest cache that cores share before memory. Threads that exchange data are faster on CPUs that share one.",
        &["pginfo", "pgstat"],
    ),
    term(
        &["lgroup", "locality group", "numa node", "numa"],
        "CPUs and the memory that is near to them: a NUMA node, or several. A thread has a home lgroup, where its memory comes from.",
        &["lgrpinfo", "plgrp"],
    ),
    term(
        &["on-line", "off-line", "no-intr", "spare", "faulted"],
        "States of a CPU. on-line: it runs threads and takes device interrupts. no-intr: it takes no device interrupts. off-line, spare, faulted: it does neither.",
        &["psradm", "psrinfo"],
    ),
    term(
        &["interrupt"],
        "A device or a timer makes a CPU leave its thread for some microseconds. Device interrupts can be moved to other CPUs; the timer of a CPU cannot.",
        &["intrstat", "psradm", "fence"],
    ),
    term(
        &["noise", "os noise", "jitter"],
        "Time that a program which computes without pause does not get, because of interrupts, kernel threads and other programs; and the spread of that time.",
        &["quiet"],
    ),
    term(
        &["wake-up latency", "latency"],
        "The time from the expiry of a timer to the first instruction of the thread that waited for it.",
        &["latstat"],
    ),
    term(
        &["microstate", "lat", "slp", "usr", "sys"],
        "The state in which a thread spends its time: USR computes, SYS is in a system call, LAT is runnable and waits for a CPU, SLP sleeps.",
        &["prstat", "diagnose"],
    ),
    term(
        &["size", "used", "run", "wait"],
        "Columns of sets and pools. SIZE: CPUs. USED: CPUs that were used on average. RUN: threads that ran. WAIT: threads that were runnable and waited for a CPU.",
        &["top", "poolstat"],
    ),
    term(
        &["press", "pressure"],
        "The part of the time in which at least one thread of a set or pool waited for a CPU, in percent (the kernel's cpu.pressure, line `some`).",
        &["top", "poolstat"],
    ),
    term(
        &["class", "scheduling class"],
        "The rules by which threads are ordered: TS time-sharing, IA interactive, FX fixed priority, FSS fair share, RT real time.",
        &["priocntl", "dispadmin", "schedd"],
    ),
    term(
        &["dispatch table"],
        "A table of the TS, IA or FX class: for each priority its time quantum, and the priorities after the quantum is used, after sleep, and after a long wait.",
        &["dispadmin"],
    ),
    term(
        &["quantum", "time slice", "slice"],
        "How long a thread runs before another thread of its priority gets the CPU.",
        &["dispadmin"],
    ),
    term(
        &["share", "shares", "fss"],
        "A weight. Where CPUs are contended, projects and zones get CPU time in proportion to their shares; where they are not, shares limit nothing.",
        &["prctl", "zonecfg"],
    ),
    term(
        &["cap", "cpu cap", "quota"],
        "A limit of CPU time, also where CPUs are idle: 150 means one CPU and a half. On Linux: cpu.max.",
        &["prctl", "zonecfg"],
    ),
    term(
        &["throttled", "throttling"],
        "Threads are runnable and do not run, because the cap of their cgroup is used up for this period. More CPUs do not help.",
        &["diagnose", "prctl"],
    ),
    term(
        &["objective", "objectives"],
        "A wish of a set for poold: `locality tight` keeps its CPUs near each other, `utilization < 80` gives it CPUs before it needs them.",
        &["poolcfg", "poold"],
    ),
    term(
        &["wt-load"],
        "The objective of a whole system of pools: poold gives CPUs to the pools that use them, by importance. It is the default.",
        &["poolcfg", "poold"],
    ),
    term(
        &["importance"],
        "The weight of a pool, compared with others, when there are not enough CPUs for all. 1 if not given.",
        &["poolcfg", "poold"],
    ),
    term(
        &["decision"],
        "What poold computes once in an interval: which CPUs move between pools, with a reason for each.",
        &["poold", "poolstat"],
    ),
    term(
        &["member"],
        "A CPU of a set; or a program that learns the size of its pool from Millpond (lib/member) and adapts its number of threads.",
        &["poolbind"],
    ),
    term(
        &["journal"],
        "A file that has each change before it is made. After a refusal or a crash the next command that changes something restores the previous state.",
        &["doctor"],
    ),
    term(
        &["dry run", "dry-run", "plan"],
        "Millpond prints each step of a change and makes none of them: --dry-run, with every command.",
        &["fence", "psrset"],
    ),
    term(
        &["twin"],
        "A simulated machine with the measured numbers of a real one. It predicts how programs share CPUs without running them.",
        &["sim", "experiment"],
    ),
    term(
        &["capture", "captured machine"],
        "A copy of the description of a machine (files of /sys and /proc) in a directory. Commands show it with --root DIR.",
        &["capture"],
    ),
    term(
        &["recording", "frame"],
        "Measured rows of each interval (a frame) in files of bounded size. Reports read a recording with --from.",
        &["record", "export"],
    ),
];

/// The term of a name, in any case.
pub(super) fn named(word: &str) -> Option<&'static Term> {
    TERMS.iter().find(|term| term.names.iter().any(|name| name.eq_ignore_ascii_case(word)))
}

impl Term {
    /// As it is printed.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{}\n{}", self.names.join(", "), millpond_cli::help::paragraph(self.meaning));
        text += &format!("see: {}\n", self.see.join(", "));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_term_has_one_meaning_and_commands_to_read_about_next() {
        let names: Vec<_> = TERMS.iter().flat_map(|term| term.names).collect();
        assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len(), "{names:?}");
        let commands: BTreeSet<_> = crate::COMMANDS.iter().map(|command| command.spec.name).collect();
        let services = ["poold", "schedd"];
        for term in TERMS {
            assert!(term.meaning.ends_with('.') && !term.see.is_empty(), "{:?}", term.names);
            for name in term.names {
                assert_eq!(named(name).map(|found| found.names), Some(term.names));
            }
            for see in term.see {
                assert!(commands.contains(see) || services.contains(see), "{see}");
            }
        }
    }

    #[test]
    fn a_term_is_printed_with_its_spellings() {
        let text = "strand, hardware thread, smt\n  One of the hardware threads of a core. The kernel numbers each as a CPU.\n  \
                    Strands of a core share its execution units and its first caches.\nsee: psrinfo, pginfo\n";
        assert_eq!(named("STRAND").unwrap().text(), text);
    }
}
