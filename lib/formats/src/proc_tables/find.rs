//! Search for a byte, eight bytes at a time. A library that uses wider registers executes CPUID at each program start, which traps
//! to the hypervisor in a virtual machine.

/// One in each byte.
const ONES: u64 = 0x0101_0101_0101_0101;
/// The highest bit of each byte.
const HIGH: u64 = 0x8080_8080_8080_8080;

/// The position of the first `byte`.
#[must_use]
pub fn find(byte: u8, text: &[u8]) -> Option<usize> {
    let (words, rest) = text.as_chunks::<8>();
    let wanted = ONES * u64::from(byte);
    for (index, word) in words.iter().enumerate() {
        let others = u64::from_le_bytes(*word) ^ wanted;
        // A borrow can only affect bytes after the first zero byte.
        let found = others.wrapping_sub(ONES) & !others & HIGH;
        if found != 0 {
            return Some(index * 8 + (found.trailing_zeros() / 8) as usize);
        }
    }
    rest.iter().position(|b| *b == byte).map(|at| words.len() * 8 + at)
}

/// The position of the last `byte`.
#[must_use]
pub fn find_last(byte: u8, text: &[u8]) -> Option<usize> {
    let (rest, blocks) = text.as_rchunks::<64>();
    // No branch per byte, so this is vectorised.
    let has = |block: &[u8; 64]| block.iter().fold(0, |found, b| found | u8::from(*b == byte)) != 0;
    for (index, block) in blocks.iter().enumerate().rev() {
        if has(block) {
            return block.iter().rposition(|b| *b == byte).map(|at| rest.len() + index * 64 + at);
        }
    }
    rest.iter().rposition(|b| *b == byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_byte_is_found_where_it_stands(
            text in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(0x0b), Just(0x8a), any::<u8>()], 0..300),
            none in proptest::collection::vec(Just(0x0b), 0..200),
        ) {
            for text in [&text, &none] {
                prop_assert_eq!(find(b'\n', text), text.iter().position(|b| *b == b'\n'));
                prop_assert_eq!(find_last(b'\n', text), text.iter().rposition(|b| *b == b'\n'));
            }
        }
    }
}
