//! The result of a goal: the measured figures, the peer's, and whether the goal is met.

use crate::stats::{Estimate, estimate, median_of, ratios};
use serde::Serialize;
use serde_json::{Value, json};

/// A goal.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// The ratio of ours to the peer's is at most this.
    RatioAtMost(f64),
    /// It is at least this.
    RatioAtLeast(f64),
    /// Our figure itself is at most this, independent of the peer.
    OursAtMost(f64),
    /// Our figure itself is at least this.
    OursAtLeast(f64),
    /// No goal: the figure is only reported.
    None,
}

/// Whether the goal is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The whole interval meets the goal.
    Met,
    /// The whole interval misses it.
    Missed,
    /// Unresolved: the interval contains the limit, or the measurement failed.
    Unresolvable,
    /// There is no goal.
    Told,
}

/// Paired measurements of one quantity.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pairs {
    /// Our figures, in order.
    pub ours: Vec<f64>,
    /// The peer's figures, each measured next to ours.
    pub peer: Vec<f64>,
}

impl Pairs {
    /// Adds a pair.
    pub fn push(&mut self, ours: f64, peer: f64) {
        self.ours.push(ours);
        self.peer.push(peer);
    }
}

/// The result of one goal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// The measured quantity.
    pub name: String,
    /// The peer's name.
    pub peer_name: String,
    /// The unit of both.
    pub unit: &'static str,
    /// Our median.
    pub ours: Option<f64>,
    /// The peer's median.
    pub peer: Option<f64>,
    /// Median of the ratios within pairs, with its interval.
    pub ratio: Option<Estimate>,
    /// The goal.
    pub goal: Goal,
    /// The verdict.
    pub verdict: Verdict,
    /// Number of pairs.
    pub pairs: usize,
    /// Why it is unresolved, or a remark.
    pub note: String,
    /// Interval of our figure itself, for a goal on it.
    pub ours_interval: Option<Estimate>,
}

impl Line {
    /// A line from pairs.
    #[must_use]
    pub fn of(name: &str, peer_name: &str, unit: &'static str, pairs: &Pairs, goal: Goal) -> Line {
        let ratio = estimate(&ratios(&pairs.ours, &pairs.peer));
        let ours_interval = estimate(&pairs.ours);
        let verdict = judge(goal, ratio, ours_interval);
        let note = match (verdict, ratio) {
            (Verdict::Unresolvable, None) => "too few pairs for an interval",
            (Verdict::Unresolvable, Some(_)) => "the interval lies on both sides of the goal",
            _ => "",
        };
        let some = |values: &[f64]| (!values.is_empty()).then(|| median_of(values));
        Line {
            name: name.into(),
            peer_name: peer_name.into(),
            unit,
            ours: some(&pairs.ours),
            peer: some(&pairs.peer),
            ratio,
            goal,
            verdict,
            pairs: pairs.ours.len().min(pairs.peer.len()),
            note: note.into(),
            ours_interval,
        }
    }

    /// A line from the pairs, or from the reason why the measurement failed.
    #[must_use]
    pub fn found(
        name: &str,
        peer_name: &str,
        unit: &'static str,
        pairs: Result<Pairs, impl Into<String>>,
        goal: Goal,
    ) -> Line {
        match pairs {
            Ok(pairs) => Line::of(name, peer_name, unit, &pairs, goal),
            Err(why) => Line::unresolvable(name, peer_name, goal, why),
        }
    }

    /// A line for a goal that cannot be measured here.
    #[must_use]
    pub fn unresolvable(name: &str, peer_name: &str, goal: Goal, why: impl Into<String>) -> Line {
        let empty = Line::of(name, peer_name, "", &Pairs::default(), goal);
        Line { verdict: Verdict::Unresolvable, note: why.into(), ..empty }
    }

    /// The same line with a remark.
    #[must_use]
    pub fn noting(mut self, note: impl Into<String>) -> Line {
        let note = note.into();
        self.note = if self.note.is_empty() { note } else { format!("{}; {note}", self.note) };
        self
    }

    /// The line as text.
    #[must_use]
    pub fn text(&self) -> String {
        let value = |v: Option<f64>| v.map_or("-".to_owned(), |v| format!("{} {}", figure(v), self.unit));
        let ratio = self.ratio.map_or("-".to_owned(), |r| format!("{} x", figure(r.median)));
        let (interval, sign) = match self.goal {
            Goal::OursAtMost(_) | Goal::OursAtLeast(_) => (self.ours_interval, self.unit),
            _ => (self.ratio, "x"),
        };
        let interval =
            interval.map_or("-".to_owned(), |i| format!("{}..{} {sign}", figure(i.low), figure(i.high)));
        let goal = match self.goal {
            Goal::RatioAtMost(g) => format!("<= {g} x"),
            Goal::RatioAtLeast(g) => format!(">= {g} x"),
            Goal::OursAtMost(g) => format!("<= {g} {}", self.unit),
            Goal::OursAtLeast(g) => format!(">= {g} {}", self.unit),
            Goal::None => "-".into(),
        };
        let verdict = match self.verdict {
            Verdict::Met => "met",
            Verdict::Missed => "MISSED",
            Verdict::Unresolvable => "unresolvable",
            Verdict::Told => "no goal",
        };
        let note = if self.note.is_empty() { String::new() } else { format!(" ({})", self.note) };
        format!(
            "{} | {} | {}: {} | {ratio} | {interval} | {} pairs | {goal} | {verdict}{note}",
            self.name,
            value(self.ours),
            self.peer_name,
            value(self.peer),
            self.pairs
        )
    }

