//! The table of `plgrp`: threads with their homes and affinities, or with changes of these.

use crate::lgroups::{GroupError, GroupOperand, list, parse_groups};
use millpond_model::{Affinity, GroupId, Lwp};
use std::collections::BTreeMap;

/// Requested affinities: `0-2/strong,7/none`, one entry for each strength as given.
pub type AffinityRequest = Vec<(Vec<GroupOperand>, Affinity)>;

/// The heading: of homes, of homes and affinities, of changes of homes, of changes of both.
#[must_use]
pub fn header(affinities: bool, changes: bool) -> String {
    let home = if changes { format!("{:<10}", "HOME") } else { format!("{:<6}", "HOME") };
    let home = if affinities { home + "AFFINITY" } else { "HOME".to_owned() };
    format!("{:>8}/{:<8} {home}", "PID", "LWPID")
}

/// A thread with its home, and its affinities if requested.
#[must_use]
pub fn row(lwp: Lwp, home: GroupId, affinities: Option<&str>) -> String {
    format!("{:>8}/{:<8} {:<6}{}", lwp.pid, lwp.lwp.0, home.0, affinities.unwrap_or_default())
}

/// A thread with its home before and after, and its affinities before and after if requested.
#[must_use]
pub fn change(lwp: Lwp, home: (GroupId, GroupId), affinities: Option<(&str, &str)>) -> String {
    let homes = format!("{} => {}", home.0, home.1);
    let field = format!("{:>8}/{:<8} ", lwp.pid, lwp.lwp.0);
    match affinities {
        None => format!("{field}{homes}"),
        Some((from, to)) => format!("{field}{homes:<10}{from} => {to}"),
    }
}

/// The affinities of a thread: a list of lgroups for each strength, the strongest first.
#[must_use]
pub fn affinities(all: &BTreeMap<GroupId, Affinity>) -> String {
    let of = |strength: Affinity| {
        let ids: Vec<u32> = all.iter().filter(|(_, a)| **a == strength).map(|(id, _)| id.0).collect();
        (!ids.is_empty()).then(|| format!("{}/{strength}", list(&ids, 2, ",")))
    };
    let parts = [Affinity::Strong, Affinity::Weak, Affinity::None].map(of);
    parts.into_iter().flatten().collect::<Vec<_>>().join(",")
}

/// An invalid request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AffinityError {
    /// An invalid lgroup.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// An unknown strength.
    #[error("column {column}: `{text}` is no affinity; none, weak and strong are")]
    Strength {
        /// The position.
        column: usize,
        /// The text at this position.
        text: String,
    },
    /// Lgroups without a strength.
    #[error("column {column}: an affinity is missing behind `{text}`; write {text}/strong, /weak or /none")]
    Missing {
        /// The position.
        column: usize,
        /// The text at this position.
        text: String,
    },
}

/// Parses `0-2/strong,7/none`. Columns count bytes from 1.
///
/// # Errors
/// [`AffinityError`] for the first error.
pub fn parse_affinities(word: &str) -> Result<AffinityRequest, AffinityError> {
    let mut request = Vec::new();
    let mut groups = Vec::new();
    let (mut column, mut begin) = (1, 1);
    for item in word.split(',') {
        let (group, strength) = match item.split_once('/') {
            Some((group, strength)) => (group, Some(strength)),
            None => (item, None),
        };
        let shifted = |error: GroupError| GroupError { column: error.column + column - 1, ..error };
        groups.extend(parse_groups(group).map_err(shifted)?);
        if let Some(strength) = strength {
            let wrong =
                |_| AffinityError::Strength { column: column + group.len() + 1, text: strength.to_owned() };
            request.push((std::mem::take(&mut groups), strength.parse().map_err(wrong)?));
            begin = column + item.len() + 1;
        }
        column += item.len() + 1;
    }
    if groups.is_empty() {
        return Ok(request);
    }
    let text = word.get(begin - 1..).unwrap_or(word).to_owned();
    Err(AffinityError::Missing { column: begin, text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::{LwpId, Pid};

    const LWP: Lwp = Lwp { pid: Pid(101_398), lwp: LwpId(1) };

    #[test]
    fn columns_are_as_wide_as_in_the_manual() {
        assert_eq!(header(false, false), "     PID/LWPID    HOME");
        assert_eq!(header(true, false), "     PID/LWPID    HOME  AFFINITY");
        assert_eq!(row(LWP, GroupId(1), None), "  101398/1        1     ");
        assert_eq!(row(LWP, GroupId(1), Some("0-2/none")), "  101398/1        1     0-2/none");
        assert_eq!(change(LWP, (GroupId(1), GroupId(2)), None), "  101398/1        1 => 2");
        assert_eq!(header(true, true), "     PID/LWPID    HOME      AFFINITY");
        assert_eq!(
            change(LWP, (GroupId(1), GroupId(2)), Some(("2/none", "2/strong"))),
            "  101398/1        1 => 2    2/none => 2/strong"
        );
    }

    #[test]
    fn affinities_are_listed_from_the_strongest_on() {
        let of =
            |list: &[(u32, Affinity)]| affinities(&list.iter().map(|(id, a)| (GroupId(*id), *a)).collect());
        let (none, strong) = (Affinity::None, Affinity::Strong);
        assert_eq!(of(&[(0, none), (1, none), (2, none)]), "0-2/none");
        assert_eq!(
            of(&[(0, strong), (1, strong), (2, strong), (6, strong), (7, none)]),
            "0-2,6/strong,7/none"
        );
        assert_eq!(of(&[(0, Affinity::Weak), (1, strong)]), "1/strong,0/weak");
    }

    #[test]
    fn a_strength_is_that_of_all_before_it() {
        use GroupOperand::{Range, Root};
        assert_eq!(
            parse_affinities("0-2,6/strong,root/none"),
            Ok(vec![(vec![Range(0, 2), Range(6, 6)], Affinity::Strong), (vec![Root], Affinity::None)])
        );
        let said = |word| parse_affinities(word).unwrap_err().to_string();
        assert_eq!(said("1/strung"), "column 3: `strung` is no affinity; none, weak and strong are");
        assert_eq!(
            said("1/weak,2,3"),
            "column 8: an affinity is missing behind `2,3`; write 2,3/strong, /weak or /none"
        );
        assert!(said("1/weak,x/none").starts_with("column 8: `x` is no lgroup"));
    }

    #[test]
    fn fuzz_affinities() {
        let seeds = ["0-2/strong,7/none", "root/weak", "1", "1/x", "all,leaves/none"];
        millpond_fuzz::check_text("formats-plgrp", &seeds, |word| {
            if let Ok(request) = parse_affinities(word) {
                let group =
                    |g: &[GroupOperand]| g.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
                let printed: Vec<String> = request.iter().map(|(g, a)| format!("{}/{a}", group(g))).collect();
                assert_eq!(parse_affinities(&printed.join(",")), Ok(request));
            }
        });
    }
}
