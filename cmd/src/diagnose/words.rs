//! The verdict in sentences: each with its figure, the command that shows more, and a possible remedy.

use super::capping::Capping;
use super::gather::{Gathered, Whose};
use super::locks::{Inversion, Lock};
use millpond_model::printable;
use millpond_model::{LwpId, MICROSTATES, Microstate, Nanos, Pid, WaitKind};
use millpond_observe::diagnosis::{Finding, diagnose};
use millpond_observe::digits::to_millionths;
use millpond_observe::percents;
use millpond_observe::waits::Split;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The most locks that are shown.
const LOCKS_SHOWN: usize = 3;

/// A finding in words.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Said {
    /// The kind of finding, one word.
    pub kind: &'static str,
    /// A fraction of 1; cycles per instruction (`memory-latency`), or threads (`disk`, `barrier`, `resource`,
    /// `undecided`).
    pub figure: f64,
    /// A sentence.
    pub sentence: String,
    /// The details below the sentence in the text report.
    pub details: Option<String>,
    /// The command that shows more.
    pub more: String,
    /// A possible remedy; null if nothing is wrong.
    pub help: Option<String>,
}

/// The findings, the most expensive first.
pub fn findings(gathered: &Gathered) -> Vec<Said> {
    diagnose(&gathered.evidence).into_iter().map(|finding| say(finding, gathered)).collect()
}

fn percent(part: f64) -> String {
    format!("{:.0} %", 100.0 * part)
}

