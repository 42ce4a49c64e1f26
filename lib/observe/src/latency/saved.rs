//! Runs as text: what a run measured, to be gone on with later or merged with others.
//!
//! ```text
//! {"latstat":1,"runs":1,"elapsed_ns":…,"lost":0,
//!  "rows":{"irq":[[VALUE_NS,COUNT],…],"wake-up":[…],"on-cpu":[…],"user":[…],"total":[…]},
//!  "worst":[{"at_ns":…,"total_ns":…,"stages_ns":[…]|null,"culprits":[{"what":"…","ns":…},…]},…]}
//! ```
//!
//! A run of timerlat says `"source":"timerlat"` behind the version, and has its rows by its names: `thread` in place of `wake-up` and `on-cpu`. In
//! `stages_ns` null stands for the stage that is part of the next.

use super::{Latencies, Source, Worst};
use millpond_model::Nanos;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The only version there is.
const VERSION: u64 = 1;

/// Everything that one run, or several, measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Saved {
    /// Whose timers were waited for.
    pub source: Source,
    /// How many runs.
    pub runs: u64,
    /// How long they were together.
    pub elapsed: Nanos,
    /// The histograms.
    pub latencies: Latencies,
    /// The longest waits.
    pub worst: Vec<Worst>,
}

/// Why two runs are not one: their stages are not the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it was measured by {}, and the others by {}: their stages are not the same", of.name(), others.name())]
pub struct Mixed {
    /// Whose timers the run has.
    pub of: Source,
    /// And those before it.
    pub others: Source,
}

/// Why a text is no saved run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SavedError {
    /// It is not JSON of that shape.
    #[error("line {line}, column {column}: it is no run that latstat saved ({why})")]
    Shape {
        /// Where, from 1 on.
        line: usize,
        /// Where, from 1 on.
        column: usize,
        /// In the parser's words.
        why: String,
    },
    /// Another version wrote it.
    #[error("it has version {0} of the format, and only version 1 is known")]
    Version(u64),
    /// The rows do not belong together.
    #[error("row {row} has {has} samples, and the whole has {whole}")]
    Rows {
        /// Which.
        row: String,
        /// Its samples.
        has: u64,
        /// Samples of the whole.
        whole: u64,
    },
}

#[derive(Serialize, Deserialize)]
struct Text {
    latstat: u64,
    #[serde(default, skip_serializing_if = "is_ours")]
    source: Source,
    runs: u64,
    elapsed_ns: u64,
    lost: u64,
    rows: BTreeMap<String, Vec<(u64, u64)>>,
    worst: Vec<Worst>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks in this way")]
fn is_ours(source: &Source) -> bool {
    *source == Source::Latstat
}

impl Default for Saved {
    fn default() -> Self {
        Saved::of(Source::Latstat)
    }
}

impl Saved {
    /// Nothing yet, of these timers.
    #[must_use]
    pub fn of(source: Source) -> Saved {
        Saved { source, runs: 0, elapsed: Nanos(0), latencies: Latencies::default(), worst: Vec::new() }
    }

    /// Whether more of these timers can be added: to nothing at all everything can.
    ///
    /// # Errors
    /// [`Mixed`].
    pub fn takes(&self, of: Source) -> Result<(), Mixed> {
        let is_empty = self.runs == 0 && self.latencies.samples() == 0;
        if is_empty || self.source == of { Ok(()) } else { Err(Mixed { of, others: self.source }) }
    }

    /// Adds what other runs measured.
    ///
    /// # Errors
    /// [`Mixed`] when they were measured in another way; then nothing was added.
    pub fn merge(&mut self, other: &Saved) -> Result<(), Mixed> {
        self.takes(other.source)?;
        self.source = other.source;
        self.runs = self.runs.saturating_add(other.runs);
        self.elapsed = self.elapsed + other.elapsed;
        self.latencies.merge(&other.latencies);
        self.worst.extend(other.worst.iter().cloned());
        Worst::keep(&mut self.worst);
        Ok(())
    }

    /// The text, with a line end.
    #[must_use]
    pub fn print(&self) -> String {
        let values =
            |row: usize| self.latencies.recorded(row).map(|(value, count)| (value.0, count)).collect();
        let text = Text {
            latstat: VERSION,
            source: self.source,
            runs: self.runs,
            elapsed_ns: self.elapsed.0,
            lost: self.latencies.lost,
            rows: self.source.rows().into_iter().map(|(row, name)| (name.to_owned(), values(row))).collect(),
            worst: self.worst.clone(),
        };
        // Numbers and texts of ours: nothing that JSON could not hold.
        let mut line = serde_json::to_string(&text).unwrap_or_default();
        line.push('\n');
        line
    }

