//! Faults of a manager and of a commit: a kill at any point, a full disk, a refusing machine, CPUs that vanish, a configuration
//! changed by others, members that end. Nothing may be lost or half applied, and the next turn continues.

use millpond_machine::facets::Member;
use millpond_machine::laws::{Fault, Faulty};
use millpond_machine::{Accounting, Clock, Machine, Processors, Writer};
use millpond_model::pools::{PoolsState, PropValue};
use millpond_model::{CpuId, CpuSet, Nanos, Pid, PoolId, State};
use millpond_planner::policy;
use millpond_pools::{Done, Editor, Element, Manager, Place, Turn, dynamic, instantiate};
use millpond_sim::SimMachine;
use millpond_sim::workloads::Load;

const LOOK: u64 = 100_000_000;

/// Pools `a` and `b` with 1 to 6 CPUs each, on eight; `a` has six computing threads, `b` none.
fn machine() -> (SimMachine, Pid) {
    let machine = SimMachine::named("t2000").unwrap();
    let writer = Writer::open(&machine).unwrap();
    dynamic::enable(&writer, &machine, false).unwrap();
    let conf = edited(&machine, |editor| {
        for name in ["a", "b"] {
            let set = Element::Pset(name.into());
            editor.create_pset(name).unwrap();
            editor.put(&set, "pset.max", PropValue::Uint(6)).unwrap();
            editor.create_pool(name).unwrap();
            editor.associate(name, Some(name)).unwrap();
            editor.transfer(2, "pset_default", name).unwrap();
            editor.put(&set, "pset.min", PropValue::Uint(1)).unwrap();
        }
    });
    dynamic::commit(&writer, &machine, Some(conf)).unwrap();
    let words: Vec<String> = ["spin", "-t", "6"].map(str::to_owned).to_vec();
    let pid = machine.start_load(&Load::parse(&words).unwrap());
    dynamic::bind(&writer, &machine, &Member::Process(pid), PoolId(1)).unwrap();
    drop(writer);
    (machine, pid)
}

fn edited(machine: &dyn Machine, edit: impl FnOnce(&mut Editor)) -> PoolsState {
    let state = dynamic::read(machine).unwrap();
    let mut editor = Editor::new(state.conf.clone(), Place::Machine);
    edit(&mut editor);
    PoolsState { conf: editor.conf, ..state }
}

fn pass(machine: &SimMachine, nanos: u64) {
    machine.sleep_until(Nanos(machine.now().0 + nanos));
}

fn sizes(machine: &dyn Machine) -> (u64, u64) {
    let conf = dynamic::read(machine).unwrap().conf;
    (conf.pset("a").unwrap().size(), conf.pset("b").unwrap().size())
}

/// The CPUs of a pool's set in the kernel of the machine, not in its configuration.
fn kernel(machine: &SimMachine, set: &str) -> CpuSet {
    let id = dynamic::read(machine).unwrap().conf.pset(set).unwrap().id.unwrap();
    machine.view(|s| s.tables.members(id).into_iter().collect())
}

/// A turn, after which the configuration and the machine must agree.
fn turn(manager: &mut Manager, seen: &dyn Machine, machine: &SimMachine) -> Turn {
    let mut watch = Accounting::watch(machine).unwrap();
    // The first turn only starts an interval.
    manager.turn(seen, watch.as_mut()).unwrap();
    pass(machine, LOOK);
    manager.turn(seen, watch.as_mut()).unwrap()
}

fn agree(machine: &SimMachine, when: &str) {
    let state = dynamic::read(machine).unwrap();
    millpond_pools::validate::whole(&state.conf).unwrap();
    for set in ["a", "b", "pset_default"] {
        assert_eq!(kernel(machine, set), state.conf.pset(set).unwrap().cpu_set(), "{set} {when}");
    }
    machine.view(|s| s.check()).unwrap_or_else(|why| panic!("{when}: {why}"));
}

fn manager() -> Manager {
    Manager::new(policy("millpond").unwrap())
}

#[test]
fn a_manager_that_dies_at_any_moment_is_followed_by_one_that_goes_on() {
    let mut deaths = Vec::new();
    for moment in 0..=u8::MAX {
        let (machine, _) = machine();
        let faulty = Faulty::new(&machine, Fault::Kill(moment));
        let done = turn(&mut manager(), &faulty, &machine).done;
        let Some(at) = faulty.killed_at() else {
            assert!(matches!(done, Done::Moved(_)), "{done:?}");
            break;
        };
        // The next writer repairs the unfinished operation when it opens, and then makes a new decision.
        Writer::open(&machine).unwrap();
        agree(&machine, &format!("after a death at {at}"));
        assert!([(2, 2), (6, 2)].contains(&sizes(&machine)), "{:?} after a death at {at}", sizes(&machine));
        turn(&mut manager(), &machine, &machine);
        agree(&machine, "after the next one's turn");
        assert_eq!(sizes(&machine), (6, 2), "after a death at {at}");
        deaths.push(at);
    }
    for name in ["begin", "intended", "step-1", "applied", "committed"] {
        assert!(deaths.iter().any(|at| at == name), "none died at {name}: {deaths:?}");
    }
}

