//! Sums of rows whose numbers stand right-aligned under each other, digit by digit.
//!
//! The kernel prints its wide tables in fields of one width, a blank before each number. Digits of the same
//! weight then stand at the same place of every row, and a row is added by adding its bytes to one sum per
//! place: no number is cut out and none is converted, until the sums of the places are put together once for
//! some dozens of rows. What a row is made of is checked in the same pass, so that this gives what reading
//! number by number would give, or refuses.
//!
//! ```text
//!   row          ␣  1  2  3  ␣  ␣  ␣  9
//!   sum before   0  2  0  5  0  0  1  4
//!   sum behind   0  3  2  8  0  0  1 13   ──▶  328, 23
//! ```

/// Rows whose digits fit into a byte: nine times as many.
const ROWS_MAX: u8 = 28;
/// Fields so wide that a number might not fit into 64 bits are not ours.
const WIDTH_MAX: usize = 20;
/// What digits have and blanks have not.
const DIGIT: u8 = b'0' & !b' ';

/// The sums of the places.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct DigitSums {
    /// Bytes of a field; 0 when it is not known.
    width: usize,
    /// [`DIGIT`] where a field begins, else 0.
    begins: Vec<u8>,
    /// A sum per place.
    places: Vec<u8>,
    /// How many rows are in them.
    rows: u8,
}

impl DigitSums {
    /// From now on rows have `fields` numbers of `width` bytes each, if such a row can be added here. Rows
    /// that are in the sums are forgotten.
    pub(super) fn lay_out(&mut self, fields: usize, width: usize) {
        self.places.clear();
        self.rows = 0;
        if !(2..=WIDTH_MAX).contains(&width) {
            self.width = 0;
            self.begins.clear();
            return;
        }
        if (self.width, self.begins.len()) != (width, fields * width) {
            self.width = width;
            self.begins.clear();
            self.begins.resize(fields * width, 0);
            self.begins.iter_mut().step_by(width).for_each(|begin| *begin = DIGIT);
        }
        self.places.resize(fields * width, 0);
    }

    /// How many bytes a row has; 0 when that is not known.
    pub(super) fn row_bytes(&self) -> usize {
        self.places.len()
    }

    /// Whether there is no room for another row.
    pub(super) fn is_full(&self) -> bool {
        self.rows == ROWS_MAX
    }

    /// Adds a row of [`DigitSums::row_bytes`], if there is room. `false`, with nothing added, when it is not
    /// made of right-aligned numbers.
    pub(super) fn add(&mut self, row: &[u8]) -> bool {
        let len = self.places.len();
        if len == 0 || row.len() != len || self.is_full() {
            return false;
        }
        // As though a number ended before the row.
        let mut check = Check { before: DIGIT, wrong: 0 };
        let (words, rest) = row.as_chunks::<8>();
        let (begins, begins_of_rest) = self.begins.as_chunks::<8>();
        let (places, places_of_rest) = self.places.as_chunks_mut::<8>();
        for ((word, begins), places) in words.iter().zip(begins).zip(&mut *places) {
            let digits = check.look(u64::from_le_bytes(*word), u64::from_le_bytes(*begins));
            *places = u64::from_le_bytes(*places).wrapping_add(digits).to_le_bytes();
        }
        // What is less than a word is looked at as one that ends with a number.
        if let Some(last) = rest.len().checked_sub(1) {
            let (mut word, mut begins) = ([rest[last]; 8], [0; 8]);
            word[..rest.len()].copy_from_slice(rest);
            begins[..rest.len()].copy_from_slice(begins_of_rest);
            let digits = check.look(u64::from_le_bytes(word), u64::from_le_bytes(begins)).to_le_bytes();
            for (place, digit) in places_of_rest.iter_mut().zip(digits) {
                *place = place.wrapping_add(digit);
            }
        }
        let right = check.wrong == 0 && row[len - 1] & DIGIT != 0;
        if right {
            self.rows += 1;
            return true;
        }
        for (word, places) in words.iter().zip(places) {
            let sums = u64::from_le_bytes(*places).wrapping_sub(u64::from_le_bytes(*word) & LOW);
            *places = sums.to_le_bytes();
        }
        for (place, byte) in places_of_rest.iter_mut().zip(rest) {
            *place = place.wrapping_sub(byte & 0x0f);
        }
        false
    }

    /// Moves the sums of the fields to `sums`.
    pub(super) fn drain_into(&mut self, sums: &mut [u64]) {
        if self.rows > 0 {
            for (field, sum) in self.places.chunks_exact(self.width).zip(sums) {
                let value = field
                    .iter()
                    .fold(0u64, |value, place| value.wrapping_mul(10).wrapping_add(u64::from(*place)));
                *sum = sum.wrapping_add(value);
            }
            self.places.fill(0);
            self.rows = 0;
        }
    }
}

