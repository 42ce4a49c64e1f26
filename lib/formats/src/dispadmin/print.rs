//! `dispadmin -g`: a table as text, exact to the byte.

use super::units::to_units;
use super::{Layout, RES_MAX, with_tables};
use millpond_model::{Class, ClassTable, DispatchTables, Quantum, QuantumTable, TsTable};
use std::fmt::Write as _;

/// The reason why a table cannot be printed. The text is that of Solaris.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PrintError {
    /// The class has no table.
    #[error("Invalid or unconfigured class {0}")]
    NoTable(Class),
    /// The resolution is out of range.
    #[error("Can't convert to requested resolution")]
    Resolution,
    /// A slice is too long for the resolution.
    #[error("Can't express time quantum in requested resolution,\ntry coarser resolution")]
    Quantum,
}

impl PrintError {
    /// A remedy.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            PrintError::NoTable(class) => format!("{class} has no table; {} have one", with_tables()),
            PrintError::Resolution => {
                format!("a resolution is 1 to {RES_MAX} units in a second; -r 1000 shows milliseconds")
            }
            PrintError::Quantum => "-r 1000 shows milliseconds".to_owned(),
        }
    }
}

/// The table of a class, in units of 1/`res` second on a machine with `hz` ticks per second. Several lines with
/// newlines.
///
/// # Errors
/// [`PrintError`] if the class has no table, or its slices cannot be expressed in this resolution.
pub fn print_table(class: Class, tables: &DispatchTables, res: u32, hz: u32) -> Result<String, PrintError> {
    let (Some(layout), Some(table)) = (Layout::of(class), tables.of(class)) else {
        return Err(PrintError::NoTable(class));
    };
    if res == 0 || res > RES_MAX {
        return Err(PrintError::Resolution);
    }
    let units = |ticks| to_units(ticks, res, hz).ok_or(PrintError::Quantum);
    let prefix = layout.prefix;
    match table {
        ClassTable::Ts(table) => {
            let name = if class == Class::Ia { "Interactive" } else { "Time Sharing" };
            let head = format!(
                "# {name} Dispatcher Configuration\nRES={res}\n\n\
                 # {prefix}_quantum  {prefix}_tqexp  {prefix}_slpret  {prefix}_maxwait {prefix}_lwait  PRIORITY LEVEL\n"
            );
            Ok(head + &time_sharing(&table, units)?)
        }
        ClassTable::Fss(quantum) => super::fss::print(quantum, res, hz),
        ClassTable::Rt(table) | ClassTable::Fx(table) => {
            let name = if class == Class::Rt { "Real Time" } else { "Fixed Priority" };
            let head = format!(
                "# {name} Dispatcher Configuration\nRES={res}\n\n\
                 # TIME QUANTUM                    PRIORITY\n\
                 # ({prefix}_quantum)                      LEVEL\n"
            );
            Ok(head + &quanta(&table, units)?)
        }
    }
}

fn time_sharing(
    table: &TsTable,
    units: impl Fn(u32) -> Result<u32, PrintError>,
) -> Result<String, PrintError> {
    let mut text = String::new();
    for (level, row) in table.rows().iter().enumerate() {
        let quantum = units(row.quantum)?;
        let _ = writeln!(
            text,
            "{quantum:10}{:10}{:10}{:12}{:10}        #   {level:3}",
            row.tqexp, row.slpret, row.maxwait, row.lwait
        );
    }
    Ok(text)
}

/// An infinite slice is -2 in every resolution.
fn quanta(
    table: &QuantumTable,
    units: impl Fn(u32) -> Result<u32, PrintError>,
) -> Result<String, PrintError> {
    let mut text = String::new();
    for (level, row) in table.rows().iter().enumerate() {
        let value = match row {
            Quantum::Ticks(ticks) => i64::from(units(*ticks)?),
            Quantum::Infinite => super::INFINITE,
        };
        let _ = writeln!(text, "{value:10}                    #      {level:3}");
    }
    Ok(text)
}
