//! Fences: named processor sets that also exclude interrupts and kernel threads.

use crate::{Change, Reason, Refusal, Subject};
use millpond_model::PoolId;
use millpond_model::pools::{PoolNode, PoolsState, PsetNode};
use millpond_model::{CpuId, CpuSet, Fence, FenceName, Move, Proof, PsetId, Shelter, ShelterItem, Topology};
use std::collections::BTreeMap;

/// A requested fence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FenceWish {
    /// Its name.
    pub name: FenceName,
    /// Its profile.
    pub profile: String,
    /// The settings of the profile.
    pub shelter: Shelter,
    /// Its CPUs, in order.
    pub cpus: Vec<CpuId>,
}

/// A prepared fence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fenced {
    /// Its set.
    pub set: PsetId,
    /// Its pool, if pools are enabled.
    pub pool: Option<PoolId>,
    /// The CPUs that move into it.
    pub moves: Vec<Move>,
    /// The settings in the order of their steps, with the number of steps for each.
    pub parts: Vec<(ShelterItem, usize)>,
    /// Requested settings that are not available, a line each.
    pub absent: Vec<String>,
}

/// OS noise that cannot be moved away while the kernel runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remainder {
    /// A description, as a sentence.
    pub what: String,
    /// The boot parameter that would remove it.
    pub parameter: Option<String>,
}

/// The CPUs of a device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DevicePlace {
    /// The CPUs close to it.
    pub near: CpuSet,
    /// The CPUs that take its interrupts now.
    pub interrupts: CpuSet,
}

/// The other on-line strands of the cores of these CPUs, which a fence takes off-line. `owners` has the set of each CPU that is in one.
///
/// # Errors
/// [`Refusal`] if one of them belongs to another set.
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

/// The pool configuration with the set of a fence, with exactly these CPUs, and a pool for it; both have the name of the fence.
///
/// `fence_of`: the fence that has a CPU.
///
/// # Errors
/// [`Refusal`] if the name is in use, or a CPU may not leave its set.
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

/// Whether a set of the configuration with this number of CPUs may have one more.
#[must_use]
pub fn has_room(state: &PoolsState, id: PsetId, size: usize) -> bool {
    let set = state.conf.psets.iter().find(|set| set.id == Some(id));
    set.is_some_and(|set| u64::try_from(size).is_ok_and(|size| size < set.max))
}

/// The pool configuration without the set and the pool of a fence. Each CPU goes to the set that `to` returns, or else to the default
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

/// Checks that each fence still has exactly its CPUs after a commit of pools, and that its bounds allow no others.
///
/// # Errors
/// [`Refusal`] for the first fence that does not.
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
    /// The existing fences, in order of their names.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    fn list(&self) -> Result<Vec<Fence>, Refusal>;

    /// Prepares a fence: a new set, and all settings of its profile. All or nothing.
    ///
    /// # Errors
    /// [`Refusal`] if the name is in use, and as for [`crate::Psets::prepare_create`] and
    /// [`crate::Processors::prepare_state`].
    fn prepare_fence(&self, wish: &FenceWish, forced: bool) -> Result<Change<Fenced>, Refusal>;

    /// Prepares the end of a fence, which restores the former state.
    ///
    /// # Errors
    /// [`Refusal`] if the fence does not exist.
    fn prepare_off(&self, name: &FenceName) -> Result<Change<()>, Refusal>;

    /// Prepares to store the result of a measurement with a fence.
    ///
    /// # Errors
    /// [`Refusal`] if the fence does not exist.
    fn prepare_proof(&self, name: &FenceName, proof: &Proof) -> Result<Change<()>, Refusal>;

    /// The CPUs of a device: a network card, a disk, or a device given by its PCI address.
    ///
    /// # Errors
    /// [`Refusal`] if the device does not exist, or its position is unknown.
    fn device(&self, name: &str) -> Result<DevicePlace, Refusal>;

    /// OS noise on these CPUs that a fence cannot remove.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    fn remains(&self, cpus: &[CpuId], shelter: &Shelter) -> Result<Vec<Remainder>, Refusal>;
}
