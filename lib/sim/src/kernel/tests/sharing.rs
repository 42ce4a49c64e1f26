//! Tests with several CPUs: vectors V16, stealing, partitions, barriers, and consistency under random programs.

use super::{hardware, *};
use millpond_model::Column;
use proptest::prelude::*;

/// A thread is preempted by a better one while another CPU is idle.
fn displaced(layout: &Layout) -> (Kernel, ThreadId) {
    let mut k = Kernel::new(layout, standard(), Tunables::default());
    let hog = k.ts_start_at(0, Program::hog());
    let mut start =
        Start::new(k.ts_entry_at(0), Program::once(vec![Action::Sleep(TICK), Action::User(u64::MAX)]));
    start.bound = Some(CpuIndex(0));
    k.start(start);
    (k, hog)
}

#[test]
fn v16_who_waits_where_it_last_ran_is_left_for_a_tenth_of_a_millisecond() {
    let (mut k, hog) = displaced(&Layout::flat(2));
    k.run_until(TICK + 40_000).unwrap();
    assert_eq!((k.on(CpuIndex(1)), k.queue(CpuIndex(0)).first()), (None, Some(hog)));
    k.run_until(TICK + 99_999).unwrap();
    assert_eq!(k.on(CpuIndex(1)), None);
    k.run_until(TICK + 100_000).unwrap();
    assert_eq!((k.on(CpuIndex(1)), k.cpus()[CpuIndex(1)].events[Column::Migr.index()]), (Some(hog), 1));
}

#[test]
fn v16_a_strand_of_the_same_core_takes_it_at_once() {
    let one_core = Layout { cpus: vec![(0, 0), (0, 0)], ..Layout::flat(2) };
    let (mut k, hog) = displaced(&one_core);
    k.run_until(TICK).unwrap();
    assert_eq!(k.on(CpuIndex(1)), Some(hog));
}

#[test]
fn v16_who_never_ran_there_is_taken_at_once() {
    let mut k = kernel(2, standard());
    let mut busy = Start::new(k.rt_start(0, None, 0), Program::hog());
    busy.bound = Some(CpuIndex(0));
    k.start(busy);
    let mut short = Start::new(k.rt_start(0, None, 0), Program::once(vec![Action::User(TICK / 2)]));
    short.bound = Some(CpuIndex(1));
    k.start(short);
    let new = k.ts_start(Program::hog());
    k.run_until(TICK / 2).unwrap();
    assert_eq!(k.on(CpuIndex(1)), Some(new));
}

#[test]
fn equal_hogs_share_a_processor_equally() {
    let mut k = kernel(1, standard());
    let hogs: Vec<ThreadId> = (0..3).map(|_| k.ts_start(Program::hog())).collect();
    k.run_until(300 * 100 * TICK).unwrap();
    for hog in &hogs {
        let share = k.thread(*hog).user / (100 * TICK);
        assert!((95..=105).contains(&share), "{share} of 300 s");
    }
}

#[test]
fn hogs_spread_over_all_processors() {
    let mut k = kernel(8, standard());
    let hogs: Vec<ThreadId> = (0..8).map(|_| k.ts_start(Program::hog())).collect();
    k.run_until(10 * 100 * TICK).unwrap();
    assert!(hogs.iter().all(|hog| k.thread(*hog).user > 990 * TICK));
    assert!(k.cpus().iter().all(|cpu| cpu.idle < 10 * TICK));
}

#[test]
fn a_machine_that_only_sleeps_has_nothing_to_do() {
    let mut k = kernel(128, standard());
    for _ in 0..1_000 {
        k.ts_start(Program::once(vec![Action::Sleep(u64::MAX / 2)]));
    }
    k.run_until(1).unwrap();
    k.run_until(365 * 86_400 * super::SECOND).unwrap();
    assert_eq!(k.heap.next_at(), Some(u64::MAX / 2));
}

#[test]
fn threads_that_wake_one_another_for_ever_stop_the_machine() {
    let mut k = kernel(2, standard());
    let (ping, pong) = (k.channel(), k.channel());
    k.ts_start(Program::repeat(vec![Action::Post(ping), Action::Wait(pong)]));
    k.ts_start(Program::repeat(vec![Action::Wait(ping), Action::Post(pong)]));
    let halt = k.run_until(TICK).unwrap_err();
    assert!(matches!(halt, Halt::EndlessInstant { at: 0 } | Halt::EndlessProgram { .. }), "{halt}");
}