fn say(finding: Finding, gathered: &Gathered) -> Said {
    let (microstates, counts, pages) = commands(&gathered.whose);
    let wanted = "of the time that it wants to run";
    let at_a_time = |threads: f64| {
        format!(
            "On average {threads:.1} thread{}",
            if format!("{threads:.1}") == "1.0" { " waits" } else { "s wait" }
        )
    };
    let (kind, figure, sentence, more, help) = match finding {
        Finding::Capped(p) => (
            "cap",
            p,
            match &gathered.capping {
                Some(Capping { holder, cap, .. }) => format!(
                    "A CPU cap keeps it from a CPU for {} {wanted}: {} has a cap of {cap} % of one CPU.",
                    percent(p),
                    printable(&holder.to_string())
                ),
                None => format!("A CPU cap keeps it from a CPU for {} {wanted}.", percent(p)),
            },
            "prstat --caps 5".to_owned(),
            gathered.capping.as_ref().map(|capping| capping.help.as_str()),
        ),
        Finding::WaitsForCpu(p) => (
            "cpu",
            p,
            format!("It is runnable and waits for a CPU for {} {wanted}.", percent(p)),
            microstates,
            Some("a processor set or pool of its own with more CPUs, or fewer runnable threads"),
        ),
        Finding::LockBound(p) => (
            "mutex",
            p,
            format!("It waits for contended mutexes for {} {wanted}.", percent(p)),
            microstates,
            Some("shorter critical sections, or fewer threads; more CPUs do not"),
        ),
        Finding::PriorityInversion(p) => (
            "priority-inversion",
            p,
            format!(
                "{} of its waits for mutexes are priority inversion: the holder has a lower priority and waits for a CPU.",
                percent(p)
            ),
            microstates,
            Some("a priority-inheritance (PI) mutex: PTHREAD_PRIO_INHERIT"),
        ),
        Finding::AllocatorContention(p) => (
            "allocator",
            p,
            format!("{} of its waits for mutexes are for those of the memory allocator.", percent(p)),
            microstates,
            Some("an allocator with caches for each thread (LD_PRELOAD), or more arenas"),
        ),
        Finding::Faults(p) => (
            "faults",
            p,
            format!("It waits for page faults for {} {wanted}.", percent(p)),
            microstates,
            Some("more memory, or its memory touched and locked beforehand"),
        ),
        Finding::Disk(threads) => (
            "disk",
            threads,
            format!("{} for a disk.", at_a_time(threads)),
            microstates,
            Some("fewer and larger requests, or several at a time"),
        ),
        Finding::Barrier(threads) => (
            "barrier",
            threads,
            format!("{} for others at a barrier.", at_a_time(threads)),
            microstates,
            Some("work that is divided evenly, or a CPU for each thread"),
        ),
        Finding::Resource(threads) => (
            "resource",
            threads,
            format!(
                "{} for what other threads hold and use, at a semaphore or a condition variable that serves as a lock.",
                at_a_time(threads)
            ),
            microstates,
            Some("more of what is held (permits, connections), or each of them held for a shorter time"),
        ),
        Finding::Undecided(threads) => (
            "undecided",
            threads,
            format!(
                "{} for what another thread holds, or idly at a condition variable: which, cannot be told.",
                at_a_time(threads)
            ),
            microstates,
            None,
        ),
        Finding::InTheKernel(p, calls) => (
            "kernel",
            p,
            format!(
                "{} of its CPU time is in the kernel{}.",
                percent(p),
                calls.map_or(String::new(), |calls| format!(", with {calls:.0} system calls a second of it"))
            ),
            microstates,
            Some("fewer and larger system calls"),
        ),
        Finding::MemoryLatency(cpi) => (
            "memory-latency",
            cpi,
            format!(
                "An instruction takes {cpi:.2} cycles: it waits for memory. One that computes takes about 1."
            ),
            counts,
            Some("data that is nearer together; memory that is nearer to its CPUs"),
        ),
        Finding::RemoteMemory(p) => (
            "remote-memory",
            p,
            format!("{} of its memory is in other lgroups than its threads.", percent(p)),
            pages,
            Some("a processor set within an lgroup, and psrset --mems local SET"),
        ),
        Finding::Computes(p, cpi) => (
            "computes",
            p,
            format!(
                "It computes in user mode for {} {wanted}{}.",
                percent(p),
                cpi.map_or(String::new(), |cpi| format!(", at {cpi:.2} cycles for an instruction"))
            ),
            counts,
            None,
        ),
        Finding::Idle(p) => (
            "idle",
            p,
            format!("It is idle: its threads sleep or wait for work for {} of all time.", percent(p)),
            microstates,
            None,
        ),
    };
    let details = match finding {
        Finding::LockBound(_) => locks(&gathered.locks, WaitKind::Mutex),
        Finding::Resource(_) => locks(&gathered.locks, WaitKind::Resource),
        Finding::Undecided(_) => locks(&gathered.locks, WaitKind::Unknown),
        Finding::PriorityInversion(_) => gathered.inversion.as_ref().map(inversion),
        _ => None,
    };
    Said { kind, figure: to_millionths(figure), sentence, details, more, help: help.map(str::to_owned) }
}

/// The commands that show more: microstates, counters, pages.
fn commands(whose: &Whose) -> (String, String, String) {
    let counters = "-c pic0=cycles,pic1=instructions";
    match whose {
        Whose::Process(pid) => (
            format!("prstat -mL -p {pid}"),
            format!("cputrack {counters} -p {pid}"),
            format!("lgrpinfo --pages {pid}"),
        ),
        Whose::Pool(pool) => (
            format!("prstat -mL --pool {pool}"),
            format!("cpustat --cpi {counters} 1"),
            format!("prstat -H --pool {pool}"),
        ),
    }
}

/// The locks of a kind, with their shares of the waits for this kind. `None` if no address is known.
fn locks(locks: &[Lock], kind: WaitKind) -> Option<String> {
    let of_kind = || locks.iter().filter(|lock| lock.kind == kind);
    let all: f64 = of_kind().map(|lock| lock.share).sum();
    let one = |(at, lock): (usize, &Lock)| {
        let place = lock.place.as_ref().map_or(String::new(), |place| format!(" in {}", place.name));
        let of_what = if at == 0 { " of these waits" } else { "" };
        let holder = lock.holder.map_or(String::new(), |lwp| format!(", last held by thread {lwp}"));
        format!("{:#x}{place}: {}{of_what}{holder}", lock.at.1, percent(lock.share / all))
    };
    let lines: Vec<String> = of_kind().take(LOCKS_SHOWN).enumerate().map(one).collect();
    (all > 0.0).then(|| lines.join("; "))
}

