//! Published figures as data: a file for each experiment.
//!
//! ```text
//! { "title": "…", "source": "which machine, author, date",
//!   "quantities": [ { "name": "Mop/s per zone", "unit": "Mop/s", "decimals": 0, "x": "threads" } ],
//!   "points": [ { "quantity": "Mop/s per zone", "variant": "34 threads", "value": 1200,
//!                 "line": "growing", "x": 34 } ] }
//! ```
//!
//! A *quantity* is what was measured; its *variants* are the conditions. Points that differ only in one number, `x`, are on
//! a common *line*; the quantity names that number. A point that *follows* from others is not independent evidence: the field gives the
//! reason. A *blind* prediction was made before the figure was known. Unknown fields are errors.

use serde::Deserialize;

/// The figures of one experiment.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The title.
    pub title: String,
    /// Source of the figures.
    pub source: String,
    /// The quantities, the most important first.
    pub quantities: Vec<Quantity>,
    /// The figures.
    pub points: Vec<Figure>,
}

/// A measured quantity.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Number of decimals for display.
    pub decimals: usize,
    /// The meaning of `x` of its points; empty without one.
    #[serde(default)]
    pub x: String,
    /// Whether a value holds until the next one: drawn in steps, with a logarithmic `x`.
    #[serde(default)]
    pub stays: bool,
}

/// One figure.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The quantity.
    pub quantity: String,
    /// The conditions.
    pub variant: String,
    /// The value in the quantity's unit.
    pub value: f64,
    /// The line that it belongs to.
    #[serde(default)]
    pub line: Option<String>,
    /// Its position on that line.
    #[serde(default)]
    pub x: Option<f64>,
    /// The reason why it is no independent evidence: a ratio of two other points, the same run again, a necessary consequence.
    #[serde(default)]
    pub follows: Option<String>,
    /// Prediction of commit 2f12dcaf, whose tree and history did not contain the figure: the median over 5 seeds (E5: 20). Never changed.
    #[serde(default)]
    pub blind: Option<f64>,
}

impl Published {
    /// Parses the data of an experiment. They are part of the program, and a test parses them all; an invalid text gives
    /// an empty value.
    #[must_use]
    pub fn read(text: &str) -> Published {
        serde_json::from_str(text).unwrap_or_default()
    }

    /// The quantity with this name; one without a unit and with one decimal if there is no such quantity.
    #[must_use]
    pub fn quantity(&self, name: &str) -> Quantity {
        let known = self.quantities.iter().find(|quantity| quantity.name == name).cloned();
        known.unwrap_or_else(|| Quantity { name: name.to_owned(), decimals: 1, ..Quantity::default() })
    }

    /// The figure of this quantity and variant.
    #[must_use]
    pub fn figure(&self, quantity: &str, variant: &str) -> Option<&Figure> {
        self.points.iter().find(|figure| figure.quantity == quantity && figure.variant == variant)
    }

    /// The value at a figure on a straight line through the other figures of its line: interpolated between its neighbours, or extrapolated from
    /// the two nearest. `None` with fewer than two others.
    #[must_use]
    pub fn straight_line(&self, figure: &Figure) -> Option<f64> {
        let (line, x) = (figure.line.as_ref()?, figure.x?);
        let on_line = |other: &&Figure| {
            other.quantity == figure.quantity && other.line.as_ref() == Some(line) && other.x != Some(x)
        };
        let mut others: Vec<(f64, f64)> =
            self.points.iter().filter(on_line).filter_map(|other| Some((other.x?, other.value))).collect();
        others.sort_by(|a, b| a.0.total_cmp(&b.0));
        // The pair around x, else the first or the last one.
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
