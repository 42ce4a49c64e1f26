//! `dispadmin -s`: parses a table file.
//!
//! Errors have the text of Solaris, and in addition a position and a remedy. Two rules are stricter than on Solaris: a value
//! must end after its digits or at a `#` (Solaris reads `5O` as 5), and FX requires a resolution (Solaris skips any other first line).

use super::units::to_ticks;
use super::{INFINITE, Layout, RES_MAX, with_tables};
use millpond_model::{Class, ClassTable, Quantum, QuantumTable, TableError, TsRow, TsTable};
use std::fmt;

/// An error in a table file. Columns of the table are counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The class has no table.
    NoTable,
    /// The first line that is not a comment is not `RES=n`.
    Resolution,
    /// The resolution is out of range.
    ResolutionRange,
    /// A slice exceeds the largest number of ticks.
    Unconvertible,
    /// The file ends before the table.
    TooFewLines {
        /// The number of rows found.
        rows: usize,
    },
    /// The file goes on after the table.
    TooManyLines,
    /// A row has too few values.
    TooFewValues {
        /// The number of values found.
        values: usize,
    },
    /// A row has a further word.
    TooManyValues,
    /// The command rejects a value.
    Value {
        /// Its column.
        column: usize,
    },
    /// The kernel rejects a value.
    Refused {
        /// Its column.
        column: usize,
    },
    /// An error in the settings of FSS.
    Fss(FssFault),
}

/// An error in the settings of FSS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FssFault {
    /// A line is not of the form `NAME=VALUE`.
    Syntax,
    /// The name is neither RES nor QUANTUM.
    Token,
    /// The name is repeated.
    Twice,
    /// The resolution is out of range.
    Resolution,
    /// The slice is invalid.
    Quantum,
    /// The slice has too many ticks.
    Range,
    /// The name is missing.
    Missing,
}

/// An invalid table file. Displays as the message of Solaris.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableFileError {
    /// The class.
    pub class: Class,
    /// The line, from 1; for a missing line the one after the last.
    pub line: usize,
    /// The column in bytes, from 1.
    pub column: usize,
    /// The offending word, if any.
    pub text: String,
    /// The error.
    pub fault: Fault,
}

impl TableFileError {
    /// The message of Solaris about `file`.
    #[must_use]
    pub fn message(&self, file: &str) -> String {
        let line = self.line;
        match self.fault {
            Fault::Fss(FssFault::Missing) => format!("cannot read settings from {file}"),
            Fault::Fss(_) => format!("{file}, line {line}: {self}"),
            _ => self.to_string(),
        }
    }

    /// The position in `file`, and a remedy.
    #[must_use]
    pub fn hint(&self, file: &str) -> String {
        let TableFileError { class, line, column, text, fault } = self;
        let Some(layout) = Layout::of(*class) else {
            return format!("{class} has no table; {} have one", with_tables());
        };
        let Layout { columns, rows, .. } = &layout;
        let (count, last) = (columns.len(), rows - 1);
        let what = match fault {
            Fault::NoTable => String::new(),
            Fault::Fss(fault) => fss_hint(*fault, text),
            Fault::Resolution => {
                "the table begins with its resolution; write RES=1000 for units of a millisecond".into()
            }
            Fault::ResolutionRange => {
                format!("a resolution is 1 to {RES_MAX} units in a second, not `{text}`")
            }
            Fault::Unconvertible => format!("`{text}` is too long for a slice"),
            Fault::TooFewLines { rows: found } => {
                format!(
                    "the table ends after {found} rows; {class} has {rows}, one for each level from 0 to {last}"
                )
            }
            Fault::TooManyLines => format!(
                "the table of {class} ended before this line, with {rows} rows for the levels from 0 to {last}; take it out, or put # before it"
            ),
            Fault::TooFewValues { values } => {
                format!("{values} of {count} values; a row is {}", columns.join(", "))
            }
            Fault::TooManyValues => format!(
                "`{text}` stands behind the last value; a row is {}, and a comment begins with #",
                columns.join(", ")
            ),
            Fault::Value { column } | Fault::Refused { column } => {
                let name = layout.column(*column);
                format!("{name} is {}, not `{text}`", range(*class, columns.get(*column).copied()))
            }
        };
        format!("{file}:{line}:{column}: {what}")
    }
}

fn fss_hint(fault: FssFault, text: &str) -> String {
    match fault {
        FssFault::Syntax => {
            format!("`{text}` is no NAME=VALUE; a comment begins with # at the start of its line")
        }
        FssFault::Token => format!("`{text}` is none of RES and QUANTUM"),
        FssFault::Twice => format!("`{text}` stands twice"),
        FssFault::Resolution => format!("a resolution is 1 to {RES_MAX} units in a second, not `{text}`"),
        FssFault::Quantum => format!("a slice is a whole number of units from 1, not `{text}`"),
        FssFault::Range => format!("`{text}` is too long for a slice"),
        FssFault::Missing => format!("{text}=n is missing; RES=1000 and QUANTUM=110 are the standard"),
    }
}

