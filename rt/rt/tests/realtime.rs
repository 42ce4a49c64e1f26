//! Real-time set-up: success, refusal and undo. It changes the process, so each test is a child of its own.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod common;

use common::{End, child, drop_rights, limit, on_thread, page_size};
use libc::c_int;
use millpond_rt::realtime::{CpuMask, Item, Outcome, Realtime, RealtimeError, SchedulingClass, Setup, Want};
use std::path::Path;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const FIFO: Want = Want::Class(SchedulingClass::Fifo { priority: 10 });
const SLACK: Duration = Duration::from_nanos(1234);

/// This many milliseconds in each period of 10 ms.
fn deadline(milliseconds: u64) -> Want {
    let (runtime, period) = (Duration::from_millis(milliseconds), Duration::from_millis(10));
    Want::Class(SchedulingClass::Deadline { runtime, deadline: period, period })
}

/// The bandwidth of deadline threads is shared by the machine: one test at a time.
fn deadlines() -> MutexGuard<'static, ()> {
    static DEADLINES: Mutex<()> = Mutex::new(());
    DEADLINES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn passes(body: impl FnOnce()) {
    let end = child(|| {
        body();
        0
    });
    assert_eq!(end, End::Exit(0));
}

/// Whether the tests have all rights; prints the reason if not.
fn is_root(test: &str) -> bool {
    let end = child(|| i32::from(Setup::new().require(FIFO).require(Want::Memory).begin().is_err()));
    // SAFETY: the call has no effect.
    let is_root = unsafe { libc::geteuid() } == 0 && end == End::Exit(0);
    if !is_root {
        println!("skipped: {test}: it takes root, with CAP_SYS_NICE and CAP_IPC_LOCK");
    }
    is_root
}

fn is_there(test: &str, what: bool, missing: &str) -> bool {
    if !what {
        println!("skipped: {test}: {missing}");
    }
    what
}

fn policy() -> c_int {
    // SAFETY: the call has no effect.
    unsafe { libc::sched_getscheduler(0) }
}

fn priority() -> c_int {
    let mut parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: `parameters` is writable.
    assert_eq!(unsafe { libc::sched_getparam(0, &raw mut parameters) }, 0);
    parameters.sched_priority
}

fn slack() -> c_int {
    // SAFETY: the call has no effect.
    unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) }
}

