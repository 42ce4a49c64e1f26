//! Tests of hackbench through its interface: every message arrives, and nothing is left behind in any case. A test program of its own, because its
//! processes inherit all open descriptors, also the sockets of concurrent tests.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails, in its helpers too")]

use millpond_workloads::Error;
use millpond_workloads::hackbench::{HackbenchEvent, HackbenchSpec, TaskMode, Transport, run};
use proptest::prelude::*;
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

const MODES: [TaskMode; 2] = [TaskMode::Process, TaskMode::Thread];
const TRANSPORTS: [Transport; 2] = [Transport::Pipe, Transport::Socket];

fn spec(mode: TaskMode, transport: Transport, numbers: [u32; 4]) -> HackbenchSpec {
    let [groups, pairs, loops, message_bytes] = numbers.map(|number| NonZeroU32::new(number).unwrap());
    HackbenchSpec { groups, pairs, loops, message_bytes, mode, transport, fifo: false }
}

fn is_running() -> AtomicBool {
    AtomicBool::new(false)
}

/// Whether a process of this number exists, dead or alive.
fn exists(pid: u32) -> bool {
    // SAFETY: signal 0 only checks.
    unsafe { libc::kill(i32::try_from(pid).unwrap(), 0) == 0 }
}

#[test]
fn every_message_arrives_in_both_modes_over_both_transports() {
    for mode in MODES {
        for transport in TRANSPORTS {
            let result = run(&spec(mode, transport, [2, 3, 10, 100]), &is_running(), &mut |_| ()).unwrap();
            // Two groups, three senders to three receivers each, ten times.
            assert_eq!(
                (result.tasks, result.messages, result.bytes),
                (12, 180, 18_000),
                "{mode} {transport}"
            );
            assert!(result.seconds > 0.0 && !result.stopped);
        }
    }
}

#[test]
fn messages_larger_than_a_pipe_arrive_whole() {
    for mode in MODES {
        for transport in TRANSPORTS {
            let result = run(&spec(mode, transport, [1, 2, 3, 200_000]), &is_running(), &mut |_| ()).unwrap();
            assert_eq!((result.messages, result.bytes), (12, 2_400_000), "{mode} {transport}");
        }
    }
}

#[test]
fn events_come_in_order_and_name_the_processes() {
    let mut seen = Vec::new();
    run(&spec(TaskMode::Process, Transport::Pipe, [2, 2, 1, 1]), &is_running(), &mut |event| match event {
        HackbenchEvent::Ready { tasks, pids } => {
            assert!(pids.iter().all(|pid| exists(*pid)));
            seen.push(format!("ready {tasks} {}", pids.len()));
        }
        HackbenchEvent::Started => seen.push("started".to_owned()),
    })
    .unwrap();
    assert_eq!(seen, ["ready 8 8", "started"]);
}

#[test]
fn all_children_are_reaped_when_it_ends() {
    let mut all = Vec::new();
    run(&spec(TaskMode::Process, Transport::Socket, [1, 4, 5, 10]), &is_running(), &mut |event| {
        if let HackbenchEvent::Ready { pids, .. } = event {
            all = pids.to_vec();
        }
    })
    .unwrap();
    assert_eq!(all.len(), 8);
    assert!(!all.iter().any(|pid| exists(*pid)));
}

#[test]
fn a_child_that_is_killed_is_reported_by_name_and_the_others_are_gone() {
    for transport in TRANSPORTS {
        let mut all = Vec::new();
        // Large enough that it is not over before the kill.
        let spec = spec(TaskMode::Process, transport, [2, 2, 1_000_000, 100]);
        let error = run(&spec, &is_running(), &mut |event| {
            if let HackbenchEvent::Ready { pids, .. } = event {
                all = pids.to_vec();
                // Receivers first, then senders, group by group: this is receiver 1 of group 0.
                // SAFETY: it is a child of this process that has not been reaped.
                assert_eq!(unsafe { libc::kill(i32::try_from(pids[1]).unwrap(), libc::SIGKILL) }, 0);
            }
        })
        .unwrap_err();
        assert!(matches!(error, Error::TaskFailed { .. }), "{error:?}");
        let text = error.to_string();
        let expected = [
            "cannot finish receiver 1 of group 0: it was killed by signal 9",
            // Its senders may be noticed first.
            "cannot finish sender 1 of group 0: ",
            "cannot finish sender 0 of group 0: ",
            "cannot finish receiver 0 of group 0: ",
        ];
        assert!(expected.iter().any(|expected| text.starts_with(expected)), "{text}");
        assert!(!all.iter().any(|pid| exists(*pid)));
    }
}

