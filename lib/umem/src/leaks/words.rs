//! Words with their addresses, added in ascending order while a process is stopped. Existing entries never move.

/// Words per block: 1 MiB.
const BLOCK: usize = 1 << 16;

/// The words.
#[derive(Debug, Default)]
pub(super) struct Words {
    blocks: Vec<Vec<(u64, u64)>>,
}

impl Words {
    /// Adds a word whose address is greater than all others.
    pub(super) fn push(&mut self, place: u64, word: u64) {
        match self.blocks.last_mut().filter(|block| block.len() < BLOCK) {
            Some(block) => block.push((place, word)),
            None => {
                let mut block = Vec::with_capacity(BLOCK);
                block.push((place, word));
                self.blocks.push(block);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.blocks.iter().map(Vec::len).sum()
    }

    /// Words with addresses in a range.
    pub(super) fn within(&self, begin: u64, end: u64) -> impl Iterator<Item = u64> + '_ {
        let first = self.blocks.partition_point(|block| block.last().is_none_or(|(place, _)| *place < begin));
        let mut at =
            self.blocks.get(first).map_or(0, |block| block.partition_point(|(place, _)| *place < begin));
        let blocks = self.blocks.get(first..).unwrap_or_default().iter();
        let words = blocks.flat_map(move |block| &block[std::mem::take(&mut at)..]);
        words.take_while(move |(place, _)| *place < end).map(|(_, word)| *word)
    }
}

#[cfg(test)]
mod unit {
    use super::{BLOCK, Words};

    #[test]
    fn ranges_go_over_the_ends_of_blocks() {
        let mut words = Words::default();
        let count = 2 * BLOCK as u64 + 10;
        (0..count).for_each(|at| words.push(at * 8, at));
        assert_eq!(words.len() as u64, count);
        let edge = BLOCK as u64;
        let within = |begin: u64, end: u64| words.within(begin, end).collect::<Vec<_>>();
        assert_eq!(within((edge - 2) * 8, (edge + 2) * 8), [edge - 2, edge - 1, edge, edge + 1]);
        assert_eq!(within(edge * 8 - 7, edge * 8 + 1), [edge]);
        assert_eq!(within(count * 8, u64::MAX), [0_u64; 0]);
        assert_eq!(within(0, 8), [0]);
        assert_eq!(Words::default().within(0, 8).count(), 0);
    }
}
