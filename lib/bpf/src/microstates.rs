//! Threads with the kernel's data about each, and their time by state: for `prstat`.

use crate::image::image;
use crate::mapped::{MappedWords, word_of};
use crate::{Image, Object, Refused};
use std::time::Duration;

const IMAGE: Image = image!("microstates");

/// The number of states: user mode, kernel mode, sleep in a text fault, in a data fault, for a lock, any other sleep, waiting for a CPU,
/// stopped. `enum state` of the program has the same order.
pub const STATES: usize = 8;

/// Buckets of a histogram of waits, and its words: the counts, then the sum of all times. `struct histogram` of the program has the same.
const BUCKETS: usize = 273;
const WAITS_WORDS: usize = BUCKETS + 1;

/// The program that lists threads.
const LIST: &str = "list";

/// Programs that accounts require.
const NEEDED: [&str; 3] = ["sched_process_fork", "sched_switch", "sched_wakeup"];

/// Programs that keep system calls. The exit is attached first: a thread may be in a call already.
const CALLS: [&str; 2] = ["sys_exit", "sys_enter"];

/// Optional programs: without them faults count as other sleep, and signals are not counted.
const FAULTS: &str = "page_fault_user";
const SIGNALS: &str = "signal_deliver";

/// The switch program compares its clock with the monotonic one when this thread gets a CPU, as it does after this sleep.
const FIRST_SWITCH: Duration = Duration::from_millis(1);

/// Number of readings, and the time between them, while a thread has no account.
const LOOKS: u32 = 5;
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// Bytes of a name; the last one is 0.
const NAME_BYTES: usize = 16;
/// Words of a record before the name.
const HEAD: usize = 20;
/// Words of a record without causes.
const RECORD_WORDS: usize = HEAD + NAME_BYTES / 8 + 2 + STATES + 2;
/// Futex words that an account remembers.
const LOCKS: usize = 8;
/// The flag of a word that is not private.
const SHARED: u32 = 0x100;
/// Words of `struct lock` of the program.
const LOCK_WORDS: usize = 13;
/// Words of causes, of the wait in progress, and of the thread's id in its own namespace.
const CAUSES_WORDS: usize = 2 + LOCK_WORDS * (LOCKS + 1) + 1;

/// The program that sees wake-ups in the waker's context; required for causes.
const WAKING: &str = "sched_waking";

/// What to keep of each thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Nothing: threads are only listed.
    Nothing,
    /// Its time by state.
    Accounts(Detail),
}

/// Optional parts of accounts, which cost more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Detail {
    /// System calls: their number, and exact time in them. Without it, CPU time is divided by clock ticks.
    pub calls: bool,
    /// Causes of waits.
    pub causes: bool,
}

/// How a futex call waits, in the order of the program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Operation {
    /// While the word has the expected value.
    #[default]
    Wait,
    /// For a priority-inheritance mutex.
    LockPi,
    /// At a condition with such a mutex (`FUTEX_WAIT_REQUEUE_PI`).
    RequeuePi,
    /// At several words (`futex_waitv`).
    Several,
}

/// A thread's waits at one futex word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lock {
    /// The word's address; 0 if unknown.
    pub address: u64,
    /// Total wait time, in nanoseconds.
    pub waited: u64,
    /// The smallest and the largest expected value.
    pub values: (u32, u32),
    /// Waits that a thread of the process ended by a wake call at the word, except those after which another thread was faster.
    pub woken: u32,
    /// Of these, those after which the thread made a wake call itself.
    pub released: u32,
    /// Waits that ended because a thread of the process ended.
    pub ends: u32,
    /// Total time from wake-ups to these wake calls, in nanoseconds.
    pub held: u64,
    /// The thread's run time within it.
    pub held_ran: u64,
    /// The thread's sleep time within it.
    pub held_slept: u64,
    /// The thread's run time from a wake call to its next wait at the word.
    pub apart_ran: u64,
    /// The holder's thread id in the namespace of the process, if the word, or the C library's owner field after it, seems to name one.
    pub holder: Option<u32>,
    /// How the thread waited.
    pub operation: Operation,
    /// The word was not declared private to the process.
    pub shared: bool,
}

