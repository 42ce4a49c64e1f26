//! A machine that was recorded is as it was.

use super::*;
use crate::{Collector, Options};
use millpond_machine::facets::{Waited, WatchedJob};
use millpond_observe::Row;
use millpond_observe::catalogue::{Entity, cpu, noise, pset};
use millpond_session::{Load, MachineName, OpenOptions, Session};
use millpond_store::{Limits, Ring};
use std::path::Path;

/// A flag of its own for each test: it lives as long as a machine may.
fn flag() -> &'static AtomicBool {
    Box::leak(Box::new(AtomicBool::new(false)))
}

/// Writes frames at these moments, in milliseconds since boot, as one watch.
fn write(dir: &Path, run: i64, moments: &[u64]) {
    let (mut ring, _) = Ring::open(dir, "mine", WallTime(run), Limits::default()).unwrap();
    for ms in moments {
        let at = Nanos::from_millis(*ms);
        let mut frame = Frame::at(at, WallTime(run + i64::try_from(ms / 1000).unwrap()));
        frame.set_rows(Entity::Cpu, vec![Row::of(Entity::Cpu).with(cpu::ID, 0u32).with(cpu::USER, at)]);
        ring.push(&frame).unwrap();
    }
    ring.finish().unwrap();
}

fn open(dir: &Path, from: i64, stop: &'static AtomicBool) -> (RecordedMachine, Notes) {
    RecordedMachine::open(Recording::open(dir).unwrap(), WallTime(from), stop).unwrap()
}

/// Where the clock is after each wait of so many milliseconds.
fn steps(machine: &RecordedMachine, waits: &[u64]) -> Vec<u64> {
    let after = |wait: &u64| {
        machine.sleep_until(machine.now() + Nanos::from_millis(*wait));
        machine.now().0 / 1_000_000
    };
    waits.iter().map(after).collect()
}

#[test]
fn the_clock_goes_to_the_frame_that_is_nearest_and_to_the_next_at_least() {
    let (dir, stop) = (tempfile::tempdir().unwrap(), flag());
    write(dir.path(), 1000, &[1_000, 2_003, 3_001, 3_998, 5_002, 8_000]);
    let (machine, notes) = open(dir.path(), 0, stop);
    assert_eq!((machine.now(), machine.wall()), (Nanos::from_secs(1), WallTime(1001)));
    assert_eq!(steps(&machine, &[1000, 100, 2000, 1000]), [2_003, 3_001, 5_002, 8_000]);
    assert!(!stop.load(Ordering::Relaxed), "the last frame was reached");
    assert_eq!(steps(&machine, &[100]), [8_000]);
    assert!(stop.load(Ordering::Relaxed), "who waits for short whiles ends, too");
    assert_eq!(steps(&machine, &[5000]), [8_000]);
    assert!(notes.borrow().is_empty());
    drop(machine);
    assert!(!stop.load(Ordering::Relaxed), "what comes next was not asked to end");
}

#[test]
fn an_end_that_somebody_else_asked_for_outlives_the_machine() {
    let (dir, stop) = (tempfile::tempdir().unwrap(), flag());
    write(dir.path(), 1000, &[1_000, 2_000]);
    let (machine, _) = open(dir.path(), 0, stop);
    stop.store(true, Ordering::Relaxed);
    assert_eq!(steps(&machine, &[1000, 1000]), [2_000, 2_000]);
    drop(machine);
    assert!(stop.load(Ordering::Relaxed));
}

#[test]
fn it_begins_at_the_moment_that_is_wanted() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 1000, &[1_000, 2_000, 3_000, 4_000]);
    assert_eq!(open(dir.path(), 1003, flag()).0.now(), Nanos::from_secs(3));
    assert_eq!(open(dir.path(), 0, flag()).0.now(), Nanos::from_secs(1));
    assert_eq!(open(dir.path(), 9999, flag()).0.now(), Nanos::from_secs(4));
}

#[test]
fn a_second_watch_of_the_same_second_is_announced_with_its_file() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 1000, &[1_000, 2_000, 3_000]);
    write(dir.path(), 1000, &[1_000, 2_000]);
    let (machine, notes) = open(dir.path(), 0, flag());
    assert_eq!(steps(&machine, &[1000, 1000, 1000]), [2_000, 3_000, 3_000]);
    let file = dir.path().join("19700101T001641Z-2.frames");
    let said = format!(
        "2 frames of another watch follow, whose clock was not later, and are left out: name its file, {}",
        file.display()
    );
    assert_eq!(*notes.borrow(), [said]);
    assert_eq!(
        RecordedMachine::open(Recording::open(&file).unwrap(), WallTime(0), flag()).unwrap().0.now(),
        Nanos::from_secs(1)
    );
}

