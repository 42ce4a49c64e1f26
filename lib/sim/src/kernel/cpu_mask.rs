//! Bit sets of CPUs, and CPUs sorted into priority levels. They are queried at every switch, a few words at a time.

use super::ids::{CpuIndex, Id, Table};
use super::queue::LEVELS;
use serde::{Deserialize, Serialize};

/// A set of indices.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<u32>", into = "Vec<u32>")]
pub struct CpuMask {
    /// May end with zero words: a removed index usually returns soon.
    words: Vec<u64>,
    /// Number of set bits.
    len: u32,
}

impl PartialEq for CpuMask {
    fn eq(&self, other: &CpuMask) -> bool {
        self.len == other.len && self.words.iter().zip(&other.words).all(|(a, b)| a == b)
    }
}

impl Eq for CpuMask {}

/// The highest index that is accepted from a file.
pub(super) const INDEX_MAX: u32 = 1 << 20;

impl TryFrom<Vec<u32>> for CpuMask {
    type Error = &'static str;

    /// The indices must be ascending and below `INDEX_MAX`.
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
    #[inline]
    pub fn insert(&mut self, index: CpuIndex) {
        let at = index.place() / 64;
        if at >= self.words.len() {
            self.words.resize(at + 1, 0);
        }
        let word = &mut self.words[at];
        self.len += u32::from(*word >> (index.0 % 64) & 1 == 0);
        *word |= 1 << (index.0 % 64);
    }

    #[inline]
    pub fn remove(&mut self, index: CpuIndex) {
        if let Some(word) = self.words.get_mut(index.place() / 64) {
            self.len -= u32::from(*word >> (index.0 % 64) & 1 == 1);
            *word &= !(1 << (index.0 % 64));
        }
    }

    #[must_use]
    #[inline]
    pub fn contains(&self, index: CpuIndex) -> bool {
        self.words.get(index.place() / 64).is_some_and(|word| word >> (index.0 % 64) & 1 == 1)
    }

    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bit words.
    #[must_use]
    #[inline]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Number of indices.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// All indices, ascending.
    pub fn iter(&self) -> impl Iterator<Item = CpuIndex> + '_ {
        (0u32..).zip(&self.words).flat_map(|(at, word)| {
            std::iter::successors(Some(*word).filter(|w| *w != 0), |w| Some(w & (w - 1)).filter(|w| *w != 0))
                .map(move |w| CpuIndex(at * 64 + w.trailing_zeros()))
        })
    }

    /// Removes and returns the lowest index.
    #[inline]
    pub fn pop_first(&mut self) -> Option<CpuIndex> {
        let first = self.first()?;
        self.remove(first);
        Some(first)
    }

    /// The lowest index.
    #[must_use]
    #[inline]
    pub fn first(&self) -> Option<CpuIndex> {
        if self.is_empty() {
            return None;
        }
        for (at, word) in self.words.iter().enumerate() {
            if *word != 0 {
                return Some(CpuIndex::at(at * 64 + word.trailing_zeros() as usize));
            }
        }
        None
    }
}

/// The first index at or after `from`, cyclically, that is in all these sets and for which `wanted` holds.
#[inline]
pub fn first_in<const N: usize>(
    sets: [&[u64]; N],
    from: CpuIndex,
    wanted: impl Fn(CpuIndex) -> bool,
) -> Option<CpuIndex> {
    let mut words = usize::MAX;
    for set in sets {
        words = words.min(set.len());
    }
    if words == 0 {
        return None;
    }
    // The word of `from` is visited twice: first its upper bits, last the lower ones.
    let (start, upper) = match from.place() / 64 {
        at if at < words => (at, u64::MAX << (from.0 % 64)),
        _ => (0, u64::MAX),
    };
    let (mut at, mut mask) = (start, upper);
    for _ in 0..=words {
        let mut word = mask;
        for set in sets {
            word &= set[at];
        }
        while word != 0 {
            let index = CpuIndex::at(at * 64 + word.trailing_zeros() as usize);
            if wanted(index) {
                return Some(index);
            }
            word &= word - 1;
        }
        at = if at + 1 == words { 0 } else { at + 1 };
        mask = if at == start { !upper } else { u64::MAX };
    }
    None
}

