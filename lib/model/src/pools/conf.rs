//! A configuration: the system, its pools, its sets and their processors.

use super::{ElementKind, Props};
use crate::{CpuId, CpuSet, PoolId, PsetId};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// The name of the pool that everything is in which is in no other.
pub const DEFAULT_POOL: &str = "pool_default";

/// The name of the set of that pool.
pub const DEFAULT_PSET: &str = "pset_default";

/// The maximum of a set that may have every processor.
pub const UNBOUNDED: u64 = 65_536;

/// A configuration. In each list the default element comes first, others in order of creation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolsConf {
    /// The properties of the whole.
    pub system: Props,
    /// The pools.
    pub pools: Vec<PoolNode>,
    /// The sets.
    pub psets: Vec<PsetNode>,
}

/// A pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolNode {
    /// Its properties.
    pub props: Props,
}

/// A processor set with its processors, ascending.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PsetNode {
    /// Its properties.
    pub props: Props,
    cpus: Vec<CpuNode>,
}

/// A processor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuNode {
    /// Its number.
    pub id: CpuId,
    /// Its properties.
    pub props: Props,
}

impl PoolNode {
    /// A pool with the properties of a new one (reference §7.3). `res` is the `ref_id` of its set; `sys_id` is that of the machine, where it has one.
    #[must_use]
    pub fn new(name: &str, ref_id: &str, res: &str, sys_id: Option<i64>) -> Self {
        let mut props = Props::new(ElementKind::Pool)
            .with("pool.name", name)
            .with("pool.ref_id", ref_id)
            .with("pool.res", res)
            .with("pool.active", true)
            .with("pool.default", false)
            .with("pool.importance", 1i64)
            .with("pool.comment", "");
        if let Some(id) = sys_id {
            props.set("pool.sys_id", id);
        }
        PoolNode { props }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.props.string("pool.name").unwrap_or_default()
    }

    /// The number that the machine knows it by.
    #[must_use]
    pub fn sys_id(&self) -> Option<i64> {
        self.props.int("pool.sys_id")
    }

    /// The pool of the machine; `None` while the machine does not have it.
    #[must_use]
    pub fn id(&self) -> Option<PoolId> {
        self.sys_id().and_then(|id| u32::try_from(id).ok()).map(PoolId)
    }

    /// The `ref_id` of its set.
    #[must_use]
    pub fn res(&self) -> &str {
        self.props.string("pool.res").unwrap_or_default()
    }

    /// How much it counts beside others.
    #[must_use]
    pub fn importance(&self) -> i64 {
        self.props.int("pool.importance").unwrap_or(1)
    }

    /// Whether everything is in it which is in no other.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.props.boolean("pool.default").unwrap_or(false)
    }

    /// Whether it lives no longer than a zone.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        self.props.boolean("pool.temporary").unwrap_or(false)
    }
}

impl PsetNode {
    /// An empty set with the properties of a new one: nothing can be put into it until its maximum is raised (reference §7.3). `sys_id` is
    /// that of the machine, -2 where it has none yet.
    #[must_use]
    pub fn new(name: &str, ref_id: &str, sys_id: i64) -> Self {
        let props = Props::new(ElementKind::Pset)
            .with("type", "pset")
            .with("pset.sys_id", sys_id)
            .with("pset.name", name)
            .with("pset.ref_id", ref_id)
            .with("pset.default", false)
            .with("pset.min", 0u64)
            .with("pset.max", 0u64)
            .with("pset.units", "population")
            .with("pset.load", 0u64)
            .with("pset.size", 0u64)
            .with("pset.comment", "");
        PsetNode { props, cpus: Vec::new() }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.props.string("pset.name").unwrap_or_default()
    }

    /// What pools refer to it by.
    #[must_use]
    pub fn ref_id(&self) -> &str {
        self.props.string("pset.ref_id").unwrap_or_default()
    }

    /// The number that the machine knows it by; -1 is the default set, -2 one that the machine does not have yet.
    #[must_use]
    pub fn sys_id(&self) -> i64 {
        self.props.int("pset.sys_id").unwrap_or(-2)
    }

    /// The set of the machine; `None` while the machine does not have it.
    #[must_use]
    pub fn id(&self) -> Option<PsetId> {
        match self.sys_id() {
            -1 => Some(PsetId::DEFAULT),
            id => u32::try_from(id).ok().map(PsetId),
        }
    }

    /// The least number of processors.
    #[must_use]
    pub fn min(&self) -> u64 {
        self.props.uint("pset.min").unwrap_or(0)
    }

