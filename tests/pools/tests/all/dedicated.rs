//! CPUs that are dedicated to a zone, and their return when the zone ends.

use millpond_machine::{Accounting, Clock, Writer};
use millpond_model::Nanos;
use millpond_planner::policy;
use millpond_pools::dedicated::{self, Dedicated};
use millpond_pools::{Manager, dynamic};
use millpond_sim::SimMachine;

const NAME: &str = "SUNWtmp_zone1";

/// A machine with two CPUs, one of them dedicated to zone1, which runs.
fn machine() -> SimMachine {
    let machine = SimMachine::named("smartos-2").unwrap();
    machine.edit(|s| s.boot_zone("zone1")).unwrap();
    let fresh = dynamic::fresh(&machine, false).unwrap();
    let to = dedicated::with(fresh, ("zone1", "zone1"), Dedicated { ncpus: (1, 1), importance: 1 }).unwrap();
    let writer = Writer::open(&machine).unwrap();
    dynamic::commit(&writer, &machine, Some(to)).unwrap();
    drop(writer);
    assert!(has_pool(&machine));
    machine
}

fn has_pool(machine: &SimMachine) -> bool {
    let state = dynamic::state(machine).unwrap();
    state.is_some_and(|state| state.conf.pool(NAME).is_some() && state.conf.pset(NAME).is_some())
}

fn default_size(machine: &SimMachine) -> u64 {
    dynamic::read(machine).unwrap().conf.default_pset().unwrap().size()
}

fn turn(manager: &mut Manager, machine: &SimMachine) {
    let mut watch = Accounting::watch(machine).unwrap();
    manager.turn(machine, watch.as_mut()).unwrap();
    machine.sleep_until(machine.now() + Nanos::from_millis(100));
}

#[test]
fn the_pool_of_a_zone_that_ends_while_poold_runs_is_gone_after_its_next_turn() {
    let machine = machine();
    let mut manager = Manager::new(policy("millpond").unwrap());
    turn(&mut manager, &machine);
    turn(&mut manager, &machine);
    assert!(has_pool(&machine), "its zone runs");
    machine.edit(|s| s.halt_zone("zone1")).unwrap();
    assert!(has_pool(&machine), "nothing looked yet");
    turn(&mut manager, &machine);
    assert!(!has_pool(&machine));
    assert_eq!(default_size(&machine), 2);
    assert_eq!(machine.view(millpond_sim::SimState::check), Ok(()));
}

#[test]
fn the_pool_of_a_zone_that_ended_while_nothing_ran_is_gone_after_the_first_turn() {
    let machine = machine();
    machine.edit(|s| s.halt_zone("zone1")).unwrap();
    machine.sleep_until(Nanos::from_secs(60));
    assert!(has_pool(&machine));
    turn(&mut Manager::new(policy("solaris").unwrap()), &machine);
    assert!(!has_pool(&machine));
    // A zone that boots again is not bound to a destroyed pool.
    machine.edit(|s| s.boot_zone("zone1")).unwrap();
    turn(&mut Manager::new(policy("solaris").unwrap()), &machine);
    assert_eq!(default_size(&machine), 2);
    assert_eq!(machine.view(millpond_sim::SimState::check), Ok(()));
}

#[test]
fn a_poold_that_only_looks_leaves_the_pool_of_a_zone_that_ended() {
    let machine = machine();
    machine.edit(|s| s.halt_zone("zone1")).unwrap();
    let mut manager = Manager::new(policy("millpond").unwrap()).dry();
    turn(&mut manager, &machine);
    assert!(has_pool(&machine));
}

#[test]
fn a_boot_leaves_no_temporary_pool() {
    let machine = machine();
    let new = machine.view(|s| s.rebooted("/etc/system"));
    machine.edit(|s| *s = new);
    assert!(!has_pool(&machine));
    assert_eq!(machine.view(millpond_sim::SimState::check), Ok(()));
}
