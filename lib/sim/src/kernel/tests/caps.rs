//! Tests of CPU caps: exact to the tick, without effect on other threads, under all other events.

use super::*;

/// A project with a cap, in its own zone.
fn capped(k: &mut Kernel, percent: u32) -> HolderIndex {
    let zone = k.hold(Level::Zone, None);
    let project = k.hold(Level::Project, Some(zone));
    k.set_cap(project, Some(percent));
    project
}

/// A hog with its own cap.
fn capped_hog(k: &mut Kernel, percent: u32) -> ThreadId {
    let cap = capped(k, percent);
    let hog = k.ts_start(Program::hog());
    k.set_holder(hog, Some(cap));
    hog
}

/// Hogs under one cap.
fn hogs_under(k: &mut Kernel, hogs: u32, percent: u32) -> Vec<ThreadId> {
    let cap = capped(k, percent);
    let hogs: Vec<ThreadId> = (0..hogs).map(|_| k.ts_start(Program::hog())).collect();
    hogs.iter().for_each(|hog| k.set_holder(*hog, Some(cap)));
    hogs
}

fn ticks_of(k: &Kernel, threads: &[ThreadId]) -> u64 {
    threads.iter().map(|thread| k.thread(*thread).user).sum::<u64>() / TICK
}

#[test]
fn half_a_processor_is_every_other_tick_after_a_tenth_of_a_second_ahead() {
    let mut k = kernel(1, standard());
    let hog = capped_hog(&mut k, 50);
    // Each tick charges 100 and decays 50: 50 n + 50 after n ticks, which exceeds the 500 ahead at the tenth.
    k.run_until(10 * TICK - 1).unwrap();
    assert_eq!(k.thread(hog).state, RunState::Running);
    k.run_until(10 * TICK).unwrap();
    assert_eq!((k.thread(hog).state, k.on(CpuIndex(0)), k.runnable()), (RunState::Capped, None, 0));
    assert_eq!(k.check(), Ok(()));
    k.run_until(11 * TICK).unwrap();
    assert_eq!(k.thread(hog).state, RunState::Running);
    k.run_until(12 * TICK).unwrap();
    assert_eq!(k.thread(hog).state, RunState::Capped);
    k.run_until(110 * TICK).unwrap();
    assert_eq!((k.thread(hog).user, k.cpus()[CpuIndex(0)].idle), (60 * TICK, 50 * TICK));
}

#[test]
fn two_hogs_under_one_cap_of_a_processor_get_one_of_two_together() {
    let mut k = kernel(2, standard());
    let hogs = hogs_under(&mut k, 2, 100);
    k.run_until(10 * 100 * TICK).unwrap();
    // Ten seconds, a tenth ahead, and at most one tick per thread more.
    let together = ticks_of(&k, &hogs);
    assert!((1_000..=1_012).contains(&together), "{together}");
    let one = ticks_of(&k, &hogs[..1]);
    assert!((450..=560).contains(&one), "{one}");
}

#[test]
fn as_many_threads_go_on_as_can_run_until_the_cap_is_used_up_again() {
    let mut k = kernel(4, standard());
    let hogs = hogs_under(&mut k, 4, 50);
    k.run_until(50 * TICK).unwrap();
    // Half a CPU decays by 50 per tick, and a thread charges 100 per tick: never two at once.
    for tick in 50..250 {
        k.run_until(tick * TICK + TICK / 2).unwrap();
        let running = hogs.iter().filter(|hog| k.thread(**hog).state == RunState::Running).count();
        assert!(running <= 1, "{running} at tick {tick}");
    }
}

#[test]
fn many_hogs_under_one_cap_get_no_more() {
    let mut k = kernel(8, standard());
    let hogs = hogs_under(&mut k, 20, 250);
    k.run_until(100 * TICK).unwrap();
    let before = ticks_of(&k, &hogs);
    k.run_until(1_100 * TICK).unwrap();
    let in_ten_seconds = ticks_of(&k, &hogs) - before;
    assert!((2_480..=2_520).contains(&in_ten_seconds), "{in_ten_seconds}");
}

#[test]
fn a_cap_that_is_never_reached_changes_nothing() {
    let run = |caps: &[(u32, usize)]| {
        let mut k = kernel(2, standard());
        let hogs: Vec<ThreadId> = (0..3).map(|_| k.ts_start(Program::hog())).collect();
        k.ts_start(Program::repeat(vec![Action::Sleep(7_000_000), Action::User(2_000_000)]));
        for (percent, hog) in caps {
            let cap = capped(&mut k, *percent);
            k.set_holder(hogs[*hog], Some(cap));
        }
        k.run_until(30 * 100 * TICK).unwrap();
        k
    };
    let (free, capped) = (run(&[]), run(&[(100, 0), (200, 2)]));
    assert_eq!(free.cpus(), capped.cpus());
    let used = |k: &Kernel| k.threads().iter().map(|t| (t.user, t.sys, t.state)).collect::<Vec<_>>();
    assert_eq!(used(&free), used(&capped));
}