fn nice() -> c_int {
    // SAFETY: the call has no effect.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

fn status(key: &str) -> String {
    let text = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    text.lines().find_map(|line| line.strip_prefix(key)).unwrap().trim().to_owned()
}

fn cpus() -> String {
    status("Cpus_allowed_list:")
}

fn locked_kb() -> u64 {
    status("VmLck:").trim_end_matches(" kB").parse().unwrap()
}

fn files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// The last of the available CPUs.
fn last_cpu() -> CpuMask {
    cpus().parse::<CpuMask>().unwrap().iter().last().unwrap().to_string().parse().unwrap()
}

fn state() -> (c_int, c_int, c_int, String, u64, usize) {
    (policy(), priority(), slack(), cpus(), locked_kb(), files())
}

fn refused(setup: &Setup) -> Vec<Outcome> {
    match setup.begin() {
        Err(RealtimeError::Required(outcomes)) => outcomes,
        other => panic!("{other:?}"),
    }
}

/// Errno and text of the last outcome.
fn refusal(setup: Setup) -> (i32, String) {
    let refusal = refused(&setup).pop().unwrap().refusal.unwrap();
    (refusal.errno, refusal.reason)
}

fn had(realtime: &Realtime, item: Item) -> String {
    realtime.outcomes().iter().find(|outcome| outcome.item == item).unwrap().had.clone()
}

#[test]
fn everything_is_had_in_order_and_put_back() {
    if !is_root("everything_is_had_in_order_and_put_back") {
        return;
    }
    passes(|| {
        let before = state();
        let wanted = last_cpu();
        let realtime = Setup::new()
            .require(FIFO)
            .require(Want::TimerSlack(SLACK))
            .require(Want::Stack)
            .require(Want::Heap(1 << 20))
            .require(Want::Memory)
            .wish(Want::IdleLatency(Duration::from_micros(500)))
            .require(Want::Cpus(wanted.clone()))
            .begin()
            .unwrap();
        let items: Vec<Item> = realtime.outcomes().iter().map(|outcome| outcome.item).collect();
        assert_eq!(
            items,
            [
                Item::Cpus,
                Item::Memory,
                Item::Heap,
                Item::Stack,
                Item::IdleLatency,
                Item::TimerSlack,
                Item::Class
            ]
        );
        assert_eq!((policy(), priority(), cpus()), (libc::SCHED_FIFO, 10, wanted.to_string()));
        assert!(locked_kb() > 1024);
        assert_eq!(had(&realtime, Item::Class), "FIFO, priority 10");
        assert_eq!(had(&realtime, Item::TimerSlack), "1.234µs");
        realtime.undo().unwrap();
        assert_eq!(state(), before);
    });
}

#[test]
fn who_drops_it_undoes_it() {
    passes(|| {
        let before = state();
        drop(Setup::new().require(Want::TimerSlack(SLACK)).require(Want::Cpus(last_cpu())).begin().unwrap());
        assert_eq!(state(), before);
        let realtime = Setup::new().require(Want::TimerSlack(SLACK)).begin().unwrap();
        assert_eq!(slack(), 1234);
        drop(realtime);
        assert_eq!(state(), before);
    });
}

#[test]
fn a_required_thing_that_cannot_be_had_undoes_the_rest() {
    passes(|| {
        limit(libc::RLIMIT_RTPRIO, 0);
        drop_rights();
        let before = state();
        let setup = Setup::new()
            .require(FIFO)
            .require(Want::Cpus(last_cpu()))
            .require(Want::Heap(1 << 20))
            .require(Want::TimerSlack(SLACK));
        let outcomes = refused(&setup);
        assert_eq!(state(), before);
        assert_eq!(outcomes.len(), 4);
        assert!(outcomes[..3].iter().all(|outcome| outcome.refusal.is_none()), "{outcomes:?}");
        let told = outcomes[3].to_string();
        let had = format!("class: wanted FIFO, priority 10, had OTHER, nice {}: ", nice());
        assert_eq!(
            told.strip_prefix(&had).unwrap(),
            "cannot enter FIFO, priority 10: the limit on real-time priorities is 0: raise it \
             (ulimit -r, LimitRTPRIO=), or give CAP_SYS_NICE"
        );
        assert_eq!(setup.begin().unwrap_err().errno(), libc::EPERM);
        // The same as a wish is reported, and the rest is set up.
        let realtime = setup.wish(FIFO).begin().unwrap();
        assert!(!realtime.is_whole());
        assert_eq!((slack(), policy()), (1234, libc::SCHED_OTHER));
        realtime.undo().unwrap();
        assert_eq!(state(), before);
    });
}

#[test]
fn of_an_item_that_is_asked_for_twice_the_last_word_counts() {
    passes(|| {
        let realtime = Setup::new()
            .require(Want::TimerSlack(Duration::ZERO))
            .require(Want::TimerSlack(SLACK))
            .begin()
            .unwrap();
        assert_eq!((realtime.outcomes().len(), slack()), (1, 1234));
    });
}

#[test]
fn priorities_up_to_the_limit_take_no_rights() {
    const TEST: &str = "priorities_up_to_the_limit_take_no_rights";
    let can_raise = child(|| {
        let raised = libc::rlimit { rlim_cur: 10, rlim_max: 10 };
        // SAFETY: the record is readable.
        unsafe { libc::setrlimit(libc::RLIMIT_RTPRIO, &raw const raised) }
    });
    if !is_root(TEST)
        || !is_there(TEST, can_raise == End::Exit(0), "limits cannot be raised (CAP_SYS_RESOURCE)")
    {
        return;
    }
    passes(|| {
        limit(libc::RLIMIT_RTPRIO, 10);
        drop_rights();
        let class = |priority| Want::Class(SchedulingClass::RoundRobin { priority });
        Setup::new().require(class(10)).begin().unwrap().undo().unwrap();
        let (errno, reason) = refusal(Setup::new().require(class(11)));
        assert_eq!(errno, libc::EPERM);
        assert!(reason.contains("the limit on real-time priorities is 10"), "{reason}");
        assert_eq!(policy(), libc::SCHED_OTHER);
    });
}

#[test]
fn values_that_no_class_has_are_refused() {
    passes(|| {
        for (class, said) in [
            (SchedulingClass::Fifo { priority: 0 }, "priorities are 1 to 99"),
            (SchedulingClass::RoundRobin { priority: 100 }, "priorities are 1 to 99"),
            (SchedulingClass::Other { nice: 20 }, "nice values are -20 to 19"),
            (SchedulingClass::Other { nice: -21 }, "nice values are -20 to 19"),
            (
                SchedulingClass::Deadline {
                    runtime: Duration::from_millis(2),
                    deadline: Duration::from_millis(1),
                    period: Duration::from_millis(10),
                },
                "runtime must be 1024 ns at least, deadline no less than it",
            ),
        ] {
            let (errno, reason) = refusal(Setup::new().require(Want::Class(class)));
            assert_eq!(errno, libc::EINVAL, "{reason}");
            assert!(reason.contains(said), "{reason}");
        }
    });
}

#[test]
fn a_nice_value_is_a_class_too() {
    if nice() >= 15 {
        return println!("skipped: a_nice_value_is_a_class_too: the tests run with nice {} already", nice());
    }
    passes(|| {
        // SAFETY: `limit` is writable.
        let limit = unsafe {
            let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::getrlimit(libc::RLIMIT_NICE, &raw mut limit);
            limit.rlim_cur
        };
        assert!(limit <= 20, "these tests need the usual limit on nice values");
        let before = nice();
        let realtime =
            Setup::new().require(Want::Class(SchedulingClass::Other { nice: 15 })).begin().unwrap();
        assert_eq!(nice(), 15);
        drop_rights();
        // Any user may increase the nice value, but not decrease it.
        let error = realtime.undo().unwrap_err();
        assert!(matches!(&error, RealtimeError::Undo(outcomes) if outcomes.len() == 1), "{error:?}");
        assert_eq!(error.errno(), libc::EPERM);
        assert_eq!(
            error.to_string(),
            format!(
                "cannot put back how it was: class: wanted how it was, had OTHER, nice 15: cannot go back to OTHER, \
                 nice {before}: Operation not permitted (os error 1); it takes CAP_SYS_NICE"
            )
        );
        let (errno, reason) = refusal(Setup::new().require(Want::Class(SchedulingClass::Other { nice: -5 })));
        assert_eq!(errno, libc::EPERM);
        assert!(reason.contains("raise the limit (ulimit -e, LimitNICE=)"), "{reason}");
    });
}

#[test]
fn a_limit_on_real_time_without_waiting_is_told() {
    if !is_root("a_limit_on_real_time_without_waiting_is_told") {
        return;
    }
    passes(|| {
        limit(libc::RLIMIT_RTTIME, 200_000);
        let realtime = Setup::new().require(FIFO).begin().unwrap();
        assert_eq!(
            realtime.outcomes()[0].to_string(),
            "class: FIFO, priority 10 (SIGXCPU comes when it runs for 200ms and never waits: RLIMIT_RTTIME, LimitRTTIME=)"
        );
        assert!(realtime.is_whole());
    });
}

#[test]
fn a_deadline_is_had_and_left() {
    let _alone = deadlines();
    if !is_root("a_deadline_is_had_and_left") {
        return;
    }
    passes(|| {
        let realtime = Setup::new().require(deadline(1)).begin().unwrap();
        assert_eq!(policy(), libc::SCHED_DEADLINE);
        assert_eq!(had(&realtime, Item::Class), "DEADLINE, 1ms within 10ms of each 10ms");
        // A deadline thread must be allowed on all CPUs.
        let (errno, reason) = refusal(Setup::new().require(Want::Cpus(last_cpu())));
        if cpus().contains(['-', ',']) {
            assert_eq!(errno, libc::EBUSY);
            assert!(reason.contains("a deadline thread runs on all CPUs of its set"), "{reason}");
        }
        realtime.undo().unwrap();
        assert_eq!(policy(), libc::SCHED_OTHER);
        drop_rights();
        let (errno, reason) = refusal(Setup::new().require(deadline(1)));
        assert_eq!(errno, libc::EPERM);
        assert!(reason.contains("it takes CAP_SYS_NICE"), "{reason}");
    });
}

#[test]
fn a_deadline_on_a_part_of_the_cpus_is_refused_and_the_mask_put_back() {
    const TEST: &str = "a_deadline_on_a_part_of_the_cpus_is_refused_and_the_mask_put_back";
    let _alone = deadlines();
    if !is_root(TEST) || !is_there(TEST, cpus().contains(['-', ',']), "there is one CPU") {
        return;
    }
    passes(|| {
        let before = state();
        let setup = Setup::new().require(Want::Cpus(last_cpu())).require(deadline(1));
        let (errno, reason) = refusal(setup);
        assert_eq!(errno, libc::EPERM);
        assert!(reason.contains("narrower than its cpuset: ask for no CPUs"), "{reason}");
        assert_eq!(state(), before);
    });
}

#[test]
fn more_deadlines_than_there_is_time_for_are_refused() {
    const TEST: &str = "more_deadlines_than_there_is_time_for_are_refused";
    let _alone = deadlines();
    let is_limited =
        std::fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us").is_ok_and(|us| us.trim() != "-1");
    if !is_root(TEST) || !is_there(TEST, is_limited, "sched_rt_runtime_us is -1") {
        return;
    }
    passes(|| {
        // One more than the number of CPUs.
        let count = cpus().parse::<CpuMask>().unwrap().iter().count() + 1;
        let refused = nest(count).expect("each of them was let in");
        assert_eq!(refused.0, libc::EBUSY);
        assert!(refused.1.contains("ask for less, or end others"), "{}", refused.1);
        assert_eq!(nest(1), None, "what was promised is given back");
    });
}

/// Begins this many threads with nine tenths of a CPU each, at the same time. Returns the first refusal. Each thread is created before the previous
/// one gets its class, because deadline threads cannot create threads.
fn nest(count: usize) -> Option<(i32, String)> {
    if count == 0 {
        return None;
    }
    let mut answer = None;
    std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel::<()>();
        let (ready, is_ready) = std::sync::mpsc::channel();
        scope.spawn(move || {
            let begun = Setup::new().require(deadline(9)).begin();
            ready
                .send(begun.as_ref().err().map(|error| {
                    let refusal = error.outcomes().last().unwrap().refusal.clone().unwrap();
                    (refusal.errno, refusal.reason)
                }))
                .unwrap();
            // Until the sender is dropped.
            let _ = told.recv();
        });
        answer = is_ready.recv().unwrap().or_else(|| nest(count - 1));
        drop(tell);
    });
    answer
}

