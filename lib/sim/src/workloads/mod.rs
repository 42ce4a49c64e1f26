//! Named workloads: what a shell, a script or `psrset -e` starts on a simulated machine.
//!
//! # Nouns
//!
//! A [`Workload`] has a name, options with units, and a function that makes its programs, one for each thread. A
//! [`Load`] is one with its options understood, ready to be started.
//!
//! # Adding one
//!
//! A file with a `WORKLOAD`, and a line in [`WORKLOADS`]. Its usage and help are made from its options.

mod batch;
mod build;
mod cg;
mod daemons;
mod fork;
mod hackbench;
pub mod iperf;
mod jbb;
pub mod latstat;
mod loops;
mod nap;
mod options;
mod pingpong;
mod service;
mod spin;
#[cfg(test)]
mod tests;
mod tpce;

pub use options::{Opt, Unit, Values};

use crate::kernel::{Kernel, Program};
use std::fmt::Write as _;

/// Every workload, by name.
pub const WORKLOADS: &[Workload] = &[
    loops::APP,
    batch::WORKLOAD,
    build::WORKLOAD,
    loops::BUSYLOOP,
    cg::WORKLOAD,
    daemons::WORKLOAD,
    fork::WORKLOAD,
    hackbench::WORKLOAD,
    iperf::WORKLOAD,
    jbb::WORKLOAD,
    latstat::WORKLOAD,
    nap::WORKLOAD,
    pingpong::WORKLOAD,
    loops::RANDMEM,
    service::WORKLOAD,
    spin::WORKLOAD,
    tpce::WORKLOAD,
];

/// Something that can be started.
#[derive(Debug, Clone, Copy)]
pub struct Workload {
    /// What it is called, and its process is.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Its options. One without a flag is an operand.
    pub options: &'static [Opt],
    /// Makes the programs of its threads.
    pub programs: fn(&Values, &mut Kernel) -> Vec<Program>,
}

/// A workload that is about to be started.
#[derive(Debug, Clone)]
pub struct Load {
    /// Which.
    pub workload: &'static Workload,
    values: Values,
}

/// Words that make no workload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct WorkloadError {
    /// Which word is wrong, from 0; one more than there are where one is missing.
    pub word: usize,
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub remedy: String,
}

impl Workload {
    /// The workload of that name. What stands before the last slash does not count (`./spin`).
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Workload> {
        let last = name.rsplit('/').next().unwrap_or(name);
        WORKLOADS.iter().find(|w| w.name == last)
    }

    /// Its form: `spin [-t N] [--for MS]`.
    #[must_use]
    pub fn usage(&self) -> String {
        let forms = self.options.iter().map(|option| format!(" [{}]", option.form()));
        std::iter::once(self.name.to_owned()).chain(forms).collect()
    }

    /// Its form, what it does, and a line for each option.
    #[must_use]
    pub fn help(&self) -> String {
        let mut text = format!("{}\n{}\n", self.usage(), self.summary);
        for option in self.options {
            let _ = writeln!(text, "    {:<12} {}", option.form(), option.summary);
        }
        text
    }
}

impl Load {
    /// Understands a workload's name and options.
    ///
    /// # Errors
    /// [`WorkloadError`] with the word, for a name that does not exist and for options that make no sense.
    pub fn parse(words: &[String]) -> Result<Load, WorkloadError> {
        let names = || WORKLOADS.iter().map(|w| w.name).collect::<Vec<_>>().join(", ");
        let refuse = |what| WorkloadError { word: 0, what, remedy: format!("there are {}", names()) };
        let (name, rest) = words.split_first().ok_or_else(|| refuse("no workload is named".to_owned()))?;
        let workload =
            Workload::named(name).ok_or_else(|| refuse(format!("there is no workload `{name}`")))?;
        let values = Values::parse(workload, rest)?;
        Ok(Load { workload, values })
    }

    /// The programs of its threads, for that kernel.
    pub fn programs(&self, kernel: &mut Kernel) -> Vec<Program> {
        (self.workload.programs)(&self.values, kernel)
    }
}
