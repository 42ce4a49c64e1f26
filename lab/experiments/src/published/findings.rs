//! What came of an experiment: its points, each beside the published one, and what it was worth as a prediction.

use super::data::{Figure, Published};
use super::fits::is_fitted;
use millpond_report::Table;

/// One figure of ours.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// What was measured.
    pub quantity: String,
    /// Under which conditions.
    pub variant: String,
    /// What both values are in.
    pub unit: String,
    /// Digits after the point that a person should see.
    pub decimals: usize,
    /// Where it lies among points that differ in one number alone: their line, and the number.
    pub place: Option<(String, f64)>,
    /// What was published.
    pub published: Option<f64>,
    /// What we get; over several seeds the median.
    pub ours: f64,
    /// The least and the most over several seeds.
    pub over_seeds: Option<(f64, f64)>,
    /// A parameter was fitted to it, so that it is no prediction.
    pub fitted: bool,
    /// It follows from other points, so that it is no evidence of its own.
    pub follows: bool,
    /// What was predicted before the figure was known.
    pub blind: Option<f64>,
    /// What a straight line through the other published points gives.
    pub straight: Option<f64>,
}

impl Point {
    /// How far ours is from what was published, in percent of that. None where nothing, or nothing but 0, was published and ours is
    /// not the same.
    #[must_use]
    pub fn error(&self) -> Option<f64> {
        self.published.and_then(|published| error(self.ours, published))
    }

    /// Whether what was published lies between the least and the most over several seeds.
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

    /// How far the blind prediction was off, in percent of what was published.
    #[must_use]
    pub fn blind_error(&self) -> Option<f64> {
        error(self.blind?, self.published?)
    }

    /// The last column of tables: `fitted` (`fitted, not met` beyond [`FIT_SLACK`]), `follows`, `blind`, and over several seeds where the
    /// published figure lies.
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

/// How far from its figure a fitted parameter may leave the model, as a share of the figure: beyond, the fit is not met.
pub const FIT_SLACK: f64 = 0.03;

/// In percent.
fn error(ours: f64, published: f64) -> Option<f64> {
    let percent = if ours == published { 0.0 } else { (ours / published - 1.0) * 100.0 };
    percent.is_finite().then_some(percent)
}

/// What several errors amount to, in percent without signs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Errors {
    /// As many are smaller as are greater.
    pub median: f64,
    /// The greatest.
    pub worst: f64,
}

impl Errors {
    /// Of none there are none.
    #[must_use]
    pub fn of(errors: impl IntoIterator<Item = f64>) -> Option<Errors> {
        let mut sizes: Vec<f64> = errors.into_iter().map(f64::abs).collect();
        sizes.sort_by(f64::total_cmp);
        let worst = *sizes.last()?;
        Some(Errors { median: median(&sizes), worst })
    }
}

/// As many are smaller as are greater, of values in order; 0 of none.
pub(crate) fn median(sorted: &[f64]) -> f64 {
    let at = |place: usize| sorted.get(place).copied().unwrap_or(0.0);
    f64::midpoint(at(sorted.len().saturating_sub(1) / 2), at(sorted.len() / 2))
}

/// How good the predictions are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// Points that were published.
    pub published: usize,
    /// Of these, those to which nothing was fitted.
    pub predicted: usize,
    /// Of these, those that do not follow from others. All that comes below is of these.
    pub independent: usize,
    /// Those that were predicted before the figure was known.
    pub blind: usize,
    /// The errors of the blind predictions, as they were then.
    pub blind_errors: Option<Errors>,
    /// Those that were published as 0 and are not.
    pub not_zero: usize,
    /// Those that lie between the least and the most over several seeds; none over one.
    pub within: Option<usize>,
    /// Their errors.
    pub errors: Option<Errors>,
    /// Those through whose neighbours a straight line goes.
    pub on_lines: usize,
    /// The errors of these lines there.
    pub straight: Option<Errors>,
    /// Our errors there.
    pub ours_there: Option<Errors>,
}

/// What came of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Findings {
    /// The experiment's name.
    pub experiment: String,
    /// What was published.
    pub data: Published,
    /// The machines, a sentence each.
    pub machines: Vec<String>,
    /// The points, in the order in which they were measured.
    pub points: Vec<Point>,
    /// More of what was measured, each under its title.
    pub tables: Vec<(String, Table)>,
    /// What a reader should know.
    pub notes: Vec<String>,
    /// Whether the conditions are those of the published experiment, so that points are comparable.
    comparable: bool,
}

impl Findings {
    /// Nothing yet. `comparable`: the conditions are the published ones; otherwise points have nothing beside them.
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

    /// Adds a point. What was published of it, and where it lies, is looked up.
    pub fn point(&mut self, quantity: &str, variant: &str, ours: f64) {
        self.add(quantity, variant, None, ours);
    }

    /// Adds a point that lies on a line, published or not.
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

    /// The same over several seeds of chance as one: of each point the median, the least and the most of those that have it. Everything
    /// else, and the points that there are, is as with the first seed.
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

    /// Whether they are of several seeds.
    #[must_use]
    pub fn are_over_seeds(&self) -> bool {
        self.points.iter().any(|point| point.over_seeds.is_some())
    }

    /// How good the predictions are.
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
