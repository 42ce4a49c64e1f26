//! The status of each resource, from the answers of the nodes.

use crate::plan::{Known, Labels, Plan};
use crate::resource::{NodePoolsStatus, NodeStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;

/// The most nodes in a status: an object is limited to 1.5 MB, and a status is written as a whole at each change.
const NODES_MAX: usize = 250;

/// The answer of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// The tag of the node's configuration.
    pub(crate) tag: Option<String>,
    /// Why the node refused its configuration.
    pub(crate) refused: Option<String>,
    /// The number of CPUs of each pool.
    pub(crate) cpus: BTreeMap<String, u32>,
}

/// The result of a query to the agent of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Heard {
    /// No answer, with the reason.
    Silent(String),
    /// The answer.
    Said(Report),
}

/// Reads a frame of gauge with the tables machine, pools and sets. Missing fields are unknown.
pub(crate) fn report_of(frame: &Value) -> Report {
    let rows = |table: &str| frame[table].as_array().map(Vec::as_slice).unwrap_or_default();
    let machine = rows("machine").first();
    let text = |name: &str| machine.and_then(|row| row[name].as_str()).map(str::to_owned);
    let size_of = |set: &Value| {
        let set = rows("sets").iter().find(|row| word(&row["set"]) == word(set))?;
        u32::try_from(set["size"].as_u64()?).ok()
    };
    let pool = |row: &Value| Some((row["name"].as_str()?.to_owned(), size_of(&row["set"])?));
    Report {
        tag: text("configuration"),
        refused: text("refused"),
        cpus: rows("pools").iter().filter_map(pool).collect(),
    }
}

/// The text of a value that is a number or a text.
fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A condition: its status, the reason as a word, and a sentence.
type Verdict = (Holds, &'static str, String);

/// The status of a condition.
type Holds = &'static str;

const YES: Holds = "True";
const NO: Holds = "False";
const UNKNOWN: Holds = "Unknown";

/// The data from which statuses are computed.
pub(crate) struct Cluster<'c> {
    pub(crate) plan: &'c Plan,
    pub(crate) nodes: &'c BTreeMap<String, Labels>,
    /// The answers of the queried nodes.
    pub(crate) heard: &'c BTreeMap<String, Heard>,
}

/// The status of a resource. Conditions that are unchanged keep their transition time.
pub(crate) fn status_of(
    name: &str,
    known: &Known,
    before: Option<&NodePoolsStatus>,
    cluster: &Cluster<'_>,
    now: Timestamp,
) -> NodePoolsStatus {
    let Cluster { plan, nodes, heard } = cluster;
    let (before, nodes_before) = before
        .map_or((&[][..], &[][..]), |status| (status.conditions.as_slice(), status.node_status.as_slice()));
    let generation = known.object.metadata.generation.unwrap_or(0);
    let lost = plan.overlaps.get(name);
    let selected = nodes.keys().filter(|node| {
        plan.nodes.get(*node).is_some_and(|owner| owner == name)
            || lost.is_some_and(|lost| lost.contains_key(*node))
    });
    let was: BTreeMap<&str, &NodeStatus> =
        nodes_before.iter().map(|node| (node.name.as_str(), node)).collect();
    let of_node = |node: &String| {
        let verdict = match lost.and_then(|lost| lost.get(node)) {
            Some(owner) => (NO, "Overlap", format!("the older NodePools {owner} selects it as well")),
            None => node_verdict(known, heard.get(node)),
        };
        let conditions = was.get(node.as_str()).map(|was| was.conditions.as_slice()).unwrap_or_default();
        let cpus = match heard.get(node) {
            Some(Heard::Said(report)) if verdict.0 == YES => report.cpus.clone(),
            _ => BTreeMap::new(),
        };
        let ready = condition("Ready", verdict, conditions, generation, now);
        NodeStatus { name: node.clone(), conditions: vec![ready], cpus }
    };
    let mut all: Vec<NodeStatus> = selected.map(of_node).collect();
    let is_ready = |node: &NodeStatus| node.conditions.iter().any(|c| c.status == YES);
    let count = |nodes: usize| u32::try_from(nodes).unwrap_or(u32::MAX);
    let ready = all.iter().filter(|node| is_ready(node)).count();
    let whole =
        match all.iter().find(|node| !is_ready(node)).and_then(|node| Some((node, node.conditions.first()?)))
        {
            _ if all.is_empty() => (YES, "NoNodes", "it selects no node".to_owned()),
            None => (YES, "AllNodes", format!("{ready} nodes have these pools")),
            Some((first, why)) => {
                let what =
                    format!("{} of {} nodes; {}: {}", all.len() - ready, all.len(), first.name, why.message);
                let is_known = all.iter().flat_map(|node| &node.conditions).any(|c| c.status == NO);
                (if is_known { NO } else { UNKNOWN }, "SomeNodes", what)
            }
        };
    let accepted = match &known.rendered {
        Ok(_) => (YES, "Valid", "the pools are valid".to_owned()),
        Err(why) => (NO, "Invalid", format!("{why}; nodes keep the pools that they have")),
    };
    let conditions = vec![
        condition("Accepted", accepted, before, generation, now),
        condition("Ready", whole, before, generation, now),
    ];
    let sizes = sizes_of(known, &all);
    let nodes = count(all.len());
    all.sort_by_key(is_ready);
    all.truncate(NODES_MAX);
    all.sort_by(|a, b| a.name.cmp(&b.name));
    NodePoolsStatus {
        observed_generation: generation,
        nodes,
        ready: count(ready),
        sizes,
        conditions,
        node_status: all,
    }
}

