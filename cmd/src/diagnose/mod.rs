//! Says in sentences what keeps a program, or what is in a pool, from computing.
//!
//! ```text
//! $ millpond diagnose 4211
//! process 4211 (server): 32 threads for 5.000 s; of these 12.4 wanted to go on at a time
//! 1. It waits for locks of its own for 61 % of the time that it wants to go on.
//!    0x7f2a08000030 in an arena of malloc: 88 % of these waits; 0x55d0c2002000 in heap: 12 %
//!    shows more: prstat -mL -p 4211
//!    may help: shorter critical sections, or fewer threads; more processors do not
//! 2. 88 % of its waits for locks are for those of the allocator of memory.
//!    shows more: prstat -mL -p 4211
//!    may help: an allocator with caches for each thread (LD_PRELOAD), or more arenas
//! 3. It computes in user mode for 38 % of the time that it wants to go on.
//!    …
//! USR 14.1 SYS 0.6 TFL 0.0 DFL 0.0 LCK 23.6 SLP 61.2 LAT 0.4 percent of all time
//! ```
//!
//! # Operands
//!
//! A process by its number, or a pool by its name. A pool whose name is a number is meant by `--pool`.
//!
//! # Options
//!
//! ```text
//! --for TIME    how long to look: 10s, 500ms, 2m; seconds without a unit. 5s if not given
//! --pool POOL   what is in this pool, by name or number
//! ```
//!
//! # The method
//!
//! Top down, and each step only where the one before has not explained the time. Where did the time of the threads go? If they wait for processors, for
//! each other, for pages or for a disk, that is the answer. If they compute in the kernel: with how many calls. If they compute in user mode: how many
//! cycles does an instruction take? If these are many they wait for memory, and the question is how far away it is.
//!
//! Sleep is no loss by itself, since a service sleeps while nobody asks: shares are of the time in which threads wanted to go on. What takes less
//! than 10 % of it (waits for pages: 5 %) is not worth a word.
//!
//! # Figures
//!
//! ```text
//! waits          the microstates of prstat -m, measured while it looks
//! a disk         sleep in which the kernel waited for a device of blocks
//! locks          the dearest addresses that threads waited for (futex), and what lies there
//! the allocator  locks in the data of the C library or of another allocator, and in heads of arenas of malloc. The lock of the
//!                list of arenas, and in a few versions of the C library others, count among them; those of a program that was
//!                linked statically cannot be told from its own
//! cycles         counters of the hardware in user mode, in the threads that were there at the beginning; nobody is stopped for it
//! far memory     pages that are not in the lgroup that a thread has its home in, a mean over threads
//! ```
//!
//! What cannot be measured here is said, and not guessed: without programs in the kernel (CAP_BPF and CAP_PERFMON, kernel 6.0) there are no locks, and
//! without counters no cycles. Threads that ended while one looked are not in the figures.
//!
//! # JSON
//!
//! One object. What is not known is null; figures are parts of one, but for `memory-latency`: cycles for an instruction.
//!
//! ```text
//! {"pid":4211,"pool":null,"name":"server","processes":1,"threads":32,"elapsed_s":5.0,"wanted_threads":12.4,
//!  "shares":{"usr":0.141,…},"calls_per_s":5200.0,"cpi":null,"remote":null,"disk":0.0,"allocator":0.88,
//!  "locks":[{"address":"0x7f2a08000030","pid":4211,"place":"an arena of malloc","allocator":true,"share":0.88}],
//!  "findings":[{"kind":"locks","figure":0.61,"sentence":"It waits …","more":"prstat -mL -p 4211","help":"shorter …"}],
//!  "missing":[]}
//! kinds: processor, locks, allocator, faults, disk, kernel, memory-latency, remote-memory, computes, idle
//! ```
//!
//! # Status
//!
//! 0 (also when interrupted: then it is about the time until then), or 1 when there is no such process or pool, or nothing can be watched, or 2 for what makes no
//! sense.

mod gather;
mod words;

use crate::args::Parsed;
use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure};
use crate::quiet::time_operand;
use gather::Whose;
use millpond_model::{Nanos, Pid};

/// How long is looked without a word about it.
const USUAL: Nanos = Nanos::from_secs(5);

pub(crate) const COMMAND: Command = Command {
    name: "diagnose",
    applet: false,
    summary: "say what keeps a program or a pool from computing",
    usage: &["[--for time] pid | pool", "[--for time] --pool pool"],
    letters: "",
    longs: &["for:", "pool:"],
    source: include_str!("mod.rs"),
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
    use crate::args;

    fn meant(text: &str) -> Result<Whose, Failure> {
        let words: Vec<_> = text.split_whitespace().map(Into::into).collect();
        whose(&args::parse(COMMAND.letters, COMMAND.longs, &words)?)
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
