//! What helps against a disturbance, in a few words: a command of ours where there is one.

use millpond_model::{Cause, CpuSet, DisturbanceKind, Doer};

/// What helps. `cpus` are the watched processors, for commands.
pub fn remedy(cause: &Cause, cpus: &CpuSet) -> String {
    match cause.doer {
        Doer::Watcher => return "it is this command: --by-counts attaches nothing".to_owned(),
        Doer::Job if cause.kind != DisturbanceKind::Fault => return "the job's own doing".to_owned(),
        _ => {}
    }
    let by = || cause.by.as_deref().unwrap_or("somebody");
    match cause.kind {
        DisturbanceKind::Device => format!("psradm -i {cpus}"),
        DisturbanceKind::Ipi => call(&cause.name, by(), cpus),
        DisturbanceKind::Tick => tick(&cause.name, cpus),
        DisturbanceKind::Softirq => soft(&cause.name, cpus),
        DisturbanceKind::Timer => timer(&cause.name, cause.by.as_deref(), cpus),
        DisturbanceKind::Worker => worker(&cause.name, cpus),
        DisturbanceKind::Kthread => thread(&cause.name, cpus),
        DisturbanceKind::Task => {
            "bind it elsewhere (psrset -b), or make the set exclusive (without --keep-others)".to_owned()
        }
        DisturbanceKind::Fault => "lock and touch all memory before it matters (mlockall)".to_owned(),
        DisturbanceKind::Steal => "ask the hypervisor for processors of your own".to_owned(),
        DisturbanceKind::Hardware if cause.name.contains("perf") => "sysctl kernel.nmi_watchdog=0".to_owned(),
        DisturbanceKind::Hardware => {
            "look at the firmware's settings, and at the log of the kernel".to_owned()
        }
    }
}

fn call(function: &str, by: &str, cpus: &CpuSet) -> String {
    match function {
        "reschedule" | "sched_ttwu_pending" | "cross call" => {
            format!("bind {by} and whom it wakes to the same set: psrset -b")
        }
        "nohz_csd_func" | "nohz_full_kick_func" => {
            "no load balancing there: a set of one's own (isolated)".to_owned()
        }
        "do_sync_core" | "text_poke_sync_each_cpu" => {
            format!("{by} patches the kernel: no tracing, BPF or modules meanwhile")
        }
        // The tables of `/proc` have no names but these.
        "Rescheduling interrupts" | "Function call interrupts" => {
            "who sends it is seen by programs in the kernel only".to_owned()
        }
        "irq work" => "no perf, tracing or kernel messages from there".to_owned(),
        name if name.contains("flush_tlb") || name.contains("tlb") => {
            format!("{by} changes mappings: no munmap, mprotect or forks in the job")
        }
        name if name.contains("membarrier") => {
            format!("{by} asks for barriers on all processors: bind it elsewhere")
        }
        name if name.contains("perf") => format!("{by} reads events there: leave {cpus} out"),
        _ => format!("find out why {by} calls there"),
    }
}

fn tick(name: &str, cpus: &CpuSet) -> String {
    match name {
        "clock" => format!("psradm -i {cpus}"),
        "deadman" => "none: each processor has it once a second".to_owned(),
        _ => format!("boot with nohz_full={cpus}, and run one thread on each"),
    }
}

fn soft(name: &str, cpus: &CpuSet) -> String {
    match name {
        "NET_RX" | "NET_TX" => format!("psradm -i {cpus} (moves the cards and their packets)"),
        "RCU" => format!("boot with rcu_nocbs={cpus}"),
        "SCHED" => "no load balancing there: a set of one's own (isolated)".to_owned(),
        "BLOCK" | "IRQ_POLL" => "no disk input and output from there".to_owned(),
        "TIMER" | "HRTIMER" => "see the timers; what set them there stays there".to_owned(),
        _ => format!("psradm -i {cpus}"),
    }
}

fn timer(name: &str, by: Option<&str>, cpus: &CpuSet) -> String {
    match (name, by) {
        (name, _) if name.contains("clocksource_watchdog") => "boot with tsc=reliable".to_owned(),
        ("delayed_work_timer_fn", _) => format!("psradm -i {cpus} (moves kernel work)"),
        (name, _) if name.contains("watchdog") => "sysctl kernel.watchdog=0".to_owned(),
        (_, Some(by)) => format!("{by} sleeps there: bind it elsewhere (psrset -b)"),
        _ => "it was set there: bind elsewhere what set it".to_owned(),
    }
}

fn worker(function: &str, cpus: &CpuSet) -> String {
    match function {
        "vmstat_update" => "sysctl vm.stat_interval=3600".to_owned(),
        _ => format!("psradm -i {cpus} (moves kernel work; what is bound to a processor stays)"),
    }
}

fn thread(name: &str, cpus: &CpuSet) -> String {
    match name {
        name if name.starts_with("ksoftirqd/") => "see the soft interrupts".to_owned(),
        name if name.starts_with("kworker/") => "see the workers".to_owned(),
        name if name.starts_with("irq/") => format!("psradm -i {cpus}"),
        name if name.starts_with("rcu") => format!("boot with rcu_nocbs={cpus}"),
        name if name.starts_with("migration/") || name.starts_with("cpuhp/") => {
            "no changes of sets and bindings meanwhile".to_owned()
        }
        name if name.starts_with("watchdog") => "sysctl kernel.watchdog=0".to_owned(),
        _ => "bind it elsewhere: taskset, or a set of one's own (isolated)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::CpuId;

    fn said(kind: DisturbanceKind, name: &str, by: Option<&str>, doer: Doer) -> String {
        let cause = Cause { kind, name: name.into(), by: by.map(str::to_owned), doer };
        remedy(&cause, &[CpuId(2), CpuId(3)].into_iter().collect())
    }

    #[test]
    fn each_kind_has_a_remedy() {
        for kind in DisturbanceKind::ALL {
            for doer in [Doer::Others, Doer::Job, Doer::Watcher] {
                assert!(!said(kind, "anything", None, doer).is_empty());
            }
        }
    }

    #[test]
    fn remedies_name_processors_and_senders() {
        let others = |kind, name, by| said(kind, name, by, Doer::Others);
        assert_eq!(others(DisturbanceKind::Device, "eth0", None), "psradm -i 2-3");
        assert_eq!(
            others(DisturbanceKind::Tick, "tick_nohz_handler", None),
            "boot with nohz_full=2-3, and run one thread on each"
        );
        assert_eq!(
            others(DisturbanceKind::Ipi, "do_sync_core", Some("insmod")),
            "insmod patches the kernel: no tracing, BPF or modules meanwhile"
        );
        assert_eq!(said(DisturbanceKind::Timer, "x", Some("job"), Doer::Job), "the job's own doing");
        assert!(said(DisturbanceKind::Fault, "page fault", None, Doer::Job).contains("mlockall"));
    }
}