#[test]
fn a_cgroup_without_real_time_is_told_from_a_missing_right() {
    const TEST: &str = "a_cgroup_without_real_time_is_told_from_a_missing_right";
    let top = Path::new("/sys/fs/cgroup/cpu");
    let group = top.join(format!("millpond-rt-{}", std::process::id()));
    let has_one = top.join("cpu.rt_runtime_us").exists() && std::fs::create_dir(&group).is_ok();
    if !is_there(TEST, has_one, "there are no groups for real time (cgroup version 1, CONFIG_RT_GROUP_SCHED)")
    {
        return;
    }
    let end = child(|| {
        std::fs::write(group.join("tasks"), "0").unwrap();
        let (errno, reason) = refusal(Setup::new().require(FIFO));
        std::fs::write(top.join("tasks"), "0").unwrap();
        assert_eq!(errno, libc::EPERM);
        assert!(reason.contains("write some to cpu.rt_runtime_us, or move it"), "{reason}");
        0
    });
    std::fs::remove_dir(&group).unwrap();
    assert_eq!(end, End::Exit(0));
}

#[test]
fn cpus_that_are_not_there_are_named_and_none_is_lost() {
    passes(|| {
        let before = cpus();
        let refused = |list: &str| refusal(Setup::new().require(Want::Cpus(list.parse().unwrap())));
        for list in ["8190-8191".to_owned(), format!("{},8190-8191", last_cpu())] {
            let (errno, reason) = refused(&list);
            assert_eq!(errno, libc::EINVAL);
            assert_eq!(
                reason,
                format!(
                    "cannot run on CPUs {list}: not there, or off-line: 8190-8191; name others \
                     (/sys/devices/system/cpu/online)"
                )
            );
            assert_eq!(cpus(), before);
        }
        let (errno, reason) = refusal(Setup::new().require(Want::Cpus(CpuMask::new())));
        assert_eq!(errno, libc::EINVAL);
        assert_eq!(reason, "cannot run on no CPU: name one at least, in a list like 2-3,6");
    });
}

