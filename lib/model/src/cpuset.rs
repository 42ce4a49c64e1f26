//! A set of CPUs of any size, with set algebra and the two common list syntaxes.
//!
//! The representation is 64-bit words, lowest CPU in the lowest bit, from the first to the last nonzero word. Equal sets are therefore equal
//! values, independent of their history, and one core of a large machine takes one word.

use crate::{CPU_MAX, CpuId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Ordering;
use std::fmt;
use std::ops::{BitAnd, BitOr, Range, Sub};
use std::str::FromStr;

/// A set of CPUs.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct CpuSet {
    /// The number of zero words before `words`.
    first: usize,
    words: Vec<u64>,
}

/// The reason why a text is not a CPU list. Columns count bytes from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// A number is expected.
    #[error("column {column}: `{text}` is not a CPU number")]
    NotANumber {
        /// The position.
        column: usize,
        /// The text at this position.
        text: String,
    },
    /// A range whose end is before its start.
    #[error("column {column}: the range {first}-{last} runs backwards")]
    Backwards {
        /// The position.
        column: usize,
        /// Its start.
        first: u32,
        /// Its end.
        last: u32,
    },
    /// A number above the largest CPU number.
    #[error("column {column}: CPU {value} is beyond {max}, the highest number understood")]
    TooLarge {
        /// The position.
        column: usize,
        /// The number as text.
        value: String,
        /// The limit.
        max: u32,
    },
    /// A stride such as `0-31:2/8` with invalid numbers.
    #[error("column {column}: `{text}` is not a stride (`used/group`, both at least 1, used at most group)")]
    BadStride {
        /// The position.
        column: usize,
        /// The text at this position.
        text: String,
    },
}