fn node_verdict(known: &Known, heard: Option<&Heard>) -> Verdict {
    let rendered = match &known.rendered {
        Ok(rendered) => rendered,
        Err(_) => return (NO, "Invalid", "the pools are invalid".to_owned()),
    };
    match heard {
        None => (UNKNOWN, "NotAsked", "its agent was not asked yet".to_owned()),
        Some(Heard::Silent(why)) => (NO, "NoAnswer", why.clone()),
        // Also if the node has the pools but not the fences.
        Some(Heard::Said(Report { refused: Some(why), .. })) => (NO, "Refused", why.clone()),
        Some(Heard::Said(report)) if report.tag.as_ref() == Some(&rendered.tag) => {
            (YES, "Committed", "it has these pools".to_owned())
        }
        Some(Heard::Said(Report { tag: Some(tag), .. })) => (NO, "Older", format!("it still has {tag}")),
        Some(Heard::Said(_)) => (NO, "Older", "it has no pools of the cluster yet".to_owned()),
    }
}

fn condition(
    kind: &str,
    (status, reason, message): Verdict,
    before: &[Condition],
    generation: i64,
    now: Timestamp,
) -> Condition {
    let same = before.iter().find(|was| was.type_ == kind && was.status == status);
    Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: Some(generation),
        last_transition_time: same.map_or(Time(now), |was| was.last_transition_time.clone()),
    }
}

