//! Splits a line of a script or terminal as sh does: words with their columns, pipes, and the output redirection.

/// A word with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The word without its quotation marks.
    pub text: String,
    /// The column of its first character, from 1.
    pub column: usize,
    /// The word with a backslash before quoted pattern characters.
    escaped: String,
    is_pattern: bool,
}

impl Word {
    fn at(column: usize) -> Word {
        Word { text: String::new(), column, escaped: String::new(), is_pattern: false }
    }

    fn push(&mut self, c: char, is_quoted: bool) {
        self.is_pattern |= !is_quoted && WILD.contains(&c);
        if is_quoted && (WILD.contains(&c) || c == '\\') {
            self.escaped.push('\\');
        }
        self.escaped.push(c);
        self.text.push(c);
    }

    /// The word as a file name pattern. `None` if it has no unquoted pattern character.
    #[must_use]
    pub fn pattern(&self) -> Option<&str> {
        self.is_pattern.then_some(&self.escaped)
    }
}

/// The output file of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The name of the file.
    pub file: Word,
    /// `>>`: appends.
    pub appends: bool,
}

/// A parsed line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    /// The command. Empty if the line has none.
    pub words: Vec<Word>,
    /// The filter programs, each with at least one word.
    pub filters: Vec<Vec<Word>>,
    /// The output file. `None` for the terminal.
    pub target: Option<Target>,
    /// `&`: runs a program in the background.
    pub in_background: bool,
}

/// An error in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// The position.
    pub column: usize,
    /// The error message.
    pub what: String,
    /// The remedy.
    pub remedy: &'static str,
}

enum Token {
    Word(Word),
    /// `|`, `>`, `>>`, `<` or `&`.
    Sign(&'static str, usize),
}

/// The operators of sh, longest first.
const SIGNS: [&str; 6] = ["||", "|", ">>", ">", "<", "&"];

impl Line {
    /// Parses a line. Words end at blanks. Between single quotation marks, every character is literal. Between double
    /// quotation marks, a backslash quotes a following `"` or backslash; elsewhere it quotes any character. A `#` at
    /// the beginning of a word starts a comment.
    ///
    /// # Errors
    /// [`Wrong`] for the first error.
    pub fn parse(line: &str) -> Result<Line, Wrong> {
        let mut parsed = Line::default();
        let mut stages: Vec<Vec<Word>> = vec![Vec::new()];
        let mut pipe = None;
        let mut tokens = tokens(line)?.into_iter().peekable();
        while let Some(token) = tokens.next() {
            match token {
                Token::Word(Word { column, .. }) if parsed.target.is_some() => {
                    return Err(wrong(column, "nothing may stand behind the file", "FILE ends the line"));
                }
                Token::Word(word) => stages.last_mut().into_iter().for_each(|stage| stage.push(word.clone())),
                Token::Sign("&", _) if tokens.peek().is_none() => parsed.in_background = true,
                Token::Sign("|", column) if stages.last().is_some_and(Vec::is_empty) => {
                    return Err(wrong(column, "there is no command before the |", "COMMAND | PROGRAM"));
                }
                Token::Sign("|", column) if parsed.target.is_none() => {
                    pipe = Some(column);
                    stages.push(Vec::new());
                }
                Token::Sign(sign @ (">" | ">>"), column) if parsed.target.is_none() => {
                    let Some(Token::Word(file)) = tokens.next() else {
                        return Err(wrong(column, &format!("{sign} needs a file"), "COMMAND > FILE"));
                    };
                    parsed.target = Some(Target { file, appends: sign == ">>" });
                }
                Token::Sign(sign, column) => {
                    return Err(wrong(column, &format!("{sign} is not understood here"), HINT));
                }
            }
        }
        if let Some(column) = pipe.filter(|_| stages.last().is_some_and(Vec::is_empty)) {
            return Err(wrong(column, "there is no program behind the |", "COMMAND | PROGRAM"));
        }
        let mut stages = stages.into_iter();
        parsed.words = stages.next().unwrap_or_default();
        parsed.filters = stages.collect();
        if let Some(target) = parsed.target.as_ref().filter(|_| parsed.words.is_empty()) {
            return Err(wrong(
                target.file.column,
                "there is no command whose output could go there",
                "COMMAND > FILE",
            ));
        }
        Ok(parsed)
    }

