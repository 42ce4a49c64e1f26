//! Tests of time sharing by the rules of Linux, computed by hand.

use super::*;

const MS: u64 = 1_000_000;

/// CPUs with a slice of 3 ms.
fn linux(cpus: u32) -> Kernel {
    let tunables =
        Tunables { hz: 1_000, eevdf_slice_ns: Some(3 * MS), nosteal_nsec: 500_000, ..Tunables::default() };
    Kernel::new(&Layout::flat(cpus), standard(), tunables)
}

fn hog() -> Program {
    Program::repeat(vec![Action::User(1_000_000_000)])
}

/// Milliseconds of CPU time of threads at a time.
fn had(kernel: &mut Kernel, at: u64, threads: &[ThreadId]) -> Vec<u64> {
    kernel.run_until(at * MS).unwrap();
    let cpus: Vec<CpuIndex> = kernel.cpus().ids().collect();
    cpus.into_iter().for_each(|cpu| kernel.account(cpu));
    threads.iter().map(|thread| kernel.thread(*thread).user / MS).collect()
}

#[test]
fn two_threads_take_turns_of_a_slice() {
    let mut kernel = linux(1);
    let threads = [kernel.ts_start(hog()), kernel.ts_start(hog())];
    // Both begin with half a slice, 1.5 ms, which ends at the second tick. Then both are at virtual time 2 with deadline 5.
    assert_eq!(had(&mut kernel, 2, &threads), [2, 0]);
    assert_eq!(had(&mut kernel, 4, &threads), [2, 2]);
    assert_eq!(had(&mut kernel, 7, &threads), [5, 2]);
    assert_eq!(had(&mut kernel, 10, &threads), [5, 5]);
    assert_eq!(had(&mut kernel, 13, &threads), [8, 5]);
}

#[test]
fn time_is_shared_by_weight() {
    let mut kernel = linux(1);
    let usual = kernel.ts_start(hog());
    // Nice 10: 1,024 / 1.25^10 = 110 of 1,134, or 97 ms of a second.
    let nice = kernel.start(Start::new(kernel.ts_entry_at(-30), hog()));
    let times = had(&mut kernel, 10_000, &[usual, nice]);
    assert!(times[1].abs_diff(970) <= 35, "{times:?}");
    assert_eq!(times[0] + times[1], 10_000);
}

/// The lag that a thread keeps while it sleeps decides whether it preempts at once.
#[test]
fn a_thread_that_wakes_up_takes_the_cpu_if_it_is_owed_time() {
    let mut kernel = linux(1);
    let _hog = kernel.ts_start(hog());
    let nap = Program::repeat(vec![Action::Sleep(10 * MS), Action::User(MS)]);
    let sleeper = [kernel.ts_start(nap)];
    // It runs, and goes to sleep, at 2 ms, when the other thread has 2 and it has 0: the mean is 1, and its lag is 1.
    // At 12 ms it enters at 12 - 2 with the other at 12: the mean is 11, the other one exceeds it, and this thread runs.
    assert_eq!(had(&mut kernel, 13, &sleeper), [1]);
    // It left at 11 with the other at 12, with a lag of a half; at 23 ms it enters at 21 with the other at 22.
    assert_eq!(had(&mut kernel, 24, &sleeper), [2]);
    // It left at 22 with the other at 22. At 34 ms it enters at 32 with the other at 32, which has a slice from then on.
    assert_eq!(had(&mut kernel, 37, &sleeper), [2]);
    assert_eq!(had(&mut kernel, 38, &sleeper), [3]);
}

#[test]
fn threads_are_spread_when_they_begin_and_when_they_wake_up() {
    let mut kernel = linux(2);
    let pair = [kernel.ts_start(hog()), kernel.ts_start(hog())];
    assert_eq!(had(&mut kernel, 50, &pair), [50, 50]);
}

#[test]
fn a_new_thread_goes_to_an_idle_cpu_and_else_stays_with_the_one_that_started_it() {
    let mut kernel = linux(2);
    let starts = Program::once(vec![Action::User(MS), Action::Spawn(hog()), Action::User(1_000 * MS)]);
    let first = kernel.ts_start(starts.clone());
    had(&mut kernel, 2, &[first]);
    let cpus = |kernel: &Kernel| kernel.threads().iter().map(|thread| thread.cpu.0).collect::<Vec<_>>();
    assert_eq!(cpus(&kernel), [0, 1]);
    // Neither CPU was busy lately, so the second new thread stays with its creator, although another one waits there. Balancing would come at 16 ms.
    kernel.ts_start(starts);
    had(&mut kernel, 15, &[first]);
    assert_eq!(cpus(&kernel), [0, 1, 0, 0]);
}

