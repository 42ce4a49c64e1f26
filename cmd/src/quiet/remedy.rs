//! Remedies for OS noise, checked against the state of the machine: measures in effect are not advised, and each command in
//! a remedy exists and parses.
//!
//! A remedy is a sentence, or a command with an optional remark in parentheses. Commands of Millpond, `sysctl` and `taskset` appear as they
//! are typed. Boot parameters are marked as such.

use millpond_model::{
    Cause, CpuId, CpuSet, DisturbanceKind, Doer, KernelSettings, Pid, Pset, PsetId, PsetMode,
};

/// The state of the machine, for checks of remedies.
#[derive(Debug, Clone, Default)]
pub struct Ground {
    /// The watched CPUs.
    pub cpus: CpuSet,
    /// The on-line CPUs.
    pub online: CpuSet,
    /// The CPUs that other programs have reserved.
    pub reserved: CpuSet,
    /// The no-intr CPUs.
    pub no_intr: CpuSet,
    /// The existing sets.
    pub sets: Vec<Pset>,
    /// The sets of fences, with the names of the fences.
    pub fences: Vec<(PsetId, String)>,
    /// Boot parameters and settings of the kernel.
    pub settings: KernelSettings,
}

impl Ground {
    /// The remedy for a cause on some of the watched CPUs; `pid` is its process.
    pub fn remedy(&self, cause: &Cause, pid: Option<Pid>, at: &CpuSet) -> String {
        match cause.doer {
            Doer::Watcher => return "it is this command: --by-counts attaches nothing".to_owned(),
            Doer::Job if cause.kind != DisturbanceKind::Fault => return "the job's own doing".to_owned(),
            _ => {}
        }
        let by = cause.by.as_deref();
        match cause.kind {
            DisturbanceKind::Device => self
                .no_interrupts()
                .unwrap_or_else(|| "millpond doctor (says which interrupts cannot be moved)".to_owned()),
            DisturbanceKind::Ipi => self.call(&cause.name, by.unwrap_or("its sender"), pid),
            DisturbanceKind::Tick => self.tick(&cause.name),
            DisturbanceKind::Softirq => self.soft(&cause.name),
            DisturbanceKind::Timer => self.timer(&cause.name, by, pid),
            DisturbanceKind::Worker => self.worker(&cause.name),
            DisturbanceKind::Kthread => self.thread(&cause.name, pid),
            DisturbanceKind::Task => self.task(pid, at),
            DisturbanceKind::Fault => "lock and touch all memory before it matters (mlockall)".to_owned(),
            DisturbanceKind::Steal => "ask the hypervisor for CPUs of your own".to_owned(),
            DisturbanceKind::Hardware
                if cause.name.contains("perf") && self.settings.nmi_watchdog != Some(false) =>
            {
                "sysctl kernel.nmi_watchdog=0".to_owned()
            }
            DisturbanceKind::Hardware => {
                "look at the firmware's settings, and at the log of the kernel".to_owned()
            }
        }
    }

    /// The command that moves interrupts off the watched CPUs; `None` if all of them are no-intr. One CPU of the machine must
    /// keep interrupts.
    fn no_interrupts(&self) -> Option<String> {
        let with = &self.cpus - &self.no_intr;
        let left = &(&self.online - &self.no_intr) - &with;
        if with.is_empty() {
            None
        } else if left.is_empty() {
            Some("none: one CPU must take interrupts, and no other one does".to_owned())
        } else {
            Some(format!("psradm -i {with}"))
        }
    }

    fn call(&self, function: &str, by: &str, pid: Option<Pid>) -> String {
        match function {
            "reschedule" | "sched_ttwu_pending" | "cross call" => self.keep_apart(by, pid),
            "nohz_csd_func" | "nohz_full_kick_func" => self.no_balancing(),
            "do_sync_core" | "text_poke_sync_each_cpu" => {
                format!("{by} patches the kernel: no tracing, BPF or modules meanwhile")
            }
            // The only names in the tables of `/proc`.
            "Rescheduling interrupts" | "Function call interrupts" => {
                "only a BPF program in the kernel can name its sender".to_owned()
            }
            "irq work" => "no perf, tracing or kernel messages from there".to_owned(),
            name if name.contains("flush_tlb") || name.contains("tlb") => {
                format!("{by} changes mappings: no munmap, mprotect or forks in the job")
            }
            name if name.contains("membarrier") => format!("{by} asks for barriers on all CPUs"),
            name if name.contains("perf") => format!("{by} reads events there: leave {} out", self.cpus),
            _ => format!("find out why {by} calls there"),
        }
    }

