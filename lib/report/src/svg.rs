//! The grammar of a picture: elements as text, always the same bytes.

use std::fmt::Write as _;

/// Colours that tell six things apart, on white and in grey, also for those who see fewer colours.
pub(crate) const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// The colour of the n-th thing; the seventh has the first one's.
pub(crate) fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}

/// Which point of a text stands at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture that is being drawn. Places are in pixels from the upper left corner.
pub(crate) struct Picture {
    body: String,
    width: f64,
    height: f64,
}

impl Picture {
    pub fn new(width: f64, height: f64) -> Picture {
        Picture { body: String::new(), width, height }
    }

    pub fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), fill: &str, title: &str) {
        let _ = writeln!(
            self.body,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{fill}\"><title>{}</title></rect>",
            pixels(x),
            pixels(y),
            pixels(width),
            pixels(height),
            escaped(title)
        );
    }

    pub fn circle(&mut self, (x, y): (f64, f64), radius: f64, fill: &str, title: &str) {
        let _ = writeln!(
            self.body,
            "<circle cx=\"{}\" cy=\"{}\" r=\"{}\" fill=\"{fill}\"><title>{}</title></circle>",
            pixels(x),
            pixels(y),
            pixels(radius),
            escaped(title)
        );
    }

    pub fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), stroke: &str) {
        let _ = writeln!(
            self.body,
            "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{stroke}\"/>",
            pixels(x1),
            pixels(y1),
            pixels(x2),
            pixels(y2)
        );
    }

    pub fn polyline(&mut self, points: &[(f64, f64)], stroke: &str) {
        let points: Vec<String> =
            points.iter().map(|(x, y)| format!("{},{}", pixels(*x), pixels(*y))).collect();
        let _ = writeln!(
            self.body,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"2\"/>",
            points.join(" ")
        );
    }

    pub fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = writeln!(
            self.body,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            pixels(x),
            pixels(y),
            escaped(text)
        );
    }

    /// Text of a fixed width, whose blanks count.
    pub fn fixed(&mut self, (x, y): (f64, f64), text: &str) {
        let _ = writeln!(
            self.body,
            "<text x=\"{}\" y=\"{}\" font-family=\"monospace\" xml:space=\"preserve\">{}</text>",
            pixels(x),
            pixels(y),
            escaped(text)
        );
    }

    /// The whole document, whose height became known at last.
    pub fn finish_at(self, height: f64, title: &str) -> String {
        Picture { height, ..self }.finish(title)
    }

    /// The whole document.
    pub fn finish(self, title: &str) -> String {
        let (width, height) = (pixels(self.width), pixels(self.height));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n<title>{}</title>\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n{}</svg>\n",
            escaped(title),
            self.body
        )
    }
}

/// A tenth of a pixel is enough; whole pixels have no point.
fn pixels(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Text that cannot be taken for an element. Control characters, which XML forbids, become spaces.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_written_element_by_element() {
        let mut picture = Picture::new(100.0, 50.0);
        picture.rect((1.0, 2.25), (3.0, 4.0), colour(0), "a < b");
        picture.circle((7.5, 8.0), 3.0, "black", "p & q");
        picture.line((0.0, 0.0), (10.0, 0.04), "grey");
        picture.polyline(&[(1.0, 2.0), (3.5, 4.0)], colour(7));
        picture.text((5.0, 6.0), Anchor::Middle, "x & y");
        let expected = "\
<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"100\" height=\"50\" viewBox=\"0 0 100 50\" font-family=\"sans-serif\" font-size=\"12\">
<title>t</title>
<rect width=\"100\" height=\"50\" fill=\"white\"/>
<rect x=\"1\" y=\"2.2\" width=\"3\" height=\"4\" fill=\"#0072b2\"><title>a &lt; b</title></rect>
<circle cx=\"7.5\" cy=\"8\" r=\"3\" fill=\"black\"><title>p &amp; q</title></circle>
<line x1=\"0\" y1=\"0\" x2=\"10\" y2=\"0\" stroke=\"grey\"/>
<polyline points=\"1,2 3.5,4\" fill=\"none\" stroke=\"#d55e00\" stroke-width=\"2\"/>
<text x=\"5\" y=\"6\" text-anchor=\"middle\">x &amp; y</text>
</svg>
";
        assert_eq!(picture.finish("t"), expected);
    }
}
