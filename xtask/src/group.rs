//! The groups in which tests run, innermost crates first: the first failure is nearest to the cause.

/// One group of crates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// Its name in the table.
    pub name: &'static str,
    /// Its crates, by the last component of their directories.
    crates: &'static [&'static str],
}

/// All groups except the last one, which has the remaining crates.
const GROUPS: [Group; 7] = [
    Group { name: "house", crates: &["layering", "xtask", "benches", "fuzz"] },
    Group {
        name: "values",
        crates: &["model", "cli", "formats", "observe", "screen", "store", "planner", "report", "umem"],
    },
    Group {
        name: "machines",
        crates: &["machine", "rules", "sim", "bpf", "nri", "linux", "session", "collect"],
    },
    Group { name: "workloads", crates: &["workloads", "rt", "rt-layout", "rt-malloc", "unwind"] },
    Group {
        name: "pools",
        crates: &["pools", "poold", "gauge", "node", "controller", "node-tests", "member", "member-c"],
    },
    Group { name: "kernels", crates: &["live", "vm"] },
    Group { name: "commands", crates: &["cmd", "golden", "caches", "millpond", "experiments"] },
];

/// The group of crates that are in no other group, so that their tests run in any case.
pub const REST: Group = Group { name: "other", crates: &[] };

/// The order of groups. Real kernels are last, because they take longest.
pub const ORDER: [&str; 8] =
    ["house", "values", "machines", "workloads", "pools", "commands", "other", "kernels"];

/// The group of a crate.
#[must_use]
pub fn group_of(package: &str) -> Group {
    GROUPS.into_iter().find(|group| group.crates.contains(&package)).unwrap_or(REST)
}

/// Sorts by group, in running order, and keeps the order within a group.
#[must_use]
pub fn grouped<T>(items: Vec<T>, package: impl Fn(&T) -> &str) -> Vec<(Group, Vec<T>)> {
    let mut groups: Vec<(Group, Vec<T>)> = Vec::new();
    for item in items {
        let group = group_of(package(&item));
        match groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, members)) => members.push(item),
            None => groups.push((group, vec![item])),
        }
    }
    groups.sort_by_key(|(group, _)| ORDER.iter().position(|name| *name == group.name));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_has_a_place_in_the_order() {
        for group in GROUPS.iter().chain([&REST]) {
            assert!(ORDER.contains(&group.name), "{}", group.name);
        }
    }

    #[test]
    fn crates_run_inside_out_and_none_is_forgotten() {
        let found = grouped(vec!["vm", "attic", "cmd", "model", "formats", "layering"], |name| name);
        let names: Vec<_> = found.iter().map(|(group, members)| (group.name, members.clone())).collect();
        assert_eq!(
            names,
            [
                ("house", vec!["layering"]),
                ("values", vec!["model", "formats"]),
                ("commands", vec!["cmd"]),
                ("other", vec!["attic"]),
                ("kernels", vec!["vm"]),
            ]
        );
    }
}
