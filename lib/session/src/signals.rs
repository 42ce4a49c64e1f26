//! Signals as something that can be waited for together with other things: a handler writes each into a pipe.

use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What asks us to stop.
const STOPS: [libc::c_int; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// What is sent to programs beside.
const OTHERS: [libc::c_int; 7] = [
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGCONT,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGWINCH,
];

/// Marks a signal of the kernel in the byte that goes through the pipe; no signal has so high a number.
const OF_KERNEL: u8 = 0x80;

/// Where the handler writes to. A handler has no other way to reach the program than a static.
static PIPE: AtomicI32 = AtomicI32::new(-1);

extern "C" fn note(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: a handler that asked for it is given a siginfo.
    let is_of_kernel = unsafe { (*info).si_code } > 0;
    let byte = u8::try_from(signal).unwrap_or(0) | if is_of_kernel { OF_KERNEL } else { 0 };
    // SAFETY: the place of this thread's errno, which write may change under whoever was interrupted; write may be called in a handler, and
    // reads one byte of ours. A pipe that is full has enough to wake us.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(PIPE.load(Ordering::Relaxed), (&raw const byte).cast(), 1);
        *libc::__errno_location() = errno;
    }
}

/// A signal that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// A child has ended, or stopped.
    Child,
    /// The terminal sent it, and not to us alone.
    FromTerminal(i32),
    /// Somebody sent it to us.
    Sent(i32),
}

/// Whether a signal asks us to stop.
pub(crate) fn is_stop(signal: libc::c_int) -> bool {
    STOPS.contains(&signal)
}

/// One takes them at a time.
static TURN: Mutex<()> = Mutex::new(());

/// The signals of this process, as long as it lives: whoever wants them as well waits for that.
pub(crate) struct Signals {
    pipe: OwnedFd,
    /// Kept open: the handler knows only its number.
    _into: OwnedFd,
    /// What was done with them before.
    before: Vec<(libc::c_int, libc::sigaction)>,
    _turn: MutexGuard<'static, ()>,
}

impl Signals {
    /// From now on they come here. `all` takes those as well that programs use among themselves. One that is ignored (`nohup`) stays ignored.
    pub(crate) fn take(all: bool) -> io::Result<Signals> {
        // It guards nothing that could be left half done.
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let (pipe, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        PIPE.store(into.as_raw_fd(), Ordering::Relaxed);
        let others: &[libc::c_int] = if all { &OTHERS } else { &[] };
        let wanted = STOPS.iter().chain(others).filter(|signal| !is_ignored(**signal));
        // An ignored one would leave us without the status of children.
        let wanted = wanted.chain(&[libc::SIGCHLD]);
        let before = wanted.filter_map(|signal| Some((*signal, handle(*signal)?))).collect();
        Ok(Signals { pipe, _into: into, before, _turn: turn })
    }

    /// Those that came.
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
            // SAFETY: the action is the one that the signal had; the present one is not asked for.
            let _ = unsafe { libc::sigaction(*signal, action, ptr::null_mut()) };
        }
        // What comes from now on goes nowhere: the number may soon be another file's.
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

/// From now on a signal calls our handler. Gives what it did before.
fn handle(signal: libc::c_int) -> Option<libc::sigaction> {
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = note;
    // SAFETY: an action of zeros is a valid one (the default, with an empty mask).
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    let mut before = MaybeUninit::zeroed();
    // SAFETY: the handler has the signature of an action with SA_SIGINFO, lives as long as the program, and calls nothing but write; zeros are a
    // valid action if the call failed.
    let (done, before) =
        unsafe { (libc::sigaction(signal, &raw const action, before.as_mut_ptr()), before.assume_init()) };
    (done == 0).then_some(before)
}
