//! JSON for programs: each document of each command is written here, with its version.

use serde::Serialize;
use serde_json::Value;

/// Raised when a field goes, or gets another meaning or type; `docs/reference/json.md` is the promise.
const VERSION: u32 = 1;

/// A document on one line, with its version. Keys are sorted.
pub fn document(document: &impl Serialize) -> String {
    // Structs, texts and numbers of ours: nothing that JSON could not hold.
    let mut document = serde_json::to_value(document).unwrap_or_default();
    if let Value::Object(fields) = &mut document {
        fields.insert("version".to_owned(), VERSION.into());
    }
    document.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_document_is_one_line_with_a_version() {
        assert_eq!(
            document(&json!({ "zone": "a\nb", "cpus": [1] })),
            r#"{"cpus":[1],"version":1,"zone":"a\nb"}"#
        );
    }
}
