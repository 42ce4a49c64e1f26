//! Validates the output of commands with `--json` against the schemas of their documents.

use jsonschema::Validator;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The validators by command.
static VALIDATORS: LazyLock<BTreeMap<&str, Result<Validator, String>>> = LazyLock::new(|| {
    let closed = |(name, mut schema): (&'static str, Value)| {
        close(&mut schema, true);
        (name, jsonschema::validator_for(&schema).map_err(|error| error.to_string()))
    };
    millpond_cmd::schemas().into_iter().map(closed).collect()
});

/// Makes a schema reject unknown fields. Readers accept fields that they do not know, but here the schema must have all fields.
/// If `whole` is false, some of the fields are in another schema.
fn close(schema: &mut Value, whole: bool) {
    const CHOICES: [&str; 2] = ["oneOf", "anyOf"];
    match schema {
        Value::Object(fields) => {
            let is_object =
                fields.get("properties").is_some_and(Value::is_object) && fields.contains_key("type");
            let has_choices = is_object && CHOICES.iter().any(|choice| fields.contains_key(*choice));
            for (key, value) in fields.iter_mut() {
                close(value, !(has_choices && CHOICES.contains(&key.as_str())));
            }
            if is_object && whole {
                let others = if has_choices { "unevaluatedProperties" } else { "additionalProperties" };
                fields.entry(others).or_insert(false.into());
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|one| close(one, whole)),
        _ => {}
    }
}

/// The difference between a command's output and its schema; `None` for a command without JSON output.
#[must_use]
pub fn breach(words: &[String], out: &[String]) -> Option<String> {
    if !words.iter().take_while(|word| *word != "--").any(|word| word == "--json") || out.is_empty() {
        return None;
    }
    let name = words.iter().map(String::as_str).find(|word| *word != "millpond")?;
    let Some(validator) = VALIDATORS.get(name) else {
        return Some(format!("{name} prints JSON, and has no schema"));
    };
    let validator = match validator {
        Ok(validator) => validator,
        Err(why) => return Some(format!("the schema is invalid: {why}")),
    };
    out.iter().find_map(|line| match serde_json::from_str(line) {
        Err(error) => Some(format!("not JSON: {error}: {line}")),
        Ok(document) => validator
            .validate(&document)
            .err()
            .map(|error| format!("not as its schema says: {error}: {line}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> Option<String> {
        breach(&["psrset".to_owned(), "-p".to_owned(), "--json".to_owned()], &[line.to_owned()])
    }

    #[test]
    fn commands_without_a_schema_are_those_that_print_no_json() {
        let named = millpond_cmd::COMMANDS.iter().map(|command| command.spec.name);
        let without = |name: &&str| !VALIDATORS.contains_key(name);
        assert_eq!(named.filter(without).collect::<Vec<_>>(), ["export", "sim", "help", "complete"]);
    }

    #[test]
    fn a_document_that_differs_from_its_schema_is_found() {
        assert_eq!(said(r#"{"processors":[{"id":1,"set":null}],"version":1}"#), None);
        for wrong in [
            r#"{"processors":[{"id":1,"set":null}]}"#,
            r#"{"processors":[{"id":1,"set":null}],"version":2}"#,
            r#"{"processors":[{"id":1}],"version":1}"#,
            r#"{"processors":[{"id":"1","set":null}],"version":1}"#,
            r#"{"processors":[{"id":1,"set":null,"more":1}],"version":1}"#,
            r#"{"processors":[],"more":1,"version":1}"#,
            "{",
        ] {
            assert!(said(wrong).is_some(), "{wrong}");
        }
    }
}
