//! The log of poold: lines of the form `Nov 20 10:02:11 Configuration INFO: starting`, as those of Solaris' poold(8).

use jiff::tz::TimeZone;
use millpond_model::{WallTime, printable};
use millpond_planner::{Category, Severity};
use millpond_session::{Log as Sink, Output};
use std::str::FromStr;

/// The severity of a line, most severe first. The numbers are those of syslog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// 1.
    Alert = 1,
    /// 2.
    Crit,
    /// 3.
    Err,
    /// 4.
    Warning,
    /// 5.
    Notice,
    /// 6.
    Info,
    /// 7.
    Debug,
}

impl Level {
    /// Every level.
    pub const ALL: [Level; 7] =
        [Level::Alert, Level::Crit, Level::Err, Level::Warning, Level::Notice, Level::Info, Level::Debug];

    /// The word in a line and in the configuration.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Level::Alert => "ALERT",
            Level::Crit => "CRIT",
            Level::Err => "ERR",
            Level::Warning => "WARNING",
            Level::Notice => "NOTICE",
            Level::Info => "INFO",
            Level::Debug => "DEBUG",
        }
    }
}

impl FromStr for Level {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        Level::ALL.into_iter().find(|level| level.word() == word).ok_or(())
    }
}

impl From<Severity> for Level {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Notice => Level::Notice,
            Severity::Info => Level::Info,
        }
    }
}

/// Formats a line, in local time. Hours run from 1 to 24. Line ends in the text are escaped, so that a name cannot
/// begin another line. A hint is appended to the same line.
#[must_use]
pub fn line(at: WallTime, zone: &TimeZone, category: Category, level: Level, text: &str) -> String {
    let when = jiff::Timestamp::from_second(at.0).unwrap_or_default().to_zoned(zone.clone());
    let hour = if when.hour() == 0 { 24 } else { when.hour() };
    let (minute, second) = (when.minute(), when.second());
    let word = match category {
        Category::Configuration => "Configuration",
        Category::Monitoring => "Monitoring",
        Category::Optimization => "Optimization",
        Category::Poold => "poold",
    };
    let day = when.strftime("%b %-d");
    let text = text.replace("\nhint: ", "; ");
    let text = printable(&text);
    format!("{day} {hour:02}:{minute:02}:{second:02} {word} {}: {text}", level.word())
}

/// The destination of lines, and the least severe level that is written.
#[derive(Debug)]
pub struct Logger {
    /// The destination instead of standard error.
    pub sink: Option<Sink>,
    /// The least severe level that is written.
    pub level: Level,
    /// The last write failed. The failure is reported once.
    pub has_failed: bool,
}

impl Logger {
    /// Writes a line if its level is enabled.
    pub fn write(&mut self, err: &mut Output<'_>, level: Level, line: &str) {
        if level > self.level {
            return;
        }
        let Some(sink) = &self.sink else {
            err.line(line);
            err.flush();
            return;
        };
        match sink.line(level as u8, line) {
            Ok(()) => self.has_failed = false,
            Err(error) => {
                if !std::mem::replace(&mut self.has_failed, true) {
                    err.line(format!(
                        "poold: the log cannot be written: {}",
                        millpond_session::reason(&error)
                    ));
                }
                err.line(line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_form_of_the_reference() {
        // 2024-11-20 10:02:11 and 00:05:00, universal time.
        let said = |at| line(WallTime(at), &TimeZone::UTC, Category::Configuration, Level::Info, "starting");
        assert_eq!(said(1_732_096_931), "Nov 20 10:02:11 Configuration INFO: starting");
        assert_eq!(said(1_732_061_100), "Nov 20 24:05:00 Configuration INFO: starting");
        let said = line(WallTime(1_732_096_931), &TimeZone::UTC, Category::Poold, Level::Notice, "exiting");
        assert_eq!(said, "Nov 20 10:02:11 poold NOTICE: exiting");
    }

    #[test]
    fn a_line_is_one_whatever_is_in_its_names() {
        let text = "cannot bind zone a\nNov 20 10:02:11 poold NOTICE: exiting\u{1b}[2J\nhint: name another";
        let said = line(WallTime(1_732_096_931), &TimeZone::UTC, Category::Monitoring, Level::Err, text);
        assert_eq!(
            said,
            "Nov 20 10:02:11 Monitoring ERR: cannot bind zone a\\nNov 20 10:02:11 poold NOTICE: exiting\\u001b[2J; name another"
        );
    }
}
