//! CPU shares and CPU caps on synthetic roots: both cgroup versions, and a tree that systemd owns.

use crate::common::HandMade;
use millpond_linux::LinuxMachine;
use millpond_machine::facets::Recontrolled;
use millpond_machine::{Change, Knobs, Machine, Refusal, Writer, is_at_rest};
use millpond_model::{Control, ControlHolder, ControlSetting, CpuCap, CpuId, Pid, PsetId, Shares};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// A machine with groups `/batch`, `/web` and `/web/inner` in the hierarchy of the CPU controller, and process 20 in `/web`.
fn machine_of(v1: bool) -> HandMade {
    let made = HandMade::new(4, v1);
    if v1 {
        for group in ["", "/batch", "/web", "/web/inner"] {
            for file in ["cgroup.procs", "tasks"] {
                made.file(&format!("cgroup/cpu{group}/{file}"), "");
            }
            for (file, text) in [("cpu.shares", "1024"), ("cpu.idle", "0"), ("cpu.cfs_quota_us", "-1")] {
                made.file(&format!("cgroup/cpu{group}/{file}"), &format!("{text}\n"));
            }
            made.file(&format!("cgroup/cpu{group}/cpu.cfs_period_us"), "100000\n");
            made.file(
                &format!("cgroup/cpu{group}/cpu.stat"),
                "nr_periods 7\nnr_throttled 3\nthrottled_time 2500000\n",
            );
            made.file(&format!("cgroup/cpu{group}/cpuacct.usage"), "9000000000\n");
        }
    } else {
        for group in ["/batch", "/web", "/web/inner"] {
            for file in ["cgroup.procs", "cgroup.threads", "cgroup.subtree_control"] {
                made.file(&format!("cgroup{group}/{file}"), "");
            }
            let stat = "usage_usec 9000000\nnr_periods 7\nnr_throttled 3\nthrottled_usec 2500\n";
            made.file(&format!("cgroup{group}/cpu.stat"), stat);
        }
    }
    made.process(20, &[20, 21], "work", 0);
    let line = if v1 { "1:cpuset:/\n4:cpu,cpuacct:/web\n" } else { "0::/web\n" };
    for file in ["proc/20/cgroup", "proc/20/task/20/cgroup", "proc/20/task/21/cgroup"] {
        made.file(file, line);
    }
    let root = if v1 { "cgroup/cpu" } else { "cgroup" };
    made.file(&format!("{root}/web/cgroup.procs"), "20\n");
    made.file(&format!("{root}/web/{}", if v1 { "tasks" } else { "cgroup.threads" }), "20\n21\n");
    made
}

fn zone(name: &str) -> ControlHolder {
    ControlHolder::Zone(name.to_owned())
}

fn shares(count: u32) -> ControlSetting {
    ControlSetting::CpuShares(Some(Shares::new(count).unwrap()))
}

fn cap(percent: u32) -> ControlSetting {
    ControlSetting::CpuCap(Some(CpuCap::new(percent).unwrap()))
}

const NO_SHARES: ControlSetting = ControlSetting::CpuShares(None);
const NO_CAP: ControlSetting = ControlSetting::CpuCap(None);

fn prepare(
    machine: &LinuxMachine,
    holder: &ControlHolder,
    to: ControlSetting,
) -> Result<Change<Recontrolled>, Refusal> {
    machine.controls().unwrap().prepare_set(holder, to)
}

fn set(machine: &LinuxMachine, holder: &ControlHolder, to: ControlSetting) -> Vec<String> {
    let writer = Writer::open(machine).unwrap();
    let done = writer.commit(prepare(machine, holder, to).unwrap()).unwrap();
    assert!(is_at_rest(machine).unwrap(), "{:?}", machine.settle());
    done.notes
}

/// Checks that every file is unchanged, and names those that differ.
fn same(made: &HandMade, before: &BTreeMap<PathBuf, String>, when: &str) {
    let now = made.snapshot();
    let paths: BTreeSet<&PathBuf> = before.keys().chain(now.keys()).collect();
    let other: Vec<String> = paths
        .into_iter()
        .filter(|path| before.get(*path) != now.get(*path))
        .map(|path| format!("{}: {:?} became {:?}", path.display(), before.get(path), now.get(path)))
        .collect();
    assert!(other.is_empty(), "{when}: {other:#?}");
}

