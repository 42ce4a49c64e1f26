//! Following threads by `ptrace`, as thin as it can be: what a thread that we follow tells us, and letting it go on.
//!
//! The kernel ties the followed threads to the thread that follows them: everything here must be called from one thread.

use std::io;
use std::time::Duration;

/// Children of this thread alone, and threads of theirs.
const WHOSE: libc::c_int = libc::__WALL | libc::__WNOTHREAD;

/// What a thread is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// It is no more.
    Gone,
    /// It stands still and started another one, whose number this is; whether with threads' or processes' call is told.
    Started { child: u32, forked: bool },
    /// It stands still, and is another program. It had this number before.
    Became { former: u32 },
    /// It stands still because it is new, or because it was asked to.
    Stands,
    /// It and its process were stopped by a signal, and should stay so.
    Halted,
    /// It stands still before it takes a signal.
    Signalled(i32),
}

fn number(tid: u32) -> libc::pid_t {
    libc::pid_t::try_from(tid).unwrap_or(0)
}

fn call(request: libc::c_uint, tid: u32, data: usize) -> io::Result<()> {
    // SAFETY: the requests made here take a number as their data and write to no memory of ours.
    let done = unsafe { libc::ptrace(request, number(tid), 0usize, data) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// What should be told of those who are followed.
pub(crate) fn options(forks: bool) -> usize {
    let always = libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACEEXEC;
    let forks = if forks { libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK } else { 0 };
    usize::try_from(always | forks).unwrap_or(0)
}

/// For a child that is about to become a program: its parent follows it, and it stands still when it is that program, which hears the signals that
/// we heard `before` we listened.
pub(crate) fn follow_me(before: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: the set is valid; only this thread's mask changes.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
    call(libc::PTRACE_TRACEME, 0, 0)
}

/// Follows a thread that runs, and goes on running.
pub(crate) fn seize(tid: u32, options: usize) -> io::Result<()> {
    call(libc::PTRACE_SEIZE, tid, options)
}

/// Chooses what should be told of a thread that stands still.
pub(crate) fn set_options(tid: u32, options: usize) -> io::Result<()> {
    call(libc::PTRACE_SETOPTIONS, tid, options)
}

/// Lets a thread go on, with a signal or with none (0).
pub(crate) fn go_on(tid: u32, signal: i32) -> io::Result<()> {
    call(libc::PTRACE_CONT, tid, usize::try_from(signal).unwrap_or(0))
}

/// Leaves a thread stopped as it is, and hears of it when it is let go on.
pub(crate) fn leave_halted(tid: u32) -> io::Result<()> {
    call(libc::PTRACE_LISTEN, tid, 0)
}

/// Asks a running thread to stand still.
pub(crate) fn interrupt(tid: u32) -> io::Result<()> {
    call(libc::PTRACE_INTERRUPT, tid, 0)
}

/// Follows a thread that stands still no longer, and lets it go on, with a signal or with none (0).
pub(crate) fn let_go(tid: u32, signal: i32) -> io::Result<()> {
    call(libc::PTRACE_DETACH, tid, usize::try_from(signal).unwrap_or(0))
}

/// A set of registers of a thread that stands still (`NT_PRSTATUS` and its like): how many of the words there are.
pub(crate) fn registers(tid: u32, set: libc::c_int, into: &mut [u64]) -> io::Result<usize> {
    let mut room = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: size_of_val(into) };
    let set = usize::try_from(set).unwrap_or(0);
    // SAFETY: the request writes at most `iov_len` bytes to `into`, which is borrowed for that, and how many to `room`.
    let done = unsafe { libc::ptrace(libc::PTRACE_GETREGSET, number(tid), set, &raw mut room) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(room.iov_len / size_of::<u64>()) }
}

/// The number that belongs to what a thread was told to be at.
fn message(tid: u32) -> u32 {
    let mut message: libc::c_ulong = 0;
    // SAFETY: the request writes one word to the place that it is given.
    let done = unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, number(tid), 0usize, &raw mut message) };
    if done < 0 { 0 } else { u32::try_from(message).unwrap_or(0) }
}

/// The next thing that is told by anybody who is followed (or by the one that is named), without waiting: its number and what it is at.
///
/// # Errors
/// `ECHILD` when nobody is followed.
pub(crate) fn hear(whom: Option<u32>) -> io::Result<Option<(u32, Told)>> {
    loop {
        let mut status = 0;
        // SAFETY: the status is ours, and the call only writes to it.
        let tid = unsafe { libc::waitpid(whom.map_or(-1, number), &raw mut status, WHOSE | libc::WNOHANG) };
        match tid {
            0 => return Ok(None),
            tid if tid > 0 => {
                let tid = u32::try_from(tid).unwrap_or(0);
                return Ok(Some((tid, meaning(tid, status))));
            }
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

fn meaning(tid: u32, status: libc::c_int) -> Told {
    if !libc::WIFSTOPPED(status) {
        return Told::Gone;
    }
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        libc::PTRACE_EVENT_CLONE => Told::Started { child: message(tid), forked: false },
        libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK => {
            Told::Started { child: message(tid), forked: true }
        }
        libc::PTRACE_EVENT_EXEC => Told::Became { former: message(tid) },
        libc::PTRACE_EVENT_STOP if signal == libc::SIGTRAP => Told::Stands,
        libc::PTRACE_EVENT_STOP => Told::Halted,
        0 => Told::Signalled(signal),
        _ => Told::Stands,
    }
}

/// Hearing of children without missing one: the signal that tells of them is kept waiting, in this thread, until somebody looks.
pub(crate) struct Ears {
    before: libc::sigset_t,
}

impl Ears {
    /// From now on.
    pub(crate) fn open() -> Ears {
        let (set, mut before) = (child(), empty());
        // SAFETY: both sets are ours and valid; only this thread's mask changes.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before) };
        Ears { before }
    }

    /// What was kept waiting before.
    pub(crate) fn before(&self) -> libc::sigset_t {
        self.before
    }

    /// Waits until a child may have something to tell, at most for so long. `false`: another signal came.
    pub(crate) fn wait(&self, most: Duration) -> bool {
        let most = libc::timespec {
            tv_sec: libc::time_t::try_from(most.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(most.subsec_nanos().cast_signed()),
        };
        let set = child();
        // SAFETY: the set and the time are ours and valid; nothing is asked about the signal.
        let signal = unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const most) };
        signal > 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EINTR)
    }
}

impl Drop for Ears {
    fn drop(&mut self) {
        // SAFETY: the set is the one that was there before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}

fn empty() -> libc::sigset_t {
    // SAFETY: a set is plain memory, which the next call fills in.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is ours.
    unsafe { libc::sigemptyset(&raw mut set) };
    set
}

/// The signal that tells of children.
fn child() -> libc::sigset_t {
    let mut set = empty();
    // SAFETY: the set is ours and the signal exists.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGCHLD) };
    set
}