#[test]
fn it_ends_with_the_watch_that_wrote_it() {
    let (dir, stop) = (tempfile::tempdir().unwrap(), flag());
    write(dir.path(), 1000, &[1_000, 2_000]);
    write(dir.path(), 2000, &[500, 1_500]);
    let (machine, notes) = open(dir.path(), 0, stop);
    assert_eq!(steps(&machine, &[1000, 1000]), [2_000, 2_000]);
    assert!(stop.load(Ordering::Relaxed));
    let said =
        "the recording was interrupted for 998 s, and counters begin anew behind that: --at goes there";
    assert_eq!(*notes.borrow(), [said]);
    assert_eq!(steps(&open(dir.path(), 2000, flag()).0, &[1000]), [1_500]);
}

#[test]
fn one_frame_is_a_machine_that_stands() {
    let (dir, stop) = (tempfile::tempdir().unwrap(), flag());
    write(dir.path(), 1000, &[1_000]);
    let (machine, notes) = open(dir.path(), 0, stop);
    assert_eq!(steps(&machine, &[10]), [1_000]);
    assert!(stop.load(Ordering::Relaxed));
    assert_eq!(*notes.borrow(), ["the recording ends before the interval does"]);
}

/// Times are recorded in hundredths of a second where kernels count ticks, two of which add up to the use of a CPU.
fn is_near((found, time): (Nanos, Nanos)) -> bool {
    found.0.abs_diff(time.0) <= 10_000_000
}

/// What the facets of a simulated machine say, and what they say of its recording at the same moments.
#[test]
fn facets_say_what_they_said() {
    let dir = tempfile::tempdir().unwrap();
    let machine = MachineName::Simulated("smartos-2".into());
    let session = Session::open(&OpenOptions { machine, ..OpenOptions::default() }).unwrap();
    let simulation = session.simulation().unwrap();
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for load in ["spin -t 3", "pingpong", "nap"] {
        let _ = simulation.start(&Load::parse(&words(load)).unwrap());
    }
    let live = session.machine();
    let options = CensusOptions {
        threads: true,
        depth: millpond_machine::facets::Depth::Measured,
        memory: true,
        places: true,
        ..CensusOptions::default()
    };
    let mut census = live.census().unwrap().watch(options).unwrap();
    let mut counters = live.counters().unwrap().watch(WatchOptions::default()).unwrap();
    let mut usage = live.accounting().unwrap().watch().unwrap();
    let mut collector = Collector::open(&session, Options::default());
    let (mut ring, _) = Ring::open(dir.path(), "x", WallTime(0), Limits::default()).unwrap();
    let mut seen = Vec::new();
    for _ in 0..8 {
        ring.push(&collector.frame().unwrap()).unwrap();
        let moment = (counters.sample().unwrap(), census.sample().unwrap(), usage.sample().unwrap());
        seen.push((
            moment,
            live.psets().unwrap().list().unwrap(),
            live.accounting().unwrap().load().unwrap(),
        ));
        let _ = simulation.run_for(Nanos::from_secs(5));
    }
    ring.finish().unwrap();
    let (recorded, _) = open(dir.path(), 0, flag());
    let mut census = Census::watch(&recorded, options).unwrap();
    let mut counters = Counters::watch(&recorded, WatchOptions::default()).unwrap();
    let mut usage = Accounting::watch(&recorded).unwrap();
    for ((sample, roster, used), sets, load) in seen {
        let mut other = counters.sample().unwrap();
        for (found, cpu) in other.cpus.iter_mut().zip(&sample.cpus) {
            let pairs = [(found.ticks.user, cpu.ticks.user), (found.ticks.sys, cpu.ticks.sys)];
            assert!(pairs.iter().all(|pair| is_near(*pair)), "{pairs:?}");
            (found.ticks.user, found.ticks.sys) = (cpu.ticks.user, cpu.ticks.sys);
        }
        assert_eq!((other.at, other.wall), (sample.at, sample.wall));
        assert_eq!((&other.cpus, &other.sets), (&sample.cpus, &sample.sets));
        let mut roster = roster;
        // What is not recorded.
        for process in &mut roster.processes {
            process.standing.home = None;
            process.standing.cpu = match process.standing.doing {
                millpond_model::Doing::OnCpu(cpu) => Some(cpu),
                _ => None,
            };
            (process.task, process.zone.id) = (0, u64::MAX);
            process.project = millpond_model::Named { id: u64::MAX, name: "-".into() };
            process.uid = process.euid;
        }
        for thread in &mut roster.threads {
            thread.standing.home = None;
            thread.causes = None;
            if let Some(spent) = &mut thread.spent {
                spent.calls = None;
                spent.stopped = Nanos(0);
                spent.capped = None;
            }
        }
        let mut found = census.sample().unwrap();
        let of_threads = found.threads.iter_mut().zip(&roster.threads).flat_map(|(found, thread)| {
            let spent = found.spent.iter_mut().zip(&thread.spent);
            let times = spent
                .flat_map(|(found, spent)| found.times.iter_mut().zip(spent.times))
                .filter_map(|(found, time)| Some((found.as_mut()?, time?)));
            times.chain([(&mut found.time, thread.time)])
        });
        let of_processes = found
            .processes
            .iter_mut()
            .zip(&roster.processes)
            .map(|(found, process)| (&mut found.time, process.time));
        for (found, time) in of_threads.chain(of_processes) {
            assert!(is_near((*found, time)), "{found:?} {time:?}");
            *found = time;
        }
        assert_eq!(found.processes, roster.processes);
        assert_eq!(found.threads, roster.threads);
        assert_eq!(
            (found.processors, found.memory, found.load),
            (roster.processors, roster.memory, roster.load)
        );
        let again = usage.sample().unwrap();
        assert!(
            again.busy.iter().zip(&used.busy).all(|((a, busy), (b, was))| a == b && is_near((*busy, *was)))
        );
        for ((set, found), (of, was)) in again.waited.iter().zip(&used.waited) {
            let (Waited::Threads(found), Waited::Threads(was)) = (found, was) else {
                panic!("{found:?} {was:?}")
            };
            assert!(set == of && is_near((*found, *was)));
        }
        assert_eq!(again.waited.len(), used.waited.len());
        assert_eq!(Psets::list(&recorded).unwrap(), sets);
        assert_eq!(Accounting::load(&recorded).unwrap(), load);
        recorded.sleep_until(recorded.now() + Nanos::from_secs(5));
    }
}

