//! A page of the reference, in Markdown.

use crate::manual::{Section, sections};
use crate::prose::Block;
use crate::spec::{Flag, Spec};

/// Escapes characters with a meaning in Markdown.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    let mut code = false;
    for c in text.chars() {
        if c == '`' {
            code = !code;
        } else if !code && matches!(c, '*' | '_' | '<' | '>' | '|' | '[' | ']' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

fn body(blocks: &[Block]) -> String {
    let mut text = String::new();
    let mut in_list = false;
    for block in blocks {
        let item = matches!(block, Block::Item(_));
        if in_list && !item {
            text.push('\n');
        }
        in_list = item;
        text += &match block {
            Block::Heading(heading) => format!("## {heading}\n\n"),
            Block::Paragraph(words) => format!("{}\n\n", escaped(words)),
            Block::Item(words) => format!("* {}\n", escaped(words)),
            Block::Verbatim(lines) => format!("```text\n{}\n```\n\n", lines.join("\n")),
        };
    }
    if in_list { text + "\n" } else { text }
}

fn options(flags: &[Flag]) -> String {
    let mut text = String::new();
    for (at, flag) in flags.iter().enumerate() {
        if let Some(heading) = flag.heading {
            text += &format!("{}### {heading}\n\n", if at > 0 { "\n" } else { "" });
        }
        if at == 0 || flag.heading.is_some() {
            text += "| option | what it does |\n|---|---|\n";
        }
        text += &format!("| `{}` | {} |\n", flag.form().replace('|', "\\|"), escaped(flag.help));
    }
    text + "\n"
}

fn pairs<'t>(rows: impl Iterator<Item = (&'t str, &'t str)>) -> String {
    rows.map(|(name, what)| format!("* `{name}`: {}\n", escaped(what))).collect::<String>() + "\n"
}

/// The page of a command.
#[must_use]
pub fn page(spec: &Spec) -> String {
    let prog = spec.prog();
    let mut text = format!("# {prog}\n\n{}.\n\n```text\n", escaped(&capitalised(spec.summary)));
    for form in spec.forms {
        text += format!("{prog} {form}").trim_end();
        text.push('\n');
    }
    text += "```\n\n";
    for section in sections(spec) {
        text += &match section {
            Section::Prose(blocks) => body(&blocks),
            Section::Options(title, flags, false) => format!("## {title}\n\n{}", options(&flags)),
            Section::Examples(examples) => {
                let lines =
                    examples.iter().map(|example| (format!("{prog} {}", example.words), example.what));
                let rows: Vec<_> = lines.map(|(line, what)| (line.trim_end().to_owned(), what)).collect();
                format!("## Examples\n\n{}", pairs(rows.iter().map(|(line, what)| (line.as_str(), *what))))
            }
            Section::Rows(title, rows) => format!("## {title}\n\n{}", pairs(rows.iter().copied())),
            // The reference lists common options in one place, and has its own links.
            Section::Options(..) | Section::SeeAlso(_) => continue,
        };
    }
    text.trim_end().to_owned() + "\n"
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_is_left_as_it_is() {
        assert_eq!(escaped("a_b `a_b` <c>"), "a\\_b `a_b` \\<c\\>");
    }

    #[test]
    fn a_page_has_forms_options_and_status() {
        const TURN: Spec = Spec {
            name: "turn",
            applet: true,
            summary: "turn the wheel",
            forms: &["[-l]", ""],
            flags: &[Flag::letter('l', "list a|b").under("Lists")],
            prose: "//! Turns.\n//!\n//! * one\n//!\n//! # Speed\n//!\n//! Slow.\n",
            status: &[("0", "done")],
            ..Spec::NEW
        };
        let expected = "\
# turn

Turn the wheel.

```text
turn [-l]
turn
```

Turns.

* one

## Options

### Lists

| option | what it does |
|---|---|
| `-l` | list a\\|b |

## Speed

Slow.

## Exit status

* `0`: done
";
        assert_eq!(page(&TURN), expected);
    }
}
