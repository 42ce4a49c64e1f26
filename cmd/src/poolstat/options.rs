//! What `poolstat` is asked for: the rules of its options.

use crate::failure::Failure;
use crate::interval::Repetition;
use crate::stamp::Stamp;
use crate::values;
use millpond_cli::Parsed;
use millpond_formats::pools::poolstat::{Field, parse_fields, parse_resources};

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Only these pools, by name or number; empty for all.
    pub pools: Vec<String>,
    /// The fields of a table of resources; `None` for the default table.
    pub fields: Option<Vec<Field>>,
    /// The time before each report.
    pub stamp: Option<Stamp>,
    /// What caps took away, below.
    pub caps: bool,
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
        let stamp = Stamp::parse(parsed, 'T')?;
        for list in parsed.values('r') {
            parse_resources(&list).map_err(|error| Failure::Said(error.to_string(), Some(error.hint())))?;
        }
        let mut chosen = Vec::new();
        for list in parsed.values('o') {
            let fields =
                parse_fields(&list).map_err(|error| Failure::Misuse(error.to_string(), error.hint()))?;
            chosen.extend(fields);
        }
        let fields = match (parsed.has('r'), chosen.is_empty()) {
            (false, false) => return Err(Failure::Usage("-o goes with -r".into())),
            (false, true) => None,
            (true, true) => Some(Field::ALL.to_vec()),
            (true, false) => Some(chosen),
        };
        let repetition = Repetition::parse(&parsed.words()).map_err(|failure| {
            if let Failure::Operand(why) = failure { Failure::Usage(why) } else { failure }
        })?;
        let pools = named_pools(parsed)?;
        let caps = parsed.long("caps");
        Ok(Options { pools, fields, stamp, caps, json: parsed.common.json, repetition })
    }
}

/// The pools behind `-p`.
///
/// # Errors
/// [`Failure::Usage`] where there are none behind it.
pub fn named_pools(parsed: &Parsed) -> Result<Vec<String>, Failure> {
    let lists = parsed.values('p');
    let pools: Vec<String> = values::words(&lists).collect();
    if pools.is_empty() && !lists.is_empty() {
        return Err(Failure::Usage("-p names pools".into()));
    }
    Ok(pools)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::Nanos;

    fn options(words: &[&str]) -> Result<Options, Failure> {
        let words: Vec<_> = words.iter().map(Into::into).collect();
        Options::of(&millpond_cli::parse(&super::super::COMMAND.spec, &words)?)
    }

    #[test]
    fn fields_and_pools_come_in_the_order_in_which_they_are_named() {
        let asked =
            options(&["-r", "all", "-o", "pool,rset", "-o", "used", "-p", "web 0", "0.5", "3"]).unwrap();
        assert_eq!(asked.fields, Some(vec![Field::Pool, Field::Rset, Field::Used]));
        assert_eq!(asked.pools, ["web", "0"]);
        assert_eq!(asked.repetition, Some(Repetition { interval: Nanos::from_millis(500), count: Some(3) }));
        assert_eq!(options(&["-r", "pset"]).unwrap().fields, Some(Field::ALL.to_vec()));
        assert_eq!(options(&[]).unwrap().fields, None);
    }

    #[test]
    fn broken_rules_are_told() {
        let said = |text: &str| {
            Err(Failure::Said(text.into(), Some("the types are pset, and all for every type".into())))
        };
        assert_eq!(options(&["-r", "cpu"]), said("unsupported resource type: cpu"));
        let hint = "the fields are id pool type rid rset min max size used load";
        let misuse = Failure::Misuse("unsupported statistic field: x".into(), hint.into());
        assert_eq!(options(&["-r", "all", "-o", "id,x"]), Err(misuse));
        for words in
            [&["-o", "id"][..], &["-T", "x"], &["0"], &["1", "0"], &["x"], &["1", "2", "3"], &["-p", " "]]
        {
            assert!(matches!(options(words), Err(Failure::Usage(_))), "{words:?}");
        }
    }
}
