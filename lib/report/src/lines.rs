//! Line charts: lines over a common axis.

use crate::bars::legend;
use crate::scale::Scale;
use crate::svg::{Anchor, Picture, colour};

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Pairs of x and y, ascending by x.
    pub points: Vec<(f64, f64)>,
}

/// A chart of lines.
#[derive(Debug, Clone, PartialEq)]
pub struct Lines {
    /// The title.
    pub title: String,
    /// The unit of x (`s`).
    pub unit_x: String,
    /// The unit of y.
    pub unit_y: String,
    /// Logarithmic x axis: values not above 0 are at the left edge.
    pub log_x: bool,
    /// The lines, each in its own colour.
    pub lines: Vec<Line>,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 620.0;
const TOP: f64 = 60.0;
const FLOOR: f64 = 280.0;
/// The radius of the mark of a point.
const MARK: f64 = 3.0;

impl Lines {
    /// The chart as an SVG document. Points that are not finite are left out.
    #[must_use]
    pub fn svg(&self) -> String {
        let all = || self.lines.iter().flat_map(|line| line.points.iter());
        let least = all().map(|point| point.0).filter(|x| *x > 0.0).fold(f64::INFINITY, f64::min);
        let x_of = |x: f64| if self.log_x { x.max(least).log10() } else { x };
        let word = |scale: &Scale, mark: f64| match self.log_x {
            true => format!("{}", 10_f64.powf(mark)),
            false => scale.word(mark),
        };
        let places = all().map(|point| x_of(point.0));
        let across = if self.log_x { Scale::of_powers(places) } else { Scale::covering(places) };
        let up = Scale::covering(all().map(|point| point.1));
        let mut picture = Picture::new(WIDTH, HEIGHT);
        picture.text((LEFT, 20.0), Anchor::Start, &self.title);
        legend(&mut picture, &self.lines.iter().map(|line| line.name.clone()).collect::<Vec<_>>());
        for mark in up.marks() {
            let y = up.place(mark, FLOOR, TOP);
            picture.line((LEFT, y), (RIGHT, y), "#dddddd");
            picture.text((LEFT - 6.0, y + 4.0), Anchor::End, &up.word(mark));
        }
        for mark in across.marks() {
            let x = across.place(mark, LEFT, RIGHT);
            picture.line((x, FLOOR), (x, FLOOR + 4.0), "#333333");
            picture.text((x, FLOOR + 18.0), Anchor::Middle, &word(&across, mark));
        }
        picture.text((LEFT - 6.0, TOP - 12.0), Anchor::End, &self.unit_y);
        picture.text((RIGHT, FLOOR + 34.0), Anchor::End, &self.unit_x);
        picture.line((LEFT, FLOOR), (RIGHT, FLOOR), "#333333");
        for (index, line) in self.lines.iter().enumerate() {
            let finite = line.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
            let placed: Vec<(f64, f64)> = finite
                .clone()
                .map(|(x, y)| (across.place(x_of(*x), LEFT, RIGHT), up.place(*y, FLOOR, TOP)))
                .collect();
            picture.polyline(&placed, colour(index));
            for (place, (x, y)) in placed.iter().zip(finite) {
                let title = format!("{}: {y} {} at {x} {}", line.name, self.unit_y, self.unit_x);
                picture.circle(*place, MARK, colour(index), &title);
            }
        }
        picture.finish(&self.title)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_goes_through_its_points() {
        let line = Line {
            name: "eth0".into(),
            points: vec![(0.0, 0.0), (5.0, 50.0), (10.0, 100.0), (7.0, f64::NAN)],
        };
        let lines = Lines {
            title: "Mbit/s".into(),
            unit_x: "s".into(),
            unit_y: "Mbit/s".into(),
            log_x: false,
            lines: vec![line],
        };
        // 10 s are 560 pixels, 100 Mbit/s are 220.
        let svg = lines.svg();
        assert!(svg.contains("<polyline points=\"60,280 340,170 620,60\" fill=\"none\""), "{svg}");
        assert!(svg.contains(
            "<circle cx=\"340\" cy=\"170\" r=\"3\" fill=\"#0072b2\"><title>eth0: 50 Mbit/s at 5 s</title></circle>"
        ));
        assert_eq!(svg.matches("<circle").count(), 3);
        assert_eq!(svg, lines.svg());
    }

    #[test]
    fn places_can_stand_by_their_logarithms() {
        let line =
            Line { name: "pool".into(), points: vec![(0.0, 0.0), (0.1, 1.0), (10.0, 1.0), (1000.0, 2.0)] };
        let (title, unit_x, unit_y) = (String::new(), "s".into(), String::new());
        let svg = Lines { title, unit_x, unit_y, log_x: true, lines: vec![line] }.svg();
        // Four powers of ten are 560 pixels.
        assert!(svg.contains("<polyline points=\"60,280 60,170 340,170 620,60\" fill=\"none\""), "{svg}");
        for word in [">0.1<", ">1<", ">10<", ">100<", ">1000<"] {
            assert!(svg.contains(word), "{word}: {svg}");
        }
    }

    proptest! {
        #[test]
        fn every_point_lies_in_the_picture(points in proptest::collection::vec((-1e6..1e6_f64, -1e6..1e6_f64), 1..20)) {
            let lines = Lines {
                title: String::new(),
                unit_x: String::new(),
                unit_y: String::new(),
                log_x: false,
                lines: vec![Line { name: "a".into(), points }],
            };
            let svg = lines.svg();
            let list = svg.split("points=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
            for point in list.split(' ') {
                let (x, y) = point.split_once(',').unwrap();
                prop_assert!((LEFT..=RIGHT).contains(&x.parse::<f64>().unwrap()));
                prop_assert!((TOP..=FLOOR).contains(&y.parse::<f64>().unwrap()));
            }
        }
    }
}
