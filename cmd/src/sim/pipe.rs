//! Lines with output redirection or pipes through programs of this machine, and lines that begin with such a program.
//!
//! A relative file name belongs to this machine. An absolute one belongs to the simulated machine, which has few files.

use super::own::{has, run_words};
use super::shell::{Shell, Trouble};
use super::words::{Line, Target, Word};
use crate::ctx::Ctx;
use millpond_session::{
    FILTERS, Filters, NULL_FILE, Output, SYSTEM_FILE, filter_named, names_matching, open_plain,
};
use std::io::Write;
use std::path::Path;

/// The files of a simulated machine that a line may write.
const INSIDE: [&str; 1] = [SYSTEM_FILE];

/// The remedy for an output file that cannot be written.
const ELSEWHERE: &str = "a relative name is a file of the machine at hand; COMMAND | tee FILE writes any";

/// Executes a line. `false` if its command failed, which is reported. Word numbers in [`Trouble`] count all words of
/// the line.
pub fn run(shell: &mut Shell, line: &Line, ctx: &mut Ctx<'_>) -> Result<bool, Trouble> {
    let first = line.words.first().map(|word| word.text.as_str()).unwrap_or_default();
    let is_program = !has(first, ctx) && filter_named(first).is_some();
    let texts = match is_program || first == "cat" {
        true => expanded(&line.words),
        false => line.words.iter().map(|w| w.text.clone()).collect(),
    };
    if !is_program && line.filters.is_empty() && line.target.is_none() {
        return run_words(shell, &texts, ctx);
    }
    check(shell, line, is_program)?;
    let own = is_program.then(|| texts.clone());
    let commands: Vec<Vec<String>> =
        own.into_iter().chain(line.filters.iter().map(|words| expanded(words))).collect();
    let program_at = |at: usize| first_word(line, at, is_program);
    let mut file = match &line.target {
        Some(target) if !is_inside(target) => Some(open(target, line)?),
        _ => None,
    };
    let mut failed = None;
    let (done, out) = if commands.is_empty() {
        let mut bytes = Vec::new();
        let done = within(shell, &texts, Output::to(&mut bytes), ctx);
        (done, String::from_utf8_lossy(&bytes).into_owned())
    } else {
        let (filters, input) = Filters::start(&commands).map_err(|not| {
            Trouble::new(program_at(not.at), format!("cannot start {}: {}", commands[not.at][0], not.why))
        })?;
        let done = match is_program {
            true => {
                drop(input);
                Ok(true)
            }
            false => within(shell, &texts, Output::to(input), ctx),
        };
        let filtered = filters.finish(&commands);
        ctx.err.text(&filtered.complaints);
        failed = filtered.failed;
        (done, filtered.out)
    };
    match (&line.target, &mut file) {
        (Some(target), Some(file)) => {
            let written = file.write_all(out.as_bytes()).and_then(|()| file.flush());
            written.map_err(|error| cannot_write(target, line, &error.to_string()))?;
        }
        (Some(target), None) if target.file.text != NULL_FILE => {
            let simulation = shell.simulated()?;
            let before = if target.appends { simulation.file(&target.file.text) } else { None };
            let text = before.unwrap_or_default() + &out;
            "millpond sim".clone_into(&mut ctx.prog);
            super::boot::tell_settings(&text, ctx);
            simulation.put_file(&target.file.text, &text);
        }
        (Some(_), None) => {}
        (None, _) => ctx.out.text(&out),
    }
    match failed.filter(|_| matches!(done, Ok(true))) {
        Some((at, how)) => Err(Trouble::new(program_at(at), format!("{} failed: {how}", commands[at][0]))),
        None => done,
    }
}

/// The arguments of a host program: a pattern is replaced by the matching file names, or stays if there are none.
fn expanded(words: &[Word]) -> Vec<String> {
    let one = |word: &Word| {
        let names = word.pattern().map(names_matching).unwrap_or_default();
        if names.is_empty() { vec![word.text.clone()] } else { names }
    };
    words.iter().flat_map(one).collect()
}

/// Whether the output goes to a file of the simulated machine.
fn is_inside(target: &Target) -> bool {
    target.file.text == NULL_FILE || INSIDE.contains(&target.file.text.as_str())
}

fn cannot_write(target: &Target, line: &Line, why: &str) -> Trouble {
    let at = line.all_words().count() - 1;
    Trouble::new(at, format!("cannot write {}: {why}", target.file.text.escape_debug()))
}

/// Opens the output file before the command starts.
fn open(target: &Target, line: &Line) -> Result<impl Write + use<>, Trouble> {
    open_plain(Path::new(&target.file.text), target.appends)
        .map_err(|why| cannot_write(target, line, &why).remedy("name another file"))
}

/// Refuses a line with an invalid filter or output file, before any part of it is executed.
fn check(shell: &Shell, line: &Line, is_program: bool) -> Result<(), Trouble> {
    for (filter, at) in line.filters.iter().zip(usize::from(is_program)..) {
        let name = &filter[0].text;
        if filter_named(name).is_none() {
            let what = format!("{name} cannot stand behind a | here");
            let remedy = format!("there are {}", FILTERS.join(", "));
            return Err(Trouble::new(first_word(line, at, is_program), what).remedy(remedy));
        }
    }
    // A host program would read the file of this name on the host.
    let own = line.words.iter().filter(|_| is_program);
    let own = own.zip(0..).chain(line.filters.iter().flatten().zip(line.words.len()..));
    for (word, at) in own {
        if shell.simulated()?.file(&word.text).is_some() {
            let what =
                format!("{} is a file of the simulated machine, which programs cannot read", word.text);
            return Err(Trouble::new(at, what).remedy(format!("cat {} | PROGRAM", word.text)));
        }
    }
    match &line.target {
        Some(target) if target.file.text.starts_with('/') && !is_inside(target) => {
            let why = format!("of the simulated machine's files only {SYSTEM_FILE} can be written");
            Err(cannot_write(target, line, &why).remedy(ELSEWHERE))
        }
        _ => Ok(()),
    }
}

/// The index of a program's first word among all words of a line.
fn first_word(line: &Line, program: usize, is_program: bool) -> usize {
    match program.checked_sub(usize::from(is_program)) {
        Some(filter) => line.words.len() + line.filters.iter().take(filter).map(Vec::len).sum::<usize>(),
        None => 0,
    }
}

/// Runs the command of the line with another output.
fn within(shell: &mut Shell, texts: &[String], out: Output<'_>, ctx: &mut Ctx<'_>) -> Result<bool, Trouble> {
    let (commands, services) = (ctx.commands(), ctx.services());
    let mut inner = Ctx::new(out, ctx.err.lend()).with_services(services);
    inner.use_commands(commands);
    let done = run_words(shell, texts, &mut inner);
    // A reader that has closed the pipe needs no more output.
    let _ = inner.out.finish();
    done
}
