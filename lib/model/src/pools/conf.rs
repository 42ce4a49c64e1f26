//! A configuration: the system, its pools, its processor sets and their CPUs.

use super::{AllocateMethod, Keyword, Objectives, Properties};
use crate::{Class, CpuId, CpuSet, PoolId, PsetId, State};
use std::collections::HashMap;
use std::fmt;

/// The name of the default pool, which has every process that is in no other pool.
pub const DEFAULT_POOL: &str = "pool_default";

/// The name of the default set, which is the set of the default pool.
pub const DEFAULT_PSET: &str = "pset_default";

/// The maximum of a set that may have every CPU.
pub const UNBOUNDED: u64 = 65_536;

/// A configuration. In each list the default element comes first, others in order of creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolsConf {
    /// The settings of the system.
    pub system: SystemNode,
    /// The pools.
    pub pools: Vec<PoolNode>,
    /// The sets.
    pub psets: Vec<PsetNode>,
}

/// The key of an element within its configuration: a pool refers to its set by this key, and files contain it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RefId(String);

impl RefId {
    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T: Into<String>> From<T> for RefId {
    fn from(text: T) -> Self {
        RefId(text.into())
    }
}

impl fmt::Display for RefId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The settings of the system. `None` is an absent setting.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SystemNode {
    /// The name of the configuration.
    pub name: String,
    /// Its key.
    pub ref_id: RefId,
    /// A comment.
    pub comment: String,
    /// Whether a process that names an unknown pool gets the default pool.
    pub bind_default: bool,
    /// How CPUs are shared out when the configuration is applied.
    pub allocate_method: Option<Keyword<AllocateMethod>>,
    /// The lowest severity of messages that poold logs.
    pub log_level: Option<String>,
    /// Where poold logs.
    pub log_location: Option<String>,
    /// How often poold measures, in milliseconds.
    pub monitor_interval: Option<u64>,
    /// Where poold keeps its history.
    pub history_file: Option<String>,
    /// The objectives of poold.
    pub objectives: Option<Objectives>,
    /// Properties that users add.
    pub user: Properties,
}

/// A pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolNode {
    /// Its number; `None` if it is not on a machine.
    pub id: Option<PoolId>,
    /// Its name.
    pub name: String,
    /// The key of its set.
    pub pset: RefId,
    /// Its key.
    pub ref_id: RefId,
    /// Whether processes can be bound to it; always true on a machine.
    pub active: bool,
    /// Whether it is the default pool.
    pub is_default: bool,
    /// The scheduling class that processes get when they are bound to it.
    pub scheduler: Option<Keyword<Class>>,
    /// Its importance compared with other pools.
    pub importance: i64,
    /// A comment.
    pub comment: String,
    /// Whether it is destroyed with its zone; see [`PoolNode::is_temporary`].
    pub temporary: Option<bool>,
    /// Properties that users add.
    pub user: Properties,
}

/// A processor set with its CPUs, ascending.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PsetNode {
    /// Its number; `None` if it is not on a machine.
    pub id: Option<PsetId>,
    /// Its name.
    pub name: String,
    /// Its key.
    pub ref_id: RefId,
    /// Whether it is the default set, which has every CPU that is in no other set.
    pub is_default: bool,
    /// The minimum number of CPUs.
    pub min: u64,
    /// The maximum number of CPUs.
    pub max: u64,
    /// The unit of its size: always CPUs (`population`).
    pub units: String,
    /// The number of running and runnable threads, in thousandths, if measured.
    pub load: Option<u64>,
    /// A comment.
    pub comment: String,
    /// The objectives of poold.
    pub objectives: Option<Objectives>,
    /// Whether it is destroyed with its zone; see [`PsetNode::is_temporary`].
    pub temporary: Option<bool>,
    /// Properties that users add.
    pub user: Properties,
    cpus: Vec<CpuNode>,
}

/// A CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuNode {
    /// Its number.
    pub id: CpuId,
    /// Its key.
    pub ref_id: RefId,
    /// A comment.
    pub comment: String,
    /// Its state, or its requested state.
    pub status: Option<Keyword<State>>,
    /// Whether poold must not move it to another set; see [`CpuNode::is_pinned`].
    pub pinned: Option<bool>,
    /// Properties that users add.
    pub user: Properties,
}

impl PoolNode {
    /// A pool with the initial settings of libpool(3LIB).
    #[must_use]
    pub fn new(name: &str, ref_id: impl Into<RefId>, pset: impl Into<RefId>, id: Option<PoolId>) -> Self {
        PoolNode {
            id,
            name: name.to_owned(),
            pset: pset.into(),
            ref_id: ref_id.into(),
            active: true,
            importance: 1,
            ..PoolNode::default()
        }
    }

    /// Whether it is destroyed with its zone.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        self.temporary == Some(true)
    }
}

