//! The scheduler of the classes TS, IA and FX under sched_ext: loads it, changes its tables, asks it about threads.
//!
//! The scheduler belongs to the process that loaded it ([`Classes`]), and ends with it in whatever way that ends: the kernel returns all threads to
//! its own scheduler at once. Its maps are left at paths of the BPF file system, where other processes find them ([`Control`]), and where the tables
//! and what was asked for threads wait for the next one that is loaded.

use crate::image::image;
use crate::{Callable, Entries, Image, MappedWords, Object, Refused};
use std::path::Path;

const IMAGE: Image = image!("classes");

/// The scheduler, and one without rules that shows what sched_ext itself costs.
const OPERATIONS: [&str; 2] = ["millpond", "bare"];

/// What is left at paths, by its name.
const TABLES: &str = "tables";
const SETTINGS: &str = "settings";
const WISHES: &str = "wishes";
const ASK: &str = "ask";
const PINNED: [&str; 7] = [TABLES, SETTINGS, WISHES, "levels", "cpus", "beat_words", "endings"];
/// What a scheduler takes over from the one before it.
const INHERITED: [&str; 3] = [TABLES, SETTINGS, WISHES];

/// Bytes before members of the operations: see `struct sched_ext_ops`.
const FLAGS: usize = 0;
const HOTPLUG_SEQ: usize = 8;
const TIMEOUT_MS: usize = 16;
const CPU_RELEASE: usize = 24;
/// Callbacks about cgroups, and where they are: a kernel that lacks one lacks what it is for.
const GROUP_OPERATIONS: [(&str, usize); 5] = [
    ("cgroup_init", 32),
    ("cgroup_exit", 40),
    ("cgroup_move", 48),
    ("cgroup_set_bandwidth", 56),
    ("cgroup_set_idle", 64),
];
/// Cgroups whose caps are kept at most, see the program.
const GROUPS: u32 = 4096;
/// The program that does what that callback does, and the function of kernels that want it so.
const SWITCHED: &str = "switched";
const REENQUEUE: &str = "scx_bpf_reenqueue_local___v2";
/// Flags of every load, and that of partial mode.
const EVERY_LOAD: u64 = 4 | 16;
/// Flags of the one with rules: it is asked about the last thread that wants a CPU, too.
const WITH_RULES: u64 = 2;
const PARTIAL: u64 = 8;

/// Levels, from -1 (SCHED_IDLE) to 99.
pub const LEVELS: usize = 101;
/// Figures of a level on a CPU, in the order of `struct level`.
pub const LEVEL_FIGURES: [&str; 8] =
    ["ran_ns", "begun", "waited_ns", "waited_max_ns", "expired", "boosted", "surrendered", "rescued"];
/// Sums of a CPU, in the order of `struct cpu`.
pub const SUMS: [&str; 13] = [
    "direct",
    "preempting",
    "queued_bound",
    "queued_shared",
    "kept",
    "stolen",
    "forks",
    "passed_over",
    "overdue",
    "next",
    "again",
    "deferred",
    "spared",
];
const CPU_WORDS: usize = 24;
/// Where sums begin.
const FIRST_SUM: usize = 11;
/// Figures of the timer, in the order of `struct beat`.
pub const BEAT: [&str; 4] = ["count", "chunks", "chunk_max_ns", "moved"];
const BEAT_WORDS: usize = 16;

/// Where CPUs belong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Of each CPU by number: its queue, and the next CPU with the same queue (a ring).
    pub cpus: Vec<(u64, u64)>,
    /// Of each queue: the next one of the same processor set (a ring).
    pub queues: Vec<u64>,
}

impl Places {
    /// So many CPUs that share a queue.
    #[must_use]
    pub fn one_queue(cpus: u32) -> Places {
        let cpus = u64::from(cpus.max(1));
        Places { cpus: (0..cpus).map(|cpu| (0, (cpu + 1) % cpus)).collect(), queues: vec![0] }
    }
}

