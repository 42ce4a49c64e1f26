//! CPU operands: a word of a command line that selects CPUs.
//!
//! A word is a list of items separated by commas; an item is a number, a range `a-b`, or a strided range
//! `a-b:used/group` of Linux. So `1 2 3`, `1-3`, `1,2-3` and `0-31:1/2` are valid in every command.

use millpond_model::{CpuId, CpuSet, ListError};
use std::fmt;

/// One item of an operand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CpuOperand {
    /// A number. The CPU must exist.
    One(CpuId),
    /// A range. Missing CPUs are ignored; at least one must exist.
    Range {
        /// The text as given, for messages.
        text: String,
        /// Every number in it.
        cpus: CpuSet,
    },
}

impl CpuOperand {
    /// The selected CPUs on a machine that has `present`, ascending. A single number is returned even if it is not present; `None` for a
    /// range without a present CPU.
    #[must_use]
    pub fn expand(&self, present: &CpuSet) -> Option<Vec<CpuId>> {
        match self {
            CpuOperand::One(cpu) => Some(vec![*cpu]),
            CpuOperand::Range { cpus, .. } => {
                let met: Vec<CpuId> = (cpus & present).iter().collect();
                if met.is_empty() { None } else { Some(met) }
            }
        }
    }
}

/// The form that can be typed.
impl fmt::Display for CpuOperand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CpuOperand::One(cpu) => write!(f, "{cpu}"),
            CpuOperand::Range { text, .. } => f.write_str(text),
        }
    }
}

/// Parses one word. Items keep their order; columns count bytes of the word from 1.
///
/// # Errors
/// [`ListError`] for the first invalid item. An empty item (`1,,2`, or an empty word) is invalid.
pub fn parse_cpus(word: &str) -> Result<Vec<CpuOperand>, ListError> {
    let mut operands = Vec::new();
    let mut column = 1;
    for item in word.split(',') {
        let blank = item.is_empty() || item.contains(|c: char| c.is_whitespace());
        if blank {
            return Err(ListError::NotANumber { column, text: item.to_owned() });
        }
        let cpus: CpuSet = item.parse().map_err(|e| shifted(e, column - 1))?;
        operands.push(match cpus.lowest() {
            Some(only) if !item.contains('-') => CpuOperand::One(only),
            _ => CpuOperand::Range { text: item.to_owned(), cpus },
        });
        column += item.len() + 1;
    }
    Ok(operands)
}

/// The same error, moved right by `by` columns.
fn shifted(error: ListError, by: usize) -> ListError {
    match error {
        ListError::NotANumber { column, text } => ListError::NotANumber { column: column + by, text },
        ListError::Backwards { column, first, last } => {
            ListError::Backwards { column: column + by, first, last }
        }
        ListError::TooLarge { column, value, max } => ListError::TooLarge { column: column + by, value, max },
        ListError::BadStride { column, text } => ListError::BadStride { column: column + by, text },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn meant(word: &str, present: &str) -> Vec<u32> {
        let present: CpuSet = present.parse().unwrap();
        let operands = parse_cpus(word).unwrap();
        operands.iter().flat_map(|o| o.expand(&present).unwrap()).map(|c| c.0).collect()
    }

    #[test]
    fn a_number_a_range_and_a_list_of_both_are_operands() {
        assert_eq!(meant("3", "0-7"), [3]);
        assert_eq!(meant("1-3", "0-7"), [1, 2, 3]);
        assert_eq!(meant("4-5,8,0-1", "0-8"), [4, 5, 8, 0, 1], "order is kept");
        assert_eq!(meant("0-7:1/4", "0-7"), [0, 4]);
    }

    #[test]
    fn a_range_ignores_holes_but_a_number_does_not() {
        assert_eq!(meant("1-5", "0,2,4"), [2, 4]);
        assert_eq!(meant("9", "0-3"), [9], "the machine says that it does not exist");
        let range = &parse_cpus("8-9").unwrap()[0];
        assert_eq!(range.expand(&CpuSet::first(4)), None);
        assert_eq!(range.to_string(), "8-9");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_column() {
        let not = |column, text: &str| Err(ListError::NotANumber { column, text: text.to_owned() });
        assert_eq!(parse_cpus(""), not(1, ""));
        assert_eq!(parse_cpus("x"), not(1, "x"));
        assert_eq!(parse_cpus("1,2-x"), not(5, "x"));
        assert_eq!(parse_cpus("1,,2"), not(3, ""));
        assert_eq!(parse_cpus("1 2"), not(1, "1 2"));
        assert_eq!(parse_cpus("-1"), not(1, ""));
        assert_eq!(parse_cpus("7,3-1"), Err(ListError::Backwards { column: 3, first: 3, last: 1 }));
        assert!(matches!(parse_cpus("1,0-4000000000"), Err(ListError::TooLarge { column: 5, .. })));
        assert!(matches!(parse_cpus("1,0-3:5/2"), Err(ListError::BadStride { column: 7, .. })));
    }

    #[test]
    fn fuzz_operands() {
        let seeds = ["0", "1,2-3", "0-31:1/2", "7,3-1", "1048576"];
        millpond_fuzz::check_text("formats-operands", &seeds, |word| match parse_cpus(word) {
            Ok(operands) => {
                let printed: Vec<String> = operands.iter().map(ToString::to_string).collect();
                assert_eq!(parse_cpus(&printed.join(",")), Ok(operands));
            }
            Err(
                ListError::NotANumber { column, .. }
                | ListError::Backwards { column, .. }
                | ListError::TooLarge { column, .. }
                | ListError::BadStride { column, .. },
            ) => assert!((1..=word.len() + 1).contains(&column), "column {column}"),
        });
    }

    proptest! {
        #[test]
        fn parsing_any_word_never_panics(word in ".{0,24}") {
            let _ = parse_cpus(&word);
        }

        #[test]
        fn printed_operands_parse_to_themselves(
            items in proptest::collection::vec((0u32..300, proptest::option::of(0u32..40)), 1..6)
        ) {
            let word = items
                .iter()
                .map(|(first, more)| match more {
                    None => first.to_string(),
                    Some(more) => format!("{first}-{}", first + more),
                })
                .collect::<Vec<_>>()
                .join(",");
            let operands = parse_cpus(&word).unwrap();
            let printed: Vec<String> = operands.iter().map(ToString::to_string).collect();
            prop_assert_eq!(printed.join(","), word);
            let all = CpuSet::first(400);
            for (operand, (first, more)) in operands.iter().zip(&items) {
                let cpus = operand.expand(&all).unwrap();
                prop_assert_eq!(cpus.len(), more.unwrap_or(0) as usize + 1);
                prop_assert_eq!(cpus[0], CpuId(*first));
            }
        }
    }
}
