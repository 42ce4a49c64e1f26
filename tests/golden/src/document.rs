//! Generated figures in documents: tables of experiments between two comments.
//!
//! ```text
//! <!-- e4: begin -->
//! generated text
//! <!-- e4: end -->
//! ```
//!
//! `cargo run --release -p millpond-golden --example figures [PART…]` writes them into `docs/explanation/simulator.md`, machines
//! and workloads into `docs/reference/simulator.md`, and experiments of our own into `docs/explanation/pools.md`. A test runs the
//! quick ones and compares the result.

use millpond_experiments::published::{
    ChoiceError, Choices, Errors, Experiment, Figure, Findings, Fit, Lab, Point, SEEDS, Score, fits,
    is_fitted, own_value,
};
use millpond_experiments::{EXPERIMENTS, Failure, OWN};
use millpond_sim::workloads::{Constant, Source, WORKLOADS};
use millpond_sim::{SimMachine, catalogue};
use serde_json::Value;
use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;

/// The page with the simulator's experiments, as of this build.
pub const SIMULATOR: &str = include_str!("../../../docs/explanation/simulator.md");

/// The page with machines, machine files and workloads.
pub const MACHINES: &str = include_str!("../../../docs/reference/simulator.md");

/// The page with measurements of pools, including experiments of our own.
pub const POOLS: &str = include_str!("../../../docs/explanation/pools.md");
/// The page of twins.
pub const TWIN: &str = include_str!("../../../docs/explanation/twin.md");

/// The page below `docs/` that a part belongs to, and its text.
#[must_use]
pub fn page_of(part: &str) -> (&'static str, &'static str) {
    match part {
        "machines" | "workloads" => ("reference/simulator.md", MACHINES),
        _ if OWN.iter().any(|experiment| experiment.name == part) => ("explanation/pools.md", POOLS),
        _ => ("explanation/simulator.md", SIMULATOR),
    }
}

/// The findings of an experiment of our own, in the form of a terminal session.
#[must_use]
pub fn verbatim(findings: &Findings) -> String {
    format!("\n```\n$ millpond experiment {}\n{}```\n\n", findings.experiment, findings.text())
}

/// Number of random seeds for figures.
const SEEDS_OF_FIGURES: &str = "20";

/// Runs an experiment without options, on unchanged machines. Uses several seeds if the experiment supports it.
///
/// # Errors
/// [`Failure`] of the run.
pub fn run(experiment: &Experiment) -> Result<Findings, Failure> {
    let (stop, mut quiet) = (AtomicBool::new(false), |_: &str| ());
    let mut choices = Choices::default();
    for option in experiment.options.iter().filter(|option| option.long == SEEDS.long) {
        let invalid = |error: ChoiceError| Failure::Machine(error.to_string());
        choices.give(option, SEEDS_OF_FIGURES).map_err(invalid)?;
    }
    experiment.run(&mut Lab::new(&stop, Vec::new(), &mut quiet), &choices)
}

/// The text between the comments of a name, if they exist.
#[must_use]
pub fn part<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let [begin, end] = marks(name);
    let (_, behind) = text.split_once(&begin)?;
    Some(behind.split_once(&end)?.0)
}

/// Replaces the text between the comments of a name; `None` if they do not exist.
#[must_use]
pub fn with_part(text: &str, name: &str, new: &str) -> Option<String> {
    let [begin, end] = marks(name);
    let (before, behind) = text.split_once(&begin)?;
    let (_, after) = behind.split_once(&end)?;
    Some([before, &begin, new, &end, after].concat())
}

fn marks(name: &str) -> [String; 2] {
    [format!("<!-- {name}: begin -->\n"), format!("<!-- {name}: end -->\n")]
}