/// Causes of a thread's waits since it was first seen, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Causes {
    /// For a disk, without the wait in progress.
    pub disk: u64,
    /// For locks that are not in `locks`.
    pub forgotten: u64,
    /// The longest ended waits, by futex word; unused entries are empty.
    pub locks: [Lock; LOCKS],
    /// The wait in progress; empty if the thread waits for no lock.
    pub present: Lock,
    /// The thread's id in its own namespace.
    pub own_tid: u32,
}

/// A thread's time by state since it was first seen, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    /// When it was first seen, on the monotonic clock.
    pub began: u64,
    /// By state, until the time of the record.
    pub times: [u64; STATES],
    /// System calls, if kept.
    pub calls: Option<u64>,
    /// Delivered signals.
    pub signals: u64,
    /// Causes of its waits, if kept.
    pub causes: Option<Causes>,
}

/// A thread at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its thread id, in this process's namespace.
    pub tid: u32,
    /// Its process id.
    pub pid: u32,
    /// Its session id.
    pub session: u32,
    /// The kernel's flags (`PF_…`).
    pub flags: u32,
    /// The task state, in the kernel's bits; 0 if it runs or is runnable.
    pub state: u32,
    /// The exit state; 0 if it has not ended.
    pub exit_state: u32,
    /// Whether it is on a CPU.
    pub on_cpu: bool,
    /// Its present or last CPU.
    pub cpu: u32,
    /// The kernel's present priority, 0 to 139; less is better. -1, of a deadline thread, wraps to the largest number.
    pub prio: u32,
    /// 120 plus its nice value.
    pub static_prio: u32,
    /// The scheduling policy.
    pub policy: u32,
    /// Start time, in nanoseconds since boot.
    pub started: u64,
    /// The thread's real user id.
    pub uid: u32,
    /// The effective user id.
    pub euid: u32,
    /// CPU time, in nanoseconds.
    pub runtime: u64,
    /// CPU time of the process's ended threads; 0 except for the first thread.
    pub ended_runtime: u64,
    /// Time in user mode and in the kernel by clock ticks: good for a ratio only.
    pub ticks: [u64; 2],
    /// Voluntary context switches.
    pub voluntary: u64,
    /// Involuntary context switches.
    pub involuntary: u64,
    /// Total wait time for a CPU, in nanoseconds.
    pub run_delay: u64,
    /// Its short name.
    pub name: String,
    /// Time of the record, on the monotonic clock.
    pub now: u64,
    /// Its account, if kept.
    pub account: Option<Account>,
}

/// The loaded programs.
#[derive(Debug)]
pub struct Watching {
    object: Object,
    /// Why faults count as other sleep, if they do.
    faults: Result<(), Refused>,
    /// Why signals are not counted, if they are not.
    signals: Result<(), Refused>,
    /// Histograms of waits, if accounts are kept.
    waits: Option<MappedWords>,
    /// What is kept.
    keep: Keep,
    /// Words per record.
    words: usize,
    buffer: Vec<u8>,
}

