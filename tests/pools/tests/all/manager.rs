//! The manager resizes sets on simulated machines.

use millpond_machine::facets::Member;
use millpond_machine::{Accounting, Clock, Writer};
use millpond_model::pools::PropValue;
use millpond_model::{Nanos, Pid, PoolId};
use millpond_planner::{Decision, Frame, Policy, StateError, policy};
use millpond_pools::{Code, Done, Editor, Element, Manager, Place, PoolError, Turn, dynamic, errno};
use millpond_sim::SimMachine;
use millpond_sim::workloads::Load;
use serde_json::Value;

/// Pools `a` and `b`, each with a set of 1 to `max` CPUs; all CPUs but one are shared out.
fn two_pools(machine: &SimMachine, sizes: (u64, u64), max: u64) {
    let writer = Writer::open(machine).unwrap();
    dynamic::enable(&writer, machine, false).unwrap();
    let state = dynamic::read(machine).unwrap();
    let mut editor = Editor::new(state.conf.clone(), Place::Machine);
    for (name, size) in [("a", sizes.0), ("b", sizes.1)] {
        let set = Element::Pset(name.into());
        editor.create_pset(name).unwrap();
        editor.put(&set, "pset.max", PropValue::Uint(max)).unwrap();
        editor.create_pool(name).unwrap();
        editor.associate(name, Some(name)).unwrap();
        editor.transfer(size, "pset_default", name).unwrap();
        editor.put(&set, "pset.min", PropValue::Uint(1)).unwrap();
    }
    let state = millpond_model::pools::PoolsState { conf: editor.conf, ..state };
    dynamic::commit(&writer, machine, Some(state)).unwrap();
}

fn spin(machine: &SimMachine, threads: u32, pool: u32) -> Pid {
    let words: Vec<String> = ["spin".into(), "-t".into(), threads.to_string()].to_vec();
    let pid = machine.start_load(&Load::parse(&words).unwrap());
    let writer = Writer::open(machine).unwrap();
    dynamic::bind(&writer, machine, &Member::Process(pid), PoolId(pool)).unwrap();
    pid
}

fn size(machine: &SimMachine, set: &str) -> u64 {
    dynamic::read(machine).unwrap().conf.pset(set).unwrap().size()
}

/// Runs turns of `interval` milliseconds until the set has the wanted size. Returns the number of turns.
fn turns_until(machine: &SimMachine, policy_name: &str, interval: u64, set: &str, wanted: u64) -> u64 {
    let mut manager = Manager::new(policy(policy_name).unwrap());
    let mut watch = Accounting::watch(machine).unwrap();
    for turn in 0..10_000 {
        let done = manager.turn(machine, watch.as_mut()).unwrap().done;
        assert!(!matches!(done, Done::Stale(_) | Done::Refused(_)), "{done:?}");
        if size(machine, set) == wanted {
            return turn;
        }
        machine.sleep_until(Nanos(machine.now().0 + interval * 1_000_000));
    }
    panic!("set {set} has {} and not {wanted}", size(machine, set));
}

#[test]
fn the_policy_of_solaris_moves_one_processor_after_six_intervals() {
    let machine = SimMachine::named("t2000").unwrap();
    two_pools(&machine, (8, 8), 31);
    spin(&machine, 24, 1);
    // One baseline, five samples.
    assert_eq!(turns_until(&machine, "solaris", 15_000, "a", 9), 6);
}

#[test]
fn the_default_policy_gives_everything_that_is_wanted_in_two_looks() {
    let machine = SimMachine::named("t2000").unwrap();
    two_pools(&machine, (8, 8), 31);
    spin(&machine, 24, 1);
    // One baseline, one interval of 100 ms.
    let turns = turns_until(&machine, "millpond", 100, "a", 24);
    assert!(turns <= 2, "{turns} turns");
}

#[test]
fn nothing_moves_while_nothing_changes() {
    let machine = SimMachine::named("t2000").unwrap();
    two_pools(&machine, (8, 8), 31);
    spin(&machine, 24, 1);
    spin(&machine, 24, 2);
    let mut manager = Manager::new(policy("millpond").unwrap());
    let mut watch = Accounting::watch(&machine).unwrap();
    let mut moves = Vec::new();
    for _ in 0..100 {
        machine.sleep_until(Nanos(machine.now().0 + 100_000_000));
        let turn = manager.turn(&machine, watch.as_mut()).unwrap();
        moves.push(turn.decision.map_or(0, |d| d.plan.moves.len()));
    }
    assert!(moves[..10].iter().sum::<usize>() > 0, "both grow at first: {moves:?}");
    assert_eq!(moves[10..].iter().sum::<usize>(), 0, "{moves:?}");
    let sizes = (size(&machine, "a"), size(&machine, "b"));
    assert!(sizes.0.abs_diff(sizes.1) <= 1, "{sizes:?}");
    assert_eq!(sizes.0 + sizes.1, 31);
}

