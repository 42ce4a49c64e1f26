//! Counts of OS noise in a section of a thread: faults, switches and migrations are counted, and a calm section has none.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod common;

use common::page_size;
use millpond_rt::realtime::{Calm, CpuMask, MigrationSource, Setup, Want};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn one_cpu(cpu: usize) -> Setup {
    Setup::new().require(Want::Cpus(cpu.to_string().parse().unwrap()))
}

/// The CPUs that the tests may use.
fn cpus() -> Vec<usize> {
    let text = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    list.trim().parse::<CpuMask>().unwrap().iter().collect()
}

#[test]
fn a_section_that_does_nothing_neither_faults_nor_waits() {
    let calm = Calm::open();
    for _ in 0..100 {
        let found = calm.begin().end();
        assert_eq!((found.minor_faults, found.major_faults, found.voluntary_switches), (0, 0, 0), "{found}");
    }
}

#[test]
fn the_first_use_of_a_page_is_a_fault() {
    const PAGES: usize = 16;
    let calm = Calm::open();
    let length = PAGES * page_size();
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address of the kernel's choice, never unmapped. Huge pages would fault once for many pages.
    let memory = unsafe {
        let memory = libc::mmap(ptr::null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        assert_ne!(memory, libc::MAP_FAILED);
        libc::madvise(memory, length, libc::MADV_NOHUGEPAGE);
        memory.cast::<u8>()
    };
    let section = calm.begin();
    for at in (0..length).step_by(page_size()) {
        // SAFETY: within the mapping.
        unsafe { memory.add(at).write_volatile(1) };
    }
    let found = section.end();
    assert_eq!(found.minor_faults, 16, "{found}");
    assert!(!found.is_calm());
}

#[test]
fn whoever_sleeps_gives_the_processor_away() {
    let calm = Calm::open();
    let section = calm.begin();
    std::thread::sleep(Duration::from_millis(1));
    let found = section.end();
    assert!(found.voluntary_switches >= 1 && !found.is_calm(), "{found}");
}

#[test]
fn of_two_on_one_cpu_each_is_interrupted() {
    let done = AtomicBool::new(false);
    let cpu = cpus()[0];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _one = one_cpu(cpu).begin().unwrap();
            while !done.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let _one = one_cpu(cpu).begin().unwrap();
        let calm = Calm::open();
        let section = calm.begin();
        // Until it happens: the kernel preempts each of them at some time.
        while calm.begin().end().involuntary_switches == 0 {}
        assert!(section.end().involuntary_switches >= 1);
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_thread_that_is_moved_has_migrated() {
    let cpus = cpus();
    let [first, second, ..] = cpus[..] else {
        return println!("skipped: a_thread_that_is_moved_has_migrated: there is one CPU");
    };
    let calm = Calm::open();
    let _first = one_cpu(first).begin().unwrap();
    let section = calm.begin();
    let away = one_cpu(second).begin().unwrap();
    let found = section.end();
    assert!(found.migrations >= 1, "{found}");
    away.undo().unwrap();
    // There and back within one section.
    let section = calm.begin();
    one_cpu(second).begin().unwrap().undo().unwrap();
    let found = section.end();
    match calm.migrations_by() {
        MigrationSource::Counter => assert_eq!(found.migrations, 2, "{found}"),
        MigrationSource::CpuNumbers => assert_eq!(found.migrations, 0, "{found}"),
    }
}

#[test]
fn without_rights_processor_numbers_are_compared() {
    const TEST: &str = "without_rights_processor_numbers_are_compared";
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    if !paranoid.is_ok_and(|level| level.trim().parse::<i32>().is_ok_and(|level| level >= 2)) {
        return println!("skipped: {TEST}: every user may use counters (kernel.perf_event_paranoid)");
    }
    let cpus = cpus();
    let [first, second, ..] = cpus[..] else { return println!("skipped: {TEST}: there is one CPU") };
    let end = common::child(|| {
        common::drop_rights();
        let calm = Calm::open();
        assert_eq!(calm.migrations_by(), MigrationSource::CpuNumbers);
        let _first = one_cpu(first).begin().unwrap();
        let section = calm.begin();
        let _second = one_cpu(second).begin().unwrap();
        let found = section.end();
        i32::from(found.migrations != 1)
    });
    assert_eq!(end, common::End::Exit(0));
}
