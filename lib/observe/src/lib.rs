//! From samples to figures: the arithmetic of the observers, and the catalogue of everything that they show.
//!
//! A [`Sample`] holds raw counters at an instant; a [`Rates`] holds rates and shares of an interval, made of
//! two samples, or of one for the time since boot. Commands draw rows from them. Nothing here reads a clock
//! or a machine, and nothing rounds: that is for the code that draws.
//!
//! # Rules
//!
//! * An event's rate is per second of the *CPU's own* time: what its states add up to between the two
//!   samples, stolen time included. A CPU whose clock did not tick (samples closer than a tick) falls
//!   back on the time between the samples, and that being nothing, on a second.
//! * Shares are percent of that time. They add up to 100 unless there was no time at all.
//! * Whatever goes back counts as nothing: rates and shares are never negative.
//! * A set's rates are the sums of its members' rates; its shares are those of its members' time taken
//!   together, so that they add up to 100 like those of a CPU. A column that one member lacks is lacking
//!   in the set: part of a sum is not a sum.
//! * Solaris takes the first member's time for the whole set. The figures differ from ours only where members'
//!   times differ, and there its shares may add up to more than 100.
//! * Stolen time does not exist on Solaris. [`Shares`] keep it; [`Shares::without_steal`] gives what a guest
//!   that knows nothing of its hypervisor would show: shares of the time that it had.
//!
//! Counts of hardware's events are another matter: [`between`] takes the difference of two readings, scaled where others had the counters meanwhile,
//! and [`Distribution`] shows how figures vary; a [`recording`] of them can be laid beside another machine's.
//! A verdict on a program is another matter still: [`diagnosis`], and [`waits`], which tells a contended mutex from other waits.
//! Rosters of threads are another matter (`census`): what each spent since the roster before, and recent use that decays.
//!
//! A [`Frame`] is everything that was seen at a moment, as tables of the fields of the [`catalogue`]; from two frames comes what happened between them.
//!
//! [`Sample`]: millpond_model::Sample

pub mod catalogue;
mod census;
mod change;
mod cpi;
pub mod diagnosis;
pub mod digits;

mod frame;
mod intervals;
pub mod latency;
mod quiet;
mod rates;
pub mod recording;
pub mod waits;

pub use census::{Follower, Picture, percents};
pub use change::{Change, Scope, changes};
pub use cpi::{Distribution, Interval as CountedInterval, between, cycles_per_instruction};
pub use frame::{Frame, Row, RowKey, Value};
pub use intervals::Intervals;
pub use quiet::{Broken, Limit, Quiet, QuietLine, Verdict};
pub use rates::{CpuRates, GroupRates, Interval, Rates, Shares};
