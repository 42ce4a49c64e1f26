//! The context of a command: its output, and access to its machine.

use crate::command::Command;
use crate::failure::{Complaint, Failure};
use crate::json;
use crate::remedy;
use jiff::tz::TimeZone;
use millpond_cli::{Common, Spec, nearest};
use millpond_collect::{Notes, RecordedMachine};
use millpond_model::printable;
use millpond_session::{
    NO_DIRECTORY, NO_FILE, OpenError, OpenOptions, Output, SIMULATED, Session, messages_are_seen, read_zone,
};
use serde::Serialize;
use std::convert::Infallible;
use std::ops::Deref;
use std::rc::Rc;

/// The environment of a command: its output streams, and the default machine.
pub struct Ctx<'a> {
    /// Standard output: the results.
    pub out: Output<'a>,
    /// Standard error: everything else.
    pub err: Output<'a>,
    given: Option<&'a Session>,
    commands: &'static [Command],
    services: &'static [Spec],
    /// This command is a trial run of a remedy, and shows no remedies itself.
    tries: bool,
    /// Machines that this command opened. They are saved at its end.
    opened: Vec<Rc<Session>>,
    /// Messages about recordings, which are printed when the command has ended.
    notes: Vec<Notes>,
    pub(crate) prog: String,
    /// Whether progress messages are visible and useful: on a terminal, and not on a simulated machine, where waiting
    /// takes no time.
    pub(crate) shows_progress: bool,
    /// Whether reports without an end wait in real time. On a simulated machine waiting takes no time.
    pub(crate) is_simulated: bool,
}

/// An open machine: a given one, or one that this command opened.
pub enum Held<'a> {
    /// A machine that was already open.
    Given(&'a Session),
    /// A machine that this command opened.
    Opened(Rc<Session>),
}

impl Deref for Held<'_> {
    type Target = Session;

    fn deref(&self) -> &Session {
        match self {
            Held::Given(session) => session,
            Held::Opened(session) => session,
        }
    }
}

impl<'a> Ctx<'a> {
    /// An environment that opens the real machine unless another one is named.
    #[must_use]
    pub fn new(out: Output<'a>, err: Output<'a>) -> Self {
        Ctx {
            out,
            err,
            given: None,
            commands: &[],
            services: &[],
            tries: false,
            opened: Vec::new(),
            notes: Vec::new(),
            prog: "millpond".into(),
            shows_progress: false,
            is_simulated: false,
        }
    }

    /// The same with a machine that is already open. A shell and a test keep it for several commands.
    #[must_use]
    pub fn with_session(mut self, session: &'a Session) -> Self {
        self.given = Some(session);
        self
    }

    /// The same with services, whose manuals help shows too.
    #[must_use]
    pub fn with_services(mut self, services: &'static [Spec]) -> Self {
        self.services = services;
        self
    }

    /// For a trial run of a command.
    pub(crate) fn trying(mut self) -> Self {
        self.tries = true;
        self
    }

    /// Sets the table of commands.
    pub(crate) fn use_commands(&mut self, commands: &'static [Command]) {
        self.commands = commands;
    }

