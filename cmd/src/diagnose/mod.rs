//! Says in sentences what keeps a program, or a pool of programs, from computing.
//!
//! ```text
//! $ millpond diagnose 4211
//! process 4211 (server): 32 threads for 5.000 s; on average 12.4 wanted to run
//! 1. It waits for contended mutexes for 61 % of the time that it wants to run.
//!    0x7f2a08000030 in an arena of malloc: 88 % of these waits; 0x55d0c2002000 in heap: 12 %, last held by thread 4219
//!    shows more: prstat -mL -p 4211
//!    may help: shorter critical sections, or fewer threads; more CPUs do not
//! 2. 88 % of its waits for mutexes are for those of the memory allocator.
//!    shows more: prstat -mL -p 4211
//!    may help: an allocator with caches for each thread (LD_PRELOAD), or more arenas
//! 3. It computes in user mode for 38 % of the time that it wants to run.
//!    …
//! USR 14.1 SYS 0.6 TFL 0.0 DFL 0.0 LCK 84.9 SLP 0.0 LAT 0.4 percent of all time
//! of LCK: mutex 23.6 barrier 0.0 resource 0.0 condition 58.2 join 3.1 undecided 0.0
//! ```
//!
//! # Operands
//!
//! A process by its number, or a pool by its name. `--pool` takes a pool whose name is a number.
//!
//! # The method
//!
//! Top down. Each step is taken only where the one before has not explained the time. Where did the time of the threads go? Waits for CPUs, for contended
//! mutexes, for page faults or for a disk are an answer. If the program computes in the kernel: with how many calls? If it computes in user mode: how many
//! cycles does an instruction take? Many cycles mean that it waits for memory, and then the question is how far away that is.
//!
//! A thread *wants to run* while it runs, is runnable (in a run queue), or waits for a page fault or a contended mutex. Percentages are of this time, so that
//! idle threads change no verdict. A finding below 10 % (page faults: 5 %) is left out. Waits that are not part of it, as for a disk, are given in
//! threads: how many wait at a time, on average.
//!
//! # Locks and idle waits
//!
//! LCK of `prstat -m` is, as on Solaris, every wait for a synchronization object. Only the part for contended mutexes keeps a program from computing:
//!
//! ```text
//! mutex       the lock is held by another thread
//! barrier     the other threads are not there yet; known of simulated machines only, elsewhere a part of condition
//! resource    another thread holds and uses what is waited for: a semaphore or a condition variable that serves as a lock
//! condition   idle at a condition variable, a semaphore, a queue; a thread that is parked (Go, Java)
//! join        pthread_join
//! undecided   what another thread holds, or idle at a condition variable; and waits at more than eight addresses of a thread
//! ```
//!
//! The kernel sees a futex call and not the object. A mutex is known by its operation (PI), by its recorded holder, or by how it is handed on: a
//! thread that waited at the word wakes others at the same word later, and the word has the same value each time.
//! A semaphore or a condition variable that serves as a lock is known by the rhythm of its waits. A worker waits for requests as long as these let it. A thread
//! that is held up waits as long as the threads before it hold what it wants and compute; each of them wakes the next one. If the holders sleep meanwhile
//! it is undecided: they may wait for the next request. If they mostly wait for a CPU it is undecided, too: every thread does so on a busy machine.
//!
//! A lock that is built of parked threads cannot be told from idle waiting, and counts as condition: Java's monitors, `parking_lot`. The details are in
//! docs/explanation/diagnose.md.
//!
//! # Figures
//!
//! ```text
//! waits          the microstates of prstat -m, measured while it watches
//! a disk         sleep in which the kernel waited for a block device
//! locks          the futex addresses that threads waited at longest, and what lies there
//! the allocator  locks in the data of the C library or of another allocator, and in heads of arenas of malloc. The lock of the
//!                list of arenas, and in a few versions of the C library others, count among them; those of a program that was
//!                linked statically cannot be told from its own
//! priority       a thread waits for a mutex whose holder has a lower priority and waits for a CPU for 10 % of its time or more. The
//! inversion      holder is known of PI and robust mutexes, and of mutexes of glibc
//! cycles         counters of the hardware in user mode, in the threads that were there at the beginning; no thread is stopped for it
//! far memory     pages that are not in the lgroup that a thread has its home in, a mean over threads
//! ```
//!
//! What cannot be measured is said and not guessed: without BPF (CAP_BPF and CAP_PERFMON, kernel 6.0) no locks and no waits for CPUs by thread, without
//! hardware counters no cycles. Threads that ended meanwhile are not in the figures.
//!
//! # JSON
//!
//! One object. What is not known is null. Figures are parts of one, but for `memory-latency` (cycles for an instruction) and for `disk`, `barrier`,
//! `resource` and `undecided` (threads at a time). `lck` and `shares` are parts of all time, `share` of a lock is a part of LCK.
//!
//! ```text
//! {"pid":4211,"pool":null,"name":"server","processes":1,"threads":32,"elapsed_s":5.0,"wanted_threads":12.4,
//!  "shares":{"usr":0.141,…},"lck":{"mutex":0.236,"barrier":0.0,"resource":0.0,"condition":0.582,"join":0.031,"undecided":0.0},
//!  "calls_per_s":5200.0,"cpi":null,"remote":null,"disk":0.0,"allocator":0.88,
//!  "locks":[{"address":"0x7f2a08000030","pid":4211,"kind":"mutex","holder":null,"place":"an arena of malloc","allocator":true,"share":0.24}],
//!  "findings":[{"kind":"mutex","figure":0.61,"sentence":"It waits …","details":"0x7f2a …","more":"prstat -mL -p 4211","help":"shorter …"}],
//!  "missing":[]}
//! kinds: cpu, mutex, priority-inversion, allocator, faults, disk, barrier, resource, undecided, kernel, memory-latency, remote-memory, computes, idle
//! ```

