//! Extracts prose from pages and Rust files: paragraphs with their lines, without code.

use crate::{Scan, SourceFile};

/// A paragraph, a table row, a list item or a string literal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Paragraph {
    /// Its words, each with its line (counted from 1). A code span is the one word `` ` ``.
    words: Vec<(usize, String)>,
}

/// Represents a code span.
const CODE: &str = "`";

impl Paragraph {
    /// The words with their lines, as written, with punctuation.
    #[must_use]
    pub fn words(&self) -> &[(usize, String)] {
        &self.words
    }

    /// The sentences. A word that ends with a full stop, a question mark or an exclamation mark ends a sentence.
    pub fn sentences(&self) -> impl Iterator<Item = &[(usize, String)]> {
        self.words.split_inclusive(|(_, word)| {
            word.trim_end_matches(['"', ')', '*', '_', '\'']).ends_with(['.', '?', '!'])
        })
    }

    fn push_line(&mut self, line: usize, text: &str) {
        let text = without_links(&without_code(text));
        self.words.extend(text.split_whitespace().map(|word| (line, word.to_owned())));
    }
}

/// Replaces code spans by [`CODE`].
fn without_code(text: &str) -> String {
    let mut parts = text.split('`');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    while let Some(_code) = parts.next() {
        plain.push_str(CODE);
        plain.push_str(parts.next().unwrap_or_default());
    }
    plain
}

/// Drops the target of each `[text](target)`.
fn without_links(text: &str) -> String {
    let mut parts = text.split("](");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push(']');
        plain.push_str(part.split_once(')').map_or("", |(_, rest)| rest));
    }
    plain
}

/// The paragraphs of a Markdown page. Fenced and indented blocks are code.
#[must_use]
pub fn of_page(text: &str) -> Vec<Paragraph> {
    of_lines(text.lines().enumerate().map(|(at, line)| (at + 1, line)))
}

/// The paragraphs of a file's head: its first lines that begin with `//!`.
#[must_use]
pub fn of_head(file: &SourceFile) -> Vec<Paragraph> {
    let lines = file.text.lines().enumerate();
    of_lines(lines.map_while(|(at, line)| {
        let text = line.strip_prefix("//!")?;
        Some((at + 1, text.strip_prefix(' ').unwrap_or(text)))
    }))
}

/// String literals of the product's code that can be messages: at least two words, outside tests, and not the reason of an
/// attribute or a panic.
#[must_use]
pub fn of_literals(scan: &Scan) -> Vec<Paragraph> {
    const FOR_DEVELOPERS: [&str; 5] = ["reason =", "expect(", "panic!(", "assert", "unreachable!("];
    let is_for_users = |line: usize| {
        let code = scan.code.get(line - 1).map_or("", String::as_str);
        !scan.is_test_line(line) && !FOR_DEVELOPERS.iter().any(|mark| code.contains(mark))
    };
    let literals = scan.literals.iter().filter(|(line, _)| is_for_users(*line));
    let paragraphs = literals.map(|(line, text)| {
        let mut paragraph = Paragraph::default();
        for (at, text) in text.replace("\\n", "\n").replace("\\\n", " \n").split('\n').enumerate() {
            // An escaped newline shifts the lines of later words. The line of the first word is correct.
            paragraph.push_line(line + at, &text.replace(['{', '}'], "`"));
        }
        paragraph
    });
    paragraphs.filter(|paragraph| paragraph.words.len() > 1).collect()
}

fn of_lines<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<Paragraph> {
    let mut paragraphs = vec![Paragraph::default()];
    let mut is_code = false;
    for (line, text) in lines {
        let trimmed = text.trim_start();
        if trimmed.starts_with("```") {
            is_code = !is_code;
        }
        let is_own = trimmed.starts_with(['#', '|', '-', '*']) || starts_with_number(trimmed);
        if trimmed.is_empty() || is_own {
            paragraphs.push(Paragraph::default());
        }
        let begins = paragraphs.last().is_none_or(|last| last.words.is_empty());
        let is_indented_code = text.starts_with("    ") && begins && !is_own;
        if let (false, Some(last)) =
            (is_code || is_indented_code || trimmed.starts_with("```"), paragraphs.last_mut())
        {
            last.push_line(line, trimmed);
        }
    }
    paragraphs.retain(|paragraph| !paragraph.words.is_empty());
    paragraphs
}

/// Whether the text begins with a numbered list item.
fn starts_with_number(text: &str) -> bool {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < text.len() && rest.starts_with(". ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(paragraphs: &[Paragraph]) -> Vec<String> {
        let joined = |paragraph: &Paragraph| {
            let words: Vec<&str> = paragraph.words.iter().map(|(_, word)| word.as_str()).collect();
            format!("{}: {}", paragraph.words[0].0, words.join(" "))
        };
        paragraphs.iter().map(joined).collect()
    }

    #[test]
    fn code_and_targets_of_links_are_no_prose() {
        let page = "# A `b c` d\n\nsee [this\npage](who.md), x\n\n```sh\nwho\n```\n- one\n- two\n  more\n\n    who\n| a | b |\n2. three\n";
        assert_eq!(
            said(&of_page(page)),
            [
                "1: # A ` d",
                "3: see [this page], x",
                "9: - one",
                "10: - two more",
                "14: | a | b |",
                "15: 2. three"
            ]
        );
    }

    #[test]
    fn a_head_ends_where_code_begins() {
        let file = SourceFile {
            path: "a.rs".into(),
            text: "//! One\n//! two.\n//!\n//!     $ who\n//!\n//! Three.\n\n//! Four.\n".into(),
            is_test: false,
        };
        assert_eq!(said(&of_head(&file)), ["1: One two.", "6: Three."]);
    }

    #[test]
    fn messages_are_literals_of_two_words_outside_tests() {
        let scan = Scan::of(
            "f(\"one\");\ng(\"two {who:?} words\");\n#[allow(x, reason = \"a b\")]\nh().expect(\"e f\");\n#[cfg(test)]\nmod a { f(\"g h\"); }\n",
        );
        assert_eq!(said(&of_literals(&scan)), ["2: two ` words"]);
        assert_eq!(said(&of_literals(&Scan::of("h(\"c\\n\\\n   d\");\n"))), ["1: c d"]);
    }

    #[test]
    fn a_sentence_ends_with_its_mark() {
        let paragraphs = of_page("One two. Is (it?) so\nmany `x.` words");
        let lengths: Vec<usize> = paragraphs[0].sentences().map(<[_]>::len).collect();
        assert_eq!(lengths, [2, 2, 4]);
    }
}