impl PsetNode {
    /// An empty set with the initial settings of libpool(3LIB). It takes no CPU before its maximum is raised.
    #[must_use]
    pub fn new(name: &str, ref_id: impl Into<RefId>, id: Option<PsetId>) -> Self {
        PsetNode {
            id,
            name: name.to_owned(),
            ref_id: ref_id.into(),
            units: "population".to_owned(),
            load: Some(0),
            ..PsetNode::default()
        }
    }

    /// The number of its CPUs, on-line or not.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.cpus.len() as u64
    }

    /// The number of its CPUs that can run threads.
    #[must_use]
    pub fn online(&self) -> u64 {
        self.cpus.iter().filter(|cpu| cpu.runs_threads()).count() as u64
    }

    /// Whether it is destroyed with its zone.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        self.temporary == Some(true)
    }

    /// Its CPUs, ascending.
    #[must_use]
    pub fn cpus(&self) -> &[CpuNode] {
        &self.cpus
    }

    /// Whether another set has the same settings and CPUs. Loads and states of CPUs are ignored.
    #[must_use]
    pub fn is_alike(&self, other: &PsetNode) -> bool {
        let PsetNode {
            id,
            name,
            ref_id,
            is_default,
            min,
            max,
            units,
            load: _,
            comment,
            objectives,
            temporary,
            user,
            cpus,
        } = self;
        (id, name, ref_id, is_default, min, max, units)
            == (
                &other.id,
                &other.name,
                &other.ref_id,
                &other.is_default,
                &other.min,
                &other.max,
                &other.units,
            )
            && (comment, objectives, temporary, user)
                == (&other.comment, &other.objectives, &other.temporary, &other.user)
            && cpus.len() == other.cpus.len()
            && cpus.iter().zip(&other.cpus).all(|(cpu, other)| cpu.is_alike(other))
    }

    /// The numbers of its CPUs.
    #[must_use]
    pub fn cpu_set(&self) -> CpuSet {
        self.cpus.iter().map(|c| c.id).collect()
    }

    /// The numbers of its pinned CPUs.
    #[must_use]
    pub fn pinned(&self) -> CpuSet {
        self.cpus.iter().filter(|c| c.is_pinned()).map(|c| c.id).collect()
    }

    /// Adds a CPU.
    pub fn add(&mut self, cpu: CpuNode) {
        let at = self.cpus.partition_point(|c| c.id < cpu.id);
        self.cpus.insert(at, cpu);
    }

    /// Removes a CPU.
    pub fn take(&mut self, id: CpuId) -> Option<CpuNode> {
        let at = self.cpus.iter().position(|c| c.id == id)?;
        Some(self.cpus.remove(at))
    }
}

impl CpuNode {
    /// Whether another CPU has the same settings. States are ignored.
    fn is_alike(&self, other: &CpuNode) -> bool {
        let CpuNode { id, ref_id, comment, status: _, pinned, user } = self;
        (id, ref_id, comment, pinned, user)
            == (&other.id, &other.ref_id, &other.comment, &other.pinned, &other.user)
    }

    /// A CPU with the initial settings.
    #[must_use]
    pub fn new(id: CpuId, status: State) -> Self {
        CpuNode {
            id,
            ref_id: format!("cpu_{id}").into(),
            comment: String::new(),
            status: Some(Keyword::Known(status)),
            pinned: None,
            user: Properties::default(),
        }
    }

    /// Its state or requested state, if known.
    #[must_use]
    pub fn state(&self) -> Option<State> {
        self.status.as_ref().and_then(Keyword::known)
    }

    /// Whether it can run threads, as far as its state is known.
    #[must_use]
    pub fn runs_threads(&self) -> bool {
        self.state().is_none_or(State::runs_threads)
    }

    /// Whether poold must not move it to another set.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        self.pinned == Some(true)
    }
}

impl PoolsConf {
    /// The configuration of a machine on which pools were just enabled: one pool with one set of all CPUs.
    #[must_use]
    pub fn fresh(cpus: impl IntoIterator<Item = (CpuId, State)>) -> Self {
        let system = SystemNode {
            name: "default".to_owned(),
            ref_id: "dummy".into(),
            bind_default: true,
            objectives: Some(Objectives::wt_load()),
            ..SystemNode::default()
        };
        let mut pset = PsetNode {
            is_default: true,
            min: 1,
            max: UNBOUNDED,
            ..PsetNode::new(DEFAULT_PSET, "pset_-1", Some(PsetId::DEFAULT))
        };
        for (id, status) in cpus {
            pset.add(CpuNode::new(id, status));
        }
        let pool = PoolNode::new(DEFAULT_POOL, "pool_0", "pset_-1", Some(PoolId::DEFAULT));
        PoolsConf { system, pools: vec![PoolNode { is_default: true, ..pool }], psets: vec![pset] }
    }

