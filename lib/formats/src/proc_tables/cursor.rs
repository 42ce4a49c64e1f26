//! Lines, words and numbers of a table.

use super::find::find;

/// A position in a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Cursor<'t> {
    pub(super) fn new(text: &'t [u8]) -> Self {
        Cursor { text, at: 0 }
    }

    /// The position in the text.
    pub(super) fn place(&self) -> usize {
        self.at
    }

    /// Skips a number of bytes.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.at += bytes;
    }

    pub(super) fn at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Skips blanks: usually one, but many in a wide and mostly empty table.
    #[inline]
    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t') = self.peek() {
            self.at += 1;
            if self.peek() != Some(b' ') {
                continue;
            }
            if let Some(chunk) = self.text.get(self.at..).and_then(|rest| rest.first_chunk()) {
                let others = u64::from_le_bytes(*chunk) ^ u64::from_le_bytes([b' '; 8]);
                self.at += (others.trailing_zeros() / 8) as usize;
            }
        }
    }

    /// The next number of this line. `None`, with the cursor before it, if there is no number: a number must end at a blank, so `5-edge` is
    /// none. Digits beyond 64 bits saturate.
    pub(super) fn number(&mut self) -> Option<u64> {
        self.skip_blanks();
        let start = self.at;
        // Sixteen digits always fit, eight at a time. Longer numbers, and numbers at the end of the text, are rare.
        let mut value = 0;
        for _ in 0..2 {
            let Some(chunk) = self.text.get(self.at..).and_then(|rest| rest.first_chunk()) else { break };
            let (part, count) = leading_number(u64::from_le_bytes(*chunk));
            value = value * POWERS[count] + part;
            self.at += count;
            if count < 8 {
                break;
            }
        }
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            value = value.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
            self.at += 1;
        }
        let ended = matches!(self.peek(), None | Some(b' ' | b'\t' | b'\n' | b'\r'));
        if self.at > start && ended {
            return Some(value);
        }
        self.at = start;
        None
    }

    /// The next word of this line.
    pub(super) fn word(&mut self) -> Option<&'t [u8]> {
        self.skip_blanks();
        let rest = &self.text[self.at..];
        let len = rest.iter().position(|b| b.is_ascii_whitespace()).unwrap_or(rest.len());
        self.at += len;
        (len > 0).then(|| &rest[..len])
    }

    /// The text before the next colon of this line; the cursor is then after the colon. `None`, with the cursor
    /// unchanged, if the line has no colon.
    pub(super) fn label(&mut self) -> Option<&'t [u8]> {
        self.skip_blanks();
        let rest = &self.text[self.at..];
        let len = rest.iter().position(|byte| matches!(byte, b':' | b'\n'))?;
        if rest[len] != b':' {
            return None;
        }
        self.at += len + 1;
        Some(&rest[..len])
    }

    /// The next `count` bytes, if a number may end after them.
    pub(super) fn peek_numbers(&self, count: usize) -> Option<&'t [u8]> {
        let (bytes, behind) = self.text.get(self.at..)?.split_at_checked(count)?;
        matches!(behind.first(), None | Some(b' ' | b'\t' | b'\n' | b'\r')).then_some(bytes)
    }

    /// The rest of this line; the cursor is then at the beginning of the next one.
    pub(super) fn rest_of_line(&mut self) -> &'t [u8] {
        let rest = &self.text[self.at.min(self.text.len())..];
        let len = find(b'\n', rest).unwrap_or(rest.len());
        self.at += len + 1;
        &rest[..len]
    }
}

/// The factor of a number that is followed by a number of digits.
const POWERS: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// The number at the start of eight bytes, the first of them the lowest of the word, and its number of digits. All digits at once: a loop
/// over digits is mispredicted at the end of numbers of varying length.
#[inline]
fn leading_number(text: u64) -> (u64, usize) {
    let digits = text ^ u64::from_le_bytes([b'0'; 8]);
    // The highest bit of each byte that is not a digit. A carry can only affect bytes after such a byte.
    let others =
        (digits.wrapping_add(u64::from_le_bytes([0x76; 8])) | digits) & u64::from_le_bytes([0x80; 8]);
    let bits = others.trailing_zeros() & !7;
    if bits == 0 {
        return (0, 0);
    }
    // Shift to the end of the word, filling with zeros; then combine pairs, fours, and all digits.
    let digits = digits << (64 - bits);
    let pairs = (digits * 10 + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    ((fours * 10_000 + (fours >> 32)) & 0xffff_ffff, (bits / 8) as usize)
}

/// Decimal digits only.
pub(super) fn parse_u32(text: &[u8]) -> Option<u32> {
    let add = |value: u32, byte: &u8| {
        let digit = byte.is_ascii_digit().then(|| u32::from(byte - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    };
    if text.is_empty() { None } else { text.iter().try_fold(0, add) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_number_ends_at_a_blank() {
        let mut cursor = Cursor::new(b" 12 5-edge\n7");
        assert_eq!(cursor.number(), Some(12));
        assert_eq!(cursor.number(), None);
        assert_eq!(cursor.rest_of_line(), b"5-edge");
        assert_eq!(cursor.number(), Some(7));
        assert_eq!(cursor.number(), None);
    }

    #[test]
    fn a_number_does_not_reach_over_the_end_of_its_line() {
        let mut cursor = Cursor::new(b"1\n2\n");
        assert_eq!(cursor.number(), Some(1));
        assert_eq!(cursor.number(), None);
    }

    proptest! {
        #[test]
        fn numbers_are_what_their_digits_say(
            number in any::<u64>(),
            cut in 0u32..64,
            noughts in 0usize..4,
            behind in "[ \n]?[0-9 ]{0,9}|[a-z:/-].{0,9}",
        ) {
            let number = number >> cut;
            let text = format!("{}{number}", "0".repeat(noughts));
            let ended = behind.is_empty() || behind.starts_with([' ', '\n']);
            let whole = format!("{text}{behind}");
            let mut cursor = Cursor::new(whole.as_bytes());
            if behind.starts_with(|c: char| c.is_ascii_digit()) {
                return Ok(());
            }
            prop_assert_eq!(cursor.number(), ended.then_some(number));
            prop_assert_eq!(cursor.at, if ended { text.len() } else { 0 });
        }
    }
}
