//! Running a script: resolves its commands, makes the changes, and asks the laws after each.

use super::checks::{Bench, Broken};
use super::command::{Command, Edit, Fault, Pick};
use super::effect::{Operation, Situation};
use super::fault::{Faulty, let_time_pass};
use super::grounds::Grounds;
use super::law::Law;
use super::observed::Observed;
use super::subject::{Abilities, Subject, Times};
use crate::facets::{CreateOptions, Move, Rebinding, StateChange};
use crate::{Machine, Reason, Refusal, Writer};
use millpond_model::{CpuId, Lwp, LwpId, Pid, PsetId, Sample, State, WallTime};
use std::collections::BTreeMap;

/// What was done and asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Scripts that ran to their end.
    pub scripts: u64,
    /// Commands, those that found nothing to do included.
    pub commands: u64,
    /// Changes that were made.
    pub made: u64,
    /// Refusals by reason.
    pub refused: BTreeMap<String, u64>,
    /// Faults that struck.
    pub faults: u64,
    /// Why idle time could not be asked about, if so.
    pub no_counters: Option<String>,
    asked: BTreeMap<Law, u64>,
}

impl Tally {
    /// How often a law was asked.
    #[must_use]
    pub fn asked(&self, law: Law) -> u64 {
        self.asked.get(&law).copied().unwrap_or(0)
    }

    /// Adds another one.
    pub fn add(&mut self, other: Tally) {
        self.scripts += other.scripts;
        self.commands += other.commands;
        self.made += other.made;
        self.faults += other.faults;
        self.no_counters = other.no_counters.or(self.no_counters.take());
        other.refused.into_iter().for_each(|(k, n)| *self.refused.entry(k).or_default() += n);
        other.asked.into_iter().for_each(|(k, n)| *self.asked.entry(k).or_default() += n);
    }

    pub(super) fn count(&mut self, law: Law) {
        *self.asked.entry(law).or_default() += 1;
    }
}

/// A law was broken, or (where there is none) the subject itself failed.
#[derive(Debug, Clone)]
pub struct Violation {
    /// Which law.
    pub law: Option<Law>,
    /// How.
    pub how: String,
    /// What was done, a line for each command, with what came of it.
    pub trace: Vec<String>,
}

/// Why a script stops.
enum Stop {
    Broken(Law, String),
    Stuck(String),
}