/// How it is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Only threads with the policy SCHED_EXT are scheduled, not all but those of RT and DEADLINE.
    pub partial: bool,
    /// The kernel ends a scheduler that leaves a thread waiting for so long, in milliseconds; at most 30,000.
    pub timeout_ms: u32,
    /// The kernel's count of CPUs that came and went: if it is another one by now, loading fails.
    pub hotplug_seq: u64,
    /// A wait after which a thread runs for a tick whatever its level; 0 for never.
    pub rescue_ns: u64,
    /// The parent of a new process pays for it, as in Solaris.
    pub parent_pays: bool,
    /// A wake-up by a program does not preempt a thread that began to run within this time; 0: it does.
    pub parity_ns: u64,
    /// It is counted when a thread begins to run while a better one waits for its CPU.
    pub audit: bool,
    /// For tests: see `defect` in the program.
    pub defect: u64,
    /// A scheduler without rules.
    pub bare: bool,
}

/// The scheduler at work.
#[derive(Debug)]
pub struct Classes {
    object: Object,
    operations: &'static str,
    /// Its tables and wishes are those of a scheduler before it.
    inherited: bool,
    /// The kernel wants a program at a tracepoint instead of a callback.
    by_tracepoint: bool,
}

impl Classes {
    /// Hands it to the kernel, with these tables (`struct rule_tables` as words) unless `inherit` has those of a scheduler before it. Nothing is scheduled
    /// by it yet.
    ///
    /// # Errors
    /// [`Refused`] when the kernel does not take it.
    pub fn open(
        places: &Places,
        options: &Options,
        tables: &[u64],
        inherit: Option<&Path>,
    ) -> Result<Classes, Refused> {
        let (cpus, queues) = (places.cpus.len().max(1), places.queues.len().max(1));
        let entries = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let operations = OPERATIONS[usize::from(options.bare)];
        let mut inherited = false;
        let by_tracepoint = !options.bare && Object::kernel_has(REENQUEUE);
        let members = Object::members_of("sched_ext_ops");
        let lacks = |callback: &str| !members.iter().any(|member| member == callback);
        let lacking = GROUP_OPERATIONS.into_iter().filter(|(callback, _)| lacks(callback));
        let object = Object::open(IMAGE, |opened| {
            opened.set_constants(&[
                cpus as u64,
                queues as u64,
                options.rescue_ns,
                options.parent_pays.into(),
                options.audit.into(),
                options.defect,
                options.partial.into(),
                options.parity_ns,
            ]);
            for map in ["cpus", "places"] {
                opened.set_entries(map, entries(cpus));
            }
            opened.set_entries("rings", entries(queues));
            opened.set_entries("levels", entries(cpus.saturating_mul(LEVELS)));
            opened.set_entries(TABLES, 2);
            let flags = EVERY_LOAD | if options.partial { PARTIAL } else { 0 };
            for (operations, more) in OPERATIONS.into_iter().zip([WITH_RULES, 0]) {
                opened.set_operation(operations, FLAGS, flags | more);
                opened.set_operation(operations, HOTPLUG_SEQ, options.hotplug_seq);
                opened.set_operation(operations, TIMEOUT_MS, options.timeout_ms.into());
            }
            opened.set_entries("groups", GROUPS);
            for (callback, at) in lacking {
                opened.set_operation(OPERATIONS[0], at, 0);
                opened.leave_out(callback);
            }
            if by_tracepoint {
                OPERATIONS.iter().for_each(|operations| opened.set_operation(operations, CPU_RELEASE, 0));
            } else {
                opened.leave_out(SWITCHED);
            }
            if let Some(dir) = inherit.filter(|dir| dir.join(TABLES).exists()) {
                inherited = true;
                INHERITED.iter().for_each(|map| opened.reuse(map, &dir.join(map)));
            }
        })?;
        let put = |map: &str, rows: &mut dyn Iterator<Item = Vec<u64>>| -> Result<(), Refused> {
            let map = object.entries(map)?;
            (0u64..).zip(rows).try_for_each(|(at, row)| map.put(&[at], &row))
        };
        put("places", &mut places.cpus.iter().map(|(queue, next)| vec![*queue, *next]))?;
        put("rings", &mut places.queues.iter().map(|next| vec![*next]))?;
        if !inherited {
            put(TABLES, &mut [tables.to_vec(), tables.to_vec()].into_iter())?;
        }
        Ok(Classes { object, operations, inherited, by_tracepoint })
    }

