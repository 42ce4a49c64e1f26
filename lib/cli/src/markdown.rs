//! A page of the reference, in Markdown.

use crate::prose::{self, Block};
use crate::spec::{Flag, Spec};

/// Characters that Markdown would take for its own, in plain words.
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

fn pairs(rows: &[(&str, &str)]) -> String {
    rows.iter().map(|(name, what)| format!("* `{name}`: {}\n", escaped(what))).collect::<String>() + "\n"
}

/// The page of a command.
#[must_use]
pub fn page(spec: &Spec) -> String {
    let (description, sections) = prose::parts(spec.prose);
    let prog = spec.prog();
    let mut text = format!("# {prog}\n\n{}.\n\n```text\n", escaped(&capitalised(spec.summary)));
    for form in spec.forms {
        text += format!("{prog} {form}").trim_end();
        text.push('\n');
    }
    text += "```\n\n";
    text += &body(&description);
    let own: Vec<Flag> = spec.own_flags().copied().collect();
    if !own.is_empty() {
        text += &format!("## Options\n\n{}", options(&own));
    }
    if !spec.examples.is_empty() {
        text += "## Examples\n\n";
        for example in spec.examples {
            text += &format!(
                "* `{}`: {}\n",
                format!("{prog} {}", example.words).trim_end(),
                escaped(example.what)
            );
        }
        text.push('\n');
    }
    text += &body(&sections);
    if !spec.files.is_empty() {
        text += &format!("## Files\n\n{}", pairs(spec.files));
    }
    text += &format!("## Exit status\n\n{}", pairs(spec.status));
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
