//! The pools facet.
//!
//! A process carries the id of its pool, and its threads are firmly bound to the pool's set; both are inherited. The steps of
//! a commit are in an order in which none breaks a rule: new sets, CPUs on their way into the default set, CPUs between other
//! sets, CPUs out of the default set, processes, removed sets, and the configuration.

use crate::change_builder::ChangeBuilder;
use crate::machine::SimMachine;
use crate::tables::{Bond, LwpRecord, SetRecord, Tables};
use crate::threads::check_cpu_stays_inside;
use millpond_formats::pools::properties::local_memory;
use millpond_machine::facets::{Member, StartOption, fences_stay};
use millpond_machine::{Change, Pools, Reason, Refusal, Subject};
use millpond_model::pools::PoolsState;
use millpond_model::{CpuId, CpuSet, Lwp, Pid, PoolId, PsetId, SetMemory, State};
use std::collections::BTreeMap;

impl SimMachine {
    /// Refuses changes of single sets while pools are enabled.
    pub(crate) fn sets_are_free(&self) -> Result<(), Refusal> {
        match self.view(|s| s.tables.pools.is_some()) {
            true => Err(Refusal::operation(Reason::PoolsEnabled)),
            false => Ok(()),
        }
    }
}

impl Pools for SimMachine {
    fn state(&self) -> Result<Option<PoolsState>, Refusal> {
        Ok(self.view(|s| present(&s.tables)))
    }

    fn members(&self) -> Result<BTreeMap<Pid, PoolId>, Refusal> {
        Ok(self.view(|s| {
            let inside = s.tables.processes.iter().filter(|(_, p)| !p.pool.is_default());
            inside.map(|(pid, p)| (*pid, p.pool)).collect()
        }))
    }

    fn prepare_commit(&self, to: Option<PoolsState>) -> Result<Change<Option<PoolsState>>, Refusal> {
        let mut builder = self.builder();
        if builder.tables.pools.is_none() && !builder.tables.sets.is_empty() {
            let sets = builder.tables.sets.keys().copied().collect();
            return Err(Refusal::operation(Reason::PsetsExist(sets)));
        }
        let to = to.map(PoolsState::numbered);
        let tables = &builder.tables;
        let fences = tables
            .fences
            .iter()
            .map(|(set, fence)| (*set, &fence.name, tables.members(*set).into_iter().collect::<CpuSet>()));
        fences_stay(fences, to.as_ref())?;
        let now = self.view(crate::state::SimState::wall);
        let wanted = wanted(&builder, to.as_ref())?;
        let (starting, stopping): (Vec<_>, Vec<_>) =
            wanted.states.iter().copied().partition(|(_, state)| state.runs_threads());
        for (cpu, state) in starting {
            builder.change_state(cpu, state, false, now)?;
        }
        let shared = to.as_ref().is_some_and(|s| s.keep_others);
        for set in wanted.sets.keys().filter(|s| !s.is_default()) {
            if !builder.tables.sets.contains_key(set) {
                let serial = builder.tables.sets.values().map(|s| s.serial).max().unwrap_or(0) + 1;
                builder.set(*set, Some(SetRecord { shared, serial }))?;
            }
        }
        move_processors(&mut builder, &wanted.sets)?;
        for pset in to.iter().flat_map(|s| &s.conf.psets) {
            let local = local_memory(pset);
            if let (Some(local), Some(set)) = (local, pset.id.filter(|set| !set.is_default())) {
                builder.memory(set, if local { &SetMemory::Local } else { &SetMemory::All })?;
            }
        }
        let pools = to.as_ref().map(PoolsState::sets).unwrap_or_default();
        follow(&mut builder, &pools)?;
        self.bind_zones(&mut builder, to.as_ref(), &pools)?;
        let gone: Vec<PsetId> =
            builder.tables.sets.keys().copied().filter(|s| !wanted.sets.contains_key(s)).collect();
        for set in gone {
            builder.set(set, None)?;
        }
        for (cpu, state) in stopping {
            builder.change_state(cpu, state, false, now)?;
        }
        check(&builder.tables)?;
        builder.pools(to.as_ref())?;
        let what = if to.is_some() { "commit a configuration of pools" } else { "disable pools" };
        let outcome = present(&builder.tables);
        Ok(builder.finish(what, outcome))
    }