#[test]
fn the_stop_flag_ends_it_in_both_modes_over_both_transports() {
    for mode in MODES {
        for transport in TRANSPORTS {
            let (stop, mut all) = (AtomicBool::new(false), Vec::new());
            let spec = spec(mode, transport, [2, 2, u32::MAX, 100]);
            let result = run(&spec, &stop, &mut |event| match event {
                HackbenchEvent::Ready { pids, .. } => all = pids.to_vec(),
                HackbenchEvent::Started => stop.store(true, Ordering::Relaxed),
            })
            .unwrap();
            assert!(result.stopped, "{mode} {transport}");
            assert!(!all.iter().any(|pid| exists(*pid)));
        }
    }
}

#[test]
fn a_stop_before_it_began_leaves_nothing_either() {
    for mode in MODES {
        let spec = spec(mode, Transport::Pipe, [1, 3, 1, 1]);
        let result = run(&spec, &AtomicBool::new(true), &mut |_| panic!("nothing happens")).unwrap();
        assert!(result.stopped);
        assert_eq!((result.messages, result.seconds), (0, 0.0));
    }
}

#[test]
fn a_panic_in_the_callback_leaves_no_task() {
    for mode in MODES {
        let mut all = Vec::new();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let spec = spec(mode, Transport::Pipe, [1, 3, u32::MAX, 1]);
            let _ = run(&spec, &is_running(), &mut |event| match event {
                HackbenchEvent::Ready { pids, .. } => all = pids.to_vec(),
                HackbenchEvent::Started => panic!("as the test wants"),
            });
        }));
        assert!(outcome.is_err());
        assert!(!all.iter().any(|pid| exists(*pid)));
    }
}

#[test]
fn the_main_task_gives_the_real_time_priority_back() {
    // SAFETY: reads the policy of the calling thread.
    let policy = || unsafe { libc::sched_getscheduler(0) };
    let before = policy();
    let mut during = None;
    let spec = HackbenchSpec { fifo: true, ..spec(TaskMode::Process, Transport::Pipe, [1, 1, 1, 1]) };
    match run(&spec, &is_running(), &mut |event| {
        if event == HackbenchEvent::Started {
            during = Some(policy());
        }
    }) {
        Ok(_) => assert_eq!(during, Some(libc::SCHED_FIFO)),
        Err(error) => {
            assert_eq!(error.to_string(), "cannot take the first FIFO priority");
            assert_eq!(error.hint().as_deref(), Some("run as root, or with CAP_SYS_NICE"));
        }
    }
    assert_eq!(policy(), before);
}

#[test]
fn more_tasks_than_the_kernel_has_numbers_for_are_refused() {
    let spec = spec(TaskMode::Process, Transport::Pipe, [100_000, 100, 1, 1]);
    let error = run(&spec, &is_running(), &mut |_| ()).unwrap_err();
    assert_eq!(error.to_string(), "cannot start 20000000 tasks: 4194304 is the most");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn messages_received_are_groups_times_pairs_squared_times_loops(
        mode in prop::sample::select(&MODES[..]),
        transport in prop::sample::select(&TRANSPORTS[..]),
        groups in 1_u32..4,
        pairs in 1_u32..5,
        loops in 1_u32..20,
        message_bytes in 1_u32..5000,
    ) {
        let spec = spec(mode, transport, [groups, pairs, loops, message_bytes]);
        let result = run(&spec, &AtomicBool::new(false), &mut |_| ()).unwrap();
        let messages = u64::from(groups * pairs * pairs * loops);
        prop_assert_eq!(result.messages, messages);
        prop_assert_eq!(spec.messages(), messages);
        prop_assert_eq!(result.bytes, messages * u64::from(message_bytes));
        prop_assert_eq!(u64::from(result.tasks), spec.tasks());
    }

    #[test]
    fn modes_and_transports_read_back_as_themselves(mode in prop::sample::select(&MODES[..]), transport in prop::sample::select(&TRANSPORTS[..])) {
        prop_assert_eq!(mode.to_string().parse::<TaskMode>().unwrap(), mode);
        prop_assert_eq!(transport.to_string().parse::<Transport>().unwrap(), transport);
    }
}

#[test]
fn an_unknown_mode_or_transport_is_refused_by_name() {
    let error = "fibre".parse::<TaskMode>().unwrap_err();
    assert_eq!(error.to_string(), "cannot use task mode fibre: it is none of process, thread");
    let error = "inet".parse::<Transport>().unwrap_err();
    assert_eq!(error.to_string(), "cannot use transport inet: it is none of pipe, socket");
}
