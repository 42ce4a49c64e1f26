//! Scheduling classes on a synthetic machine: display of the kernel's policies, and effects of changes.

use crate::common::HandMade;
use millpond_formats::dispadmin::default_tables;
use millpond_machine::facets::{CensusOptions, Depth, SchedulerOptions, SchedulerOutcome};
use millpond_machine::{Dispatcher, Machine, Writer};
use millpond_model::{Class, ClassRequest, ClassTable, Nanos, Pid, Quantum, QuantumTable};

fn rt(pri: i32) -> ClassRequest {
    ClassRequest::Rt { pri: Some(pri), quantum: None, tqsig: None }
}

fn shown(machine: &dyn Dispatcher, pid: u32) -> String {
    let all = machine.scheduled().unwrap();
    all.into_iter().find(|s| s.pid == Pid(pid)).map_or("(absent)".into(), |s| s.params.to_string())
}

fn made() -> HandMade {
    let made = HandMade::new(4, false);
    made.process(204, &[204, 205], "httpd", 0);
    made.process(9, &[9], "kworker", 0x0020_0000);
    made.file("proc/204/status", "Name:\thttpd\nTgid:\t204\nUid:\t0\t33\t0\t0\nGid:\t0\t34\t0\t0\n");
    made
}

#[test]
fn a_process_changes_class_with_all_its_threads_and_comes_back() {
    let made = made();
    let machine = made.machine();
    let facet = machine.dispatcher().unwrap();
    assert_eq!(shown(facet, 204), "TS 0 0");
    assert_eq!(shown(facet, 9), "SYS");
    let writer = Writer::open(&machine).unwrap();
    let change = facet.prepare_class(Pid(204), &rt(10)).unwrap();
    let steps: Vec<String> = change.steps.iter().map(ToString::to_string).collect();
    assert_eq!(steps, ["policy:204/204@1204: other 0 -> rr 11", "policy:204/205@1205: other 0 -> rr 11"]);
    let done = writer.commit(change).unwrap().outcome;
    assert_eq!((done.from.to_string(), done.to.to_string()), ("TS 0 0".into(), "RT 10 10 0".into()));
    assert_eq!(shown(facet, 204), "RT 10 10 0");
    let back = facet.prepare_class(Pid(204), &ClassRequest::bare(Class::Ts).unwrap()).unwrap();
    writer.commit(back).unwrap();
    assert_eq!(shown(facet, 204), "TS 0 0");
}

#[test]
fn a_process_is_found_by_what_it_belongs_to() {
    let made = made();
    let machine = made.machine();
    let all = machine.dispatcher().unwrap().scheduled().unwrap();
    let found = all.into_iter().find(|s| s.pid == Pid(204)).unwrap().ids;
    assert_eq!((found.ppid, found.pgid, found.sid), (Some(1), Some(1), Some(1)));
    assert_eq!((found.uid, found.gid, found.zoneid), (Some(33), Some(34), None));
}

