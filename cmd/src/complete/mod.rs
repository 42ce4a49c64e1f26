//! Answers a shell that completes a command line.
//!
//! The scripts of `millpond help --completions bash` (zsh, fish) call it; it is not meant to be typed. The last word is
//! the one at the cursor, and may be empty. Each line of the answer is a candidate, with its description behind a tab.
//! `:files` and `:directories` ask the shell for names of files. Numbers of CPUs and sets, names of pools, units and
//! containers come from the machine, also from a simulated one that the words name (`--machine t2000`).

mod live;

use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure};
use crate::json::Describe;
use millpond_cli::complete::{DIRECTORIES, FILES, Place, place};
use millpond_cli::{Flag, Group, Operands, Parsed, Spec, ValueKind};
use millpond_model::printable;

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
            "candidates without what stands before the last = of the word, as bash wants them",
        )],
        operands: Operands { shown: "word ...", kinds: &[ValueKind::Program] },
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

/// A word that may stand at the cursor, and what it means.
type Candidate = (String, String);

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let words = if parsed.long("bash") { joined(&parsed.words()) } else { parsed.words() };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let last = words.last().copied().unwrap_or_default();
    let mut found = candidates(&words, ctx);
    found.retain(|(word, _)| word.starts_with(last) || word.starts_with(':'));
    // bash takes `--option=value` for three words, and replaces the last one.
    let cut = if parsed.long("bash") { last.rfind('=').map_or(0, |at| at + 1) } else { 0 };
    for (word, what) in found {
        let word = if word.starts_with(':') { &word } else { &word[cut..] };
        let what = printable(&what);
        ctx.out.line(if what.is_empty() {
            printable(word)
        } else {
            format!("{}\t{what}", printable(word)).into()
        });
    }
    Ok(Exit::DONE)
}

/// The words of bash, which takes each `=` for a word of its own.
fn joined(words: &[String]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut open = false;
    for word in words {
        match out.last_mut() {
            Some(before) if (word == "=" && before.starts_with("--")) || open => before.push_str(word),
            _ => out.push(word.clone()),
        }
        open = word == "=" && out.last().is_some_and(|before| before.starts_with("--"));
    }
    out
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
    shown.map(|spec| (spec.name.to_owned(), spec.summary.to_owned())).collect()
}

/// Candidates behind the name of a command.
fn behind(spec: &Spec, words: &[&str], ctx: &mut Ctx<'_>) -> Vec<Candidate> {
    match place(spec, words) {
        Place::Nothing => Vec::new(),
        Place::Argument(_) => vec![(FILES.to_owned(), String::new())],
        Place::Options(options) => options.into_iter().map(|(name, help)| (name, help.to_owned())).collect(),
        Place::Value { prefix, kind } => {
            let directive = |word: &str| vec![(word.to_owned(), String::new())];
            let fixed =
                |words: &[&str]| words.iter().map(|word| ((*word).to_owned(), String::new())).collect();
            let mut found: Vec<Candidate> = match kind {
                ValueKind::File | ValueKind::Program => directive(FILES),
                ValueKind::Directory => directive(DIRECTORIES),
                ValueKind::Word(words) | ValueKind::Words(words) => fixed(words),
                ValueKind::Name => names(ctx),
                ValueKind::Text | ValueKind::Count(..) | ValueKind::Counts(..) | ValueKind::Time => {
                    Vec::new()
                }
                ValueKind::Machine => live::machines(),
                ValueKind::Load => live::loads(),
                kind => live::of_machine(kind, &common(spec, words), ctx),
            };
            for (word, _) in found.iter_mut().filter(|(word, _)| !word.starts_with(':')) {
                word.insert_str(0, &prefix);
            }
            found
        }
    }
}

/// The options about the machine among words of which the last one is not finished.
fn common(spec: &Spec, words: &[&str]) -> millpond_cli::Common {
    let finished = &words[..words.len().saturating_sub(1)];
    let tried = (0..=finished.len()).rev().find_map(|end| {
        let words: Vec<_> = finished[..end].iter().map(Into::into).collect();
        millpond_cli::parse(spec, &words).ok()
    });
    tried.map(|parsed| parsed.common).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_bash_are_joined_at_equal_signs() {
        let joined = |text: &str| joined(&text.split(' ').map(str::to_owned).collect::<Vec<_>>()).join(" ");
        assert_eq!(joined("psrset --machine = t2 -c"), "psrset --machine=t2 -c");
        assert_eq!(joined("psrset --machine = "), "psrset --machine=");
        assert_eq!(joined("psrset a = b"), "psrset a = b");
    }
}
