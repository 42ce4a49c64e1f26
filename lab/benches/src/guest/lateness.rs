//! A thread that wants to wake up at each millisecond, and the worst that it was late.

use crate::trial::{Trouble, told};
use millpond_model::Nanos;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const PERIOD_NS: i64 = 1_000_000;
/// Above everything but the kernel's own.
const PRIORITY: i32 = 80;

/// Wakes up on `cpu` for good, in the FIFO class. For each line of standard input it says the worst lateness in
/// nanoseconds since the line before, and ends with its input.
///
/// # Errors
/// The CPU or the class cannot be had.
pub fn serve(cpu: usize) -> Result<(), Trouble> {
    let worst_ns = Arc::new(AtomicU64::new(0));
    let shared = Arc::clone(&worst_ns);
    let (ready, is_ready) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let prepared = prepare(cpu);
        let is_fine = prepared.is_ok();
        let _ = ready.send(prepared);
        if is_fine {
            wake_up(&shared);
        }
    });
    is_ready.recv().map_err(|error| error.to_string())??;
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        told("read", line)?;
        told("answer", writeln!(out, "{}", worst_ns.swap(0, Ordering::Relaxed)))?;
        told("answer", out.flush())?;
    }
    Ok(())
}

fn prepare(cpu: usize) -> Result<(), Trouble> {
    let mut only = rustix::thread::CpuSet::new();
    only.set(cpu);
    told("stay on a CPU", rustix::thread::sched_setaffinity(None, &only))?;
    let parameter = libc::sched_param { sched_priority: PRIORITY };
    // SAFETY: the parameter is a live, initialised structure; 0 is the calling thread.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) };
    if result == 0 { Ok(()) } else { Err(format!("cannot be FIFO: {}", std::io::Error::last_os_error())) }
}

fn now() -> libc::timespec {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is live and ours; the clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now
}

fn wake_up(worst_ns: &AtomicU64) {
    let mut due = now();
    loop {
        due.tv_nsec += PERIOD_NS;
        if due.tv_nsec >= 1_000_000_000 {
            due.tv_nsec -= 1_000_000_000;
            due.tv_sec += 1;
        }
        // SAFETY: the time is live and initialised; no remainder is asked for, as an absolute time has none.
        unsafe {
            libc::clock_nanosleep(
                libc::CLOCK_MONOTONIC,
                libc::TIMER_ABSTIME,
                &raw const due,
                std::ptr::null_mut(),
            )
        };
        let is = now();
        let late = (is.tv_sec - due.tv_sec) * 1_000_000_000 + (is.tv_nsec - due.tv_nsec);
        let late = Nanos(u64::try_from(late).unwrap_or(0));
        worst_ns.fetch_max(late.0, Ordering::Relaxed);
        // Times that were missed are not made up for: each would be late for the same reason.
        if late.0 > PERIOD_NS.unsigned_abs() {
            due = is;
        }
    }
}
