//! Experiments: real programs on a machine, compared with published figures.
//!
//! # Theory
//!
//! An experiment has a claim, arms that differ in one condition, and figures that can be compared with others. Each has a folder
//! with its changes of the machine, its measurements, the published figures as data, and a report. Commands of the same
//! names run them, and only choose the destination of the report.
//!
//! | experiment | claim |
//! |---|---|
//! | [`demo`] | two programs that spin for each other are several times faster separated than mixed, and caps do not help |
//! | [`e1`] | CPUs of a set without interrupts are idle, and the network's CPU is elsewhere |
//! | [`e2`] | two jobs that spin lose most of their speed by sharing two CPUs, and caps do not help |
//! | [`e3`] | the speed of a job that spins follows the size of its set |
//! | [`e7`] | a stack is not in memory until each of its pages was touched |
//! | [`service`] | a set protects a service from a batch job; the report says where sharing is better |
//! | [`inversion`] | a lock with priority inheritance bounds the wait, a plain one does not |
//! | [`twin`] | a simulated machine with a real machine's numbers predicts programs there |
//! | [`alternating`] | resized pools do at least as much work as the best split, and more where demand is uneven |
//!
//! The demo, [`e1`] and [`e7`] run programs on real machines; the others run on simulated ones, with the framework of [`published`]; some on both.
//!
//! # Guarantees
//!
//! * An experiment starts its own programs and touches no others: sets are created with *keep others*, and caps and bindings are
//!   only for its own processes.
//! * All changes are undone when it returns, for any reason, and its programs have ended. A program ends with its standard
//!   input, so that even a killed experiment leaves none behind.
//! * A flag requests a stop. The experiment checks it at least once a second, and returns [`Failure::Stopped`].
//! * An impossible part is reported in a sentence and left out; it is never replaced by invented figures.
//!
//! # Limits
//!
//! It knows no kernel and no kind of machine, opens no file, and prints nothing: progress goes to a callback.

pub mod alternating;
mod catalogue;
pub mod demo;
pub mod e1;
pub mod e2;
pub mod e3;
pub mod e4;
pub mod e5;
pub mod e6;
pub mod e7;
mod failure;
mod ground;
mod here;
pub mod inversion;
mod keeper;
mod pools;
mod program;
pub mod published;
mod remains;
pub mod service;
mod sets;
mod timeline;
pub mod twin;

pub use catalogue::{EXPERIMENTS, OWN, named};
pub use failure::Failure;
pub use ground::Facts;
pub use here::{Here, RunHere};
pub use sets::MadeSet;
pub use timeline::Sizes;
