//! Time: CPU time of the calling thread, and supervision of a load's threads.

use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Polling interval of the stop flag while a load waits.
pub(crate) const STOP_POLL: Duration = Duration::from_millis(50);

/// CPU time of the calling thread since its start.
pub(crate) fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // Cannot fail: the kernel normalises the value, and this clock begins at zero.
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Waits until the last sender of `ended` is dropped, when the last thread has ended. Meanwhile it calls `progress` every `interval`
/// with the seconds since `started`, and sets `is_over` once `stop` is set. Returns whether it was stopped.
pub(crate) fn supervise(
    ended: &Receiver<()>,
    started: Instant,
    interval: Option<Duration>,
    stop: &AtomicBool,
    is_over: &AtomicBool,
    progress: &mut dyn FnMut(f64),
) -> bool {
    let interval = interval.map(|interval| interval.max(Duration::from_millis(1)));
    let (mut due, mut was_stopped) = (interval, false);
    loop {
        let left = due.map_or(STOP_POLL, |due| due.saturating_sub(started.elapsed()).min(STOP_POLL));
        if ended.recv_timeout(left) == Err(RecvTimeoutError::Disconnected) {
            return was_stopped;
        }
        if stop.load(Ordering::Relaxed) {
            was_stopped = true;
            is_over.store(true, Ordering::Relaxed);
        }
        let elapsed = started.elapsed();
        if let (Some(reached), Some(interval)) = (due, interval)
            && elapsed >= reached
        {
            progress(elapsed.as_secs_f64());
            due = Some(elapsed + interval);
        }
    }
}

/// Sets a flag when dropped: ends the threads of a load, however its main thread returns.
pub(crate) struct SetOnDrop<'a>(pub(crate) &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
