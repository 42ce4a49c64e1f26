//! Finds memory leaks and corruption in a process, or in its core, that uses Millpond's object caches or its malloc.
//!
//! ```text
//! $ LD_PRELOAD=libmillpond_malloc.so UMEM_DEBUG=default server &
//! $ millpond umem findleaks 4211
//! CACHE           LEAKED  BYTES  BUFFER        BUFCTL        CALLER
//! umem_malloc_48       3    144  7f2a08001008  7f2a09000400  server`remember+0x1c
//! umem_malloc_16       1     16  7f2a08002048  7f2a09001200  libc.so.6`strdup+0x1a
//! ------------------------------------------------------------------------
//!            Total       4 buffers, 160 bytes
//! process 4211 (server) stood still for 41.200 ms, 895.2 ms for each GiB: 0.4 MiB of roots, 46.7 MiB of buffers, threads: 2
//! ```
//!
//! # Words
//!
//! ```text
//! stat TARGET                   figures of each cache; the process runs on
//! findleaks TARGET              leaked buffers, by allocation stack
//! status TARGET                 state, logs, and the latest messages of the library
//! verify TARGET                 buffer overflows, use after free and double frees
//! whatis TARGET ADDRESS...      what an address is
//! bufctl TARGET ADDRESS         allocations and frees of a buffer with their stacks, latest first
//! log TARGET                    the latest transactions of all buffers, latest first
//! ```
//!
//! A target is a process number, or the file name of a core (`./4211` if its name is a number). Addresses are
//! hexadecimal.
//!
//! # Requirements
//!
//! The process is linked with libmillpond_rt, or was started with LD_PRELOAD=libmillpond_malloc.so. Allocation stacks
//! need UMEM_DEBUG=audit or default. Buffer overflows are found with guards or default. The log needs
//! UMEM_LOGGING=transaction. Names of functions come from the files that the process has mapped; for a core, from the
//! present versions of these files.
//!
//! # Leaks
//!
//! A buffer is in use if a register, a stack, other writable memory or a buffer in use contains one of its addresses.
//! Otherwise it is a leak. Addresses that a program stores encoded are not recognized. BYTES is the size of the cache's
//! buffers, or of a large buffer (`oversize`). CALLER is the first function outside the allocator, or a dash without
//! allocation stacks.
//!
//! # The pause
//!
//! `findleaks` and `verify` stop every thread of a process while they read, by ptrace and without a signal, and report
//! for how long. A thread that is exchanging buffers at that time is continued and stopped again. System calls that the
//! kernel does not restart (`epoll_wait`) return early, as after any stop. All other subcommands read while the process
//! runs, so that figures may be from different times. Nothing is written to the process.
//!
//! # Columns
//!
//! ```text
//! stat       BUFSIZE bytes of a buffer; INUSE with users; MAGAZINE free in magazines of threads and the depot; TOTAL of all slabs;
//!            MEMORY bytes of all slabs; ALLOCS and FAILS ever; FLAGS what is checked
//! findleaks  LEAKED buffers; BUFFER and BUFCTL the first of them, in hexadecimal
//! log        T-seconds before the latest record, the buffer, the cache, and the stack below
//! ```
//!
//! # JSON
//!
//! The schema is docs/reference/json/umem.json. `heaps` has an object for each copy of the library in the process, usually
//! one. Addresses are hexadecimal strings.

mod address;
mod checks;
mod leaks;
mod show;
mod stat;
mod target;

use crate::command::Command;
use crate::ctx::Ctx;
use crate::dress::Dress;
use crate::failure::{Exit, Failure};
use crate::json::{self, Describe};
use crate::values;
use millpond_cli::{Example, Flag, Group, MISUSED, Parsed, Spec, ValueKind};
use millpond_machine::facets::Image;
use millpond_umem::{FindError, Heap, Memory};
use schemars::JsonSchema;
use serde::Serialize;
use target::Asked;

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] = &[json::of::<Heaps>()];

#[derive(Serialize, JsonSchema)]
struct Heaps {
    /// One for each copy of the library in the process.
    heaps: Vec<Document>,
}

