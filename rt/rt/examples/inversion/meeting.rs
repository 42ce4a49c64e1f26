//! A low, a middle and a high thread meet on one CPU: what happens to the high one, in order and in time.
//!
//! The low thread takes a lock, and with it starts the high one, which wants the same lock, and then the middle one, which wants none and computes. All are of the
//! class FIFO: at each moment the one of the highest priority that can run runs. So the order of events follows from the priorities alone, however fast the
//! machine is. Under a plain lock the middle one is in the way of the low one, and so of the high one, as long as it likes. Under a lock with
//! inheritance the low one has the high one's priority until it gives the lock back.
//!
//! The library's example, its test, and the suite's experiment are made of this file.

use std::fmt::Write as _;
use std::io;
use std::mem;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Thread};

/// A lock to be tried.
pub trait Lock: Sync {
    /// Takes it, does `section`, and gives it back; or says why it cannot.
    fn hold(&self, section: &mut dyn FnMut()) -> Result<(), String>;
}

/// A thread of the meeting; the number is its priority in class FIFO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Takes the lock first.
    Low = 10,
    /// Needs no lock.
    Middle = 20,
    /// Wants the lock while the low one has it.
    High = 30,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// It asks for the lock.
    Wants,
    /// It has the lock.
    Has,
    /// It gives the lock back.
    Frees,
    /// It begins to compute without the lock.
    Begins,
    /// It has done that.
    Ends,
}

/// Something that happened.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    /// The how many-th it was.
    pub place: usize,
    /// The thread.
    pub level: Level,
    /// What.
    pub what: What,
    /// When, in nanoseconds since some moment.
    pub nanos: u64,
}

/// How long each computes, in milliseconds of its own CPU time.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// The low one, under the lock, after the others were started.
    pub low: u64,
    /// The middle one.
    pub middle: u64,
    /// The high one, under the lock.
    pub high: u64,
}

/// What is published of a meeting: its events, in their order.
#[derive(Debug)]
pub struct Meeting {
    /// In the order in which they happened.
    pub events: Vec<Event>,
}

impl Meeting {
    fn of(&self, level: Level, what: What) -> Option<&Event> {
        self.events.iter().find(|event| event.level == level && event.what == what)
    }

    /// How long the high one waited for the lock, in nanoseconds.
    pub fn waited(&self) -> Option<u64> {
        Some(self.of(Level::High, What::Has)?.nanos - self.of(Level::High, What::Wants)?.nanos)
    }

    /// Whether the high one got the lock only after the middle one had done its work: by the order of events.
    pub fn is_inverted(&self) -> Option<bool> {
        Some(self.of(Level::High, What::Has)?.place > self.of(Level::Middle, What::Ends)?.place)
    }

    /// A line for each thread over time: `=` it has the lock, `-` it waits for the lock, `#` it computes. Each mark is `millis` long.
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

/// Lets the three meet on the last CPU that the caller may use. The error says why they could not.
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
                    // Each runs at once if its priority is higher than the one that this thread has now.
                    Stage::start(&stage.high, high);
                    Stage::start(&stage.middle, middle);
                    compute(work.low);
                    own.note(What::Frees);
                });
            }
            // No thread is left waiting.
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

/// Where they meet.
struct Stage {
    cpu: usize,
    /// Their events, and the thread of each.
    ready: Barrier,
    /// One of them could not come.
    is_off: AtomicBool,
    high: AtomicBool,
    middle: AtomicBool,
    /// Of events.
    next: AtomicUsize,
}

impl Stage {
    /// Goes to the CPU and the priority, and waits until the others have.
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

/// Events of one thread; room for them is there before it matters.
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

/// Uses the CPU for so long, not counting what others use of it.
fn compute(millis: u64) {
    let end = clock(libc::CLOCK_THREAD_CPUTIME_ID) + millis * 1_000_000;
    while clock(libc::CLOCK_THREAD_CPUTIME_ID) < end {
        std::hint::spin_loop();
    }
}

fn last_cpu() -> Result<usize, String> {
    let size = mem::size_of::<libc::cpu_set_t>();
    // SAFETY: a set of zeros is a set, and it is written to.
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
    // SAFETY: a set of zeros is a set, the number is of one of its members, and it is read.
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
