//! Runs a script: resolves its commands, applies the changes, and checks the laws after each.

use super::bench::{Bench, Broken, Tally};
use super::change::{Done, attempt, tells};
use super::command::{Command, Edit, Fault};
use super::contest::Caps;
use super::effects::Passage;
use super::ending::clear_up;
use super::fault::Faulty;
use super::grounds::Grounds;
use super::law::Law;
use super::life::{A_SECOND, Books};
use super::observed::Observed;
use super::operation::Operation;
use super::resolve::Scene;
use super::subject::{Abilities, Subject, Times};
use crate::{Reason, Refusal, Writer};
use millpond_model::{Lwp, Nanos, Pid, Sample, WallTime};

/// Broken laws, or (if there are none) a failure of the subject itself.
#[derive(Debug, Clone)]
pub struct Violation {
    /// The broken laws, the most significant first.
    pub broken: Vec<Broken>,
    /// The failure of the subject.
    pub stuck: Option<String>,
    /// One line for each command, with its result.
    pub trace: Vec<String>,
}

impl Violation {
    /// The most significant broken law.
    #[must_use]
    pub fn law(&self) -> Option<Law> {
        self.broken.first().map(|(law, _)| *law)
    }
}

/// The reason why a script stops.
pub(super) enum Stop {
    Broken(Vec<Broken>),
    Stuck(String),
}

impl From<Vec<Broken>> for Stop {
    fn from(broken: Vec<Broken>) -> Self {
        Stop::Broken(broken)
    }
}

impl From<String> for Stop {
    fn from(how: String) -> Self {
        Stop::Stuck(how)
    }
}

/// Runs one script on a machine and restores the machine, also if a law was broken.
///
/// # Errors
/// The [`Violation`] of the laws by the first failing command.
pub fn run_script<S: Subject + ?Sized>(subject: &mut S, script: &[Command]) -> Result<Tally, Box<Violation>> {
    let mut notes = Notes::default();
    match play(subject, script, &mut notes) {
        Ok(()) => {
            notes.bench.tally.scripts = 1;
            Ok(notes.bench.tally)
        }
        Err(stop) => {
            clear_up(subject, &notes);
            let (broken, stuck) = match stop {
                Stop::Broken(broken) => (broken, None),
                Stop::Stuck(how) => (Vec::new(), Some(how)),
            };
            Err(Box::new(Violation { broken, stuck, trace: notes.trace }))
        }
    }
}

/// Data that is needed after a script stops.
#[derive(Default)]
pub(super) struct Notes {
    pub bench: Bench,
    trace: Vec<String>,
    /// The processes of the script, including their descendants.
    pub processes: Vec<Pid>,
    pub first: Option<Observed>,
}

fn play<S: Subject + ?Sized>(subject: &mut S, script: &[Command], notes: &mut Notes) -> Result<(), Stop> {
    let first = Observed::of(subject)?;
    notes.first = Some(first.clone());
    let plain = subject.snapshot(Times::LeftOut)?;
    let abilities = subject.abilities();
    let begins = subject.machine().clock().now();
    let sample = match subject.machine().counters() {
        Ok(counters) => counters.since_boot().ok().map(|sample| (begins, sample)),
        Err(absent) => {
            notes.bench.tally.no_counters = Some(absent.why);
            None
        }
    };
    let books = Books::default();
    let (seen, caps) = (first.clone(), Caps::default());
    let mut player = Player { subject, abilities, notes, seen, sample, books, caps, runs: false };
    for command in script {
        player.notes.bench.tally.commands += 1;
        player.command(command)?;
    }
    player.tear_down(&first, &plain)
}

/// A running script.
pub(super) struct Player<'s, S: Subject + ?Sized> {
    pub subject: &'s mut S,
    pub abilities: Abilities,
    pub notes: &'s mut Notes,
    pub seen: Observed,
    /// The last sample, and the time at which its reading began.
    sample: Option<(Nanos, Sample)>,
    pub books: Books,
    pub caps: Caps,
    /// Whether programs were started, so that events occur while time passes.
    pub runs: bool,
}

