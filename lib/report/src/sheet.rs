//! A page with a title, sentences, a table, and points on a time line. As a picture or as a page for a browser; both are self-contained.

use crate::Table;
use crate::svg::{Anchor, Picture, colour, escaped};
use std::fmt::Write as _;

/// A point on the time line.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// The time in seconds from the beginning.
    pub at_s: f64,
    /// The height, in the unit of the sheet.
    pub height: f64,
    /// The group; points of a group have the same colour.
    pub group: String,
    /// The tooltip.
    pub title: String,
}

/// The page.
#[derive(Debug, Clone, PartialEq)]
pub struct Sheet {
    /// The title.
    pub title: String,
    /// Sentences below the title.
    pub facts: Vec<String>,
    /// The table.
    pub table: Table,
    /// The length of the time line in seconds.
    pub length_s: f64,
    /// The unit of the height of a point.
    pub unit: String,
    /// The points.
    pub marks: Vec<Mark>,
}

const WIDTH: f64 = 1_100.0;
const MARGIN: f64 = 20.0;
const LEFT: f64 = 80.0;
const LINE: f64 = 16.0;
const TIME_HEIGHT: f64 = 220.0;
/// The width of a character in the table, in pixels.
const CHARACTER: f64 = 7.3;

impl Sheet {
    /// The sheet as a picture.
    #[must_use]
    pub fn svg(&self) -> String {
        let text = self.table.text();
        let lines: Vec<&str> = text.lines().collect();
        let widest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        #[expect(clippy::cast_precision_loss, reason = "characters of a line")]
        let width = WIDTH.max(2.0 * MARGIN + widest as f64 * CHARACTER);
        let mut picture = Picture::new(width, 0.0);
        let mut y = MARGIN + LINE;
        picture.text((MARGIN, y), Anchor::Start, &self.title);
        for fact in &self.facts {
            y += LINE;
            picture.text((MARGIN, y), Anchor::Start, fact);
        }
        y += LINE;
        for line in lines {
            y += LINE;
            picture.fixed((MARGIN, y), line);
        }
        y += 2.0 * LINE;
        y = self.time(&mut picture, y, width);
        picture.finish_at(y + MARGIN, &self.title)
    }

    /// The sheet as a page for a browser.
    #[must_use]
    pub fn html(&self) -> String {
        let mut picture = Picture::new(WIDTH, 0.0);
        let end = self.time(&mut picture, MARGIN, WIDTH);
        let mut page = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{0}</title>\n<style>\n\
             body {{ font-family: sans-serif; margin: 2em; }}\ntable {{ border-collapse: collapse; }}\n\
             th, td {{ padding: 0.2em 0.7em; border-bottom: 1px solid #ccc; }}\n.l {{ text-align: left; }}\n\
             .r {{ text-align: right; }}\n</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
            escaped(&self.title)
        );
        for fact in &self.facts {
            let _ = writeln!(page, "<p>{}</p>", escaped(fact));
        }
        page += &self.table.html();
        page += &picture.finish_at(end + MARGIN, &self.title);
        page += "</body>\n</html>\n";
        page
    }

    /// Draws the time line below `top`; returns its lower end.
    fn time(&self, picture: &mut Picture, top: f64, width: f64) -> f64 {
        let highest = self.marks.iter().map(|mark| mark.height).fold(0.0, f64::max);
        let bottom = top + TIME_HEIGHT;
        let right = width - MARGIN;
        picture.line((LEFT, bottom), (right, bottom), "grey");
        picture.line((LEFT, top), (LEFT, bottom), "grey");
        picture.text((LEFT, bottom + LINE), Anchor::Start, "0 s");
        picture.text((right, bottom + LINE), Anchor::End, &format!("{:.1} s", self.length_s));
        if self.marks.is_empty() || self.length_s <= 0.0 || highest <= 0.0 {
            picture.text((LEFT + MARGIN, top + LINE), Anchor::Start, "nothing to show on the line of time");
            return bottom + LINE;
        }
        picture.text((LEFT - 5.0, top + LINE), Anchor::End, &format!("{highest:.1}"));
        picture.text((LEFT - 5.0, top + 2.0 * LINE), Anchor::End, &self.unit);
        let mut groups: Vec<&str> = self.marks.iter().map(|mark| mark.group.as_str()).collect();
        groups.sort_unstable();
        groups.dedup();
        for mark in &self.marks {
            let group = groups.iter().position(|group| *group == mark.group).unwrap_or(0);
            let x = LEFT + (right - LEFT) * (mark.at_s / self.length_s).clamp(0.0, 1.0);
            let y = bottom - TIME_HEIGHT * (mark.height / highest).clamp(0.0, 1.0);
            picture.circle((x, y), 3.0, colour(group), &mark.title);
        }
        let mut x = LEFT;
        for (index, group) in groups.iter().enumerate() {
            picture.circle((x + 4.0, bottom + 2.0 * LINE - 4.0), 4.0, colour(index), group);
            picture.text((x + 12.0, bottom + 2.0 * LINE), Anchor::Start, group);
            x += 90.0;
        }
        bottom + 2.0 * LINE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Align;

    fn sheet(marks: Vec<Mark>) -> Sheet {
        let mut table = Table::new(&[("NAME", Align::Left), ("COUNT", Align::Right)]);
        table.row(["a<b".into(), 5_u64.into()]);
        Sheet {
            title: "quiet & still".into(),
            facts: vec!["one fact".into()],
            table,
            length_s: 10.0,
            unit: "us".into(),
            marks,
        }
    }

    fn mark(at_s: f64, height: f64, group: &str) -> Mark {
        Mark { at_s, height, group: group.into(), title: format!("{group} at {at_s}") }
    }

    #[test]
    fn a_point_stands_at_its_time_and_height() {
        let text = sheet(vec![mark(5.0, 40.0, "task"), mark(10.0, 80.0, "device")]).svg();
        // Half of the way from 80 to 1080, and half the height; groups by the alphabet.
        assert!(text.contains("<circle cx=\"580\" "), "{text}");
        assert!(text.contains("fill=\"#d55e00\"><title>task at 5</title>"), "{text}");
        assert!(text.contains("fill=\"#0072b2\"><title>device at 10</title>"), "{text}");
        assert!(text.contains("quiet &amp; still") && text.contains("a&lt;b"), "{text}");
    }

    #[test]
    fn a_page_has_the_table_and_the_picture() {
        let page = sheet(vec![mark(1.0, 2.0, "x")]).html();
        for part in [
            "<h1>quiet &amp; still</h1>",
            "<td class=\"l\">a&lt;b</td><td class=\"r\">5</td>",
            "<svg ",
            "</html>\n",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn without_points_it_says_so() {
        assert!(sheet(Vec::new()).svg().contains("nothing to show"));
        assert!(
            Sheet { length_s: 0.0, ..sheet(vec![mark(0.0, 1.0, "x")]) }.svg().contains("nothing to show")
        );
    }
}
