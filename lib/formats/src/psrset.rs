//! The listings of `psrset`. Those about bindings are in [`crate::binding`].

use crate::lgroups::list;
use millpond_model::{CpuId, GroupId, Pset, PsetId};

/// A new set: `created processor set 1`.
#[must_use]
pub fn created(set: PsetId) -> String {
    format!("created processor set {set}")
}

/// A removed set: `removed processor set 1`.
#[must_use]
pub fn removed(set: PsetId) -> String {
    format!("removed processor set {set}")
}

/// A CPU that moved to a set, or from one: `processor 3: was 1, now not assigned`.
#[must_use]
pub fn assigned(cpu: CpuId, from: PsetId, to: PsetId) -> String {
    format!("processor {cpu}: was {}, now {}", set_word(from), set_word(to))
}

/// The set of a CPU: `processor 3: 1`, or `processor 3: not assigned`.
#[must_use]
pub fn assignment(cpu: CpuId, set: PsetId) -> String {
    format!("processor {cpu}: {}", set_word(set))
}

fn set_word(set: PsetId) -> String {
    if set.is_default() { "not assigned".to_owned() } else { set.to_string() }
}

/// A set with its active members, in order of arrival: `user processor set 1: processors 1 2 3`, `… processor 4`, or `… empty`.
#[must_use]
pub fn set_line(set: PsetId, active: &[CpuId]) -> String {
    let members = match active {
        [] => "empty".to_owned(),
        [only] => format!("processor {only}"),
        many => {
            let ids: Vec<String> = many.iter().map(ToString::to_string).collect();
            format!("processors {}", ids.join(" "))
        }
    };
    format!("user processor set {set}: {members}")
}

/// The lines of `-i -v` below the line of a set, an extension of Millpond. Lines with newlines.
#[must_use]
pub fn set_details(set: &Pset) -> String {
    let firmness = if set.mode.is_exclusive() { "exclusive" } else { "not exclusive" };
    let mut text = format!("\tmode {} ({firmness})\n", set.mode);
    for breach in &set.breaches {
        text += &format!("\tbreach: {breach}\n");
    }
    text
}

/// The line of `-i -v` for a set with restricted memory: the setting, and the resulting lgroups.
#[must_use]
pub fn set_memory(wanted: &str, lgroups: &[GroupId]) -> String {
    let noun = if lgroups.len() == 1 { "lgroup" } else { "lgroups" };
    format!("\tmemory {wanted} ({noun} {})\n", list(&lgroups.iter().map(|l| l.0).collect::<Vec<_>>(), 3, " "))
}

/// The memory setting of a set, before and after: `processor set 1: memory was all, now local`.
#[must_use]
pub fn memory_moved(set: PsetId, from: &str, to: &str) -> String {
    format!("processor set {set}: memory was {from}, now {to}")
}

/// A bound zone: `zone web: bound to 1`.
#[must_use]
pub fn zone_bound(zone: &str, set: PsetId) -> String {
    format!("zone {zone}: bound to {set}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::PsetMode;

    #[test]
    fn a_set_is_announced_when_it_comes_and_goes() {
        assert_eq!(created(PsetId(1)), "created processor set 1");
        assert_eq!(removed(PsetId(1)), "removed processor set 1");
    }

    #[test]
    fn a_move_shows_where_from_and_where_to() {
        let said = |from, to| assigned(CpuId(3), PsetId(from), PsetId(to));
        assert_eq!(said(0, 1), "processor 3: was not assigned, now 1");
        assert_eq!(said(1, 2), "processor 3: was 1, now 2");
        assert_eq!(said(1, 0), "processor 3: was 1, now not assigned");
        assert_eq!(said(0, 0), "processor 3: was not assigned, now not assigned");
    }

    #[test]
    fn a_set_lists_none_one_or_several_in_order_of_arrival() {
        let line = |cpus: &[u32]| {
            let cpus: Vec<CpuId> = cpus.iter().copied().map(CpuId).collect();
            set_line(PsetId(2), &cpus)
        };
        assert_eq!(line(&[]), "user processor set 2: empty");
        assert_eq!(line(&[4]), "user processor set 2: processor 4");
        assert_eq!(line(&[2, 0, 1]), "user processor set 2: processors 2 0 1");
    }

    #[test]
    fn an_assignment_names_the_set_or_says_that_there_is_none() {
        assert_eq!(assignment(CpuId(1), PsetId(1)), "processor 1: 1");
        assert_eq!(assignment(CpuId(0), PsetId(0)), "processor 0: not assigned");
    }

    #[test]
    fn details_say_how_firm_a_set_is_and_what_breaks_it() {
        let set = Pset {
            id: PsetId(1),
            members: vec![CpuId(1)],
            mode: PsetMode::Own,
            breaches: vec!["cgroup /x overlaps".into()],
            returns: std::collections::BTreeMap::new(),
        };
        assert_eq!(set_details(&set), "\tmode own (exclusive)\n\tbreach: cgroup /x overlaps\n");
        let set = Pset { mode: PsetMode::Shared, breaches: vec![], ..set };
        assert_eq!(set_details(&set), "\tmode shared (not exclusive)\n");
    }

    #[test]
    fn memory_is_said_with_its_lgroups() {
        assert_eq!(set_memory("local", &[GroupId(2)]), "\tmemory local (lgroup 2)\n");
        assert_eq!(set_memory("1,2", &[GroupId(1), GroupId(2)]), "\tmemory 1,2 (lgroups 1 2)\n");
        assert_eq!(memory_moved(PsetId(1), "all", "local"), "processor set 1: memory was all, now local");
    }

    #[test]
    fn a_zone_is_bound_in_words_of_its_own() {
        assert_eq!(zone_bound("web", PsetId(1)), "zone web: bound to 1");
    }
}