impl<S: Subject + ?Sized> Player<'_, S> {
    fn command(&mut self, command: &Command) -> Result<(), Stop> {
        match command {
            Command::Spawn => {
                let pid = self.subject.spawn()?;
                self.did("births");
                self.say(format!("spawn process {pid}"));
                self.notes.processes.push(pid);
                self.look()?;
            }
            Command::Thread { process } => {
                let Some(pid) = process.of(&self.notes.processes) else { return Ok(()) };
                let creator = self.first_thread(pid)?;
                if self.would_hide(creator) {
                    return Ok(());
                }
                let child = self.subject.add_thread(pid)?;
                self.did("births");
                self.say(format!("thread {creator} starts thread {child}"));
                self.look()?;
                self.notes.bench.child(&self.seen, creator, child);
            }
            Command::Fork { process } => {
                let Some(parent) = process.of(&self.notes.processes) else { return Ok(()) };
                let creator = self.first_thread(parent)?;
                if self.would_hide(creator) {
                    return Ok(());
                }
                let pid = self.subject.fork(parent)?;
                self.did("births");
                self.say(format!("thread {creator} forks process {pid}"));
                self.notes.processes.push(pid);
                self.look()?;
                let child = self.first_thread(pid)?;
                self.notes.bench.child(&self.seen, creator, child);
            }
            Command::Exit { process } => {
                let Some(pid) = process.of(&self.notes.processes) else { return Ok(()) };
                self.subject.exit(pid)?;
                self.did("ends");
                self.say(format!("process {pid} exits"));
                self.notes.processes.retain(|p| *p != pid);
                self.look()?;
            }
            Command::Start(load) => {
                if !self.abilities.programs {
                    return Ok(());
                }
                let pid = self.subject.start(*load)?;
                self.did("programs started");
                self.runs = true;
                self.say(format!("start process {pid}: {load:?}"));
                self.notes.processes.push(pid);
                self.look()?;
            }
            Command::Pass(millis) => {
                if self.abilities.free_clock {
                    self.did("passages of time");
                    self.say(format!("{millis} ms pass"));
                    self.pass(Nanos::from_millis(u64::from(*millis)))?;
                }
            }
            Command::Contend(groups) => self.contend(groups)?,
            Command::Do(edit) => {
                if let Some(operation) = self.resolve(edit) {
                    self.did(operation.sort());
                    self.plain(&operation)?;
                }
            }
            Command::Hit { edit, fault } => {
                if let Some(operation) = self.resolve(edit) {
                    self.did(operation.sort());
                    self.hit(&operation, *fault)?;
                }
            }
            Command::KillEverywhere(edit) => {
                let Some(operation) = self.resolve(edit) else { return Ok(()) };
                for moment in 0..u8::MAX {
                    self.did(operation.sort());
                    if self.hit(&operation, Fault::Kill(moment))? {
                        break;
                    }
                }
            }
        }
        Ok(self.notes.bench.verdict()?)
    }

    fn resolve(&self, edit: &Edit) -> Option<Operation> {
        let (abilities, processes) = (&self.abilities, self.notes.processes.as_slice());
        Scene { seen: &self.seen, abilities, processes }.resolve(edit)
    }

    /// Whether a child would inherit a binding that this machine cannot report.
    fn would_hide(&self, creator: Lwp) -> bool {
        let Some(thread) = self.seen.threads.get(&creator) else { return false };
        let alone = self.seen.active_in(thread.set).len() == 1;
        !self.abilities.sees_lone_heirs && alone && !thread.cpus.is_empty()
    }

    fn first_thread(&self, pid: Pid) -> Result<Lwp, String> {
        let lwp = self.seen.lwps(pid).first().copied();
        lwp.map(|lwp| Lwp { pid, lwp }).ok_or_else(|| format!("process {pid} cannot be seen"))
    }

    pub fn did(&mut self, sort: &'static str) {
        self.notes.bench.tally.did(sort);
    }

    pub fn say(&mut self, what: String) {
        self.notes.trace.push(what);
    }

    fn add(&mut self, what: &str) {
        if let Some(line) = self.notes.trace.last_mut() {
            line.push_str(&format!(" -> {what}"));
        }
    }

    /// A change without a fault.
    pub fn plain(&mut self, operation: &Operation) -> Result<bool, Stop> {
        self.say(operation.to_string());
        let from = self.start(operation)?;
        let result = attempt(self.subject.machine(), operation);
        self.judge(operation, result, from)
    }

    /// Before a change of state lets time pass, so that its time differs from the last one.
    fn start(&mut self, operation: &Operation) -> Result<WallTime, Stop> {
        if self.abilities.free_clock && matches!(operation, Operation::State { .. }) {
            self.pass(A_SECOND)?;
        }
        if let Operation::Control { .. } = operation {
            // A new cap starts a new period.
            self.caps = Caps::default();
        }
        Ok(self.subject.machine().clock().wall())
    }

    /// A change with a fault. Returns whether it ended: applied, or refused by the rules.
    fn hit(&mut self, operation: &Operation, fault: Fault) -> Result<bool, Stop> {
        self.say(operation.to_string());
        let from = self.start(operation)?;
        let faulty = Faulty::new(self.subject.machine(), fault);
        let result = attempt(&faulty, operation);
        let (struck, killed_at) = (faulty.hit(), faulty.killed_at());
        drop(faulty);
        if !struck {
            self.judge(operation, result, from)?;
            return Ok(true);
        }
        self.notes.bench.tally.faults += 1;
        let Some(moment) = killed_at else {
            self.add(&format!("{fault:?} struck"));
            let how = || "something failed, and the change was said to be made".into();
            self.notes.bench.ask(Law::RefusedChangesNothing, result.is_err(), how);
            self.repair(Law::RefusedChangesNothing, operation)?;
            return Ok(false);
        };
        self.add(&format!("killed at `{moment}`"));
        if let Fault::KillTwice(_, writes) = fault {
            // The second writer may complete or not: the third one must handle both.
            let _ = Writer::open(&Faulty::killed_after(self.subject.machine(), writes));
        }
        if moment != "committed" {
            self.repair(Law::UnfinishedIsPutBack, operation)?;
            return Ok(false);
        }
        let before = std::mem::replace(&mut self.seen, Observed::of(self.subject)?);
        self.repair(Law::FinishedStays, operation)?;
        self.made(operation, None, &before, from)?;
        Ok(true)
    }

    /// Opens the next writer, after which the state must be the last observed one.
    fn repair(&mut self, law: Law, operation: &Operation) -> Result<(), Stop> {
        let next = Writer::open(self.subject.machine()).err();
        self.notes.bench.ask(law, next.is_none(), || format!("the next writer is refused: {next:?}"));
        let after = Observed::of(self.subject)?;
        self.unchanged(law, operation, &after);
        self.seen = after;
        Ok(self.notes.bench.verdict()?)
    }

    /// The state is byte for byte the last observed one, with the same baselines.
    fn unchanged(&mut self, law: Law, operation: &Operation, after: &Observed) {
        let baselines = |seen: &Observed| format!("{:?}", seen.baselines);
        self.notes.bench.same(law, "the machine", &self.seen.snapshot, &after.snapshot);
        self.notes.bench.same(law, "baselines", &baselines(&self.seen), &baselines(after));
        if matches!(operation, Operation::Class { .. }) && law != Law::FinishedStays {
            let kept = self.seen.classes == after.classes;
            let how = || format!("it was {:?}, and is {:?}", self.seen.classes, after.classes);
            self.notes.bench.ask(Law::UndoneClassReturns, kept, how);
        }
    }

    /// Returns whether the change was made.
    fn judge(
        &mut self,
        operation: &Operation,
        result: Result<Done, Refusal>,
        from: WallTime,
    ) -> Result<bool, Stop> {
        let after = Observed::of(self.subject)?;
        let made = result.is_ok();
        match result {
            Ok(done) => {
                self.add("done");
                let before = std::mem::replace(&mut self.seen, after);
                self.made(operation, Some(done), &before, from)?;
            }
            Err(refusal) => {
                self.add(&format!("refused: {refusal}"));
                *self.notes.bench.tally.refused.entry(word(&refusal.reason)).or_default() += 1;
                self.refused(operation, &refusal);
                self.unchanged(Law::RefusedChangesNothing, operation, &after);
                self.seen = after;
            }
        }
        self.notes.bench.verdict()?;
        Ok(made)
    }

    fn refused(&mut self, operation: &Operation, refusal: &Refusal) {
        let grounds = Grounds::of(operation, &self.seen, &self.abilities);
        let right = grounds.justify(&refusal.reason) || self.subject.excuses(refusal);
        self.notes.bench.ask(Law::RefusedForAReason, right, || {
            format!("`{refusal}`: the situation gives no ground for that, but {:?}", grounds.must)
        });
    }

    fn made(
        &mut self,
        operation: &Operation,
        done: Option<Done>,
        before: &Observed,
        from: WallTime,
    ) -> Result<(), Stop> {
        let to = self.subject.machine().clock().wall();
        let Notes { bench, processes, .. } = &mut *self.notes;
        bench.tally.made += 1;
        let unfinished = self.subject.machine().journal().unfinished().map_err(|error| error.to_string())?;
        bench.ask(Law::FinishedStays, unfinished.is_none(), || {
            "the change was made, and the journal still has it as unfinished".into()
        });
        let passage = Passage { operation, before, after: &self.seen, ours: processes };
        bench.passage(self.subject, &passage);
        let strictly = self.abilities.free_clock && matches!(operation, Operation::State { .. });
        bench.since(before, &self.seen, (from, to), strictly);
        bench.situation(self.subject, &self.seen, &self.abilities, processes);
        let grounds = Grounds::of(operation, before, &self.abilities);
        bench.ask(Law::ForbiddenIsRefused, grounds.must.is_empty(), || {
            format!("it was made, although the rules forbid it: {:?}", grounds.must)
        });
        if let Some(done) = done {
            let lie = tells(&done, operation, before);
            bench.ask(Law::DoesWhatItSays, lie.is_none(), || lie.unwrap_or_default());
        }
        let machine = self.subject.machine();
        if let (Some((began, first)), Ok(counters)) = (&self.sample, machine.counters()) {
            let now = || machine.clock().now();
            let begins = now();
            let second = counters.since_boot().map_err(|refusal| refusal.to_string())?;
            // Reading takes time, and CPUs are not read at the same instant.
            bench.idle(first, &second, now() - *began, self.abilities.tick);
            self.sample = Some((begins, second));
        }
        Ok(bench.verdict()?)
    }
}

/// The name of a reason, for counting.
fn word(reason: &Reason) -> String {
    let text = format!("{reason:?}");
    text.split(['(', ' ', '{']).next().unwrap_or_default().to_owned()
}
