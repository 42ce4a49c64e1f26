//! Random changes, and the changes that undo them.

use super::random::Random;
use super::world::World;
use crate::common::commands::{EXCLUSIVE, SHARED, bind, bind_cpu, cpus, destroy};
use millpond_linux::LinuxMachine;
use millpond_machine::facets::{FenceWish, Member};
use millpond_machine::{Machine, Refusal, Writer};
use millpond_model::pools::{PoolNode, PoolsConf, PoolsState, PsetNode};
use millpond_model::{CpuId, FenceName, Nanos, Others, Pid, PoolId, PsetId, Shelter, State};
use std::collections::BTreeMap;

/// Undoes a change.
pub type Back = Box<dyn FnOnce(&LinuxMachine)>;

/// An attempted change. Another law says that a refusal changes nothing.
pub struct Tried {
    pub what: String,
    pub result: Result<(), Refusal>,
    /// Undoes it immediately; `None` if the former state cannot be restored alone.
    pub back: Option<Back>,
}

fn shelter(random: &mut Random) -> Shelter {
    Shelter {
        others: [Others::Isolated, Others::Out, Others::In][random.below(3)],
        interrupts: random.one_in(2),
        kernel_threads: random.one_in(2),
        idle_latency: random.one_in(2).then_some(Nanos(0)),
        ..Shelter::default()
    }
}

fn state(machine: &LinuxMachine, cpu: u32, to: State) -> Result<(), Refusal> {
    let writer = Writer::open(machine)?;
    writer.commit(machine.processors()?.prepare_state(CpuId(cpu), to, false)?).map(drop)
}

fn sets(machine: &LinuxMachine) -> Vec<PsetId> {
    machine.psets().unwrap().list().unwrap().iter().map(|set| set.id).collect()
}

fn pools(machine: &LinuxMachine) -> Option<PoolsState> {
    machine.pools().unwrap().state().unwrap()
}

fn commit(machine: &LinuxMachine, to: Option<PoolsState>) -> Result<(), Refusal> {
    let writer = Writer::open(machine)?;
    writer.commit(machine.pools()?.prepare_commit(to)?).map(drop)
}

fn take_down(machine: &LinuxMachine, name: &FenceName) {
    let change = machine.fences().unwrap().prepare_off(name).unwrap();
    Writer::open(machine).unwrap().commit(change).unwrap();
}

/// One random change.
pub fn change(machine: &LinuxMachine, world: &World, random: &mut Random) -> Tried {
    let chosen = random.some(&world.cpus);
    let pid = world.pids[random.below(world.pids.len())];
    let forced = random.one_in(3);
    let set = random.one(&sets(machine)).copied();
    let plain = |what: String, result| Tried { what, result, back: None };
    match random.below(12) {
        0 | 1 => create(machine, &chosen, forced, random),
        2..=4 => fence(machine, chosen[0], forced, random),
        5 => {
            let done = set.map_or(Ok(()), |set| bind(machine, pid, Some(set.0)));
            plain(format!("bind {pid} to {set:?}"), done)
        }
        6 => plain(format!("bind {pid} to CPU {}", chosen[0]), bind_cpu(machine, pid, Some(chosen[0]))),
        7 => {
            let to = [State::OffLine, State::OnLine, State::NoIntr][random.below(3)];
            let cpu = world.online[random.below(world.online.len())];
            plain(format!("CPU {cpu} {to}"), state(machine, cpu, to))
        }
        8 => {
            let done = set.map_or(Ok(()), |set| {
                let writer = Writer::open(machine)?;
                writer.commit(machine.psets()?.prepare_assign(set, &cpus(&chosen), forced)?).map(drop)
            });
            plain(format!("assign {chosen:?} to {set:?} forced {forced}"), done)
        }
        _ => {
            let (what, done) = match pools(machine) {
                None => ("enable pools".to_owned(), enable(machine, random)),
                Some(is) => configure(machine, is, &chosen, pid, random),
            };
            plain(what, done)
        }
    }
}

fn create(machine: &LinuxMachine, chosen: &[u32], forced: bool, random: &mut Random) -> Tried {
    let options = if random.one_in(3) { SHARED } else { EXCLUSIVE };
    let done = Writer::open(machine).and_then(|writer| {
        let change = machine.psets()?.prepare_create(&cpus(chosen), options, forced)?;
        writer.commit(change).map(|done| done.outcome.0)
    });
    // With force threads are unbound permanently.
    let made = done.as_ref().ok().copied().filter(|_| !forced && random.one_in(4));
    Tried {
        what: format!("create {chosen:?} forced {forced}"),
        result: done.map(drop),
        back: made.map(|set| Box::new(move |machine: &LinuxMachine| destroy(machine, set.0).unwrap()) as _),
    }
}