/// The values that the kernel accepts in a column.
fn range(class: Class, column: Option<&str>) -> &'static str {
    match column {
        Some("quantum") if class == Class::Rt => {
            "a whole number of units from 1, or -2 for a slice without end"
        }
        Some("quantum") => "a whole number of units from 1",
        Some("maxwait") => "a whole number of seconds from 0",
        _ => "a level from 0 to 59",
    }
}

impl fmt::Display for TableFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TableFileError { class, line, fault, .. } = self;
        let layout = Layout::of(*class);
        let column = |at: usize| layout.as_ref().map(|l| l.column(at)).unwrap_or_default();
        match fault {
            Fault::NoTable => write!(f, "Invalid or unconfigured class {class}"),
            Fault::Fss(fault) => f.write_str(match fault {
                FssFault::Syntax | FssFault::Twice => "syntax error",
                FssFault::Token => "invalid token",
                FssFault::Resolution => "illegal resolution value",
                FssFault::Quantum => "illegal time quantum value",
                FssFault::Range => "time quantum value out of valid range",
                FssFault::Missing => "cannot read settings",
            }),
            Fault::Resolution => write!(f, "Bad RES specification, line {line} of input file"),
            Fault::ResolutionRange | Fault::Unconvertible => {
                f.write_str("Can't convert specified resolution to ticks")
            }
            Fault::TooFewLines { .. } => f.write_str("Too few lines in input table"),
            Fault::TooManyLines => f.write_str("Too many lines in input table"),
            Fault::TooFewValues { .. } => write!(f, "Too few values, line {line} of input file"),
            Fault::TooManyValues => write!(f, "Too many values, line {line} of input file"),
            Fault::Value { column: at } => {
                write!(
                    f,
                    "{} value out of valid range; line {line} of input,\ntable not overwritten",
                    column(*at)
                )
            }
            Fault::Refused { .. } => {
                // 22 is EINVAL, the error of the kernel for every rejected value.
                let prefix = layout.as_ref().map_or("", |l| l.prefix);
                write!(f, "Can't set {prefix}_dptbl, priocntl system call failed with errno 22")
            }
        }
    }
}

impl std::error::Error for TableFileError {}

/// Parses a table file for a machine with `hz` ticks per second.
///
/// # Errors
/// [`TableFileError`] with the first error.
pub fn parse_table(class: Class, text: &str, hz: u32) -> Result<ClassTable, TableFileError> {
    let Some(layout) = Layout::of(class) else {
        return Err(TableFileError { class, line: 1, column: 1, text: String::new(), fault: Fault::NoTable });
    };
    if class == Class::Fss {
        return super::fss::parse(text, hz);
    }
    let reader = Reader { class, layout, hz };
    let mut lines = text.lines().zip(1..).map(|(text, number)| Line { number, text }).filter(Line::has_data);
    let end = Line { number: text.lines().count() + 1, text: "" };
    let Some(first) = lines.next() else {
        return Err(reader.error(&end, 1, Fault::TooFewLines { rows: 0 }));
    };
    let res = reader.resolution(&first)?;
    let mut rows = Vec::new();
    for line in lines {
        if rows.len() == reader.layout.rows {
            return Err(reader.error(&line, line.first_column(), Fault::TooManyLines));
        }
        rows.push(reader.row(line, res)?);
    }
    if rows.len() < reader.layout.rows {
        return Err(reader.error(&end, 1, Fault::TooFewLines { rows: rows.len() }));
    }
    reader.table(&rows)
}

/// A line that is neither blank nor a comment.
#[derive(Debug, Clone, Copy)]
struct Line<'a> {
    number: usize,
    text: &'a str,
}

impl<'a> Line<'a> {
    /// The words with their columns.
    fn words(self) -> impl Iterator<Item = (usize, &'a str)> {
        let mut column = 1;
        let words = self.text.split([' ', '\t']).map(move |word| {
            let at = column;
            column += word.len() + 1;
            (at, word)
        });
        words.filter(|(_, word)| !word.is_empty())
    }

    fn has_data(&self) -> bool {
        self.words().next().is_some_and(|(_, word)| !word.starts_with('#'))
    }

    fn first_column(&self) -> usize {
        self.words().next().map_or(1, |(column, _)| column)
    }

    /// The word at a column.
    fn word_at(&self, column: usize) -> &'a str {
        self.words().find(|(at, _)| *at == column).map_or("", |(_, word)| word)
    }
}

/// A row that the command accepts: values in ticks, levels and seconds, and their columns.
struct Row<'a> {
    line: Line<'a>,
    values: Vec<i64>,
    columns: Vec<usize>,
}

struct Reader {
    class: Class,
    layout: Layout,
    hz: u32,
}

impl Reader {
    fn error(&self, line: &Line<'_>, column: usize, fault: Fault) -> TableFileError {
        let text = line.word_at(column).to_owned();
        TableFileError { class: self.class, line: line.number, column, text, fault }
    }

