//! Named workloads, which a shell, a script or `psrset -e` starts on a simulated machine.
//!
//! # Nouns
//!
//! A [`Workload`] has a name, options with units, and a function that makes its programs, one for each thread. A
//! [`Load`] is a workload with parsed options, ready to start.
//!
//! # Adding a workload
//!
//! Add a file with a `WORKLOAD`, and a line in [`WORKLOADS`]. Usage and help are generated from its options.
//!
//! # Real programs
//!
//! A workload that models a program accepts the program's options in all spellings of [`millpond_workloads::options`]. The same
//! command line works on both. Options that the workload does not model have no effect; [`Load::notes`] lists them.

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
pub(crate) mod tests;
mod tpce;

use options::THREADS;
pub use options::{Constant, Opt, Source, Unit, Values, Workload};

use crate::kernel::{Kernel, Program};
use millpond_model::{Nanos, WorkloadError};
use millpond_workloads::options::{self as spelled, Placed};
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

/// A workload that is ready to start.
#[derive(Debug, Clone)]
pub struct Load {
    /// The workload.
    pub workload: &'static Workload,
    /// Its process's name: the last component of the typed word (`cg.S.x`).
    pub name: String,
    /// Run time, if limited.
    pub duration: Option<Nanos>,
    /// Options without effect, in words.
    pub notes: Vec<String>,
    values: Values,
}

impl Workload {
    /// The workload with this name, or the one that models the program with this name. Only the part after the last slash counts
    /// (`./spin`, `bin/cg.S.x`).
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Workload> {
        let last = name.rsplit('/').next().unwrap_or(name);
        let load = |name| spelled::Program::named(name).map(|(program, _)| program.load);
        let stands_for = |w: &&Workload| load(last).is_some_and(|wanted| load(w.name) == Some(wanted));
        WORKLOADS.iter().find(|w| w.name == last).or_else(|| WORKLOADS.iter().find(stands_for))
    }

    /// The other spellings of an option.
    fn other_flags(&self, option: &Opt) -> Vec<String> {
        let program = spelled::Program::named(self.name).map(|(program, _)| program);
        let same = program
            .and_then(|p| p.options.iter().find(|o| !option.flag.is_empty() && o.has_flag(option.flag)));
        let all = same
            .into_iter()
            .flat_map(|o| std::iter::once(format!("--{}", o.name)).chain(o.flags().map(str::to_owned)));
        all.filter(|flag| flag != option.flag).collect()
    }

    /// Its synopsis: `spin [-t N] [--for MS]`.
    #[must_use]
    pub fn usage(&self) -> String {
        let forms = self.options.iter().map(|option| format!(" [{}]", option.form()));
        std::iter::once(self.name.to_owned()).chain(forms).collect()
    }

    /// Its synopsis, description, and a line for each option.
    #[must_use]
    pub fn help(&self) -> String {
        let mut text = format!("{}\n{}\n", self.usage(), self.summary);
        for option in self.options {
            let others = self.other_flags(option);
            let also =
                if others.is_empty() { String::new() } else { format!(" (also {})", others.join(", ")) };
            let _ = writeln!(text, "    {:<12} {}{also}", option.form(), option.summary);
        }
        text
    }
}

impl Load {
    /// Parses a workload's name and options.
    ///
    /// # Errors
    /// [`WorkloadError`] with the word, for a name that does not exist and for invalid options.
    pub fn parse(words: &[String]) -> Result<Load, WorkloadError> {
        let names = || WORKLOADS.iter().map(|w| w.name).collect::<Vec<_>>().join(", ");
        let refuse = |what| WorkloadError { word: 0, what, remedy: format!("there are {}", names()) };
        let (name, rest) = words.split_first().ok_or_else(|| refuse("no workload is named".to_owned()))?;
        let workload =
            Workload::named(name).ok_or_else(|| refuse(format!("there is no workload `{name}`")))?;
        let last = name.rsplit('/').next().unwrap_or(name).to_owned();
        let others = |flag: &str| workload.options.iter().any(|o| o.flag == flag && o.takes_value());
        let (program, words) = match spelled::Program::named(name) {
            Some((program, inside)) => {
                let typed = program.canonical(rest, &others).into_iter().map(|(word, at)| (word, at + 1));
                (Some(program), inside.into_iter().map(|word| (word, 0)).chain(typed).collect())
            }
            None => (None, rest.iter().cloned().zip(1..).collect()),
        };
        let (words, duration) = duration(program, words)?;
        let mut notes = Vec::new();
        let values = Values::parse(workload, program, &words, &mut notes)?;
        Ok(Load { workload, name: last, duration, notes, values })
    }

    /// The programs of its threads, for this kernel. `cpus` is the number of CPUs that it may use.
    pub fn programs(&self, kernel: &mut Kernel, cpus: u64) -> Vec<Program> {
        (self.workload.programs)(&self.values.clone().or(THREADS.flag, cpus), kernel)
    }
}

/// Takes `--seconds T` out of the words, where the program has it. It means the same for all programs.
fn duration(
    program: Option<&spelled::Program>,
    words: Vec<Placed>,
) -> Result<(Vec<Placed>, Option<Nanos>), WorkloadError> {
    if program.is_none_or(|program| program.option("seconds").is_none()) {
        return Ok((words, None));
    }
    let (mut others, mut found) = (Vec::new(), None);
    let mut words = words.into_iter();
    while let Some((word, at)) = words.next() {
        if word != "--seconds" {
            others.push((word, at));
            continue;
        }
        let remedy = "a number of seconds, up to a day: 60, 0.5".to_owned();
        let Some((text, at)) = words.next() else {
            return Err(WorkloadError { word: at + 1, what: "a time to run for is missing".into(), remedy });
        };
        let Some(nanos) = options::seconds(&text) else {
            return Err(WorkloadError { word: at, what: format!("`{text}` is no time to run for"), remedy });
        };
        found = Some(Nanos(nanos));
    }
    Ok((others, found))
}