impl Watching {
    /// Loads the program that lists threads, and the programs that `keep` needs. With accounts, every existing thread has one afterwards.
    /// `processors` is the number of CPUs.
    ///
    /// # Errors
    /// [`Refused`] if the kernel rejects them.
    pub fn open(keep: Keep, processors: u32) -> Result<Watching, Refused> {
        let (accounts, Detail { calls, causes }) = match keep {
            Keep::Nothing => (false, Detail::default()),
            Keep::Accounts(detail) => (true, detail),
        };
        let mut object = Object::open(IMAGE, |opened| {
            opened.set_constants(&[accounts, calls, causes].map(u64::from));
            opened.set_entries("waits", if accounts { processors.max(1) } else { 1 });
            if !accounts {
                NEEDED.iter().chain([&FAULTS, &SIGNALS]).for_each(|program| opened.leave_out(program));
            }
            if !causes {
                opened.leave_out(WAKING);
            }
            if !calls {
                CALLS.iter().for_each(|program| opened.leave_out(program));
            }
        })?;
        let (mut faults, mut signals) = (Ok(()), Ok(()));
        if accounts {
            NEEDED.iter().try_for_each(|program| object.attach(program))?;
            faults = object.attach(FAULTS);
            signals = object.attach(SIGNALS);
            if causes {
                object.attach(WAKING)?;
            }
            std::thread::sleep(FIRST_SWITCH);
        }
        if calls {
            CALLS.iter().try_for_each(|program| object.attach(program))?;
        }
        let words = RECORD_WORDS + if causes { CAUSES_WORDS } else { 0 };
        let waits = accounts.then(|| object.words("waits", processors.max(1) as usize * WAITS_WORDS));
        let waits = waits.transpose()?;
        let mut watching = Watching { object, faults, signals, waits, keep, words, buffer: Vec::new() };
        if accounts && watching.list()?.iter().all(|record| record.account.is_none()) {
            return Err(Refused::NoMemory);
        }
        Ok(watching)
    }

    /// Whether faults are separated from other sleep.
    ///
    /// # Errors
    /// The reason if not.
    pub fn sees_faults(&self) -> Result<(), Refused> {
        self.faults.clone()
    }

    /// Whether signals are counted.
    ///
    /// # Errors
    /// The reason if not.
    pub fn sees_signals(&self) -> Result<(), Refused> {
        self.signals.clone()
    }

    /// The ended waits for this CPU: counts by bucket of `millpond_model::Histogram`, and the sum in nanoseconds. `None` if no accounts are
    /// kept.
    #[must_use]
    pub fn waits(&self, processor: u32) -> Option<(Vec<u64>, u64)> {
        let words = self.waits.as_ref()?;
        let from = processor as usize * WAITS_WORDS;
        Some(((from..from + BUCKETS).map(|at| words.get(at)).collect(), words.get(from + BUCKETS)))
    }

    /// All threads, by id. A thread that begins or ends meanwhile may be missing. With accounts, each living thread has one; the kernel may
    /// fail to open one while it opens another, so the listing is retried.
    ///
    /// # Errors
    /// If the kernel cannot list them.
    pub fn list(&mut self) -> Result<Vec<Record>, Refused> {
        let lacks = |record: &Record| record.account.is_none() && record.exit_state == 0;
        let mut records = self.list_once()?;
        for _ in 1..LOOKS {
            if self.keep == Keep::Nothing || !records.iter().any(lacks) {
                break;
            }
            std::thread::sleep(BETWEEN_LOOKS);
            records = self.list_once()?;
        }
        Ok(records)
    }

    fn list_once(&mut self) -> Result<Vec<Record>, Refused> {
        self.buffer.clear();
        self.object.iterate(LIST, &mut self.buffer)?;
        let mut records: Vec<Record> = self.buffer.chunks_exact(self.words * 8).filter_map(record).collect();
        if !matches!(self.keep, Keep::Accounts(Detail { calls: true, .. })) {
            records.iter_mut().filter_map(|r| r.account.as_mut()).for_each(|account| account.calls = None);
        }
        Ok(records)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "words that the program widened")]
