//! The Fences facet. A simulated machine only has other programs, interrupts and memory to keep away from a fence.

use crate::change_builder::ChangeBuilder;
use crate::machine::{SimMachine, named_twice};
use crate::pools::{follow, present};
use crate::psets::{add_set, dissolve, give_back, move_all};
use millpond_machine::facets::{
    CreateOptions, DevicePlace, FenceWish, Fenced, Remainder, has_room, siblings, with_fence, without_fence,
};
use millpond_machine::{Change, Fences, Reason, Refusal};
use millpond_model::{CpuId, Fence, FenceName, Fencing, Others, Proof, PsetId, Shelter, ShelterItem, State};
use std::collections::BTreeMap;

impl Fences for SimMachine {
    fn list(&self) -> Result<Vec<Fence>, Refusal> {
        let mut fences: Vec<Fence> = self.view(|s| {
            let fence = |(set, fencing): (&_, &Fencing)| {
                let cpus = s.tables.members(*set).into_iter().collect();
                let state = |cpu| Some(s.tables.processors.get(&cpu)?.state);
                let breaches = fencing.breaches(&cpus, state);
                Fence { fencing: fencing.clone(), set: *set, cpus, breaches, stays: Vec::new() }
            };
            s.tables.fences.iter().map(fence).collect()
        });
        fences.sort_by(|a, b| a.fencing.name.cmp(&b.fencing.name));
        Ok(fences)
    }

    fn prepare_fence(&self, wish: &FenceWish, forced: bool) -> Result<Change<Fenced>, Refusal> {
        let now = self.view(|s| s.wall());
        let mut builder = self.builder();
        if let Some((set, _)) = builder.tables.fences.iter().find(|(_, fence)| fence.name == wish.name) {
            let cpus = builder.tables.members(*set).into_iter().collect();
            return Err(Refusal::operation(Reason::FenceExists { name: wish.name.clone(), cpus }));
        }
        named_twice(&wish.cpus)?;
        let keep_others = wish.shelter.others == Others::In;
        let fence_of = |cpu: CpuId| {
            let set = builder.tables.processors.get(&cpu)?.set;
            builder.tables.fences.get(&set).map(|fence| fence.name.clone())
        };
        let pools = present(&builder.tables)
            .map(|state| with_fence(state, &wish.name, &wish.cpus, fence_of))
            .transpose()?;
        let id = pools.as_ref().and_then(|state| state.conf.pset(wish.name.as_str())?.id);
        let set = add_set(&mut builder, CreateOptions { keep_others }, id)?;
        let moves = move_all(&mut builder, &wish.cpus, set, forced)?;
        let mut parts = vec![(ShelterItem::Others, builder.steps_so_far())];
        let takes = |cpu: &CpuId| builder.tables.interruptible().contains(*cpu);
        let admitted: Vec<CpuId> =
            wish.cpus.iter().copied().filter(|cpu| wish.shelter.interrupts && takes(cpu)).collect();
        let so_far = builder.steps_so_far();
        for cpu in &admitted {
            builder.change_state(*cpu, State::NoIntr, false, now)?;
        }
        parts.push((ShelterItem::Interrupts, builder.steps_so_far() - so_far));
        let so_far = builder.steps_so_far();
        let stopped = if wish.shelter.siblings_off {
            let in_set = builder.tables.processors.iter().filter(|(_, p)| !p.set.is_default());
            let owners = in_set.map(|(cpu, p)| (*cpu, p.set)).collect();
            let online = builder.tables.where_cpu(|p| p.state.runs_threads());
            let cpus = siblings(&self.view(|s| s.topology.clone()), &wish.cpus, &online, &owners)?;
            cpus.into_iter()
                .filter_map(|cpu| Some((cpu, builder.tables.processors.get(&cpu)?.state)))
                .collect()
        } else {
            BTreeMap::new()
        };
        for cpu in stopped.keys() {
            builder.change_state(*cpu, State::OffLine, forced, now)?;
        }
        parts.push((ShelterItem::Smt, builder.steps_so_far() - so_far));
        let so_far = builder.steps_so_far();
        builder.memory(set, &wish.shelter.memory)?;
        parts.push((ShelterItem::Memory, builder.steps_so_far() - so_far));
        let fencing = Fencing {
            name: wish.name.clone(),
            profile: wish.profile.clone(),
            shelter: wish.shelter.clone(),
            admitted,
            stopped,
            proof: None,
        };
        let so_far = builder.steps_so_far();
        builder.fence(set, Some(&fencing))?;
        if pools.is_some() {
            builder.pools(pools.as_ref())?;
        }
        parts.push((ShelterItem::Others, builder.steps_so_far() - so_far));
        parts.retain(|(_, count)| *count > 0);
        let pool = pools.as_ref().and_then(|state| state.conf.pool(wish.name.as_str())?.id);
        let outcome = Fenced { set, pool, moves, parts, absent: Vec::new() };
        Ok(builder.finish(format!("put up fence {}", wish.name), outcome))
    }

