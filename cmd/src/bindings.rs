//! Bindings to sets (`psrset`) and to CPUs (`pbind`): how both commands change and show them.

use crate::change::Changer;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, facet, read};
use crate::start::Start;
use millpond_formats::{Target, binding as listing};
use millpond_machine::facets::{LwpStatus, Rebinding};
use millpond_machine::{Change, Machine, Reason, Refusal, Subject, Threads};
use millpond_model::{CpuId, CpuSet, Lwp, LwpId, Pid, PsetId};
use millpond_session::Session;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Display;

/// A kind of binding: to a processor set or to CPUs.
pub trait Bond: Clone + PartialEq + Display {
    /// The unit that queries and releases name.
    type Part: Copy;
    /// The preposition for a program that is started there, in messages: `in` a set, `on` a processor.
    const PLACE: &'static str;
    /// The key in JSON.
    const KEY: &'static str;
    /// The noun in messages.
    fn noun(&self) -> &'static str;
    /// The binding of a thread.
    fn of(lwp: &LwpStatus) -> Option<Self>;
    /// Whether it is the named part or contains it.
    fn has(&self, part: Self::Part) -> bool;
    /// The part of a refusal's subject that has this kind.
    fn subject(&self, subject: &Subject) -> Option<Self>;
    /// The type of the value in JSON.
    type Json: Serialize;
    /// The value in JSON.
    fn json(&self) -> Self::Json;
    /// The type of a binding in JSON.
    type Binding: Serialize;
    /// A binding in JSON.
    fn binding(pid: Pid, lwp: Option<LwpId>, to: Option<Self::Json>) -> Self::Binding;
    /// Prepares a binding.
    ///
    /// # Errors
    /// [`Refusal`] of the machine.
    fn prepare(
        threads: &dyn Threads,
        pid: Pid,
        lwps: Option<&[LwpId]>,
        to: Option<&Self>,
    ) -> Result<Change<Vec<Rebinding<Self>>>, Refusal>;

    /// Prepares the start of a process that will execute another program. `None` as target leaves it unbound.
    ///
    /// # Errors
    /// [`Refusal`] of the machine.
    fn prepare_start(threads: &dyn Threads, pid: Pid, to: Option<&Self>) -> Result<Change<()>, Refusal> {
        Self::prepare(threads, pid, None, to).map(|change| change.map(drop))
    }
}

/// A thread or a whole process, and the set to which it is bound.
#[derive(Serialize, JsonSchema)]
pub struct SetBinding {
    pid: Pid,
    /// A thread; null for a whole process.
    lwp: Option<LwpId>,
    set: Option<PsetId>,
}

/// A thread or a whole process, and the CPUs to which it is bound.
#[derive(Serialize, JsonSchema)]
pub struct CpuBinding {
    pid: Pid,
    /// A thread; null for a whole process.
    lwp: Option<LwpId>,
    processor: Option<Cpus>,
}

/// The CPUs of a binding.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Cpus {
    One(CpuId),
    Several(Vec<CpuId>),
}

/// Bindings, as the result of a query.
#[derive(Serialize, JsonSchema)]
pub struct Bindings<B> {
    pub bindings: Vec<B>,
}

/// A changed binding.
#[derive(Serialize, JsonSchema)]
pub struct Rebound<J> {
    pid: Pid,
    /// A thread; null for a whole process.
    lwp: Option<LwpId>,
    /// The kind of binding: `set` or `processor`.
    bound: &'static str,
    from: Option<J>,
    to: Option<J>,
}

impl Bond for PsetId {
    type Part = PsetId;
    const PLACE: &'static str = "in";
    const KEY: &'static str = "set";

    fn of(lwp: &LwpStatus) -> Option<Self> {
        Some(lwp.set).filter(|set| !set.is_default())
    }

    fn noun(&self) -> &'static str {
        "set"
    }

    fn has(&self, set: PsetId) -> bool {
        *self == set
    }

    fn subject(&self, subject: &Subject) -> Option<Self> {
        (*subject == Subject::Pset(*self)).then_some(*self)
    }

    type Json = PsetId;

    fn json(&self) -> PsetId {
        *self
    }

    type Binding = SetBinding;

    fn binding(pid: Pid, lwp: Option<LwpId>, set: Option<PsetId>) -> SetBinding {
        SetBinding { pid, lwp, set }
    }

    fn prepare(
        threads: &dyn Threads,
        pid: Pid,
        lwps: Option<&[LwpId]>,
        to: Option<&Self>,
    ) -> Result<Change<Vec<Rebinding<Self>>>, Refusal> {
        threads.prepare_bind_set(pid, lwps, to.copied())
    }

    fn prepare_start(threads: &dyn Threads, pid: Pid, to: Option<&Self>) -> Result<Change<()>, Refusal> {
        match to {
            None => threads.prepare_start_in_default(pid),
            set => threads.prepare_bind_set(pid, None, set.copied()).map(|change| change.map(drop)),
        }
    }
}