fn fence(machine: &LinuxMachine, cpu: u32, forced: bool, random: &mut Random) -> Tried {
    let name: FenceName = format!("f{}", random.below(3)).parse().unwrap();
    let shelter = shelter(random);
    let is_new = machine.fences().unwrap().list().unwrap().iter().all(|fence| fence.fencing.name != name);
    let wish = FenceWish { name: name.clone(), profile: "own".into(), shelter, cpus: cpus(&[cpu]) };
    let done = Writer::open(machine)
        .and_then(|writer| writer.commit(machine.fences()?.prepare_fence(&wish, forced)?).map(drop));
    let goes = is_new && !forced && random.one_in(3);
    let what = format!("fence {name} [{cpu}] forced {forced}");
    let back = goes.then(|| Box::new(move |machine: &LinuxMachine| take_down(machine, &name)) as _);
    Tried { what, result: done, back }
}

fn enable(machine: &LinuxMachine, random: &mut Random) -> Result<(), Refusal> {
    let states = machine.processors()?.states()?;
    let conf = PoolsConf::fresh(states.iter().map(|status| (status.cpu, status.state)));
    commit(machine, Some(PoolsState { conf, keep_others: random.one_in(4), zones: BTreeMap::new() }))
}

/// Commits another configuration of pools, or moves a process to another pool.
fn configure(
    machine: &LinuxMachine,
    mut to: PoolsState,
    chosen: &[u32],
    pid: u32,
    random: &mut Random,
) -> (String, Result<(), Refusal>) {
    let name = format!("p{}", random.below(3));
    let ids: Vec<PoolId> = to.conf.pools.iter().filter_map(|pool| pool.id).collect();
    match random.below(4) {
        0 => {
            let pool = random.one(&ids).copied().unwrap_or(PoolId(0));
            let done = Writer::open(machine).and_then(|writer| {
                writer.commit(machine.pools()?.prepare_join(&Member::Process(Pid(pid)), pool)?).map(drop)
            });
            (format!("{pid} into pool {pool}"), done)
        }
        1 if to.conf.pset(&name).is_some() => {
            let members = to.conf.pset(&name).map(PsetNode::cpu_set).unwrap_or_default();
            for cpu in members.iter() {
                to.conf.move_cpu(cpu, "pset_default");
            }
            to.conf.psets.retain(|set| set.name != name);
            to.conf.pools.retain(|pool| pool.name != name);
            (format!("remove pool {name}"), commit(machine, Some(to)))
        }
        _ => {
            if to.conf.pset(&name).is_none() {
                to.conf.psets.push(PsetNode::new(&name, name.as_str(), None));
                to.conf.pools.push(PoolNode::new(&name, format!("pool {name}"), name.as_str(), None));
            }
            for cpu in chosen {
                to.conf.move_cpu(CpuId(*cpu), &name);
            }
            (format!("CPUs {chosen:?} into pool {name}"), commit(machine, Some(to)))
        }
    }
}

/// Undoes all changes with the matching commands, until none is left.
pub fn undo(
    machine: &LinuxMachine,
    world: &World,
    states: &BTreeMap<CpuId, State>,
    random: &mut Random,
) -> Vec<String> {
    let mut story = Vec::new();
    for pid in &world.pids {
        bind_cpu(machine, *pid, None).unwrap();
    }
    let has_pools = pools(machine).is_some();
    let mut left = sets(machine);
    while !left.is_empty() {
        let set = left.swap_remove(random.below(left.len()));
        let fence = machine.fences().unwrap().list().unwrap().into_iter().find(|fence| fence.set == set);
        match fence {
            Some(fence) => {
                take_down(machine, &fence.fencing.name);
                story.push(format!("fence {} is taken down", fence.fencing.name));
            }
            // It is removed with its pool.
            None if has_pools => {}
            None => {
                destroy(machine, set.0).unwrap();
                story.push(format!("set {set} is destroyed"));
            }
        }
    }
    if has_pools {
        commit(machine, None).unwrap();
        story.push("pools are disabled".to_owned());
    }
    let running = |state: &&State| state.runs_threads();
    for is_first in [true, false] {
        for (cpu, to) in states.iter().filter(|(_, state)| running(state) == is_first) {
            state(machine, cpu.0, *to).unwrap();
        }
    }
    story
}
