//! Numbers, and sizes such as `64k`.

use super::items::Trouble;

/// Format of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Digits.
    Count,
    /// Digits, and a letter for a power of 1024: k, m, g or t, of either case.
    Bytes,
}

/// Parses a number.
pub(super) fn parse(text: &[u8], unit: Unit) -> Result<usize, Trouble> {
    let (digits, shift) = match (unit, text.split_last()) {
        (Unit::Bytes, Some((letter, digits))) => match letter.to_ascii_lowercase() {
            b'k' => (digits, 10),
            b'm' => (digits, 20),
            b'g' => (digits, 30),
            b't' => (digits, 40),
            _ => (text, 0),
        },
        _ => (text, 0),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Trouble::NotANumber);
    }
    let number: Option<usize> = str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    number.and_then(|number| number.checked_mul(1 << shift)).ok_or(Trouble::Overflowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_a_number_and_a_letter_multiplies() {
        let size = |text: &str| parse(text.as_bytes(), Unit::Bytes).unwrap();
        assert_eq!(["0", "15", "007"].map(size), [0, 15, 7]);
        assert_eq!(["1k", "64K", "2m", "2M"].map(size), [1024, 65536, 2_097_152, 2_097_152]);
        assert_eq!(["3g", "1T"].map(size), [3_221_225_472, 1_099_511_627_776]);
        assert_eq!(size("18446744073709551615"), usize::MAX);
    }

    #[test]
    fn what_is_no_number_and_what_is_too_large_differ() {
        for text in ["", "k", "x", "-1", "+1", "1 ", " 1", "1kb", "0x10", "1.5k", "1_000", "\u{661}"] {
            assert!(matches!(parse(text.as_bytes(), Unit::Bytes), Err(Trouble::NotANumber)), "{text:?}");
        }
        for text in ["18446744073709551616", "99999999999999999999999", "16777216t", "18014398509481984k"] {
            assert!(matches!(parse(text.as_bytes(), Unit::Bytes), Err(Trouble::Overflowed)), "{text:?}");
        }
        assert!(matches!(parse(b"1k", Unit::Count), Err(Trouble::NotANumber)));
    }
}