impl Bond for CpuSet {
    type Part = CpuId;
    const PLACE: &'static str = "on";
    const KEY: &'static str = "processor";

    fn of(lwp: &LwpStatus) -> Option<Self> {
        Some(lwp.cpus.clone()).filter(|cpus| !cpus.is_empty())
    }

    fn noun(&self) -> &'static str {
        if self.len() > 1 { "processors" } else { "processor" }
    }

    fn has(&self, cpu: CpuId) -> bool {
        self.contains(cpu)
    }

    fn subject(&self, subject: &Subject) -> Option<Self> {
        match subject {
            Subject::Processor(cpu) if self.contains(*cpu) => Some(CpuSet::from_iter([*cpu])),
            _ => None,
        }
    }

    type Json = Cpus;

    fn json(&self) -> Cpus {
        match self.lowest() {
            Some(cpu) if self.len() == 1 => Cpus::One(cpu),
            _ => Cpus::Several(self.iter().collect()),
        }
    }

    type Binding = CpuBinding;

    fn binding(pid: Pid, lwp: Option<LwpId>, processor: Option<Cpus>) -> CpuBinding {
        CpuBinding { pid, lwp, processor }
    }

    fn prepare(
        threads: &dyn Threads,
        pid: Pid,
        lwps: Option<&[LwpId]>,
        to: Option<&Self>,
    ) -> Result<Change<Vec<Rebinding<Self>>>, Refusal> {
        threads.prepare_bind_cpus(pid, lwps, to.unwrap_or(&CpuSet::new()))
    }
}

/// The threads facet.
///
/// # Errors
/// [`Failure::Refused`] if the machine has no such facet.
pub fn threads(machine: &dyn Machine) -> Result<&dyn Threads, Failure> {
    facet("bindings", machine.threads())
}

/// The words for a refused change of a binding.
struct Phrase {
    verb: &'static str,
    suffix: String,
}

impl Phrase {
    fn new<B: Bond>(to: Option<&B>) -> Phrase {
        match to {
            Some(to) => Phrase { verb: "bind", suffix: format!(" to {} {to}", to.noun()) },
            None => Phrase { verb: "unbind", suffix: String::new() },
        }
    }

    fn about(&self, noun: impl Display) -> String {
        format!("{} {noun}{}", self.verb, self.suffix)
    }
}

/// The name of a target in messages.
pub(crate) fn noun(target: &Target) -> String {
    let kind = if target.lwps.is_some() { "thread" } else { "process" };
    format!("{kind} {target}")
}

/// `-b` and `-u`: binds each target, or unbinds it if `to` is `None`. A failure of one target does not affect the
/// others.
///
/// # Errors
/// [`Failure`] if the machine has no bindings.
pub fn bind<B: Bond>(
    machine: &dyn Machine,
    targets: &[Target],
    to: Option<&B>,
    changer: &mut Changer<'_>,
    ctx: &mut Ctx<'_>,
) -> Result<(), Failure> {
    let threads = threads(machine)?;
    let phrase = Phrase::new(to);
    for target in targets {
        let noun = noun(target);
        let main = phrase.about(&noun);
        let lwps = match chosen(threads, target, &main) {
            Ok(lwps) => lwps,
            Err(complaint) => {
                changer.refuse(ctx, complaint);
                continue;
            }
        };
        if let Some(done) = rebind(threads, target.pid, lwps.as_deref(), to, &noun, changer, ctx) {
            for r in &done {
                let line = listing::rebound(r.pid, r.lwp, r.from.as_ref(), r.to.as_ref());
                changer.report(ctx, Some(line), json_of(r));
            }
        }
    }
    Ok(())
}

