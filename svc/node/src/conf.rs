//! The pool configuration that the agent commits. Other programs write it: a file, such as a mounted ConfigMap, or a
//! directory with the files of all nodes.

use millpond_formats::node_files::{
    NODES, NodeFence, configuration_of, fences_file, pools_file, read_fences,
};
use millpond_formats::pools::xml;
use millpond_machine::Writer;
use millpond_model::PsetId;
use millpond_model::pools::{PoolNode, PoolsConf, RefId};
use millpond_pools::{PoolError, dynamic, instantiate};
use millpond_session::{Advice, Session};
use std::path::{Path, PathBuf};

/// The file or the directory, with its contents at the last check.
pub(crate) struct Conf {
    path: PathBuf,
    /// The name of this node, if the path is a directory.
    node: Option<String>,
    seen: Option<Texts>,
    /// `None` until a configuration is committed.
    fences: Option<Vec<NodeFence>>,
    refusal: Option<String>,
}

/// The files of a node.
#[derive(Clone, PartialEq, Eq)]
struct Texts {
    /// The name and text of the file of the pools. `None` if the node has no pools.
    pools: Option<(String, String)>,
    /// The name and text of the file of the fences. The text is empty if there is no such file.
    fences: (String, String),
}

/// The result of a check.
pub(crate) enum Looked {
    /// Nothing has changed.
    Same,
    /// The file was committed. Contains the notes of the machine.
    Committed(Vec<String>),
    /// The file could not be committed. Contains the reason.
    Failed(String),
}

impl Conf {
    pub(crate) fn new(path: &Path, node: Option<String>) -> Conf {
        Conf { path: path.to_owned(), node, seen: None, fences: None, refusal: None }
    }

    /// The fences of the node. `None` until they are known; existing fences stay until then.
    pub(crate) fn fences(&self) -> Option<&[NodeFence]> {
        self.fences.as_deref()
    }

    /// Why the last contents are not in force.
    pub(crate) fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Commits the contents if they have changed. Contents that failed are tried again only when they change.
    pub(crate) fn look(&mut self, session: &Session, advice: Advice) -> Looked {
        let texts = match self.read(session) {
            Ok(Some(texts)) => texts,
            // The file can be missing for a moment while it is replaced.
            Ok(None) if self.seen.is_some() => return Looked::Same,
            Ok(None) => return self.failed(format!("there is no file {}", self.file().display())),
            Err(why) => return self.failed(why),
        };
        if self.seen.as_ref() == Some(&texts) {
            return Looked::Same;
        }
        let committed = commit(session, texts.pools.as_ref(), advice);
        let (name, text) = &texts.fences;
        let fences = read_fences(text).map_err(|why| format!("{name}:{why}"));
        self.seen = Some(texts.clone());
        match committed.and_then(|notes| Ok((notes, fences?))) {
            Ok((notes, fences)) => {
                self.fences = Some(fences);
                self.refusal = None;
                Looked::Committed(notes)
            }
            Err(why) => self.failed(why),
        }
    }

    fn failed(&mut self, why: String) -> Looked {
        self.refusal = Some(why.clone());
        Looked::Failed(why)
    }

    /// The file that must exist.
    fn file(&self) -> PathBuf {
        if self.node.is_some() { self.path.join(NODES) } else { self.path.clone() }
    }

    /// Reads the files. `None` if there is no file.
    fn read(&self, session: &Session) -> Result<Option<Texts>, String> {
        let read = |file: &Path| {
            let name = file.display().to_string();
            let text = session.pools_file(Some(&name)).read();
            let text = text.map_err(|error| format!("{name} cannot be read: {error}"))?;
            Ok::<_, String>(text.map(|text| (name, text)))
        };
        let Some((name, text)) = read(&self.file())? else { return Ok(None) };
        let Some(node) = &self.node else {
            return Ok(Some(Texts { pools: Some((name, text)), fences: Default::default() }));
        };
        let Some(configuration) = configuration_of(&text, node) else {
            return Ok(Some(Texts { pools: None, fences: Default::default() }));
        };
        // The name is that of a cluster resource, and must not be a path.
        if configuration.contains('/') {
            return Err(format!("{name}: the configuration of {node} has a name with a stroke"));
        }
        let pools = self.path.join(pools_file(configuration));
        let Some(pools) = read(&pools)? else {
            return Err(format!("the pools of NodePools {configuration} are invalid, as its status says"));
        };
        let fences = read(&self.path.join(fences_file(configuration)))?.unwrap_or_default();
        Ok(Some(Texts { pools: Some(pools), fences }))
    }
}

