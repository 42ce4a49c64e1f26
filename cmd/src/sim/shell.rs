//! Lines become commands: the machine's own, which are those of everywhere, and the shell's.

use super::complete::Known;
use super::own::{self, Own};
use super::pipe;
use super::place::Place;
use super::poold::{self, Poold};
use super::words::Line;
use crate::command::{Command, dispatch};
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure};
use millpond_cli::nearest;
use millpond_session::{Resident, Service, Session, Simulation, Workload, take_stop};
use std::ffi::OsString;
use std::rc::Rc;

/// Whether the shell goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goes {
    /// It reads the next line.
    On,
    /// It ends.
    Out,
}

/// A machine and how its lines went so far.
pub struct Shell {
    pub(super) session: Session,
    keep_going: bool,
    status: Exit,
    /// Lives on the machine while its service is enabled.
    poold: Option<Rc<Poold>>,
}

/// What is wrong with a line.
pub struct Trouble {
    /// The word that it is about, from 0.
    pub word: usize,
    /// What is wrong, in words.
    pub what: String,
    /// What would help.
    pub remedy: Option<String>,
}

impl Trouble {
    /// Without a remedy.
    pub fn new(word: usize, what: impl Into<String>) -> Trouble {
        Trouble { word, what: what.into(), remedy: None }
    }

    /// With a remedy.
    pub fn remedy(self, remedy: impl Into<String>) -> Trouble {
        Trouble { remedy: Some(remedy.into()), ..self }
    }
}

impl Shell {
    /// On that machine.
    pub fn new(session: Session, keep_going: bool) -> Shell {
        Shell { session, keep_going, status: Exit::DONE, poold: None }
    }

    /// What stands before a line.
    pub fn prompt(&self) -> String {
        format!("{}> ", self.session.machine().name())
    }

    /// The status of all lines so far: 1 when one failed.
    pub fn status(&self) -> Exit {
        self.status
    }

    /// The file that keeps the machine, if one does.
    pub fn kept_path(&self) -> Option<String> {
        self.session.kept_path().map(|path| path.display().to_string())
    }

    /// What there is to complete with.
    pub fn known(&self) -> Known {
        let names = self.simulation().map(|s| s.processes()).unwrap_or_default();
        Known::with_processes(names.iter().filter(|p| p.executes).map(|p| (p.pid, p.name.as_str())))
    }