/// The data of one copy of the library.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Document {
    Stat(stat::Statistics),
    Findleaks(leaks::Leaks),
    Status(checks::Status),
    Verify(checks::Integrity),
    Whatis(address::Addresses),
    Transactions(show::Transactions),
}

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "umem",
        summary: "find leaks and corruption in the object caches of a process or a core",
        group: Group::Slow,
        forms: &[
            "stat [-u] [--csv] pid | core",
            "status | verify [--csv] pid | core",
            "findleaks [-dv] [--csv] pid | core",
            "whatis pid | core address ...",
            "bufctl pid | core address",
            "log [--log name] [--most n] pid | core",
        ],
        flags: &[
            Flag::letter('d', "findleaks: a block for each leak, with the whole stack"),
            Flag::letter('v', "findleaks: how much was looked at"),
            Flag::letter('u', "stat: only caches that were ever used"),
            Flag::long("csv", "commas, for spreadsheets, in place of the table (stat, findleaks, verify)"),
            Flag::long("log", "log: transaction (if not given), fail, or slab")
                .value("name", ValueKind::Word(&["transaction", "fail", "slab"])),
            Flag::long("most", "log: so many records; 1000 if not given").value("n", ValueKind::Text),
        ],
        permutes: true,
        examples: &[
            Example { words: "findleaks 204", what: "list what process 204 leaked, by allocation stack" },
            Example { words: "verify core.204", what: "look for corruption in a core file" },
        ],
        status: &[
            ("0", "done"),
            (
                "1",
                "findleaks found a leak, verify found corruption, bufctl knows nothing, no such \
                 process or caches exist, or looking is not permitted",
            ),
            MISUSED,
        ],
        see_also: &["millpond-diagnose(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

/// The requested report.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Question {
    Stat { used: bool },
    Findleaks { blocks: bool, effort: bool },
    Status,
    Verify,
    Whatis(Vec<u64>),
    Bufctl(u64),
    Log { which: usize, most: usize },
}

/// The default limit of records of a log.
const USUAL: usize = 1000;

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let (question, target) = question(parsed)?;
    let dress = Dress::of(parsed, parsed.common.json, &[Dress::Csv, Dress::Json])?;
    if dress == Dress::Csv
        && !matches!(question, Question::Stat { .. } | Question::Findleaks { .. } | Question::Verify)
    {
        return Err(Failure::Usage("--csv goes with stat, findleaks and verify".into()));
    }
    let image = target::open(&target, parsed, ctx)?;
    look(&*image, &target, &question, dress, ctx)
}

/// Prints the report about each copy of the library.
fn look(
    image: &dyn Image,
    target: &str,
    question: &Question,
    dress: Dress,
    ctx: &mut Ctx<'_>,
) -> Result<Exit, Failure> {
    let memory = Memory::of(image);
    let heaps = Heap::find(&memory).map_err(|error| target::not_found(target, &error))?;
    let roots: Vec<u64> = heaps.iter().map(|heap| heap.root.at).collect();
    let mut heaps_told = Vec::new();
    let mut exit = Exit::DONE;
    for mut heap in heaps {
        if roots.len() > 1 && dress == Dress::Text {
            ctx.out.line(format_args!("the copy of the library at {:x}:", heap.root.at));
        }
        let root = heap.root.at;
        if matches!(question, Question::Whatis(_) | Question::Bufctl(_)) {
            heap.survey();
        }
        let asked = Asked { image, memory: &memory, heap: &heap, root, dress };
        let failed = |error: FindError| target::not_found(target, &error);
        let answered = match question {
            Question::Stat { used } => stat::answer(&asked, *used, ctx).map(Document::Stat),
            Question::Status => checks::status(&asked, ctx).map(Document::Status),
            Question::Findleaks { blocks, effort } => {
                leaks::answer(&asked, *blocks, *effort, ctx).map_err(failed)?.map(Document::Findleaks)
            }
            Question::Verify => checks::verify(&asked, ctx).map_err(failed)?.map(Document::Verify),
            Question::Whatis(addresses) => address::whatis(&asked, addresses, ctx).map(Document::Whatis),
            Question::Bufctl(address) => address::bufctl(&asked, *address, ctx).map(Document::Transactions),
            Question::Log { which, most } => {
                address::log(&asked, *which, *most, ctx)?.map(Document::Transactions)
            }
        };
        heaps_told.push(answered.document);
        exit = exit.and(answered.exit);
        // These reports read the heap again, and have already reported the problems found there.
        if !matches!(question, Question::Findleaks { .. } | Question::Verify) {
            heap.problems.iter().for_each(|problem| ctx.warn(problem));
        }
    }
    if dress == Dress::Json {
        ctx.json(&Heaps { heaps: heaps_told });
    }
    Ok(exit)
}