fn record(bytes: &[u8]) -> Option<Record> {
    let word = |at: usize| word_of(bytes, at);
    let short = |at: usize| word(at) as u32;
    let name = &bytes[HEAD * 8..HEAD * 8 + NAME_BYTES];
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let behind = HEAD + NAME_BYTES / 8;
    let began = word(behind + 1);
    let account = (began != 0).then(|| Account {
        began,
        times: std::array::from_fn(|state| word(behind + 2 + state)),
        calls: Some(word(behind + 2 + STATES)),
        signals: word(behind + 3 + STATES),
        causes: (bytes.len() > RECORD_WORDS * 8).then(|| Causes {
            disk: word(RECORD_WORDS),
            forgotten: word(RECORD_WORDS + 1),
            locks: std::array::from_fn(|at| lock(&word, RECORD_WORDS + 2 + LOCK_WORDS * at)),
            present: lock(&word, RECORD_WORDS + 2 + LOCK_WORDS * LOCKS),
            own_tid: short(RECORD_WORDS + 2 + LOCK_WORDS * (LOCKS + 1)),
        }),
    });
    // A thread without an id in this namespace is not visible here.
    (short(0) != 0 && short(1) != 0).then(|| Record {
        tid: short(0),
        pid: short(1),
        session: short(2),
        flags: short(3),
        state: short(4),
        exit_state: (word(4) >> 32) as u32,
        on_cpu: word(5) != 0,
        cpu: short(6),
        prio: short(7),
        static_prio: short(8),
        policy: short(9),
        started: word(10),
        uid: short(11),
        euid: short(12),
        runtime: word(13),
        ended_runtime: word(14),
        ticks: [word(15), word(16)],
        voluntary: word(17),
        involuntary: word(18),
        run_delay: word(19),
        name: String::from_utf8_lossy(name).into_owned(),
        now: word(behind),
        account,
    })
}