    /// The table of commands.
    pub(crate) fn commands(&self) -> &'static [Command] {
        self.commands
    }

    /// Descriptions of all commands and services.
    pub(crate) fn specs(&self) -> impl Iterator<Item = &'static Spec> + use<> {
        self.commands.iter().map(|command| &command.spec).chain(self.services)
    }

    /// Services whose manuals help shows.
    pub(crate) fn services(&self) -> &'static [Spec] {
        self.services
    }

    /// The environment for a command inside of this one, on an open machine. It writes to the same streams.
    pub fn within<'b>(&'b mut self, session: &'b Session) -> Ctx<'b> {
        let mut inner = Ctx::new(self.out.lend(), self.err.lend()).with_session(session);
        (inner.commands, inner.services) = (self.commands, self.services);
        inner
    }

    /// The time zone: that of the given machine, else that of the environment.
    pub(crate) fn zone(&self) -> TimeZone {
        self.given.map_or_else(read_zone, |session| session.zone().clone())
    }

    /// The given machine, which a shell or a test keeps.
    #[must_use]
    pub fn given(&self) -> Option<&'a Session> {
        self.given
    }

    /// Opens the machine for a command that only reads. Warns about an unfinished change.
    ///
    /// # Errors
    /// [`Failure`] if there is no such machine.
    pub fn reading(&mut self, common: &Common) -> Result<Held<'a>, Failure> {
        let session = self.held(common)?;
        match session.unfinished() {
            Ok(None) => {}
            Ok(Some(unfinished)) => {
                let what = unfinished.operation.what;
                self.warn(format_args!("a change was begun and not finished: {what}"));
                self.hint("millpond doctor --repair");
            }
            Err(error) => self.warn(format_args!("the journal cannot be read: {error}")),
        }
        Ok(session)
    }

    /// Opens the machine for a command that changes it. Warns if changes will be lost.
    ///
    /// # Errors
    /// [`Failure`] if there is no such machine.
    pub fn changing(&mut self, common: &Common) -> Result<Held<'a>, Failure> {
        if common.dry_run {
            return self.reading(common);
        }
        let session = self.held(common)?;
        self.announce(&session);
        Ok(session)
    }

    /// The same, after `understood` has parsed what depends on the machine.
    ///
    /// # Errors
    /// [`Failure`] if there is no such machine, or that of `understood`. Nothing was printed then.
    pub fn changing_once<T>(
        &mut self,
        common: &Common,
        understood: impl FnOnce(&Session) -> Result<T, Failure>,
    ) -> Result<(Held<'a>, T), Failure> {
        let session = if common.dry_run { self.reading(common) } else { self.held(common) }?;
        let value = understood(&session)?;
        if !common.dry_run {
            self.announce(&session);
        }
        Ok((session, value))
    }

    /// Warns if changes will be lost.
    fn announce(&mut self, session: &Session) {
        if !session.keeps_changes() {
            let name = session.machine().name().to_owned();
            self.warn(format_args!(
                "the change is not kept: machine {name} is simulated for this command only"
            ));
            self.hint("--state FILE keeps it");
        }
    }

    /// Opens the machine without a message.
    ///
    /// # Errors
    /// [`Failure`] if there is no such machine.
    pub fn held(&mut self, common: &Common) -> Result<Held<'a>, Failure> {
        if let (Some(given), None, None, None) = (self.given, &common.machine, &common.root, &common.state) {
            self.is_simulated = given.simulation().is_some();
            return Ok(Held::Given(given));
        }
        let name: Result<_, Infallible> = common.machine.as_deref().unwrap_or("real").parse();
        let Ok(machine) = name;
        let options = OpenOptions {
            machine,
            root: common.root.clone(),
            kept_in: common.state.clone(),
            ..OpenOptions::default()
        };
        let session = Session::open(&options).map(Rc::new).map_err(|error| not_opened(&error))?;
        self.is_simulated = session.simulation().is_some();
        self.shows_progress = messages_are_seen() && !self.is_simulated;
        self.opened.push(Rc::clone(&session));
        Ok(Held::Opened(session))
    }

    /// Makes a recording the machine of this command. Read errors are reported when the command has ended.
    pub(crate) fn hold(&mut self, machine: RecordedMachine, notes: Notes) -> Held<'a> {
        self.notes.push(notes);
        self.shows_progress = false;
        let session = Session::recorded_machine(Box::new(machine));
        // The machine of a shell or a test has its own zone.
        let session = match self.given {
            Some(given) => session.in_zone(given.zone().clone()),
            None => session,
        };
        Held::Opened(Rc::new(session))
    }

    /// Saves the machines of this command that are kept in files. `false` if one could not be saved, which is
    /// reported.
    pub(crate) fn keep(&mut self) -> bool {
        for notes in std::mem::take(&mut self.notes) {
            notes.take().iter().for_each(|note| self.warn(note));
        }
        let mut kept = true;
        for session in std::mem::take(&mut self.opened) {
            kept &= self.keep_one(&session);
        }
        kept
    }

    /// Saves a machine that is kept in a file. `false` if it could not be saved, which is reported.
    pub(crate) fn keep_one(&mut self, session: &Session) -> bool {
        let (Err(error), Some(path)) = (session.keep(), session.kept_path()) else { return true };
        self.warn(format_args!(
            "cannot keep machine {} in {}: {error}",
            session.machine().name(),
            path.display()
        ));
        self.hint("the file is as it was before this command");
        false
    }

    /// Prints a warning on one line, after `prog: `. Untrusted names in it are escaped.
    pub fn warn(&mut self, text: impl std::fmt::Display) {
        self.out.flush();
        self.err.line(format_args!("{}: {}", self.prog, printable(&text.to_string())));
    }

    /// Prints a remedy on a separate line. A command is printed only if this machine accepts it.
    pub fn hint(&mut self, hint: &str) {
        let session = self.opened.last().map(Rc::as_ref).or(self.given).filter(|_| !self.tries);
        let Some(hint) = session
            .map_or_else(|| Some(hint.to_owned()), |session| remedy::accepted(session, hint, self.commands))
        else {
            return;
        };
        self.out.flush();
        self.err.line(format_args!("hint: {}", printable(&hint)));
    }

    /// Reports something that was not done.
    pub fn complain(&mut self, complaint: &Complaint) {
        self.warn(complaint);
        if let Some(hint) = &complaint.hint {
            self.hint(hint);
        }
    }

    /// Prints a JSON document on one line.
    pub fn json(&mut self, value: &impl Serialize) {
        self.out.line(json::document(value));
    }
}

/// Why a machine was not opened.
pub(crate) fn not_opened(error: &OpenError) -> Failure {
    // The error is a whole sentence; its reason follows the first colon.
    let text = error.to_string();
    let text = text.strip_prefix("cannot ").unwrap_or(&text);
    let (what, reason) = text.split_once(": ").unwrap_or((text, "it is not there"));
    let complaint = Complaint::new(what, reason);
    Failure::Refused(match error {
        OpenError::Saved { why, .. } if why == NO_FILE => complaint.hint("--machine NAME makes a fresh one"),
        OpenError::Saved { why, .. } if why == NO_DIRECTORY => complaint.hint("mkdir makes it"),
        OpenError::Simulated { name, .. } => {
            let near = nearest(name, SIMULATED.iter().copied().chain(["like-host"]));
            complaint.hint(near.map_or_else(
                || "like-host is a machine like this one, and FILE.json one of your own".to_owned(),
                |near| format!("did you mean {near}?"),
            ))
        }
        OpenError::State { .. } => complaint.hint("name a directory of your own with MILLPOND_STATE"),
        OpenError::Saved { .. } => complaint.hint("the file is left as it is; name another one"),
        _ => complaint,
    })
}