mod gather;
mod locks;
mod words;

use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure};
use crate::quiet::time_operand;
use gather::Whose;
use millpond_cli::{Example, Flag, Group, MISUSED, Operands, Parsed, Spec, ValueKind};
use millpond_model::{Nanos, Pid};

/// How long it watches if no time is given.
const USUAL: Nanos = Nanos::from_secs(5);

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "diagnose",
        summary: "say what keeps a program or a pool from computing",
        group: Group::Diagnose,
        forms: &["[--for time] pid | pool", "[--for time] --pool pool"],
        flags: &[
            Flag::long("for", "how long to watch: 10s, 500ms, 2m; seconds without a unit. 5s if not given")
                .value("time", ValueKind::Time),
            Flag::long("pool", "watch what is in this pool, by name or number")
                .value("pool", ValueKind::Pool),
        ],
        in_shell: true,
        operands: Operands { shown: "pid ...", kinds: &[ValueKind::Process] },
        examples: &[
            Example { words: "204", what: "say what keeps process 204 from running" },
            Example { words: "--pool web --for 30s", what: "the same of a pool, over 30 seconds" },
        ],
        status: &[
            ("0", "done; when interrupted, the verdict is about the time until then"),
            ("1", "no such process or pool exists, or nothing can be watched"),
            MISUSED,
        ],
        see_also: &["prstat(1)", "millpond-quiet(1)", "latstat(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let time = parsed.long_value("for").map(|text| time_operand(&text)).transpose()?.unwrap_or(USUAL);
    let whose = whose(parsed)?;
    let session = ctx.reading(&parsed.common)?;
    let gathered = gather::gather(session.machine(), &whose, time, ctx)?;
    let findings = words::findings(&gathered);
    if parsed.common.json {
        ctx.json(&words::json(&gathered, &findings));
    } else {
        ctx.out.text(&words::text(&gathered, &findings));
        gathered.missing.iter().for_each(|line| ctx.warn(format_args!("not known: {line}")));
    }
    Ok(Exit::DONE)
}

fn whose(parsed: &Parsed) -> Result<Whose, Failure> {
    match (parsed.words().as_slice(), parsed.long_value("pool")) {
        ([], Some(pool)) => Ok(Whose::Pool(pool)),
        ([word], None) => Ok(word.parse::<Pid>().map_or_else(|_| Whose::Pool(word.clone()), Whose::Process)),
        ([], None) => Err(Failure::Usage("which process or pool?".to_owned())),
        (words, _) if words.iter().any(|word| word.starts_with('-')) => {
            Err(Failure::Usage("options stand before the process or pool".to_owned()))
        }
        _ => Err(Failure::Usage("one process, or one pool".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(text: &str) -> Result<Whose, Failure> {
        let words: Vec<_> = text.split_whitespace().map(Into::into).collect();
        whose(&millpond_cli::parse(&COMMAND.spec, &words)?)
    }

    #[test]
    fn a_number_is_a_process_and_a_word_a_pool() {
        assert_eq!(meant("12"), Ok(Whose::Process(Pid(12))));
        assert_eq!(meant("web"), Ok(Whose::Pool("web".into())));
        assert_eq!(meant("--pool 12"), Ok(Whose::Pool("12".into())));
        for bad in ["", "1 2", "1 --pool web", "web batch"] {
            assert!(matches!(meant(bad), Err(Failure::Usage(_))), "{bad}");
        }
    }
}
