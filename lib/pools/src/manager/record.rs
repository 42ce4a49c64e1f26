//! Selects the decisions that are written to the record.

use millpond_planner::{Decision, Log};

/// Decides which decisions are recorded.
#[derive(Debug, Default)]
pub struct Record {
    all: bool,
    reason: String,
    advice: String,
    pending: Option<Decision>,
    log: Log,
}

impl Record {
    /// Records every decision, or only those that differ from the previous one.
    #[must_use]
    pub fn new(all: bool) -> Self {
        Record { all, ..Record::default() }
    }

    /// Takes a decision, and the outcome of the previous one. Returns the line of the previous one, if it is to be recorded: only now is it
    /// complete.
    pub fn take(&mut self, decision: Decision, outcome: Option<millpond_planner::Outcome>) -> Option<String> {
        let line = self.finish(outcome);
        let advice = words_only(decision.advice.as_deref().unwrap_or_default());
        // The end of an advice is not recorded.
        let is_advised = !advice.is_empty() && advice != self.advice;
        let is_news = words_only(&decision.plan.reason) != self.reason || is_advised;
        if self.all || is_news || !decision.plan.moves.is_empty() {
            self.reason = words_only(&decision.plan.reason);
            if !advice.is_empty() {
                self.advice = advice;
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_planner::{Frame, Millpond, Policy};

    #[test]
    fn advice_is_written_down_when_it_is_new() {
        let quiet = Millpond::default().decide(&Frame::default());
        let decision = |advice: Option<&str>| Decision { advice: advice.map(str::to_owned), ..quiet.clone() };
        let mut record = Record::default();
        let mut lines = 0;
        for advice in [
            None,
            None,
            Some("it uses 2.0 of 4"),
            Some("it uses 2.1 of 4"),
            None,
            Some("it uses 2.2 of 4"),
            Some("share"),
        ] {
            lines += usize::from(record.take(decision(advice), None).is_some());
        }
        lines += usize::from(record.finish(None).is_some());
        // The first decision, the first advice, and the last decision.
        assert_eq!(lines, 3);
    }
}
