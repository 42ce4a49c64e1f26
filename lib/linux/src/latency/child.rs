//! The probe itself: a process with one thread, forked from ours. Until it ends it takes no memory, no lock and nothing that another thread of its
//! parent may have held: it calls the system, and works on memory that was there before.

use super::shared::{MOVED, NO_CLASS, NO_LOCK, NO_TIMER, SAMPLE_WORDS, Shared};
use super::timerlat;
use libc::{c_int, timespec};
use millpond_bpf::latency::{MOMENTS, Stamping};
use std::ffi::CStr;
use std::sync::atomic::Ordering;

/// Passes over its code before it measures.
const UNTIMED: u64 = 48;

/// What a probe needs to know.
pub(super) struct Orders<'a> {
    pub shared: &'a Shared,
    /// Where a byte comes from when it should go.
    pub gate: c_int,
    /// Its parent: it ends with it.
    pub parent: libc::pid_t,
    pub cpu: c_int,
    /// Nanoseconds; at least one.
    pub intervals: &'a [u64],
    /// Of first in, first out: 1 to 99.
    pub priority: c_int,
    pub seed: u64,
    pub timers: Timers<'a>,
}

/// Origin timers it waits for.
pub(super) enum Timers<'a> {
    /// Its own.
    Own(Option<&'a Stamping>),
    /// Those of timerlat: a file in the open directory of tracing.
    Timerlat(c_int, &'a CStr),
}

/// What the child does after the fork. Never returns.
pub(super) fn run(orders: &Orders<'_>) -> ! {
    let Err(ended) = prepare(orders).and_then(|()| match orders.timers {
        Timers::Own(stamping) => measure(orders, stamping),
        Timers::Timerlat(dir, file) => follow(orders.shared, dir, file),
    });
    orders.shared.ended.store(ended, Ordering::Release);
    // SAFETY: ends this process at once, without anything that its parent would do at its end.
    unsafe { libc::_exit(0) }
}

fn failed(what: u64) -> u64 {
    let error = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    what << 32 | u64::from(error.unsigned_abs())
}

/// Waits to be told to go; then nothing that takes time is left to be done while it measures.
fn prepare(orders: &Orders<'_>) -> Result<(), u64> {
    // SAFETY: system calls with plain numbers and with memory of this function that is large enough for them. The set of signals is filled before it is
    // used.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        let name = if matches!(orders.timers, Timers::Own(_)) { c"latstat-probe" } else { timerlat::PROBE };
        libc::prctl(libc::PR_SET_NAME, name.as_ptr());
        if libc::getppid() != orders.parent {
            libc::_exit(0);
        }
        // Who interrupts us means our parent, which then ends us.
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
        let mut byte = 0u8;
        if libc::read(orders.gate, (&raw mut byte).cast(), 1) != 1 {
            libc::_exit(0);
        }
        if libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) != 0 {
            return Err(failed(NO_LOCK));
        }
        let mut how: libc::sched_param = std::mem::zeroed();
        how.sched_priority = orders.priority;
        if libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const how) != 0 {
            return Err(failed(NO_CLASS));
        }
    }
    Ok(())
}

fn now() -> u64 {
    let mut at = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists, and the time is written to memory of this function.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut at) };
    at.tv_sec.unsigned_abs().wrapping_mul(1_000_000_000).wrapping_add(at.tv_nsec.unsigned_abs())
}

fn sleep_until(due: u64) {
    let at = timespec {
        tv_sec: (due / 1_000_000_000).cast_signed(),
        tv_nsec: (due % 1_000_000_000).cast_signed(),
    };
    // SAFETY: the clock exists, and the time is memory of this function. All signals are blocked, so that nothing ends it early.
    unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const at, std::ptr::null_mut())
    };
}

/// Waits for one timer of timerlat after the other; the tracer writes down how long each took, the way back to user mode when it is asked for the next.
fn follow(shared: &Shared, dir: c_int, file: &CStr) -> Result<std::convert::Infallible, u64> {
    // SAFETY: a directory that is open, and a text that ends.
    let timers = unsafe { libc::openat(dir, file.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if timers < 0 {
        return Err(failed(NO_TIMER));
    }
    let mut untimed = UNTIMED;
    loop {
        let mut nothing = 0u64;
        // SAFETY: memory of this function, of that size. Nothing is written there: each call gives nothing, when the timer was due.
        if unsafe { libc::read(timers, (&raw mut nothing).cast(), size_of::<u64>()) } < 0 {
            let why = failed(NO_TIMER);
            // It was on its CPU when it began to wait.
            let is_elsewhere = why == NO_TIMER << 32 | u64::from(libc::EINVAL.unsigned_abs());
            return Err(if is_elsewhere && untimed < UNTIMED { MOVED << 32 } else { why });
        }
        if untimed > 0 {
            untimed -= 1;
            if untimed == 0 {
                shared.ready.store(1, Ordering::Release);
            }
        }
    }
}

fn measure(orders: &Orders<'_>, stamping: Option<&Stamping>) -> Result<std::convert::Infallible, u64> {
    let mut lots = orders.seed | 1;
    let mut untimed = UNTIMED;
    loop {
        // xorshift: it never becomes zero again.
        lots ^= lots << 13;
        lots ^= lots >> 7;
        lots ^= lots << 17;
        let which = usize::try_from(lots % orders.intervals.len() as u64).unwrap_or(0);
        let due = now().wrapping_add(orders.intervals[which]);
        sleep_until(due);
        let user = now();
        let [irq, woken, on_cpu] = stamping.map_or([0; 3], Stamping::stamps);
        let sample: [u64; SAMPLE_WORDS] = [due, irq, woken, on_cpu, user];
        // SAFETY: asks for a number.
        if unsafe { libc::sched_getcpu() } != orders.cpu {
            return Err(MOVED << 32);
        }
        if untimed > 0 {
            untimed -= 1;
            if untimed == 0 {
                orders.shared.ready.store(1, Ordering::Release);
            }
            continue;
        }
        orders.shared.push(&sample);
        let last = stamping.map_or(0, Stamping::moments);
        let moment = |n: u64| stamping.map_or([0; 4], |s| s.moment(last.wrapping_sub(n + 1)));
        orders.shared.keep(&sample, last.min(MOMENTS as u64), moment);
    }
}
