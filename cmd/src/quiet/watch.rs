//! The measurement: finds or starts the job, and watches until the time is over, the command ends, or the user interrupts.

use super::options::Options;
use super::remedy::Ground;
use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Failure, facet, read, unless_absent};
use crate::interval::{wait_ends, wait_toward};
use crate::operands::expand;
use crate::remedy::{self, Tried};
use crate::start::started;
use millpond_machine::facets::{Job, Launch, LaunchMode, Program, WatchedJob};
use millpond_machine::{Machine, Subject};
use millpond_model::{CpuSet, Disturbed, KernelSettings, Nanos, PsetId, State, Stretch};
use millpond_observe::{Quiet, QuietLine};
use millpond_session::{Session, stop_on_signal};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

/// Interval between updates of the job, checks of the set, and reads of stretches.
const LOOK: Nanos = Nanos::from_millis(250);

/// The most stretches that are kept. Beyond that the shortest are dropped.
const STRETCHES_MAX: usize = 20_000;

/// The result of a measurement.
pub struct Run {
    /// The CPUs.
    pub cpus: CpuSet,
    /// The last reading.
    pub seen: Disturbed,
    /// The same as a table.
    pub quiet: Quiet,
    /// Changes of the machine during the measurement, each as a sentence.
    pub events: Vec<String>,
    /// Whether the measurement is invalid because of such a change, or the command failed.
    pub failed: bool,
    /// The state of the machine, for checks of remedies.
    pub ground: Ground,
    /// Remedies that the machine refuses, and the texts in their place.
    pub refused: BTreeMap<String, String>,
    /// The set, if no process is bound to it.
    pub jobless: Option<PsetId>,
}

impl Run {
    /// The remedy for a line of the table.
    pub fn remedy(&self, line: &QuietLine) -> String {
        let remedy = self.ground.remedy(&line.cause, line.pid, &line.cpus);
        self.refused.get(&remedy).cloned().unwrap_or(remedy)
    }
}

/// Measures.
///
/// # Errors
/// [`Failure`] if the set, a CPU or a process does not exist, and if the machine cannot be watched.
pub fn run(session: &Session, options: &Options, ctx: &mut Ctx<'_>) -> Result<Run, Failure> {
    let machine = session.machine();
    let disturbances = facet("disturbances", machine.disturbances())?;
    let cpus = processors(machine, options)?;
    let stop = stop_on_signal();
    let set = options.set.filter(|set| !set.is_default());
    // The members of the set are the job, unless other processes were named.
    let sets = set.filter(|_| options.pids.is_empty()).into_iter().collect();
    let job = Job { sets, pids: options.pids.clone() };
    let what = WatchedJob {
        cpus: cpus.clone(),
        job,
        worth_telling: options.worth_telling(),
        by_counts: options.by_counts,
    };
    let mut watch = unless_absent("watch CPUs", disturbances.watch(&what))?;
    let clock = machine.clock();
    let end = options.time.map_or(Nanos(u64::MAX), |time| clock.now() + time);
    let jobless = what
        .job
        .sets
        .first()
        .copied()
        .filter(|set| options.command.is_empty() && !has_members(machine, *set));
    // Attaching takes time, so the command is started afterwards.
    let mut child = start(session, options, ctx)?;
    if let Some(child) = &child {
        read("processes", watch.join(child.pid()))?;
    }
    let mut changes = Changes { machine, set, before: cpus.clone(), events: Vec::new(), failed: false };
    let mut stretches: Vec<Stretch> = Vec::new();
    // The terminal belongs to the command.
    ctx.shows_progress &= child.is_none();
    let mut goes_on = true;
    while goes_on {
        wait_toward(clock, LOOK, end, ctx);
        let ended = child.as_ref().is_some_and(|child| child.has_ended());
        if ended || clock.now() >= end || stop.load(Ordering::Relaxed) || ctx.out.is_closed() {
            break;
        }
        goes_on = changes.look();
        if goes_on {
            keep(&mut stretches, read("disturbances", watch.collect())?.stretches);
        }
    }
    // The last reading comes first: the checks below take time that should not be measured.
    let mut seen = read("disturbances", watch.collect())?;
    if goes_on {
        changes.look();
    }
    wait_ends(ctx);
    keep(&mut stretches, std::mem::take(&mut seen.stretches));
    let ended = child.as_mut().filter(|child| child.has_ended()).map(|child| child.exit().status);
    if let Some(status) = ended.filter(|status| *status != 0) {
        changes.fail(format!("the command ended with status {status}"));
    }
    let quiet = Quiet::of(&seen, stretches);
    let ground = ground(machine, &cpus, seen.settings.clone());
    let remedies: BTreeSet<String> =
        quiet.lines.iter().map(|line| ground.remedy(&line.cause, line.pid, &line.cpus)).collect();
    let refused = remedies
        .into_iter()
        .filter_map(|text| Some((text.clone(), refused(session, &text, ctx.commands())?)))
        .collect();
    Ok(Run { cpus, seen, quiet, events: changes.events, failed: changes.failed, ground, refused, jobless })
}

