//! Signals as input for poll: a handler writes each signal into a pipe.

use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Signals that request a stop.
const STOPS: [libc::c_int; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// Other signals that programs send to each other.
const OTHERS: [libc::c_int; 7] = [
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGCONT,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGWINCH,
];

/// Flag of a signal from the kernel, in the byte in the pipe. No signal has so high a number.
const OF_KERNEL: u8 = 0x80;

/// The handler's end of the pipe. A handler can only reach the program through a static.
static PIPE: AtomicI32 = AtomicI32::new(-1);

extern "C" fn note(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the handler gets a valid siginfo.
    let is_of_kernel = unsafe { (*info).si_code } > 0;
    let byte = u8::try_from(signal).unwrap_or(0) | if is_of_kernel { OF_KERNEL } else { 0 };
    // SAFETY: errno is this thread's; write may change it for the interrupted code, so it is restored. write is async-signal-safe, and
    // reads one byte of ours. A full pipe wakes the reader too.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(PIPE.load(Ordering::Relaxed), (&raw const byte).cast(), 1);
        *libc::__errno_location() = errno;
    }
}

/// A received signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// A child has ended, or stopped.
    Child,
    /// The terminal sent it, to the whole foreground group.
    FromTerminal(i32),
    /// A process sent it to this one.
    Sent(i32),
}

/// Whether a signal requests a stop.
pub(crate) fn is_stop(signal: libc::c_int) -> bool {
    STOPS.contains(&signal)
}

/// One owner at a time.
static TURN: Mutex<()> = Mutex::new(());

/// The signals of this process, while the value lives. A second owner waits.
pub(crate) struct Signals {
    pipe: OwnedFd,
    /// Kept open: the handler only knows its number.
    _into: OwnedFd,
    /// The earlier signal actions.
    before: Vec<(libc::c_int, libc::sigaction)>,
    _turn: MutexGuard<'static, ()>,
}

impl Signals {
    /// Starts receiving signals. With `all`, also those that programs send to each other. An ignored signal (`nohup`) stays ignored.
    pub(crate) fn take(all: bool) -> io::Result<Signals> {
        // The mutex protects no data.
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let (pipe, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        PIPE.store(into.as_raw_fd(), Ordering::Relaxed);
        let others: &[libc::c_int] = if all { &OTHERS } else { &[] };
        let wanted = STOPS.iter().chain(others).filter(|signal| !is_ignored(**signal));
        // If SIGCHLD were ignored, the status of children would be lost.
        let wanted = wanted.chain(&[libc::SIGCHLD]);
        let before = wanted.filter_map(|signal| Some((*signal, handle(*signal)?))).collect();
        Ok(Signals { pipe, _into: into, before, _turn: turn })
    }

    /// The received signals.
    pub(crate) fn taken(&mut self) -> Vec<Taken> {
        let mut bytes = [0; 64];
        let filled = rustix::io::read(&self.pipe, &mut bytes).unwrap_or(0);
        let one = |byte: &u8| match i32::from(byte & !OF_KERNEL) {
            libc::SIGCHLD => Taken::Child,
            signal if byte & OF_KERNEL != 0 => Taken::FromTerminal(signal),
            signal => Taken::Sent(signal),
        };
        bytes[..filled].iter().map(one).collect()
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for (signal, action) in &self.before {
            // SAFETY: the action is the signal's earlier one; the present one is not read.
            let _ = unsafe { libc::sigaction(*signal, action, ptr::null_mut()) };
        }
        // Later signals are dropped: the file descriptor's number may soon belong to another file.
        PIPE.store(-1, Ordering::Relaxed);
    }
}

fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: an action of zeros is a valid one (the default, with an empty mask).
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: the signal exists; a null new action only reads; the old one is ours.
    let known = unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) } == 0;
    known && action.sa_sigaction == libc::SIG_IGN
}

/// Installs the handler for a signal. Returns the earlier action.
fn handle(signal: libc::c_int) -> Option<libc::sigaction> {
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = note;
    // SAFETY: an action of zeros is a valid one (the default, with an empty mask).
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    let mut before = MaybeUninit::zeroed();
    // SAFETY: the handler has the signature for SA_SIGINFO, lives as long as the program, and calls nothing but write. Zeros are a
    // valid action if the call failed.
    let (done, before) =
        unsafe { (libc::sigaction(signal, &raw const action, before.as_mut_ptr()), before.assume_init()) };
    (done == 0).then_some(before)
}
