//! The verdict in sentences: each with its figure, the command that shows more, and what may help.

use super::gather::{Gathered, Lock, Whose};
use millpond_model::{MICROSTATES, Microstate};
use millpond_observe::diagnosis::{Finding, diagnose};
use millpond_observe::percents;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// So many locks are shown.
const LOCKS_SHOWN: usize = 3;

/// A finding in words.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    /// One word for programs.
    pub kind: &'static str,
    /// What is said of it.
    pub figure: f64,
    /// A sentence.
    pub sentence: String,
    /// What stands below it in the text.
    pub details: Option<String>,
    /// The command that shows more.
    pub more: String,
    /// What may help; nothing where nothing is wrong.
    pub help: Option<&'static str>,
}

/// The verdict, the dearest first.
pub fn findings(gathered: &Gathered) -> Vec<Said> {
    diagnose(&gathered.evidence).into_iter().map(|finding| say(finding, gathered)).collect()
}

fn percent(part: f64) -> String {
    format!("{:.0} %", 100.0 * part)
}

fn say(finding: Finding, gathered: &Gathered) -> Said {
    let (microstates, counts, pages) = commands(&gathered.whose);
    let wanted = "of the time that it wants to go on";
    let (kind, figure, sentence, more, help) = match finding {
        Finding::WaitsForProcessor(p) => (
            "processor",
            p,
            format!("It waits for a processor for {} {wanted}.", percent(p)),
            microstates,
            Some("a processor set or pool of its own with more processors, or fewer threads"),
        ),
        Finding::LockBound(p) => (
            "locks",
            p,
            format!("It waits for locks of its own for {} {wanted}.", percent(p)),
            microstates,
            Some("shorter critical sections, or fewer threads; more processors do not"),
        ),
        Finding::AllocatorContention(p) => (
            "allocator",
            p,
            format!("{} of its waits for locks are for those of the allocator of memory.", percent(p)),
            microstates,
            Some("an allocator with caches for each thread (LD_PRELOAD), or more arenas"),
        ),
        Finding::Faults(p) => (
            "faults",
            p,
            format!("It waits for pages for {} {wanted}.", percent(p)),
            microstates,
            Some("more memory, or what it needs touched and locked before"),
        ),
        Finding::Disk(p) => (
            "disk",
            p,
            format!("It waits for a disk for {} of all time.", percent(p)),
            microstates,
            Some("fewer and larger requests, or several at a time"),
        ),
        Finding::InTheKernel(p, calls) => (
            "kernel",
            p,
            format!(
                "{} of its processor time is in the kernel{}.",
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
            Some("data that is nearer together; memory that is nearer to its processors"),
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
            format!("It has nothing to do: it sleeps for {} of all time.", percent(p)),
            microstates,
            None,
        ),
    };
    let details = (kind == "locks").then(|| locks(&gathered.locks)).filter(|text| !text.is_empty());
    Said { kind, figure, sentence, details, more, help }
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

fn locks(locks: &[Lock]) -> String {
    let one = |(at, lock): (usize, &Lock)| {
        let place = lock.place.as_ref().map_or(String::new(), |place| format!(" in {}", place.name));
        let of_what = if at == 0 { " of these waits" } else { "" };
        format!("{:#x}{place}: {}{of_what}", lock.at.1, percent(lock.share))
    };
    let known = locks.iter().filter(|lock| lock.at.1 != 0);
    known.take(LOCKS_SHOWN).enumerate().map(one).collect::<Vec<_>>().join("; ")
}

/// How many threads wanted to go on at a time.
fn wanted_threads(gathered: &Gathered) -> f64 {
    let total: f64 = gathered.spent.times.iter().flatten().map(|time| time.as_secs_f64()).sum();
    let elapsed = gathered.elapsed.as_secs_f64();
    if elapsed > 0.0 { gathered.evidence.shares.wanted() * total / elapsed } else { 0.0 }
}

/// As text.
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
    let (seconds, wanted) = (elapsed.as_secs_f64(), wanted_threads(gathered));
    let mut text = format!("{who} for {seconds:.3} s; of these {wanted:.1} wanted to go on at a time\n");
    for (number, said) in findings.iter().enumerate() {
        let _ = writeln!(text, "{}. {}", number + 1, said.sentence);
        let help = said.help.map(|help| format!("may help: {help}"));
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
    text + "percent of all time\n"
}

/// As an object.
pub fn json(gathered: &Gathered, findings: &[Said]) -> Value {
    let rounded = |value: f64| (value * 1e6).round() / 1e6;
    let part = |value: Option<f64>| value.map(rounded);
    let (pid, pool) = match &gathered.whose {
        Whose::Process(pid) => (Some(pid), None),
        Whose::Pool(pool) => (None, Some(pool)),
    };
    let shares: Map<String, Value> = MICROSTATES
        .iter()
        .zip(percents(&gathered.spent))
        .map(|(state, percent)| (state.word().to_lowercase(), json!(percent.map(|p| rounded(p / 100.0)))))
        .collect();
    let lock = |lock: &Lock| {
        json!({
            "address": format!("{:#x}", lock.at.1), "pid": lock.at.0, "share": rounded(lock.share),
            "place": lock.place.as_ref().map(|place| &place.name),
            "allocator": lock.place.as_ref().map(|place| place.of_allocator),
        })
    };
    let said = |said: &Said| {
        json!({
            "kind": said.kind, "figure": rounded(said.figure), "sentence": said.sentence, "more": said.more,
            "help": said.help,
        })
    };
    let evidence = &gathered.evidence;
    json!({
        "pid": pid, "pool": pool, "name": gathered.name, "processes": gathered.processes,
        "threads": gathered.threads, "elapsed_s": rounded(gathered.elapsed.as_secs_f64()),
        "wanted_threads": rounded(wanted_threads(gathered)), "shares": shares,
        "calls_per_s": part(evidence.calls_per_s), "cpi": part(evidence.cpi), "remote": part(evidence.remote),
        "disk": part(evidence.disk), "allocator": part(evidence.allocator),
        "locks": gathered.locks.iter().map(lock).collect::<Vec<_>>(),
        "findings": findings.iter().map(said).collect::<Vec<_>>(), "missing": gathered.missing,
    })
}