    /// Threads that wake each other up should be on the same side of the set's border.
    fn keep_apart(&self, by: &str, pid: Option<Pid>) -> String {
        match (self.own_set(), pid) {
            (Some(set), Some(pid)) => format!("psrset -b {set} {pid} (if {by} belongs to the job)"),
            _ => format!("{by} wakes threads there: keep both on the same CPUs"),
        }
    }

    /// The remedy for load balancing, which is only disabled by a boot parameter or an isolated partition.
    fn no_balancing(&self) -> String {
        let open = &self.cpus - &self.settings.isolated;
        if open.is_empty() {
            return "none: no load is balanced there; it is the idle CPU's own".to_owned();
        }
        let Some(partitions) = &self.settings.isolated_partitions else {
            return format!("boot with isolcpus=domain,{open} (no load balancing there)");
        };
        let fence = self.own_set().and_then(|set| self.fence(set));
        match (fence, open.is_subset(partitions)) {
            (Some(fence), true) => {
                format!(
                    "millpond fence --off {fence} (and put it up again: other CPUs still take these for idle ones)"
                )
            }
            (Some(fence), false) => {
                format!(
                    "millpond fence --off {fence} (and put it up with a profile that isolates: low-latency)"
                )
            }
            (None, true) => "none: no load is balanced there; it is the idle CPU's own".to_owned(),
            (None, false) => {
                format!("millpond fence --name quiet {open} (an isolated partition: no load balancing there)")
            }
        }
    }

    fn tick(&self, name: &str) -> String {
        match name {
            "clock" => self.no_interrupts().unwrap_or_else(|| "none: no CPU is left to take it".to_owned()),
            "deadman" => "none: each CPU has it once a second".to_owned(),
            _ => {
                let ticking = &self.cpus - &self.settings.nohz_full;
                if ticking.is_empty() {
                    "one thread on each CPU: the tick stops where no second one is ready".to_owned()
                } else {
                    format!("boot with nohz_full={ticking}, and run one thread on each")
                }
            }
        }
    }

    fn soft(&self, name: &str) -> String {
        match name {
            "NET_RX" | "NET_TX" => match self.no_interrupts() {
                Some(command) => {
                    format!("{command} (moves cards; packets of loopback stay where they are sent)")
                }
                None => "cards are moved already: it is for packets that programs there send or loopback's"
                    .to_owned(),
            },
            "RCU" => self.no_callbacks(),
            "SCHED" => self.no_balancing(),
            "BLOCK" | "IRQ_POLL" => "no disk input and output from there".to_owned(),
            "TIMER" | "HRTIMER" => "see the timers; what set them there stays there".to_owned(),
            _ => self.no_interrupts().unwrap_or_else(|| "find out what raises it there".to_owned()),
        }
    }

    fn no_callbacks(&self) -> String {
        let with = &self.cpus - &self.settings.rcu_nocbs;
        if with.is_empty() {
            "none: callbacks run elsewhere already; what is left notes quiet states".to_owned()
        } else {
            format!("boot with rcu_nocbs={with}")
        }
    }

    fn timer(&self, name: &str, by: Option<&str>, pid: Option<Pid>) -> String {
        match (name, by) {
            (name, _) if name.contains("clocksource_watchdog") => "boot with tsc=reliable".to_owned(),
            ("delayed_work_timer_fn", _) => self.no_work(),
            (name, _) if name.contains("watchdog") => self.no_watchdog(),
            (_, Some(by)) => match pid.and_then(|pid| self.elsewhere(pid)) {
                Some(command) => format!("{command} ({by} sleeps there)"),
                None => format!("{by} sleeps there: start it elsewhere"),
            },
            _ => "it was set there: start elsewhere what set it".to_owned(),
        }
    }

    fn no_watchdog(&self) -> String {
        match self.settings.watchdog {
            Some(false) => "none: the watchdog is off; it ends with its timer".to_owned(),
            _ => "sysctl kernel.watchdog=0".to_owned(),
        }
    }