/// Findings as a part of a document: all points, their accuracy, and the notes.
#[must_use]
pub fn markdown(findings: &Findings) -> String {
    let mut text = String::new();
    text.push('\n');
    for machine in &findings.machines {
        let _ = writeln!(text, "* {machine}");
    }
    text += "\n| quantity | conditions | published | blind | ours | over 20 seeds | error | straight line | |\n|---|---|---:|---:|---:|---:|---:|---:|---|\n";
    for point in &findings.points {
        let Point { quantity, variant, decimals, .. } = point;
        let number = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.decimals$}"));
        let error = point.error().map_or("-".into(), signed);
        let mark = if point.published.is_none() { "predicted".to_owned() } else { point.mark() };
        let number_of = |value: f64| format!("{value:.decimals$}");
        let between = match point.over_seeds.map(|(least, most)| [least, most].map(number_of)) {
            None => "-".to_owned(),
            Some([least, most]) if least == most => "same".to_owned(),
            Some([least, most]) => format!("{least} to {most}"),
        };
        let unit = match point.unit.as_str() {
            unit if unit.is_empty() || quantity.contains(unit) => String::new(),
            unit => format!(", {unit}"),
        };
        let _ = writeln!(
            text,
            "| {quantity}{unit} | {variant} | {} | {} | {} | {between} | {error} | {} | {mark} |",
            number(point.published),
            number(point.blind),
            number(Some(point.ours)),
            number(point.straight.filter(|_| !point.fitted)),
        );
    }
    text.push('\n');
    text += &worth(&findings.score());
    if !findings.notes.is_empty() {
        text.push('\n');
    }
    for note in &findings.notes {
        let _ = writeln!(text, "* {note}");
    }
    text.push('\n');
    text
}

/// Generates a part that needs no experiment.
type Write = fn() -> String;

/// Parts that need no experiment: names and generators.
pub const CATALOGUES: [(&str, Write); 5] = [
    ("machines", machines),
    ("workloads", workloads),
    ("fits", fitted),
    ("points", points),
    ("parameters", parameters),
];

/// Number of published points of each experiment, and their value as evidence.
#[must_use]
pub fn points() -> String {
    let mut text =
        "\n| experiment | published | fitted | follow from others | independent | of these blind |\n|---|---:|---:|---:|---:|---:|\n"
            .to_owned();
    let mut sums = [0; 5];
    for experiment in EXPERIMENTS {
        let published = experiment.published().points;
        let is_fitted = |f: &&Figure| is_fitted(experiment.name, &f.quantity, &f.variant);
        let follows = |f: &&Figure| f.follows.is_some();
        let independent = || published.iter().filter(|f| !is_fitted(f) && !follows(f));
        let counts = [
            published.len(),
            published.iter().filter(is_fitted).count(),
            published.iter().filter(|f| !is_fitted(f) && follows(f)).count(),
            independent().count(),
            independent().filter(|f| f.blind.is_some()).count(),
        ];
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum += count;
        }
        let _ = writeln!(text, "| {} | {} |", experiment.name, counts.map(|n| n.to_string()).join(" | "));
    }
    let _ = writeln!(text, "| all | {} |\n", sums.map(|n| n.to_string()).join(" | "));
    text
}

/// Number of model parameters by source, including those that are only in the code.
#[must_use]
pub fn parameters() -> String {
    let options = |source: Source| {
        WORKLOADS.iter().flat_map(|w| w.options).filter(|option| option.source() == source).count()
    };
    let sources: Vec<String> = catalogue::NAMES
        .iter()
        .flat_map(|name| machine_file(name)["sources"].as_object().cloned().unwrap_or_default())
        .map(|(_, source)| source.as_str().unwrap_or_default().to_owned())
        .collect();
    let kind = |source: &String| match () {
        () if source.contains("fitted to") || source.starts_with("fitted") => "fitted",
        () if source.contains("taken") => "taken",
        () => "published",
    };
    let fields = |wanted: &str| sources.iter().filter(|source| kind(source) == wanted).count();
    let constants = || WORKLOADS.iter().flat_map(|w| w.constants);
    let numbers: usize = constants().map(|constant| constant.values.len()).sum();
    let mut text = "\n| numbers | how many |\n|---|---:|\n".to_owned();
    for (what, count) in [
        ("parameters that were fitted", fits().len()),
        ("options of workloads that are assumed", options(Source::Assumed)),
        ("fields of machine files that are published", fields("published")),
        ("fields of machine files that are taken from elsewhere or estimated", fields("taken")),
        ("constants in the code of workloads that are assumed", constants().count()),
        ("numbers in these constants", numbers),
    ] {
        let _ = writeln!(text, "| {what} | {count} |");
    }
    text += "\n| workload | constant | values |\n|---|---|---|\n";
    for workload in WORKLOADS {
        for Constant { name, values } in workload.constants {
            let values: Vec<String> = values.iter().map(u64::to_string).collect();
            let _ = writeln!(text, "| `{}` | {name} | {} |", workload.name, values.join(", "));
        }
    }
    text.push('\n');
    text
}

