//! The fields of a frame as families of metrics.
//!
//! A counter or gauge of the catalogue is a family, and the keys of its row are its labels. Other labels of a row go
//! into an info metric. So a changed name does not start a new series for every figure.

use millpond_model::Histogram;
use millpond_observe::catalogue::{Entity, Field, FieldKind, Unit, fields};
use millpond_observe::{Frame, Row, Value};
use std::sync::Arc;

/// The tables of `/metrics` if the request names none: those without thousands of short-lived rows.
pub const USUAL: [Entity; 8] = [
    Entity::Machine,
    Entity::Pool,
    Entity::Pset,
    Entity::Cpu,
    Entity::Latency,
    Entity::Noise,
    Entity::Interrupt,
    Entity::Fence,
];

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It only increases, until the service or the machine restarts.
    Counter,
    /// A current value.
    Gauge,
    /// The constant 1, with information in its labels.
    Info,
    /// Counts of events by duration.
    Histogram,
}

/// The samples of one metric name.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// The name, without the suffixes that formats require.
    pub name: String,
    /// The help text.
    pub help: String,
    /// The unit, as the last part of the name.
    pub unit: Option<&'static str>,
    /// The kind of the metric.
    pub kind: Kind,
    /// One for each row that has a value.
    pub samples: Vec<Sample>,
}

/// A value with its labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Names are those of fields. Values are unescaped; formats escape them.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: Figure,
}

/// The value of a sample.
#[derive(Debug, Clone, PartialEq)]
pub enum Figure {
    /// A number.
    Number(f64),
    /// All events so far.
    Histogram(Arc<Histogram>),
}

/// The families of these tables, from a frame of totals. Families without a sample are left out.
#[must_use]
pub fn of_frame(totals: &Frame, tables: &[Entity]) -> Vec<Family> {
    let all = tables.iter().flat_map(|entity| of_table(*entity, totals.rows(*entity)));
    all.filter(|family| !family.samples.is_empty()).collect()
}

fn of_table(entity: Entity, rows: &[Row]) -> Vec<Family> {
    let keys: Vec<Vec<(&'static str, String)>> =
        rows.iter().map(|row| labels(entity, row, |field| field.kind == FieldKind::Key)).collect();
    let mut families = Vec::new();
    let about = |field: &Field| field.kind == FieldKind::Label;
    if fields(entity).iter().any(about) {
        let samples = rows.iter().zip(&keys).map(|(row, keys)| {
            let own = labels(entity, row, about);
            Sample { labels: keys.iter().cloned().chain(own).collect(), value: Figure::Number(1.0) }
        });
        families.push(Family {
            name: format!("millpond_{}", entity.word()),
            help: format!("What each {} is.", entity.word()),
            unit: None,
            kind: Kind::Info,
            samples: samples.collect(),
        });
    }
    for (index, field) in fields(entity).iter().enumerate() {
        let kind = match field.kind {
            FieldKind::Counter => Kind::Counter,
            FieldKind::Gauge => Kind::Gauge,
            FieldKind::Histogram => Kind::Histogram,
            FieldKind::Key | FieldKind::Label => continue,
        };
        let samples = rows.iter().zip(&keys).filter_map(|(row, keys)| {
            let value = match &row.values()[index] {
                Value::Number(value) => Figure::Number(*value),
                Value::Histogram(histogram) => Figure::Histogram(Arc::clone(histogram)),
                Value::Unknown | Value::Text(_) => return None,
            };
            Some(Sample { labels: keys.clone(), value })
        });
        let unit = match field.unit {
            Unit::Seconds => Some("seconds"),
            Unit::Bytes => Some("bytes"),
            Unit::Count | Unit::None => None,
        };
        families.push(Family {
            name: name(entity, field),
            help: sentence(field.help),
            unit,
            kind,
            samples: samples.collect(),
        });
    }
    families
}

/// The metric name of a field: `user_s` of a CPU is `millpond_cpu_user_seconds`.
fn name(entity: Entity, field: &Field) -> String {
    let base = match field.unit {
        Unit::Seconds => format!("{}_seconds", field.name.strip_suffix("_s").unwrap_or(field.name)),
        Unit::Bytes | Unit::Count | Unit::None => field.name.to_owned(),
    };
    format!("millpond_{}_{base}", entity.word())
}

/// The text with a capital first letter and a full stop.
fn sentence(help: &str) -> String {
    let mut letters = help.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

/// The fields that are known, as labels.
fn labels(entity: Entity, row: &Row, wanted: impl Fn(&Field) -> bool) -> Vec<(&'static str, String)> {
    let known = fields(entity).iter().zip(row.values()).filter(|(field, _)| wanted(field));
    known
        .filter_map(|(field, value)| match value {
            Value::Unknown | Value::Histogram(_) => None,
            Value::Number(number) => Some((field.name, number.to_string())),
            Value::Text(text) => Some((field.name, text.to_string())),
        })
        .collect()
}

/// Counters of the service itself.
#[derive(Debug, Clone, Copy)]
pub struct Counts {
    /// Frames that were read.
    pub frames: u64,
    /// Failed reads of the machine.
    pub failures: u64,
    /// Viewers that are connected.
    pub viewers: u64,
    /// Frames that slow viewers did not get.
    pub dropped: u64,
}

/// Metrics about the service itself, and which parts of the machine cannot be read.
#[must_use]
pub fn of_service(counts: Counts, totals: &Frame) -> Vec<Family> {
    let one = |name: &str, help: &str, unit, kind, value| Family {
        name: format!("millpond_exporter_{name}"),
        help: help.to_owned(),
        unit,
        kind,
        samples: vec![Sample { labels: Vec::new(), value: Figure::Number(value) }],
    };
    let mut families = vec![
        one("frames", "Frames that were read.", None, Kind::Counter, as_number(counts.frames)),
        one(
            "failed_reads",
            "Frames that are missing because the machine could not be read.",
            None,
            Kind::Counter,
            as_number(counts.failures),
        ),
        one("viewers", "Connections that get each frame.", None, Kind::Gauge, as_number(counts.viewers)),
        one(
            "dropped_frames",
            "Frames that viewers did not get because they were too slow.",
            None,
            Kind::Counter,
            as_number(counts.dropped),
        ),
    ];
    let mut why = totals.missing.clone();
    why.dedup();
    if !why.is_empty() {
        families.push(Family {
            name: "millpond_exporter_missing".to_owned(),
            help: "What is lacking on this machine, and why.".to_owned(),
            unit: None,
            kind: Kind::Info,
            samples: why
                .into_iter()
                .map(|why| Sample { labels: vec![("why", why)], value: Figure::Number(1.0) })
                .collect(),
        });
    }
    families.push(Family {
        name: "millpond_build".to_owned(),
        help: "The version of the program.".to_owned(),
        unit: None,
        kind: Kind::Info,
        samples: vec![Sample {
            labels: vec![("version", env!("CARGO_PKG_VERSION").to_owned())],
            value: Figure::Number(1.0),
        }],
    });
    families
}

/// A count as a floating-point number: exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "a count that no service reaches")]
pub fn as_number(count: u64) -> f64 {
    count as f64
}
