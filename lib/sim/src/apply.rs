//! The kernel's view of the tables. The tables record the settings by commands. The kernel's copy is computed from them after each
//! change, in this direction only. It is not saved; [`SimState::load`] recomputes it. Births and ends of threads come back as
//! events: see [`crate::advance`].

use crate::kernel::{
    ASIDE, Arrangement, CpuIndex, DEFAULT, Id, PartitionId, SETS, Settings, Table, ThreadId, ThreadSettings,
};
use crate::state::{DeviceKind, SimState};
use crate::tables::{LwpRecord, ProcessorRecord, Tables};
use millpond_model::{CpuId, CpuSet, Lgroup, Lwp, PsetId, SetMemory, Topology};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The partition of a set.
pub(crate) fn part_of(set: PsetId) -> PartitionId {
    if set.is_default() { DEFAULT } else { PartitionId(SETS + set.0) }
}

/// Partitions of threads that are bound to several CPUs: one for each set and selection of its CPUs, numbered after those of the sets.
type Choices = BTreeMap<(PsetId, CpuSet), PartitionId>;

fn choices(tables: &Tables) -> Choices {
    let several = |record: &LwpRecord| {
        let bond = record.cpu.as_ref().filter(|bond| bond.to.len() > 1)?;
        Some((record.set_id(), bond.to.clone()))
    };
    let wanted: BTreeSet<_> = tables.lwps().filter_map(|(_, record)| several(record)).collect();
    let numbers = (first_choice(tables).0..).map(PartitionId);
    wanted.into_iter().zip(numbers).collect()
}

/// The first partition after those of the sets.
fn first_choice(tables: &Tables) -> PartitionId {
    let last = tables.sets.keys().next_back().map_or(DEFAULT, |set| part_of(*set)).max(ASIDE);
    PartitionId(last.0 + 1)
}

/// The inputs of the settings.
struct View<'a> {
    topology: &'a Topology,
    tables: &'a Tables,
    choices: Choices,
}

impl View<'_> {
    /// The index of a CPU in the kernel.
    fn index_of(&self, cpu: CpuId) -> Option<CpuIndex> {
        self.topology.processors().iter().position(|p| p.id == cpu).map(CpuIndex::at)
    }

    /// The partition and CPU of a thread.
    fn confinement(&self, record: &LwpRecord) -> (PartitionId, Option<CpuIndex>) {
        let part = match record.set {
            Some(set) => part_of(set.to),
            None if record.aside => ASIDE,
            None => DEFAULT,
        };
        let Some(bond) = &record.cpu else { return (part, None) };
        match self.choices.get(&(record.set_id(), bond.to.clone())) {
            Some(choice) => (*choice, None),
            None => (part, bond.to.lowest().and_then(|cpu| self.index_of(cpu))),
        }
    }

    /// The distribution of CPUs by the tables.
    fn arrangement(&self) -> Arrangement {
        let tables = self.tables;
        let places: Vec<Option<&ProcessorRecord>> =
            self.topology.processors().iter().map(|p| tables.processors.get(&p.id)).collect();
        let count = first_choice(tables).place() + self.choices.len();
        let mut parts: Table<PartitionId, Vec<CpuIndex>> = vec![Vec::new(); count].into();
        for (at, place) in (0u32..).map(CpuIndex).zip(&places) {
            let Some(record) = place.filter(|record| record.state.runs_threads()) else { continue };
            let set = tables.sets.get(&record.set);
            if set.is_some() {
                parts[part_of(record.set)].push(at);
            }
            if record.set.is_default() || set.is_some_and(|set| set.shared) {
                parts[DEFAULT].push(at);
            }
            if record.set.is_default() {
                parts[ASIDE].push(at);
            }
        }
        for ((_, cpus), part) in &self.choices {
            parts[*part] = cpus.iter().filter_map(|cpu| self.index_of(cpu)).collect();
        }
        let part = |place: &Option<&ProcessorRecord>| place.map_or(DEFAULT, |record| part_of(record.set));
        Arrangement { cpus: places.iter().map(part).collect(), parts }
    }

    /// The lgroups of the memory of each partition of an arrangement.
    fn memory(&self, arrangement: &Arrangement) -> Table<PartitionId, Vec<u32>> {
        let mut memory: Table<PartitionId, Vec<u32>> = vec![Vec::new(); arrangement.parts.len()].into();
        for set in self.tables.memory.keys().filter(|set| self.tables.sets.contains_key(set)) {
            memory[part_of(*set)] = memory_lgroups(self.topology, self.tables, *set);
        }
        for ((set, _), part) in &self.choices {
            memory[*part] = memory_lgroups(self.topology, self.tables, *set);
        }
        memory
    }
}

