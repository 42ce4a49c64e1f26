//! How much reading may cost, by the number of bytes that are read.
//!
//! Deflated bytes grow a thousand times, and a decoded value takes fifty times its byte. So what a reader does and keeps is counted in values, and
//! bounded by the length of the block: other bytes are damaged, or were made to exhaust the reader. A writer counts the same, and makes a block of
//! very regular frames as long as the limits want, with zeros behind it.

use super::Malformed;
use super::state::{Cell, Kept};

/// Values that are decoded for each byte: a value takes some 20 ns, so that a megabyte takes a second.
const WORK_PER_BYTE: u64 = 48;
/// Values that are kept at a time, whatever the length of a block. A value is in a cell and in two frames, 24 bytes each: less than 10 MB.
const KEPT_BASE: u64 = 1 << 17;
/// One more of them for so many bytes.
const BYTES_PER_KEPT: u64 = 4;
/// So much of a text counts as a value.
const TEXT_PER_KEPT: u64 = 24;
/// What a frame costs, without its values.
const FRAME_WORK: u64 = 64;
/// Earlier versions wrote blocks as short as they could be: so much more a reader does for a recording in all.
pub const CREDIT: u64 = 2 << 20;
/// Values of a table that was not read anew, for the price of one that is decoded.
const SHARED_PER_WORK: u64 = 16;
/// No clock goes so far: 146 years.
pub const AT_MAX: u64 = 1 << 62;

/// What was done to write or to read a block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Values that were decoded.
    pub work: u64,
    /// The most values that were kept at a time.
    pub kept: u64,
}

impl Spent {
    /// What was added since.
    pub fn since(self, before: Spent) -> Spent {
        let grown = self.kept.saturating_sub(before.kept.max(KEPT_BASE));
        Spent { work: self.work - before.work, kept: KEPT_BASE + grown }
    }

    /// How long a block must be at least, of which so many bytes are inflated.
    pub fn length(self, inflated: usize) -> usize {
        let work = self.work.max(inflated as u64).div_ceil(WORK_PER_BYTE);
        let kept = self.kept.saturating_sub(KEPT_BASE).saturating_mul(BYTES_PER_KEPT);
        usize::try_from(work.max(kept)).unwrap_or(usize::MAX)
    }
}

/// Counts what is done for a block, and refuses what is too much.
#[derive(Debug, Clone, Copy)]
pub struct Meter {
    /// So far.
    pub spent: Spent,
    kept: u64,
    work_max: u64,
    kept_max: u64,
}

impl Meter {
    /// Of a reader: for a block of this length, and what is left of [`CREDIT`].
    pub fn of_reader(length: u64, credit: u64) -> Meter {
        Meter {
            work_max: length.saturating_mul(WORK_PER_BYTE).saturating_add(credit),
            kept_max: (length / BYTES_PER_KEPT).saturating_add(KEPT_BASE),
            ..Meter::of_writer()
        }
    }

    /// Of a writer, which refuses nothing.
    pub fn of_writer() -> Meter {
        Meter { spent: Spent::default(), kept: 0, work_max: u64::MAX, kept_max: u64::MAX }
    }

    /// What of the credit is left after a block of this length.
    pub fn credit_left(&self, length: u64, credit: u64) -> u64 {
        credit.saturating_sub(self.spent.work.saturating_sub(length.saturating_mul(WORK_PER_BYTE)))
    }

    /// The most bytes that the block may have when it is inflated.
    pub fn inflated_max(&self) -> usize {
        usize::try_from(self.work_max).unwrap_or(usize::MAX)
    }

    /// Does so much.
    ///
    /// # Errors
    /// [`Malformed`] where that is too much.
    pub fn work(&mut self, values: u64) -> Result<(), Malformed> {
        self.spent.work = self.spent.work.saturating_add(values);
        if self.spent.work > self.work_max { Err(TOO_MUCH) } else { Ok(()) }
    }

    /// Keeps `values` in the place of `before`.
    ///
    /// # Errors
    /// [`Malformed`] where that is too much.
    pub fn keep(&mut self, values: u64, before: u64) -> Result<(), Malformed> {
        self.kept = self.kept.saturating_sub(before).saturating_add(values);
        self.spent.kept = self.spent.kept.max(self.kept);
        if self.kept > self.kept_max { Err(TOO_MUCH) } else { Ok(()) }
    }

    /// Takes over so many values as they were: who reads frames looks at them again.
    ///
    /// # Errors
    /// [`Malformed`] where that is too much.
    pub fn share(&mut self, values: u64) -> Result<(), Malformed> {
        self.work(values / SHARED_PER_WORK)
    }

    /// A frame, with what is lacking in it.
    ///
    /// # Errors
    /// [`Malformed`] where that is too much.
    pub fn frame(&mut self, missing: &[String]) -> Result<(), Malformed> {
        self.work(FRAME_WORK + missing.iter().map(|text| 1 + text.len() as u64 / 16).sum::<u64>())
    }
}

/// As how many values a text of this length is kept.
pub fn of_text(length: usize) -> u64 {
    1 + length as u64 / TEXT_PER_KEPT
}

/// The same of several.
pub fn of_texts(texts: &[String]) -> u64 {
    texts.iter().map(|text| of_text(text.len())).sum()
}

/// The same of the buckets of histograms.
pub fn of_histograms<'c>(cells: impl IntoIterator<Item = &'c Cell>) -> u64 {
    let of =
        |cell: &Cell| if let Kept::Histogram(kept) = &cell.kept { kept.buckets().len() as u64 } else { 0 };
    cells.into_iter().map(of).sum()
}

const TOO_MUCH: Malformed = Malformed("it has more values than its length allows");
