//! Limits of delays that no other thread causes: CPUs in deep idle states, and coalesced timers.

use super::files::IdleLatency;
use super::outcome::{Refusal, check, errno};
use libc::c_ulong;
use std::io;
use std::time::Duration;

/// Requests a limit, which lasts as long as the result.
pub(super) fn limit_idle_latency(wanted: Duration) -> Result<IdleLatency, Refusal> {
    let microseconds = i32::try_from(wanted.as_micros()).map_err(|_| {
        idle_refusal(wanted, libc::EINVAL, "that is no limit; ask for less than half an hour")
    })?;
    IdleLatency::ask(microseconds).map_err(|error| idle_refused(wanted, &error))
}

fn idle_refusal(wanted: Duration, errno: i32, said: &str) -> Refusal {
    Refusal::new(errno, format!("cannot limit idle latency to {wanted:?}: {said}"))
}

fn idle_refused(wanted: Duration, error: &io::Error) -> Refusal {
    let said = match errno(error) {
        libc::EACCES | libc::EPERM => {
            "cpu_dma_latency is not for this user: run as root, or let a rule of udev give it to a group"
                .into()
        }
        libc::ENOENT | libc::ENXIO | libc::ENODEV => {
            "there is no cpu_dma_latency in /dev: a container must be given it; a kernel may be without"
                .into()
        }
        _ => error.to_string(),
    };
    idle_refusal(wanted, errno(error), &said)
}

/// The effective limit of all requests, as text.
pub(super) fn idle_latency(request: Option<&IdleLatency>) -> String {
    let limit = request.map_or_else(|| IdleLatency::look()?.limit(), IdleLatency::limit);
    match limit {
        Ok(NO_LIMIT) => "no limit".into(),
        Ok(limit) => format!("{limit}us"),
        Err(_) => "unknown".into(),
    }
}

/// The value of `cpu_dma_latency` without requests, in microseconds.
const NO_LIMIT: i32 = 2_000_000_000;

/// Sets the timer slack of the calling thread, and returns the previous one.
pub(super) fn set_timer_slack(wanted: Duration) -> Result<Duration, Refusal> {
    let failed =
        |errno, said: &str| Refusal::new(errno, format!("cannot set timer slack to {wanted:?}: {said}"));
    let before = ask_timer_slack().map_err(|error| failed(errno(&error), &error.to_string()))?;
    let number = c_ulong::try_from(wanted.as_nanos()).ok().filter(|number| *number > 0);
    let number =
        number.ok_or_else(|| failed(libc::EINVAL, "1ns is the least, and a few hundred years the most"))?;
    set(number).map_err(|error| failed(errno(&error), &error.to_string()))?;
    // Kernels ignore the setting for real-time threads, whose slack is 0.
    match ask_timer_slack() {
        Ok(had) if had <= wanted => Ok(before),
        _ => Err(failed(libc::ENOTSUP, "the kernel set another one")),
    }
}

/// Restores the previous slack. For a real-time thread, which has none, it does nothing.
pub(super) fn restore_timer_slack(before: Duration) -> Result<(), Refusal> {
    match c_ulong::try_from(before.as_nanos()) {
        Ok(number) if number > 0 => {
            set(number).map_err(|error| Refusal::system("set timer slack back", &error))
        }
        _ => Ok(()),
    }
}

pub(super) fn timer_slack() -> String {
    ask_timer_slack().map_or_else(|error| error.to_string(), |slack| format!("{slack:?}"))
}

fn set(nanoseconds: c_ulong) -> io::Result<()> {
    let zero: c_ulong = 0;
    // SAFETY: integer arguments only.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanoseconds, zero, zero, zero) })
}

fn ask_timer_slack() -> io::Result<Duration> {
    let zero: c_ulong = 0;
    // A direct system call: the C library returns an int, which overflows at about two seconds.
    // SAFETY: the call has no effect.
    let slack = unsafe { libc::syscall(libc::SYS_prctl, libc::PR_GET_TIMERSLACK, zero, zero, zero, zero) };
    u64::try_from(slack).map(Duration::from_nanos).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_of_idle_latency_says_what_helps() {
        let said = |errno| {
            let refusal = idle_refused(Duration::from_micros(5), &io::Error::from_raw_os_error(errno));
            assert_eq!(refusal.errno, errno);
            refusal.reason
        };
        assert_eq!(
            said(libc::ENOENT),
            "cannot limit idle latency to 5µs: there is no cpu_dma_latency in /dev: a container must be given it; \
             a kernel may be without"
        );
        assert_eq!(
            said(libc::EACCES),
            "cannot limit idle latency to 5µs: cpu_dma_latency is not for this user: run as root, or let a rule of udev \
             give it to a group"
        );
        assert!(said(libc::EBUSY).contains("Device or resource busy"));
        assert_eq!(limit_idle_latency(Duration::MAX).unwrap_err().errno, libc::EINVAL);
    }
}