#[test]
fn cpus_that_the_cpuset_does_not_have_are_named() {
    const TEST: &str = "cpus_that_the_cpuset_does_not_have_are_named";
    let top = Path::new("/sys/fs/cgroup/cpuset");
    let group = top.join(format!("millpond-rt-{}", std::process::id()));
    let all: Vec<usize> = cpus().parse::<CpuMask>().unwrap().iter().collect();
    let is_possible =
        all.len() > 1 && top.join("cpuset.cpus").exists() && std::fs::create_dir(&group).is_ok();
    if !is_there(TEST, is_possible, "there are no cpusets (cgroup version 1), or one CPU") {
        return;
    }
    let end = child(|| {
        let memory = std::fs::read_to_string(top.join("cpuset.mems")).unwrap();
        std::fs::write(group.join("cpuset.mems"), memory).unwrap();
        std::fs::write(group.join("cpuset.cpus"), all[0].to_string()).unwrap();
        std::fs::write(group.join("tasks"), "0").unwrap();
        let wanted: CpuMask = format!("{},{}", all[0], all[1]).parse().unwrap();
        let (errno, reason) = refusal(Setup::new().require(Want::Cpus(wanted.clone())));
        std::fs::write(top.join("tasks"), "0").unwrap();
        assert_eq!(errno, libc::EINVAL);
        let said = format!("cannot run on CPUs {wanted}: not in the cpuset of this process: {};", all[1]);
        assert!(reason.starts_with(&said), "{reason}");
        0
    });
    std::fs::remove_dir(&group).unwrap();
    assert_eq!(end, End::Exit(0));
}