fn inversion(inversion: &Inversion) -> String {
    let Inversion { address, waiter, holder, latency } = inversion;
    format!(
        "thread {} (priority {}) waits for {address:#x}; thread {} (priority {}) holds it, and waits for a CPU for {} of its time",
        waiter.0.lwp,
        waiter.1,
        holder.0.lwp,
        holder.1,
        percent(*latency)
    )
}

/// The composition of LCK, in percent of all time. `None` if it is unknown or zero.
fn of_lock(gathered: &Gathered) -> Option<String> {
    let shares = &gathered.evidence.shares;
    let (split, total) = (gathered.split?, gathered.spent.total().as_secs_f64());
    let parts = kinds(&split).map(|(word, time)| (word, 100.0 * time.as_secs_f64() / total));
    let any = parts.iter().any(|(_, part)| *part > 0.0);
    let words: Vec<String> = parts.iter().map(|(word, part)| format!("{word} {part:.1}")).collect();
    (any && shares.mutex.is_some()).then(|| format!("of LCK: {}\n", words.join(" ")))
}

fn kinds(split: &Split) -> [(&'static str, Nanos); 6] {
    [
        ("mutex", split.mutex),
        ("barrier", split.barrier),
        ("resource", split.resource),
        ("condition", split.condition),
        ("join", split.join),
        ("undecided", split.unknown),
    ]
}

fn word(kind: WaitKind) -> &'static str {
    match kind {
        WaitKind::Mutex => "mutex",
        WaitKind::Barrier => "barrier",
        WaitKind::Resource => "resource",
        WaitKind::Condition => "condition",
        WaitKind::Join => "join",
        WaitKind::Unknown => "undecided",
    }
}

/// The verdict as text.
pub fn text(gathered: &Gathered, findings: &[Said]) -> String {
    let Gathered { whose, name, threads, processes, elapsed, spent, .. } = gathered;
    let counted = |count: &usize, noun: &str| format!("{count} {noun}{}", if *count == 1 { "" } else { "s" });
    let threads = counted(threads, "thread");
    let who = match whose {
        Whose::Process(pid) => {
            let name = name.as_ref().map_or(String::new(), |name| format!(" ({name})"));
            format!("process {pid}{name}: {threads}")
        }
        Whose::Pool(pool) => {
            let noun =
                if *processes == 1 { "1 process".to_owned() } else { format!("{processes} processes") };
            format!("pool {pool}: {noun}, {threads}")
        }
    };
    let (seconds, wanted) = (elapsed.as_secs_f64(), gathered.evidence.wanted_threads());
    let mut text = format!("{who} for {seconds:.3} s; on average {wanted:.1} wanted to run\n");
    for (number, said) in findings.iter().enumerate() {
        let _ = writeln!(text, "{}. {}", number + 1, said.sentence);
        let help = said.help.as_ref().map(|help| format!("may help: {help}"));
        let lines = said.details.iter().cloned().chain([format!("shows more: {}", said.more)]).chain(help);
        lines.for_each(|line| {
            let _ = writeln!(text, "   {line}");
        });
    }
    let parts = MICROSTATES.iter().zip(percents(spent)).filter(|(state, _)| **state != Microstate::Trap);
    for (state, part) in parts {
        let _ = match part {
            Some(part) => write!(text, "{} {part:.1} ", state.word()),
            None => write!(text, "{} - ", state.word()),
        };
    }
    text + "percent of all time\n" + &of_lock(gathered).unwrap_or_default()
}

