//! The sched_ext scheduler of the classes TS, IA and FX: loads it, changes its tables, reads and changes the state of threads.
//!
//! The scheduler belongs to the process that loaded it ([`Classes`]), and ends when that process ends for any reason: the kernel returns all threads
//! to its own scheduler at once. Its maps are pinned in the BPF file system, where other processes open them ([`Control`]). The tables and the wishes
//! stay there for the next scheduler that is loaded.

use crate::image::image;
use crate::{Callable, Entries, Image, MappedWords, Object, Refused};
use std::path::Path;

const IMAGE: Image = image!("classes");

/// The scheduler, and one without rules that measures the cost of sched_ext itself.
const OPERATIONS: [&str; 2] = ["millpond", "bare"];

/// Names of pinned maps and programs.
const TABLES: &str = "tables";
const SETTINGS: &str = "settings";
const WISHES: &str = "wishes";
const ASK: &str = "ask";
const PINNED: [&str; 7] = [TABLES, SETTINGS, WISHES, "levels", "cpus", "beat_words", "endings"];
/// Maps that a scheduler reuses from the previous one.
const INHERITED: [&str; 3] = [TABLES, SETTINGS, WISHES];

/// Offsets of members, in bytes: see `struct sched_ext_ops`.
const FLAGS: usize = 0;
const HOTPLUG_SEQ: usize = 8;
const TIMEOUT_MS: usize = 16;
const CPU_RELEASE: usize = 24;
/// Callbacks of cgroups, and their offsets. Where a kernel lacks one, its function is not available.
const GROUP_OPERATIONS: [(&str, usize); 5] = [
    ("cgroup_init", 32),
    ("cgroup_exit", 40),
    ("cgroup_move", 48),
    ("cgroup_set_bandwidth", 56),
    ("cgroup_set_idle", 64),
];
/// The most cgroups whose caps are enforced: see `MOST_GROUPS` of the program.
const GROUPS: u32 = 4096;
/// The program that replaces the callback `cpu_release`, and the function of kernels that need it.
const SWITCHED: &str = "switched";
const REENQUEUE: &str = "scx_bpf_reenqueue_local___v2";
/// Flags of every load, and that of partial mode.
const EVERY_LOAD: u64 = 4 | 16;
/// Flags of the scheduler with rules: the kernel also calls enqueue for the last runnable thread of a CPU.
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
/// The index of the first sum.
const FIRST_SUM: usize = 11;
/// Figures of the timer, in the order of `struct beat`.
pub const BEAT: [&str; 4] = ["count", "chunks", "chunk_max_ns", "moved"];
const BEAT_WORDS: usize = 16;

/// The queues of CPUs and processor sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Of each CPU by number: its queue, and the next CPU with the same queue (a ring).
    pub cpus: Vec<(u64, u64)>,
    /// Of each queue: the next one of the same processor set (a ring).
    pub queues: Vec<u64>,
}

impl Places {
    /// The given number of CPUs with one queue.
    #[must_use]
    pub fn one_queue(cpus: u32) -> Places {
        let cpus = u64::from(cpus.max(1));
        Places { cpus: (0..cpus).map(|cpu| (0, (cpu + 1) % cpus)).collect(), queues: vec![0] }
    }
}

/// Options of loading the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Schedule only threads with the policy SCHED_EXT. Otherwise all threads but those of RT and DEADLINE.
    pub partial: bool,
    /// The kernel ends a scheduler that leaves a runnable thread waiting for this time, in milliseconds; at most 30,000.
    pub timeout_ms: u32,
    /// The kernel's count of CPU hotplug events. Loading fails if the count has changed.
    pub hotplug_seq: u64,
    /// A thread that has waited for this time runs for a tick regardless of its level; 0 for never.
    pub rescue_ns: u64,
    /// The parent of a new process falls by a level, as in Solaris.
    pub parent_pays: bool,
    /// A wake-up by a program does not preempt a thread that began to run within this time; 0: it does.
    pub parity_ns: u64,
    /// Count the threads that begin to run while one of a higher level waits for the CPU.
    pub audit: bool,
    /// For tests: see `defect` in the program.
    pub defect: u64,
    /// Load the scheduler without rules.
    pub bare: bool,
}

/// The loaded scheduler.
#[derive(Debug)]
pub struct Classes {
    object: Object,
    operations: &'static str,
    /// Its tables and wishes are those of the previous scheduler.
    inherited: bool,
    /// The kernel needs a program at a tracepoint instead of a callback.
    by_tracepoint: bool,
}

impl Classes {
    /// Loads the scheduler with these tables (`struct rule_tables` as words), or with those of a previous scheduler in the directory `inherit`. It
    /// does not schedule yet: see [`Classes::attach`].
    ///
    /// # Errors
    /// [`Refused`] when the kernel refuses it.
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

    /// Makes it the scheduler of the machine.
    ///
    /// # Errors
    /// [`Refused`] when another sched_ext scheduler runs, or the kernel refuses this one.
    pub fn attach(&mut self) -> Result<(), Refused> {
        if std::mem::take(&mut self.by_tracepoint) {
            self.object.attach(SWITCHED)?;
        }
        self.object.attach_operations(self.operations)
    }

