//! Measurements of a program over an interval: reads the machine's facets in the order of the method.

use super::capping::{self, Capping};
use super::locks::{self, Inversion, Lock, Waits};
use crate::ctx::Ctx;
use crate::failure::{Complaint, Failure, facet, read, unless_absent};
use crate::interval::{wait_ends, wait_toward};
use crate::pools;
use millpond_machine::facets::{CensusOptions, Depth, LwpCounting, Wanted};
use millpond_machine::{Machine, Refusal};
use millpond_model::{Counted, LgrpId, Lwp, Microstate, Nanos, Pid, Roster, Spent};
use millpond_observe::diagnosis::{Evidence, Shares, together};
use millpond_observe::waits::Split;
use millpond_observe::{Follower, between, cycles_per_instruction};
use millpond_session::stop_on_signal;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

/// The interval of checks that the process is still alive.
const LOOK: Nanos = Nanos::from_millis(250);
/// The events whose quotient is cycles per instruction.
const EVENTS: [&str; 2] = ["cycles", "instructions"];

/// The subject of the verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whose {
    /// A process.
    Process(Pid),
    /// The processes of a pool, by its name or number.
    Pool(String),
}

/// The collected data.
#[derive(Debug, Clone, PartialEq)]
pub struct Gathered {
    /// The subject of the verdict.
    pub whose: Whose,
    /// The name of the process.
    pub name: Option<String>,
    /// The number of processes at the end.
    pub processes: usize,
    /// The number of threads at the end.
    pub threads: usize,
    /// The time between the two samples.
    pub elapsed: Nanos,
    /// The times of all threads together, by state.
    pub spent: Spent,
    /// The lock time by kind of lock, if it is known.
    pub split: Option<Split>,
    /// Locks, the most expensive first.
    pub locks: Vec<Lock>,
    /// The most expensive priority inversion.
    pub inversion: Option<Inversion>,
    /// The cap with the largest effect.
    pub capping: Option<Capping>,
    /// The basis of the conclusions.
    pub evidence: Evidence,
    /// Missing data, a sentence each.
    pub missing: Vec<String>,
}

