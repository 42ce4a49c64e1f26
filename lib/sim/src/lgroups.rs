//! The lgroups facet: the topology's lgroups are the nodes, and the kernel chooses the homes of threads.

use crate::kernel::SegmentId;
use crate::kernel::{LgroupAffinities, Placed};
use crate::machine::SimMachine;
use crate::state::SimState;
use crate::tables::{LwpRecord, Tables};
use crate::threads::Targets;
use millpond_machine::facets::{Homed, Lgroups, NodeMemory, NodeStatus, Reach, nothing_near};
use millpond_machine::{Change, Reason, Refusal, Subject};
use millpond_model::{Affinity, CpuSet, Lgroup, LgroupTree, LgrpId, Lwp, LwpId, Pid, PsetId, SetMemory};
use std::collections::{BTreeMap, BTreeSet};

/// Picoseconds per displayed unit of latency.
const PS: u64 = 1_000;

impl SimState {
    fn lgroup_tree(&self) -> LgroupTree {
        let row = |row: &Vec<u64>| row.iter().map(|ps| ps / PS).collect();
        let latency: Vec<Vec<u64>> = self.kernel.hardware().latency_ps.iter().map(row).collect();
        LgroupTree::of(self.topology.lgroups(), &latency)
    }

    fn node(&self, at: u32) -> LgrpId {
        self.topology.lgroups().get(at as usize).map_or(LgrpId(0), |l| l.id)
    }

    /// Segment memory in use in an lgroup, in KiB.
    fn used_kib<'p>(&self, segments: impl Iterator<Item = &'p Placed>) -> BTreeMap<LgrpId, u64> {
        let mut used: BTreeMap<LgrpId, u64> = BTreeMap::new();
        for segment in segments {
            let parts = segment.lgroups.len().max(1) as u64;
            for (lgroup, at) in segment.lgroups.iter().zip(0u64..) {
                // The remainder goes to the first ones.
                let share = segment.kib / parts + u64::from(at < segment.kib % parts);
                *used.entry(self.node(*lgroup)).or_default() += share;
            }
        }
        used
    }

    fn homed(&self, lwp: Lwp, record: &LwpRecord) -> Homed {
        let thread = self.threads.iter().find(|(_, other)| **other == lwp).map(|(thread, _)| *thread);
        let home = match thread {
            Some(thread) => self.kernel.thread(thread).home,
            None => self.first_home(record),
        };
        let strength = |at: u32| match record.affinities.of(at) {
            0 => Affinity::None,
            1 => Affinity::Weak,
            _ => Affinity::Strong,
        };
        let lgroups = (0u32..).zip(self.topology.lgroups()).map(|(at, l)| (l.id, strength(at)));
        let affinities = lgroups.filter(|(_, affinity)| *affinity != Affinity::None).collect();
        Homed { lwp, home: self.node(home), affinities }
    }

    /// The home of a thread that has never run: the most preferred lgroup where it may run.
    fn first_home(&self, record: &LwpRecord) -> u32 {
        let allowed = self.tables.allowed(record);
        let lgroups = (0u32..).zip(self.topology.lgroups()).filter(|(_, l)| !l.cpus.is_disjoint(&allowed));
        lgroups
            .max_by_key(|(at, _)| (record.affinities.of(*at), std::cmp::Reverse(*at)))
            .map_or(0, |(at, _)| at)
    }

    fn place_of(&self, node: LgrpId) -> Result<u32, Refusal> {
        let at = self.topology.lgroups().iter().position(|l| l.id == node);
        let at = at.and_then(|at| u32::try_from(at).ok()).filter(|at| *at < u64::BITS);
        at.ok_or_else(|| {
            let last = u64::BITS;
            Refusal::operation(Reason::Machine(format!(
                "a simulated thread can prefer one of the first {last} lgroups only"
            )))
        })
    }

    fn active_in(&self, l: &Lgroup) -> CpuSet {
        &l.cpus & &self.tables.where_cpu(|p| p.state.runs_threads())
    }
}

