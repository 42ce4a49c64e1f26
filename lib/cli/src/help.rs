//! Help at a terminal: `--help` (short) and `help COMMAND` (the whole manual).

use crate::manual::{Section, sections};
use crate::prose::{self, Block};
use crate::spec::{Flag, Spec};
use crate::text::{WIDTH, table, wrap};
pub use crate::usage::{for_words, shows, unknown, usage, usage_of_solaris};

/// The widest option with its help on the same line, in columns.
const OPTION_WIDTH: usize = 26;

/// The output of `--help`: summary, forms, options and examples. It fits on one or two screens.
#[must_use]
pub fn short(spec: &Spec) -> String {
    let mut text = format!("{}: {}\n\n{}", spec.prog(), spec.summary, usage(spec));
    if spec.own_flags().next().is_some() {
        text += &format!("\noptions:\n{}", options(spec.own_flags()));
    }
    if !spec.common.is_empty() {
        let title = if spec.own_flags().next().is_none() { "options" } else { "options of every command" };
        text += &format!("\n{title}:\n{}", options(spec.common));
    }
    if !spec.examples.is_empty() {
        text += &format!("\nexamples:\n{}", examples(spec));
    }
    let manual = if spec.applet { spec.name.to_owned() } else { spec.page() };
    text + &format!("\nThe manual: millpond help {}, or man {manual}.\n", spec.name)
}

/// The output of `help COMMAND`: the whole manual.
#[must_use]
pub fn manual(spec: &Spec) -> String {
    let head = format!("{}: {}\n\n{}\n", spec.prog(), spec.summary, usage(spec));
    let section = |section| match section {
        Section::Prose(blocks) => plain(&blocks),
        Section::Options(title, flags, _) => under(title, &options(&flags)),
        Section::Examples(_) => under("Examples", &examples(spec)),
        Section::Rows(title, rows) => {
            let rows = rows.iter().map(|(name, what)| ((*name).to_owned(), *what));
            under(title, &table(rows, 4, OPTION_WIDTH))
        }
        Section::SeeAlso(pages) => under("See also", &wrap(&pages.join(", "), 4)),
    };
    head + &sections(spec).into_iter().map(section).collect::<String>()
}

fn under(title: &str, body: &str) -> String {
    format!("\n{}\n\n{body}", title.to_uppercase())
}

/// The head of a module as manual text.
#[must_use]
pub fn prose(source: &str) -> String {
    plain(&prose::blocks(source))
}

/// Options with their help.
pub fn options<'f>(flags: impl IntoIterator<Item = &'f Flag>) -> String {
    let flags: Vec<&Flag> = flags.into_iter().collect();
    let mut text = String::new();
    for part in flags.chunk_by(|_, next| next.heading.is_none()) {
        if let Some(heading) = part.first().and_then(|flag| flag.heading) {
            text += &format!("{}  {heading}:\n", if text.is_empty() { "" } else { "\n" });
        }
        text += &table(part.iter().map(|flag| (flag.form(), flag.help)), 4, OPTION_WIDTH);
    }
    text
}

/// Examples: the command line, and its description on the next line.
fn examples(spec: &Spec) -> String {
    let lines = spec.examples.iter().map(|example| {
        let line = format!("    {} {}", spec.prog(), example.words);
        format!("{}\n{}", line.trim_end(), wrap(example.what, 8))
    });
    lines.collect()
}

/// Blocks as plain text.
fn plain(blocks: &[Block]) -> String {
    let mut text = String::new();
    for (at, block) in blocks.iter().enumerate() {
        let in_list = matches!(block, Block::Item(_))
            && matches!(at.checked_sub(1).map(|at| &blocks[at]), Some(Block::Item(_)));
        if !in_list && (at > 0 || matches!(block, Block::Heading(_))) {
            text.push('\n');
        }
        match block {
            Block::Heading(heading) => text += &format!("{}\n", heading.to_uppercase()),
            Block::Paragraph(paragraph) => text += &wrap(&paragraph.replace('`', ""), 0),
            Block::Item(item) => {
                let item = wrap(&item.replace('`', ""), 4);
                text += &format!("  * {}", item.trim_start());
            }
            Block::Verbatim(lines) => {
                lines.iter().for_each(|line| text += format!("    {line}\n").trim_end_matches(' '));
            }
        }
    }
    text
}

/// A paragraph, wrapped and indented like the rows of [`list`].
#[must_use]
pub fn paragraph(text: &str) -> String {
    wrap(text, 2)
}

/// Rows of a list of commands: name and summary.
#[must_use]
pub fn list<'t>(rows: impl IntoIterator<Item = (&'t str, &'t str)>) -> String {
    let rows: Vec<(String, &str)> =
        rows.into_iter().map(|(name, summary)| (name.to_owned(), summary)).collect();
    table(rows, 2, WIDTH / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Example, Operands, ValueKind};

    const TURN: Spec = Spec {
        name: "turn",
        applet: true,
        summary: "turn the wheel",
        section: 8,
        forms: &["[-n count] wheel ...", "-l"],
        flags: &[
            Flag::both('n', "count", "how many turns").value("count", ValueKind::Count(1, 9)),
            Flag::letter('l', "list the wheels").under("Lists"),
        ],
        common: &[Flag::long("help", "print this help")],
        operands: Operands { shown: "wheel ...", kinds: &[ValueKind::Text] },
        examples: &[Example { words: "-n 2 big", what: "turn the big wheel twice" }],
        files: &[("/etc/wheels", "the wheels")],
        see_also: &["stop"],
        prose: "//! Turns `wheels`.\n//!\n//! * slowly\n//! * surely\n//!\n//! # Speed\n//!\n//! ```text\n//! 1 rpm\n//! ```\n",
        ..Spec::NEW
    };

    #[test]
    fn short_help_has_options_and_examples_and_names_the_manual() {
        let expected = "\
turn: turn the wheel

usage: turn [-n count] wheel ...
       turn -l

options:
    -n, --count count  how many turns

  Lists:
    -l  list the wheels

options of every command:
    --help  print this help

examples:
    turn -n 2 big
        turn the big wheel twice

The manual: millpond help turn, or man turn.
";
        assert_eq!(short(&TURN), expected);
    }

    #[test]
    fn the_manual_has_everything() {
        let expected = "\
turn: turn the wheel

usage: turn [-n count] wheel ...
       turn -l

Turns wheels.

  * slowly
  * surely

OPTIONS

    -n, --count count  how many turns

  Lists:
    -l  list the wheels

OPTIONS OF EVERY COMMAND

    --help  print this help

EXAMPLES

    turn -n 2 big
        turn the big wheel twice

SPEED

    1 rpm

FILES

    /etc/wheels  the wheels

EXIT STATUS

    0  everything was done
    1  something was refused; what could be done was done
    2  the command line is wrong; nothing was done

SEE ALSO

    stop
";
        assert_eq!(manual(&TURN), expected);
    }
}