#[test]
fn a_limit_on_locked_memory_is_told() {
    passes(|| {
        limit(libc::RLIMIT_MEMLOCK, 64 << 10);
        drop_rights();
        let (errno, reason) = refusal(Setup::new().require(Want::Memory));
        assert_eq!(errno, libc::ENOMEM);
        assert_eq!(
            reason,
            "cannot lock all memory: the limit on locked memory is 64 kB: raise it (ulimit -l, LimitMEMLOCK=), \
             or give CAP_IPC_LOCK"
        );
        let (errno, reason) = refusal(Setup::new().require(Want::Stack));
        assert_eq!(errno, libc::EAGAIN);
        assert!(reason.contains("(ulimit -l)"), "{reason}");
        limit(libc::RLIMIT_MEMLOCK, 0);
        assert_eq!(refusal(Setup::new().require(Want::Memory)).0, libc::EPERM);
        assert_eq!(refusal(Setup::new().require(Want::Stack)).0, libc::EPERM);
        assert_eq!(locked_kb(), 0);
    });
}

/// A mapped page that the kernel does not merge with another mapping.
fn page() -> *mut libc::c_void {
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let page =
        unsafe { libc::mmap(ptr::null_mut(), page_size(), libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    assert_ne!(page, libc::MAP_FAILED);
    page
}

#[test]
fn what_was_locked_before_is_locked_after() {
    if !is_root("what_was_locked_before_is_locked_after") {
        return;
    }
    passes(|| {
        // SAFETY: the page is this test's.
        assert_eq!(unsafe { libc::mlock(page(), page_size()) }, 0);
        let before = locked_kb();
        let realtime = Setup::new().require(Want::Memory).require(Want::Stack).begin().unwrap();
        assert!(locked_kb() > before);
        realtime.undo().unwrap();
        assert_eq!(locked_kb(), before);
        page();
        assert_eq!(locked_kb(), before, "what is mapped now is not locked");
    });
    passes(|| {
        // SAFETY: integer arguments only.
        assert_eq!(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) }, 0);
        Setup::new().require(Want::Memory).require(Want::Stack).begin().unwrap().undo().unwrap();
        let before = locked_kb();
        assert!(before > 0);
        page();
        assert_eq!(locked_kb() - before, 4, "what is mapped now is locked, as it was");
    });
}

#[test]
fn a_stack_is_locked_as_long_as_it_is_wanted() {
    if !is_root("a_stack_is_locked_as_long_as_it_is_wanted") {
        return;
    }
    passes(|| {
        on_thread(None, || {
            let realtime = Setup::new().require(Want::Stack).begin().unwrap();
            let pages = millpond_rt::stack_residency().unwrap().pages;
            assert_eq!(had(&realtime, Item::Stack), format!("{pages} of {pages} pages resident"));
            assert!(locked_kb() >= u64::try_from(pages * page_size() / 1024).unwrap());
            realtime.undo().unwrap();
            assert_eq!(locked_kb(), 0);
        });
    });
}

#[test]
fn memory_stays_locked_until_the_last_who_wants_it() {
    if !is_root("memory_stays_locked_until_the_last_who_wants_it") {
        return;
    }
    passes(|| {
        let first = Setup::new().require(Want::Memory).begin().unwrap();
        let second = Setup::new().require(Want::Memory).begin().unwrap();
        first.undo().unwrap();
        assert!(locked_kb() > 0);
        second.undo().unwrap();
        assert_eq!(locked_kb(), 0);
        // A stack counts with memory, in either order.
        for (first, second) in [(Want::Memory, Want::Stack), (Want::Stack, Want::Memory)] {
            let first = Setup::new().require(first).begin().unwrap();
            let second = Setup::new().require(second).begin().unwrap();
            first.undo().unwrap();
            let stack = millpond_rt::stack_residency().unwrap().pages * page_size() / 1024;
            assert!(locked_kb() >= u64::try_from(stack).unwrap());
            second.undo().unwrap();
            assert_eq!(locked_kb(), 0);
        }
    });
}