/// Commits a file, or only the default pool if there is no file.
fn commit(session: &Session, file: Option<&(String, String)>, advice: Advice) -> Result<Vec<String>, String> {
    let (name, conf) = match file {
        Some((name, text)) => {
            let conf = xml::read(text).map_err(|error| {
                format!("{name}:{}:{}: {error}; {}", error.line, error.column, error.hint())
            })?;
            (name.as_str(), conf)
        }
        None => ("a node without pools", PoolsConf::fresh([])),
    };
    let machine = session.machine();
    // A hint that names a command is tried on the machine first. The trial takes no lock.
    let said = |error: PoolError| match error.hint.as_ref().and_then(|hint| advice(session, hint)) {
        Some(hint) => format!("{name} cannot be committed: {error}\nhint: {hint}"),
        None => format!("{name} cannot be committed: {error}"),
    };
    let writer = Writer::open(machine).map_err(|refusal| refusal.to_string())?;
    dynamic::enable(&writer, machine, false).map_err(said)?;
    let state = dynamic::read(machine).map_err(said)?;
    let standing = machine.fences().map_or(Ok(Vec::new()), |fences| fences.list());
    let standing = standing.map_err(|refusal| refusal.to_string())?;
    let sets: Vec<PsetId> = standing.iter().map(|fence| fence.set).collect();
    let mut to = instantiate(&with_fences(conf, &state.conf, &sets), &state).map_err(said)?;
    for set in &mut to.conf.psets {
        let was = state.conf.psets.iter().find(|was| was.id == set.id);
        if let Some(was) = was.filter(|was| was.id.is_some_and(|id| sets.contains(&id))) {
            (set.min, set.max) = (was.min, was.max);
        }
    }
    let done = dynamic::commit(&writer, machine, Some(to)).map_err(said)?;
    Ok(done.notes)
}

/// The configuration of a file with the pools and sets of the current fences added. No file has them. A commit
/// without them would remove them, which the machine refuses.
fn with_fences(mut file: PoolsConf, is: &PoolsConf, fenced: &[PsetId]) -> PoolsConf {
    for set in is.psets.iter().filter(|set| set.id.is_some_and(|id| fenced.contains(&id))) {
        if file.pset(&set.name).is_some() {
            continue;
        }
        // The file has its own keys, so this set gets a new one.
        let key = RefId::from(format!("fence {}", set.name));
        for pool in is.pools.iter().filter(|pool| pool.pset == set.ref_id) {
            if file.pool(&pool.name).is_none() {
                let ref_id = RefId::from(format!("fence pool {}", pool.name));
                file.pools.push(PoolNode { pset: key.clone(), ref_id, ..pool.clone() });
            }
        }
        let mut set = set.clone();
        set.ref_id = key;
        // poold neither adds CPUs to this set nor takes any away.
        (set.min, set.max) = (set.size(), set.size());
        file.psets.push(set);
    }
    file
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use millpond_model::pools::{PoolsState, PsetNode};
    use millpond_model::{CpuId, PoolId, State};
    use std::collections::BTreeMap;

    #[test]
    fn a_fence_that_stands_outlives_a_commit() {
        let mut conf = PoolsConf::fresh((0..4).map(|n| (CpuId(n), State::OnLine)));
        let set = |name: &str, id| {
            let mut set = PsetNode::new(name, "pset_1", id);
            (set.min, set.max) = (1, 2);
            set
        };
        conf.psets.push(set("pod-7", Some(PsetId(1))));
        conf.pools.push(PoolNode::new("pod-7", "pool_1", "pset_1", Some(PoolId(1))));
        conf.move_cpu(CpuId(3), "pod-7");
        let state = PoolsState { conf, keep_others: false, zones: BTreeMap::new() };
        // In the file, another set has the same key.
        let mut file = PoolsConf::fresh([]);
        file.psets.push(set("web", None));
        file.pools.push(PoolNode::new("web", "pool_1", "pset_1", None));
        let kept = with_fences(file.clone(), &state.conf, &[PsetId(1)]);
        let to = instantiate(&kept, &state).unwrap().conf;
        let fence = to.pool("pod-7").unwrap();
        assert_eq!(to.pset_of(fence).map(PsetNode::cpu_set), Some([CpuId(3)].into_iter().collect()));
        assert!(to.pset("web").is_some_and(|web| web.size() > 0));
        assert_eq!(to.pset_of(to.pool("web").unwrap()).unwrap().name, "web");
        assert_eq!(with_fences(file.clone(), &state.conf, &[]), file);
    }
}
