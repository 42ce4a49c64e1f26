//! Tests of spinning through its interface.

use millpond_workloads::allowed_cpus;
use millpond_workloads::spin::{Duty, SpinEvent, SpinResult, SpinSpec, run};
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn spec(threads: u32, duration_ms: Option<u64>) -> SpinSpec {
    let duration = duration_ms.map(Duration::from_millis);
    SpinSpec { threads: NonZeroU32::new(threads), duration, duty: None, interval: None, memory_mib: None }
}

#[test]
fn each_thread_reports_its_iterations_and_no_more_processor_time_than_has_passed() {
    let result = run(&spec(3, Some(100)), &AtomicBool::new(false), &mut |_| ()).unwrap();
    assert_eq!(result.threads.len(), 3);
    assert!(result.seconds >= 0.1 && !result.stopped);
    for thread in &result.threads {
        assert!(thread.cpu_seconds > 0.0 && thread.cpu_seconds <= result.seconds, "{result:?}");
    }
    assert_eq!(result.iterations(), result.threads.iter().map(|thread| thread.iterations).sum::<u64>());
}

#[test]
fn without_a_count_there_are_as_many_threads_as_allowed_processors() {
    let spec = SpinSpec { threads: None, ..spec(1, Some(1)) };
    let result = run(&spec, &AtomicBool::new(false), &mut |_| ()).unwrap();
    assert_eq!(result.threads.len(), allowed_cpus().unwrap().len());
}

#[test]
fn without_a_duration_it_spins_until_it_is_stopped_and_tells_progress() {
    let stop = AtomicBool::new(false);
    let spec = SpinSpec { interval: Some(Duration::from_millis(1)), ..spec(1, None) };
    let mut progress = 0;
    let result = run(&spec, &stop, &mut |event| {
        if let SpinEvent::Progress { iterations, .. } = event {
            progress = iterations;
            stop.store(iterations > 0, Ordering::Relaxed);
        }
    })
    .unwrap();
    assert!(result.stopped);
    assert!(progress > 0 && result.iterations() >= progress);
}

#[test]
fn a_tenth_of_the_time_takes_no_more_processor_than_that_and_some_slack() {
    let duty = Duty::new(10, Duration::from_millis(50)).unwrap();
    let spec = SpinSpec { duty: Some(duty), ..spec(1, Some(500)) };
    let result = run(&spec, &AtomicBool::new(false), &mut |_| ()).unwrap();
    // A thread may spin at most a tenth of the wall clock; the limit of one half leaves room for calls and coarse clocks.
    assert!(result.iterations() > 0);
    assert!(result.cpu_seconds() < result.seconds / 2.0, "{result:?}");
}

#[test]
fn a_panic_in_the_callback_ends_the_threads() {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let _ = run(&spec(2, None), &AtomicBool::new(false), &mut |_| panic!("as the test wants"));
    }));
    assert!(outcome.is_err());
}

#[test]
fn a_result_reads_back_from_json() {
    let result = run(&spec(1, Some(1)), &AtomicBool::new(false), &mut |_| ()).unwrap();
    let back: SpinResult = serde_json::from_str(&serde_json::to_string(&result).unwrap()).unwrap();
    assert_eq!(back.iterations(), result.iterations());
}

#[test]
fn threads_that_read_memory_do_iterations_and_end_when_they_are_told() {
    let spec = SpinSpec { memory_mib: NonZeroU32::new(1), ..spec(2, None) };
    let stop = AtomicBool::new(false);
    let mut seen = 0;
    let result = run(&SpinSpec { interval: Some(Duration::from_millis(1)), ..spec }, &stop, &mut |event| {
        if let SpinEvent::Progress { iterations, .. } = event {
            seen = iterations;
            stop.store(iterations > 0, Ordering::Relaxed);
        }
    });
    let result = result.unwrap();
    assert!(result.stopped && seen > 0 && result.iterations() >= seen, "{seen} {result:?}");
}
