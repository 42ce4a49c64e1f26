//! Loads that show what sharing and separating CPUs does to real programs.
//!
//! # Theory
//!
//! Space sharing is an argument about programs, so it needs programs to argue with. This room holds seven, most chosen because
//! something published was measured with them, and each a *function* that a command, an experiment or a test calls:
//!
//! | load | what it suffers from | what it reports |
//! |---|---|---|
//! | [`cg`] | threads that wait for each other by spinning while the one they wait for has no CPU | Mop/s, and whether the answer is right |
//! | [`hackbench`] | the cost of wake-ups and switches among hundreds of tasks | seconds from the wake to the last exit |
//! | [`stream`] | interrupts, and the CPUs that take them | GBytes and Mbits/sec each way |
//! | [`service`] | being late: a CPU that is not there when a request comes | response times, p50, p99 and p99.9 |
//! | [`build`] | the cost of processes that come and go, and of files | files a second |
//! | [`spin`] | nothing but the want of CPU time | iterations and CPU seconds per thread |
//! | [`stacks`] | pages that come when they are touched | pages in memory of each kind of stack |
//!
//! They have the same shape. A `…Spec` says what to run; `run(&spec, &stop, &mut on_event)` runs it in the calling thread
//! (which is one of the workers of `cg`) and returns a `…Result` of plain data; while it runs it tells `on_event` what happens.
//! Setting the [`AtomicBool`](std::sync::atomic::AtomicBool) `stop` ends it early and is not an error: the result says so. The texts
//! that belong to a load (a header, a report) are made by pure functions of its specification and result, so that the
//! caller decides where they go. [`stacks`] has nothing to be told and is over at once: `run()`.
//!
//! # What callers may rely on
//!
//! * Nothing is printed, and no state of the process outlives a call: threads are joined, children are reaped, a raised limit of open
//!   files is lowered again, a scheduling class taken for the time of the run is given back, network namespaces are gone. That
//!   holds for errors and for a panic in the caller's `on_event` as well.
//! * A load runs where the process may run. None of them sets an affinity: being moved is what they are for. A [`probe`] binds threads of its
//!   own.
//! * Time is the monotonic clock, taken around what the load's description says and nothing else.
//!
//! # Command lines
//!
//! [`options`] says in which forms the options of each may be typed, for the real loads and for those of simulated machines.
//!
//! # Probes
//!
//! [`probe`] is no load: it measures what a switch, a message, a wake-up and a line of a cache take here, for a twin of the machine.
//!
//! # What it does not do
//!
//! It does not simulate (the simulator runs its own programs of phases), it does not choose CPUs, and it does not compare
//! its figures with published ones: that is what experiments are for.

pub mod build;
pub mod cg;
pub mod hackbench;
pub mod options;
pub mod probe;
pub mod service;
pub mod spin;
pub mod stacks;
pub mod stream;

mod clock;
mod cpus;
mod error;
mod text;

pub use cpus::allowed_cpus;
pub use error::Error;
