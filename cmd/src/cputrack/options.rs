//! The rules of the options of `cputrack`.

use crate::failure::Failure;
use crate::interval::seconds;
use millpond_cli::Parsed;
use millpond_machine::facets::{Follow, Tracked};
use millpond_model::{Nanos, Pid};
use std::path::PathBuf;

/// The default interval between ticks.
const INTERVAL: Nanos = Nanos(1_000_000_000);

/// The parsed options.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub struct Options {
    /// The event sets.
    pub specs: Vec<String>,
    /// The interval between ticks. `None` for no ticks.
    pub interval: Option<Nanos>,
    /// The number of ticks. `None` for no end.
    pub count: Option<u64>,
    /// The processes to follow in addition to the threads.
    pub follow: Follow,
    /// Reports starts and ends of counting.
    pub verbose: bool,
    /// Shows the CPU time of threads.
    pub tick: bool,
    /// Prints a head.
    pub head: bool,
    /// Names failed calls.
    pub debug: bool,
    /// Only lists what can be counted.
    pub lists: bool,
    /// The output file.
    pub output: Option<PathBuf>,
    /// The process or command whose threads are tracked. `None` if none is named.
    pub whose: Option<Tracked>,
    /// Prints JSON.
    pub json: bool,
}

impl Options {
    /// Parses the options.
    ///
    /// # Errors
    /// [`Failure`] with the violated rule.
    pub fn of(parsed: &Parsed) -> Result<Options, Failure> {
        let interval = match parsed.value('T').as_deref() {
            None => Some(INTERVAL),
            Some(zero) if !zero.is_empty() && zero.bytes().all(|b| b == b'0') => None,
            Some(text) => Some(seconds(text)?),
        };
        let count = match parsed.value('N') {
            None => None,
            Some(text) => {
                let wrong = || Failure::Operand(format!("`{text}` is not a count"));
                let count: u64 = text.parse().map_err(|_| wrong())?;
                (count > 0).then_some(count)
            }
        };
        let pid = parsed.value('p').map(|text| {
            text.parse::<Pid>().map_err(|_| Failure::Operand(format!("`{text}` is not a process id")))
        });
        let whose = match (pid.transpose()?, parsed.operands.as_slice()) {
            (Some(_), [_, ..]) => {
                return Err(Failure::Usage(
                    "-p follows a process, and a command starts one: only one of them".into(),
                ));
            }
            (Some(pid), []) => Some(Tracked::Process(pid)),
            (None, []) => None,
            (None, words) => Some(Tracked::Program(words.to_vec())),
        };
        Ok(Options {
            specs: parsed.values('c'),
            interval,
            count,
            follow: Follow { forks: parsed.has('f'), execs: parsed.has('e') },
            verbose: parsed.has('v'),
            tick: parsed.has('t'),
            head: !parsed.has('n'),
            debug: parsed.has('D'),
            lists: parsed.has('h'),
            output: parsed.value('o').map(PathBuf::from),
            whose,
            json: parsed.common.json,
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
    fn a_program_keeps_its_own_options() {
        let options = options("-T 0.5 -N 3 -fev -c cycles ls -l -T 9").unwrap();
        assert_eq!(options.whose, Some(Tracked::Program(["ls", "-l", "-T", "9"].map(Into::into).to_vec())));
        assert_eq!((options.interval, options.count), (Some(Nanos::from_millis(500)), Some(3)));
        assert!(options.follow.forks && options.follow.execs && options.verbose);
    }

    #[test]
    fn a_tick_comes_each_second_unless_none_is_wanted() {
        assert_eq!(options("-c a x").unwrap().interval, Some(Nanos::from_secs(1)));
        assert_eq!(options("-T 0 -N 0 -c a x").map(|o| (o.interval, o.count)), Ok((None, None)));
    }

    #[test]
    fn broken_rules_are_usage_errors() {
        for text in
            ["-T -1 -c a x", "-T x -c a y", "-N x -c a y", "-N -1 -c a y", "-p x -c a", "-p 1 -c a ls"]
        {
            let refused = options(text);
            assert!(matches!(refused, Err(Failure::Usage(_) | Failure::Operand(_))), "{text}: {refused:?}");
        }
    }
}
