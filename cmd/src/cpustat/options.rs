//! The rules of the options of `cpustat`.

use crate::failure::Failure;
use crate::interval::{Repetition, seconds};
use crate::stamp::Stamp;
use millpond_cli::Parsed;
use millpond_model::Nanos;
use std::path::PathBuf;

/// The default interval.
const INTERVAL: Nanos = Nanos(5_000_000_000);

/// The parsed options.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub struct Options {
    /// The event sets.
    pub specs: Vec<String>,
    /// The duration of a cycle of all sets.
    pub period: Option<Nanos>,
    /// The time stamp before each sample.
    pub stamp: Option<Stamp>,
    /// Prints a head.
    pub head: bool,
    /// Shows the cycle counter.
    pub tick: bool,
    /// Names failed calls.
    pub debug: bool,
    /// Only lists what can be counted.
    pub lists: bool,
    /// Counts on every CPU.
    pub all: bool,
    /// Shows cycles per instruction.
    pub cpi: bool,
    /// The file of the recording.
    pub record: Option<PathBuf>,
    /// Prints JSON.
    pub json: bool,
    /// Interval and count.
    pub repetition: Repetition,
}

impl Options {
    /// Parses the options.
    ///
    /// # Errors
    /// [`Failure`] with the violated rule.
    pub fn of(parsed: &Parsed) -> Result<Options, Failure> {
        let stamp = Stamp::parse(parsed, 'T')?;
        let specs = parsed.values('c');
        let period = parsed.value('p').map(|text| seconds(&text)).transpose()?;
        let given = Repetition::parse(&parsed.words())?;
        let repetition = given.unwrap_or(Repetition { interval: INTERVAL, count: None });
        let turns = u64::try_from(specs.len().max(1)).unwrap_or(u64::MAX);
        if let Some(period) = period
            && period.0 < repetition.interval.0.saturating_mul(turns)
        {
            return Err(Failure::Operand(format!(
                "a cycle of {turns} sets takes {} intervals of {} s, which is longer than -p {} s",
                turns,
                repetition.interval.as_secs_f64(),
                period.as_secs_f64()
            )));
        }
        Ok(Options {
            specs,
            period,
            stamp,
            head: !parsed.has('n'),
            tick: parsed.has('t'),
            debug: parsed.has('D'),
            lists: parsed.has('h'),
            all: parsed.long("all"),
            cpi: parsed.long("cpi"),
            record: parsed.long_value("record").map(PathBuf::from),
            json: parsed.common.json,
            repetition,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Result<Options, Failure> {
        let words: Vec<_> = text.split_whitespace().map(Into::into).collect();
        Options::of(&millpond_cli::parse(&super::super::COMMAND.spec, &words)?)
    }

    #[test]
    fn what_the_manuals_type_is_understood() {
        let options = options("-nc pic0=Cycle_cnt,pic1=Instr_cnt 10 1").unwrap();
        assert_eq!(options.specs, ["pic0=Cycle_cnt,pic1=Instr_cnt"]);
        assert!(!options.head && !options.tick);
        assert_eq!(options.repetition, Repetition { interval: Nanos::from_secs(10), count: Some(1) });
    }

    #[test]
    fn the_interval_is_five_seconds_unless_given() {
        let repetition = Repetition { interval: Nanos::from_secs(5), count: None };
        assert_eq!(options("-c a").unwrap().repetition, repetition);
    }

    #[test]
    fn broken_rules_are_usage_errors() {
        for text in
            ["-c a 0", "-c a -1", "-c a x", "-c a 1 2 3", "-T x", "-c", "-p 0 -c a", "-c a -c b -p 1 1"]
        {
            let refused = options(text);
            assert!(matches!(refused, Err(Failure::Usage(_) | Failure::Operand(_))), "{text}: {refused:?}");
        }
    }
}
