//! The options of experiments: what can be chosen, and what was.

use std::collections::BTreeMap;

/// Something that can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opt {
    /// How it is called, without dashes.
    pub name: &'static str,
    /// What stands for its value in help; empty for a switch.
    pub value: &'static str,
    /// What it is, and what holds without it.
    pub summary: &'static str,
    /// What it may be.
    pub kind: Kind,
}

/// What an option may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// There or not.
    Switch,
    /// One of these words.
    Word(&'static [&'static str]),
    /// One or more of these words, with commas between.
    Words(&'static [&'static str]),
    /// A whole number from the one to the other.
    Count(u64, u64),
    /// One or more of them, with commas between.
    Counts(u64, u64),
}

/// How long a simulated machine is measured.
pub const SECONDS: Opt = Opt {
    name: "seconds",
    value: "N",
    summary: "how many simulated seconds each arm is measured",
    kind: Kind::Count(1, 3600),
};

/// Where chance begins.
pub const SEED: Opt =
    Opt { name: "seed", value: "N", summary: "where chance begins; 1", kind: Kind::Count(0, u64::MAX) };

/// What was chosen for an experiment. Nothing is: everything that was published.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choices {
    words: BTreeMap<&'static str, String>,
    numbers: BTreeMap<&'static str, Vec<u64>>,
}

/// A choice that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot use --{option}{}: {why}", if value.is_empty() { String::new() } else { format!(" {value}") })]
pub struct ChoiceError {
    /// The option.
    pub option: String,
    /// What was given.
    pub value: String,
    /// Why it makes no sense.
    pub why: String,
}

impl Opt {
    /// `--threads N`
    #[must_use]
    pub fn form(&self) -> String {
        format!("--{} {}", self.name, self.value).trim_end().to_owned()
    }

    /// Reads a value into numbers; the value of a word is its index.
    fn read(&self, value: &str) -> Result<Vec<u64>, String> {
        let number = |text: &str, least: u64, most: u64| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let number = text.parse().ok().filter(|number| digits && (least..=most).contains(number));
            number.ok_or_else(|| format!("it is not within {least} and {most}"))
        };
        match self.kind {
            Kind::Switch => Ok(Vec::new()),
            Kind::Word(words) => match words.contains(&value) {
                true => Ok(Vec::new()),
                false => Err(format!("it is none of {}", words.join(", "))),
            },
            Kind::Words(words) => match value.split(',').find(|word| !words.contains(word)) {
                None => Ok(Vec::new()),
                Some(word) if word == value => Err(format!("it is none of {}", words.join(", "))),
                Some(word) => Err(format!("`{word}` is none of {}", words.join(", "))),
            },
            Kind::Count(least, most) => Ok(vec![number(value, least, most)?]),
            Kind::Counts(least, most) => {
                let one = |text: &str| {
                    number(text, least, most).map_err(|why| match value == text {
                        true => why,
                        false => format!("of `{text}`, {why}"),
                    })
                };
                value.split(',').map(one).collect()
            }
        }
    }
}

impl Choices {
    /// Chooses. What is chosen again replaces what was.
    ///
    /// # Errors
    /// [`ChoiceError`] for a value that the option does not have.
    pub fn give(&mut self, option: &Opt, value: &str) -> Result<(), ChoiceError> {
        let error = |why| ChoiceError { option: option.name.to_owned(), value: value.to_owned(), why };
        let numbers = option.read(value).map_err(error)?;
        self.words.insert(option.name, value.to_owned());
        self.numbers.insert(option.name, numbers);
        Ok(())
    }

    /// Chooses by names, as data do.
    ///
    /// # Errors
    /// [`ChoiceError`] for a name that is no option, or a value that the option does not have.
    pub fn of(options: &[Opt], given: &BTreeMap<String, String>) -> Result<Choices, ChoiceError> {
        let mut choices = Choices::default();
        for (name, value) in given {
            let option = options.iter().find(|option| option.name == name).ok_or_else(|| ChoiceError {
                option: name.clone(),
                value: value.clone(),
                why: "there is no such option".into(),
            })?;
            choices.give(option, value)?;
        }
        Ok(choices)
    }

    /// Whether it was chosen.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.words.contains_key(name)
    }

    /// The word, or the text of the numbers.
    #[must_use]
    pub fn word(&self, name: &str) -> Option<&str> {
        self.words.get(name).map(String::as_str)
    }

    /// The words of an option that has several; none where it was not chosen.
    pub fn words(&self, name: &str) -> impl Iterator<Item = &str> {
        self.word(name).into_iter().flat_map(|words| words.split(','))
    }

    /// The number; the first one of several.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        self.numbers.get(name)?.first().copied()
    }

    /// All numbers, in the order in which they were given.
    #[must_use]
    pub fn numbers(&self, name: &str) -> Option<&[u64]> {
        self.numbers.get(name).map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: [Opt; 5] = [
        Opt { name: "arm", value: "NAME,...", summary: "", kind: Kind::Words(&["nothing", "psets"]) },
        SECONDS,
        Opt { name: "psets", value: "", summary: "", kind: Kind::Switch },
        Opt { name: "table", value: "WORD", summary: "", kind: Kind::Word(&["standard", "extended"]) },
        Opt { name: "threads", value: "N,...", summary: "", kind: Kind::Counts(1, 64) },
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
            ("seconds", "+1", "cannot use --seconds +1: it is not within 1 and 3600"),
            ("seconds", "", "cannot use --seconds: it is not within 1 and 3600"),
            ("table", "tall", "cannot use --table tall: it is none of standard, extended"),
            ("arm", "caps", "cannot use --arm caps: it is none of nothing, psets"),
            ("arm", "psets,", "cannot use --arm psets,: `` is none of nothing, psets"),
            ("threads", "65", "cannot use --threads 65: it is not within 1 and 64"),
            ("threads", "32,x", "cannot use --threads 32,x: of `x`, it is not within 1 and 64"),
            ("colour", "red", "cannot use --colour red: there is no such option"),
        ] {
            assert_eq!(choices(&[(name, value)]), Err(why.to_owned()));
        }
    }
}
