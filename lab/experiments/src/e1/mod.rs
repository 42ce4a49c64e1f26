//! E1: processor sets and interrupts, compared with the published experiment on a machine of 32 CPUs (2006).
//!
//! # Claim
//!
//! CPUs of a set that takes no interrupts are idle: no interrupts, no switches. A program that then runs inside the set has its
//! CPUs for itself, while the network's work is done outside. The price is a slower stream, because fewer CPUs do
//! the rest.
//!
//! # Phases
//!
//! A two-way stream runs three times, with `mpstat`:
//!
//! ```text
//!   1  all CPUs take interrupts, no set
//!   2  psrset -c with the first half of the CPUs, psrset -f: the stream runs outside
//!   3  psrset -e: the stream runs inside
//! ```
//!
//! Then all changes are undone, and the states of all CPUs are checked.
//!
//! # Shared and dedicated machines
//!
//! On a shared machine the interrupts stay where they are: the set evicts no thread, and the steps of `-f` are shown and not
//! executed. On a dedicated machine (a virtual one, or with `full`) the set is exclusive and interrupts are moved. The stream goes
//! over the loopback, or between two given network devices, each in a network namespace of its own. The far end of the stream was
//! another machine in the published experiment; here it is a separate program in the default set.
//!
//! # Comparison
//!
//! The network's CPU (most device work), the stream's CPU (most system calls), the set's CPUs and the others, each with the
//! published figures. Phase 3's throughput was not published; it is predicted. The published text asks why CPUs of a no-intr
//! set show interrupts in phase 3: here they are counted by name. And each device's interrupts are followed from phase to phase, on the set
//! and elsewhere. Sampling the stream's CPU adds about fifty interrupts a second there.

mod causes;
mod phases;
mod published;
mod report;
mod roles;
mod simulated;

pub use causes::Cause;
pub use published::{Figures, Published, Range, Row};
pub use report::{Afterwards, E1, Judged, Phase};
pub use simulated::EXPERIMENT;

use crate::Failure;
use crate::ground::{self, Facts};
use crate::remains;
use millpond_machine::Absent;
use millpond_model::CpuId;
use millpond_session::{Kind, Session};
use phases::Lab;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Options of the experiment.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// The program with the command `load stream`: this one.
    pub program: &'a Path,
    /// Set to request a stop.
    pub stop: &'a AtomicBool,
    /// Seconds of measurement per phase.
    pub seconds: u64,
    /// The near and the far network device; `None` for the loopback.
    pub nics: Option<[&'a str; 2]>,
    /// Whether the machine is dedicated to the experiment.
    pub full: bool,
}

/// Progress of the experiment.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// The facts about the machine are known; these CPUs will be in the set.
    Machine(&'a Facts, &'a str),
    /// A phase begins; its description.
    Begin(&'a str),
    /// A phase is finished; its number, from 0.
    Done(usize, &'a Phase),
    /// A message of the machine about a change.
    Note(&'a str),
}

/// Runs the three phases.
///
/// # Errors
/// [`Failure`]; all changes are undone.
pub fn run(session: &Session, options: &Options<'_>, tell: &mut dyn FnMut(Event<'_>)) -> Result<E1, Failure> {
    if session.kind() != Kind::Real {
        let why = format!("machine {} runs no programs of ours", session.machine().name());
        return Err(Failure::NotHere(Absent::because(why)));
    }
    remains::put_back(session, &mut |note| tell(Event::Note(note)))?;
    let (facts, free) = ground::read(session)?;
    let set = first_half(&free)?;
    Lab { session, options, set, tell }.run(facts)
}

/// The CPUs of the set: the first half by number, as published.
fn first_half(free: &[CpuId]) -> Result<Vec<CpuId>, Failure> {
    let mut cpus = free.to_vec();
    cpus.sort_unstable();
    cpus.truncate(free.len() / 2);
    if cpus.is_empty() {
        let why = format!("there is no half of this machine's CPUs: it may use {}", free.len());
        return Err(Failure::NotHere(Absent::with_help(why, "run it on a machine with two CPUs or more")));
    }
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_is_the_first_half_by_number() {
        let cpus = |numbers: &[u32]| numbers.iter().copied().map(CpuId).collect::<Vec<_>>();
        assert_eq!(first_half(&cpus(&[0, 2, 1, 3])).unwrap(), cpus(&[0, 1]));
        assert_eq!(first_half(&cpus(&[4, 1, 2])).unwrap(), cpus(&[1]));
        assert!(first_half(&cpus(&[0])).is_err());
    }
}
