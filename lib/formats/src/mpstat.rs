//! The tables of `mpstat`, and the lines between them.
//!
//! Column widths, in order: the number 3, minf 4, mjf 3, xcal 4, intr 5, ithr 4, csw 4, icsw 4, migr 4, smtx 4, srw 4, syscl 5, two blanks,
//! usr 3, sys 3, wt 3, idl 3, and then the set or its size 3. A wider figure widens its line. `st` after `idl` is an extension of Millpond.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use millpond_model::{COLUMNS, CpuId, CpuSet, PsetId, WallTime};

/// The kind of table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// A row per CPU.
    Processors,
    /// A row per CPU, with its set.
    ProcessorsAndSets,
    /// A row per set, with its number of CPUs.
    Sets,
    /// A row per core, with its number of CPUs.
    Cores,
    /// A row per chip, with its number of CPUs.
    Chips,
}

/// A row, not yet rounded.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The number of the CPU or the set.
    pub id: u32,
    /// Events per second in the order of the columns; `None` prints as `-`.
    pub rates: [Option<f64>; COLUMNS.len()],
    /// Percent: usr, sys, wt, idl.
    pub shares: [f64; 4],
    /// Percent stolen, if requested.
    pub steal: Option<f64>,
    /// The set, or its size, in tables with such a column.
    pub last: Option<u32>,
}

/// Widths of the event columns.
const WIDTHS: [usize; COLUMNS.len()] = [4, 3, 4, 5, 4, 4, 4, 4, 4, 4, 5];

/// Appends the heading of a table to `text`, without newline.
pub fn push_head(table: Table, steal: bool, text: &mut String) {
    let (first, last) = match table {
        Table::Processors => ("CPU", ""),
        Table::ProcessorsAndSets => ("CPU", " set"),
        Table::Sets => ("SET", " sze"),
        Table::Cores => ("COR", " sze"),
        Table::Chips => ("CHP", " sze"),
    };
    text.push_str(first);
    text.push_str(" minf mjf xcal  intr ithr  csw icsw migr smtx  srw syscl  usr sys  wt idl");
    text.push_str(if steal { "  st" } else { "" });
    text.push_str(last);
}

/// Appends a row of a table to `text`, without newline.
pub fn push_row(row: &Row, text: &mut String) {
    let mut line = Line { bytes: [b' '; LINE_BYTES], end: 0 };
    line.figure(u64::from(row.id), 3);
    for (rate, width) in row.rates.iter().zip(WIDTHS) {
        line.end += 1;
        match rate {
            Some(rate) => line.figure(whole(*rate), width),
            None => line.dash(width),
        }
    }
    line.end += 1;
    for share in row.shares.iter().chain(&row.steal) {
        line.end += 1;
        line.figure(whole(*share), 3);
    }
    if let Some(last) = row.last {
        line.end += 1;
        line.figure(u64::from(last), 3);
    }
    text.push_str(line.text());
}

/// The number of digits of the largest figure.
const FIGURE_BYTES: usize = 20;
/// The longest line: a blank and the largest figure for each field (the rates and seven others), and two blanks before the shares.
const LINE_BYTES: usize = (COLUMNS.len() + 7) * (FIGURE_BYTES + 1) + 1;

/// A line buffer. (Formatting each field with the standard library is several times slower, and the table of a
/// machine with a thousand CPUs has sixteen thousand fields.)
struct Line {
    /// Filled with blanks initially.
    bytes: [u8; LINE_BYTES],
    end: usize,
}

impl Line {
    /// A right-aligned figure; a wide one extends the line.
    fn figure(&mut self, mut figure: u64, width: usize) {
        let digits = figure.checked_ilog10().map_or(1, |log| log as usize + 1);
        self.end += digits.max(width);
        for byte in self.bytes[self.end - digits..self.end].iter_mut().rev() {
            *byte = DIGITS[(figure % 10) as usize];
            figure /= 10;
        }
    }

    fn dash(&mut self, width: usize) {
        self.end += width;
        self.bytes[self.end - 1] = b'-';
    }

    fn text(&self) -> &str {
        // The buffer has only blanks, digits and dashes, so this cannot fail.
        std::str::from_utf8(&self.bytes[..self.end]).unwrap_or_default()
    }
}

const DIGITS: [u8; 10] = *b"0123456789";

/// Rounds like C: halves to even. (Printing with zero decimals gives the same result at ten times the cost.)
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures are finite and not negative"
)]
fn whole(figure: f64) -> u64 {
    let floor = figure as u64;
    let rest = figure - floor as f64;
    if rest > 0.5 || (rest == 0.5 && floor % 2 == 1) { floor + 1 } else { floor }
}