/// The errors of the independent points of all experiments, from the tables of the page.
#[must_use]
pub fn together(page: &str) -> String {
    let number = |cell: &str| cell.trim_end_matches(" %").parse::<f64>().ok();
    let (mut count, mut errors, mut blind) = (0, Vec::new(), Vec::new());
    for line in EXPERIMENTS.iter().filter_map(|experiment| part(page, experiment.name)).flat_map(str::lines) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [_, _, published, guess, _, _, error, _, mark] = cells[..] else { continue };
        let Some(published) = number(published) else { continue };
        if mark.starts_with("fitted") || mark.starts_with("follows") {
            continue;
        }
        count += 1;
        errors.extend(number(error));
        blind.extend(
            number(guess).filter(|_| published != 0.0).map(|guess| (guess / published - 1.0) * 100.0),
        );
    }
    let within = |limit: f64| errors.iter().filter(|error| error.abs() <= limit).count();
    format!(
        "\nErrors of all {count} independent points: {}. {} of them are off by 10 % at most, {} by 25 %. Errors of {} blind predictions, as they were \
         then: {}.\n\n",
        said(Errors::of(errors.iter().copied())),
        within(10.0),
        within(25.0),
        blind.len(),
        said(Errors::of(blind)),
    )
}

/// The parsed file of a machine of the program.
fn machine_file(name: &str) -> Value {
    catalogue::text(name).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// All machines of the program, with the sources of their figures.
#[must_use]
pub fn machines() -> String {
    let mut text = "\n| machine | what it is | CPUs |\n|---|---|---:|\n".to_owned();
    for name in catalogue::NAMES {
        let count = SimMachine::named(name).map_or(0, |m| m.view(|s| s.topology.processors().len()));
        let about = machine_file(name)["about"].as_str().unwrap_or_default().to_owned();
        let _ = writeln!(text, "| `{name}` | {about} | {count} |");
    }
    text += "\nSources of their figures:\n\n| machine | figure | source |\n|---|---|---|\n";
    for name in catalogue::NAMES {
        let file = machine_file(name);
        let sources = file["sources"].as_object().cloned().unwrap_or_default();
        for (field, source) in &sources {
            let _ = writeln!(text, "| `{name}` | `{field}` | {} |", source.as_str().unwrap_or_default());
        }
    }
    text.push('\n');
    text
}

/// All workloads with their options.
#[must_use]
pub fn workloads() -> String {
    let mut text = String::new();
    for workload in WORKLOADS {
        let _ = writeln!(text, "\n`{}`: {}\n", workload.usage(), workload.summary);
        for option in workload.options {
            let _ = writeln!(text, "* `{}`: {}", option.form(), option.summary);
        }
    }
    text.push('\n');
    text
}

/// All fitted parameters, with their values and figures.
#[must_use]
pub fn fitted() -> String {
    let mut text = "\n| parameter | value | fitted to |\n|---|---:|---|\n".to_owned();
    for fit in fits() {
        let Fit { parameter, experiment, quantity, variant, .. } = &fit;
        let value = own_value(parameter).map_or("-".to_owned(), |value| value.to_string());
        let _ = writeln!(text, "| `{parameter}` | {value} | {experiment}: {quantity}, {variant} |");
    }
    text.push('\n');
    text
}

/// `+9.8 %`; zero has no sign.
fn signed(error: f64) -> String {
    if error.abs() < 0.05 { "0.0 %".to_owned() } else { format!("{error:+.1} %") }
}

/// The median of some errors, and the largest.
fn said(errors: Option<Errors>) -> String {
    errors
        .map_or("none".to_owned(), |e| format!("{:.1} % in the median, {:.1} % at worst", e.median, e.worst))
}

/// A sentence or two about the accuracy of the predictions.
fn worth(score: &Score) -> String {
    let fitted = score.published - score.predicted;
    let mut text = format!(
        "{} points were published: {fitted} fitted, {} predicted, of which {} follow from others. Errors of the other {}: {}.",
        score.published,
        score.predicted,
        score.predicted - score.independent,
        score.independent,
        said(score.errors)
    );
    if score.blind > 0 {
        let _ = write!(
            text,
            " {} of them were predicted before they were known: {}.",
            score.blind,
            said(score.blind_errors)
        );
    }
    if score.not_zero > 0 {
        let _ = write!(text, " {} more were published as 0 and are not.", score.not_zero);
    }
    if let Some(within) = score.within {
        let _ = write!(
            text,
            " Of these, {within} lie between the least and the most over {SEEDS_OF_FIGURES} seeds."
        );
    }
    text.push('\n');
    if score.on_lines > 0 {
        let _ = writeln!(
            text,
            "Where a straight line through other published points gives a figure ({} points), it is off by {}, and ours by {}.",
            score.on_lines,
            said(score.straight),
            said(score.ours_there)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_experiments::published::Published;

    const TEXT: &str = "a\n<!-- e4: begin -->\nold\n<!-- e4: end -->\nb\n";

    #[test]
    fn a_part_is_found_and_replaced_and_nothing_else() {
        assert_eq!(part(TEXT, "e4"), Some("old\n"));
        assert_eq!(part(TEXT, "e5"), None);
        let new = with_part(TEXT, "e4", "new\n").unwrap();
        assert_eq!(new, TEXT.replace("old", "new"));
        assert_eq!(with_part(TEXT, "e5", ""), None);
    }

    #[test]
    fn independent_rows_of_all_tables_count_together() {
        let page = "<!-- e4: begin -->\n| quantity | conditions | published | blind | ours | over 20 seeds | error | straight line | |\n|---|---|---:|---:|---:|---:|---:|---:|---|\n\
            | a | x | 100 | - | 104 | same | +4.0 % | - | outside |\n| a | y | 200 | 150 | 180 | same | -10.0 % | - | blind, outside |\n\
            | a | z | 10 | - | 10 | same | 0.0 % | - | fitted |\n| a | v | 2 | 1 | 2 | same | 0.0 % | - | follows, within |\n\
            | a | w | - | - | 7 | same | - | - | predicted |\n<!-- e4: end -->\n";
        let expected = "\nErrors of all 2 independent points: 7.0 % in the median, 10.0 % at worst. 2 of them are off by 10 % at most, 2 by 25 %. \
            Errors of 1 blind predictions, as they were then: 25.0 % in the median, 25.0 % at worst.\n\n";
        assert_eq!(together(page), expected);
    }

    #[test]
    fn points_become_rows() {
        let data = Published::read(
            r#"{ "title": "T", "source": "S",
              "quantities": [ { "name": "speed", "unit": "Mop/s", "decimals": 0 } ],
              "points": [ { "quantity": "speed", "variant": "a", "value": 200, "line": "l", "x": 1 },
                          { "quantity": "speed", "variant": "b", "value": 300, "line": "l", "x": 2 },
                          { "quantity": "speed", "variant": "c", "value": 500, "blind": 480, "line": "l", "x": 3 } ] }"#,
        );
        let mut findings = Findings::new("e0", data, true);
        findings.machines.push("m: 2 processors".into());
        findings.point("speed", "c", 450.0);
        findings.point("speed", "d", 7.4);
        findings.notes.push("as it came".into());
        // The line through 200 and 300 reaches 400, which is 20 % below 500.
        let expected = "
* m: 2 processors

| quantity | conditions | published | blind | ours | over 20 seeds | error | straight line | |
|---|---|---:|---:|---:|---:|---:|---:|---|
| speed, Mop/s | c | 500 | 480 | 450 | - | -10.0 % | 400 | blind |
| speed, Mop/s | d | - | - | 7 | - | - | - | predicted |

1 points were published: 0 fitted, 1 predicted, of which 0 follow from others. Errors of the other 1: 10.0 % in the median, 10.0 % at worst. 1 of them were predicted before they were known: 4.0 % in the median, 4.0 % at worst.
Where a straight line through other published points gives a figure (1 points), it is off by 20.0 % in the median, 20.0 % at worst, and ours by 10.0 % in the median, 10.0 % at worst.

* as it came

";
        assert_eq!(markdown(&findings), expected);
    }
}