impl From<Broken> for Stop {
    fn from((law, how): Broken) -> Self {
        Stop::Broken(law, how)
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
/// The [`Violation`] of the first law that was broken.
pub fn run_script<S: Subject + ?Sized>(subject: &mut S, script: &[Command]) -> Result<Tally, Box<Violation>> {
    let mut tally = Tally::default();
    let mut trace = Vec::new();
    let mut processes = Vec::new();
    let result = play(subject, script, &mut tally, &mut trace, &mut processes);
    match result {
        Ok(()) => {
            tally.scripts = 1;
            Ok(tally)
        }
        Err(stop) => {
            clear_up(subject, &processes);
            let (law, how) = match stop {
                Stop::Broken(law, how) => (Some(law), how),
                Stop::Stuck(how) => (None, how),
            };
            Err(Box::new(Violation { law, how, trace }))
        }
    }
}

fn play<S: Subject + ?Sized>(
    subject: &mut S,
    script: &[Command],
    tally: &mut Tally,
    trace: &mut Vec<String>,
    processes: &mut Vec<Pid>,
) -> Result<(), Stop> {
    let first = Observed::of(subject)?;
    let plain = subject.snapshot(Times::LeftOut)?;
    let abilities = subject.abilities();
    let sample = match subject.machine().counters() {
        Ok(counters) => counters.since_boot().ok(),
        Err(absent) => {
            tally.no_counters = Some(absent.why);
            None
        }
    };
    let mut player = Player { subject, abilities, tally, trace, processes, seen: first.clone(), sample };
    for command in script {
        player.tally.commands += 1;
        player.command(command)?;
    }
    player.tear_down(&first, &plain)
}

/// Ends what a broken script left, as well as can be, so that the next script begins on a clean machine.
fn clear_up<S: Subject + ?Sized>(subject: &mut S, processes: &[Pid]) {
    if let Ok(seen) = Observed::of(subject) {
        let on_line = seen.processors.values().filter(|p| p.state != State::OnLine);
        let on_line =
            on_line.map(|p| Operation::State { cpus: vec![p.cpu], to: State::OnLine, forced: true });
        let sets = seen.sets.iter().map(|s| Operation::Destroy { set: s.id });
        for operation in on_line.chain(sets) {
            // A refusal here was a broken law already, which is what is being reported.
            let _ = attempt(subject.machine(), &operation);
        }
    }
    for pid in processes {
        let _ = subject.exit(*pid);
    }
}

/// One script under way.
struct Player<'s, S: Subject + ?Sized> {
    subject: &'s mut S,
    abilities: Abilities,
    tally: &'s mut Tally,
    trace: &'s mut Vec<String>,
    processes: &'s mut Vec<Pid>,
    seen: Observed,
    sample: Option<Sample>,
}

/// What a change, as it was made, says about itself.
enum Done {
    Moves(Option<PsetId>, Vec<Move>),
    Destroyed,
    Sets(Vec<Rebinding<PsetId>>),
    Cpus(Vec<Rebinding<CpuId>>),
    States(Vec<StateChange>),
}

/// Prepares and makes a change as a command would: as the one writer.
fn attempt(machine: &dyn Machine, operation: &Operation) -> Result<Done, Refusal> {
    let writer = Writer::open(machine)?;
    match operation {
        Operation::Create { cpus, shared, forced } => {
            let options = CreateOptions { keep_others: *shared };
            let (id, moves) =
                writer.commit(machine.psets()?.prepare_create(cpus, options, *forced)?)?.outcome;
            Ok(Done::Moves(Some(id), moves))
        }
        Operation::Assign { set, cpus, forced } => {
            let change = machine.psets()?.prepare_assign(*set, cpus, *forced)?;
            Ok(Done::Moves(None, writer.commit(change)?.outcome))
        }
        Operation::Destroy { set } => {
            writer.commit(machine.psets()?.prepare_destroy(*set)?)?;
            Ok(Done::Destroyed)
        }
        Operation::BindSet { pid, lwps, to } => {
            let change = machine.threads()?.prepare_bind_set(*pid, lwps.as_deref(), *to)?;
            Ok(Done::Sets(writer.commit(change)?.outcome))
        }
        Operation::BindCpu { pid, lwps, to } => {
            let change = machine.threads()?.prepare_bind_cpu(*pid, lwps.as_deref(), *to)?;
            Ok(Done::Cpus(writer.commit(change)?.outcome))
        }
        Operation::State { cpus, to, forced } => match cpus.as_slice() {
            [cpu] => {
                let change = machine.processors()?.prepare_state(*cpu, *to, *forced)?;
                Ok(Done::States(vec![writer.commit(change)?.outcome]))
            }
            _ => {
                let change = machine.processors()?.prepare_states(cpus, *to, *forced)?;
                Ok(Done::States(writer.commit(change)?.outcome))
            }
        },
    }
}

impl<S: Subject + ?Sized> Player<'_, S> {
    fn command(&mut self, command: &Command) -> Result<(), Stop> {
        match command {
            Command::Spawn => {
                let pid = self.subject.spawn()?;
                self.trace.push(format!("spawn: process {pid}"));
                self.processes.push(pid);
                self.look_for_nothing_else(|p| p != pid)
            }
            Command::Thread { process } => {
                let Some(pid) = process.of(self.processes) else { return Ok(()) };
                let creator = self.first_thread(pid)?;
                let child = self.subject.add_thread(pid)?;
                self.trace.push(format!("thread {creator} starts thread {child}"));
                let there: Vec<Lwp> = self.seen.threads.keys().copied().collect();
                self.look_for_nothing_else_in(|l| there.contains(&l))?;
                Ok(self.bench().child(creator, child)?)
            }
            Command::Fork { process } => {
                let Some(parent) = process.of(self.processes) else { return Ok(()) };
                let creator = self.first_thread(parent)?;
                let pid = self.subject.fork(parent)?;
                self.trace.push(format!("thread {creator} forks process {pid}"));
                self.processes.push(pid);
                self.look_for_nothing_else(|p| p != pid)?;
                let child = self.first_thread(pid)?;
                Ok(self.bench().child(creator, child)?)
            }
            Command::Exit { process } => {
                let Some(pid) = process.of(self.processes) else { return Ok(()) };
                self.subject.exit(pid)?;
                self.trace.push(format!("process {pid} exits"));
                self.processes.retain(|p| *p != pid);
                self.look_for_nothing_else(|p| p != pid)
            }
            Command::Do(edit) => self.edit(edit, |player, operation| player.plain(operation)),
            Command::Hit { edit, fault } => {
                self.edit(edit, |player, operation| player.hit(operation, *fault).map(|_| ()))
            }
            Command::KillEverywhere(edit) => self.edit(edit, |player, operation| {
                for moment in 0..u8::MAX {
                    if player.hit(operation, Fault::Kill(moment))? {
                        break;
                    }
                }
                Ok(())
            }),
        }
    }

