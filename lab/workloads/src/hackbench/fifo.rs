//! The real-time priority of the main task.

use crate::Error;
use std::io;

/// Sets the first FIFO priority for the calling thread, for the lifetime of the value.
pub(super) struct FifoGuard {
    former: (i32, libc::sched_param),
}

impl FifoGuard {
    pub(super) fn take() -> Result<Self, Error> {
        // SAFETY: both calls take a thread id, 0 for the calling thread, and `former` is a valid place to write to.
        let former = unsafe {
            let mut param: libc::sched_param = std::mem::zeroed();
            let policy = libc::sched_getscheduler(0);
            if policy < 0 || libc::sched_getparam(0, &raw mut param) < 0 {
                return Err(Error::SetFifo { source: io::Error::last_os_error() });
            }
            (policy, param)
        };
        set_scheduler(libc::SCHED_FIFO, libc::sched_param { sched_priority: 1 })?;
        Ok(Self { former })
    }
}

impl Drop for FifoGuard {
    fn drop(&mut self) {
        // Restoring needs no privilege; an error cannot be reported from here.
        let _ = set_scheduler(self.former.0, self.former.1);
    }
}

fn set_scheduler(policy: i32, param: libc::sched_param) -> Result<(), Error> {
    // SAFETY: 0 is the calling thread and `param` lives through the call.
    let outcome = unsafe { libc::sched_setscheduler(0, policy, &raw const param) };
    if outcome < 0 { Err(Error::SetFifo { source: io::Error::last_os_error() }) } else { Ok(()) }
}