fn weight_file(v1: bool) -> &'static str {
    if v1 { "cgroup/cpu/batch/cpu.shares" } else { "cgroup/batch/cpu.weight" }
}

fn quota_file(v1: bool) -> &'static str {
    if v1 { "cgroup/cpu/batch/cpu.cfs_quota_us" } else { "cgroup/batch/cpu.max" }
}

#[test]
fn shares_are_a_weight_and_a_cap_is_a_quota_until_they_are_deleted() {
    for v1 in [false, true] {
        let made = machine_of(v1);
        let before = made.snapshot();
        let machine = made.machine();
        set(&machine, &zone("/batch"), shares(20));
        set(&machine, &zone("/batch"), cap(150));
        assert_eq!(made.read(weight_file(v1)), if v1 { "20480" } else { "2000" });
        assert_eq!(made.read(quota_file(v1)), if v1 { "150000" } else { "150000 100000" });
        let is = machine.controls().unwrap().controlled(&zone("/batch")).unwrap();
        assert_eq!((is.shares.unwrap().get(), is.cap.unwrap().get()), (20, 150));
        assert_eq!(is.used.unwrap().0, 9_000_000_000);
        let throttled = is.throttled.unwrap();
        assert_eq!((throttled.time.0, throttled.periods, throttled.of), (2_500_000, 3, 7));
        set(&machine, &zone("/batch"), NO_SHARES);
        assert_eq!(made.read(quota_file(v1)), if v1 { "150000" } else { "150000 100000" });
        set(&machine, &zone("/batch"), NO_CAP);
        same(&made, &before, &format!("version 1: {v1}"));
        assert!(machine.journal().baselines().is_empty());
    }
}

#[test]
fn cpu_time_that_another_hierarchy_counts_is_that_of_the_same_processes_or_not_known() {
    let made = machine_of(true);
    for group in ["", "/batch", "/web", "/web/inner"] {
        std::fs::remove_file(made.dir.path().join(format!("cgroup/cpu{group}/cpuacct.usage"))).unwrap();
        made.file(&format!("cgroup/cpuacct{group}/cgroup.procs"), "");
        made.file(&format!("cgroup/cpuacct{group}/cpuacct.usage"), "7000000000\n");
    }
    let machine = made.machine();
    let used = || machine.controls().unwrap().controlled(&zone("/web")).unwrap().used;
    assert_eq!(used(), None, "process 20 is elsewhere in that hierarchy");
    made.file("cgroup/cpuacct/web/inner/cgroup.procs", "20\n");
    assert_eq!(used().map(|used| used.0), Some(7_000_000_000), "what is below counts, too");
    made.file("cgroup/cpuacct/web/cgroup.procs", "99\n");
    assert_eq!(used(), None, "another process is counted there, too");
}

#[test]
fn odd_values_that_somebody_set_before_come_back() {
    for v1 in [false, true] {
        let made = machine_of(v1);
        if v1 {
            made.file("cgroup/cpu/batch/cpu.shares", "333\n");
            made.file("cgroup/cpu/batch/cpu.cfs_quota_us", "30000\n");
            made.file("cgroup/cpu/batch/cpu.cfs_period_us", "50000\n");
        } else {
            made.file("cgroup/cgroup.subtree_control", "cpu\n");
            for group in ["batch", "web"] {
                made.file(&format!("cgroup/{group}/cpu.weight"), "333\n");
                made.file(&format!("cgroup/{group}/cpu.max"), "30000 50000\n");
                made.file(&format!("cgroup/{group}/cpu.idle"), "0\n");
            }
        }
        let before = made.snapshot();
        let machine = made.machine();
        let is = machine.controls().unwrap().controlled(&zone("/batch")).unwrap();
        assert_eq!((is.shares, is.cap.map(CpuCap::get)), (None, Some(60)), "333 is no number of shares");
        for to in [shares(0), shares(3), cap(1), cap(400), NO_SHARES, NO_CAP] {
            set(&machine, &zone("/batch"), to);
        }
        same(&made, &before, &format!("version 1: {v1}"));
    }
}