/// The lgroups of a set's memory, by position in the topology; empty for all.
fn memory_lgroups(topology: &Topology, tables: &Tables, set: PsetId) -> Vec<u32> {
    let Some(memory) = tables.memory.get(&set) else { return Vec::new() };
    let active = tables.active(set);
    let meant = |l: &Lgroup| match memory {
        SetMemory::All => false,
        SetMemory::Local => !l.cpus.is_disjoint(&active),
        SetMemory::Nodes(nodes) => nodes.contains(&l.id),
    };
    let has_memory = |l: &Lgroup| l.memory_kib.is_none_or(|kib| kib > 0);
    let lgroups = (0u32..).zip(topology.lgroups());
    lgroups.filter(|(_, l)| meant(l) && has_memory(l)).map(|(at, _)| at).collect()
}

impl SimState {
    /// The tables in the kernel's form.
    pub(crate) fn settings(&self) -> Settings {
        let SimState { topology, tables, threads, devices, .. } = self;
        let view = View { topology, tables, choices: choices(tables) };
        let arrangement = view.arrangement();
        let network = devices.iter().find(|device| device.kind == DeviceKind::Network);
        let index = |cpu: Option<CpuId>| cpu.and_then(|cpu| view.index_of(cpu)).unwrap_or(CpuIndex(0));
        let of_thread = |(thread, lwp): (&ThreadId, &Lwp)| {
            let record = tables.lwp(*lwp)?;
            let (part, bound) = view.confinement(record);
            Some(ThreadSettings {
                thread: *thread,
                part,
                bound,
                affinities: record.affinities,
                class: record.class,
                holder: None,
            })
        };
        Settings {
            dispatch: Arc::clone(&tables.dispatch),
            memory: view.memory(&arrangement),
            network: index(network.and_then(|device| tables.interrupted(device.processor))),
            clock: index(tables.interruptible().lowest()),
            threads: threads.iter().filter_map(of_thread).collect(),
            holders: self.holder_settings(),
            arrangement,
        }
    }

    /// Recomputes the kernel's view, and ends threads that are no longer in the tables. Call it after each change of the tables.
    pub fn apply_tables(&mut self) {
        let settings = self.settings();
        let SimState { tables, threads, kernel, .. } = self;
        kernel.apply(&settings);
        let ended = threads.iter().filter(|(_, lwp)| tables.lwp(**lwp).is_none());
        ended.for_each(|(thread, _)| kernel.end(*thread));
        kernel.apply_controls(&settings);
        self.hold();
        self.hear();
        self.serve_pools();
    }

    /// The lgroups of a set's memory, by position in the topology; empty for all.
    pub(crate) fn memory_lgroups(&self, set: PsetId) -> Vec<u32> {
        memory_lgroups(&self.topology, &self.tables, set)
    }
}

#[cfg(test)]
mod tests {
    use crate::workloads::Load;
    use crate::{SimMachine, SimState};
    use millpond_machine::facets::CreateOptions;
    use millpond_machine::{Clock, Psets, Threads, Writer};
    use millpond_model::{CpuId, CpuSet, Nanos};

    /// A machine with threads in a set, bound to some of its CPUs.
    fn busy() -> SimMachine {
        let machine = SimMachine::named("t2000").unwrap();
        let words: Vec<String> = ["spin", "-t", "4"].map(str::to_owned).to_vec();
        let pid = machine.start_load(&Load::parse(&words).unwrap());
        let writer = Writer::open(&machine).unwrap();
        let cpus = [CpuId(1), CpuId(2), CpuId(3)];
        let set = writer
            .commit(machine.prepare_create(&cpus, CreateOptions::default(), false).unwrap())
            .unwrap()
            .outcome
            .0;
        writer.commit(machine.prepare_bind_set(pid, None, Some(set)).unwrap()).unwrap();
        let two = CpuSet::from_iter([CpuId(1), CpuId(2)]);
        writer.commit(machine.prepare_bind_cpus(pid, None, &two).unwrap()).unwrap();
        machine.sleep_until(Nanos::from_secs(1));
        drop(writer);
        machine
    }

    #[test]
    fn to_apply_the_tables_again_changes_nothing() {
        busy().edit(|s| {
            let before = s.clone();
            s.apply_tables();
            assert_eq!(*s, before);
        });
    }

    #[test]
    fn what_the_kernel_has_of_the_tables_is_made_from_them_when_a_machine_is_loaded() {
        let saved = busy().save();
        let mut wrong: serde_json::Value = serde_json::from_str(&saved).unwrap();
        let kernel = wrong["kernel"].as_object_mut().unwrap();
        let tables = serde_json::to_value(millpond_formats::dispadmin::default_tables(true)).unwrap();
        kernel.insert("tables".into(), tables);
        kernel.insert("clock_cpu".into(), 7.into());
        kernel.insert("parts".into(), serde_json::json!([{ "cpus": [3], "peers": [], "memory": [0] }]));
        kernel["threads"][0]["bound"] = 9.into();
        assert_ne!(wrong.to_string(), saved);
        assert_eq!(SimState::load(&wrong.to_string()).unwrap().save(), saved);
    }
}
