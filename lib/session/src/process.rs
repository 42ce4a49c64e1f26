//! This process: its pid and CPU time, and executing another program in its place.

use crate::output::reason;
use millpond_model::{Nanos, Pid};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, pidfd_open};
use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The pid of this process.
#[must_use]
pub fn own_pid() -> Pid {
    Pid(std::process::id())
}

/// The CPU time of all threads of this process.
#[must_use]
pub fn own_cpu_time() -> Nanos {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let [seconds, nanos] = [time.tv_sec, time.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
    Nanos::from_secs(seconds) + Nanos(nanos)
}

/// The path of the running program, to start another instance of it.
///
/// # Errors
/// The system's reason, in words.
pub fn own_program() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| reason(&error))
}

/// The file of a program on the search path; `None` if it does not exist.
#[must_use]
pub fn program_on_path(name: &str) -> Option<PathBuf> {
    let dirs = std::env::var_os("PATH")?;
    std::env::split_paths(&dirs).map(|dir| dir.join(name)).find(|path| path.is_file())
}

/// `PR_SET_THP_DISABLE` of prctl(2), and `MPOL_LOCAL` of set_mempolicy(2). libc does not define them for every C library.
const NO_HUGE_PAGES: libc::c_int = 41;
const LOCAL: libc::c_int = 4;

/// Disables transparent huge pages for this process and its later children.
///
/// # Errors
/// The system's reason, in words: a kernel can be built without huge pages.
pub fn without_huge_pages() -> Result<(), String> {
    // SAFETY: the call only takes numbers.
    done(unsafe { libc::prctl(NO_HUGE_PAGES, 1, 0, 0, 0) }.into())
}

/// Sets the memory policy of this process and its later children to local allocation. The kernel's automatic NUMA balancing
/// does not move pages with an explicit policy.
///
/// # Errors
/// The system's reason, in words: a kernel can be built without NUMA.
pub fn without_numa_balancing() -> Result<(), String> {
    // SAFETY: a policy without nodes reads no memory.
    done(unsafe { libc::syscall(libc::SYS_set_mempolicy, LOCAL, std::ptr::null::<libc::c_ulong>(), 0_usize) })
}

fn done(result: libc::c_long) -> Result<(), String> {
    if result == 0 { Ok(()) } else { Err(reason(&io::Error::last_os_error())) }
}

/// Executes another program in this process, with the same bindings and additional environment variables. Returns only on failure.
///
/// # Errors
/// The system's reason, in words.
pub fn exec(
    program: &OsString,
    arguments: &[OsString],
    environment: &[(&str, OsString)],
) -> Result<Infallible, String> {
    let environment = environment.iter().map(|(name, value)| (name, value));
    Err(reason(&Command::new(program).args(arguments).envs(environment).exec()))
}

/// Starts this program with these arguments as a detached process, in a session of its own and without a parent here: it gets none of this process's
/// signals, and outlives it. Its output is discarded.
///
/// # Errors
/// The system's reason, in words.
pub fn leave_behind(arguments: &[String]) -> Result<(), String> {
    let mut command = Command::new(own_program()?);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let leave = || {
        rustix::process::setsid()?;
        // SAFETY: the process has one thread here, and the code that follows is safe in a forked child.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => Ok(()),
            // SAFETY: it ends this process at once.
            _ => unsafe { libc::_exit(0) },
        }
    };
    // SAFETY: `leave` only makes system calls, and allocates nothing.
    unsafe { command.pre_exec(leave) };
    let ended = command.spawn().and_then(|mut first| first.wait());
    ended.map(drop).map_err(|error| reason(&error))
}

/// Waits until a process has ended, also if it never existed. Calls `meanwhile` once a second.
///
/// # Errors
/// The system's reason, in words.
pub fn wait_for_end(pid: Pid, mut meanwhile: impl FnMut()) -> Result<(), String> {
    const SECOND: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
    let said = |error: Errno| reason(&error.into());
    let number = i32::try_from(pid.0).ok().and_then(rustix::process::Pid::from_raw);
    let Some(number) = number else { return Ok(()) };
    let process = match pidfd_open(number, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(Errno::SRCH) => return Ok(()),
        Err(error) => return Err(said(error)),
    };
    loop {
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&SECOND)) {
            Ok(0) => meanwhile(),
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(said(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_exist_is_told_in_words() {
        let said = exec(&"/nonexistent/program".into(), &[], &[]).unwrap_err();
        assert_eq!(said, "No such file or directory");
    }

    #[test]
    fn an_end_is_waited_for() {
        let mut child = Command::new("sleep").arg("0.05").spawn().unwrap();
        wait_for_end(Pid(child.id()), || {}).unwrap();
        assert!(child.try_wait().unwrap().is_some_and(|status| status.success()));
        wait_for_end(Pid(0), || {}).unwrap();
        wait_for_end(Pid(u32::MAX), || {}).unwrap();
    }

    #[test]
    fn a_program_is_found_where_shells_find_it() {
        assert!(program_on_path("sh").is_some_and(|path| path.ends_with("sh")));
        assert_eq!(program_on_path("no-such-program-at-all"), None);
    }
}