#[test]
fn no_shares_are_an_idle_group() {
    for v1 in [false, true] {
        let made = machine_of(v1);
        let before = made.snapshot();
        let machine = made.machine();
        set(&machine, &zone("/batch"), shares(0));
        assert_eq!(made.read(if v1 { "cgroup/cpu/batch/cpu.idle" } else { "cgroup/batch/cpu.idle" }), "1");
        set(&machine, &zone("/batch"), shares(2));
        assert_eq!(made.read(weight_file(v1)), if v1 { "2048" } else { "200" });
        set(&machine, &zone("/batch"), NO_SHARES);
        same(&made, &before, "at the end");
    }
}

#[test]
fn more_shares_than_there_are_weights_keep_their_ratios() {
    let made = machine_of(false);
    let before = made.snapshot();
    let machine = made.machine();
    set(&machine, &zone("/web"), shares(50));
    assert_eq!(made.read("cgroup/web/cpu.weight"), "5000");
    let notes = set(&machine, &zone("/batch"), shares(400));
    assert_eq!(made.read("cgroup/batch/cpu.weight"), "10000");
    assert_eq!(made.read("cgroup/web/cpu.weight"), "1250");
    assert_eq!(
        notes,
        ["400 shares are the largest weight: a group beside it without shares counts as 4.0 shares"]
    );
    // Cgroups with another parent are not compared with these.
    set(&machine, &zone("/web/inner"), shares(3));
    assert_eq!(made.read("cgroup/web/inner/cpu.weight"), "300");
    set(&machine, &zone("/batch"), NO_SHARES);
    assert_eq!(made.read("cgroup/web/cpu.weight"), "5000");
    set(&machine, &zone("/web"), NO_SHARES);
    set(&machine, &zone("/web/inner"), NO_SHARES);
    same(&made, &before, "at the end");
}

#[test]
fn a_process_with_controls_has_a_group_of_its_own_and_goes_home() {
    for v1 in [false, true] {
        let made = machine_of(v1);
        let before = made.snapshot();
        let machine = made.machine();
        let process = ControlHolder::Process(Pid(20));
        let controls = machine.controls().unwrap();
        assert_eq!(controls.holders_of(Pid(20)).unwrap(), [zone("/web")]);
        let notes = set(&machine, &process, cap(50));
        assert!(
            notes[0].starts_with("process 20 leaves /web while it has a control of its own"),
            "{notes:?}"
        );
        set(&machine, &process, shares(2));
        let root = if v1 { "cgroup/cpu" } else { "cgroup" };
        assert_eq!(made.read(&format!("{root}/mpcap-20/cgroup.procs")), "20");
        assert_eq!(made.read(&format!("{root}/web/cgroup.procs")), "");
        assert_eq!(controls.holders_of(Pid(20)).unwrap(), std::slice::from_ref(&process));
        let is = controls.controlled(&process).unwrap();
        assert_eq!((is.shares.unwrap().get(), is.cap.unwrap().get()), (2, 50));
        if v1 {
            assert!(made.read("proc/20/cgroup").starts_with("1:cpuset:/\n"), "its set stays what it is");
        }
        set(&machine, &process, NO_CAP);
        assert_eq!(controls.controlled(&process).unwrap().cap, None);
        set(&machine, &process, NO_SHARES);
        same(&made, &before, &format!("version 1: {v1}"));
        assert!(set(&machine, &process, NO_SHARES).is_empty(), "deleting what is not set succeeds");
        same(&made, &before, "at the end");
    }
}

#[test]
fn a_process_that_ended_leaves_nothing_behind_the_next_change() {
    let made = machine_of(true);
    made.file("cgroup/cpu/web/cgroup.procs", "");
    let before = made.snapshot();
    made.process(30, &[30], "gone", 0);
    for file in ["proc/30/cgroup", "proc/30/task/30/cgroup"] {
        made.file(file, "4:cpu:/\n1:cpuset:/\n");
    }
    let machine = made.machine();
    set(&machine, &ControlHolder::Process(Pid(30)), cap(50));
    made.file("cgroup/cpu/mpcap-30/cgroup.procs", "");
    made.file("cgroup/cpu/mpcap-30/tasks", "");
    made.exit(30);
    assert!(machine.settle().unwrap().is_empty(), "what ended is nothing out of order");
    assert!(!machine.stale().is_empty());
    set(&machine, &zone("/batch"), shares(1));
    set(&machine, &zone("/batch"), NO_SHARES);
    same(&made, &before, "at the end");
}