#[test]
fn what_the_kernel_does_not_have_is_refused_with_what_would_help() {
    let made = made();
    let machine = made.machine();
    let facet = machine.dispatcher().unwrap();
    let refused = facet.prepare_class(Pid(204), &ClassRequest::bare(Class::Ia).unwrap()).unwrap_err();
    assert_eq!(refused.to_string(), "process 204: this kernel has nothing that is like class IA");
    assert!(refused.hint.unwrap().contains("CONFIG_SCHED_CLASS_EXT"));
    let kernel = facet.prepare_class(Pid(9), &rt(10)).unwrap_err();
    assert_eq!(kernel.to_string(), "process 9: it is a kernel thread");
    assert_eq!(
        facet.prepare_class(Pid(77), &rt(10)).unwrap_err().to_string(),
        "process 77: there is no such process"
    );
    let tables = facet.tables().unwrap();
    let table = tables.of(Class::Ts).unwrap();
    let refused = facet.prepare_set_table(table).unwrap_err();
    assert!(refused.to_string().contains("not by dispatch tables") && refused.hint.is_some());
    assert!(facet.live().is_err() && facet.prepare_default_class(Class::Rt).is_err());
    made.file("sys/kernel/sched_ext/state", "disabled\n");
    assert!(facet.live().unwrap_err().what_would_help.unwrap().starts_with("this kernel has sched_ext"));
    made.file("sys/kernel/sched_ext/state", "enabled\n");
    made.file("sys/kernel/sched_ext/root/ops", "scx_\u{1b}lavd\n");
    let absent = facet.live().unwrap_err();
    assert_eq!(absent.why, "the scheduler scx_\\u001blavd is loaded, which does not run by dispatch tables");
    assert_eq!(absent.what_would_help.as_deref(), Some("stop scx_\\u001blavd, then start millpond schedd"));
    made.file("sys/kernel/sched_ext/root/ops", "millpond\n");
    assert_eq!(facet.live().unwrap_err().why, "the scheduler of a captured machine cannot be asked");
    let options = SchedulerOptions {
        whole: true,
        rescue: None,
        parent_pays: true,
        parity: Nanos(0),
        timeout: Nanos::from_secs(30),
        audit: false,
    };
    let Err(refused) = facet.start_scheduler(&options) else { panic!("a captured machine runs nothing") };
    assert_eq!(refused.reason.to_string(), "nothing can be started on a captured machine");
}

/// A machine with a loaded scheduler of the classes, whose state is in files.
fn scheduled(whole: bool) -> HandMade {
    let made = made();
    made.file("sys/kernel/sched_ext/state", "enabled\n");
    made.file("sys/kernel/sched_ext/root/ops", "millpond\n");
    made.file("sys/kernel/sched_ext/switch_all", if whole { "1\n" } else { "0\n" });
    made.file("sys/kernel/sched_ext/enable_seq", "3\n");
    made.file("sys/fs/bpf/millpond/threads/.keep", "");
    made
}

#[test]
fn a_process_enters_a_live_class_with_its_policy_and_comes_back_when_that_is_undone() {
    let made = scheduled(false);
    let machine = made.machine();
    let facet = machine.dispatcher().unwrap();
    let fx = ClassRequest::Fx { uprilim: Some(10), upri: Some(5), quantum: None };
    let change = facet.prepare_class(Pid(204), &fx).unwrap();
    let steps: Vec<String> = change.steps.iter().map(ToString::to_string).collect();
    assert_eq!(
        steps,
        [
            "policy:204/204@1204: other 0 -> ext 0",
            "class:204/204@1204: absent -> FX 10 5 20",
            "policy:204/205@1205: other 0 -> ext 0",
            "class:204/205@1205: absent -> FX 10 5 20",
        ]
    );
    let writer = Writer::open(&machine).unwrap();
    writer.commit(change).unwrap();
    assert_eq!(shown(facet, 204), "FX 10 5 20");
    // It is already in this state.
    assert!(facet.prepare_class(Pid(204), &fx).unwrap().steps.is_empty());
    let ia = ClassRequest::Ia { uprilim: None, upri: None, foreground: Some(true) };
    let change = facet.prepare_class(Pid(204), &ia).unwrap();
    assert_eq!(change.outcome.from.to_string(), "FX 10 5 20");
    writer.commit(change).unwrap();
    assert_eq!(shown(facet, 204), "IA 0 0 foreground");
    assert!(facet.classes().contains(&Class::Ia));
}

