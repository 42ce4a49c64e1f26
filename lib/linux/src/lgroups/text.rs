//! Parsers of kernel texts about memory by node.

use millpond_machine::facets::NodeMemory;
use millpond_model::{LgrpId, NodeSet};
use std::collections::{BTreeMap, BTreeSet};

/// Page size in KiB, if a line has no other one.
const PAGE_KIB: u64 = 4;

/// Parses `Node 0 MemTotal: 2040832 kB`, or the same without the node.
pub(super) fn parse_meminfo(text: &str) -> Option<NodeMemory> {
    let value = |key: &str| -> Option<u64> {
        let line = text.lines().find(|line| line.contains(key))?;
        line.split_once(key)?.1.split_ascii_whitespace().next()?.parse().ok()
    };
    Some(NodeMemory { installed_kib: value("MemTotal:")?, free_kib: value("MemFree:")? })
}

/// The nodes from which a process may get memory, from its `status`.
pub(super) fn parse_mems_allowed(text: &str) -> Option<BTreeSet<LgrpId>> {
    let list = text.lines().find_map(|line| line.strip_prefix("Mems_allowed_list:"))?;
    let list: NodeSet = list.trim().parse().ok()?;
    Some(list.iter().collect())
}

/// KiB by node. Each line is a memory area, with pages by node (`N0=12`) and their size (`kernelpagesize_kB=4`).
pub(super) fn parse_numa_maps(text: &str) -> BTreeMap<LgrpId, u64> {
    let mut pages: BTreeMap<LgrpId, u64> = BTreeMap::new();
    for line in text.lines() {
        let words = || line.split_ascii_whitespace();
        let size = words().find_map(|word| word.strip_prefix("kernelpagesize_kB=")?.parse().ok());
        for word in words() {
            let Some((node, count)) = word.strip_prefix('N').and_then(|rest| rest.split_once('=')) else {
                continue;
            };
            if let (Ok(node), Ok(count)) = (node.parse(), count.parse::<u64>()) {
                let here = pages.entry(LgrpId(node)).or_default();
                *here = here.saturating_add(count.saturating_mul(size.unwrap_or(PAGE_KIB)));
            }
        }
    }
    pages
}

/// The node that the kernel prefers for a thread, from its `sched` file, if there is one.
pub(super) fn parse_preferred(text: &str) -> Option<LgrpId> {
    let line = text.lines().find(|line| line.starts_with("numa_preferred_nid"))?;
    line.split_once(':')?.1.trim().parse().ok().map(LgrpId)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_node_and_of_a_machine_is_read() {
        let node =
            "Node 1 MemTotal:        2040832 kB\nNode 1 MemFree:          788000 kB\nNode 1 MemUsed: 1 kB";
        let memory = Some(NodeMemory { installed_kib: 2_040_832, free_kib: 788_000 });
        assert_eq!(parse_meminfo(node), memory);
        assert_eq!(parse_meminfo("MemTotal:  2040832 kB\nMemFree: 788000 kB\n"), memory);
        assert_eq!(parse_meminfo("MemTotal:  x kB\n"), None);
    }

    #[test]
    fn pages_of_each_size_add_up_by_node() {
        let text = "7f00 default anon=3 dirty=3 N0=1 N1=2 kernelpagesize_kB=4\n\
                    7f40 bind:0 file=/a/N1=7 huge N0=2 kernelpagesize_kB=2048\n\
                    7f80 default\n";
        let pages = parse_numa_maps(text);
        assert_eq!(pages, BTreeMap::from([(LgrpId(0), 4_100), (LgrpId(1), 8)]));
    }

    #[test]
    fn a_thread_that_the_kernel_wants_nowhere_has_no_preferred_node() {
        let line = |n: i32| format!("numa_pages_migrated : 0\nnuma_preferred_nid      :      {n}\n");
        assert_eq!(parse_preferred(&line(1)), Some(LgrpId(1)));
        assert_eq!(parse_preferred(&line(-1)), None);
    }

    #[test]
    fn the_nodes_that_a_process_may_use_are_a_list() {
        let text = "Mems_allowed:\t3\nMems_allowed_list:\t0-1\n";
        assert_eq!(parse_mems_allowed(text), Some(BTreeSet::from([LgrpId(0), LgrpId(1)])));
    }

    #[test]
    fn fuzz_memory_texts() {
        let seeds = [
            "Node 0 MemTotal: 20 kB\nNode 0 MemFree: 10 kB",
            "7f00 default N0=1 N1=2 kernelpagesize_kB=4",
            "numa_preferred_nid : 1",
            "Mems_allowed_list:\t0-1",
        ];
        millpond_fuzz::check_text("linux-lgroups", &seeds, |text| {
            let words = text.split_ascii_whitespace().count();
            assert!(parse_numa_maps(text).len() <= words);
            if let Some(memory) = parse_meminfo(text) {
                assert!(text.contains(&memory.installed_kib.to_string()));
            }
            assert!(parse_preferred(text).is_none_or(|node| text.contains(&node.to_string())));
            let _ = parse_mems_allowed(text);
        });
    }
}