/// CPU indices, each at a level from -1 to 169.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuLevels {
    at: Table<CpuIndex, i16>,
    /// For each level plus one, the bit words of its members; `words` words each.
    members: Vec<u64>,
    words: usize,
    /// Number of members of each level.
    counts: [u32; LEVELS + 1],
    /// Bit set of levels with members, by level plus one.
    full: [u64; 3],
}

impl CpuLevels {
    /// This many indices, all at level -1.
    #[must_use]
    pub fn new(count: u32) -> Self {
        let words = count.div_ceil(64) as usize;
        let mut levels = CpuLevels {
            at: vec![-1; count as usize].into(),
            members: vec![0; words * (LEVELS + 1)],
            words,
            counts: [0; LEVELS + 1],
            full: [0; 3],
        };
        for index in (0..count).map(CpuIndex) {
            levels.members[index.place() / 64] |= 1 << (index.0 % 64);
        }
        levels.counts[0] = count;
        levels.full[0] = u64::from(count > 0);
        levels
    }

    /// Moves an index to a level; returns the old level.
    #[inline]
    pub fn set(&mut self, index: CpuIndex, level: i16) -> i16 {
        let before = std::mem::replace(&mut self.at[index], level);
        if before != level {
            self.move_between(index, slot(before), slot(level));
        }
        before
    }

    fn move_between(&mut self, index: CpuIndex, from: usize, to: usize) {
        let (word, bit) = (index.place() / 64, 1 << (index.0 % 64));
        self.members[from * self.words + word] ^= bit;
        self.members[to * self.words + word] ^= bit;
        self.counts[from] -= 1;
        self.counts[to] += 1;
        self.full[from / 64] ^= u64::from(self.counts[from] == 0) << (from % 64);
        self.full[to / 64] |= 1 << (to % 64);
    }

    /// The level of an index.
    #[must_use]
    #[inline]
    pub fn level(&self, index: CpuIndex) -> i16 {
        self.at[index]
    }

    /// The lowest level above `above` that has members, with their bit words.
    #[must_use]
    #[inline]
    pub fn next_above(&self, above: i16) -> Option<(i16, &[u64])> {
        let from = slot(above + 1);
        let mut word = from / 64;
        let mut bits = self.full.get(word)? & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            bits = *self.full.get(word)?;
        }
        self.member(word, bits.trailing_zeros())
    }

    /// The first index at or after `from`, cyclically, that is in both sets, at the lowest possible level of at least 0 and below `level`.
    #[must_use]
    pub fn first_below(&self, level: i16, sets: [&CpuMask; 2], from: CpuIndex) -> Option<CpuIndex> {
        let rising = std::iter::successors(self.next_above(-1), |(at, _)| self.next_above(*at));
        let below = rising.take_while(|(at, _)| *at < level);
        below
            .into_iter()
            .find_map(|(_, members)| first_in([members, sets[0].words(), sets[1].words()], from, |_| true))
    }

    /// The highest level below `below` that has members, with their bit words.
    #[must_use]
    #[inline]
    pub fn next_below(&self, below: i16) -> Option<(i16, &[u64])> {
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

    #[inline]
    fn member(&self, word: usize, bit: u32) -> Option<(i16, &[u64])> {
        let slot = word * 64 + bit as usize;
        let members = self.members.get(slot * self.words..(slot + 1) * self.words)?;
        Some((i16::try_from(slot).ok()? - 1, members))
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
            prop_assert_eq!(first_in([bits.words(), other.words()], from, |i| i.0 % 3 != 0), expected);
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
                let there = (0..100u32).filter(|index| members[*index as usize / 64] >> (index % 64) & 1 == 1);
                let expected = (0..100u32).filter(|index| model[*index as usize] == level);
                prop_assert_eq!(there.collect::<Vec<u32>>(), expected.collect::<Vec<u32>>());
            }
        }
    }
}