    fn edit(
        &mut self,
        edit: &Edit,
        make: impl FnOnce(&mut Self, &Operation) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let Some(operation) = self.resolve(edit) else { return Ok(()) };
        self.trace.push(operation.to_string());
        make(self, &operation)
    }

    fn bench(&mut self) -> Seen<'_> {
        Seen { bench: Bench { tally: self.tally }, seen: &self.seen }
    }

    fn first_thread(&self, pid: Pid) -> Result<Lwp, String> {
        let lwp = self.seen.lwps(pid).first().copied();
        lwp.map(|lwp| Lwp { pid, lwp }).ok_or_else(|| format!("process {pid} cannot be seen"))
    }

    fn say(&mut self, what: &str) {
        if let Some(line) = self.trace.last_mut() {
            line.push_str(&format!(" -> {what}"));
        }
    }

    /// A change that nothing disturbs.
    fn plain(&mut self, operation: &Operation) -> Result<(), Stop> {
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
        let from = self.start();
        let machine = self.subject.machine();
        let faulty = Faulty::new(machine, fault);
        let result = attempt(&faulty, operation);
        if !faulty.hit() {
            self.judge(operation, result, from)?;
            return Ok(true);
        }
        self.tally.faults += 1;
        let Some(moment) = faulty.killed_at() else {
            drop(faulty);
            self.say(&format!("{fault:?} struck"));
            let made = result.is_ok();
            self.bench().bench.that(Law::RefusedChangesNothing, !made, || {
                "a step failed, and the change was said to be made".into()
            })?;
            self.repair(Law::RefusedChangesNothing)?;
            return Ok(false);
        };
        drop(faulty);
        self.say(&format!("killed at {moment}"));
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
        if let Err(refusal) = Writer::open(self.subject.machine()) {
            return Err(Stop::Broken(law, format!("the next writer is refused: {refusal}")));
        }
        let after = Observed::of(self.subject)?;
        self.unchanged(law, &after)?;
        self.seen = after;
        Ok(())
    }

    /// Byte for byte as last seen, and with the same baselines.
    fn unchanged(&mut self, law: Law, after: &Observed) -> Result<(), Stop> {
        let before = &self.seen;
        let mut bench = Bench { tally: self.tally };
        bench.same(law, "the machine", &before.snapshot, &after.snapshot)?;
        let baselines = |seen: &Observed| format!("{:?}", seen.baselines);
        Ok(bench.same(law, "baselines", &baselines(before), &baselines(after))?)
    }

    fn judge(
        &mut self,
        operation: &Operation,
        result: Result<Done, Refusal>,
        from: WallTime,
    ) -> Result<(), Stop> {
        let after = Observed::of(self.subject)?;
        match result {
            Ok(done) => {
                self.say("done");
                let before = std::mem::replace(&mut self.seen, after);
                self.made(operation, Some(done), &before, from)
            }
            Err(refusal) => {
                self.say(&format!("refused: {refusal}"));
                *self.tally.refused.entry(word(&refusal.reason)).or_default() += 1;
                self.refused(operation, &refusal)?;
                self.unchanged(Law::RefusedChangesNothing, &after)?;
                self.seen = after;
                Ok(())
            }
        }
    }

    fn refused(&mut self, operation: &Operation, refusal: &Refusal) -> Result<(), Stop> {
        let grounds = Grounds::of(operation, &self.seen, &self.abilities);
        let right = grounds.justify(&refusal.reason) || self.subject.excuses(refusal);
        Ok(self.bench().bench.that(Law::RefusedForAReason, right, || {
            format!("`{refusal}`: the situation gives no ground for that, but {:?}", grounds.must)
        })?)
    }

    fn made(
        &mut self,
        operation: &Operation,
        done: Option<Done>,
        before: &Observed,
        from: WallTime,
    ) -> Result<(), Stop> {
        self.tally.made += 1;
        let to = self.subject.machine().clock().wall();
        let (ours, strictly) = (self.processes.clone(), self.abilities.free_clock);
        let mut bench = Bench { tally: self.tally };
        bench.effect(self.subject, operation, before, &self.seen, &|pid| ours.contains(&pid))?;
        bench.situation(&self.seen, &self.abilities)?;
        let grounds = Grounds::of(operation, before, &self.abilities);
        bench.that(Law::ForbiddenIsRefused, grounds.must.is_empty(), || {
            format!("it was made, although the rules forbid it: {:?}", grounds.must)
        })?;
        bench.since(before, &self.seen, (from, to), strictly)?;
        if let Some(done) = done {
            let truthful = tells(&done, operation, before);
            bench.that(Law::DoesWhatItSays, truthful.is_none(), || truthful.unwrap_or_default())?;
        }
        self.count_idle()
    }

    fn count_idle(&mut self) -> Result<(), Stop> {
        let (Some(first), Ok(counters)) = (&self.sample, self.subject.machine().counters()) else {
            return Ok(());
        };
        let second = counters.since_boot().map_err(|refusal| refusal.to_string())?;
        Bench { tally: self.tally }.idle(first, &second, self.abilities.tick)?;
        self.sample = Some(second);
        Ok(())
    }

    /// After processes came or went: the others, and everything else, are as they were.
    fn look_for_nothing_else(&mut self, other: impl Fn(Pid) -> bool) -> Result<(), Stop> {
        self.look_for_nothing_else_in(|lwp| other(lwp.pid))
    }

    fn look_for_nothing_else_in(&mut self, other: impl Fn(Lwp) -> bool) -> Result<(), Stop> {
        let after = Observed::of(self.subject)?;
        let ours = self.processes.clone();
        let situation = |seen: &Observed| {
            let mut situation = Situation::of(seen, |pid| ours.contains(&pid));
            situation.threads.retain(|lwp, _| other(*lwp));
            format!("{situation:?}")
        };
        let mut bench = Bench { tally: self.tally };
        bench.same(Law::NothingElseChanges, "the others", &situation(&self.seen), &situation(&after))?;
        bench.situation(&after, &self.abilities)?;
        self.seen = after;
        Ok(())
    }

    /// Ends everything, and asks whether all is as in the beginning.
    fn tear_down(&mut self, first: &Observed, plain: &str) -> Result<(), Stop> {
        self.trace.push("the end".into());
        let bound =
            self.seen.threads.values().filter(|t| t.cpu.is_some() && self.processes.contains(&t.lwp.pid));
        let mut work: Vec<Operation> = bound
            .map(|t| Operation::BindCpu { pid: t.lwp.pid, lwps: Some(vec![t.lwp.lwp]), to: None })
            .collect();
        let sets = self.seen.sets.iter().filter(|s| first.set(s.id).is_none());
        work.extend(sets.map(|s| Operation::Destroy { set: s.id }));
        let changed = |p: &&crate::facets::ProcessorStatus| {
            first.processors.get(&p.cpu).is_some_and(|was| was.state != p.state)
        };
        let changed: Vec<CpuId> = self.seen.processors.values().filter(changed).map(|p| p.cpu).collect();
        let state = |cpu: CpuId, to| Operation::State { cpus: vec![cpu], to, forced: true };
        work.extend(changed.iter().map(|cpu| state(*cpu, State::OnLine)));
        work.extend(changed.iter().map(|cpu| state(*cpu, first.processors[cpu].state)));
        for operation in work {
            self.trace.push(operation.to_string());
            let refused = self.refusals();
            self.plain(&operation)?;
            if self.refusals() > refused {
                return Err(Stop::Broken(Law::TearDownRestores, format!("refused: {operation}")));
            }
        }
        for pid in std::mem::take(self.processes) {
            self.subject.exit(pid)?;
        }
        let now = self.subject.snapshot(Times::LeftOut)?;
        let left = format!("{:?}", self.subject.machine().journal().baselines());
        let mut bench = Bench { tally: self.tally };
        bench.same(Law::TearDownForgets, "baselines", &format!("{:?}", first.baselines), &left)?;
        Ok(bench.same(Law::TearDownRestores, "the machine", plain, &now)?)
    }

    fn refusals(&self) -> u64 {
        self.tally.refused.values().sum()
    }

    /// Gives positions their numbers. `None` where there is nothing to be named, or the machine cannot do it.
    fn resolve(&self, edit: &Edit) -> Option<Operation> {
        let thread = |pid: Pid, pick: &Option<Pick>| self.pick_thread(pid, *pick);
        Some(match edit {
            Edit::Create { cpus, shared, forced } => Operation::Create {
                cpus: self.pick_cpus(cpus),
                shared: (*shared && self.abilities.shared) || !self.abilities.exclusive,
                forced: *forced,
            },
            Edit::Destroy { set } => Operation::Destroy { set: self.pick_set(*set)? },
            Edit::Assign { set, cpus, forced } => {
                let set = self.pick_set(*set)?;
                Operation::Assign { set, cpus: self.pick_cpus(cpus), forced: *forced }
            }
            Edit::Remove { cpus, forced } => {
                Operation::Assign { set: PsetId::DEFAULT, cpus: self.pick_cpus(cpus), forced: *forced }
            }
            Edit::BindSet { process, thread: t, set } => {
                let pid = self.pick_process(*process)?;
                Operation::BindSet { pid, lwps: thread(pid, t), to: Some(self.pick_set(*set)?) }
            }
            Edit::UnbindSet { process, thread: t } => {
                let pid = self.pick_process(*process)?;
                Operation::BindSet { pid, lwps: thread(pid, t), to: None }
            }
            Edit::BindCpu { process, thread: t, cpu } => {
                let pid = self.pick_process(*process)?;
                Operation::BindCpu { pid, lwps: thread(pid, t), to: Some(self.pick_cpu(*cpu)) }
            }
            Edit::UnbindCpu { process, thread: t } => {
                let pid = self.pick_process(*process)?;
                Operation::BindCpu { pid, lwps: thread(pid, t), to: None }
            }
            Edit::State { cpus, to, forced } => {
                let possible = self.abilities.states.contains(to);
                let state = Operation::State { cpus: self.pick_cpus(cpus), to: *to, forced: *forced };
                return possible.then_some(state);
            }
        })
    }

    fn pick_cpus(&self, picks: &[Pick]) -> Vec<CpuId> {
        let mut chosen: Vec<CpuId> = Vec::new();
        for pick in picks {
            let rest: Vec<CpuId> =
                self.abilities.processors.iter().copied().filter(|cpu| !chosen.contains(cpu)).collect();
            match (*pick, chosen.last()) {
                (Pick::AGAIN, Some(last)) => chosen.push(*last),
                (pick, _) if pick.is_position() => chosen.extend(pick.of(&rest)),
                (pick, _) => chosen.push(self.pick_cpu(pick)),
            }
        }
        chosen
    }

    fn pick_cpu(&self, pick: Pick) -> CpuId {
        let last = self.seen.cpus().highest().map_or(0, |cpu| cpu.0);
        pick.of(&self.abilities.processors).unwrap_or(CpuId(last + 1))
    }

    fn pick_set(&self, pick: Pick) -> Option<PsetId> {
        let sets: Vec<PsetId> = self.seen.sets.iter().map(|s| s.id).collect();
        match pick {
            Pick::SPECIAL => Some(PsetId::DEFAULT),
            Pick::UNKNOWN => Some(PsetId(sets.iter().map(|s| s.0).max().unwrap_or(0) + 1)),
            position => position.of(&sets),
        }
    }

    fn pick_process(&self, pick: Pick) -> Option<Pid> {
        match pick {
            Pick::SPECIAL => self.seen.kernel.first().copied(),
            Pick::UNKNOWN => Some(self.seen.nobody()),
            position => position.of(self.processes),
        }
    }

    fn pick_thread(&self, pid: Pid, pick: Option<Pick>) -> Option<Vec<LwpId>> {
        let unknown = LwpId(self.seen.nobody().0);
        pick.map(|pick| vec![pick.of(&self.seen.lwps(pid)).unwrap_or(unknown)])
    }
}