/// A thread's affinities with the one for `at` changed.
fn with(affinities: LgroupAffinities, at: u32, affinity: Affinity) -> LgroupAffinities {
    let bit = 1u64 << at;
    let (strong, weak) = (affinities.strong & !bit, affinities.weak & !bit);
    match affinity {
        Affinity::None => LgroupAffinities { strong, weak },
        Affinity::Weak => LgroupAffinities { strong, weak: weak | bit },
        Affinity::Strong => LgroupAffinities { strong: strong | bit, weak },
    }
}

fn existing(tables: &Tables, set: PsetId) -> Result<(), Refusal> {
    let refuse = |reason| Err(Refusal::new(Subject::Pset(set), reason));
    match set {
        set if set.is_default() => refuse(Reason::DefaultPset),
        set if !tables.has_set(set) => refuse(Reason::NoSuchPset),
        _ => Ok(()),
    }
}

impl Lgroups for SimMachine {
    fn tree(&self) -> Result<LgroupTree, Refusal> {
        Ok(self.view(SimState::lgroup_tree))
    }

    fn nodes(&self) -> Result<Vec<NodeStatus>, Refusal> {
        Ok(self.view(|s| {
            let used = s.used_kib(s.kernel.segments_in_use());
            let load = s.kernel.runnable_by_home();
            let one = |(at, l): (usize, &Lgroup)| {
                let cpus = s.active_in(l);
                let memory = l.memory_kib.filter(|kib| *kib > 0).map(|installed_kib| NodeMemory {
                    installed_kib,
                    free_kib: installed_kib.saturating_sub(used.get(&l.id).copied().unwrap_or(0)),
                });
                let load = load.get(at).copied().unwrap_or(0) * 1_000;
                NodeStatus { node: l.id, load_milli: (!cpus.is_empty()).then_some(load), cpus, memory }
            };
            s.topology.lgroups().iter().enumerate().map(one).collect()
        }))
    }

    /// The user of the commands is not bound.
    fn own_reach(&self) -> Result<Reach, Refusal> {
        Ok(self.view(|s| Reach {
            cpus: s.tables.allowed(&LwpRecord::default()),
            nodes: Lgroup::ids(s.topology.lgroups()),
        }))
    }

    fn homes(&self, pid: Pid) -> Result<Vec<Homed>, Refusal> {
        self.view(|s| {
            let process = s.tables.processes.get(&pid);
            let process = process.ok_or(Refusal::new(Subject::Process(pid), Reason::NoSuchProcess))?;
            Ok(process.lwps.iter().map(|(lwp, r)| s.homed(Lwp { pid, lwp: *lwp }, r)).collect())
        })
    }

    fn pages(&self, pid: Pid) -> Result<BTreeMap<LgrpId, u64>, Refusal> {
        self.view(|s| {
            if !s.tables.processes.contains_key(&pid) {
                return Err(Refusal::new(Subject::Process(pid), Reason::NoSuchProcess));
            }
            let threads = s.threads.iter().filter(|(_, lwp)| lwp.pid == pid);
            let used = threads.filter_map(|(thread, _)| s.kernel.memory_of(*thread));
            let segments: BTreeMap<SegmentId, &Placed> =
                used.map(|placed| (placed.segment, placed)).collect();
            Ok(s.used_kib(segments.into_values()))
        })
    }

    fn set_memory(&self, set: PsetId) -> Result<(SetMemory, BTreeSet<LgrpId>), Refusal> {
        self.view(|s| {
            existing(&s.tables, set)?;
            let wanted = s.tables.memory.get(&set).cloned().unwrap_or_default();
            let mut nodes: BTreeSet<LgrpId> =
                s.memory_lgroups(set).into_iter().map(|at| s.node(at)).collect();
            if nodes.is_empty() {
                nodes = Lgroup::ids(s.topology.lgroups());
            }
            Ok((wanted, nodes))
        })
    }