fn rebind<B: Bond>(
    threads: &dyn Threads,
    pid: Pid,
    lwps: Option<&[LwpId]>,
    to: Option<&B>,
    noun: &str,
    changer: &mut Changer<'_>,
    ctx: &mut Ctx<'_>,
) -> Option<Vec<Rebinding<B>>> {
    let phrase = Phrase::new(to);
    let main = phrase.about(noun);
    let names = |subject: &Subject| match subject {
        Subject::Process(p) if *p == pid => Some(main.clone()),
        Subject::Thread(lwp) => Some(phrase.about(format_args!("thread {lwp}"))),
        subject => to?.subject(subject).map(|part| Phrase::new(Some(&part)).about(noun)),
    };
    let made = B::prepare(threads, pid, lwps, to).and_then(|change| changer.make(ctx, change));
    // If the process exits during the change, the machine may only report the failed operation.
    let made = made.map_err(|refusal| match (&refusal.reason, threads.lwps(pid)) {
        (Reason::Machine(_), Err(now)) if now.reason == Reason::NoSuchProcess => {
            Refusal::new(Subject::Process(pid), Reason::ExitedMeanwhile)
        }
        _ => refusal,
    });
    changer.unless_refused(ctx, &main, names, made)
}

fn json_of<B: Bond>(r: &Rebinding<B>) -> Rebound<B::Json> {
    let (from, to) = (r.from.as_ref().map(B::json), r.to.as_ref().map(B::json));
    Rebound { pid: r.pid, lwp: r.lwp, bound: B::KEY, from, to }
}

/// The threads that a target names. `None` if it names the process.
fn chosen(threads: &dyn Threads, target: &Target, main: &str) -> Result<Option<Vec<LwpId>>, Complaint> {
    let Some(selection) = &target.lwps else { return Ok(None) };
    let all =
        threads.lwps(target.pid).map_err(|r| Complaint::refused(main, same_process(target, main), &r))?;
    let lwps: Vec<LwpId> = all.iter().map(|s| s.lwp.lwp).filter(|lwp| selection.contains(*lwp)).collect();
    if lwps.is_empty() {
        return Err(Complaint::new(main, "no thread of the process has such a number"));
    }
    Ok(Some(lwps))
}

/// For refusals about the same process as the target.
fn same_process(target: &Target, main: &str) -> impl Fn(&Subject) -> Option<String> {
    let (pid, main) = (target.pid, main.to_owned());
    move |subject| (*subject == Subject::Process(pid)).then(|| main.clone())
}

/// `-U`: unbinds everything that is bound to one of `from`, or to anything if `from` is `None`. Silent on success.
///
/// # Errors
/// [`Failure`] if the machine has no bindings, or they cannot be read.
pub fn unbind_all<B: Bond>(
    machine: &dyn Machine,
    from: Option<&[B::Part]>,
    changer: &mut Changer<'_>,
    ctx: &mut Ctx<'_>,
) -> Result<(), Failure> {
    let threads = threads(machine)?;
    let affected = |s: &LwpStatus| {
        B::of(s).is_some_and(|to| from.is_none_or(|from| from.iter().any(|part| to.has(*part))))
    };
    let mut bound: BTreeMap<Pid, Vec<LwpId>> = BTreeMap::new();
    for status in read("bindings", threads.bound())?.iter().filter(|s| affected(s)) {
        bound.entry(status.lwp.pid).or_default().push(status.lwp.lwp);
    }
    for (pid, lwps) in bound {
        // A process that is bound as a whole is unbound as a whole, because some machines cannot bind single threads.
        let whole = threads.lwps(pid).is_ok_and(|all| all.len() == lwps.len());
        let noun = format!("process {pid}");
        let some = if whole { None } else { Some(lwps.as_slice()) };
        if let Some(done) = rebind::<B>(threads, pid, some, None, &noun, changer, ctx) {
            for r in &done {
                changer.report(ctx, None, json_of(r));
            }
        }
    }
    Ok(())
}

/// One line of the output.
struct Answer<B> {
    pid: Pid,
    lwp: Option<LwpId>,
    to: Option<B>,
}

fn show<B: Bond>(answers: &[Answer<B>], json: bool, ctx: &mut Ctx<'_>) {
    if json {
        let one = |a: &Answer<B>| B::binding(a.pid, a.lwp, a.to.as_ref().map(B::json));
        ctx.json(&Bindings { bindings: answers.iter().map(one).collect() });
    } else {
        for a in answers {
            ctx.out.line(listing::bound(a.pid, a.lwp, a.to.as_ref()));
        }
    }
}

