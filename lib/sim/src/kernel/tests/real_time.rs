//! Tests of RT and FX: vectors V12 to V15, round-robin quanta.

use super::*;

#[test]
fn v12_a_parent_in_real_time_keeps_the_processor() {
    let mut k = kernel(1, standard());
    let program = Program::once(vec![Action::Fork(Program::hog()), Action::User(u64::MAX)]);
    let parent = k.start(Start::new(k.rt_start(5, None, 0), program));
    k.run_until(1).unwrap();
    assert_eq!((k.on(CpuIndex(0)), k.threads().len()), (Some(parent), 2));
}

#[test]
fn v13_a_parent_of_fixed_priority_goes_behind_its_child() {
    let mut k = kernel(1, standard());
    let program = Program::once(vec![Action::Fork(Program::hog()), Action::User(u64::MAX)]);
    let parent = k.start(Start::new(k.fx_start(7, None), program));
    k.run_until(1).unwrap();
    assert_ne!(k.on(CpuIndex(0)), Some(parent));
    assert_eq!((k.thread(parent).pri, k.queue(CpuIndex(0)).first()), (7, Some(parent)));
}

#[test]
fn v14_real_time_preempts_the_kernel_and_time_sharing_waits_for_user_mode() {
    for (real_time, at_once) in [(true, true), (false, false)] {
        let mut k = kernel(1, standard());
        let busy = Program::once(vec![Action::Kernel(3 * TICK), Action::User(u64::MAX)]);
        let busy = k.ts_start_at(0, busy);
        let wake = Program::once(vec![Action::Sleep(TICK), Action::User(u64::MAX)]);
        let class = if real_time { k.rt_start(10, None, 0) } else { k.ts_entry_at(60) };
        let woken = k.start(Start::new(class, wake));
        k.run_until(TICK + 1).unwrap();
        assert_eq!(k.on(CpuIndex(0)), Some(if at_once { woken } else { busy }));
        k.run_until(3 * TICK + 1).unwrap();
        assert_eq!(k.on(CpuIndex(0)), Some(woken), "on the way back to user mode at the latest");
    }
}

#[test]
fn v15_two_real_time_threads_that_wake_together_take_two_processors() {
    let mut k = kernel(2, standard());
    k.ts_start(Program::hog());
    k.ts_start(Program::hog());
    let wake = || Program::once(vec![Action::Sleep(2 * TICK), Action::User(u64::MAX)]);
    let one = k.start(Start::new(k.rt_start(10, None, 0), wake()));
    let two = k.start(Start::new(k.rt_start(10, None, 0), wake()));
    k.run_until(2 * TICK).unwrap();
    let mut on = [k.on(CpuIndex(0)), k.on(CpuIndex(1))];
    on.sort_unstable();
    assert_eq!(on, [Some(one), Some(two)]);
}

#[test]
fn a_processor_that_is_out_of_service_takes_no_real_time_threads_from_its_partition() {
    let mut k = kernel(2, standard());
    // CPU 1 stays in the default set and is not used.
    k.arrange(&Arrangement {
        cpus: vec![DEFAULT; 2],
        parts: vec![vec![CpuIndex(0)], vec![CpuIndex(0)]].into(),
    });
    let threads = [10, 20].map(|pri| k.start(Start::new(k.rt_start(pri, None, 0), Program::hog())));
    k.pass(1_000);
    assert_eq!([k.on(CpuIndex(0)), k.on(CpuIndex(1))], [Some(threads[1]), None]);
    assert_eq!((k.cpus()[CpuIndex(1)].user, k.cpus()[CpuIndex(1)].idle), (0, 1_000 * TICK));
}

#[test]
fn a_real_time_slice_ends_with_a_signal_and_goes_round() {
    let mut k = kernel(1, standard());
    let one = k.start(Start::new(k.rt_start(59, Some(Quantum::Ticks(3)), 17), Program::hog()));
    let two = k.start(Start::new(k.rt_start(59, Some(Quantum::Infinite), 0), Program::hog()));
    k.run_until(2 * TICK + 1).unwrap();
    assert_eq!(k.on(CpuIndex(0)), Some(one));
    k.run_until(3 * TICK + 1).unwrap();
    assert_eq!(k.on(CpuIndex(0)), Some(two), "the slice of three ticks has ended");
    let ClassState::Rt(state) = k.thread(one).class else { panic!() };
    assert_eq!((state.signalled, state.timeleft), (1, 3));
    k.pass(1_000);
    assert_eq!(k.on(CpuIndex(0)), Some(two), "a slice without end");
}

#[test]
fn fixed_priority_goes_round_by_its_slice_and_never_moves() {
    let mut k = kernel(1, standard());
    let one = k.start(Start::new(k.fx_start(0, None), Program::hog()));
    let two = k.start(Start::new(k.fx_start(0, None), Program::hog()));
    k.run_until(20 * TICK - 1).unwrap();
    assert_eq!(k.on(CpuIndex(0)), Some(one));
    k.run_until(20 * TICK).unwrap();
    assert_eq!(k.on(CpuIndex(0)), Some(two));
    k.run_until(4_000 * TICK).unwrap();
    assert_eq!((k.thread(one).user, k.thread(two).user), (2_000 * TICK, 2_000 * TICK));
    assert_eq!((k.thread(one).pri, k.thread(two).pri), (0, 0));
}
