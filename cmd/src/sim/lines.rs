//! Parses lines to commands, runs them, and reports the results.

use super::pipe;
use super::place::Place;
use super::programs::tell_ended;
use super::shell::Shell;
use super::words::Line;
use crate::ctx::Ctx;
use crate::failure::Exit;
use millpond_session::take_stop;

/// Whether the shell continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// The shell reads the next line.
    Continue,
    /// The shell ends.
    Quit,
}

/// Executes a line. A failure is reported; it ends a script.
pub fn line(shell: &mut Shell, text: &str, place: &Place, ctx: &mut Ctx<'_>) -> Flow {
    let line = match Line::parse(text) {
        Ok(line) => line,
        Err(wrong) => {
            place.tell(wrong.column, &wrong.what, Some(wrong.remedy), ctx);
            return failed(shell, place);
        }
    };
    let Some(first) = line.words.first() else { return Flow::Continue };
    if first.text == "quit" || first.text == "exit" {
        return Flow::Quit;
    }
    shell.attend();
    shell.in_background = line.in_background;
    let done = pipe::run(shell, &line, ctx);
    if let Some(simulation) = shell.session.simulation() {
        tell_ended(simulation, ctx);
    }
    shell.attend();
    ctx.prog = "millpond sim".to_owned();
    let kept = ctx.keep_one(&shell.session);
    // An interrupt ends the running command, and the script of it.
    if take_stop() && place.is_script() {
        place.tell(first.column, "interrupted", None, ctx);
        shell.status = Exit::REFUSED;
        return Flow::Quit;
    }
    match done {
        Ok(true) if kept => return Flow::Continue,
        Ok(false) if place.is_script() => {
            let remedy = (!shell.keep_going).then_some("with --keep-going a script goes on");
            place.tell(first.column, &format!("{} failed", first.text), remedy, ctx);
        }
        Ok(_) => {}
        Err(trouble) => {
            let end = || text.trim_end().chars().count() + 2;
            let column = line.all_words().nth(trouble.word).map_or_else(end, |word| word.column);
            place.tell(column, &trouble.what, trouble.remedy.as_deref(), ctx);
        }
    }
    failed(shell, place)
}

fn failed(shell: &mut Shell, place: &Place) -> Flow {
    shell.status = Exit::REFUSED;
    if place.is_script() && !shell.keep_going { Flow::Quit } else { Flow::Continue }
}
