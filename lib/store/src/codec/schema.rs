//! The head of a recording: whose it is, and which fields its columns are.

use millpond_model::WallTime;
use millpond_observe::catalogue::{Entity, FieldId, FieldKind, Unit, fields};
use serde::{Deserialize, Serialize};

/// Raised when an older program could not understand a newer file.
pub(crate) const FORMAT: u32 = 1;

/// What a file begins with, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// `frames`: tells it from other recordings.
    pub recording: String,
    /// The number of the format.
    pub format: u32,
    /// The machine that was watched.
    pub machine: String,
    /// When the watch began: counters of another watch begin anew.
    pub run: WallTime,
    /// The process that watched: tells apart watches that began in the same second.
    #[serde(default)]
    pub process: u32,
    /// Its columns.
    pub tables: Schema,
}

impl Header {
    /// Of a watch of this program that begins now.
    #[must_use]
    pub fn new(machine: &str, run: WallTime) -> Header {
        let machine = machine.to_owned();
        Header {
            recording: "frames".into(),
            format: FORMAT,
            machine,
            run,
            process: std::process::id(),
            tables: Schema::of_catalogue(),
        }
    }
}

/// The columns of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Schema(pub(super) Vec<Columns>);

/// The columns of one table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Columns {
    /// The entity by name.
    pub of: String,
    /// In the order of the columns.
    pub fields: Vec<Column>,
}

/// One column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Column {
    /// The field by name.
    pub name: String,
    /// Whether it is kept in microseconds.
    #[serde(default, skip_serializing_if = "is_false")]
    pub time: bool,
    /// Whether it is foretold to go on as it went.
    #[serde(default, skip_serializing_if = "is_false")]
    pub counts: bool,
    /// Whether it holds histograms.
    #[serde(default, skip_serializing_if = "is_false")]
    pub histogram: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_false(word: &bool) -> bool {
    !word
}

impl Schema {
    /// Every field of the catalogue.
    #[must_use]
    pub fn of_catalogue() -> Schema {
        let columns = |entity: &Entity| Columns {
            of: entity.word().to_owned(),
            fields: fields(*entity)
                .iter()
                .map(|field| Column {
                    name: field.name.to_owned(),
                    time: field.unit == Unit::Seconds,
                    counts: field.kind == FieldKind::Counter,
                    histogram: field.kind == FieldKind::Histogram,
                })
                .collect(),
        };
        Schema(Entity::ALL.iter().map(columns).collect())
    }
}

impl Columns {
    /// The entity, if this program knows it.
    pub fn entity(&self) -> Option<Entity> {
        Entity::ALL.iter().copied().find(|entity| entity.word() == self.of)
    }

    /// For each column the field that it is, if this program knows it.
    pub fn known(&self) -> Vec<Option<FieldId>> {
        let Some(entity) = self.entity() else { return vec![None; self.fields.len()] };
        let id = |column: &Column| {
            let index = fields(entity).iter().position(|field| field.name == column.name)?;
            Some(FieldId { entity, index })
        };
        self.fields.iter().map(id).collect()
    }
}
