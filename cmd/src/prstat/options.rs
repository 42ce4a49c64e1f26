//! What `prstat` is asked for: the rules of its options.

use super::choice::Choice;
use crate::failure::Failure;
use crate::interval::Repetition;
use crate::stamp::Stamp;
use crate::values;
use millpond_cli::Parsed;
use millpond_formats::prstat::Grouping;
use millpond_machine::facets::{CensusOptions, Depth};
use millpond_model::Nanos;

/// The time between reports where none is given.
const INTERVAL: Nanos = Nanos::from_secs(5);
/// Lines of the table of processes where nobody says how many.
const LINES: usize = 15;
/// Lines of the table beside it.
const GROUPS: usize = 5;

/// What lines are ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// Recent use of processors; with microstates, time on processors in the interval.
    Cpu,
    /// Global priority.
    Pri,
    /// What is in memory.
    Rss,
    /// Address space.
    Size,
    /// Processor time.
    Time,
}

/// How much of the microstates is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Microstates {
    /// USR, SYS and SLP, as far as they cost nothing.
    Some,
    /// All.
    All,
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// A line for each thread.
    pub threads: bool,
    /// Microstates in place of sizes.
    pub microstates: Option<Microstates>,
    /// The table of processes is shown.
    pub processes: bool,
    /// Another table below it.
    pub grouping: Option<Grouping>,
    /// Homes.
    pub homes: bool,
    /// Numbers in place of names.
    pub numbers: bool,
    /// Names of users are cut to their column.
    pub cut: bool,
    /// In the real-time class.
    pub real_time: bool,
    /// Reports below one another.
    pub scrolls: bool,
    /// Lines of both tables.
    pub lines: (usize, usize),
    /// The order; `true`: the greatest first.
    pub order: (Key, bool),
    /// The time before each report.
    pub stamp: Option<Stamp>,
    /// Which processes and threads.
    pub choice: Choice,
    /// System calls are counted, and told from user mode exactly.
    pub calls: bool,
    /// Where the figures come from.
    pub explain: bool,
    /// What caps took away, below.
    pub caps: bool,
    /// Projects or zones with their shares and caps.
    pub shares: bool,
    /// In JSON.
    pub json: bool,
    /// How often. `None`: nobody said.
    pub repetition: Option<Repetition>,
}

impl Options {
    /// Understands what was typed.
    ///
    /// # Errors
    /// [`Failure`] with the rule that was broken.
    pub fn of(parsed: &Parsed) -> Result<Options, Failure> {
        let stamp = Stamp::parse(parsed, 'd')?;
        let repetition = Repetition::parse(&parsed.words())?;
        let grouping = grouping(parsed);
        let microstates = match (parsed.has('m'), parsed.has('v')) {
            (true, _) => Some(Microstates::All),
            (false, true) => Some(Microstates::Some),
            (false, false) => None,
        };
        Ok(Options {
            threads: parsed.has('L'),
            microstates,
            processes: !parsed.has('t'),
            grouping,
            homes: parsed.has('H'),
            numbers: parsed.has('r'),
            cut: parsed.has('W'),
            real_time: parsed.has('R'),
            scrolls: parsed.has('c'),
            lines: lines(parsed.value('n').as_deref())?,
            order: order(parsed)?,
            stamp,
            choice: Choice::read(parsed)?,
            calls: calls(parsed)?,
            explain: parsed.long("explain"),
            caps: parsed.long("caps"),
            shares: shares(parsed, grouping)?,
            json: parsed.common.json,
            repetition,
        })
    }

    /// What the machine is asked for.
    pub fn census(&self) -> CensusOptions {
        let depth = match self.microstates {
            None => Depth::Use,
            Some(Microstates::Some) => Depth::Kept,
            Some(Microstates::All) => Depth::Measured,
        };
        let sized = matches!(self.order.0, Key::Rss | Key::Size);
        let zones = self.grouping == Some(Grouping::Zones);
        CensusOptions {
            threads: self.threads,
            depth,
            memory: self.microstates.is_none() || sized || self.grouping.is_some(),
            places: self.homes || zones || self.json || self.choice.needs_places(),
            calls: self.calls,
            causes: false,
        }
    }

    /// How often to report on a machine of which nobody said it.
    pub fn endless() -> Repetition {
        Repetition { interval: INTERVAL, count: None }
    }
}

fn usage<T>(why: String) -> Result<T, Failure> {
    Err(Failure::Usage(why))
}