    fn prepare_proof(&self, name: &FenceName, proof: &Proof) -> Result<Change<()>, Refusal> {
        let mut builder = self.builder();
        let (set, fencing) = found(&builder, name)?;
        builder.fence(set, Some(&Fencing { proof: Some(proof.clone()), ..fencing }))?;
        Ok(builder.finish(format!("remember what fence {name} was measured to be"), ()))
    }

    fn device(&self, name: &str) -> Result<DevicePlace, Refusal> {
        Err(Refusal::operation(Reason::NoSuchDevice { name: name.to_owned() }))
    }

    fn prepare_off(&self, name: &FenceName) -> Result<Change<()>, Refusal> {
        let now = self.view(|s| s.wall());
        let mut builder = self.builder();
        let (set, fencing) = found(&builder, name)?;
        let before = present(&builder.tables);
        let cpus = builder.tables.members(set);
        let room = |id, size| before.as_ref().is_none_or(|state| has_room(state, id, size));
        give_back(&mut builder, set, room)?;
        let to: BTreeMap<CpuId, PsetId> =
            cpus.iter().filter_map(|cpu| Some((*cpu, builder.tables.processors.get(cpu)?.set))).collect();
        let pools = before.map(|state| without_fence(state, name, |cpu| to.get(&cpu).copied()));
        if let Some(state) = &pools {
            follow(&mut builder, &state.sets())?;
        }
        dissolve(&mut builder, set)?;
        if pools.is_some() {
            builder.pools(pools.as_ref())?;
        }
        for cpu in fencing.admitted {
            let is_quiet = builder.tables.processors.get(&cpu).is_some_and(|p| p.state == State::NoIntr);
            if is_quiet {
                builder.change_state(cpu, State::OnLine, false, now)?;
            }
        }
        for (cpu, state) in fencing.stopped {
            let is_off = builder.tables.processors.get(&cpu).is_some_and(|p| p.state == State::OffLine);
            if is_off {
                builder.change_state(cpu, state, false, now)?;
            }
        }
        Ok(builder.finish(format!("take down fence {name}"), ()))
    }

    fn remains(&self, _cpus: &[CpuId], _shelter: &Shelter) -> Result<Vec<Remainder>, Refusal> {
        Ok(Vec::new())
    }
}

/// The fence with this name, and its set.
fn found(builder: &ChangeBuilder, name: &FenceName) -> Result<(PsetId, Fencing), Refusal> {
    let fences = &builder.tables.fences;
    let found = fences.iter().find(|(_, fence)| fence.name == *name);
    found.map(|(set, fencing)| (*set, fencing.clone())).ok_or_else(|| {
        let names = fences.values().map(|fence| fence.name.clone()).collect();
        Refusal::operation(Reason::NoSuchFence { name: name.clone(), names })
    })
}