#[test]
fn prstat_has_the_class_and_the_level_of_each_thread_that_the_scheduler_runs() {
    let made = scheduled(true);
    made.file("sys/fs/bpf/millpond/threads/204", "1 7 7 0 0 0 0");
    made.file("sys/fs/bpf/millpond/threads/205", "4 59 49 0 0 10 0");
    made.file("sys/fs/bpf/millpond/threads/9", "0 60 60 0 0 0 0");
    made.file("proc/9/status", "Name:\tkworker\nTgid:\t9\nUid:\t0\t0\t0\t0\n");
    made.process(300, &[300], "new", 0);
    made.file("proc/300/status", "Name:\tnew\nTgid:\t300\nUid:\t0\t0\t0\t0\n");
    let list = |options| {
        let machine = made.machine();
        let roster = machine.census().unwrap().list(options).unwrap();
        let threads = roster.threads.iter().map(|t| (t.lwp.lwp.0, t.standing)).collect::<Vec<_>>();
        let shown = |(tid, s): (u32, millpond_model::Standing)| (tid, s.class.word(), s.priority);
        let mut shown: Vec<_> = threads.into_iter().map(shown).collect();
        shown.sort_unstable();
        shown
    };
    let all = CensusOptions { depth: Depth::Kept, ..CensusOptions::default() };
    // Thread 300 is new to the scheduler: it has the initial level.
    assert_eq!(list(all), [(9, "SYS", 60), (204, "TS", 7), (205, "IA", 59), (300, "TS", 29)]);
    // In partial mode these have a policy that it does not schedule.
    made.file("sys/kernel/sched_ext/switch_all", "0\n");
    assert_eq!(list(all), [(9, "SYS", 60), (204, "TS", 29), (205, "TS", 29), (300, "TS", 29)]);
}

#[test]
fn a_table_is_changed_and_put_back() {
    let made = scheduled(true);
    let machine = made.machine();
    let facet = machine.dispatcher().unwrap();
    let standard = default_tables(false);
    assert_eq!(facet.tables().unwrap(), standard);
    let slices = [vec![Quantum::Ticks(50)], standard.fx.rows()[1..].to_vec()].concat();
    let table = ClassTable::Fx(QuantumTable::new(slices).unwrap());
    let change = facet.prepare_set_table(table.clone()).unwrap();
    assert_eq!(change.steps.len(), 1);
    Writer::open(&machine).unwrap().commit(change).unwrap();
    assert_eq!(facet.tables().unwrap().of(Class::Fx), Some(table));
    assert_eq!(facet.tables().unwrap().ts, standard.ts);
}

#[test]
fn the_scheduler_is_opened_once_until_another_one_takes_its_place() {
    let made = scheduled(true);
    let machine = made.machine();
    let facet = machine.dispatcher().unwrap();
    assert!(facet.live().is_ok());
    std::fs::remove_dir_all(made.dir.path().join("sys/fs/bpf/millpond")).unwrap();
    assert!(facet.live().is_ok());
    made.file("sys/kernel/sched_ext/enable_seq", "4\n");
    assert_eq!(facet.live().unwrap_err().why, "the scheduler of a captured machine cannot be asked");
    made.file("sys/kernel/sched_ext/enable_seq", "3\n");
    made.file("sys/kernel/sched_ext/state", "disabled\n");
    assert!(facet.live().unwrap_err().what_would_help.unwrap().contains("schedd"));
}

fn checks(made: &HandMade) -> Vec<(String, SchedulerOutcome, String)> {
    let checks = made.machine().dispatcher().unwrap().scheduler_checks().unwrap();
    checks.into_iter().map(|check| (check.name, check.outcome, check.is)).collect()
}

fn check(made: &HandMade, name: &str) -> (SchedulerOutcome, String) {
    let found = checks(made).into_iter().find(|(is, ..)| is == name).unwrap();
    (found.1, found.2)
}

#[test]
fn what_keeps_a_scheduler_from_being_started_is_told_before() {
    let made = made();
    let none = (SchedulerOutcome::Prevents, "this kernel has no sched_ext".to_owned());
    assert_eq!(check(&made, "sched_ext"), none);
    made.file("sys/kernel/sched_ext/state", "disabled\n");
    assert_eq!(check(&made, "sched_ext").0, SchedulerOutcome::Good);
    made.file("proc/sys/kernel/osrelease", "6.16.0\n");
    assert_eq!(
        check(&made, "sched_ext"),
        (SchedulerOutcome::Prevents, "this kernel is older than 6.17".into())
    );
    made.file("sys/kernel/sched_ext/state", "enabled\n");
    made.file("sys/kernel/sched_ext/root/ops", "scx_\u{1b}lavd\n");
    let other = (SchedulerOutcome::Prevents, "the scheduler scx_\\u001blavd is loaded".to_owned());
    assert_eq!(check(&made, "sched_ext"), other);
    assert_eq!(check(&made, "isolcpus"), (SchedulerOutcome::Good, "no CPU".into()));
    made.file("sys/devices/system/cpu/isolated", "2-3\n");
    let isolated =
        (SchedulerOutcome::Prevents, "CPUs 2-3: with isolcpus= the kernel takes no scheduler".to_owned());
    assert_eq!(check(&made, "isolcpus"), isolated);
}