    fn zone_key(&self, zone: &str) -> Result<String, Refusal> {
        self.processes_of(&Member::Zone(zone.to_owned())).map(|_| zone.to_owned())
    }

    fn prepare_join(&self, member: &Member, to: PoolId) -> Result<Change<()>, Refusal> {
        let mut builder = self.builder();
        let Some(mut state) = builder.tables.pools.clone() else {
            return Err(Refusal::operation(Reason::PoolsDisabled));
        };
        let Some(set) = state.sets().get(&to).copied() else {
            return Err(Refusal::new(Subject::Pool(to), Reason::NoSuchPool));
        };
        let (subject, pids) = self.processes_of(member)?;
        if builder.tables.active(set).is_empty() {
            return Err(Refusal::new(subject, Reason::EmptyPset(set))
                .hint("transfer a CPU to the set of the pool first (poolcfg -d)"));
        }
        if let Member::Zone(name) = member {
            state.zones.remove(name);
            if !to.is_default() {
                state.zones.insert(name.clone(), to);
            }
            builder.pools(Some(&state))?;
        }
        for pid in pids {
            join(&mut builder, pid, to, set, Some(&subject))?;
        }
        Ok(builder.finish(format!("bind {member} to pool {to}"), ()))
    }

    fn prepare_persist(&self, zone: &str, _: PoolId) -> Result<Change<()>, Refusal> {
        Err(Refusal::new(Subject::Zone(zone.to_owned()), never_starts()))
    }

    fn start_options(&self, _: PoolId) -> Result<Vec<StartOption>, Refusal> {
        Err(Refusal::operation(never_starts()))
    }
}

/// Zones of simulated machines exist from the beginning.
fn never_starts() -> Reason {
    Reason::Machine("zones of simulated machines are not started".to_owned())
}

impl SimMachine {
    /// Binds zones whose binding changes. The binding of a zone that does not exist yet is stored.
    fn bind_zones(
        &self,
        builder: &mut ChangeBuilder,
        to: Option<&PoolsState>,
        pools: &BTreeMap<PoolId, PsetId>,
    ) -> Result<(), Refusal> {
        let before = builder.tables.pools.as_ref().map(|state| state.zones.clone()).unwrap_or_default();
        for (name, pool) in to.iter().flat_map(|state| &state.zones) {
            let Some(set) = pools.get(pool).filter(|_| before.get(name) != Some(pool)) else { continue };
            if !self.view(|s| s.zones.contains(name)) {
                continue;
            }
            let (subject, pids) = self.processes_of(&Member::Zone(name.clone()))?;
            if builder.tables.active(*set).is_empty() {
                return Err(Refusal::new(subject, Reason::EmptyPset(*set))
                    .hint("leave it a CPU, or bind the zone to another pool (poolbind)"));
            }
            for pid in pids {
                join(builder, pid, *pool, *set, Some(&subject))?;
            }
        }
        Ok(())
    }

    fn processes_of(&self, member: &Member) -> Result<(Subject, Vec<Pid>), Refusal> {
        self.view(|s| match member {
            Member::Process(pid) => {
                let subject = Subject::Process(*pid);
                match s.tables.processes.get(pid) {
                    None => Err(Refusal::new(subject, Reason::NoSuchProcess)),
                    Some(process) if process.kernel => Err(Refusal::new(subject, Reason::KernelThread)),
                    Some(_) => Ok((subject, vec![*pid])),
                }
            }
            Member::Zone(name) => {
                let subject = Subject::Zone(name.clone());
                if !s.zones.contains(name) || s.halted_zones.contains(name) {
                    return Err(Refusal::new(subject, Reason::NoSuchZone));
                }
                let inside = s.tables.processes.iter().filter(|(_, p)| p.zone == *name && !p.kernel);
                Ok((subject, inside.map(|(pid, _)| *pid).collect()))
            }
        })
    }
}

/// The configuration, with the present CPUs of its sets.
pub(crate) fn present(tables: &Tables) -> Option<PoolsState> {
    let mut state = tables.pools.clone()?;
    state.catch_up(&tables.processors.iter().map(|(id, p)| (*id, (p.set, p.state))).collect());
    Some(state)
}

/// The CPUs that a configuration asks for.
struct WantedCpus {
    sets: BTreeMap<PsetId, CpuSet>,
    states: Vec<(CpuId, State)>,
}

