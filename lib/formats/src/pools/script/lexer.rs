//! The lexer: splits a script into tokens.

use super::{SyntaxError, SyntaxFault};

/// Keywords: none of them can be a name. (`true` and `false` can.)
const KEYWORDS: [&str; 19] = [
    "info",
    "create",
    "destroy",
    "modify",
    "associate",
    "transfer",
    "discover",
    "rename",
    "to",
    "from",
    "int",
    "uint",
    "boolean",
    "string",
    "float",
    "cpu",
    "pset",
    "pool",
    "system",
];

pub(super) fn is_keyword(text: &str) -> bool {
    KEYWORDS.contains(&text)
}

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A keyword, or one of `= ; ( ) ~`.
    Fixed,
    /// A name of an element or a property.
    Name,
    /// Digits.
    Uint,
    /// A minus sign and digits.
    Int,
    /// A number with a fraction.
    Float,
    /// A quoted text, including the quotes.
    Quoted,
    /// The end of the script.
    End,
}

/// A token.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Token<'_> {
    pub(super) fn error(&self, fault: SyntaxFault) -> SyntaxError {
        SyntaxError { line: self.line, column: self.column, fault, text: self.text.to_owned() }
    }

    /// Whether it is this keyword.
    pub(super) fn is(&self, word: &str) -> bool {
        self.kind == Kind::Fixed && self.text == word
    }
}

pub(super) struct Lexer<'a> {
    /// The text that has not been read yet.
    rest: &'a str,
    line: usize,
    column: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Lexer { rest: text, line: 1, column: 1 }
    }

    pub(super) fn next(&mut self) -> Result<Token<'a>, SyntaxError> {
        self.skip_blanks();
        let Some(first) = self.rest.chars().next() else { return Ok(self.token(Kind::End, 0)) };
        match first {
            '=' | ';' | '(' | ')' | '~' => Ok(self.token(Kind::Fixed, 1)),
            '"' => self.quoted(),
            'a'..='z' | 'A'..='Z' | '_' => Ok(self.word()),
            '-' | '0'..='9' => match number(self.rest) {
                Some((kind, length)) => Ok(self.token(kind, length)),
                None => Err(self.token(Kind::End, 1).error(SyntaxFault::Character)),
            },
            other => Err(self.token(Kind::End, other.len_utf8()).error(SyntaxFault::Character)),
        }
    }

    fn skip_blanks(&mut self) {
        loop {
            let length = match self.rest.bytes().next() {
                Some(b'\n') => {
                    self.rest = &self.rest[1..];
                    (self.line, self.column) = (self.line + 1, 1);
                    continue;
                }
                Some(b' ' | b'\t' | b'\r') => 1,
                Some(b'#') => self.rest.find('\n').unwrap_or(self.rest.len()),
                _ => return,
            };
            self.token(Kind::End, length);
        }
    }

    /// Takes `length` bytes of this line.
    fn token(&mut self, kind: Kind, length: usize) -> Token<'a> {
        let (text, rest) = self.rest.split_at(length);
        let token = Token { kind, text, line: self.line, column: self.column };
        self.rest = rest;
        self.column += length;
        token
    }

    fn word(&mut self) -> Token<'a> {
        let inner = |b: u8| b.is_ascii_alphanumeric() || b",._-".contains(&b);
        let length = self.rest.bytes().position(|b| !inner(b)).unwrap_or(self.rest.len());
        let kind = if is_keyword(&self.rest[..length]) { Kind::Fixed } else { Kind::Name };
        self.token(kind, length)
    }

    fn quoted(&mut self) -> Result<Token<'a>, SyntaxError> {
        let line = self.rest.find('\n').map_or(self.rest, |end| &self.rest[..end]);
        match line[1..].find('"') {
            Some(end) => Ok(self.token(Kind::Quoted, end + 2)),
            None => Err(self.token(Kind::End, line.len()).error(SyntaxFault::Unterminated)),
        }
    }
}

/// The number at the beginning of a text, and its length: digits with an optional minus sign, an optional fraction and an
/// optional exponent.
fn number(text: &str) -> Option<(Kind, usize)> {
    let digits = |from: usize| text.as_bytes()[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let byte = |at: usize| text.as_bytes().get(at).copied();
    let start = usize::from(byte(0) == Some(b'-'));
    let whole = digits(start);
    if whole == 0 {
        return None;
    }
    let mut end = start + whole;
    let fraction = if byte(end) == Some(b'.') { digits(end + 1) } else { 0 };
    if fraction == 0 {
        return Some((if start == 0 { Kind::Uint } else { Kind::Int }, end));
    }
    end += 1 + fraction;
    if matches!(byte(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(byte(end + 1), Some(b'+' | b'-')));
        let exponent = if byte(end + 1 + sign).is_some() { digits(end + 1 + sign) } else { 0 };
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    Some((Kind::Float, end))
}