#[test]
fn what_a_capped_thread_leaves_others_take() {
    let mut k = kernel(1, standard());
    let capped = capped_hog(&mut k, 10);
    let free = k.ts_start(Program::hog());
    k.run_until(10 * 100 * TICK).unwrap();
    let share = ticks_of(&k, &[capped]);
    assert!((90..=103).contains(&share), "{share}");
    assert_eq!(ticks_of(&k, &[free]) + share, 1_000);
    assert_eq!(k.cpus()[CpuIndex(0)].idle, 0);
}

#[test]
fn a_thread_in_the_kernel_waits_for_its_cap_when_it_comes_back() {
    let mut k = kernel(1, standard());
    let cap = capped(&mut k, 50);
    let program = vec![Action::Kernel(29 * TICK + TICK / 2), Action::User(u64::MAX)];
    let thread = k.ts_start(Program::once(program));
    k.set_holder(thread, Some(cap));
    k.run_until(29 * TICK).unwrap();
    assert_eq!(k.thread(thread).state, RunState::Running);
    // 50 * 29 + 50 were used at the tick and 50 since then; that decays to 500 at the 21st tick from there.
    k.run_until(49 * TICK).unwrap();
    assert_eq!((k.thread(thread).state, k.thread(thread).sys), (RunState::Capped, 29 * TICK + TICK / 2));
    k.run_until(50 * TICK).unwrap();
    assert_eq!(k.thread(thread).state, RunState::Running);
}

#[test]
fn who_spins_under_a_cap_learns_that_the_others_came_when_it_runs() {
    let mut k = kernel(2, standard());
    let barrier = k.barrier(2);
    let meet = |before: Vec<Action>| {
        let after = [Action::Meet(barrier, Waiting::Spin), Action::Done(1), Action::Sleep(u64::MAX / 2)];
        Program::once(before.into_iter().chain(after).collect())
    };
    let spins = k.ts_start(meet(Vec::new()));
    let late = k.ts_start(meet(vec![Action::User(10 * TICK + TICK / 2)]));
    let cap = capped(&mut k, 50);
    k.set_holder(spins, Some(cap));
    k.run_until(11 * TICK - 1).unwrap();
    assert_eq!((k.thread(spins).state, k.thread(spins).done), (RunState::Capped, 0));
    assert_eq!((k.thread(late).state, k.thread(late).done), (RunState::Asleep, 1));
    k.run_until(11 * TICK).unwrap();
    assert_eq!((k.thread(spins).state, k.thread(spins).done), (RunState::Asleep, 1));
}

#[test]
fn who_waits_for_a_cap_sees_the_update_of_each_second() {
    let mut k = kernel(1, standard());
    let cap = capped(&mut k, 1);
    let hog = k.ts_start_at(0, Program::hog());
    k.set_holder(hog, Some(cap));
    // It runs in the first and the 92nd tick: 100 are used, one decays per tick, and 10 may be ahead.
    k.run_until(99 * TICK).unwrap();
    assert_eq!((k.thread(hog).state, k.thread(hog).user), (RunState::Capped, 2 * TICK));
    assert_eq!((k.seen(hog).cpupri, k.seen(hog).dispwait), (0, 0));
    k.run_until(100 * TICK).unwrap();
    assert_eq!((k.thread(hog).state, k.seen(hog).cpupri, k.thread(hog).pri), (RunState::Capped, 50, 50));
}

#[test]
fn children_are_under_the_cap_of_their_parent() {
    let mut k = kernel(4, standard());
    let cap = capped(&mut k, 100);
    let parent = k.ts_start(Program::once(vec![Action::Fork(Program::hog()), Action::User(u64::MAX)]));
    k.set_holder(parent, Some(cap));
    k.run_until(10 * 100 * TICK).unwrap();
    assert_eq!(k.threads().len(), 2);
    let together = ticks_of(&k, &[ThreadId(0), ThreadId(1)]);
    assert!((1_000..=1_012).contains(&together), "{together}");
}

#[test]
fn who_waits_for_a_cap_can_be_ended_moved_and_let_go() {
    let mut k = kernel(2, standard());
    let hogs = hogs_under(&mut k, 1, 1);
    k.run_until(TICK).unwrap();
    assert_eq!(k.thread(hogs[0]).state, RunState::Capped);
    k.confine(hogs[0], DEFAULT, Some(CpuIndex(1)));
    k.inherit(hogs[0], Some(120));
    assert_eq!((k.thread(hogs[0]).state, k.check()), (RunState::Capped, Ok(())));
    k.set_holder(hogs[0], None);
    k.run_until(2 * TICK).unwrap();
    assert_eq!((k.on(CpuIndex(1)), k.thread(hogs[0]).user), (Some(hogs[0]), 2 * TICK));
    k.end(hogs[0]);
    let last = capped_hog(&mut k, 1);
    k.run_until(3 * TICK).unwrap();
    assert_eq!(k.thread(last).state, RunState::Capped);
    k.end(last);
    assert_eq!((k.heap.next_at(), k.check()), (None, Ok(())));
}

