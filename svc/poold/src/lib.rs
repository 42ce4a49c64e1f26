//! Resizes the processor sets of pools, so that processors are where they are needed.
//!
//! It runs in the foreground until it is asked to stop (SIGTERM, SIGINT); a service manager starts it as `Type=notify`, and may watch it
//! (`WatchdogSec=`). Pools must be enabled (`pooladm -e`). What is asked of it stands in the configuration: objectives, `pset.min`,
//! `pset.max`, `cpu.pinned`, `pool.importance`. It reads that anew in every turn, so that there is nothing to re-read; SIGHUP makes it
//! tell again what it found wrong with it.
//!
//! # Options
//!
//! ```text
//! -l level         log to the standard error, from that level on: ALERT CRIT ERR WARNING NOTICE INFO DEBUG. Without it the properties
//!                  system.poold.log-location (/var/log/pool/poold; a path, or syslog) and system.poold.log-level (INFO) say where and what
//! --policy NAME    millpond or solaris; without it the property system.poold.policy says which, and without that it is millpond
//! --interval MS    between two looks, in the place of the property system.poold.monitor-interval
//! --record         write every decision down, for millpond replay
//! --for MS         end after so long
//! --dry-run        decide, and move nothing
//! --machine NAME   a simulated machine, for which --state FILE keeps it
//! --root DIR       a captured machine: the directory that millpond capture made
//! --state-dir DIR  where it keeps its files, in the place of MILLPOND_STATE
//! ```
//!
//! The policy *millpond* looks once a second, and at once when threads wait for processors; it then measures for 50 ms and moves as many
//! processors as are wanted. The policy *solaris* is the daemon of that system, one processor after six intervals of 15 s.
//!
//! # Files
//!
//! ```text
//! poold.decisions   in the state directory: each decision that moves something, or whose reason is a new one, as a line of JSON;
//!                   poolstat --why shows the latest ones. Beyond 16 MiB it goes on in a new file, and the one before is poold.decisions.1
//! poold.memory      what the policy has learnt, for the next start
//! poold.lock        that it is the only one
//! ```
//!
//! It keeps nothing that matters: killed at any moment it is started again, and goes on from what the machine has. Only one runs at a
//! time.
//!
//! # Status
//!
//! 0 when it was asked to stop or its time was over, or 1 when it cannot begin, or 2 for what makes no sense.

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

/// Whether the words ask for the manual, which is for the program to show: it shows those of commands, too.
#[must_use]
pub fn asks_for_manual(words: &[OsString]) -> bool {
    options::parse(words) == Ok(options::Asked::Help)
}

/// Runs with the words after its name. Gives the exit status: 0 done, 1 failed, 2 misused.
#[must_use]
pub fn run(words: &[OsString], out: &mut Output<'_>, err: &mut Output<'_>) -> u8 {
    match options::parse(words) {
        Ok(options::Asked::Help) => {
            usage(out);
            0
        }
        Ok(options::Asked::Version) => {
            out.line(format_args!("poold {}", env!("CARGO_PKG_VERSION")));
            0
        }
        Ok(options::Asked::Run(options)) => service::run(&options, err),
        Err(error) => {
            err.line(format!("poold: {error}"));
            usage(err);
            2
        }
    }
}

fn usage(out: &mut Output<'_>) {
    for (form, head) in USAGE.iter().zip(["usage:", "      "]) {
        out.line(format_args!("{head} poold {form}"));
    }
}