/// Samples the machine, waits, and samples it again.
///
/// # Errors
/// [`Failure`] if there is no such process or pool, the pool is empty, or nothing can be observed.
pub fn gather(
    machine: &dyn Machine,
    whose: &Whose,
    time: Nanos,
    ctx: &mut Ctx<'_>,
) -> Result<Gathered, Failure> {
    let census = facet("processes", machine.census())?;
    let options = CensusOptions {
        threads: true,
        depth: Depth::Measured,
        calls: true,
        causes: true,
        ..CensusOptions::default()
    };
    let mut pids = members(machine, whose)?;
    let mut watch = unless_absent("watch processes", census.watch(options))?;
    let before = read("processes", watch.sample())?;
    check(&before, whose, &pids)?;
    let mut missing: Vec<String> =
        before.missing.iter().filter(|line| concerns(line, &pids)).cloned().collect();
    let counting =
        count(machine, &lwps(&before, &pids)).map_err(|why| missing.push(format!("cycles: {why}")));
    let caps = capping::read(machine, &pids);
    wait(machine, whose, time, ctx);
    let caps_after = capping::read(machine, &pids);
    let counted = counting.ok().map(|mut counting| counting.read());
    let after = read("processes", watch.sample())?;
    if matches!(whose, Whose::Pool(_)) {
        pids.extend(members(machine, whose)?);
    }
    check(&after, whose, &pids)?;
    let (looked_for, known) =
        (after.at - before.at, lwps(&before, &pids).into_iter().collect::<BTreeSet<_>>());
    let waits = Waits::between(&before, &after, &pids);
    let mut follower = Follower::default();
    follower.begin(&before);
    let picture = follower.next(after);
    let roster = &picture.roster;
    let of_ours =
        || roster.threads.iter().zip(&picture.thread_spent).filter(|(t, _)| pids.contains(&t.lwp.pid));
    let spent: Vec<Spent> = of_ours().map(|(_, spent)| *spent).collect();
    let mut by_pid: BTreeMap<Pid, Vec<&Spent>> = BTreeMap::new();
    of_ours().for_each(|(thread, spent)| by_pid.entry(thread.lwp.pid).or_default().push(spent));
    let by_pid = by_pid.into_iter().map(|(pid, spent)| (pid, together(spent))).collect();
    let capping = capping::between(machine, &caps, &caps_after, &by_pid);
    let sum = together(&spent);
    // A busy machine may read threads at very different moments. The times of a thread are between its own two
    // readings.
    let of_known =
        of_ours().filter(|(thread, _)| known.contains(&thread.lwp)).map(|(_, spent)| spent.total());
    let elapsed = of_known.max().filter(|time| *time > Nanos(0)).unwrap_or(looked_for);
    let lock_time = time_of(&sum, Microstate::Lock);
    let split = waits.as_ref().map(|waits| waits.split(lock_time));
    let locks = waits.as_ref().map_or_else(Vec::new, |waits| waits.locks(machine, lock_time));
    let (inverted, inversion) = waits.as_ref().map_or((0.0, None), |waits| waits.inverted(&picture));
    let found: BTreeSet<Pid> = roster.processes.iter().map(|p| p.pid).filter(|p| pids.contains(p)).collect();
    let remote = remote(machine, &found).unwrap_or_else(|refusal| {
        missing.push(format!("where memory is: {}", refusal.reason));
        None
    });
    let evidence = Evidence {
        shares: Shares::of(&sum, split.as_ref()),
        capped: capping.as_ref().map(|capping| capping.part),
        threads: threads_at_a_time(&sum, elapsed),
        calls_per_s: calls_per_s(&sum),
        cpi: counted.as_ref().and_then(|readings| cpi(readings.iter().map(|r| &r.counted))),
        remote,
        disk: waits.as_ref().map(|waits| part(waits.disk, time_of(&sum, Microstate::Sleep))),
        allocator: locks::allocator(&locks),
        inverted,
    };
    let name = roster.processes.iter().find(|p| Whose::Process(p.pid) == *whose).map(|p| p.name.clone());
    let (processes, threads) = (found.len(), spent.len());
    Ok(Gathered {
        whose: whose.clone(),
        name,
        processes,
        threads,
        elapsed,
        spent: sum,
        split,
        locks,
        inversion,
        capping,
        evidence,
        missing,
    })
}

/// Whether missing data of the machine concerns these processes. Lines about TRP are left out, because the manual
/// explains them.
fn concerns(line: &str, pids: &BTreeSet<Pid>) -> bool {
    let names = |line: &str| {
        let numbers = line.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse::<u32>().ok());
        numbers.map(Pid).any(|pid| pids.contains(&pid))
    };
    !line.starts_with("TRP: ") && (!line.starts_with("microstates of ") || names(line))
}

/// The processes of the subject.
fn members(machine: &dyn Machine, whose: &Whose) -> Result<BTreeSet<Pid>, Failure> {
    match whose {
        Whose::Process(pid) => Ok(BTreeSet::from([*pid])),
        Whose::Pool(name) => {
            if pools::state_if_any(machine)?.is_none() {
                let complaint = Complaint::new(format!("diagnose pool {name}"), "pools are disabled");
                return Err(complaint.hint("processes are named by number: prstat lists them").into());
            }
            pools::pids_in(machine, std::slice::from_ref(name), "diagnose")
        }
    }
}

/// Refuses a subject without threads.
fn check(roster: &Roster, whose: &Whose, pids: &BTreeSet<Pid>) -> Result<(), Failure> {
    if roster.threads.iter().any(|thread| pids.contains(&thread.lwp.pid)) {
        return Ok(());
    }
    Err(match whose {
        Whose::Process(pid) => Complaint::new(format!("diagnose process {pid}"), "there is no such process")
            .hint("prstat lists the busiest; a word in place of a number is a pool"),
        Whose::Pool(name) => Complaint::new(format!("diagnose pool {name}"), "no process is in it")
            .hint(format!("poolbind -p {name} PID brings one there")),
    }
    .into())
}

fn lwps(roster: &Roster, pids: &BTreeSet<Pid>) -> Vec<Lwp> {
    roster.threads.iter().map(|thread| thread.lwp).filter(|lwp| pids.contains(&lwp.pid)).collect()
}

