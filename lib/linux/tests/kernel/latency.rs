//! The latency probe on the running machine. Checks relations between figures, not their magnitude. It needs the rights for the
//! real-time class and locked memory, and for stages those for BPF programs. Without them it is skipped with a message.

use millpond_linux::{LinuxMachine, Root};
use millpond_machine::facets::{LatencyProbe, LatencyWatch, ProbePlan, Stamps};
use millpond_machine::{Machine, MemoryJournal};
use millpond_model::{CpuId, LATENCY_STAGES, LatencySample, Nanos, Pid};
use rustix::process::Pid as Number;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

const SAMPLES: usize = 300;

fn machine() -> (LinuxMachine, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (LinuxMachine::open(Root::live(dir.path().into()), Box::new(MemoryJournal::default())), dir)
}

/// The last CPU that this process may use.
fn last() -> CpuId {
    let ours = sched_getaffinity(None).unwrap();
    let last = (0..CpuSet::MAX_CPU).rev().find(|cpu| ours.is_set(*cpu)).unwrap();
    CpuId(u32::try_from(last).unwrap())
}

fn bind(pid: Pid, cpu: CpuId) {
    let mut one = CpuSet::new();
    one.set(cpu.0 as usize);
    sched_setaffinity(Number::from_raw(i32::try_from(pid.0).unwrap()), &one).unwrap();
}

/// Runs a probe and checks its samples; `Err` if that is not possible here.
fn measured(stamps: Stamps, check: impl FnOnce(&[LatencySample], &dyn LatencyWatch)) -> Result<(), String> {
    let (machine, _dir) = machine();
    let cpu = last();
    let plan = ProbePlan { cpu, intervals: vec![Nanos(997_000), Nanos(1_009_000)], level: 5, stamps };
    let mut watch = machine.begin(&plan).map_err(|absent| absent.to_string())?;
    bind(watch.pid(), cpu);
    watch.go().map_err(|refusal| refusal.to_string())?;
    let mut samples = Vec::new();
    while samples.len() < SAMPLES {
        let deadline = machine.clock().now() + Nanos::from_millis(200);
        samples.extend(watch.collect(deadline).unwrap().samples);
    }
    check(&samples, watch.as_ref());
    Ok(())
}

fn unless_skipped(test: &str, result: Result<(), String>) {
    if let Err(why) = result {
        println!("skipped: {test}: {why}");
    }
}

#[test]
fn every_wait_ends_behind_its_timer_and_the_next_one_begins_then() {
    let check = |samples: &[LatencySample], watch: &dyn LatencyWatch| {
        assert!(samples.iter().all(|sample| sample.user >= sample.due && sample.stages().is_none()));
        assert!(samples.windows(2).all(|two| two[1].due - two[0].user > Nanos(900_000)));
        let worst = watch.worst();
        assert!(worst.is_sorted_by(|a, b| a.0.total() >= b.0.total()));
        assert!(worst.iter().all(|(_, moments)| moments.is_empty()) && watch.sharers().is_empty());
    };
    unless_skipped(
        "every_wait_ends_behind_its_timer_and_the_next_one_begins_then",
        measured(Stamps::None, check),
    );
}

#[test]
fn stages_are_seen_and_add_up_and_what_ran_has_names() {
    let check = |samples: &[LatencySample], watch: &dyn LatencyWatch| {
        let staged: Vec<_> = samples.iter().filter_map(|s| Some((s.stages()?, s.total()))).collect();
        // On a busy machine some timers are due before the probe can wait for them.
        assert!(staged.len() * 2 > samples.len(), "{} of {}", staged.len(), samples.len());
        for (stages, total) in &staged {
            assert_eq!(stages.iter().flatten().map(|stage| stage.0).sum::<u64>(), total.0);
            assert_eq!(stages.iter().flatten().count(), LATENCY_STAGES);
        }
        let worst = watch.worst();
        let moments: Vec<_> = worst.iter().flat_map(|(_, moments)| moments).collect();
        assert!(moments.iter().any(|moment| moment.what == "probe"), "{moments:?}");
        assert!(watch.sharers().iter().all(|sharer| sharer.what != "probe" && sharer.times > 0));
    };
    unless_skipped("stages_are_seen_and_add_up_and_what_ran_has_names", measured(Stamps::Programs, check));
}

#[test]
fn a_probe_that_is_not_on_its_processor_measures_nothing() {
    let result = (|| {
        let (machine, _dir) = machine();
        let cpu = last();
        let other = CpuId(if cpu.0 == 0 { 1 } else { 0 });
        let intervals = vec![Nanos(1_000_000)];
        let plan = ProbePlan { cpu: other, intervals, level: 5, stamps: Stamps::None };
        let mut watch = machine.begin(&plan).map_err(|absent| absent.to_string())?;
        bind(watch.pid(), cpu);
        let said = watch.go().unwrap_err().to_string();
        if said.contains("locked") || said.contains("class") {
            return Err(said);
        }
        assert!(said.contains("it was moved to another CPU") || said.contains("off-line"), "{said}");
        Ok(())
    })();
    unless_skipped("a_probe_that_is_not_on_its_processor_measures_nothing", result);
}
