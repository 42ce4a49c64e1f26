//! poold: resizes the processor sets of pools, so that processors are where they are needed.
//!
//! ```text
//! poold [-l level] [--policy millpond|solaris] [--interval MS] [--record] [--for MS] [--dry-run]
//!       [--machine NAME] [--state FILE] [--root DIR] [--state-dir DIR]
//! ```
//!
//! It runs in the foreground until it is asked to stop (SIGTERM, SIGINT); a service manager starts it as `Type=notify`, and may watch it
//! (`WatchdogSec=`). Pools must be enabled (`pooladm -e`). What is asked of it stands in the configuration: objectives, `pset.min`,
//! `pset.max`, `cpu.pinned`, `pool.importance`. It reads that anew in every turn, so that there is nothing to re-read; SIGHUP makes it
//! tell again what it found wrong with it.
//!
//! `-l level` logs to the standard error, from that level on (ALERT CRIT ERR WARNING NOTICE INFO DEBUG); without it the properties
//! `system.poold.log-location` and `system.poold.log-level` say where and what.
//!
//! The policy *millpond* looks once a second (or every `system.poold.monitor-interval`), and at once when threads wait for processors; it
//! then measures for 50 ms and moves as many processors as are wanted. The policy *solaris* is the daemon of that system, one processor
//! after six intervals of 15 s.
//!
//! Each decision that moves something, or whose reason is a new one, is a line of JSON in the state directory (`poold.decisions`);
//! `--record` writes every one, for `millpond replay`. `poolstat --why` shows the latest ones. `--for MS` ends after so long;
//! `--dry-run` decides and moves nothing.
//!
//! It keeps nothing that matters: killed at any moment it is started again, and goes on from what the machine has. Only one runs at a
//! time.

mod clock;
mod journal;
mod log;
mod options;
mod service;

pub use options::USAGE;

use millpond_session::Output;
use std::ffi::OsString;

/// The manual: the head of this file.
pub const MANUAL: &str = include_str!("lib.rs");

/// What it does, in one line.
pub const SUMMARY: &str = "resize the processor sets of pools";

/// Runs with the words after its name. Gives the exit status: 0 done, 1 failed, 2 misused.
#[must_use]
pub fn run(words: &[OsString], out: &mut Output<'_>, err: &mut Output<'_>) -> u8 {
    match options::parse(words) {
        Ok(options::Asked::Help) => {
            USAGE.iter().for_each(|line| out.line(line));
            0
        }
        Ok(options::Asked::Run(options)) => service::run(&options, err),
        Err(error) => {
            err.line(format!("poold: {error}"));
            USAGE.iter().for_each(|line| err.line(line));
            2
        }
    }
}
