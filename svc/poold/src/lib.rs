//! Resizes pools while the machine runs: moves CPUs between processor sets, to the sets whose threads wait for them.
//!
//! It runs in the foreground until SIGTERM or SIGINT. systemd starts it as `Type=notify`, and may watch it
//! (`WatchdogSec=`). Pools must be enabled (`pooladm -e`). Only one instance runs at a time. After `kill -9`, start it
//! again: it continues from the state of the machine.
//!
//! The pool configuration controls it: objectives, `pset.min`, `pset.max`, `cpu.pinned` and `pool.importance`
//! (`poolcfg`). It reads them in each cycle. SIGHUP makes it repeat its warnings about them.
//!
//! The policy *millpond* samples once a second, and at once when threads wait for CPUs. It then measures for 50 ms, and moves the necessary
//! number of CPUs. The policy *solaris* acts as poold of Solaris: one CPU after six intervals of 15 s.
//!
//! With the boolean property `system.poold.record` it also records its measurements, as `millpond record` does: one frame per measurement,
//! at most one a second, into the same directory. `poolcfg -c 'modify system s (boolean system.poold.record = true)'` sets it, and `pooladm
//! -c` applies it.

mod log;
mod options;
mod service;

pub use options::{Options, SPEC, parse};
pub use service::run;
