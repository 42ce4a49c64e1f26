//! Random sequences of all operations on pools, on simulated machines, with these invariants after each step:
//!
//! * every CPU is in one set of the configuration, and in the same set on the machine;
//! * every process is in an existing pool, and its threads run only in the set of that pool (while it has a CPU);
//! * memory of a set comes from the lgroups of its CPUs if its configuration says so, and from all lgroups otherwise;
//! * bounds: minima stay below maxima; changes by a transfer or by a commit of a file keep them;
//! * a refused operation changes nothing;
//! * finally, after disabling pools, everything is as at the beginning.
//!
//! `MILLPOND_POOL_OPERATIONS` is the number of operations; the default takes a few seconds.

use millpond_formats::pools::properties::{LOCAL_MEMORY, local_memory};
use millpond_machine::facets::{Member, NodeStatus};
use millpond_machine::{Lgroups, Machine, Pools, Processors, Writer};
use millpond_model::pools::{PoolsConf, PoolsState, PropValue, PsetNode};
use millpond_model::{CpuId, LgrpId, Lwp, LwpId, Pid, PoolId, PsetId, SetMemory, State};
use millpond_pools::{Editor, Element, Place, PoolError, dynamic, instantiate};
use millpond_sim::SimMachine;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

const DEFAULT_OPERATIONS: u64 = 10_000;

/// One machine with a single lgroup, and one with several.
const MACHINES: [&str; 2] = ["t2000", "e6900"];

/// A small random number generator with the same output everywhere.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        let sides = u64::try_from(from.len()).unwrap();
        if sides == 0 { None } else { from.get(usize::try_from(self.roll(sides)).unwrap()).cloned() }
    }
}

struct World {
    machine: SimMachine,
    /// The number of its CPUs.
    cpus: u64,
    dice: Dice,
    born: Vec<Pid>,
    files: Vec<PoolsConf>,
    did: BTreeMap<&'static str, (u64, u64)>,
}

impl World {
    fn new(machine: &str, dice: Dice) -> Self {
        let machine = SimMachine::named(machine).unwrap();
        let cpus = u64::try_from(machine.topology().unwrap().processors().len()).unwrap();
        World { machine, cpus, dice, born: Vec::new(), files: Vec::new(), did: BTreeMap::new() }
    }

    fn state(&self) -> PoolsState {
        dynamic::read(&self.machine).unwrap()
    }

    fn pset(&mut self) -> String {
        let names: Vec<String> = self.state().conf.psets.iter().map(|s| s.name.clone()).collect();
        self.dice.pick(&names).unwrap()
    }

    fn pool(&mut self) -> String {
        let names: Vec<String> = self.state().conf.pools.iter().map(|p| p.name.clone()).collect();
        self.dice.pick(&names).unwrap()
    }

    fn cpu(&mut self) -> CpuId {
        CpuId(u32::try_from(self.dice.roll(self.cpus + 1)).unwrap())
    }

    /// A few edits as one transaction.
    fn edit(&mut self) -> Result<(), PoolError> {
        let state = self.state();
        let mut editor = Editor::new(state.conf.clone(), Place::Machine);
        for _ in 0..=self.dice.roll(3) {
            let (pool, set, other) = (self.pool(), self.pset(), self.pset());
            let element = Element::Pset(set.clone());
            let number = self.dice.roll(9);
            match self.dice.roll(13) {
                0 => editor.create_pool(&format!("p{number}"))?,
                1 | 2 => {
                    let name = format!("s{number}");
                    editor.create_pset(&name)?;
                    editor.put(&Element::Pset(name), "pset.max", PropValue::Uint(number))?;
                }
                3 => editor.destroy_pool(&pool)?,
                4 => editor.destroy_pset(&set)?,
                5 => editor.associate(&pool, Some(&set))?,
                6 | 7 => editor.transfer(self.dice.roll(4), &set, &other)?,
                8 => editor.transfer_cpu(self.cpu(), &set)?,
                9 => editor.put(&element, "pset.min", PropValue::Uint(self.dice.roll(4)))?,
                10 => editor.put(&element, "pset.max", PropValue::Uint(self.dice.roll(32)))?,
                11 => editor.put(&element, LOCAL_MEMORY, PropValue::Boolean(number > 3))?,
                _ => {
                    let cpu = Element::Cpu(self.cpu());
                    editor.put(&cpu, "cpu.pinned", PropValue::Boolean(number > 4))?;
                }
            }
        }
        let state = PoolsState { conf: editor.conf, ..state };
        let writer = Writer::open(&self.machine)?;
        dynamic::commit(&writer, &self.machine, Some(state)).map(|_| ())
    }

