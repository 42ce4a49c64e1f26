//! Inputs in a form that can be copied into a test.

use std::fmt::Write;

/// A Rust byte string literal.
pub(crate) fn of(input: &[u8]) -> String {
    let mut text = String::from("b\"");
    for byte in input {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{}", byte.escape_ascii());
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_plain_is_escaped() {
        assert_eq!(of(b"0-3,\"\\\n\xff"), r#"b"0-3,\"\\\n\xff""#);
        assert_eq!(of(b""), "b\"\"");
    }
}