#[test]
fn a_full_disk_and_a_machine_that_resists_leave_everything_as_it_was_and_the_next_turn_goes_on() {
    for fault in [Fault::DiskFull(0), Fault::DiskFull(1), Fault::Resist(0), Fault::Resist(2)] {
        let (machine, _) = machine();
        let before = machine.view(|s| s.tables.clone());
        let mut manager = manager();
        let faulty = Faulty::new(&machine, fault);
        let done = turn(&mut manager, &faulty, &machine).done;
        assert!(faulty.hit(), "{fault:?} never struck");
        let Done::Refused(error) = done else { panic!("{fault:?}: {done:?}") };
        assert!(error.hint.is_some(), "{fault:?}: {error} without a remedy");
        assert_eq!(sizes(&machine), (2, 2), "{fault:?}");
        machine.view(|s| assert!(s.tables.sets == before.sets, "{fault:?}"));
        // As soon as there is space again.
        turn(&mut manager, &machine, &machine);
        assert_eq!(sizes(&machine), (6, 2), "{fault:?}");
        agree(&machine, "at the end");
    }
}

/// Takes a CPU off-line as after a hardware failure, without a command.
fn vanish(machine: &SimMachine, cpu: CpuId) {
    machine.edit(|s| {
        let since = s.wall();
        let record = s.tables.processors.get_mut(&cpu).unwrap();
        record.state = State::OffLine;
        record.since = since;
    });
}

#[test]
fn a_processor_that_vanishes_half_way_through_a_commit_breaks_nothing() {
    let mut struck = 0;
    for moment in 0..64 {
        let (machine, _) = machine();
        let file = dynamic::read(&machine).unwrap().conf;
        let other = edited(&machine, |editor| {
            editor.transfer(1, "a", "b").unwrap();
            editor.transfer(3, "pset_default", "b").unwrap();
        });
        let gone = *other.conf.pset("b").unwrap().cpu_set().iter().collect::<Vec<_>>().last().unwrap();
        let faulty = Faulty::meanwhile(&machine, moment, || vanish(&machine, gone));
        let writer = Writer::open(&faulty).unwrap();
        let done = dynamic::commit(&writer, &faulty, Some(other));
        drop(writer);
        if !faulty.hit() {
            break;
        }
        struck += 1;
        agree(&machine, &format!("processor {gone} vanished at moment {moment}"));
        let want = if done.is_ok() { (1, 6) } else { (2, 2) };
        assert_eq!(sizes(&machine), want, "processor {gone} vanished at moment {moment}: {done:?}");
        // The first configuration can be restored.
        let back = instantiate(&file, &dynamic::read(&machine).unwrap()).unwrap();
        let writer = Writer::open(&machine).unwrap();
        dynamic::commit(&writer, &machine, Some(back)).unwrap();
        drop(writer);
        agree(&machine, "with the first configuration again");
    }
    assert!(struck > 4, "only {struck} moments");
}

#[test]
fn who_takes_processors_off_line_under_a_manager_does_not_stop_it() {
    let (machine, pid) = machine();
    let mut manager = manager();
    turn(&mut manager, &machine, &machine);
    assert_eq!(sizes(&machine), (6, 2));
    let of_a: Vec<CpuId> = kernel(&machine, "a").iter().collect();
    let writer = Writer::open(&machine).unwrap();
    for cpu in &of_a[..3] {
        writer.commit(Processors::prepare_state(&machine, *cpu, State::OffLine, false).unwrap()).unwrap();
    }
    drop(writer);
    for _ in 0..10 {
        let turn = turn(&mut manager, &machine, &machine);
        assert!(!matches!(turn.done, Done::Refused(_)), "{:?}", turn.done);
        agree(&machine, "with processors off-line");
    }
    let online = || dynamic::read(&machine).unwrap().conf.pset("a").unwrap().online();
    assert_eq!(online(), 6, "others came for those that are off-line");
    let writer = Writer::open(&machine).unwrap();
    for cpu in &of_a[..3] {
        writer.commit(Processors::prepare_state(&machine, *cpu, State::OnLine, false).unwrap()).unwrap();
    }
    drop(writer);
    turn(&mut manager, &machine, &machine);
    assert_eq!((online(), sizes(&machine).0), (6, 6), "its maximum");
    machine.exit(pid);
    turn(&mut manager, &machine, &machine);
    agree(&machine, "when the only process of a pool has ended");
}