    /// What a text says.
    ///
    /// # Errors
    /// [`SavedError`] when it says nothing that could be.
    pub fn parse(text: &str) -> Result<Saved, SavedError> {
        let parsed: Text = serde_json::from_str(text).map_err(|error| SavedError::Shape {
            line: error.line().max(1),
            column: error.column().max(1),
            why: error.to_string().split(" at line ").next().unwrap_or_default().to_owned(),
        })?;
        if parsed.latstat != VERSION {
            return Err(SavedError::Version(parsed.latstat));
        }
        let mut latencies = Latencies::default();
        latencies.lost = parsed.lost;
        for (row, name) in parsed.source.rows() {
            for (value, count) in parsed.rows.get(name).into_iter().flatten() {
                latencies.add(row, *value, *count);
            }
        }
        let whole = latencies.samples();
        let count = |row: usize| latencies.row(row).map_or(0, |row| row.samples);
        let stages = count(0);
        let odd = |(row, _): &(usize, _)| count(*row) != stages || count(*row) > whole;
        if let Some((row, name)) = parsed.source.stages().into_iter().find(odd) {
            return Err(SavedError::Rows { row: name.to_owned(), has: count(row), whole });
        }
        let mut worst = parsed.worst;
        Worst::keep(&mut worst);
        let Text { source, runs, elapsed_ns, .. } = parsed;
        Ok(Saved { source, runs, elapsed: Nanos(elapsed_ns), latencies, worst })
    }
}

#[cfg(test)]
mod tests {
    use super::super::histograms::tests::of;
    use super::*;
    use crate::latency::Culprit;
    use millpond_model::LatencySample;

    const EMPTY: &str = r#"{"latstat":1,"runs":1,"elapsed_ns":5,"lost":0,"rows":{},"worst":[]}"#;

    fn run() -> Saved {
        let culprits = vec![Culprit { what: "interrupt 24 (net)".into(), had: Nanos(7) }];
        let worst = |ns| Worst { at: Nanos(5), total: Nanos(ns), stages: None, culprits: culprits.clone() };
        let latencies = of(&[[100, 2000, 30, 4], [5, 6, 7_000_000, 8]]);
        let (elapsed, worst) = (Nanos(2_000_000), vec![worst(9), worst(8)]);
        Saved { runs: 1, elapsed, latencies, worst, ..Saved::default() }
    }

    #[test]
    fn what_is_saved_is_read_again() {
        let text = run().print();
        assert!(
            text.ends_with("}\n")
                && text.starts_with("{\"latstat\":1,\"runs\":1,\"elapsed_ns\":2000000,\"lost\":0,"),
            "{text}"
        );
        assert!(text.contains("\"irq\":[[5,1],[100,1]]"), "{text}");
        let read = Saved::parse(&text).unwrap();
        assert_eq!(read.print(), text);
        assert_eq!(read.latencies.samples(), 2);
    }

    #[test]
    fn merged_runs_have_everything_of_both() {
        let mut both = run();
        both.merge(&run()).unwrap();
        assert_eq!((both.runs, both.elapsed, both.latencies.samples()), (2, Nanos(4_000_000), 4));
        assert_eq!(
            both.worst.iter().map(|w| w.total.0).collect::<Vec<_>>(),
            [9, 8],
            "they are the same ones"
        );
    }

    /// A timer that was due at 1,000 ns, of timerlat.
    fn traced() -> Saved {
        let mut saved = Saved { runs: 1, ..Saved::of(Source::Timerlat) };
        let stamps = [Nanos(1_100), Nanos(0), Nanos(1_400)];
        saved.latencies.record(&LatencySample { due: Nanos(1_000), stamps, user: Nanos(1_500) });
        saved
    }

    #[test]
    fn a_run_of_timerlat_says_so_and_has_its_rows() {
        let text = traced().print();
        let rows = r#""rows":{"irq":[[100,1]],"thread":[[300,1]],"total":[[500,1]],"user":[[100,1]]}"#;
        assert!(text.starts_with(r#"{"latstat":1,"source":"timerlat","runs":1,"#), "{text}");
        assert!(text.contains(rows), "{text}");
        let read = Saved::parse(&text).unwrap();
        assert_eq!((read.source, read.print()), (Source::Timerlat, text));
        assert_eq!((read.latencies.balance(), read.latencies.unstaged()), (Some(1.0), 0));
    }

    #[test]
    fn runs_whose_stages_are_not_the_same_do_not_merge() {
        let mut ours = run();
        let mixed = ours.merge(&traced()).unwrap_err();
        assert_eq!(
            mixed.to_string(),
            "it was measured by timerlat, and the others by latstat: their stages are not the same"
        );
        assert_eq!(ours, run());
        let mut none = Saved::default();
        none.merge(&traced()).unwrap();
        none.merge(&traced()).unwrap();
        assert_eq!((none.source, none.runs, none.latencies.samples()), (Source::Timerlat, 2, 2));
    }

    #[test]
    fn a_text_of_another_kind_is_refused_with_its_place() {
        let said = |text: &str| Saved::parse(text).unwrap_err().to_string();
        assert!(
            said("{\"latstat\":1,\n \"runs\":x}")
                .starts_with("line 2, column 9: it is no run that latstat saved (")
        );
        assert!(said("").starts_with("line 1, column 1: "));
        assert_eq!(
            said(&EMPTY.replace("\"latstat\":1", "\"latstat\":2")),
            "it has version 2 of the format, and only version 1 is known"
        );
        let lopsided = EMPTY.replace("\"rows\":{}", "\"rows\":{\"irq\":[[5,2]],\"total\":[[5,1]]}");
        assert_eq!(said(&lopsided), "row irq has 2 samples, and the whole has 1");
    }

    #[test]
    fn fuzz_saved_runs() {
        let seeds = [
            EMPTY.to_owned(),
            run().print(),
            traced().print(),
            "{\"latstat\":1,\"runs\":18446744073709551615}".into(),
        ];
        let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
        millpond_fuzz::check_text("observe-latstat", &seeds, |text| {
            if let Ok(saved) = Saved::parse(text) {
                let print = saved.print();
                assert_eq!(Saved::parse(&print).map(|saved| saved.print()), Ok(print));
            }
        });
    }
}