#[test]
fn what_one_gives_up_the_other_gets_and_it_comes_back() {
    let machine = SimMachine::named("t2000").unwrap();
    two_pools(&machine, (15, 16), 31);
    spin(&machine, 31, 1);
    let other = spin(&machine, 31, 2);
    let first = turns_until(&machine, "millpond", 100, "a", 15);
    assert!(first <= 3, "{first}");
    machine.exit(other);
    let grown = turns_until(&machine, "millpond", 100, "a", 30);
    assert!(grown <= 2, "{grown}");
    spin(&machine, 31, 2);
    let mut manager = Manager::new(policy("millpond").unwrap());
    let mut watch = Accounting::watch(&machine).unwrap();
    for _ in 0..5 {
        manager.turn(&machine, watch.as_mut()).unwrap();
        machine.sleep_until(Nanos(machine.now().0 + 100_000_000));
    }
    let sizes = (size(&machine, "a"), size(&machine, "b"));
    assert!(sizes.0.abs_diff(sizes.1) <= 1, "{sizes:?}");
}

thread_local! {
    static MACHINE: SimMachine = SimMachine::named("t2000").unwrap();
}

/// The default policy, with a function that changes the machine of this thread during a decision.
struct Meanwhile(Box<dyn Policy>, fn(&SimMachine));

impl Policy for Meanwhile {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn decide(&mut self, frame: &Frame) -> Decision {
        MACHINE.with(self.1);
        self.0.decide(frame)
    }

    fn state(&self) -> Value {
        self.0.state()
    }

    fn restore(&mut self, state: &Value) -> Result<(), StateError> {
        self.0.restore(state)
    }
}

/// Two turns of 100 ms on a machine on which `a` wants CPUs; in the second one another program changes the machine.
fn disturbed(by: fn(&SimMachine)) -> Result<Turn, PoolError> {
    MACHINE.with(|machine| {
        two_pools(machine, (8, 8), 31);
        spin(machine, 24, 1);
        let mut manager = Manager::new(Box::new(Meanwhile(policy("millpond").unwrap(), by)));
        let mut watch = Accounting::watch(machine).unwrap();
        assert_eq!(manager.turn(machine, watch.as_mut()).unwrap().done, Done::Nothing);
        machine.sleep_until(Nanos(machine.now().0 + 100_000_000));
        manager.turn(machine, watch.as_mut())
    })
}

#[test]
fn pools_that_are_disabled_while_it_thinks_stay_disabled() {
    let error = disturbed(|machine| {
        let writer = Writer::open(machine).unwrap();
        let empty = dynamic::emptied(dynamic::read(machine).unwrap());
        dynamic::commit(&writer, machine, Some(empty)).unwrap();
        dynamic::commit(&writer, machine, None).unwrap();
    })
    .unwrap_err();
    assert_eq!(error.code, Code::System(errno::NOT_ACTIVE));
    assert_eq!(MACHINE.with(|machine| dynamic::state(machine)).unwrap(), None);
}

#[test]
fn what_somebody_else_commits_while_it_thinks_is_not_undone() {
    let turn = disturbed(|machine| {
        let writer = Writer::open(machine).unwrap();
        let state = dynamic::read(machine).unwrap();
        let mut editor = Editor::new(state.conf.clone(), Place::Machine);
        editor.put(&Element::Pset("a".into()), "pset.max", PropValue::Uint(9)).unwrap();
        let state = millpond_model::pools::PoolsState { conf: editor.conf, ..state };
        dynamic::commit(&writer, machine, Some(state)).unwrap();
    })
    .unwrap();
    assert!(!turn.decision.unwrap().plan.moves.is_empty(), "it wanted to move something");
    assert!(matches!(turn.done, Done::Stale(_)), "{:?}", turn.done);
    MACHINE.with(|machine| {
        let state = dynamic::read(machine).unwrap();
        let set = state.conf.pset("a").unwrap();
        assert_eq!((set.size(), set.max), (8, 9));
    });
}
