//! Sets of CPUs by index, and CPUs sorted into levels: what is asked at every switch, in a few words each.

use super::ids::{CpuIndex, Id, Table};
use super::queue::LEVELS;
use serde::{Deserialize, Serialize};

/// A set of indices.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u32>", into = "Vec<u32>")]
pub struct CpuMask {
    words: Vec<u64>,
}

/// The highest index that a set may be read with from a file.
const INDEX_MAX: u32 = 1 << 20;

impl TryFrom<Vec<u32>> for CpuMask {
    type Error = &'static str;

    /// Ascending, and not beyond what any machine has.
    fn try_from(indices: Vec<u32>) -> Result<Self, &'static str> {
        let ascend = indices.is_sorted_by(|a, b| a < b);
        if !ascend || indices.last().is_some_and(|last| *last >= INDEX_MAX) {
            return Err("CPUs that do not exist, or not in order");
        }
        Ok(indices.into_iter().map(CpuIndex).collect())
    }
}

impl From<CpuMask> for Vec<u32> {
    fn from(bits: CpuMask) -> Self {
        bits.iter().map(|cpu| cpu.0).collect()
    }
}

impl FromIterator<CpuIndex> for CpuMask {
    fn from_iter<I: IntoIterator<Item = CpuIndex>>(indices: I) -> Self {
        let mut bits = CpuMask::default();
        for index in indices {
            bits.insert(index);
        }
        bits
    }
}

impl CpuMask {
    /// Adds an index.
    #[inline]
    pub fn insert(&mut self, index: CpuIndex) {
        let at = index.place() / 64;
        match self.words.get_mut(at) {
            Some(word) => *word |= 1 << (index.0 % 64),
            None => {
                self.words.resize(at + 1, 0);
                self.words[at] = 1 << (index.0 % 64);
            }
        }
    }

    /// Takes an index away.
    pub fn remove(&mut self, index: CpuIndex) {
        if let Some(word) = self.words.get_mut(index.place() / 64) {
            *word &= !(1 << (index.0 % 64));
        }
        // No words at the end that say nothing: equal sets are equal.
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        self.words.clear();
    }

    /// Whether an index is in it.
    #[must_use]
    pub fn contains(&self, index: CpuIndex) -> bool {
        self.words.get(index.place() / 64).is_some_and(|word| word >> (index.0 % 64) & 1 == 1)
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// How many it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// All, ascending.
    pub fn iter(&self) -> impl Iterator<Item = CpuIndex> + '_ {
        (0u32..).zip(&self.words).flat_map(|(at, word)| {
            std::iter::successors(Some(*word).filter(|w| *w != 0), |w| Some(w & (w - 1)).filter(|w| *w != 0))
                .map(move |w| CpuIndex(at * 64 + w.trailing_zeros()))
        })
    }

    /// Takes the lowest out.
    pub fn pop_first(&mut self) -> Option<CpuIndex> {
        let first = self.first()?;
        self.remove(first);
        Some(first)
    }

    /// The lowest.
    #[must_use]
    pub fn first(&self) -> Option<CpuIndex> {
        let (at, word) = (0u32..).zip(&self.words).find(|(_, word)| **word != 0)?;
        Some(CpuIndex(at * 64 + word.trailing_zeros()))
    }
}

/// The first index at or after `from`, going round, that is in all of these sets and for which `wanted` holds.
pub fn first_in(sets: &[&CpuMask], from: CpuIndex, wanted: impl Fn(CpuIndex) -> bool) -> Option<CpuIndex> {
    let words = sets.iter().map(|set| set.words.len()).min()?;
    let start = from.place() / 64;
    let common = |at: usize| sets.iter().fold(u64::MAX, |word, set| word & set.words[at]);
    let upper = u64::MAX << (from.0 % 64);
    let pick = |at: usize, mask: u64| {
        let mut word = common(at) & mask;
        while word != 0 {
            let index = CpuIndex(u32::try_from(at).ok()? * 64 + word.trailing_zeros());
            if wanted(index) {
                return Some(index);
            }
            word &= word - 1;
        }
        None
    };
    let after = (start..words).find_map(|at| pick(at, if at == start { upper } else { u64::MAX }));
    after.or_else(|| {
        (0..words.min(start + 1)).find_map(|at| pick(at, if at == start { !upper } else { u64::MAX }))
    })
}

/// Indices, each at a level from -1 to 169.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuLevels {
    at: Table<CpuIndex, i16>,
    members: Vec<CpuMask>,
    /// Which levels have members, by level plus one.
    full: [u64; 3],
}

impl CpuLevels {
    /// So many, all at level -1.
    #[must_use]
    pub fn new(count: u32) -> Self {
        let mut levels = CpuLevels {
            at: vec![-1; count as usize].into(),
            members: vec![CpuMask::default(); LEVELS + 1],
            full: [0; 3],
        };
        levels.members[0] = (0..count).map(CpuIndex).collect();
        levels.full[0] = u64::from(count > 0);
        levels
    }

