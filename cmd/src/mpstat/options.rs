//! What `mpstat` is asked for: the rules of its options.

use crate::failure::Failure;
use crate::interval::Repetition;
use crate::stamp::Stamp;
use crate::values::ranges;
use millpond_cli::Parsed;
use millpond_formats::mpstat::Table;
use millpond_model::PsetId;
use millpond_observe::Scope;

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Which table.
    pub table: Table,
    /// Only these sets.
    pub sets: Option<Vec<PsetId>>,
    /// No lines about changes.
    pub quiet: bool,
    /// The time before each report.
    pub stamp: Option<Stamp>,
    /// Explanations.
    pub verbose: bool,
    /// Stolen time as a column.
    pub steal: bool,
    /// Count on fenced processors, too.
    pub touch_fenced: bool,
    /// In JSON.
    pub json: bool,
    /// How often; once when not given.
    pub repetition: Option<Repetition>,
}

impl Options {
    /// Understands what was typed.
    ///
    /// # Errors
    /// [`Failure`] with the rule that was broken.
    pub fn of(parsed: &Parsed) -> Result<Options, Failure> {
        let sets = parsed.value('P').map(|text| ranges(&[text], "-P")).transpose()?;
        let stamp = Stamp::parse(parsed, 'T')?;
        let aggregate = match parsed.value('A').as_deref() {
            None => None,
            Some("core") => Some(Table::Cores),
            Some("chip" | "soc") => Some(Table::Chips),
            Some("set") => Some(Table::Sets),
            Some(other) => {
                return Err(Failure::Usage(format!("-A takes core, chip or set, not `{other}`")));
            }
        };
        Ok(Options {
            table: match (aggregate, parsed.has('a'), parsed.has('p')) {
                (Some(table), ..) => table,
                (None, true, _) => Table::Sets,
                (None, false, true) => Table::ProcessorsAndSets,
                (None, false, false) => Table::Processors,
            },
            sets: sets.map(|sets| sets.into_iter().map(PsetId).collect()),
            quiet: parsed.has('q'),
            stamp,
            verbose: parsed.has('v'),
            steal: parsed.long("steal"),
            touch_fenced: parsed.long("touch-fenced"),
            json: parsed.common.json,
            repetition: Repetition::parse(&parsed.words())?,
        })
    }

    /// Which changes are noticed: those of sets only where sets are shown or chosen.
    pub fn scope(&self) -> Scope {
        let sets = self.sets.is_some() || matches!(self.table, Table::Sets | Table::ProcessorsAndSets);
        if sets { Scope::Sets } else { Scope::Processors }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use millpond_model::Nanos;

    pub(crate) fn options(text: &str) -> Result<Options, Failure> {
        let words: Vec<_> = text.split_whitespace().map(Into::into).collect();
        Options::of(&millpond_cli::parse(&super::super::COMMAND.spec, &words)?)
    }

    #[test]
    fn sets_win_over_the_column_of_sets() {
        assert_eq!(options("-ap").unwrap().table, Table::Sets);
        assert_eq!(options("-p").unwrap().table, Table::ProcessorsAndSets);
        assert_eq!(options("").unwrap().table, Table::Processors);
        let tables = ["core", "chip", "set"].map(|group| options(&format!("-A {group}")).unwrap().table);
        assert_eq!(tables, [Table::Cores, Table::Chips, Table::Sets]);
    }

    #[test]
    fn sets_are_noticed_where_they_matter() {
        assert_eq!(options("").unwrap().scope(), Scope::Processors);
        for text in ["-a", "-p", "-P 0"] {
            assert_eq!(options(text).unwrap().scope(), Scope::Sets, "{text}");
        }
    }

    #[test]
    fn everything_has_its_place() {
        let options = options("-aqv -P 3 -T d --steal --touch-fenced --json 0.5 4").unwrap();
        assert_eq!((&options.sets, options.stamp), (&Some(vec![PsetId(3)]), Some(Stamp::Date)));
        assert!(options.quiet && options.verbose && options.steal && options.touch_fenced && options.json);
        let repetition = Repetition { interval: Nanos::from_millis(500), count: Some(4) };
        assert_eq!(options.repetition, Some(repetition));
    }

    #[test]
    fn several_sets_are_a_list_or_a_range() {
        for text in ["-P 0-2", "-P 0,1,2", "-P 0,1-2"] {
            assert_eq!(options(text).unwrap().sets, Some(vec![PsetId(0), PsetId(1), PsetId(2)]), "{text}");
        }
    }

    #[test]
    fn broken_rules_are_usage_errors() {
        for text in
            ["-p -P 1", "-a -A core", "-A lgroup", "-T x", "1 0", "-P x", "-P -1", "0", "5 x", "1 2 3", "-Z"]
        {
            assert!(matches!(options(text), Err(Failure::Usage(_) | Failure::Operand(_))), "{text}");
        }
    }
}
