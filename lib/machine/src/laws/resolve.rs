//! Converts indices in a script to numbers of the machine.

use super::command::{Edit, Holder, Memory, Pick};
use super::observed::Observed;
use super::operation::Operation;
use super::subject::Abilities;
use millpond_model::{
    ClassTable, Control, ControlHolder, ControlSetting, CpuId, CpuSet, FssQuantum, LgrpId, LwpId, Pid,
    PsetId, Quantum, QuantumTable, SetMemory, TsRow, TsTable,
};

/// The lists that indices select from.
pub struct Scene<'p> {
    /// The present state of the machine.
    pub seen: &'p Observed,
    /// The abilities of the machine.
    pub abilities: &'p Abilities,
    /// The processes of the script.
    pub processes: &'p [Pid],
}

impl Scene<'_> {
    /// Converts indices to numbers. `None` if there is no object to select, or the machine does not have the ability.
    pub fn resolve(&self, edit: &Edit) -> Option<Operation> {
        let thread = |pid: Pid, pick: &Option<Pick>| self.pick_thread(pid, *pick);
        Some(match edit {
            Edit::Create { cpus, shared, forced } => Operation::Create {
                cpus: self.pick_cpus(cpus),
                shared: (*shared && self.abilities.shared) || !self.abilities.exclusive,
                forced: *forced,
            },
            Edit::Destroy { set } => Operation::Destroy { set: self.pick_set(*set)? },
            Edit::Assign { set, cpus, forced } => {
                let set = self.pick_set(*set)?;
                Operation::Assign { set, cpus: self.pick_cpus(cpus), forced: *forced }
            }
            Edit::Remove { cpus, forced } => {
                Operation::Assign { set: PsetId::DEFAULT, cpus: self.pick_cpus(cpus), forced: *forced }
            }
            Edit::BindSet { process, thread: t, set } => {
                let pid = self.pick_process(*process)?;
                Operation::BindSet { pid, lwps: thread(pid, t), to: Some(self.pick_set(*set)?) }
            }
            Edit::UnbindSet { process, thread: t } => {
                let pid = self.pick_process(*process)?;
                Operation::BindSet { pid, lwps: thread(pid, t), to: None }
            }
            Edit::BindCpu { process, thread: t, cpus } => {
                let pid = self.pick_process(*process)?;
                let most = if self.abilities.sees_wide_heirs { cpus.len() } else { 1 };
                let to = cpus.iter().take(most).map(|cpu| self.pick_cpu(*cpu)).collect();
                Operation::BindCpu { pid, lwps: thread(pid, t), to }
            }
            Edit::UnbindCpu { process, thread: t } => {
                let pid = self.pick_process(*process)?;
                Operation::BindCpu { pid, lwps: thread(pid, t), to: CpuSet::new() }
            }
            Edit::Memory { set, to } => {
                let set = self.pick_set(*set)?;
                let to = match to {
                    Memory::All => SetMemory::All,
                    Memory::Local => SetMemory::Local,
                    Memory::Nodes(picks) => {
                        SetMemory::Nodes(picks.iter().map(|pick| self.pick_node(*pick)).collect())
                    }
                };
                return self.abilities.lgroups.then_some(Operation::Memory { set, to });
            }
            Edit::Class { process, request } => {
                let pid = self.pick_process(*process)?;
                return self.abilities.classes.then_some(Operation::Class { pid, request: *request });
            }
            Edit::Control { holder, shares, value } => {
                let (control, value) = match (shares, value) {
                    (true, value) => (Control::CpuShares, value.map(|value| u32::from(value % 30))),
                    (false, value) => (Control::CpuCap, value.map(|value| u32::from(value % 400) + 1)),
                };
                let to = match value {
                    Some(value) => ControlSetting::of(control, value).ok()?,
                    None => ControlSetting::unset(control),
                };
                let holder = self.pick_holder(*holder)?;
                return self.abilities.controls.then_some(Operation::Control { holder, to });
            }
            Edit::Row { table, level, value } => {
                return self.table(*table, *level, *value).map(|table| Operation::Table { table });
            }
            Edit::State { cpus, to, forced } => {
                let possible = self.abilities.states.contains(to);
                let state = Operation::State { cpus: self.pick_cpus(cpus), to: *to, forced: *forced };
                return possible.then_some(state);
            }
        })
    }

    /// A table with one row replaced, derived from a number.
    fn table(&self, table: Pick, level: Pick, value: u16) -> Option<ClassTable> {
        let tables = self.seen.tables.as_ref()?;
        let ticks = u32::from(value % 40) + 1;
        let quantum = if value.is_multiple_of(11) { Quantum::Infinite } else { Quantum::Ticks(ticks) };
        let quanta = |table: &QuantumTable| {
            let mut rows = table.rows().to_vec();
            let at = usize::from(level.0) % rows.len().max(1);
            *rows.get_mut(at)? = quantum;
            QuantumTable::new(rows).ok()
        };
        match table.of(&[0, 1, 2, 3])? {
            0 => quanta(&tables.rt).map(ClassTable::Rt),
            1 => quanta(&tables.fx).map(ClassTable::Fx),
            2 => FssQuantum::new(ticks).ok().map(ClassTable::Fss),
            _ => {
                let mut rows = tables.ts.rows().to_vec();
                let at = usize::from(level.0) % rows.len().max(1);
                let to = |by: u16| u8::try_from(value / by % 60).unwrap_or(0);
                let maxwait = u32::from(value % 3);
                *rows.get_mut(at)? =
                    TsRow { quantum: ticks, tqexp: to(1), slpret: to(7), maxwait, lwait: to(49) };
                TsTable::new(rows).ok().map(ClassTable::Ts)
            }
        }
    }

    fn pick_cpus(&self, picks: &[Pick]) -> Vec<CpuId> {
        let mut chosen: Vec<CpuId> = Vec::new();
        for pick in picks {
            let rest: Vec<CpuId> =
                self.abilities.processors.iter().copied().filter(|cpu| !chosen.contains(cpu)).collect();
            match (*pick, chosen.last()) {
                (Pick::AGAIN, Some(last)) => chosen.push(*last),
                (pick, _) if pick.is_position() => chosen.extend(pick.of(&rest)),
                (pick, _) => chosen.push(self.pick_cpu(pick)),
            }
        }
        chosen
    }

    fn pick_cpu(&self, pick: Pick) -> CpuId {
        let last = self.seen.cpus().highest().map_or(0, |cpu| cpu.0);
        pick.of(&self.abilities.processors).unwrap_or(CpuId(last + 1))
    }

    fn pick_node(&self, pick: Pick) -> LgrpId {
        let last = self.seen.nodes.last().map_or(0, |node| node.0);
        pick.of(&self.seen.nodes).unwrap_or(LgrpId(last + 1))
    }

    fn pick_set(&self, pick: Pick) -> Option<PsetId> {
        let sets: Vec<PsetId> = self.seen.sets.iter().map(|s| s.id).collect();
        match pick {
            Pick::SPECIAL => Some(PsetId::DEFAULT),
            Pick::UNKNOWN => Some(PsetId(sets.iter().map(|s| s.0).max().unwrap_or(0) + 1)),
            position => position.of(&sets),
        }
    }

    fn pick_process(&self, pick: Pick) -> Option<Pid> {
        match pick {
            Pick::SPECIAL => self.seen.kernel.first().copied(),
            Pick::UNKNOWN => Some(self.seen.nobody()),
            position => position.of(self.processes),
        }
    }

    fn pick_holder(&self, holder: Holder) -> Option<ControlHolder> {
        let named = |wanted: fn(&ControlHolder) -> bool, pick: Pick| {
            let all: Vec<&ControlHolder> =
                self.seen.controls.keys().filter(|holder| wanted(holder)).collect();
            pick.of(&all).cloned()
        };
        let nowhere = "nowhere".to_owned();
        match holder {
            Holder::Project(pick) => named(|one| matches!(one, ControlHolder::Project(_)), pick)
                .or(Some(ControlHolder::Project(nowhere))),
            Holder::Zone(pick) => named(|one| matches!(one, ControlHolder::Zone(_)), pick)
                .or(Some(ControlHolder::Zone(nowhere))),
            Holder::Process(pick) => self.pick_process(pick).map(ControlHolder::Process),
        }
    }

    fn pick_thread(&self, pid: Pid, pick: Option<Pick>) -> Option<Vec<LwpId>> {
        let unknown = LwpId(self.seen.nobody().0);
        pick.map(|pick| vec![pick.of(&self.seen.lwps(pid)).unwrap_or(unknown)])
    }
}
