//! Stop requests: signals of a terminal or a service manager, as a flag.

use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Signals of a terminal (interrupt, hang-up) and of a service manager.
const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// A handler can only reach the program through a static.
static ASKED: AtomicBool = AtomicBool::new(false);

/// A daemon was asked to reload its configuration.
static HUNG_UP: AtomicBool = AtomicBool::new(false);

extern "C" fn go_on(_signal: libc::c_int) {}

/// Makes a write beyond the file size limit (`RLIMIT_FSIZE`) fail with `EFBIG`, which undoes its change. By default the signal kills the program in
/// the middle of a change. A handler is used instead of ignoring the signal, because ignored signals stay ignored across exec.
pub fn refuse_writes_past_the_limit() {
    handle(libc::SIGXFSZ, go_on);
}

extern "C" fn note_hang_up(_signal: libc::c_int) {
    HUNG_UP.store(true, Ordering::Relaxed);
}

extern "C" fn note(_signal: libc::c_int) {
    ASKED.store(true, Ordering::Relaxed);
}

/// Makes an interrupt, a termination and a hang-up set the returned flag and end a wait on the machine's clock, instead of ending
/// the program. The caller must check the flag, and undo its changes. An ignored signal (`nohup`) stays ignored.
pub fn stop_on_signal() -> &'static AtomicBool {
    for signal in SIGNALS {
        // SAFETY: an action of zeros is a valid one (the default, with an empty mask).
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: the signal exists; a null new action only reads; the old one is ours.
        let known = unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) } == 0;
        if !known || action.sa_sigaction == libc::SIG_IGN {
            continue;
        }
        handle(signal, note);
    }
    &ASKED
}

/// Installs one of this file's handlers, which only store to an atomic.
fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) {
    // SAFETY: an action of zeros is a valid one (the default, with an empty mask).
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    // Without SA_RESTART, so that a wait ends.
    action.sa_flags = 0;
    // SAFETY: the handler has the signature of a plain action, lives as long as the program, and only stores to an atomic, which is
    // async-signal-safe.
    let _ = unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
}

/// The same for a daemon. A hang-up means to reload its configuration ([`take_hang_up`]).
pub fn stop_daemon_on_signal() -> &'static AtomicBool {
    let asked = stop_on_signal();
    handle(libc::SIGHUP, note_hang_up);
    asked
}

/// Clears and returns the reload flag.
#[must_use]
pub fn take_hang_up() -> bool {
    HUNG_UP.swap(false, Ordering::Relaxed)
}

/// Whether a stop was requested since [`stop_on_signal`] and the flag was not cleared.
pub(crate) fn asked_to_stop() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Clears and returns the stop flag.
#[must_use]
pub fn take_stop() -> bool {
    ASKED.swap(false, Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_sets_the_flag_and_ends_nothing() {
        let asked = stop_on_signal();
        assert!(!asked.load(Ordering::Relaxed));
        // SAFETY: sends a signal to this thread; the handler is the one installed above.
        assert_eq!(unsafe { libc::raise(libc::SIGTERM) }, 0);
        assert!(asked.load(Ordering::Relaxed));
    }
}