#[test]
fn a_kernel_in_which_others_wait_for_a_cap_cannot_be() {
    let mut k = kernel(1, standard());
    let hog = capped_hog(&mut k, 1);
    k.run_until(TICK).unwrap();
    let with = |change: &dyn Fn(&mut Kernel)| {
        let mut broken = k.clone();
        change(&mut broken);
        broken.check().unwrap_err()
    };
    let none = "a cap of the kernel is none, or others than its own wait for it";
    assert_eq!(with(&|k| k.t(hog).holder = None), none);
    let nowhere = "kernel thread 0 is held by what does not exist, or was charged for more than it ran";
    assert_eq!(with(&|k| k.t(hog).holder = Some(HolderIndex(2))), nowhere);
    assert_eq!(with(&|k| k.t(hog).holder = Some(HolderIndex(0))), nowhere, "a zone holds projects only");
    assert_eq!(
        with(&|k| k.holders[HolderIndex(1)].parent = Some(HolderIndex(1))),
        "a holder of the kernel belongs where none can"
    );
    assert_eq!(with(&|k| k.capped = false), "the kernel does not know whether it has caps");
    let twice = "threads of the kernel wait for no cap, or twice";
    assert_eq!(with(&|k| k.holders[HolderIndex(1)].cap.as_mut().unwrap().waiting.push_back(hog)), twice);
    assert_eq!(with(&|k| k.holders[HolderIndex(1)].cap.as_mut().unwrap().waiting.clear()), twice);
    let still = "threads of the kernel wait for a cap, and its clock does not tick";
    assert_eq!(with(&|k| k.heap.cancel(Source::Clock)), still);
}

#[test]
fn the_smallest_cap_above_a_thread_holds_and_each_tells_what_it_took() {
    let mut k = kernel(4, standard());
    let zone = k.hold(Level::Zone, None);
    let (one, two) = (k.hold(Level::Project, Some(zone)), k.hold(Level::Project, Some(zone)));
    k.set_cap(zone, Some(100));
    k.set_cap(one, Some(25));
    let hogs: Vec<ThreadId> = (0..4).map(|_| k.ts_start(Program::hog())).collect();
    for (hog, project) in hogs.iter().zip([one, one, two, two]) {
        k.set_holder(*hog, Some(project));
    }
    k.run_until(1_000 * TICK).unwrap();
    // Ten seconds and a tenth ahead, and two threads for a tick more.
    let (small, rest) = (ticks_of(&k, &hogs[..2]), ticks_of(&k, &hogs[2..]));
    assert!((240..=255).contains(&small), "{small}");
    assert!((1_000..=1_014).contains(&(small + rest)), "{small} + {rest}");
    assert_eq!(k.check(), Ok(()));
    let taken = k.taken(one).unwrap();
    // Two threads existed for ten seconds each; the time that they did not run, they waited for one of the caps.
    let waited = taken.time + k.taken(zone).unwrap().time;
    assert_eq!(waited / TICK, 4 * 1_000 - small - rest);
    assert_eq!((taken.of, k.taken(two)), (101, None));
    assert!((99..=101).contains(&taken.periods), "{taken:?}");
}

#[test]
fn who_runs_between_the_ticks_is_charged_all_the_same() {
    let mut k = kernel(1, standard());
    let cap = capped(&mut k, 20);
    // It is never on a CPU at a clock tick: 6 ms of each 10, beginning 2 ms after a tick.
    let rounds = Program::repeat(vec![Action::User(6_000_000), Action::Sleep(4_000_000)]);
    k.run_until(2_000_000).unwrap();
    let thread = k.ts_start(rounds);
    k.set_holder(thread, Some(cap));
    k.run_until(1_000 * TICK).unwrap();
    // A fifth of ten seconds, a tenth ahead, and one round more.
    let ran = k.thread(thread).user / 1_000_000;
    assert!((1_960..=2_030).contains(&ran), "{ran} ms");
}

#[test]
fn a_cap_that_is_taken_away_lets_go_who_waits_for_it() {
    let mut k = kernel(1, standard());
    let cap = capped(&mut k, 1);
    let hog = k.ts_start(Program::hog());
    k.set_holder(hog, Some(cap));
    k.run_until(20 * TICK).unwrap();
    assert_eq!(k.thread(hog).state, RunState::Capped);
    k.set_cap(cap, None);
    k.run_until(21 * TICK).unwrap();
    assert_eq!((k.thread(hog).state, k.taken(cap), k.check()), (RunState::Running, None, Ok(())));
}
