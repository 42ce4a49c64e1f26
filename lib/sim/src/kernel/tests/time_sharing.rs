//! TS and IA: vectors V1 to V11, by Solaris' rule for wake-ups (`wakeup_parity_nsec` is 0).

use super::*;
use crate::kernel::RunState;

/// The levels of the system's part that a thread goes through, each with the ticks it stayed.
fn walk(kernel: &mut Kernel, thread: ThreadId, ticks: u64) -> Vec<(u8, u64)> {
    let mut walked: Vec<(u8, u64)> = Vec::new();
    kernel.pass(0);
    for _ in 0..ticks {
        let level = kernel.seen(thread).cpupri;
        match walked.last_mut() {
            Some((last, stayed)) if *last == level => *stayed += 1,
            _ => walked.push((level, 1)),
        }
        kernel.pass(1);
    }
    walked
}

#[test]
fn v1_a_hog_sinks_to_the_bottom_of_the_standard_table() {
    let mut k = kernel(1, standard());
    let hog = k.ts_start(Program::hog());
    assert_eq!(walk(&mut k, hog, 60), [(29, 12), (19, 16), (9, 20), (0, 12)]);
}

#[test]
fn v2_and_of_the_extended_table() {
    let mut k = kernel(1, extended());
    let hog = k.ts_start(Program::hog());
    assert_eq!(walk(&mut k, hog, 240), [(29, 36), (19, 38), (9, 38), (4, 38), (2, 38), (1, 38), (0, 14)]);
}

#[test]
fn v3_the_beat_lifts_a_hog_and_it_sinks_again_within_44_ticks() {
    let mut k = kernel(1, standard());
    let hog = k.ts_start(Program::hog());
    k.pass(100);
    assert_eq!(k.seen(hog).cpupri, 50);
    assert_eq!(walk(&mut k, hog, 50), [(50, 4), (40, 4), (30, 8), (20, 12), (10, 16), (0, 6)]);
}

#[test]
fn v4_a_running_hog_alone_is_never_lifted_by_the_extended_table() {
    let mut k = kernel(1, extended());
    let hog = k.ts_start(Program::hog());
    k.pass(226);
    assert_eq!(walk(&mut k, hog, 2_000), [(0, 2_000)]);
}

#[test]
fn v4_one_that_must_wait_is() {
    let mut k = kernel(1, extended());
    let worse = k.ts_start_at(0, Program::hog());
    k.start(Start::new(k.fx_start(30, None), Program::hog()));
    k.pass(299);
    assert_eq!((k.seen(worse).cpupri, k.seen(worse).dispwait), (0, 2));
    k.pass(1);
    assert_eq!((k.seen(worse).cpupri, k.on(CpuIndex(0))), (40, Some(worse)), "after three beats");
}

#[test]
fn v5_nobody_at_the_top_of_the_standard_table_is_lifted_before_32001_beats() {
    let mut k = kernel(1, standard());
    let top = k.ts_start_at(59, Program::hog());
    k.start(Start::new(k.rt_start(0, None, 0), Program::hog()));
    k.run_until(32_000 * 100 * TICK).unwrap();
    assert_eq!(k.seen(top).dispwait, 32_000);
    k.pass(100);
    assert_eq!(k.seen(top).dispwait, 0);
}

#[test]
fn v5_the_same_for_one_that_sleeps_through_them() {
    let mut k = kernel(2, standard());
    let sleep =
        |beats: u64| Program::once(vec![Action::Sleep(beats * 100 * TICK + 1), Action::User(u64::MAX)]);
    let (short, long) = (k.ts_start_at(59, sleep(32_000)), k.ts_start_at(59, sleep(32_001)));
    k.run_until(32_000 * 100 * TICK + 1).unwrap();
    assert_eq!((k.seen(short).dispwait, k.seen(short).cpupri), (32_000, 59));
    k.run_until(32_001 * 100 * TICK + 1).unwrap();
    assert_eq!((k.seen(long).dispwait, k.seen(long).cpupri), (0, 59));
}

#[test]
fn v7_the_slice_goes_by_the_systems_part_and_the_wait_by_the_sum() {
    let mut k = kernel(1, standard());
    let hog = k.ts_start_at(50, Program::hog());
    k.set_params(hog, ClassParams::Ts { uprilim: 20, upri: 20 });
    assert_eq!((k.seen(hog).umdpri, k.thread(hog).pri, k.seen(hog).timeleft), (59, 59, 4));
    let sleeper = k.ts_start_at(50, Program::once(vec![Action::Sleep(250 * TICK)]));
    k.set_params(sleeper, ClassParams::Ts { uprilim: 20, upri: 20 });
    k.pass(0);
    assert_eq!(k.thread(sleeper).state, RunState::Queued(QueueId(0)), "{:?}", k.thread(sleeper));
    k.pass(200);
    // Above the hog, which sinks; it slept through two beats without being lifted.
    assert_eq!((k.seen(sleeper).cpupri, k.seen(sleeper).dispwait <= 2), (50, true));
}

