//! The listings of `pginfo` and `pgstat`: processor groups in a table, as a tree, and with their utilization.
//!
//! In tables a group is indented by one blank for each displayed ancestor. A nonzero decimal of a utilization is
//! printed: `2.8%`, `100%`.

use millpond_model::{CacheKind, CpuSet, PgId, ProcessorGroup, Relationship};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A word that does not select groups.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PgError {
    /// A number is expected.
    #[error("column {column}: `{text}` is not the number of a processor group")]
    NotANumber {
        /// The position in bytes, from 1.
        column: usize,
        /// The text at this position.
        text: String,
    },
    /// A range whose end is before its start.
    #[error("column {column}: the range {first}-{last} runs backwards")]
    Backwards {
        /// The position in bytes, from 1.
        column: usize,
        /// Its start.
        first: u32,
        /// Its end.
        last: u32,
    },
}

/// A range of group numbers, both ends included; a single number is a range of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PgRange {
    /// The lowest number.
    pub first: PgId,
    /// The highest number.
    pub last: PgId,
}

/// The form that can be typed.
impl std::fmt::Display for PgRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.first == self.last {
            return write!(f, "processor group {}", self.first);
        }
        write!(f, "processor groups {}-{}", self.first, self.last)
    }
}

/// Parses a word: numbers and ranges, separated by commas (`0,3-5`).
///
/// # Errors
/// [`PgError`] for the first invalid item.
pub fn parse_pgs(word: &str) -> Result<Vec<PgRange>, PgError> {
    let mut ranges = Vec::new();
    let mut column = 1;
    for item in word.split(',') {
        let wrong = || PgError::NotANumber { column, text: item.to_owned() };
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            if digits { text.parse::<u32>().map_err(|_| wrong()) } else { Err(wrong()) }
        };
        let (first, last) = match item.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(item)?, number(item)?),
        };
        if last < first {
            return Err(PgError::Backwards { column, first, last });
        }
        ranges.push(PgRange { first: PgId(first), last: PgId(last) });
        column += item.len() + 1;
    }
    Ok(ranges)
}

/// A displayed group with the number of its displayed ancestors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed<'g> {
    /// The group.
    pub group: &'g ProcessorGroup,
    /// 0 without displayed ancestors.
    pub depth: usize,
}

/// The displayed groups in their order, which is depth first.
#[must_use]
pub fn placed<'g>(
    groups: &'g [ProcessorGroup],
    is_shown: impl Fn(&ProcessorGroup) -> bool,
) -> Vec<Placed<'g>> {
    // For each group the depth of its children.
    let mut inside: BTreeMap<PgId, usize> = BTreeMap::new();
    let mut placed = Vec::new();
    for group in groups {
        let depth = group.parent.and_then(|parent| inside.get(&parent).copied()).unwrap_or(0);
        let shown = is_shown(group);
        inside.insert(group.id, depth + usize::from(shown));
        if shown {
            placed.push(Placed { group, depth });
        }
    }
    placed
}

/// The shared hardware, and with `physical` the physical parts with the same CPUs: `Integer_Pipeline [core]`.
#[must_use]
pub fn label(group: &ProcessorGroup, physical: bool) -> String {
    let parts: Vec<&str> = group.physical.iter().map(|part| part.word()).collect();
    match parts.as_slice() {
        [] => group.relationship.to_string(),
        _ if !physical => group.relationship.to_string(),
        parts => format!("{} [{}]", group.relationship, parts.join(",")),
    }
}

/// Details of the shared hardware: caches with sizes, or the meaning of the relationship.
#[must_use]
pub fn shared(group: &ProcessorGroup) -> String {
    let cache = |(kind, size): &(CacheKind, Option<u64>)| {
        let kind = match kind {
            CacheKind::Data => "data",
            CacheKind::Instruction => "instruction",
            CacheKind::Unified => "unified",
        };
        size.map_or_else(|| kind.to_owned(), |kib| format!("{kind} {kib} KiB"))
    };
    if group.caches.is_empty() {
        return group.relationship.meaning();
    }
    let caches: Vec<String> = group.caches.iter().map(cache).collect();
    format!("{}: {}", group.relationship.meaning(), caches.join(", "))
}

