//! E1: processor sets and interrupts, beside the published experiment on a machine of 32 CPUs (2006).
//!
//! # Claim
//!
//! Sheltering the CPUs of a set from interrupts leaves them still: no interrupt, no switch, all idle. A program that is
//! then run inside the set has its CPUs for itself, while the network's work is done outside. The price is a slower stream,
//! since fewer CPUs do the rest.
//!
//! # Phases
//!
//! A two-way stream runs, with `mpstat` beside it, three times:
//!
//! ```text
//!   1  all CPUs take interrupts, no set
//!   2  psrset -c with the first half of the CPUs, psrset -f: the stream runs outside
//!   3  psrset -e: the stream runs inside
//! ```
//!
//! Then everything is put back, and the states of all CPUs are looked at.
//!
//! # On whose machine
//!
//! A machine that is not the experiment's own keeps its interrupts: the set pushes no thread out, and the steps of `-f` are shown
//! and not taken. On one that is its own (a virtual one, or with `full`) the set is exclusive and interrupts are moved. The
//! stream goes over the loopback, or, given two network devices, between these, each in a namespace of its own. The far
//! end of the stream, which was another machine in the published experiment, is a program of its own in the default set.
//!
//! # What is compared
//!
//! The network's CPU (most work of devices), the stream's (most system calls), the set's and the others, each beside the
//! published figures. Phase 3's throughput was not published; it is predicted. The published text asks why CPUs of a no-intr
//! set show interrupts in phase 3: here they are counted by name. And devices are followed from phase to phase: where each interrupted,
//! on the set or elsewhere. Looking where the stream runs adds some fifty interrupts a second where it does.

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

/// How the experiment is run.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// The program that has `load stream`: ours.
    pub program: &'a Path,
    /// Set from outside when it should stop.
    pub stop: &'a AtomicBool,
    /// How long each phase is measured.
    pub seconds: u64,
    /// The near and the far network device; none for the loopback.
    pub nics: Option<[&'a str; 2]>,
    /// The machine is the experiment's own.
    pub full: bool,
}

/// What happens while it runs.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// The machine was looked at; these CPUs will be in the set.
    Machine(&'a Facts, &'a str),
    /// A phase begins; its sentence.
    Begin(&'a str),
    /// A phase is over; its number, counted from 0.
    Done(usize, &'a Phase),
    /// The machine said something about a change.
    Note(&'a str),
}

/// Runs the three phases.
///
/// # Errors
/// [`Failure`]; the machine is as it was.
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
