//! Classes on a machine made by hand: what the kernel's policies show as, and what changes become of them.

#![allow(clippy::unwrap_used)]

mod common;

use common::HandMade;
use millpond_machine::facets::SchedulerOptions;
use millpond_machine::{Dispatcher, Machine, Writer};
use millpond_model::{Class, ClassRequest, Nanos, Pid};

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
        timeout: Nanos::from_secs(30),
        audit: false,
    };
    let Err(refused) = facet.start_scheduler(&options) else { panic!("a captured machine runs nothing") };
    assert_eq!(refused.reason.to_string(), "nothing can be started on a captured machine");
}
