//! Recordings of `cpustat`: a line about the whole, then a line for each sample, as JSON; and two of them beside one another.

use crate::digits::{millionths, to_millionths};
use crate::{Distribution, cycles_per_instruction};
use millpond_formats::events::{is_cycles, is_instructions};
use millpond_model::{CpuId, LgrpId, PsetId};
use millpond_report::{Cell, Table};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Raised when an older program could not understand a newer file.
const FORMAT: u32 = 1;

/// The line about the whole: the machine's name, when it began, and seconds between samples.
#[must_use]
pub fn head(machine: &str, time: &str, interval_s: f64) -> Value {
    let interval = to_millionths(interval_s);
    json!({ "recording": "cpustat", "format": FORMAT, "machine": machine, "time": time, "interval_s": interval })
}

/// A line of `cpustat`. Recordings have the first kind.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event<'a> {
    /// Counts of a CPU in an interval.
    Tick {
        /// End of the interval, in seconds since the start.
        #[serde(serialize_with = "millionths")]
        time_s: f64,
        /// Length of the interval, in seconds.
        #[serde(serialize_with = "millionths")]
        elapsed_s: f64,
        /// The CPU.
        cpu: CpuId,
        /// Its set.
        pset: PsetId,
        /// Its node, in the machine's numbering.
        lgroup: LgrpId,
        /// The event set as typed.
        spec: &'a str,
        /// Null if the counters never counted.
        counts: Option<Vec<Count<'a>>>,
        /// The part of the interval in which they counted, 0 to 1. Counts are scaled by it.
        #[serde(serialize_with = "millionths")]
        share: f64,
        /// Cycles per instruction, if both are counted.
        #[serde(serialize_with = "millionths")]
        cpi: Option<f64>,
        /// The clock of the CPU (`-t`).
        #[serde(skip_serializing_if = "Option::is_none")]
        tick: Option<Clock<'a>>,
    },
    /// The sums of all CPUs, at the end.
    Total {
        /// End of the last interval, in seconds since the start.
        #[serde(serialize_with = "millionths")]
        time_s: f64,
        /// The number of CPUs.
        cpus: usize,
        /// The event set as typed.
        spec: &'a str,
        /// The sums.
        counts: Vec<Count<'a>>,
        /// Cycles per instruction, if both are counted.
        #[serde(serialize_with = "millionths")]
        cpi: Option<f64>,
    },
    /// Distributions of cycles per instruction (`--cpi`), at the end.
    Cpi {
        /// Over all lines, and per set, lgroup and CPU.
        distributions: Vec<Distributed<'a>>,
    },
}

/// The count of an event.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Count<'a> {
    /// The counter.
    pub pic: u32,
    /// Its event.
    pub event: &'a str,
    /// Its count.
    pub count: u64,
}

/// A clock of the machine.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Clock<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its advance.
    pub count: u64,
}

/// A distribution and its subject.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Distributed<'a> {
    /// `all`, `set 1`, `lgroup 0`, `cpu 3`.
    pub of: &'a str,
    /// The distribution.
    #[serde(flatten)]
    pub distribution: Distribution,
}

/// Counts, each with its counter and its event.
#[must_use]
pub fn counts<'a>(events: &[(u32, &'a str)], counts: &[u64]) -> Vec<Count<'a>> {
    let one = |(&(pic, event), &count): (&(u32, &'a str), &u64)| Count { pic, event, count };
    events.iter().zip(counts).map(one).collect()
}

impl Event<'_> {
    /// The line of a recording.
    #[must_use]
    pub fn line(&self) -> String {
        // Structs, texts and numbers of ours: nothing that JSON could not hold.
        serde_json::to_value(self).unwrap_or_default().to_string()
    }
}

#[derive(Debug, Deserialize)]
struct Head {
    recording: String,
    format: u32,
    machine: String,
}

#[derive(Debug, Deserialize)]
struct Sample {
    cpu: u32,
    elapsed_s: f64,
    counts: Option<Vec<Counted>>,
}

#[derive(Debug, Deserialize)]
struct Counted {
    event: String,
    count: u64,
}

/// What a recording says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recording {
    /// Where it was made.
    pub machine: String,
    /// How many CPUs are in it.
    pub cpus: usize,
    /// How many samples, over all CPUs.
    pub samples: usize,
    /// Of each event how often it was counted, and in how many seconds of CPUs.
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
/// [`RecordingError`] for the first invalid line.
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
        let line: Sample = serde_json::from_str(line).map_err(|error| told(at, &error))?;
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
        for Counted { event, count } in counts {
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

/// A figure of two recordings; null if a recording lacks it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Figure {
    /// `EVENT/s` per second and CPU; `cpi`, cycles per instruction of all samples; `cpi min` and others, of the samples.
    pub figure: String,
    /// In the first recording.
    #[serde(rename = "A")]
    pub a: Option<f64>,
    /// In the second recording.
    #[serde(rename = "B")]
    pub b: Option<f64>,
    /// The second divided by the first.
    #[serde(rename = "B/A")]
    pub ratio: Option<f64>,
    /// Digits after the decimal point.
    #[serde(skip)]
    digits: usize,
}

