//! A thread that wakes up each millisecond, and its maximum lateness.

use super::period::Period;
use crate::trial::{Trouble, told};
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const PERIOD: Duration = Duration::from_millis(1);
/// Above all threads except the kernel's own.
const PRIORITY: i32 = 80;

/// Wakes up periodically on `cpu`, in the FIFO class. For each line of standard input it prints the maximum lateness in nanoseconds since the
/// line before. It ends with its input.
///
/// # Errors
/// The CPU or the class cannot be set.
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

fn wake_up(worst_ns: &AtomicU64) {
    let mut period = Period::begin(PERIOD);
    loop {
        let late = u64::try_from(period.wake().as_nanos()).unwrap_or(u64::MAX);
        worst_ns.fetch_max(late, Ordering::Relaxed);
    }
}
