//! A frame as JSON; its schema is generated from the catalogue.

use millpond_observe::Frame;
use millpond_observe::catalogue::{Entity, FieldKind, fields};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// The printed document.
pub struct Document<'f>(pub &'f Frame);

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.json().serialize(serializer)
    }
}

impl JsonSchema for Document<'_> {
    fn schema_name() -> Cow<'static, str> {
        "Frame".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut properties = Map::new();
        let mut required: Vec<Value> = Vec::new();
        let mut add = |name: &str, schema: Value| {
            properties.insert(name.to_owned(), schema);
            required.push(name.into());
        };
        add("at_s", json!({"type": "number", "description": "When, in seconds since boot."}));
        add("time", json!({"type": "integer", "description": "When, in seconds since 1970."}));
        add(
            "interval_s",
            json!({"type": ["number", "null"], "description": "The time since the frame before; null at a first look, when counters are null."}),
        );
        add(
            "missing",
            json!({"type": "array", "items": {"type": "string"}, "description": "What is lacking and why."}),
        );
        for entity in Entity::ALL {
            let own = fields(entity).iter().map(|field| {
                let types: &[&str] = match field.kind {
                    FieldKind::Counter | FieldKind::Gauge => &["number", "null"],
                    FieldKind::Histogram => &["object", "null"],
                    FieldKind::Key | FieldKind::Label => &["number", "string", "null"],
                };
                let unit = match (field.kind, field.unit.word()) {
                    (_, "-") => String::new(),
                    (FieldKind::Counter, unit) => format!(" In {unit} per second."),
                    (FieldKind::Histogram, _) => {
                        " Those of the interval: count, sum_s, quantiles (upper bounds of their buckets, null where fewer than one lies beyond), and buckets: pairs of an upper bound in seconds and a count.".to_owned()
                    }
                    (_, unit) => format!(" In {unit}."),
                };
                (
                    field.name.to_owned(),
                    json!({"type": types, "description": format!("{}.{unit}", field.help)}),
                )
            });
            let names: Vec<&str> = fields(entity).iter().map(|field| field.name).collect();
            add(
                Frame::plural(entity),
                json!({
                    "type": "array",
                    "items": {"type": "object", "properties": own.collect::<Map<_, _>>(), "required": names},
                }),
            );
        }
        json_schema!({"type": "object", "properties": properties, "required": required})
    }
}
