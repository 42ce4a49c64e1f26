//! Being asked to stop: the signals that a terminal or a service manager sends, as a flag.

use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a terminal sends when it is interrupted or closed, and what a service manager sends.
const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// A handler has no other way to reach the program than a static.
static ASKED: AtomicBool = AtomicBool::new(false);

/// A daemon was told to look at its configuration again.
static HUNG_UP: AtomicBool = AtomicBool::new(false);

extern "C" fn go_on(_signal: libc::c_int) {}

/// From now on a write past the limit of a file's size (`RLIMIT_FSIZE`) fails with `EFBIG`, which undoes the change that it belongs to. Otherwise
/// the signal for it ends the program in the middle of a change. A handler, as ignored signals stay ignored in programs that this one becomes.
pub fn refuse_writes_past_the_limit() {
    handle(libc::SIGXFSZ, go_on);
}

extern "C" fn note_hang_up(_signal: libc::c_int) {
    HUNG_UP.store(true, Ordering::Relaxed);
}

extern "C" fn note(_signal: libc::c_int) {
    ASKED.store(true, Ordering::Relaxed);
}

/// From now on an interrupt, a termination and a hang-up do not end the program, but set the flag that is returned and
/// end a wait on the machine's clock. Whoever calls this must look at the flag, and put back what it changed. A signal
/// that is ignored (`nohup`) stays ignored.
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

/// From now on a signal calls one of the handlers of this file, which do nothing but store to an atomic.
fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) {
    // SAFETY: an action of zeros is a valid one (the default, with an empty mask).
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    // Without SA_RESTART, so that a wait ends.
    action.sa_flags = 0;
    // SAFETY: the handler has the signature that a plain action calls, lives as long as the program, and does
    // nothing but store to an atomic, which is allowed in a handler.
    let _ = unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
}

/// The same for a daemon, for which a hang-up means to look at its configuration again ([`take_hang_up`]).
pub fn stop_daemon_on_signal() -> &'static AtomicBool {
    let asked = stop_on_signal();
    handle(libc::SIGHUP, note_hang_up);
    asked
}

/// Takes the flag back: whether a daemon was told to look at its configuration again.
#[must_use]
pub fn take_hang_up() -> bool {
    HUNG_UP.swap(false, Ordering::Relaxed)
}

/// Whether it was asked to stop since [`stop_on_signal`], and nobody took the flag back.
pub(crate) fn asked_to_stop() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Takes the flag back: whether it was asked to stop, once.
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
        // SAFETY: sends a signal to this thread, whose handler is the one installed above.
        assert_eq!(unsafe { libc::raise(libc::SIGTERM) }, 0);
        assert!(asked.load(Ordering::Relaxed));
    }
}
