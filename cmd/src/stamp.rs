//! The timestamp line before each report (`-T u`, `-T d`).

use crate::failure::Failure;
use jiff::tz::TimeZone;
use millpond_cli::Parsed;
use millpond_formats::mpstat::{stamp_date, stamp_seconds};
use millpond_model::WallTime;

/// The time stamp before each report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    /// Seconds since 1970.
    Seconds,
    /// In the format of `date`.
    Date,
}

impl Stamp {
    /// The time stamp of the option `letter`. `None` without it.
    ///
    /// # Errors
    /// [`Failure::Usage`] for a word other than `u` and `d`.
    pub fn parse(parsed: &Parsed, letter: char) -> Result<Option<Stamp>, Failure> {
        match parsed.value(letter).as_deref() {
            None => Ok(None),
            Some("u") => Ok(Some(Stamp::Seconds)),
            Some("d") => Ok(Some(Stamp::Date)),
            Some(other) => Err(Failure::Usage(format!("-{letter} takes u or d, not `{other}`"))),
        }
    }

    /// The line, without its line end.
    #[must_use]
    pub fn line(self, at: WallTime, zone: &TimeZone) -> String {
        match self {
            Stamp::Seconds => stamp_seconds(at),
            Stamp::Date => stamp_date(at, zone),
        }
    }
}