    /// The greatest number of processors.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.props.uint("pset.max").unwrap_or(0)
    }

    /// The number of its processors, on-line or not.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.cpus.len() as u64
    }

    /// Whether it has every processor that is in no other.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.props.boolean("pset.default").unwrap_or(false)
    }

    /// Whether it lives no longer than a zone.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        self.props.boolean("pset.temporary").unwrap_or(false)
    }

    /// Its processors, ascending.
    #[must_use]
    pub fn cpus(&self) -> &[CpuNode] {
        &self.cpus
    }

    /// Its processors, to change their properties.
    pub fn cpus_mut(&mut self) -> impl Iterator<Item = &mut CpuNode> {
        self.cpus.iter_mut()
    }

    /// The numbers of its processors.
    #[must_use]
    pub fn cpu_set(&self) -> CpuSet {
        self.cpus.iter().map(|c| c.id).collect()
    }

    /// The numbers of its processors that are never moved by themselves.
    #[must_use]
    pub fn pinned(&self) -> CpuSet {
        self.cpus.iter().filter(|c| c.is_pinned()).map(|c| c.id).collect()
    }

    /// Puts a processor into it; its size follows.
    pub fn add(&mut self, cpu: CpuNode) {
        let at = self.cpus.partition_point(|c| c.id < cpu.id);
        self.cpus.insert(at, cpu);
        self.props.set("pset.size", self.size());
    }

    /// Takes a processor out of it; its size follows.
    pub fn take(&mut self, id: CpuId) -> Option<CpuNode> {
        let at = self.cpus.iter().position(|c| c.id == id)?;
        let cpu = self.cpus.remove(at);
        self.props.set("pset.size", self.size());
        Some(cpu)
    }
}

impl CpuNode {
    /// A processor with the properties of a new one. `status` is the word for its state.
    #[must_use]
    pub fn new(id: CpuId, status: &str) -> Self {
        let props = Props::new(ElementKind::Cpu)
            .with("type", "cpu")
            .with("cpu.sys_id", i64::from(id.0))
            .with("cpu.ref_id", format!("cpu_{id}").as_str())
            .with("cpu.comment", "")
            .with("cpu.status", status);
        CpuNode { id, props }
    }

    /// Whether it is never moved by itself.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        self.props.boolean("cpu.pinned").unwrap_or(false)
    }

    /// Whether it is taken last when any processor of its set will do.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.props.boolean("cpu.requested").unwrap_or(false)
    }
}

impl PoolsConf {
    /// What a machine has when its pools were just enabled (reference §7.3): one pool with one set of all processors, which come with the
    /// word for their state.
    #[must_use]
    pub fn fresh(cpus: impl IntoIterator<Item = (CpuId, String)>) -> Self {
        let system = Props::new(ElementKind::System)
            .with("system.name", "default")
            .with("system.ref_id", "dummy")
            .with("system.comment", "")
            .with("system.version", 1i64)
            .with("system.bind-default", true)
            .with("system.poold.objectives", "wt-load");
        let mut pset = PsetNode::new(DEFAULT_PSET, "pset_-1", -1);
        pset.props.set("pset.default", true);
        pset.props.set("pset.min", 1u64);
        pset.props.set("pset.max", UNBOUNDED);
        for (id, status) in cpus {
            pset.add(CpuNode::new(id, &status));
        }
        let mut pool = PoolNode::new(DEFAULT_POOL, "pool_0", "pset_-1", Some(0));
        pool.props.set("pool.default", true);
        PoolsConf { system, pools: vec![pool], psets: vec![pset] }
    }

    /// The name of the whole.
    #[must_use]
    pub fn name(&self) -> &str {
        self.system.string("system.name").unwrap_or_default()
    }

    /// A pool by its name.
    #[must_use]
    pub fn pool(&self, name: &str) -> Option<&PoolNode> {
        self.pools.iter().find(|p| p.name() == name)
    }

    /// The same, to change it.
    pub fn pool_mut(&mut self, name: &str) -> Option<&mut PoolNode> {
        self.pools.iter_mut().find(|p| p.name() == name)
    }

    /// A set by its name.
    #[must_use]
    pub fn pset(&self, name: &str) -> Option<&PsetNode> {
        self.psets.iter().find(|s| s.name() == name)
    }

    /// The same, to change it.
    pub fn pset_mut(&mut self, name: &str) -> Option<&mut PsetNode> {
        self.psets.iter_mut().find(|s| s.name() == name)
    }

