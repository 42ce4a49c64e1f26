//! Finds the bottleneck of a process or a pool: CPUs, CPU caps (throttling), contended mutexes, the allocator, page faults, disk, system calls
//! or memory latency.
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
//! The operand is a process number or a pool name. `--pool` takes a pool whose name is a number.
//!
//! # Method
//!
//! The analysis is top-down: a step follows only if the one before left time unexplained. The first step splits time
//! into waits (for CPUs, contended mutexes, page faults, disk) and computing. Kernel time is then split by system
//! calls, and user time by cycles per instruction. Many cycles per instruction lead to the distance of memory.
//!
//! A thread *wants to run* while it runs, is runnable, or waits for a page fault or a contended mutex. Percentages are
//! of this time, so idle threads change no verdict. Findings below 10 % (page faults: 5 %) are left out. Disk waits are
//! given as the mean number of waiting threads.
//!
//! # CPU caps
//!
//! A wait for a CPU cap is separated from a wait for a CPU. Caps are quotas of cgroups (`cpu.max`, `cpu.cfs_quota_us`):
//! `CPUQuota=` of units, limits of containers and pods, and values of `prctl` and `zonecfg`. All groups above a process
//! count. The finding names the group and its cap. Its remedy is a command that the machine accepts, or the name of the
//! other program that sets the cap.
//!
//! Linux counts for each group how long its run queues were throttled. The same part of the time in which threads of
//! the group want a CPU is the wait for the cap. It includes other processes of the group.
//!
//! # Locks and idle waits
//!
//! LCK of `prstat -m` is every wait for a synchronization object. Only the first of these parts is lock contention:
//!
//! ```text
//! mutex       another thread holds the lock
//! barrier     other threads have not arrived; known on simulated machines only, elsewhere a part of condition
//! resource    a semaphore or condition variable that serves as a lock, which another thread holds
//! condition   idle at a condition variable, semaphore or queue; a parked thread (Go, Java)
//! join        pthread_join
//! undecided   resource or condition; and all waits of a thread that waits at more than eight addresses
//! ```
//!
//! The kernel sees futex calls, not objects. A mutex is recognized by its PI operation, by its recorded holder, or by
//! its pattern: a thread that waited at an address later wakes others there, with the same value each time. A resource
//! is recognized by the rhythm of its waits: each lasts as long as the earlier threads hold it and compute. If holders
//! sleep, or mostly wait for a CPU, the wait is undecided.
//!
//! A lock made of parked threads (Java monitors, `parking_lot`) looks like an idle wait, and counts as condition.
//! docs/explanation/diagnose.md has the details.
//!
//! # Figures
//!
//! ```text
//! waits          the microstates of prstat -m
//! disk           sleep in which the kernel waited for a block device
//! locks          futex addresses with the longest waits, and what lies there
//! allocator      locks in the data of the C library or another allocator, or in malloc arenas. Some other locks of the
//!                C library count as well; in a statically linked program they cannot be told from its own
//! priority       a thread waits for a mutex whose holder has a lower priority, and waits for a CPU for 10 % of the time
//! inversion      or more. The holder is known of PI, robust and glibc mutexes
//! cycles         hardware counters in user mode, for threads that exist at the start; no thread is stopped for it
//! far memory     pages outside a thread's home lgroup, a mean over threads
//! ```
//!
//! What cannot be measured is listed as missing. Without BPF (CAP_BPF, CAP_PERFMON, kernel 6.0) these are locks and CPU
//! waits per thread, without hardware counters cycles. Threads that end meanwhile are left out.
//!
//! # JSON
//!
//! The schema is docs/reference/json/diagnose.json. Kinds of findings are cap, cpu, mutex, priority-inversion, allocator, faults,
//! disk, barrier, resource, undecided, kernel, memory-latency, remote-memory, computes and idle.

mod capping;
mod gather;
mod locks;
mod words;

use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure};
use crate::json::{self, Describe};
use crate::values::{Bare, time_of};
use gather::Whose;
use millpond_cli::{Example, Flag, Group, MISUSED, Operands, Parsed, Spec, ValueKind};
use millpond_model::{Nanos, Pid};

/// The default duration.
const USUAL: Nanos = Nanos::from_secs(5);

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] = &[json::of::<words::Diagnosis<'_>>()];

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "diagnose",
        summary: "find the bottleneck of a process or a pool",
        group: Group::Slow,
        forms: &["[--for time] pid | pool", "[--for time] --pool pool"],
        flags: &[
            Flag::long("for", "how long to watch: 10s, 500ms, 2m, or seconds; 5 s if not given")
                .value("time", ValueKind::Time),
            Flag::long("pool", "watch the processes in this pool, by name or number")
                .value("pool", ValueKind::Pool),
        ],
        in_shell: true,
        operands: Operands { shown: "pid ...", kinds: &[ValueKind::Process] },
        examples: &[
            Example { words: "204", what: "find the bottleneck of process 204" },
            Example { words: "--pool web --for 30s", what: "find the bottleneck of a pool, over 30 seconds" },
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
    let time = time_of(parsed, "for", Bare::Seconds)?.unwrap_or(USUAL);
    let whose = whose(parsed)?;
    if parsed.common.root.is_some() {
        return Err(Failure::Usage(
            "diagnose watches what goes on, and a captured machine stands still".into(),
        ));
    }
    let session = ctx.reading(&parsed.common)?;
    let gathered = gather::gather(session.machine(), &whose, time, ctx)?;
    let findings = words::findings(&gathered);
    if parsed.common.json {
        ctx.json(&words::Diagnosis::of(&gathered, &findings));
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
