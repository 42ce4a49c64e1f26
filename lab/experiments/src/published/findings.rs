//! Results of an experiment: its points, each with the published figure, and the quality of the predictions.

use super::data::{Figure, Published};
use super::fits::is_fitted;
use millpond_report::Table;

/// A measured figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The quantity.
    pub quantity: String,
    /// The conditions.
    pub variant: String,
    /// The unit of both values.
    pub unit: String,
    /// Decimals for display.
    pub decimals: usize,
    /// Its place among points that differ only in one number: their line, and the number.
    pub place: Option<(String, f64)>,
    /// The published value.
    pub published: Option<f64>,
    /// The measured value; over several seeds the median.
    pub ours: f64,
    /// The minimum and the maximum over several seeds.
    pub over_seeds: Option<(f64, f64)>,
    /// A parameter was fitted to it, so that it is not a prediction.
    pub fitted: bool,
    /// It follows from other points, so that it is not independent evidence.
    pub follows: bool,
    /// The prediction from before the figure was known.
    pub blind: Option<f64>,
    /// The value on a straight line through the other published points.
    pub straight: Option<f64>,
}

impl Point {
    /// The error in percent of the published value. `None` without a published value, or if that is 0 and the measured one
    /// is not.
    #[must_use]
    pub fn error(&self) -> Option<f64> {
        self.published.and_then(|published| error(self.ours, published))
    }

    /// Whether the published value is between the minimum and the maximum over several seeds.
    #[must_use]
    pub fn is_within(&self) -> Option<bool> {
        let (least, most) = self.over_seeds?;
        self.published.map(|published| (least..=most).contains(&published))
    }

    /// Whether it was published and no parameter was fitted to it.
    #[must_use]
    pub fn is_predicted(&self) -> bool {
        self.published.is_some() && !self.fitted
    }

    /// Whether it was predicted and does not follow from other points.
    #[must_use]
    pub fn is_independent(&self) -> bool {
        self.is_predicted() && !self.follows
    }

    /// The error of the blind prediction, in percent of the published value.
    #[must_use]
    pub fn blind_error(&self) -> Option<f64> {
        error(self.blind?, self.published?)
    }

    /// The last column of tables: `fitted` (`fitted, not met` beyond [`FIT_SLACK`]), `follows`, `blind`, and for several seeds the place of
    /// the published figure.
    #[must_use]
    pub fn mark(&self) -> String {
        if self.fitted {
            let is_met = self.error().is_some_and(|error| error.abs() <= FIT_SLACK * 100.0);
            return if is_met { "fitted" } else { "fitted, not met" }.to_owned();
        }
        let kind = match (self.published, self.follows, self.blind) {
            (None, ..) => None,
            (_, true, _) => Some("follows"),
            (_, false, Some(_)) => Some("blind"),
            (_, false, None) => None,
        };
        let place = self.is_within().map(|is_within| if is_within { "within" } else { "outside" });
        [kind, place].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// Maximum error of a fitted figure that counts as met, as a fraction of the figure.
pub const FIT_SLACK: f64 = 0.03;

/// The error in percent.
fn error(ours: f64, published: f64) -> Option<f64> {
    let percent = if ours == published { 0.0 } else { (ours / published - 1.0) * 100.0 };
    percent.is_finite().then_some(percent)
}

/// A summary of several errors, in percent without signs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Errors {
    /// The median.
    pub median: f64,
    /// The maximum.
    pub worst: f64,
}

impl Errors {
    /// The summary; `None` without errors.
    #[must_use]
    pub fn of(errors: impl IntoIterator<Item = f64>) -> Option<Errors> {
        let mut sizes: Vec<f64> = errors.into_iter().map(f64::abs).collect();
        sizes.sort_by(f64::total_cmp);
        let worst = *sizes.last()?;
        Some(Errors { median: median(&sizes), worst })
    }
}

/// The median of sorted values; 0 without values.
pub(crate) fn median(sorted: &[f64]) -> f64 {
    let at = |place: usize| sorted.get(place).copied().unwrap_or(0.0);
    f64::midpoint(at(sorted.len().saturating_sub(1) / 2), at(sorted.len() / 2))
}

/// The quality of the predictions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// Number of published points.
    pub published: usize,
    /// Those of them to which nothing was fitted.
    pub predicted: usize,
    /// Those of them that do not follow from others. The counts below are of these.
    pub independent: usize,
    /// Those with a blind prediction.
    pub blind: usize,
    /// The errors of the blind predictions.
    pub blind_errors: Option<Errors>,
    /// Those that were published as 0 and are not 0 here.
    pub not_zero: usize,
    /// Those between the minimum and the maximum over several seeds; `None` for one seed.
    pub within: Option<usize>,
    /// Their errors.
    pub errors: Option<Errors>,
    /// Those that are on a straight line through their neighbours' line.
    pub on_lines: usize,
    /// The errors of these straight lines.
    pub straight: Option<Errors>,
    /// Our errors at the same points.
    pub ours_there: Option<Errors>,
}