    fn prepare_set_memory(&self, set: PsetId, to: SetMemory) -> Result<Change<SetMemory>, Refusal> {
        let mut builder = self.builder();
        existing(&builder.tables, set)?;
        let before = builder.tables.memory.get(&set).cloned().unwrap_or_default();
        if let SetMemory::Nodes(nodes) = &to {
            let has_memory = |node: &LgrpId| {
                self.view(|s| s.topology.lgroups().iter().any(|l| l.id == *node && l.memory_kib != Some(0)))
            };
            if !nodes.iter().all(has_memory) || nodes.is_empty() {
                let why = "one of the lgroups has no memory".to_owned();
                return Err(Refusal::new(Subject::Pset(set), Reason::Machine(why))
                    .hint("lgrpinfo -m shows which have"));
            }
        }
        builder.memory(set, &to)?;
        let active = builder.tables.active(set);
        let near = |l: &Lgroup| l.memory_kib != Some(0) && !l.cpus.is_disjoint(&active);
        let nowhere = to == SetMemory::Local && !self.view(|s| s.topology.lgroups().iter().any(near));
        let mut change = builder.finish(format!("confine the memory of set {set}"), before);
        if nowhere {
            change.notes.push(nothing_near(set));
        }
        Ok(change)
    }

    fn prepare_homes(
        &self,
        pid: Pid,
        lwps: Option<&[LwpId]>,
        homes: &[LgrpId],
    ) -> Result<Change<Vec<Homed>>, Refusal> {
        let mut builder = self.builder();
        let targets = Targets::find(&builder.tables, pid, lwps)?;
        let mut before = Vec::new();
        for ((lwp, record), home) in targets.found.iter().zip(homes.iter().cycle()) {
            let at = self.view(|s| s.place_of(*home))?;
            let usable =
                self.view(|s| !s.topology.lgroups()[at as usize].cpus.is_disjoint(&s.tables.allowed(record)));
            if !usable {
                let group = self.view(|s| s.lgroup_tree().leaf_of(*home)).unwrap_or_default();
                let why = format!("lgroup {group} has no CPU that it may use");
                return Err(Refusal::new(targets.subject(*lwp), Reason::Machine(why))
                    .hint("bind it to a set with CPUs there first: psrset -b"));
            }
            before.push(self.view(|s| s.homed(*lwp, record)));
            builder.prefer(*lwp, with(LgroupAffinities::default(), at, Affinity::Strong))?;
        }
        Ok(builder.finish(format!("move {} home", targets.noun()), before))
    }

