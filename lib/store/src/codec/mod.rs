//! Encoding of frames: each frame as the difference from a prediction by the frames before it.
//!
//! # Rules
//!
//! * A counter is predicted to continue at its last rate; every other value is predicted to stay. A correct prediction costs one byte, and almost
//!   nothing after compression.
//! * Times are stored in microseconds. For a counter of time, the difference from the prediction is rounded to a thousandth of the interval
//!   between the readings (1 ms for 1 s). A total is never off by more than half of that, independent of the number of frames, because each
//!   difference is relative to the value of the reader.
//! * All other numbers and texts are stored exactly. Rows keep their order.
//! * A table that was not read again since the previous frame is not stored again.
//!
//! ```text
//! frame   at (ns since the frame before), wall (s since), missing (0: as before; n + 1: n texts), tables
//! table   0: as before, 1: gone, 2: read again, followed by its reading
//! reading age (ns before `at`), rows: runs of kept, dropped and new ones, columns: a token for each row of the first field, of the second, ...
//! token   0: as predicted; 1: unknown; 2: a number of 8 bytes; 3: a new text; 4: an earlier text; 5 + zigzag: a difference
//!         of a column of histograms: 0: as before; 1: unknown; n + 2: additions in n buckets, then the growth of the sum (ns); after a
//!         reset the whole histogram, after 2^32
//! bucket  buckets since the one before (from 0), events
//! ```
//!
//! Numbers are varints: seven bits per byte, the lowest first.

mod decode;
mod encode;
mod limits;
mod numbers;
mod schema;
mod state;

pub use decode::{Decoder, Malformed};
pub use encode::Encoder;
pub(crate) use limits::{CREDIT, Meter, Spent};
pub(crate) use numbers::Bytes;
pub(crate) use schema::FORMAT;
pub use schema::Header;

/// Marks before a table.
mod mark {
    pub const AS_BEFORE: u64 = 0;
    pub const GONE: u64 = 1;
    pub const READ: u64 = 2;
}

/// Tokens for a value.
mod token {
    pub const FORETOLD: u64 = 0;
    pub const UNKNOWN: u64 = 1;
    pub const FLOAT: u64 = 2;
    pub const NEW_TEXT: u64 = 3;
    pub const TEXT: u64 = 4;
    pub const DIFFERENCE: u64 = 5;
}

/// Tokens for a histogram.
mod histogram_token {
    pub const AS_BEFORE: u64 = 0;
    pub const UNKNOWN: u64 = 1;
    pub const ADDED: u64 = 2;
    pub const WHOLE: u64 = 1 << 32;
}

#[cfg(test)]
mod tests;