/// `-q`: shows the bindings of the targets; without targets, of every process with a bound thread.
///
/// # Errors
/// [`Failure`] if the machine has no bindings, or they cannot be read.
pub fn query<B: Bond>(
    machine: &dyn Machine,
    targets: &[Target],
    json: bool,
    ctx: &mut Ctx<'_>,
) -> Result<Exit, Failure> {
    let threads = threads(machine)?;
    let mut exit = Exit::DONE;
    let mut answers: Vec<Answer<B>> = Vec::new();
    if targets.is_empty() {
        for status in read("bindings", threads.bound())? {
            let known = answers.last().is_some_and(|a| a.pid == status.lwp.pid);
            if let (Some(to), false) = (B::of(&status), known) {
                answers.push(Answer { pid: status.lwp.pid, lwp: None, to: Some(to) });
            }
        }
    }
    for target in targets {
        match query_one(threads, target) {
            Ok(found) => answers.extend(found),
            Err(complaint) => {
                ctx.complain(&complaint);
                exit = Exit::REFUSED;
            }
        }
    }
    show(&answers, json, ctx);
    Ok(exit)
}

/// The binding of a process is that of its first bound thread.
fn query_one<B: Bond>(threads: &dyn Threads, target: &Target) -> Result<Vec<Answer<B>>, Complaint> {
    let main = format!("query {}", noun(target));
    let all =
        threads.lwps(target.pid).map_err(|r| Complaint::refused(&main, same_process(target, &main), &r))?;
    let Some(selection) = &target.lwps else {
        return Ok(vec![Answer { pid: target.pid, lwp: None, to: all.iter().find_map(B::of) }]);
    };
    let one = |s: &LwpStatus| Answer { pid: s.lwp.pid, lwp: Some(s.lwp.lwp), to: B::of(s) };
    let found: Vec<_> = all.iter().filter(|s| selection.contains(s.lwp.lwp)).map(one).collect();
    if found.is_empty() {
        return Err(Complaint::new(main, "no thread of the process has such a number"));
    }
    Ok(found)
}

/// `-Q`: shows the threads that are bound to one of `to`, or to anything if `to` is `None`.
///
/// # Errors
/// [`Failure`] if the machine has no bindings, or they cannot be read.
pub fn query_lwps<B: Bond>(
    machine: &dyn Machine,
    to: Option<&[B::Part]>,
    json: bool,
    ctx: &mut Ctx<'_>,
) -> Result<(), Failure> {
    let threads = threads(machine)?;
    let mut single: BTreeMap<Pid, bool> = BTreeMap::new();
    let mut answers = Vec::new();
    for status in read("bindings", threads.bound())? {
        let Some(bond) = B::of(&status).filter(|b| to.is_none_or(|to| to.iter().any(|part| b.has(*part))))
        else {
            continue;
        };
        let Lwp { pid, lwp } = status.lwp;
        // A process with a single thread is shown as the process. So is one that has just exited.
        let only = *single.entry(pid).or_insert_with(|| threads.lwps(pid).map_or(true, |all| all.len() == 1));
        answers.push(Answer { pid, lwp: if only { None } else { Some(lwp) }, to: Some(bond) });
    }
    show(&answers, json, ctx);
    Ok(())
}

/// `-e`: binds a process, then executes the command in it. On a real machine that is this process, so this returns
/// only if the binding is refused, or in a dry run.
///
/// # Errors
/// [`Failure`] if the machine has no bindings, or the command cannot be executed.
pub fn execute<B: Bond>(
    session: &Session,
    start: &Start,
    to: Option<&B>,
    mut changer: Changer<'_>,
    ctx: &mut Ctx<'_>,
) -> Result<Exit, Failure> {
    let threads = threads(session.machine())?;
    let name = start.name();
    let begun = start.begin(session);
    let pid = begun.pid;
    let main = match to {
        Some(to) => format!("execute {name} {} {} {to}", B::PLACE, to.noun()),
        None => format!("execute {name} in the default set"),
    };
    let names = |subject: &Subject| {
        let ours = *subject == Subject::Process(pid) || to.is_some_and(|to| to.subject(subject).is_some());
        ours.then(|| main.clone())
    };
    let bound = changer.attempt(ctx, &main, names, B::prepare_start(threads, pid, to)).is_some();
    start.end(begun, bound, changer, ctx)
}
