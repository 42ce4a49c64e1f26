//! A frame as text. Each of its tables is written at the first request for it, and all requests share the bytes.
//!
//! A table with a row for each thread is long and takes long to write. A separate thread writes it, so that requests
//! for other tables do not wait. An answer is a list of such pieces, none of which is copied.

use crate::exposition::Format;
use crate::families::of_frame;
use bytes::Bytes;
use millpond_observe::Frame;
use millpond_observe::catalogue::Entity;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// How a table is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// A member of a JSON object, preceded by a comma.
    Json,
    /// Families of metrics.
    Metrics(Format),
}

const FORMS: [Form; 4] = [
    Form::Json,
    Form::Metrics(Format::OpenMetrics),
    Form::Metrics(Format::Prometheus),
    Form::Metrics(Format::Native),
];

/// Whether a table can have a row for each thread of the machine.
pub fn is_long(entity: Entity) -> bool {
    matches!(entity, Entity::Process | Entity::Thread)
}

/// A frame with the texts of its tables.
#[derive(Debug)]
pub struct Texts {
    /// The frame.
    pub frame: Frame,
    tables: HashMap<(Entity, Form), OnceCell<Bytes>>,
}

impl Texts {
    /// The texts of a frame. Nothing is written yet.
    #[must_use]
    pub fn of(frame: Frame) -> Arc<Texts> {
        let keys = Entity::ALL.into_iter().flat_map(|entity| FORMS.map(|form| (entity, form)));
        Arc::new(Texts { frame, tables: keys.map(|key| (key, OnceCell::new())).collect() })
    }

    async fn table(self: &Arc<Texts>, entity: Entity, form: Form) -> Bytes {
        let Some(cell) = self.tables.get(&(entity, form)) else { return Bytes::new() };
        let own = Arc::clone(self);
        let written = || async move {
            if !is_long(entity) {
                return write(&own.frame, entity, form);
            }
            tokio::task::spawn_blocking(move || write(&own.frame, entity, form)).await.unwrap_or_default()
        };
        cell.get_or_init(written).await.clone()
    }

    /// The frame as a JSON object with only these tables; other tables are empty lists. `more` is an additional
    /// member, preceded by a comma.
    pub async fn json(self: &Arc<Texts>, tables: &[Entity], more: &str) -> Vec<Bytes> {
        self.object("", tables, more).await
    }

    async fn object(self: &Arc<Texts>, before: &str, tables: &[Entity], more: &str) -> Vec<Bytes> {
        let head = self.frame.head_json().to_string();
        let mut pieces = vec![Bytes::from(format!("{before}{}{more}", head.trim_end_matches('}')))];
        for entity in Entity::ALL {
            pieces.push(match tables.contains(&entity) {
                true => self.table(entity, Form::Json).await,
                false => Bytes::from(format!(",\"{}\":[]", Frame::plural(entity))),
            });
        }
        pieces.push(Bytes::from_static(b"}"));
        pieces
    }

    /// The frame with these tables as a server-sent event. The JSON contains no line ends.
    pub async fn event(self: &Arc<Texts>, number: u64, tables: &[Entity]) -> Vec<Bytes> {
        let before = format!("id: {number}\nevent: frame\ndata: ");
        let mut pieces = self.object(&before, tables, "").await;
        pieces.push(Bytes::from_static(b"\n\n"));
        pieces
    }

    /// The families of these tables.
    pub async fn metrics(self: &Arc<Texts>, tables: &[Entity], format: Format) -> Vec<Bytes> {
        let mut pieces = Vec::new();
        for entity in tables {
            pieces.push(self.table(*entity, Form::Metrics(format)).await);
        }
        pieces
    }
}

fn write(frame: &Frame, entity: Entity, form: Form) -> Bytes {
    Bytes::from(match form {
        Form::Json => format!(",\"{}\":{}", Frame::plural(entity), frame.table_json(entity)).into_bytes(),
        Form::Metrics(format) => format.families(&of_frame(frame, &[entity])),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use millpond_model::{Nanos, WallTime};
    use millpond_observe::Row;
    use millpond_observe::catalogue::{cpu, thread};

    fn texts() -> Arc<Texts> {
        let mut frame = Frame::at(Nanos::from_secs(2), WallTime(7));
        frame.set_rows(Entity::Cpu, vec![Row::of(Entity::Cpu).with(cpu::ID, 3u32)]);
        frame.set_rows(Entity::Thread, vec![Row::of(Entity::Thread).with(thread::LWP, 1u32)]);
        Texts::of(frame)
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
    }

    #[test]
    fn each_table_is_written_once_for_all_viewers() {
        let texts = texts();
        let all = [Entity::Cpu, Entity::Thread];
        let (first, second) = (run(texts.event(1, &all)), run(texts.json(&[Entity::Thread], "")));
        let places = |pieces: &[Bytes]| {
            let of_threads = |piece: &&Bytes| piece.starts_with(b",\"threads\"");
            pieces.iter().find(of_threads).map(|piece| piece.as_ptr())
        };
        assert!(places(&first).is_some());
        assert_eq!(places(&first), places(&second));
        let scraped = || run(texts.metrics(&[Entity::Thread], Format::Prometheus))[0].as_ptr();
        assert_eq!(scraped(), scraped());
    }

    #[test]
    fn the_pieces_are_the_document_of_the_frame() {
        let texts = texts();
        let whole = run(texts.json(&Entity::ALL, "")).concat();
        let read: serde_json::Value = serde_json::from_slice(&whole).unwrap();
        assert_eq!(read, texts.frame.json());
        let part = run(texts.json(&[Entity::Cpu], ",\"version\":1")).concat();
        let read: serde_json::Value = serde_json::from_slice(&part).unwrap();
        assert_eq!((&read["version"], read["threads"].as_array().unwrap().len()), (&1.into(), 0));
        assert_eq!(read["cpus"], texts.frame.json()["cpus"]);
    }
}
