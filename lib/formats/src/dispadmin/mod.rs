//! Dispatch tables as text: the listings, output and input of `dispadmin`.
//!
//! A *table file* begins with its *resolution* (`RES=1000`: the unit is 1/1000 second), followed by one row for each level, from 0 on. The
//! kernel stores slices in clock *ticks*, `hz` per second. Both conversions round up, so 7 ms loaded at 100 ticks per second are one tick
//! and print as 10. [`parse_table`] accepts what the Solaris command and then its kernel accept, and [`print_table`] writes the same form.
//!
//! The standard tables are files in `tables/`, in milliseconds for a machine with 100 ticks per second.

mod fss;
mod parse;
mod print;
mod units;

pub use parse::{Fault, FssFault, TableFileError, parse_table};
pub use print::{PrintError, print_table};
pub(crate) use units::to_ticks;

use millpond_model::{
    CLASSES, Class, ClassTable, DispatchTables, FX_LEVELS, FssQuantum, RT_LEVELS, TS_LEVELS,
};

/// The default number of units per second: milliseconds.
pub const RES_DEFAULT: u32 = 1000;
/// The finest resolution: nanoseconds.
pub const RES_MAX: u32 = 1_000_000_000;
/// The default number of clock ticks per second. The standard tables are written for it.
pub const HZ_DEFAULT: u32 = 100;

/// The number for an infinite slice.
const INFINITE: i64 = -2;

const TS_STANDARD: &str = include_str!("../../tables/ts_dptbl_standard.txt");
const TS_EXTENDED: &str = include_str!("../../tables/ts_dptbl_extended.txt");
const RT_STANDARD: &str = include_str!("../../tables/rt_dptbl.txt");
const FX_STANDARD: &str = include_str!("../../tables/fx_dptbl.txt");

/// The tables of a machine after boot; `extended` is its tunable `ts_dispatch_extended`.
///
/// Tables are stored in ticks, independent of the clock rate: with 1000 ticks per second all slices are a tenth as
/// long, as on Solaris.
///
/// # Panics
/// Never: a test parses each of the files.
#[must_use]
pub fn default_tables(extended: bool) -> DispatchTables {
    let ts = if extended { TS_EXTENDED } else { TS_STANDARD };
    let read = |class, text| parse_table(class, text, HZ_DEFAULT);
    match (read(Class::Ts, ts), read(Class::Rt, RT_STANDARD), read(Class::Fx, FX_STANDARD)) {
        (Ok(ClassTable::Ts(ts)), Ok(ClassTable::Rt(rt)), Ok(ClassTable::Fx(fx))) => {
            DispatchTables { ts, rt, fx, fss: FssQuantum::default() }
        }
        wrong => unreachable!("a standard table is wrong: {wrong:?}"),
    }
}

/// A class with its description: `TS`, a tab, `(Time Sharing)`.
#[must_use]
pub fn described(class: Class) -> String {
    let what = match class {
        Class::Sys => "System Class",
        Class::Ts => "Time Sharing",
        Class::Fx => "Fixed Priority",
        Class::Rt => "Real Time",
        Class::Ia => "Interactive",
        Class::Fss => "Fair Share",
    };
    format!("{class}\t({what})")
}

/// `-l`: the classes in the order in which they were loaded. Several lines with newlines.
#[must_use]
pub fn listing(classes: &[Class]) -> String {
    let rows: String = classes.iter().map(|class| described(*class) + "\n").collect();
    format!("CONFIGURED CLASSES\n==================\n\n{rows}")
}

/// The classes that have a table: `TS, FX, RT and IA`.
fn with_tables() -> String {
    let words: Vec<&str> = CLASSES.iter().filter(|c| Layout::of(**c).is_some()).map(|c| c.word()).collect();
    match words.split_last() {
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// The layout of the table of a class.
struct Layout {
    /// The prefix of column names.
    prefix: &'static str,
    /// The column names without the prefix.
    columns: &'static [&'static str],
    /// One row for each level.
    rows: usize,
}

impl Layout {
    /// `None` for a class without a table.
    fn of(class: Class) -> Option<Layout> {
        const TIME_SHARING: &[&str] = &["quantum", "tqexp", "slpret", "maxwait", "lwait"];
        const QUANTA: &[&str] = &["quantum"];
        Some(match class {
            Class::Sys => return None,
            Class::Ts => Layout { prefix: "ts", columns: TIME_SHARING, rows: TS_LEVELS },
            Class::Ia => Layout { prefix: "ia", columns: TIME_SHARING, rows: TS_LEVELS },
            Class::Rt => Layout { prefix: "rt", columns: QUANTA, rows: RT_LEVELS },
            Class::Fx => Layout { prefix: "fx", columns: QUANTA, rows: FX_LEVELS },
            Class::Fss => Layout { prefix: "fss", columns: QUANTA, rows: 1 },
        })
    }

    /// The name of a column: `ts_quantum`.
    fn column(&self, at: usize) -> String {
        format!("{}_{}", self.prefix, self.columns.get(at).copied().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
