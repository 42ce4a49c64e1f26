//! Running a script: resolves its commands, makes the changes, and asks the laws after each.

use super::bench::{Bench, Broken, Tally};
use super::change::{Done, attempt, tells};
use super::command::{Command, Edit, Fault};
use super::effects::Passage;
use super::fault::{Faulty, let_time_pass};
use super::grounds::Grounds;
use super::law::Law;
use super::observed::Observed;
use super::operation::{Operation, Situation};
use super::resolve::Scene;
use super::subject::{Abilities, Subject, Times};
use crate::{Reason, Refusal, Writer};
use millpond_model::{CpuId, Lwp, Pid, Sample, State, WallTime};

/// Laws were broken, or (where there are none) the subject itself failed.
#[derive(Debug, Clone)]
pub struct Violation {
    /// Which laws and how, the one that says most about the cause first.
    pub broken: Vec<Broken>,
    /// How the subject failed.
    pub stuck: Option<String>,
    /// What was done, a line for each command, with what came of it.
    pub trace: Vec<String>,
}

impl Violation {
    /// The law that says most about the cause.
    #[must_use]
    pub fn law(&self) -> Option<Law> {
        self.broken.first().map(|(law, _)| *law)
    }
}

/// Why a script stops.
enum Stop {
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

/// Runs one script on a machine and puts the machine back, also when a law was broken.
///
/// # Errors
/// The [`Violation`] of the laws that the first bad command broke.
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

/// What outlives a script that stops.
#[derive(Default)]
struct Notes {
    bench: Bench,
    trace: Vec<String>,
    processes: Vec<Pid>,
    first: Option<Observed>,
}

fn play<S: Subject + ?Sized>(subject: &mut S, script: &[Command], notes: &mut Notes) -> Result<(), Stop> {
    let first = Observed::of(subject)?;
    notes.first = Some(first.clone());
    let plain = subject.snapshot(Times::LeftOut)?;
    let abilities = subject.abilities();
    let sample = match subject.machine().counters() {
        Ok(counters) => counters.since_boot().ok(),
        Err(absent) => {
            notes.bench.tally.no_counters = Some(absent.why);
            None
        }
    };
    let mut player = Player { subject, abilities, notes, seen: first.clone(), sample };
    for command in script {
        player.notes.bench.tally.commands += 1;
        player.command(command)?;
    }
    player.tear_down(&first, &plain)
}

/// Ends what a broken script left, as well as can be, so that the next script begins on a clean machine.
fn clear_up<S: Subject + ?Sized>(subject: &mut S, notes: &Notes) {
    for pid in &notes.processes {
        // What fails here was a broken law already, which is what is being reported.
        let _ = subject.exit(*pid);
    }
    if let (Some(first), Ok(seen)) = (&notes.first, Observed::of(subject)) {
        for operation in way_back(first, &seen, &[]) {
            let _ = attempt(subject.machine(), &operation);
        }
    }
}

/// The changes that lead back to the first situation: bindings to processors, sets, states. Bindings to sets
/// end with the sets.
fn way_back(first: &Observed, seen: &Observed, ours: &[Pid]) -> Vec<Operation> {
    let bound = seen.threads.values().filter(|t| t.cpu.is_some() && ours.contains(&t.lwp.pid));
    let unbind = bound.map(|t| Operation::BindCpu { pid: t.lwp.pid, lwps: Some(vec![t.lwp.lwp]), to: None });
    let sets = seen.sets.iter().filter(|s| first.set(s.id).is_none());
    let destroy = sets.map(|s| Operation::Destroy { set: s.id });
    let state = |cpu: CpuId, to| Operation::State { cpus: vec![cpu], to, forced: true };
    let was = |cpu: &CpuId| first.processors.get(cpu).map(|p| p.state);
    let changed = seen.processors.values().filter(|p| was(&p.cpu).is_some_and(|was| was != p.state));
    let changed: Vec<CpuId> = changed.map(|p| p.cpu).collect();
    // First on-line, so that the last ones of something are never asked to leave it.
    let start = changed.iter().map(|cpu| state(*cpu, State::OnLine));
    let restore = changed.iter().filter_map(|cpu| Some(state(*cpu, was(cpu)?)));
    unbind.chain(destroy).chain(start).chain(restore).collect()
}

/// One script under way.
struct Player<'s, S: Subject + ?Sized> {
    subject: &'s mut S,
    abilities: Abilities,
    notes: &'s mut Notes,
    seen: Observed,
    sample: Option<Sample>,
}