#[test]
fn a_heap_that_there_is_no_memory_for_is_refused() {
    passes(|| {
        let (errno, reason) = refusal(Setup::new().require(Want::Heap(0)));
        assert_eq!((errno, reason.contains("cannot fault in 0 bytes")), (libc::EINVAL, true));
        let (errno, reason) = refusal(Setup::new().require(Want::Heap(usize::MAX / 2)));
        assert_eq!((errno, reason.contains("are available; ask for less")), (libc::ENOMEM, true));
        limit(libc::RLIMIT_AS, 16 << 20);
        let (errno, reason) = refusal(Setup::new().require(Want::Heap(64 << 20)));
        assert_eq!(errno, libc::ENOMEM);
        assert_eq!(
            reason,
            "cannot fault in 67108864 bytes: the allocator has not so much; raise the limits (ulimit -v, -d, -l)"
        );
        // Other allocations still work.
        assert_eq!(vec![1u8; 100_000].len(), 100_000);
    });
}

#[test]
fn idle_latency_is_limited_as_long_as_it_is_wanted() {
    const TEST: &str = "idle_latency_is_limited_as_long_as_it_is_wanted";
    let path = Path::new("/dev/cpu_dma_latency");
    if !is_there(
        TEST,
        std::fs::File::options().write(true).open(path).is_ok(),
        "/dev/cpu_dma_latency is not for this user",
    ) {
        return;
    }
    passes(|| {
        let before = files();
        let few = Want::IdleLatency(Duration::ZERO);
        let realtime = Setup::new().require(few.clone()).begin().unwrap();
        assert_eq!(had(&realtime, Item::IdleLatency), "0us");
        assert_eq!(files(), before + 1);
        realtime.undo().unwrap();
        assert_eq!(files(), before);
        assert_eq!(
            refusal(Setup::new().require(Want::IdleLatency(Duration::from_secs(3600)))).0,
            libc::EINVAL
        );
        drop_rights();
        let (errno, reason) = refusal(Setup::new().require(few));
        assert!(matches!(errno, libc::EACCES | libc::EPERM), "{errno}");
        assert!(reason.contains("run as root, or let a rule of udev give it to a group"), "{reason}");
    });
}

#[test]
fn timer_slack_is_set_and_zero_is_none() {
    passes(|| {
        let before = slack();
        let (errno, reason) = refusal(Setup::new().require(Want::TimerSlack(Duration::ZERO)));
        assert_eq!(errno, libc::EINVAL);
        assert_eq!(
            reason,
            "cannot set timer slack to 0ns: 1ns is the least, and a few hundred years the most"
        );
        assert_eq!(refusal(Setup::new().require(Want::TimerSlack(Duration::MAX))).0, libc::EINVAL);
        // A value that does not fit into an int.
        let longer = Want::TimerSlack(Duration::from_secs(5));
        let realtime = Setup::new().require(longer).begin().unwrap();
        assert_eq!(had(&realtime, Item::TimerSlack), "5s");
        realtime.undo().unwrap();
        assert_eq!(slack(), before);
    });
}

#[test]
fn a_child_undoes_nothing() {
    if !is_root("a_child_undoes_nothing") {
        return;
    }
    passes(|| {
        let realtime = Setup::new().require(FIFO).require(Want::Memory).begin().unwrap();
        let copy = &raw const realtime;
        let end = child(|| {
            // SAFETY: the child's own copy, which it reads once; it exits without dropping the original.
            drop(unsafe { copy.read() });
            assert_eq!((policy(), locked_kb()), (libc::SCHED_FIFO, 0));
            // It can begin by itself.
            Setup::new().require(Want::Memory).begin().unwrap().undo().unwrap();
            i32::from(locked_kb() != 0)
        });
        assert_eq!(end, End::Exit(0));
        assert!(policy() == libc::SCHED_FIFO && locked_kb() > 0);
        realtime.undo().unwrap();
        assert_eq!((policy(), locked_kb()), (libc::SCHED_OTHER, 0));
    });
}
