//! A table: headings, and rows below them.

use crate::Cell;
use crate::svg::escaped;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The alignment of values in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Headings and rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    heads: Vec<(String, Align)>,
    rows: Vec<Vec<Cell>>,
}

/// The gap between two columns of text.
const GAP: &str = "  ";

impl Table {
    /// A table without rows. The headings are the keys of its JSON.
    #[must_use]
    pub fn new(heads: &[(&str, Align)]) -> Table {
        let heads = heads.iter().map(|(head, align)| ((*head).to_owned(), *align)).collect();
        Table { heads, rows: Vec::new() }
    }

    /// A table with text columns, followed by number columns.
    #[must_use]
    pub fn of(words: &[&str], numbers: &[&str]) -> Table {
        let heads = words.iter().map(|head| (*head, Align::Left));
        let heads: Vec<_> = heads.chain(numbers.iter().map(|head| (*head, Align::Right))).collect();
        Table::new(&heads)
    }

    /// The same table with further text columns at the end. It must not have rows yet.
    #[must_use]
    pub fn and_words(mut self, words: &[&str]) -> Table {
        self.heads.extend(words.iter().map(|head| ((*head).to_owned(), Align::Left)));
        self
    }

    /// Adds a row. A short row is filled with [`Cell::Missing`]; excess cells are dropped.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut cells: Vec<Cell> = cells.into_iter().take(self.heads.len()).collect();
        cells.resize(self.heads.len(), Cell::Missing);
        self.rows.push(cells);
    }

    /// The number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Columns as wide as their contents, separated by two spaces; lines have no trailing spaces.
    #[must_use]
    pub fn text(&self) -> String {
        let rows: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(Cell::to_string).collect()).collect();
        let heads: Vec<String> = self.heads.iter().map(|(head, _)| head.clone()).collect();
        let width = |column: usize| {
            let all = std::iter::once(&heads).chain(&rows);
            all.map(|row| row[column].chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..heads.len()).map(width).collect();
        let mut text = String::new();
        for row in std::iter::once(&heads).chain(&rows) {
            let cells = row.iter().zip(&widths).zip(&self.heads);
            let padded: Vec<String> = cells
                .map(|((cell, &width), (_, align))| match align {
                    Align::Left => format!("{cell:<width$}"),
                    Align::Right => format!("{cell:>width$}"),
                })
                .collect();
            text += padded.join(GAP).trim_end();
            text.push('\n');
        }
        text
    }

    /// The table as HTML.
    #[must_use]
    pub fn html(&self) -> String {
        let class = |align: Align| if align == Align::Left { "l" } else { "r" };
        let mut text = String::from("<table>\n<tr>");
        for (head, align) in &self.heads {
            let _ = write!(text, "<th class=\"{}\">{}</th>", class(*align), escaped(head));
        }
        text += "</tr>\n";
        for row in &self.rows {
            text += "<tr>";
            for (cell, (_, align)) in row.iter().zip(&self.heads) {
                let _ = write!(text, "<td class=\"{}\">{}</td>", class(*align), escaped(&cell.to_string()));
            }
            text += "</tr>\n";
        }
        text + "</table>\n"
    }

    /// Comma-separated values, with the headings in the first line.
    #[must_use]
    pub fn csv(&self) -> String {
        let heads: Vec<Cell> = self.heads.iter().map(|(head, _)| Cell::from(head.as_str())).collect();
        let mut text = String::new();
        for row in std::iter::once(&heads).chain(&self.rows) {
            text += &row.iter().map(Cell::csv).collect::<Vec<_>>().join(",");
            text.push('\n');
        }
        text
    }
}

/// One object per row.
impl Serialize for Table {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let object = |row| self.heads.iter().map(|(head, _)| head).zip(row).collect::<BTreeMap<_, _>>();
        serializer.collect_seq(self.rows.iter().map(object))
    }
}

impl JsonSchema for Table {
    fn schema_name() -> Cow<'static, str> {
        "Table".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        <Vec<BTreeMap<String, Cell>>>::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn sample() -> Table {
        let mut table = Table::new(&[("arm", Align::Left), ("Mop/s", Align::Right), ("note", Align::Left)]);
        table.row(["fighting".into(), (80.04, 1).into(), "both, everywhere".into()]);
        table.row(["apart".into(), (1001.96, 1).into()]);
        table
    }

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let expected = "\
arm        Mop/s  note
fighting    80.0  both, everywhere
apart     1002.0  -
";
        assert_eq!(sample().text(), expected);
    }

    #[test]
    fn commas_separate_and_quotes_protect() {
        assert_eq!(sample().csv(), "arm,Mop/s,note\nfighting,80.0,\"both, everywhere\"\napart,1002.0,\n");
    }

    #[test]
    fn each_row_is_an_object() {
        let expected = json!([
            { "arm": "fighting", "Mop/s": 80.0, "note": "both, everywhere" },
            { "arm": "apart", "Mop/s": 1002.0, "note": null },
        ]);
        assert_eq!(serde_json::to_value(sample()).unwrap(), expected);
    }

    #[test]
    fn a_row_has_as_many_cells_as_there_are_heads() {
        let mut table = Table::new(&[("a", Align::Left)]);
        assert!(table.is_empty());
        table.row([1_u64.into(), 2_u64.into()]);
        assert_eq!((table.text().as_str(), table.len()), ("a\n1\n", 1));
    }

    proptest! {
        #[test]
        fn a_right_column_ends_at_one_place(values in proptest::collection::vec(0_u64.., 1..20)) {
            let mut table = Table::new(&[("x", Align::Left), ("value", Align::Right)]);
            values.iter().for_each(|&value| table.row(["x".into(), value.into()]));
            let text = table.text();
            let widths: Vec<usize> = text.lines().map(str::len).collect();
            prop_assert!(widths.iter().all(|w| *w == widths[0]), "{}", text);
        }
    }
}