impl<S: Subject + ?Sized> Player<'_, S> {
    fn command(&mut self, command: &Command) -> Result<(), Stop> {
        match command {
            Command::Spawn => {
                let pid = self.subject.spawn()?;
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
                self.say(format!("thread {creator} forks process {pid}"));
                self.notes.processes.push(pid);
                self.look()?;
                let child = self.first_thread(pid)?;
                self.notes.bench.child(&self.seen, creator, child);
            }
            Command::Exit { process } => {
                let Some(pid) = process.of(&self.notes.processes) else { return Ok(()) };
                self.subject.exit(pid)?;
                self.say(format!("process {pid} exits"));
                self.notes.processes.retain(|p| *p != pid);
                self.look()?;
            }
            Command::Do(edit) => {
                if let Some(operation) = self.resolve(edit) {
                    self.plain(&operation)?;
                }
            }
            Command::Hit { edit, fault } => {
                if let Some(operation) = self.resolve(edit) {
                    self.hit(&operation, *fault)?;
                }
            }
            Command::KillEverywhere(edit) => {
                let Some(operation) = self.resolve(edit) else { return Ok(()) };
                for moment in 0..u8::MAX {
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

    /// Whether a child would inherit a binding that this machine cannot see.
    fn would_hide(&self, creator: Lwp) -> bool {
        let Some(thread) = self.seen.threads.get(&creator) else { return false };
        let alone = self.seen.active_in(thread.set).len() == 1;
        !self.abilities.sees_lone_heirs && alone && thread.cpu.is_some()
    }

    fn first_thread(&self, pid: Pid) -> Result<Lwp, String> {
        let lwp = self.seen.lwps(pid).first().copied();
        lwp.map(|lwp| Lwp { pid, lwp }).ok_or_else(|| format!("process {pid} cannot be seen"))
    }

    fn say(&mut self, what: String) {
        self.notes.trace.push(what);
    }

    fn add(&mut self, what: &str) {
        if let Some(line) = self.notes.trace.last_mut() {
            line.push_str(&format!(" -> {what}"));
        }
    }

    /// After a process or thread came or went: all others, and everything else, are as they were.
    fn look(&mut self) -> Result<(), Stop> {
        let after = Observed::of(self.subject)?;
        let Notes { bench, processes, .. } = &mut *self.notes;
        let in_both = |lwp: &Lwp| self.seen.threads.contains_key(lwp) && after.threads.contains_key(lwp);
        let situation = |seen: &Observed| {
            let mut situation = Situation::of(seen, |pid| processes.contains(&pid));
            situation.threads.retain(|lwp, _| in_both(lwp));
            format!("{situation:?}")
        };
        bench.same(Law::NothingElseChanges, "all others", &situation(&self.seen), &situation(&after));
        bench.situation(self.subject, &after, &self.abilities, processes);
        self.seen = after;
        Ok(())
    }

    /// A change that nothing disturbs.
    fn plain(&mut self, operation: &Operation) -> Result<bool, Stop> {
        self.say(operation.to_string());
        let from = self.start();
        let result = attempt(self.subject.machine(), operation);
        self.judge(operation, result, from)
    }

    fn start(&self) -> WallTime {
        let clock = self.subject.machine().clock();
        if self.abilities.free_clock {
            let_time_pass(clock);
        }
        clock.wall()
    }

    /// A change that something goes wrong with. Tells whether it ended: made, or refused by the rules.
    fn hit(&mut self, operation: &Operation, fault: Fault) -> Result<bool, Stop> {
        self.say(operation.to_string());
        let from = self.start();
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
            self.repair(Law::RefusedChangesNothing)?;
            return Ok(false);
        };
        self.add(&format!("killed at `{moment}`"));
        if let Fault::KillTwice(_, writes) = fault {
            // Whether it got to its end is all the same: the next one must cope.
            let _ = Writer::open(&Faulty::killed_after(self.subject.machine(), writes));
        }
        if moment != "committed" {
            self.repair(Law::UnfinishedIsPutBack)?;
            return Ok(false);
        }
        let before = std::mem::replace(&mut self.seen, Observed::of(self.subject)?);
        self.repair(Law::FinishedStays)?;
        self.made(operation, None, &before, from)?;
        Ok(true)
    }

    /// The next writer comes, after which everything must be as it was last seen.
    fn repair(&mut self, law: Law) -> Result<(), Stop> {
        let next = Writer::open(self.subject.machine()).err();
        self.notes.bench.ask(law, next.is_none(), || format!("the next writer is refused: {next:?}"));
        let after = Observed::of(self.subject)?;
        self.unchanged(law, &after);
        self.seen = after;
        Ok(self.notes.bench.verdict()?)
    }

    /// Byte for byte as last seen, and with the same baselines.
    fn unchanged(&mut self, law: Law, after: &Observed) {
        let baselines = |seen: &Observed| format!("{:?}", seen.baselines);
        self.notes.bench.same(law, "the machine", &self.seen.snapshot, &after.snapshot);
        self.notes.bench.same(law, "baselines", &baselines(&self.seen), &baselines(after));
    }

    /// Tells whether the change was made.
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
                self.unchanged(Law::RefusedChangesNothing, &after);
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
        bench.since(before, &self.seen, (from, to), self.abilities.free_clock);
        bench.situation(self.subject, &self.seen, &self.abilities, processes);
        let grounds = Grounds::of(operation, before, &self.abilities);
        bench.ask(Law::ForbiddenIsRefused, grounds.must.is_empty(), || {
            format!("it was made, although the rules forbid it: {:?}", grounds.must)
        });
        if let Some(done) = done {
            let lie = tells(&done, operation, before);
            bench.ask(Law::DoesWhatItSays, lie.is_none(), || lie.unwrap_or_default());
        }
        if let (Some(first), Ok(counters)) = (&self.sample, self.subject.machine().counters()) {
            let second = counters.since_boot().map_err(|refusal| refusal.to_string())?;
            bench.idle(first, &second, self.abilities.tick);
            self.sample = Some(second);
        }
        Ok(bench.verdict()?)
    }

    /// Ends everything, and asks whether all is as in the beginning.
    fn tear_down(&mut self, first: &Observed, plain: &str) -> Result<(), Stop> {
        self.say("the end:".into());
        for operation in way_back(first, &self.seen, &self.notes.processes) {
            let made = self.plain(&operation)?;
            let how = || format!("refused: {operation}");
            self.notes.bench.ask(Law::TearDownRestores, made, how);
        }
        for pid in std::mem::take(&mut self.notes.processes) {
            self.subject.exit(pid)?;
        }
        let now = self.subject.snapshot(Times::LeftOut)?;
        let left = format!("{:?}", self.subject.machine().journal().baselines());
        let bench = &mut self.notes.bench;
        bench.same(Law::TearDownForgets, "baselines", &format!("{:?}", first.baselines), &left);
        bench.same(Law::TearDownRestores, "the machine", plain, &now);
        Ok(bench.verdict()?)
    }
}

/// The name of a reason, for counting.
fn word(reason: &Reason) -> String {
    let text = format!("{reason:?}");
    text.split(['(', ' ', '{']).next().unwrap_or_default().to_owned()
}
