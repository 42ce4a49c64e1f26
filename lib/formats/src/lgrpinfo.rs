//! The listings of `lgrpinfo`: lgroups in a list, as a tree, and their latencies.

use crate::lgroups::{general, list};
use millpond_model::{CpuSet, Group, GroupId, GroupKind, LgroupTree};
use std::fmt::Write as _;
use std::str::FromStr;

/// A unit of memory; each is 1,024 times the previous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUnit {
    letter: char,
    power: i32,
}

/// The letters of units, smallest first.
const UNITS: &str = "bkmgtpe";

/// A word that is not a unit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no unit of memory; b, k, m, g, t, p and e are")]
pub struct NoSuchUnit(pub String);

impl FromStr for MemoryUnit {
    type Err = NoSuchUnit;

    fn from_str(text: &str) -> Result<Self, NoSuchUnit> {
        let mut known = UNITS.chars().zip(0..);
        let (letter, power) = known
            .find(|(letter, _)| letter.to_string() == text)
            .ok_or_else(|| NoSuchUnit(text.to_owned()))?;
        Ok(MemoryUnit { letter: letter.to_ascii_uppercase(), power })
    }
}

/// The data of an lgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About<'a> {
    /// Its position in the tree.
    pub group: &'a Group,
    /// Its usable CPUs.
    pub cpus: CpuSet,
    /// The leaves in it that have such CPUs.
    pub cpu_leaves: Vec<GroupId>,
    /// The leaves in it that have memory.
    pub memory_leaves: Vec<GroupId>,
    /// Installed and free memory in KiB, if any.
    pub memory_kib: Option<(u64, u64)>,
    /// Running and waiting threads in thousandths, if it has CPUs.
    pub load_milli: Option<u64>,
    /// Its latency, if known.
    pub latency: Option<u64>,
}

/// The parts of the listing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // a letter of the command line each
pub struct Shown {
    /// Children and parent.
    pub topology: bool,
    /// CPUs.
    pub cpus: bool,
    /// Memory.
    pub memory: bool,
    /// The leaves that its resources belong to.
    pub resources: bool,
    /// Load.
    pub load: bool,
    /// Latency.
    pub latency: bool,
    /// The unit of memory; `None` selects a suitable one.
    pub unit: Option<MemoryUnit>,
}

/// The size of memory: below 1,024 of its unit, with one decimal below 10; or in the requested unit.
#[must_use]
#[allow(clippy::cast_precision_loss)] // it is rounded to two digits
pub fn size(kib: u64, unit: Option<MemoryUnit>) -> String {
    let shown = |value: f64| if value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") };
    if let Some(MemoryUnit { letter, power }) = unit {
        let value = kib as f64 * 1024f64.powi(1 - power);
        return match value {
            _ if kib == 0 => format!("0{letter}"),
            value if value < 0.1 => format!("{:>2}{letter}", general(value, 1)),
            value => format!("{}{letter}", shown(value)),
        };
    }
    let (mut value, mut letters) = (kib as f64, UNITS[1..].chars().map(|c| c.to_ascii_uppercase()));
    let mut letter = letters.next().unwrap_or('K');
    while value >= 1024.0 {
        let Some(next) = letters.next() else { break };
        (value, letter) = (value / 1024.0, next);
    }
    if kib == 0 { format!("0{letter}") } else { format!("{}{letter}", shown(value)) }
}

/// The first line of an lgroup: `lgroup 0 (root):`.
#[must_use]
pub fn title(group: &Group) -> String {
    format!("lgroup {} ({}):", group.id, group.kind)
}

/// The lines of an lgroup, without indentation.
#[must_use]
pub fn lines(about: &About<'_>, shown: &Shown) -> Vec<String> {
    let mut lines = Vec::new();
    if shown.topology {
        let children = match ids(&about.group.children) {
            none if none.is_empty() => "none".to_owned(),
            children => children,
        };
        let parent = about.group.parent.map(|parent| format!(", Parent: {parent}")).unwrap_or_default();
        lines.push(format!("Children: {children}{parent}"));
    }
    let cpus: Vec<u32> = about.cpus.iter().map(|cpu| cpu.0).collect();
    match cpus.as_slice() {
        _ if !shown.cpus => {}
        [] => {}
        [only] => lines.push(format!("CPU: {only}")),
        many => lines.push(format!("CPUs: {}", list(many, 3, " "))),
    }
    if let Some((installed, free)) = about.memory_kib.filter(|_| shown.memory) {
        let of = |kib| size(kib, shown.unit);
        let allocated = of(installed.saturating_sub(free));
        lines.push(format!("Memory: installed {}, allocated {allocated}, free {}", of(installed), of(free)));
    }
    if shown.resources {
        lines.push(resources(about));
    }
    if let Some(load) = about.load_milli.filter(|_| shown.load) {
        #[allow(clippy::cast_precision_loss)] // three digits are shown
        let load = load as f64 / 1_000.0;
        lines.push(format!("Load: {}", general(load, 3)));
    }
    if let Some(latency) = about.latency.filter(|_| shown.latency) {
        lines.push(format!("Latency: {latency}"));
    }
    lines
}