/// `struct lock` of the program: two words, eight 32-bit halves, and seven words, of which the last three are internal.
fn lock(word: &impl Fn(usize) -> u64, at: usize) -> Lock {
    let half = |number: usize| {
        let bytes = word(at + 2 + number / 2).to_ne_bytes();
        let from = number % 2 * 4;
        bytes.get(from..from + 4).and_then(|half| half.try_into().ok()).map_or(0, u32::from_ne_bytes)
    };
    let how = half(6);
    Lock {
        address: word(at),
        waited: word(at + 1),
        values: (half(0), half(1)),
        woken: half(2),
        released: half(3),
        ends: half(4),
        held: word(at + 6),
        held_ran: word(at + 7),
        held_slept: word(at + 8),
        apart_ran: word(at + 9),
        holder: Some(half(5)).filter(|holder| *holder != 0),
        operation: match how & !SHARED {
            0 => Operation::Wait,
            1 => Operation::LockPi,
            2 => Operation::RequeuePi,
            _ => Operation::Several,
        },
        shared: how & SHARED != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_the_words_of_the_program() {
        let mut words: Vec<u64> = (1..=HEAD as u64).collect();
        words[4] = 1 | 32 << 32;
        words.extend([u64::from_ne_bytes(*b"millpond"), u64::from_ne_bytes(*b"-x\0\0\0\0\0\0")]);
        words.extend((101..101 + 4 + STATES as u64).collect::<Vec<_>>());
        assert_eq!(words.len(), RECORD_WORDS);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let found = record(&bytes).unwrap();
        assert_eq!((found.tid, found.pid, found.session, found.run_delay), (1, 2, 3, 20));
        assert_eq!((found.state, found.exit_state, found.name.as_str()), (1, 32, "millpond-x"));
        let account = found.account.unwrap();
        assert_eq!((found.now, account.began, account.times[0], account.times[7]), (101, 102, 103, 110));
        assert_eq!((account.calls, account.signals, account.causes), (Some(111), 112, None));
        words.extend(201..201 + CAUSES_WORDS as u64);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let causes = record(&bytes).unwrap().account.unwrap().causes.unwrap();
        assert_eq!((causes.disk, causes.forgotten), (201, 202));
        assert_eq!((causes.locks[1].address, causes.locks[1].waited), (216, 217));
        assert_eq!((causes.present.address, causes.present.waited), (307, 308));
        assert_eq!(causes.own_tid, 320);
    }

    #[test]
    fn what_is_known_of_a_word_is_taken_from_halves_of_words() {
        let pair = |a: u32, b: u32| {
            let bytes: Vec<u8> = [a, b].iter().flat_map(|half| half.to_ne_bytes()).collect();
            u64::from_ne_bytes(bytes.try_into().unwrap())
        };
        let words =
            [0x10, 20, pair(2, 3), pair(4, 5), pair(6, 7), pair(SHARED | 1, 1), 8, 9, 10, 11, 12, 13, 14];
        let expected = Lock {
            address: 0x10,
            waited: 20,
            values: (2, 3),
            woken: 4,
            released: 5,
            ends: 6,
            held: 8,
            held_ran: 9,
            held_slept: 10,
            apart_ran: 11,
            holder: Some(7),
            operation: Operation::LockPi,
            shared: true,
        };
        assert_eq!(lock(&|at| words[at], 0), expected);
    }

    #[test]
    fn the_program_has_these_members_in_this_order() {
        let source = include_str!("../programs/microstates/microstates.bpf.c");
        let list = |from: &str| source.split_once(from).and_then(|(_, rest)| rest.split_once('}')).unwrap().0;
        let states: Vec<&str> = list("enum state {").split(',').map(str::trim).collect();
        assert_eq!(states.len(), STATES + 1);
        assert_eq!((states[0], states[4], states[STATES]), ("USER", "LOCK", "STATES"));
        let members: Vec<&str> =
            list("struct record {").lines().map(str::trim).filter(|line| line.ends_with(';')).collect();
        let words = members.iter().filter(|member| member.starts_with("__u64")).count();
        assert_eq!(words - 1 + STATES + NAME_BYTES / 8, RECORD_WORDS);
        assert_eq!(members[HEAD], "char name[16];");
        let members: Vec<&str> =
            list("struct causes {").lines().map(str::trim).filter(|line| line.ends_with(';')).collect();
        assert_eq!(members, ["__u64 disk;", "__u64 forgotten;", "struct lock locks[LOCKS];"]);
        let members: Vec<&str> =
            list("struct present {").lines().map(str::trim).filter(|line| line.ends_with(';')).collect();
        assert_eq!(members, ["struct lock lock;", "__u64 own;"]);
        let members: Vec<&str> =
            list("struct lock {").lines().map(str::trim).filter(|line| line.ends_with(';')).collect();
        let names: Vec<&str> =
            members.iter().map(|member| member.trim_end_matches(';').split(' ').nth(1).unwrap()).collect();
        let short = "least most woken released ends holder how owes";
        let long = "held held_ran held_slept apart_ran mark mark_ran mark_slept";
        assert_eq!(names.join(" "), format!("address waited {short} {long}"));
        let is_short = |member: &&&str| member.starts_with("__u32 ");
        assert!(members[2..10].iter().all(|member| is_short(&member)));
        assert_eq!((members.iter().filter(is_short).count(), LOCK_WORDS), (8, 2 + 8 / 2 + 7));
        assert!(source.contains("enum operation { WAIT, LOCK_PI, REQUEUE_PI, SEVERAL };"));
        assert!(source.contains(&format!("#define SHARED {SHARED:#x}\n")));
        assert!(source.contains(&format!("#define LOCKS {LOCKS}\n")));
    }

    #[test]
    fn a_histogram_has_the_words_of_the_program() {
        let header = include_str!("../include/histogram.bpf.h");
        assert!(header.contains(&format!("#define HISTOGRAM_BUCKETS {BUCKETS}\n")));
        let members =
            header.split_once("struct histogram {").and_then(|(_, rest)| rest.split_once('}')).unwrap().0;
        let members: Vec<&str> = members.lines().map(str::trim).filter(|line| line.ends_with(';')).collect();
        assert_eq!(members, ["__u64 counts[HISTOGRAM_BUCKETS];", "__u64 sum;"]);
    }

    #[test]
    fn each_program_is_known_by_its_name() {
        let source = include_str!("../programs/microstates/microstates.bpf.c");
        for name in NEEDED.iter().chain(&CALLS).chain([&FAULTS, &SIGNALS, &WAKING]) {
            let is_there = source.contains(&format!("TRACEPOINT({name})"))
                || source.contains(&format!("SEC(\"tp_btf/{name}\")"));
            assert!(is_there, "{name}");
        }
    }
}