impl CpuSet {
    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        CpuSet { first: 0, words: Vec::new() }
    }

    /// The CPUs `0..count`.
    #[must_use]
    pub fn first(count: u32) -> Self {
        (0..count).map(CpuId).collect()
    }

    /// Adds a CPU; returns whether it was not in the set before.
    pub fn insert(&mut self, cpu: CpuId) -> bool {
        let (word, bit) = place(cpu);
        if self.words.is_empty() {
            self.first = word;
        }
        if word < self.first {
            self.words.splice(..0, std::iter::repeat_n(0, self.first - word));
            self.first = word;
        }
        let at = word - self.first;
        if at >= self.words.len() {
            self.words.resize(at + 1, 0);
        }
        let new = self.words[at] & bit == 0;
        self.words[at] |= bit;
        new
    }

    /// Removes a CPU; returns whether it was in the set.
    pub fn remove(&mut self, cpu: CpuId) -> bool {
        let (word, bit) = place(cpu);
        let there = self.contains(cpu);
        if there {
            self.words[word - self.first] &= !bit;
            self.trim();
        }
        there
    }

    /// Whether the CPU is in the set.
    #[must_use]
    pub fn contains(&self, cpu: CpuId) -> bool {
        let (word, bit) = place(cpu);
        self.word(word) & bit != 0
    }

    /// The number of CPUs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// With its noun: `CPU 2`, `CPUs 2-3`.
    #[must_use]
    pub fn named(&self) -> String {
        format!("CPU{} {self}", if self.len() == 1 { "" } else { "s" })
    }

    /// The lowest CPU.
    #[must_use]
    pub fn lowest(&self) -> Option<CpuId> {
        self.iter().next()
    }

    /// The highest CPU.
    #[must_use]
    pub fn highest(&self) -> Option<CpuId> {
        let last = self.words.last()?;
        let base = u32::try_from(self.first + self.words.len() - 1).ok()? * 64;
        Some(CpuId(base + 63 - last.leading_zeros()))
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        let first = u32::try_from(self.first).unwrap_or(u32::MAX);
        self.words.iter().zip(first..).flat_map(|(&word, index)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                if rest == 0 {
                    return None;
                }
                let bit = rest.trailing_zeros();
                rest &= rest - 1;
                Some(CpuId(index * 64 + bit))
            })
        })
    }

    /// Maximal runs of consecutive CPUs, ascending, both ends included.
    #[must_use]
    pub fn runs(&self) -> Vec<(CpuId, CpuId)> {
        let mut runs: Vec<(CpuId, CpuId)> = Vec::new();
        for cpu in self.iter() {
            match runs.last_mut() {
                Some((_, last)) if last.0 + 1 == cpu.0 => *last = cpu,
                _ => runs.push((cpu, cpu)),
            }
        }
        runs
    }

    /// Whether every member is also in `other`.
    #[must_use]
    pub fn is_subset(&self, other: &CpuSet) -> bool {
        (self - other).is_empty()
    }

    /// Whether no CPU is in both.
    #[must_use]
    pub fn is_disjoint(&self, other: &CpuSet) -> bool {
        (self & other).is_empty()
    }

    /// Linux's bitmap words, lowest first: bit `n % 64` of word `n / 64` is CPU `n`.
    #[must_use]
    pub fn to_words(&self) -> Vec<u64> {
        let mut words = vec![0; self.first];
        words.extend(&self.words);
        words
    }

    /// The inverse of [`CpuSet::to_words`].
    #[must_use]
    pub fn from_words(words: Vec<u64>) -> Self {
        let mut set = CpuSet { first: 0, words };
        set.trim();
        set
    }

    /// The Linux mask form: groups of eight hexadecimal digits, highest first, separated by commas, as in
    /// `/proc/irq/default_smp_affinity`. `width` is the number of CPUs that determines the minimum number of digits
    /// (Linux pads to its number of possible CPUs).
    #[must_use]
    pub fn to_mask(&self, width: u32) -> String {
        let halves: Vec<u32> = self
            .to_words()
            .iter()
            .flat_map(|w| {
                let bytes = w.to_le_bytes();
                [
                    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
                    u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
                ]
            })
            .collect();
        let used = halves.iter().rposition(|h| *h != 0).map_or(1, |i| i + 1);
        let groups = used.max(width.div_ceil(32) as usize).max(1);
        let digits = if groups == 1 { (width.div_ceil(4) as usize).clamp(1, 8) } else { 8 };
        let mut text = String::new();
        for i in (0..groups).rev() {
            let half = halves.get(i).copied().unwrap_or(0);
            let first = i + 1 == groups;
            let pad = if first && groups == 1 { digits } else { 8 };
            text.push_str(&format!("{half:0pad$x}"));
            if i > 0 {
                text.push(',');
            }
        }
        text
    }

    /// Parses the Linux mask form (see [`CpuSet::to_mask`]).
    ///
    /// # Errors
    /// [`ListError::NotANumber`] for a group that is not one to eight hexadecimal digits.
    pub fn from_mask(text: &str) -> Result<CpuSet, ListError> {
        let mut halves = Vec::new();
        let mut column = 1;
        for group in text.trim_end().split(',') {
            let good = (1..=8).contains(&group.len()) && group.bytes().all(|b| b.is_ascii_hexdigit());
            let half = if good { u32::from_str_radix(group, 16).ok() } else { None };
            match half {
                Some(half) => halves.push(half),
                None => return Err(ListError::NotANumber { column, text: group.to_owned() }),
            }
            column += group.len() + 1;
        }
        halves.reverse();
        let words = halves
            .chunks(2)
            .map(|c| u64::from(c[0]) | (u64::from(c.get(1).copied().unwrap_or(0)) << 32))
            .collect();
        Ok(CpuSet::from_words(words))
    }

    /// The Solaris list form: runs as `a-b`, separated by blanks (`0-3 8`).
    #[must_use]
    pub fn to_solaris(&self) -> String {
        self.join(' ')
    }

    fn join(&self, separator: char) -> String {
        let mut text = String::new();
        for (first, last) in self.runs() {
            if !text.is_empty() {
                text.push(separator);
            }
            text.push_str(&first.to_string());
            if last != first {
                text.push('-');
                text.push_str(&last.to_string());
            }
        }
        text
    }

    fn word(&self, word: usize) -> u64 {
        let at = word.checked_sub(self.first);
        at.and_then(|at| self.words.get(at)).copied().unwrap_or(0)
    }

    /// The index after the last word.
    fn end(&self) -> usize {
        self.first + self.words.len()
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
        let zeros = self.words.iter().take_while(|word| **word == 0).count();
        self.words.drain(..zeros);
        self.first = if self.words.is_empty() { 0 } else { self.first + zeros };
    }

    fn zip_words(&self, other: &CpuSet, range: Range<usize>, op: impl Fn(u64, u64) -> u64) -> CpuSet {
        let first = range.start;
        let mut set =
            CpuSet { first, words: range.map(|word| op(self.word(word), other.word(word))).collect() };
        set.trim();
        set
    }
}

fn place(cpu: CpuId) -> (usize, u64) {
    ((cpu.0 / 64) as usize, 1 << (cpu.0 % 64))
}

/// Compares the words from the lowest CPU on; an empty set comes first.
impl Ord for CpuSet {
    fn cmp(&self, other: &CpuSet) -> Ordering {
        let both = self.first.min(other.first)..self.end().min(other.end());
        let first = both.map(|word| self.word(word).cmp(&other.word(word))).find(|order| order.is_ne());
        first.unwrap_or_else(|| self.end().cmp(&other.end()))
    }
}

