//! The fields of a frame as families of metrics.
//!
//! A counter or gauge of the catalogue is a family; the keys of its row are labels. Labels of a row are those of an info metric, so that a name that
//! changes makes no new series of every figure.

use millpond_model::Histogram;
use millpond_observe::catalogue::{Entity, Field, FieldKind, Unit, fields};
use millpond_observe::{Frame, Row, Value};
use std::sync::Arc;

/// The tables of `/metrics` where none are asked for: those whose rows do not come and go by the thousand.
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

/// How a family behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, until the service or the machine starts anew.
    Counter,
    /// A value at the moment.
    Gauge,
    /// 1, with labels that say something.
    Info,
    /// How many events were how long.
    Histogram,
}

/// Samples of one name.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// Its name without the endings that formats want.
    pub name: String,
    /// What it is.
    pub help: String,
    /// What it is in, as the last part of the name.
    pub unit: Option<&'static str>,
    /// How it behaves.
    pub kind: Kind,
    /// One for each row that has a value.
    pub samples: Vec<Sample>,
}

/// A value with its labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Names are those of fields. Values are as others wrote them: escaped by formats.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: Figure,
}

/// What a sample says.
#[derive(Debug, Clone, PartialEq)]
pub enum Figure {
    /// A number.
    Number(f64),
    /// All events so far.
    Histogram(Arc<Histogram>),
}

/// The families of these tables of a frame with totals. Those without a sample are left out.
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

/// `user_s` of a CPU is `millpond_cpu_user_seconds`.
fn name(entity: Entity, field: &Field) -> String {
    let base = match field.unit {
        Unit::Seconds => format!("{}_seconds", field.name.strip_suffix("_s").unwrap_or(field.name)),
        Unit::Bytes | Unit::Count | Unit::None => field.name.to_owned(),
    };
    format!("millpond_{}_{base}", entity.word())
}

/// With a capital and a full stop.
fn sentence(help: &str) -> String {
    let mut letters = help.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

/// The known ones.
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

/// What the service counts.
#[derive(Debug, Clone, Copy)]
pub struct Counts {
    /// Frames that were read.
    pub frames: u64,
    /// How often the machine could not be read.
    pub failures: u64,
    /// Viewers that are connected.
    pub viewers: u64,
    /// Frames that viewers did not get.
    pub dropped: u64,
}

/// What the service says of itself, and what the machine does not give.
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

/// A count as formats have it: exact to 2^53.
#[expect(clippy::cast_precision_loss, reason = "a count that no service reaches")]
pub fn as_number(count: u64) -> f64 {
    count as f64
}
