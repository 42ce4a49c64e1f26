//! One value in a row, with the number of digits to display.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// One value in a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// A text.
    Text(String),
    /// An integer.
    Count(u64),
    /// A number with this many decimals.
    Real(f64, usize),
    /// No value.
    Missing,
}

impl Cell {
    /// One field of CSV, quoted if necessary. A text that a spreadsheet would evaluate gets a leading apostrophe, so that it is shown.
    #[must_use]
    pub fn csv(&self) -> String {
        let text = match self {
            Cell::Missing => String::new(),
            Cell::Text(text) if is_formula(text) => format!("'{text}"),
            cell => cell.to_string(),
        };
        if text.contains(['"', ',', '\n', '\r']) {
            format!("\"{}\"", text.replace('"', "\"\""))
        } else {
            text
        }
    }
}

/// Whether a spreadsheet would evaluate a field as a formula: a thread may be named `=1+cmd|"/C"!A`.
fn is_formula(text: &str) -> bool {
    text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err()
}

/// Numbers have the digits of the text.
impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Cell::Text(text) => serializer.serialize_str(text),
            Cell::Count(count) => serializer.serialize_u64(*count),
            // Infinite and undefined numbers are `null`, as usual in JSON.
            Cell::Real(..) => self.to_string().parse::<f64>().ok().serialize(serializer),
            Cell::Missing => serializer.serialize_none(),
        }
    }
}

impl JsonSchema for Cell {
    fn schema_name() -> Cow<'static, str> {
        "Cell".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number", "null"] })
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Text(text) => f.pad(text),
            Cell::Count(count) => f.pad(&count.to_string()),
            Cell::Real(value, _) if !value.is_finite() => f.pad("-"),
            Cell::Real(value, digits) => f.pad(&format!("{value:.digits$}")),
            Cell::Missing => f.pad("-"),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Cell::Count(count)
    }
}

impl From<u32> for Cell {
    fn from(count: u32) -> Self {
        Cell::Count(count.into())
    }
}

impl From<(f64, usize)> for Cell {
    fn from((value, digits): (f64, usize)) -> Self {
        Cell::Real(value, digits)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Cell::Missing, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn json(cell: &Cell) -> Value {
        serde_json::to_value(cell).unwrap()
    }

    #[test]
    fn each_kind_has_its_three_dresses() {
        let dresses = |cell: Cell| (cell.to_string(), cell.csv(), json(&cell));
        assert_eq!(dresses("a b".into()), ("a b".into(), "a b".into(), json!("a b")));
        assert_eq!(dresses("a,\"b\"".into()), ("a,\"b\"".into(), "\"a,\"\"b\"\"\"".into(), json!("a,\"b\"")));
        assert_eq!(dresses(7_u64.into()), ("7".into(), "7".into(), json!(7)));
        assert_eq!(dresses((1066.464, 1).into()), ("1066.5".into(), "1066.5".into(), json!(1066.5)));
        assert_eq!(dresses((2.5, 0).into()), ("2".into(), "2".into(), json!(2.0)));
        assert_eq!(dresses(Cell::Missing), ("-".into(), String::new(), json!(null)));
        assert_eq!(dresses(None::<u64>.into()), ("-".into(), String::new(), json!(null)));
        assert_eq!(json(&Cell::Real(f64::NAN, 2)), json!(null));
    }

    #[test]
    fn no_name_is_a_formula_in_a_spreadsheet() {
        let csv = |text: &str| Cell::from(text).csv();
        assert_eq!(csv("=1+cmd|\"/C\"!A"), "\"'=1+cmd|\"\"/C\"\"!A\"");
        assert_eq!(csv("@SUM(1)"), "'@SUM(1)");
        assert_eq!(csv("+1-1"), "'+1-1");
        assert_eq!(csv("-bash"), "'-bash");
        assert_eq!(csv("\t=1"), "'\t=1");
        assert_eq!(["-1.5", "+2", "a=b", "e-mail@b"].map(csv), ["-1.5", "+2", "a=b", "e-mail@b"]);
    }

    proptest! {
        #[test]
        fn text_and_json_of_a_number_never_disagree(value in -1e9..1e9_f64, digits in 0_usize..6) {
            let cell = Cell::Real(value, digits);
            prop_assert_eq!(cell.to_string().parse::<f64>().unwrap(), json(&cell).as_f64().unwrap());
        }

        #[test]
        fn a_field_of_csv_reads_back(text in "[a-c\",\n ]{0,12}") {
            let field = Cell::from(text.as_str()).csv();
            let read = match field.strip_prefix('"').and_then(|f| f.strip_suffix('"')) {
                Some(quoted) => quoted.replace("\"\"", "\""),
                None => field,
            };
            prop_assert_eq!(read, text);
        }
    }
}
