//! Variable-length encoding of numbers.

use super::Malformed;

/// A source of bytes.
pub trait Bytes {
    /// Takes the next byte.
    fn byte(&mut self) -> Option<u8>;

    /// The maximum number of remaining bytes.
    fn left(&self) -> usize;
}

impl Bytes for &[u8] {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.split_first()?;
        *self = rest;
        Some(*first)
    }

    fn left(&self) -> usize {
        self.len()
    }
}

const ENDS: Malformed = Malformed("it ends in the middle");

/// Appends a number, seven bits per byte, the lowest first.
pub fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// Takes a number from the beginning.
pub fn take(bytes: &mut impl Bytes) -> Result<u64, Malformed> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let first = bytes.byte().ok_or(ENDS)?;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Malformed("a number is longer than ten bytes"))
}

/// Takes `length` bytes from the beginning.
pub fn take_bytes(bytes: &mut impl Bytes, length: usize) -> Result<Vec<u8>, Malformed> {
    if length > bytes.left() {
        return Err(ENDS);
    }
    let mut taken = Vec::with_capacity(length);
    for _ in 0..length {
        taken.push(bytes.byte().ok_or(ENDS)?);
    }
    Ok(taken)
}

/// Maps small numbers of both signs to small unsigned numbers.
pub fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

pub fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_number_comes_back(number in any::<u64>(), signed in any::<i64>()) {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            put(&mut bytes, zigzag(signed));
            let mut rest = bytes.as_slice();
            prop_assert_eq!(take(&mut rest), Ok(number));
            prop_assert_eq!(take(&mut rest).map(unzigzag), Ok(signed));
            prop_assert!(rest.is_empty());
        }
    }

    #[test]
    fn small_numbers_take_one_byte() {
        for number in [0, -1, 1, -64, 63] {
            let mut bytes = Vec::new();
            put(&mut bytes, zigzag(number));
            assert_eq!(bytes.len(), 1, "{number}");
        }
    }
}
