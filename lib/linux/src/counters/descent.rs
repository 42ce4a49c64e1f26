//! Process descent: finds the watched program that a process belongs to.

use crate::Root;
use crate::procfs::{PARENT, stat_field};
use millpond_model::Pid;
use std::collections::{BTreeMap, BTreeSet};

/// The watched program of each live member process.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Family {
    program_of: BTreeMap<Pid, Pid>,
}

impl Family {
    /// Each given process and its current descendants. A given process that descends from another given process is a program of
    /// its own.
    pub(super) fn scan(root: &Root, given: &[Pid]) -> Family {
        Family::trace(&parents(root), given)
    }

    fn trace(parents: &BTreeMap<Pid, Pid>, given: &[Pid]) -> Family {
        let given: BTreeSet<Pid> = given.iter().copied().collect();
        let mut program_of = BTreeMap::new();
        for pid in parents.keys() {
            let mut ancestor = Some(*pid);
            // A chain cannot be longer than the number of processes. A cycle can appear because the table changes while it is
            // read.
            for _ in 0..=parents.len() {
                match ancestor {
                    Some(found) if given.contains(&found) => {
                        program_of.insert(*pid, found);
                        break;
                    }
                    Some(other) => ancestor = parents.get(&other).copied(),
                    None => break,
                }
            }
        }
        Family { program_of }
    }

    /// Records a fork. The process id can be that of an ended member.
    pub(super) fn born(&mut self, pid: Pid, parent: Pid) {
        match self.program_of.get(&parent).copied() {
            Some(program) => self.program_of.insert(pid, program),
            None => self.program_of.remove(&pid),
        };
    }

    /// The watched program of a process.
    pub(super) fn program_of(&self, pid: Pid) -> Option<Pid> {
        self.program_of.get(&pid).copied()
    }

    /// The members of all programs.
    pub(super) fn members(&self) -> impl Iterator<Item = Pid> + '_ {
        self.program_of.keys().copied()
    }

    /// Removes members that have ended.
    pub(super) fn bury(&mut self, root: &Root) {
        self.program_of.retain(|pid, _| root.proc.join(pid.to_string()).exists());
    }

    /// Adds the result of another scan.
    pub(super) fn join(&mut self, other: Family) {
        self.program_of.extend(other.program_of);
    }

    /// The programs with a live member, ascending.
    pub(super) fn alive(&self) -> Vec<Pid> {
        let programs: BTreeSet<Pid> = self.program_of.values().copied().collect();
        programs.into_iter().collect()
    }
}

/// The parent of every process.
fn parents(root: &Root) -> BTreeMap<Pid, Pid> {
    let mut parents = BTreeMap::new();
    for name in root.names(&root.proc).unwrap_or_default() {
        if let Ok(pid) = name.parse::<Pid>()
            && let Ok(Some(stat)) = root.read(&root.proc.join(&name).join("stat"))
            && let Some(parent) = parse_parent(&stat)
        {
            parents.insert(pid, parent);
        }
    }
    parents
}

/// The parent process id, from a `stat` file.
fn parse_parent(stat: &str) -> Option<Pid> {
    stat_field(stat, PARENT)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    #[test]
    fn names_with_parentheses_do_not_hide_the_parent() {
        assert_eq!(parse_parent("12 (a) R (b) S 7 12 12 0"), Some(Pid(7)));
        assert_eq!(parse_parent("12 (sh) S 1 12"), Some(Pid(1)));
        assert_eq!(parse_parent("12 (sh"), None);
    }

    #[test]
    fn descendants_belong_to_the_nearest_given_ancestor() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::captured(dir.path());
        for (pid, parent) in [(1, 0), (10, 1), (11, 10), (12, 11), (13, 12), (20, 1)] {
            let at = root.proc.join(pid.to_string());
            fs::create_dir_all(&at).unwrap();
            fs::write(at.join("stat"), format!("{pid} (x) S {parent} 0 0\n")).unwrap();
        }
        let mut family = Family::scan(&root, &[Pid(10), Pid(12)]);
        assert_eq!(family.program_of(Pid(11)), Some(Pid(10)));
        assert_eq!(family.program_of(Pid(13)), Some(Pid(12)));
        assert_eq!(family.program_of(Pid(20)), None);
        family.born(Pid(30), Pid(13));
        assert_eq!(family.program_of(Pid(30)), Some(Pid(12)));
        // Its process id is reused by a child of another program.
        family.born(Pid(30), Pid(20));
        assert_eq!(family.program_of(Pid(30)), None);
        fs::remove_dir_all(root.proc.join("12")).unwrap();
        fs::remove_dir_all(root.proc.join("13")).unwrap();
        family.bury(&root);
        assert_eq!(family.alive(), [Pid(10)]);
    }

    proptest! {
        #[test]
        fn any_text_has_a_parent_or_none(text in ".{0,60}") {
            let _ = parse_parent(&text);
        }

        #[test]
        fn loops_end_and_members_are_those_with_a_given_ancestor(
            parents in proptest::collection::btree_map(1u32..20, 0u32..20, 0..20),
            given in proptest::collection::vec(1u32..20, 0..4),
        ) {
            let parents: BTreeMap<Pid, Pid> = parents.into_iter().map(|(a, b)| (Pid(a), Pid(b))).collect();
            let given: Vec<Pid> = given.into_iter().map(Pid).collect();
            let family = Family::trace(&parents, &given);
            for pid in parents.keys() {
                if given.contains(pid) {
                    prop_assert_eq!(family.program_of(*pid), Some(*pid));
                }
            }
            prop_assert!(family.alive().iter().all(|program| given.contains(program)));
        }
    }
}
