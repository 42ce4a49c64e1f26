//! Lgroups as operands, and the lists and numbers that `lgrpinfo` and `plgrp` share.

use millpond_model::{GroupId, LgroupTree};
use std::fmt;

/// One item of an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupOperand {
    /// The root.
    Root,
    /// Every lgroup.
    All,
    /// The lgroups without children.
    Leaves,
    /// The lgroups between the root and the leaves.
    Intermediate,
    /// A range of numbers, both ends included. Missing numbers in it are ignored; a single number must exist.
    Range(u32, u32),
}

/// An invalid item. Columns count bytes of the word from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: `{text}` is no lgroup; numbers, ranges, root, leaves, intermediate and all are")]
pub struct GroupError {
    /// The position.
    pub column: usize,
    /// The text at this position.
    pub text: String,
}

impl GroupOperand {
    /// The lgroups of a machine that it selects, ascending.
    #[must_use]
    pub fn expand(self, tree: &LgroupTree) -> Vec<GroupId> {
        let wanted = |at: &&millpond_model::Group| match self {
            GroupOperand::All => true,
            GroupOperand::Root => at.parent.is_none(),
            GroupOperand::Leaves => at.children.is_empty(),
            GroupOperand::Intermediate => at.parent.is_some() && !at.children.is_empty(),
            GroupOperand::Range(first, last) => (first..=last).contains(&at.id.0),
        };
        tree.groups().iter().filter(wanted).map(|group| group.id).collect()
    }
}

/// The form that can be typed.
impl fmt::Display for GroupOperand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupOperand::Root => f.write_str("root"),
            GroupOperand::All => f.write_str("all"),
            GroupOperand::Leaves => f.write_str("leaves"),
            GroupOperand::Intermediate => f.write_str("intermediate"),
            GroupOperand::Range(first, last) if first == last => first.fmt(f),
            GroupOperand::Range(first, last) => write!(f, "{first}-{last}"),
        }
    }
}

/// Parses one word: items separated by commas.
///
/// # Errors
/// [`GroupError`] for the first invalid item.
pub fn parse_groups(word: &str) -> Result<Vec<GroupOperand>, GroupError> {
    let mut operands = Vec::new();
    let mut column = 1;
    for item in word.split(',') {
        let wrong = || GroupError { column, text: item.to_owned() };
        let number = |text: &str| text.parse::<millpond_model::LgrpId>().map(|id| id.0).map_err(|_| wrong());
        operands.push(match item {
            "root" => GroupOperand::Root,
            "all" => GroupOperand::All,
            "leaves" => GroupOperand::Leaves,
            "intermediate" => GroupOperand::Intermediate,
            item => match item.split_once('-') {
                None => GroupOperand::Range(number(item)?, number(item)?),
                Some((first, last)) => {
                    let (first, last) = (number(first)?, number(last)?);
                    if first > last {
                        return Err(wrong());
                    }
                    GroupOperand::Range(first, last)
                }
            },
        });
        column += item.len() + 1;
    }
    Ok(operands)
}

/// Ascending numbers; every run of at least `shortest` as `a-b`, separated by `separator`.
pub(crate) fn list(numbers: &[u32], shortest: usize, separator: &str) -> String {
    let mut items: Vec<String> = Vec::new();
    let mut rest = numbers;
    while let Some(first) = rest.first() {
        let run = rest.iter().zip(*first..).take_while(|(number, wanted)| **number == *wanted).count();
        let taken = if run >= shortest { run } else { 1 };
        items.push(match rest.get(taken - 1) {
            Some(last) if taken > 1 => format!("{first}-{last}"),
            _ => first.to_string(),
        });
        rest = &rest[taken..];
    }
    items.join(separator)
}

