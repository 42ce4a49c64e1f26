//! A contended word: waiting in the kernel and hand-over.

use super::{FREE, Ordering, Word, child, thread};
use crate::locks::futex::{Scope, futex};
use std::ptr;

/// Spins before the system call. Critical sections of this lock are shorter than a system call.
const LOOKS: u32 = 100;

/// Pause before the next attempt if the kernel does not support PI futexes, or has no memory for a waiter.
static NAP: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 50_000 };

impl Word {
    #[cold]
    pub(super) fn wait(&self) {
        if child::mend() && self.try_lock() {
            return;
        }
        for _ in 0..LOOKS {
            let value = self.0.load(Ordering::Relaxed);
            if value == FREE && self.try_lock() {
                return;
            }
            // Others wait in the kernel, which hands the word to the first of them. Or this thread holds it, which the kernel reports.
            if value & libc::FUTEX_WAITERS != 0 || value == thread::number() {
                break;
            }
            std::hint::spin_loop();
        }
        while !self.ask() {}
    }

    /// Waits in the kernel. False: try again.
    fn ask(&self) -> bool {
        match futex(&self.0, libc::FUTEX_LOCK_PI, Scope::Private, 0, None) {
            Ok(()) if self.0.load(Ordering::Acquire) & libc::FUTEX_OWNER_DIED != 0 => gone(),
            Ok(()) => true,
            Err(libc::ESRCH) => gone(),
            Err(libc::EDEADLK) => {
                end(b"millpond: a lock was wanted by the thread that holds it: no allocation in handlers of signals\n")
            }
            // The holder is just ending, or a signal interrupted the wait.
            Err(libc::EAGAIN | libc::EINTR) => false,
            // The kernel does not support PI futexes, has no memory for a waiter, or denies this program the call.
            Err(_) => {
                if !is_thread(self.0.load(Ordering::Relaxed) & libc::FUTEX_TID_MASK) {
                    gone();
                }
                // SAFETY: it reads a static.
                unsafe { libc::nanosleep(&raw const NAP, ptr::null_mut()) };
                self.try_lock()
            }
        }
    }

    /// Lets the kernel hand it to the first waiting thread.
    #[cold]
    pub(super) fn hand_over(&self) {
        if child::mend() {
            return self.unlock();
        }
        // The value does not change. It orders the critical section before the system call, for race detectors, too.
        self.0.fetch_or(0, Ordering::Release);
        if futex(&self.0, libc::FUTEX_UNLOCK_PI, Scope::Private, 0, None).is_err() {
            end(b"millpond: a lock was given back by a thread that does not hold it\n");
        }
    }
}

/// Whether this process has a thread of that ID. True for 0: the word is free by now.
fn is_thread(number: u32) -> bool {
    // SAFETY: no signal is sent. errno is thread-local.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let is_gone =
            libc::syscall(libc::SYS_tgkill, libc::getpid(), number, 0) != 0 && *errno == libc::ESRCH;
        *errno = before;
        number == FREE || !is_gone
    }
}

fn gone() -> ! {
    end(b"millpond: the holder of a lock is gone: a process that was forked without handlers must not allocate\n")
}

/// Ends the program: no caller could handle the error.
#[cold]
fn end(said: &[u8]) -> ! {
    // SAFETY: the text is read.
    unsafe { libc::write(libc::STDERR_FILENO, said.as_ptr().cast(), said.len()) };
    std::process::abort()
}