#[test]
fn v8_the_foreground_adds_ten_and_the_background_takes_ten() {
    let mut k = kernel(1, standard());
    let ClassState::Ts(mut state) = k.entry(ClassParams::Ia { uprilim: 0, upri: 0, foreground: true }) else {
        panic!()
    };
    assert_eq!((state.boost, state.foreground), (10, Some(true)));
    state.cpupri = 50;
    state.umdpri = state.level();
    let thread = k.start(Start::new(ClassState::Ts(state), Program::hog()));
    assert_eq!(k.seen(thread).umdpri, 59);
    let ClassState::Ts(mut state) = k.entry(ClassParams::Ia { uprilim: 0, upri: 0, foreground: true }) else {
        panic!()
    };
    state.cpupri = 5;
    let thread = k.start(Start::new(ClassState::Ts(state), Program::hog()));
    k.set_params(thread, ClassParams::Ia { uprilim: 0, upri: 0, foreground: false });
    assert_eq!((k.seen(thread).umdpri, k.thread(thread).pri), (0, 0));
}

#[test]
fn v9_who_is_preempted_goes_first_with_what_is_left_of_the_slice() {
    let mut k = kernel(1, standard());
    // Both at level 0: the first has used 17 of its 20 ticks when the better one comes.
    let first = k.ts_start_at(0, Program::hog());
    let equal = k.ts_start_at(0, Program::hog());
    let better =
        Program::once(vec![Action::Sleep(17 * TICK + 1), Action::User(TICK / 2), Action::Sleep(u64::MAX)]);
    let better = k.start(Start::new(k.rt_start(0, None, 0), better));
    k.pass(17);
    k.run_until(17 * TICK + 2).unwrap();
    assert_eq!((k.on(CpuIndex(0)), k.seen(first).timeleft), (Some(better), 3));
    k.pass(1);
    assert_eq!(
        (k.on(CpuIndex(0)), k.seen(first).timeleft),
        (Some(first), 2),
        "one tick later one less is left"
    );
    k.pass(2);
    assert_eq!(k.on(CpuIndex(0)), Some(equal));
}

#[test]
fn v10_a_thread_that_ran_during_this_tick_goes_before_its_equals() {
    for (nap, first) in [(TICK / 10, true), (2 * TICK, false)] {
        let mut k = kernel(1, standard());
        let nap = Program::once(vec![Action::User(TICK / 10), Action::Sleep(nap), Action::User(u64::MAX)]);
        let napper = k.ts_start_at(58, nap);
        k.start(Start::new(
            k.rt_start(0, None, 0),
            Program::once(vec![Action::Sleep(TICK / 8), Action::User(5 * TICK)]),
        ));
        let equal = k.ts_start_at(58, Program::hog());
        k.pass(5);
        assert_eq!(k.queue(CpuIndex(0)).len(), 2);
        let order: Vec<ThreadId> = k.queue(CpuIndex(0)).threads(k.threads()).collect();
        assert_eq!(order[0] == napper, first, "{order:?}, {napper} napped, {equal} waited");
    }
}

#[test]
fn v11_the_child_goes_first_and_the_parent_falls() {
    let mut k = kernel(1, standard());
    let program = Program::once(vec![Action::Fork(Program::hog()), Action::User(u64::MAX)]);
    let parent = k.ts_start_at(50, program);
    k.run_until(1).unwrap();
    let child = k.on(CpuIndex(0)).unwrap();
    assert_ne!(child, parent);
    assert_eq!((k.seen(child).cpupri, k.seen(child).timeleft), (50, 4));
    assert_eq!((k.seen(parent).cpupri, k.seen(parent).timeleft), (40, 4));
}

#[test]
fn who_sleeps_across_beats_comes_to_the_top() {
    let mut k = kernel(1, standard());
    let nap = Program::repeat(vec![Action::User(TICK / 10), Action::Sleep(130 * TICK)]);
    let thread = k.ts_start(nap);
    k.pass(100 * 12);
    assert_eq!(k.seen(thread).cpupri, 59);
}

#[test]
fn many_naps_do_not_lift_between_beats() {
    let mut k = kernel(1, standard());
    let nap = Program::repeat(vec![Action::User(TICK), Action::Sleep(TICK)]);
    let thread = k.ts_start(nap);
    k.pass(99);
    assert!(k.seen(thread).cpupri <= 29, "{:?}", k.seen(thread));
}

#[test]
fn who_holds_off_preemption_does_so_for_two_ticks_at_most() {
    let mut k = kernel(1, standard());
    let holder = k.ts_start_at(0, Program::once(vec![Action::Hold(true), Action::User(u64::MAX)]));
    let better = Program::once(vec![Action::Sleep(5 * TICK + 1), Action::User(u64::MAX)]);
    let better = k.ts_start_at(58, better);
    k.run_until(5 * TICK + 2).unwrap();
    assert_eq!((k.on(CpuIndex(0)), k.thread(holder).asked_to_yield), (Some(holder), true), "it holds");
    // Its slice of 20 ticks began at 0; beyond it there are fewer than two.
    k.run_until(20 * TICK + 2).unwrap();
    assert_eq!(k.on(CpuIndex(0)), Some(holder));
    k.run_until(22 * TICK + 2).unwrap();
    assert_eq!(k.on(CpuIndex(0)), Some(better));
    assert_eq!(k.thread(holder).pri, 0, "what it was before");
}