#[test]
fn a_change_that_is_cut_off_anywhere_is_put_back() {
    for v1 in [false, true] {
        for (holder, to) in [
            (zone("/web/inner"), shares(7)),
            (zone("/batch"), shares(0)),
            (zone("/batch"), cap(33)),
            (ControlHolder::Process(Pid(20)), cap(33)),
        ] {
            let steps = prepare(&machine_of(v1).machine(), &holder, to).unwrap().steps.len();
            for applied in 0..=steps {
                let made = machine_of(v1);
                let before = made.snapshot();
                let machine = made.machine();
                let change = prepare(&machine, &holder, to).unwrap();
                machine.journal().begin(&change.what, &machine.boot_id(), &change.steps).unwrap();
                for step in &change.steps[..applied] {
                    machine.write(&step.knob, step.after.as_ref()).unwrap();
                }
                drop(Writer::open(&machine).unwrap());
                same(&made, &before, &format!("{holder} {to:?}: {applied} of {steps}, version 1: {v1}"));
            }
        }
    }
}

#[test]
fn the_controller_stays_where_another_group_uses_it_meanwhile() {
    let made = machine_of(false);
    let machine = made.machine();
    set(&machine, &zone("/batch"), shares(5));
    made.file("cgroup/web/cpu.weight", "777\n");
    set(&machine, &zone("/batch"), NO_SHARES);
    assert_eq!(made.read("cgroup/web/cpu.weight"), "777");
    assert_eq!(made.read("cgroup/batch/cpu.weight"), "100");
    assert!(machine.journal().baselines().is_empty());
}

#[test]
fn what_somebody_else_changed_is_set_again() {
    let made = machine_of(false);
    let machine = made.machine();
    set(&machine, &zone("/batch"), shares(5));
    made.file("cgroup/batch/cpu.weight", "100\n");
    assert!(!is_at_rest(&machine).unwrap());
    Writer::open(&machine).unwrap().settle().unwrap();
    assert_eq!(made.read("cgroup/batch/cpu.weight"), "500");
}

#[test]
fn groups_of_other_managers_and_processes_in_sets_are_refused() {
    let made = machine_of(false);
    for group in ["kubepods/pod1", "user.slice/user-0.slice/user@0.service/app"] {
        made.file(&format!("cgroup/{group}/cgroup.procs"), "");
    }
    let machine = made.machine();
    let refused = |holder: &ControlHolder| {
        let refusal = prepare(&machine, holder, shares(2)).unwrap_err();
        format!("{}: {}; {}", refusal.subject, refusal.reason, refusal.hint.unwrap_or_default())
    };
    assert!(refused(&zone("/kubepods/pod1")).contains("resources.requests.cpu"));
    assert!(refused(&zone("/user.slice/user-0.slice/user@0.service/app")).contains("project user.NAME"));
    assert_eq!(refused(&zone("nothing")), "zone nothing: there is no such zone; millpond zones lists them");
    assert!(refused(&zone("global")).contains("it is the whole machine here"));
    assert!(
        refused(&ControlHolder::Project("nobody".into()))
            .starts_with("project nobody: there is no such project")
    );
    let set_of_two = machine.psets().unwrap().prepare_create(&[CpuId(2)], Default::default(), false).unwrap();
    Writer::open(&machine).unwrap().commit(set_of_two).unwrap();
    let bind = machine.threads().unwrap().prepare_bind_set(Pid(20), None, Some(PsetId(1))).unwrap();
    Writer::open(&machine).unwrap().commit(bind).unwrap();
    assert_eq!(
        refused(&ControlHolder::Process(Pid(20))),
        "process 20: it is in the group of set 1, and a process has one group only; unbind it from its set first (psrset -u 20)"
    );
}

