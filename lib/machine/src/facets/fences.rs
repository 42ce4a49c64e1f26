//! Fences: processor sets with a name that more is kept away from than other threads.

use crate::{Change, Reason, Refusal, Subject};
use millpond_model::PoolId;
use millpond_model::pools::{PoolNode, PoolsState, PsetNode};
use millpond_model::{CpuId, CpuSet, Fence, FenceName, Move, Proof, PsetId, Shelter, ShelterItem, Topology};
use std::collections::BTreeMap;

/// A fence that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FenceWish {
    /// What it is to be called.
    pub name: FenceName,
    /// The profile that says what it is like.
    pub profile: String,
    /// What that asks for.
    pub shelter: Shelter,
    /// Its CPUs, in order.
    pub cpus: Vec<CpuId>,
}

/// A fence that is prepared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fenced {
    /// Its set.
    pub set: PsetId,
    /// Its pool, where pools are enabled.
    pub pool: Option<PoolId>,
    /// The CPUs that come into it.
    pub moves: Vec<Move>,
    /// What asked for the steps, in their order, and for how many.
    pub parts: Vec<(ShelterItem, usize)>,
    /// What was asked for and is not there, a line each.
    pub absent: Vec<String>,
}

/// What disturbs CPUs and cannot be moved while the kernel runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remainder {
    /// What it is, as a sentence.
    pub what: String,
    /// The parameter at boot that would end it.
    pub parameter: Option<String>,
}

/// Where a device is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DevicePlace {
    /// The CPUs that are near it.
    pub near: CpuSet,
    /// Those that take its interrupts now.
    pub interrupts: CpuSet,
}

/// The other strands of the cores of these CPUs that are on-line, which a fence takes off-line. `owners` has the set of each CPU that is in one.
///
/// # Errors
/// [`Refusal`] where one of them belongs to another set.
pub fn siblings(
    topology: &Topology,
    cpus: &[CpuId],
    online: &CpuSet,
    owners: &BTreeMap<CpuId, PsetId>,
) -> Result<Vec<CpuId>, Refusal> {
    let inside: CpuSet = cpus.iter().copied().collect();
    let mut siblings = Vec::new();
    for core in topology.cores() {
        let Some(near) = core.cpus.iter().find(|cpu| inside.contains(*cpu)) else { continue };
        for cpu in core.cpus.iter().filter(|cpu| !inside.contains(*cpu) && online.contains(*cpu)) {
            if let Some(set) = owners.get(&cpu) {
                let why = format!("it shares its core with CPU {near} and belongs to set {set}");
                return Err(Refusal::new(Subject::Processor(cpu), Reason::Machine(why))
                    .hint("take it out of its set (psrset -r), or let it stay on-line (without --smt off)"));
            }
            siblings.push(cpu);
        }
    }
    Ok(siblings)
}

/// The configuration of pools with the set of a fence in it, of exactly these CPUs, and a pool for what is bound to it; both have its name.
///
/// `fence_of`: the fence that has a CPU.
///
/// # Errors
/// [`Refusal`] where the name is taken, and where a CPU may not leave its set.
pub fn with_fence(
    mut state: PoolsState,
    name: &FenceName,
    cpus: &[CpuId],
    fence_of: impl Fn(CpuId) -> Option<FenceName>,
) -> Result<PoolsState, Refusal> {
    let conf = &mut state.conf;
    let name = name.as_str();
    if conf.pool(name).is_some() || conf.pset(name).is_some() {
        let why = format!("there is a pool {name} or a set {name} in the configuration of pools");
        return Err(Refusal::operation(Reason::Machine(why)).hint("choose another --name"));
    }
    let mut set = PsetNode::new(name, format!("new_{name}"), None);
    let size = u64::try_from(cpus.len()).unwrap_or(u64::MAX);
    (set.min, set.max) = (size, size);
    let pool = PoolNode::new(name, format!("new_pool_{name}"), set.ref_id.clone(), None);
    conf.psets.push(set);
    conf.pools.push(pool);
    for cpu in cpus {
        if let Some(fence) = fence_of(*cpu) {
            return Err(Refusal::new(Subject::Processor(*cpu), Reason::IsFence(fence)));
        }
        let refused = |why: String| Refusal::new(Subject::Processor(*cpu), Reason::Machine(why));
        let Some(from) = conf.pset_with(*cpu) else { continue };
        let (from_name, left, least) = (from.name.clone(), from.size().saturating_sub(1), from.min);
        if from.pinned().contains(*cpu) {
            return Err(refused(format!("it is pinned to set {from_name} (cpu.pinned)")));
        }
        if left < least {
            let why = format!("set {from_name} would have {left} of at least {least} CPUs (pset.min)");
            return Err(refused(why).hint("lower pset.min of that set first (poolcfg -d)"));
        }
        conf.move_cpu(*cpu, name);
    }
    Ok(state.numbered())
}

