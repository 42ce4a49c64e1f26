//! Rows in columns, as wide as their contents.

use crate::figure::{HISTOGRAM_HEADING, figure};
use crate::view::Order;
use millpond_observe::Row;
use millpond_observe::catalogue::{FieldId, FieldKind, Unit};

/// Maximum width of a column, except the last one.
const WIDTH_MAX: usize = 24;

/// Lines of equal width.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The headings.
    pub heading: String,
    /// A line for each row.
    pub lines: Vec<String>,
}

/// Text is left-aligned, numbers are right-aligned.
fn is_text(id: FieldId, rows: &[&Row]) -> bool {
    let field = id.field();
    field.unit == Unit::None
        && matches!(field.kind, FieldKind::Label | FieldKind::Key)
        && rows.iter().all(|row| row.number(id).is_none())
}

/// Formats rows with columns for these fields. Columns that do not fit into `width` are dropped from the end, but not the last one: it
/// identifies the row, and gets the remaining width.
#[must_use]
pub fn listing(rows: &[&Row], fields: &[FieldId], order: Order, width: usize) -> Listing {
    let heading = |id: &FieldId| {
        let mark = if order.by == Some(*id) { if order.reversed { "^" } else { "v" } } else { "" };
        match id.field().kind {
            FieldKind::Histogram => HISTOGRAM_HEADING.to_owned(),
            _ => format!("{}{mark}", id.field().heading),
        }
    };
    let Some((last, rest)) = fields.split_last() else {
        return Listing { heading: String::new(), lines: Vec::new() };
    };
    let cells: Vec<Vec<String>> =
        rows.iter().map(|row| fields.iter().map(|id| figure(row, *id)).collect()).collect();
    let widths: Vec<usize> = fields
        .iter()
        .enumerate()
        .map(|(n, id)| {
            let longest = cells.iter().map(|row| columns(&row[n])).max().unwrap_or(0);
            longest.min(WIDTH_MAX).max(heading(id).len())
        })
        .collect();
    let last_least =
        heading(last).len().max(cells.iter().map(|row| columns(&row[rest.len()])).max().unwrap_or(0)).min(12);
    let to_the_left: Vec<bool> = fields.iter().map(|id| is_text(*id, rows)).collect();
    let mut used = 0;
    let mut shown = Vec::new();
    for (n, column) in widths.iter().enumerate().take(rest.len()) {
        if used + column + 1 + last_least > width {
            break;
        }
        used += column + 1;
        shown.push(n);
    }
    let line = |cell: &dyn Fn(usize) -> String| {
        let mut line = String::new();
        for n in &shown {
            line += &fitted(&cell(*n), widths[*n], to_the_left[*n]);
            line.push(' ');
        }
        let left = width.saturating_sub(used);
        line += fitted(&cell(rest.len()), left, true).trim_end();
        line
    };
    Listing {
        heading: line(&|n| heading(&fields[n])),
        lines: cells.iter().map(|row| line(&|n| row[n].clone())).collect(),
    }
}

/// Width of a text in terminal columns. Approximate, but good enough for lists: wide East Asian characters count two.
#[must_use]
pub fn columns(text: &str) -> usize {
    ratatui::text::Line::raw(text).width()
}

/// A text in exactly this many columns: truncated, or padded on the right or left.
#[must_use]
pub fn fitted(text: &str, width: usize, to_the_left: bool) -> String {
    let mut cut = String::new();
    let mut used = 0;
    for c in text.chars() {
        let one = columns(c.encode_utf8(&mut [0; 4]));
        if used + one > width {
            break;
        }
        used += one;
        cut.push(c);
    }
    let blanks = " ".repeat(width - used);
    if to_the_left { cut + &blanks } else { blanks + &cut }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_observe::catalogue::{Entity, thread};
    use proptest::prelude::*;

    const FIELDS: &[FieldId] = &[thread::PID, thread::STATE, thread::USER, thread::NAME];

    fn row(pid: u32, state: &str, user: f64, name: &str) -> Row {
        Row::of(Entity::Thread)
            .with(thread::PID, pid)
            .with(thread::STATE, state)
            .with(thread::USER, user)
            .with(thread::NAME, name)
    }

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let (a, b) = (row(7, "sleep", 0.02, "sshd"), row(12345, "cpu3", 1.0, "java"));
        let listing = listing(&[&a, &b], FIELDS, Order { by: Some(thread::USER), reversed: false }, 40);
        assert_eq!(listing.heading, "  PID STATE USRv NAME");
        assert_eq!(listing.lines, ["    7 sleep  2.0 sshd", "12345 cpu3   100 java"]);
    }

    #[test]
    fn what_does_not_fit_is_left_out_but_for_the_name() {
        let a = row(12345, "sleep", 0.02, "a-long-name-of-a-thread");
        let listing = listing(&[&a], FIELDS, Order::default(), 20);
        assert_eq!(listing.lines, ["12345 a-long-name-of"]);
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_asked_for(pid in 0u32.., name in "\\PC{0,60}", width in 12usize..120) {
            let a = row(pid, "run", 0.5, &name);
            let listing = listing(&[&a], FIELDS, Order::default(), width);
            for line in listing.lines.iter().chain([&listing.heading]) {
                prop_assert!(columns(line) <= width, "{line:?}");
            }
        }
    }
}