/// The report of `diagnose`. Null: unknown.
#[derive(Serialize, JsonSchema)]
pub struct Diagnosis<'g> {
    pid: Option<Pid>,
    /// The pool's name or number.
    pool: Option<&'g str>,
    /// The name of the process.
    name: Option<&'g str>,
    processes: usize,
    threads: usize,
    elapsed_s: f64,
    /// Mean number of threads that wanted to run.
    wanted_threads: f64,
    /// The part of all time in each microstate.
    shares: BTreeMap<String, Option<f64>>,
    /// The part of all time for each kind of wait that counts as LCK.
    lck: Option<BTreeMap<&'static str, f64>>,
    /// The cap that keeps it from CPUs most.
    cap: Option<CapRow>,
    /// System calls per second of CPU time.
    calls_per_s: Option<f64>,
    /// Cycles per instruction.
    cpi: Option<f64>,
    /// The part of its memory outside its threads' home lgroups.
    remote: Option<f64>,
    /// The part of sleep that waits for a disk.
    disk: Option<f64>,
    /// The part of mutex waits that is for mutexes of the memory allocator.
    allocator: Option<f64>,
    /// The longest waits first.
    locks: Vec<LockRow<'g>>,
    findings: &'g [Said],
    /// Sentences about what could not be measured.
    missing: &'g [String],
}

#[derive(Serialize, JsonSchema)]
struct CapRow {
    /// The holder of the cap: `zone web`, `process 204`.
    holder: String,
    /// In percent of one CPU.
    cap_pct: u32,
    /// The part of the time in which threads want to run and caps keep them from a CPU.
    part: f64,
}

#[derive(Serialize, JsonSchema)]
struct LockRow<'g> {
    /// Hexadecimal, with 0x.
    address: String,
    pid: Pid,
    /// `mutex`, `barrier`, `resource`, `condition`, `join` or `undecided`.
    kind: &'static str,
    /// The part of LCK.
    share: f64,
    /// The thread that held it when the last wait began.
    holder: Option<LwpId>,
    /// The memory region of the address.
    place: Option<&'g str>,
    /// Whether it belongs to the memory allocator.
    allocator: Option<bool>,
}

impl<'g> Diagnosis<'g> {
    /// The JSON document of the verdict.
    pub fn of(gathered: &'g Gathered, findings: &'g [Said]) -> Diagnosis<'g> {
        let part = |value: Option<f64>| value.map(to_millionths);
        let (pid, pool) = match &gathered.whose {
            Whose::Process(pid) => (Some(*pid), None),
            Whose::Pool(pool) => (None, Some(pool.as_str())),
        };
        let shares = MICROSTATES.iter().zip(percents(&gathered.spent)).map(|(state, percent)| {
            (state.word().to_lowercase(), percent.map(|percent| to_millionths(percent / 100.0)))
        });
        let lock = |lock: &'g Lock| LockRow {
            address: format!("{:#x}", lock.at.1),
            pid: lock.at.0,
            kind: word(lock.kind),
            share: to_millionths(lock.share),
            holder: lock.holder,
            place: lock.place.as_ref().map(|place| place.name.as_str()),
            allocator: lock.place.as_ref().map(|place| place.of_allocator),
        };
        let evidence = &gathered.evidence;
        let total = gathered.spent.total().as_secs_f64();
        let of_all = |time: Nanos| if total > 0.0 { to_millionths(time.as_secs_f64() / total) } else { 0.0 };
        let lck = |split: Split| kinds(&split).into_iter().map(|(word, time)| (word, of_all(time))).collect();
        Diagnosis {
            pid,
            pool,
            name: gathered.name.as_deref(),
            processes: gathered.processes,
            threads: gathered.threads,
            elapsed_s: to_millionths(gathered.elapsed.as_secs_f64()),
            wanted_threads: to_millionths(evidence.wanted_threads()),
            shares: shares.collect(),
            lck: gathered.split.map(lck),
            cap: gathered.capping.as_ref().map(|capping| CapRow {
                holder: capping.holder.to_string(),
                cap_pct: capping.cap.get(),
                part: to_millionths(capping.part),
            }),
            calls_per_s: part(evidence.calls_per_s),
            cpi: part(evidence.cpi),
            remote: part(evidence.remote),
            disk: part(evidence.disk),
            allocator: part(evidence.allocator),
            locks: gathered.locks.iter().map(lock).collect(),
            findings,
            missing: &gathered.missing,
        }
    }
}
