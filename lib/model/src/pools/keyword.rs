//! Words with a fixed meaning; files may contain further ones.

use std::fmt;
use std::str::FromStr;

/// A word that Millpond knows, or an unknown one from a file of another system, which is preserved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keyword<T> {
    /// The meaning of the word.
    Known(T),
    /// The word.
    Other(String),
}

impl<T: Copy> Keyword<T> {
    /// The meaning of the word, if known.
    #[must_use]
    pub fn known(&self) -> Option<T> {
        match self {
            Keyword::Known(meaning) => Some(*meaning),
            Keyword::Other(_) => None,
        }
    }
}

impl<T: FromStr> From<&str> for Keyword<T> {
    fn from(word: &str) -> Self {
        word.parse().map_or_else(|_| Keyword::Other(word.to_owned()), Keyword::Known)
    }
}

impl<T: fmt::Display> fmt::Display for Keyword<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Keyword::Known(meaning) => meaning.fmt(f),
            Keyword::Other(word) => f.pad(word),
        }
    }
}

crate::words! {
    /// How CPUs are shared out when a configuration is applied.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum AllocateMethod {
        /// By the importance of pools; the default.
        ImportanceBased = "importance based",
        /// The remaining CPUs go to the default set.
        SurplusToDefault = "surplus to default",
    }
    else crate::ParseIdError, |text| crate::ParseIdError { text, noun: "method to allocate CPUs" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::State;

    #[test]
    fn every_word_is_kept_as_it_is() {
        for (word, state) in [("on-line", Some(State::OnLine)), ("On-line", None), ("", None)] {
            let keyword = Keyword::<State>::from(word);
            assert_eq!((keyword.known(), keyword.to_string().as_str()), (state, word));
        }
        assert_eq!("surplus to default".parse(), Ok(AllocateMethod::SurplusToDefault));
    }
}