#[test]
fn the_loaded_scheduler_is_named_whichever_it_is() {
    let loaded = |made: &HandMade| made.machine().dispatcher().unwrap().loaded_scheduler();
    assert_eq!(loaded(&made()), None);
    let made = scheduled(true);
    assert_eq!(loaded(&made).as_deref(), Some("ext millpond, whole"));
    made.file("sys/kernel/sched_ext/root/ops", "scx_\u{1b}lavd\n");
    made.file("sys/kernel/sched_ext/switch_all", "0\n");
    assert_eq!(loaded(&made).as_deref(), Some("ext scx_\\u001blavd, partial"));
    made.file("sys/kernel/sched_ext/state", "disabled\n");
    assert_eq!(loaded(&made), None);
}

#[test]
fn a_scheduler_at_work_is_told_with_what_it_schedules() {
    let said = "millpond schedd is at work, for threads that are put into a class".to_owned();
    let made = scheduled(false);
    assert_eq!(check(&made, "sched_ext"), (SchedulerOutcome::Good, said.clone()));
    // The same without permission to query it.
    std::fs::remove_dir_all(made.dir.path().join("sys/fs/bpf/millpond")).unwrap();
    assert_eq!(check(&made, "sched_ext"), (SchedulerOutcome::Good, said));
}

#[test]
fn weights_and_caps_are_named_where_there_are_processes() {
    let made = made();
    let group = |path: &str, files: &[(&str, &str)]| {
        files.iter().for_each(|(file, text)| made.file(&format!("cgroup/{path}/{file}"), text));
    };
    group("web.slice", &[("cgroup.procs", ""), ("cpu.weight", "300\n"), ("cpu.max", "max 100000\n")]);
    group(
        "web.slice/a\u{1b}",
        &[("cgroup.procs", "204\n"), ("cpu.weight", "100\n"), ("cpu.max", "50000 100000\n")],
    );
    group("idle", &[("cgroup.procs", "9\n"), ("cpu.weight", "100\n"), ("cpu.idle", "1\n")]);
    group("empty", &[("cgroup.procs", ""), ("cpu.weight", "7\n"), ("cpu.max", "1000 100000\n")]);
    let ignored =
        |text: &str| (SchedulerOutcome::Ignored, format!("no effect on threads that it schedules: {text}"));
    let observed =
        |text: &str| (SchedulerOutcome::Good, format!("observed for threads that it schedules: {text}"));
    assert_eq!(check(&made, "cgroup weights"), ignored("/web.slice cpu.weight 300"));
    assert_eq!(check(&made, "cgroup caps"), observed("/web.slice/a\\u001b cpu.max 50000 100000"));
    made.file("proc/sys/kernel/osrelease", "6.17.0\n");
    assert_eq!(check(&made, "idle cgroups"), ignored("/idle cpu.idle 1"));
    made.file("proc/sys/kernel/osrelease", "6.19.0\n");
    assert_eq!(check(&made, "idle cgroups"), observed("/idle cpu.idle 1"));
    for more in 0..6 {
        group(&format!("z{more}"), &[("cgroup.procs", "204\n"), ("cpu.weight", "50\n")]);
    }
    assert!(check(&made, "cgroup weights").1.ends_with(", /z3 cpu.weight 50 and 2 more"));
}

