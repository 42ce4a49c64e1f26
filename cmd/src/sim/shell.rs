//! The shell's machine and daemon, and the execution of commands on them.

use super::poold::{self, Poold};
use crate::command::{Command, dispatch};
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure};
use millpond_cli::Parsed;
use millpond_model::{Service, printable};
use millpond_session::{Load, Session, SimDaemon, Simulation};
use std::ffi::OsString;
use std::rc::Rc;

/// The state of a shell: its machine, and the result of its lines.
pub struct Shell {
    pub(super) session: Session,
    pub(super) keep_going: bool,
    pub(super) status: Exit,
    /// Whether the line ends in `&`.
    pub(super) in_background: bool,
    /// The daemon, while its service is enabled.
    poold: Option<Rc<Poold>>,
}

/// An error in a line.
pub struct Trouble {
    /// The index of the word, from 0.
    pub word: usize,
    /// The error message.
    pub what: String,
    /// The remedy.
    pub remedy: Option<String>,
    /// Whether the command line is invalid. Then the usage is the remedy.
    pub is_misuse: bool,
}

impl Trouble {
    /// An error without a remedy.
    pub fn new(word: usize, what: impl Into<String>) -> Trouble {
        Trouble { word, what: what.into(), remedy: None, is_misuse: false }
    }

    /// An invalid command line.
    pub fn misuse(word: usize, what: impl Into<String>) -> Trouble {
        Trouble { is_misuse: true, ..Trouble::new(word, what) }
    }

    /// The same error with a remedy.
    pub fn remedy(self, remedy: impl Into<String>) -> Trouble {
        Trouble { remedy: Some(remedy.into()), ..self }
    }
}

impl Shell {
    /// A shell on this machine.
    pub fn new(session: Session, keep_going: bool) -> Shell {
        Shell { session, keep_going, status: Exit::DONE, in_background: false, poold: None }
    }

    /// The prompt.
    pub fn prompt(&self) -> String {
        format!("{}> ", printable(self.session.machine().name()))
    }

    /// The file in which the machine is saved, if any.
    pub fn kept_path(&self) -> Option<String> {
        self.session.kept_path().map(|path| path.display().to_string())
    }

    /// The interface of simulated machines.
    pub(super) fn simulated(&self) -> Result<Simulation<'_>, Trouble> {
        self.session.simulation().ok_or_else(|| Trouble::new(0, "the machine is not simulated"))
    }

    /// Starts or stops the daemon with its service. A running daemon reads the configured interval again.
    pub(super) fn attend(&mut self) {
        let Some(simulation) = self.session.simulation() else { return };
        let is_wanted = simulation.is_enabled(Service::DynamicPools);
        if is_wanted && self.poold.is_none() {
            let poold = Rc::new(Poold::new(self.session.machine().clock().now()));
            simulation.set_daemon(Some(Rc::clone(&poold) as Rc<dyn SimDaemon>));
            self.poold = Some(poold);
        } else if !is_wanted {
            self.dismiss();
        } else if let Some(poold) = &self.poold {
            poold.heed(self.session.machine());
        }
    }

    /// Stops the daemon.
    pub(super) fn dismiss(&mut self) {
        if let (Some(poold), Some(simulation)) = (self.poold.take(), self.session.simulation()) {
            simulation.set_daemon(None);
            if let Some(line) = poold.end() {
                simulation.record(poold::NAME, &line);
            }
        }
    }

    /// Ends the shell and its daemon.
    pub fn leave(&mut self, ctx: &mut Ctx<'_>) {
        if self.poold.is_some() {
            self.dismiss();
            ctx.prog = "millpond sim".to_owned();
            if !ctx.keep_one(&self.session) {
                self.status = Exit::REFUSED;
            }
        }
    }

    /// Runs a command of the machine. `false` if it failed, which is reported.
    pub(super) fn command(&self, words: &[String], ctx: &mut Ctx<'_>) -> Result<bool, Trouble> {
        let name = words[0].rsplit('/').next().unwrap_or_default();
        let command =
            known(name, ctx).ok_or_else(|| Trouble::new(0, format!("there is no command `{name}`")))?;
        let spec = &command.spec;
        let mut rest: Vec<OsString> = words[1..].iter().map(OsString::from).collect();
        if let Ok(parsed) = millpond_cli::parse(spec, &rest) {
            let common = &parsed.common;
            if common.machine.is_some() || common.root.is_some() || common.state.is_some() {
                let word = words.iter().position(|w| {
                    ["--machine", "--root", "--state"].iter().any(|option| w.starts_with(option))
                });
                let what = format!("a shell has one machine, {}", self.session.machine().name());
                return Err(Trouble::new(word.unwrap_or(0), what).remedy("leave the option out"));
            }
            if !parsed.common.help && !parsed.common.version && !parsed.long("why") {
                let missing = missing_count(spec.name, &parsed);
                if !missing.is_empty() {
                    ctx.prog = spec.prog();
                    ctx.warn(format_args!(
                        "without a count {REPORTS} reports, since time passes at once here"
                    ));
                }
                // The count of cputrack is an option, so it precedes the operands.
                let at = if spec.name == "cputrack" { 0 } else { rest.len() };
                rest.splice(at..at, missing.into_iter().map(OsString::from));
            }
        }
        let mut within = ctx.within(&self.session);
        within.prog = spec.prog();
        let exit = dispatch(command, &rest, &mut within);
        // A write error is reported at the end of the shell.
        let _ = within.out.finish();
        within.err.flush();
        Ok(exit == Exit::DONE)
    }
}

