//! Tests on the live machine. Other programs run there, so they check relations only.

use super::programs::ByPrograms;
use crate::{LinuxMachine, Root};
use millpond_machine::MemoryJournal;
use millpond_machine::facets::{DisturbanceWatch, Disturbances, Job, WatchedJob};
use millpond_model::{CpuId, CpuSet, DisturbanceKind, Disturbed, Nanos, Pid};
use rustix::thread::{CpuSet as Mask, sched_getaffinity, sched_setaffinity};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

fn machine(state: &tempfile::TempDir) -> LinuxMachine {
    LinuxMachine::open(Root::live(state.path().to_owned()), Box::new(MemoryJournal::default()))
}

/// The last CPU that this thread may use, so that the watcher has another one.
fn last_cpu() -> Option<usize> {
    let mask = sched_getaffinity(None).ok()?;
    (0..Mask::MAX_CPU).rev().find(|cpu| mask.is_set(*cpu)).filter(|_| mask.count() > 1)
}

/// A busy shell with this name on a CPU, until it is killed.
fn busy_on(cpu: usize, dir: &tempfile::TempDir, name: &str) -> std::process::Child {
    let program = dir.path().join(name);
    std::os::unix::fs::symlink("/bin/sh", &program).unwrap();
    let before = sched_getaffinity(None).unwrap();
    let mut only = Mask::new();
    only.set(cpu);
    sched_setaffinity(None, &only).unwrap();
    let child = std::process::Command::new(program).args(["-c", "while :; do :; done"]).spawn();
    sched_setaffinity(None, &before).unwrap();
    child.unwrap()
}

fn end(mut child: std::process::Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn watched(cpu: usize, job: Job, by_counts: bool) -> WatchedJob {
    let cpus = CpuSet::from_iter([CpuId(u32::try_from(cpu).unwrap())]);
    WatchedJob { cpus, job, worth_telling: Nanos(1_000), by_counts }
}

/// Measures while the job and another process share a CPU.
fn look(by_counts: bool, as_job: bool, name: &str) -> Option<Disturbed> {
    let Some(cpu) = last_cpu() else {
        eprintln!("skipped: disturbances: this machine has a single processor for us");
        return None;
    };
    let state = tempfile::tempdir().unwrap();
    let machine = machine(&state);
    let child = busy_on(cpu, &state, name);
    let job = if as_job { Job { sets: Vec::new(), pids: vec![Pid(child.id())] } } else { Job::default() };
    let mut watch = Disturbances::watch(&machine, &watched(cpu, job, by_counts)).unwrap();
    let until = Instant::now() + Duration::from_millis(300);
    while Instant::now() < until {
        std::thread::yield_now();
    }
    let seen = watch.collect().unwrap();
    end(child);
    if !by_counts && !seen.source.contains("programs") {
        eprintln!("skipped: disturbances: {}", seen.missing.join("; "));
        return None;
    }
    Some(seen)
}

fn total(seen: &Disturbed, kind: DisturbanceKind, name: &str) -> u64 {
    let of = |row: &&millpond_model::Disturbance| row.cause.kind == kind && row.cause.name == name;
    seen.rows.iter().filter(of).filter_map(|row| row.total).map(|total| total.0).sum()
}

#[test]
fn no_moment_is_in_two_totals() {
    let begun = std::time::Instant::now();
    let Some(seen) = look(false, false, "mp-totals") else { return };
    let whole = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let mut totals: BTreeMap<CpuId, u64> = BTreeMap::new();
    let exact = seen.rows.iter().filter(|row| row.cause.kind != DisturbanceKind::Steal);
    for row in exact {
        *totals.entry(row.cpu).or_default() += row.total.unwrap_or_default().0;
        if let (Some(longest), Some(total)) = (row.longest, row.total) {
            assert!(longest <= total, "{row:?}");
        }
    }
    // The totals include the time of the reading; the elapsed time does not. On a busy machine that is the larger part.
    let elapsed = (seen.at - seen.began).0;
    let most = whole.max(elapsed + elapsed / 50);
    assert!(totals.values().all(|total| *total <= most), "{totals:?} of {elapsed}, {whole} with reading");
}

#[test]
fn a_foreign_program_is_found_by_its_name_and_the_job_is_not() {
    let Some(seen) = look(false, false, "mp-foreign") else { return };
    assert!(total(&seen, DisturbanceKind::Task, "mp-foreign") > 1_000_000, "{:#?}", seen.rows);
    let Some(seen) = look(false, true, "mp-job") else { return };
    assert_eq!(total(&seen, DisturbanceKind::Task, "mp-job"), 0, "{:#?}", seen.rows);
}

#[test]
fn a_processor_that_works_has_a_clock() {
    for by_counts in [false, true] {
        let Some(seen) = look(by_counts, false, "mp-clock") else { continue };
        let ticks = seen.rows.iter().filter(|row| row.cause.kind == DisturbanceKind::Tick);
        assert!(ticks.filter_map(|row| row.count).sum::<u64>() > 0, "{:#?}", seen.rows);
    }
}

#[test]
fn counts_only_grow() {
    let Some(cpu) = last_cpu() else { return };
    let state = tempfile::tempdir().unwrap();
    let machine = machine(&state);
    let mut watch = Disturbances::watch(&machine, &watched(cpu, Job::default(), true)).unwrap();
    let counts = |seen: Disturbed| seen.rows.iter().filter_map(|row| row.count).sum::<u64>();
    let first = counts(watch.collect().unwrap());
    let child = busy_on(cpu, &state, "mp-grows");
    let then = counts(watch.collect().unwrap());
    end(child);
    assert!(then >= first);
}

#[test]
fn stretches_that_the_ring_cannot_hold_are_counted_and_told() {
    let Some(cpu) = last_cpu() else {
        eprintln!("skipped: stretches that the ring cannot hold: this machine has a single processor for us");
        return;
    };
    let state = tempfile::tempdir().unwrap();
    let machine = machine(&state);
    // The smallest possible ring buffer, all stretches reported, and no reader: each clock tick interrupts the job.
    let page = u32::try_from(rustix::param::page_size()).unwrap();
    let child = busy_on(cpu, &state, "mp-ring");
    let job = Job { sets: Vec::new(), pids: vec![Pid(child.id())] };
    let what = WatchedJob { worth_telling: Nanos(0), ..watched(cpu, job, false) };
    let mut watch = match ByPrograms::start_with(&machine, &what, page) {
        Ok(watch) => watch,
        Err(why) => {
            eprintln!("skipped: stretches that the ring cannot hold: {why}");
            end(child);
            return;
        }
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    while watch.lost().is_empty() && Instant::now() < deadline {
        std::thread::yield_now();
    }
    let seen = watch.collect().unwrap();
    end(child);
    // A stretch takes 9 words of 8 bytes in the ring buffer, which was full.
    assert!(seen.stretches.len() >= page as usize / 72, "{} stretches are told", seen.stretches.len());
    let [lost] = seen.lost.as_slice() else { panic!("{:?}", seen.lost) };
    let (count, why) = lost.split_once(' ').unwrap();
    assert!(count.parse::<u64>().unwrap() > 0, "{lost}");
    assert_eq!(why, "stretches that came faster than they were read");
    // Lost stretches stay lost; new ones have room.
    let again = watch.collect().unwrap();
    assert!(again.lost.iter().any(|line| line.ends_with("faster than they were read")), "{:?}", again.lost);
}