    fn no_work(&self) -> String {
        match self.no_interrupts() {
            Some(command) => format!("{command} (moves kernel work; what is bound to a CPU stays)"),
            None => "none: kernel work that can be moved was; this is bound to the CPU".to_owned(),
        }
    }

    fn worker(&self, function: &str) -> String {
        match function {
            "vmstat_update" if self.settings.stat_interval_s.is_none_or(|s| s < 3600) => {
                "sysctl vm.stat_interval=3600".to_owned()
            }
            _ => self.no_work(),
        }
    }

    fn thread(&self, name: &str, pid: Option<Pid>) -> String {
        match name {
            name if name.starts_with("ksoftirqd/") => "see the soft interrupts".to_owned(),
            name if name.starts_with("kworker/") => "see the workers".to_owned(),
            name if name.starts_with("irq/") => self
                .no_interrupts()
                .unwrap_or_else(|| "millpond doctor (says which interrupts cannot be moved)".to_owned()),
            name if name.starts_with("rcu") => self.no_callbacks(),
            name if name.starts_with("migration/") || name.starts_with("cpuhp/") => {
                "no changes of sets and bindings meanwhile".to_owned()
            }
            name if name.starts_with("watchdog") => self.no_watchdog(),
            // A number after a slash is that of the CPU to which the thread is pinned.
            name if name.rsplit_once('/').is_some_and(|(_, cpu)| cpu.parse::<u32>().is_ok()) => {
                "none: it belongs to the CPU".to_owned()
            }
            _ => {
                let others = &self.online - &self.cpus;
                match pid.filter(|_| !others.is_empty()) {
                    Some(pid) => format!("taskset -pc {others} {pid}"),
                    None => "none: it may run anywhere, and there is no other CPU".to_owned(),
                }
            }
        }
    }

    /// The remedy for a thread outside the job.
    fn task(&self, pid: Option<Pid>, at: &CpuSet) -> String {
        let of = |cpu: CpuId| self.sets.iter().find(|set| set.members.contains(&cpu));
        let sets: Vec<&Pset> = at.iter().filter_map(of).collect();
        let Some(set) = sets.first() else {
            let taken = self.taken();
            let left = &(&self.online - &taken) - &self.cpus;
            return if left.is_empty() {
                "none: the CPUs of the default set are everybody's, and it needs one".to_owned()
            } else {
                format!("psrset -c {} (a set of them is for its members alone)", &self.cpus - &taken)
            };
        };
        match set.mode {
            PsetMode::Shared => match self.fence(set.id) {
                Some(fence) => {
                    format!(
                        "millpond fence --off {fence} (and put it up with a profile that keeps others out)"
                    )
                }
                None => format!("psrset -d {} (and make it again without --keep-others)", set.id),
            },
            PsetMode::Steered => "millpond doctor --repair (moves newcomers aside)".to_owned(),
            PsetMode::Affinity => "a set made by the superuser keeps others out".to_owned(),
            PsetMode::Own | PsetMode::InPlace => match pid.and_then(|pid| self.elsewhere(pid)) {
                Some(command) => command,
                None => "millpond doctor --repair (if it says that the set is broken)".to_owned(),
            },
        }
    }

    /// The fence of a set.
    fn fence(&self, set: PsetId) -> Option<&str> {
        self.fences.iter().find(|(of, _)| *of == set).map(|(_, name)| name.as_str())
    }

    /// The CPUs of sets and of other programs.
    fn taken(&self) -> CpuSet {
        self.sets.iter().fold(self.reserved.clone(), |all, set| &all | &set.cpus())
    }

    /// The command that unbinds a process from the watched set, or binds it to an unwatched CPU of the default set.
    fn elsewhere(&self, pid: Pid) -> Option<String> {
        let free = &(&self.online - &self.taken()) - &self.cpus;
        free.lowest().map(|cpu| format!("pbind -b {cpu} {pid}"))
    }

