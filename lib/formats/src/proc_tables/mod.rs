//! Tables of `/proc` with a number for each CPU: `stat`, `interrupts`, `softirqs` and `schedstat`.
//!
//! A table for a thousand CPUs is a megabyte of text and is read repeatedly. It is therefore read in pieces of whole lines, which are
//! parsed while they are in the cache. Rows of right-aligned numbers are added digit by digit, without parsing the numbers (`digits`).
//! This crate is compiled for speed, so that branch-free loops such as these are vectorised.

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
