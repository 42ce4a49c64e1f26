//! Resizes the processor sets of pools, so that processors are where they are needed.
//!
//! It runs in the foreground until it is asked to stop (SIGTERM, SIGINT); a service manager starts it as `Type=notify`, and may watch it
//! (`WatchdogSec=`). Pools must be enabled (`pooladm -e`). What is asked of it stands in the configuration: objectives, `pset.min`,
//! `pset.max`, `cpu.pinned`, `pool.importance`. It reads that anew in every turn, so that there is nothing to re-read; SIGHUP makes it
//! tell again what it found wrong with it.
//!
//! The policy *millpond* looks once a second, and at once when threads wait for processors; it then measures for 50 ms and moves as many
//! processors as are wanted. The policy *solaris* is the daemon of that system, one processor after six intervals of 15 s.
//!
//! It keeps nothing that matters: killed at any moment it is started again, and goes on from what the machine has. Only one runs at a
//! time.

mod log;
mod options;
mod service;

pub use options::SPEC;

use millpond_cli::help;
use millpond_session::Output;
use std::ffi::OsString;

/// Runs with the words after its name. Gives the exit status: 0 done, 1 failed, 2 misused.
#[must_use]
pub fn run(words: &[OsString], out: &mut Output<'_>, err: &mut Output<'_>) -> u8 {
    match options::parse(words) {
        Ok(options::Asked::Help) => {
            out.text(&help::short(&SPEC));
            0
        }
        Ok(options::Asked::Version) => {
            out.line(format_args!("poold {}", env!("CARGO_PKG_VERSION")));
            0
        }
        Ok(options::Asked::Run(options)) => service::run(&options, err),
        Err(misuse) => {
            err.line(format!("poold: {}", misuse.what));
            match misuse.meant {
                Some(meant) => err.line(format!("hint: did you mean {meant}?")),
                None => err.text(&help::usage(&SPEC)),
            }
            2
        }
    }
}
