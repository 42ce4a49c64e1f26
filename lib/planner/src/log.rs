//! Decisions as lines of JSON, and back.
//!
//! A line holds one decision. The positions of CPUs are omitted if they equal those of the previous line: they are long and rarely change.

use crate::{Decision, Places};
use std::sync::Arc;

/// Writes the lines.
#[derive(Debug, Default)]
pub struct Log {
    places: Arc<Places>,
}

/// A line that is not a decision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {what}")]
pub struct LogError {
    /// From 1.
    pub line: usize,
    /// In bytes, from 1.
    pub column: usize,
    /// The error.
    pub what: String,
}

impl Log {
    /// One line with its newline.
    ///
    /// # Errors
    /// An error of `serde_json`; no decision of a policy causes one.
    pub fn line(&mut self, decision: &Decision) -> Result<String, serde_json::Error> {
        let places = &decision.frame.places;
        let mut line = if *places == self.places {
            let mut short = decision.clone();
            short.frame.places = Arc::default();
            serde_json::to_string(&short)?
        } else {
            self.places = Arc::clone(places);
            serde_json::to_string(decision)?
        };
        line.push('\n');
        Ok(line)
    }
}

/// Every decision of a log, and an error for each invalid line. Empty lines are ignored. A truncated last line is invalid.
#[must_use]
pub fn read_log(text: &str) -> (Vec<Decision>, Vec<LogError>) {
    let mut decisions: Vec<Decision> = Vec::new();
    let mut errors = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        if text.trim().is_empty() {
            continue;
        }
        match serde_json::from_str::<Decision>(text) {
            Ok(mut decision) => {
                if *decision.frame.places == Places::default()
                    && let Some(before) = decisions.last()
                {
                    decision.frame.places = Arc::clone(&before.frame.places);
                }
                decisions.push(decision);
            }
            Err(error) => {
                let said = error.to_string();
                let what = said.split_once(" at line ").map_or(said.as_str(), |(what, _)| what).to_owned();
                errors.push(LogError { line, column: error.column().max(1), what });
            }
        }
    }
    (decisions, errors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{frame, places, set};
    use crate::{Outlook, Plan};

    fn decision(places: &Arc<Places>) -> Decision {
        let mut frame = frame(vec![set(0, "0-3")]);
        frame.places = Arc::clone(places);
        Decision {
            policy: "test".into(),
            state: None,
            expected: Outlook::after(&frame, &[]),
            frame,
            plan: Plan::default(),
            score: 0.0,
            alternatives: Vec::new(),
            events: Vec::new(),
            advice: None,
            outcome: None,
        }
    }

    #[test]
    fn places_are_written_once_and_read_everywhere() {
        let (near, far) = (places(&["0-3"], &[]), places(&["0-1", "2-3"], &[]));
        let wrote: Vec<Decision> = [&near, &near, &far].into_iter().map(decision).collect();
        let mut log = Log::default();
        let lines: Vec<String> = wrote.iter().map(|decision| log.line(decision).unwrap()).collect();
        let with: Vec<bool> = lines.iter().map(|line| line.contains("lgroups")).collect();
        assert_eq!(with, [true, false, true]);
        assert_eq!(read_log(&lines.concat()), (wrote, Vec::new()));
    }

    #[test]
    fn a_damaged_line_is_told_with_its_place_and_the_others_are_read() {
        let line = Log::default().line(&decision(&Arc::default())).unwrap();
        let text = format!("{line}\nnonsense\n{line}{{\"policy\":");
        let (decisions, errors) = read_log(&text);
        assert_eq!(decisions.len(), 2);
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            ["line 3, column 2: expected ident", "line 5, column 10: EOF while parsing a value"]
        );
    }

    #[test]
    fn fuzz_a_log_is_read_or_told_line_by_line() {
        let line = Log::default().line(&decision(&places(&["0-1", "2-3"], &["0-1"]))).unwrap();
        let two = format!("{line}{line}");
        millpond_fuzz::check_text("planner-log", &[&line, &two, "", "{}", "[1]\n\nnull"], |text| {
            let (decisions, errors) = read_log(text);
            let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
            assert_eq!(decisions.len() + errors.len(), lines);
            for error in errors {
                assert!(error.line >= 1 && error.line <= text.lines().count());
                assert!(error.column >= 1);
            }
        });
    }
}