/// A program with random actions of all kinds.
fn program() -> impl Strategy<Value = Program> {
    let action = prop_oneof![
        (1u64..50_000_000).prop_map(Action::User),
        (1u64..20_000_000).prop_map(Action::Kernel),
        (1u64..90_000_000).prop_map(Action::Sleep),
        Just(Action::Yield),
        any::<bool>().prop_map(Action::Hold),
        (0u32..3).prop_map(|channel| Action::Wait(ChannelId(channel))),
        (0u32..3).prop_map(|channel| Action::Post(ChannelId(channel))),
        Just(Action::Meet(BarrierId(0), Waiting::Spin)),
        Just(Action::Meet(BarrierId(0), Waiting::Block)),
        Just(Action::Done(1)),
        (0u32..3, 1u64..20_000_000).prop_map(|(mix, left)| Action::Work(MixId(mix), left)),
        (0u32..3, 1u64..2_000_000).prop_map(|(mix, left)| Action::KernelWork(MixId(mix), left)),
        (0u32..2, 1u64..20_000).prop_map(|(segment, kib)| Action::Map(SegmentId(segment), kib)),
        (0u32..3).prop_map(|stage| Action::Stamp(LogId(0), stage)),
        Just(Action::Arrive(LogId(0))),
        Just(Action::Take(LogId(0), LogId(0))),
        Just(Action::SleepAmong(vec![997_000, 1_009_000, 1_013_000])),
        Just(Action::Fork(Program::once(vec![Action::User(7_000_000), Action::Exit]))),
    ];
    proptest::collection::vec(action, 1..8).prop_map(|mut actions| {
        actions.push(Action::User(1_000_000));
        Program::repeat(actions)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For all programs: times add up, each thread is in one place, and a saved machine continues identically, with and without deferred burst ends.
    #[test]
    fn a_kernel_keeps_its_books(
        programs in proptest::collection::vec((program(), 0u8..5, 0i8..60, proptest::option::of(1u32..4)), 1..12),
        caps in (1u32..300, 1u32..60),
        cpus in 1u32..6,
        strands in 1u32..4,
        stops in proptest::collection::vec((1u64..700_000_000, any::<u32>(), any::<bool>()), 1..5)
    ) {
        let mut k = Kernel::new(&hardware::layout(cpus, strands), standard(), Tunables::default());
        for _ in 0..3 {
            k.channel();
        }
        k.barrier(2);
        k.log();
        k.segment();
        k.segment();
        k.mix(hardware::MIX);
        k.mix(Mix { footprint_kib: 512, ..hardware::MIX });
        let raised = k.channel();
        let timer = vec![Action::SleepAmong(vec![900_000, 3_100_000]), Action::Post(raised), Action::Post(ChannelId(0))];
        k.device(Program::repeat(timer));
        let handle = vec![Action::Kernel(40_000), Action::Post(ChannelId(1))];
        for (level, cpu) in [(6, 0), (14, cpus - 1)] {
            k.handler(level, Origin::Network, CpuIndex(cpu), raised, handle.clone());
        }
        let zone = k.hold(Level::Zone, None);
        let projects = [k.hold(Level::Project, Some(zone)), k.hold(Level::Project, Some(zone))];
        let process = k.hold(Level::Process, Some(projects[1]));
        for (holder, value) in [(projects[0], caps.0), (process, caps.1)] {
            k.set_cap(holder, Some(value));
            k.set_shares(holder, Some(value % 5));
        }
        for (program, class, pri, cap) in programs {
            let class = match class {
                0 => k.ts_entry_at(0),
                1 => k.entry(ClassParams::Ia { uprilim: 0, upri: 0, foreground: true }),
                2 => k.fx_start(pri, None),
                3 => k.entry(ClassParams::Fss { uprilim: pri, upri: pri }),
                _ => k.rt_start(pri, None, 0),
            };
            let thread = k.start(Start::new(class, program));
            k.set_holder(thread, cap.map(HolderIndex));
        }
        let mut until = 0;
        for (stop, who, bind) in stops {
            until += stop;
            let who = who % u32::try_from(k.threads().len()).unwrap();
            if !k.thread(ThreadId(who)).device && k.thread(ThreadId(who)).level == 0 {
                k.confine(ThreadId(who), DEFAULT, bind.then_some(CpuIndex(who % cpus)));
            }
            k.set_holder(ThreadId(who), [None, Some(1), Some(2), Some(3)][who as usize % 4].map(HolderIndex));
            k.set_cap(HolderIndex(0), bind.then_some(caps.0 + caps.1));
            k.route(CpuIndex(who % cpus), CpuIndex((who + 1) % cpus));
            let saved = serde_json::to_string(&k).unwrap();
            let mut again: Kernel = serde_json::from_str(&saved).unwrap();
            again.reindex();
            again.index.ends.never = true;
            k.run_until(until).unwrap();
            again.run_until(until).unwrap();
            again.index.ends.never = false;
            prop_assert!(k == again, "the futures differ");
            check(&k)?;
            prop_assert_eq!(k.check(), Ok(()));
        }
    }
}

fn check(k: &Kernel) -> Result<(), TestCaseError> {
    for cpu in k.cpus() {
        prop_assert_eq!(cpu.user + cpu.sys + cpu.idle, k.now());
    }
    let busy: u64 = k.cpus().iter().map(|c| c.user + c.sys).sum();
    let used: u64 = k.threads().iter().map(|t| t.user + t.sys).sum();
    prop_assert!(used <= busy, "threads that have ended took the rest");
    let mut anew = k.clone();
    anew.reindex();
    prop_assert!(anew.index == k.index, "the index has gone astray");
    let pinned = k.threads().iter().filter(|t| t.state == RunState::Pinned).count();
    prop_assert_eq!(pinned, k.cpus().iter().map(|c| c.pinned.len()).sum::<usize>());
    let capped = k.threads().iter().filter(|t| t.state == RunState::Capped).count();
    prop_assert_eq!(
        capped,
        k.holders.iter().filter_map(|h| h.cap.as_ref()).map(|cap| cap.waiting.len()).sum::<usize>()
    );
    let mut waiting = 0;
    for (number, queue) in (0u32..).zip(&k.queues) {
        let here: Vec<ThreadId> = queue.threads(k.threads()).collect();
        prop_assert_eq!(here.len(), queue.len() as usize);
        let best = here.first().map_or(IDLE, |t| k.thread(*t).effective());
        prop_assert_eq!(best, queue.best);
        for thread in here {
            prop_assert_eq!(k.thread(thread).state, RunState::Queued(QueueId(number)));
            waiting += 1;
        }
    }
    let queued = k.threads().iter().filter(|t| matches!(t.state, RunState::Queued(_))).count();
    prop_assert_eq!(queued, waiting);
    for (number, cpu) in k.cpus().with_ids() {
        if let Some(running) = cpu.running {
            prop_assert_eq!(k.thread(running).state, RunState::Running);
            prop_assert_eq!(k.thread(running).cpu, number);
            prop_assert_eq!(cpu.dispatch_pri, k.thread(running).effective());
        }
    }
    let running = k.threads().iter().filter(|t| t.state == RunState::Running).count();
    prop_assert_eq!(running, k.cpus().iter().filter(|c| c.running.is_some()).count());
    Ok(())
}

#[test]
fn threads_leave_a_processor_that_is_given_to_others() {
    let mut k = kernel(4, standard());
    let hogs: Vec<ThreadId> = (0..4).map(|_| k.ts_start(Program::hog())).collect();
    k.pass(10);
    // CPUs 2 and 3 become a set, and one hog is bound to it.
    let set = SETS + 1;
    let apart = Arrangement {
        cpus: vec![DEFAULT, DEFAULT, PartitionId(set), PartitionId(set)],
        parts: vec![
            vec![CpuIndex(0), CpuIndex(1)],
            vec![CpuIndex(0), CpuIndex(1)],
            vec![CpuIndex(2), CpuIndex(3)],
        ]
        .into(),
    };
    k.arrange(&apart);
    k.confine(hogs[0], PartitionId(set), None);
    let (before, used): (Vec<u64>, Vec<u64>) =
        (k.cpus().iter().map(|c| c.user).collect(), hogs.iter().map(|h| k.thread(*h).user).collect());
    k.pass(600);
    let spent: Vec<u64> = k.cpus().iter().zip(before).map(|(c, b)| (c.user - b) / TICK).collect();
    assert_eq!((spent[0], spent[1], spent[2] + spent[3]), (600, 600, 600));
    assert_eq!((k.thread(hogs[0]).user - used[0]) / TICK, 600);
    assert!(hogs[1..].iter().all(|hog| k.may_run(*hog, CpuIndex(0)) && !k.may_run(*hog, CpuIndex(2))));
    // One CPU of the set goes off-line, then all returns.
    k.arrange(&Arrangement {
        parts: vec![vec![CpuIndex(0), CpuIndex(1)], vec![CpuIndex(0), CpuIndex(1)], vec![CpuIndex(2)]].into(),
        ..apart
    });
    k.pass(100);
    assert_eq!((k.on(CpuIndex(2)), k.on(CpuIndex(3))), (Some(hogs[0]), None));
    k.confine(hogs[0], DEFAULT, None);
    let all: Vec<CpuIndex> = (0..4).map(CpuIndex).collect();
    k.arrange(&Arrangement { cpus: vec![DEFAULT; 4], parts: vec![all.clone(), all, vec![]].into() });
    k.pass(100);
    assert!((0..4).all(|cpu| k.on(CpuIndex(cpu)).is_some()));
}

#[test]
fn a_shared_set_is_open_to_those_outside_and_closed_to_its_own() {
    let mut k = kernel(2, standard());
    let set = SETS + 1;
    k.arrange(&Arrangement {
        cpus: vec![DEFAULT, PartitionId(set)],
        parts: vec![vec![CpuIndex(0), CpuIndex(1)], vec![CpuIndex(0)], vec![CpuIndex(1)]].into(),
    });
    let inside = k.ts_start(Program::hog());
    k.confine(inside, PartitionId(set), None);
    let outside: Vec<ThreadId> = (0..3).map(|_| k.ts_start(Program::hog())).collect();
    k.watch(true);
    k.pass(3_000);
    let seen = k.take_seen();
    assert_eq!(seen[&inside].keys().copied().collect::<Vec<_>>(), [CpuIndex(1)]);
    assert!(outside.iter().any(|t| seen[t].contains_key(&CpuIndex(1))), "{seen:?}");
    assert!(k.cpus().iter().all(|cpu| cpu.idle < TICK));
}

/// Operations per job in a minute: two jobs of two threads each that compute for a while and meet, on two CPUs.
fn two_jobs(waiting: Waiting, apart: bool) -> [u64; 2] {
    let mut k = kernel(2, standard());
    let mut jobs = Vec::new();
    for job in 0..2u32 {
        let threads = if apart { 1 } else { 2 };
        let barrier = k.barrier(threads);
        let step = |share: u64| {
            Program::repeat(vec![
                Action::User(400_000 / share),
                Action::Done(100 / share),
                Action::Meet(barrier, waiting),
            ])
        };
        let threads: Vec<ThreadId> = (0..threads).map(|_| k.ts_start(step(u64::from(threads)))).collect();
        if apart {
            k.confine(threads[0], DEFAULT, Some(CpuIndex(job)));
        }
        jobs.push(threads);
    }
    k.run_until(60 * 100 * TICK).unwrap();
    [0, 1].map(|job: usize| jobs[job].iter().map(|thread| k.thread(*thread).done).sum())
}

#[test]
fn jobs_that_spin_lose_by_sharing_and_jobs_that_block_do_not() {
    let [one, other] = two_jobs(Waiting::Spin, true);
    // 60 s in steps of 0.4 ms, 100 operations each.
    assert_eq!((one, other), (15_000_000, 15_000_000));
    let spinning: u64 = two_jobs(Waiting::Spin, false).iter().sum();
    let blocking: u64 = two_jobs(Waiting::Block, false).iter().sum();
    assert!(spinning * 2 < one + other, "{spinning}");
    assert!(blocking * 10 > (one + other) * 9, "{blocking}");
}
