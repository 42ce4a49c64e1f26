//! The machine as a value: the machine files of the program, saving and loading, knobs, the lock, the clock.

use super::hands::{Hands, lwp};
use millpond_machine::facets::{CreateOptions, Method};
use millpond_machine::{
    Clock, Counters, Knob, KnobError, Knobs, Machine, Processors, Psets, Reason, Threads, Writer,
};
use millpond_model::{Column, CpuId, Nanos, Pid, PsetId, PsetMode, Sample, State};
use millpond_sim::kernel::{Action, Program};
use millpond_sim::{SimError, SimMachine, SimState, catalogue, state};
use proptest::prelude::*;

fn knob(text: &str) -> Knob {
    Knob(text.into())
}

#[test]
fn the_machines_that_come_with_the_program_are_as_they_were_built() {
    let shape = |name: &str| {
        let m = SimMachine::named(name).unwrap();
        let t = m.topology().unwrap();
        let strands = t.siblings(CpuId(0)).len();
        (t.chips().len(), t.cores().len(), strands, t.cpus().to_string(), t.lgroups().len())
    };
    assert_eq!(shape("t2000"), (1, 8, 4, "0-31".into(), 1));
    assert_eq!(shape("t2-64"), (1, 8, 8, "0-63".into(), 1));
    assert_eq!(shape("x4200"), (2, 4, 1, "0-3".into(), 2));
    assert_eq!(shape("smartos-2"), (1, 2, 1, "0-1".into(), 1));
    let t2000 = SimMachine::named("t2000").unwrap().topology().unwrap();
    assert_eq!(t2000.siblings(CpuId(6)).to_string(), "4-7", "strands of a core are neighbours");
}

#[test]
fn every_machine_of_the_catalogue_can_be_had_and_says_its_name() {
    for name in catalogue::NAMES {
        let m = SimMachine::named(name).unwrap();
        assert_eq!(m.name(), name);
        m.view(SimState::check).unwrap();
    }
}

#[test]
fn a_name_that_is_none_lists_those_there_are() {
    let error = SimMachine::named("e10k").map(|_| ()).unwrap_err();
    assert!(matches!(error, SimError::NoSuchMachine { .. }));
    assert_eq!(
        error.to_string(),
        "there is no simulated machine `e10k` (there are t2000, t2-64, x4200, smartos-2, ff2, dc1, dc3, e6900, e25k, u2i)"
    );
}

#[test]
fn a_machine_can_be_like_another_one() {
    let topology = SimMachine::named("x4200").unwrap().topology().unwrap();
    let like = SimMachine::like(topology.clone());
    assert_eq!(like.topology().unwrap(), topology);
    assert_eq!(like.name(), "like-host");
}

#[test]
fn time_stands_still_until_somebody_waits() {
    let m = SimMachine::named("t2000").unwrap();
    assert_eq!((m.now(), m.wall()), (Nanos(0), state::BOOTED));
    m.sleep_until(Nanos::from_millis(2500));
    m.sleep_until(Nanos::from_millis(100));
    assert_eq!(m.now(), Nanos::from_millis(2500));
    assert_eq!((m.wall().0, m.booted()), (state::BOOTED.0 + 2, state::BOOTED));
}

#[test]
fn there_is_one_writer_at_a_time() {
    let m = SimMachine::named("t2000").unwrap();
    let first = Writer::open(&m).unwrap();
    assert_eq!(Writer::open(&m).map(|_| ()).unwrap_err().reason, Reason::Busy(None));
    drop(first);
    assert!(Writer::open(&m).is_ok());
}