/// Results of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Findings {
    /// The experiment's name.
    pub experiment: String,
    /// The published data.
    pub data: Published,
    /// The machines, one sentence each.
    pub machines: Vec<String>,
    /// The points, in order of measurement.
    pub points: Vec<Point>,
    /// Further measurements, with titles.
    pub tables: Vec<(String, Table)>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// Whether the conditions are the published ones, so that points are comparable.
    comparable: bool,
}

impl Findings {
    /// Empty results. `comparable`: the conditions are the published ones; otherwise points have no published values.
    #[must_use]
    pub fn new(experiment: &str, data: Published, comparable: bool) -> Findings {
        let experiment = experiment.to_owned();
        Findings {
            experiment,
            data,
            machines: Vec::new(),
            points: Vec::new(),
            tables: Vec::new(),
            notes: Vec::new(),
            comparable,
        }
    }

    /// Adds a point. Its published value and place are looked up.
    pub fn point(&mut self, quantity: &str, variant: &str, ours: f64) {
        self.add(quantity, variant, None, ours);
    }

    /// Adds a point on a line, published or not.
    pub fn point_at(&mut self, quantity: &str, variant: &str, line: &str, x: f64, ours: f64) {
        self.add(quantity, variant, Some((line.to_owned(), x)), ours);
    }

    fn add(&mut self, quantity: &str, variant: &str, place: Option<(String, f64)>, ours: f64) {
        let known = self.data.quantity(quantity);
        let figure = self.data.figure(quantity, variant).filter(|_| self.comparable);
        let known_place = |figure: &Figure| Some((figure.line.clone()?, figure.x?));
        self.points.push(Point {
            quantity: known.name,
            variant: variant.to_owned(),
            unit: known.unit,
            decimals: known.decimals,
            place: place.or_else(|| figure.and_then(known_place)),
            published: figure.map(|figure| figure.value),
            ours,
            over_seeds: None,
            fitted: figure.is_some() && is_fitted(&self.experiment, quantity, variant),
            follows: figure.is_some_and(|figure| figure.follows.is_some()),
            blind: figure.and_then(|figure| figure.blind),
            straight: figure.and_then(|figure| self.data.straight_line(figure)),
        });
    }

    /// Combines the results of several seeds: for each point the median, minimum and maximum over the seeds that have it. Everything
    /// else is that of the first seed.
    #[must_use]
    pub fn over_seeds(all: Vec<Findings>) -> Option<Findings> {
        let several = all.len() > 1;
        let mut of_each: Vec<Vec<f64>> = vec![Vec::new(); all.first()?.points.len()];
        for (values, first) in of_each.iter_mut().zip(&all.first()?.points) {
            let is_it = |p: &&Point| p.quantity == first.quantity && p.variant == first.variant;
            values.extend(all.iter().filter_map(|one| one.points.iter().find(is_it)).map(|point| point.ours));
        }
        let mut first = all.into_iter().next()?;
        for (point, mut values) in first.points.iter_mut().zip(of_each).filter(|_| several) {
            values.sort_by(f64::total_cmp);
            let (least, most) = (*values.first()?, *values.last()?);
            point.over_seeds = Some((least, most));
            point.ours = median(&values);
        }
        Some(first)
    }

