//! Fences on synthetic roots.

use crate::common::HandMade;
use crate::common::commands::cpus;
use millpond_linux::LinuxMachine;
use millpond_machine::facets::{FenceWish, Member, without_fence};
use millpond_machine::{Knob, Knobs, Machine, Reason, Refusal, Writer};
use millpond_model::pools::{PoolsConf, PoolsState};
use millpond_model::{
    CpuId, CpuSet, MachineSetting, Nanos, Others, Pid, Proof, ProofOutcome, Shelter, ShelterItem, State,
    WallTime,
};
use std::collections::BTreeMap;
use std::os::unix::fs::symlink;

/// Flags of a kernel thread, and of one that cannot be moved.
const KERNEL: u64 = 0x20_0000;
const PINNED: u64 = KERNEL | 0x400_0000;

fn prepared_root(v1: bool) -> HandMade {
    let made = HandMade::new(4, v1);
    made.file("proc/sys/kernel/watchdog_cpumask", "0-3\n");
    for cpu in 0..4 {
        made.file(&format!("sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us"), "0\n");
        made.file(&format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"), "schedutil\n");
    }
    made.process(17, &[17], "khugepaged", KERNEL);
    made.process(18, &[18], "kswapd0", KERNEL);
    // With version 2 in the form that the kernel remembers until a partition takes CPUs.
    made.file("proc/18/task/18/mask", if v1 { "2-3" } else { "2-3 in /:" });
    made.process(19, &[19], "migration/3", PINNED);
    made.file("proc/19/task/19/mask", "3\n");
    made
}

fn wish(name: &str, shelter: Shelter) -> FenceWish {
    FenceWish { name: name.parse().unwrap(), profile: "own".to_owned(), shelter, cpus: cpus(&[2, 3]) }
}

/// The CPUs that a kernel thread may use; `all` for every CPU.
fn mask(machine: &LinuxMachine, pid: u32) -> String {
    let knob = Knob(format!("kthread:{pid}/{pid}@{}", 1000 + pid));
    machine.read(&knob).unwrap().unwrap()
}

fn all() -> Shelter {
    Shelter {
        others: Others::Isolated,
        interrupts: true,
        kernel_threads: true,
        watchdog: true,
        idle_latency: Some(Nanos(0)),
        governor: Some("performance".to_owned()),
        ..Shelter::default()
    }
}

fn put_up(machine: &LinuxMachine, wish: &FenceWish) -> Result<Vec<(ShelterItem, usize)>, Refusal> {
    let writer = Writer::open(machine).unwrap();
    let change = machine.fences()?.prepare_fence(wish, false)?;
    let counted: usize = change.outcome.parts.iter().map(|(_, count)| count).sum();
    assert_eq!(counted, change.steps.len(), "each step has somebody who asked for it");
    Ok(writer.commit(change)?.outcome.parts)
}

fn take_down(machine: &LinuxMachine, name: &str) {
    let writer = Writer::open(machine).unwrap();
    let change = machine.fences().unwrap().prepare_off(&name.parse().unwrap()).unwrap();
    writer.commit(change).unwrap();
}

#[test]
fn everything_leaves_and_comes_back() {
    for v1 in [false, true] {
        let made = prepared_root(v1);
        let before = made.snapshot();
        let machine = made.machine();
        put_up(&machine, &wish("trading", all())).unwrap();
        if !v1 {
            assert_eq!(made.read("cgroup/mpset1/cpuset.cpus.partition"), "isolated");
        }
        assert_eq!(made.read("proc/irq/24/smp_affinity_list"), "0-1");
        assert_eq!(made.read("proc/sys/kernel/watchdog_cpumask"), "0-1");
        assert_eq!(mask(&machine, 17), "0-1");
        assert_eq!(mask(&machine, 18), "0-1", "nothing was left of its own list");
        assert_eq!(made.read("proc/19/task/19/mask"), "3", "the kernel does not let it go");
        let setting = |cpu: u32, file: &str| made.read(&format!("sys/devices/system/cpu/cpu{cpu}/{file}"));
        assert_eq!(setting(2, "power/pm_qos_resume_latency_us"), "n/a");
        assert_eq!(setting(1, "power/pm_qos_resume_latency_us"), "0");
        assert_eq!(setting(3, "cpufreq/scaling_governor"), "performance");
        assert_eq!(setting(0, "cpufreq/scaling_governor"), "schedutil");
        assert!(machine.settle().unwrap().is_empty(), "{:?}", machine.settle());
        take_down(&machine, "trading");
        assert!(machine.journal().baselines().is_empty(), "{:?}", machine.journal().baselines());
        let after = made.snapshot();
        for (path, text) in &before {
            // A mask of all CPUs equals no mask.
            assert_eq!(after.get(path), Some(text), "{}", path.display());
        }
    }
}

#[test]
fn what_appears_or_is_changed_later_is_set_again() {
    let made = prepared_root(false);
    let machine = made.machine();
    // The kernel itself excludes new threads from a partition.
    put_up(&machine, &wish("trading", Shelter { others: Others::In, ..all() })).unwrap();
    made.process(40, &[40], "new", KERNEL);
    made.file("proc/40/task/40/mask", "1-3\n");
    made.file("proc/sys/kernel/watchdog_cpumask", "0-3\n");
    made.file("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "powersave\n");
    let fence = machine.fences().unwrap().list().unwrap().remove(0);
    assert!(fence.breaches.iter().any(|line| line == "the watchdog cpumask was changed by another program"));
    Writer::open(&machine).unwrap().settle().unwrap();
    assert_eq!(mask(&machine, 40), "1");
    assert_eq!(made.read("proc/sys/kernel/watchdog_cpumask"), "0-1");
    assert!(machine.fences().unwrap().list().unwrap()[0].breaches.is_empty());
    take_down(&machine, "trading");
    assert_eq!(made.read("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor"), "schedutil");
}

/// Another program takes a CPU off-line, or brings it back.
fn switch(made: &HandMade, cpu: u32, on: bool) {
    made.file(&format!("sys/devices/system/cpu/cpu{cpu}/online"), if on { "1\n" } else { "0\n" });
    let online: Vec<String> =
        (0..4).filter(|other| if *other == cpu { on } else { true }).map(|cpu| cpu.to_string()).collect();
    made.file("sys/devices/system/cpu/online", &format!("{}\n", online.join(",")));
}

#[test]
fn interrupts_that_another_program_lets_in_break_a_fence() {
    let made = prepared_root(false);
    let machine = made.machine();
    let breaches = || machine.fences().unwrap().list().unwrap()[0].breaches.clone();
    put_up(&machine, &wish("trading", all())).unwrap();
    assert_eq!(breaches(), Vec::<String>::new());
    made.file("proc/irq/default_smp_affinity", "f\n");
    made.file("sys/devices/virtual/workqueue/cpumask", "f\n");
    // One that is new has the default affinity of that moment.
    made.file("proc/irq/30/smp_affinity_list", "0-3\n");
    made.file("proc/irq/30/nvme0q1/.keep", "");
    assert_eq!(
        breaches(),
        [
            "interrupt 30 (nvme0q1) is new, and is not kept away yet",
            "the default IRQ affinity was changed by another program",
            "the unbound workqueue cpumask was changed by another program",
        ]
    );
    Writer::open(&machine).unwrap().settle().unwrap();
    assert_eq!(breaches(), Vec::<String>::new());
    // What stays on other CPUs is no breach, nor what a fence does not keep away.
    made.file("proc/irq/default_smp_affinity", "1\n");
    assert_eq!(breaches(), Vec::<String>::new());
    take_down(&machine, "trading");
    put_up(&machine, &wish("trading", Shelter { interrupts: false, ..all() })).unwrap();
    made.file("proc/irq/default_smp_affinity", "f\n");
    assert_eq!(breaches(), Vec::<String>::new());
}

#[test]
fn a_cpu_that_another_program_takes_off_line_breaks_a_fence_and_is_still_sheltered() {
    let made = prepared_root(false);
    let machine = made.machine();
    let breaches = || machine.fences().unwrap().list().unwrap()[0].breaches.clone();
    put_up(&machine, &wish("trading", all())).unwrap();
    switch(&made, 3, false);
    assert_eq!(breaches(), ["CPU 3 is off-line"]);
    Writer::open(&machine).unwrap().settle().unwrap();
    assert_eq!(made.read("proc/irq/24/smp_affinity_list"), "0-1", "it comes back without interrupts");
    switch(&made, 3, true);
    assert_eq!(breaches(), Vec::<String>::new());
    // The fence ends while it is off-line: then it comes back as any other CPU.
    switch(&made, 3, false);
    take_down(&machine, "trading");
    switch(&made, 3, true);
    Writer::open(&machine).unwrap().settle().unwrap();
    assert_eq!(made.read("proc/irq/24/smp_affinity_list"), "0-3");
    let states: Vec<State> =
        machine.processors().unwrap().states().unwrap().iter().map(|s| s.state).collect();
    assert_eq!(states, [State::OnLine; 4]);
}

#[test]
fn after_a_fence_a_cpu_that_another_program_takes_off_line_is_not_sheltered() {
    for v1 in [false, true] {
        let made = prepared_root(v1);
        let machine = made.machine();
        put_up(&machine, &wish("trading", all())).unwrap();
        take_down(&machine, "trading");
        assert_ne!(made.read("state/records/processor.3"), "(absent)", "it says since when");
        switch(&made, 3, false);
        let irqs = |steps: &[millpond_machine::Step]| steps.iter().any(|step| step.knob.0.contains("irq"));
        assert!(!irqs(&machine.settle().unwrap()), "{:?}", machine.settle());
        Writer::open(&machine).unwrap().settle().unwrap();
        assert_eq!(made.read("proc/irq/24/smp_affinity_list"), "0-3");
        assert_eq!(made.read("state/records/processor.3"), "(absent)", "that ended");
        assert_ne!(made.read("state/records/processor.2"), "(absent)");
    }
}

#[test]
fn two_fences_share_what_they_keep_away() {
    let made = prepared_root(false);
    let machine = made.machine();
    let one = FenceWish { cpus: cpus(&[2]), ..wish("one", all()) };
    let two = FenceWish { cpus: cpus(&[3]), ..wish("two", all()) };
    put_up(&machine, &one).unwrap();
    put_up(&machine, &two).unwrap();
    assert_eq!(made.read("proc/sys/kernel/watchdog_cpumask"), "0-1");
    take_down(&machine, "one");
    assert_eq!(made.read("proc/sys/kernel/watchdog_cpumask"), "0-2");
    assert_eq!(mask(&machine, 17), "0-2");
    take_down(&machine, "two");
    assert_eq!(made.read("proc/sys/kernel/watchdog_cpumask"), "0-3");
    assert!(machine.journal().baselines().is_empty());
}

#[test]
fn what_a_profile_does_not_name_stays() {
    let made = prepared_root(false);
    let before = made.snapshot();
    let machine = made.machine();
    let parts =
        put_up(&machine, &wish("gentle", Shelter { others: Others::In, ..Shelter::default() })).unwrap();
    assert!(parts.iter().all(|(item, _)| *item == ShelterItem::Others), "{parts:?}");
    for file in ["proc/sys/kernel/watchdog_cpumask", "proc/irq/24/smp_affinity_list", "proc/18/task/18/mask"]
    {
        assert_eq!(Some(&made.read(file)), before.get(&made.dir.path().join(file)), "{file}");
    }
}

#[test]
fn a_fence_changes_as_a_whole() {
    let made = prepared_root(false);
    let machine = made.machine();
    put_up(&machine, &wish("trading", all())).unwrap();
    let name = "trading".parse().unwrap();
    let psets = machine.psets().unwrap();
    let refused =
        |reason: Option<Reason>| assert_eq!(reason, Some(Reason::IsFence("trading".parse().unwrap())));
    let set = machine.fences().unwrap().list().unwrap()[0].set;
    refused(psets.prepare_destroy(set).err().map(|r| r.reason));
    refused(psets.prepare_assign(set, &cpus(&[1]), false).err().map(|r| r.reason));
    refused(psets.prepare_create(&cpus(&[2]), Default::default(), false).err().map(|r| r.reason));
    let again = machine.fences().unwrap().prepare_fence(&wish("trading", all()), false);
    let exists = Reason::FenceExists { name, cpus: cpus(&[2, 3]).into_iter().collect() };
    assert_eq!(again.err().map(|r| r.reason), Some(exists));
}

#[test]
fn what_remains_is_named_with_what_would_end_it() {
    let made = prepared_root(false);
    made.file("proc/cmdline", "ro rcu_nocbs=2-3\n");
    let remains = made.machine().fences().unwrap().remains(&cpus(&[2, 3]), &all()).unwrap();
    let lines: Vec<_> = remains.iter().map(|r| (r.what.as_str(), r.parameter.as_deref())).collect();
    assert_eq!(
        lines,
        [
            ("the clock interrupts CPUs 2-3 while a thread runs there", Some("nohz_full=2-3")),
            ("kernel threads that belong to one CPU run when it gives them work: migration", None),
        ]
    );
}

#[test]
fn a_partition_needs_no_isolation_at_boot() {
    for (v1, parameters) in [
        (false, ["isolcpus=managed_irq,2-3", "irqaffinity=0-1"]),
        (true, ["isolcpus=domain,managed_irq,2-3", "irqaffinity=0-1"]),
    ] {
        let made = prepared_root(v1);
        made.file("proc/irq/25/effective_affinity_list", "3\n");
        let file = made.dir.path().join("proc/irq/25/smp_affinity_list");
        let mut mode = std::fs::metadata(&file).unwrap().permissions();
        mode.set_readonly(true);
        std::fs::set_permissions(&file, mode).unwrap();
        let remains = made.machine().fences().unwrap().remains(&cpus(&[2, 3]), &all()).unwrap();
        let lines: Vec<_> = remains.iter().filter_map(|r| r.parameter.as_deref()).collect();
        assert_eq!(lines, ["nohz_full=2-3", "rcu_nocbs=2-3", parameters[0], parameters[1]]);
    }
}

#[test]
fn strands_timers_and_settings_of_the_machine_come_back() {
    let made = prepared_root(false);
    for cpu in 0..4 {
        made.file(&format!("sys/kernel/debug/sched/fair_server/cpu{cpu}/runtime"), "50000000\n");
    }
    made.file("proc/sys/kernel/numa_balancing", "1\n");
    made.file("proc/sys/vm/stat_interval", "1\n");
    made.file("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n");
    let before = made.snapshot();
    let machine = made.machine();
    let global = [
        (MachineSetting::NumaBalancing, 0),
        (MachineSetting::StatInterval, 120),
        (MachineSetting::TimerMigration, 0),
        (MachineSetting::Turbo, 0),
    ];
    let shelter =
        Shelter { siblings_off: true, flush: true, no_fair_server: true, global: global.into(), ..all() };
    let one = FenceWish { cpus: cpus(&[2]), ..wish("one", shelter.clone()) };
    let change = machine.fences().unwrap().prepare_fence(&one, false).unwrap();
    assert_eq!(change.outcome.absent, ["timer-migration: this machine has no such setting"]);
    let online: Vec<_> = change.steps.iter().filter(|step| step.knob.0.ends_with("/online")).collect();
    let shown: Vec<_> = online
        .iter()
        .map(|s| (&s.knob.0[s.knob.0.len() - 8..s.knob.0.len() - 7], s.after.as_deref()))
        .collect();
    assert_eq!(
        shown,
        [("3", Some("0")), ("2", Some("0")), ("2", Some("1"))],
        "the strand, then there and back"
    );
    put_up(&machine, &one).unwrap();
    for (file, text) in [
        ("sys/devices/system/cpu/cpu3/online", "0"),
        ("sys/devices/system/cpu/cpu2/online", "1"),
        ("sys/kernel/debug/sched/fair_server/cpu2/runtime", "0"),
        ("sys/kernel/debug/sched/fair_server/cpu1/runtime", "50000000"),
        ("proc/sys/kernel/numa_balancing", "0"),
        ("proc/sys/vm/stat_interval", "120"),
        ("sys/devices/system/cpu/intel_pstate/no_turbo", "1"),
    ] {
        assert_eq!(made.read(file), text, "{file}");
    }
    assert!(machine.settle().unwrap().is_empty(), "{:?}", machine.settle());
    take_down(&machine, "one");
    assert!(machine.journal().baselines().is_empty(), "{:?}", machine.journal().baselines());
    for (path, text) in &before {
        assert_eq!(made.snapshot().get(path), Some(text), "{}", path.display());
    }
    // The strand that belongs to another set stays there.
    put_up(&machine, &FenceWish { cpus: cpus(&[3]), ..wish("three", Shelter::default()) }).unwrap();
    let refusal = machine.fences().unwrap().prepare_fence(&one, false).err().unwrap();
    assert_eq!(refusal.reason.to_string(), "it shares its core with CPU 2 and belongs to set 1");
}

/// Numbered caches, the first one for CPUs 0-1, and a mounted resctrl.
fn with_resctrl(made: &HandMade) {
    for cpu in 0..4 {
        let dir = format!("sys/devices/system/cpu/cpu{cpu}/cache/index3");
        made.file(&format!("{dir}/level"), "3\n");
        made.file(&format!("{dir}/id"), if cpu < 2 { "0\n" } else { "1\n" });
    }
    made.file("sys/fs/resctrl/schemata", "    MB:0=100;1=100\n    L3:0=fff;1=fff\n");
    made.file("sys/fs/resctrl/info/L3/min_cbm_bits", "1\n");
}

#[test]
fn caches_and_bandwidth_are_shared_out_and_come_back() {
    let made = prepared_root(false);
    with_resctrl(&made);
    let before = made.snapshot();
    let machine = made.machine();
    let shelter = Shelter { l3_ways: Some(4), others_bandwidth: Some(30), ..all() };
    let change = machine.fences().unwrap().prepare_fence(&wish("trading", shelter.clone()), false).unwrap();
    assert!(change.outcome.absent.is_empty(), "{:?}", change.outcome.absent);
    put_up(&machine, &wish("trading", shelter.clone())).unwrap();
    assert_eq!(made.read("sys/fs/resctrl/schemata"), "MB:0=100;1=30\nL3:0=fff;1=ff0");
    assert_eq!(made.read("sys/fs/resctrl/mpset1/schemata").trim_start(), "MB:0=100;1=100\nL3:0=fff;1=f");
    assert_eq!(made.read("sys/fs/resctrl/mpset1/cpus_list"), "2-3");
    assert!(machine.settle().unwrap().is_empty(), "{:?}", machine.settle());
    // Changes by another program are reverted.
    made.file("sys/fs/resctrl/schemata", "MB:0=100;1=30\nL3:0=fff;1=fff\n");
    assert!(!machine.fences().unwrap().list().unwrap()[0].breaches.is_empty());
    Writer::open(&machine).unwrap().settle().unwrap();
    assert_eq!(made.read("sys/fs/resctrl/schemata"), "MB:0=100;1=30\nL3:0=fff;1=ff0");
    take_down(&machine, "trading");
    assert!(machine.journal().baselines().is_empty(), "{:?}", machine.journal().baselines());
    let spaces = |text: &String| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
    let after = made.snapshot();
    for (path, text) in &before {
        assert_eq!(after.get(path).map(spaces), Some(spaces(text)), "{}", path.display());
    }
    assert_eq!(after.keys().find(|path| path.to_string_lossy().contains("resctrl/mpset")), None);
}

#[test]
fn what_a_cache_does_not_have_is_left_out_and_told() {
    let left_out = |prepare: fn(&HandMade), shelter: Shelter| {
        let made = prepared_root(false);
        prepare(&made);
        let machine = made.machine();
        let change = machine.fences().unwrap().prepare_fence(&wish("trading", shelter), false).unwrap();
        assert!(
            !change
                .steps
                .iter()
                .any(|step| step.knob.0.contains("resctrl") || step.knob.0.starts_with("cache-group"))
        );
        change.outcome.absent
    };
    let ways = |number| Shelter { l3_ways: Some(number), ..Shelter::default() };
    let none = "l3-ways: resctrl is not mounted, or this machine has none (mount -t resctrl resctrl /sys/fs/resctrl)";
    assert_eq!(left_out(|_| {}, ways(2)), [none]);
    assert_eq!(left_out(with_resctrl, ways(12)), ["l3-ways: there are not so many ways"]);
    let strange = |made: &HandMade| {
        with_resctrl(made);
        made.file("sys/fs/resctrl/guest/cpus_list", "3\n");
    };
    assert_eq!(left_out(strange, ways(2)), ["l3-ways: group guest of resctrl has CPUs of it already"]);
    let amounts = |made: &HandMade| {
        with_resctrl(made);
        made.file("sys/fs/resctrl/schemata", "MB:0=2048;1=2048\n");
    };
    let limit = Shelter { others_bandwidth: Some(50), l3_ways: Some(2), ..Shelter::default() };
    let told = [
        "l3-ways: resctrl has no L3 here",
        "others-memory-bandwidth: this machine limits bandwidth by amounts, not by percent",
    ];
    assert_eq!(left_out(amounts, limit), told);
}

#[test]
fn while_pools_are_enabled_a_fence_is_the_set_of_a_pool() {
    for v1 in [false, true] {
        let made = prepared_root(v1);
        let machine = made.machine();
        let pools = || machine.pools().unwrap();
        let commit = |to: Option<PoolsState>| {
            let writer = Writer::open(&machine).unwrap();
            writer.commit(pools().prepare_commit(to)?).map(drop)
        };
        let fresh = PoolsConf::fresh((0..4).map(|cpu| (CpuId(cpu), State::OnLine)));
        commit(Some(PoolsState { conf: fresh, keep_others: false, zones: BTreeMap::new() })).unwrap();
        let before = made.snapshot();
        put_up(&machine, &wish("trading", all())).unwrap();
        let state = pools().state().unwrap().unwrap();
        let set = state.conf.pset("trading").unwrap();
        assert_eq!((set.cpu_set().to_string(), set.min, set.max), ("2-3".to_owned(), 2, 2));
        let pool = state.conf.pool("trading").unwrap().id.unwrap();
        let joining = pools().prepare_join(&Member::Process(Pid(1)), pool).unwrap();
        Writer::open(&machine).unwrap().commit(joining).unwrap();
        assert_eq!(pools().members().unwrap(), BTreeMap::from([(Pid(1), pool)]));
        // Another commit does not change it.
        let mut more = state.clone();
        more.conf.pools[0].importance = 7;
        commit(Some(more)).unwrap();
        assert_eq!(machine.fences().unwrap().list().unwrap()[0].cpus.to_string(), "2-3");
        assert_eq!(mask(&machine, 18), "0-1");
        for to in [None, Some(without_fence(state, &"trading".parse().unwrap(), |_| None))] {
            let refusal = commit(to).unwrap_err();
            assert_eq!(refusal.reason, Reason::IsFence("trading".parse().unwrap()));
        }
        take_down(&machine, "trading");
        assert_eq!(pools().members().unwrap(), BTreeMap::new());
        let after = pools().state().unwrap().unwrap();
        assert_eq!(after.conf.pools[0].importance, 7);
        assert!(after.conf.pool("trading").is_none() && after.conf.psets.len() == 1);
        for (path, text) in before.iter().filter(|(path, _)| !path.to_string_lossy().contains("state")) {
            assert_eq!(made.snapshot().get(path), Some(text), "{}", path.display());
        }
    }
}

#[test]
fn a_cpu_that_would_be_lost_is_not_flushed() {
    let (first, v1) = (prepared_root(false), prepared_root(true));
    for (made, cpu, why) in [
        (&first, 0, "flush: CPU 0 cannot go off-line for a moment: the kernel keeps it on-line"),
        (&v1, 2, "flush: CPU 2 cannot go off-line for a moment: cpusets of cgroup version 1 lose it then"),
    ] {
        let machine = made.machine();
        let shelter = Shelter { flush: true, ..Shelter::default() };
        let change = machine
            .fences()
            .unwrap()
            .prepare_fence(&FenceWish { cpus: cpus(&[cpu]), ..wish("a", shelter) }, false)
            .unwrap();
        assert_eq!(change.outcome.absent, [why]);
        assert!(!change.steps.iter().any(|step| step.knob.0.ends_with("/online")));
    }
}

#[test]
fn a_proof_is_kept_with_the_fence_and_goes_with_it() {
    let made = prepared_root(false);
    let machine = made.machine();
    put_up(&machine, &wish("trading", all())).unwrap();
    let fences = machine.fences().unwrap();
    let proof = Proof {
        at: WallTime(1_700_000_000),
        length: Nanos::from_secs(60),
        limit: "50us".to_owned(),
        outcome: ProofOutcome::Kept,
    };
    let change = fences.prepare_proof(&"trading".parse().unwrap(), &proof).unwrap();
    assert_eq!(change.steps.len(), 1, "{:?}", change.steps);
    Writer::open(&machine).unwrap().commit(change).unwrap();
    assert_eq!(fences.list().unwrap()[0].fencing.proof.as_ref(), Some(&proof));
    let unknown = fences.prepare_proof(&"web".parse().unwrap(), &proof).err().map(|r| r.reason);
    let names = vec!["trading".parse().unwrap()];
    assert_eq!(unknown, Some(Reason::NoSuchFence { name: "web".parse().unwrap(), names }));
    take_down(&machine, "trading");
    put_up(&machine, &wish("trading", all())).unwrap();
    assert_eq!(fences.list().unwrap()[0].fencing.proof, None);
}

#[test]
fn a_device_is_near_the_cpus_of_what_carries_it() {
    let made = prepared_root(false);
    let card = "sys/devices/pci0000:00/0000:00:03.0";
    made.file(&format!("{card}/local_cpulist"), "2-3\n");
    made.file(&format!("{card}/msi_irqs/24"), "msix\n");
    made.file(&format!("{card}/virtio0/net/eth0/address"), "52:54:00:12:34:56\n");
    made.file("sys/devices/virtual/net/lo/address", "00:00:00:00:00:00\n");
    let sys = made.dir.path().join("sys");
    let link = |to: &str, from: &str| {
        std::fs::create_dir_all(sys.join(from).parent().unwrap()).unwrap();
        symlink(to, sys.join(from)).unwrap();
    };
    link("../../devices/pci0000:00/0000:00:03.0/virtio0/net/eth0", "class/net/eth0");
    link("../../devices/virtual/net/lo", "class/net/lo");
    link("../../../devices/pci0000:00/0000:00:03.0", "bus/pci/devices/0000:00:03.0");
    // Outside the root.
    link("/proc/self", "class/net/away");
    made.file("proc/irq/24/effective_affinity_list", "1\n");
    let machine = made.machine();
    let device = |name: &str| machine.fences().unwrap().device(name);
    let of = |text: &str| text.parse::<CpuSet>().unwrap();
    for name in ["eth0", "0000:00:03.0"] {
        let place = device(name).unwrap();
        assert_eq!((place.near, place.interrupts), (of("2-3"), of("1")), "{name}");
    }
    for name in ["eth1", "", "..", "../net/eth0", "away"] {
        assert!(matches!(device(name).map_err(|r| r.reason), Err(Reason::NoSuchDevice { .. })), "{name}");
    }
    let why = device("lo").unwrap_err().reason.to_string();
    assert_eq!(why, "lo is on no bus, and near no CPU");
}

#[test]
fn cpus_return_to_the_sets_that_they_came_from() {
    for v1 in [false, true] {
        let made = prepared_root(v1);
        let machine = made.machine();
        let psets = || machine.psets().unwrap();
        let commit = |cpus_of: &[u32]| {
            let change = psets().prepare_create(&cpus(cpus_of), Default::default(), false).unwrap();
            Writer::open(&machine).unwrap().commit(change).unwrap().outcome.0
        };
        let one = commit(&[1, 3, 2]);
        let before = made.snapshot();
        put_up(&machine, &FenceWish { cpus: cpus(&[2, 3]), ..wish("trading", all()) }).unwrap();
        assert_eq!(psets().list().unwrap()[0].members, cpus(&[1]));
        let returns = psets().list().unwrap()[1].returns.clone();
        assert_eq!(returns, BTreeMap::from([(CpuId(2), one), (CpuId(3), one)]));
        take_down(&machine, "trading");
        assert_eq!(psets().list().unwrap()[0].members, cpus(&[1, 3, 2]));
        for (path, text) in before.iter().filter(|(path, _)| !path.to_string_lossy().contains("state")) {
            assert_eq!(made.snapshot().get(path), Some(text), "{}", path.display());
        }
        let two = commit(&[3]);
        let change = psets().prepare_destroy(two).unwrap();
        Writer::open(&machine).unwrap().commit(change).unwrap();
        assert_eq!(psets().list().unwrap()[0].members, cpus(&[1, 3, 2]));
    }
}

#[test]
fn a_kernel_thread_with_a_narrowed_mask_does_not_hold_a_cpu() {
    for v1 in [false, true] {
        let made = prepared_root(v1);
        // The result of `taskset -p b 17`.
        made.file("proc/17/task/17/mask", if v1 { "0-1,3" } else { "0-1,3 in /:" });
        let before = made.snapshot();
        let machine = made.machine();
        let psets = machine.psets().unwrap();
        let change = psets.prepare_create(&cpus(&[2, 3]), Default::default(), false).unwrap();
        Writer::open(&machine).unwrap().commit(change).unwrap();
        for state in [State::OffLine, State::OnLine] {
            let change = machine.processors().unwrap().prepare_state(CpuId(3), state, false).unwrap();
            Writer::open(&machine).unwrap().commit(change).unwrap();
        }
        let change = psets.prepare_destroy(millpond_model::PsetId(1)).unwrap();
        Writer::open(&machine).unwrap().commit(change).unwrap();
        for (path, text) in before.iter().filter(|(path, _)| !path.to_string_lossy().contains("state")) {
            assert_eq!(made.snapshot().get(path), Some(text), "{}", path.display());
        }
    }
}
