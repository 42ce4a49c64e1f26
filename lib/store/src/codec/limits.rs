//! Limits for the cost of reading, by the number of bytes read.
//!
//! Deflated bytes can grow by a factor of a thousand, and a decoded value takes fifty times its byte. So the work and the memory of a
//! reader are counted in values, and limited by the length of the block: a block that exceeds the limit is damaged or malicious. A writer
//! counts in the same way, and pads a block of very regular frames with zeros to the length that the limits require.

use super::Malformed;
use super::state::{Cell, Kept};

/// Decoded values per byte: a value takes some 20 ns, so a megabyte takes a second.
const WORK_PER_BYTE: u64 = 48;
/// Values in memory at a time, independent of the length of a block. A value is in a cell and in two frames, 24 bytes each: less than 10 MB.
const KEPT_BASE: u64 = 1 << 17;
/// One further value for this number of bytes.
const BYTES_PER_KEPT: u64 = 4;
/// Bytes of text that count as a value.
const TEXT_PER_KEPT: u64 = 24;
/// The cost of a frame without its values.
const FRAME_WORK: u64 = 64;
/// Blocks of earlier versions have no padding: a reader accepts this much further work for a whole recording.
pub const CREDIT: u64 = 2 << 20;
/// Values of a table that was not read again, for the cost of one decoded value.
const SHARED_PER_WORK: u64 = 16;
/// The largest valid time: 146 years.
pub const AT_MAX: u64 = 1 << 62;

/// The cost of encoding or decoding a block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Decoded values.
    pub work: u64,
    /// The largest number of values in memory at a time.
    pub kept: u64,
}

impl Spent {
    /// The difference to an earlier cost.
    pub fn since(self, before: Spent) -> Spent {
        let grown = self.kept.saturating_sub(before.kept.max(KEPT_BASE));
        Spent { work: self.work - before.work, kept: KEPT_BASE + grown }
    }

    /// The required length of a block with this number of inflated bytes.
    pub fn length(self, inflated: usize) -> usize {
        let work = self.work.max(inflated as u64).div_ceil(WORK_PER_BYTE);
        let kept = self.kept.saturating_sub(KEPT_BASE).saturating_mul(BYTES_PER_KEPT);
        usize::try_from(work.max(kept)).unwrap_or(usize::MAX)
    }
}

/// Counts the cost of a block, and refuses to exceed the limits.
#[derive(Debug, Clone, Copy)]
pub struct Meter {
    /// The cost so far.
    pub spent: Spent,
    kept: u64,
    work_max: u64,
    kept_max: u64,
}

impl Meter {
    /// For a reader: a block of this length, and the rest of [`CREDIT`].
    pub fn of_reader(length: u64, credit: u64) -> Meter {
        Meter {
            work_max: length.saturating_mul(WORK_PER_BYTE).saturating_add(credit),
            kept_max: (length / BYTES_PER_KEPT).saturating_add(KEPT_BASE),
            ..Meter::of_writer()
        }
    }

    /// For a writer; refuses nothing.
    pub fn of_writer() -> Meter {
        Meter { spent: Spent::default(), kept: 0, work_max: u64::MAX, kept_max: u64::MAX }
    }

    /// The rest of the credit after a block of this length.
    pub fn credit_left(&self, length: u64, credit: u64) -> u64 {
        credit.saturating_sub(self.spent.work.saturating_sub(length.saturating_mul(WORK_PER_BYTE)))
    }

    /// The largest inflated size of the block.
    pub fn inflated_max(&self) -> usize {
        usize::try_from(self.work_max).unwrap_or(usize::MAX)
    }

    /// Counts work.
    ///
    /// # Errors
    /// [`Malformed`] if it exceeds the limit.
    pub fn work(&mut self, values: u64) -> Result<(), Malformed> {
        self.spent.work = self.spent.work.saturating_add(values);
        if self.spent.work > self.work_max { Err(TOO_MUCH) } else { Ok(()) }
    }

    /// Counts `values` in memory that replace `before`.
    ///
    /// # Errors
    /// [`Malformed`] if they exceed the limit.
    pub fn keep(&mut self, values: u64, before: u64) -> Result<(), Malformed> {
        self.kept = self.kept.saturating_sub(before).saturating_add(values);
        self.spent.kept = self.spent.kept.max(self.kept);
        if self.kept > self.kept_max { Err(TOO_MUCH) } else { Ok(()) }
    }

    /// Counts values taken over from the previous frame, because consumers of frames process them again.
    ///
    /// # Errors
    /// [`Malformed`] if they exceed the limit.
    pub fn share(&mut self, values: u64) -> Result<(), Malformed> {
        self.work(values / SHARED_PER_WORK)
    }

    /// Counts a frame with its list of missing data.
    ///
    /// # Errors
    /// [`Malformed`] if it exceeds the limit.
    pub fn frame(&mut self, missing: &[String]) -> Result<(), Malformed> {
        self.work(FRAME_WORK + missing.iter().map(|text| 1 + text.len() as u64 / 16).sum::<u64>())
    }
}

/// The number of values that a text of this length counts for.
pub fn of_text(length: usize) -> u64 {
    1 + length as u64 / TEXT_PER_KEPT
}

/// The same for several texts.
pub fn of_texts(texts: &[String]) -> u64 {
    texts.iter().map(|text| of_text(text.len())).sum()
}

/// The same for the buckets of histograms.
pub fn of_histograms<'c>(cells: impl IntoIterator<Item = &'c Cell>) -> u64 {
    let of =
        |cell: &Cell| if let Kept::Histogram(kept) = &cell.kept { kept.buckets().len() as u64 } else { 0 };
    cells.into_iter().map(of).sum()
}

const TOO_MUCH: Malformed = Malformed("it has more values than its length allows");
