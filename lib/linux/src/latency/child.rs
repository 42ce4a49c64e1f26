//! The probe: a forked process with one thread. It allocates no memory and takes no lock, and uses nothing that another thread of
//! the parent may have held. It makes system calls, and works on memory that existed before the fork.

use super::shared::{MOVED, NO_CLASS, NO_LOCK, NO_TIMER, SAMPLE_WORDS, Shared};
use super::timerlat;
use libc::{c_int, timespec};
use millpond_bpf::latency::{MOMENTS, Stamping};
use std::ffi::CStr;
use std::sync::atomic::Ordering;

/// Unmeasured iterations at the beginning, to warm up the code.
const UNTIMED: u64 = 48;

/// Parameters of a probe.
pub(super) struct Orders<'a> {
    pub shared: &'a Shared,
    /// A byte arrives here when the probe should start.
    pub gate: c_int,
    /// Its parent. The probe ends with it.
    pub parent: libc::pid_t,
    pub cpu: c_int,
    /// Intervals in nanoseconds, at least one.
    pub intervals: &'a [u64],
    /// Priority in SCHED_FIFO: 1 to 99.
    pub priority: c_int,
    pub seed: u64,
    pub timers: Timers<'a>,
}

/// The timers that the probe waits for.
pub(super) enum Timers<'a> {
    /// Its own timers.
    Own(Option<&'a Stamping>),
    /// Timers of timerlat: a file in the open tracing directory.
    Timerlat(c_int, &'a CStr),
}

/// The code of the child after the fork. Never returns.
pub(super) fn run(orders: &Orders<'_>) -> ! {
    let Err(ended) = prepare(orders).and_then(|()| match orders.timers {
        Timers::Own(stamping) => measure(orders, stamping),
        Timers::Timerlat(dir, file) => follow(orders.shared, dir, file),
    });
    orders.shared.ended.store(ended, Ordering::Release);
    // SAFETY: ends this process immediately, without exit handlers of the parent.
    unsafe { libc::_exit(0) }
}

fn failed(what: u64) -> u64 {
    let error = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    what << 32 | u64::from(error.unsigned_abs())
}

/// Waits for the start signal, after all slow preparations.
fn prepare(orders: &Orders<'_>) -> Result<(), u64> {
    // SAFETY: system calls with plain numbers and with memory of this function that is large enough. The signal set is filled
    // before it is used.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        let name = if matches!(orders.timers, Timers::Own(_)) { c"latstat-probe" } else { timerlat::PROBE };
        libc::prctl(libc::PR_SET_NAME, name.as_ptr());
        if libc::getppid() != orders.parent {
            libc::_exit(0);
        }
        // Signals from a terminal are for the parent, which then ends the probe.
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
    // SAFETY: the clock exists, and the time is in memory of this function. All signals are blocked, so none ends the sleep
    // early.
    unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const at, std::ptr::null_mut())
    };
}

/// Waits for timers of timerlat, one after the other. The tracer records each latency; the return to user mode is recorded at the
/// next wait.
fn follow(shared: &Shared, dir: c_int, file: &CStr) -> Result<std::convert::Infallible, u64> {
    // SAFETY: an open directory, and a terminated string.
    let timers = unsafe { libc::openat(dir, file.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if timers < 0 {
        return Err(failed(NO_TIMER));
    }
    let mut untimed = UNTIMED;
    loop {
        let mut nothing = 0u64;
        // SAFETY: the buffer is memory of this function with that size. Nothing is written: each call returns 0 bytes when the
        // timer expires.
        if unsafe { libc::read(timers, (&raw mut nothing).cast(), size_of::<u64>()) } < 0 {
            let why = failed(NO_TIMER);
            // The probe was on its CPU when it began to wait.
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
        // xorshift: the state never becomes zero.
        lots ^= lots << 13;
        lots ^= lots >> 7;
        lots ^= lots << 17;
        let which = usize::try_from(lots % orders.intervals.len() as u64).unwrap_or(0);
        let due = now().wrapping_add(orders.intervals[which]);
        sleep_until(due);
        let user = now();
        let [irq, woken, on_cpu] = stamping.map_or([0; 3], Stamping::stamps);
        let sample: [u64; SAMPLE_WORDS] = [due, irq, woken, on_cpu, user];
        // SAFETY: only returns a number.
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
