//! The command of `-e`: on this machine the process executes the command, on a simulated machine a workload of that
//! name is started as a process.

use crate::change::Changer;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure};
use millpond_model::{Pid, WorkloadError};
use millpond_session::{Kind, Load, Moment, Session, exec, own_pid};
use schemars::JsonSchema;
use serde::Serialize;
use std::ffi::OsString;

/// A workload started on a simulated machine.
#[derive(Serialize, JsonSchema)]
pub struct Started {
    started: String,
    pid: Pid,
}

/// A parsed command to start.
pub struct Start {
    words: Vec<OsString>,
    load: Option<Load>,
    /// Additional environment variables of the command.
    environment: Vec<(&'static str, OsString)>,
}

/// A process that will become the command, and that can be bound already.
pub struct Begun<'s> {
    /// The process.
    pub pid: Pid,
    session: &'s Session,
    before: Option<Moment>,
}

/// Starts workloads on a simulated machine. Each is a line as in the shell of the simulator.
///
/// # Errors
/// If the machine is not simulated, or a workload is invalid.
pub(crate) fn start_loads(loads: &[String], session: &Session) -> Result<(), Failure> {
    for text in loads {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let Some(simulation) = session.simulation() else {
            let complaint = Complaint::new("start a workload", "this machine is not simulated");
            return Err(complaint
                .hint("millpond load NAME runs one here; --machine t2000 simulates a machine")
                .into());
        };
        let load = Load::parse(&words).map_err(|why| no_workload(text, why))?;
        let _ = simulation.start(&load);
    }
    Ok(())
}

/// The error about an invalid workload.
pub fn no_workload(name: &str, error: WorkloadError) -> Complaint {
    Complaint::new(format!("start {name}"), error.what).hint(error.remedy)
}

impl Start {
    /// Parses a command and its arguments.
    ///
    /// # Errors
    /// [`Failure`] if nothing can be started on the machine, or the words are not a workload.
    pub fn of(session: &Session, words: &[OsString]) -> Result<Start, Failure> {
        let name = words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
        let load = match session.simulation() {
            Some(_) => {
                let texts: Vec<String> = words.iter().map(|w| w.to_string_lossy().into_owned()).collect();
                Some(Load::parse(&texts).map_err(|error| no_workload(&name, error))?)
            }
            None if session.kind() == Kind::Real => None,
            None => {
                let machine = session.machine().name();
                let reason =
                    format!("nothing can be started on machine {machine}, which is not the one at hand");
                return Err(Complaint::new(format!("execute {name}"), reason).into());
            }
        };
        Ok(Start { words: words.to_vec(), load, environment: Vec::new() })
    }

    /// The same with additional environment variables of the command.
    #[must_use]
    pub fn with_environment(self, environment: Vec<(&'static str, OsString)>) -> Start {
        Start { environment, ..self }
    }

    /// The command and its arguments.
    pub fn words(&self) -> &[OsString] {
        &self.words
    }

    /// The additional environment variables of the command.
    pub fn environment(&self) -> &[(&'static str, OsString)] {
        &self.environment
    }

    /// The name of the command.
    pub fn name(&self) -> String {
        self.words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// The process that will become the command.
    pub fn begin<'s>(&self, session: &'s Session) -> Begun<'s> {
        match (&self.load, session.simulation()) {
            (Some(load), Some(simulation)) => {
                let before = Some(simulation.moment());
                Begun { pid: simulation.prepare(&load.name), session, before }
            }
            _ => Begun { pid: own_pid(), session, before: None },
        }
    }

    /// Executes the command, or starts the workload, if the process is bound (`ready`). On a real machine this
    /// returns only if nothing was started: the binding was refused, it is a dry run, or the command cannot be
    /// executed.
    ///
    /// # Errors
    /// [`Failure`] if the command cannot be executed.
    pub fn end(
        &self,
        begun: Begun<'_>,
        ready: bool,
        changer: Changer<'_>,
        ctx: &mut Ctx<'_>,
    ) -> Result<Exit, Failure> {
        if let Some(exit) = self.report(begun, ready, changer, ctx) {
            return Ok(exit);
        }
        let (program, arguments) = self.words.split_at(1.min(self.words.len()));
        let Some(program) = program.first() else { return Ok(Exit::DONE) };
        let Err(reason) = exec(program, arguments, &self.environment);
        Err(Complaint::new(format!("execute {}", self.name()), reason).into())
    }

    /// The same without the last step, the execution of the command in this process. Returns the exit status if that
    /// must not happen.
    pub fn report(
        &self,
        begun: Begun<'_>,
        ready: bool,
        mut changer: Changer<'_>,
        ctx: &mut Ctx<'_>,
    ) -> Option<Exit> {
        match (begun.before, begun.session.simulation()) {
            (Some(before), Some(simulation)) if !ready => simulation.go_back(before),
            (Some(_), Some(simulation)) => {
                self.load.iter().for_each(|load| simulation.execute(begun.pid, load));
                let name = self.load.as_ref().map_or("", |load| &load.name);
                for note in self.load.iter().flat_map(|load| &load.notes) {
                    changer.note(ctx, note.clone(), None);
                }
                let done = Started { started: name.to_owned(), pid: begun.pid };
                changer.report(ctx, Some(started(name, begun.pid)), done);
            }
            _ => {}
        }
        let exit = changer.finish(ctx);
        if !ready || self.load.is_some() {
            return Some(exit);
        }
        ctx.out.flush();
        None
    }
}

/// The message about a started workload.
pub fn started(name: &str, pid: Pid) -> String {
    format!("started {name}: process id {pid}")
}
