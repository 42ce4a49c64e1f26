//! The decoded state of a column, and its prediction.

use super::schema::Column;
use millpond_model::Histogram;
use std::sync::Arc;

/// A value in the state of a reader.
#[derive(Debug, Clone, PartialEq)]
pub enum Kept {
    Unknown,
    /// An integer, or microseconds.
    Whole(i64),
    /// The bits of a floating-point number.
    Float(u64),
    /// The number of a text.
    Text(u64),
    /// All events so far.
    Histogram(Arc<Histogram>),
}

/// One value of a row, with its last change.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    pub kept: Kept,
    /// The growth between the last two readings.
    slope: i64,
}

/// The times between readings, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pace {
    /// To the present reading.
    pub now: i64,
    /// To the previous one.
    pub before: i64,
}

impl Cell {
    pub const NEW: Cell = Cell { kept: Kept::Unknown, slope: 0 };

    /// The predicted next value.
    pub fn foretold(&self, column: &Column, pace: Pace) -> Kept {
        let Kept::Whole(value) = self.kept else { return self.kept.clone() };
        if !column.counts || pace.before == 0 || self.slope == 0 {
            return self.kept.clone();
        }
        let growth = i128::from(self.slope) * i128::from(pace.now) / i128::from(pace.before);
        Kept::Whole(clamped(i128::from(value) + growth))
    }

    /// Sets the next value.
    pub fn set(&mut self, kept: Kept) {
        self.slope = match (&self.kept, &kept) {
            (Kept::Whole(before), Kept::Whole(now)) => now.saturating_sub(*before),
            _ => 0,
        };
        self.kept = kept;
    }
}

/// The unit of differences from a predicted number.
pub fn step(column: &Column, pace: Pace) -> i64 {
    match column.time && column.counts {
        true => (pace.now / 1000).max(1),
        false => 1,
    }
}

/// The limit of predicted numbers: stored numbers are below 2^53, and a difference leaves room for its token.
const FORETOLD_MAX: i64 = 1 << 60;

fn clamped(number: i128) -> i64 {
    let largest = if number < 0 { -FORETOLD_MAX } else { FORETOLD_MAX };
    i64::try_from(number).unwrap_or(largest).clamp(-FORETOLD_MAX, FORETOLD_MAX)
}