#[test]
fn what_runs_is_counted_and_seen_where_its_set_is() {
    let m = Hands::on("smartos-2");
    let hogs = m.0.start("hogs", vec![Program::hog(), Program::hog()]);
    let nap = vec![Action::User(10_000_000), Action::Sleep(10_000_000)];
    let napper = m.0.start("napper", vec![Program::repeat(nap)]);
    m.create(&[1]).unwrap();
    m.bind_lwp_set(hogs.0, 1, Some(1)).unwrap();
    m.bind_lwp_set(hogs.0, 2, Some(1)).unwrap();
    let mut watch = m.0.sampler().unwrap().watch(&[hogs, napper], Method::Sample(1000)).unwrap();
    let before = m.0.counters().unwrap().since_boot().unwrap();
    m.0.sleep_until(Nanos::from_secs(10));
    let after = m.0.counters().unwrap().since_boot().unwrap();
    let idle: Vec<u64> = before
        .cpus
        .iter()
        .zip(&after.cpus)
        .map(|(b, a)| (a.ticks.idle - b.ticks.idle).0 / 1_000_000)
        .collect();
    // A round is 20 ms and a switch of 1.5 us: of 500 rounds the last 0.75 ms are missing, all of them sleep.
    assert_eq!(idle, [4_999, 0]);
    let switches = |s: &Sample, cpu: usize| s.cpus[cpu].events[Column::Csw.index()].unwrap();
    assert_eq!(switches(&after, 0), 1_000, "it came and went 500 times");
    let seen = watch.collect().unwrap();
    assert_eq!((seen.elapsed, seen.samples, seen.alive), (Nanos::from_secs(10), None, vec![hogs, napper]));
    let sightings: Vec<(u32, Pid, u64)> =
        seen.sightings.iter().map(|s| (s.cpu.0, s.pid, s.time.0 / 1_000_000)).collect();
    assert_eq!(sightings, [(1, hogs, 10_000), (0, napper, 5_000)]);
}

#[test]
fn what_runs_is_saved_and_goes_on() {
    let m = SimMachine::named("t2000").unwrap();
    let child = Program::once(vec![Action::User(30_000_000)]);
    m.start(
        "parent",
        vec![Program::repeat(vec![Action::Fork(child), Action::User(20_000_000), Action::Sleep(5_000_000)])],
    );
    m.sleep_until(Nanos::from_millis(777));
    let again = SimMachine::load(&m.save()).unwrap();
    m.sleep_until(Nanos::from_secs(3));
    again.sleep_until(Nanos::from_secs(3));
    assert_eq!(m.save(), again.save());
    let names: Vec<u32> =
        m.view(|s| s.tables.processes.values().filter_map(|p| p.parent).map(|p| p.0).collect());
    assert!(
        !names.is_empty() && names.iter().all(|parent| *parent == 300),
        "children live for a while: {names:?}"
    );
}

#[test]
fn a_process_that_ends_by_itself_is_gone() {
    let m = SimMachine::named("smartos-2").unwrap();
    let pid = m.start("short", vec![Program::once(vec![Action::User(1_000)]); 2]);
    assert!(m.lwps(pid).is_ok());
    m.sleep_until(Nanos::from_millis(1));
    assert!(m.lwps(pid).is_err());
    let long = m.start("long", vec![Program::hog()]);
    m.sleep_until(Nanos::from_millis(2));
    assert!(m.exit(long));
    let idle = |m: &SimMachine| m.since_boot().unwrap().cpus.iter().map(|c| c.ticks.idle.0).sum::<u64>();
    let before = idle(&m);
    m.sleep_until(Nanos::from_millis(3));
    assert_eq!(idle(&m) - before, 2_000_000);
}

#[test]
fn knobs_read_as_their_table_says() {
    let m = Hands::on("x4200");
    m.create(&[3, 1]).unwrap();
    m.bind_lwp_set(204, 1, Some(1)).unwrap();
    m.bind_lwp_cpu(204, 1, Some(3)).unwrap();
    m.0.soften(lwp(204, 1));
    let read = |text: &str| m.0.read(&knob(text)).unwrap();
    assert_eq!(read("set/1").as_deref(), Some("exclusive 1"));
    assert_eq!(read("set/2"), None);
    assert_eq!(read("processor/0/set").as_deref(), Some("0"));
    assert_eq!(read("processor/1/set").as_deref(), Some("1 2"));
    assert_eq!(read("processor/3/state").as_deref(), Some("on-line since 1732090442"));
    assert_eq!(read("lwp/204/1/set").as_deref(), Some("1 soft"));
    assert_eq!(read("lwp/204/1/cpu").as_deref(), Some("3 soft"));
    assert_eq!(read("lwp/204/2/cpu").as_deref(), Some("none"));
    assert_eq!(read("lwp/9999/1/set"), None);
    assert_eq!(m.0.read(&knob("fan/1")), Err(KnobError::Unknown("fan/1".into())));
}