    pub(super) fn simulation(&self) -> Option<Simulation<'_>> {
        self.session.simulation()
    }

    /// Starts the daemon whose service is enabled, and stops it with that.
    pub(super) fn attend(&mut self) {
        let Some(simulation) = self.session.simulation() else { return };
        let is_wanted = simulation.is_enabled(Service::DynamicPools);
        if is_wanted && self.poold.is_none() {
            let poold = Rc::new(Poold::new(self.session.machine().clock().now()));
            simulation.house(Some(Rc::clone(&poold) as Rc<dyn Resident>));
            self.poold = Some(poold);
        } else if !is_wanted {
            self.dismiss();
        }
    }

    /// Stops the daemon on this machine.
    pub(super) fn dismiss(&mut self) {
        if let (Some(poold), Some(simulation)) = (self.poold.take(), self.session.simulation()) {
            simulation.house(None);
            if let Some(line) = poold.end() {
                self.session.record_inside(poold::NAME, &line);
            }
        }
    }

    /// The shell ends, and its daemon with it.
    pub fn leave(&mut self, ctx: &mut Ctx<'_>) {
        if self.poold.is_some() {
            self.dismiss();
            ctx.prog = "millpond sim".to_owned();
            if !ctx.keep_one(&self.session) {
                self.status = Exit::REFUSED;
            }
        }
    }

    /// Does what a line says. A failure is told; it ends a script.
    pub fn line(&mut self, line: &str, place: &Place, ctx: &mut Ctx<'_>) -> Goes {
        let text = line;
        let line = match Line::parse(text) {
            Ok(line) => line,
            Err(wrong) => {
                place.tell(wrong.column, &wrong.what, Some(wrong.remedy), ctx);
                return self.failed(place);
            }
        };
        let Some(first) = line.words.first() else { return Goes::On };
        if first.text == "quit" || first.text == "exit" {
            return Goes::Out;
        }
        self.attend();
        let done = pipe::run(self, &line, ctx);
        self.attend();
        let kept = {
            ctx.prog = "millpond sim".to_owned();
            ctx.keep_one(&self.session)
        };
        // An interrupt ends what runs, and a script with it.
        if take_stop() && place.is_script() {
            place.tell(first.column, "interrupted", None, ctx);
            self.status = Exit::REFUSED;
            return Goes::Out;
        }
        match done {
            Ok(true) if kept => Goes::On,
            Ok(true) => self.failed(place),
            Ok(false) => {
                if place.is_script() {
                    let remedy =
                        if self.keep_going { None } else { Some("--keep-going does not end a script here") };
                    place.tell(first.column, &format!("{} failed", first.text), remedy, ctx);
                }
                self.failed(place)
            }
            Err(trouble) => {
                let end = || text.trim_end().chars().count() + 2;
                let column = line.all_words().nth(trouble.word).map_or_else(end, |word| word.column);
                place.tell(column, &trouble.what, trouble.remedy.as_deref(), ctx);
                self.failed(place)
            }
        }
    }

    fn failed(&mut self, place: &Place) -> Goes {
        self.status = Exit::REFUSED;
        if place.is_script() && !self.keep_going { Goes::Out } else { Goes::On }
    }

    /// A command with its words: the shell's own, or one of the machine's. `false`: it failed, and has said so.
    pub(super) fn one(&mut self, words: &[String], ctx: &mut Ctx<'_>) -> Result<bool, Trouble> {
        let name = words.first().map(String::as_str).unwrap_or_default();
        match Own::named(name) {
            Some(own) => (own.run)(self, &words[1..], ctx).map(|()| true),
            None => self.command(words, ctx),
        }
    }

    /// One of the machine's commands. `false`: it failed, and has said so.
    pub(super) fn command(&self, words: &[String], ctx: &mut Ctx<'_>) -> Result<bool, Trouble> {
        let name = words[0].rsplit('/').next().unwrap_or_default();
        let command = Command::named(name, ctx.commands()).filter(|command| command.spec.in_shell);
        let command = command.ok_or_else(|| unknown(&words[0], ctx))?;
        let spec = &command.spec;
        let rest: Vec<OsString> = words[1..].iter().map(OsString::from).collect();
        if let Ok(parsed) = millpond_cli::parse(spec, &rest) {
            let common = &parsed.common;
            if common.machine.is_some() || common.root.is_some() || common.state.is_some() {
                let word = words.iter().position(|w| {
                    ["--machine", "--root", "--state"].iter().any(|option| w.starts_with(option))
                });
                let what = format!("a shell has one machine, {}", self.session.machine().name());
                return Err(Trouble::new(word.unwrap_or(0), what).remedy("leave the option out"));
            }
            let repeats = matches!(
                spec.name,
                "mpstat" | "pgstat" | "cpustat" | "poolstat" | "prstat" | "occupancy" | "intrstat"
            );
            let counted = parsed.operands.iter().rev().take_while(|w| is_number(w)).count();
            let endless = match spec.name {
                "mpstat" | "pgstat" | "poolstat" | "prstat" => parsed.operands.len() == 1,
                "intrstat" => parsed.operands.len() < 2,
                "occupancy" if parsed.has('z') => parsed.operands.len() < 2,
                "cpustat" => parsed.operands.len() < 2 && !parsed.has('h') && parsed.has('c'),
                _ => counted < 2 || parsed.operands.len() < 3,
            };
            if repeats && endless && !parsed.long("why") && !common.help && !common.version {
                let what = format!("without a count {name} never ends here, where time passes at once");
                let remedy = match spec.name {
                    "occupancy" => "occupancy NAME 1 5".into(),
                    "cpustat" => "cpustat -c SPEC 1 5".into(),
                    name => format!("{name} 1 5"),
                };
                return Err(Trouble::new(words.len(), what).remedy(remedy));
            }
        }
        let mut within = ctx.within(&self.session);
        within.prog = spec.prog();
        let exit = dispatch(command, &rest, &mut within);
        // What cannot be written any more is told at the end of the shell.
        let _ = within.out.finish();
        within.err.flush();
        Ok(exit == Exit::DONE)
    }
}

fn is_number(word: &OsString) -> bool {
    word.to_string_lossy().parse::<f64>().is_ok()
}

/// The commands of a machine that the shell has.
pub(super) fn commands(ctx: &Ctx<'_>) -> impl Iterator<Item = &'static str> + use<> {
    ctx.commands().iter().filter(|command| command.spec.in_shell).map(|command| command.spec.name)
}

/// A word that is no command, with the nearest one.
fn unknown(word: &str, ctx: &Ctx<'_>) -> Trouble {
    let trouble = Trouble::new(0, format!("there is no command `{word}`"));
    if Workload::named(word).is_some() {
        return trouble.remedy(format!("{word} is a workload: load {word}"));
    }
    match nearest(word, commands(ctx).chain(own::names())) {
        Some(name) => trouble.remedy(format!("{name} is one; help lists them all")),
        None => trouble.remedy("help lists them"),
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Trouble {
        match failure {
            Failure::Usage(what) | Failure::Operand(what) => Trouble::new(1, what),
            Failure::Mistyped(what, meant) => Trouble::new(1, what).remedy(format!("did you mean {meant}?")),
            Failure::Said(what, remedy) => Trouble { word: 0, what, remedy },
            Failure::Misuse(what, remedy) | Failure::Mistake(what, remedy) => {
                Trouble { word: 1, what, remedy: Some(remedy) }
            }
            Failure::Refused(complaint) => {
                Trouble { word: 0, what: complaint.to_string(), remedy: complaint.hint }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_session::Output;

    #[test]
    fn a_wrong_word_is_told_with_the_nearest_command() {
        let mut ctx = Ctx::new(Output::to(std::io::sink()), Output::to(std::io::sink()));
        ctx.use_commands(crate::COMMANDS);
        let remedy = |word| unknown(word, &ctx).remedy;
        assert_eq!(remedy("psrst").as_deref(), Some("psrset is one; help lists them all"));
        assert_eq!(remedy("spin").as_deref(), Some("spin is a workload: load spin"));
        assert_eq!(remedy("frobnicate").as_deref(), Some("help lists them"));
    }
}
