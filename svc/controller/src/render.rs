//! The files of a node, from a `NodePools`: its pools as a file of pooladm, and its fences.

use crate::resource::{NodePools, NodePoolsSpec};
use millpond_formats::node_files::{CONFIGURATION, cpus_of, write_fence};
use millpond_formats::pools::{objectives, xml};
use millpond_model::pools::{ElementKind, Objectives, PoolNode, PoolsConf, PsetNode};
use millpond_model::{CpuSet, PoolId, PsetId};
use std::fmt::Display;

/// The files of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rendered {
    /// The text of the file of its pools.
    pub(crate) pools: String,
    /// The text of the file of its fences.
    pub(crate) fences: String,
    /// The tag that identifies this state of the resource.
    pub(crate) tag: String,
}

/// The number of UID digits in the tag. They distinguish a resource from an older one of the same name.
const UID_DIGITS: usize = 8;

/// The files of a resource.
///
/// # Errors
/// The invalid value, with its path in the resource.
pub(crate) fn render(object: &NodePools) -> Result<Rendered, String> {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let uid: String = object.metadata.uid.iter().flat_map(|uid| uid.chars()).take(UID_DIGITS).collect();
    let tag = format!("{name}-{}-{uid}", object.metadata.generation.unwrap_or(0));
    let mut conf = conf_of(&object.spec)?;
    conf.system.user.set(CONFIGURATION, tag.as_str());
    let pools = xml::write(&conf).map_err(|error| format!("spec: {error}"))?;
    Ok(Rendered { pools, fences: fences_of(&object.spec)?, tag })
}

fn conf_of(spec: &NodePoolsSpec) -> Result<PoolsConf, String> {
    let mut conf = PoolsConf::fresh([]);
    "nodepools".clone_into(&mut conf.system.name);
    conf.system.objectives = strives(&spec.objectives, ElementKind::System, "spec.objectives")?;
    conf.system.monitor_interval = spec.monitor_interval_ms.map(u64::from);
    if let Some(pool) = conf.pools.first_mut() {
        pool.importance = spec.default_pool.importance.into();
    }
    if let Some(set) = conf.psets.first_mut() {
        set.min = spec.default_pool.min.into();
        set.objectives =
            strives(&spec.default_pool.objectives, ElementKind::Pset, "spec.defaultPool.objectives")?;
    }
    for (pool, number) in spec.pools.iter().zip(1u32..) {
        let path = format!("spec.pools[{}]", pool.name);
        if conf.pool(&pool.name).is_some() {
            return Err(format!("{path}: there is another pool of this name"));
        }
        if pool.min > pool.max {
            return Err(format!("{path}: min is greater than max"));
        }
        let key = format!("pset_{number}");
        let mut set = PsetNode::new(&pool.name, key.clone(), Some(PsetId(number)));
        (set.min, set.max) = (pool.min.into(), pool.max.into());
        set.objectives = strives(&pool.objectives, ElementKind::Pset, &format!("{path}.objectives"))?;
        conf.psets.push(set);
        let mut node = PoolNode::new(&pool.name, format!("pool_{number}"), key, Some(PoolId(number)));
        node.importance = pool.importance.into();
        conf.pools.push(node);
    }
    Ok(conf)
}

/// Parses objectives. poold ignores invalid ones; here they are errors.
fn strives(text: &str, kind: ElementKind, path: &str) -> Result<Option<Objectives>, String> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let parsed = objectives::parse(text, kind);
    match parsed.warnings.first() {
        Some(warning) => Err(format!("{path}, column {}: {warning}; {}", warning.column, warning.hint())),
        None => Ok(Some(parsed)),
    }
}

fn fences_of(spec: &NodePoolsSpec) -> Result<String, String> {
    let mut text = String::new();
    let mut taken = CpuSet::default();
    for fence in &spec.fences {
        let path = format!("spec.fences[{}]", fence.name);
        let wrong = |why: &dyn Display| format!("{path}: {why}");
        let cpus = cpus_of(&fence.cpus).map_err(|why| wrong(&why))?;
        if !taken.is_disjoint(&cpus) {
            return Err(wrong(&"another fence has some of its CPUs"));
        }
        for cpu in cpus.iter() {
            taken.insert(cpu);
        }
        text.push_str(&write_fence(&fence.name, &fence.profile, &fence.cpus));
    }
    millpond_formats::node_files::read_fences(&text).map_err(|why| format!("spec.fences, number {why}"))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::plan::tests::object;
    use serde_json::json;

    #[test]
    fn a_resource_is_a_file_that_pooladm_reads() {
        let spec = json!({
            "monitorIntervalMs": 500,
            "defaultPool": {"min": 2, "importance": 3},
            "pools": [
                {"name": "web", "min": 1, "max": 6, "importance": 10, "objectives": "utilization < 80"},
                {"name": "batch"},
            ],
            "fences": [{"name": "packets", "profile": "low-latency", "cpus": "2-3"}],
        });
        let rendered = render(&object("front", 1, &spec)).unwrap();
        let conf = xml::read(&rendered.pools).unwrap();
        assert_eq!(conf.system.user.string(CONFIGURATION), Some("front-3-01234567"));
        assert_eq!(conf.system.monitor_interval, Some(500));
        let sets: Vec<_> = conf.psets.iter().map(|s| (s.name.as_str(), s.min, s.max)).collect();
        assert_eq!(sets, [("pset_default", 2, 65_536), ("web", 1, 6), ("batch", 1, 65_536)]);
        let pools: Vec<_> = conf.pools.iter().map(|p| (p.name.as_str(), p.importance)).collect();
        assert_eq!(pools, [("pool_default", 3), ("web", 10), ("batch", 1)]);
        let web = conf.pool("web").unwrap();
        assert_eq!(conf.pset_of(web).unwrap().objectives.as_ref().unwrap().text, "utilization < 80");
        assert_eq!(rendered.fences, "node-packets low-latency 2-3\n");
        assert_eq!(rendered.tag, "front-3-01234567");
    }

    #[test]
    fn what_is_invalid_is_told_with_its_place() {
        let fence = |name: &str, cpus: &str| json!({"name": name, "profile": "gentle", "cpus": cpus});
        for (spec, why) in [
            (
                json!({"pools": [{"name": "a"}, {"name": "a"}]}),
                "spec.pools[a]: there is another pool of this name",
            ),
            (json!({"pools": [{"name": "a", "min": 2, "max": 1}]}), "spec.pools[a]: min is greater than max"),
            (
                json!({"fences": [fence("a", "1-3"), fence("b", "3")]}),
                "spec.fences[b]: another fence has some of its CPUs",
            ),
            (json!({"fences": [fence("a", "3-1")]}), "spec.fences[a]: CPUs are a list, such as 2-3,6"),
        ] {
            assert_eq!(render(&object("x", 1, &spec)).unwrap_err(), why);
        }
        let wrong = json!({"objectives": "wt-load; speed"});
        let why = render(&object("x", 1, &wrong)).unwrap_err();
        assert!(why.starts_with("spec.objectives, column 10: "), "{why}");
    }
}