    /// Pins the maps and the query program in a directory of the BPF file system.
    ///
    /// # Errors
    /// [`Refused`] when a map or the program cannot be pinned.
    pub fn pin(&mut self, dir: &Path) -> Result<(), Refused> {
        let inherited = |map: &str| self.inherited && INHERITED.contains(&map);
        // A pin of a scheduler that has ended is of no use.
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

    /// The same access that other processes have.
    ///
    /// # Errors
    /// [`Refused`] when a map is missing.
    pub fn control(&self) -> Result<Control, Refused> {
        Control::of(|map| self.object.entries(map), self.object.callable(ASK)?)
    }

    /// Changes the queues of CPUs. There cannot be more CPUs and queues than at loading.
    ///
    /// # Errors
    /// [`Refused`] when the kernel refuses them.
    pub fn set_places(&self, places: &Places) -> Result<(), Refused> {
        let (cpus, rings) = (self.object.entries("places")?, self.object.entries("rings")?);
        (0u64..).zip(&places.queues).try_for_each(|(queue, next)| rings.put(&[queue], &[*next]))?;
        (0u64..).zip(&places.cpus).try_for_each(|(cpu, (queue, next))| cpus.put(&[cpu], &[*queue, *next]))
    }
}

/// The state of a thread in the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadState {
    /// Number of the class: see `enum rule_class` in rules.h.
    pub class: u64,
    /// The level by which it is scheduled, -1 to 99.
    pub pri: i64,
    /// TS, IA: the system's part of the priority. FX: 0.
    pub cpupri: i64,
    /// The user priority.
    pub upri: i64,
    /// The limit of the user priority.
    pub uprilim: i64,
    /// IA: 10 in the foreground, else -10.
    pub boost: i64,
    /// Rest of the slice, in nanoseconds; `i64::MAX` for an infinite one.
    pub timeleft: i64,
    /// FX: the slice, in nanoseconds.
    pub quantum: i64,
    /// TS, IA: seconds since the slice began.
    pub dispwait: u64,
    /// Run time of the thread, in nanoseconds.
    pub ran_ns: u64,
    /// The CPU that it runs on.
    pub on_cpu: Option<u64>,
    /// The queue that it waits in; 0 for none.
    pub queue: u64,
}

/// The requested class and parameters of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    /// Number of the class: see `enum rule_class` in rules.h.
    pub class: u8,
    /// The limit of the user priority, -60 to 60.
    pub uprilim: i8,
    /// The user priority.
    pub upri: i8,
    /// IA: whether it is in the foreground.
    pub foreground: bool,
    /// FX: its slice, in nanoseconds; `i64::MAX` for an infinite one.
    pub quantum: i64,
}

/// Added to a user priority for the bytes of a request.
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

/// Why the scheduler ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// The kernel's number for the kind: 64 and above without an error, 1024 and above with one.
    pub kind: u64,
    /// The kernel's exit code.
    pub code: u64,
    /// The kernel's text of the reason.
    pub reason: String,
    /// The kernel's detailed message: which thread, for how long.
    pub message: String,
    /// Addresses in the kernel, the innermost first.
    pub backtrace: Vec<u64>,
    /// The beginning of the kernel's dump of CPUs and threads.
    pub dump: String,
}

/// Positions in `struct ending`, in words: its texts and its backtrace.
const REASON: std::ops::Range<usize> = 2..18;
const MESSAGE: std::ops::Range<usize> = 18..50;
const BACKTRACE: std::ops::Range<usize> = 51..67;

/// The maps and the query program of the scheduler, for any process with the rights.
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
    /// Opens the pins of a scheduler in a directory. They do not show whether that scheduler still runs.
    ///
    /// # Errors
    /// [`Refused`] when a pin is missing or cannot be opened.
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

    /// The valid tables, as words.
    #[must_use]
    pub fn tables(&self) -> Vec<u64> {
        self.tables.get(&[self.chosen()]).unwrap_or_default()
    }

    /// Replaces all tables at once. The caller ensures that there is one writer at a time.
    ///
    /// # Errors
    /// [`Refused`] when the kernel refuses them.
    pub fn set_tables(&self, tables: &[u64]) -> Result<(), Refused> {
        let other = 1 - self.chosen();
        self.tables.put(&[other], tables)?;
        self.settings.put(&[0], &[other])?;
        // An event that began earlier may still read the old copy, which the next writer fills. It runs without preemption; membarrier waits for such
        // code. SAFETY: a system call with plain numbers.
        let waited = unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_GLOBAL, 0, 0) };
        if waited != 0 {
            std::thread::sleep(GRACE);
        }
        Ok(())
    }

    /// The state of a thread; `None` when the thread does not exist.
    ///
    /// # Errors
    /// [`Refused`] when the query fails.
    pub fn thread(&self, tid: u32) -> Result<Option<ThreadState>, Refused> {
        self.question(tid, None)
    }

    /// Changes the class or the parameters of a thread; `None` when the thread does not exist. The change also holds for schedulers that are loaded
    /// later: `start` is the start time of the thread, in clock ticks since boot, as in `/proc`.
    ///
    /// # Errors
    /// [`Refused`] when the query fails, or too many threads have wishes.
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

    /// The wishes of threads: thread ID, start time, and wish.
    #[must_use]
    pub fn wishes(&self) -> Vec<(u32, u64, Wish)> {
        let one = |(key, value): (Vec<u64>, Vec<u64>)| {
            let (tid, [start, word, quantum]) = (key.first()?, <[u64; 3]>::try_from(value).ok()?);
            Some((u32::try_from(*tid).ok()?, start, Wish::of_words(word, quantum)?))
        };
        self.wishes.all().into_iter().filter_map(one).collect()
    }

    /// Removes the wish of a thread. Its current class stays.
    pub fn forget(&self, tid: u32) {
        self.wishes.remove(&[tid.into()]);
    }

    /// A figure of a level, -1 to 99: an index of [`LEVEL_FIGURES`]. The sum over CPUs, or the largest value where the figure is a maximum.
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

    /// Why the scheduler ended; `None` while it runs.
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

/// How long to wait for readers where `membarrier` is not available.
const GRACE: std::time::Duration = std::time::Duration::from_millis(20);
