//! The head of a recording: its source, and the fields of its columns.

use millpond_model::WallTime;
use millpond_observe::catalogue::{Entity, FieldId, FieldKind, Unit, fields};
use serde::{Deserialize, Serialize};

/// Incremented if older programs could not read newer files.
pub(crate) const FORMAT: u32 = 1;

/// The head of a file, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// `frames`: distinguishes it from other recordings.
    pub recording: String,
    /// The version of the format.
    pub format: u32,
    /// The recorded machine.
    pub machine: String,
    /// The start of the watch: counters of another watch start from zero.
    pub run: WallTime,
    /// The process of the watch: distinguishes watches that began in the same second.
    #[serde(default)]
    pub process: u32,
    /// Its columns.
    pub tables: Schema,
}

impl Header {
    /// The head for a watch of this program that begins now.
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
    /// The name of the field.
    pub name: String,
    /// Whether it is stored in microseconds.
    #[serde(default, skip_serializing_if = "is_false")]
    pub time: bool,
    /// Whether it is predicted to continue at its last rate.
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

    /// The field of each column, if this program knows it.
    pub fn known(&self) -> Vec<Option<FieldId>> {
        let Some(entity) = self.entity() else { return vec![None; self.fields.len()] };
        let id = |column: &Column| {
            let index = fields(entity).iter().position(|field| field.name == column.name)?;
            Some(FieldId { entity, index })
        };
        self.fields.iter().map(id).collect()
    }
}
