//! Which decisions are written down.

use millpond_planner::{Decision, Log};

/// Decides what is worth a line.
#[derive(Debug, Default)]
pub struct Record {
    all: bool,
    reason: String,
    pending: Option<Decision>,
    log: Log,
}

impl Record {
    /// Every decision, or only those that tell something.
    #[must_use]
    pub fn new(all: bool) -> Self {
        Record { all, ..Record::default() }
    }

    /// Takes a decision, and the outcome of the one before. Gives the line of that one, if it is to be written: it is only known now.
    pub fn take(&mut self, decision: Decision, outcome: Option<millpond_planner::Outcome>) -> Option<String> {
        let line = self.finish(outcome);
        let is_news = words_only(&decision.plan.reason) != self.reason;
        if self.all || is_news || !decision.plan.moves.is_empty() {
            self.reason = words_only(&decision.plan.reason);
            self.pending = Some(decision);
        }
        line
    }

    /// The line of the last decision.
    pub fn finish(&mut self, outcome: Option<millpond_planner::Outcome>) -> Option<String> {
        let mut last = self.pending.take()?;
        last.outcome = outcome;
        self.log.line(&last).ok().map(|line| line.trim_end().to_owned())
    }
}

/// A reason without its figures, which change all the time.
fn words_only(reason: &str) -> String {
    reason.chars().filter(|c| !c.is_ascii_digit() && *c != '.').collect()
}