/// The CPUs of a group, on-line ones first: `0-2 (off-line: 3)`.
#[must_use]
pub fn cpus(group: &ProcessorGroup, on_line: &CpuSet) -> String {
    let (on, off) = (&group.cpus & on_line, &group.cpus - on_line);
    match (on.is_empty(), off.is_empty()) {
        (_, true) => on.to_string(),
        (true, false) => format!("- (off-line: {off})"),
        (false, false) => format!("{on} (off-line: {off})"),
    }
}

/// The table of `pginfo`, lines with newlines; with `verbose` a line about the shared hardware below each group.
#[must_use]
pub fn list(placed: &[Placed<'_>], physical: bool, verbose: bool, on_line: &CpuSet) -> String {
    let label = |p: &Placed<'_>| indented(p.depth, &label(p.group, physical));
    let (id, width) = widths(placed, placed.iter().map(|p| label(p).len()));
    let mut text = format!("{:>id$}  {:<width$}  CPUs\n", "PG", "RELATIONSHIP");
    for p in placed {
        let _ = writeln!(text, "{:>id$}  {:<width$}  {}", p.group.id, label(p), cpus(p.group, on_line));
        if verbose {
            let _ = writeln!(text, "{:id$}  {:depth$}  {}", "", "", shared(p.group), depth = p.depth);
        }
    }
    text
}

/// The widths of the first two columns.
fn widths(placed: &[Placed<'_>], labels: impl Iterator<Item = usize>) -> (usize, usize) {
    let id = placed.iter().map(|p| p.group.id.to_string().len()).max().unwrap_or(0).max(2);
    (id, labels.max().unwrap_or(0).max("RELATIONSHIP".len()))
}

fn indented(depth: usize, text: &str) -> String {
    format!("{:depth$}{text}", "")
}

/// The tree of `pginfo -T`, lines with newlines.
#[must_use]
pub fn tree(placed: &[Placed<'_>], physical: bool, verbose: bool, on_line: &CpuSet) -> String {
    let mut text = String::new();
    // For each depth, whether a sibling of the group follows.
    let mut goes_on: Vec<bool> = Vec::new();
    for (at, p) in placed.iter().enumerate() {
        let below = placed[at + 1..].iter().take_while(|other| other.depth >= p.depth);
        goes_on.truncate(p.depth);
        goes_on.push(below.clone().any(|other| other.depth == p.depth));
        let has_children = placed.get(at + 1).is_some_and(|next| next.depth > p.depth);
        let lead = |lines: &[bool]| -> String {
            lines.iter().skip(1).map(|more| if *more { "|   " } else { "    " }).collect()
        };
        let branch = match (p.depth, goes_on.last()) {
            (0, _) => "",
            (_, Some(true)) => "|-- ",
            _ => "`-- ",
        };
        let (group, before) = (p.group, lead(&goes_on[..p.depth]));
        let (label, cpus) = (label(group, physical), cpus(group, on_line));
        let _ = writeln!(text, "{before}{branch}{} ({label}) CPUs: {cpus}", group.id);
        if verbose {
            let bar = if has_children { "|   " } else { "    " };
            let _ = writeln!(text, "{}{bar}{}", lead(&goes_on), shared(group));
        }
    }
    text
}

/// The listing of `pginfo -s`, lines with newlines: names; with `verbose` the number of groups and the shared hardware.
#[must_use]
pub fn relationships(counts: &[(Relationship, usize)], verbose: bool) -> String {
    if !verbose {
        return counts.iter().map(|(name, _)| format!("{name}\n")).collect();
    }
    let width = counts.iter().map(|(name, _)| name.to_string().len()).max().unwrap_or(0);
    let width = width.max("RELATIONSHIP".len());
    let mut text = format!("{:<width$}    PGS  SHARED\n", "RELATIONSHIP");
    for (name, groups) in counts {
        let _ = writeln!(text, "{name:<width$}  {groups:>5}  {}", name.meaning());
    }
    text
}

/// A row of `pgstat`: utilization of the CPUs in percent.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// The group; `None` for a row of a CPU.
    pub id: Option<PgId>,
    /// Its indentation.
    pub depth: usize,
    /// The shared hardware.
    pub label: String,
    /// Utilization of the hardware, if it can be measured.
    pub hardware: Option<f64>,
    /// Utilization of the CPUs by programs; `None` if no time passed.
    pub software: Option<Software>,
    /// The on-line CPUs.
    pub cpus: CpuSet,
}

/// Time of the CPUs by use, in percent of the available time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Software {
    /// User mode.
    pub user: f64,
    /// Kernel mode.
    pub sys: f64,
    /// Idle.
    pub idle: f64,
}

impl Software {
    /// User and kernel mode together.
    #[must_use]
    pub fn used(&self) -> f64 {
        self.user + self.sys
    }
}

/// A utilization as text; `-` for none.
#[must_use]
pub fn percent(value: Option<f64>) -> String {
    let Some(value) = value else { return "-".into() };
    let text = format!("{value:.1}");
    format!("{}%", text.strip_suffix(".0").unwrap_or(&text))
}

fn cpu_list(cpus: &CpuSet) -> String {
    if cpus.is_empty() { "-".into() } else { cpus.to_string() }
}

/// The table of `pgstat`, lines with newlines; with `verbose` also user, kernel and idle time.
#[must_use]
pub fn loads(rows: &[Load], verbose: bool) -> String {
    let (id, width) = load_widths(rows.iter().map(|row| (row.id, row.depth, row.label.as_str())));
    let more = if verbose { "   USR   SYS  IDLE" } else { "" };
    let mut text = format!("{:>id$}  {:<width$} {:>4} {:>5}{more}  CPUS\n", "PG", "RELATIONSHIP", "HW", "SW");
    for row in rows {
        let pg = row.id.map_or("-".to_owned(), |id| id.to_string());
        let (hw, sw) = (percent(row.hardware), percent(row.software.map(|s| s.used())));
        let _ = write!(text, "{pg:>id$}  {:<width$} {hw:>4} {sw:>5}", indented(row.depth, &row.label));
        if verbose {
            let part = |of: fn(&Software) -> f64| percent(row.software.as_ref().map(of));
            let _ = write!(text, " {:>5} {:>5} {:>5}", part(|s| s.user), part(|s| s.sys), part(|s| s.idle));
        }
        let _ = writeln!(text, "  {}", cpu_list(&row.cpus));
    }
    text
}

fn load_widths<'r>(rows: impl Iterator<Item = (Option<PgId>, usize, &'r str)>) -> (usize, usize) {
    let (mut id, mut width) = (2, "RELATIONSHIP".len());
    for (pg, depth, label) in rows {
        id = id.max(pg.map_or(1, |pg| pg.to_string().len()));
        width = width.max(depth + label.len());
    }
    (id, width)
}