    fn bind(&mut self) -> Result<(), PoolError> {
        let pool = PoolId(u32::try_from(self.dice.roll(7)).unwrap());
        let usual = [Pid(1), Pid(101), Pid(204), Pid(2)];
        let pid = self.dice.pick(&self.born.clone()).or_else(|| self.dice.pick(&usual)).unwrap();
        let member =
            if self.dice.roll(9) == 0 { Member::Zone("global".into()) } else { Member::Process(pid) };
        let writer = Writer::open(&self.machine)?;
        dynamic::bind(&writer, &self.machine, &member, pool).map(|_| ())
    }

    fn file(&mut self) -> Result<(), PoolError> {
        let Some(file) = self.dice.pick(&self.files.clone()).filter(|_| self.dice.roll(3) > 0) else {
            let conf = self.state().conf;
            self.files.push(conf);
            self.files.truncate(8);
            return Ok(());
        };
        let to = instantiate(&file, &self.state())?;
        let writer = Writer::open(&self.machine)?;
        dynamic::commit(&writer, &self.machine, Some(to)).map(|_| ())
    }

    fn processor(&mut self) -> Result<(), PoolError> {
        let states = [State::OnLine, State::OffLine, State::NoIntr, State::Spare];
        let (cpu, to) = (self.cpu(), self.dice.pick(&states).unwrap());
        let writer = Writer::open(&self.machine)?;
        let change = Processors::prepare_state(&self.machine, cpu, to, false)?;
        Ok(writer.commit(change).map(|_| ())?)
    }

    fn life(&mut self) {
        let parents: Vec<Pid> = [Pid(204)].into_iter().chain(self.born.iter().copied()).collect();
        let pid = self.dice.pick(&parents).unwrap();
        let lwp = Lwp { pid, lwp: LwpId(1) };
        if self.born.len() > 12 {
            self.machine.exit(pid);
            self.born.retain(|b| *b != pid);
        } else if self.dice.roll(2) == 0 {
            self.born.extend(self.machine.fork(lwp));
        } else {
            self.machine.add_thread(lwp);
        }
    }

    fn step(&mut self) {
        let before = self.machine.view(Clone::clone);
        let (what, result) = match self.dice.roll(16) {
            0..=6 => ("edits", self.edit()),
            7..=9 => ("bindings", self.bind()),
            10..=11 => ("files", self.file()),
            12..=13 => ("states", self.processor()),
            14 => {
                self.life();
                ("births and ends", Ok(()))
            }
            _ if self.dice.roll(50) == 0 => {
                let writer = Writer::open(&self.machine).unwrap();
                let empty = dynamic::emptied(self.state());
                ("removals", dynamic::commit(&writer, &self.machine, Some(empty)).map(|_| ()))
            }
            _ => ("edits", self.edit()),
        };
        let count = self.did.entry(what).or_default();
        if let Err(error) = result {
            count.1 += 1;
            assert!(
                self.machine.view(|s| *s == before),
                "{what} were refused ({error}) and changed something"
            );
        } else {
            count.0 += 1;
        }
        check_pools(&self.machine, self.cpus, what);
    }
}