#[test]
fn a_machine_without_the_controller_says_so() {
    let made = machine_of(false);
    made.file("cgroup/cgroup.controllers", "cpuset memory\n");
    assert_eq!(made.machine().controls().err().unwrap().why, "there is no cgroup controller for CPU time");
    let made = machine_of(true);
    std::fs::remove_file(made.dir.path().join("cgroup/cpu/cpu.cfs_quota_us")).unwrap();
    let machine = made.machine();
    let absent = machine.controls().unwrap().live(Control::CpuCap).unwrap_err();
    assert_eq!(absent.why, "the kernel has no quota on CPU time");
    assert!(machine.controls().unwrap().live(Control::CpuShares).is_ok());
}

/// The same machine with systemd as process 1: two services and a user.
fn managed() -> HandMade {
    let made = machine_of(false);
    made.file("proc/1/comm", "systemd\n");
    made.file("etc/passwd", "root:x:0:0::/root:/bin/sh\nkim:x:1000:1000::/home/kim:/bin/sh\n");
    std::fs::create_dir_all(made.dir.path().join("run/systemd/system")).unwrap();
    std::fs::create_dir_all(made.dir.path().join("run/systemd/system.control")).unwrap();
    for path in [
        "system.slice",
        "system.slice/a.service",
        "system.slice/b.service",
        "user.slice",
        "user.slice/user-1000.slice",
    ] {
        for file in ["cgroup.procs", "cgroup.threads", "cgroup.subtree_control"] {
            made.file(&format!("cgroup/{path}/{file}"), "");
        }
    }
    for (file, text) in [("cgroup.procs", "20\n"), ("cgroup.threads", "20\n21\n")] {
        made.file(&format!("cgroup/web/{file}"), "");
        made.file(&format!("cgroup/system.slice/a.service/{file}"), text);
    }
    for file in ["proc/20/cgroup", "proc/20/task/20/cgroup", "proc/20/task/21/cgroup"] {
        made.file(file, "0::/system.slice/a.service\n");
    }
    made
}

#[test]
fn units_of_systemd_are_changed_by_their_properties() {
    let made = managed();
    let before = made.snapshot();
    let machine = made.machine();
    let unit = zone("a.service");
    set(&machine, &unit, shares(20));
    assert_eq!(made.read("cgroup/system.slice/a.service/cpu.weight"), "2000");
    set(&machine, &unit, cap(150));
    assert_eq!(made.read("cgroup/system.slice/a.service/cpu.max"), "150000 100000");
    let drop_in = "run/systemd/system.control/a.service.d/50-CPUQuota.conf";
    assert!(made.read(drop_in).ends_with("CPUQuotaPerSecUSec=1500000"));
    let knobs: Vec<String> = machine.journal().baselines().into_keys().map(|knob| knob.0).collect();
    assert_eq!(knobs, ["quota:/system.slice/a.service", "weight:/system.slice/a.service"]);
    set(&machine, &unit, shares(0));
    assert_eq!(made.read("cgroup/system.slice/a.service/cpu.idle"), "1");
    let user = ControlHolder::Project("user.kim".into());
    set(&machine, &user, cap(80));
    assert_eq!(made.read("cgroup/user.slice/user-1000.slice/cpu.max"), "80000 100000");
    set(&machine, &user, NO_CAP);
    set(&machine, &unit, NO_SHARES);
    set(&machine, &unit, NO_CAP);
    same(&made, &before, "at the end");
    assert!(machine.journal().baselines().is_empty());
}

#[test]
fn a_weight_that_a_unit_had_comes_back_as_its_property() {
    let made = managed();
    let drop_in = "run/systemd/system.control/a.service.d/50-CPUWeight.conf";
    made.file(drop_in, "[Slice]\nCPUWeight=\nCPUWeight=300\n");
    let machine = made.machine();
    set(&machine, &zone("b.service"), cap(10));
    set(&machine, &zone("a.service"), shares(7));
    assert!(made.read(drop_in).ends_with("CPUWeight=700"));
    set(&machine, &zone("a.service"), NO_SHARES);
    assert!(made.read(drop_in).ends_with("CPUWeight=300"));
    let listed = machine.controls().unwrap().list().unwrap();
    let found: Vec<String> = listed.iter().map(|one| one.holder.to_string()).collect();
    assert_eq!(
        found,
        [
            "project system.slice",
            "project user.kim",
            "project user.slice",
            "zone /batch",
            "zone /web",
            "zone /web/inner",
            "zone a.service",
            "zone b.service",
        ]
    );
}

