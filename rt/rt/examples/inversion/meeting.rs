//! Priority inversion on one CPU, with a low, a middle and a high thread: the order and times of the high thread's events.
//!
//! The low thread takes a lock. While it holds the lock it starts the high thread, which wants the same lock, and then the middle one, which
//! needs no lock and computes. All are SCHED_FIFO: the runnable thread of the highest priority runs. So the order of events follows from the
//! priorities alone, at any speed of the machine. Under a plain lock the middle thread preempts the low one, and so delays the high one, for
//! as long as it computes. Under a lock with inheritance the low thread has the high one's priority until it unlocks.
//!
//! The library's example, its test, and the suite's experiment use this file.

use std::fmt::Write as _;
use std::io;
use std::mem;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Thread};

/// A lock to test.
pub trait Lock: Sync {
    /// Locks, runs `section`, and unlocks; or returns an error.
    fn hold(&self, section: &mut dyn FnMut()) -> Result<(), String>;
}

/// A thread; the value is its SCHED_FIFO priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Locks first.
    Low = 10,
    /// Needs no lock.
    Middle = 20,
    /// Wants the lock while the low thread holds it.
    High = 30,
}

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// It requests the lock.
    Wants,
    /// It has acquired the lock.
    Has,
    /// It unlocks.
    Frees,
    /// It begins to compute without the lock.
    Begins,
    /// It has finished computing.
    Ends,
}

/// An event.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    /// Its position in the order of events.
    pub place: usize,
    /// The thread.
    pub level: Level,
    /// Its kind.
    pub what: What,
    /// Time in nanoseconds, on the monotonic clock.
    pub nanos: u64,
}

/// Computing times, in milliseconds of each thread's CPU time.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// The low thread, under the lock, after it started the others.
    pub low: u64,
    /// The middle thread.
    pub middle: u64,
    /// The high thread, under the lock.
    pub high: u64,
}

/// The result: the events in order.
#[derive(Debug)]
pub struct Meeting {
    /// In the order of their positions.
    pub events: Vec<Event>,
}

impl Meeting {
    fn of(&self, level: Level, what: What) -> Option<&Event> {
        self.events.iter().find(|event| event.level == level && event.what == what)
    }

    /// The high thread's wait for the lock, in nanoseconds.
    pub fn waited(&self) -> Option<u64> {
        Some(self.of(Level::High, What::Has)?.nanos - self.of(Level::High, What::Wants)?.nanos)
    }

    /// Whether the high thread got the lock only after the middle one had finished, by the order of events.
    pub fn is_inverted(&self) -> Option<bool> {
        Some(self.of(Level::High, What::Has)?.place > self.of(Level::Middle, What::Ends)?.place)
    }

    /// A line per thread over time: `=` holds the lock, `-` waits for it, `#` computes. Each mark is `millis` long.
    pub fn timeline(&self, millis: u64) -> String {
        let begin = self.events.iter().map(|event| event.nanos).min().unwrap_or(0);
        let mark =
            |nanos: u64| usize::try_from((nanos - begin) / (millis.max(1) * 1_000_000)).unwrap_or(usize::MAX);
        let mut text = String::new();
        for (level, name) in [(Level::High, "high"), (Level::Middle, "middle"), (Level::Low, "low")] {
            let mut line = String::new();
            let own: Vec<&Event> = self.events.iter().filter(|event| event.level == level).collect();
            for pair in own.windows(2) {
                let sign = match pair[0].what {
                    What::Has => '=',
                    What::Wants => '-',
                    What::Begins => '#',
                    What::Frees | What::Ends => ' ',
                };
                let (from, to) = (mark(pair[0].nanos), mark(pair[1].nanos));
                let missing = from.saturating_sub(line.chars().count());
                line.extend(std::iter::repeat_n(' ', missing));
                line.extend(std::iter::repeat_n(sign, to.saturating_sub(from)));
            }
            let _ = writeln!(text, "  {name:<8}|{line}");
        }
        text
    }
}

