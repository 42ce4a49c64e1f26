//! Findings as text, CSV, JSON and a picture.

use super::findings::{Errors, Findings, Point, Score};
use crate::timeline::stairs;
use millpond_report::{Bars, Cell, Group, Line, Lines, Table};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The JSON document. Errors are in percent of the published value.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Findings")]
pub struct Document<'f> {
    experiment: &'f str,
    title: &'f str,
    /// The publication.
    source: &'f str,
    machines: &'f [String],
    points: Vec<PointRow>,
    /// The number of published points without a fitted parameter.
    predicted: usize,
    /// The number of these that do not follow from other points.
    independent: usize,
    /// Errors of the independent points; null if there are none.
    errors: Option<ErrorsRow>,
    /// Errors of the independent points that were predicted before the figure was known, with the predictions of that time.
    blind_errors: Option<ErrorsRow>,
    straight_lines: StraightLines,
    /// By title: rows, each with a value per column.
    tables: BTreeMap<&'f str, &'f Table>,
    notes: &'f [String],
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Point")]
struct PointRow {
    quantity: String,
    /// The conditions.
    variant: String,
    #[schemars(with = "Option<f64>")]
    published: Cell,
    /// The result; the median over several seeds.
    #[schemars(with = "Option<f64>")]
    ours: Cell,
    /// The minimum over several seeds; null for one seed.
    #[schemars(with = "Option<f64>")]
    least: Cell,
    /// The maximum over several seeds; null for one seed.
    #[schemars(with = "Option<f64>")]
    most: Cell,
    #[schemars(with = "Option<f64>")]
    error: Cell,
    /// Whether a parameter was fitted to it: then it is not a prediction.
    fitted: bool,
    /// Whether it follows from other points: then it is not evidence.
    follows: bool,
    /// The prediction from before the figure was known.
    #[schemars(with = "Option<f64>")]
    blind: Cell,
}

/// Absolute errors.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Errors")]
struct ErrorsRow {
    #[schemars(with = "Option<f64>")]
    median: Cell,
    #[schemars(with = "Option<f64>")]
    worst: Cell,
}

/// Errors of straight lines through the other published points.
#[derive(Serialize, JsonSchema)]
struct StraightLines {
    /// The number of independent points on such a line.
    predicted: usize,
    errors: Option<ErrorsRow>,
    /// The model's errors at these points.
    ours: Option<ErrorsRow>,
}