#[test]
fn what_makes_no_sense_is_not_written() {
    let m = Hands::on("x4200");
    m.create(&[3]).unwrap();
    m.bind_set(204, Some(1)).unwrap();
    let before = m.0.save();
    let write = |name: &str, value: Option<&str>| {
        m.0.write(&knob(name), value.map(str::to_owned).as_ref()).unwrap_err().to_string()
    };
    assert_eq!(write("set/1", None), "it still has CPUs");
    assert_eq!(write("set/0", Some("exclusive 1")), "`exclusive 1` is no value for it");
    assert_eq!(write("processor/3/set", Some("7 1")), "there is no processor set 7");
    assert_eq!(write("processor/3/set", None), "processor/3/set cannot be removed");
    assert_eq!(write("processor/3/state", Some("asleep since 1")), "`asleep since 1` is no value for it");
    assert_eq!(write("lwp/204/1/cpu", Some("99")), "there is no CPU 99");
    assert_eq!(write("lwp/9999/1/cpu", Some("1")), "it is gone");
    assert_eq!(write("lwp/0/1/set", Some("1")), "it is a kernel thread");
    m.assign(0, &[]).unwrap();
    assert_eq!(m.0.save(), before);
}

#[test]
fn the_default_set_runs_at_every_moment_of_a_change() {
    let m = SimMachine::named("smartos-2").unwrap();
    m.write(&knob("processor/1/state"), Some(&"off-line since 5".into())).unwrap();
    let last = m.write(&knob("processor/0/state"), Some(&"off-line since 5".into()));
    assert_eq!(last.unwrap_err().to_string(), "it is the last one in the default set");
}

#[test]
fn a_set_that_keeps_others_is_shared_and_they_may_still_run_there() {
    let m = Hands::on("x4200");
    let writer = Writer::open(&m.0).unwrap();
    let options = CreateOptions { keep_others: true };
    writer.commit(m.0.prepare_create(&[CpuId(3)], options, false).unwrap()).unwrap();
    drop(writer);
    m.bind_set(204, Some(1)).unwrap();
    assert_eq!(Psets::list(&m.0).unwrap()[0].mode, PsetMode::Shared);
    assert_eq!(m.thread(204, 1), "set 1, processor none, 3");
    assert_eq!(m.thread(101, 1), "set 0, processor none, 0-3");
}

#[test]
fn what_is_started_in_the_default_set_keeps_out_of_shared_sets_with_its_children() {
    let m = Hands::on("x4200");
    let writer = Writer::open(&m.0).unwrap();
    let options = CreateOptions { keep_others: true };
    writer.commit(m.0.prepare_create(&[CpuId(3)], options, false).unwrap()).unwrap();
    drop(writer);
    m.bind_set(204, Some(1)).unwrap();
    let change = m.0.prepare_start_in_default(Pid(204)).unwrap();
    Writer::open(&m.0).unwrap().commit(change).unwrap();
    assert_eq!(m.thread(204, 2), "set 0, processor none, 0-2");
    let child = m.0.fork(lwp(204, 2)).unwrap();
    assert_eq!(m.thread(child.0, 1), "set 0, processor none, 0-2");
    let refused = m.0.prepare_start_in_default(Pid(0)).unwrap_err();
    assert_eq!(refused.to_string(), "process 0: it is a kernel thread");
}

#[test]
fn bindings_that_a_foreign_hand_left_without_a_set_are_settled() {
    let m = Hands::on("x4200");
    m.create(&[2, 3]).unwrap();
    m.bind_set(204, Some(1)).unwrap();
    m.bind_lwp_cpu(204, 2, Some(3)).unwrap();
    m.0.edit(|s| {
        s.tables.sets.clear();
        s.tables.processors.values_mut().for_each(|p| p.set = PsetId::DEFAULT);
        s.tables.processors.entry(CpuId(3)).and_modify(|p| p.state = State::OffLine);
    });
    let settled = Writer::open(&m.0).unwrap().settle().unwrap();
    assert_eq!(settled.steps, 3);
    assert_eq!(m.0.bound().unwrap(), []);
    assert_eq!(m.0.settle().unwrap(), []);
}

