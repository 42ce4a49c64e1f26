//! Lines from standard input: typed at a terminal with editing, history and completion, or read unchanged.

use crate::output::reason;
use crate::stop::asked_to_stop;
use rustyline::completion::Completer;
use rustyline::config::{CompletionType, Config};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{Context, Editor, Helper};
use std::io::{self, BufRead, ErrorKind, IsTerminal};
use std::path::Path;

/// Maximum number of completions to offer.
const NAMES_MAX: usize = 1000;

/// The user's input at the terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Typed {
    /// A line.
    Line(String),
    /// The user cancelled the line.
    Dropped,
    /// The user ended the input.
    End,
}

/// Reads lines from a terminal.
pub struct LineEditor {
    editor: Editor<Words, MemHistory>,
}

type Complete = dyn Fn(&str, usize) -> (usize, Vec<String>);

/// Completes words.
struct Words(Box<Complete>);

impl Completer for Words {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok((self.0)(line, at))
    }
}

impl Hinter for Words {
    type Hint = String;
}

impl Highlighter for Words {}
impl Validator for Words {}
impl Helper for Words {}

impl LineEditor {
    /// An editor with an empty history.
    ///
    /// # Errors
    /// The reason why the terminal cannot be used, in words.
    pub fn new() -> Result<LineEditor, String> {
        let config = Config::builder().completion_type(CompletionType::List).auto_add_history(true).build();
        let editor = Editor::with_history(config, MemHistory::new()).map_err(|error| in_words(&error))?;
        Ok(LineEditor { editor })
    }

    /// Reads a line. `complete` returns the start of the word that ends at a position, both in bytes, and its possible
    /// completions.
    ///
    /// # Errors
    /// The reason why the terminal cannot be read, in words.
    pub fn read(
        &mut self,
        prompt: &str,
        complete: impl Fn(&str, usize) -> (usize, Vec<String>) + 'static,
    ) -> Result<Typed, String> {
        self.editor.set_helper(Some(Words(Box::new(complete))));
        match self.editor.readline(prompt) {
            Ok(line) => Ok(Typed::Line(line)),
            Err(ReadlineError::Interrupted) if asked_to_stop() => Ok(Typed::End),
            Err(ReadlineError::Interrupted) => Ok(Typed::Dropped),
            Err(ReadlineError::Eof) => Ok(Typed::End),
            Err(error) => Err(in_words(&error)),
        }
    }
}

fn in_words(error: &ReadlineError) -> String {
    match error {
        ReadlineError::Io(error) => reason(error),
        other => other.to_string(),
    }
}

/// Whether standard output is a terminal.
#[must_use]
pub fn output_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether standard input and standard output are a terminal.
#[must_use]
pub fn input_is_terminal() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Whether standard error is a terminal, so that progress reports are useful.
#[must_use]
pub fn messages_are_seen() -> bool {
    io::stderr().is_terminal()
}

/// The lines of standard input as they come, until it ends or this program is asked to stop.
pub fn input_lines() -> impl Iterator<Item = Result<String, String>> {
    lines_of(io::stdin().lock())
}

/// Maximum length of a line.
const LINE_MAX: usize = 1 << 20;

fn lines_of(mut input: impl BufRead) -> impl Iterator<Item = Result<String, String>> {
    std::iter::from_fn(move || {
        let mut line = Vec::new();
        loop {
            let (taken, complete) = match input.fill_buf() {
                Ok([]) if line.is_empty() => return None,
                Ok([]) => (0, true),
                Ok(bytes) => {
                    let end = bytes.iter().position(|byte| *byte == b'\n');
                    line.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
                    (end.map_or(bytes.len(), |end| end + 1), end.is_some())
                }
                Err(error) if error.kind() == ErrorKind::Interrupted && !asked_to_stop() => continue,
                Err(error) => return Some(Err(reason(&error))),
            };
            input.consume(taken);
            if line.len() > LINE_MAX {
                return Some(Err(format!("it is longer than {LINE_MAX} bytes")));
            }
            if complete {
                return Some(Ok(String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned()));
            }
        }
    })
}

/// The files whose paths begin with `prefix`, for completion; directories end with `/`.
#[must_use]
pub fn file_names(prefix: &str) -> Vec<String> {
    let (dir, begun) =
        prefix.rsplit_once('/').map_or(("", prefix), |(_, name)| prefix.split_at(prefix.len() - name.len()));
    let place = if dir.is_empty() { Path::new(".") } else { Path::new(dir) };
    let Ok(entries) = std::fs::read_dir(place) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let hidden = name.starts_with('.') && !begun.starts_with('.');
        let mark = if entry.path().is_dir() { "/" } else { "" };
        (name.starts_with(begun) && !hidden).then(|| format!("{dir}{name}{mark}"))
    });
    let mut names: Vec<String> = names.take(NAMES_MAX).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_one_by_one_and_the_last_needs_no_end() {
        let lines: Vec<_> = lines_of(&b"run 1s\r\n\nps"[..]).collect();
        assert_eq!(lines, [Ok("run 1s".into()), Ok(String::new()), Ok("ps".into())]);
        let long = vec![b'x'; LINE_MAX + 1];
        assert!(lines_of(&long[..]).next().is_some_and(|line| line.is_err()));
    }

    #[test]
    fn files_are_completed_in_order() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b1", "a", "b2", ".b"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        std::fs::create_dir(dir.path().join("b3")).unwrap();
        let dir = dir.path().display();
        let expected: Vec<String> = ["b1", "b2", "b3/"].map(|name| format!("{dir}/{name}")).into();
        assert_eq!(file_names(&format!("{dir}/b")), expected);
        assert_eq!(file_names(&format!("{dir}/nowhere/x")), [""; 0]);
    }
}
