//! The lines of a journal file, and their total effect.

use millpond_machine::{Knob, Operation, Step, Value, fold, forget_refused};
use millpond_model::Pid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Record {
    /// An operation begins.
    Begin {
        /// Its description.
        what: String,
        /// The machine's boot id.
        boot: String,
        /// The writer.
        pid: Pid,
        /// The writer's start time; see `start_of`.
        start: Option<u64>,
        /// Its first steps.
        steps: Vec<Step>,
    },
    /// More steps of the operation.
    Extend {
        /// The steps.
        steps: Vec<Step>,
    },
    /// A step was refused, and the operation continues without it.
    Refused {
        /// The step's knob.
        knob: Knob,
    },
    /// The operation is complete.
    Commit,
    /// The baselines of all committed operations before this line.
    Summary {
        /// The machine's boot id.
        boot: String,
        /// Original values.
        baselines: BTreeMap<Knob, Option<Value>>,
    },
}

/// The total effect of a file's lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Contents {
    /// Length in bytes of the valid lines.
    pub end: u64,
    /// Length of the summary at the beginning; 0 without one.
    pub summary: u64,
    /// The boot id of the lines; `None` without lines.
    pub boot: Option<String>,
    /// The unfinished operation.
    pub running: Option<Running>,
    /// Original values of the knobs that committed operations have changed.
    pub baselines: BTreeMap<Knob, Option<Value>>,
}

/// An operation without an end, possibly in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Running {
    /// The operation in the machine's form.
    pub operation: Operation,
    /// The writer's start time.
    pub start: Option<u64>,
    /// Offset of its first line.
    pub at: u64,
    /// The boot id of the lines before it. No writer of this program leaves lines of two boots, but a file may contain them.
    pub boot_before: Option<String>,
}

/// A line that is invalid in its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BadLine {
    /// Counted from 1.
    pub line: usize,
    /// The error.
    pub why: String,
}

impl Record {
    /// The line, with a newline.
    pub fn line(&self) -> String {
        // Cannot fail: JSON can represent numbers, texts and maps with text keys.
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }
}

impl Contents {
    /// Parses a file. A last line without a newline does not count.
    pub fn parse(text: &[u8]) -> Result<Contents, BadLine> {
        let mut contents = Contents::default();
        for (index, line) in text.split_inclusive(|b| *b == b'\n').enumerate() {
            if !line.ends_with(b"\n") {
                break;
            }
            let bad = |why: String| BadLine { line: index + 1, why };
            let record = serde_json::from_slice(line).map_err(|_| bad("not a journal record".to_owned()))?;
            contents.permit(&record).map_err(|why| bad(why.to_owned()))?;
            contents.take(record, line.len() as u64);
        }
        Ok(contents)
    }

    /// The valid lines of a corrupt file, as a valid file. An operation without a readable end counts as committed if another one begins after it,
    /// because an undone operation would have been truncated.
    pub fn salvage(text: &[u8]) -> Vec<u8> {
        let (mut contents, mut kept) = (Contents::default(), Vec::new());
        let mut keep = |contents: &mut Contents, record: Record| {
            let line = record.line();
            if contents.permit(&record).is_ok() {
                contents.take(record, line.len() as u64);
                kept.extend_from_slice(line.as_bytes());
            }
        };
        for line in text.split_inclusive(|b| *b == b'\n').filter(|line| line.ends_with(b"\n")) {
            let Ok(record) = serde_json::from_slice::<Record>(line) else { continue };
            if matches!(record, Record::Begin { .. }) && contents.running.is_some() {
                keep(&mut contents, Record::Commit);
            }
            keep(&mut contents, record);
        }
        kept
    }

    /// Checks whether the record is valid as the next one.
    pub fn permit(&self, record: &Record) -> Result<(), &'static str> {
        match (record, &self.running) {
            (Record::Begin { .. }, Some(_)) => Err("an operation begins inside another one"),
            (Record::Extend { .. } | Record::Refused { .. } | Record::Commit, None) => {
                Err("a record belongs to no operation")
            }
            (Record::Summary { .. }, _) if self.end > 0 => Err("a summary stands behind other records"),
            _ => Ok(()),
        }
    }

    /// Applies a valid record of `length` bytes.
    pub fn take(&mut self, record: Record, length: u64) {
        match record {
            Record::Begin { what, boot, pid, start, steps } => {
                let boot_before = self.boot.replace(boot.clone());
                let operation = Operation { what, boot, pid, steps };
                self.running = Some(Running { operation, start, at: self.end, boot_before });
            }
            Record::Extend { steps } => {
                if let Some(running) = &mut self.running {
                    running.operation.steps.extend(steps);
                }
            }
            Record::Refused { knob } => {
                if let Some(running) = &mut self.running {
                    forget_refused(&mut running.operation.steps, &knob);
                }
            }
            Record::Commit => {
                if let Some(done) = self.running.take() {
                    fold(&mut self.baselines, &done.operation.steps);
                }
            }
            Record::Summary { boot, baselines } => {
                self.boot = Some(boot);
                self.baselines = baselines;
                self.summary = length;
            }
        }
        self.end += length;
    }

    /// All baselines: including those of the unfinished operation, and without those that it releases.
    pub fn folded(&self) -> BTreeMap<Knob, Option<Value>> {
        let mut baselines = self.baselines.clone();
        if let Some(running) = &self.running {
            fold(&mut baselines, &running.operation.steps);
        }
        baselines
    }

    /// One of [`Contents::folded`].
    pub fn baseline(&self, knob: &Knob) -> Option<Option<Value>> {
        let mut one: BTreeMap<Knob, Option<Value>> = BTreeMap::new();
        if let Some(value) = self.baselines.get(knob) {
            one.insert(knob.clone(), value.clone());
        }
        let steps = self.running.iter().flat_map(|r| &r.operation.steps).filter(|s| s.knob == *knob);
        for step in steps {
            fold(&mut one, std::slice::from_ref(step));
        }
        one.remove(knob)
    }

    /// The contents as if the unfinished operation had never begun; `None` if there is no such operation.
    pub fn without_running(&self) -> Option<Contents> {
        let running = self.running.as_ref()?;
        let (end, boot) = (running.at, running.boot_before.clone());
        let baselines = self.baselines.clone();
        Some(Contents { end, summary: self.summary, boot, running: None, baselines })
    }
}