#[test]
fn what_the_files_of_a_unit_say_comes_back_without_a_drop_in_of_this_boot() {
    let made = managed();
    for (setting, value) in [("CPUWeight", "CPUWeight=300"), ("CPUQuota", "CPUQuotaPerSecUSec=700000")] {
        let file = format!("etc/systemd/system.control/a.service.d/50-{setting}.conf");
        made.file(&file, &format!("[Service]\n{value}\n"));
    }
    let machine = made.machine();
    // The emulated systemd enables the controller with the first unit that has a property.
    set(&machine, &zone("b.service"), cap(10));
    let before = made.snapshot();
    let run = made.dir.path().join("run/systemd");
    for of in ["system.control", "transient"] {
        set(&machine, &zone("a.service"), shares(7));
        set(&machine, &zone("a.service"), cap(30));
        assert_eq!(made.read("cgroup/system.slice/a.service/cpu.max"), "30000 100000");
        if of == "transient" {
            std::fs::create_dir_all(run.join("transient")).unwrap();
            std::fs::rename(run.join("system.control/a.service.d"), run.join("transient/a.service.d"))
                .unwrap();
        }
        set(&machine, &zone("a.service"), NO_SHARES);
        set(&machine, &zone("a.service"), NO_CAP);
        assert_eq!(made.read("cgroup/system.slice/a.service/cpu.max"), "70000 100000");
        assert_eq!(made.read("cgroup/system.slice/a.service/cpu.weight"), "300");
        assert!(!run.join(of).join("a.service.d").exists(), "{of}");
    }
    for (path, text) in before {
        let path_now = path.display().to_string();
        if !path_now.contains("a.service/cpu.") {
            assert_eq!(made.snapshot().get(&path), Some(&text), "{path_now}");
        }
    }
}

#[test]
fn a_process_of_a_unit_gets_a_scope_and_goes_back() {
    let made = managed();
    let before = made.snapshot();
    let machine = made.machine();
    let process = ControlHolder::Process(Pid(20));
    let holders = machine.controls().unwrap().holders_of(Pid(20)).unwrap();
    assert_eq!(holders, [ControlHolder::Project("system.slice".into()), zone("a.service")]);
    set(&machine, &process, cap(50));
    assert_eq!(made.read("proc/20/cgroup"), "0::/system.slice/mpcap-20-1.scope");
    assert_eq!(made.read("cgroup/system.slice/mpcap-20-1.scope/cpu.max"), "50000 100000");
    set(&machine, &process, NO_CAP);
    assert_eq!(made.read("proc/20/cgroup"), "0::/system.slice/a.service");
    same(&made, &before, "at the end");
}

#[test]
fn a_group_of_a_user_that_is_called_like_a_unit_of_the_system_is_not_in_its_way() {
    let made = managed();
    let user = "user.slice/user-1000.slice/user@1000.service";
    for path in ["", "/app.slice", "/app.slice/a.service"] {
        made.file(&format!("cgroup/{user}{path}/cgroup.procs"), "");
        made.file(&format!("cgroup/{user}{path}/cgroup.subtree_control"), "");
    }
    let machine = made.machine();
    set(&machine, &zone("a.service"), cap(50));
    assert_eq!(made.read("cgroup/system.slice/a.service/cpu.max"), "50000 100000");
}

#[test]
fn a_unit_that_ended_with_nothing_set_any_more_leaves_no_drop_in() {
    let made = managed();
    let machine = made.machine();
    set(&machine, &zone("a.service"), cap(50));
    let drop_in = made.dir.path().join("run/systemd/system.control/a.service.d");
    std::fs::remove_dir_all(made.dir.path().join("cgroup/system.slice/a.service")).unwrap();
    // While the cap is set, it applies again when the unit starts.
    assert!(is_at_rest(&machine).unwrap() && drop_in.exists());
    assert_eq!(
        machine.controls().unwrap().controlled(&zone("a.service")).unwrap_err().reason.to_string(),
        "there is no such zone"
    );
}

/// A child process that computes until it is dropped.
struct Spinner(std::process::Child);