    /// Whether the results are over several seeds.
    #[must_use]
    pub fn are_over_seeds(&self) -> bool {
        self.points.iter().any(|point| point.over_seeds.is_some())
    }

    /// The quality of the predictions.
    #[must_use]
    pub fn score(&self) -> Score {
        let predicted = || self.points.iter().filter(|point| point.is_independent());
        let straight = |point: &&Point| error(point.straight?, point.published?);
        let on_lines = || predicted().filter(|point| straight(point).is_some());
        Score {
            published: self.points.iter().filter(|point| point.published.is_some()).count(),
            predicted: self.points.iter().filter(|point| point.is_predicted()).count(),
            independent: predicted().count(),
            blind: predicted().filter(|point| point.blind.is_some()).count(),
            blind_errors: Errors::of(predicted().filter_map(Point::blind_error)),
            not_zero: predicted().filter(|point| point.error().is_none()).count(),
            within: self
                .are_over_seeds()
                .then(|| predicted().filter(|point| point.is_within() == Some(true)).count()),
            errors: Errors::of(predicted().filter_map(Point::error)),
            on_lines: on_lines().count(),
            straight: Errors::of(on_lines().filter_map(|point| straight(&point))),
            ours_there: Errors::of(on_lines().filter_map(Point::error)),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Threads and operations, published at 32, 34 and 38 threads, and a figure of 0.
    pub(in crate::published) fn findings() -> Findings {
        let data = r#"{
          "title": "Threads", "source": "a machine; 2015",
          "quantities": [ { "name": "speed", "unit": "Mop/s", "decimals": 0, "x": "threads" },
                          { "name": "samples", "unit": "%", "decimals": 1 } ],
          "points": [
            { "quantity": "speed", "variant": "32 threads", "line": "growing", "x": 32, "value": 1000 },
            { "quantity": "speed", "variant": "34 threads", "line": "growing", "x": 34, "value": 1200 },
            { "quantity": "speed", "variant": "38 threads", "line": "growing", "x": 38, "value": 1275 },
            { "quantity": "samples", "variant": "elsewhere", "value": 0 } ] }"#;
        let mut findings = Findings::new("e0", Published::read(data), true);
        findings.machines.push("t2-64: 64 CPUs".into());
        findings.point("speed", "32 threads", 1000.4);
        findings.point("speed", "34 threads", 1080.0);
        findings.point("speed", "38 threads", 1338.75);
        findings.point_at("speed", "40 threads", "growing", 40.0, 1400.0);
        findings.point("samples", "elsewhere", 0.0);
        findings.points[0].fitted = true;
        findings.notes.push("as it came".into());
        findings
    }

    #[test]
    fn points_find_what_was_published_and_where_they_lie() {
        let findings = findings();
        let places: Vec<Option<f64>> =
            findings.points.iter().map(|point| point.place.as_ref().map(|place| place.1)).collect();
        assert_eq!(places, [Some(32.0), Some(34.0), Some(38.0), Some(40.0), None]);
        let published: Vec<Option<f64>> = findings.points.iter().map(|point| point.published).collect();
        assert_eq!(published, [Some(1000.0), Some(1200.0), Some(1275.0), None, Some(0.0)]);
        assert_eq!(findings.points[3].error(), None);
        assert_eq!(findings.points[4].error(), Some(0.0));
        assert_eq!(findings.points[2].straight, Some(1600.0));
    }

    #[test]
    fn predictions_are_judged_and_straight_lines_beside_them() {
        let score = findings().score();
        assert_eq!((score.published, score.predicted, score.on_lines, score.not_zero), (4, 3, 2, 0));
        // Errors of 10, 5 and 0 percent.
        let near = |errors: Option<Errors>, median: f64, worst: f64| {
            let found = errors.unwrap();
            assert!((found.median - median).abs() < 0.01 && (found.worst - worst).abs() < 0.01, "{found:?}");
        };
        near(score.errors, 5.0, 10.0);
        near(score.ours_there, 7.5, 10.0);
        // 1091.67 for 1200 and 1600 for 1275: 9.03 and 25.49 percent.
        near(score.straight, 17.26, 25.49);
    }

    #[test]
    fn what_is_not_nothing_and_should_be_has_no_percentage_and_counts() {
        let mut findings = findings();
        findings.points[4].ours = 3.0;
        assert_eq!(findings.points[4].error(), None);
        assert_eq!(findings.score().not_zero, 1);
    }

    #[test]
    fn points_that_follow_from_others_do_not_count_and_blind_ones_keep_their_prediction() {
        let data = r#"{ "title": "T", "source": "S",
          "quantities": [ { "name": "speed", "unit": "Mop/s", "decimals": 1 } ],
          "points": [ { "quantity": "speed", "variant": "a", "value": 100 },
                      { "quantity": "speed", "variant": "b", "value": 200, "blind": 150 },
                      { "quantity": "speed", "variant": "b over a", "value": 2, "blind": 1.5, "follows": "b and a" } ] }"#;
        let mut findings = Findings::new("e0", Published::read(data), true);
        for (variant, ours) in [("a", 104.0), ("b", 180.0), ("b over a", 1.7), ("c", 7.0)] {
            findings.point("speed", variant, ours);
        }
        let marks = |findings: &Findings| findings.points.iter().map(Point::mark).collect::<Vec<_>>();
        assert_eq!(marks(&findings), ["", "blind", "follows", ""]);
        let score = findings.score();
        assert_eq!((score.published, score.predicted, score.independent, score.blind), (3, 3, 2, 1));
        let near = |errors: Option<Errors>, median: f64, worst: f64| {
            let found = errors.unwrap();
            assert!((found.median - median).abs() < 0.01 && (found.worst - worst).abs() < 0.01, "{found:?}");
        };
        // Errors of 4 and 10 percent now; 25 percent of the blind one then.
        near(score.errors, 7.0, 10.0);
        near(score.blind_errors, 25.0, 25.0);
        findings.points[0].fitted = true;
        findings.points[1].over_seeds = Some((170.0, 210.0));
        findings.points[2].over_seeds = Some((1.6, 1.8));
        assert_eq!(marks(&findings), ["fitted, not met", "blind, within", "follows, outside", ""]);
        findings.points[0].ours = 102.9;
        assert_eq!(findings.points[0].mark(), "fitted");
    }

