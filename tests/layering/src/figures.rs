//! Measured figures: the table of the newest figures must match the measured lines, and other pages must match the table.
//!
//! The head of [`RESULTS`] has a table between [`BEGIN`] and [`END`]. README has some of its rows, word for word. A row is the
//! newest line of a benchmark on that page, or a row of the page that it names in backquotes. No page may have a figure of an
//! older line.

use crate::Breach;
use crate::links::Page;

/// The page with the figures.
pub const RESULTS: &str = "lab/benches/RESULTS.md";

/// The page that repeats rows.
const README: &str = "README.md";

const BEGIN: &str = "<!-- newest figures -->";
const END: &str = "<!-- end of the newest figures -->";

/// The verdict in a row, and the corresponding word in a measured line.
const VERDICTS: [(&str, &str); 4] =
    [("met", "met"), ("missed", "MISSED"), ("open", "unresolvable"), ("no goal", "no goal")];

/// A figure with the bounds of its interval, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Figure<'t> {
    value: &'t str,
    bounds: Option<(&'t str, &'t str)>,
}

/// A line that `make bench` printed.
#[derive(Debug)]
struct Line<'t> {
    number: usize,
    /// The benchmark and the peer, in current words.
    benchmark: String,
    ours: &'t str,
    ratio: &'t str,
    bounds: Option<(&'t str, &'t str)>,
    goal: &'t str,
    verdict: &'t str,
}

/// A row of a table of the newest figures.
#[derive(Debug, Clone)]
struct Row<'t> {
    number: usize,
    text: &'t str,
    cells: Vec<&'t str>,
}

/// Rows that match no line or page, rows of README that are not in the table, and outdated figures on any page.
#[must_use]
pub fn check(pages: &[Page]) -> Vec<Breach> {
    let text = |path: &str| pages.iter().find(|page| page.path == path).map_or("", |page| page.text.as_str());
    let (results, readme) = (text(RESULTS), text(README));
    let lines = lines(results);
    let (rows, repeated) = (rows(results), rows(readme));
    let mut breaches = Vec::new();
    for (page, rows) in [(RESULTS, &rows), (README, &repeated)] {
        if rows.is_empty() {
            let what = format!("there is no table of figures between `{BEGIN}` and `{END}`");
            breaches.push(Breach { place: page.into(), what });
        }
    }
    let mut breach = |page: &str, number: usize, what: String| {
        breaches.push(Breach { place: format!("{page}:{number}"), what });
    };
    for row in &rows {
        let named = row.text.split('`').find(|part| part.ends_with(".md"));
        let what = match named {
            Some(page) => wrong_on_page(row, page, text(page)),
            None => wrong_in_lines(row, &lines),
        };
        if let Some(what) = what {
            breach(RESULTS, row.number, what);
        }
    }
    for row in repeated.iter().filter(|row| !rows.iter().any(|one| one.text == row.text)) {
        breach(README, row.number, format!("{RESULTS} has no such row"));
    }
    for page in pages.iter().filter(|page| page.path != RESULTS && page.path != "CHANGELOG.md") {
        for (number, figure) in figures(&page.text) {
            if let Some(newer) = newer_than(&figure, &lines) {
                breach(&page.path, number, format!("{} is outdated: {RESULTS}:{newer}", figure.value));
            }
        }
    }
    breaches
}

/// The rows between the comments, without the table head.
fn rows(page: &str) -> Vec<Row<'_>> {
    let inside = page.lines().enumerate().skip_while(|(_, line)| *line != BEGIN);
    let table = inside.take_while(|(_, line)| *line != END).filter(|(_, line)| line.starts_with('|')).skip(2);
    table
        .map(|(at, text)| {
            let cells = text.trim_matches('|').split(" | ").map(str::trim).collect();
            Row { number: at + 1, text, cells }
        })
        .collect()
}

/// The lines that `make bench` printed, in page order, which is the order in time.
fn lines(page: &str) -> Vec<Line<'_>> {
    page.lines()
        .enumerate()
        .filter_map(|(at, text)| {
            let [name, ours, peer, ratio, interval, pairs, goal, verdict] =
                text.split(" | ").collect::<Vec<_>>()[..]
            else {
                return None;
            };
            pairs.strip_suffix(" pairs")?;
            let (peer, _) = peer.rsplit_once(": ")?;
            let benchmark = format!("{name}, compared with {peer}");
            Some(Line {
                number: at + 1,
                benchmark: benchmark.replace("processors", "CPUs").replace("processor", "CPU"),
                ours: first_word(ours),
                ratio: first_word(ratio),
                bounds: first_word(interval).split_once(".."),
                goal: number_in(goal),
                verdict: verdict.split(" (").next().unwrap_or_default(),
            })
        })
        .collect()
}

