//! Loads that show the effects of sharing and separating CPUs on real programs.
//!
//! # Theory
//!
//! Whether CPUs should be shared depends on the programs. This crate has seven loads, most of which were used in published
//! measurements. Each is a *function* that a command, an experiment or a test calls:
//!
//! | load | sensitive to | reports |
//! |---|---|---|
//! | [`cg`] | preempted threads, because its other threads spin for them | Mop/s, and whether the result is correct |
//! | [`hackbench`] | the cost of wake-ups and switches among hundreds of tasks | seconds from the wake to the last exit |
//! | [`stream`] | interrupts, and the CPUs that take them | GBytes and Mbits/sec in each direction |
//! | [`service`] | latency: a CPU that is busy when a request arrives | response times, p50, p99 and p99.9 |
//! | [`build`] | the cost of short-lived processes, and of files | files per second |
//! | [`spin`] | only the lack of CPU time | iterations and CPU seconds per thread |
//! | [`stacks`] | page faults of first touches | pages in memory of each kind of stack |
//!
//! All loads have the same form. A `…Spec` has the parameters. `run(&spec, &stop, &mut on_event)` runs the load in the calling thread
//! (which is one of the workers of `cg`) and returns a `…Result` of plain data; during the run it calls `on_event`.
//! Setting the [`AtomicBool`](std::sync::atomic::AtomicBool) `stop` ends it early and is not an error: the result shows it. The texts
//! of a load (a header, a report) are computed by pure functions of its parameters and result, so that the caller decides where they
//! go. [`stacks`] has no parameters and ends at once: `run()`.
//!
//! # Guarantees
//!
//! * Nothing is printed, and no change of the process outlives a call: threads are joined, children are reaped, a raised limit of
//!   open files and a changed scheduling class are restored, network namespaces are removed. This also holds for errors and for a
//!   panic in the caller's `on_event`.
//! * A load runs where the process may run. No load sets an affinity, because its purpose is to be moved. A [`probe`] binds its own
//!   threads.
//! * Times are of the monotonic clock, over exactly the part that the load's description names.
//!
//! # Command lines
//!
//! [`options`] defines the spellings of each load's options, for real loads and for those of simulated machines.
//!
//! # Probes
//!
//! [`probe`] is not a load: it measures the cost of a switch, a message, a wake-up and a cache line on this machine, for a twin.
//!
//! # Limits
//!
//! It does not simulate (the simulator has its own programs), it does not choose CPUs, and it does not compare its figures with
//! published ones: experiments do that.

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