    /// All words of commands, in order.
    pub fn all_words(&self) -> impl Iterator<Item = &Word> {
        self.words
            .iter()
            .chain(self.filters.iter().flatten())
            .chain(self.target.iter().map(|target| &target.file))
    }
}

const HINT: &str = "one command a line; programs behind |; quotation marks make a sign a part of a word";

fn wrong(column: usize, what: &str, remedy: &'static str) -> Wrong {
    Wrong { column, what: what.to_owned(), remedy }
}

/// The state of the scanner.
#[derive(Default)]
struct Scan {
    tokens: Vec<Token>,
    /// The open quotation mark, with its column.
    open: Option<(char, usize)>,
    /// Whether the line ends in a backslash that continues it.
    goes_on: bool,
    /// The first error of the line.
    wrong: Option<Wrong>,
}

/// Whether a line continues in the next one: it ends in a backslash that is neither quoted nor in a comment.
#[must_use]
pub fn goes_on(line: &str) -> bool {
    scan(line).goes_on
}

fn tokens(line: &str) -> Result<Vec<Token>, Wrong> {
    let scan = scan(line);
    if let Some(wrong) = scan.wrong {
        return Err(wrong);
    }
    match scan.open {
        None => Ok(scan.tokens),
        Some((mark, column)) => Err(Wrong {
            column,
            what: format!("the quotation mark {mark} is never closed"),
            remedy: "close it at the end of the word",
        }),
    }
}

/// The characters that make a word a file name pattern.
const WILD: [char; 3] = ['*', '?', '['];

fn scan(line: &str) -> Scan {
    let Scan { mut tokens, open: mut quoted, mut goes_on, mut wrong } = Scan::default();
    let mut word: Option<Word> = None;
    let mut rest = line;
    let mut column = 0;
    while let Some(c) = rest.chars().next() {
        column += 1;
        let here = rest;
        rest = &rest[c.len_utf8()..];
        let next = rest.chars().next();
        goes_on = c == '\\' && next.is_none() && !matches!(quoted, Some(('\'', _)));
        let escapes = c == '\\'
            && match quoted {
                None => next.is_some(),
                Some(('"', _)) => matches!(next, Some('"' | '\\')),
                Some(_) => false,
            };
        if escapes && let Some(next) = next {
            word.get_or_insert_with(|| Word::at(column)).push(next, true);
            column += 1;
            rest = &rest[next.len_utf8()..];
            continue;
        }
        match quoted {
            Some((mark, _)) if c == mark => quoted = None,
            None if c == '#' && word.is_none() => break,
            None if c.is_whitespace() => tokens.extend(word.take().map(Token::Word)),
            None if matches!(c, '\'' | '"') => {
                word.get_or_insert_with(|| Word::at(column));
                quoted = Some((c, column));
            }
            None if c == '>' && word.as_ref().is_some_and(|w| w.text.bytes().all(|b| b.is_ascii_digit())) => {
                let what = "streams cannot be redirected by their numbers";
                let remedy = "messages go to standard error; > takes the output";
                wrong.get_or_insert(self::wrong(column, what, remedy));
            }
            None if SIGNS.iter().any(|sign| here.starts_with(sign)) => {
                tokens.extend(word.take().map(Token::Word));
                let sign = SIGNS.into_iter().find(|sign| here.starts_with(sign)).unwrap_or("|");
                tokens.push(Token::Sign(sign, column));
                column += sign.len() - 1;
                rest = &here[sign.len()..];
            }
            _ => word.get_or_insert_with(|| Word::at(column)).push(c, quoted.is_some()),
        }
    }
    tokens.extend(word.map(Token::Word));
    Scan { tokens, open: quoted, goes_on, wrong }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        let words =
            |words: &[Word]| words.iter().map(|w| format!("{}<{}>", w.column, w.text)).collect::<String>();
        match Line::parse(line) {
            Ok(line) => {
                let mut text = words(&line.words);
                line.filters.iter().for_each(|filter| text += &format!(" | {}", words(filter)));
                let sign = |target: &Target| if target.appends { ">>" } else { ">" };
                line.target
                    .iter()
                    .for_each(|t| text += &format!(" {} {}", sign(t), words(std::slice::from_ref(&t.file))));
                text
            }
            Err(Wrong { column, what, .. }) => format!("{column}: {what}"),
        }
    }