#[test]
fn a_new_thread_goes_to_the_cpu_that_was_less_loaded_of_late() {
    let mut kernel = linux(2);
    // Disable stealing.
    kernel.tunables.nosteal_nsec = 10_000 * MS;
    let bound = |kernel: &mut Kernel, cpu| {
        let start = Start::new(kernel.ts_entry_at(0), hog());
        kernel.start(Start { bound: Some(CpuIndex(cpu)), ..start })
    };
    let hogs = [bound(&mut kernel, 0), bound(&mut kernel, 1)];
    kernel.ts_start(Program::once(vec![Action::User(100 * MS), Action::Spawn(hog()), Action::User(MS)]));
    // After about 200 ms its CPU had two threads on average, and the other CPU one.
    had(&mut kernel, 250, &hogs);
    assert_eq!(kernel.threads().iter().map(|thread| thread.cpu.0).collect::<Vec<_>>(), [0, 1, 0, 1]);
}

#[test]
fn three_threads_on_two_cpus_change_places_until_each_had_as_much() {
    let mut kernel = linux(2);
    let threads = [(); 3].map(|()| kernel.ts_start(hog()));
    let times = had(&mut kernel, 6_000, &threads);
    // After a move, the averages of the two CPUs differ by a sixth after 44 ms, and balancing happens every 31 ms. So every 62 ms the
    // CPU with one thread takes the waiting thread of the other. Two thirds of a CPU each, within 10 %.
    assert!(times.iter().all(|time| (3_600..=4_400).contains(time)), "{times:?}");
    assert_eq!(times.iter().sum::<u64>(), 12_000);
}

#[test]
fn a_daemon_s_moments_move_no_thread() {
    let mut kernel = linux(2);
    let hogs = [(); 4].map(|()| kernel.ts_start(hog()));
    let daemon = Program::repeat(vec![Action::Sleep(7 * MS), Action::User(MS / 2)]);
    kernel.ts_start(daemon);
    had(&mut kernel, 100, &hogs);
    let at = |kernel: &Kernel| hogs.map(|hog| kernel.thread(hog).cpu);
    let begun = at(&kernel);
    // It is the fifth thread for 1/15 of the time: averages of 2.07 and 2 threads, which differ by less than a sixth.
    for step in 1..=1_000 {
        had(&mut kernel, 100 + 10 * step, &hogs);
        assert_eq!(at(&kernel), begun, "after {step} steps");
    }
}

fn under_a_cap(kernel: &mut Kernel, percent: u32, threads: &[ThreadId]) {
    let zone = kernel.hold(Level::Zone, None);
    let project = kernel.hold(Level::Project, Some(zone));
    kernel.set_cap(project, Some(percent));
    threads.iter().for_each(|thread| kernel.set_holder(*thread, Some(project)));
}

#[test]
fn a_cap_is_a_quota_of_each_tenth_of_a_second() {
    let mut kernel = linux(1);
    let hog = [kernel.ts_start(hog())];
    under_a_cap(&mut kernel, 50, &hog);
    // It has the first 50 ms of each 100 ms.
    assert_eq!(had(&mut kernel, 49, &hog), [49]);
    assert_eq!(had(&mut kernel, 99, &hog), [50]);
    assert_eq!(had(&mut kernel, 149, &hog), [99]);
    assert_eq!(had(&mut kernel, 199, &hog), [100]);
    assert_eq!(kernel.check(), Ok(()));
}

#[test]
fn a_quota_is_given_out_to_cpus_in_parts() {
    let mut kernel = linux(2);
    let hogs = [kernel.ts_start(hog()), kernel.ts_start(hog())];
    under_a_cap(&mut kernel, 21, &hogs);
    // Each CPU gets 6 ms at first, of which it has used one, then 5 ms more. At 6 ms 22 ms would be needed, and there are 21. The first one that
    // asks, CPU 0, has 11, and the other one 10.
    assert_eq!(had(&mut kernel, 10, &hogs), [10, 10]);
    let times = had(&mut kernel, 90, &hogs);
    assert_eq!(times.iter().sum::<u64>(), 21, "{times:?}");
    assert!(times.iter().all(|time| (10..=11).contains(time)), "{times:?}");
    // Other threads take the CPUs that the job leaves.
    let other = kernel.ts_start(hog());
    assert_eq!(had(&mut kernel, 99, &[other]), [9]);
}

#[test]
fn real_time_goes_before_all() {
    let mut kernel = linux(1);
    let shared = kernel.ts_start(hog());
    let nap = Program::repeat(vec![Action::Sleep(4 * MS + MS / 2), Action::User(MS)]);
    let urgent = kernel.start(Start::new(kernel.rt_start(0, None, 0), nap));
    let times = had(&mut kernel, 55, &[shared, urgent]);
    assert_eq!(times, [45, 10]);
}

#[test]
fn a_kernel_that_was_saved_goes_on_as_it_would_have() {
    let mut kernel = linux(2);
    let threads = [(); 3].map(|()| kernel.ts_start(hog()));
    had(&mut kernel, 100, &threads);
    let text = serde_json::to_string(&kernel).unwrap();
    let mut again: Kernel = serde_json::from_str(&text).unwrap();
    again.reindex();
    assert_eq!(had(&mut kernel, 1_000, &threads), had(&mut again, 1_000, &threads));
}