/// The sizes of pools on ready nodes, in the order of the resource: `web 2-6, batch 1`.
fn sizes_of(known: &Known, nodes: &[NodeStatus]) -> String {
    let of = |pool: &str| {
        let sizes = || nodes.iter().filter_map(|node| node.cpus.get(pool));
        let (least, most) = (sizes().min()?, sizes().max()?);
        Some(if least == most { format!("{pool} {least}") } else { format!("{pool} {least}-{most}") })
    };
    let pools: Vec<String> = known.object.spec.pools.iter().filter_map(|pool| of(&pool.name)).collect();
    pools.join(", ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::plan::plan;
    use crate::plan::tests::{known, nodes, object};
    use serde_json::json;

    fn said(tag: &str, refused: Option<&str>, web: u32) -> Heard {
        Heard::Said(Report {
            tag: Some(tag.to_owned()),
            refused: refused.map(str::to_owned),
            cpus: BTreeMap::from([("web".to_owned(), web)]),
        })
    }

    fn cluster<'c>(
        plan: &'c Plan,
        nodes: &'c BTreeMap<String, Labels>,
        heard: &'c BTreeMap<String, Heard>,
    ) -> Cluster<'c> {
        Cluster { plan, nodes, heard }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_frame_is_read() {
        let frame = json!({
            "machine": [{"machine": "real", "configuration": "web-3-01234567"}],
            "pools": [{"pool": 0, "name": "pool_default", "set": 0}, {"pool": 1, "name": "web", "set": "2"}],
            "sets": [{"set": 0, "size": 6}, {"set": 2, "size": 2}],
        });
        let report = report_of(&frame);
        assert_eq!(report.tag.as_deref(), Some("web-3-01234567"));
        assert_eq!(report.refused, None);
        let cpus = [("pool_default", 6), ("web", 2)].map(|(name, cpus)| (name.to_owned(), cpus));
        assert_eq!(report.cpus, BTreeMap::from(cpus));
        assert_eq!(report_of(&json!({"error": "x"})), Report::default());
    }

    #[test]
    fn nodes_are_ready_when_they_have_this_generation() {
        let spec = json!({"pools": [{"name": "web"}]});
        let objects = known(vec![object("web", 1, &spec)]);
        let nodes = nodes(&[("a", ""), ("b", ""), ("c", ""), ("d", ""), ("e", "")]);
        let plan = plan(&objects, &nodes).unwrap();
        let heard = BTreeMap::from([
            ("a".to_owned(), said("web-3-01234567", None, 2)),
            ("b".to_owned(), said("web-3-01234567", None, 5)),
            ("c".to_owned(), said("web-2-01234567", Some("9 CPUs are wanted, and there are 4"), 1)),
            ("d".to_owned(), Heard::Silent("connection refused".to_owned())),
            ("e".to_owned(), said("web-2-01234567", None, 1)),
        ]);
        let status = status_of("web", &objects["web"], None, &cluster(&plan, &nodes, &heard), at(100));
        assert_eq!((status.nodes, status.ready, status.sizes.as_str()), (5, 2, "web 2-5"));
        let told: Vec<(&str, &str)> = status
            .node_status
            .iter()
            .map(|n| (n.conditions[0].reason.as_str(), n.conditions[0].message.as_str()))
            .collect();
        assert_eq!(
            told,
            [
                ("Committed", "it has these pools"),
                ("Committed", "it has these pools"),
                ("Refused", "9 CPUs are wanted, and there are 4"),
                ("NoAnswer", "connection refused"),
                ("Older", "it still has web-2-01234567"),
            ]
        );
        let ready = &status.conditions[1];
        assert_eq!(ready.status, "False");
        assert_eq!(ready.message, "3 of 5 nodes; c: 9 CPUs are wanted, and there are 4");
    }

    #[test]
    fn a_condition_keeps_its_time_until_it_changes() {
        let objects = known(vec![object("web", 1, &json!({}))]);
        let nodes = nodes(&[("a", "")]);
        let plan = plan(&objects, &nodes).unwrap();
        let now = |status: &NodePoolsStatus| status.conditions[1].last_transition_time.0;
        let status = |before: Option<&NodePoolsStatus>, heard: Option<Heard>, second| {
            let heard = heard.into_iter().map(|heard| ("a".to_owned(), heard)).collect();
            status_of("web", &objects["web"], before, &cluster(&plan, &nodes, &heard), at(second))
        };
        let silent = |why: &str| Some(Heard::Silent(why.to_owned()));
        let first = status(None, None, 100);
        assert_eq!(first.conditions[1].status, "Unknown");
        let second = status(Some(&first), silent("gone"), 200);
        assert_eq!((now(&first), now(&second)), (at(100), at(200)));
        assert_eq!(second.conditions[1].message, "1 of 1 nodes; a: gone");
        assert_eq!(now(&status(Some(&second), silent("lost"), 250)), at(200));
        assert_eq!(now(&status(Some(&second), Some(said("web-3-01234567", None, 1)), 300)), at(300));
    }

    #[test]
    fn a_status_has_so_many_nodes_and_those_that_are_not_ready_first() {
        let objects = known(vec![object("web", 1, &json!({}))]);
        let names: Vec<String> = (0..1000).map(|n| format!("n{n:04}")).collect();
        let named: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        let nodes = nodes(&named);
        let plan = plan(&objects, &nodes).unwrap();
        let mut heard: BTreeMap<String, Heard> =
            names.iter().map(|name| (name.clone(), said("web-3-01234567", None, 1))).collect();
        heard.insert("n0999".to_owned(), Heard::Silent("gone".to_owned()));
        let status = status_of("web", &objects["web"], None, &cluster(&plan, &nodes, &heard), at(1));
        assert_eq!((status.nodes, status.ready, status.node_status.len()), (1000, 999, 250));
        assert_eq!(status.node_status.last().unwrap().name, "n0999");
    }

    #[test]
    fn an_overlap_and_a_mistake_are_told() {
        let bad = json!({"pools": [{"name": "web", "min": 3, "max": 2}]});
        let objects = known(vec![object("old", 1, &bad), object("new", 2, &json!({}))]);
        let nodes = nodes(&[("a", "")]);
        let plan = plan(&objects, &nodes).unwrap();
        let heard = BTreeMap::new();
        let status =
            |name: &str| status_of(name, &objects[name], None, &cluster(&plan, &nodes, &heard), at(1));
        let old = status("old");
        assert_eq!(
            (old.conditions[0].status.as_str(), old.conditions[0].reason.as_str()),
            ("False", "Invalid")
        );
        assert_eq!(
            old.conditions[0].message,
            "spec.pools[web]: min is greater than max; nodes keep the pools that they have"
        );
        let new = status("new");
        assert_eq!(new.node_status[0].conditions[0].reason, "Overlap");
        assert_eq!(new.conditions[1].message, "1 of 1 nodes; a: the older NodePools old selects it as well");
    }
}
