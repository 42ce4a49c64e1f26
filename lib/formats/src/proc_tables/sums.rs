//! Sums of rows of a table whose columns are CPUs.

use super::cursor::{Cursor, parse_u32};
use super::digits::DigitSums;
use millpond_model::CpuId;

/// Sums of some rows of a table whose columns are CPUs. The table is read in pieces.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ColumnSums {
    /// The CPUs, in the order of the heading.
    pub cpus: Vec<CpuId>,
    /// One sum per CPU, complete after `finish`.
    pub sums: Vec<u64>,
    /// The number of rows in the sums.
    pub rows: usize,
    /// Whether the heading has been read.
    started: bool,
    /// Digits that are not in the sums yet.
    digits: DigitSums,
}

impl ColumnSums {
    /// Reads the heading (`CPU0 CPU1 CPU3 …`) unless it has been read. Returns whether this line was the heading.
    pub(super) fn start(&mut self, cursor: &mut Cursor<'_>) -> bool {
        if self.started {
            return false;
        }
        while let Some(word) = cursor.word() {
            let number = word.strip_prefix(b"CPU").and_then(parse_u32);
            self.cpus.extend(number.map(CpuId));
        }
        cursor.rest_of_line();
        self.started = true;
        self.sums.resize(self.cpus.len(), 0);
        true
    }

    /// Uses the heading of another table.
    pub(super) fn start_like(&mut self, other: &ColumnSums) {
        self.started = true;
        self.cpus.clone_from(&other.cpus);
        self.sums.resize(self.cpus.len(), 0);
    }

    /// Clears the table.
    pub fn forget(&mut self) {
        self.started = false;
        self.cpus.clear();
        self.sums.clear();
        self.rows = 0;
        self.digits.lay_out(0, 0);
    }

    /// Adds a row: one number per CPU. A row with fewer numbers does not belong to CPUs and is skipped.
    pub(super) fn add_row(&mut self, cursor: &mut Cursor<'_>) {
        if self.add_aligned(cursor) || (self.lay_out_as(*cursor) && self.add_aligned(cursor)) {
            return;
        }
        let start = *cursor;
        for (index, sum) in self.sums.iter_mut().enumerate() {
            let Some(value) = cursor.number() else {
                self.take_back(start, index);
                return;
            };
            *sum = sum.wrapping_add(value);
        }
        self.rows += 1;
    }

    /// Adds a row with numbers at the expected positions; `false`, with nothing added, for any other row.
    fn add_aligned(&mut self, cursor: &mut Cursor<'_>) -> bool {
        let Some(row) = cursor.peek_numbers(self.digits.row_bytes()) else { return false };
        if !self.digits.add(row) {
            return false;
        }
        cursor.skip(row.len());
        self.rows += 1;
        if self.digits.is_full() {
            self.digits.drain_into(&mut self.sums);
        }
        true
    }

    /// Expects rows like the one at the cursor; its first number determines the width of fields. `false` if this layout is already
    /// expected.
    fn lay_out_as(&mut self, mut cursor: Cursor<'_>) -> bool {
        let begin = cursor.place();
        let bytes = cursor.number().map_or(0, |_| (cursor.place() - begin) * self.sums.len());
        if bytes == 0 || bytes == self.digits.row_bytes() {
            return false;
        }
        self.digits.drain_into(&mut self.sums);
        self.digits.lay_out(self.sums.len(), bytes / self.sums.len());
        true
    }

    /// Ends the table.
    pub fn finish(&mut self) {
        self.digits.drain_into(&mut self.sums);
    }

    fn take_back(&mut self, mut cursor: Cursor<'_>, count: usize) {
        for sum in &mut self.sums[..count] {
            *sum = sum.wrapping_sub(cursor.number().unwrap_or(0));
        }
    }

    /// The sum of a CPU. `hint` is its likely index: tables are walked in order.
    pub fn of(&self, cpu: CpuId, hint: usize) -> Option<u64> {
        if self.rows == 0 {
            return None;
        }
        let index = match self.cpus.get(hint) {
            Some(there) if *there == cpu => hint,
            _ => self.cpus.iter().position(|c| *c == cpu)?,
        };
        self.sums.get(index).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sums_are_the_sums_of_full_rows_whatever_the_widths(
            cpus in proptest::collection::btree_set(0u32..5000, 1..20),
            rows in proptest::collection::vec((proptest::collection::vec(0u64..1 << 32, 20), 1usize..14), 0..8),
            short in 0usize..19,
        ) {
            let mut text = String::from("     ");
            for cpu in &cpus {
                text.push_str(&format!("CPU{cpu}       "));
            }
            text.push('\n');
            let mut expected = vec![0u64; cpus.len()];
            for (row, width) in &rows {
                text.push_str(" X:");
                for (value, sum) in row.iter().zip(&mut expected) {
                    text.push_str(&format!(" {value:width$}"));
                    *sum += value;
                }
                text.push_str("  GIC 5-edge name 12\n");
            }
            text.push_str("ERR:");
            let short = short.min(cpus.len() - 1);
            text.push_str(&" 9".repeat(short));
            text.push('\n');

            let mut sums = ColumnSums::default();
            let mut cursor = Cursor::new(text.as_bytes());
            sums.start(&mut cursor);
            while !cursor.at_end() {
                if cursor.label().is_some() {
                    sums.add_row(&mut cursor);
                }
                cursor.rest_of_line();
            }
            sums.finish();
            prop_assert!(sums.cpus.iter().map(|c| c.0).eq(cpus.iter().copied()));
            prop_assert_eq!(&sums.sums, &expected);
            prop_assert_eq!(sums.rows, rows.len());
        }
    }
}