/// A bench and what lies on it.
struct Seen<'p> {
    bench: Bench<'p>,
    seen: &'p Observed,
}

impl Seen<'_> {
    fn child(&mut self, creator: Lwp, child: Lwp) -> Result<(), Broken> {
        self.bench.child(self.seen, creator, child)
    }
}

/// The name of a reason, for counting.
fn word(reason: &Reason) -> String {
    let text = format!("{reason:?}");
    text.split(['(', ' ', '{']).next().unwrap_or_default().to_owned()
}

/// What is untrue of what a change says about itself.
fn tells(done: &Done, operation: &Operation, before: &Observed) -> Option<String> {
    let lie = |what: String| Some(what);
    match (done, operation) {
        (Done::Moves(id, moves), Operation::Create { cpus, .. } | Operation::Assign { cpus, .. }) => {
            let to = match (id, operation) {
                (Some(id), _) => *id,
                (None, Operation::Assign { set, .. }) => *set,
                _ => PsetId::DEFAULT,
            };
            let want: Vec<Move> =
                cpus.iter().map(|cpu| Move { cpu: *cpu, from: before.set_of(*cpu), to }).collect();
            if *moves == want { None } else { lie(format!("it said {moves:?}, true is {want:?}")) }
        }
        (Done::States(changes), Operation::State { cpus, to, .. }) => {
            let from = |cpu: &CpuId| before.processors.get(cpu).map(|p| p.state);
            let want: Vec<StateChange> = cpus
                .iter()
                .filter_map(|cpu| Some(StateChange { cpu: *cpu, from: from(cpu)?, to: *to }))
                .collect();
            if *changes == want { None } else { lie(format!("it said {changes:?}, true is {want:?}")) }
        }
        (Done::Sets(list), Operation::BindSet { pid, lwps, to }) => {
            let was = |lwp: LwpId| {
                let thread = before.threads.get(&Lwp { pid: *pid, lwp })?;
                (!thread.set.is_default()).then_some(thread.set)
            };
            tells_rebinding(list, *pid, lwps.as_deref(), *to, &before.lwps(*pid), &was)
        }
        (Done::Cpus(list), Operation::BindCpu { pid, lwps, to }) => {
            let was = |lwp: LwpId| before.threads.get(&Lwp { pid: *pid, lwp })?.cpu;
            tells_rebinding(list, *pid, lwps.as_deref(), *to, &before.lwps(*pid), &was)
        }
        (Done::Destroyed, Operation::Destroy { .. }) => None,
        _ => lie("it speaks of something else".into()),
    }
}

/// One line for the process, which tells of one of its threads, or one line for each thread that was named.
fn tells_rebinding<T: Copy + PartialEq + std::fmt::Debug>(
    list: &[Rebinding<T>],
    pid: Pid,
    lwps: Option<&[LwpId]>,
    to: Option<T>,
    there: &[LwpId],
    was: &dyn Fn(LwpId) -> Option<T>,
) -> Option<String> {
    let right = match lwps {
        Some(lwps) => {
            let want = lwps.iter().map(|lwp| Rebinding { pid, lwp: Some(*lwp), from: was(*lwp), to });
            list.iter().copied().eq(want)
        }
        None => matches!(list, [one] if one.pid == pid && one.lwp.is_none() && one.to == to
            && there.iter().any(|lwp| was(*lwp) == one.from)),
    };
    if right { None } else { Some(format!("it said {list:?}")) }
}
