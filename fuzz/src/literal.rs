//! Inputs as a reader can copy them into a test.

use std::fmt::Write;

/// A byte string literal of Rust.
pub(crate) fn of(input: &[u8]) -> String {
    let mut text = String::from("b\"");
    for byte in input {
        // Writing to a string cannot fail.
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