/// A row of the summary of `pgstat -A`: minimum, mean and maximum over the intervals.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The group.
    pub id: PgId,
    /// Its indentation.
    pub depth: usize,
    /// The shared hardware.
    pub label: String,
    /// Utilization of the hardware.
    pub hardware: Option<[f64; 3]>,
    /// Utilization of the CPUs.
    pub software: Option<[f64; 3]>,
    /// The on-line CPUs.
    pub cpus: CpuSet,
}

/// The summary, lines with newlines. `seconds` is the total time.
#[must_use]
pub fn summary(rows: &[Summary], seconds: f64) -> String {
    let (id, width) = load_widths(rows.iter().map(|row| (Some(row.id), row.depth, row.label.as_str())));
    let seconds = format!("{seconds:.1}");
    let seconds = seconds.strip_suffix(".0").unwrap_or(&seconds);
    let indent = id + 2 + width;
    let mut text =
        format!("\n{:indent$}SUMMARY: UTILIZATION OVER {seconds} SECONDS\n\n", "", indent = id + 2);
    let _ = writeln!(text, "{:indent$} -----HARDWARE----- -----SOFTWARE-----", "");
    let [least, mean, most] = ["MIN", "AVG", "MAX"];
    let heads = format!(" {least:>6}{mean:>6}{most:>6}").repeat(2);
    let _ = writeln!(text, "{:>id$}  {:<width$}{heads}  CPUS", "PG", "RELATIONSHIP");
    for row in rows {
        let _ = write!(text, "{:>id$}  {:<width$}", row.id, indented(row.depth, &row.label));
        for figures in [row.hardware, row.software] {
            let figure = |at: usize| percent(figures.map(|figures| figures[at]));
            let _ = write!(text, " {:>6}{:>6}{:>6}", figure(0), figure(1), figure(2));
        }
        let _ = writeln!(text, "  {}", cpu_list(&row.cpus));
    }
    text
}

#[cfg(test)]
mod tests;