/// What is wrong about a row, found eight bytes at a time and without a branch: the compiler makes no such words of a loop over bytes in a program
/// that is to be small.
#[derive(Debug, Clone, Copy)]
struct Check {
    /// The byte before.
    before: u8,
    /// Not 0 once something is wrong.
    wrong: u64,
}

/// The lower half of each byte of a word.
const LOW: u64 = 0x0f0f_0f0f_0f0f_0f0f;
/// [`DIGIT`] in each.
const DIGITS: u64 = 0x1010_1010_1010_1010;

impl Check {
    /// Looks at eight bytes, the first of them the lowest, of which `begins` has [`DIGIT`] where a field begins, else 0. Gives their digits, 0 for a
    /// blank.
    #[inline(always)]
    fn look(&mut self, word: u64, begins: u64) -> u64 {
        // A blank is 0, and digits are 16 to 25.
        let shifted = word ^ u64::from_le_bytes([b' '; 8]);
        let (low, are_digits) = (shifted & LOW, shifted & DIGITS);
        let all_of_digits = are_digits - (are_digits >> 4);
        let others =
            (shifted & !(DIGITS | LOW)) | (low & !all_of_digits) | ((low + 0x0606_0606_0606_0606) & DIGITS);
        // A blank behind a digit, there and only there where a field begins.
        let before = (word << 8) | u64::from(self.before);
        let odd = (before & !word & DIGITS) ^ begins;
        self.wrong |= others | odd;
        self.before = word.to_le_bytes()[7];
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sums(fields: usize, width: usize, rows: &[&str]) -> Option<Vec<u64>> {
        let mut digits = DigitSums::default();
        digits.lay_out(fields, width);
        let mut sums = vec![0; fields];
        for row in rows {
            if !digits.add(row.as_bytes()) {
                return None;
            }
            if digits.is_full() {
                digits.drain_into(&mut sums);
            }
        }
        digits.drain_into(&mut sums);
        Some(sums)
    }

    #[test]
    fn digits_of_one_place_are_added() {
        assert_eq!(sums(2, 4, &[" 205  14", " 123   9"]), Some(vec![328, 23]));
        assert_eq!(sums(1, 20, &[" 9999999999999999999"]), Some(vec![9_999_999_999_999_999_999]));
        assert_eq!(sums(3, 2, &[" 9 9 0"; 100]), Some(vec![900, 900, 0]));
    }

    #[test]
    fn a_row_of_anything_else_is_refused_and_leaves_nothing() {
        let wrong = [
            " 12   3 ",
            "12   3  ",
            " 1 2   3",
            "   1    ",
            " 12  12-",
            " -1   12",
            " 12\n  12",
            " 12\t  12",
            "  123123",
            "1234 123",
            "   a   1",
            " 1,2   3",
            "\u{e9}12  12",
            " 12",
            "",
        ];
        let mut digits = DigitSums::default();
        digits.lay_out(2, 4);
        for row in wrong {
            assert!(!digits.add(row.as_bytes()), "{row:?}");
        }
        assert!(digits.add(b"   5   7"));
        let mut sums = [1, 1];
        digits.drain_into(&mut sums);
        assert_eq!(sums, [6, 8]);
    }

    #[test]
    fn widths_that_cannot_be_are_never_added() {
        for width in [0, 1, 21] {
            assert_eq!(sums(1, width, &[format!("{:>width$}", 1).as_str()]), None, "{width}");
        }
    }

    proptest! {
        #[test]
        fn sums_are_those_of_the_numbers(
            rows in proptest::collection::vec(proptest::collection::vec(0u64..1_000_000, 5), 0..70),
            width in 7usize..14,
        ) {
            let text: Vec<String> =
                rows.iter().map(|row| row.iter().map(|n| format!("{n:>width$}")).collect()).collect();
            let text: Vec<&str> = text.iter().map(String::as_str).collect();
            let expected: Vec<u64> = (0..5).map(|at| rows.iter().map(|row| row[at]).sum()).collect();
            prop_assert_eq!(sums(5, width, &text), Some(expected));
        }

        #[test]
        fn a_row_is_accepted_exactly_if_each_field_is_a_number(row in "[ 0-9]{12}|[ -:]{12}") {
            let right = row.as_bytes().chunks(4).all(|field| {
                let text = std::str::from_utf8(field).unwrap();
                let number = text.trim_start_matches(' ');
                field[0] == b' ' && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
            });
            prop_assert_eq!(sums(3, 4, &[row.as_str()]).is_some(), right);
        }
    }
}