fn first_word(text: &str) -> &str {
    text.split(' ').next().unwrap_or_default()
}

/// The first number in a text, or an empty text.
fn number_in(text: &str) -> &str {
    text.split(' ').find(|word| word.starts_with(|c: char| c.is_ascii_digit())).unwrap_or_default()
}

/// Parses `0.52 … (0.46 to 0.58)`, or a number alone.
fn figure(text: &str) -> Figure<'_> {
    let bounds = text.split_once('(').and_then(|(_, rest)| rest.split_once(')')?.0.split_once(" to "));
    Figure { value: number_in(text), bounds }
}

/// All figures with an interval on a page, with their lines.
fn figures(page: &str) -> Vec<(usize, Figure<'_>)> {
    let mut found = Vec::new();
    for (at, line) in page.lines().enumerate() {
        for (open, _) in line.match_indices('(') {
            let before = line[..open].rsplit(['|', '(', ',', ';']).next().unwrap_or_default();
            let number = before.split(' ').rfind(|word| word.starts_with(|c: char| c.is_ascii_digit()));
            let bounds = line[open + 1..].split_once(')').and_then(|(inside, _)| inside.split_once(" to "));
            if let (Some(value), Some(bounds)) = (number, bounds) {
                found.push((at + 1, Figure { value, bounds: Some(bounds) }));
            }
        }
    }
    found
}

/// Whether a number equals `exact`, rounded to the same number of decimals.
fn is_rounded(written: &str, exact: &str) -> bool {
    let decimals = written.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let half = 0.5 / 10_f64.powi(i32::try_from(decimals).unwrap_or(i32::MAX));
    let number = |text: &str| text.parse::<f64>().ok();
    number(written).zip(number(exact)).is_some_and(|(written, exact)| (written - exact).abs() <= half + 1e-9)
}

impl Line<'_> {
    /// Whether a figure is the ratio or the value of this line.
    fn has(&self, figure: &Figure<'_>) -> bool {
        let is_value = is_rounded(figure.value, self.ratio) || is_rounded(figure.value, self.ours);
        let are_bounds =
            |(low, high)| self.bounds.is_some_and(|(l, h)| is_rounded(low, l) && is_rounded(high, h));
        is_value && figure.bounds.is_none_or(are_bounds)
    }
}

/// The newest line of the same benchmark.
fn newest<'l, 't>(line: &Line<'_>, lines: &'l [Line<'t>]) -> Option<&'l Line<'t>> {
    lines.iter().rfind(|other| other.benchmark == line.benchmark)
}

/// The error in a row that should be a line of [`RESULTS`].
fn wrong_in_lines(row: &Row<'_>, lines: &[Line<'_>]) -> Option<String> {
    let [_, result, goal, verdict, _] = row.cells[..] else { return Some("a row has five cells".into()) };
    let figure = figure(result);
    let having: Vec<&Line<'_>> = lines.iter().filter(|line| line.has(&figure)).collect();
    let Some(last) = having.last() else { return Some(format!("no line below has {result}")) };
    let is_right = |line: &&Line<'_>| {
        let is_newest = newest(line, lines).is_some_and(|newest| newest.has(&figure));
        is_newest && line.goal == number_in(goal) && said(verdict) == Some(line.verdict)
    };
    if having.iter().any(is_right) {
        return None;
    }
    let newest = newest(last, lines).filter(|newest| !newest.has(&figure));
    Some(match newest {
        Some(newest) => format!("line {} is newer: {} ({})", newest.number, newest.ratio, newest.verdict),
        None => format!("line {} has the goal {} and says {}", last.number, last.goal, last.verdict),
    })
}

/// The error in a row that should be on another page: a row with the same result, goal and verdict in adjacent cells.
fn wrong_on_page(row: &Row<'_>, page: &str, text: &str) -> Option<String> {
    let [_, result, goal, verdict, _] = row.cells[..] else { return Some("a row has five cells".into()) };
    let wanted = format!("| {result} | {goal} | {verdict} ");
    (!text.lines().any(|line| line.contains(&wanted))).then(|| format!("{page} has no `{}`", wanted.trim()))
}

/// The word of a row for a line's verdict.
fn said(verdict: &str) -> Option<&'static str> {
    let (word, _) = verdict.split_once(':').unwrap_or((verdict, ""));
    VERDICTS.into_iter().find(|(row, _)| *row == word.trim_matches('*')).map(|(_, line)| line)
}