/// Whether a set of the configuration that has so many CPUs may have one more.
#[must_use]
pub fn has_room(state: &PoolsState, id: PsetId, size: usize) -> bool {
    let set = state.conf.psets.iter().find(|set| set.id == Some(id));
    set.is_some_and(|set| u64::try_from(size).is_ok_and(|size| size < set.max))
}

/// The configuration of pools without the set and the pool of a fence: each CPU goes to the set that `to` gives, or else to the default
/// set.
#[must_use]
pub fn without_fence(
    mut state: PoolsState,
    name: &FenceName,
    to: impl Fn(CpuId) -> Option<PsetId>,
) -> PoolsState {
    let conf = &mut state.conf;
    let default = conf.default_pset().map(|set| set.name.clone());
    let (Some(default), Some(set)) = (default, conf.pset(name.as_str()).cloned()) else { return state };
    for cpu in set.cpu_set().iter() {
        let set = to(cpu).and_then(|id| conf.psets.iter().find(|set| set.id == Some(id)));
        let to = set.map_or_else(|| default.clone(), |set| set.name.clone());
        conf.move_cpu(cpu, &to);
    }
    let gone: Vec<PoolId> =
        conf.pools.iter().filter(|pool| pool.pset == set.ref_id).filter_map(|p| p.id).collect();
    conf.pools.retain(|pool| pool.pset != set.ref_id);
    conf.psets.retain(|other| other.ref_id != set.ref_id);
    state.zones.retain(|_, pool| !gone.contains(pool));
    state
}

/// Whether each fence has its CPUs still after a commit of pools, and can have no others.
///
/// # Errors
/// [`Refusal`] with the first that has not.
pub fn fences_stay<'a>(
    fences: impl IntoIterator<Item = (PsetId, &'a FenceName, CpuSet)>,
    to: Option<&PoolsState>,
) -> Result<(), Refusal> {
    for (id, name, cpus) in fences {
        let set = to.and_then(|state| state.conf.psets.iter().find(|set| set.id == Some(id)));
        let is_fixed = |set: &PsetNode| set.min == set.max && set.min == set.size();
        if set.is_none_or(|set| set.cpu_set() != cpus || !is_fixed(set)) {
            return Err(Refusal::new(Subject::Pset(id), Reason::IsFence(name.clone())));
        }
    }
    Ok(())
}

/// The facet.
pub trait Fences {
    /// Those that stand, in order of their names.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn list(&self) -> Result<Vec<Fence>, Refusal>;

    /// Prepares a fence: a new set, and everything that its profile asks for. All or nothing.
    ///
    /// # Errors
    /// [`Refusal`] when the name is taken, and as for [`crate::Psets::prepare_create`] and
    /// [`crate::Processors::prepare_state`].
    fn prepare_fence(&self, wish: &FenceWish, forced: bool) -> Result<Change<Fenced>, Refusal>;

    /// Prepares the end of a fence: everything is as it was.
    ///
    /// # Errors
    /// [`Refusal`] when there is no such fence.
    fn prepare_off(&self, name: &FenceName) -> Result<Change<()>, Refusal>;

    /// Prepares to remember with a fence what was measured there.
    ///
    /// # Errors
    /// [`Refusal`] when there is no such fence.
    fn prepare_proof(&self, name: &FenceName, proof: &Proof) -> Result<Change<()>, Refusal>;

    /// Where a device is: a network card, a disk, or what is called by its address on the PCI bus.
    ///
    /// # Errors
    /// [`Refusal`] when there is no such device, or the machine does not tell.
    fn device(&self, name: &str) -> Result<DevicePlace, Refusal>;

    /// What would disturb these CPUs behind a fence all the same.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn remains(&self, cpus: &[CpuId], shelter: &Shelter) -> Result<Vec<Remainder>, Refusal>;
}