/// A number as in `%.Ng` of C: at most `digits` significant digits, without trailing zeros.
pub(crate) fn general(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let scientific = format!("{value:.*e}", digits.saturating_sub(1));
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let bare = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    let most = i32::try_from(digits).unwrap_or(i32::MAX);
    if exponent < -4 || exponent >= most {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", bare(mantissa), exponent.abs());
    }
    let decimals = usize::try_from(most - 1 - exponent).unwrap_or(0);
    bare(&format!("{value:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::LgrpId;
    use proptest::prelude::*;

    fn meant(word: &str) -> Vec<u32> {
        let nodes: Vec<LgrpId> = (0..4).map(LgrpId).collect();
        let rows =
            [[10, 16, 22, 22], [16, 10, 22, 22], [22, 22, 10, 16], [22, 22, 16, 10]].map(|r| r.to_vec());
        let tree = LgroupTree::new(&nodes, &rows);
        parse_groups(word).unwrap().iter().flat_map(|o| o.expand(&tree)).map(|g| g.0).collect()
    }

    #[test]
    fn words_and_numbers_mean_lgroups() {
        assert_eq!(meant("root"), [0]);
        assert_eq!(meant("leaves"), [1, 2, 3, 4]);
        assert_eq!(meant("intermediate,1"), [5, 6, 1]);
        assert_eq!(meant("5-9"), [5, 6]);
        assert_eq!(meant("9"), [0; 0]);
        assert_eq!(meant("all").len(), 7);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_column() {
        let error = |word| parse_groups(word).unwrap_err();
        assert_eq!(error("1,leafs"), GroupError { column: 3, text: "leafs".into() });
        assert_eq!(error("").column, 1);
        assert_eq!(error("3-1").text, "3-1");
        assert_eq!(error("-1").column, 1);
    }

    #[test]
    fn runs_of_three_are_ranges_and_two_stay_two() {
        assert_eq!(list(&[0, 1], 3, " "), "0 1");
        assert_eq!(list(&[0, 1, 2, 5, 7, 8], 3, " "), "0-2 5 7 8");
        assert_eq!(list(&[0, 1, 2, 6], 2, ","), "0-2,6");
        assert_eq!(list(&[], 3, " "), "");
    }

    #[test]
    fn numbers_are_as_short_as_in_c() {
        assert_eq!(general(0.24, 3), "0.24");
        assert_eq!(general(0.4, 3), "0.4");
        assert_eq!(general(2.0, 3), "2");
        assert_eq!(general(12.3456, 3), "12.3");
        assert_eq!(general(0.05, 1), "0.05");
        assert_eq!(general(0.000_012, 1), "1e-05");
        assert_eq!(general(1234.0, 3), "1.23e+03");
        assert_eq!(general(999.9, 3), "1e+03");
        assert_eq!(general(0.0, 3), "0");
    }

    #[test]
    fn fuzz_lgroup_operands() {
        let seeds = ["0", "root,1-3", "leaves", "4294967295", "1,,2"];
        millpond_fuzz::check_text("formats-lgroups", &seeds, |word| match parse_groups(word) {
            Ok(operands) => {
                let printed: Vec<String> = operands.iter().map(ToString::to_string).collect();
                assert_eq!(parse_groups(&printed.join(",")), Ok(operands));
            }
            Err(error) => assert!((1..=word.len() + 1).contains(&error.column), "{error}"),
        });
    }

    proptest! {
        #[test]
        fn every_list_holds_its_numbers(numbers in proptest::collection::btree_set(0u32..40, 0..20), shortest in 2usize..4) {
            let numbers: Vec<u32> = numbers.into_iter().collect();
            let text = list(&numbers, shortest, ",");
            let back: Vec<u32> = match text.as_str() {
                "" => Vec::new(),
                text => parse_groups(text).unwrap().iter().flat_map(|o| match o {
                    GroupOperand::Range(a, b) => *a..=*b,
                    other => panic!("{other}"),
                }).collect(),
            };
            prop_assert_eq!(back, numbers);
        }
    }
}