#[test]
fn nothing_on_it_can_be_changed_and_what_is_missing_is_told() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 1000, &[1_000]);
    let (machine, _) = open(dir.path(), 0, flag());
    let cpus = [CpuId(0)];
    let said =
        machine.prepare_create(&cpus, CreateOptions::default(), true).map(|_| ()).unwrap_err().to_string();
    assert!(said.contains("a recording cannot be changed"), "{said}");
    assert!(machine.lock().is_err());
    let said = Disturbances::watch(&machine, &WatchedJob::default()).map(|_| ()).unwrap_err().to_string();
    assert_eq!(said, "the recording was made without --noise");
    assert_eq!(machine.state().unwrap(), None, "pools were disabled");
    assert!(machine.topology().is_err(), "cores are unknown");
    let roster = Census::list(&machine, CensusOptions::default()).unwrap();
    assert_eq!(roster.missing, ["microstates: the recording was made without them"]);
}

/// Noise of a device on CPU 2, which set 1 has: how often, how long and the longest, in milliseconds.
fn noisy(dir: &Path, frames: &[(u64, u64, u64)]) {
    let (mut ring, _) = Ring::open(dir, "mine", WallTime(0), Limits::default()).unwrap();
    for (second, (count, time, longest)) in (1..).zip(frames) {
        let mut frame = Frame::at(Nanos::from_secs(second), WallTime(i64::try_from(second).unwrap()));
        let set = |id: u32, cpus: &str| {
            Row::of(Entity::Pset).with(pset::ID, id).with(pset::CPUS, cpus).with(pset::MODE, "own")
        };
        frame.set_rows(Entity::Pset, vec![set(0, "0-1"), set(1, "2")]);
        let row = Row::of(Entity::Noise).with(noise::CPU, 2u32).with(noise::KIND, "device");
        let row = row.with(noise::CAUSE, "eth0").with(noise::SET, 1u32).with(noise::COUNT, *count);
        let [time, longest] = [time, longest].map(|ms| Nanos::from_millis(*ms));
        frame.set_rows(Entity::Noise, vec![row.with(noise::TIME, time).with(noise::LONGEST, longest)]);
        ring.push(&frame).unwrap();
    }
    ring.finish().unwrap();
}

#[test]
fn noise_is_counted_from_the_beginning_of_the_watch() {
    let dir = tempfile::tempdir().unwrap();
    noisy(dir.path(), &[(10, 100, 20), (15, 130, 20), (16, 170, 40), (3, 9, 5)]);
    let (machine, _) = open(dir.path(), 0, flag());
    let job = |cpus: &str| WatchedJob { cpus: cpus.parse().unwrap(), ..WatchedJob::default() };
    let refused = Disturbances::watch(&machine, &job("1-2")).map(|_| ()).unwrap_err();
    assert_eq!(refused.why, "CPU 1 was in no set, and only OS noise on CPUs of sets is recorded");
    let mut watch = Disturbances::watch(&machine, &job("2")).unwrap();
    let mut next = || {
        machine.sleep_until(machine.now() + Nanos::from_secs(1));
        let seen = watch.collect().unwrap();
        let [row] = &seen.rows[..] else { panic!("{seen:?}") };
        let ms = |time: Option<Nanos>| time.map(|time| time.0 / 1_000_000);
        (row.count, ms(row.total), ms(row.longest), seen.lost.len())
    };
    assert_eq!(next(), (Some(5), Some(30), None, 0), "the longest may be that of before");
    assert_eq!(next(), (Some(6), Some(70), Some(40), 0));
    assert_eq!(next(), (Some(3), Some(9), Some(5), 1), "the recorder began to watch anew");
}