/// A command of the machine that is available in the shell.
pub(super) fn known(name: &str, ctx: &Ctx<'_>) -> Option<&'static Command> {
    Command::named(name, ctx.commands()).filter(|command| command.spec.in_shell)
}

/// Refuses words after the name.
pub(super) fn none(name: &str, words: &[String]) -> Result<(), Trouble> {
    match words.first() {
        None => Ok(()),
        Some(word) => Err(Trouble::misuse(1, format!("{name} does not take `{word}`"))),
    }
}

/// Parses a workload in the words of `command`, after the first `skipped` words. Notes are printed.
pub(super) fn workload(
    command: &str,
    words: &[String],
    skipped: usize,
    ctx: &mut Ctx<'_>,
) -> Result<Load, Trouble> {
    let load = Load::parse(words).map_err(|e| Trouble::new(e.word + skipped, e.what).remedy(e.remedy))?;
    command.clone_into(&mut ctx.prog);
    load.notes.iter().for_each(|note| ctx.warn(note));
    Ok(load)
}

/// The default count of reports: in the shell, every command must end.
const REPORTS: &str = "5";

/// The words to add to a command that would otherwise report without end.
fn missing_count(name: &str, parsed: &Parsed) -> Vec<&'static str> {
    let operands = parsed.operands.len();
    let counted = parsed.operands.iter().rev().take_while(|word| is_number(word)).count();
    match name {
        "mpstat" | "pgstat" | "poolstat" | "prstat" if operands == 1 => vec![REPORTS],
        "cpustat" if operands == 1 && parsed.has('c') && !parsed.has('h') => vec![REPORTS],
        "intrstat" if operands < 2 => [&["1", REPORTS][operands..]].concat(),
        "cpustat" if operands == 0 && parsed.has('c') && !parsed.has('h') => vec!["1", REPORTS],
        "occupancy" => {
            // Without -z the first operand is a process, even if it is a number.
            match operands.checked_sub(usize::from(!parsed.has('z'))).map(|others| others.min(counted)) {
                Some(had @ 0..2) => [&["1", REPORTS][had..]].concat(),
                _ => Vec::new(),
            }
        }
        // A program that cputrack starts usually ends. An existing process may not.
        "cputrack" if parsed.has('p') && !parsed.has('N') && !parsed.has('h') => vec!["-N", REPORTS],
        _ => Vec::new(),
    }
}

fn is_number(word: &OsString) -> bool {
    word.to_string_lossy().parse::<f64>().is_ok()
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Trouble {
        match failure {
            Failure::Usage(what) | Failure::Operand(what) => Trouble::new(1, what),
            Failure::Mistyped(what, meant) => Trouble::new(1, what).remedy(format!("did you mean {meant}?")),
            Failure::Said(what, remedy) => Trouble { remedy, ..Trouble::new(0, what) },
            Failure::Misuse(what, remedy) | Failure::Mistake(what, remedy) => {
                Trouble::new(1, what).remedy(remedy)
            }
            Failure::Refused(complaint) => {
                Trouble { remedy: complaint.hint.clone(), ..Trouble::new(0, complaint.to_string()) }
            }
        }
    }
}