    /// From now on it schedules.
    ///
    /// # Errors
    /// [`Refused`] when another scheduler is at work, or the kernel does not take this one.
    pub fn attach(&mut self) -> Result<(), Refused> {
        if std::mem::take(&mut self.by_tracepoint) {
            self.object.attach(SWITCHED)?;
        }
        self.object.attach_operations(self.operations)
    }

    /// Leaves what other processes use in a directory of the BPF file system.
    ///
    /// # Errors
    /// [`Refused`] when it cannot.
    pub fn pin(&mut self, dir: &Path) -> Result<(), Refused> {
        let inherited = |map: &str| self.inherited && INHERITED.contains(&map);
        // What a scheduler left that has ended is no longer of use.
        let place = |name: &str| {
            let path = dir.join(name);
            let _ = std::fs::remove_file(&path);
            path
        };
        for map in PINNED.into_iter().filter(|map| !inherited(map)) {
            self.object.pin_map(map, &place(map))?;
        }
        self.object.pin_program(ASK, &place(ASK))
    }

    /// What other processes have of it.
    ///
    /// # Errors
    /// [`Refused`] when a map is not there.
    pub fn control(&self) -> Result<Control, Refused> {
        Control::of(|map| self.object.entries(map), self.object.callable(ASK)?)
    }

    /// Changes where CPUs belong. There are no more CPUs and queues than there were.
    ///
    /// # Errors
    /// [`Refused`] when the kernel does not take them.
    pub fn set_places(&self, places: &Places) -> Result<(), Refused> {
        let (cpus, rings) = (self.object.entries("places")?, self.object.entries("rings")?);
        (0u64..).zip(&places.queues).try_for_each(|(queue, next)| rings.put(&[queue], &[*next]))?;
        (0u64..).zip(&places.cpus).try_for_each(|(cpu, (queue, next))| cpus.put(&[cpu], &[*queue, *next]))
    }
}

/// What it is asked about a thread, and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadState {
    /// By the numbers of the rules.
    pub class: u64,
    /// The level that decides, -1 to 99.
    pub pri: i64,
    /// TS, IA: the system's part. FX: 0.
    pub cpupri: i64,
    /// The user's part, and what that may be at most.
    pub upri: i64,
    /// See `upri`.
    pub uprilim: i64,
    /// IA: 10 in the foreground, else -10.
    pub boost: i64,
    /// Left of the slice, in nanoseconds; `i64::MAX` for one without end.
    pub timeleft: i64,
    /// FX: the slice, in nanoseconds.
    pub quantum: i64,
    /// TS, IA: seconds since the slice began.
    pub dispwait: u64,
    /// What the thread has run, in nanoseconds.
    pub ran_ns: u64,
    /// The CPU that it runs on.
    pub on_cpu: Option<u64>,
    /// The queue that it waits in; 0 for none.
    pub queue: u64,
}

/// A class with its parameters, as a thread is to have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    /// By the numbers of the rules.
    pub class: u8,
    /// What the user's part may be at most, -60 to 60.
    pub uprilim: i8,
    /// The user's part.
    pub upri: i8,
    /// IA: whether it is in the foreground.
    pub foreground: bool,
    /// FX: its slice, in nanoseconds; `i64::MAX` for one without end.
    pub quantum: i64,
}

/// What is added to a user part for the bytes of a request.
const SHIFT: i8 = 64;
const REQUEST_SET: u64 = 1;
const QUESTION_WORDS: usize = 17;

impl Wish {
    fn words(self) -> [u64; 2] {
        let byte = |part: i8| u64::from(part.saturating_add(SHIFT).unsigned_abs());
        let word = REQUEST_SET
            | u64::from(self.class) << 8
            | byte(self.uprilim) << 16
            | byte(self.upri) << 24
            | u64::from(self.foreground) << 32;
        [word, self.quantum.cast_unsigned()]
    }

