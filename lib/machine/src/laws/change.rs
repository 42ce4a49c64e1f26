//! Makes a change through the interface, and compares its report with what was observed.

use super::observed::Observed;
use super::operation::Operation;
use crate::facets::{CreateOptions, Rebinding, Reclassed, Recontrolled, StateChange};
use crate::{Machine, Refusal, Writer};
use millpond_model::{ControlSetting, CpuId, CpuSet, Lwp, LwpId, Move, Pid, PsetId, SetMemory};

/// The report of a completed change.
pub enum Done {
    Moves(Option<PsetId>, Vec<Move>),
    Destroyed,
    Sets(Vec<Rebinding<PsetId>>),
    Cpus(Vec<Rebinding<CpuSet>>),
    States(Vec<StateChange>),
    Memory(SetMemory),
    Class(Reclassed),
    Control(Recontrolled),
    Table,
}

/// Prepares and applies a change like a command: as the only writer.
pub fn attempt(machine: &dyn Machine, operation: &Operation) -> Result<Done, Refusal> {
    let writer = Writer::open(machine)?;
    match operation {
        Operation::Create { cpus, shared, forced } => {
            let options = CreateOptions { keep_others: *shared };
            let (id, moves) =
                writer.commit(machine.psets()?.prepare_create(cpus, options, *forced)?)?.outcome;
            Ok(Done::Moves(Some(id), moves))
        }
        Operation::Assign { set, cpus, forced } => {
            let change = machine.psets()?.prepare_assign(*set, cpus, *forced)?;
            Ok(Done::Moves(None, writer.commit(change)?.outcome))
        }
        Operation::Destroy { set } => {
            writer.commit(machine.psets()?.prepare_destroy(*set)?)?;
            Ok(Done::Destroyed)
        }
        Operation::BindSet { pid, lwps, to } => {
            let change = machine.threads()?.prepare_bind_set(*pid, lwps.as_deref(), *to)?;
            Ok(Done::Sets(writer.commit(change)?.outcome))
        }
        Operation::BindCpu { pid, lwps, to } => {
            let change = machine.threads()?.prepare_bind_cpus(*pid, lwps.as_deref(), to)?;
            Ok(Done::Cpus(writer.commit(change)?.outcome))
        }
        Operation::Memory { set, to } => {
            let change = machine.lgroups()?.prepare_set_memory(*set, to.clone())?;
            Ok(Done::Memory(writer.commit(change)?.outcome))
        }
        Operation::Class { pid, request } => {
            let change = machine.dispatcher()?.prepare_class(*pid, request)?;
            Ok(Done::Class(writer.commit(change)?.outcome))
        }
        Operation::Control { holder, to } => {
            let change = machine.controls()?.prepare_set(holder, *to)?;
            Ok(Done::Control(writer.commit(change)?.outcome))
        }
        Operation::Table { table } => {
            writer.commit(machine.dispatcher()?.prepare_set_table(table.clone())?)?;
            Ok(Done::Table)
        }
        Operation::State { cpus, to, forced } => match cpus.as_slice() {
            [cpu] => {
                let change = machine.processors()?.prepare_state(*cpu, *to, *forced)?;
                Ok(Done::States(vec![writer.commit(change)?.outcome]))
            }
            _ => {
                let change = machine.processors()?.prepare_states(cpus, *to, *forced)?;
                Ok(Done::States(writer.commit(change)?.outcome))
            }
        },
    }
}

/// The first false statement in the report of a change, if any.
pub fn tells(done: &Done, operation: &Operation, before: &Observed) -> Option<String> {
    let lie = |what: String| Some(what);
    match (done, operation) {
        (Done::Moves(id, moves), Operation::Create { cpus, .. } | Operation::Assign { cpus, .. }) => {
            let to = match (id, operation) {
                (Some(id), _) => *id,
                (None, Operation::Assign { set, .. }) => *set,
                _ => PsetId::DEFAULT,
            };
            let want: Vec<Move> =
                cpus.iter().map(|cpu| Move { cpu: *cpu, from: before.set_of(*cpu), to }).collect();
            if *moves == want { None } else { lie(format!("it said {moves:?}, true is {want:?}")) }
        }
        (Done::States(changes), Operation::State { cpus, to, .. }) => {
            let from = |cpu: &CpuId| before.processors.get(cpu).map(|p| p.state);
            let want: Vec<StateChange> = cpus
                .iter()
                .filter_map(|cpu| Some(StateChange { cpu: *cpu, from: from(cpu)?, to: *to }))
                .collect();
            if *changes == want { None } else { lie(format!("it said {changes:?}, true is {want:?}")) }
        }
        (Done::Sets(list), Operation::BindSet { pid, lwps, to }) => {
            let was = |lwp: LwpId| {
                let thread = before.threads.get(&Lwp { pid: *pid, lwp })?;
                (!thread.set.is_default()).then_some(thread.set)
            };
            tells_rebinding(list, *pid, lwps.as_deref(), *to, &before.lwps(*pid), &was)
        }
        (Done::Cpus(list), Operation::BindCpu { pid, lwps, to }) => {
            let bound = |cpus: &CpuSet| (!cpus.is_empty()).then(|| cpus.clone());
            let was = |lwp: LwpId| bound(&before.threads.get(&Lwp { pid: *pid, lwp })?.cpus);
            tells_rebinding(list, *pid, lwps.as_deref(), bound(to), &before.lwps(*pid), &was)
        }
        (Done::Memory(from), Operation::Memory { set, .. }) => {
            let (want, _) = before.memory.get(set)?;
            if from == want { None } else { lie(format!("it said that it was {from:?}, true is {want:?}")) }
        }
        (Done::Class(done), Operation::Class { pid, request }) => {
            let from = *before.classes.get(pid)?;
            let (to, clamped) = request.apply(from, before.tables.as_ref()?).ok()?;
            let want = Reclassed { pid: *pid, from, to, clamped };
            if *done == want { None } else { lie(format!("it said {done:?}, true is {want:?}")) }
        }
        (Done::Control(done), Operation::Control { holder, to }) => {
            let (shares, cap) = before.controls.get(holder).copied().unwrap_or_default();
            let from = match to {
                ControlSetting::CpuShares(_) => ControlSetting::CpuShares(shares),
                ControlSetting::CpuCap(_) => ControlSetting::CpuCap(cap),
            };
            let want = Recontrolled { holder: holder.clone(), from, to: *to };
            if *done == want { None } else { lie(format!("it said {done:?}, true is {want:?}")) }
        }
        (Done::Destroyed, Operation::Destroy { .. }) | (Done::Table, Operation::Table { .. }) => None,
        _ => lie("it speaks of something else".into()),
    }
}

/// One line for the process with one of its threads, or one line for each named thread.
fn tells_rebinding<T: Clone + PartialEq + std::fmt::Debug>(
    list: &[Rebinding<T>],
    pid: Pid,
    lwps: Option<&[LwpId]>,
    to: Option<T>,
    there: &[LwpId],
    was: &dyn Fn(LwpId) -> Option<T>,
) -> Option<String> {
    let right = match lwps {
        Some(lwps) => {
            let want =
                lwps.iter().map(|lwp| Rebinding { pid, lwp: Some(*lwp), from: was(*lwp), to: to.clone() });
            list.iter().cloned().eq(want)
        }
        None => matches!(list, [one] if one.pid == pid && one.lwp.is_none() && one.to == to
            && there.iter().any(|lwp| was(*lwp) == one.from)),
    };
    if right { None } else { Some(format!("it said {list:?}")) }
}