fn resources(about: &About<'_>) -> String {
    let one =
        |leaves: &[GroupId], kind: &str| (!leaves.is_empty()).then(|| format!(" {} ({kind})", ids(leaves)));
    let parts: Vec<String> =
        [one(&about.cpu_leaves, "CPU"), one(&about.memory_leaves, "memory")].into_iter().flatten().collect();
    if parts.is_empty() {
        "Lgroup resources:none".to_owned()
    } else {
        format!("Lgroup resources:{}", parts.join(";"))
    }
}

fn ids(groups: &[GroupId]) -> String {
    list(&groups.iter().map(|group| group.0).collect::<Vec<_>>(), 3, " ")
}

/// The tree, lines with newlines: each lgroup with its own lines below it.
#[must_use]
pub fn tree(tree: &LgroupTree, said: &dyn Fn(&Group) -> Vec<String>) -> String {
    let mut text = String::new();
    if let Some(root) = tree.group(GroupId::ROOT) {
        let _ = writeln!(text, "{}", root.id);
        said(root).iter().for_each(|line| text += &format!("    {line}\n"));
        branches(tree, root, "", said, &mut text);
    }
    text
}

fn branches(
    tree: &LgroupTree,
    above: &Group,
    indent: &str,
    said: &dyn Fn(&Group) -> Vec<String>,
    text: &mut String,
) {
    for child in above.children.iter().filter_map(|id| tree.group(*id)) {
        let is_last = above.children.last() == Some(&child.id);
        let (branch, below) = if is_last { ("`-- ", "    ") } else { ("|-- ", "|   ") };
        let _ = writeln!(text, "{indent}{branch}{}", child.id);
        let indent = format!("{indent}{below}");
        said(child).iter().for_each(|line| *text += &format!("{indent}{line}\n"));
        branches(tree, child, &indent, said, text);
    }
}

/// The parts of the listing for an lgroup in a tree: the root only if it is the only lgroup, resources only of intermediate ones, and never
/// the topology.
#[must_use]
pub fn in_tree(kind: GroupKind, is_alone: bool, shown: &Shown) -> Option<Shown> {
    let resources = shown.resources && kind == GroupKind::Intermediate;
    (kind != GroupKind::Root || is_alone).then_some(Shown { topology: false, resources, ..*shown })
}

