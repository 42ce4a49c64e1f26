//! Tests of CG through its interface: correct results for any number of threads, and changes of the allowed CPUs during the run.

use millpond_workloads::allowed_cpus;
use millpond_workloads::cg::{BarrierKind, CgEvent, CgResult, CgSpec, Class, Iteration, Verification, run};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

fn spec(class: Class, threads: u32, barrier: BarrierKind) -> CgSpec {
    CgSpec { threads: NonZeroU32::new(threads), barrier, ..CgSpec::new(class) }
}

/// Spinning teams compete for CPUs, so the tests of this program run them one at a time.
fn one_spinner_at_a_time() -> MutexGuard<'static, ()> {
    static SPINNER: Mutex<()> = Mutex::new(());
    SPINNER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run_traced(spec: &CgSpec) -> (CgResult, Vec<Iteration>) {
    let mut trace = Vec::new();
    let mut on_event = |event| {
        if let CgEvent::Iteration(iteration) = event {
            trace.push(iteration);
        }
    };
    let result = run(spec, &AtomicBool::new(false), &mut on_event).unwrap();
    (result, trace)
}

/// Moves the calling thread to `cpus`; its later threads inherit that.
fn move_to(cpus: &[u32]) {
    let mut mask = vec![0_u64; 1024];
    for cpu in cpus {
        mask[*cpu as usize / 64] |= 1 << (cpu % 64);
    }
    // SAFETY: the mask is only read, within its length.
    let moved =
        unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(&mask[..]), mask.as_ptr()) };
    assert_eq!(moved, 0, "{}", std::io::Error::last_os_error());
}

/// The numbers of a trace, without times and numbers of threads.
fn numbers(trace: &[Iteration]) -> Vec<(u32, u64, u64)> {
    trace.iter().map(|line| (line.iteration, line.residual.to_bits(), line.zeta.to_bits())).collect()
}

#[test]
fn class_s_verifies_with_one_two_and_three_threads_and_both_barriers_to_the_same_bits() {
    let (_, expected) = run_traced(&spec(Class::S, 1, BarrierKind::Blocking));
    for (threads, barrier) in [
        (2, BarrierKind::Blocking),
        (3, BarrierKind::Blocking),
        (1, BarrierKind::Spinning),
        (2, BarrierKind::Spinning),
    ] {
        let _alone = (barrier == BarrierKind::Spinning).then(one_spinner_at_a_time);
        let (result, trace) = run_traced(&spec(Class::S, threads, barrier));
        assert_eq!(result.verification, Verification::Passed, "{threads} {barrier}");
        assert_eq!(numbers(&trace), numbers(&expected), "{threads} {barrier}");
    }
}

/// Two iterations are enough to compare: with fewer CPUs than threads, each of the hundreds of meetings costs a time
/// slice.
#[test]
fn three_spinning_threads_compute_what_one_computes() {
    let (_, expected) = run_traced(&spec(Class::S, 1, BarrierKind::Blocking));
    let _alone = one_spinner_at_a_time();
    let (stop, mut trace) = (AtomicBool::new(false), Vec::new());
    let mut on_event = |event| {
        if let CgEvent::Iteration(iteration) = event {
            trace.push(iteration);
            stop.store(true, Ordering::Relaxed);
        }
    };
    let result = run(&spec(Class::S, 3, BarrierKind::Spinning), &stop, &mut on_event).unwrap();
    assert!(result.stopped && !trace.is_empty());
    assert_eq!(numbers(&trace), numbers(&expected)[..trace.len()]);
    assert_eq!(result.threads, 3);
}

#[test]
fn class_w_verifies_with_two_threads() {
    let (result, trace) = run_traced(&spec(Class::W, 2, BarrierKind::Blocking));
    assert!(result.is_verified(), "{result:?}");
    assert_eq!((result.repetitions, result.iterations, trace.len()), (1, 15, 15));
}

#[test]
fn more_threads_than_processors_verify_too() {
    let (result, _) = run_traced(&spec(Class::S, 17, BarrierKind::Blocking));
    assert!(result.is_verified());
    assert_eq!(result.threads, 17);
}