    /// The set that all watched CPUs are in.
    fn own_set(&self) -> Option<PsetId> {
        self.sets.iter().find(|set| self.cpus.is_subset(&set.cpus())).map(|set| set.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;
    use std::ffi::OsString;

    fn cpus(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    fn set(mode: PsetMode) -> Pset {
        Pset {
            id: PsetId(1),
            members: vec![CpuId(2), CpuId(3)],
            mode,
            breaches: Vec::new(),
            returns: Default::default(),
        }
    }

    fn ground() -> Ground {
        Ground { cpus: cpus("2-3"), online: cpus("0-3"), ..Ground::default() }
    }

    /// A machine with all possible measures in effect.
    fn done() -> Ground {
        let settings = KernelSettings {
            nohz_full: cpus("2-3"),
            rcu_nocbs: cpus("2-3"),
            isolated: cpus("2-3"),
            isolated_partitions: Some(CpuSet::new()),
            nmi_watchdog: Some(false),
            watchdog: Some(false),
            stat_interval_s: Some(3600),
        };
        Ground { no_intr: cpus("2-3"), sets: vec![set(PsetMode::Own)], settings, ..ground() }
    }

    fn said(ground: &Ground, kind: DisturbanceKind, name: &str, by: Option<&str>) -> String {
        let cause = Cause { kind, name: name.into(), by: by.map(str::to_owned), doer: Doer::Others };
        ground.remedy(&cause, Some(Pid(77)), &cpus("2"))
    }

    const NAMES: [&str; 24] = [
        "anything",
        "reschedule",
        "nohz_csd_func",
        "do_sync_core",
        "do_flush_tlb_all",
        "clock",
        "deadman",
        "tick_nohz_handler",
        "NET_RX",
        "RCU",
        "SCHED",
        "BLOCK",
        "HRTIMER",
        "clocksource_watchdog",
        "delayed_work_timer_fn",
        "watchdog_timer_fn",
        "vmstat_update",
        "ksoftirqd/2",
        "irq/24-eth0",
        "rcuc/2",
        "migration/2",
        "kcompactd0",
        "perf interrupt",
        "foo/3",
    ];

    /// Every possible remedy, on machines with different measures in effect.
    fn all() -> Vec<(Ground, String)> {
        let shared = Ground { sets: vec![set(PsetMode::Shared)], ..ground() };
        let steered = Ground { sets: vec![set(PsetMode::Steered)], ..ground() };
        let every = Ground { cpus: cpus("0-3"), ..ground() };
        let mut all = Vec::new();
        let settings = KernelSettings { isolated_partitions: Some(CpuSet::new()), ..Default::default() };
        let open = Ground { settings: settings.clone(), ..ground() };
        let fences = vec![(PsetId(1), "nc".to_owned())];
        let fenced = Ground { settings, fences, sets: vec![set(PsetMode::Own)], ..ground() };
        for ground in [ground(), done(), shared, steered, every, open, fenced] {
            for kind in DisturbanceKind::ALL {
                for name in NAMES {
                    for by in [None, Some("cron")] {
                        all.push((ground.clone(), said(&ground, kind, name, by)));
                    }
                }
            }
        }
        all
    }

    /// The command at the start of a remedy, if any.
    fn command(remedy: &str) -> Option<Vec<&str>> {
        let words: Vec<&str> = remedy.split(" (").next()?.split(' ').collect();
        let ours = Command::named(words[0], crate::COMMANDS).is_some_and(|c| c.spec.applet)
            || words[0] == "millpond";
        (ours || ["sysctl", "taskset"].contains(&words[0])).then_some(words)
    }

    #[test]
    fn each_command_that_is_advised_exists_and_parses() {
        let mut seen = std::collections::BTreeSet::new();
        for (_, remedy) in all() {
            let Some(words) = command(&remedy) else { continue };
            seen.insert(words[0].to_owned());
            match words.as_slice() {
                ["sysctl", setting] => {
                    let (name, value) = setting.split_once('=').unwrap();
                    assert!(
                        ["kernel.nmi_watchdog", "kernel.watchdog", "vm.stat_interval"].contains(&name),
                        "{remedy}"
                    );
                    assert!(value.parse::<u32>().is_ok(), "{remedy}");
                }
                ["taskset", "-pc", list, pid] => {
                    assert!(list.parse::<CpuSet>().is_ok() && pid.parse::<u32>().is_ok(), "{remedy}");
                }
                words => {
                    let words = if words[0] == "millpond" { &words[1..] } else { words };
                    let found =
                        Command::named(words[0], crate::COMMANDS).unwrap_or_else(|| panic!("{remedy}"));
                    let rest: Vec<OsString> = words[1..].iter().map(Into::into).collect();
                    let parsed =
                        millpond_cli::parse(&found.spec, &rest).unwrap_or_else(|e| panic!("{remedy}: {e:?}"));
                    match found.spec.name {
                        "psradm" => assert!(crate::operands::cpus(&parsed.words()).is_ok(), "{remedy}"),
                        "psrset" if parsed.has('c') => {
                            assert!(crate::operands::cpus(&parsed.words()).is_ok())
                        }
                        "psrset" if parsed.has('d') => {
                            assert!(crate::operands::sets(&parsed.words()).is_ok())
                        }
                        "psrset" => {
                            assert!(parsed.has('b') && crate::operands::targets(&parsed.words()[1..]).is_ok())
                        }
                        "pbind" => {
                            assert!(parsed.has('b') && crate::operands::targets(&parsed.words()).is_ok())
                        }
                        "doctor" => {}
                        "fence" => assert!(parsed.long("off") || parsed.long("name"), "{remedy}"),
                        other => panic!("{other}: {remedy}"),
                    }
                }
            }
        }
        let expected = ["millpond", "pbind", "psradm", "psrset", "sysctl", "taskset"];
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_is_done_already_is_not_advised() {
        for (ground, remedy) in all() {
            let is_done = !ground.no_intr.is_empty();
            let advised = ["psradm -i", "sysctl", "nohz_full=", "rcu_nocbs=", "isolcpus="];
            assert!(!is_done || !advised.iter().any(|what| remedy.contains(what)), "{remedy}");
            assert!(!remedy.contains("a set of one's own"), "{remedy}");
        }
    }

    #[test]
    fn a_part_that_is_done_is_left_out() {
        let ground = Ground { no_intr: cpus("2"), ..ground() };
        assert_eq!(said(&ground, DisturbanceKind::Device, "eth0", None), "psradm -i 3");
    }

    #[test]
    fn balancing_ends_by_an_isolated_partition_where_there_are_any() {
        let said = |ground: &Ground| said(ground, DisturbanceKind::Softirq, "SCHED", None);
        assert_eq!(said(&ground()), "boot with isolcpus=domain,2-3 (no load balancing there)");
        let of = |partitions: &str, fences: Vec<(PsetId, String)>| {
            let isolated_partitions = Some(cpus(partitions));
            let settings = KernelSettings { isolated_partitions, ..KernelSettings::default() };
            Ground { settings, fences, sets: vec![set(PsetMode::Own)], ..ground() }
        };
        let fences = || vec![(PsetId(1), "nc".to_owned())];
        assert_eq!(
            said(&of("", Vec::new())),
            "millpond fence --name quiet 2-3 (an isolated partition: no load balancing there)"
        );
        assert_eq!(
            said(&of("", fences())),
            "millpond fence --off nc (and put it up with a profile that isolates: low-latency)"
        );
        assert_eq!(
            said(&of("2-3", fences())),
            "millpond fence --off nc (and put it up again: other CPUs still take these for idle ones)"
        );
        assert_eq!(said(&of("2-3", Vec::new())), "none: no load is balanced there; it is the idle CPU's own");
    }

    #[test]
    fn the_last_processors_that_take_interrupts_keep_them() {
        let all = Ground { cpus: cpus("0-3"), ..ground() };
        let remedy = said(&all, DisturbanceKind::Device, "eth0", None);
        assert_eq!(remedy, "none: one CPU must take interrupts, and no other one does");
    }

    #[test]
    fn a_foreign_thread_is_kept_out_by_what_the_set_lacks() {
        let of = |sets: Vec<Pset>| said(&Ground { sets, ..ground() }, DisturbanceKind::Task, "cron", None);
        assert_eq!(of(Vec::new()), "psrset -c 2-3 (a set of them is for its members alone)");
        assert_eq!(of(vec![set(PsetMode::Shared)]), "psrset -d 1 (and make it again without --keep-others)");
        let fenced =
            Ground { sets: vec![set(PsetMode::Shared)], fences: vec![(PsetId(1), "nc".into())], ..ground() };
        assert_eq!(
            said(&fenced, DisturbanceKind::Task, "cron", None),
            "millpond fence --off nc (and put it up with a profile that keeps others out)"
        );
        assert_eq!(of(vec![set(PsetMode::Own)]), "pbind -b 0 77");
        assert_eq!(of(vec![set(PsetMode::Steered)]), "millpond doctor --repair (moves newcomers aside)");
    }
}
