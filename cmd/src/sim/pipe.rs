//! Lines whose output goes on: through programs of the machine at hand, or into a file of the simulated one.

use super::own::run_words;
use super::shell::{Shell, Trouble};
use super::words::Line;
use crate::ctx::Ctx;
use millpond_session::{FILTERS, Filters, NULL_FILE, Output, SYSTEM_FILE, filter_named};

/// The files of a simulated machine that a line may write.
const INSIDE: [&str; 1] = [SYSTEM_FILE];

/// Does what a line says. `false`: its command failed, and has said so. Words of [`Trouble`] count through all words of the line.
pub fn run(shell: &mut Shell, line: &Line, ctx: &mut Ctx<'_>) -> Result<bool, Trouble> {
    let texts: Vec<String> = line.words.iter().map(|w| w.text.clone()).collect();
    if line.filters.is_empty() && line.target.is_none() {
        return run_words(shell, &texts, ctx);
    }
    check(line)?;
    let commands: Vec<Vec<String>> =
        line.filters.iter().map(|words| words.iter().map(|w| w.text.clone()).collect()).collect();
    let mut failed = None;
    let (done, out) = if commands.is_empty() {
        let mut bytes = Vec::new();
        let done = within(shell, &texts, Output::to(&mut bytes), ctx);
        (done, String::from_utf8_lossy(&bytes).into_owned())
    } else {
        let (filters, input) = Filters::start(&commands).map_err(|not| {
            Trouble::new(
                first_word(line, not.at),
                format!("cannot start {}: {}", commands[not.at][0], not.why),
            )
        })?;
        let done = within(shell, &texts, Output::to(input), ctx);
        let filtered = filters.finish(&commands);
        ctx.err.text(&filtered.complaints);
        failed = filtered.failed;
        (done, filtered.out)
    };
    match &line.target {
        None => ctx.out.text(&out),
        Some(target) if target.file.text == NULL_FILE => {}
        Some(target) => {
            let simulation = shell.simulated()?;
            let before = if target.appends { simulation.file(&target.file.text) } else { None };
            let text = before.unwrap_or_default() + &out;
            "millpond sim".clone_into(&mut ctx.prog);
            super::boot::tell_settings(&text, ctx);
            simulation.put_file(&target.file.text, &text);
        }
    }
    match failed.filter(|_| matches!(done, Ok(true))) {
        Some((at, how)) => {
            Err(Trouble::new(first_word(line, at), format!("{} failed: {how}", commands[at][0])))
        }
        None => done,
    }
}

/// Nothing is done of a line that cannot go on as it says.
fn check(line: &Line) -> Result<(), Trouble> {
    for (filter, at) in line.filters.iter().zip(0..) {
        let name = &filter[0].text;
        if filter_named(name).is_none() {
            let what = format!("{name} cannot stand behind a | here");
            return Err(
                Trouble::new(first_word(line, at), what).remedy(format!("there are {}", FILTERS.join(", ")))
            );
        }
    }
    match &line.target {
        Some(target) if !INSIDE.contains(&target.file.text.as_str()) && target.file.text != NULL_FILE => {
            let what = format!(
                "cannot write {}: of the simulated machine's files only {SYSTEM_FILE} can be written",
                target.file.text
            );
            let at = line.all_words().count() - 1;
            Err(Trouble::new(at, what).remedy("COMMAND | tee FILE writes a file of the machine at hand"))
        }
        _ => Ok(()),
    }
}

/// The place of a filter's first word among all words of a line.
fn first_word(line: &Line, filter: usize) -> usize {
    line.words.len() + line.filters.iter().take(filter).map(Vec::len).sum::<usize>()
}

/// The command of the line, writing elsewhere.
fn within(shell: &mut Shell, texts: &[String], out: Output<'_>, ctx: &mut Ctx<'_>) -> Result<bool, Trouble> {
    let (commands, services) = (ctx.commands(), ctx.services());
    let mut inner = Ctx::new(out, ctx.err.lend()).with_services(services);
    inner.use_commands(commands);
    let done = run_words(shell, texts, &mut inner);
    // A reader that went away has read enough.
    let _ = inner.out.finish();
    done
}