impl PartialOrd for CpuSet {
    fn partial_cmp(&self, other: &CpuSet) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl BitOr for &CpuSet {
    type Output = CpuSet;
    fn bitor(self, other: &CpuSet) -> CpuSet {
        let range = match (self.is_empty(), other.is_empty()) {
            (true, _) => other.first..other.end(),
            (_, true) => self.first..self.end(),
            _ => self.first.min(other.first)..self.end().max(other.end()),
        };
        self.zip_words(other, range, |a, b| a | b)
    }
}

impl BitAnd for &CpuSet {
    type Output = CpuSet;
    fn bitand(self, other: &CpuSet) -> CpuSet {
        let range = self.first.max(other.first)..self.end().min(other.end());
        self.zip_words(other, range, |a, b| a & b)
    }
}

impl Sub for &CpuSet {
    type Output = CpuSet;
    fn sub(self, other: &CpuSet) -> CpuSet {
        self.zip_words(other, self.first..self.end(), |a, b| a & !b)
    }
}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> Self {
        let mut set = CpuSet::new();
        for cpu in cpus {
            set.insert(cpu);
        }
        set
    }
}

/// The Linux list form: `0-3,8`; an empty text for the empty set.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.join(','))
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

/// Accepts both list forms: items are separated by commas, blanks or line ends; an item is a number, a range `a-b`, or Linux's strided
/// range `a-b:used/group`. An empty text is the empty set.
impl FromStr for CpuSet {
    type Err = ListError;

    fn from_str(text: &str) -> Result<Self, ListError> {
        let mut set = CpuSet::new();
        let mut column = 1;
        for item in text.split([',', ' ', '\t', '\n']) {
            if !item.is_empty() {
                parse_item(item, column, &mut set)?;
            }
            column += item.len() + 1;
        }
        Ok(set)
    }
}

fn parse_item(item: &str, column: usize, set: &mut CpuSet) -> Result<(), ListError> {
    let (range, stride) = match item.split_once(':') {
        Some((range, stride)) => (range, Some(stride)),
        None => (item, None),
    };
    let (first, last) = match range.split_once('-') {
        Some((first, last)) => (number(first, column)?, number(last, column + first.len() + 1)?),
        None => {
            let only = number(range, column)?;
            (only, only)
        }
    };
    if last < first {
        return Err(ListError::Backwards { column, first, last });
    }
    let (used, group) = match stride {
        None => (1, 1),
        Some(text) => {
            let bad = || ListError::BadStride { column: column + range.len() + 1, text: text.to_owned() };
            let (used, group) = text.split_once('/').ok_or_else(bad)?;
            let (used, group): (u32, u32) =
                (used.parse().map_err(|_| bad())?, group.parse().map_err(|_| bad())?);
            if used == 0 || group == 0 || used > group {
                return Err(bad());
            }
            (used, group)
        }
    };
    for cpu in first..=last {
        if (cpu - first) % group < used {
            set.insert(CpuId(cpu));
        }
    }
    Ok(())
}

fn number(text: &str, column: usize) -> Result<u32, ListError> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits {
        return Err(ListError::NotANumber { column, text: text.to_owned() });
    }
    match text.parse() {
        Ok(value) if value <= CPU_MAX => Ok(value),
        _ => Err(ListError::TooLarge { column, value: text.to_owned(), max: CPU_MAX }),
    }
}

impl schemars::JsonSchema for CpuSet {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CpuList".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "description": "A list of CPUs, such as `0-3,8`." })
    }
}

