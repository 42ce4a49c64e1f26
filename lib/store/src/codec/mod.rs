//! Frames as bytes: each frame as what differs from what the frames before it foretell.
//!
//! # Rules
//!
//! * A counter is foretold to go on as it went between the last two readings, everything else to stay. What comes as foretold costs one byte, and next to
//!   nothing after compression.
//! * Times are kept in microseconds. Of a counter of time the difference from what was foretold is rounded to a thousandth of the interval between the
//!   readings (of 1 s: 1 ms): a total is never off by more than half of that, however many frames there were, for each difference starts from
//!   what a reader will have.
//! * Every other number and every text is kept exactly. Rows keep their order.
//! * A table that was not read anew since the frame before is not written again.
//!
//! ```text
//! frame   at (ns since the frame before), wall (s since), missing (0: as before; n + 1: n texts), tables
//! table   0: as before, 1: gone, 2: read anew, followed by its reading
//! reading age (ns before `at`), rows: runs of kept, dropped and new ones, columns: a token for each row of the first field, of the second, ...
//! token   0: as foretold; 1: unknown; 2: a number of 8 bytes; 3: a text that is new; 4: a text that was there; 5 + zigzag: a difference
//!         of a column of histograms: 0: as before; 1: unknown; n + 2: what was added in n buckets, then the growth of the sum (ns); of one that
//!         went back the whole, after 2^32
//! bucket  buckets since the one before (from 0), events
//! ```
//!
//! Numbers are varints: seven bits a byte, the lowest first.

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

/// What stands before a table.
mod mark {
    pub const AS_BEFORE: u64 = 0;
    pub const GONE: u64 = 1;
    pub const READ: u64 = 2;
}

/// What stands for a value.
mod token {
    pub const FORETOLD: u64 = 0;
    pub const UNKNOWN: u64 = 1;
    pub const FLOAT: u64 = 2;
    pub const NEW_TEXT: u64 = 3;
    pub const TEXT: u64 = 4;
    pub const DIFFERENCE: u64 = 5;
}

/// What stands for a histogram.
mod histogram_token {
    pub const AS_BEFORE: u64 = 0;
    pub const UNKNOWN: u64 = 1;
    pub const ADDED: u64 = 2;
    pub const WHOLE: u64 = 1 << 32;
}

#[cfg(test)]
mod tests;
