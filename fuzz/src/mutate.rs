//! Mutation of inputs: a few small changes each, of kinds that often expose parser errors.

/// Maximal length of a variant.
pub(crate) const BYTES_MAX: usize = 4096;

/// Maximal number of changes per variant.
const CHANGES_MAX: u64 = 6;

/// Numbers that often expose errors.
const NUMBERS: [&str; 14] = [
    "0",
    "1",
    "-1",
    "63",
    "64",
    "255",
    "65536",
    "1048575",
    "1048576",
    "2147483648",
    "4294967295",
    "4294967296",
    "18446744073709551615",
    "99999999999999999999999",
];

/// Bytes with a special meaning in some format.
const MARKS: &[u8] = b" \t\n\r:;,/-+_.()[]{}\"'\\#%@=\0\x7f\xff";

/// Random numbers, reproducible on every machine (SplitMix64).
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 if `end` is 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.roll() % end).unwrap_or(0)
    }

    fn byte(&mut self) -> u8 {
        self.roll().to_le_bytes()[0]
    }

    /// A random item; the default if there are none.
    fn one_of<T: Copy + Default>(&mut self, items: &[T]) -> T {
        items.get(self.below(items.len())).copied().unwrap_or_default()
    }

    /// A random range of `text`, usually short; empty only at its end.
    fn piece(&mut self, text: &[u8]) -> std::ops::Range<usize> {
        let start = self.below(text.len() + 1);
        let room = text.len() - start;
        let longest = if self.below(4) == 0 { room } else { room.min(8) };
        start..start + 1.min(longest) + self.below(longest)
    }
}

/// Creates a variant of one of `seeds`.
pub(crate) fn variant(seeds: &[&[u8]], dice: &mut Dice) -> Vec<u8> {
    let mut input = dice.one_of(seeds).to_vec();
    for _ in 0..=dice.roll() % CHANGES_MAX {
        change(&mut input, seeds, dice);
        input.truncate(BYTES_MAX);
    }
    input
}

fn change(input: &mut Vec<u8>, seeds: &[&[u8]], dice: &mut Dice) {
    let piece = dice.piece(input);
    let at = piece.start;
    match dice.below(9) {
        0 => drop(input.drain(piece)),
        1 => {
            let copy = input[piece].to_vec();
            insert(input, at, &copy.repeat(1 + dice.below(3)));
        }
        2 => {
            let other = dice.one_of(seeds);
            let piece = dice.piece(other);
            insert(input, at, &other[piece]);
        }
        3 => {
            let number = dice.one_of(&NUMBERS);
            replace_number(input, at, number.as_bytes());
        }
        4 => insert(input, at, &[dice.one_of(MARKS)]),
        5 => insert(input, at, &[dice.byte()]),
        6 => overwrite(input, at, |_| dice.one_of(MARKS)),
        7 => overwrite(input, at, |byte| byte ^ (1 << dice.below(8))),
        // A line is the unit of most formats: duplicate one, remove one, or move one to the front.
        _ => turn_lines(input, dice),
    }
}

fn insert(input: &mut Vec<u8>, at: usize, what: &[u8]) {
    input.splice(at..at, what.iter().copied());
}

fn overwrite(input: &mut [u8], at: usize, new: impl FnOnce(u8) -> u8) {
    if let Some(byte) = input.get_mut(at) {
        *byte = new(*byte);
    }
}

/// Replaces the next number after `at` by `number`, or inserts it there.
fn replace_number(input: &mut Vec<u8>, at: usize, number: &[u8]) {
    let digits = |from: usize, is: bool| {
        input[from..].iter().position(|b| b.is_ascii_digit() == is).map_or(input.len(), |skip| from + skip)
    };
    let start = digits(at, true);
    let end = digits(start, false);
    input.splice(start..end, number.iter().copied());
}

fn turn_lines(input: &mut Vec<u8>, dice: &mut Dice) {
    let mut lines: Vec<&[u8]> = input.split_inclusive(|b| *b == b'\n').collect();
    if lines.is_empty() {
        return;
    }
    let at = dice.below(lines.len());
    match dice.below(3) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(at, lines[at]),
        _ => lines.swap(0, at),
    }
    *input = lines.concat();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn variants_are_many_bounded_and_the_same_for_the_same_seed() {
        let seeds: [&[u8]; 3] = [b"cpu0 1 2\ncpu1 3\n", b"", &[b'x'; BYTES_MAX]];
        let make = |seed| {
            let mut dice = Dice::new(seed);
            (0..1000).map(|_| variant(&seeds, &mut dice)).collect::<Vec<_>>()
        };
        let variants = make(7);
        assert_eq!(variants, make(7));
        assert_ne!(variants, make(8));
        assert!(variants.iter().all(|input| input.len() <= BYTES_MAX));
        let different: BTreeSet<_> = variants.into_iter().collect();
        assert!(different.len() > 700, "{}", different.len());
    }

    #[test]
    fn a_number_is_replaced_as_a_whole() {
        let mut input = b"cpu12 345 6".to_vec();
        replace_number(&mut input, 0, b"64");
        assert_eq!(input, b"cpu64 345 6");
        replace_number(&mut input, 5, b"0");
        assert_eq!(input, b"cpu64 0 6");
        let mut none = b"ab".to_vec();
        replace_number(&mut none, 1, b"9");
        assert_eq!(none, b"ab9");
    }
}