#[test]
fn the_trace_counts_iterations_and_its_residuals_are_small() {
    let (result, trace) = run_traced(&spec(Class::S, 1, BarrierKind::Spinning));
    assert_eq!(trace.iter().map(|line| line.iteration).collect::<Vec<_>>(), (1..=15).collect::<Vec<_>>());
    assert!(trace.iter().all(|line| line.residual < 1e-10 && line.repetition == 1 && line.threads == 1));
    assert!(trace.is_sorted_by(|a, b| a.seconds <= b.seconds));
    let last = trace.last().unwrap();
    assert_eq!(
        (last.zeta.to_bits(), last.residual.to_bits()),
        (result.zeta.to_bits(), result.residual.to_bits())
    );
    // The rate is the nominal count of the class divided by the time: 66.654 million.
    assert!((result.mops_total * result.seconds - 66.654).abs() < 1e-6);
}

#[test]
fn a_run_for_a_time_repeats_and_verifies_each_repetition() {
    let spec =
        CgSpec { duration: Some(Duration::from_millis(300)), ..spec(Class::S, 1, BarrierKind::Spinning) };
    let mut repetitions = Vec::new();
    let mut on_event = |event| {
        if let CgEvent::Repetition { repetition, verified, .. } = event {
            repetitions.push((repetition, verified));
        }
    };
    let result = run(&spec, &AtomicBool::new(false), &mut on_event).unwrap();
    assert!(result.seconds >= 0.3);
    assert_eq!(result.iterations, 15 * result.repetitions);
    assert_eq!(repetitions, (1..=result.repetitions).map(|number| (number, true)).collect::<Vec<_>>());
    assert!(result.is_verified());
}

#[test]
fn the_stop_flag_ends_a_run_after_the_iteration_and_the_result_says_so() {
    let spec =
        CgSpec { duration: Some(Duration::from_secs(3600)), ..spec(Class::S, 2, BarrierKind::Blocking) };
    let stop = AtomicBool::new(false);
    let mut on_event = |event| {
        if let CgEvent::Iteration(Iteration { repetition: 2, iteration: 4, .. }) = event {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let result = run(&spec, &stop, &mut on_event).unwrap();
    assert!(result.stopped);
    assert_eq!((result.repetitions, result.iterations), (1, 15 + 5));
    assert!(result.is_verified());
    assert!(Class::S.accepts(result.zeta));
}

#[test]
fn a_run_that_is_stopped_before_it_began_has_no_answer() {
    let _alone = one_spinner_at_a_time();
    let result = run(&spec(Class::S, 2, BarrierKind::Spinning), &AtomicBool::new(true), &mut |_| ()).unwrap();
    assert!(result.stopped && !result.is_verified());
    assert_eq!(result.verification, Verification::NotReached);
    assert_eq!((result.iterations, result.mops_total), (0, 0.0));
}

#[test]
fn without_a_count_there_are_as_many_threads_as_allowed_processors() {
    let spec = CgSpec { barrier: BarrierKind::Blocking, ..CgSpec::new(Class::S) };
    let (result, _) = run_traced(&spec);
    assert_eq!(result.threads as usize, allowed_cpus().unwrap().len());
}

#[test]
fn a_malleable_run_follows_its_affinity_down_to_one_processor_and_back() {
    // In a thread of its own, because it changes the affinity of the calling one.
    let check = || {
        let _alone = one_spinner_at_a_time();
        let all = allowed_cpus().unwrap();
        let spec = CgSpec { malleable: true, ..CgSpec::new(Class::S) };
        let mut trace = Vec::new();
        let mut on_event = |event| {
            if let CgEvent::Iteration(iteration) = event {
                trace.push(iteration.threads as usize);
                match iteration.iteration {
                    4 => move_to(&all[..1]),
                    9 => move_to(&all),
                    _ => (),
                }
            }
        };
        let result = run(&spec, &AtomicBool::new(false), &mut on_event).unwrap();
        assert!(result.is_verified());
        // The affinity is read before the end of each iteration: a change during iteration 4 is seen in 5, and takes effect in 6.
        assert_eq!(trace, [vec![all.len(); 5], vec![1; 5], vec![all.len(); 5]].concat());
        assert_eq!(result.resizes, if all.len() == 1 { 0 } else { 2 });
    };
    thread::scope(|scope| scope.spawn(check).join().unwrap());
}

#[test]
fn a_result_reads_back_from_json() {
    let (result, _) = run_traced(&spec(Class::S, 1, BarrierKind::Blocking));
    let text = serde_json::to_string(&result).unwrap();
    assert!(text.contains(r#""class":"S","threads":1,"barrier":"blocking","#), "{text}");
    assert!(text.contains(r#""verification":"passed""#), "{text}");
    let back: CgResult = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (back.class, back.verification, back.iterations),
        (result.class, result.verification, result.iterations)
    );
}
