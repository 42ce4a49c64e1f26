//! The bench: counts the checks of each law, and keeps the violations.

use super::law::Law;
use std::collections::BTreeMap;

/// Counts of actions and checks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Completed scripts.
    pub scripts: u64,
    /// Commands, including those without effect.
    pub commands: u64,
    /// Random actions on the machine by kind: starts and ends of processes, programs, time, and attempted changes;
    /// each attempt is counted. Restoring the machine after a script is not.
    pub done: BTreeMap<&'static str, u64>,
    /// Processes that other processes started while time passed.
    pub born: u64,
    /// Processes that ended by themselves.
    pub ended: u64,
    /// Completed changes.
    pub made: u64,
    /// Refusals by reason.
    pub refused: BTreeMap<String, u64>,
    /// Injected faults that took effect.
    pub faults: u64,
    /// The reason why idle time could not be checked, if so.
    pub no_counters: Option<String>,
    asked: BTreeMap<Law, u64>,
}

impl Tally {
    /// The number of operations: the sum of `done`.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.done.values().sum()
    }

    /// Counts an operation.
    pub(super) fn did(&mut self, sort: &'static str) {
        *self.done.entry(sort).or_default() += 1;
    }

    /// The number of checks of a law.
    #[must_use]
    pub fn asked(&self, law: Law) -> u64 {
        self.asked.get(&law).copied().unwrap_or(0)
    }

    /// Adds another tally.
    pub fn add(&mut self, other: Tally) {
        self.scripts += other.scripts;
        self.commands += other.commands;
        self.made += other.made;
        self.born += other.born;
        self.ended += other.ended;
        other.done.into_iter().for_each(|(sort, n)| *self.done.entry(sort).or_default() += n);
        self.faults += other.faults;
        self.no_counters = other.no_counters.or(self.no_counters.take());
        other.refused.into_iter().for_each(|(k, n)| *self.refused.entry(k).or_default() += n);
        other.asked.into_iter().for_each(|(k, n)| *self.asked.entry(k).or_default() += n);
    }
}

/// A broken law, with a description.
pub type Broken = (Law, String);

/// Checks the laws.
#[derive(Debug, Default)]
pub struct Bench {
    /// The counts.
    pub tally: Tally,
    broken: BTreeMap<Law, String>,
}

impl Bench {
    /// One check. Of several violations of the same law, the first is kept.
    pub fn ask(&mut self, law: Law, kept: bool, how: impl FnOnce() -> String) {
        *self.tally.asked.entry(law).or_default() += 1;
        if !kept {
            self.broken.entry(law).or_insert_with(how);
        }
    }

    /// A check for equality of texts; `what` names the compared object.
    pub fn same(&mut self, law: Law, what: &str, wanted: &str, is: &str) {
        self.ask(law, wanted == is, || format!("{what}: {}", first_difference(wanted, is)));
    }

    /// The laws broken since the last verdict, the most significant first.
    pub fn verdict(&mut self) -> Result<(), Vec<Broken>> {
        let broken: Vec<Broken> = std::mem::take(&mut self.broken).into_iter().collect();
        if broken.is_empty() { Ok(()) } else { Err(broken) }
    }
}

/// Two texts from shortly before their first difference.
fn first_difference(wanted: &str, is: &str) -> String {
    const BEFORE: usize = 60;
    const SHOWN: usize = 160;
    let at = wanted.chars().zip(is.chars()).take_while(|(a, b)| a == b).count();
    let part = |text: &str| text.chars().skip(at.saturating_sub(BEFORE)).take(SHOWN).collect::<String>();
    format!("it was `…{}…`, and is `…{}…`", part(wanted), part(is))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_shown_where_it_begins() {
        let long = "a".repeat(100);
        let text = first_difference(&format!("{long}b"), &format!("{long}c"));
        assert!(text.contains("ab…`, and is"), "{text}");
        assert!(text.len() < 200, "{text}");
    }
}
