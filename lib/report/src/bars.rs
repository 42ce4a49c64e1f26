//! Bar charts: one group per experiment arm, one bar per series.

use crate::scale::Scale;
use crate::svg::{Anchor, Picture, colour};

/// A group of bars.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The name of the group.
    pub name: String,
    /// A value for each series; `None` draws nothing.
    pub values: Vec<Option<f64>>,
}

/// A chart of bars.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// The title.
    pub title: String,
    /// The unit of the values.
    pub unit: String,
    /// The names of the bars in every group.
    pub series: Vec<String>,
    /// The groups, from left to right.
    pub groups: Vec<Group>,
}

const HEIGHT: f64 = 320.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 60.0;
const FLOOR: f64 = 280.0;
const BAR: f64 = 28.0;
const BETWEEN: f64 = 36.0;
/// A group is at least as wide as its name, with about this many pixels per letter.
const LETTER: f64 = 7.0;

impl Bars {
    /// The chart as SVG.
    #[must_use]
    pub fn svg(&self) -> String {
        let widths: Vec<f64> = self.groups.iter().map(|group| self.group_width(group)).collect();
        let width = (LEFT + widths.iter().map(|w| w + BETWEEN).sum::<f64>() + RIGHT).max(360.0);
        let scale = Scale::covering(self.groups.iter().flat_map(|g| g.values.iter().copied().flatten()));
        let mut picture = Picture::new(width, HEIGHT);
        picture.text((LEFT, 20.0), Anchor::Start, &self.title);
        legend(&mut picture, &self.series);
        for mark in scale.marks() {
            let y = scale.place(mark, FLOOR, TOP);
            picture.line((LEFT, y), (width - RIGHT, y), "#dddddd");
            picture.text((LEFT - 6.0, y + 4.0), Anchor::End, &scale.word(mark));
        }
        picture.text((LEFT - 6.0, TOP - 12.0), Anchor::End, &self.unit);
        let mut x = LEFT + BETWEEN / 2.0;
        for (group, width) in self.groups.iter().zip(widths) {
            self.draw(&mut picture, &scale, group, x, width);
            x += width + BETWEEN;
        }
        let floor = scale.place(0.0, FLOOR, TOP);
        picture.line((LEFT, floor), (width - RIGHT, floor), "#333333");
        picture.finish(&self.title)
    }

    fn group_width(&self, group: &Group) -> f64 {
        (count(self.series.len()) * BAR).max(count(group.name.chars().count()) * LETTER)
    }

    fn draw(&self, picture: &mut Picture, scale: &Scale, group: &Group, x: f64, width: f64) {
        let mut left = x + (width - count(self.series.len()) * BAR) / 2.0;
        let floor = scale.place(0.0, FLOOR, TOP);
        for (index, series) in self.series.iter().enumerate() {
            if let Some(value) = group.values.get(index).copied().flatten().filter(|v| v.is_finite()) {
                let top = scale.place(value, FLOOR, TOP);
                let title = format!("{}, {series}: {value:.1} {}", group.name, self.unit);
                let size = (BAR - 4.0, (floor - top).abs());
                picture.rect((left + 2.0, top.min(floor)), size, colour(index), &title);
                let above = top.min(floor) - 4.0;
                picture.text((left + BAR / 2.0, above), Anchor::Middle, &format!("{value:.0}"));
            }
            left += BAR;
        }
        picture.text((x + width / 2.0, FLOOR + 20.0), Anchor::Middle, &group.name);
    }
}

/// A coloured square and a name for each series, in one line below the title.
pub(crate) fn legend(picture: &mut Picture, series: &[String]) {
    let mut x = LEFT;
    for (index, name) in series.iter().enumerate() {
        picture.rect((x, 28.0), (10.0, 10.0), colour(index), name);
        picture.text((x + 14.0, 37.0), Anchor::Start, name);
        x += 14.0 + count(name.chars().count()) * LETTER + 16.0;
    }
}

/// A count as a factor for pixels.
fn count(things: usize) -> f64 {
    u32::try_from(things).map_or(f64::MAX, f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bars_stand_on_the_floor_and_reach_their_mark() {
        let bars = Bars {
            title: "Mop/s".into(),
            unit: "Mop/s".into(),
            series: vec!["a".into(), "b".into()],
            groups: vec![
                Group { name: "fighting".into(), values: vec![Some(50.0), None] },
                Group { name: "apart".into(), values: vec![Some(100.0), Some(0.0)] },
            ],
        };
        let svg = bars.svg();
        // 0 is at 280 and 100 at 60, so 50 is half-way: 110 pixels high.
        assert!(
            svg.contains(
                "y=\"170\" width=\"24\" height=\"110\" fill=\"#0072b2\"><title>fighting, a: 50.0 Mop/s<"
            ),
            "{svg}"
        );
        assert!(
            svg.contains(
                "y=\"60\" width=\"24\" height=\"220\" fill=\"#0072b2\"><title>apart, a: 100.0 Mop/s<"
            ),
            "{svg}"
        );
        assert!(
            svg.contains("y=\"280\" width=\"24\" height=\"0\" fill=\"#d55e00\"><title>apart, b: 0.0 Mop/s<"),
            "{svg}"
        );
        assert!(!svg.contains("fighting, b"));
        assert_eq!(svg, bars.svg());
    }

    proptest! {
        #[test]
        fn every_element_that_is_opened_is_closed(
            title in ".{0,12}",
            values in proptest::collection::vec(proptest::option::of(-1e6..1e6_f64), 0..8),
        ) {
            let groups = values.chunks(2).map(|v| Group { name: title.clone(), values: v.to_vec() }).collect();
            let bars = Bars { title: title.clone(), unit: title.clone(), series: vec![title.clone(), "b".into()], groups };
            let svg = bars.svg();
            for element in ["svg", "title", "text"] {
                let opened = svg.matches(&format!("<{element}>")).count() + svg.matches(&format!("<{element} ")).count();
                prop_assert_eq!(opened, svg.matches(&format!("</{element}>")).count());
            }
            prop_assert!(!svg.contains("NaN") && !svg.contains("inf\""));
        }
    }
}