#[test]
fn what_is_loaded_must_make_sense() {
    let load = |text: &str| SimMachine::load(text).map(|_| ()).unwrap_err().to_string();
    assert_eq!(load("{"), "line 1, column 1: EOF while parsing an object");
    let saved = SimMachine::named("smartos-2").unwrap().save();
    assert_eq!(
        load(&saved.replace("\"format\":5", "\"format\":7")),
        "it was saved in format 7; this program understands formats 4 and 5"
    );
    assert_eq!(load(&saved.replacen("\"set\":0", "\"set\":3", 1)), "CPU 0 is in set 3, which does not exist");
    assert_eq!(
        load(&saved.replacen("\"processor\":1", "\"processor\":7", 1)),
        "device e1000g0 interrupts CPU 7, which does not exist"
    );
    let m = SimMachine::named("smartos-2").unwrap();
    m.start("hogs", vec![Program::hog(); 3]);
    m.sleep_until(Nanos::from_millis(5));
    let saved = m.save();
    assert!(SimMachine::load(&saved).is_ok());
    for (true_word, false_word, what) in [
        ("\"running\":0", "\"running\":9", "CPU 0 of the kernel does what cannot be"),
        (
            "\"state\":\"running\",\"cpu\":0",
            "\"state\":\"running\",\"cpu\":7",
            "kernel thread 0 is where no CPU is",
        ),
        ("\"busy\":[0,1]", "\"busy\":[1]", "CPU 0 of the kernel is busy and idle at once"),
        (
            "\"threads\":{\"0\":",
            "\"threads\":{\"8\":",
            "thread 304/1 is kernel thread 8, and one of them does not exist",
        ),
    ] {
        assert_eq!(load(&saved.replacen(true_word, false_word, 1)), what);
    }
}

/// A change by a command, which may be refused.
fn change(m: &Hands, what: (u8, u32, u32)) {
    let (kind, a, b) = what;
    // A refusal is fine: the machine is then saved unchanged.
    let _ = match kind {
        0 => m.create(&[a, b]).map(|_| ()),
        1 => m.assign(a, &[b]).map(|_| ()),
        2 => m.destroy(a),
        3 => m.bind_lwp_set(204, a, Some(b)).map(|_| ()),
        4 => m.bind_lwp_cpu(149, a, Some(b)).map(|_| ()),
        5 => m.state(a, if b % 2 == 0 { State::NoIntr } else { State::OffLine }).map(|_| ()),
        6 => {
            m.0.fork(lwp(204, a));
            Ok(())
        }
        _ => {
            m.0.sleep_until(Nanos(m.0.now().0 + u64::from(a) * 1_000_000_007));
            m.0.soften(lwp(204, b));
            Ok(())
        }
    };
}

proptest! {
    #[test]
    fn loading_what_was_saved_gives_the_same_machine(
        changes in proptest::collection::vec((0u8..8, 0u32..4, 0u32..4), 0..20)
    ) {
        let m = Hands::on("x4200");
        changes.into_iter().for_each(|c| change(&m, c));
        let text = m.0.save();
        let again = SimMachine::load(&text).unwrap();
        prop_assert_eq!(again.view(Clone::clone), m.0.view(Clone::clone));
        prop_assert_eq!(again.save(), text);
    }

    #[test]
    fn every_knob_takes_back_what_it_gave(
        changes in proptest::collection::vec((0u8..8, 0u32..4, 0u32..4), 0..20)
    ) {
        let m = Hands::on("x4200");
        changes.into_iter().for_each(|c| change(&m, c));
        let before = m.0.save();
        let names: Vec<String> = m.0.view(|s| {
            let cpus = s.tables.processors.keys().flat_map(|c| [format!("processor/{c}/set"), format!("processor/{c}/state")]);
            let sets = s.tables.sets.keys().map(|id| format!("set/{id}"));
            let user = s.tables.lwps().filter(|(l, _)| !s.tables.processes[&l.pid].kernel);
            let lwps = user.flat_map(|(l, _)| ["set", "cpu", "aside"].map(|w| format!("lwp/{}/{}/{w}", l.pid, l.lwp)));
            cpus.chain(sets).chain(lwps).collect()
        });
        for name in names {
            let value = m.0.read(&knob(&name)).unwrap();
            prop_assert!(value.is_some(), "{}", name);
            m.0.write(&knob(&name), value.as_ref()).unwrap();
        }
        prop_assert_eq!(m.0.save(), before);
    }

    #[test]
    fn loading_and_describing_any_text_never_panics(text in "[\\[\\]{}\":,a-z0-9 ]{0,60}") {
        let _ = SimMachine::load(&text);
        let _ = SimMachine::described(&text, "any.json");
        let _ = text.parse::<millpond_sim::knobs::Name>();
    }
}
