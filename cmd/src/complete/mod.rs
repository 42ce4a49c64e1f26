//! Answers a shell that completes a command line.
//!
//! The scripts of `millpond help --completions bash` (zsh, fish) call it; it is not meant to be typed. The last word is
//! the one at the cursor, and may be empty. Each output line is a candidate, with its description after a tab.
//! `:files` and `:directories` request file names from the shell. Numbers of CPUs and sets, and names of pools, units
//! and containers, come from the machine: this one, or a simulated one that the words name (`--machine t2000`).
//!
//! With `--bash` the words are those of `COMP_WORDS`, quotes included, and candidates are quoted. zsh and fish quote what
//! they insert. Candidates have printable characters only.

mod bash;
mod live;

use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure};
use crate::json::Describe;
use bash::Typed;
use millpond_cli::complete::{DIRECTORIES, FILES, Place, place};
use millpond_cli::{Flag, Group, Operands, Parsed, Spec, ValueKind};
use millpond_model::printable;
use std::borrow::Cow;

/// It prints no JSON.
pub(crate) const DOCUMENTS: &[Describe] = &[];

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "complete",
        summary: "answer a shell that completes a command line",
        group: Group::Other,
        forms: &["[--bash] -- word ..."],
        flags: &[Flag::long(
            "bash",
            "words as bash breaks and quotes them, and candidates as bash inserts them",
        )],
        operands: Operands { shown: "word ...", kinds: &[ValueKind::Program] },
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

/// A completion of the word at the cursor.
enum Candidate {
    /// The shell completes it: [`FILES`] or [`DIRECTORIES`].
    Ask(&'static str),
    /// A word, and its description.
    Word(String, String),
}

impl Candidate {
    fn word(word: impl Into<String>, what: impl Into<String>) -> Candidate {
        Candidate::Word(word.into(), what.into())
    }
}

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let typed = parsed.long("bash").then(|| Typed::read(&parsed.words()));
    let words = typed.as_ref().map_or_else(|| parsed.words(), |typed| typed.words.clone());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let last = words.last().copied().unwrap_or_default();
    for candidate in candidates(&words, ctx) {
        let (word, what) = match candidate {
            Candidate::Ask(directive) => (directive.to_owned(), String::new()),
            Candidate::Word(word, what) if word.starts_with(last) && is_name(&word) => {
                match typed.as_ref().map_or(Some(word.clone()), |typed| typed.inserted(&word)) {
                    Some(word) => (word, what),
                    None => continue,
                }
            }
            Candidate::Word(..) => continue,
        };
        let what = printable(&what);
        ctx.out.line(if what.is_empty() { word } else { format!("{word}\t{what}") });
    }
    Ok(Exit::DONE)
}

/// Whether a word can be a line of the answer: it is not a directive, and has no characters that output escapes.
fn is_name(word: &str) -> bool {
    ![FILES, DIRECTORIES].contains(&word) && matches!(printable(word), Cow::Borrowed(_))
}

fn candidates(words: &[&str], ctx: &mut Ctx<'_>) -> Vec<Candidate> {
    let [called, rest @ ..] = words else { return Vec::new() };
    if let Some(applet) = ctx.specs().find(|spec| spec.applet && spec.name == *called) {
        return behind(applet, rest, ctx);
    }
    match rest {
        [] => Vec::new(),
        [_] => names(ctx),
        [name, rest @ ..] => match ctx.specs().find(|spec| spec.name == *name) {
            Some(spec) => behind(spec, rest, ctx),
            None => Vec::new(),
        },
    }
}

fn names(ctx: &Ctx<'_>) -> Vec<Candidate> {
    let shown = ctx.specs().filter(|spec| spec.name != COMMAND.spec.name);
    shown.map(|spec| Candidate::word(spec.name, spec.summary)).collect()
}

/// Candidates after the name of a command.
fn behind(spec: &Spec, words: &[&str], ctx: &mut Ctx<'_>) -> Vec<Candidate> {
    match place(spec, words) {
        Place::Nothing => Vec::new(),
        Place::Argument(_) => vec![Candidate::Ask(FILES)],
        Place::Options(options) => {
            options.into_iter().map(|(name, help)| Candidate::word(name, help)).collect()
        }
        Place::Value { prefix, kind } => {
            let fixed = |words: &[&str]| words.iter().map(|word| Candidate::word(*word, "")).collect();
            let mut found: Vec<Candidate> = match kind {
                ValueKind::File | ValueKind::Program => vec![Candidate::Ask(FILES)],
                ValueKind::Directory => vec![Candidate::Ask(DIRECTORIES)],
                ValueKind::Word(words) | ValueKind::Words(words) => fixed(words),
                ValueKind::Name => names(ctx),
                ValueKind::Text | ValueKind::Count(..) | ValueKind::Counts(..) | ValueKind::Time => {
                    Vec::new()
                }
                ValueKind::Machine => live::machines(),
                ValueKind::Load => live::loads(),
                kind => live::of_machine(kind, &common(spec, words), ctx),
            };
            for candidate in &mut found {
                if let Candidate::Word(word, _) = candidate {
                    word.insert_str(0, &prefix);
                }
            }
            found
        }
    }
}

/// The machine options among the words, of which the last one is incomplete.
fn common(spec: &Spec, words: &[&str]) -> millpond_cli::Common {
    let finished = &words[..words.len().saturating_sub(1)];
    let tried = (0..=finished.len()).rev().find_map(|end| {
        let words: Vec<_> = finished[..end].iter().map(Into::into).collect();
        millpond_cli::parse(spec, &words).ok()
    });
    tried.map(|parsed| parsed.common).unwrap_or_default()
}