/// The line that replaced the one with this figure, unless a newest line has the figure.
fn newer_than(figure: &Figure<'_>, lines: &[Line<'_>]) -> Option<usize> {
    let having = || lines.iter().filter(|line| line.has(figure));
    let is_newest = |line: &Line<'_>| newest(line, lines).is_some_and(|newest| newest.has(figure));
    if having().any(is_newest) {
        return None;
    }
    having().next_back().and_then(|line| newest(line, lines)).map(|line| line.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "<!-- newest figures -->
| figure | result | goal | verdict | measured |
|---|---|---|---|---|
| a sample | 0.69 (0.63 to 0.78) | 0.5 | **missed** | 28 November 2026 |
| a fence | 2.9 (1.3 to 8.8) | 1.1 | **missed** | `lab/x.md` |
| events | 10.2 million, no interval | 5 million | open | 28 November 2026 |
<!-- end of the newest figures -->
";

    const BODY: &str = "
```
a: sample of a processor | 137 us | b: 256 us | 0.523 x | 0.457..0.580 x | 20 pairs | <= 0.5 x | unresolvable (the interval)
a: sample of a CPU | 110 us | b: 160 us | 0.691 x | 0.629..0.775 x | 14 pairs | <= 0.5 x | MISSED
events | 10.2 M/s | c: 3 M/s | - | - | 5 pairs | >= 5 M/s | unresolvable (too few)
```
";

    const PAGE: &str = "| at boot | 2.9 (1.3 to 8.8) | 1.1 | **missed** |\n";

    /// The breaches in three pages.
    fn breaches(results: &str, readme: &str, other: &str) -> Vec<String> {
        let page = |path: &str, text: &str| Page { path: path.into(), text: text.into() };
        let pages = [page(RESULTS, results), page(README, readme), page("lab/x.md", other)];
        check(&pages).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_table_that_agrees_with_its_lines_is_clean() {
        assert_eq!(breaches(&format!("{TABLE}{BODY}"), TABLE, PAGE), [""; 0]);
        // README may have fewer rows.
        let fewer: String =
            TABLE.lines().filter(|line| !line.contains("fence |")).map(|line| format!("{line}\n")).collect();
        assert_eq!(breaches(&format!("{TABLE}{BODY}"), &fewer, PAGE), [""; 0]);
    }

    #[test]
    fn a_row_that_a_newer_line_replaces_is_a_breach() {
        let old = TABLE.replace("0.69 (0.63 to 0.78) | 0.5 | **missed**", "0.52 (0.46 to 0.58) | 0.5 | open");
        assert_eq!(
            breaches(&format!("{old}{BODY}"), TABLE, PAGE),
            [
                "lab/benches/RESULTS.md:4: line 11 is newer: 0.691 (MISSED)",
                "README.md:4: lab/benches/RESULTS.md has no such row",
            ]
        );
        let outdated = format!("{PAGE}A sample takes 0.52 (0.46 to 0.58) of it.\n");
        assert_eq!(
            breaches(&format!("{TABLE}{BODY}"), TABLE, &outdated),
            ["lab/x.md:2: 0.52 is outdated: lab/benches/RESULTS.md:11"]
        );
    }

    #[test]
    fn figures_goals_and_verdicts_are_those_of_the_line_or_page() {
        let with = |from: &str, to: &str| {
            let table = TABLE.replace(from, to);
            breaches(&format!("{table}{BODY}"), &table, PAGE)
        };
        assert_eq!(
            with("0.69 (", "0.68 ("),
            ["lab/benches/RESULTS.md:4: no line below has 0.68 (0.63 to 0.78)"]
        );
        assert_eq!(
            with("| 0.5 | **missed**", "| 0.5 | met"),
            ["lab/benches/RESULTS.md:4: line 11 has the goal 0.5 and says MISSED"]
        );
        assert_eq!(
            with("| 5 million | open", "| 4 million | open"),
            ["lab/benches/RESULTS.md:6: line 12 has the goal 5 and says unresolvable"]
        );
        assert_eq!(
            with("| 1.1 | **missed**", "| 1.1 | met"),
            ["lab/benches/RESULTS.md:5: lab/x.md has no `| 2.9 (1.3 to 8.8) | 1.1 | met`"]
        );
        let nothing = "there is no table of figures between `<!-- newest figures -->` and `<!-- end of the newest figures -->`";
        let both = ["README.md", RESULTS].map(|page| format!("{page}: {nothing}"));
        let mut found = breaches(BODY, "", PAGE);
        found.sort();
        assert_eq!(found, both);
    }

    #[test]
    fn numbers_are_rounded_to_the_decimals_of_the_page() {
        assert!(is_rounded("0.52", "0.523") && is_rounded("66", "65.8") && is_rounded("7.2", "7.15"));
        assert!(!is_rounded("0.52", "0.526") && !is_rounded("65", "65.8") && !is_rounded("x", "1"));
    }
}
