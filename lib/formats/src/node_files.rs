//! Files with the pools and fences of each node of a cluster. The controller writes them into one ConfigMap, and the agent of each
//! node reads the files of its node.
//!
//! `nodes` has a line for each node: its name and the name of its configuration. `CONFIGURATION.xml` has its pools in the format of `pooladm`,
//! `CONFIGURATION.fences` a line for each fence: its name, its profile and its CPUs. A node without a line has no pools.

use millpond_model::{CpuSet, FenceName};
use std::collections::BTreeMap;

/// The file with a line for each node.
pub const NODES: &str = "nodes";

/// The prefix of fence names in a configuration. Fences with other names belong to users and pods.
pub const FENCE_PREFIX: &str = "node-";

/// The system property with the name of the node's configuration, in the file of its pools.
pub const CONFIGURATION: &str = "millpond.configuration";

/// The system property with the reason why a node rejected its configuration. It is never written to a file.
pub const REFUSED: &str = "millpond.refused";

/// The file of the pools of a configuration.
#[must_use]
pub fn pools_file(configuration: &str) -> String {
    format!("{configuration}.xml")
}

/// The file with the fences of a configuration.
#[must_use]
pub fn fences_file(configuration: &str) -> String {
    format!("{configuration}.fences")
}

/// The text of [`NODES`] from the configuration of each node.
#[must_use]
pub fn write_nodes(nodes: &BTreeMap<String, String>) -> String {
    nodes.iter().map(|(node, configuration)| format!("{node} {configuration}\n")).collect()
}

/// The configuration of a node, from the text of [`NODES`].
#[must_use]
pub fn configuration_of<'t>(text: &'t str, node: &str) -> Option<&'t str> {
    let words = text.lines().filter_map(|line| line.split_once(' '));
    words.filter(|(name, _)| *name == node).map(|(_, configuration)| configuration.trim()).next()
}

/// A fence of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFence {
    /// Its name, which begins with [`FENCE_PREFIX`].
    pub name: FenceName,
    /// The profile, by name.
    pub profile: String,
    /// Its CPUs.
    pub cpus: CpuSet,
}

/// Parses the CPUs of a fence: a list with at least one CPU.
///
/// # Errors
/// A description of the expected form.
pub fn cpus_of(list: &str) -> Result<CpuSet, &'static str> {
    let cpus = list.trim().parse::<CpuSet>().ok().filter(|cpus| !cpus.is_empty());
    cpus.ok_or("CPUs are a list, such as 2-3,6")
}

/// The line of a fence.
#[must_use]
pub fn write_fence(name: &str, profile: &str, cpus: &str) -> String {
    format!("{FENCE_PREFIX}{name} {profile} {cpus}\n")
}

/// Parses the fences of a file.
///
/// # Errors
/// The error with its line, from 1.
pub fn read_fences(text: &str) -> Result<Vec<NodeFence>, String> {
    let of = |(number, line): (usize, &str)| {
        let at = number + 1;
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, profile, cpus] = words[..] else {
            return Err(format!("{at}: a fence has a name, a profile and CPUs"));
        };
        if !name.starts_with(FENCE_PREFIX) {
            return Err(format!("{at}: the name of a fence of a node begins with {FENCE_PREFIX}"));
        }
        let name: FenceName = name.parse().map_err(|error| format!("{at}: {error}"))?;
        let cpus = cpus_of(cpus).map_err(|error| format!("{at}: {error}"))?;
        Ok(NodeFence { name, profile: profile.to_owned(), cpus })
    };
    text.lines().enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_node_finds_its_configuration() {
        let nodes =
            BTreeMap::from([("a", "web"), ("a-2", "batch")].map(|(a, b)| (a.to_owned(), b.to_owned())));
        let text = write_nodes(&nodes);
        assert_eq!(text, "a web\na-2 batch\n");
        assert_eq!(configuration_of(&text, "a"), Some("web"));
        assert_eq!(configuration_of(&text, "a-2"), Some("batch"));
        assert_eq!(configuration_of(&text, "a-"), None);
        assert_eq!((pools_file("web").as_str(), fences_file("web").as_str()), ("web.xml", "web.fences"));
    }

    #[test]
    fn fences_are_read_as_they_were_written() {
        let text = [write_fence("dpdk", "low-latency", "2-3"), write_fence("a", "gentle", "5")].concat();
        assert_eq!(text, "node-dpdk low-latency 2-3\nnode-a gentle 5\n");
        let fences = read_fences(&text).unwrap();
        let told: Vec<_> =
            fences.iter().map(|f| (f.name.to_string(), f.profile.as_str(), f.cpus.iter().count())).collect();
        assert_eq!(told, [("node-dpdk".to_owned(), "low-latency", 2), ("node-a".to_owned(), "gentle", 1)]);
        assert_eq!(read_fences("").unwrap(), []);
    }

    #[test]
    fn a_line_that_is_none_is_told_by_its_number() {
        let good = "node-a gentle 5\n";
        for (bad, why) in [
            ("node-b gentle", "2: a fence has a name, a profile and CPUs"),
            ("b gentle 1", "2: the name of a fence of a node begins with node-"),
        ] {
            assert_eq!(read_fences(&format!("{good}{bad}\n")).unwrap_err(), why);
        }
        assert!(read_fences("node-b gentle 5-x") == Err("1: CPUs are a list, such as 2-3,6".to_owned()));
    }
}