    /// JSON output.
    #[must_use]
    pub fn json(&self) -> Value {
        json!(self)
    }
}

/// The heading of the text output.
pub const HEAD: &str = "name | ours | peer | ratio | 95 % interval | pairs | goal | result";

/// Three significant digits, without an exponent.
fn figure(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        v if v >= 0.1 => 3,
        _ => 4,
    };
    format!("{value:.digits$}")
}

fn judge(goal: Goal, ratio: Option<Estimate>, ours: Option<Estimate>) -> Verdict {
    let sides = |kept_at_low: bool, kept_at_high: bool| match (kept_at_low, kept_at_high) {
        (true, true) => Verdict::Met,
        (false, false) => Verdict::Missed,
        _ => Verdict::Unresolvable,
    };
    match (goal, ratio, ours) {
        (Goal::None, _, _) => Verdict::Told,
        (Goal::RatioAtMost(g), Some(r), _) => sides(r.low <= g, r.high <= g),
        (Goal::RatioAtLeast(g), Some(r), _) => sides(r.low >= g, r.high >= g),
        (Goal::OursAtMost(g), _, Some(o)) => sides(o.low <= g, o.high <= g),
        (Goal::OursAtLeast(g), _, Some(o)) => sides(o.low >= g, o.high >= g),
        _ => Verdict::Unresolvable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(ours: f64, peer: f64, spread: f64) -> Pairs {
        let mut pairs = Pairs::default();
        for step in -10..=10 {
            pairs.push(ours + spread * f64::from(step), peer);
        }
        pairs
    }

    fn verdict(ours: f64, spread: f64, goal: Goal) -> Verdict {
        Line::of("a", "b", "ms", &pairs(ours, 2.0, spread), goal).verdict
    }

    #[test]
    fn a_goal_is_met_missed_or_cannot_be_told() {
        assert_eq!(verdict(1.0, 0.01, Goal::RatioAtMost(1.5)), Verdict::Met);
        assert_eq!(verdict(4.0, 0.01, Goal::RatioAtMost(1.5)), Verdict::Missed);
        assert_eq!(verdict(3.0, 0.01, Goal::RatioAtMost(1.5)), Verdict::Unresolvable);
        assert_eq!(verdict(4.0, 0.01, Goal::RatioAtLeast(1.5)), Verdict::Met);
        assert_eq!(verdict(1.0, 0.01, Goal::RatioAtLeast(1.5)), Verdict::Missed);
        assert_eq!(verdict(4.0, 0.01, Goal::OursAtMost(5.0)), Verdict::Met);
        assert_eq!(verdict(6.0, 0.01, Goal::OursAtMost(5.0)), Verdict::Missed);
        assert_eq!(verdict(6.0, 0.01, Goal::OursAtLeast(5.0)), Verdict::Met);
        assert_eq!(verdict(4.0, 0.01, Goal::OursAtLeast(5.0)), Verdict::Missed);
        assert_eq!(verdict(6.0, 0.01, Goal::None), Verdict::Told);
    }

    #[test]
    fn a_line_tells_everything_and_a_missed_goal_is_loud() {
        let line = Line::of("x", "y", "ms", &pairs(4.0, 2.0, 0.0), Goal::RatioAtMost(1.5));
        let told = "x | 4.00 ms | y: 2.00 ms | 2.00 x | 2.00..2.00 x | 21 pairs | <= 1.5 x | MISSED";
        assert_eq!(line.text(), told);
        assert_eq!(line.noting("why").text(), format!("{told} (why)"));
    }

    #[test]
    fn what_cannot_be_measured_says_why() {
        let line = Line::unresolvable("x", "y", Goal::RatioAtMost(1.5), "there is no y");
        assert_eq!(line.text(), "x | - | y: - | - | - | 0 pairs | <= 1.5 x | unresolvable (there is no y)");
        assert_eq!(line.json()["verdict"], "unresolvable");
    }

    #[test]
    fn two_pairs_are_not_enough() {
        let mut few = Pairs::default();
        few.push(1.0, 1.0);
        few.push(1.0, 1.0);
        let line = Line::of("x", "y", "ms", &few, Goal::RatioAtMost(1.5));
        assert_eq!(
            (line.verdict, line.note.as_str()),
            (Verdict::Unresolvable, "too few pairs for an interval")
        );
    }

    proptest! {
        #[test]
        fn a_goal_that_is_met_stays_met_when_it_is_relaxed(
            values in proptest::collection::vec((0.1_f64..9.0, 0.1_f64..9.0), 6..30),
            goal in 0.1_f64..9.0,
            more in 0.0_f64..9.0,
        ) {
            let mut pairs = Pairs::default();
            values.iter().for_each(|(ours, peer)| pairs.push(*ours, *peer));
            let at = |g| Line::of("a", "b", "", &pairs, Goal::RatioAtMost(g)).verdict;
            if at(goal) == Verdict::Met {
                prop_assert_eq!(at(goal + more), Verdict::Met);
            }
        }
    }
}