/// The latencies between lgroups, lines with newlines, with a blank line before and after the title.
#[must_use]
pub fn latencies(tree: &LgroupTree) -> String {
    let groups = tree.groups();
    let digits = |number: u64| number.to_string().len();
    let last = groups.last().map_or(0, |group| u64::from(group.id.0));
    let label = digits(last) + 1;
    let cell = label.max(tree.latency(GroupId::ROOT, GroupId::ROOT).map_or(0, digits) + 1);
    let rule = "-".repeat(label + 1 + cell * groups.len());
    let mut text = format!("\nLgroup latencies:\n\n{rule}\n{:label$}|", "");
    groups.iter().for_each(|group| text += &format!("{:>cell$}", group.id.0));
    text += &format!("\n{rule}\n");
    for from in groups {
        let _ = write!(text, "{:<label$}|", from.id.0);
        for to in groups {
            let far = tree.latency(from.id, to.id).map_or("-".to_owned(), |latency| latency.to_string());
            let _ = write!(text, "{far:>cell$}");
        }
        text.push('\n');
    }
    text + &rule + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::LgrpId;

    fn two() -> LgroupTree {
        LgroupTree::new(&[LgrpId(0), LgrpId(1)], &[vec![56, 83], vec![83, 56]])
    }

    const ALL: Shown = Shown {
        topology: true,
        cpus: true,
        memory: true,
        resources: true,
        load: true,
        latency: true,
        unit: None,
    };

    #[test]
    fn the_sample_of_the_manual() {
        let tree = two();
        let group = |n| tree.group(GroupId(n)).unwrap();
        let gib = 1 << 20;
        let root = About {
            group: group(0),
            cpus: "0-3".parse().unwrap(),
            cpu_leaves: vec![GroupId(1), GroupId(2)],
            memory_leaves: vec![GroupId(1), GroupId(2)],
            memory_kib: Some((4 * gib, gib * 9 / 5)),
            load_milli: Some(240),
            latency: tree.latency(GroupId(0), GroupId(0)),
        };
        assert_eq!(title(root.group), "lgroup 0 (root):");
        assert_eq!(
            lines(&root, &ALL),
            [
                "Children: 1 2",
                "CPUs: 0-3",
                "Memory: installed 4.0G, allocated 2.2G, free 1.8G",
                "Lgroup resources: 1 2 (CPU); 1 2 (memory)",
                "Load: 0.24",
                "Latency: 83"
            ]
        );
        let leaf = About {
            group: group(1),
            cpus: "0-1".parse().unwrap(),
            cpu_leaves: vec![GroupId(1)],
            memory_leaves: vec![GroupId(1)],
            memory_kib: Some((2 * gib, 788 << 10)),
            load_milli: Some(400),
            latency: tree.latency(GroupId(1), GroupId(1)),
        };
        assert_eq!(
            lines(&leaf, &ALL),
            [
                "Children: none, Parent: 0",
                "CPUs: 0 1",
                "Memory: installed 2.0G, allocated 1.2G, free 788M",
                "Lgroup resources: 1 (CPU); 1 (memory)",
                "Load: 0.4",
                "Latency: 56"
            ]
        );
        let bare = About {
            cpus: CpuSet::new(),
            cpu_leaves: Vec::new(),
            memory_leaves: Vec::new(),
            memory_kib: None,
            load_milli: None,
            latency: None,
            ..leaf.clone()
        };
        assert_eq!(lines(&bare, &ALL), ["Children: none, Parent: 0", "Lgroup resources:none"]);
        let single = About { cpus: "3".parse().unwrap(), ..bare };
        assert_eq!(lines(&single, &Shown { cpus: true, ..Shown::default() }), ["CPU: 3"]);
    }

    #[test]
    fn the_table_of_the_manual() {
        assert_eq!(
            latencies(&two()),
            "\nLgroup latencies:\n\n------------\n  |  0  1  2\n------------\n0 | 83 83 83\n1 | 83 56 83\n2 | 83 83 56\n\
             ------------\n"
        );
    }

    #[test]
    fn a_tree_has_branches_and_an_elbow_for_the_last() {
        let nodes: Vec<LgrpId> = (0..4).map(LgrpId).collect();
        let rows =
            [[10, 16, 22, 22], [16, 10, 22, 22], [22, 22, 10, 16], [22, 22, 16, 10]].map(|r| r.to_vec());
        let four = LgroupTree::new(&nodes, &rows);
        let said = |group: &Group| match group.id.0 {
            1 | 6 => vec![format!("about {}", group.id)],
            _ => Vec::new(),
        };
        assert_eq!(
            tree(&four, &said),
            "0\n|-- 5\n|   |-- 1\n|   |   about 1\n|   `-- 2\n`-- 6\n    about 6\n    |-- 3\n    `-- 4\n"
        );
    }

    #[test]
    fn sizes_have_a_decimal_below_ten() {
        assert_eq!(size(0, None), "0K");
        assert_eq!(size(9, None), "9.0K");
        assert_eq!(size(788 << 10, None), "788M");
        assert_eq!(size(1 << 40, None), "1.0P");
        let of = |kib, unit: &str| size(kib, Some(unit.parse().unwrap()));
        assert_eq!(of(1 << 20, "m"), "1024M");
        assert_eq!(of(1 << 20, "b"), "1073741824B");
        assert_eq!(of(52_429, "g"), "0.05G");
        assert_eq!(of(3 << 19, "g"), "1.5G");
        assert_eq!(of(0, "t"), "0T");
        assert!("x".parse::<MemoryUnit>().is_err() && "kk".parse::<MemoryUnit>().is_err());
    }
}
