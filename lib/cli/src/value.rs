//! Values that the description defines completely: words and numbers in a range.

use crate::spec::ValueKind;

impl ValueKind {
    /// Checks a value. Returns its numbers, if it has any.
    ///
    /// # Errors
    /// The reason, as the end of a sentence: `it is not within 1 and 64`.
    pub fn read(self, text: &str) -> Result<Vec<u64>, String> {
        let number = |text: &str, least: u64, most: u64| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let what = if digits { "not" } else { "no whole number" };
            let number = text.parse().ok().filter(|number| digits && (least..=most).contains(number));
            number.ok_or_else(|| format!("it is {what} within {least} and {most}"))
        };
        match self {
            ValueKind::Word(words) => match words.contains(&text) {
                true => Ok(Vec::new()),
                false => Err(format!("it is none of {}", words.join(", "))),
            },
            ValueKind::Words(words) => match text.split(',').find(|word| !words.contains(word)) {
                None => Ok(Vec::new()),
                Some(word) if word == text => Err(format!("it is none of {}", words.join(", "))),
                Some(word) => Err(format!("`{word}` is none of {}", words.join(", "))),
            },
            ValueKind::Count(least, most) => Ok(vec![number(text, least, most)?]),
            ValueKind::Counts(least, most) => {
                let one = |part: &str| {
                    number(part, least, most).map_err(|why| match part == text {
                        true => why,
                        false => format!("of `{part}`, {why}"),
                    })
                };
                text.split(',').map(one).collect()
            }
            _ => Ok(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers_are_checked() {
        const TABLE: ValueKind = ValueKind::Word(&["standard", "extended"]);
        let why = |kind: ValueKind, text: &str| kind.read(text).unwrap_err();
        assert_eq!(why(TABLE, "tall"), "it is none of standard, extended");
        assert_eq!(why(ValueKind::Words(&["a", "b"]), "a,"), "`` is none of a, b");
        assert_eq!(why(ValueKind::Count(1, 64), "65"), "it is not within 1 and 64");
        assert_eq!(why(ValueKind::Count(1, 64), "1.5"), "it is no whole number within 1 and 64");
        assert_eq!(why(ValueKind::Counts(1, 64), "32,x"), "of `x`, it is no whole number within 1 and 64");
        assert_eq!(ValueKind::Counts(1, 64).read("40,32"), Ok(vec![40, 32]));
        assert_eq!(ValueKind::File.read("anything"), Ok(Vec::new()));
    }
}
