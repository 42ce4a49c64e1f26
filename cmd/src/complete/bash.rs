//! The words of bash's command line, which are split at `=` and `:`, and quoted.
//!
//! bash inserts a candidate unchanged, so characters with a meaning to the shell are quoted here.

/// The command line up to the cursor.
#[derive(Debug, PartialEq, Eq)]
pub struct Typed {
    /// The words, without quotes. The last one is at the cursor.
    pub words: Vec<String>,
    /// The number of bytes of the last word that bash keeps. It replaces the rest.
    kept: usize,
    /// The open quote of the last word.
    open: Option<char>,
}

impl Typed {
    /// Parses `COMP_WORDS`.
    pub fn read(raw: &[String]) -> Typed {
        let mut typed = Typed { words: Vec::new(), kept: 0, open: None };
        let mut joins = false;
        for word in raw {
            let is_break = !word.is_empty() && word.bytes().all(|byte| matches!(byte, b'=' | b':'));
            let (text, before_quote, open) = unquoted(word);
            match typed.words.last_mut() {
                Some(last) if joins || is_break && (word.contains(':') || last.starts_with("--")) => {
                    typed.kept = last.len() + if is_break { text.len() } else { before_quote };
                    last.push_str(&text);
                    joins = is_break;
                }
                _ => {
                    typed.kept = before_quote;
                    typed.words.push(text);
                    joins = false;
                }
            }
            typed.open = open;
        }
        typed
    }

    /// The text that bash inserts for a candidate that begins with the last word. `None` if no text in the open quote
    /// can stand for that candidate.
    pub fn inserted(&self, candidate: &str) -> Option<String> {
        let rest = candidate.get(self.kept..)?;
        match self.open {
            None => Some(quoted(rest)),
            Some(_) => rest.chars().all(is_plain).then(|| rest.to_owned()),
        }
    }
}

/// Whether a character has no special meaning anywhere in a word.
fn is_plain(c: char) -> bool {
    !c.is_ascii() || c.is_ascii_alphanumeric() || "_./,:+@%=-".contains(c)
}

fn quoted(text: &str) -> String {
    let mut quoted = String::new();
    for c in text.chars() {
        if !is_plain(c) {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted
}

/// A word without its quotes, the length of the part before an open quote, and that quote.
fn unquoted(word: &str) -> (String, usize, Option<char>) {
    let mut text = String::new();
    let (mut open, mut before) = (None, 0);
    let mut rest = word.chars();
    while let Some(c) = rest.next() {
        match (open, c) {
            (None, '\'' | '"') => (open, before) = (Some(c), text.len()),
            (Some(quote), _) if c == quote => open = None,
            (None, '\\') => text.extend(rest.next()),
            (Some('"'), '\\') => match rest.next() {
                Some(next @ ('$' | '`' | '"' | '\\')) => text.push(next),
                next => {
                    text.push('\\');
                    text.extend(next);
                }
            },
            _ => text.push(c),
        }
    }
    (text, if open.is_some() { before } else { 0 }, open)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(text: &str) -> Typed {
        Typed::read(&text.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_joined_where_bash_breaks_them() {
        let joined = |text| typed(text).words.join(" ");
        assert_eq!(joined("psrset --machine = t2 -c"), "psrset --machine=t2 -c");
        assert_eq!(joined("psrset --machine = "), "psrset --machine=");
        assert_eq!(joined("psrset a = b"), "psrset a = b");
        assert_eq!(joined("psrset -z a : b : c"), "psrset -z a:b:c");
    }

    #[test]
    fn what_bash_replaces_is_inserted() {
        let inserted = |text, candidate| typed(text).inserted(candidate);
        assert_eq!(inserted("psrset --machine = t2", "--machine=t2000").as_deref(), Some("t2000"));
        assert_eq!(inserted("psrset --machine =", "--machine=t2000").as_deref(), Some("t2000"));
        assert_eq!(inserted("psrset -z a:b", "a:b").as_deref(), Some("a:b"));
        assert_eq!(inserted("psrset -z a : b", "a:bc").as_deref(), Some("bc"));
        assert_eq!(inserted("psrset -z /h", "/h$(id) x").as_deref(), Some("/h\\$\\(id\\)\\ x"));
        assert_eq!(inserted("psrset -z /h\\$", "/h$x").as_deref(), Some("/h\\$x"));
    }

    #[test]
    fn in_an_open_quote_only_plain_text_is_inserted() {
        assert_eq!(typed("psrset -z '/h").inserted("/hx").as_deref(), Some("/hx"));
        assert_eq!(typed("psrset -z /a\"b").inserted("/abc").as_deref(), Some("bc"));
        for candidate in ["/h';id", "/h\"$(id)", "/h`id`", "/h!1", "/h b"] {
            assert_eq!(typed("psrset -z '/h").inserted(candidate), None);
            assert_eq!(typed("psrset -z \"/h").inserted(candidate), None);
        }
    }

    #[test]
    fn fuzz_bash_words() {
        let seeds = ["psrset -z /h'x \"$(id)\" a\\ b", "--root = : x\\"];
        millpond_fuzz::check_text("complete-bash", &seeds, |text| {
            let read = typed(text);
            let last = read.words.last().cloned().unwrap_or_default();
            // Quoting any text and parsing it again gives the same text.
            assert_eq!(unquoted(&quoted(text)), (text.to_owned(), 0, None));
            let inserted = read.inserted(&format!("{last}$(id)"));
            assert!(inserted.is_none_or(|text| text.ends_with("\\$\\(id\\)")));
        });
    }
}