    fn prepare_affinities(
        &self,
        pid: Pid,
        lwps: Option<&[LwpId]>,
        affinities: &BTreeMap<LgrpId, Affinity>,
    ) -> Result<Change<Vec<Homed>>, Refusal> {
        let mut builder = self.builder();
        let targets = Targets::find(&builder.tables, pid, lwps)?;
        let mut before = Vec::new();
        for (lwp, record) in &targets.found {
            let mut wanted = record.affinities;
            for (node, affinity) in affinities {
                wanted = with(wanted, self.view(|s| s.place_of(*node))?, *affinity);
            }
            before.push(self.view(|s| s.homed(*lwp, record)));
            builder.prefer(*lwp, wanted)?;
        }
        Ok(builder.finish(format!("set affinities of {}", targets.noun()), before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_machine::facets::CreateOptions;
    use millpond_machine::{Clock, Psets, Threads, Writer};
    use millpond_model::{CpuId, GroupId, Nanos};

    fn started(machine: &SimMachine, line: &str) -> Pid {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        machine.start_load(&crate::workloads::Load::parse(&words).unwrap())
    }

    fn a_second(machine: &SimMachine) {
        machine.sleep_until(Nanos(machine.now().0 + 1_000_000_000));
    }

    fn commit<T>(machine: &SimMachine, change: Result<Change<T>, Refusal>) -> T {
        Writer::open(machine).unwrap().commit(change.unwrap()).unwrap().outcome
    }

    #[test]
    fn latencies_are_those_of_the_machines_file() {
        let machine = SimMachine::named("x4200").unwrap();
        let tree = machine.tree().unwrap();
        let far = |a, b| tree.latency(GroupId(a), GroupId(b));
        assert_eq!([far(0, 0), far(1, 1), far(1, 2)], [Some(105), Some(65), Some(105)]);
    }

    #[test]
    fn a_strong_affinity_is_a_home_and_a_set_elsewhere_is_stronger() {
        let machine = SimMachine::named("x4200").unwrap();
        let pid = started(&machine, "spin -t 4");
        a_second(&machine);
        let homes = || machine.homes(pid).unwrap().into_iter().map(|h| h.home.0).collect::<Vec<_>>();
        assert_eq!(homes().iter().sum::<u32>(), 2, "two for each chip");
        let before = commit(&machine, machine.prepare_homes(pid, None, &[LgrpId(1)]));
        assert_eq!(before.len(), 4);
        assert_eq!(homes(), [1, 1, 1, 1]);
        let loads: Vec<_> = machine.nodes().unwrap().iter().map(|n| n.load_milli).collect();
        assert_eq!(loads, [Some(0), Some(4_000)]);
        let created = machine.prepare_create(&[CpuId(1)], CreateOptions::default(), false);
        commit(&machine, created);
        commit(&machine, machine.prepare_bind_set(pid, None, Some(PsetId(1))));
        assert_eq!(homes(), [0, 0, 0, 0]);
        let refusal = machine.prepare_homes(pid, None, &[LgrpId(1)]).unwrap_err();
        assert_eq!(refusal.reason.to_string(), "lgroup 2 has no CPU that it may use");
    }

    #[test]
    fn the_memory_of_a_set_comes_to_its_processors_and_is_free_again_when_the_set_ends() {
        let machine = SimMachine::named("x4200").unwrap();
        let pid = started(&machine, "tpce -t 2 --sga 1024");
        a_second(&machine);
        let kib = |machine: &SimMachine| {
            let pages = machine.pages(pid).unwrap();
            [0, 1].map(|node| pages.get(&LgrpId(node)).copied().unwrap_or(0))
        };
        assert_eq!(kib(&machine), [524_288, 524_288], "it is large: at random");
        commit(&machine, machine.prepare_create(&[CpuId(2), CpuId(3)], CreateOptions::default(), false));
        commit(&machine, machine.prepare_bind_set(pid, None, Some(PsetId(1))));
        assert_eq!(kib(&machine), [524_288, 524_288]);
        assert!(commit(&machine, machine.prepare_set_memory(PsetId(1), SetMemory::Local)).is_all());
        assert_eq!(kib(&machine), [0, 1_048_576]);
        let free: Vec<_> = machine.nodes().unwrap().iter().map(|n| n.memory.unwrap().free_kib).collect();
        assert_eq!(free, [2_040_832, 2_040_832 - 1_048_576]);
        let saved = SimState::load(&machine.save()).unwrap();
        assert_eq!(saved.save(), machine.save());
        commit(&machine, machine.prepare_destroy(PsetId(1)));
        assert!(machine.view(|s| s.tables.memory.is_empty()));
    }

    #[test]
    fn the_default_set_and_what_does_not_exist_are_refused() {
        let machine = SimMachine::named("x4200").unwrap();
        let refused = |set, to| machine.prepare_set_memory(PsetId(set), to).unwrap_err().reason;
        assert_eq!(refused(0, SetMemory::Local), Reason::DefaultPset);
        assert_eq!(refused(3, SetMemory::Local), Reason::NoSuchPset);
        assert!(machine.homes(Pid(9_999)).is_err() && machine.pages(Pid(9_999)).is_err());
    }
}