/// The text in place of a remedy that the machine refuses.
fn refused(session: &Session, text: &str, table: &'static [Command]) -> Option<String> {
    remedy::commands(text, table).iter().find_map(|command| match remedy::tried(session, command, table) {
        Tried::Accepted => None,
        Tried::Refused(_, Some(instead)) => Some(instead),
        Tried::Refused(why, None) => Some(format!("none: {why}")),
    })
}

/// Whether a thread is bound to a set. True if that cannot be read.
fn has_members(machine: &dyn Machine, set: PsetId) -> bool {
    let bound = machine.threads().ok().and_then(|threads| threads.bound().ok());
    bound.is_none_or(|bound| bound.iter().any(|status| status.set == set))
}

/// The readable state of the machine.
fn ground(machine: &dyn Machine, cpus: &CpuSet, settings: KernelSettings) -> Ground {
    let states =
        machine.processors().ok().and_then(|processors| processors.states().ok()).unwrap_or_default();
    let those = |wanted: &dyn Fn(State) -> bool| {
        states.iter().filter(|status| wanted(status.state)).map(|status| status.cpu).collect::<CpuSet>()
    };
    let reserved = machine.processors().ok().and_then(|processors| processors.reserved().ok());
    Ground {
        cpus: cpus.clone(),
        online: those(&State::runs_threads),
        reserved: reserved.unwrap_or_default().partitions,
        no_intr: those(&|state| state == State::NoIntr),
        sets: machine.psets().ok().and_then(|psets| psets.list().ok()).unwrap_or_default(),
        fences: machine
            .fences()
            .ok()
            .and_then(|fences| fences.list().ok())
            .unwrap_or_default()
            .into_iter()
            .map(|fence| (fence.set, fence.fencing.name.to_string()))
            .collect(),
        settings,
    }
}

fn keep(all: &mut Vec<Stretch>, more: Vec<Stretch>) {
    all.extend(more);
    if all.len() > 2 * STRETCHES_MAX {
        all.sort_by_key(|stretch| std::cmp::Reverse(stretch.length));
        all.truncate(STRETCHES_MAX);
    }
}

/// The CPUs to be watched, all of them on-line.
fn processors(machine: &dyn Machine, options: &Options) -> Result<CpuSet, Failure> {
    let (what, cpus) = match (options.set, &options.cpus) {
        (_, Some(list)) => {
            let named = expand(list, machine, |what| format!("watch {what}"))?;
            let cpus = named.into_iter().collect::<Result<CpuSet, Complaint>>()?;
            ("watch these CPUs".to_owned(), cpus)
        }
        (Some(set), None) => (format!("watch processor set {set}"), of_set(machine, set)?),
        (None, None) => ("watch these processes".to_owned(), of_processes(machine, options)?),
    };
    if cpus.is_empty() {
        let hint = options.set.map(|set| format!("assign CPUs to it first: psrset -a {set}"));
        return Err(Complaint { what, reason: "it has no CPUs".to_owned(), hint }.into());
    }
    let online = online(machine)?;
    if let Some(cpu) = cpus.iter().find(|cpu| !online.contains(*cpu)) {
        let present = crate::operands::present(machine)?;
        let complaint = if present.contains(cpu) {
            Complaint::new(what, format!("CPU {cpu} is off-line"))
                .hint(format!("bring it on-line first: psradm -n {cpu}"))
        } else {
            Complaint::new(what, format!("there is no CPU {cpu} (this machine has {present})"))
        };
        return Err(complaint.into());
    }
    Ok(cpus)
}