fn shares(parsed: &Parsed, grouping: Option<Grouping>) -> Result<bool, Failure> {
    match (parsed.long("shares"), grouping) {
        (true, Some(Grouping::Projects | Grouping::Zones)) => Ok(true),
        (true, _) => usage("--shares goes with -J or -Z".into()),
        (false, _) => Ok(false),
    }
}

fn grouping(parsed: &Parsed) -> Option<Grouping> {
    let named = [
        ('a', Grouping::Users),
        ('t', Grouping::Users),
        ('J', Grouping::Projects),
        ('T', Grouping::Tasks),
        ('Z', Grouping::Zones),
    ];
    named.into_iter().find(|(letter, _)| parsed.has(*letter)).map(|(_, grouping)| grouping)
}

/// Only microstates have them.
fn calls(parsed: &Parsed) -> Result<bool, Failure> {
    match (parsed.long("calls"), parsed.has('m')) {
        (true, false) => usage("--calls goes with -m".into()),
        (calls, _) => Ok(calls),
    }
}

fn lines(text: Option<&str>) -> Result<(usize, usize), Failure> {
    let Some(text) = text else { return Ok((LINES, GROUPS)) };
    let number = |word: &str| -> Result<usize, Failure> {
        values::count(word)
            .ok_or_else(|| Failure::Operand(format!("-n takes numbers of lines from 1 on, not `{word}`")))
    };
    match text.split_once(',') {
        None => Ok((number(text)?, GROUPS)),
        Some((processes, groups)) => Ok((number(processes)?, number(groups)?)),
    }
}

fn order(parsed: &Parsed) -> Result<(Key, bool), Failure> {
    let Some(letter) = parsed.letters().filter(|letter| matches!(letter, 's' | 'S')).last() else {
        return Ok((Key::Cpu, true));
    };
    let word = parsed.value(letter).unwrap_or_default();
    let key = match word.as_str() {
        "cpu" => Key::Cpu,
        "pri" => Key::Pri,
        "rss" => Key::Rss,
        "size" => Key::Size,
        "time" => Key::Time,
        other => return usage(format!("-{letter} takes cpu, pri, rss, size or time, not `{other}`")),
    };
    Ok((key, letter == 's'))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn options(text: &str) -> Result<Options, Failure> {
        let words: Vec<_> = text.split_whitespace().map(Into::into).collect();
        Options::of(&millpond_cli::parse(&super::super::COMMAND.spec, &words)?)
    }

    #[test]
    fn defaults_are_those_of_the_reference() {
        let options = options("").unwrap();
        assert_eq!((options.lines, options.order, options.repetition), ((15, 5), (Key::Cpu, true), None));
        assert!(options.processes && options.grouping.is_none() && options.microstates.is_none());
        assert_eq!(Options::endless().interval, Nanos::from_secs(5));
    }

    #[test]
    fn everything_has_its_place() {
        let options = options("-mLcrW --calls -n 3,4 -s time -S rss -d d -Z 0.5 2").unwrap();
        assert_eq!(options.microstates, Some(Microstates::All));
        assert_eq!((options.lines, options.order), ((3, 4), (Key::Rss, false)));
        assert!(options.threads && options.scrolls && options.numbers && options.cut && !options.real_time);
        assert!(super::tests::options("-R").unwrap().real_time);
        assert_eq!((options.grouping, options.stamp), (Some(Grouping::Zones), Some(Stamp::Date)));
        let census = options.census();
        assert!(census.memory && census.places && census.threads && census.depth == Depth::Measured);
        assert!(census.calls);
    }

    #[test]
    fn nothing_is_asked_for_that_is_not_shown() {
        let census = options("-m").unwrap().census();
        assert!(!census.memory && !census.places && census.lists_threads());
        assert_eq!(options("").unwrap().census(), CensusOptions { memory: true, ..CensusOptions::default() });
    }

    #[test]
    fn broken_rules_are_told() {
        for text in [
            "-a -Z", "-t -J", "-n 0", "-n 1,0", "-n x", "-n +1", "-s mem", "-S x", "-d x", "0", "1 0", "x",
            "1 2 3", "-p x", "-P 1,x", "-C -1", "-q",
        ] {
            let failed = options(text);
            assert!(matches!(failed, Err(Failure::Usage(_) | Failure::Operand(_))), "{text}: {failed:?}");
        }
    }
}
