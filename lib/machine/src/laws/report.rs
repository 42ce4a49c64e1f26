//! The result of a run.

use super::bench::Tally;
use super::command::Command;
use super::law::{Law, Need};
use super::script::Violation;
use super::subject::Abilities;
use std::fmt;

/// The result of a run: the number of checks of each law, and the shortest script that broke one.
#[derive(Debug, Clone)]
pub struct Report {
    /// The seed, to repeat the run.
    pub seed: u64,
    /// Counts of actions and checks.
    pub tally: Tally,
    /// The failure, if any.
    pub failure: Option<Failure>,
    abilities: Abilities,
}

/// A broken law, or the reason why the run could not continue.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The shortest script found that breaks a law.
    pub script: Vec<Command>,
    /// The broken law, with time and description.
    pub violation: Option<Violation>,
    /// Whether it is reproducible.
    pub repeats: bool,
    /// The reason why the run could not continue.
    pub aborted: Option<String>,
}

impl Failure {
    pub(super) fn of(script: Vec<Command>, violation: Violation) -> Self {
        Failure { script, violation: Some(violation), repeats: true, aborted: None }
    }

    pub(super) fn once(script: Vec<Command>, violation: Violation) -> Self {
        Failure { repeats: false, ..Failure::of(script, violation) }
    }

    pub(super) fn aborted(why: String) -> Self {
        Failure { script: Vec::new(), violation: None, repeats: false, aborted: Some(why) }
    }
}

impl Report {
    pub(super) fn new(seed: u64, tally: Tally, abilities: &Abilities, failure: Option<Failure>) -> Self {
        Report { seed, tally, failure, abilities: abilities.clone() }
    }

    /// A report about scripts that were run one by one.
    #[must_use]
    pub fn of_tally(tally: Tally, abilities: &Abilities) -> Self {
        Report::new(0, tally, abilities, None)
    }

    /// Whether no law was broken.
    #[must_use]
    pub fn kept(&self) -> bool {
        self.failure.is_none()
    }

    /// The broken laws, the most significant first.
    #[must_use]
    pub fn broken(&self) -> Vec<Law> {
        let violation = self.failure.as_ref().and_then(|f| f.violation.as_ref());
        violation.map(|v| v.broken.iter().map(|(law, _)| *law).collect()).unwrap_or_default()
    }

    /// The laws that were never checked, each with the reason.
    #[must_use]
    pub fn unchecked(&self) -> Vec<(Law, String)> {
        let reason = |law: Law| {
            let missing = law.needs().missing(&self.abilities).map(str::to_owned);
            missing.or_else(|| match law.needs() {
                Need::Counters => self.tally.no_counters.clone(),
                _ => None,
            })
        };
        Law::ALL
            .into_iter()
            .filter(|law| self.tally.asked(*law) == 0)
            .map(|law| (law, reason(law).unwrap_or_else(|| "the situation never arose".into())))
            .collect()
    }

    /// For tests: all laws were kept, and all except the named ones were checked.
    ///
    /// # Panics
    /// With the whole report, if a law was broken, or an unnamed law was not checked.
    pub fn expect_all_but(&self, except: &[Law]) {
        assert!(self.kept(), "\n{self}");
        let silent: Vec<Law> = self.unchecked().into_iter().map(|(law, _)| law).collect();
        let silent: Vec<&Law> = silent.iter().filter(|law| !except.contains(law)).collect();
        assert!(silent.is_empty(), "never asked: {silent:?}\n{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let t = &self.tally;
        writeln!(
            f,
            "laws: {} operations in {} scripts of {} commands (seed {}): {} changes made, {} refused, {} faults",
            t.operations(),
            t.scripts,
            t.commands,
            self.seed,
            t.made,
            t.refused.values().sum::<u64>(),
            t.faults
        )?;
        for (sort, count) in &t.done {
            writeln!(f, "  did     {count:>9} x  {sort}")?;
        }
        if t.born + t.ended > 0 {
            writeln!(f, "  {} processes were born of others, {} ended by themselves", t.born, t.ended)?;
        }
        for law in Law::ALL.into_iter().filter(|law| t.asked(*law) > 0) {
            writeln!(f, "  checked {:>9} x  {law}", t.asked(law))?;
        }
        for (law, why) in self.unchecked() {
            writeln!(f, "  not checked        {law}: {why}")?;
        }
        for (reason, count) in &t.refused {
            writeln!(f, "  refused {count:>9} x  {reason}")?;
        }
        match &self.failure {
            None => Ok(()),
            Some(failure) => write!(f, "{failure}"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = &self.aborted {
            return writeln!(f, "  the run could not go on: {why}");
        }
        let Some(violation) = &self.violation else { return Ok(()) };
        for (law, how) in &violation.broken {
            writeln!(f, "  BROKEN: {law}\n          {how}")?;
        }
        if let Some(how) = &violation.stuck {
            writeln!(f, "  the run could not go on: {how}")?;
        }
        if !self.repeats {
            writeln!(f, "  it did not happen again, so that the script could not be cut down")?;
        }
        writeln!(f, "  by this script:")?;
        for (line, n) in violation.trace.iter().zip(1..) {
            writeln!(f, "  {n:>3}. {line}")?;
        }
        writeln!(f, "  as code: run_script(&mut subject, &{:?})", self.script)
    }
}
