//! Foreign names as printable text: no character moves the cursor, starts a line or changes the text direction.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character would affect a terminal or the reading order: control characters (C0, DEL, C1), line ends, and overrides
/// of the text direction.
#[must_use]
pub fn is_unprintable(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A name chosen by another user (of a thread, a process, a cgroup, a file), for a table or a message. Unprintable characters are escaped:
/// `\n`, `\t`, `\r`, `\u001b`. Other characters stay unchanged.
#[must_use]
pub fn printable(name: &str) -> Cow<'_, str> {
    if name.chars().any(is_unprintable) { Cow::Owned(escaped(name, is_unprintable)) } else { name.into() }
}

/// A text with escapes for the characters that `is_escaped` selects; all of them must be [unprintable](is_unprintable). The escapes are those of
/// JSON, so a JSON document stays valid and keeps its contents.
#[must_use]
pub fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_escaped(c) {
            match c {
                '\n' => safe.push_str("\\n"),
                '\t' => safe.push_str("\\t"),
                '\r' => safe.push_str("\\r"),
                // Writing to a `String` cannot fail.
                _ => {
                    let _ = write!(safe, "\\u{:04x}", u32::from(c));
                }
            }
        } else {
            safe.push(c);
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_cursors_begins_rows_or_turns_text_is_escaped_and_nothing_else() {
        for same in ["", "nginx: worker", "a) b\\n (c)", "größe", "漢字", "\u{fffd}"] {
            assert!(matches!(printable(same), Cow::Borrowed(text) if text == same), "{same}");
        }
        assert_eq!(printable("a\nb\tc\r\u{1b}[2J\u{7f}"), "a\\nb\\tc\\r\\u001b[2J\\u007f");
        assert_eq!(
            printable("\u{9b}31m \u{202e}txt.exe \u{2066}x\u{2028}"),
            "\\u009b31m \\u202etxt.exe \\u2066x\\u2028"
        );
    }
}