    /// `RES=n`, with the blanks around `=` that the class allows.
    fn resolution(&self, line: &Line<'_>) -> Result<u32, TableFileError> {
        const BLANKS: [char; 2] = [' ', '\t'];
        let start = line.first_column();
        let bad = || self.error(line, start, Fault::Resolution);
        let rest = line.text.trim_start_matches(BLANKS).strip_prefix("RES").ok_or_else(bad)?;
        let rest = if self.class == Class::Fx { rest } else { rest.trim_start_matches(BLANKS) };
        let rest = rest.strip_prefix('=').ok_or_else(bad)?.trim_start_matches(BLANKS);
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, rest) = rest.split_at(digits);
        let comment = rest.trim_start_matches(BLANKS);
        let ends = comment.is_empty() || (comment.starts_with('#') && comment.len() < rest.len());
        if number.is_empty() || !ends {
            return Err(bad());
        }
        let res = number.parse().ok().filter(|res| (1..=RES_MAX).contains(res));
        res.ok_or_else(|| {
            let column = line.text.len() - rest.len() - number.len() + 1;
            TableFileError { text: number.to_owned(), ..self.error(line, column, Fault::ResolutionRange) }
        })
    }

    fn row<'a>(&self, line: Line<'a>, res: u32) -> Result<Row<'a>, TableFileError> {
        let needed = self.layout.columns.len();
        let mut row = Row { line, values: Vec::new(), columns: Vec::new() };
        let mut end = line.text.trim_end_matches([' ', '\t']).len() + 1;
        for (column, word) in line.words() {
            let at = row.values.len();
            if word.starts_with('#') {
                end = column;
                break;
            }
            if at == needed {
                return Err(self.error(&line, column, Fault::TooManyValues));
            }
            row.values.push(self.value(&line, column, word, at, res)?);
            row.columns.push(column);
        }
        if row.values.len() < needed {
            let fault = Fault::TooFewValues { values: row.values.len() };
            return Err(self.error(&line, end, fault));
        }
        Ok(row)
    }

    /// One value, by the rules of the command. It accepts a level that is one too high, which the kernel then rejects.
    fn value(
        &self,
        line: &Line<'_>,
        column: usize,
        word: &str,
        at: usize,
        res: u32,
    ) -> Result<i64, TableFileError> {
        let wrong = || self.error(line, column, Fault::Value { column: at });
        let digits = word.find('#').map_or(word, |comment| &word[..comment]);
        let number: i64 = digits.parse::<i32>().map_err(|_| wrong())?.into();
        let name = self.layout.columns.get(at).copied();
        match name {
            Some("quantum") if number == INFINITE && self.class == Class::Rt => Ok(INFINITE),
            Some("quantum") => {
                let units = u32::try_from(number).ok().filter(|units| *units > 0).ok_or_else(wrong)?;
                let ticks = to_ticks(units, res, self.hz);
                ticks.map(i64::from).ok_or_else(|| self.error(line, column, Fault::Unconvertible))
            }
            Some("maxwait") if number >= 0 => Ok(number),
            Some("tqexp" | "slpret" | "lwait") if (0..=60).contains(&number) => Ok(number),
            _ => Err(wrong()),
        }
    }

    /// The table, if the kernel accepts it.
    fn table(&self, rows: &[Row<'_>]) -> Result<ClassTable, TableFileError> {
        let made = match self.class {
            Class::Ts | Class::Ia => {
                TsTable::new(rows.iter().map(|row| ts_row(&row.values)).collect()).map(ClassTable::Ts)
            }
            Class::Rt => quanta(rows).map(ClassTable::Rt),
            Class::Fx | Class::Fss | Class::Sys => quanta(rows).map(ClassTable::Fx),
        };
        made.map_err(|error| {
            let (level, name) = match error {
                TableError::Value { column, level } => (level, column),
                TableError::Rows { .. } => (0, "quantum"),
            };
            let at = self.layout.columns.iter().position(|column| *column == name).unwrap_or(0);
            let nowhere = Line { number: 1, text: "" };
            let (line, column) = rows.get(level).map_or((nowhere, 1), |row| (row.line, row.columns[at]));
            self.error(&line, column, Fault::Refused { column: at })
        })
    }
}

/// The values of a row. [`Reader::value`] has checked the ranges; a value out of range becomes the maximum, which is rejected.
fn ts_row(values: &[i64]) -> TsRow {
    let number = |at: usize| values.get(at).and_then(|v| u32::try_from(*v).ok());
    let level = |at: usize| values.get(at).and_then(|v| u8::try_from(*v).ok()).unwrap_or(u8::MAX);
    TsRow {
        quantum: number(0).unwrap_or(0),
        tqexp: level(1),
        slpret: level(2),
        maxwait: number(3).unwrap_or(0),
        lwait: level(4),
    }
}

fn quanta(rows: &[Row<'_>]) -> Result<QuantumTable, TableError> {
    let quantum = |row: &Row<'_>| match row.values.first() {
        Some(&INFINITE) => Quantum::Infinite,
        ticks => Quantum::Ticks(ticks.and_then(|ticks| u32::try_from(*ticks).ok()).unwrap_or(0)),
    };
    QuantumTable::new(rows.iter().map(quantum).collect())
}