    #[test]
    fn other_conditions_have_nothing_beside_them() {
        let mut findings = Findings::new("e0", findings().data, false);
        findings.point("speed", "34 threads", 7.0);
        assert_eq!((findings.points[0].published, findings.points[0].straight), (None, None));
        assert_eq!(findings.score().errors, None);
    }

    #[test]
    fn over_seeds_a_point_is_the_median_between_the_least_and_the_most() {
        let with = |ours: f64| {
            let mut findings = findings();
            findings.points[1].ours = ours;
            findings
        };
        assert_eq!(Findings::over_seeds(Vec::new()), None);
        let one = Findings::over_seeds(vec![with(1090.0)]).unwrap();
        assert_eq!((one.points[1].over_seeds, one.score().within), (None, None));
        let joined =
            Findings::over_seeds(vec![with(1090.0), with(1210.0), with(1100.0), with(1110.0)]).unwrap();
        let point = &joined.points[1];
        assert_eq!((point.ours, point.over_seeds), (1105.0, Some((1090.0, 1210.0))));
        // 1200 is between; 1275 is not between 1338.75 and 1338.75; 0 is 0.
        assert_eq!((point.is_within(), joined.points[2].is_within()), (Some(true), Some(false)));
        assert_eq!((joined.score().predicted, joined.score().within), (3, Some(2)));
        assert_eq!(joined.points[3].is_within(), None);
    }

    #[test]
    fn the_median_of_an_even_number_is_between_two() {
        assert_eq!(Errors::of([]), None);
        assert_eq!(Errors::of([-4.0, 1.0, 2.0, 3.0]), Some(Errors { median: 2.5, worst: 4.0 }));
    }
}
