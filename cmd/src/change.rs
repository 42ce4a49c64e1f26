//! Changes, from prepared steps to the report: applied one after the other, or only shown; reported as text or as JSON.

use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure};
use crate::pools;
use millpond_cli::Common;
use millpond_machine::{Baseline, Change, Machine, Refusal, Step, Subject, Writer};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// Makes the changes of one command, and reports them.
pub struct Changer<'m> {
    /// The only writer of the machine. `None` in a dry run, and for commands that change no machine.
    writer: Option<Writer<'m>>,
    only_shows: bool,
    shows_notes: bool,
    json: bool,
    changes: Vec<Value>,
    operations: Vec<Operation>,
    refused: Vec<Complaint>,
    notes: Vec<String>,
}

/// A change that is only shown.
#[derive(Serialize, JsonSchema)]
struct Operation {
    what: String,
    steps: Vec<Step>,
}

/// The result of a command: its changes, the refused operations, and notes.
#[derive(Serialize, JsonSchema)]
pub struct Changes<'a, C> {
    changes: &'a [C],
    refused: &'a [Complaint],
    notes: &'a [String],
}

/// The changes that a command would make (`--dry-run`).
#[derive(Serialize, JsonSchema)]
pub struct DryRun<'a> {
    /// Always true.
    dry_run: bool,
    operations: &'a [Operation],
    refused: &'a [Complaint],
    notes: &'a [String],
}

impl<'m> Changer<'m> {
    /// Takes the writer lock of the machine, except in a dry run. First it undoes the unfinished change of an earlier
    /// writer, and reports that.
    ///
    /// # Errors
    /// [`Failure::Refused`] if the writer lock cannot be taken.
    pub fn open(machine: &'m dyn Machine, common: &Common, ctx: &mut Ctx<'_>) -> Result<Self, Failure> {
        let writer = if common.dry_run { None } else { Some(Self::writer(machine, ctx)?) };
        Ok(Changer { writer, ..Self::of_files(common) })
    }

    /// For a command that changes files but no machine.
    pub fn of_files(common: &Common) -> Self {
        let (only_shows, json) = (common.dry_run, common.json);
        let (changes, operations, refused, notes) = Default::default();
        Changer { writer: None, only_shows, shows_notes: false, json, changes, operations, refused, notes }
    }

    /// In a dry run, also shows the baselines that the journal would record or drop without a change of the value.
    pub fn showing_notes(mut self, shows_notes: bool) -> Self {
        self.shows_notes = shows_notes;
        self
    }