/// `<<processor 3 moved from pset: 0 to: 1>>`
#[must_use]
pub fn moved(cpu: CpuId, from: PsetId, to: PsetId) -> String {
    format!("<<processor {cpu} moved from pset: {from} to: {to}>>")
}

/// `<<processors added: 1, 3>>`
#[must_use]
pub fn added(cpus: &CpuSet) -> String {
    format!("<<processors added: {}>>", list(cpus))
}

/// `<<processors removed: 1, 3>>`
#[must_use]
pub fn removed(cpus: &CpuSet) -> String {
    format!("<<processors removed: {}>>", list(cpus))
}

/// `<<pset created: 1>>`
#[must_use]
pub fn set_created(set: PsetId) -> String {
    format!("<<pset created: {set}>>")
}

/// `<<pset destroyed: 1>>`
#[must_use]
pub fn set_destroyed(set: PsetId) -> String {
    format!("<<pset destroyed: {set}>>")
}

fn list(cpus: &CpuSet) -> String {
    cpus.iter().map(|cpu| cpu.to_string()).collect::<Vec<_>>().join(", ")
}

/// The line before a report with `-T u`: seconds since 1970.
#[must_use]
pub fn stamp_seconds(at: WallTime) -> String {
    at.0.to_string()
}

/// The line before a report with `-T d`, in the format of `date`: `Wed Nov 20 08:14:02 UTC 2024`.
#[must_use]
pub fn stamp_date(at: WallTime, zone: &TimeZone) -> String {
    let end = if at.0 < 0 { Timestamp::MIN } else { Timestamp::MAX };
    let at = Timestamp::from_second(at.0).unwrap_or(end);
    at.to_zoned(zone.clone()).strftime("%a %b %e %H:%M:%S %Z %Y").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head(table: Table, steal: bool) -> String {
        let mut text = String::new();
        push_head(table, steal, &mut text);
        text
    }

    fn row(row: &Row) -> String {
        let mut text = String::new();
        push_row(row, &mut text);
        text
    }

    fn plain(id: u32, rates: [u32; 11], shares: [u32; 4], last: Option<u32>) -> String {
        let rates = rates.map(|r| Some(f64::from(r)));
        row(&Row { id, rates, shares: shares.map(f64::from), steal: None, last })
    }

    // The published examples.
    const PLAIN: &str = "\
CPU minf mjf xcal  intr ithr  csw icsw migr smtx  srw syscl  usr sys  wt idl
  0   42   0  118   512  203  390   12   18    7    0  1204    6   3   0  91
  1   37   0   96   141   12  355   10   22    5    0   988    9   2   0  89
";
    const WITH_SETS: &str = "\
CPU minf mjf xcal  intr ithr  csw icsw migr smtx  srw syscl  usr sys  wt idl set
  0   42   0  118   512  203  390   12   18    7    0  1204    6   3   0  91   0
  2    3   0    5    88    2   61   44    0    1    0 15240   97   3   0   0   1
";
    const SETS: &str = "\
SET minf mjf xcal  intr ithr  csw icsw migr smtx  srw syscl  usr sys  wt idl sze
  0   79   0  214   653  215  745   22   40   12    0  2192    8   3   0  90   2
  1    5   0    9   173    3  119   85    0    2    0 30227   97   4   0   0   2
";

    #[test]
    fn the_published_tables_come_out_to_the_byte() {
        let first = [42, 0, 118, 512, 203, 390, 12, 18, 7, 0, 1204];
        let text = format!(
            "{}\n{}\n{}\n",
            head(Table::Processors, false),
            plain(0, first, [6, 3, 0, 91], None),
            plain(1, [37, 0, 96, 141, 12, 355, 10, 22, 5, 0, 988], [9, 2, 0, 89], None)
        );
        assert_eq!(text, PLAIN);
        let text = format!(
            "{}\n{}\n{}\n",
            head(Table::ProcessorsAndSets, false),
            plain(0, first, [6, 3, 0, 91], Some(0)),
            plain(2, [3, 0, 5, 88, 2, 61, 44, 0, 1, 0, 15240], [97, 3, 0, 0], Some(1))
        );
        assert_eq!(text, WITH_SETS);
        let text = format!(
            "{}\n{}\n{}\n",
            head(Table::Sets, false),
            plain(0, [79, 0, 214, 653, 215, 745, 22, 40, 12, 0, 2192], [8, 3, 0, 90], Some(2)),
            plain(1, [5, 0, 9, 173, 3, 119, 85, 0, 2, 0, 30227], [97, 4, 0, 0], Some(2))
        );
        assert_eq!(text, SETS);
    }

    #[test]
    fn what_is_not_counted_is_a_dash_and_steal_has_its_column() {
        let mut rates = [None; 11];
        rates[3] = Some(17.5);
        let with = Row { id: 1, rates, shares: [1.4, 0.5, 2.5, 90.0], steal: Some(6.1), last: Some(3) };
        let text = format!("{}\n{}\n", head(Table::ProcessorsAndSets, true), row(&with));
        assert_eq!(
            text,
            "\
CPU minf mjf xcal  intr ithr  csw icsw migr smtx  srw syscl  usr sys  wt idl  st set
  1    -   -    -    18    -    -    -    -    -    -     -    1   0   2  90   6   3
"
        );
    }

    #[test]
    fn a_wide_figure_widens_its_line() {
        let line = plain(1023, [123_456, 0, 0, 0, 0, 0, 0, 0, 0, 0, 534_000], [100, 0, 0, 0], None);
        assert_eq!(line, "1023 123456   0    0     0    0    0    0    0    0    0 534000  100   0   0   0");
    }

    #[test]
    fn changes_read_as_the_reference_has_them() {
        let cpus: CpuSet = [1, 3].into_iter().map(CpuId).collect();
        assert_eq!(moved(CpuId(3), PsetId::DEFAULT, PsetId(1)), "<<processor 3 moved from pset: 0 to: 1>>");
        assert_eq!(added(&cpus), "<<processors added: 1, 3>>");
        assert_eq!(removed(&cpus), "<<processors removed: 1, 3>>");
        assert_eq!(set_created(PsetId(1)), "<<pset created: 1>>");
        assert_eq!(set_destroyed(PsetId(1)), "<<pset destroyed: 1>>");
    }

    #[test]
    fn stamps_are_seconds_or_what_date_prints() {
        let at = WallTime(1_732_090_442);
        assert_eq!(stamp_seconds(at), "1732090442");
        assert_eq!(stamp_date(at, &TimeZone::UTC), "Wed Nov 20 08:14:02 UTC 2024");
        assert_eq!(stamp_date(WallTime(0), &TimeZone::UTC), "Thu Jan  1 00:00:00 UTC 1970");
    }

    proptest! {
        #[test]
        fn figures_are_rounded_as_printing_would(figure in 0.0f64..1e12, half in 0u32..100_000) {
            prop_assert_eq!(whole(figure).to_string(), format!("{figure:.0}"));
            let half = f64::from(half) + 0.5;
            prop_assert_eq!(whole(half).to_string(), format!("{half:.0}"));
        }

        #[test]
        fn rows_have_as_many_fields_as_their_head(
            id in 0u32..10_000,
            rates in proptest::array::uniform11(proptest::option::of(0.0f64..1e9)),
            shares in proptest::array::uniform4(0.0f64..100.0),
            steal in proptest::option::of(0.0f64..100.0),
            set in proptest::option::of(0u32..1000),
        ) {
            let table = if set.is_some() { Table::ProcessorsAndSets } else { Table::Processors };
            let head = head(table, steal.is_some());
            let line = row(&Row { id, rates, shares, steal, last: set });
            prop_assert_eq!(head.split_whitespace().count(), line.split_whitespace().count());
            prop_assert!(line.len() >= head.len());
        }

        #[test]
        fn figures_stand_as_the_standard_library_sets_them(
            figures in proptest::collection::vec((any::<u64>(), 0u32..64, 1usize..6), 0..18)
        ) {
            let mut line = Line { bytes: [b' '; LINE_BYTES], end: 0 };
            let mut expected = String::new();
            for (figure, cut, width) in figures {
                let figure = figure >> cut;
                line.figure(figure, width);
                line.dash(width);
                line.end += 1;
                expected += &format!("{figure:width$}{:>width$} ", "-");
                if expected.len() > LINE_BYTES - 40 {
                    break;
                }
            }
            prop_assert_eq!(line.text(), expected);
        }

        #[test]
        fn no_line_is_too_long(id in any::<u32>(), rate in 0.0f64..1e18, set in any::<u32>()) {
            let line = row(&Row {
                id, rates: [Some(rate); 11], shares: [rate; 4], steal: Some(rate), last: Some(set)
            });
            prop_assert_eq!(line.split_whitespace().count(), 18);
        }

        #[test]
        fn no_time_is_too_far_to_print(at in any::<i64>()) {
            let _ = stamp_date(WallTime(at), &TimeZone::UTC);
        }
    }
}
