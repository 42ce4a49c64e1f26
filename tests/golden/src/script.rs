//! Parser of transcripts.

/// A step of a transcript, with the expected results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// An operation on the machine.
    Do {
        /// Line number, from 1.
        at: usize,
        /// The words after `@`.
        words: Vec<String>,
    },
    /// A command.
    Run {
        /// Line number, from 1.
        at: usize,
        /// The words after `$`.
        words: Vec<String>,
        /// Expected standard output.
        out: Vec<String>,
        /// Expected standard error.
        err: Vec<String>,
        /// Whether standard output must have more lines.
        out_open: bool,
        /// Whether standard error may have more lines.
        err_open: bool,
        /// Expected exit status.
        status: u8,
    },
}

/// An invalid line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptError {
    /// Line number, from 1.
    pub at: usize,
    /// The error.
    pub why: &'static str,
}

/// Splits at blanks. Text between quotation marks of either kind is (a part of) one word.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut mark) = (Vec::new(), None::<String>, None);
    for c in text.chars() {
        match mark {
            Some(m) if c == m => mark = None,
            None if c.is_whitespace() => words.extend(word.take()),
            None if c == '"' || c == '\'' => {
                mark = Some(c);
                word.get_or_insert_default();
            }
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Parses a transcript.
///
/// # Errors
/// [`ScriptError`] for the first invalid line.
pub fn parse(text: &str) -> Result<Vec<Line>, ScriptError> {
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let at = index + 1;
        let bad = |why| Err(ScriptError { at, why });
        let (mark, rest) = match line.split_at_checked(2) {
            Some((mark, rest)) if mark.ends_with(' ') => (mark.trim_end(), rest),
            _ => (line, ""),
        };
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match mark {
            "@" => lines.push(Line::Do { at, words: words(rest) }),
            "$" => lines.push(Line::Run {
                at,
                words: words(rest),
                out: Vec::new(),
                err: Vec::new(),
                out_open: false,
                err_open: false,
                status: 0,
            }),
            _ => {
                let Some(Line::Run { out, err, out_open, err_open, status, .. }) = lines.last_mut() else {
                    return bad("output without a command");
                };
                match mark {
                    "!" if rest == "..." => *err_open = true,
                    "!" if *err_open => return bad("standard error was left open above"),
                    "!" => err.push(rest.to_owned()),
                    "=" => match rest.parse() {
                        Ok(code) => *status = code,
                        Err(_) => return bad("a status is a number"),
                    },
                    "|" if rest == "..." => *out_open = true,
                    _ if *out_open => return bad("standard output was left open above"),
                    "|" => out.push(rest.to_owned()),
                    _ => out.push(line.to_owned()),
                }
            }
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_is_a_list_of_doings_and_commands() {
        let text =
            "# about\n@ machine x4200\n\n$ psrinfo -s 0\n1\n$ psrset  -d 7\n! no\n! ...\n= 1\n$ x\n|\n\ty\n";
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let run = |at, text, out: &[&str], err: &[&str], err_open, status| Line::Run {
            at,
            words: words(text),
            out: out.iter().map(|l| (*l).to_owned()).collect(),
            err: err.iter().map(|l| (*l).to_owned()).collect(),
            out_open: false,
            err_open,
            status,
        };
        assert_eq!(
            parse(text).unwrap(),
            [
                Line::Do { at: 2, words: words("machine x4200") },
                run(4, "psrinfo -s 0", &["1"], &[], false, 0),
                run(6, "psrset -d 7", &[], &["no"], true, 1),
                run(10, "x", &["", "\ty"], &[], false, 0),
            ]
        );
    }

    #[test]
    fn marks_hold_words_together() {
        assert_eq!(words("a  b"), ["a", "b"]);
        assert_eq!(words("-c 'info \"x\"' \"\" c'd e'"), ["-c", "info \"x\"", "", "cd e"]);
    }

    #[test]
    fn what_is_not_of_the_form_is_named_by_its_line() {
        let refused = |text| parse(text).unwrap_err();
        assert_eq!(refused("\nhello\n"), ScriptError { at: 2, why: "output without a command" });
        assert_eq!(refused("$ x\n= one\n"), ScriptError { at: 2, why: "a status is a number" });
        assert_eq!(refused("$ x\n! ...\n! y\n").at, 3);
        assert_eq!(refused("$ x\n| ...\ny\n").at, 3);
    }
}