fn online(machine: &dyn Machine) -> Result<CpuSet, Failure> {
    let states = read("processors", facet("processors", machine.processors())?.states())?;
    Ok(states.into_iter().filter(|status| status.state.runs_threads()).map(|status| status.cpu).collect())
}

fn of_set(machine: &dyn Machine, set: PsetId) -> Result<CpuSet, Failure> {
    let sets = read("processor sets", facet("processor sets", machine.psets())?.list())?;
    if set.is_default() {
        let others: CpuSet = sets.iter().flat_map(|set| set.members.iter().copied()).collect();
        return Ok(&online(machine)? - &others);
    }
    let found = sets.into_iter().find(|found| found.id == set).map(|found| found.cpus());
    found.ok_or_else(|| {
        let complaint =
            Complaint::new(format!("watch processor set {set}"), "there is no such processor set");
        complaint.hint("psrset -i lists the sets that exist").into()
    })
}

/// The CPUs on which threads of the processes may run.
fn of_processes(machine: &dyn Machine, options: &Options) -> Result<CpuSet, Failure> {
    let threads = facet("threads", machine.threads())?;
    let mut cpus = CpuSet::new();
    for pid in &options.pids {
        let lwps = threads.lwps(*pid).map_err(|refusal| {
            Complaint::refused(
                &format!("watch process {pid}"),
                |_| Some(format!("watch process {pid}")),
                &refusal,
            )
        })?;
        cpus = lwps.iter().fold(cpus, |cpus, lwp| &cpus | &lwp.allowed);
    }
    Ok(&cpus & &online(machine)?)
}

/// Starts the command in the set: a child process, or a workload on a simulated machine.
fn start<'s>(
    session: &'s Session,
    options: &Options,
    ctx: &mut Ctx<'_>,
) -> Result<Option<Box<dyn Program + 's>>, Failure> {
    let (Some(set), Some(name)) = (options.set, options.command.first()) else { return Ok(None) };
    let what = format!("execute {}", name.to_string_lossy());
    let threads = facet("threads", session.machine().threads())?;
    let launch = Launch { words: &options.command, mode: LaunchMode::Foreground(set) };
    let program = threads.launch(&launch);
    let program = program.map_err(|refusal| {
        Complaint::refused(
            &what,
            |subject| matches!(subject, Subject::Process(_)).then(|| what.clone()),
            &refusal,
        )
    })?;
    program.notes().iter().for_each(|note| ctx.warn(note));
    if session.simulation().is_some() {
        ctx.out.line(started(name.to_string_lossy().rsplit('/').next().unwrap_or_default(), program.pid()));
        return Ok(None);
    }
    Ok(Some(program))
}

/// Changes of the machine while it is watched.
struct Changes<'a> {
    machine: &'a dyn Machine,
    set: Option<PsetId>,
    /// The watched CPUs that were on-line at the last check.
    before: CpuSet,
    events: Vec<String>,
    failed: bool,
}

impl Changes<'_> {
    fn fail(&mut self, what: String) {
        self.events.push(what);
        self.failed = true;
    }

    /// Checks the machine; `false` if no watched CPU is left.
    fn look(&mut self) -> bool {
        if let Ok(online) = online(self.machine) {
            let left = &self.before - &online;
            for cpu in left.iter() {
                self.fail(format!("CPU {cpu} went off-line meanwhile"));
            }
            self.before = &self.before - &left;
        }
        let sets = self.machine.psets().ok().and_then(|psets| psets.list().ok());
        if let (Some(set), Some(sets)) = (self.set, sets) {
            let Some(found) = sets.iter().find(|found| found.id == set) else {
                self.fail(format!("processor set {set} ended meanwhile"));
                return false;
            };
            let left = &self.before - &found.cpus();
            for cpu in left.iter() {
                self.fail(format!("CPU {cpu} left set {set} meanwhile"));
            }
            self.before = &self.before - &left;
        }
        !self.before.is_empty()
    }
}
