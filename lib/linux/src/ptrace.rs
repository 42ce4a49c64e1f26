//! Thin wrappers for `ptrace`: events of traced threads, and resuming them.
//!
//! The kernel ties traced threads to the tracing thread, so all functions must be called from the same thread.

use std::io;
use std::time::Duration;

/// Only children of this thread, and their threads.
const WHOSE: libc::c_int = libc::__WALL | libc::__WNOTHREAD;

/// An event of a traced thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TraceEvent {
    /// It has ended.
    Gone,
    /// It stopped after it started a thread (`clone`) or a process (`fork`, `vfork`) with this id.
    Started { child: u32, forked: bool },
    /// It stopped after `exec`. `former` is its previous id.
    Exec { former: u32 },
    /// It stopped because it is new, or because of an interrupt request.
    Stopped,
    /// A signal stopped its process (group-stop). It should stay stopped.
    GroupStop,
    /// It stopped before the delivery of this signal.
    Signalled(i32),
}

fn number(tid: u32) -> libc::pid_t {
    libc::pid_t::try_from(tid).unwrap_or(0)
}

fn call(request: libc::c_uint, tid: u32, data: usize) -> io::Result<()> {
    // SAFETY: these requests take a number as data and write to no memory of this process.
    let done = unsafe { libc::ptrace(request, number(tid), 0usize, data) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Options of `ptrace`: which events of traced threads are reported.
pub(crate) fn options(forks: bool) -> usize {
    let always = libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACEEXEC;
    let forks = if forks { libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK } else { 0 };
    usize::try_from(always | forks).unwrap_or(0)
}

/// For a child before `exec`: its parent traces it, and it stops after `exec`. Restores the signal mask `before`.
pub(crate) fn trace_me(before: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: the set is valid; only this thread's mask changes.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
    call(libc::PTRACE_TRACEME, 0, 0)
}

/// Traces a running thread, without stopping it.
pub(crate) fn seize(tid: u32, options: usize) -> io::Result<()> {
    call(libc::PTRACE_SEIZE, tid, options)
}

/// Sets the options of a stopped thread.
pub(crate) fn set_options(tid: u32, options: usize) -> io::Result<()> {
    call(libc::PTRACE_SETOPTIONS, tid, options)
}

/// Resumes a thread, with a signal or without (0).
pub(crate) fn resume(tid: u32, signal: i32) -> io::Result<()> {
    call(libc::PTRACE_CONT, tid, usize::try_from(signal).unwrap_or(0))
}

/// Leaves a thread in its group-stop. Its resumption is reported as an event.
pub(crate) fn listen(tid: u32) -> io::Result<()> {
    call(libc::PTRACE_LISTEN, tid, 0)
}

/// Stops a running thread.
pub(crate) fn interrupt(tid: u32) -> io::Result<()> {
    call(libc::PTRACE_INTERRUPT, tid, 0)
}

/// Stops tracing a stopped thread, which resumes with a signal or without (0).
pub(crate) fn detach(tid: u32, signal: i32) -> io::Result<()> {
    call(libc::PTRACE_DETACH, tid, usize::try_from(signal).unwrap_or(0))
}

/// Reads a register set of a stopped thread (`NT_PRSTATUS` etc.). Returns the number of words.
pub(crate) fn registers(tid: u32, set: libc::c_int, into: &mut [u64]) -> io::Result<usize> {
    let mut room = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: size_of_val(into) };
    let set = usize::try_from(set).unwrap_or(0);
    // SAFETY: the request writes at most `iov_len` bytes to `into`, which is borrowed mutably, and their number to `room`.
    let done = unsafe { libc::ptrace(libc::PTRACE_GETREGSET, number(tid), set, &raw mut room) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(room.iov_len / size_of::<u64>()) }
}

/// The number that accompanies an event.
fn message(tid: u32) -> u32 {
    let mut message: libc::c_ulong = 0;
    // SAFETY: the request writes one word to the given address.
    let done = unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, number(tid), 0usize, &raw mut message) };
    if done < 0 { 0 } else { u32::try_from(message).unwrap_or(0) }
}

/// The next event of any traced thread, or of `tid`, without waiting. Returns the thread and the event.
///
/// # Errors
/// `ECHILD` when no thread is traced.
pub(crate) fn wait_event(tid: Option<u32>) -> io::Result<Option<(u32, TraceEvent)>> {
    loop {
        let mut status = 0;
        // SAFETY: the status is ours, and the call only writes to it.
        let tid = unsafe { libc::waitpid(tid.map_or(-1, number), &raw mut status, WHOSE | libc::WNOHANG) };
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

fn meaning(tid: u32, status: libc::c_int) -> TraceEvent {
    if !libc::WIFSTOPPED(status) {
        return TraceEvent::Gone;
    }
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        libc::PTRACE_EVENT_CLONE => TraceEvent::Started { child: message(tid), forked: false },
        libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK => {
            TraceEvent::Started { child: message(tid), forked: true }
        }
        libc::PTRACE_EVENT_EXEC => TraceEvent::Exec { former: message(tid) },
        libc::PTRACE_EVENT_STOP if signal == libc::SIGTRAP => TraceEvent::Stopped,
        libc::PTRACE_EVENT_STOP => TraceEvent::GroupStop,
        0 => TraceEvent::Signalled(signal),
        _ => TraceEvent::Stopped,
    }
}

/// Blocks `SIGCHLD` in this thread, so that it stays pending until it is waited for, and no event is missed.
pub(crate) struct ChildSignals {
    before: libc::sigset_t,
}

impl ChildSignals {
    /// Blocks the signal.
    pub(crate) fn open() -> ChildSignals {
        let (set, mut before) = (child(), empty());
        // SAFETY: both sets are ours and valid; only this thread's mask changes.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before) };
        ChildSignals { before }
    }

    /// The previous signal mask.
    pub(crate) fn before(&self) -> libc::sigset_t {
        self.before
    }

    /// Waits for an event of a child, at most `most`. `false` if another signal arrived.
    pub(crate) fn wait(&self, most: Duration) -> bool {
        let most = libc::timespec {
            tv_sec: libc::time_t::try_from(most.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(most.subsec_nanos().cast_signed()),
        };
        let set = child();
        // SAFETY: the set and the time are ours and valid; no signal information is requested.
        let signal = unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const most) };
        signal > 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EINTR)
    }
}

impl Drop for ChildSignals {
    fn drop(&mut self) {
        // SAFETY: the set is the previous mask.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}

fn empty() -> libc::sigset_t {
    // SAFETY: a set is plain memory, which the next call initialises.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is ours.
    unsafe { libc::sigemptyset(&raw mut set) };
    set
}

/// The set with `SIGCHLD`.
fn child() -> libc::sigset_t {
    let mut set = empty();
    // SAFETY: the set is ours and the signal exists.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGCHLD) };
    set
}
