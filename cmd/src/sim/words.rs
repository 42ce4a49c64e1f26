//! A line of a script or of a terminal as words, each with its column.

/// A word with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The word, without its quotation marks.
    pub text: String,
    /// The column of its first character, from 1.
    pub column: usize,
}

/// A line that makes no words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unclosed {
    /// The column of the quotation mark that is never closed.
    pub column: usize,
    /// The mark.
    pub mark: char,
}

/// Takes a line apart at blanks. What stands between quotation marks of either kind is (a part of) one word; a `#` at the
/// beginning of a word begins a comment.
///
/// # Errors
/// [`Unclosed`] for a quotation mark without its partner.
pub fn split(line: &str) -> Result<Vec<Word>, Unclosed> {
    let mut words = Vec::new();
    let mut word: Option<Word> = None;
    let mut quoted: Option<Unclosed> = None;
    for (c, column) in line.chars().zip(1..) {
        match quoted {
            Some(Unclosed { mark, .. }) if c == mark => quoted = None,
            None if c == '#' && word.is_none() => break,
            None if c.is_whitespace() => words.extend(word.take()),
            _ => {
                let word = word.get_or_insert(Word { text: String::new(), column });
                if quoted.is_none() && matches!(c, '\'' | '"') {
                    quoted = Some(Unclosed { column, mark: c });
                } else {
                    word.text.push(c);
                }
            }
        }
    }
    words.extend(word);
    quoted.map_or(Ok(words), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        match split(line) {
            Ok(words) => words.iter().map(|w| format!("{}<{}>", w.column, w.text)).collect(),
            Err(Unclosed { column, mark }) => format!("{mark} at {column}"),
        }
    }

    #[test]
    fn words_stand_between_blanks_and_comments_do_not_count() {
        assert_eq!(shown("run  10s # wait"), "1<run>6<10s>");
        assert_eq!(shown("  # nothing"), "");
        assert_eq!(shown("kill %a#b"), "1<kill>6<%a#b>");
    }

    #[test]
    fn marks_hold_words_together() {
        assert_eq!(shown("save 'my machine' \"\" a'b c'd"), "1<save>6<my machine>19<>22<ab cd>");
        assert_eq!(shown("save \"it's\""), "1<save>6<it's>");
        assert_eq!(shown("save 'x"), "' at 6");
    }

    #[test]
    fn fuzz_lines() {
        let seeds = ["run 10s # wait", "save 'my machine' \"\"", "kill %nap"];
        millpond_fuzz::check_text("cmd-sim-words", &seeds, |text| {
            let length = text.chars().count();
            match split(text) {
                Ok(words) => {
                    assert!(words.iter().all(|w| (1..=length).contains(&w.column)));
                    assert!(words.is_sorted_by(|a, b| a.column < b.column));
                }
                Err(unclosed) => assert!((1..=length).contains(&unclosed.column)),
            }
        });
    }
}