impl Serialize for CpuSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn any_set() -> impl Strategy<Value = BTreeSet<u32>> {
        prop_oneof![
            proptest::collection::btree_set(0u32..130, 0..40),
            proptest::collection::btree_set(0u32..9000, 0..200),
        ]
    }

    fn set(of: &BTreeSet<u32>) -> CpuSet {
        of.iter().copied().map(CpuId).collect()
    }

    #[test]
    fn fuzz_lists_and_masks() {
        let seeds = ["0-3,8", "0 2-5 7", "0-15:2/8", "ff", "00000002,00000001", "0-1048576:1/64"];
        millpond_fuzz::check_text("model-cpus", &seeds, |text| {
            if let Ok(set) = text.parse::<CpuSet>() {
                assert_eq!(set.to_string().parse(), Ok(set.clone()));
                assert_eq!(set.to_solaris().parse(), Ok(set));
            }
            if let Ok(set) = CpuSet::from_mask(text) {
                assert_eq!(CpuSet::from_mask(&set.to_mask(0)), Ok(set));
            }
        });
    }

    proptest! {
        #[test]
        fn the_algebra_is_that_of_mathematical_sets(a in any_set(), b in any_set()) {
            let (x, y) = (set(&a), set(&b));
            prop_assert_eq!(&x | &y, set(&(&a | &b)));
            prop_assert_eq!(&x & &y, set(&(&a & &b)));
            prop_assert_eq!(&x - &y, set(&(&a - &b)));
            prop_assert_eq!(x.len(), a.len());
            prop_assert_eq!(x.is_empty(), a.is_empty());
            // The order is that of vectors of words from CPU 0 on.
            prop_assert_eq!(x.cmp(&y), x.to_words().cmp(&y.to_words()));
            prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
            prop_assert_eq!(x.is_disjoint(&y), a.is_disjoint(&b));
            prop_assert_eq!(x.lowest().map(|c| c.0), a.first().copied());
            prop_assert_eq!(x.highest().map(|c| c.0), a.last().copied());
            prop_assert!(x.iter().map(|c| c.0).eq(a.iter().copied()));
        }

        #[test]
        fn inserting_and_removing_agree_with_membership(a in any_set(), n in 0u32..9000) {
            let mut x = set(&a);
            prop_assert_eq!(x.insert(CpuId(n)), !a.contains(&n));
            prop_assert!(x.contains(CpuId(n)));
            prop_assert!(x.remove(CpuId(n)));
            prop_assert!(!x.remove(CpuId(n)));
            let mut b = a.clone();
            b.remove(&n);
            prop_assert_eq!(x, set(&b));
        }

        #[test]
        fn both_list_forms_and_the_mask_survive_a_round_trip(a in any_set()) {
            let x = set(&a);
            prop_assert_eq!(x.to_string().parse::<CpuSet>(), Ok(x.clone()));
            prop_assert_eq!(x.to_solaris().parse::<CpuSet>(), Ok(x.clone()));
            prop_assert_eq!(CpuSet::from_mask(&x.to_mask(0)), Ok(x.clone()));
            prop_assert_eq!(CpuSet::from_mask(&x.to_mask(9000)), Ok(x.clone()));
            prop_assert_eq!(CpuSet::from_words(x.to_words()), x.clone());
            let json = serde_json::to_string(&x).unwrap();
            prop_assert_eq!(serde_json::from_str::<CpuSet>(&json).unwrap(), x);
        }

        #[test]
        fn parsing_any_text_never_panics(text in "[0-9,: /x-]{0,24}") {
            let _ = text.parse::<CpuSet>();
            let _ = CpuSet::from_mask(&text);
        }
    }

    #[test]
    fn a_core_of_a_large_machine_is_one_word() {
        let mut core: CpuSet = "99998-99999".parse().unwrap();
        assert_eq!(core.words.len(), 1);
        assert!(core.insert(CpuId(64)) && core.contains(CpuId(99_998)) && !core.contains(CpuId(0)));
        assert!(core.remove(CpuId(64)));
        assert_eq!((core.words.len(), core.highest(), core.len()), (1, Some(CpuId(99_999)), 2));
        assert_eq!((&core & &CpuSet::first(99_999)).words.len(), 1);
    }

    #[test]
    fn lists_print_as_runs() {
        let x: CpuSet = "8,0-3,5,4".parse().unwrap();
        assert_eq!(x.to_string(), "0-5,8");
        assert_eq!(x.to_solaris(), "0-5 8");
        assert_eq!(CpuSet::new().to_string(), "");
    }

    #[test]
    fn strides_are_understood_as_the_kernel_prints_them() {
        let x: CpuSet = "0-15:2/8".parse().unwrap();
        assert_eq!(x.to_string(), "0-1,8-9");
    }

    #[test]
    fn errors_point_at_the_place() {
        let error = |text: &str| text.parse::<CpuSet>().unwrap_err().to_string();
        assert_eq!(error("0,x"), "column 3: `x` is not a CPU number");
        assert_eq!(error("3-1"), "column 1: the range 3-1 runs backwards");
        assert_eq!(error("1-"), "column 3: `` is not a CPU number");
        assert_eq!(
            error("0-4000000000"),
            "column 3: CPU 4000000000 is beyond 1048576, the highest number understood"
        );
        assert_eq!(
            error("0-3:3/2"),
            "column 5: `3/2` is not a stride (`used/group`, both at least 1, used at most group)"
        );
    }

    #[test]
    fn masks_are_grouped_by_eight_digits() {
        let x: CpuSet = "0,33".parse().unwrap();
        assert_eq!(x.to_mask(64), "00000002,00000001");
        assert_eq!(CpuSet::first(2).to_mask(2), "3");
        assert_eq!(CpuSet::first(8).to_mask(8), "ff");
        assert_eq!(CpuSet::new().to_mask(8), "00");
        assert_eq!(CpuSet::from_mask("ff\n"), Ok(CpuSet::first(8)));
    }
}
