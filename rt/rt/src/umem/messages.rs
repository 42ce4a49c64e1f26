//! Messages of the allocator: into a ring that other processes can read, and on request to standard error.
//!
//! A message may be written inside the program's `malloc`. So its text is formatted on the stack, without allocation.

use super::root;
use super::settings::{self, Ready};
use crate::locks::word::Word;
use millpond_rt_layout::MESSAGES;
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

pub(super) static LOCK: Word = Word::new();
/// Whether all messages go to standard error, too.
static VERBOSE: AtomicBool = AtomicBool::new(false);
/// Start time of the allocator, in nanoseconds of the monotonic clock.
static BEGAN: AtomicI64 = AtomicI64::new(0);

pub(super) fn begin(settings: &Ready) {
    let debug = settings.asked.debug;
    VERBOSE.store(debug.verbose || debug.all_verbose, Ordering::Relaxed);
    BEGAN.store(now(), Ordering::Relaxed);
}

/// Nanoseconds of the monotonic clock.
pub(super) fn now() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Writes a message: `say(format_args!(...))`.
pub(super) fn say(text: fmt::Arguments<'_>) {
    let _ = fmt::write(&mut Both, text);
}

struct Both;

impl fmt::Write for Both {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        add(text.as_bytes());
        if VERBOSE.load(Ordering::Relaxed) {
            to_stderr(text.as_bytes());
        }
        Ok(())
    }
}

pub(super) fn add(text: &[u8]) {
    let _held = LOCK.hold();
    // SAFETY: under the lock.
    unsafe {
        let root = root::root();
        for byte in text {
            (*root).messages[(*root).message_end % MESSAGES] = *byte;
            (*root).message_end += 1;
        }
        (*root).message_time = now().cast_unsigned();
    }
}

/// Prints the ring to standard error. If all messages go there, they were printed already.
pub(super) fn print() {
    let _held = LOCK.hold();
    // SAFETY: under the lock; no other thread writes to the ring.
    unsafe {
        let ring: *const [u8; MESSAGES] = &raw const (*root::root()).messages;
        let ring = &*ring;
        let end = (*root::root()).message_end;
        let (old, new) = (ring.get(end % MESSAGES..), ring.get(..end % MESSAGES));
        if end > MESSAGES {
            to_stderr(old.unwrap_or_default());
        }
        to_stderr(new.unwrap_or_default());
    }
}

/// A set-user-ID program must not reveal anything to its user, so it prints nothing.
fn to_stderr(mut text: &[u8]) {
    // SAFETY: the call has no effect.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return;
    }
    while !text.is_empty() {
        // A direct system call: `write` of the C library is a cancellation point.
        // SAFETY: the text is readable.
        let written =
            unsafe { libc::syscall(libc::SYS_write, libc::STDERR_FILENO, text.as_ptr(), text.len()) };
        let Ok(written @ 1..) = usize::try_from(written) else { return };
        text = text.get(written..).unwrap_or_default();
    }
}

/// Writes return addresses, one per line, as `library'function+0x12`.
pub(super) fn say_stack(frames: &[usize]) {
    for frame in frames {
        // SAFETY: an all-zero record is valid; the call fills it and keeps no pointer.
        unsafe {
            let mut found: libc::Dl_info = std::mem::zeroed();
            let known = libc::dladdr(ptr::with_exposed_provenance(*frame), &raw mut found) != 0;
            let file = if known { last_part(found.dli_fname) } else { "" };
            if known && !found.dli_sname.is_null() {
                let from = *frame - found.dli_saddr.addr();
                say(format_args!("{file}'{}+{from:#x}\n", text(found.dli_sname)));
            } else if known {
                say(format_args!("{file}'{:#x}\n", *frame - found.dli_fbase.addr()));
            } else {
                say(format_args!("{frame:#x}\n"));
            }
        }
    }
}

unsafe fn text(from: *const libc::c_char) -> &'static str {
    // SAFETY: a zero-terminated name of the dynamic linker, which lives as long as its library.
    unsafe { std::ffi::CStr::from_ptr(from) }.to_str().unwrap_or("?")
}

unsafe fn last_part(path: *const libc::c_char) -> &'static str {
    if path.is_null() {
        return "";
    }
    // SAFETY: as above.
    let path = unsafe { text(path) };
    path.rsplit('/').next().unwrap_or(path)
}

/// Ends the program after a fatal error.
#[cold]
pub(super) fn end() -> ! {
    if settings::get().asked.debug.no_signal {
        // SAFETY: it ends the program.
        unsafe { libc::_exit(255) }
    }
    std::process::abort()
}