impl Findings {
    /// Text output: the machines, a table of the points, the errors, and notes.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}: {}\n", self.experiment, self.data.title);
        let _ = match self.is_published() {
            true => writeln!(text, "published: {}", self.data.source),
            false => writeln!(text, "{}", self.data.source),
        };
        for machine in &self.machines {
            let _ = writeln!(text, "machine: {machine}");
        }
        let _ = match self.is_published() {
            true => {
                let score = self.score().text(self.comparison_is_possible());
                write!(text, "\n{}\n{score}", self.table().text())
            }
            // The tables contain the points too, and are easier to read.
            false if !self.tables.is_empty() => Ok(()),
            false => write!(text, "\n{}", self.plain_table().text()),
        };
        for (title, table) in &self.tables {
            let _ = write!(text, "\n{title}\n{}", table.text());
        }
        if !self.notes.is_empty() {
            text.push('\n');
        }
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        text
    }

    /// Whether any figure of the experiment was published, under any conditions.
    fn is_published(&self) -> bool {
        !self.data.points.is_empty()
    }

    /// The table of points without a comparison.
    fn plain_table(&self) -> Table {
        let between = self.are_over_seeds().then_some(["least", "most"]);
        let numbers: Vec<&str> = ["value"].into_iter().chain(between.into_iter().flatten()).collect();
        let mut table = Table::of(&["quantity", "variant"], &numbers);
        for point in &self.points {
            let quantity = [point.quantity.as_str(), point.unit.as_str()].join(", ");
            let [_, ours, least, most] = values(point);
            let between = between.map(|_| [least, most]).into_iter().flatten();
            let words = [quantity.trim_end_matches(", ").into(), point.variant.as_str().into(), ours];
            table.row(words.into_iter().chain(between));
        }
        table
    }

    /// The table of points.
    fn table(&self) -> Table {
        let between = self.are_over_seeds().then_some(["least", "most"]);
        let blind = self.points.iter().any(|point| point.blind.is_some()).then_some("blind");
        let front = ["published"].into_iter().chain(blind).chain(["ours"]);
        let numbers: Vec<&str> = front.chain(between.into_iter().flatten()).chain(["error"]).collect();
        let mut table = Table::of(&["quantity", "variant"], &numbers).and_words(&[""]);
        for point in &self.points {
            let quantity = match point.unit.as_str() {
                "" => point.quantity.clone(),
                unit if point.quantity.contains(unit) => point.quantity.clone(),
                unit => format!("{}, {unit}", point.quantity),
            };
            let error = point.error().map(|error| Cell::from(signed_percent(error)));
            let [published, ours, least, most] = values(point);
            let between = between.map(|_| [least, most]).into_iter().flatten();
            let front = [quantity.into(), point.variant.as_str().into(), published];
            let predicted = blind.map(|_| blind_of(point)).into_iter().chain([ours]);
            let back = [error.unwrap_or(Cell::Missing), point.mark().into()];
            table.row(front.into_iter().chain(predicted).chain(between).chain(back));
        }
        table
    }

    /// CSV output: a line for each point; errors in percent.
    #[must_use]
    pub fn csv(&self) -> String {
        if !self.is_published() {
            let mut table = Table::of(&["quantity", "variant", "unit", "value", "least", "most"], &[]);
            for point in &self.points {
                let [_, ours, least, most] = values(point);
                let [quantity, variant, unit] =
                    [&point.quantity, &point.variant, &point.unit].map(|text| Cell::from(text.as_str()));
                table.row([quantity, variant, unit, ours, least, most]);
            }
            return table.csv();
        }
        let mut table = Table::of(
            &[
                "quantity",
                "variant",
                "unit",
                "line",
                "x",
                "published",
                "ours",
                "error",
                "fitted",
                "least",
                "most",
                "follows",
                "blind",
            ],
            &[],
        );
        for point in &self.points {
            let place = point.place.as_ref();
            let [published, ours, least, most] = values(point);
            table.row([
                point.quantity.as_str().into(),
                point.variant.as_str().into(),
                point.unit.as_str().into(),
                place.map(|place| place.0.as_str()).into(),
                place.map(|place| (place.1, 0)).into(),
                published,
                ours,
                point.error().map(tenths).into(),
                if point.fitted { "true" } else { "false" }.into(),
                least,
                most,
                if point.follows { "true" } else { "false" }.into(),
                blind_of(point),
            ]);
        }
        table.csv()
    }

    /// JSON output.
    #[must_use]
    pub fn json(&self) -> Document<'_> {
        let point = |point: &'_ Point| {
            let [published, ours, least, most] = values(point);
            PointRow {
                quantity: point.quantity.clone(),
                variant: point.variant.clone(),
                published,
                ours,
                least,
                most,
                error: point.error().map(tenths).into(),
                fitted: point.fitted,
                follows: point.follows,
                blind: blind_of(point),
            }
        };
        let score = self.score();
        let errors =
            |errors: Errors| ErrorsRow { median: (errors.median, 1).into(), worst: (errors.worst, 1).into() };
        Document {
            experiment: &self.experiment,
            title: &self.data.title,
            source: &self.data.source,
            machines: &self.machines,
            points: self.points.iter().map(point).collect(),
            predicted: score.predicted,
            independent: score.independent,
            errors: score.errors.map(errors),
            blind_errors: score.blind_errors.map(errors),
            straight_lines: StraightLines {
                predicted: score.on_lines,
                errors: score.straight.map(errors),
                ours: score.ours_there.map(errors),
            },
            tables: self.tables.iter().map(|(title, table)| (title.as_str(), table)).collect(),
            notes: &self.notes,
        }
    }

    /// A picture of the first measured quantity: lines if its points are on lines, otherwise bars.
    #[must_use]
    pub fn svg(&self) -> String {
        let Some(first) = self.points.first() else { return self.bars(&[]).svg() };
        let of_first: Vec<&Point> =
            self.points.iter().filter(|point| point.quantity == first.quantity).collect();
        let on_lines: Vec<&Point> = of_first.iter().copied().filter(|point| point.place.is_some()).collect();
        if on_lines.len() > 1 { self.lines(&on_lines).svg() } else { self.bars(&of_first).svg() }
    }

    fn lines(&self, points: &[&Point]) -> Lines {
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in points.iter().filter_map(|point| point.place.as_ref()) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        let line = |name: &str, what: &str, value: &dyn Fn(&Point) -> Option<f64>| {
            let of_line =
                points.iter().filter(|point| point.place.as_ref().is_some_and(|place| place.0 == name));
            let mut points: Vec<(f64, f64)> =
                of_line.filter_map(|point| Some((point.place.as_ref()?.1, value(point)?))).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Line { name: if names.len() > 1 { format!("{name}, {what}") } else { what.to_owned() }, points }
        };
        let quantity = self.data.quantity(&points[0].quantity);
        let of_name = |name: &&str| {
            [line(name, "published", &|point| point.published), line(name, "ours", &|point| Some(point.ours))]
        };
        let mut lines: Vec<Line> =
            names.iter().flat_map(of_name).filter(|line| !line.points.is_empty()).collect();
        if quantity.stays {
            let end = lines.iter().flat_map(|line| &line.points).map(|point| point.0).reduce(f64::max);
            for line in &mut lines {
                line.points = stairs(std::mem::take(&mut line.points), end);
                // Without published figures no distinction is needed.
                line.name = line.name.trim_end_matches(", ours").to_owned();
            }
        }
        let (unit_x, unit_y, log_x) = (quantity.x, quantity.unit, quantity.stays);
        Lines { title: self.heading(&quantity.name), unit_x, unit_y, log_x, lines }
    }

    fn bars(&self, points: &[&Point]) -> Bars {
        let is_published = self.is_published();
        let of = |published: Option<f64>, ours: f64| match is_published {
            true => vec![published, Some(ours)],
            false => vec![Some(ours)],
        };
        let group =
            |point: &&Point| Group { name: point.variant.clone(), values: of(point.published, point.ours) };
        let quantity = self.data.quantity(points.first().map_or("", |point| point.quantity.as_str()));
        Bars {
            title: self.heading(&quantity.name),
            unit: quantity.unit,
            series: if is_published { vec!["published".into(), "ours".into()] } else { vec!["ours".into()] },
            groups: points.iter().map(group).collect(),
        }
    }

    fn heading(&self, quantity: &str) -> String {
        format!("{}: {}: {quantity}", self.experiment, self.data.title)
    }

    /// Whether any measured figure was published.
    fn comparison_is_possible(&self) -> bool {
        self.points.iter().any(|point| point.published.is_some())
    }
}