    fn of_words(word: u64, quantum: u64) -> Option<Wish> {
        let byte = |at: u32| (word >> at & 0xff).to_le_bytes()[0];
        let part = |at| byte(at).cast_signed().checked_sub(SHIFT);
        (byte(0) == 1).then_some(())?;
        Some(Wish {
            class: byte(8),
            uprilim: part(16)?,
            upri: part(24)?,
            foreground: byte(32) != 0,
            quantum: quantum.cast_signed(),
        })
    }
}

/// Why it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// The kernel's number for the kind: 64 and above without an error, 1024 and above with one.
    pub kind: u64,
    /// What the kernel adds to it.
    pub code: u64,
    /// In the kernel's words.
    pub reason: String,
    /// The same, more exactly: which thread, for how long.
    pub message: String,
    /// Addresses of the kernel's functions, the innermost first.
    pub backtrace: Vec<u64>,
    /// The beginning of what the kernel wrote down of CPUs and threads.
    pub dump: String,
}

/// Words of `struct ending`: its texts, in words, and its backtrace.
const REASON: std::ops::Range<usize> = 2..18;
const MESSAGE: std::ops::Range<usize> = 18..50;
const BACKTRACE: std::ops::Range<usize> = 51..67;

/// The maps of the scheduler, for whoever has the rights.
#[derive(Debug)]
pub struct Control {
    tables: Entries,
    settings: Entries,
    wishes: Entries,
    endings: Entries,
    levels: MappedWords,
    sums: MappedWords,
    beat: MappedWords,
    cpus: usize,
    ask: Callable,
}

impl Control {
    /// What a scheduler left in a directory. Whether that is at work, the directory does not say.
    ///
    /// # Errors
    /// [`Refused`] when there is none.
    pub fn at(dir: &Path) -> Result<Control, Refused> {
        Control::of(|map| Entries::at(&dir.join(map)), Callable::at(&dir.join(ASK))?)
    }

    fn of(map: impl Fn(&str) -> Result<Entries, Refused>, ask: Callable) -> Result<Control, Refused> {
        let (levels, sums) = (map("levels")?, map("cpus")?);
        let cpus = sums.most() as usize;
        Ok(Control {
            tables: map(TABLES)?,
            settings: map(SETTINGS)?,
            wishes: map(WISHES)?,
            endings: map("endings")?,
            levels: levels.words(cpus * LEVELS * LEVEL_FIGURES.len())?,
            sums: sums.words(cpus * CPU_WORDS)?,
            beat: map("beat_words")?.words(BEAT_WORDS)?,
            cpus,
            ask,
        })
    }

    fn chosen(&self) -> u64 {
        self.settings.get(&[0]).and_then(|words| words.first().copied()).unwrap_or_default() & 1
    }

    /// The tables that hold, as words.
    #[must_use]
    pub fn tables(&self) -> Vec<u64> {
        self.tables.get(&[self.chosen()]).unwrap_or_default()
    }