/// Runs the three threads on the last CPU that the caller may use.
pub fn meet(lock: &dyn Lock, work: Work) -> Result<Meeting, String> {
    let cpu = last_cpu()?;
    let stage = Stage {
        cpu,
        ready: Barrier::new(4),
        is_off: AtomicBool::new(false),
        high: AtomicBool::new(false),
        middle: AtomicBool::new(false),
        next: AtomicUsize::new(0),
    };
    let stage = &stage;
    let told = thread::scope(|scope| {
        let high = scope.spawn(move || {
            stage.come(Level::High)?;
            let mut own = Notes::new(stage, Level::High);
            stage.wait_for(&stage.high)?;
            own.note(What::Wants);
            lock.hold(&mut || {
                own.note(What::Has);
                compute(work.high);
                own.note(What::Frees);
            })?;
            Ok(own.events)
        });
        let middle = scope.spawn(move || {
            stage.come(Level::Middle)?;
            let mut own = Notes::new(stage, Level::Middle);
            stage.wait_for(&stage.middle)?;
            own.note(What::Begins);
            compute(work.middle);
            own.note(What::Ends);
            Ok(own.events)
        });
        let others = [high.thread().clone(), middle.thread().clone()];
        let low = scope.spawn(move || {
            let came = stage.come(Level::Low);
            let [high, middle] = &others;
            let mut own = Notes::new(stage, Level::Low);
            let mut held = Ok(());
            if came.is_ok() {
                own.note(What::Wants);
                held = lock.hold(&mut || {
                    own.note(What::Has);
                    // Each runs at once if its priority exceeds this thread's present one.
                    Stage::start(&stage.high, high);
                    Stage::start(&stage.middle, middle);
                    compute(work.low);
                    own.note(What::Frees);
                });
            }
            // On an error, too, no thread may be left waiting.
            Stage::start(&stage.high, high);
            Stage::start(&stage.middle, middle);
            came.and(held).map(|()| own.events)
        });
        stage.ready.wait();
        [high.join(), middle.join(), low.join()]
    });
    let mut events = Vec::new();
    for told in told {
        events.extend(told.map_err(|_| "a thread of it panicked".to_owned())??);
    }
    events.sort_by_key(|event| event.place);
    Ok(Meeting { events })
}

/// State shared by the three threads.
struct Stage {
    cpu: usize,
    /// Reached by the three threads and the one that starts them.
    ready: Barrier,
    /// A thread could not get its CPU or priority.
    is_off: AtomicBool,
    high: AtomicBool,
    middle: AtomicBool,
    /// The next event's position.
    next: AtomicUsize,
}

impl Stage {
    /// Sets this thread's CPU and priority, and waits for the others.
    fn come(&self, level: Level) -> Result<(), String> {
        let came = pin(self.cpu).and_then(|()| be_fifo(level as i32));
        self.is_off.fetch_or(came.is_err(), Ordering::SeqCst);
        self.ready.wait();
        came?;
        if self.is_off.load(Ordering::SeqCst) {
            Err("one of the threads could not come".into())
        } else {
            Ok(())
        }
    }

    fn wait_for(&self, gate: &AtomicBool) -> Result<(), String> {
        while !gate.load(Ordering::SeqCst) {
            thread::park();
        }
        Ok(())
    }

    fn start(gate: &AtomicBool, thread: &Thread) {
        gate.store(true, Ordering::SeqCst);
        thread.unpark();
    }
}

/// A thread's events, in preallocated memory.
struct Notes<'a> {
    stage: &'a Stage,
    level: Level,
    events: Vec<Event>,
}

impl<'a> Notes<'a> {
    fn new(stage: &'a Stage, level: Level) -> Notes<'a> {
        Notes { stage, level, events: Vec::with_capacity(8) }
    }

    fn note(&mut self, what: What) {
        let place = self.stage.next.fetch_add(1, Ordering::SeqCst);
        self.events.push(Event { place, level: self.level, what, nanos: clock(libc::CLOCK_MONOTONIC) });
    }
}

fn clock(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the record is written to.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Computes for this much of its own CPU time.
fn compute(millis: u64) {
    let end = clock(libc::CLOCK_THREAD_CPUTIME_ID) + millis * 1_000_000;
    while clock(libc::CLOCK_THREAD_CPUTIME_ID) < end {
        std::hint::spin_loop();
    }
}

fn last_cpu() -> Result<usize, String> {
    let size = mem::size_of::<libc::cpu_set_t>();
    // SAFETY: an all-zero set is valid, and the call writes to it.
    let allowed = unsafe {
        let mut allowed: libc::cpu_set_t = mem::zeroed();
        if libc::sched_getaffinity(0, size, &raw mut allowed) != 0 {
            return Err(format!("cannot ask for the CPUs: {}", io::Error::last_os_error()));
        }
        allowed
    };
    let count = usize::try_from(libc::CPU_SETSIZE).unwrap_or(0);
    // SAFETY: each number is within the set.
    let last = (0..count).rev().find(|cpu| unsafe { libc::CPU_ISSET(*cpu, &allowed) });
    last.ok_or_else(|| "there is no CPU to use".to_owned())
}

fn pin(cpu: usize) -> Result<(), String> {
    // SAFETY: an all-zero set is valid, the number is within it, and the call only reads it.
    let answer = unsafe {
        let mut one: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(cpu, &mut one);
        libc::sched_setaffinity(0, mem::size_of::<libc::cpu_set_t>(), &raw const one)
    };
    if answer == 0 { Ok(()) } else { Err(format!("cannot go to CPU {cpu}: {}", io::Error::last_os_error())) }
}

fn be_fifo(priority: i32) -> Result<(), String> {
    let wanted = libc::sched_param { sched_priority: priority };
    // SAFETY: the record is read.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const wanted) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    Err(match error.raw_os_error() {
        Some(libc::EPERM) => {
            "cannot use the class FIFO: there is no right to it (CAP_SYS_NICE, or a limit: ulimit -r 30)"
                .into()
        }
        _ => format!("cannot use the class FIFO: {error}"),
    })
}
