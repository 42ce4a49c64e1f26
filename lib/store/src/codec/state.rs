//! What a reader has of a column so far, and what it foretells.

use super::schema::Column;
use millpond_model::Histogram;
use std::sync::Arc;

/// A value as a reader has it.
#[derive(Debug, Clone, PartialEq)]
pub enum Kept {
    Unknown,
    /// A whole number, or microseconds.
    Whole(i64),
    /// The bits of any other number.
    Float(u64),
    /// The number of a text.
    Text(u64),
    /// All events so far.
    Histogram(Arc<Histogram>),
}

/// One value of a row: what it is, and how it went last.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    pub kept: Kept,
    /// By how much it grew between the last two readings.
    slope: i64,
}

/// The time between readings, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pace {
    /// To the reading that is written.
    pub now: i64,
    /// To the one before it.
    pub before: i64,
}

impl Cell {
    pub const NEW: Cell = Cell { kept: Kept::Unknown, slope: 0 };

    /// The value that comes next, if nothing changes.
    pub fn foretold(&self, column: &Column, pace: Pace) -> Kept {
        let Kept::Whole(value) = self.kept else { return self.kept.clone() };
        if !column.counts || pace.before == 0 || self.slope == 0 {
            return self.kept.clone();
        }
        let growth = i128::from(self.slope) * i128::from(pace.now) / i128::from(pace.before);
        Kept::Whole(clamped(i128::from(value) + growth))
    }

    /// The next value.
    pub fn set(&mut self, kept: Kept) {
        self.slope = match (&self.kept, &kept) {
            (Kept::Whole(before), Kept::Whole(now)) => now.saturating_sub(*before),
            _ => 0,
        };
        self.kept = kept;
    }
}

/// What a difference is counted in, where there is a foretold number.
pub fn step(column: &Column, pace: Pace) -> i64 {
    match column.time && column.counts {
        true => (pace.now / 1000).max(1),
        false => 1,
    }
}

/// So far from nothing numbers are foretold: what is written is below 2^53, and a difference leaves room for its token.
const FORETOLD_MAX: i64 = 1 << 60;

fn clamped(number: i128) -> i64 {
    let largest = if number < 0 { -FORETOLD_MAX } else { FORETOLD_MAX };
    i64::try_from(number).unwrap_or(largest).clamp(-FORETOLD_MAX, FORETOLD_MAX)
}
