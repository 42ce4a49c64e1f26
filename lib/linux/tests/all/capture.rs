//! A captured machine opens again with the same contents, without identifying names.

use crate::common::HandMade;
use millpond_linux::{LinuxMachine, Root, capture};
use millpond_machine::facets::CreateOptions;
use millpond_machine::{Machine, MemoryJournal, Writer};
use millpond_model::{ControlHolder, ControlSetting, CpuCap, CpuId, Shares};

fn open(dir: &std::path::Path) -> LinuxMachine {
    LinuxMachine::open(Root::captured(dir), Box::new(MemoryJournal::default()))
}

#[test]
fn a_capture_says_what_the_machine_said() {
    let made = HandMade::new(4, true);
    made.process(20, &[20, 21], "secretapp", 0);
    made.file("cgroup/cpuset/acme-billing/cpuset.cpus", "0-3\n");
    made.file("cgroup/cpuset/acme-billing/tasks", "");
    let into = tempfile::tempdir().unwrap();
    let dir = into.path().join("copy");
    capture(&Root::captured(made.dir.path()), &dir).unwrap();
    let (a, b) = (made.machine(), open(&dir));
    assert_eq!(a.processors().unwrap().topology(), b.processors().unwrap().topology());
    assert_eq!(a.processors().unwrap().states(), b.processors().unwrap().states());
    assert_eq!(a.interrupts().unwrap().list(), b.interrupts().unwrap().list());
    let mut text = String::new();
    for entry in walk(&dir) {
        text.push_str(&entry.display().to_string());
        text.push_str(&std::fs::read_to_string(&entry).unwrap_or_default());
    }
    assert!(!text.contains("secretapp") && !text.contains("acme"), "a name was left in");
    assert!(capture(&Root::captured(made.dir.path()), &dir).is_err(), "an old capture is not overwritten");
}

#[test]
fn a_capture_can_be_changed_like_the_machine() {
    let made = HandMade::new(4, false);
    let original = made.machine();
    let change = original.psets().unwrap().prepare_create(&[CpuId(2)], CreateOptions::default(), false);
    Writer::open(&original).unwrap().commit(change.unwrap()).unwrap();
    let into = tempfile::tempdir().unwrap();
    let dir = into.path().join("copy");
    capture(&Root::captured(made.dir.path()), &dir).unwrap();
    let machine = open(&dir);
    let writer = Writer::open(&machine).unwrap();
    let options = CreateOptions::default();
    let change = machine.psets().unwrap().prepare_create(&[CpuId(3)], options, false).unwrap();
    writer.commit(change).unwrap();
    assert_eq!(machine.psets().unwrap().list().unwrap()[0].members, [CpuId(2)]);
    assert_eq!(machine.psets().unwrap().list().unwrap()[1].members, [CpuId(3)]);
}

/// A live machine with its state directory next to a copy.
fn live(into: &tempfile::TempDir) -> LinuxMachine {
    LinuxMachine::open(Root::live(into.path().join("state")), Box::new(MemoryJournal::default()))
}

fn real_time(machine: &LinuxMachine) -> Vec<millpond_model::RealTimeSetting> {
    machine.disturbances().unwrap().real_time_settings().unwrap()
}

#[test]
fn a_capture_of_this_machine_is_as_ready_for_real_time_as_the_machine() {
    let into = tempfile::tempdir().unwrap();
    let dir = into.path().join("copy");
    capture(&Root::live(into.path().join("state")), &dir).unwrap();
    let machine = live(&into);
    assert_eq!(real_time(&open(&dir)), real_time(&machine));
    let controls = |machine: &LinuxMachine| {
        let controls = machine.controls().map_err(|absent| absent.why)?;
        let live = [millpond_model::Control::CpuShares, millpond_model::Control::CpuCap];
        Ok::<_, String>((controls.made_by(), live.map(|control| controls.live(control).is_ok())))
    };
    assert_eq!(controls(&open(&dir)), controls(&machine));
    let line = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let copy = std::fs::read_to_string(dir.join("proc/cmdline")).unwrap_or_default();
    let read = ["preempt", "threadirqs", "rcu_nocbs"];
    let private = |word: &&str| !read.iter().any(|name| word.starts_with(name));
    assert!(!line.split_whitespace().filter(private).any(|word| copy.contains(word)), "{copy}");
}

