//! Tables of `/proc` that have a number for each CPU: `stat`, `interrupts`, `softirqs` and `schedstat`.
//!
//! A table of a thousand CPUs is a megabyte of text, and an observer reads it again and again. So tables come in pieces of whole lines, which are
//! parsed while they are in the cache. Rows of right-aligned numbers are added digit by digit, and no number of them is parsed (`digits`).
//! This crate is compiled for speed: loops without branches, such as those here, are vectorised.

mod cursor;
mod digits;
mod find;
mod interrupts;
mod schedstat;
mod stat;
mod sums;

pub use find::find_last;
pub use interrupts::{InterruptCounts, take_softirqs};
pub use schedstat::{Field, SchedTable, ThreadTimes, parse_thread};
pub use stat::parse_stat;
pub use sums::ColumnSums;