#[test]
fn a_pool_whose_only_process_ends_gives_up_what_it_had_as_soon_as_another_wants_it() {
    let (machine, pid) = machine();
    let mut manager = manager();
    turn(&mut manager, &machine, &machine);
    machine.exit(pid);
    let words: Vec<String> = ["spin", "-t", "30"].map(str::to_owned).to_vec();
    let other = machine.start_load(&Load::parse(&words).unwrap());
    let writer = Writer::open(&machine).unwrap();
    let wide = edited(&machine, |editor| {
        editor.put(&Element::Pset("b".into()), "pset.max", PropValue::Uint(32)).unwrap();
    });
    dynamic::commit(&writer, &machine, Some(wide)).unwrap();
    dynamic::bind(&writer, &machine, &Member::Process(other), PoolId(2)).unwrap();
    drop(writer);
    for _ in 0..3 {
        turn(&mut manager, &machine, &machine);
    }
    let (a, b) = sizes(&machine);
    assert_eq!((a, b), (1, 30), "a has its least, the default set one, and b all that it can use");
    agree(&machine, "at the end");
}

#[test]
fn what_others_change_between_two_turns_stays() {
    let (machine, _) = machine();
    let mut manager = manager();
    let mut watch = Accounting::watch(&machine).unwrap();
    manager.turn(&machine, watch.as_mut()).unwrap();
    pass(&machine, LOOK);
    manager.turn(&machine, watch.as_mut()).unwrap();
    assert_eq!(sizes(&machine), (6, 2));
    // Another program reduces the size of a.
    let less = edited(&machine, |editor| {
        let set = Element::Pset("a".into());
        editor.transfer(4, "a", "pset_default").unwrap();
        editor.put(&set, "pset.max", PropValue::Uint(2)).unwrap();
    });
    let writer = Writer::open(&machine).unwrap();
    dynamic::commit(&writer, &machine, Some(less)).unwrap();
    drop(writer);
    for n in 0..20 {
        pass(&machine, LOOK);
        let turn = manager.turn(&machine, watch.as_mut()).unwrap();
        assert_eq!(turn.changed, n == 0, "turn {n}");
        assert_eq!(sizes(&machine).0, 2, "turn {n}");
    }
    // Then the pool is destroyed under the manager.
    let writer = Writer::open(&machine).unwrap();
    let fewer = edited(&machine, |editor| {
        editor.destroy_pool("a").unwrap();
        editor.destroy_pset("a").unwrap();
    });
    dynamic::commit(&writer, &machine, Some(fewer)).unwrap();
    drop(writer);
    pass(&machine, LOOK);
    assert!(manager.turn(&machine, watch.as_mut()).unwrap().changed);
    pass(&machine, LOOK);
    let turn = manager.turn(&machine, watch.as_mut()).unwrap();
    assert!(!matches!(turn.done, Done::Refused(_) | Done::Stale(_)), "{:?}", turn.done);
}

#[test]
fn a_thousand_pools_are_managed_as_two_are() {
    let (machine, _) = machine();
    let writer = Writer::open(&machine).unwrap();
    let many = edited(&machine, |editor| {
        for n in 0..1000 {
            let (pool, set) = (format!("p{n}"), format!("s{n}"));
            editor.create_pool(&pool).unwrap();
            editor.create_pset(&set).unwrap();
            editor.associate(&pool, Some(&set)).unwrap();
            editor.put(&Element::Pset(set), "pset.max", PropValue::Uint(4)).unwrap();
        }
    });
    dynamic::commit(&writer, &machine, Some(many)).unwrap();
    let words: Vec<String> = ["spin", "-t", "2"].map(str::to_owned).to_vec();
    let pid = machine.start_load(&Load::parse(&words).unwrap());
    let state = dynamic::read(&machine).unwrap();
    assert_eq!(state.conf.pools.len(), 1003);
    drop(writer);
    let mut manager = manager();
    turn(&mut manager, &machine, &machine);
    assert_eq!(sizes(&machine).0, 6);
    // One of the thousand becomes active: it needs a first CPU to have a process.
    let writer = Writer::open(&machine).unwrap();
    let first = edited(&machine, |editor| editor.transfer(1, "pset_default", "s500").unwrap());
    dynamic::commit(&writer, &machine, Some(first)).unwrap();
    let pool = dynamic::read(&machine).unwrap().conf.pool("p500").unwrap().id.unwrap();
    dynamic::bind(&writer, &machine, &Member::Process(pid), pool).unwrap();
    drop(writer);
    for _ in 0..3 {
        turn(&mut manager, &machine, &machine);
    }
    let grown = dynamic::read(&machine).unwrap().conf.pset("s500").unwrap().size();
    assert!((2..=4).contains(&grown), "two threads compute, and the set has {grown}");
    agree(&machine, "with a thousand pools");
}