#[test]
fn settings_for_real_time_are_in_a_capture() {
    let made = HandMade::new(2, false);
    for (file, text) in [
        ("proc/cmdline", "root=/dev/acme preempt=full threadirqs rcu_nocbs=1 ip=10.0.0.7\n"),
        ("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC acme 2026\n"),
        ("proc/sys/kernel/osrelease", "6.1.0\n"),
        ("proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
        ("proc/sys/kernel/sched_rt_period_us", "1000000\n"),
        ("sys/devices/system/cpu/nohz_full", "1\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state2/name", "C6\n"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state2/latency", "170\n"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state2/disable", "0\n"),
        ("sys/kernel/debug/sched/preempt", "none voluntary (full)\n"),
        ("sys/kernel/debug/sched/fair_server/cpu0/runtime", "50000000\n"),
    ] {
        made.file(file, text);
    }
    for release in ["6.1.0\n", "6.18.0\n"] {
        made.file("proc/sys/kernel/osrelease", release);
        let into = tempfile::tempdir().unwrap();
        let dir = into.path().join("copy");
        capture(&Root::captured(made.dir.path()), &dir).unwrap();
        let told = real_time(&made.machine());
        assert!(told.iter().all(|setting| setting.effect != millpond_model::Effect::Unknown), "{told:?}");
        assert_eq!(real_time(&open(&dir)), told);
        let names = walk(&dir).iter().any(|file| {
            std::fs::read_to_string(file).is_ok_and(|text| text.contains("acme") || text.contains("10.0.0.7"))
        });
        assert!(!names, "a name was left in");
    }
}

#[test]
fn shares_and_caps_are_in_a_capture() {
    for v1 in [false, true] {
        let made = HandMade::new(4, v1);
        let root = if v1 { "cgroup/cpu" } else { "cgroup" };
        for group in ["", "/batch", "/web"] {
            let mut files = vec![
                ("cgroup.procs", ""),
                ("cpu.stat", "nr_periods 7\nnr_throttled 3\nthrottled_usec 2500\n"),
            ];
            if v1 {
                files.extend([("tasks", ""), ("cpu.shares", "1024\n"), ("cpu.idle", "0\n")]);
                files.extend([("cpu.cfs_quota_us", "-1\n"), ("cpu.cfs_period_us", "100000\n")]);
                files.push(("cpuacct.usage", "9000\n"));
            } else if !group.is_empty() {
                files.push(("cgroup.subtree_control", ""));
            }
            files.iter().for_each(|(file, text)| made.file(&format!("{root}{group}/{file}"), text));
        }
        let machine = made.machine();
        let set = |zone: &str, to| {
            let holder = ControlHolder::Zone(zone.to_owned());
            let change = machine.controls().unwrap().prepare_set(&holder, to).unwrap();
            Writer::open(&machine).unwrap().commit(change).unwrap();
        };
        // 400 shares are the largest weight. In the kernel, the weights of the others then equal no whole number of shares.
        set("/batch", ControlSetting::CpuShares(Some(Shares::new(400).unwrap())));
        set("/web", ControlSetting::CpuShares(Some(Shares::new(3).unwrap())));
        set("/web", ControlSetting::CpuCap(Some(CpuCap::new(150).unwrap())));
        let into = tempfile::tempdir().unwrap();
        let dir = into.path().join("copy");
        capture(&Root::captured(made.dir.path()), &dir).unwrap();
        let listed = |machine: &LinuxMachine| {
            let all = machine.controls().unwrap().list().unwrap();
            let mut all: Vec<String> = all
                .into_iter()
                .map(|one| format!("{:?} {:?} {:?} {:?}", one.shares, one.cap, one.used, one.throttled))
                .collect();
            all.sort();
            all
        };
        assert!(listed(&machine).iter().any(|one| one.contains("Shares(3)")), "{:?}", listed(&machine));
        assert_eq!(listed(&open(&dir)), listed(&machine), "version 1: {v1}");
    }
}

#[test]
fn this_machine_can_be_captured_and_opened() {
    let into = tempfile::tempdir().unwrap();
    let dir = into.path().join("copy");
    let captured = capture(&Root::live(into.path().join("state")), &dir).unwrap();
    assert!(captured.files > 10, "{captured:?}");
    let machine = open(&dir);
    let live = live(&into);
    let topology = machine.processors().unwrap().topology().unwrap();
    let same = live.processors().unwrap().topology().unwrap();
    assert_eq!(topology.cpus(), same.cpus());
    assert_eq!(topology.cores(), same.cores());
    assert_eq!(topology.caches(), same.caches());
}

fn walk(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(walk(&path));
        }
        all.push(path);
    }
    all
}