    /// A set by what pools refer to it by.
    #[must_use]
    pub fn pset_by_ref(&self, ref_id: &str) -> Option<&PsetNode> {
        self.psets.iter().find(|s| s.ref_id() == ref_id)
    }

    /// The set of a pool.
    #[must_use]
    pub fn pset_of(&self, pool: &PoolNode) -> Option<&PsetNode> {
        self.pset_by_ref(pool.res())
    }

    /// The set that a processor is in.
    #[must_use]
    pub fn pset_with(&self, cpu: CpuId) -> Option<&PsetNode> {
        self.psets.iter().find(|s| s.cpus().iter().any(|c| c.id == cpu))
    }

    /// The default pool.
    #[must_use]
    pub fn default_pool(&self) -> Option<&PoolNode> {
        self.pools.iter().find(|p| p.is_default())
    }

    /// The default set.
    #[must_use]
    pub fn default_pset(&self) -> Option<&PsetNode> {
        self.psets.iter().find(|s| s.is_default())
    }

    /// A processor, to change its properties.
    pub fn cpu_mut(&mut self, id: CpuId) -> Option<&mut CpuNode> {
        self.psets.iter_mut().flat_map(PsetNode::cpus_mut).find(|c| c.id == id)
    }

    /// Puts a processor from the set that it is in into another one, both by name. `false` when there is no such processor or set.
    pub fn move_cpu(&mut self, cpu: CpuId, to: &str) -> bool {
        if self.pset(to).is_none() {
            return false;
        }
        let Some(node) = self.psets.iter_mut().find_map(|s| s.take(cpu)) else { return false };
        if let Some(set) = self.pset_mut(to) {
            set.add(node);
        }
        true
    }

    /// How important sets are, by what pools refer to them by: the highest importance of the pools of each (reference §10.2). A set that
    /// no pool uses is not there.
    #[must_use]
    pub fn importances(&self) -> HashMap<&str, i64> {
        let mut all: HashMap<&str, i64> = HashMap::new();
        for pool in &self.pools {
            let highest = all.entry(pool.res()).or_insert(i64::MIN);
            *highest = pool.importance().max(*highest);
        }
        all
    }

    /// The highest importance of the pools of a set; 0 where none uses it.
    #[must_use]
    pub fn importance_of(&self, pset: &PsetNode) -> i64 {
        self.importances().get(pset.ref_id()).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn four() -> PoolsConf {
        PoolsConf::fresh((0..4).map(|n| (CpuId(n), "on-line".to_owned())))
    }

    #[test]
    fn a_fresh_configuration_has_one_pool_with_everything() {
        let conf = four();
        let pool = conf.default_pool().unwrap();
        assert_eq!((pool.name(), pool.sys_id(), pool.importance()), ("pool_default", Some(0), 1));
        let pset = conf.pset_of(pool).unwrap();
        assert_eq!((pset.name(), pset.sys_id(), pset.min(), pset.max()), ("pset_default", -1, 1, 65_536));
        assert_eq!(pset.cpu_set().to_string(), "0-3");
        assert_eq!(pset.props.uint("pset.size"), Some(4));
    }

    #[test]
    fn a_processor_moves_with_its_properties_and_sizes_follow() {
        let mut conf = four();
        conf.psets.push(PsetNode::new("webset", "pset_1", 1));
        conf.cpu_mut(CpuId(2)).unwrap().props.set("cpu.pinned", true);
        assert!(conf.move_cpu(CpuId(2), "webset"));
        assert!(!conf.move_cpu(CpuId(9), "webset") && !conf.move_cpu(CpuId(1), "nobody"));
        let webset = conf.pset("webset").unwrap();
        assert_eq!(webset.pinned().to_string(), "2");
        assert_eq!(webset.props.uint("pset.size"), Some(1));
        assert_eq!(conf.pset_with(CpuId(2)).unwrap().name(), "webset");
        assert_eq!(conf.default_pset().unwrap().props.uint("pset.size"), Some(3));
    }

    #[test]
    fn a_set_is_as_important_as_its_most_important_pool() {
        let mut conf = four();
        conf.psets.push(PsetNode::new("webset", "pset_1", 1));
        assert_eq!(conf.importance_of(conf.pset("webset").unwrap()), 0);
        for (name, importance) in [("a", 2i64), ("b", 5)] {
            let mut pool = PoolNode::new(name, name, "pset_1", None);
            pool.props.set("pool.importance", importance);
            conf.pools.push(pool);
        }
        assert_eq!(conf.importance_of(conf.pset("webset").unwrap()), 5);
        assert_eq!(conf.importance_of(conf.default_pset().unwrap()), 1);
    }
}