/// Waits until the time is over, the process ends, or the user interrupts.
fn wait(machine: &dyn Machine, whose: &Whose, time: Nanos, ctx: &mut Ctx<'_>) {
    let (clock, stop) = (machine.clock(), stop_on_signal());
    let end = clock.now() + time;
    let is_there = || match (whose, machine.threads()) {
        (Whose::Process(pid), Ok(threads)) => threads.lwps(*pid).is_ok(),
        _ => true,
    };
    while clock.now() < end && !stop.load(Ordering::Relaxed) && !ctx.out.is_closed() && is_there() {
        wait_toward(clock, LOOK, end, ctx);
    }
    wait_ends(ctx);
}

/// Counts cycles and instructions in user mode.
fn count<'m>(machine: &'m dyn Machine, lwps: &[Lwp]) -> Result<Box<dyn LwpCounting + 'm>, String> {
    let counters = machine.hardware_counters().map_err(|absent| absent.why)?;
    counters.hardware().map_err(|absent| absent.why)?;
    let wanted = |(counter, event): (usize, &str)| Wanted {
        counter: u32::try_from(counter).unwrap_or(0),
        event: event.to_owned(),
        user: true,
        sys: false,
    };
    let set: Vec<Wanted> = EVENTS.into_iter().enumerate().map(wanted).collect();
    counters.count_lwps(lwps, &set).map_err(|refusal| refusal.reason.to_string())
}

/// Cycles per instruction of all threads together.
fn cpi<'a>(readings: impl Iterator<Item = &'a Counted>) -> Option<f64> {
    let counts = readings.filter_map(|counted| between(&Counted::default(), counted).counts);
    let (cycles, instructions) = counts.fold((0_u64, 0_u64), |(cycles, instructions), counts| {
        let count = |at: usize| counts.get(at).copied().unwrap_or(0);
        (cycles.saturating_add(count(0)), instructions.saturating_add(count(1)))
    });
    cycles_per_instruction(cycles, instructions)
}

fn time_of(spent: &Spent, state: Microstate) -> Nanos {
    spent.times[state.index()].unwrap_or(Nanos(0))
}

/// The mean number of threads: their total time divided by the elapsed time. Stopped threads are not included.
fn threads_at_a_time(spent: &Spent, elapsed: Nanos) -> f64 {
    let total: f64 = spent.times.iter().flatten().map(|time| time.as_secs_f64()).sum();
    if elapsed > Nanos(0) { total / elapsed.as_secs_f64() } else { 0.0 }
}

pub(super) fn part(of: Nanos, whole: Nanos) -> f64 {
    if whole > Nanos(0) { (of.as_secs_f64() / whole.as_secs_f64()).min(1.0) } else { 0.0 }
}

fn calls_per_s(spent: &Spent) -> Option<f64> {
    let time = time_of(spent, Microstate::User) + time_of(spent, Microstate::System);
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let calls = spent.calls? as f64;
    (time > Nanos(0)).then(|| calls / time.as_secs_f64())
}

/// The part of the processes' memory that is remote. For each thread, this is the memory outside of its home; the
/// result is the mean over threads. `None` if all memory is equally far.
fn remote(machine: &dyn Machine, pids: &BTreeSet<Pid>) -> Result<Option<f64>, Refusal> {
    let lgroups = machine.lgroups()?;
    if lgroups.nodes()?.iter().filter(|node| node.memory.is_some()).count() < 2 {
        return Ok(None);
    }
    let (mut far, mut all) = (0.0, 0.0);
    for pid in pids {
        let (pages, homes) = (lgroups.pages(*pid)?, lgroups.homes(*pid)?);
        #[expect(clippy::cast_precision_loss, reason = "a share for people")]
        let kib = |found: Option<LgrpId>| match found {
            None => pages.values().sum::<u64>() as f64,
            Some(home) => pages.get(&home).copied().unwrap_or(0) as f64,
        };
        let whole = kib(None);
        #[expect(clippy::cast_precision_loss, reason = "a mean")]
        let threads = homes.len().max(1) as f64;
        let near: f64 = homes.iter().map(|thread| kib(Some(thread.home))).sum::<f64>() / threads;
        (far, all) = (far + whole - near, all + whole);
    }
    Ok((all > 0.0).then(|| far / all))
}
