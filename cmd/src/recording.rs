//! Recordings of `cpustat`: a line about the whole, then a line for each sample, as JSON.

use millpond_formats::events::{is_cycles, is_instructions};
use millpond_observe::{Distribution, cycles_per_instruction};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Raised when an older program could not understand a newer file.
const FORMAT: u32 = 1;

/// The line about the whole.
pub fn head(machine: &str, time: &str, interval_s: f64) -> Value {
    let interval = rounded(interval_s);
    json!({ "recording": "cpustat", "format": FORMAT, "machine": machine, "time": time, "interval_s": interval })
}

/// To millionths: JSON should not promise more digits than there are.
pub fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[derive(Debug, Deserialize)]
struct Head {
    recording: String,
    format: u32,
    machine: String,
}

#[derive(Debug, Deserialize)]
struct Line {
    cpu: u32,
    elapsed_s: f64,
    counts: Option<Vec<Count>>,
}

#[derive(Debug, Deserialize)]
struct Count {
    event: String,
    count: u64,
}

/// What a recording says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recording {
    /// Where it was made.
    pub machine: String,
    /// How many processors are in it.
    pub cpus: usize,
    /// How many samples, over all processors.
    pub samples: usize,
    /// Of each event how often it was counted, and in how many seconds of processors.
    pub events: BTreeMap<String, (u64, f64)>,
    /// Cycles for each instruction over the whole.
    pub cpi: Option<f64>,
    /// The same of each sample.
    pub cpis: Option<Distribution>,
}

/// A text that is no recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordingError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

/// Understands a recording.
///
/// # Errors
/// [`RecordingError`] for the first line that makes no sense.
pub fn parse(text: &str) -> Result<Recording, RecordingError> {
    let wrong = |line: usize, what: String| RecordingError { line, what };
    let told = |line: usize, error: &serde_json::Error| {
        let text = error.to_string();
        wrong(line, text.split(" at line ").next().unwrap_or_default().to_owned())
    };
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    let (_, first) = lines.next().ok_or_else(|| wrong(1, "it is empty".to_owned()))?;
    let head: Head = serde_json::from_str(first).map_err(|error| told(1, &error))?;
    if head.recording != "cpustat" || head.format != FORMAT {
        let what = format!("it is a recording of {}, format {}", head.recording, head.format);
        return Err(wrong(1, format!("{what}; this program understands cpustat, format {FORMAT}")));
    }
    let mut recording = Recording { machine: head.machine, ..Recording::default() };
    let (mut cpus, mut cpis) = (BTreeSet::new(), Vec::new());
    let (mut cycles, mut instructions) = (0u64, 0u64);
    for (at, line) in lines {
        let line: Line = serde_json::from_str(line).map_err(|error| told(at, &error))?;
        cpus.insert(line.cpu);
        recording.samples += 1;
        let Some(counts) = line.counts else { continue };
        let of = |is_it: fn(&str) -> bool| counts.iter().find(|c| is_it(&c.event)).map(|c| c.count);
        // Only what was counted together belongs together.
        if let (Some(c), Some(i)) = (of(is_cycles), of(is_instructions)) {
            cycles = cycles.saturating_add(c);
            instructions = instructions.saturating_add(i);
            cpis.extend(cycles_per_instruction(c, i));
        }
        for Count { event, count } in counts {
            let sum = recording.events.entry(event).or_default();
            *sum = (sum.0.saturating_add(count), sum.1 + line.elapsed_s);
        }
    }
    if recording.samples == 0 {
        return Err(wrong(2, "it has no samples".to_owned()));
    }
    recording.cpus = cpus.len();
    recording.cpi = cycles_per_instruction(cycles, instructions);
    recording.cpis = Distribution::of(&cpis);
    Ok(recording)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(cpu: u32, cycles: u64, instructions: u64) -> String {
        json!({ "event": "tick", "cpu": cpu, "elapsed_s": 2.0, "time_s": 2.0, "counts": [
            { "pic": 0, "event": "cycles", "count": cycles }, { "pic": 1, "event": "Instr_cnt", "count": instructions }
        ] })
        .to_string()
    }

    fn text(lines: &[String]) -> String {
        format!("{}\n{}\n", head("u2i", "2024-11-20T08:14:02Z", 2.0), lines.join("\n"))
    }

    #[test]
    fn what_was_recorded_is_added_up() {
        let recording = parse(&text(&[line(0, 300, 100), line(1, 100, 100)])).unwrap();
        assert_eq!((recording.machine.as_str(), recording.cpus, recording.samples), ("u2i", 2, 2));
        assert_eq!(recording.events["cycles"], (400, 4.0));
        assert_eq!(recording.cpi, Some(2.0));
        let cpis = recording.cpis.unwrap();
        assert_eq!((cpis.min, cpis.max), (1.0, 3.0));
    }

    #[test]
    fn what_is_no_recording_is_refused_with_its_line() {
        let refused = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(refused(""), "line 1: it is empty");
        assert_eq!(refused("{}"), "line 1: missing field `recording`");
        assert_eq!(refused(&text(&[])), "line 2: EOF while parsing a value");
        assert_eq!(refused(&head("a", "b", 1.0).to_string()), "line 2: it has no samples");
        let other = head("a", "b", 1.0).to_string().replace("\"format\":1", "\"format\":2");
        assert_eq!(
            refused(&other),
            "line 1: it is a recording of cpustat, format 2; this program understands cpustat, format 1"
        );
        assert!(refused(&text(&[line(0, 1, 1), "{\"cpu\":".into()])).starts_with("line 3: "));
    }

    #[test]
    fn fuzz_recordings() {
        let seed = text(&[line(0, 300, 100), line(1, 100, 0)]);
        millpond_fuzz::check_text("cmd-recordings", &[&seed], |text| match parse(text) {
            Ok(recording) => assert!(recording.cpus >= 1 && recording.samples >= recording.cpus),
            Err(error) => assert!(error.line >= 1 && !error.what.is_empty()),
        });
    }
}
