//! The settings of FSS: a resolution and one slice for all threads.
//!
//! `RES=` and `QUANTUM=` are both required, in any order. Unlike in tables, a comment must begin at the start of a line, and a line of blanks is
//! not an empty line. Stricter than Solaris: no setting may be repeated.

use super::parse::{Fault, FssFault, TableFileError};
use super::units::{to_ticks, to_units};
use super::{PrintError, RES_MAX};
use millpond_model::{Class, ClassTable, FssQuantum};

/// The output of `-g`, in units of 1/`res` second on a machine with `hz` ticks per second.
///
/// # Errors
/// [`PrintError`] if the slice cannot be expressed in this resolution.
pub(super) fn print(quantum: FssQuantum, res: u32, hz: u32) -> Result<String, PrintError> {
    let units = to_units(quantum.ticks(), res, hz).ok_or(PrintError::Quantum)?;
    Ok(format!(
        "#\n# Fair Share Scheduler Configuration\n#\nRES={res}\n#\n# Time Quantum\n#\nQUANTUM={units}\n"
    ))
}

/// Parses a file of settings.
///
/// # Errors
/// [`TableFileError`] with the first error.
pub(super) fn parse(text: &str, hz: u32) -> Result<ClassTable, TableFileError> {
    let (mut res, mut quantum) = (None, None);
    let error = |line: usize, column: usize, text: &str, fault: FssFault| TableFileError {
        class: Class::Fss,
        line,
        column,
        text: text.to_owned(),
        fault: Fault::Fss(fault),
    };
    for (line, number) in text.lines().zip(1..) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((name, value)) = line.split_once('=') else {
            return Err(error(number, 1, line, FssFault::Syntax));
        };
        let (slot, fault, most) = match name {
            "RES" => (&mut res, FssFault::Resolution, RES_MAX),
            "QUANTUM" => (&mut quantum, FssFault::Quantum, i32::MAX.unsigned_abs()),
            other => return Err(error(number, 1, other, FssFault::Token)),
        };
        let column = name.len() + 2;
        if slot.is_some() {
            return Err(error(number, 1, name, FssFault::Twice));
        }
        let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
        let value_of = if digits { value.parse::<u32>().ok() } else { None };
        match value_of.filter(|value| (1..=most).contains(value)) {
            Some(found) => *slot = Some((found, number, column)),
            None => return Err(error(number, column, value, fault)),
        }
    }
    let end = text.lines().count() + 1;
    let Some((res, ..)) = res else { return Err(error(end, 1, "RES", FssFault::Missing)) };
    let Some((units, line, column)) = quantum else {
        return Err(error(end, 1, "QUANTUM", FssFault::Missing));
    };
    let ticks = to_ticks(units, res, hz).and_then(|ticks| FssQuantum::new(ticks).ok());
    let ticks = ticks.ok_or_else(|| error(line, column, &units.to_string(), FssFault::Range))?;
    Ok(ClassTable::Fss(ticks))
}

#[cfg(test)]
mod tests {
    use super::super::{default_tables, parse_table, print_table};
    use super::*;

    const STANDARD: &str =
        "#\n# Fair Share Scheduler Configuration\n#\nRES=1000\n#\n# Time Quantum\n#\nQUANTUM=110\n";

    fn quantum(text: &str, hz: u32) -> u32 {
        match parse_table(Class::Fss, text, hz).unwrap() {
            ClassTable::Fss(quantum) => quantum.ticks(),
            other => unreachable!("{other:?}"),
        }
    }

    fn told(text: &str) -> (String, String) {
        let error = parse_table(Class::Fss, text, 100).unwrap_err();
        (error.message("f"), error.hint("f"))
    }

    #[test]
    fn eleven_ticks_are_110_milliseconds() {
        assert_eq!(print_table(Class::Fss, &default_tables(false), 1000, 100).unwrap(), STANDARD);
        assert_eq!(quantum(STANDARD, 100), 11);
        // 110 ms are 11 ticks of 10 ms, or 110 of 1 ms; both conversions round up.
        assert_eq!(quantum("QUANTUM=110\nRES=1000", 1000), 110);
        assert_eq!(quantum("RES=1000\nQUANTUM=7\n", 100), 1);
        let tenths = print_table(Class::Fss, &default_tables(false), 10, 100).unwrap();
        assert!(tenths.ends_with("QUANTUM=2\n"), "{tenths}");
    }

    #[test]
    fn what_is_wrong_is_told_as_on_solaris_and_with_a_remedy() {
        let of = |text: &str| told(text).0;
        assert_eq!(of("RES=0\nQUANTUM=1\n"), "f, line 1: illegal resolution value");
        assert_eq!(of("#\nRES=1k\nQUANTUM=1\n"), "f, line 2: illegal resolution value");
        assert_eq!(of("RES=1000\nQUANTUM=-1\n"), "f, line 2: illegal time quantum value");
        assert_eq!(of("RES=1000\nQUANTUM=0\n"), "f, line 2: illegal time quantum value");
        assert_eq!(of("RES=1\nQUANTUM=2147483647\n"), "f, line 2: time quantum value out of valid range");
        assert_eq!(of("SLICE=1\n"), "f, line 1: invalid token");
        assert_eq!(of("RES 1000\n"), "f, line 1: syntax error");
        assert_eq!(of(" # blank first\n"), "f, line 1: syntax error");
        assert_eq!(of("RES=1000\n"), "cannot read settings from f");
        assert_eq!(
            told("RES=1000\n").1,
            "f:2:1: QUANTUM=n is missing; RES=1000 and QUANTUM=110 are the standard"
        );
        assert_eq!(told("RES=1000\nRES=1\n").1, "f:2:1: `RES` stands twice");
    }
}
