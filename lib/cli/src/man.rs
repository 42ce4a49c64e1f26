//! Manual pages, in the macros of man(7).

use crate::manual::{Section, sections};
use crate::prose::Block;
use crate::spec::{Example, Flag, Spec};

/// Text escaped for troff: no control sequences, and non-ASCII characters by number.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\\' => out += "\\e",
            '-' => out += "\\-",
            c if c.is_ascii() => out.push(c),
            c => out += &format!("\\[u{:04X}]", u32::from(c)),
        }
    }
    out
}

/// A line of text that does not begin with a control character.
fn line(text: &str) -> String {
    let text = escaped(text);
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

/// A paragraph: each sentence starts on a new line, and words between back quotes are bold.
fn paragraph(text: &str) -> String {
    let mut out = String::new();
    for sentence in text.split_inclusive(". ") {
        let mut bold = false;
        let mut shown = String::new();
        for part in sentence.trim_end().split_inclusive('`') {
            shown += &escaped(part.trim_end_matches('`'));
            if part.ends_with('`') {
                bold = !bold;
                shown += if bold { "\\fB" } else { "\\fR" };
            }
        }
        if shown.starts_with(['.', '\'']) {
            shown.insert_str(0, "\\&");
        }
        out += &shown;
        out.push('\n');
    }
    out
}

fn section(title: &str) -> String {
    format!(".SH {}\n", quoted(&title.to_uppercase()))
}

/// An argument of a macro.
fn quoted(text: &str) -> String {
    format!("\"{}\"", line(text).replace('"', "\\(dq"))
}

/// Verbatim lines.
fn verbatim(lines: &[String]) -> String {
    let lines: String = lines.iter().map(|text| line(text) + "\n").collect();
    format!(".RS 4\n.nf\n{lines}.fi\n.RE\n")
}

fn body(blocks: &[Block]) -> String {
    let mut text = String::new();
    let mut after_heading = true;
    for block in blocks {
        text += &match block {
            Block::Heading(heading) => section(heading),
            Block::Paragraph(words) if after_heading => paragraph(words),
            Block::Paragraph(words) => format!(".PP\n{}", paragraph(words)),
            Block::Item(words) => format!(".IP \\(bu 2\n{}", paragraph(words)),
            Block::Verbatim(lines) if after_heading => verbatim(lines),
            Block::Verbatim(lines) => format!(".PP\n{}", verbatim(lines)),
        };
        after_heading = matches!(block, Block::Heading(_));
    }
    text
}

fn option(flag: &Flag) -> String {
    let names = escaped(&flag.names());
    let behind = escaped(&flag.form()[flag.names().len()..]);
    format!(".TP\n\\fB{names}\\fR{behind}\n{}", paragraph(flag.help))
}

fn options(flags: &[Flag]) -> String {
    let part = |flag: &Flag| {
        let heading = flag.heading.map(|heading| format!(".SS {}\n", quoted(heading))).unwrap_or_default();
        heading + &option(flag)
    };
    flags.iter().map(part).collect()
}

fn pairs(rows: &[(&str, &str)]) -> String {
    rows.iter().map(|(name, what)| format!(".TP\n\\fB{}\\fR\n{}", line(name), paragraph(what))).collect()
}

/// The page of a command. `version` is that of the program, `date` that of the release (`2026-11-25`).
#[must_use]
pub fn page(spec: &Spec, version: &str, date: &str) -> String {
    let title = spec.page().to_uppercase();
    let (title, program) = (quoted(&title), quoted(&format!("millpond {version}")));
    // mandoc requires the date without escapes.
    let mut text = format!(".TH {title} {} \"{date}\" {program} \"Millpond\"\n", spec.section);
    text += &format!(".SH NAME\n{} \\- {}\n", line(&spec.page()), line(spec.summary));
    text += ".SH SYNOPSIS\n.nf\n";
    for form in spec.forms {
        text += &format!("\\fB{}\\fR {}", line(&spec.prog()), escaped(form));
        text = text.trim_end().to_owned() + "\n";
    }
    text += ".fi\n.SH DESCRIPTION\n";
    for part in sections(spec) {
        text += &match part {
            Section::Prose(blocks) => body(&blocks),
            Section::Options(title, flags, _) => section(title) + &options(&flags),
            Section::Examples(examples) => {
                let example = |example: &Example| {
                    let words = format!("{} {}", spec.prog(), example.words);
                    format!(".TP\n\\fB{}\\fR\n{}", line(words.trim_end()), paragraph(example.what))
                };
                section("Examples") + &examples.iter().map(example).collect::<String>()
            }
            Section::Rows(title, rows) => section(title) + &pairs(rows),
            Section::SeeAlso(pages) => format!("{}{}\n", section("See also"), line(&pages.join(", "))),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::ValueKind;

    #[test]
    fn no_word_of_a_text_becomes_a_request() {
        assert_eq!(line(".so /etc/passwd"), "\\&.so /etc/passwd");
        assert_eq!(line("'x \\n -"), "\\&'x \\en \\-");
        assert_eq!(line("5 µs …"), "5 \\[u00B5]s \\[u2026]");
        assert_eq!(paragraph(".x `-a` is. Then \\b."), "\\&.x \\fB\\-a\\fR is.\nThen \\eb.\n");
    }

    #[test]
    fn a_page_has_its_sections_in_order() {
        const TURN: Spec = Spec {
            name: "turn",
            summary: "turn the wheel",
            forms: &["[-n count]"],
            flags: &[Flag::letter('n', "how many").value("count", ValueKind::Count(1, 9))],
            common: &[],
            prose: "//! Turns.\n//!\n//! # Speed\n//!\n//! ```text\n//! .1\n//! ```\n",
            status: &[("0", "done")],
            ..Spec::NEW
        };
        let expected = "\
.TH \"MILLPOND\\-TURN\" 1 \"2026-11-25\" \"millpond 0.1.0\" \"Millpond\"
.SH NAME
millpond\\-turn \\- turn the wheel
.SH SYNOPSIS
.nf
\\fBmillpond turn\\fR [\\-n count]
.fi
.SH DESCRIPTION
Turns.
.SH \"OPTIONS\"
.TP
\\fB\\-n\\fR count
how many
.SH \"SPEED\"
.RS 4
.nf
\\&.1
.fi
.RE
.SH \"EXIT STATUS\"
.TP
\\fB0\\fR
done
";
        assert_eq!(page(&TURN, "0.1.0", "2026-11-25"), expected);
    }
}
