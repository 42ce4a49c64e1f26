//! SVG elements and their text form, which is reproducible byte for byte.

/// Six colours that are distinguishable on white, in grey, and with colour blindness.
pub(crate) const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// The colour of the n-th series; the seventh has that of the first.
pub(crate) fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}

/// The part of a text that is at its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// An element of a picture. Positions are in pixels from the upper left corner.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Element {
    /// Filled, from its upper left corner.
    Rect { at: (f64, f64), size: (f64, f64), fill: String, title: String },
    /// Filled, around its centre.
    Circle { at: (f64, f64), radius: f64, fill: String, title: String },
    /// Straight, one pixel wide.
    Line { from: (f64, f64), to: (f64, f64), stroke: String },
    /// Through all points, two pixels wide.
    Polyline { points: Vec<(f64, f64)>, stroke: String },
    /// On a baseline at that height.
    Text { at: (f64, f64), anchor: Anchor, text: String },
    /// Fixed-width text with preserved blanks.
    Fixed { at: (f64, f64), text: String },
}

/// A picture under construction.
pub(crate) struct Picture {
    body: Vec<Element>,
    width: f64,
    height: f64,
}

impl Picture {
    pub fn new(width: f64, height: f64) -> Picture {
        Picture { body: Vec::new(), width, height }
    }

    pub fn rect(&mut self, at: (f64, f64), size: (f64, f64), fill: &str, title: &str) {
        self.body.push(Element::Rect { at, size, fill: fill.to_owned(), title: title.to_owned() });
    }

    pub fn circle(&mut self, at: (f64, f64), radius: f64, fill: &str, title: &str) {
        self.body.push(Element::Circle { at, radius, fill: fill.to_owned(), title: title.to_owned() });
    }

    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str) {
        self.body.push(Element::Line { from, to, stroke: stroke.to_owned() });
    }

    pub fn polyline(&mut self, points: &[(f64, f64)], stroke: &str) {
        self.body.push(Element::Polyline { points: points.to_vec(), stroke: stroke.to_owned() });
    }

    pub fn text(&mut self, at: (f64, f64), anchor: Anchor, text: &str) {
        self.body.push(Element::Text { at, anchor, text: text.to_owned() });
    }

    pub fn fixed(&mut self, at: (f64, f64), text: &str) {
        self.body.push(Element::Fixed { at, text: text.to_owned() });
    }

    /// The whole document, with a height that is known only at the end.
    pub fn finish_at(self, height: f64, title: &str) -> String {
        Picture { height, ..self }.finish(title)
    }

    /// The whole document.
    pub fn finish(self, title: &str) -> String {
        let (width, height) = (pixels(self.width), pixels(self.height));
        let body: String = self.body.iter().map(Element::svg).collect();
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n<title>{}</title>\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n{body}</svg>\n",
            escaped(title),
        )
    }
}

impl Element {
    /// One line of the document.
    fn svg(&self) -> String {
        match self {
            Element::Rect { at: (x, y), size: (width, height), fill, title } => format!(
                "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{fill}\"><title>{}</title></rect>\n",
                pixels(*x),
                pixels(*y),
                pixels(*width),
                pixels(*height),
                escaped(title)
            ),
            Element::Circle { at: (x, y), radius, fill, title } => format!(
                "<circle cx=\"{}\" cy=\"{}\" r=\"{}\" fill=\"{fill}\"><title>{}</title></circle>\n",
                pixels(*x),
                pixels(*y),
                pixels(*radius),
                escaped(title)
            ),
            Element::Line { from: (x1, y1), to: (x2, y2), stroke } => format!(
                "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{stroke}\"/>\n",
                pixels(*x1),
                pixels(*y1),
                pixels(*x2),
                pixels(*y2)
            ),
            Element::Polyline { points, stroke } => {
                let points: Vec<String> =
                    points.iter().map(|(x, y)| format!("{},{}", pixels(*x), pixels(*y))).collect();
                format!(
                    "<polyline points=\"{}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"2\"/>\n",
                    points.join(" ")
                )
            }
            Element::Text { at: (x, y), anchor, text } => {
                let anchor = match anchor {
                    Anchor::Start => "start",
                    Anchor::Middle => "middle",
                    Anchor::End => "end",
                };
                format!(
                    "<text x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>\n",
                    pixels(*x),
                    pixels(*y),
                    escaped(text)
                )
            }
            Element::Fixed { at: (x, y), text } => format!(
                "<text x=\"{}\" y=\"{}\" font-family=\"monospace\" xml:space=\"preserve\">{}</text>\n",
                pixels(*x),
                pixels(*y),
                escaped(text)
            ),
        }
    }
}

/// A precision of a tenth of a pixel; whole pixels have no decimal point.
fn pixels(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Escaped text. Control characters, which XML forbids, become spaces.
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
