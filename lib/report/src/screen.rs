//! A terminal session as a picture: fixed-width text on a dark window, readable on light and dark pages.

use crate::svg::escaped;
use std::fmt::Write as _;

/// The contents of a terminal. Colours are the usual escape sequences (`ESC[1m`, `ESC[32m`, `ESC[0m`); other control characters are shown
/// as blanks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Screen {
    /// The title of the window.
    pub title: String,
    /// The lines.
    pub text: String,
}

const MARGIN: usize = 16;
const TITLE_HEIGHT: usize = 30;
const LINE_HEIGHT: usize = 16;
/// The width of a character in tenths of a pixel, in the widest of the usual fonts.
const CHARACTER_TENTHS: usize = 73;

const BACKGROUND: &str = "#161b22";
const FOREGROUND: &str = "#d7dde4";
const FRAME: &str = "#6e7681";

/// Colours of the codes 31 to 36, and of 90 (grey).
const COLOURS: [(&str, &str); 7] = [
    ("31", "#ff8078"),
    ("32", "#6fdd8b"),
    ("33", "#e8b34b"),
    ("34", "#79b8ff"),
    ("35", "#d9a6ff"),
    ("36", "#5cd3d8"),
    ("90", "#98a2ad"),
];

/// The style of characters until the next escape sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Style {
    colour: Option<&'static str>,
    is_bold: bool,
}

impl Screen {
    /// The picture, without script and with system fonts.
    #[must_use]
    pub fn svg(&self) -> String {
        let lines: Vec<Vec<(Style, String)>> = self.text.lines().map(spans).collect();
        let columns = |line: &Vec<(Style, String)>| line.iter().map(|(_, text)| text.chars().count()).sum();
        let widest: usize = lines.iter().map(columns).max().unwrap_or(0);
        let width = (widest * CHARACTER_TENTHS).div_ceil(10) + 2 * MARGIN;
        let height = TITLE_HEIGHT + lines.len() * LINE_HEIGHT + MARGIN;
        let title = escaped(&self.title);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"12\" fill=\"{FOREGROUND}\">\n\
             <title>{title}</title>\n\
             <rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"8\" fill=\"{BACKGROUND}\" stroke=\"{FRAME}\"/>\n",
            width - 1,
            height - 1,
        );
        for (at, fill) in ["#ff5f57", "#febc2e", "#28c840"].iter().enumerate() {
            let _ =
                writeln!(svg, "<circle cx=\"{}\" cy=\"16\" r=\"5\" fill=\"{fill}\"/>", MARGIN + 4 + 17 * at);
        }
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"20\" text-anchor=\"middle\" fill=\"#98a2ad\">{title}</text>",
            width / 2
        );
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
            let y = TITLE_HEIGHT + at * LINE_HEIGHT + 12;
            let body: String = line.iter().map(|(style, text)| style.svg(text)).collect();
            let _ = writeln!(svg, "<text x=\"{MARGIN}\" y=\"{y}\" xml:space=\"preserve\">{body}</text>");
        }
        svg += "</svg>\n";
        svg
    }
}

impl Style {
    /// The style after an escape sequence with these codes. Unknown codes have no effect.
    fn after(self, codes: &str) -> Style {
        codes.split(';').fold(self, |style, code| match code {
            "" | "0" => Style::default(),
            "1" => Style { is_bold: true, ..style },
            "39" => Style { colour: None, ..style },
            code => match COLOURS.iter().find(|(known, _)| *known == code) {
                Some((_, colour)) => Style { colour: Some(colour), ..style },
                None => style,
            },
        })
    }

    fn svg(self, text: &str) -> String {
        let text = escaped(text);
        let bold = if self.is_bold { " font-weight=\"bold\"" } else { "" };
        match self.colour {
            None if !self.is_bold => text,
            None => format!("<tspan{bold}>{text}</tspan>"),
            Some(colour) => format!("<tspan fill=\"{colour}\"{bold}>{text}</tspan>"),
        }
    }
}

/// A line as spans of one style each, without its colour sequences.
fn spans(line: &str) -> Vec<(Style, String)> {
    let mut spans = Vec::new();
    let mut style = Style::default();
    for (at, part) in line.split("\u{1b}[").enumerate() {
        let is_code = |c: char| c.is_ascii_digit() || c == ';';
        let text = match part.split_once('m') {
            _ if at == 0 => part.to_owned(),
            Some((codes, text)) if codes.chars().all(is_code) => {
                style = style.after(codes);
                text.to_owned()
            }
            _ => format!(" [{part}"),
        };
        if !text.is_empty() {
            spans.push((style, text));
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn svg(text: &str) -> String {
        Screen { title: "t & u".into(), text: text.into() }.svg()
    }

    #[test]
    fn lines_stand_below_each_other_in_their_colours() {
        let svg = svg("\u{1b}[1;32m$\u{1b}[0m psrinfo\n\n0  on-line\n");
        let expected = "\
<text x=\"16\" y=\"42\" xml:space=\"preserve\"><tspan fill=\"#6fdd8b\" font-weight=\"bold\">$</tspan> psrinfo</text>
<text x=\"16\" y=\"74\" xml:space=\"preserve\">0  on-line</text>
</svg>
";
        assert!(svg.ends_with(expected), "{svg}");
        // Ten characters of 7.3 pixels and two margins; three lines of 16 below the title, and a margin.
        assert!(svg.contains("viewBox=\"0 0 105 94\""), "{svg}");
        assert!(svg.contains("<title>t &amp; u</title>"), "{svg}");
    }

    #[test]
    fn a_hostile_name_is_shown_as_text() {
        let svg = svg("a</text><script>\u{1b}[2Jb\u{7}\u{1b}]0;x\u{1b}[9mc\n");
        assert!(svg.contains(">a&lt;/text&gt;&lt;script&gt; [2Jb  ]0;xc</text>"), "{svg}");
        assert!(!svg.contains('\u{1b}') && !svg.contains('\u{7}'), "{svg}");
    }
}
