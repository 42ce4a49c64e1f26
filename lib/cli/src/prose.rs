//! Manual text: the head of a module, as blocks.

/// A part of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// `# Sets`
    Heading(String),
    /// A paragraph as one line, to be wrapped again. Words between back quotes are literal input.
    Paragraph(String),
    /// An item of a list, as one line.
    Item(String),
    /// Verbatim lines.
    Verbatim(Vec<String>),
}

/// The head of a module, extracted from its source at compile time, so that the program does not contain the rest of the source.
#[macro_export]
macro_rules! head {
    ($source:expr) => {{
        const SOURCE: &str = $source;
        const HEAD: [u8; $crate::prose::head_len(SOURCE)] = $crate::prose::first_bytes(SOURCE);
        match ::core::str::from_utf8(&HEAD) {
            Ok(text) => text,
            Err(_) => "",
        }
    }};
}

/// The length of a module's head in bytes: all lines up to the first that does not begin with `//!`.
#[must_use]
pub const fn head_len(source: &str) -> usize {
    let text = source.as_bytes();
    let mut at = 0;
    while at + 3 <= text.len() && text[at] == b'/' && text[at + 1] == b'/' && text[at + 2] == b'!' {
        while at < text.len() && text[at] != b'\n' {
            at += 1;
        }
        if at < text.len() {
            at += 1;
        }
    }
    at
}

/// The first `N` bytes of a text.
///
/// # Panics
/// If the text is shorter.
#[must_use]
pub const fn first_bytes<const N: usize>(text: &str) -> [u8; N] {
    match text.as_bytes().first_chunk() {
        Some(bytes) => *bytes,
        None => panic!("the text is shorter"),
    }
}

/// The lines of a module's head, without `//!`.
fn head(source: &str) -> impl Iterator<Item = &str> {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    lines.map(|line| line.strip_prefix(' ').unwrap_or(line))
}

/// The blocks of a module's head.
#[must_use]
pub fn blocks(source: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    let mut fenced = false;
    for line in head(source) {
        if line.starts_with("```") {
            blocks.extend(open.take());
            if !fenced {
                open = Some(Block::Verbatim(Vec::new()));
            }
            fenced = !fenced;
            continue;
        }
        if fenced {
            if let Some(Block::Verbatim(lines)) = &mut open {
                lines.push(line.trim_end().to_owned());
            }
            continue;
        }
        let (starts, text) = if let Some(heading) = line.strip_prefix("# ") {
            blocks.extend(open.take());
            blocks.push(Block::Heading(heading.trim().to_owned()));
            continue;
        } else if let Some(item) = line.strip_prefix("* ").or_else(|| line.strip_prefix("- ")) {
            (Some(Block::Item(String::new())), item)
        } else {
            (None, line)
        };
        let text = text.trim();
        if text.is_empty() || starts.is_some() {
            blocks.extend(open.take());
        }
        if text.is_empty() {
            continue;
        }
        match open.get_or_insert_with(|| starts.unwrap_or(Block::Paragraph(String::new()))) {
            Block::Paragraph(open) | Block::Item(open) => {
                if !open.is_empty() {
                    open.push(' ');
                }
                open.push_str(text);
            }
            Block::Heading(_) | Block::Verbatim(_) => {}
        }
    }
    blocks.extend(open);
    blocks
}

/// The blocks before the first heading, and the others.
#[must_use]
pub fn parts(source: &str) -> (Vec<Block>, Vec<Block>) {
    let mut blocks = blocks(source);
    let first = blocks.iter().position(|block| matches!(block, Block::Heading(_))).unwrap_or(blocks.len());
    let rest = blocks.split_off(first);
    (blocks, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "//! Turns `it`\n//! slowly.\n//!\n//! * one\n//!   more\n//! * two\n//!\n//! # Speed\n//!\n\
                          //! ```text\n//! $ turn\n//!   1\n//! ```\n//! After.\n\nfn turn() {}\n//! not the head\n";

    #[test]
    fn a_head_ends_where_its_lines_do() {
        assert_eq!(head!("//! One.\n//! Two.\nuse one;\n//! Three.\n"), "//! One.\n//! Two.\n");
        assert_eq!(head!("//! One."), "//! One.");
        assert_eq!(head!("use one;\n"), "");
    }

    #[test]
    fn a_head_is_taken_apart() {
        assert_eq!(
            blocks(SOURCE),
            [
                Block::Paragraph("Turns `it` slowly.".into()),
                Block::Item("one more".into()),
                Block::Item("two".into()),
                Block::Heading("Speed".into()),
                Block::Verbatim(vec!["$ turn".into(), "  1".into()]),
                Block::Paragraph("After.".into()),
            ]
        );
        let (before, after) = parts(SOURCE);
        assert_eq!((before.len(), after.len()), (3, 3));
    }

    #[test]
    fn fuzz_heads() {
        millpond_fuzz::check_text("cli-prose", &[SOURCE, "//!```\n//! x", "//! - \n//! # "], |text| {
            for block in blocks(text) {
                if let Block::Paragraph(text) | Block::Item(text) = block {
                    assert!(!text.contains('\n'));
                }
            }
        });
    }
}