    #[test]
    fn words_stand_between_blanks_and_comments_do_not_count() {
        assert_eq!(shown("run  10s # wait"), "1<run>6<10s>");
        assert_eq!(shown("  # nothing"), "");
        assert_eq!(shown("kill %a#b"), "1<kill>6<%a#b>");
        assert_eq!(shown("psrset -e 1 nap &"), "1<psrset>8<-e>11<1>13<nap>");
    }

    #[test]
    fn marks_hold_words_together() {
        assert_eq!(shown("save 'my machine' \"\" a'b c'd"), "1<save>6<my machine>19<>22<ab cd>");
        assert_eq!(shown("save \"it's\""), "1<save>6<it's>");
        assert_eq!(shown("save 'x"), "6: the quotation mark ' is never closed");
        assert_eq!(shown(r#"a\ b "c\"d" 'e\f' "g\h" i\|"#), r#"1<a b>6<c"d>13<e\f>19<g\h>25<i|>"#);
        assert_eq!(shown("a '|' \">\""), "1<a>3<|>7<>>");
    }

    #[test]
    fn programs_stand_behind_pipes_and_a_file_at_the_end() {
        assert_eq!(
            shown("mpstat 1 5|awk '$3 > 5 { print $1 | \"sort\" }' | head -1"),
            "1<mpstat>8<1>10<5> | 12<awk>16<$3 > 5 { print $1 | \"sort\" }> | 49<head>54<-1>"
        );
        assert_eq!(shown("echo 'set a=1' >>/etc/system"), "1<echo>6<set a=1> >> 18</etc/system>");
        assert_eq!(shown("ps|wc>x"), "1<ps> | 4<wc> > 7<x>");
    }

    #[test]
    fn a_backslash_at_the_end_takes_the_line_end_away() {
        for line in ["psrinfo | \\", "echo \"a \\", "echo \\\\\\", "ps 2>x | \\", "\\"] {
            assert!(goes_on(line), "{line}");
        }
        for line in ["psrinfo |", "echo '\\", "echo 'a' # b \\", "echo \\\\", "echo \\ ", ""] {
            assert!(!goes_on(line), "{line}");
        }
    }

    #[test]
    fn a_word_is_a_pattern_where_a_sign_of_one_is_not_quoted() {
        let patterns = |line: &str| -> Vec<Option<String>> {
            Line::parse(line).unwrap().words.iter().map(|w| w.pattern().map(str::to_owned)).collect()
        };
        assert_eq!(patterns("grep total cpu* '*' a\\*"), [None, None, Some("cpu*".into()), None, None]);
        assert_eq!(patterns(r"'[a]'? b\\*"), [Some(r"\[a]?".into()), Some(r"b\\*".into())]);
    }

    #[test]
    fn what_is_wrong_has_its_column() {
        assert_eq!(shown("| head"), "1: there is no command before the |");
        assert_eq!(shown("ps | | head"), "6: there is no command before the |");
        assert_eq!(shown("ps |"), "4: there is no program behind the |");
        assert_eq!(shown("ps || head"), "4: || is not understood here");
        assert_eq!(shown("ps < x"), "4: < is not understood here");
        assert_eq!(shown("ps & ps"), "4: & is not understood here");
        assert_eq!(shown("ps 2>x"), "5: streams cannot be redirected by their numbers");
        assert_eq!(shown("ps >"), "4: > needs a file");
        assert_eq!(shown("ps > x y"), "8: nothing may stand behind the file");
        assert_eq!(shown("> x"), "3: there is no command whose output could go there");
        assert_eq!(shown("ps > x | wc"), "8: | is not understood here");
    }

    #[test]
    fn fuzz_lines() {
        let seeds =
            ["run 10s # wait", "save 'my machine' \"\"", "ps | awk '{ print $1 }' >> \\x", "kill %nap &"];
        millpond_fuzz::check_text("cmd-sim-words", &seeds, |text| {
            let length = text.chars().count();
            match Line::parse(text) {
                Ok(line) => {
                    let columns: Vec<usize> = line.all_words().map(|word| word.column).collect();
                    assert!(columns.iter().all(|column| (1..=length).contains(column)));
                    assert!(columns.is_sorted_by(|a, b| a < b));
                    assert!(line.filters.iter().all(|filter| !filter.is_empty()));
                }
                Err(wrong) => assert!((1..=length).contains(&wrong.column)),
            }
        });
    }
}