    /// A pool by its name.
    #[must_use]
    pub fn pool(&self, name: &str) -> Option<&PoolNode> {
        self.pools.iter().find(|p| p.name == name)
    }

    /// A pool by its name, mutable.
    pub fn pool_mut(&mut self, name: &str) -> Option<&mut PoolNode> {
        self.pools.iter_mut().find(|p| p.name == name)
    }

    /// A set by its name.
    #[must_use]
    pub fn pset(&self, name: &str) -> Option<&PsetNode> {
        self.psets.iter().find(|s| s.name == name)
    }

    /// A set by its name, mutable.
    pub fn pset_mut(&mut self, name: &str) -> Option<&mut PsetNode> {
        self.psets.iter_mut().find(|s| s.name == name)
    }

    /// The set of a pool.
    #[must_use]
    pub fn pset_of(&self, pool: &PoolNode) -> Option<&PsetNode> {
        self.psets.iter().find(|s| s.ref_id == pool.pset)
    }

    /// The set that a CPU is in.
    #[must_use]
    pub fn pset_with(&self, cpu: CpuId) -> Option<&PsetNode> {
        self.psets.iter().find(|s| s.cpus.iter().any(|c| c.id == cpu))
    }

    /// The default pool.
    #[must_use]
    pub fn default_pool(&self) -> Option<&PoolNode> {
        self.pools.iter().find(|p| p.is_default)
    }

    /// The default set.
    #[must_use]
    pub fn default_pset(&self) -> Option<&PsetNode> {
        self.psets.iter().find(|s| s.is_default)
    }

    /// Every CPU, set by set.
    pub fn cpus(&self) -> impl Iterator<Item = &CpuNode> {
        self.psets.iter().flat_map(|s| &s.cpus)
    }

    /// A CPU, to change its settings.
    pub fn cpu_mut(&mut self, id: CpuId) -> Option<&mut CpuNode> {
        self.psets.iter_mut().flat_map(|set| &mut set.cpus).find(|c| c.id == id)
    }

    /// Moves a CPU from its set to another one, by name. `false` if the CPU or the set does not exist.
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

    /// The importance of sets, by their keys: the highest importance of the pools of each set. A set without pools has
    /// no entry.
    #[must_use]
    pub fn importances(&self) -> HashMap<&RefId, i64> {
        let mut all: HashMap<&RefId, i64> = HashMap::new();
        for pool in &self.pools {
            let highest = all.entry(&pool.pset).or_insert(i64::MIN);
            *highest = pool.importance.max(*highest);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn four() -> PoolsConf {
        PoolsConf::fresh((0..4).map(|n| (CpuId(n), State::OnLine)))
    }

    #[test]
    fn a_fresh_configuration_has_one_pool_with_everything() {
        let conf = four();
        let pool = conf.default_pool().unwrap();
        assert_eq!((pool.name.as_str(), pool.id, pool.importance), ("pool_default", Some(PoolId(0)), 1));
        let pset = conf.pset_of(pool).unwrap();
        assert_eq!((pset.name.as_str(), pset.id), ("pset_default", Some(PsetId::DEFAULT)));
        assert_eq!((pset.min, pset.max), (1, 65_536));
        assert_eq!(pset.cpu_set().to_string(), "0-3");
        assert_eq!(pset.size(), 4);
    }

    #[test]
    fn a_processor_moves_with_its_properties_and_sizes_follow() {
        let mut conf = four();
        conf.psets.push(PsetNode::new("webset", "pset_1", Some(PsetId(1))));
        conf.cpu_mut(CpuId(2)).unwrap().pinned = Some(true);
        assert!(conf.move_cpu(CpuId(2), "webset"));
        assert!(!conf.move_cpu(CpuId(9), "webset") && !conf.move_cpu(CpuId(1), "nobody"));
        let webset = conf.pset("webset").unwrap();
        assert_eq!(webset.pinned().to_string(), "2");
        assert_eq!(webset.size(), 1);
        assert_eq!(conf.pset_with(CpuId(2)).unwrap().name, "webset");
        assert_eq!(conf.default_pset().unwrap().size(), 3);
    }

    #[test]
    fn a_set_is_as_important_as_its_most_important_pool() {
        let mut conf = four();
        conf.psets.push(PsetNode::new("webset", "pset_1", Some(PsetId(1))));
        let importance =
            |conf: &PoolsConf, set: &str| conf.importances().get(&conf.pset(set).unwrap().ref_id).copied();
        assert_eq!(importance(&conf, "webset"), None);
        for (name, importance) in [("a", 2i64), ("b", 5)] {
            conf.pools.push(PoolNode { importance, ..PoolNode::new(name, name, "pset_1", None) });
        }
        assert_eq!(importance(&conf, "webset"), Some(5));
        assert_eq!(importance(&conf, "pset_default"), Some(1));
    }
}
