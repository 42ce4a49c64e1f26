//! Assigns a configuration to each node, and makes the ConfigMap of all assignments.

use crate::render::{Rendered, render};
use crate::resource::NodePools;
use millpond_formats::node_files::{NODES, fences_file, pools_file, write_nodes};
use std::collections::BTreeMap;

/// The most bytes of data in a ConfigMap: the API server limits a request to 1 MiB.
const DATA_MAX: usize = 1_000_000;

/// Labels of a node.
pub(crate) type Labels = BTreeMap<String, String>;

/// A resource with its files, or the reason why it has none.
#[derive(Debug)]
pub(crate) struct Known {
    /// The resource as it was last seen.
    pub(crate) object: NodePools,
    pub(crate) rendered: Result<Rendered, String>,
}

impl Known {
    pub(crate) fn new(object: NodePools) -> Known {
        let rendered = render(&object);
        Known { object, rendered }
    }

    fn selects(&self, labels: &Labels) -> bool {
        self.object.spec.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value))
    }
}

/// The configurations of all nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The resource of each node that has one.
    pub(crate) nodes: BTreeMap<String, String>,
    /// Nodes that a resource selects but an older one has: by resource, each node with the older resource.
    pub(crate) overlaps: BTreeMap<String, BTreeMap<String, String>>,
    /// The data of the ConfigMap.
    pub(crate) data: BTreeMap<String, String>,
}

/// Plans. Of several resources that select a node, the oldest has it; of equally old ones, the first by name. So a
/// new resource does not change a node that already has its pools.
///
/// # Errors
/// The ConfigMap would be too large.
pub(crate) fn plan(
    objects: &BTreeMap<String, Known>,
    nodes: &BTreeMap<String, Labels>,
) -> Result<Plan, String> {
    let mut by_age: Vec<(&String, &Known)> = objects.iter().collect();
    by_age.sort_by_key(|(name, known)| {
        let born = known.object.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (born, (*name).clone())
    });
    let mut plan = Plan::default();
    for (node, labels) in nodes {
        let mut selecting = by_age.iter().filter(|(_, known)| known.selects(labels));
        let Some((owner, _)) = selecting.next() else { continue };
        plan.nodes.insert(node.clone(), (*owner).clone());
        for (other, _) in selecting {
            plan.overlaps.entry((*other).clone()).or_default().insert(node.clone(), (*owner).clone());
        }
    }
    plan.data.insert(NODES.to_owned(), write_nodes(&plan.nodes));
    for (name, known) in objects {
        // With an invalid resource its nodes keep their pools: their lines stay, and the agents find no file.
        if let Ok(rendered) = &known.rendered {
            plan.data.insert(pools_file(name), rendered.pools.clone());
            plan.data.insert(fences_file(name), rendered.fences.clone());
        }
    }
    let bytes: usize = plan.data.iter().map(|(key, text)| key.len() + text.len()).sum();
    if bytes > DATA_MAX {
        return Err(format!(
            "the ConfigMap would have {bytes} bytes, and holds {DATA_MAX}: select fewer nodes"
        ));
    }
    Ok(plan)
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use serde_json::{Value, json};

    /// A resource that was created in that second.
    pub(crate) fn object(name: &str, born: u8, spec: &Value) -> NodePools {
        serde_json::from_value(json!({
            "apiVersion": "millpond.dev/v1alpha1",
            "kind": "NodePools",
            "metadata": {
                "name": name,
                "uid": "0123456789ab",
                "generation": 3,
                "creationTimestamp": format!("2026-01-01T00:00:{born:02}Z"),
            },
            "spec": spec,
        }))
        .unwrap()
    }

    pub(crate) fn known(objects: Vec<NodePools>) -> BTreeMap<String, Known> {
        objects.into_iter().map(|o| (o.metadata.name.clone().unwrap(), Known::new(o))).collect()
    }

    pub(crate) fn nodes(nodes: &[(&str, &str)]) -> BTreeMap<String, Labels> {
        let labels = |shape: &str| BTreeMap::from([("shape".to_owned(), shape.to_owned())]);
        nodes.iter().map(|(name, shape)| ((*name).to_owned(), labels(shape))).collect()
    }

    #[test]
    fn a_node_has_the_resource_that_selects_it() {
        let objects = known(vec![
            object(
                "web",
                1,
                &json!({"nodeSelector": {"shape": "big"}, "pools": [{"name": "web", "min": 2}]}),
            ),
            object("batch", 2, &json!({"nodeSelector": {"shape": "small"}})),
        ]);
        let plan = plan(&objects, &nodes(&[("a", "big"), ("b", "small"), ("c", "other")])).unwrap();
        assert_eq!(plan.data["nodes"], "a web\nb batch\n");
        assert_eq!(
            plan.data.keys().collect::<Vec<_>>(),
            ["batch.fences", "batch.xml", "nodes", "web.fences", "web.xml"]
        );
        assert!(plan.overlaps.is_empty());
    }

    #[test]
    fn of_two_that_select_a_node_the_older_one_has_it() {
        let objects = known(vec![
            object("a", 9, &json!({})),
            object("z", 1, &json!({"nodeSelector": {"shape": "big"}})),
        ]);
        let plan = plan(&objects, &nodes(&[("n1", "big"), ("n2", "small")])).unwrap();
        assert_eq!(plan.data["nodes"], "n1 z\nn2 a\n");
        let lost = BTreeMap::from([("n1".to_owned(), "z".to_owned())]);
        assert_eq!(plan.overlaps, BTreeMap::from([("a".to_owned(), lost)]));
    }

    #[test]
    fn one_that_is_invalid_has_no_files_and_keeps_its_nodes() {
        let bad = json!({"pools": [{"name": "web", "objectives": "speed > 9"}]});
        let objects = known(vec![object("bad", 1, &bad), object("late", 2, &json!({}))]);
        let plan = plan(&objects, &nodes(&[("n", "big")])).unwrap();
        assert_eq!(plan.data["nodes"], "n bad\n");
        assert_eq!(plan.data.keys().collect::<Vec<_>>(), ["late.fences", "late.xml", "nodes"]);
        let why = objects["bad"].rendered.as_ref().unwrap_err();
        assert!(
            why.starts_with(
                "spec.pools[web].objectives, column 1: unrecognized objective name for pset: speed > 9; "
            ),
            "{why}"
        );
    }

    #[test]
    fn a_map_that_is_too_large_is_refused() {
        let many: Vec<(String, String)> =
            (0..60_000).map(|n| (format!("node-{n:05}"), "big".to_owned())).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        let objects = known(vec![object("everywhere", 1, &json!({}))]);
        assert!(plan(&objects, &nodes(&many)).unwrap_err().contains("holds 1000000"));
    }
}