#[test]
fn in_version_1_shares_and_quotas_are_named() {
    let made = HandMade::new(4, true);
    assert_eq!(check(&made, "cgroup weights"), (SchedulerOutcome::Good, "none is set".into()));
    made.file("cgroup/cpu/cgroup.procs", "1\n");
    for (file, text) in [
        ("cgroup.procs", "204\n"),
        ("cpu.shares", "2048\n"),
        ("cpu.cfs_quota_us", "-1\n"),
        ("cpu.cfs_period_us", "100000\n"),
    ] {
        made.file(&format!("cgroup/cpu/web/{file}"), text);
    }
    assert!(check(&made, "cgroup weights").1.ends_with(": /web cpu.shares 2048"));
    assert_eq!(check(&made, "cgroup caps").0, SchedulerOutcome::Good);
    made.file("cgroup/cpu/web/cpu.cfs_quota_us", "150000\n");
    assert!(check(&made, "cgroup caps").1.ends_with(": /web cpu.cfs_quota_us 150000 100000"));
}

#[test]
fn real_time_threads_are_named_where_the_kernel_keeps_nothing_for_others() {
    let made = made();
    assert_eq!(check(&made, "real-time threads"), (SchedulerOutcome::Good, "none that never sleeps".into()));
    let machine = made.machine();
    let facet = machine.dispatcher().unwrap();
    Writer::open(&machine).unwrap().commit(facet.prepare_class(Pid(204), &rt(10)).unwrap()).unwrap();
    let (outcome, is) = check(&made, "real-time threads");
    assert_eq!(outcome, SchedulerOutcome::Unknown);
    assert_eq!(
        is,
        "httpd (204/204) on CPUs 0-3, httpd (204/205) on CPUs 0-3: whether one never sleeps is not told"
    );
    made.file("proc/sys/kernel/osrelease", "7.0.0\n");
    assert_eq!(check(&made, "real-time threads").0, SchedulerOutcome::Good);
    made.file("proc/sys/kernel/osrelease", "6.17.0\n");
    made.file("sys/kernel/debug/sched/ext_server/cpu0/runtime", "50000000\n");
    assert_eq!(check(&made, "real-time threads").0, SchedulerOutcome::Good);
}

#[test]
fn the_class_of_a_pool_is_entered_where_the_scheduler_is_at_work() {
    // As in poolbind: `pool.scheduler` contains only the name of a class.
    let steps = |made: &HandMade, class| {
        let machine = made.machine();
        let facet = machine.dispatcher().unwrap();
        let change = facet.prepare_class(Pid(204), &ClassRequest::bare(class).unwrap()).unwrap();
        let steps: Vec<String> = change.steps.iter().map(ToString::to_string).take(2).collect();
        Writer::open(&machine).unwrap().commit(change).unwrap();
        steps
    };
    let made = scheduled(false);
    // In partial mode a process with an ordinary policy shows as TS, and is in no class.
    assert_eq!(shown(made.machine().dispatcher().unwrap(), 204), "TS 0 0");
    let entered = ["policy:204/204@1204: other 0 -> ext 0", "class:204/204@1204: absent -> TS 0 0"];
    assert_eq!(steps(&made, Class::Ts), entered);
    assert!(steps(&made, Class::Ts).is_empty());
    assert_eq!(steps(&made, Class::Fx)[0], "class:204/204@1204: TS 0 0 -> FX 0 0 20");
    assert_eq!(steps(&made, Class::Ia)[0], "class:204/204@1204: FX 0 0 20 -> IA 0 0 foreground");
    // In whole mode it is in TS from the start.
    assert!(steps(&scheduled(true), Class::Ts).is_empty());
}

#[test]
fn a_change_of_class_that_was_not_finished_is_undone() {
    let made = scheduled(false);
    made.file("sys/fs/bpf/millpond/threads/204", "2 5 0 5 10 0 200000000");
    made.file("proc/204/task/204/policy", "ext 0");
    let machine = made.machine();
    let facet = machine.dispatcher().unwrap();
    assert_eq!(shown(facet, 204), "FX 10 5 20");
    let request = ClassRequest::Ts { uprilim: Some(30), upri: Some(20) };
    let change = facet.prepare_class(Pid(204), &request).unwrap();
    // The scheduler refuses the second thread.
    made.file("sys/fs/bpf/millpond/threads/205/.keep", "");
    assert!(Writer::open(&machine).unwrap().commit(change).is_err());
    assert_eq!(shown(facet, 204), "FX 10 5 20");
    assert_eq!(made.read("proc/204/task/205/policy"), "other 0");
}
