//! JSON output: writes each document of each command, with its version. Each has a schema.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Value, json};

/// The version. It increases when a field is removed, or changes its meaning or type, as `docs/reference/json.md`
/// promises.
const VERSION: u32 = 1;

/// A document on one line, with its version. Keys are sorted.
pub fn document(document: &impl Serialize) -> String {
    // The values are structs, texts and numbers of this crate, which serialize without an error.
    let mut document = serde_json::to_value(document).unwrap_or_default();
    if let Value::Object(fields) = &mut document {
        fields.insert("version".to_owned(), VERSION.into());
    }
    document.to_string()
}

/// Makes the schema of one document.
pub type Describe = fn(&mut SchemaGenerator) -> Schema;

/// The description of a type.
pub const fn of<T: JsonSchema>() -> Describe {
    SchemaGenerator::subschema_for::<T>
}

/// The schema of a command's `--json` output: one of its documents, with the version.
pub fn schema(command: &str, documents: &[Describe]) -> Value {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let any: Vec<Value> = documents.iter().map(|describe| describe(&mut generator).to_value()).collect();
    let mut types = generator.take_definitions(true);
    for document in &any {
        let name = document["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/"));
        if let Some(found) = name.and_then(|name| types.get_mut(name)) {
            with_version(found);
        }
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("{command} --json"),
        "anyOf": any,
        "$defs": types,
    })
}

/// Adds the version to an object, or to each alternative object.
fn with_version(schema: &mut Value) {
    for choice in ["oneOf", "anyOf"] {
        if let Some(choices) = schema.get_mut(choice).and_then(Value::as_array_mut) {
            return choices.iter_mut().for_each(with_version);
        }
    }
    schema["properties"]["version"] = json!({ "const": VERSION });
    match schema["required"].as_array_mut() {
        Some(required) => required.push("version".into()),
        None => schema["required"] = json!(["version"]),
    }
}

/// For documents that only a real machine prints.
#[cfg(test)]
pub(crate) fn assert_is_described<T: JsonSchema + Serialize>(value: &T) {
    let schema = schema("test", &[of::<T>()]);
    let document: Value = serde_json::from_str(&document(value)).expect("it is JSON");
    if let Err(error) = jsonschema::validate(&schema, &document) {
        panic!("{error}: {document}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_one_line_with_a_version() {
        assert_eq!(
            document(&json!({ "zone": "a\nb", "cpus": [1] })),
            r#"{"cpus":[1],"version":1,"zone":"a\nb"}"#
        );
    }
}