impl Drop for Spinner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_real_process_of_ours_is_capped_loses_time_to_the_cap_and_goes_back() {
    const TEST: &str = "a_real_process_of_ours_is_capped_loses_time_to_the_cap_and_goes_back";
    let spinner = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let spinner = Spinner(spinner);
    let pid = Pid(spinner.0.id());
    let state = tempfile::tempdir().unwrap();
    let root = millpond_linux::Root::live(state.path().to_path_buf());
    let machine = LinuxMachine::open(root, Box::new(millpond_machine::MemoryJournal::default()));
    let groups = || std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let before = groups();
    let process = ControlHolder::Process(pid);
    let skipped = |why: &dyn std::fmt::Display| println!("skipped: {TEST}: {why}");
    let controls = match machine.controls().and_then(|c| c.live(Control::CpuCap).map(|()| c)) {
        Ok(controls) => controls,
        Err(absent) => return skipped(&absent),
    };
    let change = |to| -> Result<(), Refusal> {
        let writer = Writer::open(&machine)?;
        writer.commit(controls.prepare_set(&process, to)?).map(drop)
    };
    if let Err(refusal) = change(cap(10)) {
        return skipped(&refusal);
    }
    assert!(groups().contains(&format!("mpcap-{pid}")), "{}", groups());
    // On a busy host it may take a while until a loop has used a tenth of a CPU.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let lost = loop {
        let is = controls.controlled(&process).unwrap();
        assert_eq!(is.cap.map(CpuCap::get), Some(10));
        let throttled = is.throttled.unwrap();
        // The kernel counts the throttled time at the end of the period.
        if throttled.time.0 > 0 || std::time::Instant::now() > deadline {
            break throttled;
        }
        std::thread::yield_now();
    };
    change(shares(3)).unwrap();
    change(NO_CAP).unwrap();
    assert_eq!(controls.controlled(&process).unwrap().shares.map(Shares::get), Some(3));
    change(NO_SHARES).unwrap();
    assert_eq!(groups(), before);
    if lost.time.0 == 0 {
        return skipped(&"the loop got less than its cap within a minute");
    }
    assert!(lost.periods > 0 && lost.of >= lost.periods, "{lost:?}");
}

#[test]
fn the_caps_above_a_process_are_those_of_all_its_groups_and_of_the_container() {
    for v1 in [false, true] {
        let made = machine_of(v1);
        let line = if v1 { "1:cpuset:/\n4:cpu,cpuacct:/web/inner\n" } else { "0::/web/inner\n" };
        made.file("proc/20/cgroup", line);
        let quota = |group: &str, percent: u32| {
            if v1 {
                made.file(&format!("cgroup/cpu{group}/cpu.cfs_quota_us"), &format!("{percent}000\n"));
            } else {
                made.file(&format!("cgroup{group}/cpu.max"), &format!("{percent}000 100000\n"));
            }
        };
        quota("/web", 50);
        quota("/web/inner", 20);
        quota("/batch", 10);
        let machine = made.machine();
        let controls = machine.controls().unwrap();
        let caps = |pid: u32| {
            let found = controls.caps_of(Pid(pid)).unwrap();
            found
                .iter()
                .map(|one| {
                    format!("{} {} {:?}", one.holder, one.cap.unwrap(), one.throttled.map(|it| it.time.0))
                })
                .collect::<Vec<_>>()
        };
        let lost = "Some(2500000)";
        let expected = [format!("zone /web 50 {lost}"), format!("zone /web/inner 20 {lost}")];
        assert_eq!(caps(20), expected, "{v1}");
        // In a container the root has a quota, set from outside.
        if v1 {
            quota("", 200);
        } else {
            made.file("cgroup/cpu.max", "200000 100000\n");
            made.file(
                "cgroup/cpu.stat",
                "usage_usec 9000000\nnr_periods 7\nnr_throttled 3\nthrottled_usec 2500\n",
            );
        }
        assert_eq!(caps(20)[0], format!("zone global 200 {lost}"), "{v1}");
        let refused = prepare(&machine, &zone("global"), cap(300)).unwrap_err();
        assert_eq!(
            refused.hint.as_deref(),
            Some("raise the CPU limit of the container where it was started"),
            "{refused}"
        );
    }
}