/// Published and measured values, with the quantity's decimals.
fn values(point: &Point) -> [Cell; 4] {
    let cell = |value: f64| Cell::Real(value, point.decimals);
    let known = |value: Option<f64>| value.map_or(Cell::Missing, cell);
    let [least, most] = [point.over_seeds.map(|both| both.0), point.over_seeds.map(|both| both.1)];
    [known(point.published), cell(point.ours), known(least), known(most)]
}

/// The blind prediction, with the quantity's decimals.
fn blind_of(point: &Point) -> Cell {
    point.blind.map_or(Cell::Missing, |value| Cell::Real(value, point.decimals))
}

/// An error in percent with one decimal. Zero has no sign.
fn tenths(error: f64) -> Cell {
    Cell::Real(if error.abs() < 0.05 { 0.0 } else { error }, 1)
}

/// An error as text: `+9.8 %`.
fn signed_percent(error: f64) -> String {
    // Zero has no sign.
    if error.abs() < 0.05 { "0.0 %".to_owned() } else { format!("{error:+.1} %") }
}

impl Score {
    /// Two lines: the errors of the predictions, and those of straight lines.
    fn text(&self, possible: bool) -> String {
        if !possible {
            return "no figure of these was published\n".to_owned();
        }
        let said = |errors: Option<Errors>| {
            errors.map_or("no error".to_owned(), |errors| {
                format!("median error {:.1} %, worst {:.1} %", errors.median, errors.worst)
            })
        };
        let mut text = format!(
            "of {} published, {} predicted and {} fitted; ",
            self.published,
            self.predicted,
            self.published - self.predicted,
        );
        let following = self.predicted - self.independent;
        if following > 0 {
            let _ = write!(
                text,
                "{following} of the predicted follow from others; the other {}: ",
                self.independent
            );
        } else {
            text.push_str("predicted: ");
        }
        text.push_str(&said(self.errors));
        if self.not_zero > 0 {
            let _ = write!(text, "; {} published as 0 and not so here", self.not_zero);
        }
        if let Some(within) = self.within {
            let _ = write!(text, "; {within} between the least and the most over all seeds");
        }
        if self.blind > 0 {
            let _ = write!(
                text,
                "; {} of them predicted before they were known: {}",
                self.blind,
                said(self.blind_errors)
            );
        }
        text.push('\n');
        if let (Some(_), Some(_)) = (self.straight, self.ours_there) {
            let _ = writeln!(
                text,
                "straight lines through the other published points, where {} of these lie on one: {}; ours there: {}",
                self.on_lines,
                said(self.straight),
                said(self.ours_there)
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::findings::tests::findings;
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn people_read_a_table_and_what_it_is_worth() {
        let expected = "\
e0: Threads
published: a machine; 2015
machine: t2-64: 64 CPUs

quantity      variant     published  ours    error
speed, Mop/s  32 threads       1000  1000    0.0 %  fitted
speed, Mop/s  34 threads       1200  1080  -10.0 %
speed, Mop/s  38 threads       1275  1339   +5.0 %
speed, Mop/s  40 threads          -  1400        -
samples, %    elsewhere         0.0   0.0    0.0 %

of 4 published, 3 predicted and 1 fitted; predicted: median error 5.0 %, worst 10.0 %
straight lines through the other published points, where 2 of these lie on one: median error 17.3 %, worst 25.5 %; \
ours there: median error 7.5 %, worst 10.0 %

note: as it came
";
        assert_eq!(findings().text(), expected);
    }

    #[test]
    fn over_seeds_the_least_and_the_most_are_beside_each_figure() {
        let mut other = findings();
        other.points[1].ours = 1260.0;
        let joined = Findings::over_seeds(vec![findings(), other]).unwrap();
        let text = joined.text();
        for line in [
            "quantity      variant     published  ours  least  most   error",
            "speed, Mop/s  34 threads       1200  1170   1080  1260  -2.5 %  within",
            "speed, Mop/s  38 threads       1275  1339   1339  1339  +5.0 %  outside",
            "speed, Mop/s  40 threads          -  1400   1400  1400       -",
        ] {
            assert!(text.lines().any(|found| found == line), "{text}");
        }
        assert!(text.contains("worst 5.0 %; 2 between the least and the most over all seeds\n"), "{text}");
        assert!(joined.csv().contains(",1200,1170,-2.5,false,1080,1260,false,\n"));
        let json = serde_json::to_value(joined.json()).unwrap();
        assert_eq!(
            (&json["points"][1]["least"], &json["points"][1]["most"]),
            (&json!(1080.0), &json!(1260.0))
        );
    }

    #[test]
    fn blind_predictions_have_a_column_and_a_sentence() {
        let mut findings = findings();
        findings.points[1].blind = Some(1140.0);
        findings.points[2].follows = true;
        let text = findings.text();
        for line in [
            "quantity      variant     published  blind  ours    error",
            "speed, Mop/s  34 threads       1200   1140  1080  -10.0 %  blind",
            "speed, Mop/s  38 threads       1275      -  1339   +5.0 %  follows",
            "of 4 published, 3 predicted and 1 fitted; 1 of the predicted follow from others; the other 2: median error 5.0 %, \
             worst 10.0 %; 1 of them predicted before they were known: median error 5.0 %, worst 5.0 %",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(findings.csv().contains(",1200,1080,-10.0,false,,,false,1140\n"));
        let json = serde_json::to_value(findings.json()).unwrap();
        assert_eq!((&json["points"][1]["blind"], &json["independent"]), (&json!(1140.0), &json!(2)));
        assert_eq!(json["blind_errors"]["worst"], json!(5.0));
    }

    #[test]
    fn what_was_published_as_nothing_and_is_not_is_told() {
        let mut findings = findings();
        findings.points[4].ours = 3.0;
        assert!(findings.text().contains("worst 10.0 %; 1 published as 0 and not so here\n"));
        let mut other = Findings::new("e0", findings.data.clone(), false);
        other.point("speed", "34 threads", 7.0);
        assert!(other.text().ends_with("\nno figure of these was published\n"));
    }

    #[test]
    fn of_an_experiment_of_our_own_nothing_stands_beside_what_we_get() {
        let data = r#"{ "title": "Turns", "source": "our own", "points": [],
          "quantities": [ { "name": "work", "unit": "processors", "decimals": 1 } ] }"#;
        let mut findings = Findings::new("turns", super::super::Published::read(data), false);
        findings.machines.push("two processors".into());
        findings.point("work", "nothing", 2.0);
        findings.notes.push("as it came".into());
        let expected = "\
turns: Turns
our own
machine: two processors

quantity          variant  value
work, processors  nothing    2.0

note: as it came
";
        assert_eq!(findings.text(), expected);
        assert_eq!(findings.csv(), "quantity,variant,unit,value,least,most\nwork,nothing,processors,2.0,,\n");
        assert!(findings.svg().contains("<title>nothing, ours: 2.0 processors</title>"));
    }

    #[test]
    fn spreadsheets_read_numbers() {
        let expected = "\
quantity,variant,unit,line,x,published,ours,error,fitted,least,most,follows,blind
speed,32 threads,Mop/s,growing,32,1000,1000,0.0,true,,,false,
speed,34 threads,Mop/s,growing,34,1200,1080,-10.0,false,,,false,
speed,38 threads,Mop/s,growing,38,1275,1339,5.0,false,,,false,
speed,40 threads,Mop/s,growing,40,,1400,,false,,,false,
samples,elsewhere,%,,,0.0,0.0,0.0,false,,,false,
";
        assert_eq!(findings().csv(), expected);
    }

    #[test]
    fn programs_read_points() {
        let findings = findings();
        let json = serde_json::to_value(findings.json()).unwrap();
        let point = |variant: &str, published: Value, ours: f64, error: Value, fitted: bool| json!({ "quantity": "speed", "variant": variant, "published": published, "ours": ours, "least": null, "most": null, "error": error, "fitted": fitted, "follows": false, "blind": null });
        assert_eq!(json["points"][0], point("32 threads", json!(1000.0), 1000.0, json!(0.0), true));
        assert_eq!(json["points"][1], point("34 threads", json!(1200.0), 1080.0, json!(-10.0), false));
        assert_eq!(json["points"][3], point("40 threads", Value::Null, 1400.0, Value::Null, false));
        assert_eq!(json["errors"], json!({ "median": 5.0, "worst": 10.0 }));
        assert_eq!(json["straight_lines"]["errors"], json!({ "median": 17.3, "worst": 25.5 }));
        assert_eq!(json["machines"], json!(["t2-64: 64 CPUs"]));
    }

    #[test]
    fn what_rounds_to_nothing_has_no_sign() {
        let mut findings = findings();
        findings.points[0].ours = 999.8;
        let json = serde_json::to_value(findings.json()).unwrap();
        assert_eq!(json["points"][0]["error"].to_string(), "0.0");
        assert!(findings.csv().contains(",1000,1000,0.0,true,,,false,\n"));
    }

    #[test]
    fn points_on_a_line_are_drawn_as_one_and_others_as_bars() {
        let lines = findings().svg();
        assert_eq!(lines.matches("<polyline").count(), 2);
        assert!(
            lines.contains(">e0: Threads: speed<")
                && lines.contains(">published<")
                && lines.contains(">ours<")
        );
        let mut findings = findings();
        findings.points.drain(..4);
        assert!(findings.svg().contains("<title>elsewhere, ours: 0.0 %</title>"));
        findings.points.clear();
        assert!(findings.svg().ends_with("</svg>\n"));
    }
}
