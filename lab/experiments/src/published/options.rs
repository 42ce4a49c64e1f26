//! Options of experiments, and chosen values.

use millpond_cli::{Flag, ValueKind};
use std::collections::BTreeMap;

/// Simulated seconds of measurement.
pub const SECONDS: Flag = Flag::long("seconds", "how many simulated seconds each arm is measured")
    .value("N", ValueKind::Count(1, 3600));

/// The seed.
pub const SEED: Flag = Flag::long("seed", "where chance begins; 1").value("N", ValueKind::Count(0, u64::MAX));

/// Number of seeds: every figure is then the median, with the minimum and the maximum.
pub const SEEDS: Flag = Flag::long(
    "seeds",
    "do it over so many seeds of chance, and show of each figure the median, the least and the most; 1",
)
.value("N", ValueKind::Count(1, 1_000));

/// The chosen options of an experiment. The default is everything that was published.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choices {
    words: BTreeMap<&'static str, String>,
    numbers: BTreeMap<&'static str, Vec<u64>>,
}

/// An invalid choice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot use --{option}{}: {why}", if value.is_empty() { String::new() } else { format!(" {value}") })]
pub struct ChoiceError {
    /// The option.
    pub option: String,
    /// The given value.
    pub value: String,
    /// The reason.
    pub why: String,
}

impl Choices {
    /// Sets an option; replaces an earlier value.
    ///
    /// # Errors
    /// [`ChoiceError`] for an invalid value.
    pub fn give(&mut self, option: &Flag, value: &str) -> Result<(), ChoiceError> {
        let name = option.long.unwrap_or_default();
        let error = |why| ChoiceError { option: name.to_owned(), value: value.to_owned(), why };
        let numbers = option.value.map_or(Ok(Vec::new()), |of| of.kind.read(value)).map_err(error)?;
        self.words.insert(name, value.to_owned());
        self.numbers.insert(name, numbers);
        Ok(())
    }

    /// Sets options by name, from data.
    ///
    /// # Errors
    /// [`ChoiceError`] for an unknown option or an invalid value.
    pub fn of(options: &[Flag], given: &BTreeMap<String, String>) -> Result<Choices, ChoiceError> {
        let mut choices = Choices::default();
        for (name, value) in given {
            let option = options.iter().find(|option| option.is(name)).ok_or_else(|| ChoiceError {
                option: name.clone(),
                value: value.clone(),
                why: "there is no such option".into(),
            })?;
            choices.give(option, value)?;
        }
        Ok(choices)
    }

    /// Whether an option is set.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.words.contains_key(name)
    }

    /// The value as text.
    #[must_use]
    pub fn word(&self, name: &str) -> Option<&str> {
        self.words.get(name).map(String::as_str)
    }

    /// The words of an option with several values; none if it is not set.
    pub fn words(&self, name: &str) -> impl Iterator<Item = &str> {
        self.word(name).into_iter().flat_map(|words| words.split(','))
    }

    /// The number; the first one of several.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        self.numbers.get(name)?.first().copied()
    }

    /// All numbers, in the given order.
    #[must_use]
    pub fn numbers(&self, name: &str) -> Option<&[u64]> {
        self.numbers.get(name).map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: [Flag; 5] = [
        Flag::long("arm", "").value("NAME,...", ValueKind::Words(&["nothing", "psets"])),
        SECONDS,
        Flag::long("psets", ""),
        Flag::long("table", "").value("WORD", ValueKind::Word(&["standard", "extended"])),
        Flag::long("threads", "").value("N,...", ValueKind::Counts(1, 64)),
    ];

    fn choices(given: &[(&str, &str)]) -> Result<Choices, String> {
        let given = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Choices::of(&OPTIONS, &given).map_err(|error| error.to_string())
    }

    #[test]
    fn what_was_chosen_is_there_and_nothing_else() {
        let chosen = choices(&[("threads", "40,32"), ("psets", ""), ("table", "extended")]).unwrap();
        assert_eq!(chosen.numbers("threads"), Some([40, 32].as_slice()));
        assert_eq!((chosen.number("threads"), chosen.number("seconds")), (Some(40), None));
        assert_eq!((chosen.word("table"), chosen.has("psets")), (Some("extended"), true));
        let arms = choices(&[("arm", "psets,nothing")]).unwrap();
        assert_eq!(arms.words("arm").collect::<Vec<_>>(), ["psets", "nothing"]);
        assert_eq!(arms.words("table").count(), 0);
        assert!(!chosen.has("seconds") && chosen.numbers("psets") == Some(&[]));
        assert_eq!(
            OPTIONS.map(|option| option.form()),
            ["--arm NAME,...", "--seconds N", "--psets", "--table WORD", "--threads N,..."]
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_would() {
        for (name, value, why) in [
            ("seconds", "0", "cannot use --seconds 0: it is not within 1 and 3600"),
            ("seconds", "+1", "cannot use --seconds +1: it is no whole number within 1 and 3600"),
            ("seconds", "", "cannot use --seconds: it is no whole number within 1 and 3600"),
            ("table", "tall", "cannot use --table tall: it is none of standard, extended"),
            ("arm", "caps", "cannot use --arm caps: it is none of nothing, psets"),
            ("arm", "psets,", "cannot use --arm psets,: `` is none of nothing, psets"),
            ("threads", "65", "cannot use --threads 65: it is not within 1 and 64"),
            ("threads", "32,x", "cannot use --threads 32,x: of `x`, it is no whole number within 1 and 64"),
            ("colour", "red", "cannot use --colour red: there is no such option"),
        ] {
            assert_eq!(choices(&[(name, value)]), Err(why.to_owned()));
        }
    }
}
