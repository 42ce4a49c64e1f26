//! Process operands of `psrset` and `pbind`: a process, or some of its threads.
//!
//! `204` is a whole process. After a slash follows a list of threads: `204/3`, `204/1-4`, `204/-4` (up to 4),
//! `204/4-` (from 4 on), and any of these separated by commas. Bounds in the wrong order are swapped.

use millpond_model::{LwpId, Pid};
use std::fmt;
use std::str::FromStr;

/// A process, or some of its threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The process.
    pub pid: Pid,
    /// Some of its threads; `None` for the whole process.
    pub lwps: Option<LwpSelection>,
}

/// A selection of threads by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LwpSelection {
    /// Both ends included; each first is at most its last.
    ranges: Vec<(u32, u32)>,
}

/// The reason why a word is not a process operand. Columns count bytes from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The text before the slash is not a number.
    #[error("column 1: `{text}` is not a process number")]
    Pid {
        /// The text.
        text: String,
    },
    /// An item after the slash is neither a number nor a range.
    #[error("column {column}: `{text}` is not an lwp number or range")]
    Lwp {
        /// The position.
        column: usize,
        /// The text at this position.
        text: String,
    },
}

impl LwpSelection {
    /// Whether the thread is selected.
    #[must_use]
    pub fn contains(&self, lwp: LwpId) -> bool {
        self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&lwp.0))
    }

    fn parse(text: &str, column: usize) -> Result<LwpSelection, TargetError> {
        let mut ranges = Vec::new();
        let mut at = column;
        for item in text.split(',') {
            let bad = || TargetError::Lwp { column: at, text: item.to_owned() };
            let bound = |text: &str, open: u32| match text {
                "" => Ok(open),
                _ => text.parse::<LwpId>().map(|l| l.0).map_err(|_| bad()),
            };
            let (first, last) = match item.split_once('-') {
                None => {
                    let only = item.parse::<LwpId>().map_err(|_| bad())?;
                    (only.0, only.0)
                }
                Some(("", "")) => return Err(bad()),
                Some((first, last)) => (bound(first, 0)?, bound(last, u32::MAX)?),
            };
            ranges.push((first.min(last), first.max(last)));
            at += item.len() + 1;
        }
        Ok(LwpSelection { ranges })
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(word: &str) -> Result<Self, TargetError> {
        let (pid, lwps) = match word.split_once('/') {
            None => (word, None),
            Some((pid, lwps)) => (pid, Some(lwps)),
        };
        let number = pid.parse().map_err(|_| TargetError::Pid { text: pid.to_owned() })?;
        let lwps = lwps.map(|text| LwpSelection::parse(text, pid.len() + 2)).transpose()?;
        Ok(Target { pid: number, lwps })
    }
}

/// The shortest form that parses to the same value.
impl fmt::Display for LwpSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (first, last)) in self.ranges.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            match (*first, *last) {
                (first, last) if first == last => write!(f, "{first}")?,
                (first, u32::MAX) => write!(f, "{first}-")?,
                (0, last) => write!(f, "-{last}")?,
                (first, last) => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.lwps {
            None => write!(f, "{}", self.pid),
            Some(lwps) => write!(f, "{}/{lwps}", self.pid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chosen(word: &str) -> Vec<u32> {
        let target: Target = word.parse().unwrap();
        let lwps = target.lwps.unwrap();
        (0..10).filter(|n| lwps.contains(LwpId(*n))).collect()
    }

    #[test]
    fn all_four_forms_choose_threads() {
        assert_eq!(chosen("204/3"), [3]);
        assert_eq!(chosen("204/2-4"), [2, 3, 4]);
        assert_eq!(chosen("204/-2"), [0, 1, 2]);
        assert_eq!(chosen("204/7-"), [7, 8, 9]);
        assert_eq!(chosen("204/1,5-6,9-"), [1, 5, 6, 9]);
        assert_eq!(chosen("204/4-2"), [2, 3, 4], "reversed bounds are swapped");
    }

    #[test]
    fn a_number_alone_is_the_whole_process() {
        assert_eq!("204".parse(), Ok(Target { pid: Pid(204), lwps: None }));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_column() {
        let pid = |text: &str| Err(TargetError::Pid { text: text.to_owned() });
        let lwp = |column, text: &str| Err(TargetError::Lwp { column, text: text.to_owned() });
        assert_eq!("x".parse::<Target>(), pid("x"));
        assert_eq!("".parse::<Target>(), pid(""));
        assert_eq!("-5".parse::<Target>(), pid("-5"));
        assert_eq!("204/".parse::<Target>(), lwp(5, ""));
        assert_eq!("204/-".parse::<Target>(), lwp(5, "-"));
        assert_eq!("204/1,x".parse::<Target>(), lwp(7, "x"));
        assert_eq!("204/1-2-3".parse::<Target>(), lwp(5, "1-2-3"));
    }

    #[test]
    fn fuzz_targets() {
        let seeds = ["204", "204/1,5-6,9-", "204/-2", "204/4-2", "4294967295/4294967295-"];
        millpond_fuzz::check_text("formats-targets", &seeds, |word| match word.parse::<Target>() {
            Ok(target) => assert_eq!(target.to_string().parse(), Ok(target)),
            Err(TargetError::Lwp { column, .. }) => {
                assert!((1..=word.len() + 1).contains(&column), "column {column}");
            }
            Err(TargetError::Pid { .. }) => {}
        });
    }

    proptest! {
        #[test]
        fn parsing_any_word_never_panics(word in ".{0,24}") {
            let _ = word.parse::<Target>();
        }

        #[test]
        fn a_target_survives_printing(
            pid in any::<u32>(),
            ranges in proptest::collection::vec((any::<u32>(), any::<u32>()), 1..5),
        ) {
            let ranges = ranges.into_iter().map(|(a, b)| (a.min(b), a.max(b))).collect();
            let target = Target { pid: Pid(pid), lwps: Some(LwpSelection { ranges }) };
            prop_assert_eq!(target.to_string().parse::<Target>().unwrap(), target);
        }
    }
}