    /// Moves an index to a level.
    pub fn set(&mut self, index: CpuIndex, level: i16) {
        let before = std::mem::replace(&mut self.at[index], level);
        if before == level {
            return;
        }
        let (from, to) = (slot(before), slot(level));
        self.members[from].remove(index);
        if self.members[from].is_empty() {
            self.full[from / 64] &= !(1 << (from % 64));
        }
        self.members[to].insert(index);
        self.full[to / 64] |= 1 << (to % 64);
    }

    /// The level of an index.
    #[must_use]
    pub fn level(&self, index: CpuIndex) -> i16 {
        self.at[index]
    }

    /// The lowest level above `above` that has members.
    #[must_use]
    pub fn next_above(&self, above: i16) -> Option<(i16, &CpuMask)> {
        let from = slot(above + 1);
        let mut word = from / 64;
        let mut bits = self.full.get(word)? & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            bits = *self.full.get(word)?;
        }
        self.member(word, bits.trailing_zeros())
    }

    /// The first index at or after `from`, going round, that is in all of these sets, at the lowest possible level from 0 on,
    /// but below `level`.
    #[must_use]
    pub fn first_below(&self, level: i16, sets: &[&CpuMask; 2], from: CpuIndex) -> Option<CpuIndex> {
        let rising = std::iter::successors(self.next_above(-1), |(at, _)| self.next_above(*at));
        let below = rising.take_while(|(at, _)| *at < level);
        below.into_iter().find_map(|(_, members)| first_in(&[members, sets[0], sets[1]], from, |_| true))
    }

    /// The highest level below `below` that has members.
    #[must_use]
    pub fn next_below(&self, below: i16) -> Option<(i16, &CpuMask)> {
        if below <= -1 {
            return None;
        }
        let from = slot(below - 1);
        let mut word = from / 64;
        let mut bits = self.full[word] & (u64::MAX >> (63 - from % 64));
        while bits == 0 {
            word = word.checked_sub(1)?;
            bits = self.full[word];
        }
        self.member(word, 63 - bits.leading_zeros())
    }

    fn member(&self, word: usize, bit: u32) -> Option<(i16, &CpuMask)> {
        let slot = word * 64 + bit as usize;
        Some((i16::try_from(slot).ok()? - 1, self.members.get(slot)?))
    }
}

#[expect(clippy::cast_sign_loss, reason = "levels begin at -1")]
fn slot(level: i16) -> usize {
    (level + 1).max(0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn cpus() -> impl Strategy<Value = CpuIndex> {
        (0u32..300).prop_map(CpuIndex)
    }

    proptest! {
        #[test]
        fn sets_are_sets(
            a in proptest::collection::btree_set(cpus(), 0..60),
            b in proptest::collection::btree_set(cpus(), 0..60),
            gone in proptest::collection::vec(cpus(), 0..20),
            from in (0u32..400).prop_map(CpuIndex)
        ) {
            let (mut bits, mut set) = (a.iter().copied().collect::<CpuMask>(), a);
            for index in gone {
                bits.remove(index);
                set.remove(&index);
            }
            prop_assert_eq!(bits.iter().collect::<BTreeSet<CpuIndex>>(), set.clone());
            prop_assert_eq!((bits.len(), bits.is_empty()), (set.len(), set.is_empty()));
            prop_assert_eq!(&set.iter().copied().collect::<CpuMask>(), &bits);
            let other: CpuMask = b.iter().copied().collect();
            let both: BTreeSet<CpuIndex> = set.intersection(&b).copied().filter(|i| i.0 % 3 != 0).collect();
            let expected = both.range(from..).next().or_else(|| both.iter().next()).copied();
            prop_assert_eq!(first_in(&[&bits, &other], from, |i| i.0 % 3 != 0), expected);
            let mut rest = bits.clone();
            prop_assert_eq!(std::iter::from_fn(|| rest.pop_first()).collect::<Vec<CpuIndex>>(), bits.iter().collect::<Vec<CpuIndex>>());
        }

        #[test]
        fn levels_are_found_from_both_sides(moves in proptest::collection::vec(((0u32..100).prop_map(CpuIndex), -1i16..170), 0..80)) {
            let mut levels = CpuLevels::new(100);
            let mut model = [-1i16; 100];
            for (index, level) in moves {
                levels.set(index, level);
                model[index.place()] = level;
            }
            let full: BTreeSet<i16> = model.iter().copied().collect();
            let up: Vec<i16> =
                std::iter::successors(levels.next_above(-2), |(l, _)| levels.next_above(*l)).map(|(l, _)| l).collect();
            prop_assert_eq!(&up, &full.iter().copied().collect::<Vec<i16>>());
            let down: Vec<i16> =
                std::iter::successors(levels.next_below(170), |(l, _)| levels.next_below(*l)).map(|(l, _)| l).collect();
            prop_assert_eq!(down, full.iter().rev().copied().collect::<Vec<i16>>());
            for (level, members) in up.iter().filter_map(|l| levels.next_above(l - 1)) {
                for index in members.iter() {
                    prop_assert_eq!((levels.at[index], model[index.place()]), (level, level));
                }
            }
        }
    }
}
