//! What delays a thread that nobody else does: processors that sleep deep, and timers that wait for each other.

use super::outcome::{Refusal, errno};
use libc::c_ulong;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Whoever has it open limits how long a processor may take to wake up; who closes it, or ends, no longer does.
///
/// Files for single processors (`pm_qos_resume_latency_us`) would stay as they are when a program is killed.
const IDLE_LATENCY: &str = "/dev/cpu_dma_latency";

/// Asks for it; the request lives as long as the file.
pub(super) fn limit_idle_latency(wanted: Duration) -> Result<File, Refusal> {
    limit_at(IDLE_LATENCY, wanted)
}

fn limit_at(path: &str, wanted: Duration) -> Result<File, Refusal> {
    let failed =
        |errno, said: &str| Refusal::new(errno, format!("cannot limit idle latency to {wanted:?}: {said}"));
    let microseconds = i32::try_from(wanted.as_micros())
        .map_err(|_| failed(libc::EINVAL, "that is no limit; ask for less than half an hour"))?;
    let file = OpenOptions::new().read(true).write(true).open(path);
    let written = file.and_then(|mut file| file.write_all(&microseconds.to_ne_bytes()).map(|()| file));
    written.map_err(|error| match errno(&error) {
        libc::EACCES | libc::EPERM => failed(
            errno(&error),
            &format!("{path} is not for this user: run as root, or let a rule of udev give it to a group"),
        ),
        libc::ENOENT | libc::ENXIO | libc::ENODEV => failed(
            errno(&error),
            &format!("there is no {path}: a container must be given it; a kernel may be without"),
        ),
        number => failed(number, &error.to_string()),
    })
}

/// The limit that all requests together make, in words.
pub(super) fn idle_latency(file: Option<&File>) -> String {
    let opened = if file.is_none() { File::open(IDLE_LATENCY).ok() } else { None };
    let mut bytes = [0; 4];
    match file.or(opened.as_ref()).map(|file| file.read_exact_at(&mut bytes, 0)) {
        Some(Ok(())) => match i32::from_ne_bytes(bytes) {
            NO_LIMIT => "no limit".into(),
            limit => format!("{limit}us"),
        },
        _ => "unknown".into(),
    }
}

/// What the kernel says when nobody asked for one, in microseconds.
const NO_LIMIT: i32 = 2_000_000_000;

/// Lets timers of the calling thread be that late; gives what it was.
pub(super) fn set_timer_slack(wanted: Duration) -> Result<Duration, Refusal> {
    let failed =
        |errno, said: &str| Refusal::new(errno, format!("cannot set timer slack to {wanted:?}: {said}"));
    let before = ask_timer_slack().map_err(|error| failed(errno(&error), &error.to_string()))?;
    let number = c_ulong::try_from(wanted.as_nanos()).ok().filter(|number| *number > 0);
    let number =
        number.ok_or_else(|| failed(libc::EINVAL, "1ns is the least, and a few hundred years the most"))?;
    set(number).map_err(|error| failed(errno(&error), &error.to_string()))?;
    // A kernel may know better: timers of real-time threads are never late, and it does not listen to them.
    match ask_timer_slack() {
        Ok(had) if had <= wanted => Ok(before),
        _ => Err(failed(libc::ENOTSUP, "the kernel set another one")),
    }
}

/// Sets what it was. Of a real-time thread, which has none, nothing is known.
pub(super) fn restore_timer_slack(before: Duration) -> Result<(), Refusal> {
    match c_ulong::try_from(before.as_nanos()) {
        Ok(number) if number > 0 => {
            set(number).map_err(|error| Refusal::system("set timer slack back", &error))
        }
        _ => Ok(()),
    }
}

/// What it is, in words.
pub(super) fn timer_slack() -> String {
    ask_timer_slack().map_or_else(|error| error.to_string(), |slack| format!("{slack:?}"))
}

fn set(nanoseconds: c_ulong) -> io::Result<()> {
    // SAFETY: numbers only.
    match unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, nanoseconds, 0 as c_ulong, 0 as c_ulong, 0 as c_ulong)
    } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn ask_timer_slack() -> io::Result<Duration> {
    let zero: c_ulong = 0;
    // By the kernel itself, because the C library's answer is an int, which four seconds do not fit.
    // SAFETY: it only asks.
    let slack = unsafe { libc::syscall(libc::SYS_prctl, libc::PR_GET_TIMERSLACK, zero, zero, zero, zero) };
    u64::try_from(slack).map(Duration::from_nanos).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_of_idle_latency_says_what_helps() {
        let said = |path: &str, wanted| limit_at(path, wanted).unwrap_err();
        let few = Duration::from_micros(5);
        let absent = said("/dev/millpond-has-none", few);
        assert_eq!(absent.errno, libc::ENOENT);
        assert_eq!(
            absent.reason,
            "cannot limit idle latency to 5µs: there is no /dev/millpond-has-none: a container must be given it; \
             a kernel may be without"
        );
        assert_eq!(said("/dev/null", Duration::MAX).errno, libc::EINVAL);
    }
}