fn wanted(builder: &ChangeBuilder, to: Option<&PoolsState>) -> Result<WantedCpus, Refusal> {
    let mut wanted = WantedCpus { sets: BTreeMap::new(), states: Vec::new() };
    let mut rest = builder.tables.where_cpu(|_| true);
    for pset in to.iter().flat_map(|s| &s.conf.psets) {
        let set = pset.id.unwrap_or(PsetId::DEFAULT);
        for cpu in pset.cpus() {
            if !rest.remove(cpu.id) {
                let known = builder.tables.processors.contains_key(&cpu.id);
                let reason = if known { Reason::NamedTwice } else { builder.no_such_processor() };
                return Err(Refusal::new(Subject::Processor(cpu.id), reason));
            }
            let is = builder.tables.processors.get(&cpu.id).map(|p| p.state);
            if let (Some(state), Some(is)) = (cpu.state(), is)
                && state != is
            {
                wanted.states.push((cpu.id, state));
            }
        }
        wanted.sets.insert(set, pset.cpu_set());
    }
    let default = wanted.sets.entry(PsetId::DEFAULT).or_default();
    *default = &*default | &rest;
    Ok(wanted)
}

/// Moves every CPU to its set. The default set receives before it gives, because it must never be without a CPU.
fn move_processors(builder: &mut ChangeBuilder, wanted: &BTreeMap<PsetId, CpuSet>) -> Result<(), Refusal> {
    let from = |cpu: CpuId, builder: &ChangeBuilder| builder.tables.processors.get(&cpu).map(|p| p.set);
    let mut moves: Vec<(u8, CpuId, PsetId)> = Vec::new();
    for (set, cpus) in wanted {
        for cpu in cpus.iter() {
            let is = from(cpu, builder).unwrap_or(PsetId::DEFAULT);
            let turn = if set.is_default() { 0 } else { 1 + u8::from(is.is_default()) };
            if is != *set {
                moves.push((turn, cpu, *set));
            }
        }
    }
    moves.sort_unstable();
    for (_, cpu, set) in moves {
        builder.release_cpu(cpu, true)?;
        builder.place(cpu, set)?;
    }
    Ok(())
}

/// Moves every process into the set of its pool; if the pool is gone, into the default pool.
pub(crate) fn follow(builder: &mut ChangeBuilder, pools: &BTreeMap<PoolId, PsetId>) -> Result<(), Refusal> {
    let inside = builder.tables.processes.iter().filter(|(_, p)| !p.pool.is_default());
    let members: Vec<(Pid, PoolId)> = inside.map(|(pid, p)| (*pid, p.pool)).collect();
    for (pid, pool) in members {
        match pools.get(&pool) {
            Some(set) => join(builder, pid, pool, *set, None)?,
            None => join(builder, pid, PoolId::DEFAULT, PsetId::DEFAULT, None)?,
        }
    }
    Ok(())
}

/// Moves a process into a pool with a set. Refuses if one of its threads is bound to a CPU outside the set. `named` is the subject of
/// that refusal; without it, the process may end before the step is applied.
fn join(
    builder: &mut ChangeBuilder,
    pid: Pid,
    pool: PoolId,
    set: PsetId,
    named: Option<&Subject>,
) -> Result<(), Refusal> {
    builder.pool(pid, pool)?;
    let bond = Some(set).filter(|s| !s.is_default()).map(Bond::hard);
    let threads: Vec<(Lwp, LwpRecord)> = match builder.tables.processes.get(&pid) {
        None => Vec::new(),
        Some(p) => p.lwps.iter().map(|(lwp, r)| (Lwp { pid, lwp: *lwp }, r.clone())).collect(),
    };
    for (lwp, record) in threads {
        let subject = named.cloned().unwrap_or(Subject::Process(pid));
        check_cpu_stays_inside(&builder.tables, subject, &record, bond.map(|b| b.to))?;
        builder.bind_set(lwp, bond, named.is_none())?;
    }
    Ok(())
}

/// Checks the final state: every set with threads has a CPU.
fn check(tables: &Tables) -> Result<(), Refusal> {
    let used = tables.lwps().map(|(_, l)| l.set_id()).find(|set| tables.active(*set).is_empty());
    match used {
        Some(set) => Err(Refusal::new(Subject::Pset(set), Reason::EmptyPset(set))
            .hint("leave it a CPU, or move its processes to another pool first (poolbind)")),
        None => Ok(()),
    }
}
