//! What happens when two want a word at once.

use super::{FREE, Ordering, Word, child, thread};
use crate::locks::futex::{Scope, futex};
use std::ptr;

/// How often the word is looked at before the kernel is asked: sections under it are shorter than a system call.
const LOOKS: u32 = 100;

/// Before the word is asked for again where the kernel has no such futexes, or no memory to wait with.
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
            // Others wait in the kernel, which gives it to the first of them; or it is ours, which the kernel will say.
            if value & libc::FUTEX_WAITERS != 0 || value == thread::number() {
                break;
            }
            std::hint::spin_loop();
        }
        while !self.ask() {}
    }

    /// Waits in the kernel. False: it is to be asked again.
    fn ask(&self) -> bool {
        match futex(&self.0, libc::FUTEX_LOCK_PI, Scope::Private, 0, None) {
            Ok(()) if self.0.load(Ordering::Acquire) & libc::FUTEX_OWNER_DIED != 0 => gone(),
            Ok(()) => true,
            Err(libc::ESRCH) => gone(),
            Err(libc::EDEADLK) => {
                end(b"millpond: a lock was wanted by the thread that holds it: no allocation in handlers of signals\n")
            }
            // The holder is just ending, or a signal came.
            Err(libc::EAGAIN | libc::EINTR) => false,
            // The kernel has no such futexes, has no memory to wait with, or does not let this program use them.
            Err(_) => {
                if !is_thread(self.0.load(Ordering::Relaxed) & libc::FUTEX_TID_MASK) {
                    gone();
                }
                // SAFETY: it reads ours.
                unsafe { libc::nanosleep(&raw const NAP, ptr::null_mut()) };
                self.try_lock()
            }
        }
    }

    /// Lets the kernel give it to the first waiting thread.
    #[cold]
    pub(super) fn hand_over(&self) {
        if child::mend() {
            return self.unlock();
        }
        // Nothing changes: what was done under the word is done before the kernel is asked, for tools that watch the order, too.
        self.0.fetch_or(0, Ordering::Release);
        if futex(&self.0, libc::FUTEX_UNLOCK_PI, Scope::Private, 0, None).is_err() {
            end(b"millpond: a lock was given back by a thread that does not hold it\n");
        }
    }
}

/// Whether this process has a thread of that number. 0 is the number of a word that is free by now.
fn is_thread(number: u32) -> bool {
    // SAFETY: no signal is sent. errno is this thread's own.
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

/// Ends the program: there is nothing that a caller could do.
#[cold]
fn end(said: &[u8]) -> ! {
    // SAFETY: the text is read.
    unsafe { libc::write(libc::STDERR_FILENO, said.as_ptr().cast(), said.len()) };
    std::process::abort()
}