    fn writer(machine: &'m dyn Machine, ctx: &mut Ctx<'_>) -> Result<Writer<'m>, Failure> {
        let writer = Writer::open(machine).map_err(|refusal| {
            let main = format!("change machine {}", machine.name());
            Failure::Refused(Complaint::refused(&main, |_| None, &refusal))
        })?;
        if let Some(repair) = writer.repaired() {
            ctx.warn(repair);
        }
        Self::put_back_abandoned(machine, &writer, ctx);
        Ok(writer)
    }

    /// Restores resources that a killed process had reserved. Failures are reported and do not block the command.
    fn put_back_abandoned(machine: &dyn Machine, writer: &Writer<'_>, ctx: &mut Ctx<'_>) {
        let Ok(probe) = machine.latency() else { return };
        for found in writer.put_back_abandoned(probe) {
            match &found.result {
                Ok(notes) => {
                    ctx.warn(&found);
                    notes.iter().for_each(|note| ctx.warn(note));
                }
                Err(refusal) => ctx.complain(&Complaint::refused(&found.what(), |_| None, refusal)),
            }
        }
    }

    /// Makes a prepared change and returns its outcome. `None` if it was refused, which is reported, and in a dry
    /// run. For `main` and `names` see [`Complaint::refused`].
    pub fn attempt<T>(
        &mut self,
        ctx: &mut Ctx<'_>,
        main: &str,
        names: impl Fn(&Subject) -> Option<String>,
        prepared: Result<Change<T>, Refusal>,
    ) -> Option<T> {
        let made = prepared.and_then(|change| self.make(ctx, change));
        self.unless_refused(ctx, main, names, made)
    }

    /// The outcome. `None` if it was refused, which is reported.
    pub fn unless_refused<T>(
        &mut self,
        ctx: &mut Ctx<'_>,
        main: &str,
        names: impl Fn(&Subject) -> Option<String>,
        made: Result<Option<T>, Refusal>,
    ) -> Option<T> {
        made.unwrap_or_else(|refusal| {
            self.refuse(ctx, Complaint::refused(main, names, &refusal));
            None
        })
    }

    /// Makes a prepared change, or shows it in a dry run. Notes are reported.
    ///
    /// # Errors
    /// The [`Refusal`] of the machine, which was not reported yet.
    pub fn make<T>(&mut self, ctx: &mut Ctx<'_>, change: Change<T>) -> Result<Option<T>, Refusal> {
        let (outcome, notes) = match &self.writer {
            Some(writer) => {
                let done = writer.commit(change)?;
                (Some(done.outcome), done.notes)
            }
            None => {
                let Change { what, steps, notes, .. } = change;
                if !self.json {
                    steps.iter().filter_map(|step| self.shown(step)).for_each(|line| ctx.out.line(line));
                }
                self.operations.push(Operation { what, steps });
                (None, notes)
            }
        };
        for note in notes {
            ctx.warn(&note);
            self.notes.push(note);
        }
        Ok(outcome)
    }

    /// A step as a line. `None` for a step that changes nothing, unless such steps are shown too.
    fn shown(&self, step: &Step) -> Option<String> {
        if !step.is_note() {
            return Some(pools::short(step).to_string());
        }
        let what = match step.baseline {
            Baseline::Keep => "to be remembered",
            Baseline::Release => "remembered no more",
            Baseline::Ours => return None,
        };
        let value = step.before.as_deref().filter(|value| !value.is_empty()).unwrap_or("empty");
        self.shows_notes.then(|| format!("{}: {value} ({what})", step.knob))
    }

    /// Whether this is a dry run. If so, shows `step`, which changes no machine.
    pub fn shows(&mut self, ctx: &mut Ctx<'_>, what: String, step: impl FnOnce() -> Step) -> bool {
        if self.only_shows {
            let step = step();
            if !self.json {
                ctx.out.line(&step);
            }
            self.operations.push(Operation { what, steps: vec![step] });
        }
        self.only_shows
    }

    /// Reports something that the user should know although nothing was refused.
    pub fn note(&mut self, ctx: &mut Ctx<'_>, note: String, hint: Option<&str>) {
        ctx.warn(&note);
        hint.into_iter().for_each(|hint| ctx.hint(hint));
        self.notes.push(note);
    }

    /// Reports that something was not done.
    pub fn refuse(&mut self, ctx: &mut Ctx<'_>, complaint: Complaint) {
        ctx.complain(&complaint);
        self.refused.push(complaint);
    }

    /// Records that something was not done. The command has reported it in other words.
    pub fn remember_refusal(&mut self, complaint: Complaint) {
        self.refused.push(complaint);
    }

    /// Reports that something was done: `line` as text (`None` if the command is silent), `change` in JSON.
    pub fn report(&mut self, ctx: &mut Ctx<'_>, line: Option<String>, change: impl Serialize) {
        match line {
            // The values are structs, texts and numbers of this crate, which serialize without an error.
            _ if self.json => self.changes.push(serde_json::to_value(change).unwrap_or_default()),
            Some(line) => ctx.out.line(line),
            None => {}
        }
    }

    /// Ends the changes, and returns the exit status.
    pub fn finish(self, ctx: &mut Ctx<'_>) -> Exit {
        let Changer { changes, operations, refused, notes, .. } = &self;
        match (self.json, self.only_shows) {
            (true, false) => ctx.json(&Changes { changes, refused, notes }),
            (true, true) => ctx.json(&DryRun { dry_run: true, operations, refused, notes }),
            (false, _) => {}
        }
        if self.refused.is_empty() { Exit::DONE } else { Exit::REFUSED }
    }
}
