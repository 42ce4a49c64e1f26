//! Sums of rows with right-aligned columns of numbers, digit by digit.
//!
//! The kernel prints its wide tables in fields of equal width, with a blank before each number. Digits of the same weight are then at the
//! same position in every row. A row is added by adding its bytes to one sum per position. No number is extracted or converted until the
//! sums of the positions are combined, once for some dozens of rows. The format of the row is checked in the same pass, so the result is
//! that of reading number by number, or the row is rejected.
//!
//! ```text
//!   row          ␣  1  2  3  ␣  ␣  ␣  9
//!   sum before   0  2  0  5  0  0  1  4
//!   sum after    0  3  2  8  0  0  1 13   ──▶  328, 23
//! ```

/// The number of rows whose digit sums fit into a byte: 28 * 9 = 252.
const ROWS_MAX: u8 = 28;
/// Wider fields are rejected, because a number might not fit into 64 bits.
const WIDTH_MAX: usize = 20;
/// The bit that digits have and blanks do not have.
const DIGIT: u8 = b'0' & !b' ';
/// The digit of a byte, 0 for a blank.
const LOW: u8 = 0x0f;

/// The sums by position.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct DigitSums {
    /// Bytes of a field; 0 if unknown.
    width: usize,
    /// [`DIGIT`] where a field begins, else 0.
    begins: Vec<u8>,
    /// A sum per position.
    places: Vec<u8>,
    /// The number of rows in the sums.
    rows: u8,
}

impl DigitSums {
    /// Expects rows of `fields` numbers of `width` bytes each, if such rows can be added here. Discards rows in the sums.
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

    /// The number of bytes of a row; 0 if unknown.
    pub(super) fn row_bytes(&self) -> usize {
        self.places.len()
    }

    /// Whether there is no room for another row.
    pub(super) fn is_full(&self) -> bool {
        self.rows == ROWS_MAX
    }

    /// Adds a row of [`DigitSums::row_bytes`], if there is room. `false`, with nothing added, if it does not
    /// consist of right-aligned numbers.
    pub(super) fn add(&mut self, row: &[u8]) -> bool {
        let len = self.places.len();
        if len == 0 || row.len() != len || self.is_full() {
            return false;
        }
        // Each byte is compared with the previous one. The first byte must be a blank.
        let (first, rest) = (row[0], &row[1..]);
        let right = first == b' '
            && row[len - 1].is_ascii_digit()
            && add_digits(rest, row, &self.begins[1..], &mut self.places[1..]);
        if right {
            self.rows += 1;
        }
        right
    }

    /// Adds the sums of the fields to `sums` and clears them.
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

/// Adds the digits of `row` to `places`; nothing if a byte is neither a digit nor a blank. `before` has the same bytes shifted by one
/// position. The loop has no branch and no index, so it is vectorised.
fn add_digits(row: &[u8], before: &[u8], begins: &[u8], places: &mut [u8]) -> bool {
    let (mut others, mut odd) = (0, 0);
    for (((byte, before), begin), place) in row.iter().zip(before).zip(begins).zip(&mut *places) {
        let is_right = (byte.wrapping_sub(b'0') <= 9) | (*byte == b' ');
        others |= u8::from(!is_right);
        // A blank follows a digit exactly where a field begins.
        odd |= (before & !byte) ^ begin;
        *place = place.wrapping_add(byte & LOW);
    }
    let right = others == 0 && odd & DIGIT == 0;
    if !right {
        for (place, byte) in places.iter_mut().zip(row) {
            *place = place.wrapping_sub(byte & LOW);
        }
    }
    right
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