/// Digits of a ratio.
const RATIO_DIGITS: usize = 2;

impl Figure {
    fn new(figure: String, a: Option<f64>, b: Option<f64>, digits: usize) -> Figure {
        let to = |digits: usize, value: Option<f64>| format!("{:.digits$}", value?).parse().ok();
        let ratio = a.zip(b).filter(|(a, _)| *a > 0.0).map(|(a, b)| b / a);
        Figure { figure, a: to(digits, a), b: to(digits, b), ratio: to(RATIO_DIGITS, ratio), digits }
    }
}

/// One figure of a distribution.
type Rank = fn(&Distribution) -> f64;

/// Two recordings beside one another: the rate of each event (for a second of one CPU), cycles for an instruction over the whole, and how
/// these are distributed over samples.
#[must_use]
pub fn beside(a: &Recording, b: &Recording) -> Vec<Figure> {
    let events: BTreeSet<&String> = a.events.keys().chain(b.events.keys()).collect();
    let rate = |event: &String| {
        let rate = |r: &Recording| {
            let (count, seconds) = *r.events.get(event)?;
            (seconds > 0.0).then(|| count as f64 / seconds)
        };
        Figure::new(format!("{event}/s"), rate(a), rate(b), 1)
    };
    let ranks: [(&str, Rank); 5] = [
        ("min", |d| d.min),
        ("median", |d| d.median),
        ("p90", |d| d.p90),
        ("p99", |d| d.p99),
        ("max", |d| d.max),
    ];
    let ranks = ranks.into_iter().map(|(name, rank)| {
        Figure::new(format!("cpi {name}"), a.cpis.as_ref().map(rank), b.cpis.as_ref().map(rank), 2)
    });
    let whole = Figure::new("cpi".to_owned(), a.cpi, b.cpi, 2);
    events.into_iter().map(rate).chain([whole]).chain(ranks).collect()
}

/// A row for each.
#[must_use]
pub fn table(figures: &[Figure]) -> Table {
    let mut table = Table::of(&["figure"], &["A", "B", "B/A"]);
    for Figure { figure, a, b, ratio, digits } in figures {
        let cell =
            |value: &Option<f64>, digits| value.map_or(Cell::Missing, |value| Cell::Real(value, digits));
        table.row([
            Cell::from(figure.as_str()),
            cell(a, *digits),
            cell(b, *digits),
            cell(ratio, RATIO_DIGITS),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(cpu: u32, cycles: u64, instructions: u64) -> String {
        let tick = Event::Tick {
            cpu: CpuId(cpu),
            pset: PsetId::DEFAULT,
            lgroup: LgrpId(0),
            time_s: 2.0,
            elapsed_s: 2.0,
            spec: "cycles,Instr_cnt",
            counts: Some(counts(&[(0, "cycles"), (1, "Instr_cnt")], &[cycles, instructions])),
            share: 1.0,
            cpi: cycles_per_instruction(cycles, instructions),
            tick: None,
        };
        tick.line()
    }

    #[test]
    fn a_line_is_as_the_manual_has_it() {
        let expected = concat!(
            r#"{"counts":[{"count":300,"event":"cycles","pic":0},{"count":100,"event":"Instr_cnt","pic":1}],"cpi":3.0,"cpu":1,"#,
            r#""elapsed_s":2.0,"event":"tick","lgroup":0,"pset":0,"share":1.0,"spec":"cycles,Instr_cnt","time_s":2.0}"#,
        );
        assert_eq!(line(1, 300, 100), expected);
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
        millpond_fuzz::check_text("observe-recordings", &[&seed], |text| match parse(text) {
            Ok(recording) => assert!(recording.cpus >= 1 && recording.samples >= recording.cpus),
            Err(error) => assert!(error.line >= 1 && !error.what.is_empty()),
        });
    }

    #[test]
    fn figures_stand_beside_one_another_with_their_ratio() {
        let recording = |cycles: u64, cpi: f64| Recording {
            events: [("cycles".to_owned(), (cycles, 2.0))].into(),
            cpi: Some(cpi),
            cpis: Distribution::of(&[cpi]),
            ..Recording::default()
        };
        let mut b = recording(300, 4.5);
        b.events.insert("page-faults".into(), (8, 4.0));
        let text = table(&beside(&recording(200, 1.5), &b)).text();
        let expected = "\
figure             A      B   B/A
cycles/s       100.0  150.0  1.50
page-faults/s      -    2.0     -
cpi             1.50   4.50  3.00
cpi min         1.50   4.50  3.00
cpi median      1.50   4.50  3.00
cpi p90         1.50   4.50  3.00
cpi p99         1.50   4.50  3.00
cpi max         1.50   4.50  3.00
";
        assert_eq!(text, expected);
    }
}