/// Checks the invariants for a machine with `cpus` CPUs.
pub fn check_pools(machine: &SimMachine, cpus: u64, what: &str) {
    let state = dynamic::read(machine).unwrap();
    machine.view(|s| s.check()).unwrap_or_else(|why| panic!("after {what}: {why}"));
    millpond_pools::validate::whole(&state.conf).unwrap_or_else(|e| panic!("after {what}: {:?}", e.hint));
    let total: u64 = state.conf.psets.iter().map(PsetNode::size).sum();
    assert_eq!(total, cpus, "after {what}");
    check_memory(machine, &state, what);
    let sets = state.sets();
    let pools = machine.members().unwrap();
    machine.view(|s| {
        let t = &s.tables;
        for (pid, pool) in &pools {
            let set = sets.get(pool).copied();
            assert!(set.is_some(), "after {what}: process {pid} is in pool {pool}, which is gone");
            let set = set.unwrap_or(PsetId::DEFAULT);
            if t.active(set).is_empty() {
                continue;
            }
            for record in t.processes[pid].lwps.values() {
                assert_eq!(record.set_id(), set, "after {what}: process {pid} of pool {pool}");
            }
        }
        for (pid, process) in t.processes.iter().filter(|(pid, _)| !pools.contains_key(pid)) {
            let bound = process.lwps.values().any(|l| l.set.is_some());
            assert!(!bound, "after {what}: process {pid} is in no pool, and bound to a set");
        }
    });
}

fn check_memory(machine: &SimMachine, state: &PoolsState, what: &str) {
    let nodes = machine.nodes().unwrap();
    for pset in &state.conf.psets {
        let Some(id) = pset.id.filter(|id| !id.is_default()) else { continue };
        let (wanted, is) = machine.set_memory(id).unwrap();
        // A configuration without this property leaves the setting unchanged.
        if let Some(local) = local_memory(pset) {
            let want = if local { SetMemory::Local } else { SetMemory::All };
            assert_eq!(wanted, want, "after {what}: set {}", pset.name);
        }
        let active = machine.view(|s| s.tables.active(id));
        let near = |node: &&NodeStatus| !wanted.is_all() && !node.cpus.is_disjoint(&active);
        let of = |node: &NodeStatus| node.node;
        let mut meant: BTreeSet<LgrpId> = nodes.iter().filter(near).map(of).collect();
        if meant.is_empty() {
            meant = nodes.iter().map(of).collect();
        }
        assert_eq!(is, meant, "after {what}: set {} has {active}", pset.name);
    }
}

#[test]
fn whatever_is_done_to_pools_the_rules_hold_and_all_of_it_can_be_undone() {
    let asked = std::env::var("MILLPOND_POOL_OPERATIONS").ok().and_then(|n| n.parse().ok());
    let operations: u64 = asked.unwrap_or(DEFAULT_OPERATIONS);
    let per_world = 2_000;
    let mut did: BTreeMap<&'static str, (u64, u64)> = BTreeMap::new();
    for seed in 1..=operations.div_ceil(per_world) {
        let name = MACHINES[usize::try_from(seed).unwrap() % MACHINES.len()];
        let mut world = World::new(name, Dice::new(seed));
        let sets = |m: &SimMachine| m.view(|s| (s.tables.sets.len(), s.tables.pools.is_some()));
        let writer = Writer::open(&world.machine).unwrap();
        dynamic::enable(&writer, &world.machine, seed % 4 == 0).unwrap();
        drop(writer);
        for _ in 0..per_world {
            world.step();
        }
        let writer = Writer::open(&world.machine).unwrap();
        let empty = dynamic::emptied(world.state());
        dynamic::commit(&writer, &world.machine, Some(empty)).unwrap();
        dynamic::commit(&writer, &world.machine, None).unwrap();
        assert_eq!(sets(&world.machine), (0, false));
        world.machine.view(|s| {
            assert!(s.tables.lwps().all(|(_, l)| l.set.is_none()), "somebody is still bound");
            assert!(s.tables.processes.values().all(|p| p.pool.is_default()), "somebody is still in a pool");
        });
        assert!(world.machine.journal().baselines().is_empty());
        for (what, (done, refused)) in world.did {
            let sum = did.entry(what).or_default();
            *sum = (sum.0 + done, sum.1 + refused);
        }
    }
    if asked.is_some() {
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "figure: {operations} operations on pools, done and refused: {did:?}");
    }
    for (what, (done, refused)) in &did {
        assert!(*done > 0, "{what} were never done ({refused} refused)");
    }
}