    /// Other tables hold from now on, all at once. There is one writer at a time.
    ///
    /// # Errors
    /// [`Refused`] when the kernel does not take them.
    pub fn set_tables(&self, tables: &[u64]) -> Result<(), Refused> {
        let other = 1 - self.chosen();
        self.tables.put(&[other], tables)?;
        self.settings.put(&[0], &[other])?;
        // An event that began before may still read the other copy, which the next writer fills. It holds off preemption, and this waits for all that do.
        // SAFETY: a system call with plain numbers.
        let waited = unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_GLOBAL, 0, 0) };
        if waited != 0 {
            std::thread::sleep(GRACE);
        }
        Ok(())
    }

    /// What a thread has; `None` when there is no such thread.
    ///
    /// # Errors
    /// [`Refused`] when the scheduler cannot be asked.
    pub fn thread(&self, tid: u32) -> Result<Option<ThreadState>, Refused> {
        self.question(tid, None)
    }

    /// Has a thread scheduled in another class or with other parameters; `None` when there is no such thread. It holds for schedulers that are loaded later, too:
    /// `start` is when the thread began, in clock ticks since the machine booted, as `/proc` has it.
    ///
    /// # Errors
    /// [`Refused`] when the scheduler cannot be asked, or too many threads have wishes.
    pub fn set_thread(&self, tid: u32, start: u64, wish: Wish) -> Result<Option<ThreadState>, Refused> {
        let [word, quantum] = wish.words();
        self.wishes.put(&[tid.into()], &[start, word, quantum])?;
        self.question(tid, Some(wish))
    }

    fn question(&self, tid: u32, wish: Option<Wish>) -> Result<Option<ThreadState>, Refused> {
        let mut words = [0u64; QUESTION_WORDS];
        words[0] = tid.into();
        if let Some(wish) = wish {
            words[1] = 1;
            words[2..4].copy_from_slice(&wish.words());
        }
        self.ask.call(&mut words)?;
        let [_, _, _, _, found, queue, on_cpu, ran_ns, left, quantum, dispwait, class, parts @ ..] = words;
        let [cpupri, upri, uprilim, boost, pri] = parts.map(u64::cast_signed);
        Ok((found != 0).then_some(ThreadState {
            class,
            pri,
            cpupri,
            upri,
            uprilim,
            boost,
            timeleft: left.cast_signed(),
            quantum: quantum.cast_signed(),
            dispwait,
            ran_ns,
            on_cpu: on_cpu.checked_sub(1),
            queue,
        }))
    }

    /// What was asked for threads: number, when each began, and the wish.
    #[must_use]
    pub fn wishes(&self) -> Vec<(u32, u64, Wish)> {
        let one = |(key, value): (Vec<u64>, Vec<u64>)| {
            let (tid, [start, word, quantum]) = (key.first()?, <[u64; 3]>::try_from(value).ok()?);
            Some((u32::try_from(*tid).ok()?, start, Wish::of_words(word, quantum)?))
        };
        self.wishes.all().into_iter().filter_map(one).collect()
    }

    /// Nothing is asked for a thread any more. What it has stays.
    pub fn forget(&self, tid: u32) {
        self.wishes.remove(&[tid.into()]);
    }

    /// A figure of a level, -1 to 99, summed over CPUs: an index of [`LEVEL_FIGURES`]. The largest where the figure is a maximum.
    #[must_use]
    pub fn level(&self, level: i8, figure: usize) -> u64 {
        let row = usize::from(level.clamp(-1, 99).saturating_add(1).unsigned_abs());
        let word = |cpu: usize| self.levels.get((cpu * LEVELS + row) * LEVEL_FIGURES.len() + figure);
        let all = (0..self.cpus).map(word);
        if figure == 3 { all.max().unwrap_or_default() } else { all.sum() }
    }

    /// A sum over CPUs: an index of [`SUMS`].
    #[must_use]
    pub fn sum(&self, figure: usize) -> u64 {
        (0..self.cpus).map(|cpu| self.sums.get(cpu * CPU_WORDS + FIRST_SUM + figure)).sum()
    }

    /// A figure of the timer: an index of [`BEAT`].
    #[must_use]
    pub fn beat(&self, figure: usize) -> u64 {
        self.beat.get(figure)
    }

    /// Why the scheduler ended; `None` while it is at work.
    #[must_use]
    pub fn ending(&self) -> Option<Ending> {
        let words = self.endings.get(&[0])?;
        let kind = *words.first().filter(|kind| **kind != 0)?;
        let text = |range: std::ops::Range<usize>| crate::mapped::text(words.get(range).unwrap_or_default());
        let entries = usize::try_from(words.get(BACKTRACE.start - 1).copied()?).unwrap_or_default();
        Some(Ending {
            kind,
            code: words.get(1).copied().unwrap_or_default(),
            reason: text(REASON),
            message: text(MESSAGE),
            backtrace: words.get(BACKTRACE)?.iter().take(entries).copied().collect(),
            dump: text(BACKTRACE.end..words.len()),
        })
    }
}

/// How long to wait for readers where the kernel does not say when they are done.
const GRACE: std::time::Duration = std::time::Duration::from_millis(20);
