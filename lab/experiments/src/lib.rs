//! Experiments: real programs on a machine, and what was published of the same.
//!
//! # Theory
//!
//! An experiment has a claim, arms that differ in one thing, and numbers that can be compared with others'. Each
//! has a folder: what it does to the machine, what it measures, the published numbers as data, and a report. They are run by
//! commands of the same name, which only choose where the report goes.
//!
//! | experiment | claim |
//! |---|---|
//! | [`demo`] | two programs that spin for each other are worth several times more apart than mixed, and caps do not help |
//! | [`e1`] | CPUs that are sheltered from interrupts are still, and the network's CPU is elsewhere |
//! | [`e2`] | two jobs that spin lose most of their speed by sharing two CPUs, and caps do not help |
//! | [`e3`] | a job that spins is as fast as the set that it has, and follows it |
//! | [`e7`] | a stack is not in memory until each of its pages was touched |
//! | [`service`] | a set keeps a batch job away from a service, and where sharing does that better it is said |
//! | [`inversion`] | a lock with priority inheritance bounds what a plain one does not |
//! | [`twin`] | a simulated machine with a machine's numbers tells what programs do there |
//! | [`alternating`] | pools that are resized do no less than the best split, and more where demand is uneven |
//!
//! The demo, [`e1`] and [`e7`] run programs on real machines; the others are done on simulated ones, by the frame of [`published`]; some on both.
//!
//! # What callers may rely on
//!
//! * An experiment starts its own programs and touches no others: sets are made with *keep others*, caps and bindings are
//!   for processes that it started.
//! * Whatever it changed is put back when it returns, for whatever reason, and its programs are gone. A program of it ends
//!   with its standard input, so that even a killed experiment leaves none behind.
//! * It is asked to stop by a flag, looks at it at least once a second, and returns [`Failure::Stopped`].
//! * What cannot be done here is said in a sentence and left out; nothing is made up in its place.
//!
//! # What it does not do
//!
//! It knows no kernel and no kind of machine, opens no file, and prints nothing: what happens is told to a callback.

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
