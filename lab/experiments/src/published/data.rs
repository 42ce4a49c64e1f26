//! What was published: figures as data, in a file beside each experiment.
//!
//! ```text
//! { "title": "…", "source": "which machine, author, date",
//!   "quantities": [ { "name": "Mop/s per zone", "unit": "Mop/s", "decimals": 0, "x": "threads" } ],
//!   "points": [ { "quantity": "Mop/s per zone", "variant": "34 threads", "value": 1200,
//!                 "line": "growing", "x": 34 } ] }
//! ```
//!
//! A *quantity* is what was measured; its *variants* are the conditions. Points that differ in one number alone, `x`, are on
//! a *line* together; the quantity says what that number is. A point that *follows* from others is no evidence of its own: the field says from
//! what. A *blind* prediction was made before the figure was known. Unknown fields are errors.

use serde::Deserialize;

/// The figures of one experiment.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// What it is about.
    pub title: String,
    /// Where the figures were measured.
    pub source: String,
    /// What was measured, the most important first.
    pub quantities: Vec<Quantity>,
    /// The figures.
    pub points: Vec<Figure>,
}

/// Something that was measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// What it is called.
    pub name: String,
    /// What it is in.
    pub unit: String,
    /// How many digits after the point a person should see.
    pub decimals: usize,
    /// What `x` of its points counts; empty where there is none.
    #[serde(default)]
    pub x: String,
    /// Whether a value stays until the next one, so that it is drawn in steps, and `x` by its logarithm.
    #[serde(default)]
    pub stays: bool,
}

/// One figure.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Of what.
    pub quantity: String,
    /// Under which conditions.
    pub variant: String,
    /// In the unit of the quantity.
    pub value: f64,
    /// Which points it is on a line with.
    #[serde(default)]
    pub line: Option<String>,
    /// Where on that line.
    #[serde(default)]
    pub x: Option<f64>,
    /// Why it says nothing that other points do not say: a ratio of two of them, the same run again, what cannot be otherwise.
    #[serde(default)]
    pub follows: Option<String>,
    /// What commit 2f12dcaf predicted, in whose tree and history the figure was not: the median over 5 seeds (E5: 20). Never changed.
    #[serde(default)]
    pub blind: Option<f64>,
}

impl Published {
    /// Reads the data of an experiment. They are a part of the program, and a test reads them all; a text that is none gives
    /// nothing.
    #[must_use]
    pub fn read(text: &str) -> Published {
        serde_json::from_str(text).unwrap_or_default()
    }

    /// The quantity of that name; one without unit and with a digit after the point if there is none.
    #[must_use]
    pub fn quantity(&self, name: &str) -> Quantity {
        let known = self.quantities.iter().find(|quantity| quantity.name == name).cloned();
        known.unwrap_or_else(|| Quantity { name: name.to_owned(), decimals: 1, ..Quantity::default() })
    }

    /// The figure for that variant of that quantity.
    #[must_use]
    pub fn figure(&self, quantity: &str, variant: &str) -> Option<&Figure> {
        self.points.iter().find(|figure| figure.quantity == quantity && figure.variant == variant)
    }

    /// What a straight line through the other figures of its line gives at a figure: between its neighbours, or beyond the two that are
    /// nearest. None where there are fewer than two others.
    #[must_use]
    pub fn straight_line(&self, figure: &Figure) -> Option<f64> {
        let (line, x) = (figure.line.as_ref()?, figure.x?);
        let on_line = |other: &&Figure| {
            other.quantity == figure.quantity && other.line.as_ref() == Some(line) && other.x != Some(x)
        };
        let mut others: Vec<(f64, f64)> =
            self.points.iter().filter(on_line).filter_map(|other| Some((other.x?, other.value))).collect();
        others.sort_by(|a, b| a.0.total_cmp(&b.0));
        // The pair around x, else the first one or the last one.
        let pairs = || others.windows(2).map(|pair| (pair[0], pair[1]));
        let (from, to) = pairs().find(|(_, to)| x < to.0).or_else(|| pairs().next_back())?;
        Some(from.1 + (to.1 - from.1) * (x - from.0) / (to.0 - from.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(line: Option<&str>, x: f64, value: f64) -> Figure {
        Figure {
            quantity: "q".into(),
            variant: format!("at {x}"),
            value,
            line: line.map(str::to_owned),
            x: Some(x),
            follows: None,
            blind: None,
        }
    }

    #[test]
    fn a_straight_line_goes_through_the_others_alone() {
        let points = vec![
            figure(Some("a"), 38.0, 1275.0),
            figure(Some("a"), 32.0, 1000.0),
            figure(Some("b"), 33.0, 1.0),
            figure(Some("a"), 34.0, 1200.0),
            figure(None, 36.0, 7.0),
        ];
        let published = Published { points, ..Published::default() };
        let at = |index: usize| published.straight_line(&published.points[index]);
        // 1000 + 200 / 2 x 6.
        assert_eq!(at(0), Some(1600.0));
        // 1200 - 75 / 4 x 2.
        assert_eq!(at(1), Some(1162.5));
        assert_eq!(at(2), None);
        // 1000 + 275 / 6 x 2.
        assert!((at(3).unwrap() - 1_091.666_7).abs() < 0.001);
        assert_eq!(at(4), None);
    }

    #[test]
    fn a_quantity_that_is_not_described_has_a_digit() {
        let published = Published::read(r#"{"title":"t","source":"s","quantities":[],"points":[]}"#);
        assert_eq!((published.title.as_str(), published.quantity("q").decimals), ("t", 1));
        assert_eq!(Published::read("{"), Published::default());
    }
}