fn question(parsed: &Parsed) -> Result<(Question, String), Failure> {
    let usage = |why: String| Err(Failure::Usage(why));
    let words = parsed.words();
    let Some((word, operands)) = words.split_first() else {
        return usage("which word: stat, findleaks, …?".into());
    };
    let question = match word.as_str() {
        "stat" => Question::Stat { used: parsed.has('u') },
        "findleaks" => Question::Findleaks { blocks: parsed.has('d'), effort: parsed.has('v') },
        "status" => Question::Status,
        "verify" => Question::Verify,
        "whatis" => Question::Whatis(addresses(operands)?),
        "bufctl" => match addresses(operands)?.as_slice() {
            [address] => Question::Bufctl(*address),
            _ => return usage("one address at a time".into()),
        },
        "log" => log(parsed)?,
        _ => return usage(format!("there is no word `{word}`")),
    };
    let has_addresses = matches!(question, Question::Whatis(_) | Question::Bufctl(_));
    let Some(target) = operands.first() else { return usage("which process or core?".into()) };
    if operands.len() > 1 && !has_addresses {
        return usage("one process or core at a time".into());
    }
    if (parsed.has('d') || parsed.has('v')) && word != "findleaks" {
        return usage("-d and -v go with findleaks".into());
    }
    if parsed.has('u') && word != "stat" {
        return usage("-u goes with stat".into());
    }
    if (parsed.long("log") || parsed.long("most")) && word != "log" {
        return usage("--log and --most go with log".into());
    }
    Ok((question, target.clone()))
}

fn log(parsed: &Parsed) -> Result<Question, Failure> {
    let name = parsed.long_value("log").unwrap_or_else(|| "transaction".to_owned());
    let which = millpond_umem::history::LOGS.iter().position(|log| *log == name && name != "contents");
    let which =
        which.ok_or_else(|| Failure::Operand(format!("`{name}` is no log: transaction, fail, or slab")))?;
    let most = parsed.long_value("most").map(|text| {
        values::count(&text).ok_or_else(|| Failure::Operand(format!("`{text}` is not a number of records")))
    });
    Ok(Question::Log { which, most: most.transpose()?.unwrap_or(USUAL) })
}

/// The addresses after the target.
fn addresses(operands: &[String]) -> Result<Vec<u64>, Failure> {
    let [_, texts @ ..] = operands else { return Ok(Vec::new()) };
    if texts.is_empty() {
        return Err(Failure::Usage("which address?".into()));
    }
    let address = |text: &String| {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let digits = digits.strip_prefix('+').map_or(digits, |_| "");
        let wrong = || Failure::Operand(format!("`{text}` is not an address (hexadecimal)"));
        u64::from_str_radix(digits, 16).map_err(|_| wrong())
    };
    texts.iter().map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Result<(Question, String), Failure> {
        let words: Vec<_> = text.split_whitespace().map(Into::into).collect();
        question(&millpond_cli::parse(&COMMAND.spec, &words)?)
    }

    #[test]
    fn words_take_what_belongs_to_them() {
        let of = |question, target: &str| Ok((question, target.to_owned()));
        assert_eq!(asked("stat 7"), of(Question::Stat { used: false }, "7"));
        assert_eq!(asked("stat -u 7"), of(Question::Stat { used: true }, "7"));
        assert_eq!(
            asked("findleaks core -d"),
            of(Question::Findleaks { blocks: true, effort: false }, "core")
        );
        assert_eq!(asked("-dv findleaks 7"), of(Question::Findleaks { blocks: true, effort: true }, "7"));
        assert_eq!(asked("whatis 7 10 0x7fff"), of(Question::Whatis(vec![0x10, 0x7fff]), "7"));
        assert_eq!(asked("bufctl ./7 7f00"), of(Question::Bufctl(0x7f00), "./7"));
        assert_eq!(asked("log 7"), of(Question::Log { which: 0, most: USUAL }, "7"));
        assert_eq!(asked("log 7 --log slab --most 3"), of(Question::Log { which: 3, most: 3 }, "7"));
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        for (text, expected) in [
            ("", "which word: stat, findleaks, …?"),
            ("start 7", "there is no word `start`"),
            ("stat", "which process or core?"),
            ("whatis", "which process or core?"),
            ("whatis 7", "which address?"),
            ("stat 7 8", "one process or core at a time"),
            ("bufctl 7 8 9", "one address at a time"),
            ("stat -d 7", "-d and -v go with findleaks"),
            ("log -u 7", "-u goes with stat"),
            ("stat --most 3 7", "--log and --most go with log"),
        ] {
            assert_eq!(asked(text), Err(Failure::Usage(expected.into())), "{text}");
        }
        for (text, expected) in [
            ("whatis 7 x", "`x` is not an address (hexadecimal)"),
            ("whatis 7 0x", "`0x` is not an address (hexadecimal)"),
            ("whatis 7 +8", "`+8` is not an address (hexadecimal)"),
            ("whatis 7 11112222333344445", "`11112222333344445` is not an address (hexadecimal)"),
            ("log 7 --log contents", "`contents` is no log: transaction, fail, or slab"),
            ("log 7 --most 0", "`0` is not a number of records"),
        ] {
            assert_eq!(asked(text), Err(Failure::Operand(expected.into())), "{text}");
        }
    }
}
